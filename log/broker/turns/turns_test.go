package turns

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// bench has turns of parties taken in simulated time.
type bench struct {
	t     *testing.T
	order []string
	end   map[string]func() // of those inside
}

func (b *bench) enter(p *Party, name string) {
	go func() {
		leave, err := p.Enter(b.t.Context())
		if err != nil {
			return // the test is over
		}
		b.order = append(b.order, name)
		b.end[name] = leave
	}()
	synctest.Wait()
}

// leave ends the turn of the one that came in last.
func (b *bench) leave(after time.Duration) {
	time.Sleep(after)
	name := b.order[len(b.order)-1]
	b.end[name]()
	synctest.Wait()
}

func simulate(t *testing.T, f func(b *bench)) {
	synctest.Test(t, func(t *testing.T) { f(&bench{t: t, end: map[string]func(){}}) })
}

func (b *bench) want(order ...string) {
	b.t.Helper()
	if !slices.Equal(b.order, order) {
		b.t.Fatalf("admitted %q, want %q", b.order, order)
	}
}

func TestPartiesTakeTurns(t *testing.T) {
	simulate(t, func(b *bench) {
		g := New(time.Now, 1)
		many, one, other := g.Party(), g.Party(), g.Party()
		for i := range 4 {
			b.enter(many, fmt.Sprint("many ", i))
		}
		b.enter(one, "one 0")
		b.enter(other, "other 0")
		b.enter(other, "other 1")
		b.want("many 0")
		for range 6 {
			b.leave(time.Millisecond)
		}
		b.want("many 0", "one 0", "other 0", "many 1", "other 1", "many 2", "many 3")
		b.leave(time.Millisecond)
		b.enter(one, "one 1")
		b.want("many 0", "one 0", "other 0", "many 1", "other 1", "many 2", "many 3", "one 1")
	})
}

// Who takes long turns waits for those who take short ones, until it is forgotten.
func TestLongTurnsCount(t *testing.T) {
	simulate(t, func(b *bench) {
		g := New(time.Now, 1)
		long, short := g.Party(), g.Party()
		b.enter(long, "long 0")
		b.enter(long, "long 1")
		for i := range 3 {
			b.enter(short, fmt.Sprint("short ", i))
		}
		b.leave(time.Second)
		for range 3 {
			b.leave(time.Millisecond)
		}
		b.want("long 0", "short 0", "short 1", "short 2", "long 1")
		b.leave(time.Second)
		time.Sleep(20 * halfLife)
		b.enter(short, "short 3")
		b.enter(long, "long 2")
		b.enter(short, "short 4")
		b.leave(time.Millisecond)
		b.want("long 0", "short 0", "short 1", "short 2", "long 1", "short 3", "long 2")
	})
}

func TestWhoGivesUpIsPassedOver(t *testing.T) {
	simulate(t, func(b *bench) {
		g := New(time.Now, 1)
		p, q := g.Party(), g.Party()
		b.enter(p, "p")
		ctx, cancel := context.WithCancel(b.t.Context())
		gone := make(chan error, 1)
		go func() {
			leave, err := p.Enter(ctx)
			leave()
			gone <- err
		}()
		synctest.Wait()
		b.enter(q, "q")
		cancel()
		if err := <-gone; !errors.Is(err, context.Canceled) {
			t.Errorf("gave up: %v", err)
		}
		b.leave(0)
		b.want("p", "q")
		if g.waiting.Len() != 0 {
			t.Errorf("%d wait", g.waiting.Len())
		}
	})
}

// Whatever comes and gives up, no more are inside than may, and in the end all are free.
func TestGateUnderRandomUse(t *testing.T) {
	const most = 3
	g := New(time.Now, most)
	var inside atomic.Int32
	var wg sync.WaitGroup
	for range 8 {
		p := g.Party()
		for range 8 {
			wg.Go(func() {
				for range 50 {
					ctx, cancel := context.WithTimeout(t.Context(), time.Duration(rand.IntN(200))*time.Microsecond)
					if leave, err := p.Enter(ctx); err == nil {
						if n := inside.Add(1); n > most {
							t.Errorf("%d are inside", n)
						}
						time.Sleep(time.Duration(rand.IntN(50)) * time.Microsecond)
						inside.Add(-1)
						leave()
					}
					cancel()
				}
			})
		}
	}
	wg.Wait()
	if g.free != most || g.waiting.Len() != 0 {
		t.Errorf("%d are free, %d parties wait", g.free, g.waiting.Len())
	}
}
