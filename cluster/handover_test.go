package cluster

import "testing"

// TestOneHandOverAtATime: a leader that hears nobody stops to lead although it is told again and again to hand over, each time to another member. Raft puts
// its question for a quorum off with every new hand-over.
func TestOneHandOverAtATime(t *testing.T) {
	for every := 1; every < electionTicks; every++ {
		s := newSim(3, memBackend)
		lead := s.elect(0, 1, 2)
		s.isolate(lead.id, true)
		left := 0
		for tick := 1; tick <= 8*electionTicks && left == 0; tick++ {
			if tick%every == 0 {
				to := s.nodes[(lead.id+1+int32(tick/every%2))%3] //nolint:gosec // a few ticks
				lead.sched.run(lead.group, func() { lead.group.handTo(to.group.self) })
			}
			s.idle(1)
			if !lead.group.serving {
				left = tick
			}
		}
		if most := 4 * electionTicks; left == 0 || left > most {
			t.Errorf("told to hand over every %d ticks, a leader without a quorum stops to lead at tick %d, want one up to %d", every, left, most)
		}
		s.check(t)
	}
}
