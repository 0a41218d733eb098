package postgres

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/rowtrail/rowtrail/connectors"
	"github.com/rowtrail/rowtrail/connectors/event"
)

// Debezium's headers of the two events that a key change becomes.
const (
	newKeyHeader = "__debezium.newkey"
	oldKeyHeader = "__debezium.oldkey"
)

// emitter encodes events into batches. It belongs to one goroutine.
type emitter struct {
	config *Config
	writer *connectors.Writer
	batch  *connectors.Batch
	now    time.Time
	meta   event.Meta
	pos    event.Position
	known  *sync.Map // IDs of the schemas that are written in this run
}

func (e *emitter) touch() {
	e.now = time.Now()
	e.meta.TsMs = e.now.UnixMilli()
}

// room makes sure that there is a batch with room.
func (e *emitter) room(ctx context.Context) error {
	if e.batch != nil && e.batch.Full() {
		if err := e.send(ctx); err != nil {
			return err
		}
	}
	if e.batch == nil {
		b, err := e.writer.NewBatch(ctx)
		if err != nil {
			return err
		}
		e.batch = b
	}
	return nil
}

// send hands over what there is.
func (e *emitter) send(ctx context.Context) error {
	if e.batch == nil {
		return nil
	}
	b := e.batch
	e.batch = nil
	if b.Empty() {
		e.writer.Drop(b)
		return nil
	}
	return e.writer.Send(ctx, b)
}

// span is a piece of the batch's slab while that may still move.
type span struct{ from, to int }

func (s span) of(buf []byte) []byte { return buf[s.from:s.to:s.to] }

// schemaOnce writes a table version before its first use in this run.
func (e *emitter) schemaOnce(ctx context.Context, r *relation) error {
	if r.announced {
		return nil
	}
	r.announced = true
	if _, written := e.known.LoadOrStore(r.schema.ID, true); written {
		return nil
	}
	if err := e.room(ctx); err != nil {
		return err
	}
	value, err := r.schema.MarshalJSON()
	if err != nil {
		return fmt.Errorf("encode schema of %s: %w", r.collection, err)
	}
	e.batch.Record(e.config.Prefix+".schema", 0, r.schema.TopicKey(), value, e.now)
	return nil
}

// change writes one event; e.pos and e.meta are set. keyRow is the image that has the key.
func (e *emitter) change(r *relation, op event.Op, before, after, keyRow event.Row, absent []uint16) error {
	b := e.batch
	buf := b.Buf()
	e.pos.Schema, e.pos.Absent = r.schema.ID, absent
	key := span{from: len(buf)}
	buf, keyed, err := r.encoder.AppendKey(buf, keyRow)
	if err != nil {
		return e.undecodable(r, err)
	}
	key.to = len(buf)
	head := span{from: len(buf)}
	buf = e.pos.Append(buf)
	head.to = len(buf)
	value := span{from: len(buf)}
	if buf, err = r.encoder.AppendValue(buf, op, before, after, &e.meta); err != nil {
		return e.undecodable(r, err)
	}
	value.to = len(buf)
	b.Keep(buf)
	var k []byte
	if keyed {
		k = key.of(buf)
	}
	b.Header(event.PositionHeader, head.of(buf))
	b.Record(r.topic, 0, k, value.of(buf), e.now)
	if op == event.OpDelete && keyed && e.config.Tombstones {
		b.Header(event.PositionHeader, head.of(buf))
		b.Record(r.topic, 0, k, nil, e.now)
	}
	return nil
}

// rekey writes a key change: delete and tombstone of the old key, create of the new one (P9). Both are part of the same
// source transaction, so a reader sees both or none.
func (e *emitter) rekey(r *relation, next func()) error {
	b := e.batch
	buf := b.Buf()
	oldKey := span{from: len(buf)}
	buf, _, err := r.encoder.AppendKey(buf, r.old)
	if err != nil {
		return e.undecodable(r, err)
	}
	oldKey.to = len(buf)
	newKey := span{from: len(buf)}
	if buf, _, err = r.encoder.AppendKey(buf, r.row); err != nil {
		return e.undecodable(r, err)
	}
	newKey.to = len(buf)
	b.Keep(buf)
	oldBytes, newBytes := oldKey.of(buf), newKey.of(buf)
	b.Header(newKeyHeader, newBytes)
	if err := e.change(r, event.OpDelete, r.old, nil, r.old, nil); err != nil {
		return err
	}
	next()
	b.Header(oldKeyHeader, oldBytes)
	return e.change(r, event.OpCreate, nil, r.row, r.row, r.absentColumns())
}

// truncate goes to every partition of the table: a barrier that no reader of one partition can miss (P25).
func (e *emitter) truncate(r *relation) error {
	b := e.batch
	buf := b.Buf()
	e.pos.Schema, e.pos.Absent = r.schema.ID, nil
	head := span{from: len(buf)}
	buf = e.pos.Append(buf)
	head.to = len(buf)
	value := span{from: len(buf)}
	buf, err := r.encoder.AppendValue(buf, event.OpTruncate, nil, nil, &e.meta)
	if err != nil {
		return e.undecodable(r, err)
	}
	value.to = len(buf)
	b.Keep(buf)
	for p := range r.partitions {
		b.Header(event.PositionHeader, head.of(buf))
		b.Record(r.topic, p, nil, value.of(buf), e.now)
	}
	return nil
}

// undecodable stops the connector at a value (invariant 7).
func (e *emitter) undecodable(r *relation, err error) error {
	where := fmt.Sprintf("a row of table %s, in the initial load,", r.collection)
	if e.meta.Snapshot == "" {
		where = fmt.Sprintf("table %s, change at %s of the transaction that committed at %s", r.collection, lsn(e.meta.LSN), lsn(e.pos.Commit))
	}
	f := &connectors.Fault{Problem: where + " cannot be encoded", Err: err, Remedy: "leave the column out with column.exclude.list, or choose another handling mode for its type"}
	var v *event.ValueError
	if errors.As(err, &v) {
		f.Remedy = "column.exclude.list: " + v.Table + "." + v.Column + ", or another handling mode for type " + v.Type
	}
	return f
}
