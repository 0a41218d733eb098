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
	type place struct {
		topic     string
		partition int32
	}
	twice := map[place]int{}
	for i := range req.Topics {
		for j := range req.Topics[i].Partitions {
			twice[place{req.Topics[i].Topic, req.Topics[i].Partitions[j].Partition}]++
		}
	}
	for i := range req.Topics {
		rt := &req.Topics[i]
		st := kmsg.NewListOffsetsResponseTopic()
		st.Topic = rt.Topic
		for j := range rt.Partitions {
			rp := &rt.Partitions[j]
			sp := kmsg.NewListOffsetsResponseTopicPartition()
			sp.Partition, sp.Offset, sp.Timestamp, sp.LeaderEpoch = rp.Partition, -1, -1, -1
			switch {
			case twice[place{rt.Topic, rp.Partition}] > 1:
				sp.ErrorCode = kerr.InvalidRequest.Code
			case !knownOffset(rp.Timestamp, req.Version):
				sp.ErrorCode = kerr.UnsupportedVersion.Code
			default:
				sp.ErrorCode = errorCode(b.listOffset(rt.Topic, rp, iso, &sp))
			}
			st.Partitions = append(st.Partitions, sp)
		}
		resp.Topics = append(resp.Topics, st)
	}
	return resp, nil
}

// knownOffset tells whether a version has a timestamp's meaning: those of their own came one after the other.
func knownOffset(timestamp int64, version int16) bool {
	switch timestamp {
	case offsetLatest, offsetEarliest:
		return true
	case offsetMaxTimestamp:
		return version >= 7
	case offsetEarliestLocal:
		return version >= 8
	case offsetLatestTiered:
		return version >= 9
	case offsetEarliestUpload:
		return version >= 11
	}
	return timestamp >= 0
}

func (b *Broker) listOffset(topic string, rp *kmsg.ListOffsetsRequestTopicPartition, iso log.Isolation,
	sp *kmsg.ListOffsetsResponseTopicPartition,
) error {
	t, err := b.topic(topic, zeroID, false)
	if err != nil {
		return err
	}
	replica, epoch, err := b.leadingIn(t, rp.Partition, rp.CurrentLeaderEpoch)
	if err != nil {
		return err
	}
	p := replica.Log()
	switch rp.Timestamp {
	case offsetLatest:
		sp.Offset, sp.LeaderEpoch = readable(p.Marks(), iso), epoch
	case offsetEarliest, offsetEarliestLocal:
		sp.Offset = p.Marks().LogStart
		sp.LeaderEpoch = p.EpochAt(sp.Offset)
	case offsetMaxTimestamp:
		end := readable(p.Marks(), iso)
		sp.Offset, sp.Timestamp, sp.LeaderEpoch, err = p.MaxTimestamp()
		if sp.Offset >= end {
			sp.Offset, sp.Timestamp, sp.LeaderEpoch = -1, -1, -1 // as Kafka does, and not the largest one below
		}
	case offsetLatestTiered, offsetEarliestUpload:
	default:
		offset, timestamp, at, ok, lookupErr := p.OffsetForTime(rp.Timestamp, iso)
		if lookupErr != nil {
			return lookupErr
		}
		if ok {
			sp.Offset, sp.Timestamp, sp.LeaderEpoch = offset, timestamp, at
		}
	}
	return err
}
