package sink

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/rowtrail/rowtrail/connectors/event"
)

// recordOverhead is what a buffered record costs beside its key and value.
const recordOverhead = 320

func positionOf(rec *kgo.Record) (pos event.Position, ok bool, err error) {
	for i := range rec.Headers {
		if rec.Headers[i].Key == event.PositionHeader {
			pos, err = event.ParsePosition(rec.Headers[i].Value)
			return pos, true, err
		}
	}
	return pos, false, nil
}

// dataEntry classifies a record of a data topic.
func dataEntry(rec *kgo.Record) entry {
	e := entry{offset: rec.Offset, size: len(rec.Key) + len(rec.Value) + recordOverhead, rec: rec}
	if rec.Attrs.IsControl() {
		return e
	}
	pos, ok, err := positionOf(rec)
	switch {
	case err != nil:
		e.kind, e.err = entryFree, err
	case !ok:
		e.kind = entryFree
	case rec.Value == nil: // a tombstone repeats its delete
	case pos.Order == 0:
		e.kind, e.pos = entryFree, pos
		e.truncate = isTruncate(rec)
	default:
		e.kind, e.pos = entryRow, pos
		e.truncate = isTruncate(rec)
	}
	return e
}

// isTruncate looks for the envelope's op without decoding it. Only records without a row's key are asked. No image of a row can pass
// for it: the envelope's images are both null.
func isTruncate(rec *kgo.Record) bool {
	if len(rec.Key) != 0 && string(rec.Key) != event.TruncateKey {
		return false
	}
	value := rec.Value
	return bytes.Contains(value, []byte(`"op":"t"`)) && bytes.Contains(value, []byte(`"before":null,"after":null,`))
}

// endEntry classifies a record of a transaction topic.
func endEntry(rec *kgo.Record) entry {
	e := entry{offset: rec.Offset, size: len(rec.Key) + len(rec.Value) + recordOverhead}
	if rec.Attrs.IsControl() || rec.Value == nil {
		return e
	}
	end, err := event.ParseTransaction(rec.Value)
	switch {
	case err != nil:
		e.kind, e.err = entryEnd, err
	case end.Status == event.TransactionEndMark:
		pos, ok, err := positionOf(rec)
		if err == nil && !ok {
			err = errors.New("the transaction's END has no " + event.PositionHeader + " header")
		}
		e.kind, e.pos, e.end, e.err = entryEnd, pos, end, err
	}
	return e
}

// fill decodes an entry into ev. A nil version means a record without a position header.
func fill(ev *Event, e *entry, v *version) error {
	rec := e.rec
	*ev = Event{
		Topic: rec.Topic, Partition: rec.Partition, Offset: rec.Offset, Position: e.pos, RawKey: rec.Key, RawValue: rec.Value,
	}
	if v == nil {
		return nil
	}
	ev.Schema = v.schema
	var err error
	if len(rec.Headers) > 1 {
		if err = fillMove(ev, rec, v); err != nil {
			return err
		}
	}
	if len(rec.Key) > 0 && !e.truncate {
		if ev.Key, err = v.decoder.DecodeKey(rec.Key); err != nil {
			return fmt.Errorf("decode key: %w", err)
		}
	}
	if ev.Change, err = v.decoder.Decode(rec.Value, e.pos); err != nil {
		return fmt.Errorf("decode value: %w", err)
	}
	return nil
}

// fillMove reads the other key of a key change.
func fillMove(ev *Event, rec *kgo.Record, v *version) error {
	for i := range rec.Headers {
		h := &rec.Headers[i]
		if h.Key != event.NewKeyHeader && h.Key != event.OldKeyHeader {
			continue
		}
		key, err := v.decoder.DecodeKey(h.Value)
		if err != nil {
			return fmt.Errorf("decode header %s: %w", h.Key, err)
		}
		if h.Key == event.NewKeyHeader {
			ev.NewKey = key.Clone()
		} else {
			ev.OldKey = key.Clone()
		}
	}
	return nil
}
