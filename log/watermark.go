package log

import (
	"fmt"
	"sync/atomic"
	"syscall"
)

const (
	// defaultMinFree covers, besides what is in flight, what Badger writes on its own before it can free anything: a
	// value-log file rewritten by its garbage collection, tables being merged, memtables and their logs.
	defaultMinFree = 512 << 20
	// floorShare of MinFreeBytes is kept even from commits: Badger writes through memory maps, where a full disk is a
	// SIGBUS and not an error.
	floorShare = 8
	// compactionShare of MinFreeBytes is kept from compaction. It may go below the watermark, as it alone gives back what a
	// compacted topic holds: if it stopped where appends do, a disk full of replaced records would stay full.
	compactionShare = 2
)

// watermark knows whether the file system has room. It has no clock: its owner calls check.
type watermark struct {
	path    string
	minFree int64
	statfs  func(path string) (free int64, err error)

	free     atomic.Int64
	written  atomic.Int64 // since the last check
	writable atomic.Bool
}

func newWatermark(path string, minFree int64) *watermark {
	if minFree <= 0 {
		minFree = defaultMinFree
	}
	return &watermark{path: path, minFree: minFree, statfs: statfs}
}

func statfs(path string) (int64, error) {
	var st syscall.Statfs_t
	if err := syscall.Statfs(path, &st); err != nil {
		return 0, fmt.Errorf("free space of %s: %w", path, err)
	}
	return int64(st.Bavail) * st.Bsize, nil
}

// check looks at the file system and reports whether the answer of err changed.
func (w *watermark) check() (changed bool, err error) {
	free, err := w.statfs(w.path)
	if err != nil {
		return false, err
	}
	w.free.Store(free)
	w.written.Store(0)
	ok := free >= w.minFree
	return w.writable.Swap(ok) != ok, nil
}

// grew notes written bytes.
func (w *watermark) grew(n int64) { w.written.Add(n) }

// err is ErrDiskFull while there is too little room for new batches.
func (w *watermark) err() error {
	if w.writable.Load() {
		return nil
	}
	return fmt.Errorf("%w: %d MiB are free on the file system of %s, %d MiB are needed; free space or lower retention",
		ErrDiskFull, w.free.Load()>>20, w.path, w.minFree>>20)
}

// compactionErr is ErrDiskFull while there is too little room for compaction to write n bytes.
func (w *watermark) compactionErr(n int64) error {
	if w.free.Load()-w.written.Load()-n >= w.minFree/compactionShare {
		return nil
	}
	return fmt.Errorf("%w: %d MiB are free on the file system of %s, compaction needs %d MiB; free space or delete topics",
		ErrDiskFull, w.free.Load()>>20, w.path, w.minFree/compactionShare>>20)
}

// room reports whether a commit of n bytes leaves Badger what it needs.
func (w *watermark) room(n int64) bool {
	return w.free.Load()-w.written.Load()-n >= w.minFree/floorShare
}
