package broker

import (
	"context"
	"regexp"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rowtrail/rowtrail/log/broker/txn"
)

// handleListTransactions lists the transactional ids that this node coordinates.
func (b *Broker) handleListTransactions(ctx context.Context, r *request) (kmsg.Response, error) {
	req := r.req.(*kmsg.ListTransactionsRequest)
	resp := req.ResponseKind().(*kmsg.ListTransactionsResponse)
	states := map[string]bool{}
	for _, name := range req.StateFilters {
		if knownTxnState(name) {
			states[name] = true
		} else {
			resp.UnknownStateFilters = append(resp.UnknownStateFilters, name)
		}
	}
	var pattern *regexp.Regexp
	if p := deref(req.TransactionalIDPattern); req.Version >= 2 && p != "" {
		var err error
		if pattern, err = regexp.Compile("^(?:" + p + ")$"); err != nil {
			resp.ErrorCode = kerr.InvalidRegularExpression.Code
			return resp, nil
		}
	}
	code, list := awaitCoded(b.whileCoordinating(ctx), b.txns.List)
	resp.ErrorCode = code
	longer := time.Duration(req.DurationFilterMillis) * time.Millisecond
	for _, d := range list {
		switch {
		case len(req.StateFilters) > 0 && !states[d.State.String()],
			len(req.ProducerIDFilters) > 0 && !slices.Contains(req.ProducerIDFilters, d.Producer.ID),
			req.Version >= 1 && req.DurationFilterMillis >= 0 && (d.Started.IsZero() || time.Since(d.Started) <= longer),
			pattern != nil && !pattern.MatchString(d.ID):
			continue
		}
		st := kmsg.NewListTransactionsResponseTransactionState()
		st.TransactionalID, st.ProducerID, st.TransactionState = d.ID, d.Producer.ID, d.State.String()
		resp.TransactionStates = append(resp.TransactionStates, st)
	}
	return resp, nil
}

// fenceState is a state that Kafka knows and puts nothing into that clients see: fencing is part of PrepareAbort here.
const fenceState = "PrepareEpochFence"

func knownTxnState(name string) bool {
	if name == fenceState {
		return true
	}
	for s := txn.Empty; s <= txn.Dead; s++ {
		if s.String() == name {
			return true
		}
	}
	return false
}
