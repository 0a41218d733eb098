package cluster

import (
	"context"
	"errors"
	"slices"
	"testing"

	"go.etcd.io/raft/v3/raftpb"
)

// starve takes the appends to a node from the network; heartbeats still reach it, and it answers them.
func (s *sim) starve(node int32) {
	s.wire = slices.DeleteFunc(s.wire, func(p simPacket) bool { return p.to == node && p.e.Message.GetType() == raftpb.MsgApp })
}

// TestTheInSyncShrink: a member that is heard of and gets behind is not counted on for longer than the lag. An append that waits for it is answered then, the
// next ones are refused at once, and all is as before when it has caught up.
func TestTheInSyncShrink(t *testing.T) {
	const lag = 2 * electionTicks
	s := newSim(3, memBackend)
	lead := s.elect(0, 1, 2)
	lead.group.minISR, lead.group.sync.lag = 3, lag
	slow := s.nodes[(lead.id+1)%3]
	starve := true
	pass := func(ticks int) {
		for range ticks {
			for _, n := range s.nodes {
				n.tick()
			}
			for worked := true; worked; {
				worked = false
				for _, n := range s.nodes {
					worked = n.step() || worked
				}
				if starve {
					s.starve(slow.id)
				}
				for len(s.wire) > 0 {
					s.deliver(0)
					worked = true
				}
			}
		}
	}
	asked := func() (answers []error) {
		lead.sched.append(context.Background(), lead.group, payload("x"), -1, func(_ int64, err error) { answers = append(answers, err) })
		pass(lag / 2)
		if len(answers) > 0 {
			return answers
		}
		pass(lag)
		return append([]error{nil}, answers...) // it took more than half of the lag
	}
	if got := asked(); len(got) != 2 || !errors.Is(got[1], ErrNotEnoughReplicasAfterAppend) {
		t.Errorf("an append that waits for a member that gets behind: %v; want ErrNotEnoughReplicasAfterAppend after the lag", got)
	}
	if got := asked(); len(got) != 1 || !errors.Is(got[0], ErrNotEnoughReplicas) {
		t.Errorf("an append while too few are in sync: %v, want ErrNotEnoughReplicas at once", got)
	}
	starve = false
	pass(2 * electionTicks)
	s.append(lead)
	s.settle()
	if len(s.acked) != 1 {
		t.Error("an append is not answered after the member has caught up")
	}
	s.check(t)
}
