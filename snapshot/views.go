package snapshot

import (
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"github.com/dgraph-io/badger/v4"
)

// Views are the views of one node. Safe for concurrent use.
type Views struct {
	db     *database
	logger *slog.Logger

	readers sync.Pool // of *record.Reader

	mu     sync.Mutex
	topics map[string]*topic
	ids    map[fold]uint32 // of every fold in the database
	dead   []uint32        // of the folds that are no more, whose entries are still in the database
	lastID uint32
}

// Open opens or creates the database. One of another format is emptied: it can be folded again.
func Open(dir string, opts Options) (*Views, error) { return open(dir, opts, memTableSize) }

func open(dir string, opts Options, memTable int64) (*Views, error) {
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	reopen := func() (*badger.DB, error) { return openBadger(dir, opts.Logger, memTable) }
	db, err := reopen()
	if err != nil {
		return nil, err
	}
	v := &Views{db: newDatabase(db, reopen), logger: opts.Logger, topics: map[string]*topic{}, ids: map[fold]uint32{}}
	if err := v.load(); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return v, nil
}

// load reads the ids of the folds, and of those that are no more.
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
			id := binary.BigEndian.Uint32(dead.Item().Key()[1:])
			v.dead, v.lastID = append(v.dead, id), max(v.lastID, id)
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
func (v *Views) Close() error { return v.db.end() }

// enter has the database open until leave.
func (v *Views) enter() error { return v.db.enter() }

func (v *Views) leave() { v.db.leave() }
