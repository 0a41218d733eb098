package cluster

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/rowtrail/rowtrail/log"
)

// defaultReplicationFactor is asked for where nobody says anything; a smaller cluster gives what it has.
const defaultReplicationFactor = 3

// Placement is where one partition lives.
type Placement struct {
	Group log.GroupID `json:"group"`
	// Members are its replicas in order of preference: the first one is the preferred leader.
	Members []Member `json:"replicas"`
	// Target is where they are moving; nil: they are not.
	Target []Member `json:"target,omitempty"`
	// Leaving are replicas that moves were to bring and that were given up: until the present move is over they may be voters, and are kept.
	Leaving []Member `json:"leaving,omitempty"`
	// First is the group's first configuration; nil: Members.
	First []Member `json:"first,omitempty"`
	// NextGen is a generation that no member of the group ever had.
	NextGen uint32 `json:"nextGen,omitempty"`
	// Grows: nobody has said how many replicas it has, so it gets the default number of them as soon as there are nodes.
	Grows bool `json:"grows,omitempty"`
}

// Nodes are the nodes of the replicas, in order of preference.
func (p *Placement) Nodes() []int32 { return nodesOf(p.Members) }

// Wanted is where the replicas should be.
func (p *Placement) Wanted() []Member {
	if p.Target != nil {
		return p.Target
	}
	return p.Members
}

// first is the group's first configuration.
func (p *Placement) first() []Member {
	if p.First != nil {
		return p.First
	}
	return p.Members
}

// on finds a node's member of those that there are or should be; false: it has none. During a move several can be, then it is the newest.
func (p *Placement) on(node int32) (Member, bool) {
	for _, list := range [][]Member{p.Target, p.Members, p.Leaving} {
		for _, m := range list {
			if m.Node == node {
				return m, true
			}
		}
	}
	return Member{}, false
}

// moveTo returns the placement on its way to nodes. Replicas that stay keep their generation, new ones get one that was never used; fresh nodes
// get a new one although they have a replica, since they lost it. What the move before was to bring may have become a voter, so it stays until
// this one is over, and going back is a move, too.
func (p *Placement) moveTo(nodes []int32, fresh ...int32) (Placement, error) {
	to := *p
	to.First = p.first()
	to.Target = nil
	for _, n := range nodes {
		m, ok := p.on(n) // of two, the one that is on its way
		if !ok || slices.Contains(fresh, n) {
			if to.NextGen = max(to.NextGen, 1); to.NextGen > maxGen {
				return to, fmt.Errorf("group %d has been placed %d times, which is all there is; create the topic anew", p.Group, to.NextGen)
			}
			m = Member{Node: n, Gen: to.NextGen}
			to.NextGen++
		}
		to.Target = append(to.Target, m)
	}
	// A replica that is lost must not be opened again under its old name: it would be a voter that forgot.
	to.Members, to.Leaving = nil, nil
	for _, m := range p.Members {
		if slices.Contains(fresh, m.Node) {
			at := slices.Index(nodes, m.Node)
			if at < 0 {
				continue
			}
			m = to.Target[at]
		}
		to.Members = append(to.Members, m)
	}
	if len(to.Members) == 0 {
		to.Members = slices.Clone(to.Target)
	}
	for _, m := range append(slices.Clone(p.Target), p.Leaving...) {
		if _, again := to.on(m.Node); !again && !slices.Contains(fresh, m.Node) {
			to.Leaving = append(to.Leaving, m)
		}
	}
	if p.Target == nil && len(fresh) == 0 && slices.Equal(to.Target, to.Members) {
		to.Target = nil
	}
	return to, nil
}

// arrived is the placement when the move is over.
func (p *Placement) arrived() Placement {
	to := *p
	to.Members, to.Target, to.Leaving = p.Target, nil, nil
	return to
}

func nodesOf(ms []Member) []int32 {
	out := make([]int32, len(ms))
	for i, m := range ms {
		out[i] = m.Node
	}
	return out
}

// site is a node as placement sees it.
type site struct {
	node int32
	rack string
}

// load counts what is placed where, so that the next replica goes where least is.
type load struct {
	replicas, leaders map[int32]int
}

func newLoad() load { return load{map[int32]int{}, map[int32]int{}} }

func (l load) add(nodes []int32) {
	for i, n := range nodes {
		l.replicas[n]++
		if i == 0 {
			l.leaders[n]++
		}
	}
}

// choose picks nodes for a partition's replicas: no two in one rack while racks suffice, those with the fewest replicas first; the first is the
// one with the fewest leaders. Equal ones are taken in turn, by start.
func (l load) choose(sites []site, rf, start int) []int32 {
	rf = min(rf, len(sites))
	turn := func(i int) int { return (i - start%len(sites) + len(sites)) % len(sites) }
	var out []int32
	inRack := map[string]int{}
	for range rf {
		best := -1
		for i, s := range sites {
			if slices.Contains(out, s.node) {
				continue
			}
			if best < 0 {
				best = i
				continue
			}
			b := sites[best]
			if c := cmp.Or(
				cmp.Compare(inRack[s.rack], inRack[b.rack]),
				cmp.Compare(l.replicas[s.node], l.replicas[b.node]),
				cmp.Compare(turn(i), turn(best)),
			); c < 0 {
				best = i
			}
		}
		out = append(out, sites[best].node)
		inRack[sites[best].rack]++
	}
	lead := 0
	for i, n := range out {
		if l.leaders[n] < l.leaders[out[lead]] {
			lead = i
		}
	}
	out[0], out[lead] = out[lead], out[0]
	return out
}

// place chooses replicas for count new partitions; groups are numbered from first. A rack of "" is each node's own.
func place(sites []site, l load, first log.GroupID, count int32, rf int) []Placement {
	sites = slices.Clone(sites)
	for i := range sites {
		if sites[i].rack == "" {
			sites[i].rack = fmt.Sprintf("\x00%d", sites[i].node)
		}
	}
	slices.SortFunc(sites, func(a, b site) int { return cmp.Compare(a.node, b.node) })
	lists := make([][]int32, count)
	for i := range lists {
		lists[i] = l.choose(sites, rf, int(first)+i) //nolint:gosec // only the order of equals depends on it
		l.add(lists[i])
	}
	among := make([]int32, len(sites))
	for i := range sites {
		among[i] = sites[i].node
	}
	l.evenLeaders(lists, among)
	out := make([]Placement, count)
	for i, nodes := range lists {
		ms := make([]Member, len(nodes))
		for j, n := range nodes {
			ms[j] = Member{Node: n}
		}
		out[i] = Placement{Group: first + log.GroupID(i), Members: ms} //nolint:gosec // a count
	}
	return out
}

// DefaultReplicationFactor is how many replicas a topic gets now where nobody says anything.
func (n *Node) DefaultReplicationFactor() int16 {
	return int16(max(1, min(int(n.opts.ReplicationFactor), n.Sites()))) //nolint:gosec // a few
}

// Sites is how many nodes replicas may be placed on.
func (n *Node) Sites() int {
	sites := 0
	for _, x := range n.Catalog().Nodes {
		if !x.Drain {
			sites++
		}
	}
	return sites
}
