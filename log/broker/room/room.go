// Package room counts bytes that several parties share, so that no number of parties can leave nothing for the next one.
//
// A party may hold as much as it leaves free: one alone gets half, two get a third each, n get an equal part of which there
// are n+1, and the last part waits for a party that has nothing yet. Small holds have bytes on top that large ones cannot
// take. Each party's holds are served in order, the party with the least first.
//
// A hold may grow while it is held, so several could wait for each other. Where all of a party's holds wait, one of them may
// go beyond what is free, one in the whole room at a time, and beside it one that is all that its party holds, so that a party that is slow to
// give back does not keep the next one out: the bound is the room's bytes and two holds' (invariant 9).
package room

import (
	"context"
	"sync"
)

// share: one hold takes at most this fraction of the room, which is what a party gets that is alone.
const share = 2

type class int

const (
	large class = iota
	small
	classes
)

// Room is the bytes and who holds them.
type Room struct {
	most, extra int64 // of all holds; of small ones beyond that

	mu      sync.Mutex
	held    int64
	waiting map[*Party]struct{} // those with a queue
	beyond  *Hold               // goes beyond what is free
	lone    *Hold               // so does this one, which is all that its party holds
}

// New returns a room of most bytes, and extra ones for small holds.
func New(most, extra int64) *Room {
	return &Room{most: most, extra: extra, waiting: map[*Party]struct{}{}}
}

// Most is what one hold takes at most, however much it asks for.
func (r *Room) Most() int64 { return r.most / share }

// Held is how many bytes are held.
func (r *Room) Held() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.held
}

// Party is one of those who share a room.
type Party struct {
	room *Room
	// Under room.mu. stuck are the bytes of holds that wait for more.
	held, stuck [classes]int64
	queue       [classes][]*Hold
}

// Party enters a party. It needs no leaving: a party is what it holds.
func (r *Room) Party() *Party { return &Party{room: r} }

// Held is how many bytes the party holds.
func (p *Party) Held() int64 {
	p.room.mu.Lock()
	defer p.room.mu.Unlock()
	return p.total()
}

func (p *Party) total() int64 { return p.held[large] + p.held[small] }

// Hold is bytes that are held for one purpose. It is used by one goroutine at a time.
type Hold struct {
	party *Party
	class class
	n     int64
	// Under room.mu: what it waits for, and where it hears of it.
	wants   int64
	granted chan struct{}
}

// Large and Small return holds of nothing yet.
func (p *Party) Large() *Hold { return &Hold{party: p, class: large} }

// Small is for what takes little: it may use the extra bytes.
func (p *Party) Small() *Hold { return &Hold{party: p, class: small} }

// Bytes is how much is held.
func (h *Hold) Bytes() int64 { return h.n }

// TryGrow brings the hold to n bytes, if that needs no waiting.
func (h *Hold) TryGrow(n int64) bool {
	r := h.party.room
	r.mu.Lock()
	defer r.mu.Unlock()
	return h.tryGrow(n)
}

func (h *Hold) tryGrow(n int64) bool {
	r := h.party.room
	more := min(n, r.Most()) - h.n
	if more <= 0 {
		return true
	}
	if !r.goesBeyond(h) && (len(h.party.queue[h.class]) > 0 || !r.fits(h.party, h.class, more)) {
		return false
	}
	h.take(more)
	return true
}

// TakeUpTo adds n bytes, or as many as there are, but least of them or none, and never waits. It returns how many it added.
func (h *Hold) TakeUpTo(n, least int64) int64 {
	p, r := h.party, h.party.room
	r.mu.Lock()
	defer r.mu.Unlock()
	n = min(n, r.Most()-h.n)
	if !r.goesBeyond(h) {
		if len(p.queue[h.class]) > 0 {
			return 0
		}
		n = min(n, r.room(p, h.class))
	}
	if n < least || n <= 0 {
		return 0
	}
	h.take(n)
	return n
}

func (h *Hold) take(more int64) {
	h.n += more
	h.party.held[h.class] += more
	h.party.room.held += more
}

// Grow brings the hold to n bytes and waits for them if it must. What it got when ctx ended first is held all the same.
func (h *Hold) Grow(ctx context.Context, n int64) (waited bool, err error) {
	p, r := h.party, h.party.room
	r.mu.Lock()
	if h.tryGrow(n) {
		r.mu.Unlock()
		return false, nil
	}
	h.wants, h.granted = min(n, r.Most())-h.n, make(chan struct{})
	p.queue[h.class] = append(p.queue[h.class], h)
	p.stuck[h.class] += h.n
	r.waiting[p] = struct{}{}
	granted := h.granted
	r.serve()
	r.mu.Unlock()
	select {
	case <-granted:
		return true, nil
	case <-ctx.Done():
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, other := range p.queue[h.class] {
		if other == h {
			p.leave(h.class, i)
			r.serve() // who comes next may want less
			break
		}
	}
	return true, ctx.Err()
}

// leave takes a hold out of its queue.
func (p *Party) leave(c class, i int) {
	h := p.queue[c][i]
	p.stuck[c] -= h.n
	p.queue[c] = append(p.queue[c][:i], p.queue[c][i+1:]...)
	if len(p.queue[large])+len(p.queue[small]) == 0 {
		delete(p.room.waiting, p)
	}
	h.wants, h.granted = 0, nil
}

// Shrink gives back all but n bytes.
func (h *Hold) Shrink(n int64) {
	r := h.party.room
	r.mu.Lock()
	defer r.mu.Unlock()
	if n >= h.n {
		return
	}
	h.take(n - h.n)
	if n == 0 && r.beyond == h {
		r.beyond = nil
	}
	if n == 0 && r.lone == h {
		r.lone = nil
	}
	r.serve()
}

// Release gives back all bytes. It may be called again, and the hold may grow again.
func (h *Hold) Release() { h.Shrink(0) }

// room is how much more a party may have: so much that it holds no more, all in all, than is free then.
func (r *Room) room(p *Party, c class) int64 {
	free := r.most - r.held
	for _, h := range []*Hold{r.beyond, r.lone} {
		if h != nil {
			free += h.n // what goes beyond must leave small holds theirs
		}
	}
	if c == small {
		return (free + r.extra - p.held[small]) / 2
	}
	return (free - p.total()) / 2
}

func (r *Room) goesBeyond(h *Hold) bool { return h == r.beyond || h == r.lone }

func (r *Room) fits(p *Party, c class, n int64) bool { return n <= r.room(p, c) }

// serve gives those who wait what there is.
func (r *Room) serve() {
	for len(r.waiting) > 0 {
		h := r.next()
		if h == nil {
			return
		}
		more, granted := h.wants, h.granted
		h.party.leave(h.class, 0)
		h.take(more)
		close(granted)
	}
}

// next is the hold to serve, of the party that holds least; nil: all must wait.
func (r *Room) next() (next *Hold) {
	var stuck, lone *Hold
	for p := range r.waiting {
		for c := range classes {
			if len(p.queue[c]) == 0 {
				continue
			}
			h := p.queue[c][0]
			if r.fits(p, c, h.wants) && (next == nil || p.total() < next.party.total()) {
				next = h
			}
			if p.held[c] == p.stuck[c] && (stuck == nil || p.total() < stuck.party.total()) {
				stuck = h
			}
			if p.total() == h.n && r.beyond != nil && r.beyond.party != p {
				lone = h
			}
		}
	}
	if next == nil && r.beyond == nil && stuck != nil {
		next, r.beyond = stuck, stuck
	} else if next == nil && r.lone == nil && lone != nil {
		next, r.lone = lone, lone
	}
	return next
}
