package log

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"

	"github.com/dgraph-io/badger/v4"

	"github.com/rowtrail/rowtrail/log/tables"
)

// What is known here of Badger's value-log files: a header, then records of meta, user meta, lengths, key with version,
// value and checksum. Badger stops reading a file at the first record whose checksum is wrong. That is right at the end that
// a crash left; in the middle of a file that was damaged later, it would drop everything behind.
const (
	valueLogHeader  = 20
	maxRecordHeader = 2 + 3*binary.MaxVarintLen32
	versionLen      = 8
	maxRecordKey    = 1 << 16
)

// valueRecord is one record of a value-log file. Its slices are valid until the next one is read.
type valueRecord struct {
	at         int64
	key, value []byte
	version    uint64
	intact     bool
}

// walkValueLog calls f for each record from the start on, damaged ones too as long as their lengths can be believed.
func walkValueLog(path string, f func(*valueRecord) error) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }() // only read
	info, err := file.Stat()
	if err != nil {
		return err
	}
	in := bufio.NewReaderSize(io.NewSectionReader(file, valueLogHeader, info.Size()-valueLogHeader), 256<<10)
	var buf []byte
	for at := int64(valueLogHeader); ; {
		head, err := in.Peek(maxRecordHeader)
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		n, klen, vlen := tables.RecordHeader(head)
		size := int64(n) + klen + vlen + crc32.Size
		if n == 0 || klen <= versionLen || klen > maxRecordKey || at+size > info.Size() {
			return nil
		}
		if int64(cap(buf)) < size {
			buf = make([]byte, size)
		}
		buf = buf[:size]
		if _, err := io.ReadFull(in, buf); err != nil {
			return err
		}
		body := buf[:size-crc32.Size]
		key := body[n : int64(n)+klen]
		r := valueRecord{
			at: at, key: key[:klen-versionLen], value: body[int64(n)+klen:],
			version: ^binary.BigEndian.Uint64(key[klen-versionLen:]),
			intact:  crc32.Checksum(body, castagnoli) == binary.BigEndian.Uint32(buf[size-crc32.Size:]),
		}
		if err := f(&r); err != nil {
			return err
		}
		at += size
	}
}

// valueLogFile is where a value-log file is.
func valueLogFile(dir string, fid uint32) string {
	return filepath.Join(dir, fmt.Sprintf("%06d.vlog", fid))
}

// newestValueLog is the value-log file with the highest number; "": there is none.
func newestValueLog(dir string) (string, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.vlog"))
	if err != nil || len(files) == 0 {
		return "", err
	}
	return files[len(files)-1], nil // names have leading zeros
}

// damagedSuffix marks the copy of a value-log file that Badger is going to cut at a damaged record.
const damagedSuffix = ".damaged"

// keepDamaged copies the newest value-log file if intact records lie behind a damaged one. Opening cuts it there:
// right if a crash left them unacknowledged, wrong if the damage came later, which only the keys can tell.
func (d *dataDir) keepDamaged() error {
	newest, err := newestValueLog(d.path)
	if err != nil || newest == "" {
		return err
	}
	damaged, behind := false, false
	err = walkValueLog(newest, func(r *valueRecord) error {
		behind = behind || damaged && r.intact
		damaged = damaged || !r.intact
		return nil
	})
	if err != nil || !behind {
		return err
	}
	return copyFile(newest+damagedSuffix, newest)
}

func copyFile(to, from string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }() // only read
	out, err := os.OpenFile(to+".tmp", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o640)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	if err = errors.Join(err, out.Sync(), out.Close()); err != nil {
		return err
	}
	return errors.Join(os.Rename(to+".tmp", to), syncDir(filepath.Dir(to)))
}

// restoreDamaged writes the values again that opening cut off although their keys are there. Only the damaged records
// stay lost; reading them is an error.
func (s *Store) restoreDamaged() error {
	files, err := filepath.Glob(filepath.Join(s.dir.path, "*.vlog"+damagedSuffix))
	if err != nil {
		return err
	}
	for _, name := range files {
		if err := s.restoreFile(name); err != nil {
			return fmt.Errorf("restore %s: %w", name, err)
		}
	}
	return nil
}

func (s *Store) restoreFile(name string) error {
	first, restored := int64(0), 0
	err := walkValueLog(name, func(r *valueRecord) error {
		if !r.intact && first == 0 {
			first = r.at
		}
		if first == 0 || !r.intact {
			return nil
		}
		err := s.db.Update(func(txn *badger.Txn) error {
			item, err := txn.Get(r.key)
			if errors.Is(err, badger.ErrKeyNotFound) || err == nil && item.Version() != r.version {
				return nil // never acknowledged, deleted, or written again since
			}
			if err != nil {
				return err
			}
			restored++
			return txn.Set(append([]byte(nil), r.key...), append([]byte(nil), r.value...))
		})
		return err
	})
	if err != nil {
		return err
	}
	if restored > 0 {
		s.log.Error("a value-log file is damaged: what lies behind was restored, the damaged records are lost and reading them is an error",
			"file", name, "at", first, "restored", restored)
	}
	return errors.Join(os.Remove(name), syncDir(s.dir.path))
}

// errDamagedFile stops a collection that would remove retained records together with a damaged file.
var errDamagedFile = errors.New("value-log file is damaged")

// checkFile is called before a value-log file is collected. Badger would take a damaged record for its end and remove what
// lies behind with the file.
func (s *Store) checkFile(fid uint32) error {
	name := valueLogFile(s.dir.path, fid)
	damaged := int64(0)
	return walkValueLog(name, func(r *valueRecord) error {
		if !r.intact && damaged == 0 {
			damaged = r.at
		}
		if damaged == 0 {
			return nil
		}
		if needed, err := s.retained(r.key, r.version); err != nil || !needed {
			return err
		}
		id, _ := groupOfKey(r.key)
		return fmt.Errorf("%w: %s at byte %d, with records of group %d there or behind; their disk space is not given back "+
			"until retention or the topic's deletion removes them", errDamagedFile, name, damaged, id)
	})
}

// retained reports that a record of the value log is still needed: its key's newest version, and not below a horizon nor in a
// run without a name.
func (s *Store) retained(key []byte, version uint64) (bool, error) {
	if m, err := parseLogKey(key); err == nil {
		id, _ := groupOfKey(key)
		s.mu.Lock()
		x, dropped := s.partitions[id], s.drops[id] != nil
		s.mu.Unlock()
		if dropped || x != nil && x.p != nil && m.index < x.p.FirstIndex() {
			return false, nil
		}
	}
	if run, _, err := parseRunKey(key); err == nil {
		id, _ := groupOfKey(key)
		s.mu.Lock()
		x, dropped := s.partitions[id], s.drops[id] != nil
		s.mu.Unlock()
		if dropped || x != nil && x.p != nil && !x.p.namesRun(run) {
			return false, nil
		}
	}
	needed := false
	err := s.view(func(txn *badger.Txn) error {
		item, err := txn.Get(key)
		if errors.Is(err, badger.ErrKeyNotFound) {
			return nil
		}
		needed = err == nil && item.Version() == version
		return err
	})
	return needed, err
}

// namesRun reports that a run is part of the log or being written.
func (p *Partition) namesRun(id uint64) bool {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return id >= p.runs.writing || p.runs.man.names(id)
}
