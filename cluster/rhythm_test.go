package cluster

import (
	"testing"

	"go.etcd.io/raft/v3"
)

// idle lets ticks pass on all nodes, and returns at how many of them each had something to do, and how many messages they sent.
func (s *sim) idle(ticks int) (busy map[int32]int, sent int) {
	busy = map[int32]int{}
	for range ticks {
		for _, n := range s.nodes {
			n.sched.tick()
			if n.sched.workers[0].turn() {
				busy[n.id]++
			}
		}
		for worked := true; worked; {
			worked = false
			for len(s.wire) > 0 {
				s.deliver(0)
				sent++
			}
			for _, n := range s.nodes {
				worked = n.step() || worked
			}
			worked = worked || len(s.wire) > 0
		}
	}
	return busy, sent
}

// TestIdleGroupsRest: where nothing happens to a group, its nodes are not woken but for heartbeats.
func TestIdleGroupsRest(t *testing.T) {
	s := newSim(3, memBackend)
	s.elect(0, 1, 2)
	s.idle(4 * electionTicks)
	const beats = 20
	busy, sent := s.idle(beats * heartbeatTicks)
	s.check(t)
	for _, n := range s.nodes {
		if busy[n.id] > beats {
			t.Errorf("node %d was woken by %d of %d ticks, want %d at most", n.id, busy[n.id], beats*heartbeatTicks, beats)
		}
	}
	if want := 2 * 2 * beats; sent != want {
		t.Errorf("%d messages were sent, want %d: heartbeats to two members, and their answers", sent, want)
	}
}

// TestRestingGroupsKeepTime: ticks that Raft was not given when they came count all the same. A leader that hears nobody stops to lead, and followers that
// hear no leader elect one, neither earlier nor later than Raft's clock says.
func TestRestingGroupsKeepTime(t *testing.T) {
	for at := range 3 * heartbeatTicks { // of the silence, in every phase of the heartbeats and of the question for a quorum
		s := newSim(3, memBackend)
		old := s.elect(0, 1, 2)
		s.idle(4*electionTicks + at)
		s.isolate(old.id, true)
		left, elected := 0, 0
		for tick := 1; tick <= 6*electionTicks; tick++ {
			s.idle(1)
			if left == 0 && !old.group.serving {
				left = tick
			}
			for _, n := range s.nodes {
				if elected == 0 && n != old && n.group.serving {
					elected = tick
				}
			}
		}
		s.check(t)
		if left == 0 || left > 2*electionTicks {
			t.Errorf("the leader stopped to lead at tick %d of the silence, want one up to %d", left, 2*electionTicks)
		}
		// The last heartbeat came up to heartbeatTicks before the silence.
		if elected <= electionTicks-heartbeatTicks {
			t.Errorf("another leader was elected at tick %d of the silence, want a later one than %d", elected, electionTicks-heartbeatTicks)
		}
	}
}

// resting is a cluster to whose group nothing happens, some ticks after the last heartbeat, and its leader.
func resting(t *testing.T, after int) (*sim, *simNode) {
	t.Helper()
	s := newSim(3, memBackend)
	lead := s.elect(0, 1, 2)
	s.idle(4*electionTicks + after)
	if lead == nil || !lead.group.steady || !lead.group.still {
		t.Fatal("the group does not rest")
	}
	return s, lead
}

// TestRestingGroupsWake: what is asked of a resting group is done at once, without a tick.
func TestRestingGroupsWake(t *testing.T) {
	for after := range 2 * heartbeatTicks {
		s, lead := resting(t, after)
		s.append(lead)
		s.settle()
		if len(s.acked) != 1 {
			t.Errorf("a leader that rests answers no append %d ticks after all", after)
		}

		s, lead = resting(t, after)
		to := s.nodes[(lead.id+1)%3]
		lead.sched.run(lead.group, func() { lead.group.handTo(to.group.self) })
		s.settle()
		if !to.group.serving {
			t.Errorf("a leader that rests does not hand over %d ticks after all", after)
		}

		s, lead = resting(t, after)
		for _, n := range s.nodes {
			n.sched.gone(lead.id)
		}
		s.isolate(lead.id, true)
		s.settle()
		if l := s.leaderBut(lead); l == nil {
			t.Errorf("members that rest elect nobody when their leader has ended, %d ticks after all", after)
		}

		s, lead = resting(t, after)
		want := Membership{Voters: []Member{{Node: lead.id}, {Node: (lead.id + 1) % 3}}}
		for _, n := range s.nodes {
			n.sched.run(n.group, func() { n.group.become(want) })
		}
		s.idle(2 * trackTicks)
		if n := len(lead.group.conf.GetVoters()); n != 2 {
			t.Errorf("%d ticks after a group that rests is told of other members it has %d", 2*trackTicks, n)
		}
		s.check(t)
	}
}

func (s *sim) leaderBut(not *simNode) *simNode {
	for _, n := range s.nodes {
		if n != not && n.group.serving {
			return n
		}
	}
	return nil
}

// TestRestingLeadersMissTheSilent: a member that is not heard of falls out of sync though the group rests and nothing is appended, and comes back; meanwhile
// nobody hands over to it. What an attempt to do so has left of the group's rest comes back, too.
func TestRestingLeadersMissTheSilent(t *testing.T) {
	s, lead := resting(t, 0)
	lead.group.sync.lag = 3 * electionTicks
	silent := s.nodes[(lead.id+1)%3]
	inSync := func() (n int) {
		for _, m := range lead.group.status.Load().Members {
			if m.InSync {
				n++
			}
		}
		return n
	}
	s.isolate(silent.id, true)
	s.idle(3 * electionTicks)
	if lead.group.still || lead.group.sync.caughtUp(silent.group.self) {
		t.Error("a silent member counts as caught up")
	}
	s.idle(3 * electionTicks)
	if n := inSync(); n != 2 {
		t.Errorf("%d members are in sync, want 2", n)
	}
	lead.sched.run(lead.group, func() { lead.group.handTo(silent.group.self) })
	s.idle(electionTicks)
	s.append(lead)
	s.settle()
	if len(s.acked) != 1 {
		t.Errorf("a leader takes no append %d ticks after it began to hand over to who is silent", electionTicks)
	}
	s.isolate(silent.id, false)
	s.idle(4 * electionTicks)
	if n := inSync(); n != 3 || s.leader() == nil {
		t.Fatalf("%d members are in sync after all is well, want 3", n)
	}
	busy, _ := s.idle(2 * electionTicks)
	for id, n := range busy {
		if most := 2*electionTicks/heartbeatTicks + 2; n > most {
			t.Errorf("node %d was woken by %d of %d ticks, want %d at most: heartbeats, and questions for a quorum", id, n, 2*electionTicks, most)
		}
	}
	s.check(t)
}

// TestLostGroupsDoNotStand: a log that lost its end is no candidate when its leader's process ends, and no tick makes it one.
func TestLostGroupsDoNotStand(t *testing.T) {
	s, lead := resting(t, 0)
	for _, n := range s.nodes {
		if n == lead {
			continue
		}
		n.sched.run(n.group, func() { n.group.isLost = true })
		s.settle()
		n.sched.gone(lead.id)
		s.idle(4 * electionTicks)
		if st := n.group.rn.BasicStatus(); st.RaftState != raft.StateFollower {
			t.Errorf("node %d has lost its log's end and is %v", n.id, st.RaftState)
		}
	}
	if lead.group.serving {
		t.Error("a leader serves whose members are lost")
	}
}
