package cluster

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/rowtrail/rowtrail/log"
)

// TestLeaderServesAllThatWasAcknowledged: a new leader that applies in portions what its predecessor has acknowledged serves behind the last of them
// (invariant 1), and refuses what it is asked for before.
func TestLeaderServesAllThatWasAcknowledged(t *testing.T) {
	const entries = 3 * maxApplyBytes >> 20
	s := newSim(3, memBackend)
	old := s.elect(0, 1, 2)
	known := old.group.commit
	for i := range entries {
		text := fmt.Sprint(i, strings.Repeat("x", 1<<20))
		old.sched.append(context.Background(), old.group, payload(text), -1, func(base int64, err error) {
			if err == nil {
				s.acked[base] = text
			}
		})
	}
	for range 100 { // the followers get all, and do not hear that it is committed
		for _, n := range s.nodes {
			n.step()
		}
		for len(s.wire) > 0 {
			if p := &s.wire[0]; p.from == old.id && p.e.Message.GetCommit() > known {
				p.e.Message.Commit = &known
			}
			s.deliver(0)
		}
	}
	if len(s.acked) != entries {
		t.Fatalf("%d of %d acknowledged", len(s.acked), entries)
	}
	s.isolate(old.id, true)
	var next []int32
	for _, n := range s.nodes {
		if n == old {
			continue
		}
		next = append(next, n.id)
		if got := len(n.texts()); got != 0 {
			t.Fatalf("node %d has applied %d records before it leads", n.id, got)
		}
		n.group.notify = func(_ *group, l Leadership) {
			if got := len(n.texts()); l.Self && got < entries {
				t.Errorf("a leader begins to serve with %d records, %d were acknowledged", got, entries)
			}
		}
	}
	refused := 0
	for range 20 * electionTicks {
		for _, id := range next {
			n := s.nodes[id]
			n.tick()
			for n.step() {
			}
			if n.group.isLeader && len(n.texts()) < entries {
				want := func(what string) func(error) {
					return func(err error) {
						if refused++; !errors.Is(err, log.ErrNotLeader) {
							t.Errorf("%s of a leader that has not all that was acknowledged: %v", what, err)
						}
					}
				}
				n.sched.append(context.Background(), n.group, payload("early"), -1, func(_ int64, err error) { want("append")(err) })
				n.sched.run(n.group, func() { n.group.confirm(want("read")) })
				n.step()
			}
		}
		for n := len(s.wire); n > 0; n-- {
			s.deliver(0)
		}
	}
	if l := s.leaderBut(old); l == nil || refused == 0 {
		t.Errorf("the others have the leader %v; it has refused %d", l, refused)
	}
	s.check(t)
}
