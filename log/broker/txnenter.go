package broker

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/rowtrail/rowtrail/cluster"
	"github.com/rowtrail/rowtrail/log"
	"github.com/rowtrail/rowtrail/log/broker/admit"
	"github.com/rowtrail/rowtrail/log/broker/group"
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

func (e entry) claim() admit.Claim {
	return admit.Claim{ID: e.id, Producer: e.producer.ID, Epoch: e.producer.Epoch}
}

// led is a partition that this node leads, in the epoch that it was found in.
type led struct {
	journal.TopicPartition
	replica *cluster.Replica
	epoch   int32
}

// join makes partitions part of the transaction, durably: records may follow. It waits for the coordinator's log when
// there is something to add, and so does what this connection sends after it.
func (b *Broker) join(ctx context.Context, e entry, list []led) (code int16) {
	var missing []journal.TopicPartition
	var passes []*admit.Pass
	var fresh []*log.Partition
	for _, p := range list {
		if b.gate.Has(e.claim(), p.TopicPartition, p.epoch) {
			continue
		}
		missing = append(missing, p.TopicPartition)
		passes = append(passes, b.gate.Begin(e.claim(), p.TopicPartition, p.epoch))
		if p.Topic != group.Topic { // the group coordinator numbers its batches itself
			fresh = append(fresh, p.replica.Log())
		}
	}
	if len(missing) == 0 {
		return 0
	}
	if code = b.askCoordinator(ctx, e, missing, false); code == 0 {
		for _, p := range fresh {
			p.ExpectFirst(e.producer.ID, e.producer.Epoch)
		}
	}
	for _, p := range passes {
		switch {
		case code != 0:
			p.Refuse()
		case p.Admit():
			p.Leave()
		}
	}
	return code
}

// enter says whether what is about to be written belongs to the producer's open transaction, which gets no marker in the partition before
// the pass is left. As long as it does, that is a look into memory; the first time the coordinator is asked.
func (b *Broker) enter(ctx context.Context, e entry, p led) (*admit.Pass, int16) {
	if pass, ok := b.gate.Enter(e.claim(), p.TopicPartition, p.epoch); ok {
		return pass, 0
	}
	pass := b.gate.Begin(e.claim(), p.TopicPartition, p.epoch)
	if code := b.askCoordinator(ctx, e, []journal.TopicPartition{p.TopicPartition}, true); code != 0 {
		pass.Refuse()
		return nil, code
	}
	if !pass.Admit() {
		return nil, kerr.ConcurrentTransactions.Code // it is ending
	}
	return pass, 0
}

// askCoordinator asks whether partitions are part of the producer's transaction, or adds them to it, wherever that is coordinated.
func (b *Broker) askCoordinator(ctx context.Context, e entry, list []journal.TopicPartition, verify bool) int16 {
	ctx = b.whileCoordinating(ctx)
	switch node := b.txnCoordinator(e.id); {
	case node < 0:
		return kerr.CoordinatorNotAvailable.Code
	case node != b.node.ID():
		return awaitCode(ctx, func(reply func(int16)) {
			if !b.asks.add(node, asked{e, list, verify, reply}) {
				reply(kerr.CoordinatorNotAvailable.Code)
			}
		})
	case !verify:
		return awaitCode(ctx, func(reply func(int16)) { b.txns.Add(e.id, e.producer, list, txn.V2, reply) })
	}
	for _, tp := range list {
		if code := b.verify(ctx, e, tp); code != 0 {
			return code
		}
	}
	return 0
}

// txnCoordinator is the node that coordinates a transactional id; -1: none is known.
func (b *Broker) txnCoordinator(id string) int32 {
	t, partition := b.node.Catalog().Topics[txn.Topic], b.txns.PartitionFor(id)
	if t == nil || partition < 0 {
		return -1
	}
	node, _ := b.leaderOf(t, partition)
	return node
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
