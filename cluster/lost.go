package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.etcd.io/raft/v3/raftpb"

	"github.com/rowtrail/rowtrail/log"
	"github.com/rowtrail/rowtrail/log/sleep"
)

// A log that ends before what it has acknowledged was damaged, or cut, in a way that looks like a crash. Its replica must not vote any more:
// the leader counts on what is not there. It is found when it is opened, by the commit index that it has kept, or by the first
// heartbeat, by what the leader knows; it is closed, and replaced by a fresh generation that learns.

// errTailLost says that a replica has lost entries that it had acknowledged.
var errTailLost = fmt.Errorf("the log ends before what this replica has acknowledged; something has cut it: %w", log.ErrCorrupt)

// errRenewed ends a process that has another replica of the controller's log from its next start on.
var errRenewed = errors.New("this node's replica of the controller's log was replaced; restart the node")

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
	err := n.renew(ctx)
	switch {
	case ctx.Err() != nil:
	case err != nil:
		n.sched.fail(err)
	default:
		n.sched.fail(errRenewed)
	}
}

// renew asks the others for a fresh generation of this node's replica of the controller's log, until one of them gives it.
func (n *Node) renew(ctx context.Context) error {
	if n.net == nil {
		return fmt.Errorf("there is no other node that has it; restore the data directory from a backup: %w", log.ErrCorrupt)
	}
	w := n.waiting("a fresh replica of the controller's log has not been given yet")
	defer w.end()
	for {
		gen, err := n.askToRenew(ctx)
		if err == nil {
			return n.id.change(func(x *identityFile) { x.Gen = gen })
		}
		w.say(err.Error())
		if !sleep.For(ctx, formEvery) {
			return err
		}
	}
}

// askToRenew asks each of the nodes that the configuration or the catalogue names.
func (n *Node) askToRenew(ctx context.Context) (uint32, error) {
	asked := slices.Clone(n.opts.Peers)
	if n.controllerOf() != nil {
		for _, i := range n.Catalog().Nodes {
			asked = append(asked, Peer{ID: i.ID, Address: i.Address})
		}
	}
	var failed []string
	for i, p := range asked {
		if p.ID == n.opts.NodeID || slices.Contains(asked[:i], p) {
			continue
		}
		gen, err := askToJoin(ctx, n.net.net.CallAddress, p.Address, registration{Node: n.info(), ID: n.opts.NodeID, Renew: true})
		if err == nil {
			return gen, nil
		}
		failed = append(failed, fmt.Sprintf("node %d: %v", p.ID, err))
	}
	if len(failed) == 0 {
		return 0, fmt.Errorf("cluster.peers names no other node; write nodes of the cluster there: %w", ErrIdentity)
	}
	return 0, errors.New(strings.Join(failed, "; "))
}
