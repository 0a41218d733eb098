package mysql

import (
	"context"
	"fmt"

	"github.com/rowtrail/rowtrail/sink/window"
)

// Write writes the window; it is of window.Database.
func (s *session) Write(ctx context.Context) error {
	if err := s.begin(ctx); err != nil {
		return err
	}
	ordered, exact := false, len(s.in.Ops) == 1
	for _, f := range s.in.Tables {
		t := f.B.table
		s.touched[t.name] = true
		ordered = ordered || t.ordered || !f.B.simple
		exact = exact || t.exact || s.stash[t] != nil
	}
	switch {
	case exact:
		return s.writeOrdered(ctx)
	case !ordered:
		return s.writeFolded(ctx)
	}
	if _, err := s.conn.exec(ctx, "SAVEPOINT rowtrail_window"); err != nil {
		return fmt.Errorf("begin window: %w", err)
	}
	err := s.writeFolded(ctx)
	if err == nil || !orderMatters(err) {
		return err
	}
	if _, err := s.conn.exec(ctx, "ROLLBACK TO SAVEPOINT rowtrail_window"); err != nil {
		return fmt.Errorf("undo window: %w", err)
	}
	return s.writeOrdered(ctx)
}

// Truncate empties tables, of those that refer to each other the children first. TRUNCATE would end the transaction.
func (s *session) Truncate(ctx context.Context, left []*binding) error {
	if err := s.begin(ctx); err != nil {
		return err
	}
	for len(left) > 0 {
		var again []*binding
		var last error
		for _, b := range left {
			t := b.table
			s.touched[t.name] = true
			if err := s.dropStash(ctx, t); err != nil {
				return err
			}
			_, err := s.conn.exec(ctx, "DELETE FROM "+t.name.String())
			switch {
			case code(err) == errParentRow: // after its children
				again, last = append(again, b), err
			case err != nil:
				return fmt.Errorf("empty %s: %w", t.name, err)
			}
		}
		if len(again) == len(left) {
			return fmt.Errorf("empty %s: %w", again[0].table, last)
		}
		left = again
	}
	return nil
}

// writeFolded writes one row per key, in few statements per table.
func (s *session) writeFolded(ctx context.Context) error {
	for _, f := range s.in.Tables {
		b := f.B
		if err := s.deleteRows(ctx, b, s.pick(f, func(sl *window.Slot) bool { return sl.Deleted })); err != nil {
			return err
		}
		masks, patches := s.in.Patches(f)
		for _, m := range masks {
			if err := s.updateRows(ctx, b, maskColumns(m), patches[m], true); err != nil {
				return err
			}
		}
		old := s.pick(f, func(sl *window.Slot) bool { return sl.Present && sl.Kind == window.Upsert && !sl.Fresh })
		if err := s.updateRows(ctx, b, allColumns(len(b.columns)), old, false); err != nil {
			return err
		}
		fresh := s.pick(f, func(sl *window.Slot) bool { return sl.Present && sl.Kind == window.Upsert && sl.Fresh })
		if err := s.insertRows(ctx, b, fresh); err != nil {
			return err
		}
	}
	return nil
}

// pick lists rows of a table; the list holds until the next one.
func (s *session) pick(f *window.Folded[*binding], which func(*window.Slot) bool) []int32 {
	s.rows = s.rows[:0]
	for i := range f.Slots {
		if which(&f.Slots[i]) {
			s.rows = append(s.rows, f.Slots[i].Cells)
		}
	}
	return s.rows
}

// writeOrdered writes one operation after another, in source order.
func (s *session) writeOrdered(ctx context.Context) error {
	for i := range s.in.Ops {
		if err := s.writeOne(ctx, &s.in.Ops[i]); err != nil {
			return err
		}
	}
	return s.settleStash(ctx, false)
}

// writeOne writes one operation.
func (s *session) writeOne(ctx context.Context, o *window.Op[*binding]) error {
	b := o.B
	if st := s.stash[b.table]; st != nil {
		if done, err := s.writeStashed(ctx, st, o); done || err != nil {
			return err
		}
	}
	all := allColumns(len(b.columns))
	one := []int32{o.Cells}
	switch o.Kind {
	case window.Delete:
		return s.deleteRows(ctx, b, one)
	case window.Patch, window.Move:
		s.mask = s.in.Mask(s.mask, &b.shape, o.Cells)
		columns := maskColumns(string(s.mask))
		n, err := s.updateOne(ctx, b.table.name.String(), o, columns)
		switch {
		case duplicate(err):
			return s.setAside(ctx, o, columns, err)
		case err == nil && n == 0:
			return window.AbsentRow(b.table, 1, 1)
		}
		return err
	}
	if o.Fresh {
		err := s.insertInto(ctx, b.table.name.String(), b, all, one)
		if !duplicate(err) {
			return err
		}
	}
	n, err := s.updateOne(ctx, b.table.name.String(), o, all)
	if err == nil && n == 0 {
		err = s.insertInto(ctx, b.table.name.String(), b, all, one)
	}
	if duplicate(err) {
		return s.setAside(ctx, o, all, err)
	}
	return err
}

// maskColumns lists the columns that a mask has.
func maskColumns(mask string) []int {
	var columns []int
	for i := range len(mask) {
		if mask[i] == '1' {
			columns = append(columns, i)
		}
	}
	return columns
}

func allColumns(n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	return all
}
