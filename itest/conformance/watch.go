package main

import (
	"context"
	"fmt"
	"sync"
)

// watch is state that a client's output changes and a suite waits on.
type watch struct {
	mu      sync.Mutex
	changed chan struct{}
}

func newWatch() *watch { return &watch{changed: make(chan struct{}, 1)} }

// update changes what is watched.
func (w *watch) update(change func()) {
	w.mu.Lock()
	change()
	w.mu.Unlock()
	select {
	case w.changed <- struct{}{}:
	default: // a change is already told
	}
}

// until waits for a condition on what is watched. One goroutine waits at a time.
func (w *watch) until(ctx context.Context, what string, condition func() bool) error {
	for {
		w.mu.Lock()
		met := condition()
		w.mu.Unlock()
		if met {
			return nil
		}
		select {
		case <-w.changed:
		case <-ctx.Done():
			return fmt.Errorf("wait for %s: %w", what, ctx.Err())
		}
	}
}
