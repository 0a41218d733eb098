package connectors

import (
	"context"

	"github.com/rowtrail/rowtrail/connectors/event"
)

// transaction is the source transaction that an Emitter is in.
type transaction struct {
	ID     []byte // as the transaction topic has it
	Events uint64 // of this run, all transactions

	serial  uint64
	began   bool // its BEGIN record is written
	shares  map[string]*share
	touched []*share
	counts  []event.CollectionCount
}

// share is a table's share of a source transaction, over all versions of the table.
type share struct {
	collection  string
	transaction uint64 // the transaction that count belongs to
	count       uint64
}

// Begin begins a source transaction, whose ID is set after it.
func (e *Emitter) Begin(at event.Position) {
	e.Pos = at
	e.serial++
	e.began = false
	e.touched = e.touched[:0]
	e.ID = e.ID[:0]
}

// Prepare makes ready for the transaction's next event of a table: its schema record, the BEGIN record where it is wanted, and room.
func (e *Emitter) Prepare(ctx context.Context, t *Table) error {
	if e.Settings.TransactionMetadata && !e.began {
		e.began = true
		if err := e.transactionRecord(ctx, event.TransactionBegin); err != nil {
			return err
		}
	}
	if err := e.SchemaOnce(ctx, t); err != nil {
		return err
	}
	return e.Room(ctx)
}

// Next numbers the event that follows.
func (e *Emitter) Next(t *Table) {
	if t.share == nil {
		if t.share = e.shares[t.Collection]; t.share == nil {
			t.share = &share{collection: t.Collection}
			if e.shares == nil {
				e.shares = map[string]*share{}
			}
			e.shares[t.Collection] = t.share
		}
	}
	s := t.share
	if s.transaction != e.serial {
		s.transaction, s.count = e.serial, 0
		e.touched = append(e.touched, s)
	}
	s.count++
	e.Pos.Order++
	e.Pos.CollectionOrder = s.count
	e.Events++
	if e.Settings.TransactionMetadata {
		e.Meta.Transaction = &event.Transaction{ID: string(e.ID), TotalOrder: e.Pos.Order, CollectionOrder: s.count}
	}
}

// End writes the END record of a transaction that had events (invariant 5: by it a reader knows that it has all), and tells
// whether it had.
func (e *Emitter) End(ctx context.Context) (bool, error) {
	if e.Pos.Order == 0 {
		return false, nil
	}
	return true, e.transactionRecord(ctx, event.TransactionEndMark)
}

func (e *Emitter) transactionRecord(ctx context.Context, status string) error {
	if err := e.Room(ctx); err != nil {
		return err
	}
	t := event.TransactionEnd{Status: status, ID: string(e.ID), TsMs: e.Pos.CommitTime / 1000}
	if status == event.TransactionEndMark {
		e.counts = e.counts[:0]
		for _, s := range e.touched {
			e.counts = append(e.counts, event.CollectionCount{Collection: s.collection, Count: int64(s.count)})
		}
		t.EventCount, t.Collections = int64(e.Pos.Order), e.counts
	}
	schemas := e.Settings.Event.SchemasEnable
	buf := e.Batch.Buf()
	key := Span{From: len(buf)}
	buf = t.AppendKey(buf, schemas)
	key.To = len(buf)
	value := Span{From: len(buf)}
	buf = t.AppendValue(buf, schemas)
	value.To = len(buf)
	head := Span{From: len(buf)}
	buf = event.Position{Commit: e.Pos.Commit, CommitTime: e.Pos.CommitTime}.Append(buf)
	head.To = len(buf)
	e.Batch.Keep(buf)
	e.Batch.Header(event.PositionHeader, head.Of(buf))
	e.Batch.Record(e.Settings.Prefix+".transaction", 0, key.Of(buf), value.Of(buf), e.Now)
	return nil
}

// Heartbeat writes Debezium's heartbeat record.
func (e *Emitter) Heartbeat(ctx context.Context) error {
	e.Touch()
	if err := e.Room(ctx); err != nil {
		return err
	}
	schemas := e.Settings.Event.SchemasEnable
	buf := e.Batch.Buf()
	key := Span{From: len(buf)}
	buf = event.AppendHeartbeatKey(buf, e.Settings.Prefix, schemas)
	key.To = len(buf)
	value := Span{From: len(buf)}
	buf = event.AppendHeartbeatValue(buf, e.Meta.TsMs, schemas)
	value.To = len(buf)
	e.Batch.Keep(buf)
	e.Batch.Record(e.Settings.HeartbeatTopic, 0, key.Of(buf), value.Of(buf), e.Now)
	return nil
}
