package journal

import (
	"context"
	"time"
)

// sizes decide about a rollover.
type sizes struct {
	appended int64 // bytes appended or read since the last rollover began
	state    int64 // bytes of the state at that time
	running  bool
}

// hold does what needs all appends settled, and reports whether requests must wait for that. They wait maxHold at
// most: a log that stalls must not stall what only reads, such as heartbeats.
func (j *Journal) hold(ctx context.Context) bool {
	if j.inflight == 0 {
		j.holdUntil, j.renew = time.Time{}, false
		j.renumber()
		if j.rolloverDue() {
			j.rollover(ctx)
		}
		return false
	}
	switch now := time.Now(); {
	case now.Before(j.holdAfter):
		return false
	case j.holdUntil.IsZero():
		j.holdUntil = now.Add(maxHold)
		return true
	case now.Before(j.holdUntil):
		return true
	default:
		j.holdUntil, j.holdAfter = time.Time{}, now.Add(retryHold)
		return false
	}
}

// rolloverDue: the log has grown by far more than the state is worth.
func (j *Journal) rolloverDue() bool {
	return j.opts.Trim != nil && !j.size.running && j.size.appended >= j.opts.RolloverBytes+4*j.size.state
}

// rollover appends the whole state once more and deletes what lies before the copy when the copy is committed.
// Nothing else may be on its way: what is not yet in the state would be overwritten by the copy.
func (j *Journal) rollover(ctx context.Context) {
	var batches []staged
	cur := staged{strict: true}
	state := int64(0)
	j.opts.Fold.State(func(r Record) {
		n := len(r.Key) + len(r.Value) + recordOverhead
		state += int64(n)
		if cur.bytes > 0 && cur.bytes+n > maxBatchBytes {
			batches = append(batches, cur)
			cur = staged{strict: true}
		}
		cur.records = append(cur.records, r)
		cur.bytes += n
	})
	j.size = sizes{state: state, running: true}
	if cur.bytes > 0 {
		batches = append(batches, cur)
	}
	if len(batches) == 0 {
		// Nothing is worth keeping: everything that is committed may go.
		marks := j.opts.Log.Marks()
		j.trim(min(marks.LastStable, marks.HighWatermark))
		return
	}
	first, left := int64(-1), len(batches)
	for _, s := range batches {
		s.then = append(s.then, func(base int64, err error) {
			if first < 0 {
				first = base
			}
			if left--; left == 0 && err == nil && j.failed == nil {
				j.trim(min(first, j.opts.Log.Marks().LastStable))
			}
		})
		j.append(ctx, s)
	}
}

func (j *Journal) trim(before int64) {
	j.size.running = false
	if err := j.opts.Trim(before); err != nil {
		j.opts.Logger.Warn("cannot shorten a coordinator's log", "journal", j.opts.Name, "error", err)
	}
}
