package cluster

import (
	"context"
	crand "crypto/rand"
	"flag"
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"testing"
	"time"

	"github.com/rowtrail/rowtrail/log"
)

var (
	simSeed  = flag.Uint64("sim.seed", 0, "run this one seed of the simulation and print what happens")
	simRuns  = flag.Int("sim.runs", 0, "how many seeds the simulation runs")
	simFirst = flag.Uint64("sim.first", 1, "the first seed of the simulation")
)

// simShape is what a seed is about.
type simShape struct {
	nodes, groups int
	active        time.Duration
	pace          time.Duration // between two batches of appends, at most
}

// manyGroups is how often a seed has hundreds of groups.
const manyGroups = 100

func shapeOf(seed uint64, rng *rand.Rand) simShape {
	sh := simShape{nodes: 3 + rng.IntN(5), groups: 1 + rng.IntN(3), active: time.Duration(4+rng.IntN(11)) * time.Second}
	sh.pace = 20 * time.Millisecond << rng.IntN(5)
	if seed%manyGroups == 0 {
		sh.groups, sh.active, sh.pace = 200+rng.IntN(200), 10*time.Second, 5*time.Millisecond
	}
	return sh
}

// simReader gives Raft its election timeouts.
type simReader struct{ rng *rand.Rand }

func (r simReader) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = byte(r.rng.Uint32())
	}
	return len(b), nil
}

// simulate runs one seed. Raft draws its election timeouts from the process's source of randomness, which is the seed's meanwhile.
func simulate(seed uint64, say func(string, ...any)) *simulation {
	real := crand.Reader
	crand.Reader = simReader{rand.New(rand.NewPCG(seed, 2))}
	defer func() { crand.Reader = real }()
	s := newSimulation(seed, say)
	s.run(s.shape.active)
	s.heal()
	return s
}

// bareSimulation has neither groups nor nodes.
func bareSimulation(seed uint64, nodes int, say func(string, ...any)) *simulation {
	s := &simulation{rng: rand.New(rand.NewPCG(seed, 1)), say: say, counts: map[string]int{}}
	s.shape = simShape{nodes: nodes}
	s.net = simNetwork{cut: map[[2]int32]bool{}, delay: 5 * time.Millisecond}
	return s
}

func (s *simulation) newGroup(i, minISR int) *simGroupLog {
	g := &simGroupLog{
		id: simID(i), leaders: map[int32]Member{}, index: map[string]uint64{}, term: map[uint64]int{}, acked: map[int64]string{},
		again: map[string]bool{}, lost: map[Member]uint64{}, minISR: minISR,
	}
	g.place = Placement{Group: g.id}
	s.groups = append(s.groups, g)
	return g
}

func (s *simulation) machines(n int, ride func(*diskLog)) {
	for i := range n {
		m := &machine{s: s, id: int32(i), disk: newDisk(), broken: map[log.GroupID]bool{}, view: make([]*Placement, len(s.groups)), period: 100 * time.Millisecond}
		m.disk.ride = ride
		s.nodes = append(s.nodes, m)
		s.after(s.upTo(100*time.Millisecond), m.start)
	}
}

func newSimulation(seed uint64, say func(string, ...any)) *simulation {
	s := bareSimulation(seed, 0, say)
	rng := s.rng
	s.shape = shapeOf(seed, rng)
	for i := range s.shape.groups {
		n := 1 + rng.IntN(min(5, s.shape.nodes))
		if s.chance(0.6) {
			n = 3
		}
		g := s.newGroup(i, 1+rng.IntN(3))
		if s.chance(0.5) {
			g.keep = 10
		}
		for _, node := range rng.Perm(s.shape.nodes)[:n] {
			g.place.Members = append(g.place.Members, Member{Node: int32(node)})
		}
	}
	s.machines(s.shape.nodes, func(l *diskLog) {
		if s.chance(0.1) {
			l.checkpoint()
		}
	})
	s.every(func() time.Duration { return s.upTo(s.shape.pace) }, func() bool {
		if s.quiet {
			return false
		}
		s.client()
		return true
	})
	s.every(func() time.Duration { return s.upTo(time.Second) }, func() bool {
		if s.quiet {
			return false
		}
		s.disturb()
		return true
	})
	s.every(func() time.Duration { return 100 * time.Millisecond }, func() bool {
		s.leases()
		return !s.quiet
	})
	s.every(func() time.Duration { return s.upTo(50 * time.Millisecond) }, func() bool {
		m := s.nodes[s.rng.IntN(len(s.nodes))]
		if i := s.rng.IntN(len(s.groups)); m.up() && m.here[i] != nil && s.now >= m.frozen {
			m.here[i].mem.compact()
		}
		return true
	})
	return s
}

func (s *simulation) client() {
	i := s.rng.IntN(len(s.groups))
	g := s.groups[i]
	if s.chance(0.3) {
		if m := s.nodes[s.rng.IntN(len(s.nodes))]; m.up() && m.here[i] != nil {
			s.confirm(m, i)
		}
	}
	if s.chance(0.05) {
		for _, m := range s.nodes {
			if m.up() && m.here[i] != nil && m.here[i].g.lead.Load().self {
				m.sched.trim(context.Background(), m.here[i].g, s.rng.Int64N(m.here[i].mem.hwm()+1), func(error) {})
				m.wake()
			}
		}
	}
	for range 1 + s.rng.IntN(3) {
		acks := int16(-1)
		if s.chance(0.2) {
			acks = int16(s.rng.IntN(2))
		}
		s.ask(i, fmt.Sprintf("m%d", g.sent+1), acks)
	}
}

// disturb does one thing that goes wrong, or that somebody decides.
func (s *simulation) disturb() {
	m := s.nodes[s.rng.IntN(len(s.nodes))]
	i := s.rng.IntN(len(s.groups))
	count := func(what string) { s.counts[what]++ }
	switch s.rng.IntN(17) {
	case 0:
		if m.up() {
			count("crashes")
			m.crash("killed")
			s.restartLater(m)
		}
	case 1, 2:
		if m.up() && m.disk.crash == nil {
			count("crashes in a commit")
			s.crashInCommit(m)
		}
	case 3:
		count("pauses")
		m.frozen = s.now + s.upTo(5*time.Second)
		s.note("node %d is frozen until %v", m.id, m.frozen)
		boot := m.boot
		s.after(m.frozen-s.now, func() {
			if m.boot == boot {
				m.wake()
			}
		})
	case 4:
		count("clocks")
		m.period = s.between(60*time.Millisecond, 200*time.Millisecond)
	case 5:
		count("slow disks")
		m.slow, m.slowTo = s.upTo(3*time.Second), s.now+s.upTo(5*time.Second)
		s.note("the disk of node %d is slow until %v", m.id, m.slowTo)
	case 6, 7:
		count("partitions")
		s.partition()
	case 8:
		s.note("the network is whole")
		clear(s.net.cut)
	case 9:
		s.net.drop, s.net.twice, s.net.late = s.rng.Float64()*0.3, s.rng.Float64()*0.2, s.rng.Float64()*0.1
		s.net.delay = s.between(time.Millisecond, 100*time.Millisecond)
		s.note("the network: %+v", s.net)
	case 10:
		s.net.drop, s.net.twice, s.net.late, s.net.delay = 0, 0, 0, 5*time.Millisecond
	case 11, 12:
		s.move(i)
	case 13:
		s.wipe(m)
	case 14:
		if m.up() && m.here[i] != nil && m.here[i].g.isLeader {
			count("transfers")
			r := m.here[i]
			to := s.groups[i].place.Members
			id := to[s.rng.IntN(len(to))].raftID()
			m.sched.run(r.g, func() { r.g.handTo(id) })
			m.wake()
		}
	case 15:
		count("false alarms")
		m.gone(s.nodes[s.rng.IntN(len(s.nodes))].id)
	case 16:
		s.cutTail(m, i)
	}
}

func (s *simulation) restartLater(m *machine) {
	boot := m.boot
	s.after(s.between(50*time.Millisecond, 6*time.Second), func() {
		if !m.up() && m.boot == boot {
			m.start()
		}
	})
}

// crashInCommit has the machine lose power in one of its next commits: before it is durable, behind some of its transactions, or behind all.
func (s *simulation) crashInCommit(m *machine) {
	left := s.rng.IntN(20)
	m.disk.crash = func() (int, error) {
		if left--; left >= 0 {
			return 1 << 30, nil
		}
		m.dying = true
		m.disk.crash = nil
		switch s.rng.IntN(3) {
		case 0:
			return 0, errSimCrash
		case 1:
			return s.rng.IntN(12), errSimCrash
		}
		return 1 << 30, errSimCrash
	}
}

func (s *simulation) partition() {
	n := len(s.nodes)
	a, b := int32(s.rng.IntN(n)), int32(s.rng.IntN(n))
	switch s.rng.IntN(4) {
	case 0: // two sides
		for i := range n {
			for j := range n {
				if (i < int(a)) != (j < int(a)) {
					s.net.cut[[2]int32{int32(i), int32(j)}] = true
				}
			}
		}
	case 1: // one alone
		for i := range int32(n) {
			s.net.cut[[2]int32{a, i}], s.net.cut[[2]int32{i, a}] = true, true
		}
	case 2: // one way
		s.net.cut[[2]int32{a, b}] = true
	case 3: // heard by nobody
		for i := range int32(n) {
			s.net.cut[[2]int32{a, i}] = true
		}
	}
	s.note("the network is cut: %v", s.cuts())
	s.after(s.upTo(6*time.Second), func() {
		if s.chance(0.7) {
			s.note("the network is whole again")
			clear(s.net.cut)
		}
	})
}

func (s *simulation) cuts() (out [][2]int32) {
	for k, on := range s.net.cut {
		if on {
			out = append(out, k)
		}
	}
	slices.SortFunc(out, func(a, b [2]int32) int { return int(a[0]-b[0])*100 + int(a[1]-b[1]) })
	return out
}

// move has a group go elsewhere, or back.
func (s *simulation) move(i int) {
	g := s.groups[i]
	n := 1 + s.rng.IntN(min(5, len(s.nodes)))
	if s.chance(0.5) {
		n = min(3, len(s.nodes))
	}
	var nodes []int32
	for _, x := range s.rng.Perm(len(s.nodes))[:n] {
		nodes = append(nodes, int32(x))
	}
	if g.place.Target != nil && s.chance(0.5) {
		nodes = g.place.Nodes()
		s.counts["moves back"]++
	}
	p, err := g.place.moveTo(nodes)
	if err != nil {
		s.fail("%v", err)
		return
	}
	if !samePlacement(&p, &g.place) {
		s.counts["moves begun"]++
		s.place(i, p)
	}
}

// spare reports that a group can do without what one member has on its disk: it has three voters at least, and all of what it should have.
func (s *simulation) spare(i int) bool {
	g := s.groups[i]
	if g.place.Target != nil || len(g.place.Members) < 3 {
		return false
	}
	for _, v := range g.place.Members {
		o := s.nodes[v.Node]
		if !o.up() || o.here[i] == nil || o.here[i].member != v || isJoint(o.here[i].g.conf) || len(members(o.here[i].g.conf)) != len(g.place.Members) {
			return false
		}
		if o.disk.log(logID(g.id, v.Gen)).last() < g.lost[v] {
			return false // cut, and not found out yet
		}
	}
	return true
}

// cutTail has a log come back without its end. That is more than Raft allows for, so the others must have it; what this member says until it is
// found out, by a leader or as it opens its log, may do no harm, and then it says nothing more and is replaced.
func (s *simulation) cutTail(m *machine, i int) {
	g := s.groups[i]
	v, here := g.place.on(m.id)
	if !here || !s.spare(i) {
		return
	}
	l := m.disk.log(logID(g.id, v.Gen))
	if len(l.entries) == 0 {
		return
	}
	for _, o := range g.place.Members { // the same entries, not others of a leader that was deposed
		if !s.nodes[o.Node].disk.log(logID(g.id, o.Gen)).holds(l.last(), l.entries[len(l.entries)-1].Term) {
			return
		}
	}
	s.counts["cut tails"]++
	m.crash("the end of a log is lost")
	g.lost[v] = l.last()
	l.entries = l.entries[:s.rng.IntN(len(l.entries))]
	if s.chance(0.7) { // else what it kept of the commit index tells, as it opens the log
		l.hs.Commit = min(l.hs.Commit, l.last())
		if l.check.index > l.last() {
			l.check = l.base.copy()
		}
	}
	s.restartLater(m)
}

// replaceLost is what the catalogue is told of a replica whose log cannot be trusted.
func (s *simulation) replaceLost(m *machine, i int, v Member, r *simReplica) {
	g := s.groups[i]
	s.counts["lost tails"]++
	s.note("%v of group %d is lost", v, g.id)
	m.broken[logID(g.id, v.Gen)] = true
	if r != nil {
		m.here[i] = nil
		m.sched.close(r.g, log.ErrNotLeader, nil)
	}
	if now, here := g.place.on(m.id); !here || now != v {
		return
	}
	p, err := g.place.moveTo(nodesOf(g.place.Wanted()), m.id)
	if err != nil {
		s.fail("%v", err)
		return
	}
	s.place(i, p)
}

// wipe replaces a node's disk. No more disks are lost than the groups can do without.
func (s *simulation) wipe(m *machine) {
	for i, g := range s.groups {
		if m.view[i] == nil {
			return
		}
		if _, here := g.place.on(m.id); here && !s.spare(i) {
			return
		}
	}
	s.counts["wiped disks"]++
	s.loseDisk(m)
	s.restartLater(m)
}

// loseDisk takes a node's disk, and has the catalogue learn of it.
func (s *simulation) loseDisk(m *machine) {
	m.crash("its disk is lost")
	for i, g := range s.groups {
		if v, here := m.view[i].on(m.id); here {
			g.lost[v] = m.disk.log(logID(g.id, v.Gen)).last()
		}
	}
	m.disk.logs = map[log.GroupID]*diskLog{}
	for i, g := range s.groups {
		if _, here := g.place.on(m.id); here {
			p, err := g.place.moveTo(nodesOf(g.place.Wanted()), m.id)
			if err != nil {
				s.fail("%v", err)
				return
			}
			s.place(i, p)
		}
	}
}

// heal mends everything and waits until every group is at rest.
func (s *simulation) heal() {
	s.quiet = true
	s.note("all is mended")
	clear(s.net.cut)
	s.net.drop, s.net.twice, s.net.late, s.net.delay = 0, 0, 0, 5*time.Millisecond
	for _, m := range s.nodes {
		m.disk.crash, m.frozen, m.slowTo, m.period = nil, 0, 0, 100*time.Millisecond
		if m.up() {
			m.wake()
		} else {
			m.start()
		}
	}
	const patience = 60 * time.Second
	for end := s.now + patience; s.fault == ""; {
		s.run(s.now + time.Second)
		why := ""
		for i := 0; i < len(s.groups) && why == ""; i++ {
			why = s.unsettled(i)
		}
		if why == "" {
			break
		}
		if s.now > end {
			s.fail("not at rest after %v: %s", patience, why)
			for _, m := range s.nodes {
				for _, r := range m.here {
					if r != nil {
						s.note("%v of group %d at %d of %d: %v", r.member, r.g.id, r.mem.fold.index, r.mem.disk.last(), r.g.rn.Status())
						s.note("wants %v, reached %v, serving %v, ticks %d, voting %d, waiting %d", r.g.want, r.g.reached, r.g.serving, r.g.sync.ticks, r.g.voting, len(r.g.pending))
					}
				}
			}
		}
	}
	for i := range s.groups {
		if s.fault == "" {
			s.converged(i)
		}
	}
}

func TestSimulation(t *testing.T) {
	if *simSeed != 0 {
		s := simulate(*simSeed, func(f string, args ...any) { fmt.Printf(f+"\n", args...) })
		t.Logf("%+v %v, trace %x", s.shape, s.counts, s.trace)
		if s.fault != "" {
			t.Fatal(s.fault)
		}
		return
	}
	runs := *simRuns
	if runs == 0 {
		if runs = 2400; testing.Short() {
			runs = 60
		}
	}
	defer debug.SetGCPercent(debug.SetGCPercent(800)) // little is kept, and much is thrown away
	total := map[string]int{}
	failed := 0
	for seed := *simFirst; seed < *simFirst+uint64(runs); seed++ {
		s := simulate(seed, nil)
		s.counts["groups"] += len(s.groups)
		for k, n := range s.counts {
			total[k] += n
		}
		if s.fault != "" {
			t.Errorf("go test ./cluster -run 'TestSimulation$' -args -sim.seed %d: %s", seed, s.fault)
			if failed++; failed == 5 {
				break
			}
		}
	}
	t.Logf("%d seeds: %v", runs, total)
}

// The same seed is the same run.
func TestSimulationRepeats(t *testing.T) {
	for _, seed := range []uint64{1, 2, 3, 4, 5, 6, 7, 8} {
		a, b := simulate(seed, nil), simulate(seed, nil)
		if a.trace != b.trace {
			t.Errorf("seed %d ran in two ways", seed)
		}
	}
}
