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
		for _, p := range named.topic(st.Topic, req.Topics[i].Partitions) {
			sp := kmsg.NewDescribeProducersResponseTopicPartition()
			sp.Partition = p
			err := b.activeProducers(st.Topic, &sp)
			sp.ErrorCode, sp.ErrorMessage = errorCode(err), errorMessage(err)
			st.Partitions = append(st.Partitions, sp)
		}
		resp.Topics = append(resp.Topics, st)
	}
	return resp, nil
}

func (b *Broker) activeProducers(topic string, sp *kmsg.DescribeProducersResponseTopicPartition) error {
	t, err := b.topic(topic, zeroID, false)
	if err != nil {
		return err
	}
	replica, _, err := b.leading(t, sp.Partition)
	if err != nil {
		return err
	}
	for _, ps := range replica.Log().Producers() {
		a := kmsg.NewDescribeProducersResponseTopicPartitionActiveProducer()
		a.ProducerID, a.ProducerEpoch, a.LastSequence = ps.ProducerID, int32(ps.Epoch), ps.LastSequence
		a.LastTimestamp, a.CoordinatorEpoch = ps.LastTimestamp, ps.CoordinatorEpoch
		a.CurrentTxnStartOffset = ps.CurrentTxnFirst
		sp.ActiveProducers = append(sp.ActiveProducers, a)
	}
	return nil
}
