package cluster

import "testing"

// TestALostGroupIsSilent: a group whose log came back without its end, as a leader's heartbeat shows, says nothing any more: the others may not count on its
// vote, nor a leader on what it answers. The controller's group stays open so until its node is given another replica.
func TestALostGroupIsSilent(t *testing.T) {
	s := newSim(3, memBackend)
	lead := s.elect(0, 1, 2)
	cut, third := s.nodes[(lead.id+1)%3], s.nodes[(lead.id+2)%3]
	for range 5 {
		s.append(lead)
	}
	s.settle()
	s.idle(2 * heartbeatTicks)
	l := cut.disk.log(simGroup)
	if len(s.acked) != 5 || l.last() != 6 {
		t.Fatalf("%d of 5 are acknowledged, the log ends at %d", len(s.acked), l.last())
	}
	l.entries = l.entries[:2]
	l.hs.Commit = min(l.hs.Commit, l.last())
	cut.start()
	s.idle(heartbeatTicks)
	if !cut.group.isLost {
		t.Fatal("a member without the end of its log is not found out")
	}
	said := 0
	listen := func() {
		for _, p := range s.wire {
			if p.from == cut.id {
				said++
			}
		}
	}
	s.append(lead)
	lead.step()
	s.isolate(lead.id, true) // so that the third one needs the vote of the lost one
	cut.sched.gone(lead.id)
	third.sched.gone(lead.id)
	for range 6 * electionTicks {
		cut.sched.run(cut.group, func() {}) // gives a group the ticks that it has missed
		cut.tick()
		third.tick()
		for worked := true; worked; {
			worked = cut.step()
			worked = third.step() || worked
			listen()
			for len(s.wire) > 0 {
				s.deliver(0)
				worked = true
			}
		}
	}
	if said > 0 {
		t.Errorf("a lost group has sent %d messages", said)
	}
	if third.group.serving || third.group.isLeader {
		t.Error("a leader was elected with the vote of a lost group")
	}
	s.check(t)
}
