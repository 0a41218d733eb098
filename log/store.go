package log

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dgraph-io/badger/v4"

	"github.com/rowtrail/rowtrail/log/record"
	"github.com/rowtrail/rowtrail/log/tables"
)

// maxDecompressed bounds the records of one batch when the store has to look into them.
const maxDecompressed = 128 << 20

// maxUnpacking is how many batches are decompressed at once.
const maxUnpacking = 2

// Store is a node's Badger database of partition logs (DB-L). It has one writer: Commit is called by one
// goroutine at a time; everything else is safe for concurrent use.
type Store struct {
	dir     *dataDir
	db      *badger.DB
	log     *slog.Logger
	space   *watermark
	onFatal func(error)
	// configuration is Options.Configuration.
	configuration func(EntryType, []byte) ([]byte, error)
	failed        atomic.Pointer[error]
	readers       *record.Pool
	keeper        *keeper
	cleaner       *cleaner
	stats         storeCounters
	tail          atomic.Int64 // entries applied behind checkpoints, of all partitions

	// commitMu makes Commit and the keeper's own commits one at a time. It is taken before mu and before Partition.mu.
	commitMu sync.Mutex
	cache    recentQueue // guarded by commitMu
	prepare  *preparer   // guarded by commitMu

	// gate is held for reading while the database is read, and taken by Close before it unmaps the files.
	gate   sync.RWMutex
	dbDone bool // guarded by gate

	mu         sync.Mutex // never held while Partition.mu is taken
	closed     bool
	partitions map[GroupID]*slot
	groups     map[GroupID]struct{}
	due        map[*Partition]struct{}
	drops      map[GroupID]*drop
}

// slot makes every caller of Partition wait for the one that loads it.
type slot struct {
	once sync.Once
	p    *Partition
	err  error
}

type storeCounters struct {
	syncs, bytes, mutations, collections, slowed atomic.Int64
}

// StoreStats of the whole store, for metrics.
type StoreStats struct {
	Syncs, CommittedBytes, CommittedMutations int64
	DiskBytes, FreeBytes                      int64
	Collections                               int64         // value-log files that garbage collection has rewritten
	RetainedBytes, GarbageBytes               int64         // of the value log: garbage is what no retained record needs
	Slowed                                    time.Duration // commits held back in all, to let garbage collection keep up
	Compaction                                CompactionStats
}

// Open locks dir, checks its format and opens it. Errors wrap ErrLocked, ErrFormat, ErrDamaged, ErrDiskFull.
func Open(dir string, opts Options) (*Store, error) {
	d, err := openDataDir(dir)
	if err != nil {
		return nil, err
	}
	s := &Store{
		dir: d, log: opts.Logger, onFatal: opts.OnFatal, configuration: opts.Configuration,
		space:      newWatermark(dir, opts.MinFreeBytes),
		prepare:    newPreparer(dir),
		readers:    record.NewPool(maxUnpacking, maxDecompressed),
		partitions: map[GroupID]*slot{},
		groups:     map[GroupID]struct{}{},
		due:        map[*Partition]struct{}{},
		drops:      map[GroupID]*drop{},
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if _, err := s.space.check(); err != nil {
		return nil, errors.Join(err, d.close())
	}
	if !s.space.room(2 * memTableSize) {
		// Opening writes: a value-log file, a memtable, recovered tables.
		err := fmt.Errorf("open log: %w: only %d MiB are free on the file system of %s", ErrDiskFull, s.space.free.Load()>>20, dir)
		return nil, errors.Join(err, d.close())
	}
	if err := s.openDatabase(opts.rewriting); err != nil {
		return nil, errors.Join(fmt.Errorf("open log in %s: %w", dir, err), d.close())
	}
	if err := errors.Join(s.restoreDamaged(), s.findGroups()); err != nil {
		return nil, errors.Join(fmt.Errorf("open log in %s: %w", dir, err), s.db.Close(), d.close())
	}
	s.keeper = newKeeper(s)
	go s.keeper.run()
	s.cleaner = newCleaner(s, opts.Compaction)
	go s.cleaner.run()
	return s, nil
}

// openDatabase opens Badger, or says in one line what is wrong with its files.
func (s *Store) openDatabase(rewriting func(*Store)) (err error) {
	defer func() {
		if r := recover(); r != nil { // how Badger reports some kinds of damage
			err = fmt.Errorf("%w: the storage engine stopped: %v; restore the data directory from a backup", ErrDamaged, r)
		}
	}()
	if err := cmp.Or(tables.RemoveUnborn(s.dir.path), s.dir.checkTables(), s.dir.keepDamaged()); err != nil {
		return err
	}
	onFatal := s.onFatal
	s.onFatal = nil // what goes wrong until here is the caller's error
	logger := &badgerLogger{log: s.log, fatal: s.fatal, collecting: s.checkFile}
	if rewriting != nil {
		logger.rewriting = func() { rewriting(s) }
	}
	s.db, err = badger.Open(badgerOptions(s.dir.path, logger))
	if err != nil {
		if failure := s.failure(); failure != nil {
			return failure
		}
		return fmt.Errorf("%w: %w; restore the data directory from a backup", ErrDamaged, err)
	}
	if err := s.failure(); err != nil {
		return errors.Join(err, s.db.Close())
	}
	s.onFatal = onFatal
	return nil
}

// Close writes checkpoints of all open partitions and closes the database.
func (s *Store) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	s.mu.Unlock()
	s.cleaner.stop()
	s.keeper.stop()
	err := s.cleaner.close()

	s.commitMu.Lock()
	defer s.commitMu.Unlock()
	if s.failure() == nil && s.space.room(0) {
		err = errors.Join(err, s.checkpointAll())
	}
	for _, p := range s.open() {
		p.mu.Lock()
		p.closed = true
		p.wakeLocked()
		p.mu.Unlock()
	}
	s.gate.Lock()
	s.dbDone = true
	s.gate.Unlock()
	return errors.Join(err, s.db.Close(), s.prepare.close(), s.dir.close())
}

// view runs f on a snapshot of the database.
func (s *Store) view(f func(*badger.Txn) error) error {
	s.gate.RLock()
	defer s.gate.RUnlock()
	if s.dbDone {
		return ErrClosed
	}
	return s.db.View(f)
}

// open lists the loaded partitions.
func (s *Store) open() []*Partition {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]*Partition, 0, len(s.partitions))
	for _, x := range s.partitions {
		if x.p != nil {
			all = append(all, x.p)
		}
	}
	return all
}

// Writable reports ErrDiskFull while the file system is below the watermark.
func (s *Store) Writable() error { return s.space.err() }

// Partition opens (creating it when new) the log of one group. Opening loads the last checkpoint and
// scans the keys behind it. The same *Partition is returned for the same id.
func (s *Store) Partition(id GroupID) (*Partition, error) {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil, ErrClosed
	}
	return s.partitionLocked(id)
}

// partitionLocked is Partition with mu held, which it releases.
func (s *Store) partitionLocked(id GroupID) (*Partition, error) {
	if s.drops[id] != nil {
		s.mu.Unlock()
		return nil, fmt.Errorf("open group %d: %w", id, ErrDropped)
	}
	x := s.partitions[id]
	if x == nil {
		x = &slot{}
		s.partitions[id] = x
	}
	s.mu.Unlock()
	x.once.Do(func() {
		p, err := s.load(id)
		s.mu.Lock()
		x.p, x.err = p, err
		if err != nil {
			delete(s.partitions, id)
		}
		s.mu.Unlock()
	})
	return x.p, x.err
}

// Groups lists the groups that have data.
func (s *Store) Groups() []GroupID {
	s.mu.Lock()
	defer s.mu.Unlock()
	ids := make([]GroupID, 0, len(s.groups))
	for id := range s.groups {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// Stats returns counters since Open and the disk's state.
func (s *Store) Stats() StoreStats {
	return StoreStats{
		Syncs: s.stats.syncs.Load(), CommittedBytes: s.stats.bytes.Load(), CommittedMutations: s.stats.mutations.Load(),
		DiskBytes: s.dir.diskBytes(), FreeBytes: s.space.free.Load(), Collections: s.stats.collections.Load(),
		RetainedBytes: s.keeper.pace.live.Load(), GarbageBytes: s.keeper.pace.garbage(), Slowed: time.Duration(s.stats.slowed.Load()),
		Compaction: s.Compaction(),
	}
}

// fatal records that durability or integrity can no longer be promised, and tells the node once.
func (s *Store) fatal(err error) {
	if s.failed.CompareAndSwap(nil, &err) && s.onFatal != nil {
		s.onFatal(err)
	}
}

func (s *Store) failure() error {
	if err := s.failed.Load(); err != nil {
		return *err
	}
	return nil
}

// findGroups fills groups and drops from the keys, one seek for each group and key space.
func (s *Store) findGroups() error {
	return s.db.View(func(txn *badger.Txn) error {
		opt := badger.DefaultIteratorOptions
		opt.PrefetchValues = false
		it := txn.NewIterator(opt)
		defer it.Close()
		for _, space := range []byte{spaceHardState, spaceHorizon, spaceCheckpoint, spaceManifest, spaceLog, spaceDrop} {
			for it.Seek([]byte{space}); it.ValidForPrefix([]byte{space}); {
				id, err := groupOfKey(it.Item().Key())
				if err != nil {
					return err
				}
				if space == spaceDrop {
					s.drops[id] = &drop{marked: true}
					delete(s.groups, id)
				} else {
					s.groups[id] = struct{}{}
				}
				if id++; id == 0 {
					break
				}
				it.Seek(groupKey(space, id))
			}
		}
		return nil
	})
}
