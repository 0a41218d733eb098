package sink

import (
	"context"
	"errors"
	"fmt"
	"time"
)

const (
	// gapInterval is how often a topic's partitions are counted while an event may be in one that is not read yet.
	gapInterval = 100 * time.Millisecond
	// assignTimeout is how long partitions that were added may take to be assigned, before the sink starts over.
	assignTimeout = 30 * time.Second
)

// gapError says that an event of a transaction is in none of a table's partitions that are read.
type gapError struct {
	error
	topic *topicState
}

func (e *gapError) Unwrap() error { return e.error }

// gap describes a transaction whose events are not all there.
func (m *merger) gap(t *topicState) error {
	for _, q := range t.queues {
		if q.empty() || q.top().kind != entryRow || q.top().pos.Commit >= m.cur.commit {
			continue
		}
		e := q.top() // what hides the event
		return recordErr(q.topic, q.partition, e.offset, fmt.Errorf(
			"it is an event of source transaction %s, which %s does not have, though %s after it is there: the log shows part of a "+
				"transaction that was aborted, or the transaction topic was cut; load the target again with a sink of a new name after "+
				"a new initial load", numbered(e.pos.Commit), m.ends.topic, &m.cur))
	}
	return &gapError{topic: t, error: recordErr(m.ends.topic, 0, m.cur.offset, fmt.Errorf(
		"event %d of table topic %s in source transaction %s is not in the log (deleted or compacted): the transaction cannot be "+
			"applied whole; load the target again with a sink of a new name after a new initial load", t.next, t.name, &m.cur))}
}

// judgeGap looks behind an error of a merge: nil where it is no gap yet, because the table's topic has partitions that were added
// and are not read yet, and the event may be in one of them.
func (t *task) judgeGap(ctx context.Context, err error) error {
	var gap *gapError
	if !errors.As(err, &gap) {
		return err
	}
	if !t.gapSince.IsZero() && time.Since(t.gapAsked) < gapInterval {
		return nil
	}
	there, listErr := t.sink.partitionsOf(ctx, gap.topic.name)
	if listErr != nil {
		return listErr
	}
	t.gapAsked = time.Now()
	switch {
	case there <= len(gap.topic.queues):
		return err
	case t.gapSince.IsZero():
		t.gapSince = t.gapAsked
		t.client.ForceMetadataRefresh() // by which the group learns of them
	case time.Since(t.gapSince) >= assignTimeout:
		return fmt.Errorf("topic %s has %d partitions, and %d are assigned to this sink", gap.topic.name, there, len(gap.topic.queues))
	}
	return nil
}
