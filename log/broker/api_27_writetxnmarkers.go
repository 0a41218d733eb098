package broker

import (
	"context"
	"sync"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rowtrail/rowtrail/cluster"
	"github.com/rowtrail/rowtrail/log/broker/journal"
	"github.com/rowtrail/rowtrail/log/broker/txn"
	"github.com/rowtrail/rowtrail/log/record"
)

// handleWriteTxnMarkers ends transactions in partitions that this node leads: an admin does so with one that
// hangs there without its coordinator knowing.
func (b *Broker) handleWriteTxnMarkers(ctx context.Context, r *request) (kmsg.Response, error) {
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
				if sp.ErrorCode = b.refuseMarker(rm, t, err, p); sp.ErrorCode != 0 {
					continue
				}
				written.Add(1)
				m := record.EndTxn{ProducerID: rm.ProducerID, ProducerEpoch: rm.ProducerEpoch,
					CoordinatorEpoch: rm.CoordinatorEpoch, Commit: rm.Committed}
				markers{b}.writeHere(b.coordinating, t, journal.TopicPartition{Topic: rt.Topic, Partition: p}, m, func(err error) {
					sp.ErrorCode = errorCode(err)
					written.Done()
				})
			}
		}
	}
	defer pause(ctx)()
	written.Wait()
	return resp, nil
}

// refuseMarker is why a marker is not written to a partition; t and err are the look-up of its topic.
func (b *Broker) refuseMarker(m *kmsg.WriteTxnMarkersRequestMarker, t *cluster.Topic, err error, partition int32) int16 {
	switch {
	case err != nil || partition < 0 || int(partition) >= len(t.Partitions):
		return kerr.UnknownTopicOrPartition.Code
	case t.Name == txn.Topic: // no transaction is kept there, and a marker would keep the coordinator from loading
		return kerr.InvalidTopicException.Code
	case m.ProducerID < 0 || m.ProducerEpoch < 0:
		return kerr.InvalidProducerEpoch.Code
	case m.TransactionVersion < int8(txn.V2):
		return 0
	}
	r, _, err := b.leading(t, partition)
	if err != nil {
		return errorCode(err)
	}
	// In version 2 a transaction ends under the epoch after its own: a marker of the epoch of an open one is a late one of the
	// transaction before it, or that one's repetition where none is open (KIP-1228).
	for _, p := range r.Log().Producers() {
		if p.ProducerID == m.ProducerID && p.Epoch >= m.ProducerEpoch && (p.Epoch > m.ProducerEpoch || p.CurrentTxnFirst >= 0) {
			return kerr.InvalidProducerEpoch.Code
		}
	}
	return 0
}
