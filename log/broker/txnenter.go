package broker

import (
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/rowtrail/rowtrail/log/broker/journal"
	"github.com/rowtrail/rowtrail/log/broker/txn"
)

// The first versions whose requests make what they write part of the transaction by themselves (KIP-890, part 2), and
// the first ones that know TRANSACTION_ABORTABLE.
const (
	produceJoins, produceAbortable                 = 12, 11
	txnOffsetCommitJoins, txnOffsetCommitAbortable = 5, 4
	endTxnBumps                                    = 5
)

// entry is a producer that writes in a transaction.
type entry struct {
	id       string
	producer txn.Producer
}

// join makes partitions part of the transaction, durably: records may follow. It waits for the coordinator's log when
// there is something to add, and so does what this connection sends after it.
func (b *Broker) join(e entry, list []journal.TopicPartition) (code int16) {
	var missing []journal.TopicPartition
	for _, tp := range list {
		if !b.txns.Has(e.id, e.producer, tp) {
			missing = append(missing, tp)
		}
	}
	if len(missing) == 0 {
		return 0
	}
	return awaitCode(b.coordinating, func(reply func(int16)) { b.txns.Add(e.id, e.producer, missing, txn.V2, reply) })
}

// enter says whether what is about to be written belongs to the producer's open transaction, which is not ended before the
// guard is left. As long as it does, that is a look into memory.
func (b *Broker) enter(e entry, tp journal.TopicPartition) (*txn.Guard, int16) {
	if guard, ok := b.txns.Enter(e.id, e.producer, tp); ok {
		return guard, 0
	}
	code := awaitCode(b.coordinating, func(reply func(int16)) { b.txns.Verify(e.id, e.producer, tp, reply) })
	if code != 0 {
		return nil, code
	}
	if guard, ok := b.txns.Enter(e.id, e.producer, tp); ok {
		return guard, 0
	}
	return nil, kerr.ConcurrentTransactions.Code // it is ending
}

// refusals are what the requests that enter transactions tell their clients.
type refusals struct {
	abortable, joins int16 // the first versions that know TRANSACTION_ABORTABLE, and CONCURRENT_TRANSACTIONS
	again            int16 // what makes any client try again as it is, without another look for a coordinator
}

func produceRefusals() refusals {
	return refusals{abortable: produceAbortable, joins: produceJoins, again: kerr.NotEnoughReplicas.Code}
}

func txnOffsetCommitRefusals() refusals {
	return refusals{abortable: txnOffsetCommitAbortable, joins: txnOffsetCommitJoins, again: kerr.CoordinatorLoadInProgress.Code}
}

// of is what a request of a version is told when what it writes is not let in: errors that its client knows, and tries again
// exactly if that can help.
func (r refusals) of(code, version int16) int16 {
	switch code {
	case kerr.ProducerFenced.Code:
		return kerr.InvalidProducerEpoch.Code
	case kerr.TransactionAbortable.Code:
		if version < r.abortable {
			return kerr.InvalidTxnState.Code
		}
	case kerr.ConcurrentTransactions.Code:
		if version < r.joins {
			return r.again
		}
	case kerr.CoordinatorLoadInProgress.Code, kerr.CoordinatorNotAvailable.Code, kerr.NotCoordinator.Code:
		// These name the transaction's coordinator. Neither a Produce nor a TxnOffsetCommit is sent to that one.
		return r.again
	}
	return code
}
