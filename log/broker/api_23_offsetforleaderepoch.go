package broker

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// handleOffsetForLeaderEpoch tells where a leader epoch ended, so that a client can see whether what it read
// is still part of the log.
func (b *Broker) handleOffsetForLeaderEpoch(_ context.Context, r *request) (kmsg.Response, error) {
	req := r.req.(*kmsg.OffsetForLeaderEpochRequest)
	resp := req.ResponseKind().(*kmsg.OffsetForLeaderEpochResponse)
	for i := range req.Topics {
		rt := &req.Topics[i]
		st := kmsg.NewOffsetForLeaderEpochResponseTopic()
		st.Topic = rt.Topic
		for j := range rt.Partitions {
			rp := &rt.Partitions[j]
			sp := kmsg.NewOffsetForLeaderEpochResponseTopicPartition()
			sp.Partition, sp.LeaderEpoch, sp.EndOffset = rp.Partition, -1, -1
			sp.ErrorCode = errorCode(b.epochEnd(rt.Topic, rp, &sp))
			st.Partitions = append(st.Partitions, sp)
		}
		resp.Topics = append(resp.Topics, st)
	}
	return resp, nil
}

func (b *Broker) epochEnd(topic string, rp *kmsg.OffsetForLeaderEpochRequestTopicPartition,
	sp *kmsg.OffsetForLeaderEpochResponseTopicPartition,
) error {
	t, err := b.topic(topic, zeroID, false)
	if err != nil {
		return err
	}
	replica, _, err := b.leadingIn(t, rp.Partition, rp.CurrentLeaderEpoch)
	if err != nil {
		return err
	}
	sp.LeaderEpoch, sp.EndOffset = replica.Log().EpochEnd(rp.LeaderEpoch)
	return nil
}
