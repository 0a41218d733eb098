package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/rowtrail/rowtrail/connectors/event"
	"github.com/rowtrail/rowtrail/sink"
	"github.com/rowtrail/rowtrail/sink/window"
)

// session is a sink.Session: one connection, one target transaction at a time.
type session struct {
	target  *target
	conn    *pgconn.PgConn
	epoch   string
	offsets []sink.Offset
	careful bool

	open     bool                 // a target transaction is open
	tables   map[tableName]*table // as the catalog has them
	enums    map[string]*enumType // by oid
	bindings map[*event.Schema]*binding
	foreign  sink.Foreign    // of records without a table version
	traced   map[string]bool // topics of which the trace was read
	window   window.Window[*binding]
	truncate []*table // consecutive truncates, waiting to be one statement
	leaving  struct { // a delete that is half of a key change, waiting for the create
		b   *binding
		key event.Row
	}
	prepared int

	// Reused from one round trip to the next.
	element []byte
	pipe    pipeline
	calls   []call
	rows    []int32
	mask    []byte
	params  [][]byte

	commit struct {
		ready  bool
		params [][]byte
	}
}

func newSession(t *target, conn *pgconn.PgConn) *session {
	return &session{
		target: t, conn: conn, tables: make(map[tableName]*table), enums: make(map[string]*enumType),
		bindings: make(map[*event.Schema]*binding), traced: make(map[string]bool),
	}
}

func (s *session) Offsets() []sink.Offset { return s.offsets }
func (s *session) SetCareful(on bool)     { s.careful = on }
func (s *session) Close()                 { closeConn(s.conn) }

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
		if len(b.enums) > 0 && change.After != nil {
			if err := s.checkLabels(ctx, b, change.After); err != nil {
				return err
			}
		}
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

// addTruncate collects truncates that follow one another: tables that refer to each other can only be emptied together.
func (s *session) addTruncate(ctx context.Context, b *binding) error {
	if !s.target.config.Truncate {
		if err := s.flush(ctx); err != nil {
			return err
		}
		rows, err := query(ctx, s.conn, "SELECT EXISTS (SELECT FROM "+b.table.name.String()+")")
		if err != nil {
			return fmt.Errorf("look for rows of %s: %w", b.table.name, err)
		}
		if string(rows[0][0]) == "f" {
			return nil
		}
		return sink.Permanent(fmt.Errorf("the source truncated the table, or it is loaded again, and truncate.enabled is false; empty %s by hand or enable it", b.table.name))
	}
	if !s.window.Empty() {
		if err := s.flush(ctx); err != nil {
			return err
		}
	}
	if slices.Contains(s.truncate, b.table) {
		if err := s.flush(ctx); err != nil {
			return err
		}
	}
	s.truncate = append(s.truncate, b.table)
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
	return classify(s.commitOffsets(ctx, offsets))
}

func (s *session) commitOffsets(ctx context.Context, offsets []sink.Offset) error {
	if err := s.prepareCommit(ctx); err != nil {
		return err
	}
	epoch := ""
	p := s.pipeline(ctx)
	p.begin(s)
	p.prepared("rowtrail_fence", [][]byte{[]byte(s.target.config.Name)}, false, func(r *pgconn.ResultReader) {
		for r.NextRow() {
			epoch = string(r.Values()[0])
		}
	})
	if len(offsets) > 0 {
		p.prepared("rowtrail_offsets", s.offsetParams(offsets), false, nil)
	}
	if err := p.finish(); err != nil {
		return fmt.Errorf("store offsets: %w", err)
	}
	if epoch != s.epoch {
		return fmt.Errorf("commit sink %s at epoch %s, the target is at epoch %s: %w", s.target.config.Name, s.epoch, epoch, sink.ErrFenced)
	}
	results, err := s.conn.Exec(ctx, "COMMIT").ReadAll()
	switch {
	case err != nil:
		return fmt.Errorf("commit target transaction: %w", err)
	case len(results) != 1 || results[0].CommandTag.String() != "COMMIT":
		return errors.New("commit target transaction: the server rolled it back")
	}
	s.open = false
	return nil
}

func (s *session) prepareCommit(ctx context.Context) error {
	if s.commit.ready {
		return nil
	}
	c := s.target.config
	_, err := s.conn.Prepare(ctx, "rowtrail_fence", "SELECT epoch FROM "+c.sinksTable()+" WHERE sink = $1 FOR SHARE", nil)
	if err != nil {
		return fmt.Errorf("prepare epoch check: %w", err)
	}
	_, err = s.conn.Prepare(ctx, "rowtrail_offsets", "INSERT INTO "+c.offsetsTable()+` (sink, topic, partition, next_offset, position, behind, log_id, updated_at)
		SELECT $1, u.t, u.p, u.n, u.c, u.b, u.l, clock_timestamp()
		FROM unnest($2::text[], $3::integer[], $4::bigint[], $5::bigint[], $6::boolean[], $7::text[]) AS u(t, p, n, c, b, l)
		ON CONFLICT (sink, topic, partition) DO UPDATE SET next_offset = EXCLUDED.next_offset, position = EXCLUDED.position,
		behind = EXCLUDED.behind, log_id = EXCLUDED.log_id, updated_at = EXCLUDED.updated_at`, nil)
	if err != nil {
		return fmt.Errorf("prepare offsets: %w", err)
	}
	s.commit.ready = true
	s.commit.params = make([][]byte, 7)
	return nil
}

// offsetParams writes the offsets as text arrays.
func (s *session) offsetParams(offsets []sink.Offset) [][]byte {
	p := s.commit.params
	p[0] = append(p[0][:0], s.target.config.Name...)
	for i := 1; i < len(p); i++ {
		p[i] = append(p[i][:0], '{')
	}
	for i, o := range offsets {
		if i > 0 {
			for j := 1; j < len(p); j++ {
				p[j] = append(p[j], ',')
			}
		}
		p[1] = strconv.AppendQuote(p[1], o.Topic) // topic names are [a-zA-Z0-9._-]
		p[2] = strconv.AppendInt(p[2], int64(o.Partition), 10)
		p[3] = strconv.AppendInt(p[3], o.Next, 10)
		p[4] = strconv.AppendInt(p[4], int64(o.Position), 10)
		p[5] = strconv.AppendBool(p[5], o.Behind)
		if o.Log == "" {
			p[6] = append(p[6], "NULL"...)
		} else {
			p[6] = strconv.AppendQuote(p[6], o.Log)
		}
	}
	for i := 1; i < len(p); i++ {
		p[i] = append(p[i], '}')
	}
	return p
}
