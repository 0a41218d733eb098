package connectors

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	topicPoll = 50 * time.Millisecond
	// resumeWindow is how many records before the end are read first; the window grows until the resume point is in it.
	resumeWindow     = 64
	resumeGrowth     = 16
	resumePollBytes  = 4 << 20
	resumeEndTimeout = 2 * time.Minute
)

func positionKey(name string) []byte {
	quoted, _ := json.Marshal(name) // a string always marshals
	return append(append([]byte(`{"connector":`), quoted...), '}')
}

// Resume reads the connector's last resume point; nil when there is none. It first commits a record of its own, with
// another key, and reads up to it: so the end is known exactly, whatever compaction or aborted transactions left
// there, and nothing older is still undecided.
func (w *Writer) Resume(ctx context.Context) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, resumeEndTimeout)
	defer cancel()
	end, err := w.writeSession(ctx)
	if err != nil {
		return nil, err
	}
	starts, err := w.admin.ListStartOffsets(ctx, w.positionTopic)
	if err != nil {
		return nil, fmt.Errorf("read start of topic %s: %w", w.positionTopic, err)
	}
	first, ok := starts.Lookup(w.positionTopic, 0)
	if !ok || first.Err != nil {
		return nil, fmt.Errorf("read start of topic %s: %w", w.positionTopic, first.Err)
	}
	for window := int64(resumeWindow); ; window *= resumeGrowth {
		from := max(first.Offset, end-window)
		value, err := w.lastResume(ctx, from, end)
		if err != nil {
			return nil, err
		}
		if value != nil || from == first.Offset {
			return value, nil
		}
	}
}

// writeSession commits a record that marks where this run begins and returns its offset.
func (w *Writer) writeSession(ctx context.Context) (int64, error) {
	if err := w.client.BeginTransaction(); err != nil {
		return 0, fmt.Errorf("begin log transaction: %w", err)
	}
	key := append(w.positionKey[:len(w.positionKey)-1:len(w.positionKey)-1], `,"session":true}`...)
	value := fmt.Appendf(nil, `{"started_ms":%d}`, time.Now().UnixMilli())
	r := &kgo.Record{Topic: w.positionTopic, Key: key, Value: value}
	if err := w.client.ProduceSync(ctx, r).FirstErr(); err != nil {
		return 0, w.explain(fmt.Errorf("write to topic %s: %w", w.positionTopic, err))
	}
	if err := w.client.EndTransaction(ctx, kgo.TryCommit); err != nil {
		return 0, w.explain(fmt.Errorf("commit log transaction: %w", err))
	}
	return r.Offset, nil
}

// lastResume reads [from, end] and returns the last value with this connector's key.
func (w *Writer) lastResume(ctx context.Context, from, end int64) ([]byte, error) {
	opts := append(w.plain.Opts(),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{w.positionTopic: {0: kgo.NewOffset().At(from)}}),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.FetchMaxBytes(resumePollBytes),
	)
	client, err := kgo.NewClient(opts...)
	if err != nil {
		return nil, fmt.Errorf("open log reader: %w", err)
	}
	defer client.Close()
	var value []byte
	for {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err0(); err != nil {
			return nil, fmt.Errorf("read topic %s up to offset %d: %w", w.positionTopic, end, err)
		}
		if errs := fetches.Errors(); len(errs) > 0 {
			return nil, fmt.Errorf("read topic %s up to offset %d: %w", w.positionTopic, end, errs[0].Err)
		}
		for it := fetches.RecordIter(); !it.Done(); {
			r := it.Next()
			if string(r.Key) == string(w.positionKey) {
				value = r.Value
			}
			if r.Offset >= end {
				return value, nil
			}
		}
	}
}
