package sink

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// settle brings to an end what has arrived, before a task waits for more.
func (t *task) settle(ctx context.Context) error {
	if !t.atBoundary() {
		return nil
	}
	if t.rows > 0 || time.Since(t.lastCommit) >= offsetsInterval {
		return t.commit(ctx)
	}
	// What the queues have passed since the last commit is nothing to apply, such as markers. It is no lag, though the
	// target learns of it later.
	for _, m := range t.mergers {
		for _, q := range m.dirty {
			if q.owner != nil {
				t.sink.lag.advance(partition{q.topic, q.partition}, q.next)
				t.groupDirty = true
			}
		}
	}
	return nil
}

// tend follows with the group's offsets, and looks after what blocks the merge.
func (t *task) tend(ctx context.Context) error {
	t.lastTend = time.Now()
	t.groupDirty = t.groupFailed.Swap(false) || t.groupDirty
	if t.groupDirty && time.Since(t.lastGroup) >= groupInterval {
		t.commitGroup(ctx)
	}
	t.sink.lag.observe(t.oldest())
	if t.atBoundary() {
		if err := t.sink.rediscover(ctx, t, false); err != nil {
			return err
		}
	}
	missing := false
	for _, m := range t.mergers {
		if m.missing != "" {
			missing = true
			if err := t.lookFor(ctx, m.missing); err != nil {
				return err
			}
		}
		if m.ask != nil {
			if err := t.setBarriers(ctx, m.ask); err != nil {
				return err
			}
		}
	}
	if !missing {
		t.missingSince = time.Time{}
	}
	if time.Since(t.progress) >= stallTimeout && !t.atBoundary() {
		return t.checkStall(ctx)
	}
	if t.held {
		return t.checkSchema(ctx)
	}
	return nil
}

// lookFor brings in a topic that a transaction names. A transaction is not applied without it (invariant 5).
func (t *task) lookFor(ctx context.Context, topic string) error {
	if t.missingSince.IsZero() {
		t.missingSince = time.Now()
	}
	if time.Since(t.missingSince) < missingTimeout {
		return t.sink.rediscover(ctx, t, true)
	}
	if _, ok := t.plan.data[topic]; ok && t.plan.data[topic] == "" {
		return recordErr(topic, 0, 0, fmt.Errorf("its records belong to source transactions, but no %s, %s and %s topics go with it",
			suffixTransaction, suffixSchema, suffixPosition))
	}
	return recordErr(topic, 0, 0, errors.New("a source transaction has events in this topic, but the log does not have it: "+
		"was it deleted? Take it out of the sink's topics, or let a sink of a new name load the target again"))
}

// setBarriers lets a truncate wait for all that was committed before it in its table.
func (t *task) setBarriers(ctx context.Context, ts *topicState) error {
	ends, err := t.sink.committedEnds(ctx, ts.name)
	if err != nil {
		return err
	}
	for _, q := range ts.queues {
		end, ok := ends[partition{q.topic, q.partition}]
		if !ok {
			return fmt.Errorf("list end of topic %s partition %d: no answer", q.topic, q.partition)
		}
		q.barrier = end
	}
	return nil
}

// checkStall tells a transaction that is late from one whose events are gone.
func (t *task) checkStall(ctx context.Context) error {
	for _, m := range t.mergers {
		if m.atBoundary() || len(m.waiting) == 0 || m.waiting[0].owner == nil {
			continue
		}
		ts := m.waiting[0].owner
		ends, err := t.sink.writtenEnds(ctx, ts.name)
		if err != nil {
			return err
		}
		read := true
		for _, q := range m.waiting {
			read = read && q.fetched >= ends[partition{q.topic, q.partition}]
		}
		if read {
			return t.judgeGap(ctx, m.gap(ts))
		}
	}
	t.progress = time.Now()
	return nil
}

// checkSchema fails when the schema topic was read to its end and does not have the version at hand. The connector writes it
// in the log transaction of the first record that uses it, so it is written by now, if perhaps not visible.
func (t *task) checkSchema(ctx context.Context) error {
	e := &t.next.entry
	topic := t.plan.data[e.rec.Topic] + suffixSchema
	book := t.books[topic]
	if book != nil {
		ends, err := t.sink.writtenEnds(ctx, topic)
		if err != nil {
			return err
		}
		if book.fetched < ends[partition{topic, 0}] || book.known[e.pos.Schema] != nil {
			return nil
		}
	}
	return recordErr(e.rec.Topic, e.rec.Partition, e.rec.Offset, fmt.Errorf("table version %016x is not in topic %s", e.pos.Schema, topic))
}

// commitGroup lets the group's offsets follow the target's, so that lag can be seen with any tool.
func (t *task) commitGroup(ctx context.Context) {
	t.groupDirty, t.lastGroup = false, time.Now()
	commit := make(map[string]map[int32]kgo.EpochOffset, len(t.plan.data))
	set := func(topic string, id int32, at int64) {
		if commit[topic] == nil {
			commit[topic] = make(map[int32]kgo.EpochOffset)
		}
		commit[topic][id] = kgo.EpochOffset{Epoch: -1, Offset: at}
	}
	t.sink.eachApplied(func(p partition, next int64) {
		if t.queues[p] != nil {
			set(p.topic, p.id, next)
		}
	})
	for topic, book := range t.books {
		set(topic, 0, book.fetched)
	}
	t.client.CommitOffsets(ctx, commit, func(_ *kgo.Client, _ *kmsg.OffsetCommitRequest, _ *kmsg.OffsetCommitResponse, err error) {
		t.groupFailed.Store(err != nil)
	})
}

// oldest is when the oldest record that is not committed was written.
func (t *task) oldest() time.Time {
	var oldest time.Time
	for _, q := range t.queues {
		if q.empty() || q.top().rec == nil {
			continue
		}
		if ts := q.top().rec.Timestamp; oldest.IsZero() || ts.Before(oldest) {
			oldest = ts
		}
	}
	return oldest
}

// fetchError sorts what a fetch reports. Invariant 7: offsets that the log no longer has stop the sink.
func fetchError(topic string, p int32, err error) error {
	var lost *kgo.ErrDataLoss
	switch {
	case errors.Is(err, kerr.OffsetOutOfRange):
		return recordErr(topic, p, 0, fmt.Errorf("the log no longer has the next record: retention passed this sink (%w); "+
			"load the target again with a sink of a new name after a new initial load, and raise retention.ms or retention.bytes", err))
	case errors.As(err, &lost):
		return recordErr(topic, p, lost.ConsumedTo, fmt.Errorf("the log lost records that this sink has read: %w", err))
	}
	return fmt.Errorf("fetch topic %s partition %d: %w", topic, p, err)
}
