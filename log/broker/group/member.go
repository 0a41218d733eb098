package group

import (
	"bytes"
	"cmp"
	"slices"
	"time"
)

// Protocol is one assignment strategy that a member offers. Metadata is opaque, which is all that cooperative
// rebalancing needs of a coordinator.
type Protocol struct {
	Name     string
	Metadata []byte
}

type member struct {
	id, instance         string
	clientID, clientHost string
	session, rebalance   time.Duration
	protocols            []Protocol
	assignment           []byte
	order                int
	seen                 time.Time // last sign of life

	// Invariant: at most one of join and sync waits.
	join func(JoinResult)
	sync func(SyncResult)
	wait *Wait // of the one that waits; nil: it cannot be given up
	told bool  // its client knows its id
}

// expires is when the session ends; zero while the member waits for us.
func (m *member) expires() time.Time {
	if m.join != nil || m.sync != nil {
		return time.Time{}
	}
	return m.seen.Add(m.session)
}

func (m *member) metadata(protocol string) []byte {
	for _, p := range m.protocols {
		if p.Name == protocol {
			return p.Metadata
		}
	}
	return nil
}

func (m *member) offers(protocols []Protocol) bool {
	return slices.EqualFunc(m.protocols, protocols, func(a, b Protocol) bool {
		return a.Name == b.Name && bytes.Equal(a.Metadata, b.Metadata)
	})
}

// answerJoin ends a wait in JoinGroup, if there is one.
func (m *member) answerJoin(r JoinResult, now time.Time) {
	if f := m.join; f != nil {
		m.join, m.told = nil, true
		m.seen = now
		f(r)
	}
}

func (m *member) answerSync(r SyncResult, now time.Time) {
	if f := m.sync; f != nil {
		m.sync = nil
		m.seen = now
		f(r)
	}
}

// sorted lists the members in the order they joined.
func (g *Group) sorted() []*member {
	list := make([]*member, 0, len(g.members))
	for _, m := range g.members {
		list = append(list, m)
	}
	slices.SortFunc(list, func(a, b *member) int { return cmp.Compare(a.order, b.order) })
	return list
}

// add enters a member. The first one brings the protocol type and leads.
func (g *Group) add(m *member) {
	if len(g.members) == 0 {
		g.leader = m.id
	}
	g.joins++
	m.order = g.joins
	g.members[m.id] = m
	if m.instance != "" {
		g.static[m.instance] = m.id
	}
}

// remove takes a member out and answers what it waits for with code.
func (g *Group) remove(m *member, code int16) {
	delete(g.members, m.id)
	if m.instance != "" && g.static[m.instance] == m.id {
		delete(g.static, m.instance)
	}
	m.answerJoin(JoinResult{Code: code, MemberID: m.id, Generation: -1}, m.seen)
	m.answerSync(SyncResult{Code: code}, m.seen)
	if g.leader == m.id {
		g.leader = ""
		if rest := g.sorted(); len(rest) > 0 {
			g.leader = rest[0].id
		}
	}
}

// common reports whether every present member, and one that offers these protocols, share one.
func (g *Group) common(protocolType string, protocols []Protocol, except string) bool {
	if len(protocols) == 0 || protocolType == "" {
		return false
	}
	others := 0
	for id := range g.members {
		if id != except {
			others++
		}
	}
	if others == 0 {
		return true
	}
	if protocolType != g.protocolType {
		return false
	}
	for _, p := range protocols {
		if g.supportedByAll(p.Name, except) {
			return true
		}
	}
	return false
}

func (g *Group) supportedByAll(protocol, except string) bool {
	for id, m := range g.members {
		if id != except && !slices.ContainsFunc(m.protocols, func(p Protocol) bool { return p.Name == protocol }) {
			return false
		}
	}
	return true
}

// choose elects the protocol that most members put first among those that all support; the oldest
// member's order breaks ties.
func (g *Group) choose() string {
	votes := map[string]int{}
	list := g.sorted()
	for _, m := range list {
		for _, p := range m.protocols {
			if g.supportedByAll(p.Name, "") {
				votes[p.Name]++
				break
			}
		}
	}
	best := ""
	for _, p := range list[0].protocols {
		if n := votes[p.Name]; n > 0 && (best == "" || n > votes[best]) {
			best = p.Name
		}
	}
	return best
}

// Description is what DescribeGroups and metrics show.
type Description struct {
	Group, ProtocolType, Protocol string
	State                         State
	Members                       []MemberDescription
	Consumer                      bool // it is known, but of the consumer protocol
}

// MemberDescription is one member of a Description.
type MemberDescription struct {
	MemberID, InstanceID, ClientID, ClientHost string
	Metadata, Assignment                       []byte
}

// Describe shows the group. Metadata and assignments belong to a generation, so they are shown when it is stable.
func (g *Group) Describe() Description {
	d := Description{Group: g.ID, ProtocolType: g.protocolType, State: g.state}
	if g.state == Stable {
		d.Protocol = g.protocol
	}
	for _, m := range g.sorted() {
		md := MemberDescription{MemberID: m.id, InstanceID: m.instance, ClientID: m.clientID, ClientHost: m.clientHost}
		if g.state == Stable {
			md.Metadata, md.Assignment = m.metadata(g.protocol), m.assignment
		}
		d.Members = append(d.Members, md)
	}
	return d
}
