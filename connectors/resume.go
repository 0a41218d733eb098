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
	key := append(w.positionKey[:len(w.positionKey)-1:len(w.positionKey)-1], `,"session":true}`...)
	end, err := w.writeSession(ctx, w.positionTopic, key)
	if err != nil {
		return nil, err
	}
	start, err := w.startOf(ctx, w.positionTopic)
	if err != nil {
		return nil, err
	}
	for window := int64(resumeWindow); ; window *= resumeGrowth {
		from := max(start, end-window)
		value, err := w.lastResume(ctx, from, end)
		if err != nil {
			return nil, err
		}
		if value != nil || from == start {
			return value, nil
		}
	}
}

// writeSession commits a record that marks where this run begins and returns its offset.
func (w *Writer) writeSession(ctx context.Context, topic string, key []byte) (int64, error) {
	if err := w.client.BeginTransaction(); err != nil {
		return 0, fmt.Errorf("begin log transaction: %w", err)
	}
	value := fmt.Appendf(nil, `{"started_ms":%d}`, time.Now().UnixMilli())
	r := &kgo.Record{Topic: topic, Key: key, Value: value}
	if err := w.client.ProduceSync(ctx, r).FirstErr(); err != nil {
		return 0, w.explain(fmt.Errorf("write to topic %s: %w", topic, err))
	}
	if err := w.client.EndTransaction(ctx, kgo.TryCommit); err != nil {
		return 0, w.explain(fmt.Errorf("commit log transaction: %w", err))
	}
	return r.Offset, nil
}

// lastResume reads [from, end] and returns the last value with this connector's key.
func (w *Writer) lastResume(ctx context.Context, from, end int64) ([]byte, error) {
	var value []byte
	err := w.ReadOwn(ctx, w.positionTopic, from, func(r *kgo.Record) (bool, error) {
		if string(r.Key) == string(w.positionKey) {
			value = r.Value
		}
		return r.Offset < end, nil
	})
	return value, err
}
