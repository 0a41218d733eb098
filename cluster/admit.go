package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/rowtrail/rowtrail/cluster/peer"
)

// canAdmit says why a node would not be let in; an empty Error: it would.
func (n *Node) canAdmit(r *registration) joinAnswer {
	for _, have := range n.Catalog().Nodes {
		if have.ID == r.ID && have.Disk != r.Node.Disk && (r.ID == n.opts.NodeID || n.leaders.alive(r.ID, time.Now())) {
			return joinAnswer{Error: fmt.Sprintf("node %d is alive in this cluster with another data directory; give this node an id of its own (node.id)", r.ID)}
		}
	}
	err := n.check(func(s *catalogState) ([]change, error) { return s.register(*r) })
	if err != nil {
		return joinAnswer{Error: err.Error()}
	}
	return joinAnswer{}
}

// admit registers a node that joins, and tells it the generation of its replica of the controller's log.
func (n *Node) admit(ctx context.Context, r *registration) joinAnswer {
	if a := n.canAdmit(r); a.Error != "" {
		return a
	}
	if err := n.reach(ctx, r); err != nil {
		return joinAnswer{Error: err.Error()}
	}
	ctx, cancel := context.WithTimeout(ctx, admitFor)
	defer cancel()
	if err := n.ctl.propose(ctx, func(s *catalogState) ([]change, error) { return s.register(*r) }); err != nil {
		return joinAnswer{Error: err.Error()}
	}
	for _, have := range n.Catalog().Nodes {
		if have.ID == r.ID {
			return joinAnswer{Gen: have.Gen}
		}
	}
	return joinAnswer{Error: "the node was removed meanwhile"}
}

// reachFor bounds the look at a node that joins; it waits for the answer for askFor.
const reachFor = askFor / 2

// reach connects to a node that joins where it says that it is reached: one that the others cannot connect to would be given replicas that never
// catch up.
func (n *Node) reach(ctx context.Context, r *registration) error {
	if n.net == nil || r.Node.Address == "" || r.Renew {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, reachFor)
	defer cancel()
	var s statusAnswer
	b, _, err := n.net.net.CallAddress(ctx, r.Node.Address, mustJSON(call{Status: &statusRequest{}}))
	if err == nil {
		err = json.Unmarshal(b, &s)
	}
	if err == nil && (s.Node != r.ID || s.Disk != r.Node.Disk) {
		err = fmt.Errorf("node %d answers there, of another data directory", s.Node)
	}
	if err != nil {
		return fmt.Errorf("node %d cannot be reached at %s (cluster.advertised) from node %d: %w", r.ID, r.Node.Address, n.opts.NodeID, err)
	}
	return nil
}

// greetPeers calls the configured peers once, as a directory that belongs to a cluster needs them no more: one of another cluster would go unnoticed.
func (n *Node) greetPeers(ctx context.Context) {
	for _, p := range n.opts.Peers {
		if p.ID == n.opts.NodeID {
			continue
		}
		asking, cancel := context.WithTimeout(ctx, askFor)
		_, _, err := n.net.net.CallAddress(asking, p.Address, mustJSON(call{Status: &statusRequest{}}))
		cancel()
		if errors.Is(err, peer.ErrRefused) {
			n.opts.Logger.Error("a node of cluster.peers does not want this one; correct node.data_dir or cluster.peers", "peer", p.ID, "error", err)
		}
	}
}
