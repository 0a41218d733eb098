package cluster

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	"go.etcd.io/raft/v3/raftpb"

	"github.com/rowtrail/rowtrail/log"
)

// maxCommitBytes and log.MaxCommitEntries bound one commit: larger ones gain no throughput and cost latency. A
// single larger append goes alone.
const maxCommitBytes = min(4<<20, log.MaxCommitBytes)

// diskFullRetry is how often a commit is tried again that the store refused for lack of space.
const diskFullRetry = 250 * time.Millisecond

// appendItem is one group's storage message on its way through the writer.
type appendItem struct {
	group     *group
	mutation  log.Mutation
	responses []*raftpb.Message
	bytes     int64 // of entries
	released  int64 // to give back to the worker's gate when durable
	// last closes the batch behind it and runs after the batch is durable (nil: none).
	last func()
}

// batchSlot is the writer's note of where a group stands in the batch that is being gathered.
type batchSlot struct {
	batch uint64
	at    int
}

// writer is the one log writer of a node. It gathers what all groups have ready into one Commit, so into one sync;
// while that runs the next batch gathers. turn may be driven by hand.
type writer struct {
	s     *scheduler
	store Committer

	mu     sync.Mutex
	queue  []appendItem
	notify chan struct{} // capacity 1

	// owned by the goroutine that calls turn
	spare     []appendItem
	batch     uint64
	mutations []log.Mutation
	deliver   map[*worker][]item
}

func newWriter(s *scheduler, store Committer) *writer {
	return &writer{s: s, store: store, notify: make(chan struct{}, 1), deliver: map[*worker][]item{}}
}

// submit queues items. The queue is bounded by the workers' gates.
func (w *writer) submit(items ...appendItem) {
	w.mu.Lock()
	w.queue = append(w.queue, items...)
	w.mu.Unlock()
	select {
	case w.notify <- struct{}{}:
	default:
	}
}

func (w *writer) run(stop <-chan struct{}) {
	for {
		select {
		case <-w.notify:
			// Groups of one log transaction sit on several workers: those that are about to submit, too, share the sync.
			runtime.Gosched()
			for w.turn() {
			}
		case <-stop:
			return
		}
	}
}

// turn writes everything queued so far and reports whether there was anything.
func (w *writer) turn() bool {
	w.mu.Lock()
	items := w.queue
	w.queue, w.spare = w.spare[:0], nil
	w.mu.Unlock()
	for rest := items; len(rest) > 0; {
		n := w.gather(rest)
		if !w.commit(rest[:n]) {
			break // halted: nothing is delivered any more
		}
		rest = rest[n:]
	}
	worked := len(items) > 0
	clear(items)
	w.spare = items[:0]
	return worked
}

// pause waits before a refused commit is tried again. It reports false when the node stops.
func (w *writer) pause() bool {
	t := time.NewTimer(diskFullRetry)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-w.s.stopWriter:
		return false
	}
}

// gather merges items into mutations, one per group, and returns how many fit into one commit.
func (w *writer) gather(items []appendItem) int {
	w.batch++
	w.mutations = w.mutations[:0]
	var size int64
	var entries int
	for i := range items {
		it := &items[i]
		size += it.bytes
		entries += len(it.mutation.Entries)
		if i > 0 && (size > maxCommitBytes || entries > log.MaxCommitEntries) {
			return i
		}
		if it.mutation.HardState != nil || len(it.mutation.Entries) > 0 || it.mutation.Install != nil {
			slot := &it.group.slot
			if slot.batch == w.batch {
				m := &w.mutations[slot.at]
				if it.mutation.TruncateFrom != 0 || it.mutation.Install != nil {
					return i // what it replaces must be there first
				}
				m.Entries = append(m.Entries[:len(m.Entries):len(m.Entries)], it.mutation.Entries...)
				if it.mutation.HardState != nil {
					m.HardState = it.mutation.HardState
				}
			} else {
				*slot = batchSlot{batch: w.batch, at: len(w.mutations)}
				w.mutations = append(w.mutations, it.mutation)
			}
		}
		if it.last != nil {
			return i + 1
		}
	}
	return len(items)
}

// commit makes a batch durable and delivers its responses. It reports false when the node is halted.
func (w *writer) commit(items []appendItem) bool {
	if w.s.failed() != nil {
		return false
	}
	if len(w.mutations) > 0 {
		err := w.store.Commit(w.mutations)
		for errors.Is(err, log.ErrDiskFull) {
			// Nothing of it was written. It waits here, so that no write overtakes it, until there is space.
			if !w.pause() {
				return false
			}
			err = w.store.Commit(w.mutations)
		}
		if err != nil {
			// Invariant 1: what of it is on disk is unknown, so nothing of it is acknowledged.
			w.s.fail(fmt.Errorf("commit log: %w", err))
			return false
		}
		c := &w.s.counters
		c.syncs.Add(1)
		for i := range w.mutations {
			c.written.Add(int64(len(w.mutations[i].Entries)))
		}
	}
	clear(w.mutations)
	for i := range items {
		it := &items[i]
		if it.group != nil {
			wk := it.group.worker
			w.deliver[wk] = append(w.deliver[wk], item{kind: itemDurable, group: it.group, append: *it})
		}
		if it.last != nil {
			it.last()
		}
	}
	for wk, ds := range w.deliver {
		if len(ds) > 0 {
			wk.post(ds...)
			clear(ds)
			w.deliver[wk] = ds[:0]
		}
	}
	return true
}
