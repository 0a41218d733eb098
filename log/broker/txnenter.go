package broker

import (
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/rowtrail/rowtrail/log/broker/group"
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
func (b *Broker) join(e entry, list []txn.TopicPartition) (code int16) {
	var missing []txn.TopicPartition
	for _, tp := range list {
		if !b.txns.Has(e.id, e.producer, tp) {
			missing = append(missing, tp)
		}
	}
	if len(missing) == 0 {
		return 0
	}
	code = awaitCode(b.coordinating, func(reply func(int16)) { b.txns.Add(e.id, e.producer, missing, txn.V2, reply) })
	if code != 0 {
		return code
	}
	// Each transaction has an epoch of its own here, so its first sequence in a partition is known even where the producer
	// is not. The group coordinator numbers its own batches.
	for _, tp := range missing {
		if r, err := b.node.Replica(tp.Topic, tp.Partition); err == nil && tp.Topic != group.Topic {
			r.Log().ExpectFirst(e.producer.ID, e.producer.Epoch)
		}
	}
	return 0
}

// enter says whether what is about to be written belongs to the producer's open transaction, which is not ended before the
// guard is left. As long as it does, that is a look into memory.
func (b *Broker) enter(e entry, tp txn.TopicPartition) (*txn.Guard, int16) {
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

// produceRefusal is what a Produce of a version is told when its batch is not let in: errors that its client knows, and tries
// again exactly if that can help.
func produceRefusal(code, version int16) int16 {
	switch code {
	case kerr.ProducerFenced.Code:
		return kerr.InvalidProducerEpoch.Code
	case kerr.TransactionAbortable.Code:
		if version < produceAbortable {
			return kerr.InvalidTxnState.Code
		}
	case kerr.ConcurrentTransactions.Code:
		if version < produceJoins {
			return kerr.NotEnoughReplicas.Code
		}
	case kerr.CoordinatorLoadInProgress.Code, kerr.CoordinatorNotAvailable.Code, kerr.NotCoordinator.Code:
		// These name the group's or the transaction's coordinator, which is not what a Produce is sent to.
		return kerr.NotEnoughReplicas.Code
	}
	return code
}

// txnOffsetCommitRefusal is the same for a TxnOffsetCommit.
func txnOffsetCommitRefusal(code, version int16) int16 {
	switch code {
	case kerr.ProducerFenced.Code:
		return kerr.InvalidProducerEpoch.Code
	case kerr.TransactionAbortable.Code:
		if version < txnOffsetCommitAbortable {
			return kerr.InvalidTxnState.Code
		}
	case kerr.ConcurrentTransactions.Code:
		if version < txnOffsetCommitJoins {
			return kerr.CoordinatorLoadInProgress.Code
		}
	case kerr.CoordinatorNotAvailable.Code, kerr.NotCoordinator.Code:
		// The transaction's coordinator, not the group's, which the client would look for.
		return kerr.CoordinatorLoadInProgress.Code
	}
	return code
}
