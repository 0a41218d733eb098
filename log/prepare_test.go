package log

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"
)

// mappedLog writes as Badger does: behind what it wrote, through a map of a file that is a hole.
type mappedLog struct {
	dir  string
	fid  int
	file *os.File
	data []byte
	at   int
	want []byte
}

const mappedSize = 1 << 20

func (m *mappedLog) rotate() error {
	if m.file != nil {
		if err := m.close(); err != nil {
			return err
		}
	}
	m.fid++
	var err error
	if m.file, err = os.OpenFile(filepath.Join(m.dir, fmt.Sprintf("%06d.vlog", m.fid)), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600); err != nil {
		return err
	}
	if err := m.file.Truncate(mappedSize); err != nil {
		return err
	}
	m.data, err = unix.Mmap(int(m.file.Fd()), 0, mappedSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	m.at, m.want = 0, nil
	m.write(valueLogHeader)
	return err
}

// close ends a file as Badger does.
func (m *mappedLog) close() error {
	return errors.Join(unix.Munmap(m.data), m.file.Truncate(int64(m.at)), m.file.Close())
}

func (m *mappedLog) write(n int) {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(rand.Uint32()) | 1 // no value is a zero that a hole could hide
	}
	m.want = append(m.want, b...)
	m.at += copy(m.data[m.at:], b)
}

func (m *mappedLog) check() error {
	if !bytes.Equal(m.data[:m.at], m.want) {
		return errors.New("what was written has changed")
	}
	if rest := m.data[m.at:]; len(bytes.TrimLeft(rest, "\x00")) > 0 {
		return errors.New("there is something behind what was written")
	}
	return nil
}

func TestPreparingChangesNothing(t *testing.T) {
	if !holesKnown(t.TempDir()) {
		t.Skip("this file system does not tell holes")
	}
	rapid.Check(t, func(r *rapid.T) {
		dir, err := os.MkdirTemp(t.TempDir(), "")
		if err != nil {
			t.Fatal(err)
		}
		m := &mappedLog{dir: dir}
		p := newPreparer(dir)
		must := func(err error) {
			if err != nil {
				r.Fatal(err)
			}
		}
		must(m.rotate())
		size := rapid.Custom(func(r *rapid.T) int {
			return rapid.OneOf(rapid.IntRange(1, 300), rapid.IntRange(4000, 4200), rapid.IntRange(1, 100_000)).Draw(r, "n")
		})
		r.Repeat(map[string]func(*rapid.T){
			"commit": func(r *rapid.T) {
				n := size.Draw(r, "bytes")
				if m.at+n > mappedSize {
					must(m.rotate())
				}
				must(p.prepare(int64(n) / 2)) // what was known before
				must(p.prepare(int64(n)))
				p.wrote(int64(n))
				m.write(n)
			},
			"commit while collecting": func(r *rapid.T) {
				n := size.Draw(r, "bytes")
				if m.at+2*n > mappedSize {
					must(m.rotate())
				}
				p.collecting.Lock()
				defer p.collecting.Unlock()
				must(p.prepare(int64(n)))
				p.wrote(int64(n))
				m.write(n)
				m.write(n)
			},
			"collect": func(r *rapid.T) {
				n := size.Draw(r, "bytes")
				if m.at+n > mappedSize {
					must(m.rotate())
				}
				m.write(n)
			},
			"rotate": func(*rapid.T) { must(m.rotate()) },
			"sync":   func(*rapid.T) { must(unix.Msync(m.data, unix.MS_SYNC)) },
			"": func(*rapid.T) {
				must(m.check())
				if p.off {
					r.Fatal("the file is not prepared any more")
				}
			},
		})
		must(errors.Join(m.close(), p.close()))
	})
}

// TestPreparedPages sees that commits find their pages prepared, over several files.
func TestPreparedPages(t *testing.T) {
	s := mustOpen(t, t.TempDir(), Options{})
	defer s.Close()
	s.keeper.stop() // it commits too
	p := mustPartition(t, s, 1)
	if s.prepare.off {
		t.Skip("this file system does not tell holes")
	}
	var touched int64
	for i := range 200 {
		appendAll(t, s, p, batchOf(500_000, 1))
		touched += 500_000
		if s.prepare.off || s.prepare.prepared < s.prepare.end {
			t.Fatalf("commit %d: prepared up to %d, written up to %d, given up: %v", i, s.prepare.prepared, s.prepare.end, s.prepare.off)
		}
	}
	if s.prepare.fid < 2 || touched < valueLogFileSize {
		t.Fatalf("value-log file %d after %d bytes", s.prepare.fid, touched)
	}
	// What was reckoned is where the last record ends.
	last := int64(0)
	if err := walkValueLog(valueLogFile(s.dir.path, s.prepare.fid), func(r *valueRecord) error {
		last = r.at + valueCost(make([]byte, len(r.key)), r.value)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if s.prepare.end > last || s.prepare.end < last-preparedPage {
		t.Errorf("records end at %d, reckoned was %d", last, s.prepare.end)
	}
}

func TestPreparingOnAFullDisk(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=8m"); err != nil {
		t.Skip("no file system can be mounted here:", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	m := &mappedLog{dir: dir}
	if err := m.rotate(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "filler"), make([]byte, 8<<20), 0o600); !errors.Is(err, unix.ENOSPC) {
		t.Fatal(err)
	}
	p := newPreparer(dir)
	for range 2 {
		if err := p.prepare(10_000); !errors.Is(err, unix.ENOSPC) {
			t.Fatalf("a full disk is %v", err)
		}
	}
	if err := os.Remove(filepath.Join(dir, "filler")); err != nil {
		t.Fatal(err)
	}
	if err := p.prepare(10_000); err != nil {
		t.Fatal(err)
	}
	m.write(10_000)
	if err := errors.Join(m.check(), m.close(), p.close()); err != nil {
		t.Fatal(err)
	}
}
