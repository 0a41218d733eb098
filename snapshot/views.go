package snapshot

import (
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"sync"

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

// Views are the views of one node. Safe for concurrent use.
type Views struct {
	db     *badger.DB
	logger *slog.Logger

	readers sync.Pool // of *record.Reader

	mu     sync.Mutex
	closed bool
	users  sync.WaitGroup // what uses db; nothing is added once closed
	topics map[string]*topic
	ids    map[fold]uint32 // of every fold in the database
	lastID uint32
}

// Open opens or creates the database. One of another format is emptied: it can be folded again.
func Open(dir string, opts Options) (*Views, error) { return open(dir, opts, memTableSize) }

func open(dir string, opts Options, memTable int64) (*Views, error) {
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	if err := tables.RemoveUnborn(dir); err != nil {
		return nil, fmt.Errorf("open views database in %s: %w", dir, err)
	}
	adapter := tables.NewLogger(opts.Logger, "storage engine of the views")
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
	v := &Views{db: db, logger: opts.Logger, topics: map[string]*topic{}, ids: map[fold]uint32{}}
	if err := v.load(); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return v, nil
}

// load reads the folds' ids.
func (v *Views) load() error {
	want := []byte{formatVersion}
	var got []byte
	err := v.db.View(func(txn *badger.Txn) error {
		item, err := txn.Get(metaKey())
		if err != nil {
			return err
		}
		got, err = item.ValueCopy(nil)
		return err
	})
	if err != nil && !errors.Is(err, badger.ErrKeyNotFound) {
		return fmt.Errorf("read views format: %w", err)
	}
	if string(got) != string(want) {
		if err := v.db.DropAll(); err != nil {
			return fmt.Errorf("empty views of another format: %w", err)
		}
		return v.db.Update(func(txn *badger.Txn) error { return txn.Set(metaKey(), want) })
	}
	return v.db.View(func(txn *badger.Txn) error {
		it := txn.NewIterator(badger.IteratorOptions{Prefix: []byte{spaceFold}})
		defer it.Close()
		for it.Rewind(); it.Valid(); it.Next() {
			id, err := idOf(it.Item())
			if err != nil {
				return err
			}
			f, err := parseFoldKey(it.Item().Key())
			if err != nil {
				return err
			}
			v.ids[f] = id
			v.lastID = max(v.lastID, id)
		}
		dead := txn.NewIterator(badger.IteratorOptions{Prefix: []byte{spaceDead}})
		defer dead.Close()
		for dead.Rewind(); dead.Valid(); dead.Next() {
			v.lastID = max(v.lastID, binary.BigEndian.Uint32(dead.Item().Key()[1:]))
		}
		return nil
	})
}

func idOf(item *badger.Item) (id uint32, err error) {
	err = item.Value(func(b []byte) error {
		if len(b) != 4 {
			return fmt.Errorf("read fold id: %w", errCorrupt)
		}
		id = binary.BigEndian.Uint32(b)
		return nil
	})
	return id, err
}

// Close waits for what runs and closes the database.
func (v *Views) Close() error {
	v.mu.Lock()
	closed := v.closed
	v.closed = true
	v.mu.Unlock()
	if closed {
		return nil
	}
	v.users.Wait()
	if err := v.db.Close(); err != nil {
		return fmt.Errorf("close views database: %w", err)
	}
	return nil
}

// enter keeps the database open until leave.
func (v *Views) enter() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.closed {
		return ErrClosed
	}
	v.users.Add(1)
	return nil
}

func (v *Views) leave() { v.users.Done() }
