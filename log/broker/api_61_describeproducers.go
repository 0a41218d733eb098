package broker

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// handleDescribeProducers shows the producers that partitions know.
func (b *Broker) handleDescribeProducers(_ context.Context, r *request) (kmsg.Response, error) {
	req := r.req.(*kmsg.DescribeProducersRequest)
	resp := req.ResponseKind().(*kmsg.DescribeProducersResponse)
	var named partitionOnce
	for i := range req.Topics {
		st := kmsg.NewDescribeProducersResponseTopic()
		st.Topic = req.Topics[i].Topic
		t, err := b.topic(st.Topic, zeroID, false)
		for _, p := range named.topic(st.Topic, req.Topics[i].Partitions) {
			sp := kmsg.NewDescribeProducersResponseTopicPartition()
			sp.Partition = p
			perr := err
			if perr == nil {
				replica, _, lerr := b.leading(t, p)
				if perr = lerr; perr == nil {
					for _, ps := range replica.Log().Producers() {
						a := kmsg.NewDescribeProducersResponseTopicPartitionActiveProducer()
						a.ProducerID, a.ProducerEpoch, a.LastSequence = ps.ProducerID, int32(ps.Epoch), ps.LastSequence
						a.LastTimestamp, a.CoordinatorEpoch = ps.LastTimestamp, ps.CoordinatorEpoch
						a.CurrentTxnStartOffset = ps.CurrentTxnFirst
						sp.ActiveProducers = append(sp.ActiveProducers, a)
					}
				}
			}
			sp.ErrorCode, sp.ErrorMessage = errorCode(perr), errorMessage(perr)
			st.Partitions = append(st.Partitions, sp)
		}
		resp.Topics = append(resp.Topics, st)
	}
	return resp, nil
}
