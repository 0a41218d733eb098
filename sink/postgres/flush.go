package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/rowtrail/rowtrail/sink/window"
)

// maxPrepared bounds the prepared statements of a session: sparse updates can make many.
const maxPrepared = 2000

// Write writes the window in one round trip; it is of window.Database.
func (s *session) Write(ctx context.Context) error {
	if s.prepared > maxPrepared {
		return errors.New("write rows: too many prepared statements, starting a fresh session")
	}
	ordered, exact := rules(&s.in.Window)
	switch {
	case exact, len(s.in.Ops) == 1:
		return s.write(ctx, s.planOrdered, "", "")
	case !ordered:
		return s.write(ctx, s.planFolded, "", "")
	}
	err := s.write(ctx, s.planFolded, "SAVEPOINT rowtrail_window", "RELEASE SAVEPOINT rowtrail_window")
	if err == nil || !orderMatters(err) {
		return err
	}
	p := s.pipeline(ctx)
	p.simple("ROLLBACK TO SAVEPOINT rowtrail_window")
	if err := p.finish(); err != nil {
		return fmt.Errorf("undo window: %w", err)
	}
	return s.write(ctx, s.planOrdered, "", "RELEASE SAVEPOINT rowtrail_window")
}

// Truncate empties tables in one statement: those that refer to each other can only be emptied together.
func (s *session) Truncate(ctx context.Context, tables []*binding) error {
	names := make([]string, len(tables))
	for i, b := range tables {
		names[i] = b.table.String()
	}
	p := s.pipeline(ctx)
	p.begin(s)
	p.simple("TRUNCATE " + strings.Join(names, ", "))
	if err := p.finish(); err != nil {
		return fmt.Errorf("truncate %s: %w", strings.Join(names, ", "), err)
	}
	return nil
}

// begin opens the target transaction.
func (s *session) begin(ctx context.Context) error {
	p := s.pipeline(ctx)
	p.begin(s)
	return p.finish()
}

// write plans statements and sends them between two others.
func (s *session) write(ctx context.Context, plan func(context.Context) error, before, after string) error {
	s.calls = s.calls[:0]
	s.rows = s.rows[:0]
	if err := plan(ctx); err != nil {
		return err
	}
	p := s.pipeline(ctx)
	p.begin(s)
	if before != "" {
		p.simple(before)
	}
	for i := range s.calls {
		c := &s.calls[i]
		p.prepared(c.name, s.encode(c), true, nil)
		if c.patch {
			p.expectRows(int64(c.last-c.first), c.b)
		}
	}
	if after != "" {
		p.simple(after)
	}
	if err := p.finish(); err != nil {
		return fmt.Errorf("write rows: %w", err)
	}
	return nil
}

// call is one statement with its rows.
type call struct {
	b           *binding
	name        string
	columns     []int // of the binding, in the order of the parameters
	first, last int   // in session.rows: the first cell of each row
	patch       bool  // every row must be there
}

// rules tell that folding may be refused, and that it must not be done.
func rules(w *window.Window[*binding]) (ordered, exact bool) {
	for _, f := range w.Tables {
		ordered = ordered || f.B.table.ordered || !f.B.simple
		exact = exact || f.B.table.exact
	}
	return ordered, exact
}

// planOrdered makes one statement per operation, in source order.
func (s *session) planOrdered(ctx context.Context) error {
	w := s.in
	for _, o := range w.Ops {
		s.rows = append(s.rows, o.Cells)
		if err := s.call(ctx, o.B, o.Kind, o.Cells, len(s.rows)-1); err != nil {
			return err
		}
	}
	return nil
}

// planFolded makes few statements per table, with one row per key.
func (s *session) planFolded(ctx context.Context) error {
	w := s.in
	for _, f := range w.Tables {
		if err := s.callEach(ctx, f, window.Delete, func(sl *window.Slot) bool { return sl.Deleted }); err != nil {
			return err
		}
		if err := s.callPatches(ctx, f); err != nil {
			return err
		}
		if err := s.callEach(ctx, f, window.Upsert, func(sl *window.Slot) bool { return sl.Present && sl.Kind == window.Upsert }); err != nil {
			return err
		}
	}
	return nil
}

func (s *session) callEach(ctx context.Context, f *window.Folded[*binding], kind window.Kind, pick func(*window.Slot) bool) error {
	first := len(s.rows)
	for i := range f.Slots {
		if pick(&f.Slots[i]) {
			s.rows = append(s.rows, f.Slots[i].Cells)
		}
	}
	if len(s.rows) == first {
		return nil
	}
	return s.call(ctx, f.B, kind, s.rows[first], first)
}

// callPatches writes rows with the same absent columns together.
func (s *session) callPatches(ctx context.Context, f *window.Folded[*binding]) error {
	masks, rows := s.in.Patches(f)
	for _, m := range masks {
		first := len(s.rows)
		s.rows = append(s.rows, rows[m]...)
		if err := s.call(ctx, f.B, window.Patch, rows[m][0], first); err != nil {
			return err
		}
	}
	return nil
}

// call adds a statement for the rows from first on; all have the shape of the one at cells.
func (s *session) call(ctx context.Context, b *binding, kind window.Kind, cells int32, first int) error {
	c := call{b: b, first: first, last: len(s.rows), patch: kind == window.Patch || kind == window.Move}
	key := "u"
	switch kind {
	case window.Delete:
		key = "d"
	case window.Patch:
		s.mask = s.in.Mask(s.mask, &b.shape, cells)
		key = "p" + string(s.mask)
	case window.Move:
		s.mask = s.in.Mask(s.mask, &b.shape, cells)
		key = "m" + string(s.mask)
	}
	st, err := s.statement(ctx, b, key)
	if err != nil {
		return err
	}
	c.name, c.columns = st.name, st.columns
	s.calls = append(s.calls, c)
	return nil
}
