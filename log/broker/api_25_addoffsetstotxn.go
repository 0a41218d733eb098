package broker

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rowtrail/rowtrail/log/broker/group"
	"github.com/rowtrail/rowtrail/log/broker/journal"
	"github.com/rowtrail/rowtrail/log/broker/txn"
)

// handleAddOffsetsToTxn makes a group's offsets part of a transaction: the partition that they are kept in.
func (b *Broker) handleAddOffsetsToTxn(ctx context.Context, r *request) (kmsg.Response, error) {
	req := r.req.(*kmsg.AddOffsetsToTxnRequest)
	resp := req.ResponseKind().(*kmsg.AddOffsetsToTxnResponse)
	if req.Group == "" {
		resp.ErrorCode = kerr.InvalidGroupID.Code
		return resp, nil
	}
	list := []journal.TopicPartition{{Topic: group.Topic, Partition: b.groups.PartitionFor(req.Group)}}
	code := awaitCode(b.whileCoordinating(ctx), func(reply func(int16)) {
		b.txns.Add(req.TransactionalID, txn.Producer{ID: req.ProducerID, Epoch: req.ProducerEpoch}, list, txn.V1, reply)
	})
	resp.ErrorCode = fencedCode(code, req.Version, 2)
	return resp, nil
}
