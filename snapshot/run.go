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
	b := background{views: v, failed: map[fold]string{}}
	timer := time.NewTimer(0)
	defer timer.Stop()
	<-timer.C
	for ctx.Err() == nil {
		pause, err := b.turn(time.Now())
		if errors.Is(err, ErrClosed) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("run views: %w", err)
		}
		if pause == 0 {
			continue // there is nothing to rest from
		}
		timer.Reset(pause)
		select {
		case <-ctx.Done():
		case <-timer.C:
		}
	}
	return nil
}

// background does one bounded piece of work per turn, going round all partitions.
type background struct {
	views  *Views
	queue  []*partition
	busy   bool            // this round found something to do
	began  time.Time       // this round; zero: not yet
	failed map[fold]string // the error that was reported for it
	sweep  sweeper
}

// turn returns how long to rest after it. It has the database opened only where there is something to do.
func (b *background) turn(begin time.Time) (time.Duration, error) {
	if b.views.db.isClosed() {
		return 0, ErrClosed
	}
	if len(b.queue) == 0 {
		return b.endRound(begin)
	}
	if b.began.IsZero() {
		b.began = begin
	}
	next := b.queue[0]
	b.queue = b.queue[1:]
	worked, err := b.work(next)
	if errors.Is(err, ErrClosed) {
		return 0, err
	}
	b.report(fold{next.topic, next.number}, err)
	if worked {
		b.busy = true
		return rest(time.Since(begin)), nil
	}
	return 0, nil
}

// endRound buries a piece of what is dead. After a round that has found nothing to do it lets the database rest.
func (b *background) endRound(begin time.Time) (time.Duration, error) {
	if id, dead := b.views.nextDead(); dead {
		if err := b.views.enter(); err != nil {
			return 0, err
		}
		defer b.views.leave()
		if err := b.views.bury(id); err != nil {
			return 0, err
		}
		b.busy = true
	}
	if b.busy {
		b.refill()
		return rest(time.Since(begin)), nil
	}
	var looked time.Duration
	if !b.began.IsZero() {
		looked = begin.Sub(b.began)
	}
	b.refill()
	return idle(looked), b.views.db.rest(begin)
}

// rest is the pause that makes work take its share.
func rest(work time.Duration) time.Duration {
	return time.Duration(float64(work) * (1/backgroundShare - 1))
}

// idle is the pause after a round that took so long and found nothing to do.
func idle(looked time.Duration) time.Duration {
	return min(idleMost, max(idleInterval, time.Duration(float64(looked)/idleShare)))
}

func (b *background) refill() {
	b.busy, b.began = false, time.Time{}
	b.queue = append(b.queue, b.views.all()...)
}

func (b *background) work(p *partition) (worked bool, err error) {
	behind := p.behind() > 0
	if !behind && !b.sweep.takes(p) {
		return false, nil
	}
	if err := b.views.enter(); err != nil {
		return false, err
	}
	defer b.views.leave()
	if !behind {
		return b.sweep.step(b.views.db.DB, p)
	}
	_, err = p.step(b.views.db.DB, p.src.Marks().LastStable)
	if errors.Is(err, errOtherLog) {
		return true, b.views.replaceOther(p)
	}
	return err == nil, err
}

// report logs a partition's trouble when it changes. One that cannot be folded stops nothing else; its queries fail with
// the same error (invariant 7).
func (b *background) report(f fold, err error) {
	if errors.Is(err, errDropped) || errors.Is(err, ErrNotReady) {
		return
	}
	text := ""
	if err != nil {
		text = err.Error()
	}
	if b.failed[f] == text {
		return
	}
	if err == nil {
		delete(b.failed, f)
		b.views.logger.Info("view folds again", "topic", f.topic, "partition", f.partition)
		return
	}
	b.failed[f] = text
	b.views.logger.Warn("view cannot be folded", "topic", f.topic, "partition", f.partition, "error", err)
}
