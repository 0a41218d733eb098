package broker

import (
	"context"
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rowtrail/rowtrail/cluster"
	"github.com/rowtrail/rowtrail/log"
	"github.com/rowtrail/rowtrail/log/broker/group"
	"github.com/rowtrail/rowtrail/log/broker/journal"
	"github.com/rowtrail/rowtrail/log/broker/txn"
	"github.com/rowtrail/rowtrail/log/record"
)

// markers writes transaction markers to partitions, on whatever node those are led. The coordinator tries again until each has its own; a
// marker that comes twice, or from a coordinator that is none any more, is known by the partition (invariant 5).
type markers struct{ b *Broker }

// markerAppendTimeout bounds the wait for room in a partition's queue; the coordinator tries again.
const markerAppendTimeout = 5 * time.Second

// ExpectFirst leaves out the group coordinator's partitions: it numbers its batches itself. A partition that is led elsewhere learns the same
// when its leader asks whether a batch belongs to the transaction.
func (m markers) ExpectFirst(tp journal.TopicPartition, p txn.Producer) {
	if r, err := m.b.node.Replica(tp.Topic, tp.Partition); err == nil && tp.Topic != group.Topic {
		r.Log().ExpectFirst(p.ID, p.Epoch)
	}
}

// marking is a marker on its way to another node.
type marking struct {
	at   journal.TopicPartition
	m    record.EndTxn
	done func(error)
}

func (m markers) WriteMarker(ctx context.Context, tp journal.TopicPartition, e record.EndTxn, done func(error)) {
	t := m.b.node.Catalog().Topics[tp.Topic]
	if t == nil || int(tp.Partition) >= len(t.Partitions) {
		done(nil) // deleted, and its part of the transaction with it
		return
	}
	switch leader, _ := m.b.leaderOf(t, tp.Partition); {
	case leader < 0:
		done(kerr.LeaderNotAvailable)
	case leader == m.b.node.ID():
		m.writeHere(ctx, t, tp, e, done)
	case !m.b.marks.add(leader, marking{tp, e, done}):
		done(journal.ErrBusy)
	}
}

// writeHere writes a marker to a partition that this node leads, behind the batches of the transaction that were let in.
func (m markers) writeHere(ctx context.Context, t *cluster.Topic, tp journal.TopicPartition, e record.EndTxn, done func(error)) {
	r, epoch, err := m.b.leading(t, tp.Partition)
	if err != nil {
		done(err)
		return
	}
	write := func() {
		ctx, cancel := context.WithTimeout(ctx, markerAppendTimeout)
		defer cancel()
		r.AppendIn(ctx, epoch, e.Build(time.Now().UnixMilli()), -1, func(res cluster.AppendResult) {
			if res.Err == nil && tp.Topic == group.Topic {
				m.b.groups.EndTxn(tp.Partition, e.ProducerID, e.Commit)
			}
			if errors.Is(res.Err, cluster.ErrUnknownTopic) {
				res.Err = nil
			}
			done(res.Err)
		})
	}
	if m.b.gate.Close(e.ProducerID, tp, func() { m.b.coordinates.Go(write) }) {
		write()
	}
}

// sendMarks writes markers to partitions that another node leads. It asks once: a request that was perhaps taken is repeated by the coordinator
// alone, after a while.
func (b *Broker) sendMarks(node int32, list []marking) {
	req := kmsg.NewPtrWriteTxnMarkersRequest()
	req.Version = 1
	for _, x := range list {
		rm := kmsg.NewWriteTxnMarkersRequestMarker()
		rm.ProducerID, rm.ProducerEpoch, rm.CoordinatorEpoch, rm.Committed = x.m.ProducerID, x.m.ProducerEpoch, x.m.CoordinatorEpoch, x.m.Commit
		rt := kmsg.NewWriteTxnMarkersRequestMarkerTopic()
		rt.Topic, rt.Partitions = x.at.Topic, []int32{x.at.Partition}
		rm.Topics = append(rm.Topics, rt)
		req.Markers = append(req.Markers, rm)
	}
	answer, err := b.peers.ask(b.coordinating, node, req, false)
	resp, ok := answer.(*kmsg.WriteTxnMarkersResponse)
	for i, x := range list {
		switch {
		case err != nil:
			x.done(err)
		case !ok || i >= len(resp.Markers) || len(resp.Markers[i].Topics) != 1 || len(resp.Markers[i].Topics[0].Partitions) != 1:
			x.done(kerr.UnknownServerError)
		default:
			x.done(markerError(resp.Markers[i].Topics[0].Partitions[0].ErrorCode))
		}
	}
}

// markerError is what the log of another node said.
func markerError(code int16) error {
	switch code {
	case kerr.InvalidProducerEpoch.Code:
		return log.ErrInvalidProducerEpoch
	case kerr.TransactionCoordinatorFenced.Code:
		return log.ErrFencedCoordinator
	}
	return kerr.ErrorForCode(code)
}

// asked is a question to a coordinator on another node.
type asked struct {
	e      entry
	list   []journal.TopicPartition
	verify bool
	reply  func(code int16)
}

// sendAsks asks another node's coordinator about partitions of transactions.
func (b *Broker) sendAsks(node int32, list []asked) {
	req := kmsg.NewPtrAddPartitionsToTxnRequest()
	req.Version = 4
	for _, x := range list {
		rt := kmsg.NewAddPartitionsToTxnRequestTransaction()
		rt.TransactionalID, rt.ProducerID, rt.ProducerEpoch, rt.VerifyOnly = x.e.id, x.e.producer.ID, x.e.producer.Epoch, x.verify
		for _, tp := range x.list {
			t := kmsg.NewAddPartitionsToTxnRequestTransactionTopic()
			t.Topic, t.Partitions = tp.Topic, []int32{tp.Partition}
			rt.Topics = append(rt.Topics, t)
		}
		req.Transactions = append(req.Transactions, rt)
	}
	answer, err := b.peers.ask(b.coordinating, node, req, true)
	resp, ok := answer.(*kmsg.AddPartitionsToTxnResponse)
	for i, x := range list {
		code := kerr.CoordinatorNotAvailable.Code
		if err == nil && ok && i < len(resp.Transactions) {
			code = firstCode(&resp.Transactions[i])
		}
		x.reply(code)
	}
}

// firstCode is the error of a transaction's partitions, which share a fate.
func firstCode(t *kmsg.AddPartitionsToTxnResponseTransaction) (code int16) {
	for i := range t.Topics {
		for _, p := range t.Topics[i].Partitions {
			if p.ErrorCode != 0 && p.ErrorCode != kerr.OperationNotAttempted.Code {
				return p.ErrorCode
			}
		}
	}
	return 0
}
