package broker

import (
	"context"
	"math"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rowtrail/rowtrail/log/broker/group"
	"github.com/rowtrail/rowtrail/log/broker/journal"
)

// lastRetention is the last OffsetCommit version whose clients say how long their offsets are kept.
const lastRetention = 4

// handleOffsetCommit stores a group's offsets.
func (b *Broker) handleOffsetCommit(ctx context.Context, r *request) (kmsg.Response, error) {
	req := r.req.(*kmsg.OffsetCommitRequest)
	resp := req.ResponseKind().(*kmsg.OffsetCommitResponse)
	c := commitSlots{b: b}
	for i := range req.Topics {
		rt := &req.Topics[i]
		st := kmsg.NewOffsetCommitResponseTopic()
		st.Topic, st.TopicID = rt.Topic, rt.TopicID
		st.Partitions = make([]kmsg.OffsetCommitResponseTopicPartition, len(rt.Partitions))
		for j := range rt.Partitions {
			rp, sp := &rt.Partitions[j], &st.Partitions[j]
			sp.Partition = rp.Partition
			c.add(rt.Topic, rt.TopicID, req.Version >= 10, rp.Partition,
				group.Committed{Offset: rp.Offset, LeaderEpoch: rp.LeaderEpoch, Metadata: deref(rp.Metadata)}, &sp.ErrorCode)
		}
		resp.Topics = append(resp.Topics, st)
	}
	retention := time.Duration(0)
	if req.Version <= lastRetention && req.RetentionTimeMillis >= 0 {
		retention = time.Duration(min(max(req.RetentionTimeMillis, 1), math.MaxInt64/int64(time.Millisecond))) * time.Millisecond
	}
	c.commit(ctx, group.CommitRequest{Group: req.Group, MemberID: req.MemberID, InstanceID: deref(req.InstanceID),
		Generation: req.Generation, MemberEpochs: req.Version >= 9, Retention: retention})
	return resp, nil
}

// commitSlots collects what may be committed, and where its code goes.
type commitSlots struct {
	b       *Broker
	offsets []group.Offset
	codes   []*int16
}

// add takes in one partition, or answers it at once when it does not exist.
func (c *commitSlots) add(topic string, id [16]byte, byID bool, partition int32, o group.Committed, code *int16) {
	t, err := c.b.topic(topic, id, byID)
	if err == nil && (partition < 0 || int(partition) >= len(t.Partitions)) {
		err = kerr.UnknownTopicOrPartition
	}
	if err != nil {
		*code = errorCode(err)
		return
	}
	c.offsets = append(c.offsets, group.Offset{
		TopicPartition: journal.TopicPartition{Topic: t.Name, Partition: partition}, Committed: o})
	c.codes = append(c.codes, code)
}

func (c *commitSlots) commit(ctx context.Context, r group.CommitRequest) {
	r.Offsets = c.offsets
	codes, ok := await(c.b.whileCoordinating(ctx), func(reply func([]int16)) { c.b.groups.Commit(r, reply) })
	for i, code := range c.codes {
		*code = kerr.CoordinatorNotAvailable.Code
		if ok {
			*code = codes[i]
		}
	}
}
