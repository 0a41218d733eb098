package sink

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
)

// lagInterval is how often the ends of the log are read.
const lagInterval = 2 * time.Second

// extent is what the log has of a partition: the offsets that a reader sees, and the bytes that they take.
type extent struct {
	bounds
	bytes int64
}

// lagMeter compares what the log has with what the target has. It works on while the target is down.
type lagMeter struct {
	mu     sync.Mutex
	next   map[partition]int64 // nil: not known yet
	log    map[partition]extent
	oldest time.Time // of the records at hand
	behind time.Time // since when there has been lag; zero when there is none
}

// begin takes over the offsets of the target.
func (l *lagMeter) begin(s *starts) {
	next := make(map[partition]int64, len(s.stored))
	for p, o := range s.stored {
		next[p] = o.Next
	}
	l.mu.Lock()
	l.next = next
	l.mu.Unlock()
}

// assume takes the group's offsets for the target's, which they follow, until the target has been asked.
func (l *lagMeter) assume(next map[partition]int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.next == nil {
		l.next = next
	}
}

func (l *lagMeter) begun() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.next != nil
}

// advance notes that nothing before next is left to apply.
func (l *lagMeter) advance(p partition, next int64) {
	l.mu.Lock()
	l.next[p] = next
	l.mu.Unlock()
}

// observe notes the oldest record that is fetched and not applied; the zero time when there is none.
func (l *lagMeter) observe(oldest time.Time) {
	l.mu.Lock()
	l.oldest = oldest
	l.mu.Unlock()
}

// update takes what the log has now.
func (l *lagMeter) update(log map[partition]extent, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.log = log
	if events, _ := l.sum(); events > 0 && l.behind.IsZero() {
		l.behind = now
	}
}

// sum adds up the records that are not applied, and their share of their partitions' bytes. With none, the lag ends.
func (l *lagMeter) sum() (events, bytes int64) {
	for p, e := range l.log {
		n := max(e.end-max(l.next[p], e.start), 0)
		events += n
		if total := e.end - e.start; total > 0 {
			bytes += int64(float64(e.bytes) * float64(n) / float64(total))
		}
	}
	if events == 0 {
		l.behind = time.Time{}
	}
	return events, bytes
}

// read computes the lag: records, their bytes, and the age of the oldest in seconds, or for want of that record how long
// there has been lag.
func (l *lagMeter) read(now time.Time) (events, bytes int64, seconds float64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	events, bytes = l.sum()
	since := l.behind
	if !l.oldest.IsZero() {
		since = l.oldest
	}
	if events == 0 || since.IsZero() {
		return events, bytes, 0
	}
	return events, bytes, max(now.Sub(since).Seconds(), 0)
}

// eachApplied calls fn with every offset that the target has.
func (r *Runner) eachApplied(fn func(p partition, next int64)) {
	r.lag.mu.Lock()
	defer r.lag.mu.Unlock()
	for p, next := range r.lag.next {
		fn(p, next)
	}
}

// watchLag reads the log's extent at intervals. It fails quietly: the task tells what is wrong with the log.
func (r *Runner) watchLag(ctx context.Context) {
	ticker := time.NewTicker(lagInterval)
	defer ticker.Stop()
	for {
		if topics := r.currentPlan().dataTopics(); len(topics) > 0 {
			if log, err := r.logExtent(ctx, topics); err == nil {
				r.lag.update(log, time.Now())
			}
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

// logExtent reads what a reader sees of topics.
func (r *Runner) logExtent(ctx context.Context, topics []string) (map[partition]extent, error) {
	if !r.lag.begun() {
		group, err := r.admin.FetchOffsets(ctx, r.groupName())
		if err != nil {
			return nil, fmt.Errorf("read the group's offsets: %w", err)
		}
		next := make(map[partition]int64)
		group.Each(func(o kadm.OffsetResponse) { next[partition{o.Topic, o.Partition}] = o.At })
		r.lag.assume(next)
	}
	all, err := r.logBounds(ctx, topics)
	if err != nil {
		return nil, err
	}
	seen, err := r.committedEnds(ctx, topics...)
	if err != nil {
		return nil, err
	}
	log := make(map[partition]extent, len(all))
	set := make(kadm.TopicsSet)
	for p, b := range all {
		b.end = seen[p]
		log[p] = extent{bounds: b}
		set.Add(p.topic, p.id)
	}
	dirs, err := r.admin.DescribeAllLogDirs(ctx, set)
	if err != nil {
		return log, nil //nolint:nilerr // a cluster that does not tell sizes: the lag has no bytes
	}
	dirs.Each(func(d kadm.DescribedLogDir) {
		d.Topics.Each(func(dp kadm.DescribedLogDirPartition) {
			p := partition{dp.Topic, dp.Partition}
			if e, ok := log[p]; ok && !dp.IsFuture {
				e.bytes = max(e.bytes, dp.Size) // of its replicas
				log[p] = e
			}
		})
	})
	return log, nil
}
