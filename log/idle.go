package log

import (
	"cmp"
	"slices"
	"time"
)

const (
	// producerIdle is how long a producer without an open transaction is remembered after its last batch.
	producerIdle = 24 * time.Hour
	// maxProducers bounds a partition's producers (invariant 9): beyond it the longest idle are forgotten first.
	maxProducers = 16 << 10
	sweepEvery   = 10 * time.Minute
)

// idleProducers knows since when each producer has been idle. It counts from when this process saw the batch, not by
// the batch's timestamp, which is the client's to choose; a restart starts the count again. Forgetting is on top of
// the fold: a rebuild from the log may know more producers than the partition did.
type idleProducers struct {
	active map[int64]struct{} // seen since the last sweep
	since  map[int64]time.Time
	swept  time.Time
}

func (s *idleProducers) seen(id int64) {
	if s.active == nil {
		s.active = map[int64]struct{}{}
	}
	s.active[id] = struct{}{}
}

// sweep forgets producers that have been idle for too long, and the idlest of too many; never one with an open
// transaction or with batches that are not applied yet.
func (s *idleProducers) sweep(now time.Time, t producerTable, ahead map[int64]*aheadProducer) {
	if now.Sub(s.swept) < sweepEvery && len(t) <= maxProducers {
		return
	}
	s.swept = now
	if s.since == nil {
		s.since = map[int64]time.Time{}
	}
	for id, p := range t {
		_, active := s.active[id]
		from, known := s.since[id]
		switch {
		case active || !known || p.txnFirst >= 0 || ahead[id] != nil:
			s.since[id] = now
		case now.Sub(from) >= producerIdle:
			s.forget(t, id)
		}
	}
	clear(s.active)
	if len(t) <= maxProducers {
		return
	}
	all := t.sorted()
	slices.SortFunc(all, func(a, b *producer) int { return cmp.Compare(a.lastOffset, b.lastOffset) })
	// An eighth more than needed goes, so that this is rare.
	for _, p := range all {
		if len(t) <= maxProducers-maxProducers/8 {
			return
		}
		if p.txnFirst < 0 && ahead[p.id] == nil {
			s.forget(t, p.id)
		}
	}
}

func (s *idleProducers) forget(t producerTable, id int64) {
	delete(t, id)
	delete(s.since, id)
}
