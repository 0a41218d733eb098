package cluster

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/rowtrail/rowtrail/log/sleep"
)

const (
	// balanceEvery is how often a node looks after what it leads, and the controller after the cluster.
	balanceEvery = 500 * time.Millisecond
	// maxMoves bounds the partitions that the controller moves at a time.
	maxMoves = 4
	// maxHandOvers bounds the leaderships that a node gives back at a time to those who are to have them.
	maxHandOvers = 8
	// settleFor is how long the cluster is left alone after its nodes changed.
	settleFor = 10 * time.Second
)

// balanceLoop reports moves that are over, gives leadership to the preferred leaders, and, where this node leads the controller's group, moves
// replicas from nodes that have too many or are drained.
func (n *Node) balanceLoop(ctx context.Context) {
	t := time.NewTicker(balanceEvery)
	defer t.Stop()
	calm := time.Now()
	var nodes []NodeInfo
	for {
		select {
		case <-t.C:
		case <-ctx.Done():
			return
		}
		n.reportMoved(ctx)
		n.reportLost(ctx)
		n.yield()
		n.preferLeaders()
		cat := n.Catalog()
		if !slices.EqualFunc(cat.Nodes, nodes, func(a, b NodeInfo) bool { return a.ID == b.ID && a.Drain == b.Drain }) {
			nodes, calm = cat.Nodes, time.Now()
		}
		if _, _, self := n.ctl.replica.Leader(); self && time.Since(calm) >= settleFor {
			n.balance(ctx)
		}
	}
}

// reportMoved tells the catalogue of moves that are over.
func (n *Node) reportMoved(ctx context.Context) {
	for _, r := range n.Replicas() {
		t := r.entry.Load()
		p := &t.Partitions[r.partition]
		s := r.group.status.Load()
		if p.Target == nil || s == nil || !s.Self || !s.Reached || !sameMembers(s.Members, p.Target) {
			continue
		}
		err := n.operate(ctx, func(c *catalogState) ([]change, error) { return c.moved(t.Name, r.partition, p.Target) })
		if err != nil && ctx.Err() == nil {
			n.opts.Logger.Warn("a move that is over was not reported yet", "topic", t.Name, "partition", r.partition, "error", err)
		}
	}
}

func sameMembers(have []GroupMember, want []Member) bool {
	if len(have) != len(want) {
		return false
	}
	for _, m := range have {
		if !m.Voter || !slices.Contains(want, m.Member) {
			return false
		}
	}
	return true
}

// preferLeaders hands leadership back to preferred leaders that are alive and have caught up.
func (n *Node) preferLeaders() {
	given := 0
	for _, r := range n.Replicas() {
		p := &r.entry.Load().Partitions[r.partition]
		to := p.Wanted()[0]
		s := r.group.status.Load()
		if s == nil || !s.Self || to.Node == n.opts.NodeID || p.Target != nil || !n.leaders.stays(to.Node, time.Now()) || given >= maxHandOvers {
			continue
		}
		for _, m := range s.Members {
			if m.Member == to && m.InSync {
				given++
				r.transfer(to, true)
			}
		}
	}
}

// transfer hands leadership to a member; caughtUp: only if it has all of the log now.
func (r *Replica) transfer(to Member, caughtUp bool) {
	g := r.group
	r.sched.run(g, func() {
		if g.serving && (!caughtUp || g.sync.caughtUp(to.raftID())) {
			g.handTo(to.raftID())
		}
	})
}

// balance decides the next moves.
func (n *Node) balance(ctx context.Context) {
	var changes []change
	err := n.ctl.propose(ctx, func(s *catalogState) (_ []change, err error) {
		changes, err = s.balance(n.Alive, int(n.opts.ReplicationFactor))
		return changes, err
	})
	if err == nil && len(changes) > 0 {
		err = n.reconcile(ctx)
	}
	if err != nil && ctx.Err() == nil {
		n.opts.Logger.Debug("the cluster was not balanced", "error", err)
	}
}

// move is a replica that should go elsewhere.
type move struct {
	topic     string
	partition int32
	nodes     []int32
}

// balance starts the next move, unless as many as may be are under way: first to more replicas, where a partition got fewer than rf, the default, as there were
// too few nodes; then away from drained nodes, out of racks that have two of a partition while others have none, and from nodes with the most replicas to
// those with the fewest, until no node has two more than another. None but the first brings two of a partition together in a rack.
func (s *catalogState) balance(alive func(int32) bool, rf int) ([]change, error) {
	moving := 0
	for _, t := range s.topics {
		for i := range t.Partitions {
			if t.Partitions[i].Target != nil {
				moving++
			}
		}
	}
	if moving >= maxMoves {
		return nil, nil
	}
	m, ok := s.nextGrowth(alive, rf)
	if !ok {
		m, ok = s.nextMove(alive)
	}
	if !ok {
		return nil, nil
	}
	// One topic's record carries all of its partitions: one move per turn.
	return s.reassign(m.topic, m.partition, m.nodes)
}

// nextGrowth gives a partition the replicas that it should have by now. Those that it has stay.
func (s *catalogState) nextGrowth(alive func(int32) bool, rf int) (move, bool) {
	sites := s.sites()
	rf = min(rf, len(sites)) // else a node that is being drained could not be emptied
	sites = slices.DeleteFunc(sites, func(x site) bool { return !alive(x.node) })
	l := s.load()
	for _, name := range s.names() {
		t := s.topics[name]
		for i := range t.Partitions {
			p := &t.Partitions[i]
			if !p.Grows || p.Target != nil || len(p.Members) >= rf {
				continue
			}
			if nodes := s.grown(p.Nodes(), sites, l, rf); len(nodes) > len(p.Members) {
				return move{name, int32(i), nodes}, true //nolint:gosec // bounded by maxPartitions
			}
		}
	}
	return move{}, false
}

// grown adds sites to a partition's nodes, up to rf: other racks than it has first, and then those with the fewest replicas.
func (s *catalogState) grown(nodes []int32, sites []site, l load, rf int) []int32 {
	racks := map[int32]string{}
	for _, n := range s.nodes {
		racks[n.ID] = n.Rack
	}
	for len(nodes) < rf {
		var best []int32
		for _, x := range sites {
			if slices.Contains(nodes, x.node) {
				continue
			}
			next := append(slices.Clone(nodes), x.node)
			if best == nil || cmp.Or(cmp.Compare(crowded(next, racks), crowded(best, racks)),
				cmp.Compare(l.replicas[x.node], l.replicas[best[len(best)-1]])) < 0 {
				best = next
			}
		}
		if best == nil {
			break
		}
		nodes = best
	}
	return nodes
}

// why a replica moves, the most urgent first.
type moveReason int

const (
	moveOffDrained moveReason = iota
	moveApart                 // two of its partition are in one rack, and need not be
	moveEven                  // its node has two replicas more than another one
	moveNothing
)

// moveStep is a move and its reason.
type moveStep struct {
	why  moveReason
	gain int // fewer replicas that share a rack
	move move
}

// nextStep is the best step of one partition. open are the nodes that may get replicas, those with the fewest first.
func (s *catalogState) nextStep(nodes, open []int32, l load, racks map[int32]string) moveStep {
	best := moveStep{why: moveNothing}
	shared := crowded(nodes, racks)
	for at, from := range nodes {
		for _, to := range open {
			tooMany := l.replicas[from]-l.replicas[to] >= 2
			if slices.Contains(nodes, to) || !s.nodes[from].Drain && shared == 0 && !tooMany {
				continue
			}
			next := slices.Clone(nodes)
			next[at] = to
			x := moveStep{why: moveNothing, gain: shared - crowded(next, racks), move: move{nodes: next}}
			switch {
			case s.nodes[from].Drain:
				x.why = moveOffDrained
			case x.gain > 0:
				x.why = moveApart
			case x.gain == 0 && tooMany:
				x.why = moveEven
			}
			if x.why < best.why || x.why == best.why && x.gain > best.gain {
				best = x
			}
		}
	}
	return best
}

// nextMove is the move that helps most; false: none does.
func (s *catalogState) nextMove(alive func(int32) bool) (move, bool) {
	l := s.load()
	racks := map[int32]string{}
	var open []int32
	for _, n := range s.nodeList() {
		racks[n.ID] = n.Rack
		if !n.Drain && alive(n.ID) {
			open = append(open, n.ID)
		}
	}
	slices.SortFunc(open, func(a, b int32) int { return cmp.Or(cmp.Compare(l.replicas[a], l.replicas[b]), cmp.Compare(a, b)) })
	if len(open) == 0 {
		return move{}, false
	}
	best := moveStep{why: moveNothing}
	for _, name := range s.names() {
		t := s.topics[name]
		for i := range t.Partitions {
			p := &t.Partitions[i]
			if p.Target != nil {
				continue
			}
			if x := s.nextStep(p.Nodes(), open, l, racks); x.why < best.why {
				best = x
				best.move.topic, best.move.partition = name, int32(i) //nolint:gosec // bounded by maxPartitions
			}
		}
	}
	if best.why < moveNothing {
		return best.move, true
	}
	return s.nextLeader(open, l)
}

// nextLeader is the first of the moves that change nothing but who is to lead, until leaders are as even as the replicas allow.
func (s *catalogState) nextLeader(open []int32, l load) (move, bool) {
	var lists [][]int32
	var moves []move
	for _, name := range s.names() {
		t := s.topics[name]
		for i := range t.Partitions {
			if p := &t.Partitions[i]; p.Target == nil {
				lists = append(lists, p.Nodes())
				moves = append(moves, move{topic: name, partition: int32(i)}) //nolint:gosec // bounded by maxPartitions
			}
		}
	}
	shifts := evenShifts(lists, l.leaders, open)
	if len(shifts) == 0 {
		return move{}, false
	}
	// The last of a chain first: on the way no node leads more than it did.
	last := shifts[len(shifts)-1]
	m := moves[last.partition]
	m.nodes = led(lists[last.partition], last.to)
	return m, true
}

// crowded counts the replicas that share a rack with another one.
func crowded(nodes []int32, racks map[int32]string) (n int) {
	for i, a := range nodes {
		for _, b := range nodes[:i] {
			if racks[a] != "" && racks[a] == racks[b] {
				n++
				break
			}
		}
	}
	return n
}

// Replicas are this node's replicas, in no order.
func (n *Node) Replicas() []*Replica {
	n.mu.RLock()
	defer n.mu.RUnlock()
	var out []*Replica
	for _, rs := range n.replicas {
		for _, r := range rs {
			if r != nil {
				out = append(out, r)
			}
		}
	}
	return out
}

// handOverFor bounds how long a node that stops waits for others to lead what it led.
const handOverFor = 3 * time.Second

// HandOver gives away what this node leads and tells the others to give it nothing back, so that clients of a node that stops need no
// election. Nothing else of the node changes. Stop does it, too.
func (n *Node) HandOver(ctx context.Context) {
	if n.net == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, handOverFor)
	defer cancel()
	n.leaving.Store(true)
	n.net.broadcastFrame(encodeLeaving())
	for n.shed() > 0 && sleep.For(ctx, tickInterval) {
	}
}

// shed begins to give away what this node leads and another one can, and returns how many that are.
func (n *Node) shed() (leads int) {
	for _, r := range append(n.Replicas(), n.ctl.replica) {
		s := r.group.status.Load()
		if s == nil || !s.Self || len(s.Members) < 2 {
			continue
		}
		for _, m := range s.Members {
			if m.Voter && m.InSync && m.Node != n.opts.NodeID && n.leaders.stays(m.Node, time.Now()) {
				leads++
				r.transfer(m.Member, true)
				break
			}
		}
	}
	return leads
}

// yield has others lead while this node's disk is below its watermark, as it would only refuse writes. It tells the others to give it nothing
// until there is space. Where no other node has any it leads on: what it has can still be read.
func (n *Node) yield() {
	full := n.opts.Store.Writable() != nil
	if n.net == nil || !full {
		n.full.Store(false)
		return
	}
	if !n.full.Swap(true) {
		n.net.broadcastFrame(encodeLeaving())
	}
	n.shed()
}
