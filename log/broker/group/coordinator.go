package group

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/rowtrail/rowtrail/log"
	"github.com/rowtrail/rowtrail/log/broker/group/consumer"
	"github.com/rowtrail/rowtrail/log/broker/journal"
)

// Topic is where groups are kept, and DefaultPartitions how many coordinators share the work.
const (
	Topic             = "__consumer_offsets"
	DefaultPartitions = 8
)

// Options configure a Coordinator. Zero values take the defaults named here.
type Options struct {
	Limits
	Logger           *slog.Logger
	Now              func() time.Time
	NewID            func() string // the random part of member ids
	MaxMetadataBytes int           // metadata of one committed offset. Default 4096
	// OffsetsRetention is how long the offsets of a group without members are kept. Default 7 days.
	OffsetsRetention time.Duration
	ExpiryInterval   time.Duration // between looks for expired offsets. Default 10 min
	RolloverBytes    int64         // see journal.Options
	// Consumer limits groups of the consumer protocol, and Topics are those that they can read; nil: none.
	Consumer consumer.Limits
	Topics   func() *consumer.Topics
	// ConsumerOf are the limits of one group of the consumer protocol, given those of all; nil: those.
	ConsumerOf func(group string, all consumer.Limits) consumer.Limits
}

func (o Options) withDefaults() Options {
	o.Limits = o.Limits.withDefaults()
	o.Consumer = o.Consumer.WithDefaults()
	if o.ConsumerOf == nil {
		o.ConsumerOf = func(_ string, all consumer.Limits) consumer.Limits { return all }
	}
	if o.Topics == nil {
		none := consumer.NewTopics(nil)
		o.Topics = func() *consumer.Topics { return none }
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.NewID == nil {
		o.NewID = newID
	}
	if o.MaxMetadataBytes <= 0 {
		o.MaxMetadataBytes = 4096
	}
	if o.OffsetsRetention <= 0 {
		o.OffsetsRetention = 7 * 24 * time.Hour
	}
	if o.ExpiryInterval <= 0 {
		o.ExpiryInterval = 10 * time.Minute
	}
	return o
}

// Coordinator owns the groups of a set of partitions. Its methods answer through a function, called once from any
// goroutine, that must not block.
type Coordinator struct {
	opts   Options
	shards *journal.Shards[*shard]
}

// Options are those in force, defaults included.
func (c *Coordinator) Options() Options { return c.opts }

// New returns a coordinator. It refuses work until Open names the partitions of Topic.
func New(opts Options) *Coordinator {
	c := &Coordinator{opts: opts.withDefaults()}
	c.shards = journal.NewShards(journal.Options{Name: Topic, Logger: c.opts.Logger, Now: c.opts.Now, RolloverBytes: c.opts.RolloverBytes},
		func(j *journal.Journal) *shard { return &shard{c: c, j: j} })
	return c
}

// Open names the partitions of Topic, in order, once.
func (c *Coordinator) Open(partitions []journal.Partition) { c.shards.Open(partitions) }

// Run drives the coordinator until ctx ends.
func (c *Coordinator) Run(ctx context.Context) { c.shards.Run(ctx, nil) }

// LeadersMoved has the coordinator look at once what it still coordinates.
func (c *Coordinator) LeadersMoved() { c.shards.Look() }

// PartitionFor is the partition of Topic that keeps a group.
func (c *Coordinator) PartitionFor(group string) int32 { return c.shards.PartitionFor(group) }

// Serving reports whether the group's partition is loaded, as a protocol code.
func (c *Coordinator) Serving(group string) int16 { return codeOf(c.shards.Serving(group)) }

// on runs f on the group's shard; code is not 0 when it cannot be had.
func (c *Coordinator) on(group string, f func(s *shard, code int16)) {
	c.shards.Do(group, func(s *shard, err error) {
		if err != nil {
			f(nil, codeOf(err))
			return
		}
		f(s, 0)
	})
}

// codeOf is the protocol's word for an error of the journal or the log.
func codeOf(err error) int16 {
	switch {
	case errors.Is(err, log.ErrInvalidProducerEpoch):
		return kerr.InvalidProducerEpoch.Code
	case errors.Is(err, log.ErrInvalidTxnState):
		return kerr.InvalidTxnState.Code
	case errors.Is(err, log.ErrTooLarge):
		return kerr.InvalidCommitOffsetSize.Code
	default:
		return journal.Code(err)
	}
}

// Join handles JoinGroup.
func (c *Coordinator) Join(group string, r JoinRequest, reply func(JoinResult)) {
	if group == "" {
		reply(JoinResult{Code: kerr.InvalidGroupID.Code, MemberID: r.MemberID, Generation: -1})
		return
	}
	c.on(group, func(s *shard, code int16) {
		if code == 0 {
			code = s.mayJoin(group, r)
		}
		if code != 0 {
			reply(JoinResult{Code: code, MemberID: r.MemberID, Generation: -1})
			return
		}
		k := s.make(group)
		k.Join(r, s.j.Now(), reply)
		s.schedule(k)
	})
}

// mayJoin makes way for a classic group, or says why there can be none.
func (s *shard) mayJoin(group string, r JoinRequest) int16 {
	switch k := s.get(group); {
	case k == nil && r.MemberID != "":
		return kerr.UnknownMemberID.Code
	case k != nil && k.consumer != nil:
		return s.makeClassic(k)
	}
	return 0
}

// Sync handles SyncGroup.
func (c *Coordinator) Sync(group string, r SyncRequest, reply func(SyncResult)) {
	c.on(group, func(s *shard, code int16) {
		if code == 0 && s.get(group) == nil {
			code = kerr.UnknownMemberID.Code
		}
		if code != 0 {
			reply(SyncResult{Code: code})
			return
		}
		k := s.get(group)
		k.Sync(r, s.j.Now(), reply)
		s.schedule(k)
	})
}

// Gone gives up a Join or Sync whose client is no longer there.
func (c *Coordinator) Gone(group string, w *Wait) {
	c.on(group, func(s *shard, code int16) {
		if code != 0 {
			return
		}
		if k := s.get(group); k != nil {
			k.Gone(w, s.j.Now())
			s.schedule(k)
		}
	})
}

// Heartbeat handles Heartbeat.
func (c *Coordinator) Heartbeat(group, memberID, instanceID string, generation int32, reply func(code int16)) {
	c.on(group, func(s *shard, code int16) {
		if code == 0 {
			code = kerr.UnknownMemberID.Code
			if k := s.get(group); k != nil {
				code = k.Heartbeat(memberID, instanceID, generation, s.j.Now())
			}
		}
		reply(code)
	})
}

// Leaver names a member that leaves.
type Leaver struct{ MemberID, InstanceID string }

// Leave handles LeaveGroup: one code per leaver, or one for all.
func (c *Coordinator) Leave(group string, list []Leaver, reply func(code int16, each []int16)) {
	c.on(group, func(s *shard, code int16) {
		if code != 0 {
			reply(code, nil)
			return
		}
		each := make([]int16, len(list))
		k := s.get(group)
		for i, l := range list {
			if k == nil {
				each[i] = kerr.UnknownMemberID.Code
				continue
			}
			if k.consumer != nil {
				each[i] = s.removeConsumer(k, l)
				continue
			}
			each[i] = k.Leave(l.MemberID, l.InstanceID, s.j.Now())
		}
		if k == nil {
			reply(0, each)
			return
		}
		s.schedule(k)
		s.settled(k, func(err error) { reply(codeOf(err), each) })
	})
}
