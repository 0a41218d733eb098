package log

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"
)

// Badger writes values through a memory map of a file that is one hole. Each page of it that a commit touches first makes the
// kernel read ahead of it, clear what it read and find a block, which costs several times what the rest of the commit does, and a
// page that the disk has no block for ends the process. Zeros that were written over the hole before give the pages their place in
// memory and on the disk for a tenth of that, and a full disk is an error.
//
// Writing zeros over a hole changes nothing that anyone can read, as long as nobody writes there at the same time: a commit
// prepares its pages under commitMu, which all writes of values hold, but for those of Badger's garbage collection, which
// collecting keeps apart.
type preparer struct {
	dir        string
	collecting sync.Mutex
	zeros      []byte

	off      bool // where a hole is not told for sure
	file     *os.File
	fid      uint32
	end      int64 // what Badger has written of the file ends here or later
	prepared int64 // what was prepared of it ends here
}

const (
	preparedPage = 4 << 10 // what a file system knows holes in is no larger
	preparePart  = 1 << 20 // of zeros in one write
)

// holesKnown are the file systems, by their magic number, that tell each page which a memory map has changed from a hole at once.
// Others that do may be added; one that did not would lose what was written.
func holesKnown(dir string) bool {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return false
	}
	switch st.Type {
	case unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC, unix.TMPFS_MAGIC:
		return true
	}
	return false
}

func newPreparer(dir string) *preparer {
	return &preparer{dir: dir, off: !holesKnown(dir), zeros: make([]byte, preparePart)}
}

// valueCost is what a record takes of a value-log file; see walkValueLog.
func valueCost(key, value []byte) int64 {
	var b [binary.MaxVarintLen64]byte
	klen := len(key) + versionLen
	n := 2 + binary.PutUvarint(b[:], uint64(klen)) + binary.PutUvarint(b[:], uint64(len(value))) + 1
	return int64(n + klen + len(value) + crc32.Size)
}

func wholePages(n int64) int64 { return (n + preparedPage - 1) / preparedPage * preparedPage }

// prepare makes room for n bytes behind what Badger has written, as far as its file goes. Called under commitMu. It wraps ENOSPC
// where the disk has no room for them.
func (p *preparer) prepare(n int64) error {
	if p.off || n == 0 || wholePages(p.end+n) <= p.prepared || !p.collecting.TryLock() {
		return nil
	}
	defer p.collecting.Unlock()
	err := p.follow()
	if err == nil {
		err = p.fill(n)
	}
	if err != nil && !errors.Is(err, unix.ENOSPC) {
		p.off = true // commits are right without it
	}
	return err
}

// wrote notes that Badger has written n bytes. They may have been the last of a file, but then the next one is not known yet.
func (p *preparer) wrote(n int64) { p.end += n }

// follow opens the file that Badger writes to now, the one with the highest number.
func (p *preparer) follow() error {
	fid := p.fid
	if p.file == nil {
		newest, err := newestValueLog(p.dir)
		if err != nil || newest == "" {
			return err
		}
		if _, err := fmt.Sscanf(filepath.Base(newest), "%06d.vlog", &fid); err != nil {
			return fmt.Errorf("name of a value-log file: %w", err)
		}
		return p.open(fid)
	}
	for {
		if _, err := os.Lstat(valueLogFile(p.dir, fid+1)); errors.Is(err, fs.ErrNotExist) {
			break
		} else if err != nil {
			return err
		}
		fid++
	}
	if fid == p.fid {
		return nil
	}
	return p.open(fid)
}

func (p *preparer) open(fid uint32) error {
	file, err := os.OpenFile(valueLogFile(p.dir, fid), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	if p.file != nil {
		_ = p.file.Close() // nothing that was written is lost with it
	}
	p.file, p.fid, p.end, p.prepared = file, fid, 0, 0
	// What the kernel has read ahead of the file's head would make it go on to do so.
	return unix.Fadvise(int(file.Fd()), preparedPage, 0, unix.FADV_DONTNEED)
}

// fill writes zeros over the hole behind the end, as far as n bytes go and the file does.
func (p *preparer) fill(n int64) error {
	if p.file == nil {
		return nil
	}
	from := max(p.end/preparedPage*preparedPage, p.prepared)
	hole, err := p.file.Seek(from, unix.SEEK_HOLE)
	if err != nil {
		return err
	}
	switch written := wholePages(p.end); {
	case hole < written: // it cannot be believed
		return fmt.Errorf("%s: a hole is told at byte %d, and values end behind byte %d", p.file.Name(), hole, p.end)
	case hole > max(written, p.prepared):
		p.end = hole - preparedPage + 1 // Badger's garbage collection was here
	}
	info, err := p.file.Stat()
	if err != nil {
		return err
	}
	to := min(wholePages(p.end+n), info.Size())
	for at := hole; at < to; {
		part := min(to-at, preparePart)
		if _, err := p.file.WriteAt(p.zeros[:part], at); err != nil {
			return err
		}
		at += part
	}
	p.prepared = max(p.prepared, hole, to)
	return nil
}

func (p *preparer) close() error {
	if p.file == nil {
		return nil
	}
	return p.file.Close()
}
