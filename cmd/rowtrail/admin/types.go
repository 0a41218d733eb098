package admin

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"time"
	"unicode/utf8"

	"github.com/rowtrail/rowtrail/snapshot"
)

// Topic is one topic of the catalogue.
type Topic struct {
	Name       string            `json:"name"`
	ID         string            `json:"id"`
	Internal   bool              `json:"internal"`
	Bytes      int64             `json:"bytes"`
	Partitions []Partition       `json:"partitions"`
	Config     map[string]string `json:"config"` // what was set for this topic
}

// Partition is one partition as this node has it.
type Partition struct {
	Partition     int32 `json:"partition"`
	Leader        int32 `json:"leader"`
	Epoch         int32 `json:"epoch"`
	LogStart      int64 `json:"logStart"`
	LastStable    int64 `json:"lastStable"`
	HighWatermark int64 `json:"highWatermark"`
	End           int64 `json:"end"`
	Bytes         int64 `json:"bytes"`
	// Compaction is there where the topic's cleanup.policy has compact.
	Compaction *Compaction `json:"compaction,omitempty"`
}

// Compaction is how compaction of a partition stands.
type Compaction struct {
	CompactedBytes int64      `json:"compactedBytes"`
	DirtyBytes     int64      `json:"dirtyBytes"`
	DirtyRatio     float64    `json:"dirtyRatio"`
	LastRound      *time.Time `json:"lastRound,omitempty"` // absent: none since the partition was opened
	Error          string     `json:"error,omitempty"`     // why the partition is not compacted any more
}

// Row is one version of a row. For a change event it holds Op and Row (the row after the change) instead of Value, unless
// the whole record was asked for.
type Row struct {
	Topic      string          `json:"topic"`
	Partition  int32           `json:"partition"`
	Offset     int64           `json:"offset"`
	Timestamp  time.Time       `json:"timestamp"`
	CommitTime *time.Time      `json:"commitTime,omitempty"` // at the source
	Position   string          `json:"position,omitempty"`   // at the source: LSN, GTID or file:pos
	Key        json.RawMessage `json:"key"`
	Deleted    bool            `json:"deleted"`
	Op         string          `json:"op,omitempty"`
	Row        json.RawMessage `json:"row,omitempty"`
	Value      json.RawMessage `json:"value,omitempty"`
	// WholeFrom is in a history: from this offset on it is whole; older versions may have been compacted away.
	WholeFrom int64    `json:"wholeFrom,omitempty"`
	Absent    []string `json:"absent,omitempty"` // columns that no version since the row's key came up has a value of
}

// envelope is the part of a Debezium change event that state and history show.
type envelope struct {
	Op     string          `json:"op"`
	Before json.RawMessage `json:"before"`
	After  json.RawMessage `json:"after"`
	Source json.RawMessage `json:"source"`
}

// newRow shows a record; full keeps its value as it is stored.
func newRow(r snapshot.Row, full bool, places *Places) Row {
	out := Row{
		Topic: r.Topic, Partition: r.Partition, Offset: r.Offset, Timestamp: r.Timestamp.UTC(),
		Key: Text(r.Key), Deleted: r.Deleted, WholeFrom: r.WholeFrom,
	}
	if !r.CommitTime.IsZero() {
		at := r.CommitTime.UTC()
		out.CommitTime = &at
	}
	if r.Position > 0 {
		out.Position = places.Of(r.Value, r.Position)
	}
	if r.Value == nil {
		return out
	}
	event, ok := parseEnvelope(r.Value)
	if ok {
		out.Op = event.Op
	}
	if full || !ok {
		out.Value = Text(r.Value)
		return out
	}
	out.Row = event.After
	if out.Row == nil {
		out.Row = json.RawMessage("null")
	}
	return out
}

// parseEnvelope reads a change event, with or without the converter's schema around it.
func parseEnvelope(value []byte) (envelope, bool) {
	var e struct {
		envelope
		Payload *envelope `json:"payload"`
	}
	if len(value) == 0 || value[0] != '{' || json.Unmarshal(value, &e) != nil {
		return envelope{}, false
	}
	if e.Payload != nil {
		e.envelope = *e.Payload
	}
	return e.envelope, e.Op != "" && e.Source != nil
}

// Text is bytes as JSON: JSON as it is, other text as a string, anything else as {"base64": "..."}.
func Text(b []byte) json.RawMessage {
	switch {
	case b == nil:
		return json.RawMessage("null")
	case len(b) > 0 && json.Valid(b):
		if bytes.ContainsAny(b, "\n\r") {
			var compact bytes.Buffer
			if json.Compact(&compact, b) == nil {
				return compact.Bytes()
			}
		}
		return bytes.Clone(b)
	case utf8.Valid(b):
		quoted, err := json.Marshal(string(b))
		if err == nil {
			return quoted
		}
	}
	return json.RawMessage(`{"base64":"` + base64.StdEncoding.EncodeToString(b) + `"}`)
}
