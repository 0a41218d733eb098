package journal

import (
	"context"
	"fmt"

	"github.com/rowtrail/rowtrail/cluster"
	"github.com/rowtrail/rowtrail/log"
)

// sizes decide about a rollover.
type sizes struct {
	appended int64 // bytes appended or read since the last rollover began
	state    int64 // bytes of the state at that time
	running  bool
}

// load folds the partition from its start to its high watermark. A leader's high watermark covers everything
// that was ever acknowledged, because it leads only after its own first entry is applied.
func (j *Journal) load(ctx context.Context) error {
	_, epoch, self := j.opts.Log.Leader()
	if !self {
		return ErrNotLeader
	}
	j.refuse(ErrLoading)
	j.epoch, j.failed, j.size, j.staged, j.renew = epoch, nil, sizes{}, nil, false
	j.opts.Fold.Reset(epoch)
	marks := j.opts.Log.Marks()
	for at := marks.LogStart; at < marks.HighWatermark; {
		if err := ctx.Err(); err != nil {
			return err
		}
		next, err := j.loadFrom(at)
		if err != nil {
			return err
		}
		at = next
	}
	j.renumber()
	j.opts.Fold.Loaded(j.Now())
	j.serving.Store(nil)
	return nil
}

func (j *Journal) loadFrom(at int64) (next int64, err error) {
	res, err := j.opts.Log.Read(at, loadBytes, true, log.ReadUncommitted)
	if err != nil {
		return 0, fmt.Errorf("read %s at offset %d: %w", j.opts.Name, at, err)
	}
	if len(res.Batches) == 0 {
		return 0, fmt.Errorf("%w: %s has no batch at offset %d, below its high watermark %d: restore the data directory or delete the topic",
			ErrBroken, j.opts.Name, at, res.Marks.HighWatermark)
	}
	j.size.appended += int64(len(res.Batches))
	for src := res.Batches; len(src) > 0; {
		b, rest, err := decode(src)
		if err == nil && b.LastOffset < at {
			err = fmt.Errorf("it ends before offset %d, which it was read for", at)
		}
		if err == nil {
			err = j.opts.Fold.Apply(b)
		}
		if err != nil {
			return 0, fmt.Errorf("%w: %s, batch that holds offset %d: %w: restore the data directory or delete the topic",
				ErrBroken, j.opts.Name, at, err)
		}
		at = b.LastOffset + 1
		src = rest
	}
	return at, nil
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

// OfReplica is the partition that a replica keeps.
func OfReplica(r *cluster.Replica) Partition {
	return Partition{Log: replica{r}, Trim: func(before int64) error {
		_, err := r.Log().DeleteRecordsBefore(before)
		return err
	}}
}

type replica struct{ *cluster.Replica }

func (r replica) Marks() log.Marks               { return r.Log().Marks() }
func (r replica) Producers() []log.ProducerState { return r.Log().Producers() }

func (r replica) Read(offset int64, maxBytes int, minOne bool, iso log.Isolation) (log.ReadResult, error) {
	return r.Log().Read(offset, maxBytes, minOne, iso)
}
