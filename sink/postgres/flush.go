package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// maxPrepared bounds the prepared statements of a session: sparse updates can make many.
const maxPrepared = 2000

// flush writes what waits in one round trip.
func (s *session) flush(ctx context.Context) error {
	if len(s.truncate) > 0 {
		if err := s.flushTruncate(ctx); err != nil {
			return err
		}
	}
	if s.window.empty() {
		return nil
	}
	defer s.window.reset()
	if s.prepared > maxPrepared {
		return errors.New("write rows: too many prepared statements, starting a fresh session")
	}
	ordered, exact := s.window.rules()
	switch {
	case exact, len(s.window.ops) == 1:
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

func (s *session) flushTruncate(ctx context.Context) error {
	names := make([]string, len(s.truncate))
	for i, t := range s.truncate {
		names[i] = t.name.String()
	}
	s.truncate = s.truncate[:0]
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

// planOrdered makes one statement per operation, in source order.
func (s *session) planOrdered(ctx context.Context) error {
	w := &s.window
	for _, o := range w.ops {
		s.rows = append(s.rows, o.cells)
		if err := s.call(ctx, o.b, o.kind, o.cells, len(s.rows)-1); err != nil {
			return err
		}
	}
	return nil
}

// planFolded makes few statements per table, with one row per key.
func (s *session) planFolded(ctx context.Context) error {
	w := &s.window
	for _, f := range w.tables {
		if err := s.callEach(ctx, f, opDelete, func(sl *slot) bool { return sl.deleted }); err != nil {
			return err
		}
		if err := s.callPatches(ctx, f); err != nil {
			return err
		}
		if err := s.callEach(ctx, f, opUpsert, func(sl *slot) bool { return sl.present && sl.kind == opUpsert }); err != nil {
			return err
		}
	}
	return nil
}

func (s *session) callEach(ctx context.Context, f *folded, kind opKind, pick func(*slot) bool) error {
	first := len(s.rows)
	for i := range f.slots {
		if pick(&f.slots[i]) {
			s.rows = append(s.rows, f.slots[i].cells)
		}
	}
	if len(s.rows) == first {
		return nil
	}
	return s.call(ctx, f.b, kind, s.rows[first], first)
}

// callPatches groups rows with the same absent columns.
func (s *session) callPatches(ctx context.Context, f *folded) error {
	var groups map[string][]int32
	var masks []string
	for i := range f.slots {
		sl := &f.slots[i]
		if !sl.present || sl.kind != opPatch {
			continue
		}
		if groups == nil {
			groups = make(map[string][]int32)
		}
		s.mask = s.window.mask(s.mask, f.b, sl.cells)
		if groups[string(s.mask)] == nil {
			masks = append(masks, string(s.mask))
		}
		groups[string(s.mask)] = append(groups[string(s.mask)], sl.cells)
	}
	for _, m := range masks {
		first := len(s.rows)
		s.rows = append(s.rows, groups[m]...)
		if err := s.call(ctx, f.b, opPatch, groups[m][0], first); err != nil {
			return err
		}
	}
	return nil
}

// call adds a statement for the rows from first on; all have the shape of the one at cells.
func (s *session) call(ctx context.Context, b *binding, kind opKind, cells int32, first int) error {
	c := call{b: b, first: first, last: len(s.rows), patch: kind == opPatch || kind == opMove}
	key := "u"
	switch kind {
	case opDelete:
		key = "d"
	case opPatch:
		s.mask = s.window.mask(s.mask, b, cells)
		key = "p" + string(s.mask)
	case opMove:
		s.mask = s.window.mask(s.mask, b, cells)
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
