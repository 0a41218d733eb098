package log

import (
	"encoding/binary"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dgraph-io/badger/v4"
)

const (
	keeperEvery = time.Second
	// gcAfter is how many bytes of values are deleted before their disk space is asked back.
	gcAfter = 64 << 20
	// gcTries is how many ticks a compaction gets to find out which values are deleted.
	gcTries = 5
	// gcRatio is the share of a value-log file that must be deleted before it is rewritten.
	gcRatio = 0.5
	// gcStart is how long commits are held back while a collection notes where it starts, which takes microseconds.
	gcStart = 10 * time.Millisecond
)

// keeper is the Store's one goroutine: it watches the free space, commits housekeeping while the node is idle, and gives
// deleted values' disk space back.
type keeper struct {
	s       *Store
	quit    chan struct{}
	once    sync.Once
	done    chan struct{}
	retired atomic.Int64 // bytes deleted and not yet asked back
	tries   int
}

func startKeeper(s *Store) *keeper {
	k := &keeper{s: s, quit: make(chan struct{}), done: make(chan struct{}), tries: 1}
	go k.run()
	return k
}

func (k *keeper) stop() {
	k.once.Do(func() { close(k.quit) })
	<-k.done
}

func (k *keeper) run() {
	defer close(k.done)
	tick := time.NewTicker(keeperEvery)
	defer tick.Stop()
	for {
		select {
		case <-k.quit:
			return
		case <-tick.C:
		}
		if err := k.s.checkSpace(); err != nil {
			k.s.log.Error("free space is not known", "error", err)
		}
		if k.s.failure() != nil {
			continue
		}
		if k.s.hasRiders() {
			if err := k.s.ride(); err != nil {
				k.s.log.Error("housekeeping is put off", "error", err)
			}
		}
		k.collect()
	}
}

// collect runs Badger's value-log garbage collection. It can only free values whose deletion a compaction has seen, so
// the memtable that holds the deletions is made to move on first.
func (k *keeper) collect() {
	if n := k.retired.Load(); n >= gcAfter {
		if err := k.s.rollMemTable(); err != nil {
			k.s.log.Error("garbage collection is put off", "error", err)
			return
		}
		k.retired.Add(-n)
		k.tries = gcTries
	}
	if k.tries == 0 {
		return
	}
	k.tries--
	for {
		err := k.s.db.RunValueLogGC(gcRatio)
		if err != nil {
			if !errors.Is(err, badger.ErrNoRewrite) {
				k.s.log.Warn("value log garbage collection", "error", err)
			}
			return
		}
		k.tries = gcTries
		select {
		case <-k.quit:
			return
		default:
		}
	}
}

// holdCommits lets no commit be under way while a garbage collection notes the newest version.
func (s *Store) holdCommits() {
	s.commitMu.Lock()
	s.stats.collections.Add(1)
	time.AfterFunc(gcStart, s.commitMu.Unlock)
}

// spacePad holds the filler of rollMemTable. Each round overwrites the one before.
const spacePad byte = 'p'

// rollMemTable fills the current memtable, so that Badger writes it out and compacts it. Badger has no call for that
// which does not stop all writers.
func (s *Store) rollMemTable() error {
	if !s.space.room(4 * memTableSize) {
		return s.space.err()
	}
	const padLen, padCost = valueThreshold - 1, valueThreshold + 64
	pad := make([]byte, padLen)
	perTxn := s.db.MaxBatchSize() / 2 / padCost
	for key := int64(0); key*padCost < memTableSize*5/4; {
		txn := s.db.NewTransaction(true)
		for range perTxn {
			if err := txn.Set(binary.BigEndian.AppendUint64([]byte{spacePad}, uint64(key)), pad); err != nil {
				txn.Discard()
				return err
			}
			key++
		}
		if err := txn.Commit(); err != nil {
			return err
		}
	}
	return nil
}
