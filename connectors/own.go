package connectors

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// sessionKey is the key of the record that tells where a run begins, in a topic that one connector alone writes.
const sessionKey = `{"session":true}`

// ScanOwn gives all records of a topic that only this connector writes, in order, before Run. A topic that does not exist has none. As in
// Resume, a record of its own tells where the end is. end is the offset of what is written next.
func (w *Writer) ScanOwn(ctx context.Context, topic string, each func(*kgo.Record) error) (end int64, err error) {
	if _, err := w.topics.partitions(ctx, topic); errors.Is(err, kerr.UnknownTopicOrPartition) {
		return 0, nil
	} else if err != nil {
		return 0, fmt.Errorf("look for topic %s: %w", topic, err)
	}
	if _, err := w.EnsureTopic(ctx, topic, TopicCompacted); err != nil {
		return 0, err
	}
	start, err := w.startOf(ctx, topic)
	if err != nil {
		return 0, err
	}
	last, err := w.writeSession(ctx, topic, []byte(sessionKey))
	if err != nil {
		return 0, err
	}
	return last + 1, w.ReadOwn(ctx, topic, start, func(r *kgo.Record) (bool, error) {
		if string(r.Key) != sessionKey {
			if err := each(r); err != nil {
				return false, err
			}
		}
		return r.Offset < last, nil
	})
}

// EndOwn is an offset that everything written from now on lies at or above.
func (w *Writer) EndOwn(ctx context.Context, topic string) (int64, error) {
	ends, err := w.admin.ListCommittedOffsets(ctx, topic)
	if err != nil {
		return 0, fmt.Errorf("read end of topic %s: %w", topic, err)
	}
	end, ok := ends.Lookup(topic, 0)
	if !ok || end.Err != nil {
		return 0, fmt.Errorf("read end of topic %s: %w", topic, end.Err)
	}
	return end.Offset, nil
}

func (w *Writer) startOf(ctx context.Context, topic string) (int64, error) {
	starts, err := w.admin.ListStartOffsets(ctx, topic)
	if err != nil {
		return 0, fmt.Errorf("read start of topic %s: %w", topic, err)
	}
	first, ok := starts.Lookup(topic, 0)
	if !ok || first.Err != nil {
		return 0, fmt.Errorf("read start of topic %s: %w", topic, first.Err)
	}
	return first.Offset, nil
}

// ReadOwn gives the records of a topic of one partition, from an offset on, until each wants no more. What is given is committed: it
// waits for what is not.
func (w *Writer) ReadOwn(ctx context.Context, topic string, from int64, each func(*kgo.Record) (more bool, err error)) error {
	opts := append(w.plain.Opts(),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().At(from)}}),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.FetchMaxBytes(resumePollBytes),
	)
	client, err := kgo.NewClient(opts...)
	if err != nil {
		return fmt.Errorf("open log reader: %w", err)
	}
	defer client.Close()
	for {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err0(); err != nil {
			return fmt.Errorf("read topic %s from offset %d: %w", topic, from, err)
		}
		if errs := fetches.Errors(); len(errs) > 0 {
			return fmt.Errorf("read topic %s from offset %d: %w", topic, from, errs[0].Err)
		}
		for it := fetches.RecordIter(); !it.Done(); {
			if more, err := each(it.Next()); err != nil || !more {
				return err
			}
		}
	}
}
