package log

import (
	"encoding/binary"
	"flag"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/rowtrail/rowtrail/log/record"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(killDirEnv); dir != "" {
		runChild(dir)
	}
	// Each check opens real databases several times; -rapid.checks on the command line wins.
	if err := flag.Set("rapid.checks", "25"); err != nil {
		panic(err)
	}
	// glog's daemon is started by a package that Badger imports and cannot be stopped. A database that Badger refuses to open leaves
	// two goroutines behind; one that is open and was forgotten has others.
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("github.com/dgraph-io/badger/v4.(*DB).monitorCache"),
		goleak.IgnoreTopFunction("github.com/dgraph-io/ristretto/v2/z.(*AllocatorPool).freeupAllocators"),
		goleak.IgnoreTopFunction("github.com/golang/glog.(*fileSink).flushDaemon"),
		goleak.IgnoreTopFunction("go.opencensus.io/stats/view.(*worker).start"))
}

func mustOpen(t testing.TB, dir string, opts Options) *Store {
	t.Helper()
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.NewTextHandler(testWriter{t}, &slog.HandlerOptions{Level: slog.LevelWarn}))
	}
	if opts.MinFreeBytes == 0 {
		opts.MinFreeBytes = 64 << 20
	}
	if opts.OnFatal == nil {
		opts.OnFatal = func(err error) { t.Errorf("fatal: %v", err) }
	}
	if raceFactor > 1 {
		opts.rewriting = func(s *Store) {
			s.commitMu.Lock()
			time.AfterFunc(20*time.Millisecond, s.commitMu.Unlock)
		}
	}
	s, err := Open(dir, opts)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

type testWriter struct{ t testing.TB }

func (w testWriter) Write(b []byte) (int, error) {
	w.t.Logf("%s", b)
	return len(b), nil
}

func mustPartition(t testing.TB, s *Store, id GroupID) *Partition {
	t.Helper()
	p, err := s.Partition(id)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// payload is incompressible and different for each call.
func payload(n int) []byte {
	b := make([]byte, n)
	from := rand.IntN(1 << 10)
	for i := 0; i < n; i += len(noise) / 2 {
		copy(b[i:], noise[from:from+len(noise)/2])
	}
	if n >= 8 {
		binary.LittleEndian.PutUint64(b[n-8:], rand.Uint64())
	}
	return b
}

var noise = func() []byte {
	b := make([]byte, 64<<10)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(b)
	return b
}()

// batchOf builds a batch of one record that has exactly size bytes, but for the few sizes that no record has.
func batchOf(size int, ts int64) []byte {
	var b record.Builder
	for value := size - record.HeaderLen; ; {
		b.Append(ts, nil, payload(value))
		batch := b.Build(nil)
		switch over := len(batch) - size; {
		case value == 0:
			panic("too small for a batch")
		case over <= 0:
			return batch
		default:
			value -= over
		}
	}
}

// appendAll stages, commits and applies batches as a single-voter leader of term 1 would.
func appendAll(t testing.TB, s *Store, p *Partition, batches ...[]byte) {
	t.Helper()
	if err := tryAppend(s, p, batches...); err != nil {
		t.Fatal(err)
	}
	if p.Outgrown() {
		retain(t, s, p, time.UnixMilli(1_000_000))
	}
}

// tryAppend is appendAll where the store may refuse: whoever runs a disk full learns of it here, as Writable may change between a
// look and an append.
func tryAppend(s *Store, p *Partition, batches ...[]byte) error {
	entries := make([]Entry, len(batches))
	for i, b := range batches {
		if _, err := p.Stage(1, b, time.UnixMilli(1_000_000)); err != nil {
			return err
		}
		entries[i] = Entry{Index: p.LastIndex() + 1 + uint64(i), Term: 1, Data: b}
	}
	if err := s.Commit([]Mutation{{Group: p.id, Entries: entries}}); err != nil {
		return err
	}
	p.Apply(entries)
	return nil
}

// readAll reads [from, end) in steps of maxBytes.
func readAll(t testing.TB, p *Partition, from int64, maxBytes int, iso Isolation) []byte {
	t.Helper()
	var out []byte
	for {
		res, err := p.Read(from, maxBytes, true, iso)
		if err != nil {
			t.Fatal(err)
		}
		if len(res.Batches) == 0 {
			return out
		}
		out = append(out, res.Batches...)
		for rest := res.Batches; len(rest) > 0; {
			h, err := record.ParseHeader(rest)
			if err != nil {
				t.Fatal(err)
			}
			from = h.LastOffset() + 1
			rest = rest[h.Size():]
		}
	}
}

// diskUse is what a directory occupies, and what its files' sizes add up to.
func diskUse(t testing.TB, dir string) (blocks, apparent int64) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range names {
		var st syscall.Stat_t
		if syscall.Stat(n, &st) == nil {
			blocks += st.Blocks * 512
			apparent += st.Size
		}
	}
	return blocks, apparent
}

// forgetRecent makes the next read go to the database.
func forgetRecent(s *Store, p *Partition) {
	s.commitMu.Lock()
	defer s.commitMu.Unlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	s.cache.bytes -= p.recent.truncate(0)
}

// expectedTimes are what the look-ups by time must find in the records that were seen, in the order of their offsets.
type expectedTimes struct{ offset, ts, maxOffset, maxTs int64 }

func noTimes() expectedTimes { return expectedTimes{-1, -1, -1, -1} }

func (x *expectedTimes) see(r *record.Record, ts int64) {
	if r.Timestamp >= ts && x.offset < 0 {
		x.offset, x.ts = r.Offset, r.Timestamp
	}
	if r.Timestamp > x.maxTs {
		x.maxOffset, x.maxTs = r.Offset, r.Timestamp
	}
}

func (x *expectedTimes) compare(rt *rapid.T, p *Partition, ts int64) {
	o, at, _, ok, err := p.OffsetForTime(ts, ReadUncommitted)
	if err != nil || ok != (x.offset >= 0) || o != x.offset || at != x.ts {
		rt.Fatalf("offset for %d: %d at %d %v %v, expected %d at %d", ts, o, at, ok, err, x.offset, x.ts)
	}
	o, at, _, err = p.MaxTimestamp()
	if err != nil || o != x.maxOffset || at != x.maxTs {
		rt.Fatalf("max timestamp: %d at %d %v, expected %d at %d", o, at, err, x.maxOffset, x.maxTs)
	}
}

// crashCopy copies a directory whose store is open: what a crash now would leave.
func crashCopy(t testing.TB, dir string) string {
	t.Helper()
	to := t.TempDir()
	if err := os.CopyFS(to, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	return to
}
