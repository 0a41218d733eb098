package mysql

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/rowtrail/rowtrail/connectors/event"
	"github.com/rowtrail/rowtrail/sink"
	"github.com/rowtrail/rowtrail/sink/window"
)

// session is a sink.Session: one connection, one target transaction at a time.
type session struct {
	target  *target
	conn    *conn
	epoch   string
	offsets []sink.Offset
	careful bool

	open       bool                 // a target transaction is open
	touched    map[tableName]bool   // tables that it has written
	tables     map[tableName]*table // as the catalog has them
	bindings   map[*event.Schema]*binding
	foreign    sink.Foreign // of records without a table version
	traced     map[string]bool
	collations map[string]bool // what the server has, as far as it was asked
	window     window.Window[*binding]
	truncate   []*table // consecutive truncates
	leaving    struct { // a delete that is half of a key change, waiting for the create
		b   *binding
		key event.Row
	}
	stages int // temporary tables made
	stash  map[*table]*stash

	// Reused from one round trip to the next.
	sql  []byte
	rows []int32
	mask []byte
	key  []byte
}

func newSession(t *target, m *conn) *session {
	return &session{
		target: t, conn: m, touched: make(map[tableName]bool), tables: make(map[tableName]*table), bindings: make(map[*event.Schema]*binding),
		traced: make(map[string]bool), collations: make(map[string]bool), stash: make(map[*table]*stash),
	}
}

func (s *session) Offsets() []sink.Offset { return s.offsets }
func (s *session) SetCareful(on bool)     { s.careful = on }
func (s *session) Close()                 { s.conn.close() }

// Apply adds an event to the window, and writes the window when it is full.
func (s *session) Apply(ctx context.Context, ev *sink.Event) error {
	if err := s.add(ctx, ev); err != nil {
		return classify(err)
	}
	if s.careful || s.window.Full() {
		return classify(s.flush(ctx))
	}
	return nil
}

func (s *session) add(ctx context.Context, ev *sink.Event) error {
	schema, change, key := ev.Schema, &ev.Change, ev.Key
	if schema == nil {
		var err error
		var ch event.Change
		if schema, ch, key, err = s.foreign.Read(ev); err != nil || schema == nil {
			return err
		}
		change = &ch
	}
	b := s.bindings[schema]
	if b == nil {
		var err error
		if b, err = s.bind(ctx, schema, ev.Topic, ev.Schema == nil); err != nil {
			return err
		}
	}
	if err := s.settleLeaving(b, change, ev.OldKey); err != nil {
		return err
	}
	s.window.At = window.Place{Topic: ev.Topic, Partition: ev.Partition, Offset: ev.Offset}
	if b.table.current != b { // another version of the table: its operations must not be folded into the ones before
		if err := s.flush(ctx); err != nil {
			return err
		}
		b.table.current = b
	}
	if change.Op == event.OpTruncate {
		return s.addTruncate(ctx, b)
	}
	if len(s.truncate) > 0 {
		if err := s.flush(ctx); err != nil {
			return err
		}
	}
	switch change.Op {
	case event.OpCreate, event.OpRead, event.OpUpdate:
		if ev.OldKey != nil && change.After != nil && !b.shape.Whole(change.After) {
			return s.move(ctx, b, change.After, key, ev.OldKey)
		}
		return s.window.Upsert(b, change.After, key, change.Op != event.OpUpdate)
	case event.OpDelete:
		if ev.NewKey != nil {
			s.leaving.b, s.leaving.key = b, key.Clone()
			return nil
		}
		return s.window.Delete(b, key)
	}
	return sink.Permanent(fmt.Errorf("operation %q is not one that a table can take", string(rune(change.Op))))
}

// settleLeaving turns the waiting delete into a delete, unless the event at hand is its create and lacks columns, which only
// the row under the old key has (invariant 6).
func (s *session) settleLeaving(b *binding, change *event.Change, oldKey event.Row) error {
	l := s.leaving
	if l.b == nil {
		return nil
	}
	s.leaving.b, s.leaving.key = nil, nil
	if l.b == b && change.Op == event.OpCreate && oldKey != nil && change.After != nil && !b.shape.Whole(change.After) {
		return nil
	}
	return s.window.Delete(l.b, l.key)
}

// move changes a row's key and keeps the columns that the source did not send.
func (s *session) move(ctx context.Context, b *binding, row, key, oldKey event.Row) error {
	if err := s.flush(ctx); err != nil {
		return err
	}
	if err := s.window.Move(b, row, key, oldKey); err != nil {
		return err
	}
	return s.flush(ctx)
}

// addTruncate collects truncates that follow one another: of tables that refer to each other the children go first.
func (s *session) addTruncate(ctx context.Context, b *binding) error {
	if !s.target.config.Truncate {
		if err := s.flush(ctx); err != nil {
			return err
		}
		rows, err := s.conn.query(ctx, "SELECT EXISTS (SELECT 1 FROM "+b.table.name.String()+")")
		if err != nil {
			return fmt.Errorf("look for rows of %s: %w", b.table.name, err)
		}
		if rows[0][0] == "0" {
			return nil
		}
		return sink.Permanent(fmt.Errorf("the source truncated the table, or it is loaded again, and truncate.enabled is false; empty %s by hand or enable it", b.table.name))
	}
	if !s.window.Empty() || slices.Contains(s.truncate, b.table) {
		if err := s.flush(ctx); err != nil {
			return err
		}
	}
	s.truncate = append(s.truncate, b.table)
	return nil
}

// begin opens the target transaction when none is open.
func (s *session) begin(ctx context.Context) error {
	if s.open {
		return nil
	}
	if _, err := s.conn.exec(ctx, "START TRANSACTION"); err != nil {
		return fmt.Errorf("begin target transaction: %w", err)
	}
	s.open = true
	return nil
}

// Commit writes what is left, checks that no newer session exists, stores the offsets and commits: invariant 4.
func (s *session) Commit(ctx context.Context, offsets []sink.Offset) error {
	if err := s.settleLeaving(nil, nil, nil); err != nil {
		return err
	}
	if err := s.flush(ctx); err != nil {
		return classify(err)
	}
	if err := s.settleStash(ctx, true); err != nil {
		return classify(err)
	}
	return classify(s.commitOffsets(ctx, offsets))
}

func (s *session) commitOffsets(ctx context.Context, offsets []sink.Offset) error {
	if err := s.begin(ctx); err != nil {
		return err
	}
	if !s.conn.IsInTransaction() {
		return errors.New("commit target transaction: the server has ended it already")
	}
	c := s.target.config
	rows, err := s.conn.query(ctx, c.epochSQL())
	if err != nil {
		return fmt.Errorf("check epoch: %w", err)
	}
	epoch := ""
	if len(rows) > 0 {
		epoch = rows[0][0]
	}
	if epoch != s.epoch {
		return fmt.Errorf("commit sink %s at epoch %s, the target is at epoch %s: %w", c.Name, s.epoch, epoch, sink.ErrFenced)
	}
	if len(offsets) > 0 {
		if _, err := s.conn.exec(ctx, c.offsetsSQL(offsets)); err != nil {
			return fmt.Errorf("store offsets: %w", err)
		}
	}
	if _, err := s.conn.exec(ctx, "COMMIT"); err != nil {
		return fmt.Errorf("commit target transaction: %w", err)
	}
	s.open = false
	clear(s.touched)
	return nil
}
