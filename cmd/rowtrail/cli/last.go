package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kgo"
)

// backwards looks in one partition for the offset of the n-th record before the end. Markers of transactions and records of
// aborted ones take offsets too, so how far back it lies is found by reading.
type backwards struct {
	start, low, high int64   // the log's start, and the range that is being read
	reached          bool    // the range was read
	step             int64   // length of the range
	chunk, found     []int64 // offsets of records: of the range, and of all behind it
}

func newBackwards(start, end, n int64) *backwards {
	return &backwards{start: start, low: end, high: end, step: n}
}

// next moves to the range before; false when enough was found or there is none.
func (b *backwards) next(n int64) bool {
	if int64(len(b.found)) >= n || b.low <= b.start {
		return false
	}
	b.high = b.low
	b.low = max(b.start, b.high-min(b.step, b.high))
	b.step = 2 * min(b.step, b.high)
	b.chunk, b.reached = b.chunk[:0], false
	return true
}

// take notes a record, in offset order.
func (b *backwards) take(r *kgo.Record) {
	if r.Offset < b.high && !r.Attrs.IsControl() {
		b.chunk = append(b.chunk, r.Offset)
	}
	if r.Offset >= b.high-1 && !b.reached {
		b.reached = true
		b.found = append(append(make([]int64, 0, len(b.chunk)+len(b.found)), b.chunk...), b.found...)
	}
}

// offset is where the last n records begin.
func (b *backwards) offset(n int64) int64 {
	if int64(len(b.found)) >= n {
		return b.found[int64(len(b.found))-n]
	}
	return b.low
}

// locateLast finds where the last n records of each partition begin; client reads committed, with control records.
func locateLast(ctx context.Context, client *kgo.Client, topic string, n int64, starts, ends map[int32]int64) (map[int32]int64, error) {
	parts := make(map[int32]*backwards, len(ends))
	for p, end := range ends {
		parts[p] = newBackwards(starts[p], end, n)
	}
	for {
		assign, remove, open := map[int32]kgo.Offset{}, []int32{}, 0
		for p, b := range parts {
			if b.next(n) {
				assign[p] = kgo.NewOffset().At(b.low)
				remove = append(remove, p)
				open++
			}
		}
		if open == 0 {
			break
		}
		client.AddConsumePartitions(map[string]map[int32]kgo.Offset{topic: assign})
		for open > 0 {
			poll, cancel := context.WithTimeout(ctx, tailStall)
			fetches := client.PollFetches(poll)
			cancel()
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			if err := fetches.Err0(); errors.Is(err, context.DeadlineExceeded) {
				return nil, stalled()
			}
			for _, e := range fetches.Errors() {
				return nil, fmt.Errorf("read %s, partition %d: %w", e.Topic, e.Partition, e.Err)
			}
			for iter := fetches.RecordIter(); !iter.Done(); {
				r := iter.Next()
				b := parts[r.Partition]
				if b.reached {
					continue
				}
				if b.take(r); b.reached {
					open--
				}
			}
		}
		client.RemoveConsumePartitions(map[string][]int32{topic: remove})
	}
	out := make(map[int32]int64, len(parts))
	for p, b := range parts {
		out[p] = b.offset(n)
	}
	return out, nil
}

func stalled() error {
	return fmt.Errorf("no record came for %s, though the end of the topic is not reached; is the node overloaded? `rowtrail topics` shows its ends", tailStall)
}
