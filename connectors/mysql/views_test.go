package mysql

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/rowtrail/rowtrail/connectors"
	"github.com/rowtrail/rowtrail/connectors/event"
)

// views are the simplest state of a log: all of it is read and kept.
type views struct {
	opts []kgo.Opt

	mu     sync.Mutex
	topics map[string]*viewedTopic
	asked  int // questions
	keys   int // that were asked for
}

type viewedTopic struct {
	next map[int32]int64
	rows map[string]*kgo.Record
}

func newViews(opts []kgo.Opt) *views { return &views{opts: opts, topics: map[string]*viewedTopic{}} }

// fold reads what has come.
func (v *views) fold(ctx context.Context, topic string, committed connectors.Committed) (*viewedTopic, error) {
	cl, err := kgo.NewClient(append(append([]kgo.Opt{}, v.opts...), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords())...)
	if err != nil {
		return nil, err
	}
	defer cl.Close()
	ends, err := kadm.NewClient(cl).ListCommittedOffsets(ctx, topic)
	if err != nil {
		return nil, err
	}
	t := v.topics[topic]
	left := map[int32]int64{}
	ends.Each(func(o kadm.ListedOffset) {
		switch {
		case errors.Is(o.Err, kerr.UnknownTopicOrPartition):
			t = nil
		case o.Err != nil:
			err = o.Err
		case t != nil && o.Offset < t.next[o.Partition]: // made anew
			t = nil
		}
		left[o.Partition] = o.Offset
		if o.Offset < committed.Of(o.Partition) {
			err = errors.New("what was committed cannot be read yet")
		}
	})
	if err != nil {
		return nil, err
	}
	if t == nil {
		t = &viewedTopic{next: map[int32]int64{}, rows: map[string]*kgo.Record{}}
		v.topics[topic] = t
	}
	from := map[int32]kgo.Offset{}
	for p, end := range left {
		if t.next[p] >= end {
			delete(left, p)
			continue
		}
		from[p] = kgo.NewOffset().At(t.next[p])
	}
	cl.AddConsumePartitions(map[string]map[int32]kgo.Offset{topic: from})
	for len(left) > 0 {
		fetches := cl.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return nil, err
		}
		fetches.EachRecord(func(r *kgo.Record) {
			end, reading := left[r.Partition]
			if !reading || r.Offset >= end {
				return
			}
			if r.Offset == end-1 {
				delete(left, r.Partition)
			}
			t.next[r.Partition] = r.Offset + 1
			t.take(r)
		})
	}
	return t, nil
}

func (t *viewedTopic) take(r *kgo.Record) {
	switch {
	case r.Attrs.IsControl():
	case len(r.Key) == 0 && bytes.Contains(r.Value, []byte(`"op":"t"`)):
		for k, old := range t.rows {
			if old.Partition == r.Partition {
				delete(t.rows, k)
			}
		}
	case len(r.Key) > 0:
		t.rows[string(r.Key)] = r
	}
}

func deleted(r *kgo.Record) bool {
	return r.Value == nil || bytes.Contains(r.Value, []byte(`"op":"d"`))
}

// Latest implements connectors.Rows.
func (v *views) Latest(ctx context.Context, topic string, keys [][]byte, c connectors.Committed, tell func(int, connectors.StateRow) error) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.asked++
	v.keys += len(keys)
	t, err := v.fold(ctx, topic, c)
	if err != nil {
		return err
	}
	for i, k := range keys {
		r := t.rows[string(k)]
		if r == nil {
			continue
		}
		row := connectors.StateRow{Deleted: deleted(r), Value: r.Value}
		for _, h := range r.Headers {
			if h.Key == event.PositionHeader {
				row.Place = h.Value
			}
		}
		if err := tell(i, row); err != nil {
			return err
		}
	}
	return nil
}

// Keys implements connectors.Rows.
func (v *views) Keys(ctx context.Context, topic string, partition int32, after []byte, limit int, c connectors.Committed) ([][]byte, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	t, err := v.fold(ctx, topic, c)
	if err != nil {
		return nil, err
	}
	var keys [][]byte
	for k, r := range t.rows {
		if r.Partition == partition && !deleted(r) && (after == nil || k > string(after)) {
			keys = append(keys, []byte(k))
		}
	}
	slices.SortFunc(keys, bytes.Compare)
	return keys[:min(len(keys), limit)], nil
}

// state is what a topic folds to, a row a line, in order of the keys.
func (l *testLog) state(t testing.TB, topic string) string {
	t.Helper()
	v, err := newViews(l.opts).fold(t.Context(), topic, nil)
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, r := range v.rows {
		if !deleted(r) {
			x := decode(t, r)
			lines = append(lines, strings.TrimPrefix(rec{Op: "", After: x.After}.String(), "  null -> "))
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// deleteTopic deletes a topic and all that it has.
func (l *testLog) deleteTopic(topic string) {
	l.t.Helper()
	cl, err := kgo.NewClient(l.opts...)
	if err != nil {
		l.t.Fatal(err)
	}
	defer cl.Close()
	if _, err := kadm.NewClient(cl).DeleteTopics(context.Background(), topic); err != nil {
		l.t.Fatal(err)
	}
}
