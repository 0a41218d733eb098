package log

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rowtrail/rowtrail/log/record"
)

func TestWatermark(t *testing.T) {
	free := int64(1000)
	w := newWatermark("/data", 800)
	w.statfs = func(string) (int64, error) { return free, nil }
	for _, c := range []struct {
		free              int64
		changed, writable bool
	}{{1000, true, true}, {900, false, true}, {799, true, false}, {100, false, false}, {800, true, true}} {
		free = c.free
		changed, err := w.check()
		if err != nil || changed != c.changed || (w.err() == nil) != c.writable {
			t.Fatalf("%+v: changed %v, %v, %v", c, changed, err, w.err())
		}
		if w.err() != nil && !errors.Is(w.err(), ErrDiskFull) {
			t.Fatal(w.err())
		}
	}
	if !w.room(700) || w.room(701) {
		t.Fatal("the floor is an eighth of the watermark")
	}
	if w.grew(700); w.room(1) {
		t.Fatal("what was written since the look is not counted")
	}
}

// TestWhoElseFillsTheDiskIsSeenAtOnce: what is written through a memory map where nothing is left ends the process, and whoever took the space took it
// since the commit before.
func TestWhoElseFillsTheDiskIsSeenAtOnce(t *testing.T) {
	s := mustOpen(t, t.TempDir(), Options{})
	p := mustPartition(t, s, 1)
	var free atomic.Int64
	free.Store(1 << 30)
	s.commitMu.Lock()
	s.space.statfs = func(string) (int64, error) { return free.Load(), nil }
	s.commitMu.Unlock()
	appendAll(t, s, p, batchOf(300, 1))
	free.Store(0)
	meta := []Entry{{Index: p.LastIndex() + 1, Term: 1, Type: EntryMeta}}
	if err := s.Commit([]Mutation{{Group: 1, Entries: meta}}); !errors.Is(err, ErrDiskFull) {
		t.Errorf("a commit on a full disk: %v", err)
	}
	if err := s.compactionRoom(1); !errors.Is(err, ErrDiskFull) {
		t.Errorf("compaction on a full disk: %v", err)
	}
	free.Store(1 << 30)
	if err := s.Commit([]Mutation{{Group: 1, Entries: meta}}); err != nil {
		t.Error(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestDiskFull fills a small file system: appends stop with ErrDiskFull before the disk is full, reads go on, retention
// frees space, and appends resume by themselves.
func TestDiskFull(t *testing.T) {
	const diskMiB, minFree, size = 192, 64 << 20, 256 << 10
	dir := filepath.Join(t.TempDir(), "disk")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	mounted := exec.Command("mount", "-t", "tmpfs", "-o", "size=192m", "tmpfs", dir).Run() == nil
	simulated := int64(diskMiB << 20)
	if mounted {
		t.Cleanup(func() { _ = exec.Command("umount", "-l", dir).Run() })
	} else {
		t.Log("tmpfs cannot be mounted here: the free space is computed from what the directory occupies")
	}
	s := mustOpen(t, dir, Options{MinFreeBytes: minFree})
	if !mounted {
		s.commitMu.Lock()
		s.space.statfs = func(string) (int64, error) {
			used, _ := diskUse(t, dir)
			return simulated - used, nil
		}
		s.commitMu.Unlock()
	}
	p := mustPartition(t, s, 1)
	template := batchOf(size, 1)
	appendOne := func() error { return tryAppend(s, p, slices.Clone(template)) }
	var err error
	n := 0
	for ; err == nil && n < 4*diskMiB; n++ {
		err = appendOne()
	}
	if !errors.Is(err, ErrDiskFull) {
		t.Fatalf("after %d batches: %v", n, err)
	}
	full := p.Marks()
	if got := readAll(t, p, 0, 1<<20, ReadUncommitted); len(got) != int(full.HighWatermark)*len(template) {
		t.Fatalf("%d bytes are readable", len(got))
	}
	// What ends a transaction, and Raft's own entries, still go in.
	meta := []Entry{{Index: p.LastIndex() + 1, Term: 1, Type: EntryMeta}}
	if err := s.Commit([]Mutation{{Group: 1, Entries: meta, HardState: &HardState{Term: 1}}}); err != nil {
		t.Fatal(err)
	}
	p.Apply(meta)
	p.SetConfig(Config{RetentionBytes: 16 << 20})
	retain(t, s, p, time.Now())
	appendsResume(t, s, appendOne)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = mustOpen(t, dir, Options{MinFreeBytes: minFree})
	p = mustPartition(t, s, 1)
	replay(p)
	if got := p.Marks().HighWatermark; got != full.HighWatermark+1 {
		t.Fatalf("high watermark %d, expected %d", got, full.HighWatermark+1)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// appendsResume appends once, as soon as there is space for it.
func appendsResume(t *testing.T, s *Store, appendOne func() error) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		err := appendOne()
		if err == nil {
			return
		}
		if !errors.Is(err, ErrDiskFull) {
			t.Fatal(err)
		}
		if time.Now().After(deadline) {
			t.Fatalf("no space came back: %+v", s.Stats())
		}
	}
}

// TestCompactionEmptiesAFullDisk fills the disk with versions of a few keys: compaction goes on below the watermark, where it is
// what gives space back, and appends resume by themselves.
func TestCompactionEmptiesAFullDisk(t *testing.T) {
	const disk, minFree = 192 << 20, 64 << 20
	dir := t.TempDir()
	s := mustOpen(t, dir, Options{MinFreeBytes: minFree, Compaction: CompactionOptions{Interval: -1, CPUShare: 1, BytesPerSecond: 1 << 40}})
	s.commitMu.Lock()
	s.space.statfs = func(string) (int64, error) {
		used, _ := diskUse(t, dir)
		return disk - used, nil
	}
	s.commitMu.Unlock()
	p := mustPartition(t, s, 1)
	p.SetConfig(compacting())
	last := map[string]int64{}
	appendOne := func(i int) error {
		key, offset := fmt.Sprint(i%20), p.Marks().End
		err := tryAppend(s, p, keyed(time.Now().UnixMilli(), 60_000, key))
		if err == nil {
			last[key] = offset
		}
		return err
	}
	var full error
	n := 0
	for ; full == nil; n++ {
		if n > disk/60_000 {
			t.Fatal("the disk does not fill")
		}
		full = appendOne(n)
	}
	if !errors.Is(full, ErrDiskFull) {
		t.Fatal(full)
	}
	if err := s.Compact(1); err != nil {
		t.Fatal(err)
	}
	appendsResume(t, s, func() error { return appendOne(n) })
	seen := map[string]int64{}
	eachCommitted(t, p, 0, func(_ *record.Header, r *record.Record) { seen[string(r.Key)] = r.Offset })
	if !maps.Equal(seen, last) {
		t.Errorf("last records are at %v, want %v", seen, last)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}
