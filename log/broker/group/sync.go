package group

import (
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/rowtrail/rowtrail/log"
)

// SyncRequest asks for the member's assignment; the leader's brings everyone's.
type SyncRequest struct {
	MemberID, InstanceID   string
	Generation             int32
	ProtocolType, Protocol string // "": not told (before version 5)
	Assignments            map[string][]byte
	Wait                   *Wait // nil: the request is never given up
}

// SyncResult answers a SyncRequest.
type SyncResult struct {
	Code                   int16
	ProtocolType, Protocol string
	Assignment             []byte
}

// Sync handles SyncGroup. reply is called once, when the generation's assignment is durable.
func (g *Group) Sync(r SyncRequest, now time.Time, reply func(SyncResult)) {
	m, code := g.check(r.MemberID, r.InstanceID)
	switch {
	case code != 0:
	case g.state == Empty:
		code = kerr.UnknownMemberID.Code
	case r.Generation != g.generation:
		code = kerr.IllegalGeneration.Code
	case r.ProtocolType != "" && r.ProtocolType != g.protocolType, r.Protocol != "" && r.Protocol != g.protocol:
		code = kerr.InconsistentGroupProtocol.Code
	case g.state == PreparingRebalance:
		code = kerr.RebalanceInProgress.Code
	}
	if code != 0 {
		reply(SyncResult{Code: code})
		return
	}
	m.seen = now
	if g.state == Stable {
		reply(g.synced(m))
		return
	}
	m.answerSync(SyncResult{Code: kerr.RebalanceInProgress.Code}, now)
	m.sync = reply
	r.Wait.of(m)
	if m.id == g.leader && !g.saving {
		g.assign(r.Assignments)
	}
}

func (g *Group) synced(m *member) SyncResult {
	return SyncResult{ProtocolType: g.protocolType, Protocol: g.protocol, Assignment: m.assignment}
}

// assign keeps the leader's assignment and, once it is durable (invariant 1), gives everyone theirs.
func (g *Group) assign(assignments map[string][]byte) {
	for _, m := range g.members {
		m.assignment = assignments[m.id]
	}
	g.saving = true
	generation := g.generation
	g.host.Save(g, func(now time.Time, err error) {
		if g.state != CompletingRebalance || g.generation != generation || !g.saving {
			return // a newer rebalance answered everyone
		}
		g.saving = false
		if err != nil {
			code := kerr.CoordinatorNotAvailable.Code
			if errors.Is(err, log.ErrTooLarge) {
				code = kerr.UnknownServerError.Code // to try again would not help
			}
			for _, m := range g.sorted() {
				m.assignment = nil
				m.answerSync(SyncResult{Code: code}, now)
			}
			g.prepare(now)
			return
		}
		g.become(Stable, now)
		for _, m := range g.sorted() {
			m.answerSync(g.synced(m), now)
		}
	})
}
