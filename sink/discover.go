package sink

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// discoverInterval is how often new topics and partitions are looked for.
const discoverInterval = time.Second

// discover reads which topics there are.
func (r *Runner) discover(ctx context.Context) (plan, error) {
	details, err := r.admin.ListTopics(ctx)
	if err != nil {
		return plan{}, fmt.Errorf("list topics: %w", err)
	}
	pl := makePlan(r.settings.Topics, details.Names())
	pl.ids = make(map[string]kadm.TopicID, len(details))
	for name, d := range details {
		pl.ids[name] = d.ID
	}
	r.mu.Lock()
	r.plan = pl
	r.status.Topics = pl.dataTopics()
	r.lookedAt = time.Now()
	r.mu.Unlock()
	return pl, nil
}

func (r *Runner) currentPlan() plan {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.plan
}

// rediscover picks up new topics while a task runs: at intervals, or at once (but not in a tight loop) when one is missing.
func (r *Runner) rediscover(ctx context.Context, t *task, urgent bool) error {
	r.mu.Lock()
	age := time.Since(r.lookedAt)
	r.mu.Unlock()
	if age < discoverInterval && (!urgent || age < discoverInterval/2) {
		return nil
	}
	pl, err := r.discover(ctx)
	if err != nil {
		return err
	}
	for topic, prefix := range t.plan.data {
		now, ok := pl.data[topic]
		if !ok {
			continue // deleted: fetching it tells
		}
		if now != prefix || pl.ids[topic] != t.plan.ids[topic] { // made anew: the start over refuses it
			return errReplan
		}
	}
	if maps.Equal(pl.data, t.plan.data) && slices.Equal(pl.prefixes, t.plan.prefixes) {
		return nil
	}
	t.plan = pl
	t.client.AddConsumeTopics(pl.topics()...)
	r.log.Info("topics changed", "topics", pl.dataTopics())
	return nil
}

// logBounds reads the first and the last offset of partitions.
func (r *Runner) logBounds(ctx context.Context, topics []string) (map[partition]bounds, error) {
	starts, err := r.admin.ListStartOffsets(ctx, topics...)
	if err == nil {
		err = starts.Error()
	}
	if err != nil {
		return nil, fmt.Errorf("list first offsets: %w", err)
	}
	ends, err := r.admin.ListEndOffsets(ctx, topics...)
	if err == nil {
		err = ends.Error()
	}
	if err != nil {
		return nil, fmt.Errorf("list last offsets: %w", err)
	}
	out := make(map[partition]bounds)
	starts.Each(func(o kadm.ListedOffset) {
		end, ok := ends.Lookup(o.Topic, o.Partition)
		if ok {
			out[partition{o.Topic, o.Partition}] = bounds{o.Offset, end.Offset}
		}
	})
	return out, nil
}

// partitionsOf asks how many partitions a topic has. The answer is never one that the client remembers.
func (r *Runner) partitionsOf(ctx context.Context, topic string) (int, error) {
	req := kmsg.NewPtrMetadataRequest()
	rt := kmsg.NewMetadataRequestTopic()
	rt.Topic = kmsg.StringPtr(topic)
	req.Topics = append(req.Topics, rt)
	resp, err := req.RequestWith(ctx, r.client)
	if err == nil && len(resp.Topics) == 1 {
		err = kerr.ErrorForCode(resp.Topics[0].ErrorCode)
	}
	if err != nil {
		return 0, fmt.Errorf("count the partitions of topic %s: %w", topic, err)
	}
	n := 0
	for i := range resp.Topics {
		n += len(resp.Topics[i].Partitions)
	}
	return n, nil
}

// committedEnds reads where the part of each partition that a reader sees ends.
func (r *Runner) committedEnds(ctx context.Context, topics ...string) (map[partition]int64, error) {
	ends, err := r.admin.ListCommittedOffsets(ctx, topics...)
	return endsOf(ends, err)
}

// writtenEnds reads where each partition ends, with what is not visible yet: the partitions of one log transaction become
// visible one after the other, so what is in sight in one may still be out of sight in another.
func (r *Runner) writtenEnds(ctx context.Context, topics ...string) (map[partition]int64, error) {
	ends, err := r.admin.ListEndOffsets(ctx, topics...)
	return endsOf(ends, err)
}

func endsOf(ends kadm.ListedOffsets, err error) (map[partition]int64, error) {
	if err == nil {
		err = ends.Error()
	}
	if err != nil {
		return nil, fmt.Errorf("list ends of topics: %w", err)
	}
	out := make(map[partition]int64)
	ends.Each(func(o kadm.ListedOffset) { out[partition{o.Topic, o.Partition}] = o.Offset })
	return out, nil
}
