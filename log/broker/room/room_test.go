package room

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"
)

// However many parties take what they can, the next one finds as much as each of them has.
func TestAPartyMayHoldWhatItLeaves(t *testing.T) {
	const most, step = 1 << 20, 64
	for _, parties := range []int{1, 2, 4, 16, 100} {
		r := New(most, 0)
		for range parties { // who comes first gets more at first
			p := r.Party()
			for p.Large().TryGrow(step) {
			}
		}
		if p := r.Party(); !p.Large().TryGrow((most - r.Held()) / share) {
			t.Errorf("%d parties: the next one cannot have half of the %d bytes that are free", parties, most-r.Held())
		}
	}
	r := New(most, 0)
	ps := []*Party{r.Party(), r.Party(), r.Party()}
	for more := true; more; { // taking turns, they get equal parts
		more = false
		for _, p := range ps {
			more = p.Large().TryGrow(step) || more
		}
	}
	for _, p := range ps {
		if part := int64(most / (len(ps) + 1)); p.Held() < part-2*step || p.Held() > part+2*step {
			t.Errorf("one of %d parties holds %d of %d bytes", len(ps), p.Held(), most)
		}
	}
}

// Small holds have room whatever large ones take, also those of a party that holds all it may.
func TestSmallHoldsHaveRoomOfTheirOwn(t *testing.T) {
	r := New(1<<20, 64<<10)
	var one *Party
	for range 100 {
		one = r.Party()
		for n := int64(1 << 18); n > 0; n /= 2 {
			for one.Large().TryGrow(n) {
			}
		}
	}
	if one.Large().TryGrow(1 << 10) {
		t.Error("a large hold has room")
	}
	if !one.Small().TryGrow(16 << 10) {
		t.Error("a small hold has none")
	}
	n := 0
	for one.Small().TryGrow(1 << 10) {
		n++
	}
	if n > 32 {
		t.Errorf("one party took %d KiB of the small ones' 64", n+16)
	}
	if !r.Party().Small().TryGrow(16 << 10) {
		t.Error("another party has none")
	}
}

// What goes beyond the free bytes leaves the small holds theirs.
func TestBeyondLeavesRoomForSmallHolds(t *testing.T) {
	r := New(1000, 100)
	var keep []*Hold
	for range 50 {
		h := r.Party().Large()
		for n := r.Most(); n > 0; n /= 2 {
			h.TryGrow(h.Bytes() + n)
		}
		keep = append(keep, h)
	}
	h := r.Party().Large()
	if _, err := h.Grow(t.Context(), 500); err != nil || h.Bytes() != 500 || r.Held() <= 1100 {
		t.Fatalf("it holds %d, all %d, %v", h.Bytes(), r.Held(), err)
	}
	little := r.Party().Small()
	if !little.TryGrow(40) {
		t.Error("a small hold has no room")
	}
	keep = append(keep, little)
	// A party that has nothing else is let in beside it, and no third one.
	lone := r.Party().Large()
	if _, err := lone.Grow(t.Context(), 500); err != nil || lone.Bytes() != 500 {
		t.Fatalf("it holds %d, %v", lone.Bytes(), err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	third := waits(t, ctx, r.Party().Large(), 500)
	cancel()
	if err := <-third; err == nil {
		t.Error("three go beyond")
	}
	lone.Release()
	h.Release()
	for _, h := range keep {
		h.Release()
	}
	if r.Held() != 0 {
		t.Errorf("%d bytes are left", r.Held())
	}
}

// A hold takes at most its share, and may shrink and grow.
func TestHoldsGrowAndShrink(t *testing.T) {
	r := New(1000, 0)
	p := r.Party()
	h := p.Large()
	if !h.TryGrow(1<<40) || h.Bytes() != 500 || r.Held() != 500 || p.Held() != 500 {
		t.Fatalf("it holds %d, all %d", h.Bytes(), r.Held())
	}
	other := r.Party().Large()
	if other.TryGrow(300) || !other.TryGrow(250) || !other.TryGrow(100) || other.Bytes() != 250 {
		t.Errorf("another has %d", other.Bytes())
	}
	if n := r.Party().Large().TakeUpTo(1000, 126); n != 0 {
		t.Errorf("less than it asked for: %d", n)
	}
	if some := r.Party().Large(); some.TakeUpTo(1000, 125) != 125 || some.Bytes() != 125 {
		t.Errorf("of 250 bytes that are free a new party took %d", some.Bytes())
	} else {
		some.Release()
	}
	h.Shrink(100)
	if !other.TryGrow(300) || r.Held() != 400 {
		t.Errorf("of what was given back, another has %d", other.Bytes())
	}
	h.Release()
	h.Release()
	other.Release()
	if r.Held() != 0 || p.Held() != 0 {
		t.Errorf("%d bytes are left", r.Held())
	}
}

// waits starts to grow a hold and returns once it is queued.
func waits(t *testing.T, ctx context.Context, h *Hold, n int64) <-chan error {
	t.Helper()
	p, done := h.party, make(chan error, 1)
	p.room.mu.Lock()
	before := len(p.queue[h.class])
	p.room.mu.Unlock()
	go func() {
		_, err := h.Grow(ctx, n)
		done <- err
	}()
	for range 10_000 {
		p.room.mu.Lock()
		queued := len(p.queue[h.class]) > before
		p.room.mu.Unlock()
		if queued {
			return done
		}
		time.Sleep(100 * time.Microsecond)
	}
	t.Fatal("it does not wait")
	return nil
}

// Who waits is served in order within a party, the party with the least first; who gives up keeps nobody waiting.
func TestWhoWaitsIsServed(t *testing.T) {
	ctx, giveUp := context.WithCancel(t.Context())
	r := New(1000, 0)
	rich, poor := r.Party(), r.Party()
	keep, gone, last := rich.Large(), rich.Large(), poor.Large()
	if !keep.TryGrow(100) || !gone.TryGrow(300) || !last.TryGrow(50) {
		t.Fatal("no room")
	}
	a, b, c := rich.Large(), rich.Large(), poor.Large()
	first := waits(t, ctx, a, 500)
	second := waits(t, t.Context(), b, 150)
	third := waits(t, t.Context(), c, 400)
	if rich.Large().TryGrow(1) {
		t.Error("somebody went ahead of those who wait")
	}
	giveUp()
	if err := <-first; err == nil || a.Bytes() != 0 {
		t.Errorf("who gave up got %d bytes, %v", a.Bytes(), err)
	}
	gone.Release()
	if err := <-third; err != nil || c.Bytes() != 400 {
		t.Errorf("the party that has less got %d bytes, %v", c.Bytes(), err)
	}
	c.Release()
	if err := <-second; err != nil || b.Bytes() != 150 {
		t.Errorf("who came next got %d bytes, %v", b.Bytes(), err)
	}
}

// Holds that grow step by step never wait for each other for ever, and stay within the room and one of them.
func TestGrowingHoldsDoNotWaitForEachOther(t *testing.T) {
	const most, parties, each, rounds = 1 << 16, 6, 5, 40
	r := New(most, most/16)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var wg sync.WaitGroup
	for i := range parties {
		p := r.Party()
		for j := range each {
			rnd := rand.New(rand.NewPCG(uint64(i), uint64(j)))
			wg.Go(func() {
				for range rounds {
					h, all := p.Large(), rnd.Int64N(most)
					if rnd.IntN(3) == 0 {
						h, all = p.Small(), rnd.Int64N(most/64)
					}
					for n := int64(64); ; n *= 8 {
						if _, err := h.Grow(ctx, min(n, all)); err != nil {
							t.Error(fmt.Errorf("at %d of %d bytes: %w", h.Bytes(), all, err))
							return
						}
						if held := r.Held(); held > most+most/16+2*r.Most() {
							t.Errorf("%d bytes are held", held)
						}
						if n >= all {
							break
						}
					}
					h.Release()
				}
			})
		}
	}
	wg.Wait()
	if r.Held() != 0 || len(r.waiting) != 0 || r.beyond != nil {
		t.Errorf("%d bytes are held, %d parties wait", r.Held(), len(r.waiting))
	}
}
