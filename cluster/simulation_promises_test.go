package cluster

import (
	"math"
	"slices"

	"go.etcd.io/raft/v3/quorum"
	"go.etcd.io/raft/v3/raftpb"
)

// What a member must be able to promise when it speaks, and for how long a leader may go on without being heard.

// promised checks a message against the sender's disk at the moment at which it leaves: what it says must outlive a crash right after.
func (m *machine) promised(e *Envelope) {
	x := e.Message
	from := memberOf(x.GetFrom())
	l := m.disk.logs[logID(e.Group, from.Gen)]
	if l == nil {
		m.s.fail("group %d: %v says %v and has no log", e.Group, from, x.GetType())
		return
	}
	switch x.GetType() {
	case raftpb.MsgVoteResp:
		if !x.GetReject() && (l.hs.Term != x.GetTerm() || l.hs.Vote != x.GetTo()) && l.hs.Term <= x.GetTerm() {
			m.s.fail("group %d: %v gives %v its vote of term %d, on its disk is %+v", e.Group, from, memberOf(x.GetTo()), x.GetTerm(), l.hs)
		}
	case raftpb.MsgAppResp:
		switch {
		case x.GetReject():
		case l.hs.Term < x.GetTerm():
			m.s.fail("group %d: %v answers in term %d, on its disk is %+v", e.Group, from, x.GetTerm(), l.hs)
		case l.hs.Term == x.GetTerm() && x.GetIndex() > l.last():
			m.s.fail("group %d: %v says in term %d that it has entry %d, its disk has up to %d", e.Group, from, x.GetTerm(), x.GetIndex(), l.last())
		}
	}
}

// heard is when the members answered a leader, in ticks of its own clock.
type heard struct {
	term uint64
	conf *raftpb.ConfState
	from int // these have been its members since
	at   map[uint64]int
	to   uint64 // it hands leadership over; 0: it does not
	gave []int  // when it began to
}

// AckedIndex implements quorum.AckedIndexer.
func (h *heard) AckedIndex(id uint64) (quorum.Index, bool) {
	at, ok := h.at[id]
	return quorum.Index(at), ok //nolint:gosec // ticks
}

// hear notes an answer to a leader.
func (r *simReplica) hear(m *machine, x *raftpb.Message) {
	if t := x.GetType(); (t == raftpb.MsgAppResp || t == raftpb.MsgHeartbeatResp) && x.GetTerm() == r.heard.term && r.heard.at != nil {
		r.heard.at[x.GetFrom()] = m.ticks
	}
}

// leases checks that a leader stops to say that it leads within two times electionTicks of its own clock after a quorum was last heard: Raft asks
// every electionTicks whether one was heard since it asked before. No clock of another member and no delay of the network is part of this bound.
// Those who elect another leader answer no more in the old term, so beyond it only answers that they had sent before can let the old one go on.
func (s *simulation) leases() {
	for _, m := range s.nodes {
		for i, r := range m.here {
			if r == nil {
				continue
			}
			l := r.g.lead.Load()
			if !l.self {
				r.heard, r.stale = heard{}, false
				continue
			}
			for epoch := range s.groups[i].leaders {
				if epoch > l.epoch && !r.stale {
					r.stale = true
					s.counts["deposed leaders"]++
				}
			}
			h := &r.heard
			if h.term != r.g.term {
				*h = heard{term: r.g.term, at: map[uint64]int{}}
			}
			if h.conf != r.g.conf {
				h.conf, h.from = r.g.conf, m.ticks
			}
			h.at[r.g.self] = math.MaxInt32
			voters := quorum.JointConfig{{}, {}}
			for k, ids := range [][]uint64{r.g.conf.GetVoters(), r.g.conf.GetVotersOutgoing()} {
				for _, id := range ids {
					voters[k][id] = struct{}{}
				}
			}
			last := max(h.from, int(min(voters.CommittedIndex(h), math.MaxInt32))) //nolint:gosec // ticks
			if to := r.g.rn.BasicStatus().LeadTransferee; to != h.to {
				if h.to = to; to != 0 {
					h.gave = append(h.gave, m.ticks)
				}
			}
			h.gave = slices.DeleteFunc(h.gave, func(at int) bool { return at < last })
			if m.ticks-last > 2*electionTicks+len(h.gave)*(electionTicks-1) {
				s.fail("group %d: %v says that it leads %d ticks after it has heard of a quorum", s.groups[i].id, r.member, m.ticks-last)
			}
		}
	}
}
