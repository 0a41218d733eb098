package cluster

import (
	"bytes"
	"errors"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"slices"
	"time"

	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"github.com/rowtrail/rowtrail/cluster/peer"
	"github.com/rowtrail/rowtrail/log"
)

// simulation runs many groups on a few nodes in one goroutine: the real schedulers, workers, writers, groups and wire encoding, over a disk, a
// network and a clock that a seed decides about. One seed is one run, event for event.
type simulation struct {
	rng    *rand.Rand
	now    time.Duration
	events eventQueue
	seq    int
	trace  uint64
	say    func(string, ...any) // nil: no lines
	fault  string

	nodes  []*machine
	groups []*simGroupLog
	net    simNetwork
	quiet  bool // no more faults, appends and changes
	counts map[string]int
	shape  simShape
}

// simNetwork is how messages fare.
type simNetwork struct {
	cut         map[[2]int32]bool
	drop, twice float64
	delay       time.Duration // at most, mostly
	late        float64       // the share that takes much longer
}

// event is something that happens at a time. Those of one time happen in the order in which they were planned.
type event struct {
	at  time.Duration
	seq int
	do  func()
}

func (e *event) before(o *event) bool { return e.at < o.at || e.at == o.at && e.seq < o.seq }

// eventQueue is a binary heap; container/heap would box every event.
type eventQueue []event

func (q *eventQueue) push(e event) {
	h := append(*q, e)
	for i := len(h) - 1; i > 0; {
		up := (i - 1) / 2
		if !h[i].before(&h[up]) {
			break
		}
		h[i], h[up] = h[up], h[i]
		i = up
	}
	*q = h
}

func (q *eventQueue) pop() event {
	h := *q
	first, n := h[0], len(h)-1
	h[0], h[n] = h[n], event{}
	h = h[:n]
	for i := 0; ; {
		least := i
		for c := 2*i + 1; c <= 2*i+2 && c < n; c++ {
			if h[c].before(&h[least]) {
				least = c
			}
		}
		if least == i {
			break
		}
		h[i], h[least] = h[least], h[i]
		i = least
	}
	*q = h
	return first
}

func (s *simulation) after(d time.Duration, do func()) {
	s.seq++
	s.events.push(event{s.now + d, s.seq, do})
}

// every plans something again and again, as long as it returns true.
func (s *simulation) every(period func() time.Duration, do func() bool) {
	s.after(period(), func() {
		if do() {
			s.every(period, do)
		}
	})
}

// upTo is a random duration.
func (s *simulation) upTo(d time.Duration) time.Duration {
	return time.Duration(s.rng.Int64N(int64(d) + 1))
}

func (s *simulation) between(a, b time.Duration) time.Duration { return a + s.upTo(b-a) }

func (s *simulation) chance(p float64) bool { return s.rng.Float64() < p }

// run lets time pass.
func (s *simulation) run(until time.Duration) {
	for len(s.events) > 0 && s.events[0].at <= until && s.fault == "" {
		e := s.events.pop()
		s.now = e.at
		e.do()
	}
	s.now = until
}

// note is a line of the trace, which is the same for the same seed.
func (s *simulation) note(format string, args ...any) {
	if s.say != nil {
		s.say("%9.3f "+format, append([]any{s.now.Seconds()}, args...)...)
	}
}

// mark adds to the trace, in the manner of FNV-1a with words in the place of bytes.
func (s *simulation) mark(vs ...uint64) {
	for _, v := range vs {
		s.trace = bits.RotateLeft64((s.trace^v)*fnvPrime, 29)
	}
	s.trace = bits.RotateLeft64((s.trace^uint64(s.now))*fnvPrime, 29)
}

const fnvPrime = 1099511628211

func (s *simulation) fail(format string, args ...any) {
	if s.fault == "" {
		s.fault = fmt.Sprintf("at %.3f s: ", s.now.Seconds()) + fmt.Sprintf(format, args...)
		s.note("FAULT %s", s.fault)
	}
}

// machine is a node: what survives a crash is in disk alone.
type machine struct {
	s    *simulation
	id   int32
	disk *disk
	// broken are the logs that cannot be trusted.
	broken map[log.GroupID]bool
	view   []*Placement // of the catalogue, by group; as far as it has heard
	sched  *scheduler   // nil: down
	boot   int
	here   []*simReplica // by group; nil: none

	period  time.Duration // of the clock's ticks
	frozen  time.Duration // nothing runs until then
	slow    time.Duration // the disk takes so long until slowTo; a full disk is one that takes long
	slowTo  time.Duration
	working []bool // a turn of the worker is planned
	writing bool
	out     map[int32][]Envelope
	ticks   int  // of the clock that were handed on
	dying   bool // the disk has failed the commit that it crashes in
}

type simReplica struct {
	member Member
	mem    *memLog
	g      *group
	stale  bool // it says that it leads although another one does
	heard  heard
}

const (
	simWorkers = 2
	simLate    = time.Second // no message is under way for longer
)

func (m *machine) up() bool { return m.sched != nil }

func (m *machine) start() {
	s := m.s
	m.boot++
	s.note("node %d starts", m.id)
	m.out, m.working, m.writing, m.dying = map[int32][]Envelope{}, make([]bool, simWorkers), false, false
	m.sched = newScheduler(schedulerConfig{
		store: m.disk, transport: m, snapshots: simSnapshots{m}, workers: simWorkers, logger: quiet(),
		now: func() time.Time { return time.UnixMilli(s.now.Milliseconds()) },
	})
	m.here = make([]*simReplica, len(s.groups))
	for i := range s.groups {
		m.reconcile(i, &s.groups[i].place)
	}
	boot := m.boot
	s.every(func() time.Duration { return m.period }, func() bool {
		if m.boot != boot || !m.up() {
			return false
		}
		if s.now >= m.frozen {
			if !m.sched.workers[0].ticked && !m.sched.workers[1].ticked { // else the one before is still to be taken, and both are one
				m.ticks++
			}
			m.sched.tick()
			m.wake()
		}
		return true
	})
	s.every(func() time.Duration { return 300 * time.Millisecond }, func() bool {
		if m.boot != boot || !m.up() {
			return false
		}
		if s.now >= m.frozen {
			m.report()
		}
		return true
	})
	m.wake()
}

func (m *machine) crash(why string) {
	if !m.up() {
		return
	}
	s := m.s
	s.note("node %d crashes: %s", m.id, why)
	s.mark(1, uint64(m.id))
	m.sched, m.here = nil, nil
	m.disk.crash = nil
	m.boot++
	for _, l := range m.disk.logs {
		l.live = nil
	}
	for _, o := range s.nodes {
		if o != m && o.up() && s.chance(0.5) {
			s.after(s.upTo(50*time.Millisecond), func() { o.gone(m.id) })
		}
	}
}

// gone is what a refused connection says.
func (m *machine) gone(node int32) {
	if m.up() {
		m.sched.gone(node)
		m.wake()
	}
}

// wake plans the turns of whoever has something to do.
func (m *machine) wake() {
	if !m.up() {
		return
	}
	s, boot := m.s, m.boot
	for i, w := range m.sched.workers {
		w.mu.Lock()
		has := len(w.inbox) > 0
		w.mu.Unlock()
		if !has || m.working[i] {
			continue
		}
		m.working[i] = true
		s.after(max(s.upTo(time.Millisecond), m.frozen-s.now), func() {
			if m.boot != boot {
				return
			}
			m.working[i] = false
			if s.now < m.frozen {
				m.wake()
				return
			}
			w.turn()
			m.settle()
		})
	}
	m.sched.writer.mu.Lock()
	has := len(m.sched.writer.queue) > 0
	m.sched.writer.mu.Unlock()
	if has && !m.writing {
		m.writing = true
		d := s.between(200*time.Microsecond, 3*time.Millisecond)
		if s.now < m.slowTo {
			d = s.upTo(m.slow)
		}
		s.after(max(d, m.frozen-s.now), func() {
			if m.boot != boot {
				return
			}
			m.writing = false
			if s.now < m.frozen {
				m.wake()
				return
			}
			m.sched.writer.turn()
			m.settle()
		})
	}
}

// settle looks at what a turn left behind.
func (m *machine) settle() {
	if err := m.sched.failed(); err != nil {
		if m.dying {
			m.crash("in a commit")
			m.s.restartLater(m)
			return
		}
		m.s.fail("node %d halted: %v", m.id, err)
		return
	}
	to := make([]int32, 0, len(m.out))
	for n := range m.out {
		to = append(to, n)
	}
	slices.Sort(to)
	for _, n := range to {
		m.transmit(n, m.out[n])
	}
	clear(m.out)
	m.wake()
}

// Send implements Transport.
func (m *machine) Send(node int32, ms []Envelope) {
	for i := range ms {
		m.promised(&ms[i])
	}
	m.out[node] = append(m.out[node], ms...)
}

func (m *machine) transmit(to int32, ms []Envelope) {
	s := m.s
	err := frames(ms, func(control bool, frame peer.Frame) {
		copies := 1
		if s.chance(s.net.drop) {
			copies = 0
			if s.chance(0.1) {
				m.sched.unreachable(to)
			}
		}
		if s.chance(s.net.twice) {
			copies++
		}
		for range copies {
			d := s.upTo(s.net.delay)
			if s.chance(s.net.late) {
				d = s.upTo(simLate)
			}
			s.after(d, func() { s.deliver(m.id, to, bytes.Join(frame, nil)) })
		}
	})
	if err != nil {
		s.fail("encode: %v", err)
	}
}

func (s *simulation) deliver(from, to int32, frame []byte) {
	m := s.nodes[to]
	if s.net.cut[[2]int32{from, to}] || !m.up() {
		return
	}
	err := decodeFrame(frame, from, to, func(e Envelope) {
		x := e.Message
		s.mark(2, uint64(e.Group), uint64(x.GetType()), x.GetFrom(), x.GetTo(), x.GetTerm(), x.GetIndex(), x.GetCommit())
		if r := m.here[simIndex(e.Group)]; r != nil {
			r.hear(m, e.Message)
		}
		m.sched.receive([]Envelope{e})
	})
	if err != nil {
		s.fail("decode: %v", err)
	}
	m.wake()
}

// simSnapshots implements Snapshots. What the horizon is when the transfer begins is sent, and arrives later.
type simSnapshots struct{ m *machine }

func (x simSnapshots) Send(id log.GroupID, msg *raftpb.Message) {
	x.m.snapshot(id, msg)
}

func (m *machine) snapshot(id log.GroupID, msg *raftpb.Message) {
	s, boot := m.s, m.boot
	msg = proto.Clone(msg).(*raftpb.Message)
	to := memberOf(msg.GetTo())
	report := func(ok bool) {
		s.after(s.upTo(20*time.Millisecond), func() {
			if m.boot == boot && m.up() {
				m.sched.reportSnapshot(id, msg.GetTo(), ok)
				m.wake()
			}
		})
	}
	s.after(s.upTo(50*time.Millisecond), func() {
		if m.boot != boot || m.here[simIndex(id)] == nil {
			return
		}
		fold := m.here[simIndex(id)].mem.disk.base.copy()
		meta := msg.GetSnapshot().GetMetadata()
		meta.Index, meta.Term = &fold.index, &fold.term
		if fold.conf != nil {
			var err error
			if meta.ConfState, err = decodeConfiguration(fold.conf); err != nil {
				s.fail("%v", err)
			}
		}
		s.after(s.upTo(200*time.Millisecond), func() {
			o := s.nodes[to.Node]
			if s.net.cut[[2]int32{m.id, to.Node}] || !o.up() || s.chance(s.net.drop) {
				report(false)
				return
			}
			in := &memInstall{fold: fold}
			meta.ConfState = withLearner(meta.GetConfState(), msg.GetTo())
			ok := o.sched.install(id, msg, in)
			if ok {
				s.counts["raftSnapshots"]++
				s.note("node %d gets group %d as of %d for %v", to.Node, id, fold.index, to)
			}
			o.wake()
			report(ok && !s.chance(0.1))
		})
	})
}

func simID(i int) log.GroupID     { return log.GroupID(i + 2) }
func simIndex(id log.GroupID) int { return int(id) - 2 }
func simErr(err error) string     { return fmt.Sprint(err) }

var errSimCrash = errors.New("the machine lost power")

// reconcile opens and closes a group's replica as the catalogue says.
func (m *machine) reconcile(i int, p *Placement) {
	s := m.s
	if m.view[i] == nil || m.view[i] != p {
		v := *p
		m.view[i] = &v
	}
	if !m.up() {
		return
	}
	g := s.groups[i]
	want := Membership{Voters: p.Wanted()}
	member, on := p.on(m.id)
	r := m.here[i]
	if r != nil && on && r.member == member {
		m.sched.run(r.g, func() { r.g.become(want) })
		m.wake()
		return
	}
	if r != nil {
		s.note("node %d drops %v of group %d", m.id, r.member, g.id)
		m.here[i] = nil
		id := logID(g.id, r.member.Gen)
		m.sched.close(r.g, log.ErrNotLeader, func() {
			g.lost[r.member] = m.disk.log(id).last() // a leader that was frozen since may still acknowledge what it held
			delete(m.disk.logs, id)
		})
	}
	if id := logID(g.id, member.Gen); on && !m.broken[id] {
		l := m.disk.log(id)
		mem := newMemLog(l)
		mem.keep = g.keep
		mem.seen = func(l *memLog, e *log.Entry) { s.applied(m, g, member, l, e) }
		opened, err := m.sched.open(groupConfig{
			id: g.id, log: id, self: member, first: p.first(), want: want, minISR: g.minISR, lag: 2 * time.Second, sm: mem, store: mem, retainer: mem,
			logger: quiet(), notify: func(_ *group, l Leadership) {
				if l.Self {
					s.leads(g, member, mem, l)
				}
			},
			lost: func(*group, error) { s.replaceLost(m, i, member, m.here[i]) },
		})
		if errors.Is(err, log.ErrCorrupt) && g.lost[member] > l.last() {
			s.replaceLost(m, i, member, nil)
			return
		}
		if err != nil {
			s.fail("node %d, group %d: %v", m.id, g.id, err)
			return
		}
		s.note("node %d opens %v of group %d at %d of %d", m.id, member, g.id, mem.fold.index, l.last())
		m.here[i] = &simReplica{member: member, mem: mem, g: opened}
	}
	m.wake()
}

// report ends moves that are over, as the leader's node does.
func (m *machine) report() {
	s := m.s
	for i, r := range m.here {
		if r == nil {
			continue
		}
		g, st := s.groups[i], r.g.status.Load()
		if v := m.view[i]; v.Target != nil && st != nil && st.Self && st.Reached && sameMembers(st.Members, v.Target) && slices.Equal(v.Target, g.place.Target) {
			s.counts["moves"]++
			s.note("group %d has arrived at %v", g.id, v.Target)
			s.place(i, g.place.arrived())
		}
	}
}

// place changes the catalogue; nodes hear of it by and by.
func (s *simulation) place(i int, p Placement) {
	g := s.groups[i]
	s.note("group %d: %v -> %v (leaving %v)", g.id, p.Members, p.Target, p.Leaving)
	g.place = p
	g.version++
	v := g.version
	for _, m := range s.nodes {
		s.after(s.upTo(300*time.Millisecond), func() {
			if m.up() && v >= g.version {
				m.reconcile(i, &g.place)
			}
		})
	}
}
