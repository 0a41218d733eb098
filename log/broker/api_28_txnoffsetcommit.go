package broker

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rowtrail/rowtrail/log/broker/admit"
	"github.com/rowtrail/rowtrail/log/broker/group"
	"github.com/rowtrail/rowtrail/log/broker/journal"
	"github.com/rowtrail/rowtrail/log/broker/txn"
)

// handleTxnOffsetCommit stores a group's offsets as part of a transaction, which they join by that from version 5 on.
func (b *Broker) handleTxnOffsetCommit(ctx context.Context, r *request) (kmsg.Response, error) {
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
	e := entry{req.TransactionalID, txn.Producer{ID: req.ProducerID, Epoch: req.ProducerEpoch}}
	offsets, err := b.groupPartition(req.Group)
	if err != nil {
		for _, slot := range c.codes {
			*slot = errorCode(err)
		}
		return resp, nil
	}
	var pass *admit.Pass
	var code int16
	if req.Version >= txnOffsetCommitJoins {
		code = b.join(ctx, e, []led{offsets})
	}
	if code == 0 {
		pass, code = b.enter(ctx, e, offsets)
	}
	if code != 0 {
		for _, slot := range c.codes {
			*slot = txnOffsetCommitRefusals().of(code, req.Version)
		}
		return resp, nil
	}
	defer pass.Leave()
	c.commit(ctx, group.CommitRequest{Group: req.Group, MemberID: req.MemberID, InstanceID: deref(req.InstanceID),
		Generation: req.Generation, LeaderEpoch: offsets.epoch, Producer: &journal.Producer{ID: req.ProducerID, Epoch: req.ProducerEpoch}})
	return resp, nil
}

// groupPartition is where a group's offsets are kept, if this node leads there.
func (b *Broker) groupPartition(id string) (led, error) {
	t, partition := b.node.Catalog().Topics[group.Topic], b.groups.PartitionFor(id)
	if t == nil || partition < 0 {
		return led{}, kerr.CoordinatorNotAvailable
	}
	r, epoch, err := b.leading(t, partition)
	if err != nil {
		return led{}, kerr.NotCoordinator
	}
	return led{journal.TopicPartition{Topic: group.Topic, Partition: partition}, r, epoch}, nil
}
