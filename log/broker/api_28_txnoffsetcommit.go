package broker

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rowtrail/rowtrail/log/broker/group"
	"github.com/rowtrail/rowtrail/log/broker/journal"
)

// handleTxnOffsetCommit stores a group's offsets as part of a transaction.
func (b *Broker) handleTxnOffsetCommit(_ context.Context, r *request) (kmsg.Response, error) {
	req := r.req.(*kmsg.TxnOffsetCommitRequest)
	resp := req.ResponseKind().(*kmsg.TxnOffsetCommitResponse)
	c := commitSlots{b: b}
	for i := range req.Topics {
		rt := &req.Topics[i]
		st := kmsg.NewTxnOffsetCommitResponseTopic()
		st.Topic = rt.Topic
		st.Partitions = make([]kmsg.TxnOffsetCommitResponseTopicPartition, len(rt.Partitions))
		for j := range rt.Partitions {
			rp, sp := &rt.Partitions[j], &st.Partitions[j]
			sp.Partition = rp.Partition
			c.add(rt.Topic, zeroID, false, rp.Partition,
				group.Committed{Offset: rp.Offset, LeaderEpoch: rp.LeaderEpoch, Metadata: deref(rp.Metadata)}, &sp.ErrorCode)
		}
		resp.Topics = append(resp.Topics, st)
	}
	// As with Produce: offsets that come late must not open a transaction that nobody will end.
	guard, err := b.txns.Enter(req.TransactionalID, req.ProducerID, req.ProducerEpoch, group.Topic, b.groups.PartitionFor(req.Group))
	if err != nil {
		for _, code := range c.codes {
			*code = errorCode(err)
		}
		return resp, nil
	}
	defer guard.Leave()
	c.commit(group.CommitRequest{Group: req.Group, MemberID: req.MemberID, InstanceID: deref(req.InstanceID),
		Generation: req.Generation, Producer: &journal.Producer{ID: req.ProducerID, Epoch: req.ProducerEpoch}})
	return resp, nil
}
