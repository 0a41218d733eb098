package cluster

import (
	"cmp"
	"context"
	"encoding/json"
	"net"
	"slices"
	"strconv"
	"sync"
	"time"
)

// Overview is the state of a cluster as one node sees it, with what the others answer.
type Overview struct {
	Cluster    string `json:"cluster"`
	Node       int32  `json:"node"` // the one that was asked
	Controller struct {
		Leader int32   `json:"leader"` // -1: none is known
		Epoch  int32   `json:"epoch"`
		Voters []int32 `json:"voters"`
		Alive  int     `json:"alive"` // voters
	} `json:"controller"`
	Nodes           []NodeOverview      `json:"nodes"`
	Partitions      int                 `json:"partitions"`
	UnderReplicated []PartitionOverview `json:"underReplicated"` // offline ones are not among them
	Offline         []PartitionOverview `json:"offline"`         // no leader is known that is alive
	Moves           []MoveOverview      `json:"moves"`
	// NotPreferred are the partitions that another replica than the first one leads. It is not known of those that are offline.
	NotPreferred int `json:"notPreferred"`
}

// Healthy reports that every node and every replica is there.
func (o *Overview) Healthy() bool {
	for i := range o.Nodes {
		if !o.Nodes[i].Alive {
			return false
		}
	}
	return o.Controller.Leader >= 0 && len(o.UnderReplicated) == 0 && len(o.Offline) == 0
}

// NodeOverview is one node.
type NodeOverview struct {
	ID         int32  `json:"id"`
	Alive      bool   `json:"alive"`
	Draining   bool   `json:"draining"`
	Controller string `json:"controller"` // leader, voter or learner of the controller's log
	Rack       string `json:"rack"`
	Version    string `json:"version"`
	Address    string `json:"address"` // of its peers
	Kafka      string `json:"kafka"`   // of clients
	Replicas   int    `json:"replicas"`
	Leaders    int    `json:"leaders"`
	Preferred  int    `json:"preferred"` // partitions that it is to lead
	// Stuck are the replicas of a draining node that no other node can take.
	Stuck int `json:"stuck,omitempty"`
	// Error is why a node that is alive did not say how far its followers are.
	Error string `json:"error,omitempty"`
}

// PartitionOverview is one partition.
type PartitionOverview struct {
	Topic     string  `json:"topic"`
	Partition int32   `json:"partition"`
	Leader    int32   `json:"leader"`
	Replicas  []int32 `json:"replicas"`
	InSync    []int32 `json:"inSync"`
}

// MoveOverview is a partition whose replicas are moving.
type MoveOverview struct {
	PartitionOverview
	Target []int32 `json:"target"`
	// Behind is how many entries of the leader's log those that come are behind, by node; nil: the leader did not say.
	Behind map[int32]uint64 `json:"behind"`
}

// ReplicaLag is how far a follower is behind its leader, by what the leader knows to be on its disk.
type ReplicaLag struct {
	Topic     string `json:"topic"`
	Internal  bool   `json:"-"`
	Partition int32  `json:"partition"`
	Node      int32  `json:"node"`
	Voter     bool   `json:"voter"`
	InSync    bool   `json:"inSync"`
	Entries   uint64 `json:"entries"`
}

// Lags are the followers of the partitions that this node leads. moving: only of partitions that move.
func (n *Node) Lags(moving bool) []ReplicaLag {
	var out []ReplicaLag
	for _, r := range n.Replicas() {
		s := r.group.status.Load()
		t := r.entry.Load()
		if s == nil || !s.Self || moving && t.Partitions[r.partition].Target == nil {
			continue
		}
		for _, m := range s.Members {
			if m.Node == n.opts.NodeID {
				continue
			}
			out = append(out, ReplicaLag{
				Topic: t.Name, Internal: t.Internal, Partition: r.partition, Node: m.Node, Voter: m.Voter, InSync: m.InSync, Entries: s.Last - min(m.Match, s.Last),
			})
		}
	}
	return out
}

type reportRequest struct{}

// report is what a node tells another one for its Overview.
type report struct {
	Lags []ReplicaLag `json:"lags"`
}

// overviewFor bounds how long an Overview waits for the other nodes' reports.
const overviewFor = 2 * time.Second

// Overview describes the cluster. Nodes that do not answer in time are named in it; with a ctx that has ended none is asked.
func (n *Node) Overview(ctx context.Context) Overview {
	cat := n.Catalog()
	o := overviewOf(cat, n.LeaderOf, n.Alive)
	o.Cluster, o.Node = n.ClusterID(), n.opts.NodeID
	q := n.Quorum()
	o.Controller.Leader, o.Controller.Epoch, o.Controller.Voters = q.Leader, q.Epoch, q.Voters
	for i := range o.Nodes {
		x := &o.Nodes[i]
		switch {
		case x.ID == q.Leader:
			x.Controller = "leader"
		case slices.Contains(q.Voters, x.ID):
			x.Controller = "voter"
		default:
			x.Controller = "learner"
		}
		if x.Alive && slices.Contains(q.Voters, x.ID) {
			o.Controller.Alive++
		}
	}
	if len(o.Moves) > 0 && ctx.Err() == nil {
		n.fillMoves(ctx, &o)
	}
	return o
}

// overviewOf is what the catalogue and the announcements tell.
func overviewOf(cat *Catalog, leaderOf func(*Topic, int32) (int32, int32, []int32), alive func(int32) bool) Overview {
	o := Overview{UnderReplicated: []PartitionOverview{}, Offline: []PartitionOverview{}, Moves: []MoveOverview{}}
	at := map[int32]*NodeOverview{}
	o.Nodes = make([]NodeOverview, len(cat.Nodes))
	for i, x := range cat.Nodes {
		o.Nodes[i] = NodeOverview{
			ID: x.ID, Alive: alive(x.ID), Draining: x.Drain, Rack: x.Rack, Version: x.Version, Address: x.Address, Kafka: hostPort(x.Host, x.Port),
		}
		at[x.ID] = &o.Nodes[i]
	}
	add := func(node int32, count func(*NodeOverview)) {
		if x := at[node]; x != nil {
			count(x)
		}
	}
	for _, name := range sortedTopics(cat) {
		t := cat.Topics[name]
		for i := range t.Partitions {
			p := &t.Partitions[i]
			number := int32(i) //nolint:gosec // bounded by maxPartitions
			leader, _, inSync := leaderOf(t, number)
			x := PartitionOverview{Topic: name, Partition: number, Leader: leader, Replicas: p.Nodes(), InSync: append([]int32{}, inSync...)}
			o.Partitions++
			add(p.Wanted()[0].Node, func(n *NodeOverview) { n.Preferred++ })
			for _, node := range unionOf(p.Nodes(), nodesOf(p.Target)) {
				add(node, func(n *NodeOverview) { n.Replicas++ })
				add(node, func(n *NodeOverview) {
					if n.Draining && p.Target == nil && !anyOther(cat, p.Nodes(), alive) {
						n.Stuck++
					}
				})
			}
			if p.Target != nil {
				o.Moves = append(o.Moves, MoveOverview{PartitionOverview: x, Target: nodesOf(p.Target)})
			}
			switch {
			case leader < 0 || !alive(leader):
				o.Offline = append(o.Offline, x)
				continue
			case missing(x.Replicas, inSync):
				o.UnderReplicated = append(o.UnderReplicated, x)
			}
			add(leader, func(n *NodeOverview) { n.Leaders++ })
			if leader != p.Wanted()[0].Node {
				o.NotPreferred++
			}
		}
	}
	return o
}

// fillMoves asks the leaders of partitions that move how far they are.
func (n *Node) fillMoves(ctx context.Context, o *Overview) {
	ctx, cancel := context.WithTimeout(ctx, overviewFor)
	defer cancel()
	reports := make([]report, len(o.Nodes))
	var wg sync.WaitGroup
	for i := range o.Nodes {
		x := &o.Nodes[i]
		switch {
		case x.ID == n.opts.NodeID:
			reports[i].Lags = n.Lags(true)
		case x.Alive && n.net != nil:
			wg.Go(func() {
				b, err := n.net.net.Call(ctx, x.ID, mustJSON(call{Report: &reportRequest{}}))
				if err == nil {
					err = json.Unmarshal(b, &reports[i])
				}
				if err != nil {
					x.Error = err.Error()
				}
			})
		}
	}
	wg.Wait()
	for _, r := range reports {
		for _, l := range r.Lags {
			for i := range o.Moves {
				m := &o.Moves[i]
				if m.Topic != l.Topic || m.Partition != l.Partition || !slices.Contains(m.Target, l.Node) {
					continue
				}
				if m.Behind == nil {
					m.Behind = map[int32]uint64{}
				}
				m.Behind[l.Node] = l.Entries
			}
		}
	}
}

func hostPort(host string, port int32) string {
	if host == "" {
		return ""
	}
	return net.JoinHostPort(host, strconv.Itoa(int(port)))
}

func sortedTopics(cat *Catalog) []string {
	out := make([]string, 0, len(cat.Topics))
	for name := range cat.Topics {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

func unionOf(a, b []int32) []int32 {
	out := slices.Concat(a, b)
	slices.SortFunc(out, cmp.Compare)
	return slices.Compact(out)
}

// anyOther reports that some node could take a replica of a partition that is on nodes.
func anyOther(cat *Catalog, nodes []int32, alive func(int32) bool) bool {
	for _, x := range cat.Nodes {
		if !x.Drain && alive(x.ID) && !slices.Contains(nodes, x.ID) {
			return true
		}
	}
	return false
}

// missing reports that some replica is not in sync.
func missing(replicas, inSync []int32) bool {
	for _, r := range replicas {
		if !slices.Contains(inSync, r) {
			return true
		}
	}
	return false
}
