package cluster

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"

	"go.etcd.io/raft/v3"

	"github.com/rowtrail/rowtrail/log"
)

// read is a reader that waits until the group's leader is sure to lead still, with all that was committed before applied.
type read struct {
	id    uint64
	index uint64 // 0: not confirmed yet
	done  func(error)
}

// reads are those that wait, in the order in which they came.
type reads struct {
	last    uint64 // id
	applied uint64
	waiting []read
}

// confirmed takes what a quorum has answered. It speaks for every read that came before, too.
func (r *reads) confirmed(s *raft.ReadState) {
	if len(s.RequestCtx) != 8 {
		return
	}
	id := binary.BigEndian.Uint64(s.RequestCtx)
	for i := range r.waiting {
		if w := &r.waiting[i]; w.id <= id && w.index == 0 {
			w.index = s.Index
		}
	}
}

// answer lets those go whose entries are applied.
func (r *reads) answer() {
	r.waiting = slices.DeleteFunc(r.waiting, func(w read) bool {
		if w.index == 0 || w.index > r.applied {
			return false
		}
		w.done(nil)
		return true
	})
}

func (r *reads) fail(err error) {
	for _, w := range r.waiting {
		w.done(err)
	}
	clear(r.waiting)
	r.waiting = r.waiting[:0]
}

// confirm asks a quorum whether this node leads still. Raft repeats the question with its heartbeats.
func (g *group) confirm(done func(error)) {
	if !g.serving {
		done(log.ErrNotLeader)
		return
	}
	g.reads.last++
	g.reads.applied = max(g.reads.applied, g.sm.AppliedIndex())
	g.reads.waiting = append(g.reads.waiting, read{id: g.reads.last, done: done})
	g.rn.ReadIndex(binary.BigEndian.AppendUint64(nil, g.reads.last))
	g.worker.touch(g)
}

// Confirm returns once a quorum has said, after the call, that this node leads the partition, and all that was committed before the call is
// applied here: what is read then is no older than any acknowledgement that came before. ErrNotLeader: another node leads, or none.
func (r *Replica) Confirm(ctx context.Context) error {
	if _, _, self := r.Leader(); !self {
		return log.ErrNotLeader
	}
	if s := r.Status(); s.Self && len(s.Members) == 1 {
		return nil // nobody else can have been elected, and what was acknowledged was applied
	}
	result := make(chan error, 1)
	if !r.group.worker.post(item{kind: itemRun, group: r.group, run: func(g *group, _ *output) { g.confirm(func(err error) { result <- err }) }}) {
		return log.ErrClosed
	}
	select {
	case err := <-result:
		return err
	case <-ctx.Done():
		return fmt.Errorf("ask whether this node leads %s-%d still: %w", r.topic, r.partition, ctx.Err())
	}
}

// Member is which of the partition's replicas it is.
func (r *Replica) Member() Member { return r.member }
