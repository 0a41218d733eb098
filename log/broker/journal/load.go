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
	at, err := j.loadTo(ctx, marks.LogStart, marks.HighWatermark)
	if err != nil {
		return err
	}
	// From here on the fold is told through Do of what others append, which are markers; those before are read. One may come both ways.
	j.served.Store(epoch)
	j.serving.Store(nil)
	if _, err := j.loadTo(ctx, at, j.opts.Log.Marks().HighWatermark); err != nil {
		return err
	}
	j.renumber()
	if _, now, self := j.opts.Log.Leader(); !self || now != epoch {
		return ErrNotLeader // what was read meanwhile may be another replica's
	}
	j.opts.Fold.Loaded(j.Now())
	return nil
}

func (j *Journal) loadTo(ctx context.Context, at, end int64) (int64, error) {
	for at < end {
		if err := ctx.Err(); err != nil {
			return at, err
		}
		next, err := j.loadFrom(at)
		if err != nil {
			return at, err
		}
		at = next
	}
	return at, nil
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

// At is a partition of the cluster. Its replica on this node may come and go: without one this node does not lead.
func At(node *cluster.Node, tp TopicPartition) Partition {
	p := placed{node, tp}
	return Partition{Log: p, Trim: func(before int64) error {
		r, err := p.replica()
		if err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(context.Background(), appendTimeout)
		defer cancel()
		_, err = r.DeleteRecords(ctx, before)
		return err
	}}
}

// placed looks its replica up each time. What is read from two replicas, one after the other, is never served: they cannot both lead in
// one epoch.
type placed struct {
	node *cluster.Node
	at   TopicPartition
}

func (p placed) replica() (*cluster.Replica, error) {
	return p.node.Replica(p.at.Topic, p.at.Partition)
}

func (p placed) Leader() (node, epoch int32, self bool) {
	r, err := p.replica()
	if err != nil {
		return -1, -1, false
	}
	return r.Leader()
}

func (p placed) Marks() log.Marks {
	r, err := p.replica()
	if err != nil {
		return log.Marks{}
	}
	return r.Log().Marks()
}

func (p placed) Producers() []log.ProducerState {
	r, err := p.replica()
	if err != nil {
		return nil
	}
	return r.Log().Producers()
}

func (p placed) Read(offset int64, maxBytes int, minOne bool, iso log.Isolation) (log.ReadResult, error) {
	r, err := p.replica()
	if err != nil {
		return log.ReadResult{}, err
	}
	return r.Log().Read(offset, maxBytes, minOne, iso)
}

func (p placed) Append(ctx context.Context, epoch int32, batch []byte, done func(cluster.AppendResult)) {
	r, err := p.replica()
	if err != nil {
		done(cluster.AppendResult{BaseOffset: -1, Err: err})
		return
	}
	r.AppendIn(ctx, epoch, batch, -1, done)
}
