package group

import (
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
)

// Wait is one request that may wait in a group, by which its caller can give it up.
type Wait struct{ member *member } // whose it was last

func (w *Wait) of(m *member) {
	m.wait = w
	if w != nil {
		w.member = m
	}
}

// Gone gives up a JoinGroup or SyncGroup whose client is no longer there to hear the answer; its reply is not called any more, unless
// it was. Kafka keeps such members as if they had joined, and one of them can lead a generation that nobody assigns until its session is
// over. Here the session begins with the loss. A member that never heard its id could not come back, and is out.
func (g *Group) Gone(w *Wait, now time.Time) {
	m := w.member
	if m == nil || m.wait != w || g.members[m.id] != m || m.join == nil && m.sync == nil {
		return
	}
	m.join, m.sync, m.wait, m.seen = nil, nil, nil, now
	if !m.told && m.instance == "" {
		g.remove(m, kerr.UnknownMemberID.Code)
		g.afterRemoval(now)
	}
}
