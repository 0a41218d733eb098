package broker

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/rowtrail/rowtrail/cluster"
	"github.com/rowtrail/rowtrail/log"
	"github.com/rowtrail/rowtrail/log/broker/admit"
	"github.com/rowtrail/rowtrail/log/broker/group"
	"github.com/rowtrail/rowtrail/log/broker/group/consumer"
	"github.com/rowtrail/rowtrail/log/broker/journal"
	"github.com/rowtrail/rowtrail/log/broker/txn"
	"github.com/rowtrail/rowtrail/log/record"
)

// CoordinatorOptions configure groups and transactions. Zero values take their packages' defaults.
type CoordinatorOptions struct {
	Groups          group.Options
	Txns            txn.Options
	GroupPartitions int32 // of __consumer_offsets, when it is created
	TxnPartitions   int32 // of __transaction_state, when it is created
}

// coordinators hold the group and transaction coordinators.
type coordinators struct {
	groups *group.Coordinator
	txns   *txn.Coordinator
	// coordinating ends when both are told to stop: later than b.ctx, so that requests which have arrived finish.
	coordinating   context.Context
	stopCoordinate context.CancelFunc
	coordinates    sync.WaitGroup
	gate           *admit.Gate // into the partitions that this node leads
	peers          *peers
	asks           *gather[asked]
	marks          *gather[marking]
	readable       atomic.Pointer[readableTopics]
}

// internalMinISR is min.insync.replicas of the coordinators' topics, where they have as many replicas.
const internalMinISR = 2

// startCoordinators begins to load what they are kept in. A new cluster's topics are created first: at once where this node can do so by
// itself, else as soon as there is a controller.
func (b *Broker) startCoordinators(ctx context.Context) error {
	opts := b.opts.Coordinators
	orDefault(&opts.GroupPartitions, group.DefaultPartitions)
	orDefault(&opts.TxnPartitions, txn.DefaultPartitions)
	opts.Groups.Logger, opts.Txns.Logger = b.logger, b.logger
	opts.Groups.Topics, opts.Groups.ConsumerOf = b.readableTopics, b.consumerLimits
	opts.Txns.IDs, opts.Txns.Markers = b.node, markers{b}
	b.gate, b.peers = admit.New(), newPeers(b.node.DialKafka)
	b.asks, b.marks = newGather(b.coordinates.Go, b.sendAsks), newGather(b.coordinates.Go, b.sendMarks)
	b.groups = group.New(opts.Groups)
	b.txns = txn.New(opts.Txns)
	b.coordinating, b.stopCoordinate = context.WithCancel(context.WithoutCancel(ctx))
	for _, c := range []internalTopic{{group.Topic, opts.GroupPartitions, b.groups.Open}, {txn.Topic, opts.TxnPartitions, b.txns.Open}} {
		if c.exists(b.node) {
			c.openOn(b.node)
			continue
		}
		if b.node.Quorum().Leader == b.node.ID() {
			if err := b.createInternal(ctx, c); err != nil {
				b.stopCoordinate()
				return err
			}
			c.openOn(b.node)
			continue
		}
		b.coordinates.Go(func() { b.openInternal(b.coordinating, c) })
	}
	b.coordinates.Go(func() { b.groups.Run(b.coordinating) })
	b.coordinates.Go(func() { b.txns.Run(b.coordinating) })
	b.coordinates.Go(func() { b.forgetDeletedTopics(b.coordinating) })
	b.coordinates.Go(func() { b.followLeaders(b.coordinating) })
	return nil
}

// internalTopic is a coordinator's topic.
type internalTopic struct {
	name       string
	partitions int32 // when it is created
	open       func([]journal.Partition)
}

func (c internalTopic) exists(node *cluster.Node) bool { return node.Catalog().Topics[c.name] != nil }

func (c internalTopic) openOn(node *cluster.Node) {
	list := make([]journal.Partition, len(node.Catalog().Topics[c.name].Partitions))
	for i := range list {
		list[i] = journal.At(node, journal.TopicPartition{Topic: c.name, Partition: int32(i)})
	}
	c.open(list)
}

// createInternal creates a coordinator's topic, unless another node has just done so.
func (b *Broker) createInternal(ctx context.Context, c internalTopic) error {
	ctx, cancel := withTimeout(ctx, 0)
	defer cancel()
	_, err := b.node.CreateTopic(ctx, cluster.TopicSpec{Name: c.name, Partitions: c.partitions, Internal: true,
		Config: map[string]string{
			"cleanup.policy": "compact",
			// One record holds a whole group or transaction.
			"max.message.bytes":   strconv.Itoa(log.MaxBatchBytes),
			"min.insync.replicas": strconv.Itoa(internalMinISR),
		}})
	if err != nil && !errors.Is(err, cluster.ErrTopicExists) {
		return fmt.Errorf("create topic %s: %w", c.name, err)
	}
	return nil
}

// createRetry is the pause before another try to create a coordinator's topic.
const createRetry = time.Second

// openInternal opens a coordinator's topic once there is one. All nodes of a new cluster try to create it; one of them does.
func (b *Broker) openInternal(ctx context.Context, c internalTopic) {
	for {
		changed := b.node.CatalogChanged()
		if c.exists(b.node) {
			c.openOn(b.node)
			return
		}
		err := b.createInternal(ctx, c)
		if err == nil {
			continue
		}
		if ctx.Err() == nil && !errors.Is(err, cluster.ErrNotController) {
			b.logger.Warn("a coordinator's topic could not be created; it is tried again", "topic", c.name, "error", err)
		}
		select {
		case <-changed:
		case <-time.After(createRetry):
		case <-ctx.Done():
			return
		}
	}
}

// sweepPasses is the least time between looks for passes into partitions that are led elsewhere by now.
const sweepPasses = time.Second

// followLeaders has coordinators notice at once that they do not coordinate any more: what waits for them is told to look elsewhere.
func (b *Broker) followLeaders(ctx context.Context) {
	swept := time.Now()
	for {
		changed := b.node.LeadersChanged()
		b.groups.LeadersMoved()
		b.txns.LeadersMoved()
		if time.Since(swept) > sweepPasses {
			b.gate.Sweep(func(tp journal.TopicPartition, in int32) bool {
				_, epoch, self := journal.At(b.node, tp).Log.Leader()
				return self && epoch == in
			})
			swept = time.Now()
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

// confirm precedes what is read for somebody who relies on it. It asks a quorum whether this node leads a coordinator's partition still: what is in memory may be old where another node leads already
// and this one has not heard of it. A partition with one replica needs no question.
func (b *Broker) confirm(ctx context.Context, topic string, partition int32) int16 {
	r, err := b.node.Replica(topic, partition)
	if err == nil {
		ctx, cancel := context.WithTimeout(ctx, confirmTimeout)
		defer cancel()
		defer pause(ctx)()
		err = r.Confirm(ctx)
	}
	if err != nil {
		return kerr.NotCoordinator.Code
	}
	return 0
}

// verify asks the transaction coordinator of this node whether a partition is part of the producer's transaction.
func (b *Broker) verify(ctx context.Context, e entry, tp journal.TopicPartition) int16 {
	if code := b.confirm(ctx, txn.Topic, b.txns.PartitionFor(e.id)); code != 0 {
		return code
	}
	if b.txns.Has(e.id, e.producer, tp) {
		return 0
	}
	return awaitCode(ctx, func(reply func(int16)) { b.txns.Verify(e.id, e.producer, tp, reply) })
}

// readableTopics are the topics of one catalogue that groups can read.
type readableTopics struct {
	catalog *cluster.Catalog
	topics  *consumer.Topics
}

// readableTopics are the same as long as the catalogue is. Expressions match internal topics as well: in Kafka it is the client
// that leaves them out of expressions of its own.
func (b *Broker) readableTopics() *consumer.Topics {
	catalog := b.node.Catalog()
	if r := b.readable.Load(); r != nil && r.catalog == catalog {
		return r.topics
	}
	list := make([]consumer.Topic, 0, len(catalog.Topics))
	for name, t := range catalog.Topics {
		list = append(list, consumer.Topic{ID: t.ID, Name: name, Partitions: int32(len(t.Partitions))}) //nolint:gosec // at most cluster's bound
	}
	r := &readableTopics{catalog, consumer.NewTopics(list)}
	b.readable.Store(r)
	return r.topics
}

func (b *Broker) stopCoordinators() {
	b.stopCoordinate()
	b.coordinates.Wait()
	b.peers.close()
}

// await runs start and waits for its reply. ok is false when ctx ended first.
func await[T any](ctx context.Context, start func(reply func(T))) (v T, ok bool) {
	ch := make(chan T, 1)
	start(func(v T) { ch <- v })
	defer pause(ctx)()
	select {
	case v = <-ch:
		return v, true
	case <-ctx.Done():
		return v, false
	}
}

// coded is a reply of a code and something else.
type coded[T any] struct {
	code  int16
	value T
}

// awaitCoded is await for replies that begin with a code; a coordinator that stops meanwhile is not available.
func awaitCoded[T any](ctx context.Context, start func(reply func(int16, T))) (int16, T) {
	r, ok := await(ctx, func(reply func(coded[T])) {
		start(func(code int16, v T) { reply(coded[T]{code, v}) })
	})
	if !ok {
		r.code = kerr.CoordinatorNotAvailable.Code
	}
	return r.code, r.value
}

// awaitCode is awaitCoded for replies that are just a code.
func awaitCode(ctx context.Context, start func(reply func(int16))) int16 {
	code, ok := await(ctx, start)
	if !ok {
		return kerr.CoordinatorNotAvailable.Code
	}
	return code
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

func orNil(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

func durationMillis(ms int32) time.Duration { return time.Duration(ms) * time.Millisecond }

// GroupLag is how far one group is behind in one partition.
type GroupLag struct {
	Group, Topic   string
	Partition      int32
	Committed, End int64
	LagEvents      int64
	LagBytes       int64
	LagSeconds     float64
	Members        int
	State          string
}

// GroupLags lists the committed offsets of all groups against the ends of their partitions. Bytes are estimated from the
// partition's average; seconds are the age of the first record that is not committed.
func (b *Broker) GroupLags() []GroupLag {
	lags, _ := await(b.coordinating, b.groups.Lags)
	list := make([]GroupLag, 0, len(lags))
	for _, l := range lags {
		r, err := b.node.Replica(l.Topic, l.Partition)
		if err != nil {
			continue // deleted; its offsets follow
		}
		p := r.Log()
		m := p.Marks()
		g := GroupLag{Group: l.Group, Topic: l.Topic, Partition: l.Partition, Committed: l.Committed,
			End: m.LastStable, Members: l.Members, State: l.State}
		from, written := firstData(p, max(l.Committed, m.LogStart), g.End)
		g.LagEvents = max(0, g.End-from)
		if total := m.End - m.LogStart; total > 0 {
			g.LagBytes = int64(float64(p.Bytes()) * float64(g.LagEvents) / float64(total))
		}
		if g.LagEvents > 0 && !written.IsZero() {
			g.LagSeconds = max(0, time.Since(written).Seconds())
		}
		list = append(list, g)
	}
	return list
}

// markerWindow bounds what firstData reads to pass over transaction markers.
const markerWindow = 64 << 10

// firstData passes over the transaction markers at the start of [from, end), which no consumer is given and so none
// commits: a group that has read everything has no lag. It returns the first offset behind them, and when its batch was written
// (zero: not known).
func firstData(p *log.Partition, from, end int64) (int64, time.Time) {
	if from >= end {
		return from, time.Time{}
	}
	res, err := p.Read(from, markerWindow, true, log.ReadUncommitted)
	for rest := res.Batches; err == nil && len(rest) > 0 && from < end; {
		var batch []byte
		if batch, rest, err = record.Next(rest); err != nil {
			break
		}
		h, err := record.ParseHeader(batch)
		if err != nil {
			break
		}
		if !h.Control() {
			return from, time.UnixMilli(h.MaxTimestamp)
		}
		from = h.LastOffset() + 1
	}
	return from, time.Time{}
}
