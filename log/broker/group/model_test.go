package group

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"pgregory.net/rapid"
)

// modelHost keeps saves until the model lets them be durable.
type modelHost struct {
	ids   int
	saves []func(time.Time, error)
}

func (h *modelHost) Save(_ *Group, then func(time.Time, error)) { h.saves = append(h.saves, then) }
func (h *modelHost) NewMemberID(prefix string) string {
	h.ids++
	return fmt.Sprintf("%s-%d", prefix, h.ids)
}

// modelClient is a member as a correct client is one: it has at most one request under way.
type modelClient struct {
	name, instance string
	memberID       string
	generation     int32
	protocol       string
	joining        bool
	syncing        bool
	leads          bool
	wait           *Wait  // of the request under way
	lost           func() // its answer will not come
	members        []string
	fenced         bool
}

type model struct {
	now     time.Time
	host    *modelHost
	g       *Group
	clients []*modelClient
	// given is what each generation's leader assigned, by member.
	given      map[int32]map[string]string
	leaders    map[int32]string
	protocols  map[int32]string
	generation int32
	open       int // requests that have not been answered
}

func newModel() *model {
	m := &model{now: time.Unix(1_000_000, 0), host: &modelHost{}, given: map[int32]map[string]string{},
		leaders: map[int32]string{}, protocols: map[int32]string{}}
	limits := Limits{MinSessionTimeout: time.Second, MaxMembers: 6}.withDefaults()
	m.g = newGroup("g", &limits, m.host, m.now)
	return m
}

func (m *model) join(t *rapid.T, c *modelClient) {
	protocols := [][]Protocol{
		{{"range", []byte("r" + c.name)}}, {{"range", []byte("r" + c.name)}, {"sticky", []byte("s" + c.name)}},
		{{"sticky", []byte("s" + c.name)}, {"range", []byte("r" + c.name)}},
	}
	c.joining, c.syncing = true, false
	m.open++
	answered := false
	c.wait, c.lost = &Wait{}, func() {
		if !answered {
			m.open--
			c.joining, answered = false, true
		}
	}
	r := JoinRequest{Wait: c.wait, MemberID: c.memberID, InstanceID: c.instance, ClientID: c.name, TwoSteps: true, MaySkip: true,
		Session:      time.Duration(rapid.IntRange(1, 5).Draw(t, "session")) * time.Second,
		Rebalance:    time.Duration(rapid.IntRange(1, 10).Draw(t, "rebalance")) * time.Second,
		ProtocolType: "consumer", Protocols: rapid.SampledFrom(protocols).Draw(t, "protocols")}
	m.g.Join(r, m.now, func(res JoinResult) {
		if answered {
			t.Fatalf("%s: JoinGroup was answered twice", c.name)
		}
		answered = true
		m.open--
		c.joining = false
		m.joined(t, c, res)
	})
}

func (m *model) joined(t *rapid.T, c *modelClient, res JoinResult) {
	switch res.Code {
	case 0:
		if res.Generation < m.generation {
			t.Fatalf("generation fell from %d to %d", m.generation, res.Generation)
		}
		m.generation = res.Generation
		c.memberID, c.generation, c.protocol = res.MemberID, res.Generation, res.Protocol
		if p, ok := m.protocols[res.Generation]; ok && p != res.Protocol {
			t.Fatalf("generation %d has protocols %q and %q", res.Generation, p, res.Protocol)
		}
		m.protocols[res.Generation] = res.Protocol
		c.leads = res.Leader == res.MemberID && !res.SkipAssignment
		c.members = nil
		if c.leads {
			if l, ok := m.leaders[res.Generation]; ok && l != c.name {
				t.Fatalf("generation %d has leaders %s and %s", res.Generation, l, c.name)
			}
			m.leaders[res.Generation] = c.name
			if len(res.Members) == 0 {
				t.Fatalf("the leader was not told the members")
			}
			for _, o := range res.Members {
				c.members = append(c.members, o.MemberID)
			}
		} else if len(res.Members) > 0 && res.Leader != res.MemberID {
			t.Fatalf("%s does not lead and was told the members", c.name)
		}
	case kerr.MemberIDRequired.Code:
		c.memberID = res.MemberID
	case kerr.FencedInstanceID.Code:
		c.fenced = true
	case kerr.UnknownMemberID.Code:
		c.memberID = ""
	}
}

func (m *model) sync(t *rapid.T, c *modelClient) {
	c.syncing = true
	m.open++
	r := SyncRequest{MemberID: c.memberID, InstanceID: c.instance, Generation: c.generation,
		ProtocolType: "consumer", Protocol: c.protocol}
	generation := c.generation
	if c.leads {
		r.Assignments = map[string][]byte{}
		given := map[string]string{}
		for _, id := range c.members {
			given[id] = fmt.Sprintf("%d/%s", generation, id)
			r.Assignments[id] = []byte(given[id])
		}
		if m.g.state == CompletingRebalance && m.g.generation == generation {
			m.given[generation] = given
		}
	}
	answered := false
	r.Wait, c.lost = &Wait{}, func() {
		if !answered {
			m.open--
			c.syncing, answered = false, true
		}
	}
	c.wait = r.Wait
	m.g.Sync(r, m.now, func(res SyncResult) {
		if answered {
			t.Fatalf("%s: SyncGroup was answered twice", c.name)
		}
		answered = true
		m.open--
		c.syncing = false
		switch res.Code {
		case 0:
			want, ok := m.given[generation][c.memberID]
			if ok && string(res.Assignment) != want {
				t.Fatalf("%s got the assignment %q in generation %d, not %q", c.name, res.Assignment, generation, want)
			}
			if !ok && c.instance == "" {
				t.Fatalf("%s got an assignment %q that no leader gave in generation %d", c.name, res.Assignment, generation)
			}
		case kerr.UnknownMemberID.Code:
			c.memberID = ""
		case kerr.FencedInstanceID.Code:
			c.fenced = true
		}
	})
}

// durable lets the oldest save succeed or fail.
func (m *model) durable(err error) {
	if len(m.host.saves) == 0 {
		return
	}
	then := m.host.saves[0]
	m.host.saves = m.host.saves[1:]
	then(m.now, err)
}

func (m *model) check(t *rapid.T) {
	g := m.g
	if len(g.members) > 0 && g.members[g.leader] == nil {
		t.Fatalf("the leader %q is no member", g.leader)
	}
	for instance, id := range g.static {
		if mem := g.members[id]; mem == nil || mem.instance != instance {
			t.Fatalf("instance %q is %q, which is no member", instance, id)
		}
	}
	for _, mem := range g.members {
		if mem.join != nil && mem.sync != nil {
			t.Fatalf("%s waits twice", mem.id)
		}
		if mem.instance != "" && g.static[mem.instance] != mem.id {
			t.Fatalf("%s is not the member of its instance", mem.id)
		}
		if g.state == Stable && mem.sync != nil {
			t.Fatalf("%s waits for an assignment in a stable group", mem.id)
		}
		if g.state == Stable && mem.join != nil && mem.instance == "" {
			t.Fatalf("%s waits for a rebalance in a stable group", mem.id)
		}
	}
	switch g.state {
	case Empty:
		if len(g.members) > 0 {
			t.Fatal("an empty group has members")
		}
	case Stable, CompletingRebalance, PreparingRebalance:
		if len(g.members) == 0 {
			t.Fatalf("a group in %v has no members", g.state)
		}
		if g.state == PreparingRebalance && g.allJoined() && g.notBefore.IsZero() {
			t.Fatal("everyone has joined and nothing happens")
		}
		if g.state != Stable && g.Deadline().IsZero() && !g.saving {
			t.Fatalf("a group in %v has no deadline", g.state)
		}
	}
}

func TestGroupModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newModel()
		for i := range 5 {
			c := &modelClient{name: fmt.Sprintf("c%d", i)}
			if i >= 3 {
				c.instance = "i" // two incarnations of one static member
			}
			m.clients = append(m.clients, c)
		}
		client := func(t *rapid.T, ok func(*modelClient) bool) *modelClient {
			list := slices.DeleteFunc(slices.Clone(m.clients), func(c *modelClient) bool { return !ok(c) })
			if len(list) == 0 {
				t.Skip("no such client")
			}
			return rapid.SampledFrom(list).Draw(t, "client")
		}
		t.Repeat(map[string]func(*rapid.T){
			"join": func(t *rapid.T) {
				c := client(t, func(c *modelClient) bool { return !c.joining })
				if c.fenced {
					c.fenced, c.memberID = false, ""
				}
				m.join(t, c)
			},
			"sync": func(t *rapid.T) {
				m.sync(t, client(t, func(c *modelClient) bool { return !c.joining && !c.syncing && c.generation > 0 && c.memberID != "" }))
			},
			"heartbeat": func(t *rapid.T) {
				c := client(t, func(c *modelClient) bool { return c.memberID != "" })
				code := m.g.Heartbeat(c.memberID, c.instance, c.generation, m.now)
				if code == 0 && (c.generation != m.g.generation || m.g.members[c.memberID] == nil) {
					t.Fatalf("a heartbeat of generation %d was taken in %d", c.generation, m.g.generation)
				}
			},
			"commit": func(t *rapid.T) {
				c := client(t, func(c *modelClient) bool { return c.memberID != "" })
				code := m.g.MayCommit(c.memberID, c.instance, c.generation, false, m.now)
				ok := m.g.members[c.memberID] != nil && c.generation == m.g.generation && m.g.state != CompletingRebalance
				if (code == 0) != ok {
					t.Fatalf("commit of %+v in %v %d: %d", c, m.g.state, m.g.generation, code)
				}
			},
			"leave": func(t *rapid.T) {
				c := client(t, func(c *modelClient) bool { return c.memberID != "" })
				m.g.Leave(c.memberID, c.instance, m.now)
				c.memberID, c.generation = "", 0
			},
			"gone": func(t *rapid.T) {
				c := client(t, func(c *modelClient) bool { return c.joining || c.syncing })
				m.g.Gone(c.wait, m.now)
				c.lost()
			},
			"time": func(t *rapid.T) {
				m.now = m.now.Add(time.Duration(rapid.IntRange(1, 4000).Draw(t, "ms")) * time.Millisecond)
				m.g.Tick(m.now)
			},
			"durable": func(t *rapid.T) { m.durable(nil) },
			"lost":    func(t *rapid.T) { m.durable(kerr.CoordinatorNotAvailable) },
			"":        m.check,
		})
		// Left alone, every request is answered and the group ends without members.
		for range 10_000 {
			for len(m.host.saves) > 0 {
				m.durable(nil)
			}
			at := m.g.Deadline()
			if at.IsZero() {
				break
			}
			m.now = at
			m.g.Tick(m.now)
			m.check(t)
		}
		if m.open != 0 || m.g.state != Empty {
			t.Fatalf("%d requests wait, the group is %v with %d members", m.open, m.g.state, len(m.g.members))
		}
	})
}
