package txn

import (
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/rowtrail/rowtrail/log/broker/journal"
)

// view is what may be known of open transactions without entering the loop: the partitions that are durably part of one.
type view struct {
	mu   sync.RWMutex
	open map[string]*openTxn
}

type openTxn struct {
	producer   Producer
	partitions map[journal.TopicPartition]struct{}
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
		v.open[id] = o
	}
	for _, tp := range list {
		o.partitions[tp] = struct{}{}
	}
}

// drop comes before the decision, and so before any marker.
func (v *view) drop(id string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.open, id)
}

// Has says whether a partition is durably part of the producer's open transaction, as far as this node knows by a look into memory. Verify
// knows for certain, and why not.
func (c *Coordinator) Has(id string, p Producer, tp journal.TopicPartition) bool {
	s, ok := c.shards.For(id)
	if !ok || !s.j.Leads() {
		return false
	}
	s.view.mu.RLock()
	defer s.view.mu.RUnlock()
	o := s.view.open[id]
	if o == nil || o.producer != p {
		return false
	}
	_, ok = o.partitions[tp]
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
