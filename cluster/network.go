package cluster

import (
	"context"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/rowtrail/rowtrail/cluster/peer"
	"github.com/rowtrail/rowtrail/log"
)

// network is a node's end of what nodes say to each other: Raft's messages, announcements, raftSnapshots and calls.
type network struct {
	n         *Node
	net       *peer.Network
	transfers *transfers

	mu      sync.Mutex
	streams map[peer.Kind]func(net.Conn) // what others than this package serve; a missing one: not yet
}

func newNetwork(n *Node) *network {
	x := &network{n: n, streams: map[peer.Kind]func(net.Conn){}}
	x.transfers = &transfers{
		partition: n.partitionOf, logger: n.opts.Logger, rate: n.opts.TransferRate, ctx: n.ctx, slots: make(chan struct{}, maxTransfers),
		report:  func(g log.GroupID, to uint64, ok bool) { n.sched.reportSnapshot(g, to, ok) },
		install: func(g log.GroupID, m *raftMessage, in log.Installation) bool { return n.sched.install(g, m, in) },
	}
	x.net = peer.New(n.opts.Listener, peer.Options{
		Self: func() peer.Identity {
			f := n.id.get()
			return peer.Identity{Cluster: f.Cluster, Node: f.Node, Disk: f.Disk, Boot: n.id.boot, Address: n.opts.Info.Address}
		},
		Addresses: x.addresses, Check: x.check, Receive: x.receive,
		Serve: map[peer.Kind]func(net.Conn, peer.Identity){
			peer.Snapshot: x.transfers.receive,
			peer.Call: func(c net.Conn, from peer.Identity) {
				if err := peer.Answer(n.ctx, c, from, n.answer); err != nil {
					n.opts.Logger.Debug("calls of a peer ended", "node", from.Node, "error", err)
				}
			},
			peer.Kafka: x.serve(peer.Kafka),
			peer.HTTP:  x.serve(peer.HTTP),
		},
		Lost: func(node int32) {
			if x.ready() {
				n.sched.unreachable(node)
			}
		},
		Gone: func(node int32) {
			n.leaders.gone(node)
			if x.ready() {
				n.sched.gone(node)
			}
		},
		Removed:   n.endRemoved,
		ServerTLS: n.opts.ServerTLS, ClientTLS: n.opts.ClientTLS, Logger: n.opts.Logger,
	})
	x.transfers.open = x.net.Open
	return x
}

// ready reports that groups can be told of what comes in.
func (x *network) ready() bool { return x.n.controllerOf() != nil }

func (x *network) close() {
	_ = x.net.Close()
	x.transfers.wg.Wait()
}

// addresses are where a node may listen: as the catalogue says, which may be an old one, and as the configuration does.
func (x *network) addresses(node int32) (out []string) {
	if x.ready() {
		for _, i := range x.n.Catalog().Nodes {
			if i.ID == node {
				out = append(out, i.Address)
			}
		}
	}
	for _, p := range x.n.opts.Peers {
		if p.ID == node {
			out = append(out, p.Address)
		}
	}
	return out
}

// check turns away who does not belong here.
func (x *network) check(h peer.Hello) error {
	me := x.n.id.get()
	switch {
	case h.Node == me.Node:
		return fmt.Errorf("this is node %d, too; give each node an id of its own (node.id)", h.Node)
	case h.Cluster != "" && me.Cluster != "" && h.Cluster != me.Cluster:
		return fmt.Errorf("node %d is in cluster %s, this one in cluster %s; correct cluster.peers", h.Node, h.Cluster, me.Cluster)
	case !x.ready() && h.Kind == peer.Call:
		return nil // so that nodes that found a cluster find each other
	case !x.ready():
		return fmt.Errorf("node %d is starting: %w", me.Node, peer.ErrLater)
	}
	cat := x.n.Catalog()
	if err := cat.checkRemoved(h.Disk); err != nil {
		return fmt.Errorf("%w; empty its data directory to join as a new one: %w", err, peer.ErrRemoved)
	}
	if h.Kind == peer.Call {
		return nil // a node that joins is not known yet
	}
	for _, i := range cat.Nodes {
		if i.ID == h.Node && i.Disk != h.Disk {
			return fmt.Errorf("node %d has another data directory in this cluster; it was replaced, or two nodes have one id", h.Node)
		}
	}
	return nil
}

// receive takes a frame of a peer. An error says that it is not readable.
func (x *network) receive(from int32, frame []byte) error {
	now := time.Now()
	if isLeaders(frame) {
		as, err := decodeLeaders(frame)
		if err != nil {
			return fmt.Errorf("announcements: %w", err)
		}
		x.n.leaders.hear(from, now, as)
		return nil
	}
	if isLeaving(frame) {
		x.n.leaders.leave(from, now)
		return nil
	}
	ms := make([]Envelope, 0, min(len(frame)/wireHeartbeatSize+1, maxPresized))
	if err := decodeFrame(frame, from, x.n.opts.NodeID, func(e Envelope) { ms = append(ms, e) }); err != nil {
		return err
	}
	x.n.sched.receive(ms)
	return nil
}

// Send implements Transport.
func (x *network) Send(node int32, ms []Envelope) {
	lost := false
	err := frames(ms, func(control bool, frame peer.Frame) {
		kind := peer.Append
		if control {
			kind = peer.Control
		}
		lost = !x.net.Send(node, kind, frame) || lost
	})
	if err != nil {
		x.n.opts.Logger.Error("messages to a peer were not encoded", "node", node, "error", err)
	}
	if lost {
		x.n.sched.unreachable(node)
	}
}

// broadcast tells every other node.
func (x *network) broadcast(as []announcement) { x.broadcastFrame(encodeLeaders(as)) }

func (x *network) broadcastFrame(frame []byte) {
	for _, i := range x.n.Catalog().Nodes {
		if i.ID != x.n.opts.NodeID {
			x.net.Send(i.ID, peer.Control, peer.Frame{slices.Clone(frame)}) // which takes the bytes over
		}
	}
}

// notify is told by workers of what changes in a group.
func (n *Node) notify(g *group, l Leadership) {
	a := announcement{group: g.id, epoch: l.Epoch, inSync: l.InSync}
	if l.Leader >= 0 && l.Leader != n.opts.NodeID {
		n.leaders.follow(l.Leader, a)
	}
	if p, ok := g.store.(*log.Partition); ok {
		p.Nudge() // who waits at a leader looks whether it still is one
	}
	if n.leaders.lead(n.opts.NodeID, a, l.Self) && n.net != nil && n.net.ready() {
		n.net.broadcast([]announcement{a})
	}
}

// announceLoop tells the others of all that this node leads, now and then, so that one that missed something learns of it.
func (n *Node) announceLoop(ctx context.Context) {
	t := time.NewTicker(announceEvery)
	defer t.Stop()
	for {
		n.net.broadcast(n.leaders.everything())
		if n.leaving.Load() || n.full.Load() {
			n.net.broadcastFrame(encodeLeaving())
		}
		select {
		case <-t.C:
		case <-ctx.Done():
			return
		}
	}
}

// Alive reports whether a node was heard of lately.
func (n *Node) Alive(node int32) bool {
	return node == n.opts.NodeID || n.leaders.alive(node, time.Now())
}

// LeaderOf is who leads a partition, as far as this node knows: from its own replica, or from what the leader has announced. leader is -1 while
// none is known. What it says of a group never goes back to a lower epoch, and an epoch has one leader. inSync is nil until the leader has said so.
func (n *Node) LeaderOf(t *Topic, partition int32) (leader, epoch int32, inSync []int32) {
	leader, epoch, inSync = n.leaders.get(t.Partitions[partition].Group)
	if leader != n.opts.NodeID {
		return leader, epoch, inSync
	}
	r, err := n.Replica(t.Name, partition)
	if err != nil {
		return -1, epoch, inSync
	}
	if _, at, self := r.Leader(); !self || at != epoch {
		return -1, epoch, inSync // it has ended, and who is next is not known
	}
	return leader, epoch, inSync
}

// LeadersChanged returns a channel that is closed when another leader is announced next.
func (n *Node) LeadersChanged() <-chan struct{} { return n.leaders.changed() }
