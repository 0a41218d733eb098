package txn

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/rowtrail/rowtrail/log/broker/journal"
)

// view is what Produce may know of open transactions without entering the loop: the partitions that are durably part
// of one.
type view struct {
	mu   sync.RWMutex
	open map[string]*openTxn
}

type openTxn struct {
	producer   Producer
	partitions map[journal.TopicPartition]struct{}
	guard      Guard
}

// Guard counts the batches of one transaction that are on their way into partitions. The coordinator writes no
// marker before they are in, so a batch that was let in never lands behind the marker of its transaction, where it would
// become part of the next one.
type Guard struct {
	// users are the batches, and one for the coordinator until it wants to write markers.
	users atomic.Int64
	// left is called by the last user. It is set before the coordinator gives up its own use.
	left func()
}

// Leave says that a batch's place in its partition is decided. A nil Guard guards nothing.
func (g *Guard) Leave() {
	if g != nil && g.users.Add(-1) == 0 {
		g.left()
	}
}

// whenLeft calls f, on any goroutine, once all batches have left. A nil Guard has none.
func (g *Guard) whenLeft(f func()) {
	if g == nil {
		f()
		return
	}
	g.left = f
	g.Leave()
}

func (v *view) reset() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.open = map[string]*openTxn{}
}

func (v *view) set(t *Txn) { v.add(t.ID, t.Current, t.List()) }

func (v *view) add(id string, p Producer, list []journal.TopicPartition) {
	v.mu.Lock()
	defer v.mu.Unlock()
	o := v.open[id]
	if o == nil || o.producer != p {
		o = &openTxn{producer: p, partitions: make(map[journal.TopicPartition]struct{}, len(list))}
		o.guard.users.Store(1)
		v.open[id] = o
	}
	for _, tp := range list {
		o.partitions[tp] = struct{}{}
	}
}

// drop lets no more batches in. It returns the guard of those that are, nil when none can be.
func (v *view) drop(id string) *Guard {
	v.mu.Lock()
	defer v.mu.Unlock()
	o := v.open[id]
	delete(v.open, id)
	if o == nil {
		return nil
	}
	return &o.guard
}

// Enter lets in a batch that is about to be appended, if its partition is part of the producer's open transaction: one that
// comes late must not open a transaction that nobody will end (KIP-890, part 1). The transaction gets no marker
// before Leave is called. It costs two look-ups in memory; Verify knows why a batch is not let in.
func (c *Coordinator) Enter(id string, p Producer, tp journal.TopicPartition) (*Guard, bool) {
	s, ok := c.shards.For(id)
	if !ok || s.j.Serving() != nil {
		return nil, false
	}
	s.view.mu.RLock()
	defer s.view.mu.RUnlock()
	o := s.view.open[id]
	if o == nil || o.producer != p {
		return nil, false
	}
	if _, ok = o.partitions[tp]; !ok {
		return nil, false
	}
	o.guard.users.Add(1) // under the lock that drop takes
	return &o.guard, true
}

// Has says whether a partition is durably part of the producer's open transaction.
func (c *Coordinator) Has(id string, p Producer, tp journal.TopicPartition) bool {
	g, ok := c.Enter(id, p, tp)
	g.Leave()
	return ok
}

// Description is what DescribeTransactions and ListTransactions show.
type Description struct {
	ID         string
	State      State
	Producer   Producer
	Timeout    time.Duration
	Started    time.Time
	Partitions []journal.TopicPartition
}

func (t *Txn) describe() Description {
	d := Description{ID: t.ID, State: t.State, Producer: t.Current, Timeout: t.Timeout, Started: t.Started}
	if t.State == Ongoing || t.completing() {
		d.Partitions = t.List()
	}
	return d
}

// Describe handles DescribeTransactions for one id.
func (c *Coordinator) Describe(id string, reply func(code int16, d Description)) {
	c.on(id, func(s *shard, code int16) {
		d := Description{ID: id, State: Dead}
		if code == 0 {
			if k := s.txns[id]; k != nil && k.Current.ID != noProducer {
				d = k.describe()
			} else {
				code = kerr.TransactionalIDNotFound.Code
			}
		}
		reply(code, d)
	})
}

// List handles ListTransactions; while a partition is loading the code says so.
func (c *Coordinator) List(reply func(code int16, list []Description)) {
	var list []Description
	c.shards.Each(func(s *shard) {
		for _, k := range s.txns {
			if k.Current.ID != noProducer {
				list = append(list, k.describe())
			}
		}
	}, func(err error) {
		slices.SortFunc(list, func(a, b Description) int { return strings.Compare(a.ID, b.ID) })
		reply(journal.Code(err), list)
	})
}
