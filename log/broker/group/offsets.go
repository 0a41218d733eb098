package group

import (
	"slices"

	"github.com/rowtrail/rowtrail/log/broker/journal"
)

// Committed is one committed offset as the client sent it.
type Committed struct {
	Offset      int64
	LeaderEpoch int32 // -1: not told
	Metadata    string
	AtMs        int64 // when it was committed
	ExpireMs    int64 // when it expires; 0: after the retention of all
}

// Offset is a partition with its committed offset.
type Offset struct {
	journal.TopicPartition
	Committed
}

// Offsets are one group's: committed, and pending in transactions. They change in log order only, so the fold of
// the log and the running state agree (invariant 8).
type Offsets struct {
	committed map[journal.TopicPartition]Committed
	pending   map[int64]map[journal.TopicPartition]Committed // by producer id
}

// Commit takes in a committed offset.
func (o *Offsets) Commit(tp journal.TopicPartition, c Committed) {
	if o.committed == nil {
		o.committed = map[journal.TopicPartition]Committed{}
	}
	o.committed[tp] = c
}

// Delete takes in a tombstone, which also takes the partition out of open transactions.
func (o *Offsets) Delete(tp journal.TopicPartition) {
	delete(o.committed, tp)
	for pid, m := range o.pending {
		if delete(m, tp); len(m) == 0 {
			delete(o.pending, pid)
		}
	}
}

// Pend takes in an offset that counts once its transaction is committed.
func (o *Offsets) Pend(pid int64, tp journal.TopicPartition, c Committed) {
	if o.pending == nil {
		o.pending = map[int64]map[journal.TopicPartition]Committed{}
	}
	if o.pending[pid] == nil {
		o.pending[pid] = map[journal.TopicPartition]Committed{}
	}
	o.pending[pid][tp] = c
}

// End takes in the marker of a producer's transaction.
func (o *Offsets) End(pid int64, commit bool) {
	if commit {
		for tp, c := range o.pending[pid] {
			o.Commit(tp, c)
		}
	}
	delete(o.pending, pid)
}

// Get returns a committed offset and whether a transaction is about to change it.
func (o *Offsets) Get(tp journal.TopicPartition) (c Committed, found, pending bool) {
	c, found = o.committed[tp]
	for _, m := range o.pending {
		if _, ok := m[tp]; ok {
			pending = true
		}
	}
	return c, found, pending
}

// All lists what is committed or pending, in order.
func (o *Offsets) All() []journal.TopicPartition {
	set := make(map[journal.TopicPartition]struct{}, len(o.committed))
	for tp := range o.committed {
		set[tp] = struct{}{}
	}
	for _, m := range o.pending {
		for tp := range m {
			set[tp] = struct{}{}
		}
	}
	list := make([]journal.TopicPartition, 0, len(set))
	for tp := range set {
		list = append(list, tp)
	}
	slices.SortFunc(list, journal.TopicPartition.Compare)
	return list
}

// Committed lists the committed offsets, in order.
func (o *Offsets) Committed() []Offset {
	list := make([]Offset, 0, len(o.committed))
	for tp, c := range o.committed {
		list = append(list, Offset{tp, c})
	}
	slices.SortFunc(list, func(a, b Offset) int { return a.Compare(b.TopicPartition) })
	return list
}

// Expired lists offsets last committed before a time, and those whose own time is over, except those that a transaction is about
// to change.
func (o *Offsets) Expired(beforeMs, nowMs int64) []journal.TopicPartition {
	var list []journal.TopicPartition
	for tp, c := range o.committed {
		over := c.AtMs < beforeMs
		if c.ExpireMs != 0 {
			over = c.ExpireMs <= nowMs
		}
		if _, _, pending := o.Get(tp); over && !pending {
			list = append(list, tp)
		}
	}
	slices.SortFunc(list, journal.TopicPartition.Compare)
	return list
}

// Blank says that nothing is committed or pending.
func (o *Offsets) Blank() bool { return len(o.committed) == 0 && len(o.pending) == 0 }
