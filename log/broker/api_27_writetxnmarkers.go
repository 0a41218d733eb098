package broker

import (
	"context"
	"sync"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rowtrail/rowtrail/log/broker/txn"
	"github.com/rowtrail/rowtrail/log/record"
)

// handleWriteTxnMarkers ends transactions in partitions that this node leads: an admin does so with one that
// hangs there without its coordinator knowing.
func (b *Broker) handleWriteTxnMarkers(_ context.Context, r *request) (kmsg.Response, error) {
	req := r.req.(*kmsg.WriteTxnMarkersRequest)
	resp := req.ResponseKind().(*kmsg.WriteTxnMarkersResponse)
	var written sync.WaitGroup
	resp.Markers = make([]kmsg.WriteTxnMarkersResponseMarker, len(req.Markers))
	for i := range req.Markers {
		rm, sm := &req.Markers[i], &resp.Markers[i]
		sm.ProducerID = rm.ProducerID
		sm.Topics = make([]kmsg.WriteTxnMarkersResponseMarkerTopic, len(rm.Topics))
		for j := range rm.Topics {
			rt, st := &rm.Topics[j], &sm.Topics[j]
			st.Topic = rt.Topic
			st.Partitions = make([]kmsg.WriteTxnMarkersResponseMarkerTopicPartition, len(rt.Partitions))
			t, err := b.topic(rt.Topic, zeroID, false)
			for k, p := range rt.Partitions {
				sp := &st.Partitions[k]
				sp.Partition = p
				if err != nil || p < 0 || int(p) >= len(t.Partitions) {
					sp.ErrorCode = kerr.UnknownTopicOrPartition.Code
					continue
				}
				written.Add(1)
				m := record.EndTxn{ProducerID: rm.ProducerID, ProducerEpoch: rm.ProducerEpoch,
					CoordinatorEpoch: rm.CoordinatorEpoch, Commit: rm.Committed}
				markers{b}.WriteMarker(b.coordinating, txn.TopicPartition{Topic: rt.Topic, Partition: p}, m, func(err error) {
					sp.ErrorCode = errorCode(err)
					written.Done()
				})
			}
		}
	}
	written.Wait()
	return resp, nil
}
