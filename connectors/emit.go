package connectors

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/rowtrail/rowtrail/connectors/event"
)

// Table is one version of a captured table, ready for encoding. It belongs to one goroutine.
type Table struct {
	Collection string
	Topic      string
	Partitions int32 // of the topic
	Schema     *event.Schema
	Encoder    *event.Encoder
	Keys       []int // columns of the record key

	keyedOnly bool   // its topic is compacted and takes no record without a key
	announced bool   // its schema record is written in this run
	share     *share // of the source transaction
}

// NewTable describes a table version.
func (s *Settings) NewTable(identity uint32, schema, table string, columns []event.Column) (Table, error) {
	t := Table{Collection: schema + "." + table, Topic: s.TopicOf(schema, table)}
	var err error
	if t.Schema, err = event.NewSchemaOf(s.Event, identity, schema, table, columns); err != nil {
		return Table{}, Indescribable(t.Collection, err)
	}
	if t.Encoder, err = event.NewEncoder(t.Schema, s.Event); err != nil {
		return Table{}, Indescribable(t.Collection, err)
	}
	t.Keys = t.Schema.KeyColumns()
	return t, nil
}

// Indescribable is the Fault for a table version that events cannot express (invariant 7).
func Indescribable(collection string, err error) error {
	return &Fault{
		Problem: "table " + collection + " cannot be captured", Err: err, Collection: collection,
		Remedy: "leave the column out with column.exclude.list, or the table with table.exclude.list",
	}
}

// KeyChanged compares the record keys of two rows.
func (t *Table) KeyChanged(old, row event.Row) bool {
	for _, k := range t.Keys {
		if old[k].State != row[k].State || string(old[k].Text) != string(row[k].Text) {
			return true
		}
	}
	return false
}

// Fill completes a row that lacks unchanged values from the row before, where that has them.
func Fill(row, old event.Row) {
	for i := range row {
		if row[i].State == event.Absent {
			row[i] = old[i]
		}
	}
}

// AbsentColumns appends the columns that the source did not send of a row.
func AbsentColumns(dst []uint16, row event.Row) []uint16 {
	for i := range row {
		if row[i].State == event.Absent {
			dst = append(dst, uint16(i))
		}
	}
	return dst
}

// Emitter encodes events into batches. It belongs to one goroutine.
type Emitter struct {
	Settings *Settings
	Writer   *Writer
	Known    *sync.Map // IDs of the schemas that are written in this run
	// Where names the place of a change that cannot be encoded; of a load it is not asked.
	Where func() string

	Batch *Batch
	Now   time.Time
	Meta  event.Meta
	Pos   event.Position

	transaction
}

// Touch takes the time.
func (e *Emitter) Touch() {
	e.Now = time.Now()
	e.Meta.TsMs = e.Now.UnixMilli()
}

// Room makes sure that there is a batch with room.
func (e *Emitter) Room(ctx context.Context) error {
	if e.Batch != nil && e.Batch.Full() {
		if err := e.Send(ctx); err != nil {
			return err
		}
	}
	if e.Batch == nil {
		b, err := e.Writer.NewBatch(ctx)
		if err != nil {
			return err
		}
		e.Batch = b
	}
	return nil
}

// Send hands over what there is.
func (e *Emitter) Send(ctx context.Context) error {
	if e.Batch == nil {
		return nil
	}
	b := e.Batch
	e.Batch = nil
	if b.Empty() {
		e.Writer.Drop(b)
		return nil
	}
	return e.Writer.Send(ctx, b)
}

// Discard gives back a batch that is not sent.
func (e *Emitter) Discard() {
	if e.Batch != nil {
		e.Writer.Drop(e.Batch)
		e.Batch = nil
	}
}

// Span is a piece of a batch's slab while that may still move.
type Span struct{ From, To int }

// Of is the piece.
func (s Span) Of(buf []byte) []byte { return buf[s.From:s.To:s.To] }

// SchemaOnce writes a table version before its first use in this run.
func (e *Emitter) SchemaOnce(ctx context.Context, t *Table) error {
	if t.announced {
		return nil
	}
	t.announced = true
	if _, written := e.Known.LoadOrStore(t.Schema.ID, true); written {
		return nil
	}
	if err := e.Room(ctx); err != nil {
		return err
	}
	value, err := t.Schema.MarshalJSON()
	if err != nil {
		return fmt.Errorf("encode schema of %s: %w", t.Collection, err)
	}
	e.Batch.Record(e.Settings.Prefix+".schema", 0, t.Schema.TopicKey(), value, e.Now)
	return nil
}

// Change writes one event; Pos and Meta are set, and there is room. keyRow is the image that has the key.
func (e *Emitter) Change(t *Table, op event.Op, before, after, keyRow event.Row, absent []uint16) error {
	return e.change(t, op, before, after, keyRow, absent, nil)
}

// change is Change; newKey is nil but for a delete whose row goes on under that key, which its tombstone tells as well.
func (e *Emitter) change(t *Table, op event.Op, before, after, keyRow event.Row, absent []uint16, newKey []byte) error {
	b := e.Batch
	buf := b.Buf()
	e.Pos.Schema, e.Pos.Absent = t.Schema.ID, absent
	key := Span{From: len(buf)}
	buf, keyed, err := t.Encoder.AppendKey(buf, keyRow)
	if err != nil {
		return e.undecodable(t, err)
	}
	key.To = len(buf)
	head := Span{From: len(buf)}
	buf = e.Pos.Append(buf)
	head.To = len(buf)
	value := Span{From: len(buf)}
	if buf, err = t.Encoder.AppendValue(buf, op, before, after, &e.Meta); err != nil {
		return e.undecodable(t, err)
	}
	value.To = len(buf)
	b.Keep(buf)
	var k []byte
	switch {
	case keyed:
		k = key.Of(buf)
	case t.keyedOnly:
		return t.unkeyed()
	}
	e.placed(newKey, head.Of(buf))
	b.Record(t.Topic, 0, k, value.Of(buf), e.Now)
	if op == event.OpDelete && keyed && e.Settings.Tombstones {
		e.placed(newKey, head.Of(buf))
		b.Record(t.Topic, 0, k, nil, e.Now)
	}
	return nil
}

// unkeyed is the Fault for an event that its topic refuses.
func (t *Table) unkeyed() error {
	return &Fault{
		Problem:    "table " + t.Collection + " has no key, and its topic " + t.Topic + " is compacted, which takes only records with a key",
		Remedy:     "`rowtrail topics alter " + t.Topic + " --config cleanup.policy=delete`, or name columns in message.key.columns, or give the table a primary key",
		Collection: t.Collection,
	}
}

// placed adds the headers of a change or its tombstone.
func (e *Emitter) placed(newKey, position []byte) {
	if newKey != nil {
		e.Batch.Header(event.NewKeyHeader, newKey)
	}
	e.Batch.Header(event.PositionHeader, position)
}

// Rekey writes a key change: delete and tombstone of the old key, create of the new one (P9). Both are part of the same
// source transaction, so a reader sees both or none. next numbers the second event.
func (e *Emitter) Rekey(t *Table, old, row event.Row, absent []uint16, next func()) error {
	b := e.Batch
	buf := b.Buf()
	oldKey := Span{From: len(buf)}
	buf, _, err := t.Encoder.AppendKey(buf, old)
	if err != nil {
		return e.undecodable(t, err)
	}
	oldKey.To = len(buf)
	newKey := Span{From: len(buf)}
	if buf, _, err = t.Encoder.AppendKey(buf, row); err != nil {
		return e.undecodable(t, err)
	}
	newKey.To = len(buf)
	b.Keep(buf)
	oldBytes, newBytes := oldKey.Of(buf), newKey.Of(buf)
	if err := e.change(t, event.OpDelete, old, nil, old, nil, newBytes); err != nil {
		return err
	}
	next()
	b.Header(event.OldKeyHeader, oldBytes)
	return e.Change(t, event.OpCreate, nil, row, row, absent)
}

// Truncate goes to every partition of the table: a barrier that no reader of one partition can miss (P25).
func (e *Emitter) Truncate(t *Table) error {
	b := e.Batch
	buf := b.Buf()
	e.Pos.Schema, e.Pos.Absent = t.Schema.ID, nil
	head := Span{From: len(buf)}
	buf = e.Pos.Append(buf)
	head.To = len(buf)
	value := Span{From: len(buf)}
	buf, err := t.Encoder.AppendValue(buf, event.OpTruncate, nil, nil, &e.Meta)
	if err != nil {
		return e.undecodable(t, err)
	}
	value.To = len(buf)
	b.Keep(buf)
	var key []byte
	if t.keyedOnly {
		key = []byte(event.TruncateKey)
	}
	for p := range t.Partitions {
		b.Header(event.PositionHeader, head.Of(buf))
		b.Record(t.Topic, p, key, value.Of(buf), e.Now)
	}
	return nil
}

// undecodable is the Fault for a value (invariant 7).
func (e *Emitter) undecodable(t *Table, err error) error {
	where := fmt.Sprintf("a row of table %s, in the initial load,", t.Collection)
	if e.Meta.Snapshot == "" {
		where = fmt.Sprintf("table %s, change at %s", t.Collection, e.Where())
	}
	f := &Fault{Problem: where + " cannot be encoded", Err: err, Collection: t.Collection, Remedy: "leave the column out with column.exclude.list, or choose another handling mode for its type"}
	var v *event.ValueError
	if errors.As(err, &v) {
		f.Remedy = "column.exclude.list: " + v.Table + "." + v.Column + ", or another handling mode for type " + v.Type
	}
	return f
}
