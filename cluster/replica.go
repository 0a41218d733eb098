package cluster

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/rowtrail/rowtrail/log"
)

// Replica is one partition on this node.
type Replica struct {
	topic     string
	partition int32
	member    Member
	group     *group
	part      *log.Partition
	sched     *scheduler
	entry     atomic.Pointer[Topic] // the catalogue entry that it is configured from
}

// Replica returns this node's replica of a partition; ErrUnknownTopic when there is none.
func (n *Node) Replica(topic string, partition int32) (*Replica, error) {
	n.mu.RLock()
	defer n.mu.RUnlock()
	rs := n.replicas[topic]
	if partition >= 0 && int(partition) < len(rs) {
		if r := rs[partition]; r != nil {
			return r, nil
		}
		if t := n.Catalog().Topics[topic]; t != nil && int(partition) < len(t.Partitions) {
			p := &t.Partitions[partition]
			if m, here := p.on(n.opts.NodeID); here {
				if err := n.broken[logID(p.Group, m.Gen)]; err != nil {
					return nil, err
				}
				return nil, fmt.Errorf("partition %s-%d is being opened here: %w", topic, partition, log.ErrNotLeader)
			}
			return nil, fmt.Errorf("partition %s-%d has no replica on this node: %w", topic, partition, log.ErrNotLeader)
		}
	}
	return nil, fmt.Errorf("partition %s-%d is not on this node: %w", topic, partition, ErrUnknownTopic)
}

// Log is the reading side.
func (r *Replica) Log() *log.Partition { return r.part }

// Leader is the current leader and its epoch (Raft term of its own first applied entry). self is true only after
// that entry is applied: a leader serves nothing before (invariant 1). node is -1 while no leader is known.
func (r *Replica) Leader() (node, epoch int32, self bool) {
	l := r.group.lead.Load()
	return l.node, l.epoch, l.self
}

// AppendResult is what Append's callback gets.
type AppendResult struct {
	BaseOffset int64
	LogStart   int64
	Err        error // log.Err*, ErrOverloaded, ErrUnknownTopic (deleted meanwhile)
}

// Append stages, proposes and, once committed (acks -1) or on this leader's disk (acks 1), calls done from a cluster
// goroutine: done must not block. acks 0 answers when the batch is proposed. It owns batch from here on. Batches
// of one caller are staged in call order. The queue in front of each worker, and each partition's share of it, is
// bounded in bytes: above the bound Append blocks until ctx ends (ErrOverloaded). An append that is refused before it is queued calls
// done before Append returns, so the caller must not hold a lock that done takes. What a batch must be, its size, its
// producer's sequence and room on the disk are checked by the log as it is staged.
func (r *Replica) Append(ctx context.Context, batch []byte, acks int16, done func(AppendResult)) {
	r.AppendIn(ctx, AnyEpoch, batch, acks, done)
}

// AppendIn is Append by a caller whose batch rests on what it read in a leader epoch: in any other one nothing is appended (log.ErrNotLeader), also
// where this node leads again.
func (r *Replica) AppendIn(ctx context.Context, epoch int32, batch []byte, acks int16, done func(AppendResult)) {
	r.sched.appendIn(ctx, r.group, epoch, batch, acks, func(base int64, err error) {
		done(AppendResult{BaseOffset: base, LogStart: r.part.Marks().LogStart, Err: err})
	})
}

// DeleteRecords moves the log start up to an offset, and returns the log start. It is committed, on every replica's way, when it
// returns.
func (r *Replica) DeleteRecords(ctx context.Context, offset int64) (int64, error) {
	m := r.part.Marks()
	switch {
	case offset < 0 || offset > m.HighWatermark:
		return m.LogStart, fmt.Errorf("delete records before %d: %w: the high watermark is %d", offset, log.ErrOffsetOutOfRange, m.HighWatermark)
	case offset <= m.LogStart:
		return m.LogStart, nil
	}
	result := make(chan error, 1)
	r.sched.trim(ctx, r.group, offset, func(err error) { result <- err })
	select {
	case err := <-result:
		return r.part.Marks().LogStart, err
	case <-ctx.Done():
		return m.LogStart, fmt.Errorf("delete records before %d: the outcome is not known: %w", offset, ctx.Err())
	}
}

// configure applies a topic's settings and placement.
func (r *Replica) configure(t *Topic, p *Placement) {
	if r.entry.Swap(t) == t {
		return
	}
	want, minISR := Membership{Voters: p.Wanted()}, t.Settings.MinISR(len(p.Members))
	r.sched.run(r.group, func() {
		r.part.SetConfig(logConfig(t))
		r.group.minISR = minISR
		r.group.become(want)
	})
}

// Status is what this node knows of the partition's replicas.
func (r *Replica) Status() GroupStatus {
	if s := r.group.status.Load(); s != nil {
		return *s
	}
	return GroupStatus{Leader: -1, Epoch: -1}
}

// Topic is the catalogue's entry that the replica is configured from.
func (r *Replica) Topic() *Topic { return r.entry.Load() }

// Partition is its number.
func (r *Replica) Partition() int32 { return r.partition }
