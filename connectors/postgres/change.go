package postgres

import (
	"context"
	"fmt"

	"github.com/rowtrail/rowtrail/connectors"
	"github.com/rowtrail/rowtrail/connectors/event"
)

// table finds the relation of a change; nil means that the change is not captured.
func (s *stream) table(ctx context.Context, id uint32, skipped bool) (*relation, error) {
	r, ok := s.relations[id]
	if !ok {
		return nil, malformed(fmt.Errorf("change of relation %d, which was not described", id))
	}
	if skipped || !r.captured || s.begin.commit < r.point {
		return nil, nil
	}
	if r.Partitions == 0 { // P22: not before a change, as partitions are described too, and have none of their own
		if err := s.Writer.EnsureTable(ctx, &r.Table); err != nil {
			return nil, err
		}
	}
	return r, s.Prepare(ctx, &r.Table)
}

func (s *stream) insert(ctx context.Context, b []byte) error {
	in := reader{b: b}
	r, err := s.table(ctx, in.uint32(), s.config.SkipCreate)
	if r == nil || err != nil {
		return err
	}
	if err := r.readNew(&in, in.uint8()); err != nil {
		return malformed(fmt.Errorf("insert: %w", err))
	}
	s.Next(&r.Table)
	return s.Change(&r.Table, event.OpCreate, nil, r.row, r.row, r.absentColumns())
}

// readNew reads the new row, which ends its message.
func (r *relation) readNew(in *reader, kind byte) error {
	if kind != 'N' {
		return fmt.Errorf("%q instead of a new row", kind)
	}
	if err := parseTuple(in, r.pick, r.row, nil); err != nil {
		return err
	}
	return in.done()
}

func (s *stream) update(ctx context.Context, b []byte) error {
	in := reader{b: b}
	r, err := s.table(ctx, in.uint32(), s.config.SkipUpdate)
	if r == nil || err != nil {
		return err
	}
	kind := in.uint8()
	before, err := s.oldRow(&in, r, kind)
	if err != nil {
		return err
	}
	if before {
		kind = in.uint8()
	}
	if err := r.readNew(&in, kind); err != nil {
		return malformed(fmt.Errorf("update: %w", err))
	}
	if !before {
		s.Next(&r.Table)
		return s.Change(&r.Table, event.OpUpdate, nil, r.row, r.row, r.absentColumns())
	}
	connectors.Fill(r.row, r.old) // P6
	if r.KeyChanged(r.old, r.row) {
		s.Next(&r.Table)
		return s.Rekey(&r.Table, r.old, r.row, r.absentColumns(), func() { s.Next(&r.Table) })
	}
	s.Next(&r.Table)
	old := r.old
	if r.message.identity != identityFull {
		old = nil // P8: a bare key is not the row as it was
	}
	return s.Change(&r.Table, event.OpUpdate, old, r.row, r.row, r.absentColumns())
}

// oldRow reads the row before the change, if there is one.
func (s *stream) oldRow(in *reader, r *relation, kind byte) (bool, error) {
	switch kind {
	case 'O':
		return true, malformed(parseTuple(in, r.pick, r.old, nil))
	case 'K':
		return true, malformed(parseTuple(in, r.pick, r.old, r.oldKey))
	}
	return false, nil
}

func (s *stream) delete(ctx context.Context, b []byte) error {
	in := reader{b: b}
	r, err := s.table(ctx, in.uint32(), s.config.SkipDelete)
	if r == nil || err != nil {
		return err
	}
	kind := in.uint8()
	before, err := s.oldRow(&in, r, kind)
	if err != nil {
		return err
	}
	if !before {
		return malformed(fmt.Errorf("delete with %q instead of an old row", kind))
	}
	if err := in.done(); err != nil {
		return malformed(err)
	}
	s.Next(&r.Table)
	return s.Change(&r.Table, event.OpDelete, r.old, nil, r.old, nil)
}

func (s *stream) truncated(ctx context.Context, b []byte) error {
	ids, err := parseTruncate(b)
	if err != nil {
		return malformed(err)
	}
	for _, id := range ids {
		if r := s.relations[id]; r != nil && r.parked != nil {
			if err := s.keep(ctx, r, 'T', lsn(s.Meta.LSN), truncateOf(id)); err != nil {
				return err
			}
			continue
		}
		r, err := s.table(ctx, id, s.config.SkipTruncate)
		if err != nil {
			return err
		}
		if r == nil {
			continue
		}
		s.Next(&r.Table)
		if err := s.Truncate(&r.Table); err != nil {
			return err
		}
		s.emptied.Store(r.Collection, true)
	}
	return nil
}
