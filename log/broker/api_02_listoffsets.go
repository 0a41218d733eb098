package broker

import (
	"context"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"golang.org/x/sync/errgroup"

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

const (
	// confirming bounds the partitions of one request that quorums are asked about at a time.
	confirming = 256
	// confirmTimeout bounds the wait for a quorum. A leader without one steps down before.
	confirmTimeout = 5 * time.Second
)

type place struct {
	topic     string
	partition int32
}

// handleListOffsets finds offsets by time, and the ends of partitions. What it says of the end is no older than any acknowledgement that came
// before the request: a leader that was replaced and does not know it yet finds out.
func (b *Broker) handleListOffsets(ctx context.Context, r *request) (kmsg.Response, error) {
	req := r.req.(*kmsg.ListOffsetsRequest)
	resp := req.ResponseKind().(*kmsg.ListOffsetsResponse)
	iso := isolation(req.IsolationLevel)
	refuted := b.confirmLeading(ctx, req)
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
			case refuted[place{rt.Topic, rp.Partition}] != nil:
				sp.ErrorCode = errorCode(refuted[place{rt.Topic, rp.Partition}])
			default:
				sp.ErrorCode = errorCode(b.listOffset(rt.Topic, rp, iso, &sp))
			}
			st.Partitions = append(st.Partitions, sp)
		}
		resp.Topics = append(resp.Topics, st)
	}
	return resp, nil
}

// confirmLeading asks the quorums of all partitions whose end matters, side by side. It returns what this node does not lead any more; what it
// does not lead anyway is left to others to tell.
func (b *Broker) confirmLeading(ctx context.Context, req *kmsg.ListOffsetsRequest) map[place]error {
	defer pause(ctx)()
	ctx, cancel := context.WithTimeout(ctx, confirmTimeout)
	defer cancel()
	var mu sync.Mutex
	var refuted map[place]error
	var asking errgroup.Group
	asking.SetLimit(confirming)
	for i := range req.Topics {
		t, err := b.topic(req.Topics[i].Topic, zeroID, false)
		if err != nil {
			continue
		}
		for j := range req.Topics[i].Partitions {
			rp := &req.Topics[i].Partitions[j]
			if !endMatters(rp.Timestamp) {
				continue
			}
			replica, _, err := b.leadingIn(t, rp.Partition, rp.CurrentLeaderEpoch)
			if err != nil {
				continue
			}
			asking.Go(func() error {
				if err := replica.Confirm(ctx); err != nil {
					mu.Lock()
					defer mu.Unlock()
					if refuted == nil {
						refuted = map[place]error{}
					}
					refuted[place{t.Name, rp.Partition}] = err
				}
				return nil
			})
		}
	}
	_ = asking.Wait()
	return refuted
}

// endMatters tells whether an answer depends on how far the log goes.
func endMatters(timestamp int64) bool {
	return timestamp >= 0 || timestamp == offsetLatest || timestamp == offsetMaxTimestamp
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
	replica, epoch, follows, err := b.reading(t, rp.Partition, rp.CurrentLeaderEpoch, true)
	if err != nil {
		return err
	}
	if follows && (endMatters(rp.Timestamp) || !b.standsIn(t, rp.Partition)) {
		return kerr.NotLeaderForPartition
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
