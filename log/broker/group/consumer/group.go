package consumer

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/rowtrail/rowtrail/log/broker/journal"
)

// Limits bound members. Zero values take the defaults named here.
type Limits struct {
	SessionTimeout    time.Duration // a member that is silent for so long is removed. Default 45 s
	HeartbeatInterval time.Duration // told to members. Default 5 s
	MaxMembers        int           // default 10,000
}

// WithDefaults fills in what is not set.
func (l Limits) WithDefaults() Limits {
	if l.SessionTimeout <= 0 {
		l.SessionTimeout = 45 * time.Second
	}
	if l.HeartbeatInterval <= 0 {
		l.HeartbeatInterval = 5 * time.Second
	}
	if l.MaxMembers <= 0 {
		l.MaxMembers = 10_000
	}
	return l
}

const (
	// maxSubscriptionBytes bounds the topic names, or the expression, that one member subscribes with.
	maxSubscriptionBytes = 256 << 10
	// maxPatternBytes bounds one expression.
	maxPatternBytes = 4 << 10
	// leftEpoch is the epoch of a static member that said it will be back.
	leftEpoch = -2
	// memberLeaves is the epoch by which a member leaves for good.
	memberLeaves = -1
)

// memberState is how far a member is on its way to its target; the numbers are those of the records.
type memberState int8

const (
	stateStable     memberState = 0
	stateUnrevoked  memberState = 1 // has partitions to revoke before it may go on
	stateUnreleased memberState = 2 // waits for partitions that others hold
)

// metadata is what a member says about itself.
type metadata struct {
	instance, rack       string
	clientID, clientHost string
	names                []string // subscribed topics, sorted
	pattern              string   // and an expression; "": none
	rebalance            time.Duration
	assignor             string // preferred; "": none
}

func (m metadata) equal(o metadata) bool {
	return slices.Equal(m.names, o.names) && m.instance == o.instance && m.rack == o.rack && m.clientID == o.clientID &&
		m.clientHost == o.clientHost && m.pattern == o.pattern && m.rebalance == o.rebalance && m.assignor == o.assignor
}

// partitions are partitions with the epoch in which their owner was given each.
type partitions map[TopicPartition]int32

// current is what a member has.
type current struct {
	epoch, previous    int32
	state              memberState
	assigned, revoking partitions
}

func (c current) equal(o current) bool {
	return c.epoch == o.epoch && c.previous == o.previous && c.state == o.state &&
		maps.Equal(c.assigned, o.assigned) && maps.Equal(c.revoking, o.revoking)
}

// target is what a member shall have.
type target map[TopicPartition]struct{}

type member struct {
	id string
	metadata
	current
	target   target
	known    bool // its metadata is known; false only while records are folded
	seen     time.Time
	revokeBy time.Time // when stateUnrevoked ends with its removal; zero otherwise
}

// Group is one group. Zero value is not usable: see New.
type Group struct {
	ID     string
	limits func() Limits // those in force

	epoch    int32  // Invariant: never falls
	hash     uint64 // of the subscribed topics in this epoch
	assigned int32  // epoch of the target assignment. Invariant: at most epoch
	members  map[string]*member
	static   map[string]string         // instance id -> member id. Invariant: each names a member
	owners   map[TopicPartition]string // Invariant: each partition that a member has or revokes, and that member
	patterns map[string]*pattern
	topics   *Topics // that epoch took in; nil: not known since the load
	known    bool    // its epoch is known; false only while records are folded
	out      []journal.Record
}

// New returns an empty group. limits are asked for whenever they matter, so they may change.
func New(id string, limits func() Limits) *Group {
	return &Group{ID: id, limits: limits, members: map[string]*member{}, static: map[string]string{},
		owners: map[TopicPartition]string{}, patterns: map[string]*pattern{}}
}

// Empty tells whether nobody is in the group. A static member that will be back is.
func (g *Group) Empty() bool { return len(g.members) == 0 }

// Members is the number of members.
func (g *Group) Members() int { return len(g.members) }

// emit makes a change: in the state, and as a record.
func (g *Group) emit(c Change) {
	c.Group = g.ID
	g.Apply(c)
	g.out = append(g.out, c.record())
}

// take returns the records of the changes since the last call.
func (g *Group) take() []journal.Record {
	out := g.out
	g.out = nil
	return out
}

func (g *Group) sorted() []*member {
	list := make([]*member, 0, len(g.members))
	for _, m := range g.members {
		list = append(list, m)
	}
	slices.SortFunc(list, func(a, b *member) int { return cmp.Compare(a.id, b.id) })
	return list
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// Loaded ends a load: members whose metadata is not known are none, sessions begin at now.
func (g *Group) Loaded(now time.Time) {
	for id, m := range g.members {
		if !m.known {
			g.setCurrent(m, current{})
			delete(g.members, id)
			continue
		}
		m.seen = now
		if m.state == stateUnrevoked {
			m.revokeBy = now.Add(m.rebalance)
		}
	}
}

// Known tells whether the folded records make a group.
func (g *Group) Known() bool { return g.known }

// Deadline is when Tick has something to do; zero: never.
func (g *Group) Deadline() time.Time {
	var at time.Time
	session := g.limits().SessionTimeout
	for _, m := range g.members {
		due := m.seen.Add(session)
		if !m.revokeBy.IsZero() && m.revokeBy.Before(due) {
			due = m.revokeBy
		}
		if at.IsZero() || due.Before(at) {
			at = due
		}
	}
	return at
}

// Tick removes members that were silent, or did not revoke, for too long.
func (g *Group) Tick(now time.Time) []journal.Record {
	session := g.limits().SessionTimeout
	for _, m := range g.sorted() {
		if !now.Before(m.seen.Add(session)) || (!m.revokeBy.IsZero() && !now.Before(m.revokeBy)) {
			g.fence(m)
		}
	}
	return g.take()
}

// fence removes a member: what it had is free, and a new epoch gives it to others.
func (g *Group) fence(m *member) {
	g.drop(m)
	g.raise()
}

// drop removes a member's records.
func (g *Group) drop(m *member) {
	g.emit(Change{key: keyCurrent, name: m.id})
	g.emit(Change{key: keyTarget, name: m.id})
	g.emit(Change{key: keyMember, name: m.id})
}

// raise begins an epoch, for which the next heartbeat makes a target assignment.
func (g *Group) raise() {
	hash := g.hash
	if g.topics != nil {
		hash = g.hashTopics(g.topics)
	}
	g.emit(Change{key: keyGroup, epoch: g.epoch + 1, hash: hash})
}

// Dissolve returns the records that delete the group.
func (g *Group) Dissolve() []journal.Record {
	for _, m := range g.sorted() {
		g.drop(m)
	}
	for _, expression := range sortedKeys(g.patterns) {
		g.emit(Change{key: keyPattern, name: expression})
	}
	g.emit(Change{key: keyTargetEpoch})
	g.emit(Change{key: keyGroup})
	return g.take()
}
