package log

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/rowtrail/rowtrail/log/tables"
)

// formatVersion is the layout of the data directory: key spaces, key fields and fold encodings. A release reads its own
// version and may upgrade older ones; it never opens a newer one.
const formatVersion = 1

const (
	lockName   = "LOCK.rowtrail"
	formatName = "FORMAT"
	formatTag  = "rowtrail-log"
)

// dataDir is a locked data directory of a known format.
type dataDir struct {
	path string
	lock *os.File
}

// openDataDir creates dir where needed, locks it against other processes and checks its format.
func openDataDir(path string) (*dataDir, error) {
	if err := os.MkdirAll(path, 0o750); err != nil {
		return nil, fmt.Errorf("create data directory: %w", err)
	}
	lock, err := lockDir(path)
	if err != nil {
		return nil, err
	}
	d := &dataDir{path: path, lock: lock}
	if err := d.checkFormat(); err != nil {
		return nil, errors.Join(err, d.close())
	}
	return d, nil
}

// lockDir takes the kernel's lock, which ends with the process, however it ends.
func lockDir(path string) (*os.File, error) {
	name := filepath.Join(path, lockName)
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o640)
	if err != nil {
		return nil, fmt.Errorf("open lock file: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, errors.Join(lockError(path, f, err), f.Close())
	}
	if err := f.Truncate(0); err == nil {
		_, err = f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
		if err == nil {
			return f, nil
		}
	}
	// The process id only helps whoever finds the directory locked; the lock holds without it, on a full disk too.
	return f, nil
}

// lockError names who holds the lock, if that is known.
func lockError(path string, f *os.File, err error) error {
	if !errors.Is(err, syscall.EWOULDBLOCK) {
		return fmt.Errorf("lock data directory %s: %w", path, err)
	}
	owner := "another process"
	if b, err := io.ReadAll(io.LimitReader(f, 32)); err == nil && len(b) > 0 {
		owner = "process " + strings.TrimSpace(string(b))
	}
	return fmt.Errorf("%w: %s is open in %s; stop it or choose another data directory", ErrLocked, path, owner)
}

func (d *dataDir) checkFormat() error {
	name := filepath.Join(d.path, formatName)
	b, err := os.ReadFile(name)
	if errors.Is(err, os.ErrNotExist) {
		return d.writeFormat(name)
	}
	if err != nil {
		return fmt.Errorf("read format of data directory: %w", err)
	}
	tag, version, _ := strings.Cut(strings.TrimSpace(string(b)), " ")
	v, err := strconv.Atoi(version)
	switch {
	case tag != formatTag || err != nil:
		return fmt.Errorf("%w: %s does not name a log; choose another data directory", ErrFormat, name)
	case v > formatVersion:
		return fmt.Errorf("%w: %s says version %d and this release reads up to %d; upgrade rowtrail", ErrFormat, name, v, formatVersion)
	case v < formatVersion:
		return fmt.Errorf("%w: %s says version %d, which no release wrote", ErrFormat, name, v)
	}
	return nil
}

// writeFormat marks a new directory. One that holds a database without a mark is not ours to open.
func (d *dataDir) writeFormat(name string) error {
	if found, err := filepath.Glob(filepath.Join(d.path, "*.vlog")); err != nil || len(found) > 0 {
		return fmt.Errorf("%w: %s holds a database but no %s file", ErrFormat, d.path, formatName)
	}
	tmp := name + ".tmp"
	f, err := os.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o640)
	if err != nil {
		return fmt.Errorf("write format of data directory: %w", err)
	}
	_, err = fmt.Fprintf(f, "%s %d\n", formatTag, formatVersion)
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(tmp, name)
	}
	if err == nil {
		err = syncDir(d.path)
	}
	if err != nil {
		return fmt.Errorf("write format of data directory: %w", err)
	}
	return nil
}

func syncDir(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

func (d *dataDir) close() error { return d.lock.Close() }

// diskBytes is what the directory occupies on disk; files are sparse, so it is less than their sizes tell.
func (d *dataDir) diskBytes() int64 {
	var n int64
	files, err := os.ReadDir(d.path)
	if err != nil {
		return 0
	}
	for _, e := range files {
		if info, err := e.Info(); err == nil {
			if st, ok := info.Sys().(*syscall.Stat_t); ok {
				n += st.Blocks * 512
			}
		}
	}
	return n
}

// checkTables verifies the tables, and the logs of what is in none yet, before Badger opens them. Tables hold keys and small values only, so they are few.
func (d *dataDir) checkTables() error {
	err := tables.Check(d.path, 0)
	switch {
	case errors.Is(err, tables.ErrCut):
		return fmt.Errorf("%w: %w; restore the data directory from a backup, or, if the machine lost its power at that moment, cut the file there",
			ErrDamaged, err)
	case errors.Is(err, tables.ErrDamaged):
		return fmt.Errorf("%w: %w; restore the data directory from a backup, or this file", ErrDamaged, err)
	case err != nil:
		return err
	}
	// Invariant 1: what a cut would take was acknowledged.
	if err := tables.CheckLogs(d.path); errors.Is(err, tables.ErrDamaged) {
		return fmt.Errorf("%w: %w; restore the data directory from a backup", ErrDamaged, err)
	} else if err != nil {
		return err
	}
	return nil
}
