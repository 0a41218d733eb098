package connectors

import (
	"context"
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Rows is the state of topics as the log's own views have it: the last record of each key. What a connector has committed is in every
// answer (Committed says up to where that is): an answer waits until the view is there, for a bounded time, and is an error then.
type Rows interface {
	// Latest calls tell for each of the keys that has a record, in any order; i is the key's place among them. A row is valid until
	// tell returns.
	Latest(ctx context.Context, topic string, keys [][]byte, c Committed, tell func(i int, r StateRow) error) error
	// Keys lists, in an order of its own, keys of one partition that are not deleted there, at most limit, behind the key after; nil:
	// from the first. Fewer than limit: there are no more. A key may have a later record in another partition.
	Keys(ctx context.Context, topic string, partition int32, after []byte, limit int, c Committed) ([][]byte, error)
}

// StateRow is the last record of a key.
type StateRow struct {
	Deleted bool
	Value   []byte
	Place   []byte // the position header; nil: there is none
}

// Committed are, by partition, the offsets behind the last records that are known to be committed.
type Committed []int64

// Of is a partition's.
func (c Committed) Of(partition int32) int64 {
	if int(partition) >= len(c) {
		return 0
	}
	return c[partition]
}

// PartitionOf gives the function that says in which partition a topic of so many has a key. It is not safe for concurrent use.
func PartitionOf(topic string, partitions int) func(key []byte) int32 {
	p, r := partitioner{}.ForTopic(topic), &kgo.Record{}
	return func(key []byte) int32 {
		r.Key = key
		return int32(p.Partition(r, partitions)) //nolint:gosec // below partitions
	}
}

// offsets keeps how far each partition is written and committed. Records are noted in the order of the log.
type offsets struct {
	mu        sync.Mutex
	topics    map[string]*topicOffsets
	open      []*topicOffsets // of the open log transaction
	last      *topicOffsets
	lastTopic string
}

type topicOffsets struct {
	written, committed Committed
	open               bool
}

func (o *offsets) note(r *kgo.Record) {
	o.mu.Lock()
	defer o.mu.Unlock()
	t := o.last
	if t == nil || o.lastTopic != r.Topic {
		if t = o.topics[r.Topic]; t == nil {
			t = &topicOffsets{}
			if o.topics == nil {
				o.topics = map[string]*topicOffsets{}
			}
			o.topics[r.Topic] = t
		}
		o.last, o.lastTopic = t, r.Topic
	}
	for int(r.Partition) >= len(t.written) {
		t.written = append(t.written, 0)
	}
	t.written[r.Partition] = max(t.written[r.Partition], r.Offset+1)
	if !t.open {
		t.open = true
		o.open = append(o.open, t)
	}
}

// commit takes over what was written: its log transaction is committed.
func (o *offsets) commit() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, t := range o.open {
		t.committed = append(t.committed[:0], t.written...)
		t.open = false
	}
	o.open = o.open[:0]
}

// Committed is how far the partitions of a topic are committed by this run, whose start waited for those before it. It is kept
// only where there are Rows to ask with it.
func (w *Writer) Committed(topic string) Committed {
	if w.offsets == nil {
		return nil
	}
	w.offsets.mu.Lock()
	defer w.offsets.mu.Unlock()
	if t := w.offsets.topics[topic]; t != nil {
		return append(Committed(nil), t.committed...)
	}
	return nil
}
