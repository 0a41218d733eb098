package broker

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rowtrail/rowtrail/log/broker/txn"
)

// handleDescribeTransactions shows transactional ids with what they have open.
func (b *Broker) handleDescribeTransactions(ctx context.Context, r *request) (kmsg.Response, error) {
	req := r.req.(*kmsg.DescribeTransactionsRequest)
	resp := req.ResponseKind().(*kmsg.DescribeTransactionsResponse)
	ctx = b.whileCoordinating(ctx)
	named := once[string]{}
	for _, id := range req.TransactionalIDs {
		if !named.first(id) {
			continue
		}
		code, d := awaitCoded(ctx, func(reply func(int16, txn.Description)) { b.txns.Describe(id, reply) })
		st := kmsg.NewDescribeTransactionsResponseTransactionState()
		st.TransactionalID, st.ErrorCode = id, code
		st.ProducerID, st.ProducerEpoch, st.StartTimestamp = -1, -1, -1
		if code == 0 {
			st.State, st.TimeoutMillis = d.State.String(), int32(d.Timeout.Milliseconds())
			st.ProducerID, st.ProducerEpoch = d.Producer.ID, d.Producer.Epoch
			if !d.Started.IsZero() {
				st.StartTimestamp = d.Started.UnixMilli()
			}
		}
		for _, tp := range d.Partitions {
			if n := len(st.Topics); n == 0 || st.Topics[n-1].Topic != tp.Topic {
				st.Topics = append(st.Topics, kmsg.DescribeTransactionsResponseTransactionStateTopic{Topic: tp.Topic})
			}
			last := &st.Topics[len(st.Topics)-1]
			last.Partitions = append(last.Partitions, tp.Partition)
		}
		resp.TransactionStates = append(resp.TransactionStates, st)
	}
	return resp, nil
}
