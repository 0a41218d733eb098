package sink

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Offsets mean something in one log only. The target keeps with each of them which log it belongs to: the topic's id, which
// is new when a topic is made anew, or for want of one the cluster's id.

// Kinds of what stands in Offset.Log before the colon.
const (
	originTopic   = "topic"
	originCluster = "cluster"
)

// origins are the ids that the log has now; an empty one is not known.
type origins struct {
	cluster string
	topics  map[string]string
}

// logOrigins asks the log, not what the client remembers of it.
func (r *Runner) logOrigins(ctx context.Context) (origins, error) {
	resp, err := kmsg.NewPtrMetadataRequest().RequestWith(ctx, r.client)
	if err != nil {
		return origins{}, fmt.Errorf("ask the log for its topics' ids: %w", err)
	}
	o := origins{topics: make(map[string]string, len(resp.Topics))}
	if resp.ClusterID != nil {
		o.cluster = *resp.ClusterID
	}
	for i := range resp.Topics {
		t := &resp.Topics[i]
		if id := kadm.TopicID(t.TopicID); t.Topic != nil && id != (kadm.TopicID{}) {
			o.topics[*t.Topic] = id.String()
		}
	}
	return o, nil
}

// of is what to store with a topic's offsets; "" when the log tells nothing.
func (o origins) of(topic string) string {
	switch id := o.topics[topic]; {
	case id != "":
		return originTopic + ":" + id
	case o.cluster != "":
		return originCluster + ":" + o.cluster
	}
	return ""
}

// check refuses offsets of another log. Invariant 7: read on at them, the sink would leave out what the new log has before
// them and mix the rest with what the target has of the old one.
func (o origins) check(stored Offset) error {
	kind, was, _ := strings.Cut(stored.Log, ":")
	now := ""
	switch kind {
	case originTopic:
		now = o.topics[stored.Topic]
	case originCluster:
		now = o.cluster
	}
	if now == "" || now == was {
		return nil
	}
	return recordErr(stored.Topic, stored.Partition, stored.Next, fmt.Errorf(
		"the target's offsets are of another log (%s id %s, it is %s now): the topic or the log's data directory was deleted and made "+
			"anew, or the sink was pointed at another cluster. Nothing was applied; bring the old log back, or let a sink of a new name "+
			"load empty tables", kind, was, now))
}

// checkAll checks all offsets of the target, in a fixed order.
func (o origins) checkAll(offsets []Offset) error {
	offsets = slices.Clone(offsets)
	slices.SortFunc(offsets, func(a, b Offset) int {
		if c := strings.Compare(a.Topic, b.Topic); c != 0 {
			return c
		}
		return int(a.Partition - b.Partition)
	})
	for _, stored := range offsets {
		if err := o.check(stored); err != nil {
			return err
		}
	}
	return nil
}

// startError is what stands in the way before anything was applied: no record of a batch is to blame.
type startError struct{ err error }

func (e *startError) Error() string { return e.err.Error() }
func (e *startError) Unwrap() error { return e.err }

// stamped is a session that stores with each offset the log that it belongs to.
type stamped struct {
	Session
	inbox *inbox
}

func (s stamped) Commit(ctx context.Context, offsets []Offset) error {
	s.inbox.stamp(offsets)
	return s.Session.Commit(ctx, offsets)
}

func (b *inbox) stamp(offsets []Offset) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range offsets {
		o := &offsets[i]
		if o.Log = b.origins.of(o.Topic); o.Log == "" {
			o.Log = b.starts.stored[partition{o.Topic, o.Partition}].Log
		}
	}
}
