package cluster

import (
	"context"
	"sync"
)

// gate bounds bytes in flight. Waiters pass in arrival order, so that a large batch is not starved by small ones.
type gate struct {
	mu      sync.Mutex
	limit   int64
	used    int64 // Invariant: used <= limit, or one holder alone is larger than limit.
	waiters []*gateWaiter
	err     error
}

type gateWaiter struct {
	n     int64
	ready chan struct{} // closed when passed or refused
	err   error
}

func newGate(limit int64) *gate { return &gate{limit: limit} }

// fits lets a holder larger than the whole gate pass alone.
func (g *gate) fits(n int64) bool { return g.used == 0 || g.used+n <= g.limit }

// acquire waits until n bytes fit, ctx ends, or the gate is closed.
func (g *gate) acquire(ctx context.Context, n int64) error {
	g.mu.Lock()
	if g.err != nil {
		defer g.mu.Unlock()
		return g.err
	}
	if len(g.waiters) == 0 && g.fits(n) {
		g.used += n
		g.mu.Unlock()
		return nil
	}
	w := &gateWaiter{n: n, ready: make(chan struct{})}
	g.waiters = append(g.waiters, w)
	g.mu.Unlock()

	select {
	case <-w.ready:
		return w.err
	case <-ctx.Done():
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for i, x := range g.waiters {
		if x == w {
			g.waiters = append(g.waiters[:i], g.waiters[i+1:]...)
			g.wake() // w may have been the one that did not fit
			return ErrOverloaded
		}
	}
	return w.err // passed or refused while ctx ended
}

func (g *gate) release(n int64) {
	g.mu.Lock()
	g.used -= n
	g.wake()
	g.mu.Unlock()
}

// wake passes waiters from the front while they fit. Callers hold mu.
func (g *gate) wake() {
	for len(g.waiters) > 0 && g.err == nil && g.fits(g.waiters[0].n) {
		w := g.waiters[0]
		g.waiters = g.waiters[1:]
		g.used += w.n
		close(w.ready)
	}
}

// close refuses all waiters and later callers with err; the first error stays.
func (g *gate) close(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.err != nil {
		return
	}
	g.err = err
	for _, w := range g.waiters {
		w.err = err
		close(w.ready)
	}
	g.waiters = nil
}

func (g *gate) inUse() int64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.used
}
