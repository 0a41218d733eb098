package spread

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/rowtrail/rowtrail/log"
	"github.com/rowtrail/rowtrail/log/fields"
	"github.com/rowtrail/rowtrail/snapshot"
)

// Operations of a request.
const (
	opLatest  = "latest"
	opScan    = "scan"
	opHistory = "history"
	opAnyKey  = "anyKey"
	opMany    = "many"
	opKeys    = "keys"
)

// request asks a node for partitions that it leads.
type request struct {
	Op         string      `json:"op"`
	Topic      string      `json:"topic"`
	Partitions []int32     `json:"partitions"`
	Key        []byte      `json:"key,omitempty"`
	At         snapshot.At `json:"at"`
	Ask        *Ask        `json:"ask,omitempty"` // of opMany and opKeys
}

// Frames of an answer: kind, length, payload.
const (
	frameRow    byte = 'r'
	frameBegins byte = 'b' // a partition of a history
	frameKey    byte = 'k'
	framePing   byte = 'p' // the node works on it
	frameError  byte = 'e'
	frameEnd    byte = '.'
)

// maxFrame bounds a frame: two records' worth of what the log takes, and its fields.
const maxFrame = 256 << 20

var errFrame = errors.New("unreadable answer of another node; do both run versions that may run together?")

// Flags of a row.
const (
	rowDeleted = 1 << iota
	rowKey
	rowValue
	rowPlace
	rowOldKey
	rowHash
	rowCommit
)

func appendRow(b []byte, r *snapshot.Row) []byte {
	flags := byte(0)
	if r.Deleted {
		flags |= rowDeleted
	}
	if !r.CommitTime.IsZero() {
		flags |= rowCommit
	}
	parts := [...][]byte{r.Key, r.Value, r.Place, r.OldKey, r.Hash}
	for i, p := range parts {
		if p != nil {
			flags |= rowKey << i
		}
	}
	b = append(b, flags)
	b = binary.AppendUvarint(b, uint64(uint32(r.Partition)))
	b = binary.AppendVarint(b, r.Offset)
	b = binary.AppendVarint(b, r.Timestamp.UnixMilli())
	b = binary.AppendVarint(b, r.WholeFrom)
	if flags&rowCommit != 0 {
		b = binary.AppendVarint(b, r.CommitTime.UnixMicro())
		b = binary.AppendUvarint(b, r.Position)
	}
	for _, p := range parts {
		if p != nil {
			b = fields.AppendBytes(b, p)
		}
	}
	return b
}

// parseRow's slices are of b.
func parseRow(topic string, b []byte) (snapshot.Row, error) {
	if len(b) == 0 {
		return snapshot.Row{}, errFrame
	}
	flags, f := b[0], fields.Read(b[1:])
	r := snapshot.Row{Topic: topic, Deleted: flags&rowDeleted != 0}
	r.Partition = int32(uint32(f.Uvarint())) //nolint:gosec // a partition number
	r.Offset = f.Varint()
	r.Timestamp = time.UnixMilli(f.Varint()).UTC()
	r.WholeFrom = f.Varint()
	if flags&rowCommit != 0 {
		r.CommitTime = time.UnixMicro(f.Varint()).UTC()
		r.Position = f.Uvarint()
	}
	for i, p := range [...]*[]byte{&r.Key, &r.Value, &r.Place, &r.OldKey, &r.Hash} {
		if flags&(rowKey<<i) != 0 {
			*p = f.Bytes()
		}
	}
	if !f.Done() {
		return snapshot.Row{}, errFrame
	}
	return r, nil
}

func writeFrame(w *bufio.Writer, kind byte, payload []byte) error {
	var head [1 + binary.MaxVarintLen64]byte
	head[0] = kind
	n := 1 + binary.PutUvarint(head[1:], uint64(len(payload)))
	if _, err := w.Write(head[:n]); err != nil {
		return err
	}
	_, err := w.Write(payload)
	return err
}

// readFrame reads the next frame into buf where it fits.
func readFrame(r *bufio.Reader, buf []byte) (kind byte, payload []byte, err error) {
	if kind, err = r.ReadByte(); err != nil {
		return 0, nil, cut(err)
	}
	n, err := binary.ReadUvarint(r)
	if err != nil {
		return 0, nil, cut(err)
	}
	if n > maxFrame {
		return 0, nil, errFrame
	}
	if uint64(cap(buf)) < n {
		buf = make([]byte, n)
	}
	buf = buf[:n]
	if _, err := io.ReadFull(r, buf); err != nil {
		return 0, nil, cut(err)
	}
	return kind, buf, nil
}

// cut: an answer ends with a frame that says so.
func cut(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// failure is an error on its way.
type failure struct {
	Kind      string `json:"kind"`
	Text      string `json:"text"`
	Partition int32  `json:"partition,omitempty"`
	Whole     int64  `json:"whole,omitempty"`
	Absent    bool   `json:"absent,omitempty"`
}

const (
	kindOther     = "other"
	kindCompacted = "compacted"
)

// kinds are the errors that callers act on.
func kinds() map[string]error {
	return map[string]error{
		"notLeader": log.ErrNotLeader, "elsewhere": snapshot.ErrElsewhere, "unknownTopic": snapshot.ErrUnknownTopic, "notReady": snapshot.ErrNotReady,
		"behind": ErrBehind, "closed": snapshot.ErrClosed, "noPosition": snapshot.ErrNoPosition, "at": snapshot.ErrAt,
	}
}

func encodeFailure(err error) []byte {
	f := failure{Kind: kindOther, Text: err.Error()}
	var lost *snapshot.CompactedError
	if errors.As(err, &lost) {
		f = failure{Kind: kindCompacted, Partition: lost.Partition, Whole: lost.Whole, Absent: lost.Absent}
	} else {
		for kind, is := range kinds() {
			if errors.Is(err, is) {
				f.Kind = kind
			}
		}
	}
	b, err := json.Marshal(f)
	if err != nil {
		return []byte(`{"kind":"other"}`)
	}
	return b
}

func decodeFailure(node int32, topic string, b []byte) error {
	var f failure
	if err := json.Unmarshal(b, &f); err != nil {
		return fmt.Errorf("node %d: %w", node, errFrame)
	}
	if f.Kind == kindCompacted {
		return &snapshot.CompactedError{Topic: topic, Partition: f.Partition, Whole: f.Whole, Absent: f.Absent}
	}
	return &nodeError{node: node, text: f.Text, is: kinds()[f.Kind]}
}

// nodeError is what another node said.
type nodeError struct {
	node int32
	text string
	is   error // nil: none that anybody acts on
}

func (e *nodeError) Error() string { return fmt.Sprintf("node %d: %s", e.node, e.text) }

func (e *nodeError) Unwrap() error { return e.is }
