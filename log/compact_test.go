package log

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"runtime"
	"runtime/metrics"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dgraph-io/badger/v4"

	"github.com/rowtrail/rowtrail/log/record"
)

// keyed builds a batch of records of these keys; a value of no bytes is a tombstone.
func keyed(ts int64, value int, keys ...string) []byte {
	var b record.Builder
	for _, k := range keys {
		var v []byte
		if value > 0 {
			v = payload(value)
		}
		b.Append(ts, []byte(k), v)
	}
	return b.Build(nil)
}

// compacting is a configuration with which every byte is due.
func compacting() Config {
	return Config{Compact: true, RetentionBytes: -1, RetentionMs: -1, DeleteRetentionMs: 1000, SegmentBytes: 1}
}

func manual(now *atomic.Int64) Options {
	o := Options{Compaction: CompactionOptions{Interval: -1, CPUShare: 1}}
	if now != nil {
		o.Compaction.Now = func() time.Time { return time.UnixMilli(now.Load()) }
	}
	return o
}

// offsetsOf lists the offsets that an uncommitted reader gets.
func offsetsOf(t testing.TB, p *Partition) (out []int64) {
	t.Helper()
	reader := record.NewReader(1 << 20)
	for rest := readAll(t, p, p.Marks().LogStart, 1<<20, ReadUncommitted); len(rest) > 0; {
		var b []byte
		var err error
		if b, rest, err = record.Next(rest); err != nil {
			t.Fatal(err)
		}
		if err := reader.Reset(b); err != nil {
			t.Fatal(err)
		}
		for reader.Next() {
			out = append(out, reader.Record().Offset)
		}
	}
	return out
}

// overwrite puts a changed value under a key of the database, as a bad sector would.
func overwrite(t *testing.T, s *Store, key []byte, change func([]byte)) {
	t.Helper()
	err := s.db.Update(func(txn *badger.Txn) error {
		item, err := txn.Get(key)
		if err != nil {
			return err
		}
		v, err := item.ValueCopy(nil)
		if err != nil {
			return err
		}
		change(v)
		return txn.Set(key, v)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// firstKey is the first key of a space and group, at or behind a prefix.
func firstKey(t *testing.T, s *Store, prefix []byte) (key []byte) {
	t.Helper()
	err := s.view(func(txn *badger.Txn) error {
		it := txn.NewIterator(badger.IteratorOptions{Prefix: prefix})
		defer it.Close()
		it.Rewind()
		if !it.Valid() {
			return badger.ErrKeyNotFound
		}
		key = it.Item().KeyCopy(nil)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// TestCompactionStopsAtDamage: a partition with a damaged batch is put aside, with its place, once; its neighbour goes on, and
// nothing of the damaged one is lost.
func TestCompactionStopsAtDamage(t *testing.T) {
	for _, where := range []string{"tail", "run", "missing from run"} {
		t.Run(where, func(t *testing.T) {
			var said bytes.Buffer
			opts := manual(nil)
			opts.Logger = slog.New(slog.NewTextHandler(&said, &slog.HandlerOptions{Level: slog.LevelWarn}))
			s := mustOpen(t, t.TempDir(), opts)
			defer func() { _ = s.Close() }()
			var parts []*Partition
			for id := range GroupID(2) {
				p := mustPartition(t, s, id+1)
				p.SetConfig(compacting())
				appendAll(t, s, p, keyed(1, 300, "a", "b"), keyed(2, 300, "c"), keyed(3, 300, "d"))
				if where != "tail" {
					if err := s.Compact(p.id); err != nil {
						t.Fatal(err)
					}
				}
				appendAll(t, s, p, keyed(4, 300, "a"), keyed(5, 300, "e"))
				parts = append(parts, p)
			}
			if where == "tail" {
				overwrite(t, s, firstKey(t, s, groupKey(spaceLog, 1)), func(b []byte) { b[len(b)-1] ^= 1 })
			} else if key := firstKey(t, s, groupKey(spaceRun, 1)); where == "run" {
				overwrite(t, s, key, func(b []byte) { b[len(b)-1] ^= 1 })
			} else if err := s.db.Update(func(txn *badger.Txn) error { return txn.Delete(key) }); err != nil {
				t.Fatal(err)
			}
			s.CompactDue()
			s.CompactDue()
			if err := parts[0].Compaction().Err; !errors.Is(err, ErrCorrupt) {
				t.Errorf("the damaged partition: %v", err)
			}
			if got := strings.Count(said.String(), "compaction of a partition stopped"); got != 1 || !strings.Contains(said.String(), "group=1") {
				t.Errorf("said %d times:\n%s", got, &said)
			}
			if where != "missing from run" && !strings.Contains(said.String(), "offset 0") {
				t.Errorf("the place is not named:\n%s", &said)
			}
			if where == "run" || where == "missing from run" {
				if got := parts[0].Compaction().CompactedBytes; got != parts[0].runs.man.bytes || len(parts[0].runs.man.runs) != 1 {
					t.Errorf("the damaged run was replaced")
				}
			}
			if got := fmt.Sprint(offsetsOf(t, parts[1])); got != "[1 2 3 4 5]" {
				t.Errorf("the neighbour has %s", got)
			}
			if st := s.Compaction(); st.Failures != 1 {
				t.Errorf("%d failures", st.Failures)
			}
		})
	}
}

// TestManifestDamageKeepsToItsPartition: a damaged manifest is named; the other partitions open.
func TestManifestDamageKeepsToItsPartition(t *testing.T) {
	dir := t.TempDir()
	s := mustOpen(t, dir, manual(nil))
	for id := range GroupID(2) {
		p := mustPartition(t, s, id+1)
		p.SetConfig(compacting())
		appendAll(t, s, p, keyed(1, 300, "a"), keyed(2, 300, "a"), keyed(3, 300, "b"))
		if err := s.Compact(p.id); err != nil {
			t.Fatal(err)
		}
	}
	overwrite(t, s, groupKey(spaceManifest, 1), func(b []byte) { b[3] ^= 1 })
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = mustOpen(t, dir, manual(nil))
	defer func() { _ = s.Close() }()
	if _, err := s.Partition(1); !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), "open group 1: read manifest") {
		t.Errorf("opened with a damaged manifest: %v", err)
	}
	if got := fmt.Sprint(offsetsOf(t, mustPartition(t, s, 2))); got != "[1 2]" {
		t.Errorf("the other partition has %s", got)
	}
	if err := s.db.Update(func(txn *badger.Txn) error { return txn.Delete(groupKey(spaceManifest, 1)) }); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Partition(1); !errors.Is(err, ErrCorrupt) {
		t.Errorf("opened without its manifest: %v", err)
	}
}

// TestRoundLeavesCleanRunsAlone: a run in which nothing dies is not written again.
func TestRoundLeavesCleanRunsAlone(t *testing.T) {
	s := mustOpen(t, t.TempDir(), manual(nil))
	defer func() { _ = s.Close() }()
	p := mustPartition(t, s, 1)
	p.SetConfig(compacting())
	var batches [][]byte
	for i := range 40 {
		batches = append(batches, keyed(1, 100_000, fmt.Sprint("a", i)))
	}
	appendAll(t, s, p, batches...)
	if err := s.Compact(1); err != nil {
		t.Fatal(err)
	}
	before, written := p.runs.man.runs[0].id, s.Compaction().WrittenBytes
	appendAll(t, s, p, keyed(2, 100, "b"), keyed(2, 100, "c"))
	if err := s.Compact(1); err != nil {
		t.Fatal(err)
	}
	if got := p.runs.man.runs; len(got) != 2 || got[0].id != before {
		t.Errorf("runs are %+v, the first one was %d", got, before)
	}
	if grew := s.Compaction().WrittenBytes - written; grew > 200_000 {
		t.Errorf("%d bytes were written for a few hundred new ones", grew)
	}
	appendAll(t, s, p, keyed(2, 100, "a7"), keyed(2, 100, "d"))
	if err := s.Compact(1); err != nil {
		t.Fatal(err)
	}
	if p.runs.man.names(before) {
		t.Error("a run with a superseded record was taken over")
	}
	if got := len(offsetsOf(t, p)); got != 43 {
		t.Errorf("%d records are left", got)
	}
}

// TestDroppedGroupLeavesNothing: runs, manifest and keys of a dropped group go.
func TestDroppedGroupLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	s := mustOpen(t, dir, manual(nil))
	defer func() { _ = s.Close() }()
	p := mustPartition(t, s, 1)
	p.SetConfig(compacting())
	appendAll(t, s, p, keyed(1, 300, "a"), keyed(2, 300, "a"), keyed(3, 300, "b"))
	if err := s.Compact(1); err != nil {
		t.Fatal(err)
	}
	s.Drop(1)
	s.keeper.stop()
	for range 2 * sweepAfter {
		if err := s.ride(); err != nil {
			t.Fatal(err)
		}
		s.keeper.round.Add(sweepAfter)
	}
	s.cleaner.dropKeys()
	err := s.view(func(txn *badger.Txn) error {
		it := txn.NewIterator(badger.DefaultIteratorOptions)
		defer it.Close()
		for it.Rewind(); it.Valid(); it.Next() {
			if k := it.Item().Key(); k[0] != spacePad {
				t.Errorf("key %x is left", k)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	s.cleaner.mu.Lock()
	defer s.cleaner.mu.Unlock()
	if err := s.cleaner.openIndex(); err != nil {
		t.Fatal(err)
	}
	if groups, err := s.cleaner.index.Groups(); err != nil || len(groups) != 0 {
		t.Errorf("the key index has groups %v: %v", groups, err)
	}
}

// TestDropWhileCompacting deletes partitions while they are written and compacted, one after the other: nothing of them is left, in the
// database and in the key index.
func TestDropWhileCompacting(t *testing.T) {
	const groups = 40
	s := mustOpen(t, t.TempDir(), Options{Compaction: CompactionOptions{Interval: time.Millisecond, CPUShare: 1}})
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	for id := GroupID(1); id <= groups; id++ {
		p := mustPartition(t, s, id)
		p.SetConfig(compacting())
		var wg sync.WaitGroup
		begun := make(chan struct{})
		wg.Go(func() {
			for i := 0; ; i++ {
				if i == 20 {
					close(begun)
				}
				if err := tryAppend(s, p, keyed(1, 2000, fmt.Sprint(i%7))); err != nil {
					if !errors.Is(err, ErrClosed) || i < 20 {
						t.Errorf("append %d: %v", i, err)
					}
					return
				}
			}
		})
		wg.Go(func() {
			<-begun
			for {
				if err := s.Compact(id); err != nil {
					if !errors.Is(err, errOvertaken) && !errors.Is(err, ErrClosed) {
						t.Errorf("compact: %v", err)
					}
					return
				}
			}
		})
		<-begun
		for range rand.IntN(50) {
			s.cleaner.dropKeys()
		}
		s.Drop(id)
		wg.Wait()
	}
	s.keeper.stop()
	s.cleaner.stop()
	<-s.cleaner.done
	for range groups * sweepAfter { // a ride takes a few of them along
		if err := s.ride(); err != nil {
			t.Fatal(err)
		}
		s.keeper.round.Add(sweepAfter)
	}
	s.cleaner.dropKeys()
	if got, err := s.cleaner.index.Groups(); err != nil || len(got) > 0 {
		t.Errorf("groups %v are left in the key index, %v", got, err)
	}
	if err := s.view(func(txn *badger.Txn) error {
		it := txn.NewIterator(badger.DefaultIteratorOptions)
		defer it.Close()
		for it.Rewind(); it.Valid(); it.Next() {
			if k := it.Item().Key(); k[0] != spacePad {
				t.Errorf("key %x is left", k)
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// TestCompactionBesideReadersAndWriters: while rounds, retention and value-log collection go on, every committed reader sees
// what was committed, and the last record of each key in the end.
func TestCompactionBesideReadersAndWriters(t *testing.T) {
	cfg := compacting()
	cfg.DeleteRetentionMs = 1
	besideReadersAndWriters(t, cfg)
}

// TestPolicyFlipsBesideReadersAndWriters: the same while cleanup.policy goes from compact to delete to both and back, at any moment of a
// round.
func TestPolicyFlipsBesideReadersAndWriters(t *testing.T) {
	compact := compacting()
	compact.DeleteRetentionMs = 1
	both := compact
	both.RetentionBytes = 2 << 20
	late := compact
	late.MinCompactionLagMs = 50
	besideReadersAndWriters(t, compact, Config{RetentionBytes: 2 << 20, RetentionMs: -1}, both, Config{RetentionBytes: -1, RetentionMs: 300}, late)
}

// besideReadersAndWriters changes from one configuration to the next all the while, and ends with the first.
func besideReadersAndWriters(t *testing.T, configs ...Config) {
	t.Helper()
	const keys, producers = 30, 3
	run := 2 * time.Second
	if os.Getenv("ROWTRAIL_LOG_FULL") != "" {
		run = 30 * time.Second
	}
	s := mustOpen(t, t.TempDir(), Options{Compaction: CompactionOptions{Interval: 5 * time.Millisecond, CPUShare: 1}})
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	p := mustPartition(t, s, 1)
	p.SetConfig(configs[0])
	type written struct {
		key     string
		value   []byte
		aborted bool
	}
	var truth sync.Map // offset -> written, once it is decided
	var wg sync.WaitGroup
	var reads atomic.Int64
	stop := make(chan struct{})
	for range 2 {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				from := rand.Int64N(p.Marks().LastStable + 1)
				end := eachCommitted(t, p, from, func(_ *record.Header, r *record.Record) {
					x, ok := truth.Load(r.Offset)
					if !ok {
						t.Errorf("a committed reader sees offset %d, which is not decided", r.Offset)
						return
					}
					if w := x.(written); w.aborted || w.key != string(r.Key) || !bytes.Equal(w.value, r.Value) {
						t.Errorf("a committed reader sees %q at offset %d, expected %+v", r.Key, r.Offset, w)
					}
					reads.Add(1)
				})
				if end < from {
					t.Errorf("read from %d to %d", from, end)
				}
			}
		})
	}
	if len(configs) > 1 {
		wg.Go(func() {
			tick := time.NewTicker(7 * time.Millisecond)
			defer tick.Stop()
			for i := 0; ; i++ {
				p.SetConfig(configs[i%len(configs)])
				select {
				case <-stop:
					return
				case <-tick.C:
				}
			}
		})
	}
	last := map[string]int64{}
	open := map[int64][]int64{} // offsets of open transactions
	values := map[int64]written{}
	var seq [producers]int32
	enough := func() bool {
		st := s.Compaction()
		return st.Rounds >= 3 && st.RemovedRecords > 0 && reads.Load() > 0
	}
	start := time.Now()
	for n := 0; time.Since(start) < run || time.Since(start) < 10*run && !enough(); n++ {
		if n%8 == 0 {
			retain(t, s, p, time.Now()) // by whatever configuration there is now
		}
		id := rand.Int64N(producers)
		if len(open[id]) > 0 && rand.IntN(3) == 0 {
			commit := rand.IntN(3) > 0
			for _, o := range open[id] {
				w := values[o]
				w.aborted = !commit
				truth.Store(o, w)
				if commit {
					last[w.key] = max(last[w.key], o)
				}
			}
			delete(open, id)
			appendAll(t, s, p, record.EndTxn{ProducerID: id, Commit: commit}.Build(time.Now().UnixMilli()))
			continue
		}
		w := written{key: fmt.Sprint(rand.IntN(keys))}
		if rand.IntN(4) > 0 {
			w.value = payload(100 + rand.IntN(20_000))
		}
		var b record.Builder
		b.Append(time.Now().UnixMilli(), []byte(w.key), w.value)
		offset := p.Marks().End
		values[offset] = w
		open[id] = append(open[id], offset)
		appendAll(t, s, p, b.Build(&record.Producer{ID: id, BaseSequence: seq[id], Transactional: true}))
		seq[id]++
	}
	close(stop)
	wg.Wait()
	p.SetConfig(configs[0])
	if err := s.Compact(1); err != nil {
		t.Error(err)
	}
	seen := map[string]int64{}
	eachCommitted(t, p, 0, func(_ *record.Header, r *record.Record) { seen[string(r.Key)] = r.Offset })
	for key, o := range last {
		if o >= p.Marks().LogStart && o < p.Marks().LastStable && seen[key] < o && values[o].value != nil {
			t.Errorf("the last record of %s is at %d, found %d", key, o, seen[key])
		}
	}
	st := s.Compaction()
	t.Logf("%d offsets, %d records read meanwhile, %+v", p.Marks().End, reads.Load(), st)
	if !enough() {
		t.Errorf("too little happened: %+v", st)
	}
}

// TestCompactionGivesDiskBack pushes many versions of few keys through a partition while value-log collection runs: the
// disk does not grow with them, nothing that collection writes anew is read, and runs that were replaced are gone.
func TestCompactionGivesDiskBack(t *testing.T) {
	total := int64(192 << 20)
	if os.Getenv("ROWTRAIL_LOG_FULL") != "" {
		total = 2 << 30
	}
	dir := t.TempDir()
	s := mustOpen(t, dir, Options{Compaction: CompactionOptions{Interval: 50 * time.Millisecond, CPUShare: 1, BytesPerSecond: 1 << 40}})
	p := mustPartition(t, s, 1)
	cfg := compacting()
	cfg.MinDirtyRatio = 0.5
	p.SetConfig(cfg)
	want := map[string]int64{}
	var peak int64
	for done := int64(0); done < total; {
		var batches [][]byte
		for range 16 {
			key := fmt.Sprint(rand.IntN(200))
			batches = append(batches, keyed(time.Now().UnixMilli(), 60_000, key))
			want[key] = p.Marks().End + int64(len(batches)) - 1
			done += 60_000
		}
		appendAll(t, s, p, batches...)
		if b, _ := diskUse(t, dir); b > peak {
			peak = b
		}
	}
	if err := s.Compact(1); err != nil {
		t.Fatal(err)
	}
	s.sweep()
	for s.hasRiders() {
		if err := s.ride(); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		seen := map[string]int64{}
		eachCommitted(t, p, 0, func(_ *record.Header, r *record.Record) {
			if _, twice := seen[string(r.Key)]; twice && r.Offset < p.tailStart() {
				t.Errorf("key %s is there at %d and %d", r.Key, seen[string(r.Key)], r.Offset)
			}
			seen[string(r.Key)] = r.Offset
		})
		for key, o := range want {
			if seen[key] != o {
				t.Errorf("the last record of %s is at %d, found %d", key, o, seen[key])
			}
		}
		t.Logf("%d MiB written; retained %d MiB in %d runs, disk peak %d MiB, %d collections, %+v", total>>20, p.Bytes()>>20, len(p.runs.man.runs),
			peak>>20, s.Stats().Collections, s.Compaction())
		if p.Bytes() > 200*60_000*3/2 {
			t.Errorf("%d bytes are retained of 200 records of 60,000", p.Bytes())
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		s = mustOpen(t, dir, manual(nil))
		p = mustPartition(t, s, 1)
		replay(p)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if total > 1<<30 && peak > 1<<30 {
		t.Errorf("disk use peaks at %d MiB", peak>>20)
	}
}

// tailStart is where what is compacted ends.
func (p *Partition) tailStart() int64 {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.fold.horizon.base
}

// liveHeap is what a collection finds alive. What is allocated while it runs would count in HeapAlloc, which on a busy machine is as much
// again.
func liveHeap() uint64 {
	runtime.GC()
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(live)
	return live[0].Value.Uint64()
}

// TestMillionKeysInBoundedMemory compacts several versions of many keys: what is left is one of each, and memory does not grow
// with the number of keys. Set ROWTRAIL_LOG_FULL=1 for a million.
func TestMillionKeysInBoundedMemory(t *testing.T) {
	keys, versions := 100_000, 3
	if os.Getenv("ROWTRAIL_LOG_FULL") != "" {
		keys = 1_000_000
	}
	const perBatch = 500
	s := mustOpen(t, t.TempDir(), manual(nil))
	defer func() { _ = s.Close() }()
	p := mustPartition(t, s, 1)
	p.SetConfig(compacting())
	var once int64
	for v := range versions {
		var batches [][]byte
		for from := 0; from < keys; from += perBatch {
			var b record.Builder
			for i := range perBatch {
				b.Append(int64(v+1), fmt.Appendf(nil, "customer-%08d", (from+i)*7919%keys), noise[i:i+60])
			}
			batches = append(batches, b.Build(nil))
			if v == 0 {
				once += int64(len(batches[len(batches)-1]))
			}
			if len(batches) == 16 {
				appendAll(t, s, p, batches...)
				batches = nil
			}
		}
		appendAll(t, s, p, batches...)
	}
	appendAll(t, s, p, keyed(9, 10, "last")) // the newest batch is not compacted
	heap, peak := liveHeap(), uint64(0)
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(500 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				return
			case <-tick.C:
				peak = max(peak, liveHeap())
			}
		}
	}()
	start := time.Now()
	if err := s.Compact(1); err != nil {
		t.Fatal(err)
	}
	took := time.Since(start)
	close(stop)
	<-done
	left := p.Bytes()
	t.Logf("%d keys, %d versions: %d MiB to %d MiB in %v (%.0f records/s); heap %d MiB before, at most %d MiB", keys, versions,
		int64(versions)*once>>20, left>>20, took.Round(time.Millisecond), float64(keys*versions)/took.Seconds(), heap>>20, peak>>20)
	if left > once*11/10 {
		t.Errorf("%d bytes are left, one version has %d", left, once)
	}
	if got := s.Compaction().RemovedRecords; got != int64(keys*(versions-1)) {
		t.Errorf("%d records were removed, expected %d", got, keys*(versions-1))
	}
	if peak > heap+128<<20 {
		t.Errorf("the heap grew from %d to %d MiB", heap>>20, peak>>20)
	}
}
