package mysql

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/rowtrail/rowtrail/sink"
	"github.com/rowtrail/rowtrail/sink/window"
)

// stash holds rows of a table that were in the way of others: values of a unique key that change places, which the source had deferred or
// could pass through in another order. They come back as soon as they fit, at the latest when the target transaction ends.
type stash struct {
	b    *binding
	name string
	rows map[string]*asideRow // by key, as the window writes it
}

// asideRow is one row of a stash.
type asideRow struct {
	where   string
	columns []string // that are written when it comes back
	place   window.Place
	err     error // why it is aside
}

// setAside moves the row that an operation writes out of the table. It is done only where nothing else notices: triggers would, and rows that
// refer to it.
func (s *session) setAside(ctx context.Context, o *window.Op[*binding], columns []int, cause error) error {
	b := o.B
	if b.table.exact || b.table.referenced {
		return wrapWrite(b, cause)
	}
	st := s.stash[b.table]
	if st == nil {
		name, err := s.temporary(ctx, b)
		if err != nil {
			return err
		}
		st = &stash{b: b, name: name, rows: make(map[string]*asideRow)}
		s.stash[b.table] = st
	}
	row := &asideRow{columns: b.table.order, place: o.Place, err: cause}
	where, err := s.appendWhere(nil, b, o)
	if err != nil {
		return err
	}
	list := quoted(b.table.order)
	r, err := s.conn.exec(ctx, "INSERT INTO "+st.name+" ("+list+") SELECT "+list+" FROM "+b.table.name.String()+string(where))
	if err != nil {
		return fmt.Errorf("set row of %s aside: %w", b.table.name, err)
	}
	if r.AffectedRows == 0 {
		row.columns = b.shape.Names
		err = s.insertInto(ctx, st.name, b, columns, []int32{o.Cells})
	} else {
		if _, err = s.conn.exec(ctx, "DELETE FROM "+b.table.name.String()+string(where)); err == nil {
			_, err = s.updateOne(ctx, st.name, o, columns)
		}
	}
	if err != nil {
		return fmt.Errorf("set row of %s aside: %w", b.table.name, err)
	}
	return s.remember(st, o, row)
}

// remember keeps a row by the key that it has after an operation.
func (s *session) remember(st *stash, o *window.Op[*binding], row *asideRow) error {
	now := *o
	if now.Kind == window.Move {
		now.Kind = window.Patch
	}
	where, err := s.appendWhere(nil, st.b, &now)
	if err != nil {
		return err
	}
	row.where = string(where)
	st.rows[string(s.in.Key(nil, &st.b.shape, o.Cells))] = row
	return nil
}

// writeStashed writes an operation on a row that is aside; done tells that it is.
func (s *session) writeStashed(ctx context.Context, st *stash, o *window.Op[*binding]) (done bool, err error) {
	cells := o.Cells
	if o.Kind == window.Move {
		cells += int32(len(o.B.columns))
	}
	s.key = s.in.Key(s.key[:0], &o.B.shape, cells)
	row := st.rows[string(s.key)]
	if row == nil {
		return false, nil
	}
	if o.Kind == window.Delete {
		delete(st.rows, string(s.key))
		_, err := s.conn.exec(ctx, "DELETE FROM "+st.name+row.where)
		return true, err
	}
	s.mask = s.in.Mask(s.mask, &o.B.shape, o.Cells)
	if _, err := s.updateOne(ctx, st.name, o, maskColumns(string(s.mask))); err != nil {
		return true, fmt.Errorf("write row of %s that is aside: %w", st.b.table.name, err)
	}
	row.place = o.Place
	delete(st.rows, string(s.key))
	return true, s.remember(st, o, row)
}

// settleStash brings rows back that fit now. At the end of the target transaction all have to: what does not is impossible, and the record
// that wrote it is told.
func (s *session) settleStash(ctx context.Context, end bool) error {
	for t, st := range s.stash {
		for moved := true; moved && len(st.rows) > 0; {
			moved = false
			for _, key := range slices.Sorted(maps.Keys(st.rows)) {
				row := st.rows[key]
				list := quoted(row.columns)
				_, err := s.conn.exec(ctx, "INSERT INTO "+t.name.String()+" ("+list+") SELECT "+list+" FROM "+st.name+row.where)
				if err == nil {
					_, err = s.conn.exec(ctx, "DELETE FROM "+st.name+row.where)
					delete(st.rows, key)
					moved = true
				}
				if err != nil && !duplicate(err) {
					return fmt.Errorf("bring row of %s back: %w", t.name, err)
				}
			}
		}
		if len(st.rows) == 0 {
			delete(s.stash, t)
			if _, err := s.conn.exec(ctx, "DROP TEMPORARY TABLE "+st.name); err != nil {
				return fmt.Errorf("bring rows of %s back: %w", t.name, err)
			}
			continue
		}
		if end {
			row := st.rows[slices.Min(slices.Collect(maps.Keys(st.rows)))]
			err := fmt.Errorf("row of table %s has a value of a unique key that another row has: %w", t.name, row.err)
			return sink.AtRecord(row.place.Topic, row.place.Partition, row.place.Offset, err)
		}
	}
	return nil
}

// dropStash forgets the rows of a table that is emptied.
func (s *session) dropStash(ctx context.Context, t *table) error {
	st := s.stash[t]
	if st == nil {
		return nil
	}
	delete(s.stash, t)
	_, err := s.conn.exec(ctx, "DROP TEMPORARY TABLE "+st.name)
	return err
}
