package cluster

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"

	"go.etcd.io/raft/v3/raftpb"

	"github.com/rowtrail/rowtrail/log"
)

// simGroupLog is what is true of a group, whoever says it.
type simGroupLog struct {
	id      log.GroupID
	place   Placement
	version int
	minISR  int
	keep    int64

	entries []simEntry // applied anywhere, by index from 1 on
	leaders map[int32]Member
	index   map[string]uint64 // of each text
	term    map[uint64]int    // the highest number of a text that was sent once, by term
	acked   map[int64]string
	sent    int
	again   map[string]bool
	lost    map[Member]uint64 // up to where members had the log that are gone with their disk
}

type simEntry struct {
	term uint64
	hash uint64
	conf *raftpb.ConfState // nil: as before
}

// applied checks an entry that a replica takes as committed against what others did.
func (s *simulation) applied(m *machine, g *simGroupLog, self Member, l *memLog, e *log.Entry) {
	h := fnv.New64a()
	_, _ = h.Write(e.Data)
	x := simEntry{term: e.Term, hash: h.Sum64()}
	s.mark(3, uint64(g.id), self.raftID(), e.Index, e.Term, x.hash)
	if e.Type == log.EntryMetaV2 && len(e.Data) > 0 {
		conf, err := decodeConfiguration(l.fold.conf)
		if err != nil {
			s.fail("group %d, entry %d: %v", g.id, e.Index, err)
			return
		}
		x.conf = conf
	}
	switch n := uint64(len(g.entries)); {
	case e.Index <= n:
		if have := g.entries[e.Index-1]; have.term != x.term || have.hash != x.hash {
			s.fail("group %d: entry %d is of term %d on %v and of term %d elsewhere, both committed", g.id, e.Index, e.Term, self, have.term)
		}
		return
	case e.Index > n+1:
		s.fail("group %d: %v applies entry %d, nobody has applied entry %d", g.id, self, e.Index, n+1)
		return
	}
	g.entries = append(g.entries, x)
	if x.conf != nil {
		s.note("group %d, entry %d: %s", g.id, e.Index, confString(x.conf))
	}
	if e.Type != log.EntryBatch {
		return
	}
	text := string(e.Data[12:])
	if _, twice := g.index[text]; twice {
		s.fail("group %d: %s is in the log twice", g.id, text)
	}
	g.index[text] = e.Index
	if !g.again[text] {
		n := numberOf(text)
		if n < g.term[e.Term] {
			s.fail("group %d: %s stands behind m%d of the same leader", g.id, text, g.term[e.Term])
		}
		g.term[e.Term] = n
	}
}

// confString is a configuration as people read it.
func confString(cs *raftpb.ConfState) string {
	out := fmt.Sprint("voters ", membersOf(cs.GetVoters()))
	if isJoint(cs) {
		out += fmt.Sprint(" and ", membersOf(cs.GetVotersOutgoing()))
	}
	if l := append(slices.Clone(cs.GetLearners()), cs.GetLearnersNext()...); len(l) > 0 {
		out += fmt.Sprint(", learners ", membersOf(l))
	}
	return out
}

func membersOf(ids []uint64) (out []Member) {
	for _, id := range ids {
		out = append(out, memberOf(id))
	}
	return out
}

// leads checks that a term has one leader, which has applied whatever was acknowledged before it serves (invariant 1).
func (s *simulation) leads(g *simGroupLog, self Member, mem *memLog, l Leadership) {
	if other, ok := g.leaders[l.Epoch]; ok && other != self {
		s.fail("group %d: term %d is led by %v and by %v", g.id, l.Epoch, other, self)
	} else if !ok {
		if n := int64(len(g.acked)); mem.hwm() < n { // of n offsets the highest is n-1 at least
			s.fail("group %d: %v begins to serve in term %d with %d records, %d were acknowledged", g.id, self, l.Epoch, mem.hwm(), n)
		}
		s.counts["leaders"]++
		s.note("%v leads group %d in term %d", self, g.id, l.Epoch)
	}
	g.leaders[l.Epoch] = self
}

// append asks a node. What it answers must be true of the disks at that moment.
func (s *simulation) append(m *machine, i int, text string, acks int16) {
	s.appendTo(m, i, text, acks, func(int64, error) {})
}

func (s *simulation) appendTo(m *machine, i int, text string, acks int16, answered func(int64, error)) {
	g, r := s.groups[i], m.here[i]
	term := r.g.lead.Load().epoch
	m.sched.append(context.Background(), r.g, payload(text), acks, func(base int64, err error) {
		answered(base, err)
		s.mark(4, uint64(g.id), uint64(base), uint64(len(simErr(err))))
		if err != nil {
			s.counts["refused"]++
			if errors.Is(err, ErrNotEnoughReplicasAfterAppend) {
				s.counts["too few disks"]++
			}
			if !s.quiet && s.chance(0.5) {
				s.after(s.upTo(1e9), func() { s.ask(i, text, acks) })
			}
			return
		}
		if acks != -1 {
			return
		}
		s.counts["acknowledged"]++
		if have, ok := g.acked[base]; ok && have != text {
			s.fail("group %d: offset %d was acknowledged for %s and for %s", g.id, base, have, text)
		}
		g.acked[base] = text
		index, ok := g.index[text]
		if !ok {
			s.fail("group %d: %s was acknowledged in term %d before it was applied", g.id, text, term)
			return
		}
		// Invariant 1: a majority of the voters, and min.insync.replicas of them, have it on their disks.
		for _, voters := range [][]uint64{r.g.conf.GetVoters(), r.g.conf.GetVotersOutgoing()} {
			holding := 0
			for _, id := range voters {
				v := memberOf(id)
				l := s.nodes[v.Node].disk.logs[logID(g.id, v.Gen)]
				if l != nil && l.holds(index, g.entries[index-1].term) || index <= g.lost[v] {
					holding++
				}
			}
			if need := min(g.minISR, len(voters)); holding < need {
				for _, id := range members(r.g.conf) {
					v := memberOf(id)
					l := s.nodes[v.Node].disk.logs[logID(g.id, v.Gen)]
					f := r.g.sync.followers[id]
					if l != nil {
						s.note("%v has the log from %d to %d on its disk, the leader thinks up to %v", v, l.base.index, l.last(), f)
					} else {
						s.note("%v has no log, the leader thinks up to %v", v, f)
					}
				}
				s.fail("group %d: %s at entry %d was acknowledged with %d of %d disks of %v", g.id, text, index, holding, need, r.g.conf)
			}
		}
	})
	m.wake()
}

// confirm asks a node for a linearizable read: what it has applied when it may answer holds whatever was acknowledged when it was asked.
func (s *simulation) confirm(m *machine, i int) {
	g, r, before := s.groups[i], m.here[i], int64(-1)
	for base := range g.acked {
		before = max(before, base)
	}
	m.sched.run(r.g, func() {
		r.g.confirm(func(err error) {
			if err != nil {
				return
			}
			s.counts["reads"]++
			if r.mem.hwm() <= before {
				s.fail("group %d: %v answers a read with %d records, after offset %d was acknowledged", g.id, r.member, r.mem.hwm(), before)
			}
		})
	})
	m.wake()
}

// ask sends an append to whoever says that it leads.
func (s *simulation) ask(i int, text string, acks int16) {
	var leading []*machine
	for _, m := range s.nodes {
		if m.up() && m.here[i] != nil && m.here[i].g.lead.Load().self {
			leading = append(leading, m)
		}
	}
	if len(leading) == 0 {
		return
	}
	if g := s.groups[i]; g.sentBefore(text) {
		g.again[text] = true
	}
	s.append(leading[s.rng.IntN(len(leading))], i, text, acks)
}

func (g *simGroupLog) sentBefore(text string) bool {
	n := numberOf(text)
	if n > g.sent {
		g.sent = n
		return false
	}
	return true
}

// numberOf is the n of a text "m<n>".
func numberOf(text string) int {
	n, _ := strconv.Atoi(text[1:])
	return n
}

// unsettled says what keeps a group from rest; "": nothing.
func (s *simulation) unsettled(i int) string {
	g := s.groups[i]
	if g.place.Target != nil {
		return fmt.Sprintf("group %d is still moving from %v to %v", g.id, g.place.Members, g.place.Target)
	}
	serving := 0
	for _, v := range g.place.Members {
		m := s.nodes[v.Node]
		if !m.up() {
			return fmt.Sprintf("node %d is down", m.id)
		}
		r := m.here[i]
		if r == nil || r.member != v {
			return fmt.Sprintf("group %d: %v is not open", g.id, v)
		}
		if n := r.g.gate.inUse(); n != 0 {
			return fmt.Sprintf("group %d: %v counts %d bytes of appends that are not answered", g.id, v, n)
		}
		if r.g.lead.Load().self {
			serving++
			if st := r.g.status.Load(); !st.Reached || len(st.Members) != len(g.place.Members) {
				return fmt.Sprintf("group %d: its members are %+v, should be %v", g.id, st.Members, g.place.Members)
			}
		}
		if n := uint64(len(g.entries)); r.mem.fold.index != n || r.mem.disk.last() != n {
			return fmt.Sprintf("group %d: %v has applied %d of %d entries, committed are %d; term %d, leader %v", g.id, v, r.mem.fold.index, r.mem.disk.last(), n, r.g.term, r.g.lead.Load())
		}
	}
	if serving != 1 {
		return fmt.Sprintf("group %d has %d leaders", g.id, serving)
	}
	return ""
}

// converged checks what must be so once all is well again.
func (s *simulation) converged(i int) {
	g := s.groups[i]
	var first *memLog
	for _, v := range g.place.Members {
		r := s.nodes[v.Node].here[i]
		if first == nil {
			first = r.mem
		}
		if !slices.Equal(r.mem.fold.texts, first.fold.texts) || r.mem.fold.start != first.fold.start {
			s.fail("group %d: %v has %d records from %d on, %v has %d from %d on", g.id, v, r.mem.hwm(), r.mem.fold.start, g.place.Members[0], first.hwm(), first.fold.start)
		}
	}
	for base, text := range g.acked {
		if base >= first.hwm() || first.fold.texts[base] != text {
			s.fail("group %d: %s, acknowledged at offset %d, is lost", g.id, text, base)
		}
	}
}
