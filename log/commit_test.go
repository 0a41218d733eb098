package log

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/rowtrail/rowtrail/log/record"
)

// stagedEntries stages n batches of a size and returns them as the next entries.
func stagedEntries(t testing.TB, p *Partition, n, size int) []Entry {
	t.Helper()
	es := make([]Entry, n)
	for i := range es {
		b := batchOf(size, int64(i))
		if _, err := p.Stage(1, b, time.Now()); err != nil {
			t.Fatal(err)
		}
		es[i] = Entry{Index: p.LastIndex() + 1 + uint64(i), Term: 1, Data: b}
	}
	return es
}

// TestCommitBounds: at the documented bounds a Commit is one sync, above them it still succeeds.
func TestCommitBounds(t *testing.T) {
	s := mustOpen(t, t.TempDir(), Options{})
	defer s.Close()
	s.keeper.stop() // it commits too
	p := mustPartition(t, s, 1)
	groups := make([]Mutation, 0, 1000)
	for id := range GroupID(999) {
		groups = append(groups, Mutation{Group: id + 2, HardState: &HardState{Term: 1 << 40, Vote: 1 << 40, Commit: 1 << 40}})
	}
	// Just under the value threshold is the most expensive entry for a transaction.
	for _, c := range []struct {
		name       string
		n, size    int
		hardStates bool
		syncs      int64
	}{
		{"most entries", MaxCommitEntries, valueThreshold - 1, true, 1},
		{"most bytes", MaxCommitBytes / (1 << 20), 1 << 20, false, 1},
		{"largest batch", 1, MaxBatchBytes, false, 1},
		{"four times the entries", 4 * MaxCommitEntries, valueThreshold - 1, false, 4},
		{"four times the bytes", 4 * MaxCommitBytes / (1 << 20), 1 << 20, false, 4},
	} {
		before := s.Stats().Syncs
		es := stagedEntries(t, p, c.n, c.size)
		ms := []Mutation{{Group: 1, Entries: es}}
		if c.hardStates {
			ms = append(ms, groups...)
		}
		if err := s.Commit(ms); err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		p.Apply(es)
		if got := s.Stats().Syncs - before; got != c.syncs {
			t.Errorf("%s: %d syncs, expected %d", c.name, got, c.syncs)
		}
	}
}

func TestCommitRefusesHoles(t *testing.T) {
	s := mustOpen(t, t.TempDir(), Options{})
	defer s.Close()
	p := mustPartition(t, s, 1)
	es := stagedEntries(t, p, 3, 100)
	for name, m := range map[string]Mutation{
		"does not follow": {Group: 1, Entries: es[1:]},
		"expected 0":      {Group: 1, Entries: []Entry{{Index: 1, Term: 1, Data: es[2].Data}}},
		"corrupt":         {Group: 1, Entries: []Entry{{Index: 1, Term: 1, Data: []byte("junk")}}},
	} {
		if err := s.Commit([]Mutation{m}); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if p.LastIndex() != 0 {
		t.Fatalf("last index %d after refused commits", p.LastIndex())
	}
	if err := s.Commit([]Mutation{{Group: 1, Entries: es}}); err != nil {
		t.Fatal(err)
	}
	p.Apply(es)
	if err := s.Commit([]Mutation{{Group: 1, TruncateFrom: 2}}); err == nil || !strings.Contains(err.Error(), "committed") {
		t.Errorf("truncation of committed entries: %v", err)
	}
}

// TestCommitChainsMutations: one Commit may carry several turns of a group, also a truncation of what it brought itself.
func TestCommitChainsMutations(t *testing.T) {
	dir := t.TempDir()
	s := mustOpen(t, dir, Options{})
	p := mustPartition(t, s, 1)
	es := stagedEntries(t, p, 4, 100)
	won := batchOf(200, 5)
	record.Stamp(won, 2, 2)
	last := Entry{Index: 3, Term: 2, Data: won}
	err := s.Commit([]Mutation{
		{Group: 1, Entries: es[:2], HardState: &HardState{Term: 1, Vote: 1}},
		{Group: 1, Entries: es[2:]},
		{Group: 1, TruncateFrom: 3, Entries: []Entry{last}, HardState: &HardState{Term: 2}},
	})
	if err != nil {
		t.Fatal(err)
	}
	check := func() {
		t.Helper()
		got, err := p.Entries(1, 4, 1<<20)
		if err != nil || len(got) != 3 || string(got[2].Data) != string(won) || got[2].Term != 2 || p.LastIndex() != 3 {
			t.Fatalf("%d entries up to %d, %v", len(got), p.LastIndex(), err)
		}
		if term, err := p.Term(3); err != nil || term != 2 || p.HardState().Term != 2 {
			t.Fatalf("term %d, hard state %+v, %v", term, p.HardState(), err)
		}
	}
	check()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = mustOpen(t, dir, Options{})
	defer s.Close()
	p = mustPartition(t, s, 1)
	check()
}

func TestEntriesAreBounded(t *testing.T) {
	s := mustOpen(t, t.TempDir(), Options{})
	defer s.Close()
	p := mustPartition(t, s, 1)
	es := stagedEntries(t, p, 10, 1000)
	if err := s.Commit([]Mutation{{Group: 1, Entries: es}}); err != nil {
		t.Fatal(err)
	}
	for _, cold := range []bool{false, true} {
		if cold {
			p.mu.Lock()
			p.recent.truncate(0)
			p.mu.Unlock()
		}
		for maxBytes, want := range map[uint64]int{0: 1, 1: 1, 2100: 2, 1 << 20: 9} {
			if got, err := p.Entries(2, 11, maxBytes); err != nil || len(got) != want || got[0].Index != 2 {
				t.Errorf("cold %v, %d bytes: %d entries, %v", cold, maxBytes, len(got), err)
			}
		}
	}
	if _, err := p.Entries(5, 12, 1); !errors.Is(err, ErrUnavailable) {
		t.Error(err)
	}
	if _, err := p.Entries(0, 2, 1); !errors.Is(err, ErrCompacted) {
		t.Error(err)
	}
}

// TestFailedSyncStopsTheStore: Badger acknowledges a write whose value-log sync failed; the store must not.
func TestFailedSyncStopsTheStore(t *testing.T) {
	var fatal []error
	s := mustOpen(t, t.TempDir(), Options{OnFatal: func(err error) { fatal = append(fatal, err) }})
	p := mustPartition(t, s, 1)
	es := stagedEntries(t, p, 1, 5000)
	l := &badgerLogger{log: s.log, fatal: s.fatal}
	l.Errorf("Error while curlf sync: %v\n", errors.New("input/output error"))
	l.Errorf("Error while curlf sync: %v\n", errors.New("input/output error"))
	if err := s.Commit([]Mutation{{Group: 1, Entries: es}}); err == nil || !strings.Contains(err.Error(), "input/output") {
		t.Errorf("commit after a failed sync: %v", err)
	}
	if len(fatal) != 1 {
		t.Errorf("told %d times", len(fatal))
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.Commit(nil); !errors.Is(err, ErrClosed) {
		t.Errorf("commit after close: %v", err)
	}
}

func TestDrop(t *testing.T) {
	dir := t.TempDir()
	s := mustOpen(t, dir, Options{})
	keep, gone := mustPartition(t, s, 1), mustPartition(t, s, 2)
	for range 3 {
		appendAll(t, s, gone, batchOf(100, 1), batchOf(5000, 2))
		appendAll(t, s, keep, batchOf(100, 1))
	}
	changed := gone.Changed()
	s.Drop(2)
	select {
	case <-changed:
	default:
		t.Error("waiters are not woken")
	}
	if _, err := gone.Read(0, 1, true, ReadUncommitted); !errors.Is(err, ErrClosed) {
		t.Errorf("read: %v", err)
	}
	if _, err := s.Partition(2); !errors.Is(err, ErrClosed) {
		t.Errorf("open: %v", err)
	}
	// The log writer may still have something for it.
	if err := s.Commit([]Mutation{{Group: 2, HardState: &HardState{Term: 9}}}); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil { // before all is deleted
		t.Fatal(err)
	}
	s = mustOpen(t, dir, Options{})
	if got := s.Groups(); len(got) != 1 || got[0] != 1 {
		t.Errorf("groups %v", got)
	}
	for range 3 {
		if err := s.Commit(nil); err != nil {
			t.Fatal(err)
		}
	}
	if s.hasRiders() {
		t.Error("the drop does not end")
	}
	n := 0
	if err := s.logBytes(2, func(int64) { n++ }); err != nil || n != 0 {
		t.Errorf("%d entries are left, %v", n, err)
	}
	if got := mustPartition(t, s, 1).LastIndex(); got != 3 {
		t.Errorf("the other group has %d entries", got)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}
