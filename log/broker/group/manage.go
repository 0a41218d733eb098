package group

import (
	"crypto/rand"
	"encoding/hex"
	"slices"
	"strings"
	"sync"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rowtrail/rowtrail/log/broker/journal"
)

// newID returns 16 random bytes as text.
func newID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// Describe handles DescribeGroups for one group; one that is not known, or no classic one, is Dead.
func (c *Coordinator) Describe(group string, reply func(code int16, d Description)) {
	c.on(group, func(s *shard, code int16) {
		d := Description{Group: group, State: Dead}
		if code == 0 {
			if k := s.get(group); k != nil {
				d = k.Describe()
				if k.consumer != nil {
					d = Description{Group: group, State: Dead, Consumer: true}
				}
			}
		}
		reply(code, d)
	})
}

// Listed is a group in a list.
type Listed struct {
	Group, ProtocolType, State string
	Type                       string // classic or consumer
}

// List handles ListGroups. Partitions that this node does not coordinate are left out; while one is loading the code
// says so.
func (c *Coordinator) List(reply func(code int16, list []Listed)) {
	var list []Listed
	c.shards.Each(func(s *shard) {
		for id, k := range s.groups {
			l := Listed{id, k.protocolType, k.stateName(), TypeClassic}
			if k.consumer != nil {
				l.ProtocolType, l.Type = consumerProtocol, TypeConsumer
			}
			list = append(list, l)
		}
	}, func(err error) {
		slices.SortFunc(list, func(a, b Listed) int { return strings.Compare(a.Group, b.Group) })
		reply(codeOf(err), list)
	})
}

// Delete handles DeleteGroups for one group.
func (c *Coordinator) Delete(group string, reply func(code int16)) {
	c.on(group, func(s *shard, code int16) {
		if code != 0 {
			reply(code)
			return
		}
		k := s.get(group)
		switch {
		case k == nil:
			reply(kerr.GroupIDNotFound.Code)
		case !k.idle():
			reply(kerr.NonEmptyGroup.Code)
		default:
			s.forget(k, reply)
		}
	})
}

// DeleteOffsets handles OffsetDelete: one code per partition, or one for all.
func (c *Coordinator) DeleteOffsets(group string, list []journal.TopicPartition, reply func(code int16, each []int16)) {
	c.on(group, func(s *shard, code int16) {
		if code == 0 && s.get(group) == nil {
			code = kerr.GroupIDNotFound.Code
		}
		if code != 0 {
			reply(code, nil)
			return
		}
		k := s.get(group)
		subscribed, known := k.subscribed()
		if !k.idle() && !known {
			reply(kerr.NonEmptyGroup.Code, nil)
			return
		}
		each := make([]int16, len(list))
		var gone []journal.TopicPartition
		for i, tp := range list {
			if subscribed[tp.Topic] {
				each[i] = kerr.GroupSubscribedToTopic.Code
				continue
			}
			if _, found, pending := k.offsets.Get(tp); found || pending {
				gone = append(gone, tp)
			}
		}
		if len(gone) == 0 {
			reply(0, each)
			return
		}
		s.tombstone(group, gone, func(code int16) { reply(code, each) })
	})
}

// subscribed are the topics that a consumer group's members read; known is false when their metadata
// cannot tell.
func (k *kept) subscribed() (topics map[string]bool, known bool) {
	switch {
	case k.consumer != nil:
		return k.consumer.Subscribed(), true
	case len(k.members) == 0:
		return nil, true
	case k.protocolType != consumerProtocol:
		return nil, false
	}
	topics = map[string]bool{}
	for _, m := range k.members {
		for _, p := range m.protocols {
			var meta kmsg.ConsumerMemberMetadata
			if err := meta.ReadFrom(p.Metadata); err != nil {
				return nil, false
			}
			for _, t := range meta.Topics {
				topics[t] = true
			}
		}
	}
	return topics, true
}

// ForgetTopics deletes the offsets of deleted topics: a new topic of that name starts from nothing. The code is not 0
// when a partition of Topic was loading and was left out.
func (c *Coordinator) ForgetTopics(gone func(topic string) bool, reply func(code int16)) {
	var mu sync.Mutex
	left, failed := 1, int16(0)
	settle := func(code int16) {
		mu.Lock()
		if left--; code != 0 {
			failed = code
		}
		last, code := left == 0, failed
		mu.Unlock()
		if last {
			reply(code)
		}
	}
	c.shards.Each(func(s *shard) {
		for id, k := range s.groups {
			var list []journal.TopicPartition
			for _, tp := range k.offsets.All() {
				if gone(tp.Topic) {
					list = append(list, tp)
				}
			}
			if len(list) > 0 {
				mu.Lock()
				left++
				mu.Unlock()
				s.tombstone(id, list, settle)
			}
		}
	}, func(err error) { settle(codeOf(err)) })
}

// Serves reports that a partition of Topic is loaded, and its groups coordinated here.
func (c *Coordinator) Serves(partition int32) bool {
	s, ok := c.shards.At(partition)
	return ok && s.j.Leads()
}

// Lag is one group's committed offset of one partition; the reader of metrics adds the partition's end.
type Lag struct {
	Group, Topic string
	Partition    int32
	Committed    int64
	Members      int
	State        string
}

// Lags lists every committed offset of the groups that are coordinated here.
func (c *Coordinator) Lags(reply func([]Lag)) {
	var list []Lag
	c.shards.Each(func(s *shard) {
		for id, k := range s.groups {
			for _, o := range k.offsets.Committed() {
				list = append(list, Lag{id, o.Topic, o.Partition, o.Offset, k.count(), k.stateName()})
			}
		}
	}, func(error) { reply(list) })
}
