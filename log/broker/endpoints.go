package broker

import (
	"net"
	"slices"
	"strconv"

	"github.com/rowtrail/rowtrail/cluster"
)

// endpoint is where clients reach a node.
type endpoint struct {
	node int32
	host string
	port int32
	rack *string
}

func (e endpoint) address() string { return net.JoinHostPort(e.host, strconv.Itoa(int(e.port))) }

// endpoint finds a node; false: it is not in the catalogue, or has not said yet where it is.
func (b *Broker) endpoint(node int32) (endpoint, bool) {
	if node == b.node.ID() {
		return endpoint{node, b.opts.AdvertisedHost, b.opts.AdvertisedPort, orNil(b.opts.Rack)}, true
	}
	nodes := b.node.Catalog().Nodes
	i, found := slices.BinarySearchFunc(nodes, node, func(n cluster.NodeInfo, id int32) int { return int(n.ID) - int(id) })
	if !found || nodes[i].Host == "" {
		return endpoint{}, false
	}
	return endpoint{node, nodes[i].Host, nodes[i].Port, orNil(nodes[i].Rack)}, true
}

// endpoints are the nodes that clients are told of: those that are alive, and those that were named as leaders beside them, by id.
func (b *Broker) endpoints(named map[int32]bool) []endpoint {
	ids := []int32{b.node.ID()}
	for _, n := range b.node.Catalog().Nodes {
		if n.ID != b.node.ID() && (named[n.ID] || b.node.Alive(n.ID)) {
			ids = append(ids, n.ID)
		}
	}
	slices.Sort(ids)
	out := make([]endpoint, 0, len(ids))
	for _, id := range ids {
		if e, ok := b.endpoint(id); ok {
			out = append(out, e)
		}
	}
	return out
}

// controllerID is the leader of the controller's group; -1 while none is known. Operations on the catalogue may be sent to any node.
func (b *Broker) controllerID() int32 {
	leader := b.node.Quorum().Leader
	if _, ok := b.endpoint(leader); !ok {
		return -1
	}
	return leader
}

// leaderOf is the leader of a partition that this node knows, and its epoch; -1 when it knows none, or one that clients could not find. A
// leader is named with its own epoch: clients take an equal epoch for no change, and a lower one for old news.
func (b *Broker) leaderOf(t *cluster.Topic, partition int32) (leader, epoch int32) {
	leader, epoch, _ = b.node.LeaderOf(t, partition)
	if _, ok := b.endpoint(leader); !ok {
		return -1, epoch
	}
	return leader, epoch
}

// replicasOf are the nodes of a partition's replicas in order of preference; those that are being removed come last.
func replicasOf(p *cluster.Placement) []int32 {
	if p.Target == nil {
		return p.Nodes()
	}
	out := make([]int32, 0, len(p.Target)+len(p.Members))
	for _, m := range p.Target {
		out = append(out, m.Node)
	}
	for _, m := range p.Members {
		if !slices.Contains(out, m.Node) {
			out = append(out, m.Node)
		}
	}
	return out
}

// described is what metadata says of a partition.
type described struct {
	replicas, isr, offline []int32
	leader, epoch          int32
}

// describe looks at a partition. offline are replicas on nodes that were not heard of lately.
func (b *Broker) describe(t *cluster.Topic, partition int32) described {
	d := described{replicas: replicasOf(&t.Partitions[partition]), isr: []int32{}, offline: []int32{}}
	var inSync []int32
	if d.leader, d.epoch, inSync = b.node.LeaderOf(t, partition); d.leader != b.node.ID() {
		if _, ok := b.endpoint(d.leader); !ok {
			d.leader = -1
		}
	}
	for _, n := range d.replicas {
		if n == d.leader || slices.Contains(inSync, n) {
			d.isr = append(d.isr, n)
		}
		if !b.node.Alive(n) {
			d.offline = append(d.offline, n)
		}
	}
	return d
}

// standIn is the node that metadata names where a partition's leader and a majority of its replicas have been silent for long: this node if it
// has a replica, else another one that is heard of, -1 if there is none. What is committed can be read there; writes, and questions about
// the end, are refused until a majority is back. While a majority is heard of, an election is what to wait for, and a leader that only this
// node does not hear stays the one to ask.
func (b *Broker) standIn(d *described) int32 {
	alive := len(d.replicas) - len(d.offline)
	if d.leader >= 0 && b.node.Alive(d.leader) || 2*alive > len(d.replicas) {
		return d.leader
	}
	for _, n := range append([]int32{b.node.ID()}, d.replicas...) {
		if _, ok := b.endpoint(n); ok && slices.Contains(d.replicas, n) && !slices.Contains(d.offline, n) {
			return n
		}
	}
	return -1
}

// standsIn reports that metadata of this node names it in a silent leader's place.
func (b *Broker) standsIn(t *cluster.Topic, partition int32) bool {
	d := b.describe(t, partition)
	return d.leader != b.node.ID() && b.standIn(&d) == b.node.ID()
}
