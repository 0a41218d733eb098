package consumer

import (
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/rowtrail/rowtrail/log/broker/journal"
)

// Request is one member's heartbeat. A nil field means that nothing changed.
type Request struct {
	MemberID             string
	Epoch                int32   // 0 joins, -1 leaves, -2 leaves as a static member that will be back
	InstanceID, RackID   *string // of a static member; where it is
	ClientID, ClientHost string
	RebalanceTimeout     int32    // milliseconds; -1: as before
	Topics               []string // subscribed to by name
	Pattern              *string  // subscribed to by a regular expression
	Assignor             *string
	Owned                []TopicPartition
	OwnsNothing          bool // Owned is given, and empty
}

// Response answers a Request. Assigned is given, not nil, when the member may not know it.
type Response struct {
	Code     int16
	Message  string
	MemberID string
	Epoch    int32
	Assigned []TopicPartition
}

// owned tells whether the request says what the member owns.
func (r *Request) owned() bool { return r.OwnsNothing || len(r.Owned) > 0 }

// full tells whether the member says all about itself, because it may have lost an answer.
func (r *Request) full() bool {
	return r.Epoch == 0 || (r.RebalanceTimeout >= 0 && (r.Topics != nil || r.Pattern != nil) && r.owned())
}

func refuse(code *kerr.Error, format string, args ...any) *Response {
	return &Response{Code: code.Code, Message: fmt.Sprintf(format, args...)}
}

// Check refuses what is wrong whatever the group's state is. ownIDs: the protocol's version has members make their ids.
func (r *Request) Check(ownIDs bool) *Response {
	invalid := func(format string, args ...any) *Response { return refuse(kerr.InvalidRequest, format, args...) }
	size := 0
	for _, name := range r.Topics {
		size += len(name)
	}
	switch {
	case r.MemberID == "" && (ownIDs || r.Epoch != 0):
		return invalid("MemberId can't be empty.")
	case r.InstanceID != nil && *r.InstanceID == "":
		return invalid("InstanceId can't be empty.")
	case r.RackID != nil && *r.RackID == "":
		return invalid("RackId can't be empty.")
	case r.Epoch < leftEpoch:
		return invalid("MemberEpoch is invalid.")
	case r.Epoch == leftEpoch && r.InstanceID == nil:
		return invalid("InstanceId can't be null.")
	case r.Epoch == 0 && r.RebalanceTimeout < 0:
		return invalid("RebalanceTimeoutMs must be provided in first request.")
	case r.Epoch == 0 && !r.OwnsNothing:
		return invalid("TopicPartitions must be empty when (re-)joining.")
	case r.Epoch == 0 && r.Topics == nil && r.Pattern == nil:
		return invalid("Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.")
	case size > maxSubscriptionBytes:
		return invalid("SubscribedTopicNames has %d bytes, at most %d are kept.", size, maxSubscriptionBytes)
	case r.Assignor != nil && assignorFor(*r.Assignor) == nil:
		return refuse(kerr.UnsupportedAssignor, "ServerAssignor %s is not supported. Supported assignors: uniform, range.", *r.Assignor)
	}
	if r.Pattern == nil {
		return nil
	}
	if len(*r.Pattern) > maxPatternBytes {
		return refuse(kerr.InvalidRegularExpression, "SubscribedTopicRegex has %d bytes, at most %d are kept.", len(*r.Pattern), maxPatternBytes)
	}
	if _, err := compilePattern(*r.Pattern); err != nil {
		return refuse(kerr.InvalidRegularExpression, "SubscribedTopicRegex %q is not valid: %v.", *r.Pattern, err)
	}
	return nil
}

// Heartbeat handles a checked request. The answer may be given out when the records, and those before, are committed.
func (g *Group) Heartbeat(r *Request, topics *Topics, now time.Time) (Response, []journal.Record) {
	var resp *Response
	if r.Epoch < 0 {
		resp = g.leave(r)
	} else {
		resp = g.heartbeat(r, topics, now)
	}
	return *resp, g.take()
}

func (g *Group) heartbeat(r *Request, topics *Topics, now time.Time) *Response {
	m, created, refused := g.find(r)
	if refused != nil {
		return refused
	}
	before := m.current
	changed := g.update(m, r, created)
	m = g.members[m.id] // which update may just have made
	g.refresh(created || changed, topics, now)
	if g.epoch > g.assigned {
		g.assign(topics)
	}
	g.reconcile(m, r, changed, topics, now)
	m.seen = now
	resp := &Response{MemberID: m.id, Epoch: m.epoch}
	if r.full() || !sameKeys(before.assigned, m.assigned) {
		resp.Assigned = listPartitions(m.assigned)
	}
	return resp
}

func sameKeys(a, b partitions) bool {
	if len(a) != len(b) {
		return false
	}
	for tp := range a {
		if _, ok := b[tp]; !ok {
			return false
		}
	}
	return true
}

// listPartitions is sorted and never nil.
func listPartitions(set partitions) []TopicPartition {
	list := []TopicPartition{}
	for _, t := range byTopic(set) {
		for _, p := range t.partitions {
			list = append(list, TopicPartition{t.topic, p})
		}
	}
	return list
}

// find is the member that a request speaks for, or a new one when it joins. Nothing changes when it is refused, but for the
// place of a static member that left and is taken by its next incarnation.
func (g *Group) find(r *Request) (m *member, created bool, refused *Response) {
	if r.Epoch > 0 {
		m, refused = g.lookup(r)
		if refused == nil {
			refused = m.checkEpoch(r)
		}
		return m, false, refused
	}
	m = g.members[r.MemberID]
	if r.InstanceID != nil {
		if old := g.members[g.static[*r.InstanceID]]; old != nil {
			switch {
			case old.epoch == leftEpoch:
				return g.replace(old, r.MemberID), false, nil
			case old.id != r.MemberID:
				return nil, false, refuse(kerr.UnreleasedInstanceID, "Static member %s cannot join with instance id %s, because it is owned by member %s.",
					r.MemberID, *r.InstanceID, old.id)
			}
		}
	}
	if m != nil {
		// It lost an answer, or was fenced: it keeps its place, and says that it owns nothing.
		return m, false, nil
	}
	if most := g.limits().MaxMembers; len(g.members) >= most {
		return nil, false, refuse(kerr.GroupMaxSizeReached, "The group has reached its maximum of %d members.", most)
	}
	return &member{id: r.MemberID}, true, nil
}

// lookup finds an existing member by its id, and a static one by its instance too.
func (g *Group) lookup(r *Request) (*member, *Response) {
	if r.InstanceID != nil {
		id, ok := g.static[*r.InstanceID]
		switch {
		case !ok:
			return nil, refuse(kerr.UnknownMemberID, "Instance id %s is unknown.", *r.InstanceID)
		case id != r.MemberID:
			return nil, refuse(kerr.FencedInstanceID, "Static member %s with instance id %s was fenced by member %s.", r.MemberID, *r.InstanceID, id)
		}
	}
	m := g.members[r.MemberID]
	if m == nil {
		return nil, refuse(kerr.UnknownMemberID, "Member %s is not a member of group %s.", r.MemberID, g.ID)
	}
	return m, nil
}

// checkEpoch accepts the member's epoch, and the one before it from a member that owns no more than it may: it
// lost the answer that raised it.
func (m *member) checkEpoch(r *Request) *Response {
	switch {
	case r.Epoch == m.epoch:
		return nil
	case r.Epoch < m.epoch && r.Epoch == m.previous && r.owned() && m.has(r.Owned):
		return nil
	}
	return refuse(kerr.FencedMemberEpoch, "The member's epoch is %d, not %d: it must abandon all its partitions and rejoin.", m.epoch, r.Epoch)
}

func (m *member) has(list []TopicPartition) bool {
	for _, tp := range list {
		if _, ok := m.assigned[tp]; !ok {
			return false
		}
	}
	return true
}

// replace gives a static member's place, assignment and all, to its next incarnation.
func (g *Group) replace(old *member, id string) *member {
	meta, cur, tgt := old.metadata, old.current, old.target
	g.drop(old)
	cur.epoch, cur.previous = 0, 0
	g.emit(Change{key: keyMember, name: id, member: &meta})
	if tgt != nil {
		g.emit(Change{key: keyTarget, name: id, target: tgt})
	}
	g.emit(Change{key: keyCurrent, name: id, current: &cur})
	return g.members[id]
}

// update takes in what the member says about itself, and tells whether it is subscribed to something else.
func (g *Group) update(m *member, r *Request, created bool) (subscription bool) {
	next := m.metadata
	next.clientID, next.clientHost = r.ClientID, r.ClientHost
	if r.InstanceID != nil {
		next.instance = *r.InstanceID
	}
	if r.RackID != nil {
		next.rack = *r.RackID
	}
	if r.RebalanceTimeout >= 0 {
		next.rebalance = time.Duration(r.RebalanceTimeout) * time.Millisecond
	}
	if r.Assignor != nil {
		next.assignor = *r.Assignor
	}
	if r.Topics != nil {
		next.names = slices.Compact(slices.Sorted(slices.Values(r.Topics)))
	}
	if r.Pattern != nil {
		next.pattern = *r.Pattern
	}
	subscription = !slices.Equal(next.names, m.names) || next.pattern != m.pattern
	if created || !next.equal(m.metadata) {
		g.emit(Change{key: keyMember, name: m.id, member: &next})
	}
	return subscription
}

// refresh begins an epoch when a member, a subscription or a subscribed topic changed.
func (g *Group) refresh(changed bool, topics *Topics, now time.Time) {
	if !changed && g.topics == topics {
		return
	}
	g.lookUp(topics, now.UnixMilli())
	g.topics = topics
	if changed || g.hashTopics(topics) != g.hash {
		g.raise()
	}
}

// leave handles the last heartbeat of a member.
func (g *Group) leave(r *Request) *Response {
	m, refused := g.lookup(r)
	switch {
	case refused != nil:
		return refused
	case r.Epoch == leftEpoch && m.instance != "":
		// Its place is kept until its session ends.
		cur := m.current
		cur.epoch, cur.revoking = leftEpoch, nil
		m.revokeBy = time.Time{}
		g.emit(Change{key: keyCurrent, name: m.id, current: &cur})
	default:
		g.fence(m)
	}
	return &Response{MemberID: r.MemberID, Epoch: r.Epoch}
}

// Remove takes out a member by its id, or its instance id alone, as an admin does.
func (g *Group) Remove(memberID, instanceID string) (code int16, records []journal.Record) {
	if memberID == "" {
		memberID = g.static[instanceID]
	}
	m := g.members[memberID]
	switch {
	case m == nil:
		return kerr.UnknownMemberID.Code, nil
	case instanceID != "" && m.instance != instanceID:
		return kerr.FencedInstanceID.Code, nil
	}
	g.fence(m)
	return 0, g.take()
}
