package connectors

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// contentsTimeout bounds how long the remains of aborted loads are read through.
const contentsTimeout = 10 * time.Second

// HoldsRecords tells whether a reader may have been given a record of a topic. A load into it has to begin with a truncate: what
// retention or compaction took may still be in a target. What an aborted load left counts for nothing. When that cannot be told
// soon the answer is yes: a truncate too many does no harm.
func (w *Writer) HoldsRecords(ctx context.Context, topic string) (bool, error) {
	starts, err := w.admin.ListStartOffsets(ctx, topic)
	if err == nil {
		err = starts.Error()
	}
	if err != nil {
		return false, fmt.Errorf("read starts of topic %s: %w", topic, err)
	}
	ends, err := w.admin.ListEndOffsets(ctx, topic)
	if err == nil {
		err = ends.Error()
	}
	if err != nil {
		return false, fmt.Errorf("read ends of topic %s: %w", topic, err)
	}
	trimmed, left := false, map[int32]int64{}
	ends.Each(func(o kadm.ListedOffset) {
		start, _ := starts.Lookup(topic, o.Partition)
		trimmed = trimmed || start.Offset > 0
		if o.Offset > start.Offset {
			left[o.Partition] = o.Offset
		}
	})
	if trimmed || len(left) == 0 {
		return trimmed, nil
	}
	return w.anyRecord(ctx, topic, left)
}

// anyRecord reads partitions from their starts up to the ends in left, markers included, until it meets a record.
func (w *Writer) anyRecord(ctx context.Context, topic string, left map[int32]int64) (bool, error) {
	from := map[int32]kgo.Offset{}
	for p := range left {
		from[p] = kgo.NewOffset().AtStart()
	}
	client, err := kgo.NewClient(append(w.plain.Opts(),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: from}),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.KeepControlRecords(), // an aborted transaction ends with a marker, which tells how far the reading is
		kgo.FetchMaxBytes(resumePollBytes),
	)...)
	if err != nil {
		return false, fmt.Errorf("open log reader: %w", err)
	}
	defer client.Close()
	timed, cancel := context.WithTimeout(ctx, contentsTimeout)
	defer cancel()
	for len(left) > 0 {
		fetches := client.PollFetches(timed)
		if ctx.Err() != nil {
			return false, ctx.Err()
		}
		if timed.Err() != nil {
			return true, nil
		}
		if errs := fetches.Errors(); len(errs) > 0 {
			return false, fmt.Errorf("read topic %s: %w", topic, errs[0].Err)
		}
		for it := fetches.RecordIter(); !it.Done(); {
			r := it.Next()
			if !r.Attrs.IsControl() {
				return true, nil
			}
			if end, ok := left[r.Partition]; ok && r.Offset+1 >= end {
				delete(left, r.Partition)
			}
		}
	}
	return false, nil
}
