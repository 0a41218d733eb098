package cluster

import (
	"cmp"
	"fmt"
	"slices"
)

// NodeInfo is a node of the cluster as the catalogue knows it.
type NodeInfo struct {
	ID      int32  `json:"-"`
	Disk    string `json:"disk"`              // of its data directory
	Address string `json:"address,omitempty"` // where its peers reach it
	Host    string `json:"host,omitempty"`    // where Kafka clients reach it
	Port    int32  `json:"port,omitempty"`
	Rack    string `json:"rack,omitempty"`
	Version string `json:"version,omitempty"`  // of its release
	Gen     uint32 `json:"gen,omitempty"`      // of its replica of the controller's log
	Joined  int64  `json:"joined"`             // order in which nodes came
	Drain   bool   `json:"draining,omitempty"` // nothing is placed there, and what is moves away
}

// maxControllers bounds the voters of the controller's log; further nodes learn it.
const maxControllers = 5

// maxNodes bounds the nodes of a cluster: each of them has the catalogue.
const maxNodes = 100

// nodeList is sorted by id, so that what is decided from them does not depend on a map's order.
func (s *catalogState) nodeList() []NodeInfo {
	out := make([]NodeInfo, 0, len(s.nodes))
	for _, n := range s.nodes {
		out = append(out, n)
	}
	slices.SortFunc(out, func(a, b NodeInfo) int { return cmp.Compare(a.ID, b.ID) })
	return out
}

// sites are the nodes that new replicas may go to.
func (s *catalogState) sites() []site {
	var out []site
	for _, n := range s.nodeList() {
		if !n.Drain {
			out = append(out, site{n.ID, n.Rack})
		}
	}
	return out
}

// load counts all placements.
func (s *catalogState) load() load {
	l := newLoad()
	for _, t := range s.topics {
		for i := range t.Partitions {
			l.add(nodesOf(t.Partitions[i].Wanted()))
		}
	}
	return l
}

// controllers is the membership that the controller's group should have.
func controllers(nodes []NodeInfo) Membership {
	nodes = slices.Clone(nodes)
	slices.SortFunc(nodes, func(a, b NodeInfo) int {
		return cmp.Or(cmp.Compare(boolInt(a.Drain), boolInt(b.Drain)), cmp.Compare(a.Joined, b.Joined), cmp.Compare(a.ID, b.ID))
	})
	voters := min(len(nodes), maxControllers)
	if voters > 2 && voters%2 == 0 {
		voters-- // one more would need one more to agree, and outlive no more failures
	}
	var m Membership
	for i, n := range nodes {
		who := Member{Node: n.ID, Gen: n.Gen}
		if i < voters {
			m.Voters = append(m.Voters, who)
		} else {
			m.Learners = append(m.Learners, who)
		}
	}
	return m
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// registration is what a node says of itself as it starts.
type registration struct {
	Node NodeInfo `json:"node"`
	ID   int32    `json:"id"`
	// Renew asks for a fresh replica of the controller's log: the node has lost the end of the one that it has.
	Renew bool `json:"renew,omitempty"`
}

// register takes a node in, or its new addresses. One that comes with another disk has lost what it had: every replica on it is
// replaced by a fresh one.
func (s *catalogState) register(r registration) ([]change, error) {
	n := r.Node
	n.ID = r.ID
	old, known := s.nodes[r.ID]
	_, removed := s.removed[n.Disk]
	switch {
	case removed:
		return nil, fmt.Errorf("register: %w", wasRemoved(r.ID))
	case !known && len(s.nodes) >= maxNodes:
		return nil, fmt.Errorf("register node %d: the cluster has %d nodes, which is all it takes: %w", r.ID, len(s.nodes), ErrInvalidNode)
	case !known:
		n.Joined = s.nextJoin()
		// The log of a cluster that is older than formations has one member, who is there.
		alone := len(s.formation) == 0 && len(s.nodes) == 0
		if f := s.formation[r.ID]; !alone && f != n.Disk {
			n.Gen = s.controllerGen
		}
	case old.Disk == n.Disk && r.Renew:
		n.Joined, n.Gen, n.Drain = old.Joined, s.controllerGen, old.Drain
	case old.Disk == n.Disk:
		n.Joined, n.Gen, n.Drain = old.Joined, old.Gen, old.Drain
		if n == old {
			return nil, nil
		}
	default:
		n.Joined, n.Drain = old.Joined, old.Drain
		n.Gen = s.controllerGen
	}
	out := []change{encodeNode(n)}
	if n.Gen == s.controllerGen {
		out = append(out, encode(recordKey{Type: recordGens}, nextRecord{uint64(n.Gen) + 1}))
	}
	if known && old.Disk != n.Disk {
		more, err := s.replaceReplicas(r.ID)
		if err != nil {
			return nil, err
		}
		out = append(out, more...)
	}
	return out, nil
}

func (s *catalogState) nextJoin() int64 {
	next := int64(0)
	for _, n := range s.nodes {
		next = max(next, n.Joined+1)
	}
	return next
}

// replaceReplicas gives every replica on a node a successor of a fresh generation.
func (s *catalogState) replaceReplicas(node int32) ([]change, error) {
	return s.eachPlacement(func(p *Placement) (Placement, bool, error) {
		if _, ok := p.on(node); !ok {
			return *p, false, nil
		}
		to, err := p.moveTo(nodesOf(p.Wanted()), node)
		return to, true, err
	})
}

// eachPlacement returns the records of topics whose placements f changes.
func (s *catalogState) eachPlacement(f func(*Placement) (Placement, bool, error)) ([]change, error) {
	var out []change
	for _, name := range s.names() {
		t := s.topics[name]
		var changed *Topic
		for i := range t.Partitions {
			p, ok, err := f(&t.Partitions[i])
			if err != nil {
				return nil, fmt.Errorf("partition %s-%d: %w", name, i, err)
			}
			if !ok {
				continue
			}
			if changed == nil {
				c := *t
				c.Partitions = slices.Clone(t.Partitions)
				changed = &c
			}
			changed.Partitions[i] = p
		}
		if changed != nil {
			out = append(out, encodeTopic(changed))
		}
	}
	return out, nil
}

func (s *catalogState) names() []string {
	names := make([]string, 0, len(s.topics))
	for name := range s.topics {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// drain has everything move away from a node, or stops that.
func (s *catalogState) drain(node int32, on bool) ([]change, error) {
	n, ok := s.nodes[node]
	if !ok && !on {
		return nil, fmt.Errorf("undrain node %d: %w", node, ErrUnknownNode)
	}
	if !ok {
		return nil, fmt.Errorf("drain node %d: %w", node, ErrUnknownNode)
	}
	if n.Drain == on {
		return nil, nil
	}
	if on && len(s.sites()) == 1 {
		return nil, fmt.Errorf("drain node %d: it is the last one that is not draining: %w", node, ErrInvalidNode)
	}
	n.Drain = on
	return []change{encodeNode(n)}, nil
}

// remove takes a drained node out of the cluster, for good as far as its data directory goes.
func (s *catalogState) remove(node int32) ([]change, error) {
	n, ok := s.nodes[node]
	if !ok {
		return nil, fmt.Errorf("remove node %d: %w", node, ErrUnknownNode)
	}
	if !n.Drain {
		return nil, fmt.Errorf("remove node %d: drain it first: %w", node, ErrInvalidNode)
	}
	for name, t := range s.topics {
		for i := range t.Partitions {
			if _, has := t.Partitions[i].on(node); has {
				return nil, fmt.Errorf("remove node %d: partition %s-%d is still on it; wait until it is drained: %w", node, name, i, ErrInvalidNode)
			}
		}
	}
	return append(s.rememberRemoved(n), encode(recordKey{Type: recordNode, Node: &node}, nil)), nil
}
