package tables

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/dgraph-io/badger/v4"
)

// A process may be killed between creating a file and giving it a size. Badger alone does not open what that leaves.
func TestAFileThatWasOnlyCreatedIsRemoved(t *testing.T) {
	for _, name := range []string{"00009.mem", "000009.vlog"} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			options := badger.DefaultOptions(dir).WithLogger(nil)
			write(t, options)
			if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
				t.Fatal(err)
			}
			if db, err := badger.Open(options); err == nil {
				_ = db.Close()
				t.Fatal("Badger opens it by itself: RemoveUnborn is of no use any more")
			}
			if err := os.Truncate(filepath.Join(dir, name), 0); err != nil { // Badger has given it a size
				t.Fatal(err)
			}
			if err := RemoveUnborn(dir); err != nil {
				t.Fatal(err)
			}
			db, err := badger.Open(options)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = db.Close() }()
			if err := db.View(func(txn *badger.Txn) error {
				_, err := txn.Get([]byte("k"))
				return err
			}); err != nil {
				t.Fatalf("what was written before: %v", err)
			}
		})
	}
}

// Badger empties the file of a memtable that it has flushed, and removes it then: a kill in between leaves the oldest one empty.
func TestAFileThatWasOnlyEmptiedIsRemoved(t *testing.T) {
	dir := t.TempDir()
	options := badger.DefaultOptions(dir).WithLogger(nil)
	write(t, options)
	db, err := badger.Open(options) // it has a memtable's file while it is open
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.mem"))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	memtable, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{"00005.mem": nil, "00006.mem": memtable} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := RemoveUnborn(dir); err != nil {
		t.Fatal(err)
	}
	db, err = badger.Open(options)
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestAnEmptyFileThatNoKillLeavesStays(t *testing.T) {
	dir := t.TempDir()
	for name, content := range map[string]string{
		"00001.mem": "x", "00002.mem": "", "00003.mem": "x", "000001.vlog": "", "000002.vlog": "x", "000003.vlog": "x",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := RemoveUnborn(dir); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "00002.mem")); err != nil {
		t.Error(err)
	}
	// A value log's file that was being collected is gone.
	if _, err := os.Stat(filepath.Join(dir, "000001.vlog")); !os.IsNotExist(err) {
		t.Error(err)
	}
}

func write(t *testing.T, options badger.Options) {
	t.Helper()
	db, err := badger.Open(options)
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Update(func(txn *badger.Txn) error { return txn.Set([]byte("k"), []byte("v")) }); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}
