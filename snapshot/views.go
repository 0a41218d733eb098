package snapshot

import (
	"context"
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
	ids    map[string]uint32 // of every topic with a fold in the database
	lastID uint32
}

// topic is one incarnation of a topic's view.
type topic struct {
	name  string
	id    uint32
	parts []*partition
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
	v := &Views{db: db, logger: opts.Logger, topics: map[string]*topic{}, ids: map[string]uint32{}}
	if err := v.load(); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return v, nil
}

// load reads the topics' ids.
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
		it := txn.NewIterator(badger.IteratorOptions{Prefix: []byte{spaceTopic}})
		defer it.Close()
		for it.Rewind(); it.Valid(); it.Next() {
			id, err := idOf(it.Item())
			if err != nil {
				return err
			}
			v.ids[string(it.Item().Key()[1:])] = id
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
			return fmt.Errorf("read topic id: %w", errCorrupt)
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

// Follow makes a topic's partitions, in order of their numbers, known. It is called again when partitions are added or
// replaced; a topic deleted and created again under its name is recognised.
func (v *Views) Follow(name string, parts []Source) {
	if v.enter() != nil {
		return
	}
	defer v.leave()
	v.mu.Lock()
	defer v.mu.Unlock()
	if err := v.follow(name, parts); err != nil {
		// Queries say that the topic is not followed, and the next call tries again.
		v.logger.Error("cannot follow topic", "topic", name, "error", err)
	}
}

func (v *Views) follow(name string, parts []Source) error {
	old := v.topics[name]
	if old != nil {
		old.drop() // what folds for it now finishes; the new incarnation starts from what it wrote
	}
	delete(v.topics, name)
	id, known := v.ids[name]
	if !known {
		id = v.lastID + 1
		err := v.db.Update(func(txn *badger.Txn) error {
			return txn.Set(topicKey(name), binary.BigEndian.AppendUint32(nil, id))
		})
		if err != nil {
			return fmt.Errorf("register topic %s: %w", name, err)
		}
		v.lastID, v.ids[name] = id, id
	}
	t := &topic{name: name, id: id}
	err := v.db.View(func(txn *badger.Txn) error {
		for i, src := range parts {
			st, err := readState(txn, id, int32(i))
			if err != nil {
				return err
			}
			p := newPartition(id, int32(i), src, st)
			p.truncated = hasTruncate(txn, p)
			t.parts = append(t.parts, p)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("follow topic %s: %w", name, err)
	}
	v.topics[name] = t
	return nil
}

func readState(txn *badger.Txn, id uint32, partition int32) (st state, err error) {
	item, err := txn.Get(stateKey(id, partition))
	if errors.Is(err, badger.ErrKeyNotFound) {
		return state{}, nil
	}
	if err != nil {
		return state{}, err
	}
	err = item.Value(func(b []byte) error {
		st, err = parseState(b)
		return err
	})
	return st, err
}

// drop ends all writing by this incarnation.
func (t *topic) drop() {
	for _, p := range t.parts {
		p.mu.Lock()
		p.dropped = true
		p.mu.Unlock()
	}
}

func (t *topic) dropped() bool {
	for _, p := range t.parts {
		p.mu.Lock()
		dropped := p.dropped
		p.mu.Unlock()
		if dropped {
			return true
		}
	}
	return false
}

// Forget removes a deleted topic's view. Its entries are deleted in the background.
func (v *Views) Forget(name string) {
	if v.enter() != nil {
		return
	}
	defer v.leave()
	v.mu.Lock()
	defer v.mu.Unlock()
	if t := v.topics[name]; t != nil {
		t.drop()
		delete(v.topics, name)
	}
	if err := v.retire(name, 0); err != nil {
		v.logger.Error("cannot forget topic", "topic", name, "error", err)
	}
}

// retire marks a topic's id as dead and gives it the next one, or none, in one transaction.
func (v *Views) retire(name string, next uint32) error {
	id, known := v.ids[name]
	if !known {
		return nil
	}
	err := v.db.Update(func(txn *badger.Txn) error {
		if err := txn.Set(deadKey(id), nil); err != nil {
			return err
		}
		if next == 0 {
			return txn.Delete(topicKey(name))
		}
		return txn.Set(topicKey(name), binary.BigEndian.AppendUint32(nil, next))
	})
	if err != nil {
		return fmt.Errorf("retire view of %s: %w", name, err)
	}
	delete(v.ids, name)
	if next != 0 {
		v.ids[name], v.lastID = next, next
	}
	return nil
}

// Rebuild drops a topic's view and folds its log again (invariant 8).
func (v *Views) Rebuild(ctx context.Context, name string) error {
	if err := v.enter(); err != nil {
		return err
	}
	defer v.leave()
	t, err := v.lookup(name)
	if err != nil {
		return err
	}
	if err := v.replace(t); err != nil {
		return err
	}
	_, err = v.current(ctx, name)
	return err
}

// replace starts a new, empty incarnation in place of t, unless somebody did already.
func (v *Views) replace(t *topic) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.topics[t.name] != t {
		return nil
	}
	t.drop()
	delete(v.topics, t.name)
	if err := v.retire(t.name, v.lastID+1); err != nil {
		return err
	}
	parts := make([]Source, len(t.parts))
	for i, p := range t.parts {
		parts[i] = p.src
	}
	return v.follow(t.name, parts)
}

func (v *Views) lookup(name string) (*topic, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	t := v.topics[name]
	if t == nil {
		return nil, fmt.Errorf("view of topic %s: %w", name, ErrUnknownTopic)
	}
	return t, nil
}

// current returns a topic whose view has caught up with the last stable offsets of this moment, without throttling.
func (v *Views) current(ctx context.Context, name string) (*topic, error) {
	for {
		t, err := v.lookup(name)
		if err != nil {
			return nil, err
		}
		for _, p := range t.parts {
			if err = p.catchUp(ctx, v.db, p.src.Marks().LastStable); err != nil {
				break
			}
		}
		switch {
		case err == nil:
			return t, nil
		case errors.Is(err, errDropped):
			continue // another incarnation has taken its place
		case errors.Is(err, errOtherLog):
			if err := v.rebuildOther(t); err != nil {
				return nil, err
			}
		default:
			return nil, fmt.Errorf("view of topic %s: %w", name, err)
		}
	}
}

func (v *Views) rebuildOther(t *topic) error {
	v.logger.Warn("topic's log is another than the one its view was folded from; folding it again", "topic", t.name)
	return v.replace(t)
}

// Lag is how many offsets of a topic's partitions are committed and not folded yet.
func (v *Views) Lag(name string) int64 {
	t, err := v.lookup(name)
	if err != nil {
		return 0
	}
	lag := int64(0)
	for _, p := range t.parts {
		lag += p.behind()
	}
	return lag
}

func (v *Views) all() []*topic {
	v.mu.Lock()
	defer v.mu.Unlock()
	list := make([]*topic, 0, len(v.topics))
	for _, t := range v.topics {
		list = append(list, t)
	}
	return list
}
