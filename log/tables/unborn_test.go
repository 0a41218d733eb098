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

func TestAnEmptyFileThatIsNotTheNewestStays(t *testing.T) {
	dir := t.TempDir()
	for name, content := range map[string]string{"00001.mem": "", "00002.mem": "x"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := RemoveUnborn(dir); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "00001.mem")); err != nil {
		t.Fatal(err)
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
