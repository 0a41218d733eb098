package tasks

import (
	"testing"
	"time"
)

func TestLease(t *testing.T) {
	start := time.Now()
	at := func(d time.Duration) time.Time { return start.Add(d) }
	l := newLease(start)
	if !l.renew(at(time.Second), at(2*time.Second)) || l.left(at(2*time.Second)) != leaseTime-time.Second {
		t.Errorf("counts from when the heartbeat was sent, not answered: %s left", l.left(at(2*time.Second)))
	}
	if !l.renew(at(0), at(2*time.Second)) || l.left(at(2*time.Second)) != leaseTime-time.Second {
		t.Error("an older heartbeat shortens it")
	}
	// The process was paused: an answer that was on its way, and one to a heartbeat sent afterwards, do not revive it.
	late := time.Second + leaseTime
	if l.renew(at(2*time.Second), at(late)) || l.renew(at(late), at(late+time.Millisecond)) || l.left(at(2*time.Second)) > 0 {
		t.Error("a lease that was over goes on")
	}
	if leaseTime+beatEvery >= sessionTimeout {
		t.Error("tasks have no time to end within the session")
	}
}
