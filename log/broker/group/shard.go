package group

import (
	"bytes"
	"container/heap"
	"fmt"
	"slices"
	"time"

	"github.com/rowtrail/rowtrail/log"
	"github.com/rowtrail/rowtrail/log/broker/group/consumer"
	"github.com/rowtrail/rowtrail/log/broker/journal"
)

// maxGroupBytes bounds the metadata and assignments of one group.
const maxGroupBytes = 16 << 20

// kept is a group with its offsets.
type kept struct {
	*Group // without members and not used while consumer is set
	// consumer is the group when it is one of the consumer protocol; saving is the last write of it that is on its way.
	consumer *consumer.Group
	saving   *saving
	offsets  Offsets
	queued   time.Time // the deadline that is in the shard's queue; zero: none
	// last is the metadata as it was last written; no key: never. What a rollover copies is this, not
	// the state in the middle of a rebalance.
	last journal.Record
}

// shard is the fold of one partition of __consumer_offsets. It lives on its journal's goroutine.
type shard struct {
	c      *Coordinator
	j      *journal.Journal
	groups map[string]*kept
	// txns are the groups with offsets pending under a producer id.
	txns   map[int64]map[string]struct{}
	queue  deadlines
	expiry time.Time // next scan for offsets past their retention
}

func (s *shard) Reset(int32) {
	for _, k := range s.groups {
		k.Kill()
	}
	s.groups, s.txns, s.queue = map[string]*kept{}, map[int64]map[string]struct{}{}, nil
}

func (s *shard) get(id string) *kept { return s.groups[id] }

func (s *shard) make(id string) *kept {
	k := s.groups[id]
	if k == nil {
		k = &kept{Group: newGroup(id, &s.c.opts.Limits, s, s.j.Now())}
		s.groups[id] = k
	}
	return k
}

// Apply folds one batch.
func (s *shard) Apply(b journal.Batch) error {
	if b.Marker != nil {
		s.end(b.Marker.ProducerID, b.Marker.Commit)
		return nil
	}
	for i := range b.Records {
		e, err := parse(b.Records[i])
		if err == nil {
			err = s.applyEntry(e, b, b.Records[i])
		}
		if err != nil {
			return fmt.Errorf("record %d: %w", i, err)
		}
	}
	return nil
}

func (s *shard) applyEntry(e entry, b journal.Batch, r journal.Record) error {
	switch {
	case b.Transactional:
		if !e.isOffset || e.commit == nil {
			return fmt.Errorf("group %q: only offsets are written in transactions", e.group)
		}
		s.pend(s.make(e.group), b.Producer.ID, Offset{e.tp, *e.commit})
	case e.isOffset && e.commit != nil:
		s.make(e.group).offsets.Commit(e.tp, *e.commit)
	case e.isOffset:
		s.make(e.group).offsets.Delete(e.tp)
	case e.change != nil:
		s.applyChange(*e.change)
	case e.meta != nil:
		k := s.make(e.group)
		k.last = journal.Record{Key: bytes.Clone(r.Key), Value: bytes.Clone(r.Value)}
		if err := k.restore(e.meta, s.j.Now()); err != nil {
			return fmt.Errorf("metadata of %q: %w", e.group, err)
		}
	default:
		// A tombstone of the metadata ends the members, not the offsets that follow by themselves.
		k := s.make(e.group)
		offsets := k.offsets
		delete(s.groups, e.group)
		if !offsets.Blank() {
			s.make(e.group).offsets = offsets
		}
	}
	return nil
}

func (s *shard) pend(k *kept, pid int64, o Offset) {
	k.offsets.Pend(pid, o.TopicPartition, o.Committed)
	if s.txns[pid] == nil {
		s.txns[pid] = map[string]struct{}{}
	}
	s.txns[pid][k.ID] = struct{}{}
}

func (s *shard) end(pid int64, commit bool) {
	for id := range s.txns[pid] {
		if k := s.groups[id]; k != nil {
			k.offsets.End(pid, commit)
		}
	}
	delete(s.txns, pid)
}

// Loaded starts the sessions of members that the log knows.
func (s *shard) Loaded(now time.Time) {
	for id, k := range s.groups {
		if k.consumer != nil {
			k.consumer.Loaded(now)
			if !k.consumer.Known() {
				k.consumer = nil
			}
		}
		if k.last.Key == nil && k.consumer == nil && k.offsets.Blank() {
			delete(s.groups, id)
			continue
		}
		for _, m := range k.members {
			m.seen = now
		}
		s.schedule(k)
	}
	s.expiry = now.Add(s.c.opts.ExpiryInterval)
}

// Tick runs what is due.
func (s *shard) Tick(now time.Time) time.Time {
	for len(s.queue) > 0 && !now.Before(s.queue[0].at) {
		d := heap.Pop(&s.queue).(deadline)
		if k := s.groups[d.group]; k != nil && k.queued.Equal(d.at) {
			k.queued = time.Time{}
			s.tick(k, now)
			s.schedule(k)
		}
	}
	if !now.Before(s.expiry) {
		s.expire(now)
		s.expiry = now.Add(s.c.opts.ExpiryInterval)
	}
	if len(s.queue) > 0 && s.queue[0].at.Before(s.expiry) {
		return s.queue[0].at
	}
	return s.expiry
}

// schedule queues the group's deadline unless one at least as early is queued: deadlines mostly move back,
// and one that is found too early is queued again.
func (s *shard) schedule(k *kept) {
	at := k.Deadline()
	if at.IsZero() || (!k.queued.IsZero() && !at.Before(k.queued)) {
		return
	}
	k.queued = at
	heap.Push(&s.queue, deadline{at, k.ID})
}

// State yields the records that fold to this shard. Offsets pending in a transaction are not part of it: the log
// behind an open transaction is never deleted.
func (s *shard) State(yield func(journal.Record)) {
	ids := make([]string, 0, len(s.groups))
	for id := range s.groups {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	for _, id := range ids {
		k := s.groups[id]
		if k.last.Key != nil {
			yield(k.last)
		}
		if k.consumer != nil {
			k.consumer.Records(yield)
		}
		for _, o := range k.offsets.Committed() {
			yield(offsetRecord(id, o))
		}
	}
}

// Save writes the group's metadata; the group calls it.
func (s *shard) Save(g *Group, then func(time.Time, error)) {
	k := s.groups[g.ID]
	if k == nil || k.Group != g {
		then(s.j.Now(), journal.ErrLoading) // forgotten meanwhile; nobody waits for it
		return
	}
	r := g.record()
	if len(r.Value) > maxGroupBytes {
		then(s.j.Now(), fmt.Errorf("keep group %q: %w: its members' metadata and assignments take %d bytes, at most %d are kept",
			g.ID, log.ErrTooLarge, len(r.Value), maxGroupBytes))
		return
	}
	k.last = r
	s.j.Stage([]journal.Record{r}, func(_ int64, err error) {
		then(s.j.Now(), err)
		s.schedule(k)
	})
}

func (s *shard) NewMemberID(prefix string) string { return prefix + "-" + s.c.opts.NewID() }

type deadline struct {
	at    time.Time
	group string
}

// deadlines is a heap, earliest first.
type deadlines []deadline

func (d deadlines) Len() int           { return len(d) }
func (d deadlines) Less(i, j int) bool { return d[i].at.Before(d[j].at) }
func (d deadlines) Swap(i, j int)      { d[i], d[j] = d[j], d[i] }
func (d *deadlines) Push(x any)        { *d = append(*d, x.(deadline)) }
func (d *deadlines) Pop() any {
	last := (*d)[len(*d)-1]
	*d = (*d)[:len(*d)-1]
	return last
}
