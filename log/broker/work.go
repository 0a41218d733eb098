package broker

import (
	"context"
	"sync"
	"time"
)

// work measures what a request takes of this node's threads: the time that passes, without what the request waits: for
// records, for other members of its group, for a disk's or a quorum's acknowledgement, for room. Waits are named where they are, by
// pause.
type work struct {
	mu      sync.Mutex
	since   time.Time // of what is not in spent yet
	spent   time.Duration
	waiting int // pauses under way
}

// start begins with nothing.
func (w *work) start(now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.since, w.spent, w.waiting = now, 0, 0
}

// lap returns what was taken since start or the last lap.
func (w *work) lap() time.Duration { return w.lapAt(time.Now()) }

func (w *work) lapAt(now time.Time) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.count(now)
	spent := w.spent
	w.spent = 0
	return spent
}

func (w *work) count(now time.Time) {
	if w.waiting == 0 && !w.since.IsZero() {
		w.spent += max(now.Sub(w.since), 0)
	}
	w.since = now
}

// pause begins a wait, which ends with what it returns.
func (w *work) pause() (resume func()) {
	w.wait(time.Now(), 1)
	return func() { w.wait(time.Now(), -1) }
}

func (w *work) wait(now time.Time, more int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.count(now)
	w.waiting += more
}

type workKey struct{}

// withWork returns a context of requests whose work is measured.
func withWork(ctx context.Context, w *work) context.Context {
	return context.WithValue(ctx, workKey{}, w)
}

func workOf(ctx context.Context) *work {
	w, _ := ctx.Value(workKey{}).(*work)
	return w
}

// pause begins a wait of the request that ctx is of, if it is of one.
func pause(ctx context.Context) (resume func()) {
	if w := workOf(ctx); w != nil {
		return w.pause()
	}
	return func() {}
}

// whileCoordinating is a request's context for what is asked of coordinators: they answer also when its client is gone.
func (b *Broker) whileCoordinating(ctx context.Context) context.Context {
	return withWork(b.coordinating, workOf(ctx))
}
