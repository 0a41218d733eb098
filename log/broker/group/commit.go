package group

import (
	"math"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/rowtrail/rowtrail/log/broker/journal"
)

// CommitRequest stores offsets of a group.
type CommitRequest struct {
	Group                string
	MemberID, InstanceID string
	Generation           int32
	Offsets              []Offset // AtMs and ExpireMs are set here
	// Retention is how long these are kept, whatever the broker's own; 0: as long as others. Clients before 2.1 say it.
	Retention time.Duration
	// MemberEpochs: the request's version knows members of the consumer protocol, whose Generation is their epoch.
	MemberEpochs bool
	// Producer, when not nil, makes them part of its transaction, which it was let into in a leader epoch of the group's partition.
	Producer    *journal.Producer
	LeaderEpoch int32
}

// Commit handles OffsetCommit and TxnOffsetCommit: one code per offset.
func (c *Coordinator) Commit(r CommitRequest, reply func([]int16)) {
	codes := make([]int16, len(r.Offsets))
	fill := func(code int16) {
		for i := range codes {
			if codes[i] == 0 {
				codes[i] = code
			}
		}
		reply(codes)
	}
	if r.Group == "" && r.Producer != nil {
		fill(kerr.InvalidGroupID.Code)
		return
	}
	c.on(r.Group, func(s *shard, code int16) {
		switch {
		case code != 0:
		case r.Producer != nil && r.LeaderEpoch != s.j.Epoch():
			code = kerr.NotCoordinator.Code
		default:
			code = s.mayCommit(r, codes)
		}
		if code != 0 {
			fill(code)
			return
		}
		s.commit(r, codes, fill)
	})
}

// mayCommit is the code for all offsets, or puts one into codes for those that alone are refused.
func (s *shard) mayCommit(r CommitRequest, codes []int16) int16 {
	k := s.get(r.Group)
	if k != nil && k.consumer != nil {
		return s.consumerMayCommit(k.consumer, r, codes)
	}
	if k == nil {
		if r.Generation >= 0 {
			return kerr.IllegalGeneration.Code
		}
		return 0
	}
	return k.MayCommit(r.MemberID, r.InstanceID, r.Generation, r.Producer != nil, s.j.Now())
}

// commit writes the records. Invariant 1: the offsets count, and are answered, when they are committed.
func (s *shard) commit(r CommitRequest, codes []int16, fill func(int16)) {
	at := s.j.Now().UnixMilli()
	offsets := make([]Offset, 0, len(r.Offsets))
	records := make([]journal.Record, 0, len(r.Offsets))
	for i, o := range r.Offsets {
		if codes[i] != 0 {
			continue
		}
		if len(o.Metadata) > s.c.opts.MaxMetadataBytes {
			codes[i] = kerr.OffsetMetadataTooLarge.Code
			continue
		}
		if o.AtMs = at; r.Retention > 0 {
			o.ExpireMs = at + r.Retention.Milliseconds()
		}
		offsets = append(offsets, o)
		records = append(records, offsetRecord(r.Group, o))
	}
	if len(records) == 0 {
		fill(0)
		return
	}
	// The group is looked up again afterwards: it may have been deleted, and what the log holds counts.
	if r.Producer != nil {
		pid := r.Producer.ID
		s.j.WriteTxn(*r.Producer, records, func(_ int64, err error) {
			if err == nil {
				for _, o := range offsets {
					s.pend(s.make(r.Group), pid, o)
				}
			}
			fill(codeOf(err))
		})
		return
	}
	s.j.Write(records, func(_ int64, err error) {
		if err == nil {
			k := s.make(r.Group)
			for _, o := range offsets {
				k.offsets.Commit(o.TopicPartition, o.Committed)
			}
		}
		fill(codeOf(err))
	})
}

// EndTxn takes in a transaction marker that was committed to a partition of Topic.
func (c *Coordinator) EndTxn(partition int32, pid int64, commit bool) {
	s, ok := c.shards.At(partition)
	if !ok {
		return
	}
	s.j.Do(func(err error) {
		if err == nil { // else the marker is found when the partition is loaded
			s.end(pid, commit)
		}
	})
}

// Fetched is one answer of Fetch. Offset -1: none is committed.
type Fetched struct {
	journal.TopicPartition
	Committed
	Code int16
}

// FetchRequest asks for a group's offsets.
type FetchRequest struct {
	Group       string
	MemberID    string                   // of the consumer protocol; "": nobody in particular
	MemberEpoch int32                    // its epoch, which must be the present one; -1 without a member
	Partitions  []journal.TopicPartition // nil: all that the group has
	// Stable: offsets that a transaction is about to change are answered with UNSTABLE_OFFSET_COMMIT.
	Stable bool
}

// Fetch handles OffsetFetch.
func (c *Coordinator) Fetch(r FetchRequest, reply func(code int16, list []Fetched)) {
	group, partitions, stable := r.Group, r.Partitions, r.Stable
	c.on(group, func(s *shard, code int16) {
		if code == 0 {
			code = s.mayFetch(r)
		}
		if code != 0 {
			reply(code, nil)
			return
		}
		var offsets Offsets
		if k := s.get(group); k != nil {
			offsets = k.offsets
		}
		list := partitions
		if list == nil { // what is only pending is not among all, as in Kafka
			for _, o := range offsets.Committed() {
				list = append(list, o.TopicPartition)
			}
		}
		out := make([]Fetched, 0, len(list))
		for _, tp := range list {
			f := Fetched{TopicPartition: tp, Committed: Committed{Offset: -1, LeaderEpoch: -1}}
			switch c, found, pending := offsets.Get(tp); {
			case pending && stable:
				f.Code = kerr.UnstableOffsetCommit.Code
			case found:
				f.Committed = c
			}
			out = append(out, f)
		}
		reply(0, out)
	})
}

// expire deletes offsets past their retention, and groups that have nothing left.
func (s *shard) expire(now time.Time) {
	for id, k := range s.groups {
		gone := k.expired(now.Add(-s.c.opts.OffsetsRetention), now)
		switch {
		case len(gone) > 0:
			s.tombstone(id, gone, func(int16) {})
		case k.idle() && k.offsets.Blank() && len(k.pending) == 0 && now.Sub(k.stateSince) > s.c.opts.ExpiryInterval:
			s.forget(k, func(int16) {})
		}
	}
}

// expired lists the offsets whose retention, which began at keep, or whose own one is over. Those of a group with members age
// only when no member reads their topic; when the last member has left, from then on.
func (k *kept) expired(keep, now time.Time) []journal.TopicPartition {
	if k.consumer != nil {
		subscribed := k.consumer.Subscribed()
		return slices.DeleteFunc(k.offsets.Expired(keep.UnixMilli(), now.UnixMilli()), func(tp journal.TopicPartition) bool { return subscribed[tp.Topic] })
	}
	switch {
	case k.protocolType == "", k.state == Empty && k.stateSince.Before(keep):
		return k.offsets.Expired(keep.UnixMilli(), now.UnixMilli())
	case k.state == Empty:
		return k.offsets.Expired(math.MinInt64, now.UnixMilli())
	case k.state != Stable:
		return nil
	}
	subscribed, known := k.subscribed()
	if !known {
		return nil
	}
	return slices.DeleteFunc(k.offsets.Expired(keep.UnixMilli(), now.UnixMilli()), func(tp journal.TopicPartition) bool { return subscribed[tp.Topic] })
}

// tombstone deletes offsets.
func (s *shard) tombstone(group string, list []journal.TopicPartition, reply func(int16)) {
	records := make([]journal.Record, 0, len(list))
	for _, tp := range list {
		records = append(records, journal.Record{Key: offsetKey(group, tp)})
	}
	s.j.Write(records, func(_ int64, err error) {
		if err == nil {
			s.deleteOffsets(group, list)
		}
		reply(codeOf(err))
	})
}

func (s *shard) deleteOffsets(group string, list []journal.TopicPartition) {
	if k := s.get(group); k != nil {
		for _, tp := range list {
			k.offsets.Delete(tp)
		}
	}
}

// forget deletes a group and all it has, also what is pending in transactions.
func (s *shard) forget(k *kept, reply func(int16)) {
	var records []journal.Record
	list := k.offsets.All()
	for _, tp := range list {
		records = append(records, journal.Record{Key: offsetKey(k.ID, tp)})
	}
	if k.consumer != nil {
		records = append(records, k.consumer.Dissolve()...)
	}
	records = append(records, journal.Record{Key: groupKey(k.ID)})
	k.Kill()
	delete(s.groups, k.ID)
	s.j.Stage(records, func(_ int64, err error) {
		if err == nil {
			s.deleteOffsets(k.ID, list) // of commits that were on their way, before the tombstones in the log
		}
		reply(codeOf(err))
	})
}
