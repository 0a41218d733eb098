package snapshot

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Run folds in the background, so that queries find little left to do. It takes a small share of one core: what cannot
// be folded in it is folded by the next query. Run returns nil when ctx ends.
func (v *Views) Run(ctx context.Context) error {
	b := background{views: v, failed: map[string]string{}}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		}
		pause, err := b.turn()
		if errors.Is(err, ErrClosed) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("run views: %w", err)
		}
		timer.Reset(pause)
	}
}

// background does one bounded piece of work per turn, going round all partitions.
type background struct {
	views  *Views
	queue  []work
	busy   bool              // this round found something to do
	failed map[string]string // topic -> the error that was reported for it
	sweep  sweeper
}

type work struct {
	t *topic
	p *partition
}

// turn returns how long to rest after it.
func (b *background) turn() (time.Duration, error) {
	if err := b.views.enter(); err != nil {
		return 0, err
	}
	defer b.views.leave()
	begin := time.Now()
	if len(b.queue) == 0 {
		more, err := b.views.bury()
		if err != nil {
			return 0, err
		}
		if !b.busy && !more {
			b.refill()
			return idleInterval, nil
		}
		b.refill()
		return rest(time.Since(begin)), nil
	}
	next := b.queue[0]
	b.queue = b.queue[1:]
	worked, err := b.work(next)
	b.report(next.t.name, err)
	if worked {
		b.busy = true
		return rest(time.Since(begin)), nil
	}
	return 0, nil
}

// rest is the pause that makes work take its share.
func rest(work time.Duration) time.Duration {
	return time.Duration(float64(work) * (1/backgroundShare - 1))
}

func (b *background) refill() {
	b.busy = false
	for _, t := range b.views.all() {
		for _, p := range t.parts {
			b.queue = append(b.queue, work{t, p})
		}
	}
}

func (b *background) work(w work) (worked bool, err error) {
	if w.p.behind() > 0 {
		_, err := w.p.step(b.views.db, w.p.src.Marks().LastStable)
		if errors.Is(err, errOtherLog) {
			return true, b.views.rebuildOther(w.t)
		}
		return err == nil, err
	}
	return b.sweep.step(b.views.db, w.p)
}

// report logs a topic's trouble when it changes. A view that cannot be folded stops nothing else; its queries fail with
// the same error (invariant 7).
func (b *background) report(topic string, err error) {
	if errors.Is(err, errDropped) || errors.Is(err, ErrNotReady) {
		return
	}
	text := ""
	if err != nil {
		text = err.Error()
	}
	if b.failed[topic] == text {
		return
	}
	if err == nil {
		delete(b.failed, topic)
		b.views.logger.Info("view folds again", "topic", topic)
		return
	}
	b.failed[topic] = text
	b.views.logger.Warn("view cannot be folded", "topic", topic, "error", err)
}
