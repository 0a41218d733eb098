// Package turns admits a few at a time where many wait, by turns of those they belong to. Of the parties that wait the one that took the
// least time lately is next, so neither a thousand waiting of one party nor long turns of it make another one wait for more than the turns that are
// being taken.
package turns

import (
	"container/list"
	"context"
	"math"
	"sync"
	"time"
)

// halfLife is how soon half of the time that a party took is forgotten.
const halfLife = 5 * time.Second

// Gate admits so many at a time.
type Gate struct {
	now func() time.Time

	mu      sync.Mutex
	free    int
	waiting list.List // of *Party, those with a queue; of equals the front comes first. Invariant: empty while free > 0
}

// New returns a gate that n pass at a time.
func New(now func() time.Time, n int) *Gate { return &Gate{now: now, free: n} }

// Party is one of those who take turns. It needs no leaving: a party is who waits for it.
type Party struct {
	gate *Gate
	// Under gate.mu. took is seconds, as of at.
	queue list.List // of chan struct{}, closed once admitted
	took  float64
	at    time.Time
}

// Party enters a party.
func (g *Gate) Party() *Party { return &Party{gate: g} }

// Enter waits until it is the party's turn, which ends with leave. Without a turn, as ctx ended first, leave does nothing.
func (p *Party) Enter(ctx context.Context) (leave func(), err error) {
	g := p.gate
	g.mu.Lock()
	if g.free > 0 {
		g.free--
		g.mu.Unlock()
		return p.begin(), nil
	}
	if p.queue.Len() == 0 {
		g.waiting.PushBack(p)
	}
	admitted := make(chan struct{})
	place := p.queue.PushBack(admitted)
	g.mu.Unlock()
	select {
	case <-admitted:
		return p.begin(), nil
	case <-ctx.Done():
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	select {
	case <-admitted:
		g.next()
	default:
		p.queue.Remove(place)
		if p.queue.Len() == 0 {
			g.forget(p)
		}
	}
	return func() {}, ctx.Err()
}

func (p *Party) begin() (leave func()) {
	began := p.gate.now()
	return func() {
		g, now := p.gate, p.gate.now()
		g.mu.Lock()
		defer g.mu.Unlock()
		p.took, p.at = p.tookBy(now)+max(now.Sub(began), 0).Seconds(), now
		g.next()
	}
}

// tookBy is how much of what the party took counts at a time.
func (p *Party) tookBy(now time.Time) float64 {
	return p.took * math.Exp2(-max(now.Sub(p.at), 0).Seconds()/halfLife.Seconds())
}

func (g *Gate) forget(p *Party) {
	for e := g.waiting.Front(); e != nil; e = e.Next() {
		if e.Value == p {
			g.waiting.Remove(e)
			return
		}
	}
}

// next lets one in.
func (g *Gate) next() {
	now := g.now()
	var next *list.Element
	least := math.Inf(1)
	for e := g.waiting.Front(); e != nil; e = e.Next() {
		if took := e.Value.(*Party).tookBy(now); took < least {
			next, least = e, took
		}
	}
	if next == nil {
		g.free++
		return
	}
	p := next.Value.(*Party)
	close(p.queue.Remove(p.queue.Front()).(chan struct{}))
	if p.queue.Len() == 0 {
		g.waiting.Remove(next)
	} else {
		g.waiting.MoveToBack(next)
	}
}
