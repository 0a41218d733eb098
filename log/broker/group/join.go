package group

import (
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
)

// JoinRequest is one member's wish to be in the next generation.
type JoinRequest struct {
	MemberID, InstanceID string // "": new, dynamic
	ClientID, ClientHost string
	Session, Rebalance   time.Duration
	ProtocolType         string
	Protocols            []Protocol
	// TwoSteps (version 4 and later): a new dynamic member is first given an id, with which it joins again, so a
	// client that never hears our answer leaves no member behind.
	TwoSteps bool
	Wait     *Wait // nil: the request is never given up
	// MaySkip (version 9 and later): a leader can be told not to assign.
	MaySkip bool
}

// JoinResult answers a JoinRequest.
type JoinResult struct {
	Code                   int16
	Generation             int32
	ProtocolType, Protocol string
	Leader, MemberID       string
	SkipAssignment         bool
	Members                []JoinMember // the leader's only
}

// JoinMember is what the leader learns of a member.
type JoinMember struct {
	MemberID, InstanceID string
	Metadata             []byte
}

func (g *Group) refuseJoin(r JoinRequest, code int16, reply func(JoinResult)) {
	reply(JoinResult{Code: code, MemberID: r.MemberID, Generation: -1})
}

// Join handles JoinGroup. reply is called once, at the latest when the rebalance is over.
func (g *Group) Join(r JoinRequest, now time.Time, reply func(JoinResult)) {
	switch {
	case g.state == Dead:
		g.refuseJoin(r, kerr.CoordinatorNotAvailable.Code, reply)
	case !g.own() && (r.Session < g.limits.MinSessionTimeout || r.Session > g.limits.MaxSessionTimeout):
		g.refuseJoin(r, kerr.InvalidSessionTimeout.Code, reply)
	case r.MemberID == "":
		g.joinNew(r, now, reply)
	default:
		g.joinKnown(r, now, reply)
	}
}

func (g *Group) joinNew(r JoinRequest, now time.Time, reply func(JoinResult)) {
	replaced := g.members[g.static[r.InstanceID]]
	if r.InstanceID == "" {
		replaced = nil
	}
	except := ""
	if replaced != nil {
		except = replaced.id
	}
	switch {
	case !g.common(r.ProtocolType, r.Protocols, except):
		g.refuseJoin(r, kerr.InconsistentGroupProtocol.Code, reply)
		return
	case replaced == nil && len(g.members)+len(g.pending) >= g.limits.MaxMembers:
		g.refuseJoin(r, kerr.GroupMaxSizeReached.Code, reply)
		return
	}
	prefix := r.ClientID
	if r.InstanceID != "" {
		prefix = r.InstanceID
	}
	r.MemberID = g.host.NewMemberID(prefix)
	switch {
	case replaced != nil:
		g.replaceStatic(replaced, r, now, reply)
	case r.InstanceID == "" && r.TwoSteps:
		g.pending[r.MemberID] = now.Add(r.Session)
		reply(JoinResult{Code: kerr.MemberIDRequired.Code, MemberID: r.MemberID, Generation: -1})
	default:
		g.enter(r, now, reply)
	}
}

func (g *Group) joinKnown(r JoinRequest, now time.Time, reply func(JoinResult)) {
	if _, ok := g.pending[r.MemberID]; ok && r.InstanceID == "" {
		if !g.common(r.ProtocolType, r.Protocols, "") {
			g.refuseJoin(r, kerr.InconsistentGroupProtocol.Code, reply)
			return
		}
		g.enter(r, now, reply)
		return
	}
	m, code := g.check(r.MemberID, r.InstanceID)
	if code == 0 && !g.common(r.ProtocolType, r.Protocols, m.id) {
		code = kerr.InconsistentGroupProtocol.Code
	}
	if code != 0 {
		g.refuseJoin(r, code, reply)
		return
	}
	m.seen = now
	if len(g.members) == 1 {
		g.protocolType = r.ProtocolType
	}
	same := m.offers(r.Protocols)
	switch {
	case g.state == CompletingRebalance && same,
		g.state == Stable && same && m.id != g.leader:
		// It lost our answer, or asks without a reason: the generation stands.
		m.take(r)
		reply(g.joined(m))
		return
	}
	m.take(r)
	m.told = true
	m.await(r.Wait, reply, now)
	g.prepare(now)
}

// take refreshes what the member says about itself.
func (m *member) take(r JoinRequest) {
	m.clientID, m.clientHost = r.ClientID, r.ClientHost
	m.session, m.rebalance, m.protocols = r.Session, r.Rebalance, r.Protocols
}

// await parks a join. A wait that the member abandoned is answered, so nothing waits twice.
func (m *member) await(w *Wait, reply func(JoinResult), now time.Time) {
	m.answerJoin(JoinResult{Code: kerr.RebalanceInProgress.Code, MemberID: m.id, Generation: -1}, now)
	m.answerSync(SyncResult{Code: kerr.RebalanceInProgress.Code}, now)
	m.join = reply
	w.of(m)
}

// enter makes a new member and starts or joins a rebalance.
func (g *Group) enter(r JoinRequest, now time.Time, reply func(JoinResult)) {
	_, told := g.pending[r.MemberID]
	delete(g.pending, r.MemberID)
	m := &member{id: r.MemberID, instance: r.InstanceID, seen: now, told: told}
	m.take(r)
	if len(g.members) == 0 {
		g.protocolType = r.ProtocolType
	}
	g.add(m)
	m.await(r.Wait, reply, now)
	if g.state == PreparingRebalance && !g.notBefore.IsZero() && g.initialDelay() > 0 {
		// Another early member: hold the first generation open a little longer, up to joinBy.
		g.notBefore = now.Add(g.initialDelay())
		if g.joinBy.Before(g.notBefore) {
			g.notBefore = g.joinBy
		}
	}
	g.prepare(now)
}

// own tells whether the group is that of the log's own nodes, whose members are not clients with wishes.
func (g *Group) own() bool { return g.limits.Own != "" && g.ID == g.limits.Own }

// initialDelay is how long the first generation waits for more members.
func (g *Group) initialDelay() time.Duration {
	if g.own() {
		return 0
	}
	return g.limits.InitialRebalanceDelay
}

// replaceStatic gives a static member's place to its next incarnation, assignment and all.
func (g *Group) replaceStatic(old *member, r JoinRequest, now time.Time, reply func(JoinResult)) {
	m := &member{id: r.MemberID, instance: r.InstanceID, assignment: old.assignment, order: old.order, seen: now}
	m.take(r)
	ledBefore := g.leader == old.id
	delete(g.members, old.id)
	g.members[m.id] = m
	g.static[m.instance] = m.id
	if ledBefore {
		g.leader = m.id
	}
	old.answerJoin(JoinResult{Code: kerr.FencedInstanceID.Code, MemberID: old.id, Generation: -1}, now)
	old.answerSync(SyncResult{Code: kerr.FencedInstanceID.Code}, now)
	if len(g.members) == 1 {
		g.protocolType = r.ProtocolType
	}
	if g.state != Stable || g.choose() != g.protocol {
		m.await(r.Wait, reply, now)
		g.prepare(now)
		return
	}
	// The generation stands: its members are the same as before.
	m.await(r.Wait, reply, now)
	generation := g.generation
	g.host.Save(g, func(now time.Time, err error) {
		if m.join == nil {
			return // a rebalance or a newer incarnation answered
		}
		if g.state != Stable || g.generation != generation {
			return // the rebalance that began meanwhile will answer
		}
		if err != nil {
			m.answerJoin(JoinResult{Code: kerr.CoordinatorNotAvailable.Code, MemberID: m.id, Generation: -1}, now)
			return
		}
		res := g.joined(m)
		if ledBefore {
			if r.MaySkip {
				res.SkipAssignment = true
			} else {
				// Older clients assign when they see themselves lead; nothing may change now.
				res.Leader, res.Members = old.id, nil
			}
		}
		m.answerJoin(res, now)
	})
}

// joined is a member's answer in this generation.
func (g *Group) joined(m *member) JoinResult {
	r := JoinResult{Generation: g.generation, ProtocolType: g.protocolType, Protocol: g.protocol,
		Leader: g.leader, MemberID: m.id}
	if m.id == g.leader {
		for _, o := range g.sorted() {
			r.Members = append(r.Members, JoinMember{o.id, o.instance, o.metadata(g.protocol)})
		}
	}
	return r
}

// prepare begins a rebalance, or looks whether the one under way can end.
func (g *Group) prepare(now time.Time) {
	if g.state == PreparingRebalance {
		g.maybeComplete(now)
		return
	}
	initial := g.state == Empty
	g.saving = false
	for _, m := range g.sorted() {
		m.answerSync(SyncResult{Code: kerr.RebalanceInProgress.Code}, now)
	}
	g.notBefore = time.Time{}
	if initial {
		g.notBefore = now.Add(g.initialDelay())
	}
	g.joinBy = now.Add(g.rebalanceTimeout())
	g.become(PreparingRebalance, now)
	g.maybeComplete(now)
}

func (g *Group) rebalanceTimeout() (longest time.Duration) {
	for _, m := range g.members {
		longest = max(longest, m.rebalance)
	}
	return longest
}

func (g *Group) allJoined() bool {
	for _, m := range g.members {
		if m.join == nil {
			return false
		}
	}
	return len(g.pending) == 0 || len(g.members) == 0
}

func (g *Group) maybeComplete(now time.Time) {
	if g.state == PreparingRebalance && g.allJoined() && (len(g.members) == 0 || !now.Before(g.notBefore)) {
		g.complete(now)
	}
}

// completeLate ends the wait for members: dynamic ones that did not come are out. Static ones stay
// until their session ends, because they come back under the same name.
func (g *Group) completeLate(now time.Time) {
	clear(g.pending)
	someone := false
	for _, m := range g.sorted() {
		switch {
		case m.join != nil:
			someone = true
		case m.instance == "":
			g.remove(m, kerr.UnknownMemberID.Code)
		}
	}
	if len(g.members) > 0 && !someone {
		g.joinBy = now.Add(g.rebalanceTimeout())
		return
	}
	g.complete(now)
}

// complete starts the next generation.
func (g *Group) complete(now time.Time) {
	g.generation++
	if len(g.members) == 0 {
		g.protocol, g.leader = "", ""
		g.become(Empty, now)
		g.host.Save(g, func(time.Time, error) {})
		return
	}
	if m := g.members[g.leader]; m == nil || m.join == nil {
		for _, m := range g.sorted() {
			if m.join != nil {
				g.leader = m.id
				break
			}
		}
	}
	g.protocol = g.choose()
	g.become(CompletingRebalance, now)
	g.syncBy = now.Add(g.rebalanceTimeout())
	for _, m := range g.sorted() {
		m.answerJoin(g.joined(m), now)
	}
}
