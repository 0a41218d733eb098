package log

import "time"

// What stands for a segment that is full, where a topic's own segment settings are larger: history here has no files that
// would have to be closed first.
const (
	segmentBytes = 1 << 20
	segmentAge   = 10 * time.Minute
)

// runBytes is the size at which a round begins another run. A run in which nothing dies is not written again.
const (
	runBytes = 64 << 20
	// mergeFactor: a run of less than half of runBytes is joined to what follows when that is not smaller by more than this, so
	// that many rounds leave a number of runs that grows with the logarithm of their bytes.
	mergeFactor = 4
)

// extent is the part of the tail that a round may compact, from the horizon on.
type extent struct {
	h       horizon // where the tail starts behind it
	last    uint64  // index of its last batch; 0: there is none
	bytes   int64
	batches int64
	oldest  int64 // timestamp of the first batch
}

// extender finds the extent from the keys of the tail, in order.
type extender struct {
	extent
	applied  uint64
	stable   int64 // nothing of an undecided transaction, and nothing behind its first record
	hwm      int64
	youngest int64 // ms: a batch with a later timestamp is not old enough; with it ends the extent
}

// add reports whether there may be more.
func (x *extender) add(m *entryMeta) bool {
	switch {
	case m.index > x.applied:
		return false
	case m.typ != EntryBatch:
		return true
	case m.next() > x.stable || m.next() >= x.hwm || m.maxTs > x.youngest:
		return false // the newest batch stays in the tail
	}
	if x.batches == 0 {
		x.oldest = m.maxTs
	}
	x.h.first, x.h.prevTerm, x.h.base = m.index+1, m.term, m.next()
	x.last = m.index
	x.bytes += int64(m.size)
	x.batches++
	return true
}

// dirt is what decides whether compaction of a partition is due.
type dirt struct {
	compacted int64 // bytes of the runs
	dirty     int64 // bytes that a round would compact for the first time
	oldest    int64 // ms: timestamp of the first of them
	expired   int64 // bytes of batches with tombstones or markers whose time is over
}

// ratio is the share of bytes that are not compacted yet.
func (d *dirt) ratio() float64 {
	if d.dirty == 0 {
		return 0
	}
	return float64(d.dirty) / float64(d.dirty+d.compacted)
}

// due says why a round is due, or "".
func (d *dirt) due(c *Config, now time.Time) string {
	ms := now.UnixMilli()
	if d.dirty > 0 {
		full := min(orDefault(c.SegmentBytes, segmentBytes), segmentBytes)
		age := min(orDefault(c.SegmentMs, segmentAge.Milliseconds()), segmentAge.Milliseconds())
		switch {
		case c.MaxCompactionLagMs > 0 && d.oldest <= ms-c.MaxCompactionLagMs: // a timestamp may be any number, so it is not subtracted
			return "a record is older than max.compaction.lag.ms"
		case d.ratio() >= c.MinDirtyRatio && (d.dirty >= full || d.oldest <= ms-age):
			return "min.cleanable.dirty.ratio is reached"
		}
	}
	if d.expired > 0 && float64(d.expired) >= c.MinDirtyRatio*float64(d.compacted+d.dirty) {
		return "tombstones have expired"
	}
	return ""
}

func orDefault(n, otherwise int64) int64 {
	if n <= 0 {
		return otherwise
	}
	return n
}

// expiredBytes is how much of the runs holds tombstones and markers that were first seen ready at or before a time.
func (m *manifest) expiredBytes(at int64) (n int64) {
	for i := range m.runs {
		if r := &m.runs[i]; r.mortal > 0 && r.clean <= at {
			n += r.mortal
		}
	}
	return n
}

// joins reports that a small run is written again, together with the following bytes that come to lie in one run.
func (r *run) joins(following int64) bool {
	return r.bytes < runBytes/2 && following > 0 && r.bytes <= mergeFactor*following
}

// throttle bounds what compaction takes of the disk and of the processor.
type throttle struct {
	rate  int64   // bytes per second, read and written
	share float64 // of one core
}

// pause is how long to rest after work of that many bytes that took busy.
func (t *throttle) pause(bytes int64, busy time.Duration) time.Duration {
	var rest time.Duration
	if t.rate > 0 {
		rest = time.Duration(float64(bytes)/float64(t.rate)*float64(time.Second)) - busy
	}
	if t.share > 0 && t.share < 1 {
		rest = max(rest, time.Duration(float64(busy)*(1/t.share-1)))
	}
	return max(rest, 0)
}
