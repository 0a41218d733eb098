package sink

import (
	"context"
	"sync"
	"time"
)

// lagInterval is how often the ends of the log are read.
const lagInterval = 3 * time.Second

// lagMeter compares the log's ends with what the target has. It works on while the target is down.
type lagMeter struct {
	mu     sync.Mutex
	next   map[partition]int64
	ends   map[partition]int64
	rows   int64
	bytes  int64
	oldest time.Time // of the records at hand
	behind time.Time // since when there has been lag, for want of a record at hand
}

// begin takes over the offsets of the target.
func (l *lagMeter) begin(s *starts) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.next = make(map[partition]int64, len(s.stored))
	for p, o := range s.stored {
		l.next[p] = o.Next
	}
}

func (l *lagMeter) applied(rows, bytes int, offsets []Offset) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rows += int64(rows)
	l.bytes += int64(bytes)
	for _, o := range offsets {
		l.next[partition{o.Topic, o.Partition}] = o.Next
	}
}

// observe notes the oldest record that is fetched and not applied; the zero time when there is none.
func (l *lagMeter) observe(oldest time.Time) {
	l.mu.Lock()
	l.oldest = oldest
	l.mu.Unlock()
}

// read computes the lag: records, their estimated bytes, and the age of the oldest in seconds.
func (l *lagMeter) read(now time.Time) (events, bytes int64, seconds float64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for p, end := range l.ends {
		events += max(end-l.next[p], 0)
	}
	if events == 0 {
		l.behind = time.Time{}
		return 0, 0, 0
	}
	if l.behind.IsZero() {
		l.behind = now
	}
	since := l.behind
	if !l.oldest.IsZero() && l.oldest.Before(since) {
		since = l.oldest
	}
	if l.rows > 0 {
		bytes = events * (l.bytes / l.rows)
	}
	return events, bytes, max(now.Sub(since).Seconds(), 0)
}

func (l *lagMeter) set(ends map[partition]int64) {
	l.mu.Lock()
	l.ends = ends
	l.mu.Unlock()
}

// eachApplied calls fn with every offset that the target has.
func (r *Runner) eachApplied(fn func(p partition, next int64)) {
	r.lag.mu.Lock()
	defer r.lag.mu.Unlock()
	for p, next := range r.lag.next {
		fn(p, next)
	}
}

// observe passes on what the task has at hand.
func (r *Runner) observe(oldest time.Time) { r.lag.observe(oldest) }

// watchLag reads the log's ends at intervals. It fails quietly: the task tells what is wrong with the log.
func (r *Runner) watchLag(ctx context.Context) {
	ticker := time.NewTicker(lagInterval)
	defer ticker.Stop()
	for {
		if topics := r.currentPlan().dataTopics(); len(topics) > 0 {
			if ends, err := r.committedEnds(ctx, topics...); err == nil {
				r.lag.set(ends)
			}
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}
