package cluster

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/rowtrail/rowtrail/log"
)

// sim is three nodes with one group, driven by hand: no goroutine, no clock. It runs the same workers and writer
// as a real node over an in-memory disk and network.
type sim struct {
	nodes []*simNode
	wire  []simPacket
	cut   map[[2]int32]bool

	open  func(*simNode) backend
	sent  int
	acked map[int64]string // base offset -> text answered with success at acks all
	fault string
}

type simNode struct {
	backend
	sim   *sim
	id    int32
	disk  *disk // of memory backends
	sched *scheduler
	group *group
}

// backend is what a node's group stands on.
type backend struct {
	store  Committer
	sm     StateMachine
	log    EntryStore
	texts  func() []string // applied, by offset
	encode func(string) []byte
}

func memBackend(n *simNode) backend {
	m := newMemLog(n.disk.log(simGroup))
	return backend{store: n.disk, sm: m, log: m, texts: func() []string { return m.fold.texts }, encode: payload}
}

// storeBackend keeps real partition logs in directories of t.
func storeBackend(t *testing.T) func(*simNode) backend {
	return func(*simNode) backend {
		store, err := log.Open(t.TempDir(), log.Options{Logger: quiet(), MinFreeBytes: 1})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = store.Close() })
		p, err := store.Partition(simGroup)
		if err != nil {
			t.Fatal(err)
		}
		return backend{
			store: store, sm: p, log: p,
			texts:  func() []string { return valuesOf(t, p) },
			encode: func(s string) []byte { return batchOf(s) },
		}
	}
}

type simPacket struct {
	from, to int32
	e        Envelope
}

const simGroup = log.GroupID(7)

func newSim(n int, open func(*simNode) backend) *sim {
	s := &sim{cut: map[[2]int32]bool{}, acked: map[int64]string{}, open: open}
	for i := range n {
		node := &simNode{sim: s, id: int32(i), disk: newDisk()}
		s.nodes = append(s.nodes, node)
		node.start()
	}
	return s
}

// start opens the node from its disk alone; after a crash nothing else is left.
func (n *simNode) start() {
	n.backend = n.sim.open(n)
	n.sched = newScheduler(schedulerConfig{
		store: n.store, transport: n, workers: 1, logger: quiet(), now: func() time.Time { return time.UnixMilli(0) },
		onFatal: nil,
	})
	g, err := n.sched.open(groupConfig{id: simGroup, self: Member{Node: n.id}, first: []Member{{Node: 0}, {Node: 1}, {Node: 2}}, sm: n.sm, store: n.log, logger: quiet()})
	if err != nil {
		n.sim.fault = err.Error()
		return
	}
	n.group = g
	n.sched.workers[0].turn()
}

// Send implements Transport.
func (n *simNode) Send(to int32, ms []Envelope) {
	for _, e := range ms {
		n.sim.wire = append(n.sim.wire, simPacket{n.id, to, e})
	}
}

func (s *sim) deliver(i int) {
	p := s.wire[i]
	s.wire = append(s.wire[:i:i], s.wire[i+1:]...)
	if !s.cut[[2]int32{p.from, p.to}] {
		s.nodes[p.to].sched.receive([]Envelope{p.e})
	}
}

func (s *sim) isolate(id int32, on bool) {
	for _, n := range s.nodes {
		if n.id != id {
			s.cut[[2]int32{id, n.id}], s.cut[[2]int32{n.id, id}] = on, on
		}
	}
}

// append asks node n; an answer that contradicts an earlier one is a fault.
func (s *sim) append(n *simNode) {
	s.sent++
	text := fmt.Sprintf("m%d", s.sent)
	n.sched.append(context.Background(), n.group, n.encode(text), -1, func(base int64, err error) {
		if err != nil {
			return
		}
		if have, ok := s.acked[base]; ok && have != text {
			s.fault = fmt.Sprintf("offset %d acknowledged for %s and for %s", base, have, text)
		}
		s.acked[base] = text
	})
}

func (n *simNode) step() bool {
	a := n.sched.workers[0].turn()
	b := n.sched.writer.turn()
	return a || b
}

func (n *simNode) tick() {
	n.sched.tick()
	n.sched.workers[0].turn()
}

func (s *sim) settle() {
	for range 10_000 {
		worked := false
		for _, n := range s.nodes {
			worked = n.step() || worked
		}
		for len(s.wire) > 0 {
			s.deliver(0)
			worked = true
		}
		if !worked {
			return
		}
	}
	s.fault = "does not settle"
}

func (s *sim) leader() *simNode {
	for _, n := range s.nodes {
		if n.group.serving {
			return n
		}
	}
	return nil
}

// elect ticks until a leader serves that the others follow.
func (s *sim) elect(among ...int32) *simNode {
	for range 200 {
		for _, id := range among {
			s.nodes[id].tick()
		}
		s.settle()
		for _, id := range among {
			if s.nodes[id].group.serving {
				return s.nodes[id]
			}
		}
	}
	return nil
}

func (s *sim) check(t interface{ Fatalf(string, ...any) }) {
	if s.fault != "" {
		t.Fatalf("%s", s.fault)
	}
	for _, n := range s.nodes {
		if err := n.sched.failed(); err != nil {
			t.Fatalf("node %d halted: %v", n.id, err)
		}
	}
	for _, a := range s.nodes {
		at := a.texts()
		for _, b := range s.nodes {
			bt := b.texts()
			for i := range min(len(at), len(bt)) {
				if at[i] != bt[i] {
					t.Fatalf("offset %d is %s on node %d and %s on node %d", i, at[i], a.id, bt[i], b.id)
				}
			}
		}
	}
}

func (s *sim) finish(t interface{ Fatalf(string, ...any) }) {
	clear(s.cut)
	if s.elect(0, 1, 2) == nil {
		t.Fatalf("no leader after the network healed")
	}
	l := s.leader()
	s.append(l)
	for range 40 { // heartbeats carry the commit to everyone
		for _, n := range s.nodes {
			n.tick()
		}
		s.settle()
	}
	s.check(t)
	for _, n := range s.nodes {
		texts, first := n.texts(), s.nodes[0].texts()
		if len(texts) != len(first) {
			t.Fatalf("node %d holds %d records, node 0 %d", n.id, len(texts), len(first))
		}
		for base, text := range s.acked {
			if base >= int64(len(texts)) || texts[base] != text {
				t.Fatalf("node %d lost acknowledged %s at offset %d", n.id, text, base)
			}
		}
	}
}

func TestSimElectionAppendTruncation(t *testing.T) {
	t.Run("memory", func(t *testing.T) {
		old := runTruncation(t, newSim(3, memBackend))
		if old.disk.log(simGroup).truncations == 0 {
			t.Error("the old leader's log was not truncated")
		}
		if old.sm.(*memLog).followed == 0 {
			t.Error("the old leader did not follow")
		}
	})
	t.Run("store", func(t *testing.T) { runTruncation(t, newSim(3, storeBackend(t))) })
}

func runTruncation(t *testing.T, s *sim) *simNode {
	old := s.elect(0, 1, 2)
	if old == nil {
		t.Fatal("no leader")
	}
	for range 5 {
		s.append(old)
	}
	s.settle()
	if len(s.acked) != 5 {
		t.Fatalf("%d of 5 acknowledged", len(s.acked))
	}
	// The leader is cut off: what it takes now stays uncommitted, but is on its own disk.
	s.isolate(old.id, true)
	var lost []error
	for i := range 3 {
		old.sched.append(context.Background(), old.group, old.encode(fmt.Sprintf("lost%d", i)), -1, func(_ int64, err error) {
			lost = append(lost, err)
		})
	}
	s.settle()
	if len(lost) != 0 {
		t.Fatalf("a leader without a quorum answered %v", lost)
	}
	if old.log.LastIndex() < 9 {
		t.Fatalf("the cut off leader wrote up to %d only", old.log.LastIndex())
	}
	var rest []int32
	for _, n := range s.nodes {
		if n != old {
			rest = append(rest, n.id)
		}
	}
	next := s.elect(rest...)
	if next == nil {
		t.Fatal("the others elected nobody")
	}
	if next.group.term <= old.group.term {
		t.Fatalf("terms %d then %d", old.group.term, next.group.term)
	}
	s.append(next)
	s.settle()
	if len(s.acked) != 6 || s.acked[5] != "m6" {
		t.Fatalf("acknowledged %v", s.acked)
	}
	// It comes back, gives up what was not committed, and follows.
	s.isolate(old.id, false)
	s.finish(t)
	if len(lost) != 3 {
		t.Fatalf("%d of 3 lost appends were answered", len(lost))
	}
	for _, err := range lost {
		if !errors.Is(err, log.ErrNotLeader) {
			t.Errorf("lost append answered %v", err)
		}
	}
	if n := old.group.gate.inUse(); n != 0 {
		t.Errorf("%d bytes of answered appends still counted", n)
	}
	if n := old.sched.workers[0].gate.inUse(); n != 0 {
		t.Errorf("%d bytes of durable appends still counted", n)
	}
	// And it can lead again: what it stages stands behind what it followed.
	l := s.leader()
	if l != old {
		l.sched.run(l.group, func() { l.group.rn.TransferLeader(Member{Node: old.id}.raftID()) })
		s.settle()
	}
	if !old.group.serving {
		t.Fatal("the first leader could not be given the lead again")
	}
	before := len(s.acked)
	for range 3 {
		s.append(old)
	}
	s.settle()
	if len(s.acked) != before+3 {
		t.Fatalf("%d of 3 acknowledged by the first leader's second term", len(s.acked)-before)
	}
	s.finish(t)
	return old
}

// acks 1 is answered by the leader's own disk, acks all by a quorum's.
func TestSimAcks(t *testing.T) {
	s := newSim(3, memBackend)
	l := s.elect(0, 1, 2)
	s.isolate(l.id, true)
	answers := map[int16]int{}
	for _, acks := range []int16{0, 1, -1} {
		l.sched.append(context.Background(), l.group, payload(fmt.Sprint(acks)), acks, func(_ int64, err error) {
			if err != nil {
				t.Errorf("acks %d: %v", acks, err)
			}
			answers[acks]++
		})
	}
	l.sched.workers[0].turn()
	if answers[0] != 1 || answers[1] != 0 {
		t.Errorf("before the sync: %v", answers)
	}
	for l.step() {
	}
	if answers[1] != 1 || answers[-1] != 0 {
		t.Errorf("after the sync, cut off: %v", answers)
	}
	s.isolate(l.id, false)
	for range 10 {
		l.tick()
		s.settle()
	}
	if answers[-1] != 1 || answers[0] != 1 || answers[1] != 1 {
		t.Errorf("in the end: %v", answers)
	}
}

// CheckQuorum: a leader that hears nobody stops claiming to lead.
func TestSimLeaderWithoutQuorumStepsDown(t *testing.T) {
	s := newSim(3, memBackend)
	l := s.elect(0, 1, 2)
	s.isolate(l.id, true)
	for range 3 * electionTicks {
		l.tick()
		s.settle()
	}
	if _, _, self := leader(l.group); self {
		t.Error("still serves without a quorum")
	}
	var err error
	l.sched.append(context.Background(), l.group, payload("x"), -1, func(_ int64, e error) { err = e })
	s.settle()
	if !errors.Is(err, log.ErrNotLeader) {
		t.Errorf("append: %v", err)
	}
}

func TestSimRandom(t *testing.T) {
	var acked, truncations int
	var highest uint64
	rapid.Check(t, func(t *rapid.T) {
		s := newSim(3, memBackend)
		node := rapid.IntRange(0, 2)
		pick := func(t *rapid.T) *simNode { return s.nodes[node.Draw(t, "node")] }
		actions := map[string]func(*rapid.T){
			"append": func(t *rapid.T) {
				if n := pick(t); n.group.serving {
					s.append(n)
				}
			},
			"appendMany": func(t *rapid.T) {
				if n := s.leader(); n != nil {
					for range rapid.IntRange(1, 8).Draw(t, "count") {
						s.append(n)
					}
				}
			},
			"work":  func(t *rapid.T) { pick(t).sched.workers[0].turn() },
			"write": func(t *rapid.T) { pick(t).sched.writer.turn() },
			"tick": func(t *rapid.T) {
				n := pick(t)
				for range rapid.IntRange(1, 12).Draw(t, "ticks") {
					n.tick()
				}
			},
			"deliver": func(t *rapid.T) {
				for range rapid.IntRange(1, 8).Draw(t, "count") {
					if len(s.wire) > 0 {
						s.deliver(rapid.IntRange(0, len(s.wire)-1).Draw(t, "packet"))
					}
				}
			},
			"settle": func(*rapid.T) { s.settle() },
			"elect":  func(*rapid.T) { s.elect(0, 1, 2) },
			"drop": func(t *rapid.T) {
				if len(s.wire) > 0 {
					i := rapid.IntRange(0, len(s.wire)-1).Draw(t, "packet")
					s.wire = append(s.wire[:i:i], s.wire[i+1:]...)
				}
			},
			"isolate": func(t *rapid.T) { s.isolate(pick(t).id, rapid.Bool().Draw(t, "on")) },
			"crash":   func(t *rapid.T) { pick(t).start() },
			"":        func(t *rapid.T) { s.check(t) },
		}
		for range 4 { // longer runs than one Repeat: it takes a while to lose and regain a leader
			t.Repeat(actions)
		}
		s.finish(t)
		acked += len(s.acked)
		for _, n := range s.nodes {
			truncations += n.disk.log(simGroup).truncations
			highest = max(highest, n.group.term)
		}
	})
	t.Logf("%d appends acknowledged, %d truncations, up to %d terms in a run", acked, truncations, highest)
	if !testing.Short() && (acked == 0 || truncations == 0 || highest < 3) {
		t.Error("the runs were too tame to show anything")
	}
}
