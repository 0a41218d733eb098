package broker

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rowtrail/rowtrail/log/broker/txn"
)

// handleInitProducerID gives a producer its id and epoch, and fences the instance before it.
func (b *Broker) handleInitProducerID(ctx context.Context, r *request) (kmsg.Response, error) {
	req := r.req.(*kmsg.InitProducerIDRequest)
	resp := req.ResponseKind().(*kmsg.InitProducerIDResponse)
	resp.ProducerID, resp.ProducerEpoch = -1, -1
	var expected *txn.Producer
	if req.Version >= 3 && (req.ProducerID >= 0) != (req.ProducerEpoch >= 0) ||
		req.TransactionalID != nil && *req.TransactionalID == "" {
		resp.ErrorCode = kerr.InvalidRequest.Code
		return resp, nil
	}
	if req.Version >= 3 && req.ProducerID >= 0 {
		expected = &txn.Producer{ID: req.ProducerID, Epoch: req.ProducerEpoch}
	}
	code, p := awaitCoded(b.whileCoordinating(ctx), func(reply func(int16, txn.Producer)) {
		b.txns.Init(ctx, deref(req.TransactionalID), expected, durationMillis(req.TransactionTimeoutMillis), reply)
	})
	resp.ErrorCode = fencedCode(code, req.Version, 4)
	if code == 0 {
		resp.ProducerID, resp.ProducerEpoch = p.ID, p.Epoch
	}
	return resp, nil
}

// fencedCode is PRODUCER_FENCED for versions that know it.
func fencedCode(code, version, since int16) int16 {
	if code == kerr.ProducerFenced.Code && version < since {
		return kerr.InvalidProducerEpoch.Code
	}
	return code
}
