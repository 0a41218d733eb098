package log

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/rowtrail/rowtrail/log/record"
)

// refold makes the index of group 1 hold what the log says, less the keys that lose names.
func refold(t *testing.T, s *Store, p *Partition, end int64, lose string) {
	t.Helper()
	k := s.cleaner
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.openIndex(); err != nil {
		t.Fatal(err)
	}
	if err := k.index.Drop(1); err != nil {
		t.Fatal(err)
	}
	fold := k.index.NewFold(1)
	eachCommitted(t, p, 0, func(_ *record.Header, r *record.Record) {
		if r.Offset >= end || string(r.Key) == lose {
			return
		}
		if err := fold.Put(r.Key, r.Offset); err != nil {
			t.Fatal(err)
		}
	})
	if err := fold.Commit(end); err != nil {
		t.Fatal(err)
	}
}

// TestIndexThatForgetsForAWhile: the index has no entry of a key in one round, so an old record of it stays beside its tombstone, and
// has it again in the next, where the tombstone goes. The old record goes with it: it must not come back to life.
func TestIndexThatForgetsForAWhile(t *testing.T) {
	var now atomic.Int64
	now.Store(1000)
	s := mustOpen(t, t.TempDir(), manual(&now))
	defer func() { _ = s.Close() }()
	p := mustPartition(t, s, 1)
	p.SetConfig(compacting()) // delete.retention.ms is 1000
	appendAll(t, s, p, keyed(1, 300, "k", "a"), keyed(1, 300, "b"), keyed(1, 300, "c"))
	if err := s.Compact(1); err != nil {
		t.Fatal(err)
	}
	appendAll(t, s, p, keyed(2, 0, "k"), keyed(2, 300, "d"), keyed(2, 300, "e"))
	refold(t, s, p, 6, "k")
	if err := s.Compact(1); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(offsetsOf(t, p)); got != "[0 1 2 3 4 5 6]" {
		t.Fatalf("without an entry %s are left", got)
	}
	refold(t, s, p, 6, "")
	now.Store(5000)
	appendAll(t, s, p, keyed(3, 300, "f"), keyed(3, 300, "g"))
	if err := s.Compact(1); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(offsetsOf(t, p)); got != "[1 2 3 5 6 7 8]" {
		t.Errorf("%s are left: neither the deleted record at 0 nor its tombstone at 4 belong there", got)
	}
}

// TestRebuiltIndexMendsRuns: what stayed because the index had lost its key goes in the next round, for which the index is built again.
func TestRebuiltIndexMendsRuns(t *testing.T) {
	s := mustOpen(t, t.TempDir(), manual(nil))
	defer func() { _ = s.Close() }()
	p := mustPartition(t, s, 1)
	p.SetConfig(compacting())
	appendAll(t, s, p, keyed(1, 300, "k", "a"), keyed(1, 300, "b"), keyed(1, 300, "c"))
	if err := s.Compact(1); err != nil {
		t.Fatal(err)
	}
	appendAll(t, s, p, keyed(2, 300, "k"), keyed(2, 300, "d"), keyed(2, 300, "e"))
	refold(t, s, p, 6, "k")
	if err := s.Compact(1); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(offsetsOf(t, p)); got != "[0 1 2 3 4 5 6]" {
		t.Fatalf("without an entry %s are left", got)
	}
	if err := s.Compact(1); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(offsetsOf(t, p)); got != "[1 2 3 4 5 6]" {
		t.Errorf("%s are left", got)
	}
}

// TestIndexIsAskedLittle: in a round after the first the index is asked about what was written again, not about all that is there.
func TestIndexIsAskedLittle(t *testing.T) {
	s := mustOpen(t, t.TempDir(), manual(nil))
	defer func() { _ = s.Close() }()
	p := mustPartition(t, s, 1)
	p.SetConfig(compacting())
	const keys = 5000
	for from := 0; from < keys; from += 500 {
		var names []string
		for i := range 500 {
			names = append(names, fmt.Sprint("key-", from+i))
		}
		appendAll(t, s, p, keyed(1, 20, names...))
	}
	appendAll(t, s, p, keyed(2, 20, "last"))
	if err := s.Compact(1); err != nil {
		t.Fatal(err)
	}
	appendAll(t, s, p, keyed(3, 20, "key-7", "key-8", "key-7"), keyed(3, 20, "key-9"), keyed(3, 20, "end"))
	r := round{s: s, p: p, index: s.cleaner.index, rest: s.cleaner.rest, now: s.cleaner.opts.Now()}
	asked := 0
	if err := r.begin(); err != nil {
		t.Fatal(err)
	}
	latest := r.v.latest
	r.v.latest = func(key []byte) (int64, bool, error) {
		asked++
		return latest(key)
	}
	defer r.abandon()
	for _, step := range []func() error{r.foldKeys, r.goOver, r.swap} {
		if err := step(); err != nil {
			t.Fatal(err)
		}
	}
	if r.v.records != 4 || asked < 3 || asked > 20 {
		t.Errorf("%d records went, and the index was asked %d times of %d keys", r.v.records, asked, keys)
	}
}

// TestKeysOfDroppedGroups: keys whose deletion fails are deleted later, and so are those of groups that are no more.
func TestKeysOfDroppedGroups(t *testing.T) {
	dir := t.TempDir()
	opts := manual(nil)
	var said strings.Builder
	opts.Logger = slog.New(slog.NewTextHandler(&said, nil))
	s := mustOpen(t, dir, opts)
	defer func() { _ = s.Close() }()
	p := mustPartition(t, s, 1)
	p.SetConfig(compacting())
	appendAll(t, s, p, keyed(1, 300, "a"), keyed(2, 300, "a"), keyed(3, 300, "b"))
	if err := s.Compact(1); err != nil {
		t.Fatal(err)
	}
	k := s.cleaner
	groups := func() string {
		k.mu.Lock()
		defer k.mu.Unlock()
		if err := k.openIndex(); err != nil {
			t.Fatal(err)
		}
		got, err := k.index.Groups()
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprint(got)
	}
	k.mu.Lock()
	if err := k.index.Close(); err != nil {
		t.Fatal(err)
	}
	k.mu.Unlock()
	s.Drop(1)
	k.dropKeys() // it fails, as the index is closed
	k.dropKeys()
	k.mu.Lock()
	k.index = nil
	k.mu.Unlock()
	if got := groups(); got != "[1]" {
		t.Fatalf("groups %s", got)
	}
	k.dropKeys()
	if got := groups(); got != "[]" {
		t.Errorf("groups %s are left", got)
	}
	if got := strings.Count(said.String(), "keys of a deleted partition"); got != 1 {
		t.Errorf("said %d times:\n%s", got, &said)
	}
	// As after a crash that took the last steps of a drop.
	k.mu.Lock()
	fold := k.index.NewFold(99)
	if err := errors.Join(fold.Put([]byte("x"), 0), fold.Commit(1), k.index.Close()); err != nil {
		t.Fatal(err)
	}
	k.index = nil
	k.mu.Unlock()
	if got := groups(); got != "[99]" {
		t.Fatalf("groups %s", got)
	}
	k.dropKeys()
	if got := groups(); got != "[]" {
		t.Errorf("groups %s are left of a group that is no more", got)
	}
}

// TestNoFoldOnAFullDisk: where compaction has no room the key index is not written either.
func TestNoFoldOnAFullDisk(t *testing.T) {
	s := mustOpen(t, t.TempDir(), manual(nil))
	defer func() { _ = s.Close() }()
	s.keeper.stop() // nobody else looks at the disk
	p := mustPartition(t, s, 1)
	p.SetConfig(compacting())
	appendAll(t, s, p, keyed(1, 300, "a"), keyed(2, 300, "a"), keyed(3, 300, "b"))
	space := func(n int64) {
		s.commitMu.Lock()
		s.space.statfs = func(string) (int64, error) { return n, nil }
		_ = s.checkSpace()
		s.commitMu.Unlock()
	}
	half := s.space.minFree / compactionShare
	space(half - 1)
	if err := s.Compact(1); !errors.Is(err, ErrDiskFull) || s.cleaner.index != nil {
		t.Fatalf("a round below the bound: %v", err)
	}
	space(half + 100) // enough to begin, too little for the fold
	if err := s.Compact(1); !errors.Is(err, ErrDiskFull) {
		t.Fatalf("a fold below the bound: %v", err)
	}
	if folded, err := s.cleaner.index.Folded(1); err != nil || folded != 0 {
		t.Errorf("folded up to %d, %v", folded, err)
	}
	space(1 << 40)
	if err := s.Compact(1); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(offsetsOf(t, p)); got != "[1 2]" {
		t.Errorf("%s are left", got)
	}
}
