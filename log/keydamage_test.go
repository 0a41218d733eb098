package log

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rowtrail/rowtrail/log/record"
)

// killedChild lets a child commit and compact until it has done some rounds, kills it, and returns what it had acknowledged.
func killedChild(t *testing.T, dir string, rounds int64) (acked [compactGroups]int64) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), killDirEnv+"="+dir, killCompactEnv+"=1")
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for lines := bufio.NewScanner(out); lines.Scan(); {
		var n [compactGroups]int64
		var done int64
		if k, err := fmt.Sscan(lines.Text(), &n[0], &n[1], &done); k != 3 || err != nil {
			continue // "open", or cut off
		}
		if acked = n; done >= rounds {
			_ = cmd.Process.Kill()
			rounds = done + 1<<40
		}
	}
	_ = cmd.Wait()
	if acked[0] == 0 {
		t.Fatal("the child wrote nothing")
	}
	return acked
}

// copyDir copies a directory of files and directories of files; holes stay holes.
func copyDir(t *testing.T, to, from string) {
	t.Helper()
	if err := exec.Command("cp", "-a", "--sparse=always", from, to).Run(); err != nil {
		t.Fatal(err)
	}
}

// damages are what happens to a file on a bad disk, each where it holds something.
func damages() map[string]func(name string) error {
	rewrite := func(change func(b []byte)) func(string) error {
		return func(name string) error {
			b, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			change(bytes.TrimRight(b, "\x00"))
			return os.WriteFile(name, b, 0o640)
		}
	}
	flip := func(quarter int) func(string) error {
		return rewrite(func(b []byte) {
			if len(b) > 0 {
				b[len(b)*quarter/4] ^= 0x10
			}
		})
	}
	return map[string]func(string) error{
		"flipped early": flip(1), "flipped in the middle": flip(2), "flipped late": flip(3),
		"zeroed": rewrite(func(b []byte) { clear(b[len(b)/2:]) }),
		"cut": func(name string) error {
			f, err := os.Open(name)
			if err != nil {
				return err
			}
			b, err := io.ReadAll(f)
			if err = errors.Join(err, f.Close()); err != nil {
				return err
			}
			return os.Truncate(name, int64(len(bytes.TrimRight(b, "\x00")))/2)
		},
		"removed": os.Remove,
	}
}

// TestDamagedKeyIndex: whatever happens to a file of the key index, no record goes that has to stay, what was replaced goes in the
// end, and the index is then the fold of the log (invariants 8 and 10).
func TestDamagedKeyIndex(t *testing.T) {
	origin := filepath.Join(t.TempDir(), "origin")
	acked := killedChild(t, origin, 6)
	names, err := filepath.Glob(filepath.Join(origin, keyIndexDir, "*"))
	if err != nil || len(names) < 3 {
		t.Fatalf("%d files, %v", len(names), err)
	}
	for _, name := range names {
		file := filepath.Base(name)
		if file == "LOCK" {
			continue
		}
		for what, damage := range damages() {
			t.Run(file+" "+what, func(t *testing.T) {
				dir := filepath.Join(t.TempDir(), "data")
				copyDir(t, dir, origin)
				if err := damage(filepath.Join(dir, keyIndexDir, file)); err != nil {
					t.Fatal(err)
				}
				s := mustOpen(t, dir, Options{Compaction: CompactionOptions{Interval: -1}, Logger: slog.New(slog.DiscardHandler)})
				defer func() {
					if err := s.Close(); err != nil {
						t.Error(err)
					}
				}()
				for g := range compactGroups {
					p := mustPartition(t, s, GroupID(g+1))
					p.SetConfig(childConfig())
					replay(p)
					for range 3 { // one that finds a loss, one that mends it
						if err := s.Compact(p.id); err != nil {
							t.Fatal(err)
						}
						checkChildLog(t, p)
					}
					if hwm := p.Marks().HighWatermark; hwm < acked[g] {
						t.Errorf("it ends at %d, acknowledged is %d", hwm, acked[g])
					}
					checkIndexIsFold(t, s, p)
				}
			})
		}
	}
}

// checkIndexIsFold compares what the index says of each key that the log has with the log, below the horizon.
func checkIndexIsFold(t *testing.T, s *Store, p *Partition) {
	t.Helper()
	last := map[string]int64{}
	eachCommitted(t, p, p.Marks().LogStart, func(_ *record.Header, r *record.Record) {
		if r.Offset >= p.tailStart() {
			return
		}
		if at, ok := last[string(r.Key)]; ok {
			t.Errorf("group %d: %q is there at %d and %d", p.id, r.Key, at, r.Offset)
		}
		last[string(r.Key)] = r.Offset
	})
	for key, at := range last {
		if got, ok, err := s.cleaner.index.Latest(uint64(p.id), []byte(key)); err != nil || !ok || got != at {
			t.Errorf("group %d: the index has %q at %d, %v, %v; the log at %d", p.id, key, got, ok, err, at)
		}
	}
}

// TestDamagedRunFiles: whatever happens to a file of the database under a compacted log, opening or reading or compacting it names the
// place and what to do, or everything is there; nothing wrong is served, and nothing acknowledged is missing without a word.
func TestDamagedRunFiles(t *testing.T) {
	origin := filepath.Join(t.TempDir(), "origin")
	acked := killedChild(t, origin, 6)
	names, err := filepath.Glob(filepath.Join(origin, "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		file := filepath.Base(name)
		if info, err := os.Stat(name); err != nil || info.IsDir() || strings.HasPrefix(file, "LOCK") {
			continue
		}
		for what, damage := range damages() {
			t.Run(file+" "+what, func(t *testing.T) {
				dir := filepath.Join(t.TempDir(), "data")
				copyDir(t, dir, origin)
				if err := damage(filepath.Join(dir, file)); err != nil {
					t.Fatal(err)
				}
				var said strings.Builder
				s, err := Open(dir, Options{MinFreeBytes: 1 << 20, Compaction: CompactionOptions{Interval: -1},
					Logger: slog.New(slog.NewTextHandler(&said, &slog.HandlerOptions{Level: slog.LevelWarn}))})
				if err != nil {
					if !strings.Contains(err.Error(), dir) || strings.Contains(err.Error(), "\n") {
						t.Errorf("not one line that names the place: %q", err)
					}
					t.Logf("refused: %v", err)
					return
				}
				defer func() { _ = s.Close() }()
				for g := range compactGroups {
					err := damagedGroup(t, s, GroupID(g+1), acked[g])
					// Without a trace of what was behind it, a log that ends early is one that a crash has cut (doc.go).
					early := strings.HasSuffix(file, ".mem") && (what == "cut" || what == "zeroed" || what == "removed")
					if errors.Is(err, errLost) && !early {
						t.Error(err)
					}
					if err != nil {
						t.Logf("group %d: %v", g+1, err)
						if !strings.Contains(err.Error(), fmt.Sprint("group ", g+1)) {
							t.Errorf("the error does not name the place: %v", err)
						}
					}
				}
				if said.Len() > 0 {
					t.Logf("said:\n%s", &said)
				}
			})
		}
	}
}

// errLost says that nobody was told of what is missing.
var errLost = errors.New("lost without a word")

// damagedGroup reads and compacts a group of a damaged directory. It returns an error that names damage; what is served must be right.
func damagedGroup(t *testing.T, s *Store, id GroupID, acked int64) (err error) {
	t.Helper()
	p, err := s.Partition(id)
	if err != nil {
		return err
	}
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("group %d: %v", id, r)
		}
	}()
	replay(p)
	p.SetConfig(childConfig())
	for range 2 {
		m := p.Marks()
		for at := m.LogStart; at < m.LastStable; {
			res, err := p.Read(at, 1, true, ReadCommitted)
			if err != nil {
				return err
			}
			h, err := record.ParseHeader(res.Batches)
			if err != nil {
				t.Fatal(err)
			}
			at = h.LastOffset() + 1
		}
		if m.HighWatermark < acked {
			return fmt.Errorf("%w: group %d ends at %d, acknowledged is %d", errLost, id, m.HighWatermark, acked)
		}
		checkChildLog(t, p)
		if err := s.Compact(id); err != nil {
			return err
		}
	}
	return nil
}
