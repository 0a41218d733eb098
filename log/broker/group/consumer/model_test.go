package consumer

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kerr"
	"pgregory.net/rapid"

	"github.com/rowtrail/rowtrail/log/broker/journal"
)

// client is a member as a correct client is one: it owns what the answers that it got gave it, lets go of what it has to,
// and has at most one request under way.
type client struct {
	id, instance string
	epoch        int32 // 0: must join
	owned        map[TopicPartition]bool
	topics       []string
	pattern      string
	assignor     string
	full         bool                    // it may have lost an answer
	reported     bool                    // its owned partitions were told
	away         bool                    // left as a static member
	slow         bool                    // it takes its time to revoke
	revoking     map[TopicPartition]bool // not assigned to it any more, and not revoked yet
}

type model struct {
	t       *rapid.T
	now     time.Time
	limits  Limits
	g       *Group
	log     []journal.Record // of the group, as a journal holds them
	clients []*client
	counts  map[string]int32 // partitions of the topics that exist
	serial  byte
	ids     map[string]ID
	topics  *Topics
	issued  int
}

func newModel(t *rapid.T) *model {
	m := &model{t: t, now: time.Unix(1_000_000, 0), counts: map[string]int32{"a": 3, "b": 2}, ids: map[string]ID{}}
	m.limits = Limits{SessionTimeout: 30 * time.Second, MaxMembers: 4}.WithDefaults()
	m.g = New("g", func() Limits { return m.limits })
	m.catalog()
	for range 3 {
		m.clients = append(m.clients, &client{})
	}
	for i := range 2 {
		m.clients = append(m.clients, &client{instance: fmt.Sprintf("i%d", i)})
	}
	return m
}

// catalog makes new topics of the counts.
func (m *model) catalog() {
	var list []Topic
	for _, name := range sortedKeys(m.counts) {
		if _, ok := m.ids[name]; !ok {
			m.serial++
			m.ids[name] = ID{m.serial}
		}
		list = append(list, Topic{ID: m.ids[name], Name: name, Partitions: m.counts[name]})
	}
	m.topics = NewTopics(list)
}

func (m *model) freshID() string {
	m.issued++
	return fmt.Sprintf("m%d", m.issued)
}

// request is the next heartbeat of a client.
func (m *model) request(c *client) *Request {
	r := &Request{MemberID: c.id, Epoch: c.epoch, ClientID: "c", ClientHost: "/h", RebalanceTimeout: -1}
	if c.instance != "" {
		r.InstanceID = &c.instance
	}
	if c.epoch == 0 || c.full {
		r.RebalanceTimeout = 10_000
		r.Topics, r.Pattern = slices.Clone(c.topics), &c.pattern
		if r.Topics == nil {
			r.Topics = []string{}
		}
		if c.assignor != "" {
			r.Assignor = &c.assignor
		}
	}
	if c.epoch == 0 || c.full || !c.reported {
		for tp := range c.owned {
			r.Owned = append(r.Owned, tp)
		}
		for tp := range c.revoking {
			r.Owned = append(r.Owned, tp)
		}
		r.OwnsNothing = len(r.Owned) == 0
		c.reported = true
	}
	c.full = false
	return r
}

// heartbeat sends a client's next request. Its answer may be lost.
func (m *model) heartbeat(c *client, lost bool) {
	if c.epoch == 0 {
		c.revoking = nil
		c.owned = map[TopicPartition]bool{}
		if c.id == "" {
			c.id = m.freshID()
		}
	}
	r := m.request(c)
	if refused := r.Check(true); refused != nil {
		m.t.Fatalf("a correct request was refused: %+v", refused)
	}
	epochs := m.epochs()
	resp, records := m.g.Heartbeat(r, m.topics, m.now)
	m.log = append(m.log, records...)
	if resp.Code != 0 && len(records) > 0 {
		m.t.Fatalf("a refused request left %d records", len(records))
	}
	m.monotone(epochs)
	if lost {
		c.full, c.reported = true, false
		return
	}
	m.answer(c, resp)
}

func (m *model) answer(c *client, resp Response) {
	if resp.Code != 0 {
		c.revoking = nil
	}
	switch resp.Code {
	case 0:
	case kerr.FencedMemberEpoch.Code:
		c.owned, c.epoch = nil, 0
		return
	case kerr.UnknownMemberID.Code, kerr.FencedInstanceID.Code:
		c.owned, c.epoch, c.id = nil, 0, ""
		return
	case kerr.GroupMaxSizeReached.Code, kerr.UnreleasedInstanceID.Code:
		return
	default:
		m.t.Fatalf("%+v", resp)
	}
	c.epoch = resp.Epoch
	if resp.Assigned == nil {
		return
	}
	shall := map[TopicPartition]bool{}
	for _, tp := range resp.Assigned {
		shall[tp] = true
		delete(c.revoking, tp)
	}
	for tp := range c.owned {
		if c.slow && !shall[tp] {
			if c.revoking == nil {
				c.revoking = map[TopicPartition]bool{}
			}
			c.revoking[tp] = true
		}
	}
	if !maps.Equal(shall, c.owned) {
		c.reported = false
	}
	c.owned = shall
	m.exclusive()
}

// exclusive: no partition is owned by two members, as far as they themselves know.
func (m *model) exclusive() {
	seen := map[TopicPartition]*client{}
	for _, c := range m.clients {
		if c.away || m.g.members[c.id] == nil {
			continue // it is gone, or was removed and will learn
		}
		for _, set := range []map[TopicPartition]bool{c.owned, c.revoking} {
			for tp := range set {
				if o := seen[tp]; o != nil {
					m.t.Fatalf("%v is owned by %s and %s", tp, o.id, c.id)
				}
				seen[tp] = c
			}
		}
	}
}

// epochs are those of the group and its members.
func (m *model) epochs() map[string]int32 {
	e := map[string]int32{"": m.g.epoch}
	for id, mem := range m.g.members {
		e[id] = mem.epoch
	}
	return e
}

func (m *model) monotone(before map[string]int32) {
	for id, e := range m.epochs() {
		if b, ok := before[id]; ok && e < b && e != leftEpoch {
			m.t.Fatalf("epoch of %q fell from %d to %d", id, b, e)
		}
	}
}

// fold is the state that records make. compacted: only the last record of every key is left.
func (m *model) fold(records []journal.Record, compacted bool) *Group {
	last := map[string]int{}
	for i, r := range records {
		last[string(r.Key)] = i
	}
	g := New("g", func() Limits { return m.limits })
	for i, r := range records {
		if compacted && (last[string(r.Key)] != i || r.Value == nil) {
			continue
		}
		c, err := Parse(r)
		if err != nil {
			m.t.Fatalf("a record that the group wrote does not parse: %v", err)
		}
		g.Apply(c)
	}
	g.Loaded(m.now)
	return g
}

func dump(g *Group) map[string]string {
	d := map[string]string{}
	g.Records(func(r journal.Record) { d[string(r.Key)] = string(r.Value) })
	return d
}

func (m *model) check(*rapid.T) {
	t, g := m.t, m.g
	owners := map[TopicPartition]string{}
	for id, mem := range g.members {
		for _, set := range []partitions{mem.assigned, mem.revoking} {
			for tp := range set {
				if o, twice := owners[tp]; twice {
					t.Fatalf("%v belongs to %s and %s", tp, o, id)
				}
				owners[tp] = id
			}
		}
		if mem.instance != "" && g.static[mem.instance] != id {
			t.Fatalf("%s is not the member of its instance %s", id, mem.instance)
		}
		if (mem.state == stateUnrevoked) != !mem.revokeBy.IsZero() && mem.epoch != leftEpoch {
			t.Fatalf("%s is in state %d with a deadline %v", id, mem.state, mem.revokeBy)
		}
	}
	if !maps.Equal(owners, g.owners) {
		t.Fatalf("owners are %v, members have %v", g.owners, owners)
	}
	for instance, id := range g.static {
		if mem := g.members[id]; mem == nil || mem.instance != instance {
			t.Fatalf("instance %s is %s, which is no such member", instance, id)
		}
	}
	if g.assigned > g.epoch {
		t.Fatalf("target epoch %d, group epoch %d", g.assigned, g.epoch)
	}
	if g.epoch == 0 {
		return
	}
	want := dump(g)
	for _, compacted := range []bool{false, true} {
		if d := cmp.Diff(want, dump(m.fold(m.log, compacted))); d != "" {
			t.Fatalf("the fold of the records (compacted: %v) is another state:\n%s", compacted, d)
		}
	}
}

func TestModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newModel(t)
		pick := func(t *rapid.T, ok func(*client) bool) *client {
			list := slices.DeleteFunc(slices.Clone(m.clients), func(c *client) bool { return !ok(c) })
			if len(list) == 0 {
				t.Skip("no such client")
			}
			return rapid.SampledFrom(list).Draw(t, "client")
		}
		subscribe := func(t *rapid.T, c *client) {
			c.topics = rapid.SampledFrom([][]string{{"a"}, {"b"}, {"a", "b"}, {"b", "c"}, {}, {"nowhere"}}).Draw(t, "topics")
			c.pattern = rapid.SampledFrom([]string{"", "", "a|c", ".*"}).Draw(t, "pattern")
			c.assignor = rapid.SampledFrom([]string{"", "uniform", "range"}).Draw(t, "assignor")
		}
		inside := func(c *client) bool { return c.epoch > 0 }
		t.Repeat(map[string]func(*rapid.T){
			"join": func(t *rapid.T) {
				c := pick(t, func(c *client) bool { return c.epoch <= 0 })
				subscribe(t, c)
				if c.away {
					c.away, c.epoch, c.id = false, 0, m.freshID()
				}
				m.heartbeat(c, rapid.Bool().Draw(t, "lost"))
			},
			"heartbeat": func(t *rapid.T) { m.heartbeat(pick(t, inside), false) },
			"more":      func(t *rapid.T) { m.heartbeat(pick(t, inside), false) },
			"slow":      func(t *rapid.T) { pick(t, inside).slow = true },
			"revoke": func(t *rapid.T) {
				pick(t, func(c *client) bool { return c.revoking != nil }).revoke()
			},
			"lost heartbeat": func(t *rapid.T) { m.heartbeat(pick(t, inside), true) },
			"subscribe": func(t *rapid.T) {
				c := pick(t, inside)
				subscribe(t, c)
				c.full, c.reported = true, false
			},
			"leave": func(t *rapid.T) {
				c := pick(t, inside)
				m.leave(c, memberLeaves)
				c.id = ""
			},
			"leave for a while": func(t *rapid.T) {
				c := pick(t, func(c *client) bool { return inside(c) && c.instance != "" })
				m.leave(c, leftEpoch)
				c.away = true
			},
			"topics": func(t *rapid.T) {
				name := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "topic")
				switch n := int32(rapid.IntRange(0, 5).Draw(t, "partitions")); {
				case n == 0:
					delete(m.counts, name)
					delete(m.ids, name)
				case n > m.counts[name]:
					m.counts[name] = n
				}
				m.catalog()
			},
			"time": func(t *rapid.T) {
				m.now = m.now.Add(time.Duration(rapid.IntRange(1, 12_000).Draw(t, "ms")) * time.Millisecond)
				before := m.epochs()
				m.log = append(m.log, m.g.Tick(m.now)...)
				m.monotone(before)
			},
			"restart": func(*rapid.T) {
				if m.g.epoch > 0 {
					m.g = m.fold(m.log, false)
				}
			},
			"": m.check,
		})
		m.settle()
	})
}

func (m *model) leave(c *client, epoch int32) {
	r := &Request{MemberID: c.id, Epoch: epoch, RebalanceTimeout: -1}
	if c.instance != "" {
		r.InstanceID = &c.instance
	}
	resp, records := m.g.Heartbeat(r, m.topics, m.now)
	m.log = append(m.log, records...)
	if resp.Code != 0 && resp.Code != kerr.UnknownMemberID.Code {
		m.t.Fatalf("leave: %+v", resp)
	}
	c.owned, c.revoking, c.epoch, c.reported = nil, nil, 0, false
}

// revoke ends a client's revocation.
func (c *client) revoke() { c.revoking, c.reported, c.slow = nil, false, false }

// settle: left alone but for heartbeats, everyone reaches its target, and every partition that someone subscribes to has an owner.
func (m *model) settle() {
	for range 40 {
		m.now = m.now.Add(time.Second)
		m.log = append(m.log, m.g.Tick(m.now)...)
		for _, c := range m.clients {
			if m.g.members[c.id] != nil || c.epoch > 0 {
				if c.away {
					continue // its session ends
				}
				if c.slow {
					c.revoke()
				}
				m.heartbeat(c, false)
			}
		}
		m.check(m.t)
	}
	g := m.g
	if g.Empty() {
		return
	}
	if g.State() != "Stable" {
		m.t.Fatalf("the group is %s: %+v", g.State(), g.Describe())
	}
	wanted := map[TopicPartition]bool{}
	for _, mem := range g.members {
		for id := range g.subscribed(mem, m.topics) {
			topic, _ := m.topics.ByID(id)
			for p := range topic.Partitions {
				wanted[TopicPartition{id, p}] = true
			}
		}
	}
	for tp := range wanted {
		if _, ok := g.owners[tp]; !ok {
			m.t.Fatalf("%v has no owner", tp)
		}
	}
	for tp, id := range g.owners {
		if !wanted[tp] {
			m.t.Fatalf("%v is owned by %s and not subscribed", tp, id)
		}
	}
	for _, c := range m.clients {
		if mem := g.members[c.id]; mem != nil && len(c.owned) != len(mem.assigned) {
			m.t.Fatalf("%s owns %v, and was given %v", c.id, c.owned, mem.assigned)
		}
	}
}
