package broker

import (
	"context"
	"testing"
	"time"
)

func TestWorkIsWhatPassesWithoutWaits(t *testing.T) {
	var w work
	now := time.Unix(1000, 0)
	pass := func(d time.Duration) { now = now.Add(d) }
	if got := w.lapAt(now); got != 0 {
		t.Errorf("before the first request: %v", got)
	}
	w.start(now)
	pass(time.Second)
	w.wait(now, 1)
	pass(time.Minute)
	w.wait(now, 1) // within the other
	pass(time.Minute)
	w.wait(now, -1)
	pass(time.Minute)
	if got := w.lapAt(now); got != time.Second {
		t.Errorf("while it waits: %v", got)
	}
	w.wait(now, -1)
	pass(2 * time.Second)
	if got := w.lapAt(now); got != 2*time.Second {
		t.Errorf("then: %v", got)
	}
	pass(-time.Hour)
	if got := w.lapAt(now); got != 0 {
		t.Errorf("a clock that goes back: %v", got)
	}
	w.wait(now, 1) // given up while it waits
	w.start(now)
	pass(time.Second)
	if got := w.lapAt(now); got != time.Second {
		t.Errorf("the next request: %v", got)
	}
}

func TestWorkOfAContext(t *testing.T) {
	var w work
	w.start(time.Now())
	ctx, cancel := context.WithTimeout(withWork(t.Context(), &w), time.Minute)
	defer cancel()
	w.lap()
	resume := pause(ctx)
	time.Sleep(50 * time.Millisecond)
	resume()
	if got := w.lap(); got > 40*time.Millisecond {
		t.Errorf("a wait took %v", got)
	}
	pause(t.Context())() // of no request
}
