package group

import (
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
)

// State of a classic group.
type State int8

// The states of a group, in the order of a rebalance.
const (
	Empty               State = iota // no members; offsets may remain
	PreparingRebalance               // members are asked to join
	CompletingRebalance              // everyone has joined; the leader's assignment is awaited
	Stable                           // everyone may have its assignment
	Dead                             // forgotten; a request that still reaches it looks the coordinator up again
)

func (s State) String() string {
	return [...]string{"Empty", "PreparingRebalance", "CompletingRebalance", "Stable", "Dead"}[s]
}

// Limits bound what members may ask for. Zero values take the defaults named here.
type Limits struct {
	MinSessionTimeout     time.Duration // default 6 s
	MaxSessionTimeout     time.Duration // default 30 min
	InitialRebalanceDelay time.Duration // an empty group waits so long for more members. Default 0
	MaxMembers            int           // default 10,000
	Own                   string        // the group of the log's own nodes, which the first three do not bind. Default none
}

func (l Limits) withDefaults() Limits {
	if l.MinSessionTimeout <= 0 {
		l.MinSessionTimeout = 6 * time.Second
	}
	if l.MaxSessionTimeout <= 0 {
		l.MaxSessionTimeout = 30 * time.Minute
	}
	if l.MaxMembers <= 0 {
		l.MaxMembers = 10_000
	}
	return l
}

// Host is what a group needs of its surroundings.
type Host interface {
	// Save makes the group's present metadata durable and then calls then, later.
	Save(g *Group, then func(now time.Time, err error))
	// NewMemberID returns an id that was never used.
	NewMemberID(prefix string) string
}

// Group is one classic group. It has no clock: every call brings the time, and Tick is due at Deadline.
type Group struct {
	ID string

	limits *Limits
	host   Host

	state        State
	stateSince   time.Time
	generation   int32
	protocolType string
	protocol     string // chosen in this generation
	leader       string // Invariant: a member's id, unless there are no members

	members map[string]*member
	static  map[string]string    // instance id -> member id. Invariant: each names a member
	pending map[string]time.Time // ids handed out but not joined yet -> when they lapse
	joins   int                  // members joined so far, which orders them

	// PreparingRebalance: notBefore holds an initial delay open, joinBy ends the wait for members.
	notBefore, joinBy time.Time
	// CompletingRebalance: members that have not synced by then are removed.
	syncBy time.Time
	saving bool // the assignment is on its way to the log
}

// newGroup returns an empty group.
func newGroup(id string, limits *Limits, host Host, now time.Time) *Group {
	return &Group{ID: id, limits: limits, host: host, stateSince: now,
		members: map[string]*member{}, static: map[string]string{}, pending: map[string]time.Time{}}
}

func (g *Group) become(s State, now time.Time) {
	g.state, g.stateSince = s, now
}

// check finds the member that a request speaks for.
func (g *Group) check(memberID, instanceID string) (*member, int16) {
	if g.state == Dead {
		return nil, kerr.CoordinatorNotAvailable.Code
	}
	if instanceID != "" {
		current, ok := g.static[instanceID]
		switch {
		case !ok:
			return nil, kerr.UnknownMemberID.Code
		case current != memberID:
			return nil, kerr.FencedInstanceID.Code
		}
	}
	m := g.members[memberID]
	if m == nil {
		return nil, kerr.UnknownMemberID.Code
	}
	return m, 0
}

// Heartbeat keeps a member's session and tells it of a rebalance.
func (g *Group) Heartbeat(memberID, instanceID string, generation int32, now time.Time) int16 {
	if lapse, ok := g.pending[memberID]; ok && g.state != Dead && instanceID == "" && now.Before(lapse) {
		return kerr.UnknownMemberID.Code
	}
	m, code := g.check(memberID, instanceID)
	if code != 0 {
		return code
	}
	if g.state == Empty {
		return kerr.UnknownMemberID.Code
	}
	if generation != g.generation {
		return kerr.IllegalGeneration.Code
	}
	m.seen = now
	if g.state == PreparingRebalance {
		return kerr.RebalanceInProgress.Code
	}
	return 0
}

// MayCommit says whether a commit of offsets by this member in this generation is allowed.
func (g *Group) MayCommit(memberID, instanceID string, generation int32, txn bool, now time.Time) int16 {
	if g.state == Dead {
		return kerr.CoordinatorNotAvailable.Code
	}
	if generation < 0 && g.state == Empty {
		return 0 // an admin, or a consumer that assigns itself
	}
	if generation < 0 && memberID == "" && instanceID == "" {
		if txn { // a producer that predates group metadata
			return 0
		}
		return kerr.UnknownMemberID.Code
	}
	m, code := g.check(memberID, instanceID)
	if code != 0 {
		return code
	}
	if generation != g.generation {
		return kerr.IllegalGeneration.Code
	}
	m.seen = now
	if g.state == CompletingRebalance && !txn {
		return kerr.RebalanceInProgress.Code
	}
	return 0
}

// Leave removes a member. An admin names a static member by its instance id alone.
func (g *Group) Leave(memberID, instanceID string, now time.Time) int16 {
	if g.state == Dead {
		return kerr.CoordinatorNotAvailable.Code
	}
	if memberID == "" && instanceID != "" {
		memberID = g.static[instanceID]
	}
	if _, ok := g.pending[memberID]; ok && instanceID == "" {
		delete(g.pending, memberID)
		g.maybeComplete(now)
		return 0
	}
	m, code := g.check(memberID, instanceID)
	if code != 0 {
		return code
	}
	g.remove(m, kerr.UnknownMemberID.Code)
	g.afterRemoval(now)
	return 0
}

// Kill forgets the group: whoever waits is sent to look for the coordinator again.
func (g *Group) Kill() {
	for _, m := range g.sorted() {
		g.remove(m, kerr.CoordinatorNotAvailable.Code)
	}
	g.state = Dead
}

// Deadline is when Tick has something to do; zero: never. Heartbeats only move it back.
func (g *Group) Deadline() time.Time {
	var at time.Time
	sooner := func(t time.Time) {
		if !t.IsZero() && (at.IsZero() || t.Before(at)) {
			at = t
		}
	}
	switch g.state {
	case PreparingRebalance:
		if g.allJoined() {
			sooner(g.notBefore)
		} else {
			sooner(g.joinBy)
		}
	case CompletingRebalance:
		if !g.saving {
			sooner(g.syncBy)
		}
	}
	for _, m := range g.members {
		sooner(m.expires())
	}
	for _, t := range g.pending {
		sooner(t)
	}
	return at
}

// Tick ends sessions, waits and handed out ids that are over.
func (g *Group) Tick(now time.Time) {
	if g.state == Dead {
		return
	}
	for id, t := range g.pending {
		if !now.Before(t) {
			delete(g.pending, id)
		}
	}
	removed := false
	for _, m := range g.sorted() {
		if t := m.expires(); !t.IsZero() && !now.Before(t) {
			g.remove(m, kerr.UnknownMemberID.Code)
			removed = true
		}
	}
	if g.state == CompletingRebalance && !g.saving && !now.Before(g.syncBy) {
		for _, m := range g.sorted() {
			if m.sync == nil {
				g.remove(m, kerr.UnknownMemberID.Code)
				removed = true
			}
		}
	}
	if removed {
		g.afterRemoval(now)
	}
	if g.state == PreparingRebalance && !g.allJoined() && !now.Before(g.joinBy) {
		g.completeLate(now)
		return
	}
	g.maybeComplete(now)
}

// afterRemoval lets the rest rebalance, or ends the generation when nobody is left.
func (g *Group) afterRemoval(now time.Time) {
	switch g.state {
	case Stable, CompletingRebalance:
		g.prepare(now)
	case PreparingRebalance:
		g.maybeComplete(now)
	}
}
