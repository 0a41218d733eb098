package tasks

import (
	"sync"
	"time"
)

// Times of a membership. The session is the shortest that brokers allow by default.
const (
	sessionTimeout   = 6 * time.Second
	rebalanceTimeout = 15 * time.Second
	beatEvery        = time.Second
	beatTimeout      = 1500 * time.Millisecond

	// leaseTime is how long tasks may run after the last heartbeat that was answered well was sent. What is left of the session
	// is for them to end.
	leaseTime = 4 * time.Second
)

// lease is for how long this node may take itself for a member. It has no clock: every call brings the time.
type lease struct {
	mu    sync.Mutex
	until time.Time
	over  bool
}

func newLease(now time.Time) *lease { return &lease{until: now.Add(leaseTime)} }

// renew extends the lease by a heartbeat that was sent at a time and was answered well by now. A lease that has run out stays so,
// also when the answer had been waiting: meanwhile another node may have been given the tasks. It tells whether the lease holds.
func (l *lease) renew(sent, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.over = l.over || !now.Before(l.until)
	if until := sent.Add(leaseTime); !l.over && until.After(l.until) {
		l.until = until
	}
	return !l.over
}

// left is how long the lease still holds; zero or less: it is over for good.
func (l *lease) left(now time.Time) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.over = l.over || !now.Before(l.until)
	if l.over {
		return 0
	}
	return l.until.Sub(now)
}
