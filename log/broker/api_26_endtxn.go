package broker

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rowtrail/rowtrail/log/broker/txn"
)

// handleEndTxn commits or aborts. It answers when the decision is durable; markers follow. From version 5 on every end
// raises the epoch, and the answer says what to go on with.
func (b *Broker) handleEndTxn(ctx context.Context, r *request) (kmsg.Response, error) {
	req := r.req.(*kmsg.EndTxnRequest)
	resp := req.ResponseKind().(*kmsg.EndTxnResponse)
	resp.ProducerID, resp.ProducerEpoch = -1, -1
	if req.TransactionalID == "" {
		resp.ErrorCode = kerr.InvalidRequest.Code
		return resp, nil
	}
	version := txn.V1
	if req.Version >= endTxnBumps {
		version = txn.V2
	}
	code, next := awaitCoded(b.whileCoordinating(ctx), func(reply func(int16, txn.Producer)) {
		b.txns.End(req.TransactionalID, txn.Producer{ID: req.ProducerID, Epoch: req.ProducerEpoch}, req.Commit, version, reply)
	})
	resp.ErrorCode = fencedCode(code, req.Version, 2)
	if code == 0 && version == txn.V2 {
		resp.ProducerID, resp.ProducerEpoch = next.ID, next.Epoch
	}
	return resp, nil
}
