package pace

import (
	"context"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rowtrail/rowtrail/log/sleep"
)

const (
	// interval is how often the rate is decided anew.
	interval = 250 * time.Millisecond
	// forgotten: after so long without a reader of history nothing of before holds the next one.
	forgotten = 2 * time.Second
	// maxWait bounds how long one read waits. What is owed beyond it stays owed, so many readers cannot get more than one read
	// each in this time.
	maxWait = 5 * time.Second
)

// Pacer holds the readers of history of one node to a rate. It has no goroutine: whoever reads measures.
type Pacer struct {
	now      func() time.Time
	cpu      func() (busy, all float64)
	produced atomic.Int64 // bytes

	free atomic.Int64 // Unix nanoseconds. Invariant: what was read is paid for by then

	mu        sync.Mutex
	rate      float64
	held      atomic.Bool // rate is finite
	wrote     time.Time   // when producers were last found not to be quiet
	read      int64       // bytes of history since measured
	measured  time.Time
	producedM int64 // produced when measured
	busyM     float64
	allM      float64
}

// New returns a Pacer. cpu tells the machine's CPU time so far, how much of it was spent and all; all 0: not known.
func New(now func() time.Time, cpu func() (busy, all float64)) *Pacer {
	return &Pacer{now: now, cpu: cpu, rate: math.Inf(1)}
}

// Produced counts bytes that a producer wrote.
func (p *Pacer) Produced(n int) { p.produced.Add(int64(n)) }

// Read counts bytes of history that were read; the next read of history waits for them.
func (p *Pacer) Read(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.now()
	p.measure(now)
	p.read += int64(n)
	if !math.IsInf(p.rate, 1) {
		p.free.Store(max(p.free.Load(), now.UnixNano()) + int64(float64(n)/p.rate*float64(time.Second)))
	}
}

// Held says whether readers of history are held to a rate.
func (p *Pacer) Held() bool { return p.held.Load() }

// Due is how long the next read of history is to wait. It costs next to nothing where no reader is held.
func (p *Pacer) Due() time.Duration {
	now := p.now()
	if p.free.Load() <= now.UnixNano() {
		return 0
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.measure(now)
	return min(max(time.Duration(p.free.Load()-now.UnixNano()), 0), maxWait)
}

// Wait waits until history may be read. Producers that fall quiet meanwhile end the wait.
func (p *Pacer) Wait(ctx context.Context) error {
	for end := p.now().Add(maxWait); ; {
		due := min(p.Due(), end.Sub(p.now()))
		if due <= 0 {
			return nil
		}
		if !sleep.For(ctx, min(due, interval)) {
			return ctx.Err()
		}
	}
}

// measure decides the rate when its interval is over.
func (p *Pacer) measure(now time.Time) {
	span := now.Sub(p.measured)
	if span < interval {
		return
	}
	produced := p.produced.Load()
	busy, all := p.cpu()
	if span < forgotten {
		l := Load{Produced: float64(produced-p.producedM) / span.Seconds(), Read: float64(p.read) / span.Seconds(), Idle: -1}
		if all > p.allM {
			l.Idle = 1 - (busy-p.busyM)/(all-p.allM)
		}
		if l.Produced > quiet {
			p.wrote = now
		}
		l.Quiet = now.Sub(p.wrote)
		p.rate = Next(p.rate, l)
	} else {
		p.rate = math.Inf(1)
	}
	p.held.Store(!math.IsInf(p.rate, 1))
	if !p.held.Load() {
		p.free.Store(now.UnixNano())
	}
	p.measured, p.read, p.producedM, p.busyM, p.allM = now, 0, produced, busy, all
}
