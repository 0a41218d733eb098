package broker

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rowtrail/rowtrail/log/broker/txn"
)

// handleEndTxn commits or aborts. It answers when the decision is durable; markers follow.
func (b *Broker) handleEndTxn(_ context.Context, r *request) (kmsg.Response, error) {
	req := r.req.(*kmsg.EndTxnRequest)
	resp := req.ResponseKind().(*kmsg.EndTxnResponse)
	code := awaitCode(b.coordinating, func(reply func(int16)) {
		b.txns.End(req.TransactionalID, txn.Producer{ID: req.ProducerID, Epoch: req.ProducerEpoch}, req.Commit, reply)
	})
	resp.ErrorCode = fencedCode(code, req.Version, 2)
	return resp, nil
}
