package broker

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rowtrail/rowtrail/log/broker/journal"
	"github.com/rowtrail/rowtrail/log/broker/txn"
)

// handleAddPartitionsToTxn makes partitions part of a transaction. From version 4 on a request names several
// transactions, and may only ask whether partitions are part of them; only brokers send those.
func (b *Broker) handleAddPartitionsToTxn(_ context.Context, r *request) (kmsg.Response, error) {
	req := r.req.(*kmsg.AddPartitionsToTxnRequest)
	resp := req.ResponseKind().(*kmsg.AddPartitionsToTxnResponse)
	if req.Version < 4 {
		one := kmsg.NewAddPartitionsToTxnRequestTransaction()
		one.TransactionalID, one.ProducerID, one.ProducerEpoch = req.TransactionalID, req.ProducerID, req.ProducerEpoch
		for i := range req.Topics {
			one.Topics = append(one.Topics, kmsg.AddPartitionsToTxnRequestTransactionTopic{
				Topic: req.Topics[i].Topic, Partitions: req.Topics[i].Partitions})
		}
		for _, t := range b.addPartitions(&one, req.Version).Topics {
			st := kmsg.NewAddPartitionsToTxnResponseTopic()
			st.Topic = t.Topic
			for _, p := range t.Partitions {
				st.Partitions = append(st.Partitions, kmsg.AddPartitionsToTxnResponseTopicPartition{
					Partition: p.Partition, ErrorCode: p.ErrorCode})
			}
			resp.Topics = append(resp.Topics, st)
		}
		return resp, nil
	}
	for i := range req.Transactions {
		resp.Transactions = append(resp.Transactions, b.addPartitions(&req.Transactions[i], req.Version))
	}
	return resp, nil
}

// addPartitions adds all of a transaction's partitions or none.
func (b *Broker) addPartitions(rt *kmsg.AddPartitionsToTxnRequestTransaction, version int16) kmsg.AddPartitionsToTxnResponseTransaction {
	st := kmsg.NewAddPartitionsToTxnResponseTransaction()
	st.TransactionalID = rt.TransactionalID
	var list []journal.TopicPartition
	var slots []*int16
	refused := false
	for i := range rt.Topics {
		topic := kmsg.NewAddPartitionsToTxnResponseTransactionTopic()
		topic.Topic = rt.Topics[i].Topic
		topic.Partitions = make([]kmsg.AddPartitionsToTxnResponseTransactionTopicPartition, len(rt.Topics[i].Partitions))
		t, err := b.topic(topic.Topic, zeroID, false)
		for j, p := range rt.Topics[i].Partitions {
			sp := &topic.Partitions[j]
			sp.Partition = p
			switch {
			case err != nil || p < 0 || int(p) >= len(t.Partitions):
				sp.ErrorCode, refused = kerr.UnknownTopicOrPartition.Code, true
				continue
			case t.Internal: // as Kafka says it; offsets join by AddOffsetsToTxn
				sp.ErrorCode, refused = kerr.TopicAuthorizationFailed.Code, true
				continue
			}
			list = append(list, journal.TopicPartition{Topic: topic.Topic, Partition: p})
			slots = append(slots, &sp.ErrorCode)
		}
		st.Topics = append(st.Topics, topic)
	}
	producer := txn.Producer{ID: rt.ProducerID, Epoch: rt.ProducerEpoch}
	switch {
	case rt.VerifyOnly:
		for i, tp := range list {
			*slots[i] = awaitCode(b.coordinating, func(reply func(int16)) { b.txns.Verify(rt.TransactionalID, producer, tp, reply) })
		}
	case refused:
		for _, s := range slots {
			*s = kerr.OperationNotAttempted.Code
		}
	default:
		client := txn.V1
		if version >= 4 {
			client = txn.V2
		}
		code := awaitCode(b.coordinating, func(reply func(int16)) { b.txns.Add(rt.TransactionalID, producer, list, client, reply) })
		for _, s := range slots {
			*s = fencedCode(code, version, 2)
		}
	}
	return st
}
