package group

import (
	"testing"
	"time"
)

// goneGroup is a group, its time and what its members were answered.
type goneGroup struct {
	*model
	joined map[string]JoinResult
	synced map[string]SyncResult
}

func (g *goneGroup) enter(id string, twoSteps bool) *Wait {
	w := &Wait{}
	r := JoinRequest{MemberID: id, ClientID: "c", Session: 10 * time.Second, Rebalance: time.Minute, TwoSteps: twoSteps, Wait: w,
		ProtocolType: "consumer", Protocols: []Protocol{{"range", nil}}}
	key := id
	g.g.Join(r, g.now, func(res JoinResult) {
		if key == "" {
			key = res.MemberID
		}
		g.joined[key] = res
	})
	return w
}

func newGoneGroup(t *testing.T) (g *goneGroup, leader string) {
	g = &goneGroup{model: newModel(), joined: map[string]JoinResult{}, synced: map[string]SyncResult{}}
	g.enter("", false)
	if len(g.joined) != 1 || g.g.state != CompletingRebalance {
		t.Fatalf("%v, %v", g.joined, g.g.state)
	}
	for leader = range g.joined {
	}
	g.sync(leader)
	if g.durable(nil); g.g.state != Stable {
		t.Fatalf("%v", g.g.state)
	}
	return g, leader
}

func (g *goneGroup) sync(id string) *Wait {
	w := &Wait{}
	g.g.Sync(SyncRequest{MemberID: id, Generation: g.g.generation, Wait: w}, g.now, func(r SyncResult) { g.synced[id] = r })
	return w
}

// passes lets time pass, deadline by deadline.
func (g *goneGroup) passes(d time.Duration) {
	for end := g.now.Add(d); ; {
		at := g.g.Deadline()
		if at.IsZero() || at.After(end) {
			g.now = end
			return
		}
		g.now = at
		g.g.Tick(at)
	}
}

// A member whose client died while it waited in JoinGroup does not lead the next generation: who joins afterwards waits for the sessions
// of those before, and for nothing else.
func TestWhoIsGoneWhileItJoinsDoesNotLead(t *testing.T) {
	g, _ := newGoneGroup(t)
	g.enter("", true)
	var second string
	for second = range g.g.pending {
	}
	w := g.enter(second, true)
	if g.g.state != PreparingRebalance || g.g.members[second] == nil {
		t.Fatalf("%v", g.g.state)
	}
	delete(g.joined, second) // it was told its id
	g.g.Gone(w, g.now)       // and the first is silent from now on, too
	g.passes(3 * time.Second)
	g.enter("", false)
	g.passes(6 * time.Second)
	if g.g.state != PreparingRebalance {
		t.Fatalf("a member that may still come back is out: %v", g.g.state)
	}
	g.passes(time.Second)
	if len(g.g.members) != 1 || g.g.state != CompletingRebalance || g.g.leader == second {
		t.Fatalf("%v with %d members, led by %s", g.g.state, len(g.g.members), g.g.leader)
	}
	if _, answered := g.joined[second]; answered {
		t.Error("who is gone was answered")
	}
}

// A member that never heard its id cannot come back; one that did may, within its session.
func TestWhoIsGoneMayComeBackByItsID(t *testing.T) {
	g, first := newGoneGroup(t)
	w := g.enter("", false)
	if len(g.g.members) != 2 {
		t.Fatalf("%d members", len(g.g.members))
	}
	g.g.Gone(w, g.now)
	if len(g.g.members) != 1 || g.g.members[first] == nil {
		t.Fatalf("members %v", g.g.members)
	}
	w = g.enter(first, false) // in PreparingRebalance: the generation is complete, and it leads
	g.g.Gone(w, g.now)        // too late: it was answered
	if g.g.state != CompletingRebalance || g.joined[first].Generation != 2 {
		t.Fatalf("%v, %+v", g.g.state, g.joined[first])
	}
	delete(g.synced, first)
	w = g.sync(first)
	g.g.Gone(w, g.now)
	g.durable(nil)
	if r, answered := g.synced[first]; g.g.state != Stable || answered {
		t.Fatalf("%v, and it was answered %+v", g.g.state, r)
	}
	g.passes(9 * time.Second)
	if g.sync(first); g.g.members[first] == nil || g.synced[first].Code != 0 {
		t.Errorf("it came back to %+v", g.synced[first])
	}
	g.passes(time.Minute)
	if g.g.state != Empty {
		t.Errorf("without a sign of life: %v", g.g.state)
	}
}
