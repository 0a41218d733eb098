package log

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/dgraph-io/badger/v4"

	"github.com/rowtrail/rowtrail/log/record"
)

// fillDir writes batches of two groups, each batch a record that names its group and offset, and returns the directory of
// a store that was closed.
func fillDir(t *testing.T, batches, size int) string {
	t.Helper()
	dir := t.TempDir()
	s := mustOpen(t, dir, Options{})
	for i := range batches {
		for g := GroupID(1); g <= 2; g++ {
			p := mustPartition(t, s, g)
			var b record.Builder
			value := append([]byte(mark(g, int64(i))), payload(size)...)
			b.Append(1, nil, value)
			appendAll(t, s, p, b.Build(nil))
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return dir
}

func mark(g GroupID, offset int64) string { return fmt.Sprintf("<group %d offset %d>", g, offset) }

// files lists the directory's files with that ending, the largest first.
func files(t *testing.T, dir, ending string) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*"+ending))
	if err != nil || len(names) == 0 {
		t.Fatalf("no %s files: %v", ending, err)
	}
	size := func(name string) int64 {
		info, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		return info.Size()
	}
	sort.Slice(names, func(i, j int) bool { return size(names[i]) > size(names[j]) })
	return names
}

// flip changes one byte of the batch with that mark, in whatever value-log file holds it.
func flip(t *testing.T, dir, what string) {
	t.Helper()
	for _, name := range files(t, dir, ".vlog") {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if at := bytes.Index(b, []byte(what)); at >= 0 {
			b[at+len(what)+5] ^= 0x40
			if err := os.WriteFile(name, b, 0o640); err != nil {
				t.Fatal(err)
			}
			return
		}
	}
	t.Fatalf("%s is in no value-log file", what)
}

// readable reads each offset by itself and returns those that fail; what is returned must be what was written.
func readable(t *testing.T, s *Store, g GroupID) (broken []int64) {
	t.Helper()
	p := mustPartition(t, s, g)
	replay(p)
	for offset := int64(0); offset < p.Marks().HighWatermark; offset++ {
		res, err := p.Read(offset, 1, true, ReadUncommitted)
		switch {
		case errors.Is(err, ErrCorrupt):
			if !strings.Contains(err.Error(), fmt.Sprint("offset ", offset)) || !strings.Contains(err.Error(), fmt.Sprint("group ", g)) {
				t.Errorf("the error does not name the place: %v", err)
			}
			broken = append(broken, offset)
		case err != nil:
			t.Fatal(err)
		case !bytes.Contains(res.Batches, []byte(mark(g, offset))):
			t.Errorf("group %d: offset %d is served as %.40q", g, offset, res.Batches[min(len(res.Batches), record.HeaderLen):])
		}
	}
	return broken
}

// TestFlippedByte: a batch with a changed byte is never served; everything beside it is, in every later opening.
func TestFlippedByte(t *testing.T) {
	dir := fillDir(t, 50, 2000)
	flip(t, dir, mark(1, 20))
	for range 3 {
		s := mustOpen(t, dir, Options{Logger: slog.New(slog.DiscardHandler)})
		if got := readable(t, s, 1); len(got) != 1 || got[0] != 20 {
			t.Errorf("offsets %v of the damaged group fail, want only 20", got)
		}
		if got := readable(t, s, 2); len(got) != 0 {
			t.Errorf("offsets %v of the other group fail", got)
		}
		appendAll(t, s, mustPartition(t, s, 2), func() []byte {
			var b record.Builder
			b.Append(1, nil, append([]byte(mark(2, mustPartition(t, s, 2).Marks().End)), payload(2000)...))
			return b.Build(nil)
		}())
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestCollectionSparesDamagedFile: a file with a damaged record is not removed together with retained records.
func TestCollectionSparesDamagedFile(t *testing.T) {
	dir := fillDir(t, 50, 2000)
	if err := mustOpen(t, dir, Options{}).Close(); err != nil { // begins another file
		t.Fatal(err)
	}
	flip(t, dir, mark(1, 20))
	s := mustOpen(t, dir, Options{Logger: slog.New(slog.DiscardHandler)})
	defer s.Close()
	replay(mustPartition(t, s, 1))
	replay(mustPartition(t, s, 2))
	var fid uint32
	for _, name := range files(t, dir, ".vlog") {
		if b, err := os.ReadFile(name); err == nil && bytes.Contains(b, []byte(mark(1, 20))) {
			if _, err := fmt.Sscanf(filepath.Base(name), "%d.vlog", &fid); err != nil {
				t.Fatal(err)
			}
		}
	}
	err := s.checkFile(fid)
	if !errors.Is(err, errDamagedFile) || !strings.Contains(err.Error(), fmt.Sprintf("%06d.vlog", fid)) {
		t.Fatalf("check of file %d: %v", fid, err)
	}
	// Once nothing behind the damage is retained the file may go.
	for g := GroupID(1); g <= 2; g++ {
		p := mustPartition(t, s, g)
		for range 5 {
			appendAll(t, s, p, batchOf(1000, 0))
		}
		if _, err := p.DeleteRecordsBefore(54); err != nil {
			t.Fatal(err)
		}
		p.Retain(time.Now())
	}
	for s.hasRiders() {
		if err := s.ride(); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.checkFile(fid); err != nil {
		t.Errorf("nothing of the file is retained: %v", err)
	}
}

// TestCollectionStopsAtDamage: a collection of a mostly dead file with a damaged record is stopped, again and again, and
// what is retained stays readable; the store goes on.
func TestCollectionStopsAtDamage(t *testing.T) {
	dir := fillDir(t, 500, 2000)
	s := mustOpen(t, dir, Options{Logger: slog.New(slog.DiscardHandler)})
	defer s.Close()
	for g := GroupID(1); g <= 2; g++ {
		p := mustPartition(t, s, g)
		replay(p)
		if _, err := p.DeleteRecordsBefore(400); err != nil {
			t.Fatal(err)
		}
		p.Retain(time.Now())
	}
	flip(t, dir, mark(1, 450))
	for s.hasRiders() {
		if err := s.ride(); err != nil {
			t.Fatal(err)
		}
	}
	stopped := 0
	for deadline := time.Now().Add(20 * time.Second); stopped < 3; {
		switch err := s.collectFile(); {
		case errors.Is(err, errDamagedFile):
			stopped++
			continue
		case err == nil:
			t.Fatal("the damaged file was collected")
		}
		if time.Now().After(deadline) {
			t.Fatal("no collection was tried")
		}
		if err := s.rollMemTable(); err != nil {
			t.Fatal(err)
		}
	}
	for g := GroupID(1); g <= 2; g++ {
		p := mustPartition(t, s, g)
		for offset := int64(400); offset < 500; offset++ {
			_, err := p.Read(offset, 1, true, ReadUncommitted)
			if damaged := g == 1 && offset == 450; damaged != errors.Is(err, ErrCorrupt) || !damaged && err != nil {
				t.Errorf("group %d offset %d: %v", g, offset, err)
			}
		}
		appendAll(t, s, p, batchOf(1000, 0))
	}
}

// TestDamagedDirectory: each kind of damage ends in an error that names the place, or in the damaged partition's error alone.
func TestDamagedDirectory(t *testing.T) {
	truncate := func(ending string, to func(size int64) int64) func(t *testing.T, dir string) {
		return func(t *testing.T, dir string) {
			name := files(t, dir, ending)[0]
			info, err := os.Stat(name)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.Truncate(name, to(info.Size())); err != nil {
				t.Fatal(err)
			}
		}
	}
	half := func(size int64) int64 { return size / 2 }
	remove := func(ending string) func(t *testing.T, dir string) {
		return func(t *testing.T, dir string) {
			if err := os.Remove(files(t, dir, ending)[0]); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, c := range []struct {
		name   string
		damage func(t *testing.T, dir string)
		refuse string // of the error of Open; "": it opens, and what cannot be read is an error
	}{
		{"value log cut", truncate(".vlog", half), ""},
		{"value log removed", remove(".vlog"), ""},
		{"table removed", remove(".sst"), `\.sst|table|[Ff]ile`},
		{"table cut", truncate(".sst", half), `table|\.sst`},
		{"table flipped", func(t *testing.T, dir string) {
			name := files(t, dir, ".sst")[0]
			b, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			b[len(b)/4] ^= 1
			if err := os.WriteFile(name, b, 0o640); err != nil {
				t.Fatal(err)
			}
		}, `\.sst`},
		{"manifest removed", remove("MANIFEST"), "MANIFEST|anifest"},
		{"manifest cut", truncate("MANIFEST", half), "MANIFEST|anifest"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := fillDir(t, 50, 2000)
			c.damage(t, dir)
			s, err := Open(dir, Options{MinFreeBytes: 1 << 20})
			if err != nil {
				t.Logf("refused: %v", err)
				if c.refuse == "" {
					t.Fatalf("Open: %v", err)
				}
				if strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(), dir) {
					t.Errorf("not one line that names the place: %q", err)
				}
				return
			}
			defer s.Close()
			if c.refuse != "" {
				t.Fatal("it opened")
			}
			broken := 0
			for g := GroupID(1); g <= 2; g++ {
				if _, err := s.Partition(g); err != nil {
					t.Logf("does not open: %v", err)
					if !strings.Contains(err.Error(), fmt.Sprintf("open group %d", g)) {
						t.Errorf("does not name the place: %v", err)
					}
					broken++
					continue
				}
				broken += len(readable(t, s, g))
			}
			if broken == 0 {
				t.Error("nothing was lost: the test damages nothing")
			}
			// A new partition is not held up.
			appendAll(t, s, mustPartition(t, s, 3), batchOf(1000, 0))
		})
	}
}

// TestHalfWrittenTable: a table that a crash left half written, which the manifest does not name, is no damage.
func TestHalfWrittenTable(t *testing.T) {
	dir := fillDir(t, 50, 2000)
	if err := os.WriteFile(filepath.Join(dir, "000099.sst"), make([]byte, 4096), 0o640); err != nil {
		t.Fatal(err)
	}
	s := mustOpen(t, dir, Options{})
	defer s.Close()
	if got := append(readable(t, s, 1), readable(t, s, 2)...); len(got) != 0 {
		t.Errorf("offsets %v fail", got)
	}
}

// TestDeletedRecordsStayDeleted: what DeleteRecordsBefore returned holds after a crash.
func TestDeletedRecordsStayDeleted(t *testing.T) {
	dir := t.TempDir()
	s := mustOpen(t, dir, Options{})
	p := mustPartition(t, s, 1)
	for range 10 {
		appendAll(t, s, p, batchOf(1000, 0))
	}
	syncs := s.Stats().Syncs
	if start, err := p.DeleteRecordsBefore(7); err != nil || start != 7 {
		t.Fatal(start, err)
	}
	if s.Stats().Syncs != syncs+1 {
		t.Error("it returned before it was durable")
	}
	var h horizon
	if err := s.view(func(txn *badger.Txn) error {
		return viewValue(txn, groupKey(spaceHorizon, 1), func(b []byte) error {
			f, err := decodeFold(b)
			h = f.horizon
			return err
		})
	}); err != nil || h.logStart != 7 {
		t.Errorf("the horizon on disk starts at %d: %v", h.logStart, err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestAnEmptiedValueLogFileIsMissed: a file that damage has emptied looks like one that was collected, so the log opens; what was in it
// is an error of its readers, and the rest is served.
func TestAnEmptiedValueLogFileIsMissed(t *testing.T) {
	dir := fillDir(t, 450, 200_000)
	logs := files(t, dir, ".vlog")
	sort.Strings(logs)
	if len(logs) < 2 {
		t.Fatalf("%d value-log files", len(logs))
	}
	if err := os.Truncate(logs[0], 0); err != nil {
		t.Fatal(err)
	}
	s := mustOpen(t, dir, Options{Logger: slog.New(slog.DiscardHandler)})
	defer s.Close()
	p := mustPartition(t, s, 1)
	replay(p)
	if _, err := p.Read(0, 1, true, ReadUncommitted); !errors.Is(err, ErrCorrupt) {
		t.Errorf("the first record was in the file: %v", err)
	}
	if r, err := p.Read(p.Marks().End-1, 1, true, ReadUncommitted); err != nil || len(r.Batches) == 0 {
		t.Errorf("the last record was not: %v", err)
	}
}
