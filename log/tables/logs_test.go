package tables

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dgraph-io/badger/v4"
)

// memtableLog commits some transactions of three keys each and returns the log of the memtable that holds them.
func memtableLog(t *testing.T, transactions int) (dir, name string) {
	t.Helper()
	dir = t.TempDir()
	live := filepath.Join(dir, "live")
	db, err := badger.Open(badger.DefaultOptions(live).WithLogger(nil).WithSyncWrites(true).WithMemTableSize(1 << 20).WithValueThreshold(1 << 10))
	if err != nil {
		t.Fatal(err)
	}
	for i := range transactions {
		if err := db.Update(func(txn *badger.Txn) error {
			for k := range 3 {
				if err := txn.Set(fmt.Appendf(nil, "key-%d-%d", i, k), bytes.Repeat([]byte{byte(i)}, 50)); err != nil {
					return err
				}
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	logs, err := filepath.Glob(filepath.Join(live, "*.mem"))
	if err != nil || len(logs) != 1 {
		t.Fatal(logs, err)
	}
	data, err := os.ReadFile(logs[0]) // as a crash leaves it
	if err == nil {
		name = filepath.Join(dir, filepath.Base(logs[0]))
		err = os.WriteFile(name, data, 0o640)
	}
	if err = errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	return dir, name
}

// TestLogsOfMemtables: every flipped byte but those of the last transaction is found, whatever it hits, and no end that a crash leaves is taken
// for damage.
func TestLogsOfMemtables(t *testing.T) {
	const transactions = 8
	dir, name := memtableLog(t, transactions)
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	var ends []int // of each transaction
	for at := logHeader; ; {
		meta, _, _, size := logRecord(data[at:])
		if size == 0 {
			break
		}
		at += size
		if meta&txnEnd != 0 {
			ends = append(ends, at)
		}
	}
	if len(ends) != transactions {
		t.Fatalf("%d transactions are found", len(ends))
	}
	data = data[:ends[transactions-1]+4096] // the rest are zeros
	check := func(change func(b []byte)) error {
		b := bytes.Clone(data)
		change(b)
		if err := os.WriteFile(name, b, 0o640); err != nil {
			t.Fatal(err)
		}
		return CheckLogs(dir)
	}
	if err := check(func([]byte) {}); err != nil {
		t.Fatal(err)
	}
	secure := ends[transactions-2]
	for at := logHeader; at < secure; at++ {
		if err := check(func(b []byte) { b[at] ^= 0x21 }); !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), name) {
			t.Fatalf("byte %d of %d: %v", at, secure, err)
		}
	}
	for at := secure; at < ends[transactions-1]; at++ {
		// What of the last transaction is not on disk may be any of it.
		if err := check(func(b []byte) { b[at] ^= 0x21 }); err != nil {
			t.Fatalf("byte %d, in the last transaction: %v", at, err)
		}
		if err := check(func(b []byte) { clear(b[at:]) }); err != nil {
			t.Fatalf("zeros from byte %d, in the last transaction: %v", at, err)
		}
		if err := check(func(b []byte) { clear(b[secure:at]) }); err != nil {
			t.Fatalf("zeros up to byte %d, in the last transaction: %v", at, err)
		}
	}
	if err := check(func(b []byte) { clear(b[ends[1]:ends[3]]) }); !errors.Is(err, ErrDamaged) {
		t.Errorf("a hole: %v", err)
	}
}
