package broker

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// handleDeleteRecords moves the start of partitions forward.
func (b *Broker) handleDeleteRecords(ctx context.Context, r *request) (kmsg.Response, error) {
	req := r.req.(*kmsg.DeleteRecordsRequest)
	resp := req.ResponseKind().(*kmsg.DeleteRecordsResponse)
	ctx, cancel := withTimeout(ctx, req.TimeoutMillis)
	defer cancel()
	for i := range req.Topics {
		rt := &req.Topics[i]
		st := kmsg.NewDeleteRecordsResponseTopic()
		st.Topic = rt.Topic
		for j := range rt.Partitions {
			rp := &rt.Partitions[j]
			sp := kmsg.NewDeleteRecordsResponseTopicPartition()
			sp.Partition = rp.Partition
			low, err := b.deleteRecords(ctx, rt.Topic, rp.Partition, rp.Offset)
			sp.LowWatermark, sp.ErrorCode = low, errorCode(err)
			st.Partitions = append(st.Partitions, sp)
		}
		resp.Topics = append(resp.Topics, st)
	}
	return resp, nil
}

// deleteRecords deletes up to offset, or all that is committed with -1. It returns the new start.
func (b *Broker) deleteRecords(ctx context.Context, topic string, partition int32, offset int64) (int64, error) {
	t, err := b.topic(topic, zeroID, false)
	if err != nil {
		return -1, err
	}
	if t.Internal {
		return -1, kerr.InvalidTopicException
	}
	if t.Settings.Log.Compact && !t.Settings.Deletes {
		return -1, kerr.PolicyViolation // its records go by key
	}
	replica, _, err := b.leading(t, partition)
	if err != nil {
		return -1, err
	}
	p := replica.Log()
	high := p.Marks().HighWatermark
	switch {
	case offset == -1:
		offset = high
	case offset < 0 || offset > high:
		return -1, kerr.OffsetOutOfRange
	}
	defer pause(ctx)()
	low, err := replica.DeleteRecords(ctx, offset)
	if err != nil {
		return -1, err
	}
	return low, nil
}
