package mysql

import (
	"context"

	"github.com/rowtrail/rowtrail/connectors"
	"github.com/rowtrail/rowtrail/connectors/event"
	"github.com/rowtrail/rowtrail/connectors/mysql/binlog"
	"github.com/rowtrail/rowtrail/connectors/mysql/chunks"
	"github.com/rowtrail/rowtrail/connectors/mysql/state"
)

// rows writes the rows of one event.
func (s *stream) rows(ctx context.Context, e *binlog.Event) error {
	if !s.group.open {
		return malformed("rows outside of a transaction")
	}
	ordinal := s.group.ordinal
	defer func() { s.group.ordinal = ordinal + 1 }()
	if e.Rows.Table == nil {
		return nil
	}
	if s.group.skip {
		return s.seekRows(ctx, e)
	}
	r, err := s.relation(ctx, e.Rows.Table)
	if r == nil || err != nil {
		return err
	}
	if skip, err := s.undone(ctx, r); skip || err != nil {
		return err
	}
	if wait, err := s.waits(ctx, r); err != nil {
		return err
	} else if wait {
		s.group.touched[r] = ordinal
		return s.holdRows(ctx, e)
	} else if !s.counts(r) {
		return nil
	}
	if r.parked != nil {
		s.group.touched[r] = ordinal
		return s.keepRows(ctx, r, e)
	}
	window := s.loader.load.Window(r.Collection)
	signals := r.signals && e.Rows.Op == event.OpCreate
	skips := r.hidden || s.skips(e.Rows.Op)
	if skips && window == nil && !signals { // of a table that is repaired nothing is left out
		return nil
	}
	s.group.touched[r] = ordinal
	if !e.Inner {
		s.Meta.Binlog.Pos = e.End - min(e.End, uint64(e.Header.Size))
	}
	s.Meta.Binlog.File = s.file
	return s.write(ctx, e, r, window)
}

// write writes the rows of an event, and tells a chunk of the load whose window is open.
func (s *stream) write(ctx context.Context, e *binlog.Event, r *relation, window *chunks.Window) error {
	signals := r.signals && e.Rows.Op == event.OpCreate
	skips := r.hidden || s.skips(e.Rows.Op)
	var mending *chunks.Window
	if s.repair != nil {
		mending = s.repair.load.Window(r.Collection)
	}
	for row := 0; ; row++ {
		more, err := e.Rows.Next(r.layout, r.before, r.after)
		if err != nil || !more {
			return err
		}
		if err := s.fillIn(ctx, r, e); err != nil {
			return err
		}
		r.whole = !state.Lacks(r.before)
		if window != nil {
			if err := s.touch(ctx, s.loader, window, r, e.Rows.Op); err != nil {
				return err
			}
		}
		if mending != nil {
			if err := s.touch(ctx, s.repair.loader, mending, r, e.Rows.Op); err != nil {
				return err
			}
		}
		if signals {
			if err := s.signalRow(r); err != nil {
				return err
			}
		}
		if skips {
			continue
		}
		if err := s.Prepare(ctx, &r.Table); err != nil {
			return err
		}
		s.Meta.Binlog.Row = row
		if err := s.row(r, e.Rows.Op); err != nil {
			return err
		}
		if err := s.keep(r, e.Rows.Op); err != nil {
			return err
		}
	}
}

func (s *stream) skips(op event.Op) bool {
	switch op {
	case event.OpCreate:
		return s.config.SkipCreate
	case event.OpUpdate:
		return s.config.SkipUpdate
	case event.OpDelete:
		return s.config.SkipDelete
	}
	return false
}

// row writes one row. Columns that neither the source sent nor the log has stay absent (M13).
func (s *stream) row(r *relation, op event.Op) error {
	s.Next(&r.Table)
	switch op {
	case event.OpCreate:
		return s.Change(&r.Table, op, nil, r.after, r.after, r.absentColumns())
	case event.OpDelete:
		return s.Change(&r.Table, op, r.before, nil, r.before, nil)
	}
	if r.KeyChanged(r.before, r.after) {
		return s.Rekey(&r.Table, r.before, r.after, r.absentColumns(), func() { s.Next(&r.Table) })
	}
	before := r.before
	if !r.whole {
		before = nil // some columns are not the row as it was
	}
	return s.Change(&r.Table, event.OpUpdate, before, r.after, r.after, r.absentColumns())
}

func (r *relation) absentColumns() []uint16 {
	r.absent = connectors.AbsentColumns(r.absent[:0], r.after)
	return r.absent
}
