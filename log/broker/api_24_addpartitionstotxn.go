package broker

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rowtrail/rowtrail/log/broker/group"
	"github.com/rowtrail/rowtrail/log/broker/journal"
	"github.com/rowtrail/rowtrail/log/broker/txn"
)

// handleAddPartitionsToTxn makes partitions part of a transaction. From version 4 on a request names several
// transactions, and may only ask whether partitions are part of them; only brokers send those.
func (b *Broker) handleAddPartitionsToTxn(ctx context.Context, r *request) (kmsg.Response, error) {
	req := r.req.(*kmsg.AddPartitionsToTxnRequest)
	resp := req.ResponseKind().(*kmsg.AddPartitionsToTxnResponse)
	ctx = b.whileCoordinating(ctx)
	if req.Version < 4 {
		one := kmsg.NewAddPartitionsToTxnRequestTransaction()
		one.TransactionalID, one.ProducerID, one.ProducerEpoch = req.TransactionalID, req.ProducerID, req.ProducerEpoch
		for i := range req.Topics {
			one.Topics = append(one.Topics, kmsg.AddPartitionsToTxnRequestTransactionTopic{
				Topic: req.Topics[i].Topic, Partitions: req.Topics[i].Partitions})
		}
		added, finish := b.addPartitions(ctx, &one, req.Version, r.internal)
		finish()
		for _, t := range added.Topics {
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
	// Other nodes ask for many at once, which must not wait for each other.
	finish := make([]func(), len(req.Transactions))
	for i := range req.Transactions {
		var st kmsg.AddPartitionsToTxnResponseTransaction
		st, finish[i] = b.addPartitions(ctx, &req.Transactions[i], req.Version, r.internal)
		resp.Transactions = append(resp.Transactions, st)
	}
	for _, f := range finish {
		f()
	}
	return resp, nil
}

// addPartitions begins to add all of a transaction's partitions or none; finish waits for the outcome. Offsets of groups are added by nodes
// alone: clients have AddOffsetsToTxn for them.
func (b *Broker) addPartitions(ctx context.Context, rt *kmsg.AddPartitionsToTxnRequestTransaction, version int16, internal bool) (
	st kmsg.AddPartitionsToTxnResponseTransaction, finish func(),
) {
	st = kmsg.NewAddPartitionsToTxnResponseTransaction()
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
			case t.Internal && (!internal || version < 4 || t.Name != group.Topic): // as Kafka says it
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
		return st, func() {
			for i, tp := range list {
				*slots[i] = b.verify(ctx, entry{rt.TransactionalID, producer}, tp)
			}
		}
	case refused:
		for _, s := range slots {
			*s = kerr.OperationNotAttempted.Code
		}
		return st, func() {}
	}
	client := txn.V1
	if version >= 4 {
		client = txn.V2
	}
	added := make(chan int16, 1)
	b.txns.Add(rt.TransactionalID, producer, list, client, func(code int16) { added <- code })
	return st, func() {
		code := kerr.CoordinatorNotAvailable.Code
		resume := pause(ctx)
		select {
		case code = <-added:
		case <-ctx.Done():
		}
		resume()
		for _, s := range slots {
			*s = fencedCode(code, version, 2)
		}
	}
}
