package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"go.etcd.io/raft/v3/raftpb"

	"github.com/rowtrail/rowtrail/log"
)

// A log that ends before what it has acknowledged was damaged, or cut, in a way that looks like a crash. Its replica must not vote any more:
// the leader counts on what is not there. It is found when it is opened, by the commit index that it has kept, or by the first
// heartbeat, by what the leader knows; it is closed, and replaced by a fresh generation that learns.

// errTailLost says that a replica has lost entries that it had acknowledged.
var errTailLost = fmt.Errorf("the log ends before what this replica has acknowledged; something has cut it: %w", log.ErrCorrupt)

// tailLost reports that a leader knows entries to be here that are not: Raft itself takes that for a broken invariant and panics.
func (g *group) tailLost(m *raftpb.Message, out *output) bool {
	if m.GetType() != raftpb.MsgHeartbeat || m.GetCommit() <= g.appended || m.GetTerm() < g.term {
		return false
	}
	g.process(out) // entries that came with this turn are not counted yet
	return m.GetCommit() > g.appended
}

// lose takes a group out of service whose log cannot be trusted.
func (n *Node) lose(g *group, err error) {
	n.opts.Logger.Error("a replica has lost entries that it had acknowledged; it is replaced", "group", uint64(g.id), "error", err)
	if g.id == controllerGroup {
		n.loops.Go(func() { n.loseController(n.ctx) })
		return
	}
	n.mu.Lock()
	n.broken[g.log] = err
	for name, rs := range n.replicas {
		for i, r := range rs {
			if r != nil && r.group == g {
				rs := append([]*Replica(nil), rs...)
				rs[i] = nil
				n.replicas[name] = rs
			}
		}
	}
	n.mu.Unlock()
	n.sched.close(g, log.ErrNotLeader, nil)
}

// loseController gets this node a fresh replica of the controller's log, which it opens when it starts again.
func (n *Node) loseController(ctx context.Context) {
	for ctx.Err() == nil {
		err := n.renew(ctx)
		if err == nil {
			n.sched.fail(errors.New("this node's replica of the controller's log was replaced; restart the node"))
			return
		}
		n.opts.Logger.Warn("the replica of the controller's log was not replaced yet", "error", err)
		if !pauseFor(ctx, sayEvery) {
			return
		}
	}
}

// renew asks the others for a fresh generation of this node's replica of the controller's log.
func (n *Node) renew(ctx context.Context) error {
	if n.net == nil {
		return fmt.Errorf("there is no other node that has it; restore the data directory from a backup: %w", log.ErrCorrupt)
	}
	ctx, cancel := context.WithTimeout(ctx, 5*askFor)
	defer cancel()
	var errs []error
	for _, p := range n.opts.Peers {
		if p.ID == n.opts.NodeID {
			continue
		}
		b, _, err := n.net.net.CallAddress(ctx, p.Address, mustJSON(call{Join: &registration{Node: n.info(), ID: n.opts.NodeID, Renew: true}}))
		var a joinAnswer
		if err == nil {
			err = json.Unmarshal(b, &a)
		}
		if err == nil && a.Error != "" {
			err = errors.New(a.Error)
		}
		if err == nil {
			return n.id.change(func(x *identityFile) { x.Gen = a.Gen })
		}
		errs = append(errs, fmt.Errorf("node %d: %w", p.ID, err))
	}
	return errors.Join(errs...)
}
