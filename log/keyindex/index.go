package keyindex

import (
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/options"

	"github.com/rowtrail/rowtrail/log/tables"
)

// Sizes of the database: small, as it holds only keys.
const (
	memTableSize = 8 << 20 // Badger takes transactions of 15% of it; up to three are in memory
	// No cache of blocks: Badger counts one at what is left of its mapped table, so a cache would hold a dozen. Blocks are read
	// from the map, which the kernel caches.
	blockCacheSize = 0
	indexCacheSize = 16 << 20
	valueThreshold = 1 << 10 // an entry is far smaller
	// A merge has up to a dozen tables under construction, each in buffers of two to four times this size.
	tableSize = 1 << 20
)

// format is the layout of the database, kept as its external magic number.
const format = 1

// asideSuffix names what was set aside. There is one at most: it is of use to nobody but who looks for the cause.
const asideSuffix = ".damaged"

// Errors that callers act on.
var (
	ErrClosed = errors.New("key index is closed")
	ErrOrder  = errors.New("key index is folded out of order")

	errUnusable = errors.New("key index is not usable")
	errEnded    = errors.New("the fold of the key index has ended")
)

// Options configure an Index.
type Options struct {
	Logger *slog.Logger
}

// Index is the key index of a node. It is safe for concurrent use, but for one Fold at a time for a group.
type Index struct {
	db     *badger.DB
	fold   limits
	mu     sync.RWMutex // held while db is used; Close waits
	closed bool
}

// Open opens or creates the index in dir. A directory that is damaged or of another format is set aside: it can be folded
// again.
func Open(dir string, opts Options) (*Index, error) {
	return open(dir, opts, memTableSize, limits{entries: foldEntries, bytes: foldBytes})
}

func open(dir string, opts Options, memTable int64, fold limits) (*Index, error) {
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	dir = filepath.Clean(dir)
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return nil, fmt.Errorf("create directory of the key index: %w", err)
	}
	db, err := openDatabase(dir, opts.Logger, memTable)
	if errors.Is(err, errUnusable) {
		aside := dir + asideSuffix
		if failed := setAside(dir, aside); failed != nil {
			return nil, fmt.Errorf("open key index: %w: %w; remove %s, it is built again from the log", err, failed, dir)
		}
		opts.Logger.Warn("key index is built again from the log", "set aside", aside, "error", err)
		db, err = openDatabase(dir, opts.Logger, memTable)
	}
	if err != nil {
		return nil, fmt.Errorf("open key index in %s: %w", dir, err)
	}
	return &Index{db: db, fold: fold}, nil
}

func setAside(dir, aside string) error {
	if err := os.RemoveAll(aside); err != nil {
		return err
	}
	if err := os.Rename(dir, aside); err != nil {
		return err
	}
	return os.Mkdir(dir, 0o750)
}

// openDatabase opens Badger. What is wrong with its files, and not with the system, is errUnusable.
func openDatabase(dir string, logger *slog.Logger, memTable int64) (db *badger.DB, err error) {
	defer func() {
		if r := recover(); r != nil { // how Badger reports some kinds of damage
			err = fmt.Errorf("%w: the storage engine stopped: %v", errUnusable, r)
		}
	}()
	if err := tables.RemoveUnborn(dir); err != nil {
		return nil, err
	}
	switch err := tables.Check(dir, format); {
	case errors.Is(err, tables.ErrDamaged), errors.Is(err, tables.ErrCut):
		return nil, fmt.Errorf("%w: %w", errUnusable, err)
	case err != nil:
		return nil, err
	}
	adapter := tables.NewLogger(logger, "storage engine of the key index")
	db, err = badger.Open(badger.DefaultOptions(dir).
		WithLogger(adapter).
		WithExternalMagic(format).
		WithSyncWrites(false).
		WithDetectConflicts(false).
		WithNumVersionsToKeep(1).
		WithCompression(options.None).
		WithChecksumVerificationMode(options.OnBlockRead).
		WithMemTableSize(memTable).
		WithBaseTableSize(tableSize).
		WithValueThreshold(min(valueThreshold, memTable/100)).
		WithNumMemtables(2).
		WithNumCompactors(2).
		WithValueLogFileSize(max(memTable, 1<<20)).
		WithBlockCacheSize(blockCacheSize).
		WithIndexCacheSize(indexCacheSize).
		WithMetricsEnabled(false))
	if err != nil && !ofSystem(err) {
		err = fmt.Errorf("%w: %w", errUnusable, err)
	}
	adapter.Opened()
	return db, err
}

// ofSystem tells whether opening failed for a reason that has nothing to do with what the files hold. Badger does not
// wrap the errors that it gets, so their texts have to do.
func ofSystem(err error) bool {
	text := err.Error()
	if strings.Contains(text, "directory lock") {
		return true
	}
	for _, errno := range []syscall.Errno{syscall.ENOSPC, syscall.EDQUOT, syscall.EACCES, syscall.EPERM, syscall.EROFS, syscall.EIO,
		syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM} {
		if strings.Contains(text, errno.Error()) {
			return true
		}
	}
	return false
}

// Close closes the database. A Fold that is under way fails with ErrClosed; what it has not committed is folded again.
func (x *Index) Close() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.closed {
		return nil
	}
	x.closed = true
	if err := x.db.Close(); err != nil {
		return fmt.Errorf("close key index: %w", err)
	}
	return nil
}

// use keeps the database open while f runs.
func (x *Index) use(f func() error) error {
	x.mu.RLock()
	defer x.mu.RUnlock()
	if x.closed {
		return ErrClosed
	}
	return f()
}

// Folded returns the next offset of a group to fold; 0 when nothing is folded.
func (x *Index) Folded(group uint64) (next int64, err error) {
	next, _, err = x.get(foldedKey(group))
	return next, err
}

// Latest returns the offset of a key's last committed record below Folded. See the package comment for what may be
// concluded from it.
func (x *Index) Latest(group uint64, key []byte) (offset int64, ok bool, err error) {
	return x.get(appendKey(make([]byte, 0, maxKeyLen), group, key))
}

func (x *Index) get(key []byte) (offset int64, ok bool, err error) {
	err = x.use(func() error {
		txn := x.db.NewTransaction(false)
		defer txn.Discard()
		offset, ok, err = read(txn, key)
		return err
	})
	if err != nil {
		return 0, false, fmt.Errorf("read key index: %w", err)
	}
	return offset, ok, nil
}

func read(txn *badger.Txn, key []byte) (offset int64, ok bool, err error) {
	item, err := txn.Get(key)
	if errors.Is(err, badger.ErrKeyNotFound) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, err
	}
	err = item.Value(func(b []byte) error {
		if len(b) != offsetLen {
			return fmt.Errorf("entry of %d bytes is damaged; stop rowtrail and remove the index's directory, it is built again", len(b))
		}
		offset = int64(binary.BigEndian.Uint64(b))
		return nil
	})
	return offset, err == nil, err
}

// Drop forgets a group, in bounded portions. It may be called again after a crash.
func (x *Index) Drop(group uint64) error {
	gone := [][]byte{foldedKey(group)}
	prefix := groupPrefix(spaceKey, group)
	for from := prefix; ; {
		more := false
		err := x.use(func() error {
			txn := x.db.NewTransaction(true)
			defer txn.Discard()
			it := txn.NewIterator(badger.IteratorOptions{Prefix: prefix})
			for it.Seek(from); it.Valid() && len(gone) < x.fold.entries; it.Next() {
				gone = append(gone, it.Item().KeyCopy(nil))
			}
			more = it.Valid()
			it.Close()
			for _, k := range gone {
				if err := txn.Delete(k); err != nil {
					return err
				}
			}
			return txn.Commit()
		})
		if err != nil {
			return fmt.Errorf("drop group %d from key index: %w", group, err)
		}
		if !more {
			return nil
		}
		from, gone = gone[len(gone)-1], gone[:0]
	}
}

// Groups lists the groups that the index has anything of, so that leftovers of groups that are no more can be dropped.
func (x *Index) Groups() (groups []uint64, err error) {
	err = x.use(func() error {
		txn := x.db.NewTransaction(false)
		defer txn.Discard()
		seen := map[uint64]bool{}
		for _, space := range []byte{spaceFolded, spaceKey} {
			it := txn.NewIterator(badger.IteratorOptions{Prefix: []byte{space}})
			for it.Rewind(); it.Valid(); {
				group := binary.BigEndian.Uint64(it.Item().Key()[1:])
				if !seen[group] {
					seen[group] = true
					groups = append(groups, group)
				}
				if group+1 == 0 {
					break
				}
				it.Seek(groupPrefix(space, group+1))
			}
			it.Close()
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list groups of key index: %w", err)
	}
	return groups, nil
}
