package tables

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"strconv"

	"github.com/rowtrail/rowtrail/log/fields"
)

// What is known here of a memtable's log: a header, then records of meta, user meta, lengths, expiry, key with version, value and
// checksum. A transaction's records have its mark, and the last of them, under a key of its own, the mark of the end.
const (
	logHeader = 20
	txnRecord = 1 << 6
	txnEnd    = 1 << 7
	endKey    = "!badger!txn"
	// endHead is the length of what stands before the key of an end.
	endHead    = 5
	versionLen = 8
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// CheckLogs verifies the memtables' logs of a database in dir that syncs each write. Opening cuts a log behind the last transaction
// before the first wrong record. That is right for the one transaction that a crash has cut short. But the next one
// is only begun when one is synced, so the ends of two behind the cut are damage, and what would be lost was acknowledged.
func CheckLogs(dir string) error {
	names, err := filepath.Glob(filepath.Join(dir, "*.mem"))
	if err != nil {
		return err
	}
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		at, broken := validLog(data)
		if n := endsBehind(data[at:], broken); n > 0 {
			return fmt.Errorf("%w: log %s is wrong at or behind byte %d, and %d transactions that were complete lie behind", ErrDamaged, name, at, n)
		}
	}
	return nil
}

// validLog returns where Badger would cut the log, and the version of the transaction that is not complete there; 0: none is begun.
func validLog(data []byte) (end int, broken uint64) {
	at := min(logHeader, len(data))
	for end = at; ; {
		meta, key, value, size := logRecord(data[at:])
		if size == 0 {
			return end, broken
		}
		at += size
		version := ^binary.BigEndian.Uint64(key[len(key)-versionLen:])
		switch {
		case meta&txnRecord != 0:
			if broken != 0 && broken != version {
				return end, broken
			}
			broken = version
		case meta&txnEnd != 0:
			if n, err := strconv.ParseUint(string(value), 10, 64); err != nil || n != broken {
				return end, broken
			}
			end, broken = at, 0
		case broken != 0:
			return end, broken
		default:
			end = at // moved by a collection, in no transaction
		}
	}
}

// logRecord parses the record that data begins with. Its size is 0 where there is no whole and right one.
func logRecord(data []byte) (meta byte, key, value []byte, size int) {
	n, klen, vlen := RecordHeader(data)
	body := int64(n) + klen + vlen
	if n == 0 || klen <= versionLen || int64(len(data)) < body+crc32.Size ||
		crc32.Checksum(data[:body], castagnoli) != binary.BigEndian.Uint32(data[body:]) {
		return 0, nil, nil, 0
	}
	at := int64(n) + klen
	return data[0], data[n:at], data[at:body], int(body) + crc32.Size
}

// RecordHeader parses what a record of any of Badger's logs begins with: meta, user meta, length of the key and of the value, expiry. n is how long
// that is; 0: it cannot be believed.
func RecordHeader(b []byte) (n int, klen, vlen int64) {
	if len(b) < 2 {
		return 0, 0, 0
	}
	r := fields.Read(b[2:])
	k, v, expiry := r.Uvarint(), r.Uvarint(), r.Uvarint()
	if !r.OK() || max(k, v, expiry) > 1<<31 {
		return 0, 0, 0
	}
	return len(b) - r.Len(), int64(k), int64(v)
}

// endsBehind counts the transactions that have ended in data, if that is not just the one that a crash has cut short.
func endsBehind(data []byte, broken uint64) int {
	n, last := 0, uint64(0)
	for at := 0; ; {
		i := bytes.Index(data[at:], []byte(endKey))
		if i < 0 {
			break
		}
		at += i + len(endKey)
		start := at - len(endKey) - endHead
		if start < 0 {
			continue
		}
		meta, key, value, size := logRecord(data[start:])
		if size == 0 || meta&txnEnd == 0 || len(key) != len(endKey)+versionLen {
			continue
		}
		if version, err := strconv.ParseUint(string(value), 10, 64); err == nil {
			n, last = n+1, version
		}
	}
	if n == 1 && (broken == 0 || broken == last) {
		return 0
	}
	return n
}
