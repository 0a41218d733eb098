package log

import (
	"encoding/binary"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dgraph-io/badger/v4"
)

const (
	keeperEvery = time.Second
	// gcAfter is how many bytes of values are deleted before their disk space is asked back; of a large store, a share.
	gcAfter = 64 << 20
	gcShare = 16
	// gcPoll is how often a collection is tried while a compaction finds out which values are deleted, and gcSettle how
	// long it gets for that.
	gcPoll   = 50 * time.Millisecond
	gcSettle = 5 * time.Second
	// gcRatio is the share of a value-log file that must be deleted before it is rewritten.
	gcRatio = 0.5
)

// keeper is the Store's one goroutine: it watches the free space, commits housekeeping while the node is idle, and gives
// deleted values' disk space back.
type keeper struct {
	s       *Store
	quit    chan struct{}
	once    sync.Once
	done    chan struct{}
	wake    chan struct{} // capacity 1: enough was deleted
	deleted atomic.Int64  // bytes deleted and not yet asked back
	pace    pacer
	round   atomic.Int64 // memtables rolled

	// owned by the goroutine
	until  time.Time // collections are tried until then
	rolled time.Time
	closed map[GroupID]int64 // sizes of groups that are not open
	swept  int64             // collections when last swept
	// damaged is the last damage that was reported.
	damaged string
}

// newKeeper returns a keeper that its owner runs.
func newKeeper(s *Store) *keeper {
	k := &keeper{
		s: s, quit: make(chan struct{}), done: make(chan struct{}), wake: make(chan struct{}, 1),
		until: time.Now().Add(2 * keeperEvery), closed: map[GroupID]int64{},
	}
	k.pace.eased = make(chan struct{})
	return k
}

func (k *keeper) stop() {
	k.once.Do(func() { close(k.quit) })
	<-k.done
}

// noteDeleted counts bytes whose deletion is durable.
func (k *keeper) noteDeleted(n int64) {
	if k.deleted.Add(n) >= k.collectAfter() {
		select {
		case k.wake <- struct{}{}:
		default:
		}
	}
}

func (k *keeper) collectAfter() int64 { return max(gcAfter, k.pace.live.Load()/gcShare) }

func (k *keeper) run() {
	defer close(k.done)
	tick := time.NewTicker(keeperEvery)
	defer tick.Stop()
	poll := time.NewTimer(gcPoll)
	defer poll.Stop()
	for {
		select {
		case <-k.quit:
			return
		case <-tick.C:
			k.housekeep()
		case <-k.wake:
		case <-poll.C:
		}
		if k.s.failure() == nil {
			k.collect(time.Now())
		}
		if time.Now().Before(k.until) { // else nothing is there to be collected
			poll.Reset(gcPoll)
		}
	}
}

// housekeep does what needs no hurry.
func (k *keeper) housekeep() {
	if err := k.s.checkSpace(); err != nil {
		k.s.log.Error("free space is not known", "error", err)
	}
	if k.s.failure() != nil {
		return
	}
	if n := k.s.stats.collections.Load(); n > k.swept && time.Now().After(k.until) {
		k.s.sweep()
		k.swept = n
	}
	k.s.forgetIdle(time.Now())
	k.ride()
	k.measure()
}

func (k *keeper) ride() {
	if k.s.hasRiders() {
		if err := k.s.ride(); err != nil {
			k.s.log.Error("housekeeping is put off", "error", err)
		}
	}
}

// collect runs Badger's value-log garbage collection. It can only free values whose deletion a compaction has seen, so
// the memtable that holds the deletions is made to move on first.
func (k *keeper) collect(now time.Time) {
	n := k.deleted.Load()
	if n >= k.collectAfter() || k.pace.pressing() && now.Sub(k.rolled) > gcSettle {
		k.s.sweep()
		k.swept = k.s.stats.collections.Load()
		if err := k.s.rollMemTable(); err != nil {
			k.s.log.Error("garbage collection is put off", "error", err)
			return
		}
		k.deleted.Add(-n)
		k.round.Add(1)
		k.rolled, k.until = now, now.Add(gcSettle)
	}
	if now.After(k.until) {
		return
	}
	for {
		err := k.s.collectFile()
		switch {
		case errors.Is(err, badger.ErrNoRewrite):
			return
		case errors.Is(err, errDamagedFile):
			if k.damaged != err.Error() {
				k.damaged = err.Error()
				k.s.log.Error("garbage collection stopped", "error", err)
			}
			k.until = time.Time{}
			return
		case err != nil:
			k.s.log.Warn("value log garbage collection", "error", err)
			return
		}
		k.s.stats.collections.Add(1)
		k.until = time.Now().Add(gcSettle)
		k.measure()
		select {
		case <-k.quit:
			return
		default:
		}
	}
}

// collectFile has Badger rewrite the value-log file with most garbage.
func (s *Store) collectFile() (err error) {
	defer func() {
		r := recover()
		if r == nil {
			return
		}
		cause, ok := r.(error)
		if !ok || !errors.Is(cause, errDamagedFile) {
			cause = fmt.Errorf("collect value log: %v\n%s", r, debug.Stack())
			s.fatal(cause)
		}
		err = cause
	}()
	s.prepare.collecting.Lock()
	defer s.prepare.collecting.Unlock()
	return s.db.RunValueLogGC(gcRatio)
}

// spacePad holds the filler of rollMemTable. Each transaction overwrites the one before.
const spacePad byte = 'p'

// rollMemTable fills the current memtable, so that Badger writes it out and compacts it. Badger has no call for that
// which does not stop all writers.
func (s *Store) rollMemTable() error {
	if !s.space.room(4 * memTableSize) {
		return s.space.err()
	}
	const padLen, padCost = valueThreshold - 1, valueThreshold + 64
	pad := make([]byte, padLen)
	perTxn := int(s.db.MaxBatchSize() / 2 / padCost)
	for done := 0; done*padCost < memTableSize*5/4; done += perTxn {
		txn := s.db.NewTransaction(true)
		for i := range perTxn {
			if err := txn.Set(binary.BigEndian.AppendUint64([]byte{spacePad}, uint64(i)), pad); err != nil {
				txn.Discard()
				return err
			}
		}
		if err := txn.Commit(); err != nil {
			return err
		}
	}
	return nil
}
