package mysql

import (
	"context"
	"errors"
	"fmt"

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

	open       bool                 // a target transaction is open
	touched    map[tableName]bool   // tables that it has written
	tables     map[tableName]*table // as the catalog has them
	traced     map[string]bool
	collations map[string]bool // what the server has, as far as it was asked
	in         *window.Intake[*binding]
	stages     int // temporary tables made
	stash      map[*table]*stash

	loadFrom int // so many rows are loaded

	// Reused from one round trip to the next.
	sql  []byte
	data []byte // lines to be loaded
	rows []int32
	mask []byte
	key  []byte
}

func newSession(t *target, m *conn) *session {
	s := &session{
		target: t, conn: m, touched: make(map[tableName]bool), tables: make(map[tableName]*table),
		traced: make(map[string]bool), collations: make(map[string]bool), stash: make(map[*table]*stash),
		loadFrom: minLoaded,
	}
	s.in = window.NewIntake(s, t.config.Truncate)
	return s
}

func (s *session) Offsets() []sink.Offset { return s.offsets }
func (s *session) SetCareful(on bool)     { s.in.Careful = on }
func (s *session) Close()                 { s.conn.close() }

// Apply takes an event; it is described at sink.Session.
func (s *session) Apply(ctx context.Context, ev *sink.Event) error {
	return classify(s.in.Apply(ctx, ev))
}

// Check is of window.Database: rows are looked at when they are written.
func (s *session) Check(context.Context, *binding, event.Row) error { return nil }

// HoldsRows is of window.Database.
func (s *session) HoldsRows(ctx context.Context, b *binding) (bool, error) {
	rows, err := s.conn.query(ctx, "SELECT EXISTS (SELECT 1 FROM "+b.table.name.String()+")")
	return err == nil && rows[0][0] != "0", err
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
	if err := s.in.Settle(ctx); err != nil {
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
