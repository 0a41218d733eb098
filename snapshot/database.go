package snapshot

import (
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/options"

	"github.com/rowtrail/rowtrail/log/tables"
)

// Sizes of the database: small, as a view is an index.
const (
	memTableSize   = 8 << 20 // Badger takes transactions of 15% of it; up to three are in memory
	blockCacheSize = 16 << 20
	indexCacheSize = 16 << 20
	valueThreshold = 64 << 10 // an entry is far smaller: nothing goes to the value log
)

// restAfter is how long nobody has to have used the database before it is closed. It has to be more than Badger takes to begin with its
// compactions, or they would never come.
const restAfter = 10 * time.Second

// database is the Badger of the views. It rests, closed, while nobody needs it: Badger's compactors look for work twenty times a second each, which
// on an idle node costs more than all that the log does.
type database struct {
	*badger.DB // nil: it rests. Invariant: it stays what it is between enter and leave.

	reopen func() (*badger.DB, error)

	mu     sync.Mutex
	unused sync.Cond // users is 0
	users  int
	used   time.Time // when the last user left
	closed bool
}

func newDatabase(db *badger.DB, reopen func() (*badger.DB, error)) *database {
	d := &database{DB: db, reopen: reopen, used: time.Now()}
	d.unused.L = &d.mu
	return d
}

// enter has the database open until leave.
func (d *database) enter() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return ErrClosed
	}
	if d.DB == nil {
		db, err := d.reopen()
		if err != nil {
			return err
		}
		d.DB = db
	}
	d.users++
	return nil
}

func (d *database) leave() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.used = time.Now()
	if d.users--; d.users == 0 {
		d.unused.Broadcast()
	}
}

// rest closes the database when nobody has used it for a while.
func (d *database) rest(now time.Time) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.DB == nil || d.users > 0 || now.Sub(d.used) < restAfter {
		return nil
	}
	return d.shut()
}

// end waits for all users and closes the database for good.
func (d *database) end() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
	for d.users > 0 {
		d.unused.Wait()
	}
	return d.shut()
}

func (d *database) isClosed() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.closed
}

func (d *database) shut() error {
	if d.DB == nil {
		return nil
	}
	err := d.DB.Close()
	d.DB = nil
	if err != nil {
		return fmt.Errorf("close views database: %w", err)
	}
	return nil
}

// openBadger opens or creates the database in dir.
func openBadger(dir string, logger *slog.Logger, memTable int64) (*badger.DB, error) {
	if err := tables.RemoveUnborn(dir); err != nil {
		return nil, fmt.Errorf("open views database in %s: %w", dir, err)
	}
	adapter := tables.NewLogger(logger, "storage engine of the views")
	db, err := badger.Open(badger.DefaultOptions(dir).
		WithLogger(adapter).
		WithSyncWrites(false).
		WithDetectConflicts(false).
		WithNumVersionsToKeep(1).
		WithCompression(options.Snappy).
		WithMemTableSize(memTable).
		WithValueThreshold(valueThreshold).
		WithNumMemtables(2).
		WithNumCompactors(2).
		WithValueLogFileSize(memTable).
		WithBlockCacheSize(blockCacheSize).
		WithIndexCacheSize(indexCacheSize).
		WithMetricsEnabled(false))
	if err != nil {
		return nil, fmt.Errorf("open views database in %s: %w", dir, err)
	}
	adapter.Opened()
	return db, nil
}
