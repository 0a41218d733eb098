package journal

import (
	"context"
	"fmt"

	"github.com/rowtrail/rowtrail/cluster"
	"github.com/rowtrail/rowtrail/log"
)

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

// OfReplica is the partition that a replica keeps.
func OfReplica(r *cluster.Replica) Partition {
	return Partition{Log: replica{r}, Trim: func(before int64) error {
		ctx, cancel := context.WithTimeout(context.Background(), appendTimeout)
		defer cancel()
		_, err := r.DeleteRecords(ctx, before)
		return err
	}}
}

type replica struct{ *cluster.Replica }

func (r replica) Marks() log.Marks               { return r.Log().Marks() }
func (r replica) Producers() []log.ProducerState { return r.Log().Producers() }

func (r replica) Read(offset int64, maxBytes int, minOne bool, iso log.Isolation) (log.ReadResult, error) {
	return r.Log().Read(offset, maxBytes, minOne, iso)
}
