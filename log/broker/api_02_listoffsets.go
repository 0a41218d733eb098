package broker

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rowtrail/rowtrail/log"
)

// Timestamps with a meaning of their own in ListOffsets.
const (
	offsetLatest         = -1
	offsetEarliest       = -2
	offsetMaxTimestamp   = -3
	offsetEarliestLocal  = -4 // nothing is tiered, so local is all
	offsetLatestTiered   = -5 // of nothing
	offsetEarliestUpload = -6 // of nothing
)

// handleListOffsets finds offsets by time, and the ends of partitions.
func (b *Broker) handleListOffsets(_ context.Context, r *request) (kmsg.Response, error) {
	req := r.req.(*kmsg.ListOffsetsRequest)
	resp := req.ResponseKind().(*kmsg.ListOffsetsResponse)
	iso := isolation(req.IsolationLevel)
	for i := range req.Topics {
		rt := &req.Topics[i]
		st := kmsg.NewListOffsetsResponseTopic()
		st.Topic = rt.Topic
		for j := range rt.Partitions {
			rp := &rt.Partitions[j]
			sp := kmsg.NewListOffsetsResponseTopicPartition()
			sp.Partition, sp.Offset, sp.Timestamp, sp.LeaderEpoch = rp.Partition, -1, -1, -1
			if err := b.listOffset(rt.Topic, rp, iso, &sp); err != nil {
				sp.ErrorCode = errorCode(err)
			}
			st.Partitions = append(st.Partitions, sp)
		}
		resp.Topics = append(resp.Topics, st)
	}
	return resp, nil
}

func (b *Broker) listOffset(topic string, rp *kmsg.ListOffsetsRequestTopicPartition, iso log.Isolation,
	sp *kmsg.ListOffsetsResponseTopicPartition,
) error {
	t, err := b.topic(topic, zeroID, false)
	if err != nil {
		return err
	}
	replica, epoch, err := b.leading(t, rp.Partition)
	if err != nil {
		return err
	}
	if err := checkEpoch(rp.CurrentLeaderEpoch, epoch); err != nil {
		return err
	}
	p := replica.Log()
	switch ts := rp.Timestamp; {
	case ts == offsetLatest:
		sp.Offset, sp.LeaderEpoch = readable(p.Marks(), iso), epoch
	case ts == offsetEarliest, ts == offsetEarliestLocal:
		sp.Offset, sp.LeaderEpoch = p.Marks().LogStart, epoch
	case ts == offsetMaxTimestamp:
		end := readable(p.Marks(), iso)
		sp.Offset, sp.Timestamp, sp.LeaderEpoch, err = p.MaxTimestamp()
		if sp.Offset >= end {
			sp.Offset, sp.Timestamp, sp.LeaderEpoch = -1, -1, -1 // as Kafka does, and not the largest one below
		}
	case ts == offsetLatestTiered, ts == offsetEarliestUpload:
	case ts < 0:
		return kerr.InvalidRequest
	default:
		offset, timestamp, at, ok, lookupErr := p.OffsetForTime(ts, iso)
		if lookupErr != nil {
			return lookupErr
		}
		if ok {
			sp.Offset, sp.Timestamp, sp.LeaderEpoch = offset, timestamp, at
		}
	}
	return err
}
