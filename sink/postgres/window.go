package postgres

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/rowtrail/rowtrail/connectors/event"
	"github.com/rowtrail/rowtrail/sink"
)

// Bounds of a window (invariant 9): what is written in one round trip.
const (
	maxWindowOps   = 4096
	maxWindowBytes = 2 << 20
)

// opKind is what an operation does.
type opKind uint8

const (
	opUpsert opKind = iota
	opPatch         // columns are absent: the row must be there (invariant 6)
	opDelete
	opMove // a key change with absent columns: the row that is there gets another key
)

// cell is one value in the arena.
type cell struct {
	state event.State
	start int32
	size  int32
}

// op is one operation in source order. Its cells follow the binding's columns; a delete has only those of the key, a move those of the
// old key at the end.
type op struct {
	b     *binding
	kind  opKind
	cells int32 // first cell
}

// slot is what the operations on one key come to.
type slot struct {
	kind    opKind
	present bool // a row is to be written (kind upsert or patch)
	deleted bool // the row before is to be deleted first
	cells   int32
}

// window is the operations that wait for one round trip: all of them in source order, and folded to one per key.
type window struct {
	arena  []byte
	cells  []cell
	ops    []op
	tables []*folded
	byName map[*table]*folded
	free   []*folded
	key    []byte
}

// folded is a table's part of a window.
type folded struct {
	b     *binding
	slots []slot
	byKey map[string]int
}

func (w *window) empty() bool { return len(w.ops) == 0 }

func (w *window) full() bool { return len(w.ops) >= maxWindowOps || len(w.arena) >= maxWindowBytes }

func (w *window) reset() {
	w.arena, w.cells, w.ops = w.arena[:0], w.cells[:0], w.ops[:0]
	for _, f := range w.tables {
		f.slots = f.slots[:0]
		clear(f.byKey)
		delete(w.byName, f.b.table)
		w.free = append(w.free, f)
	}
	w.tables = w.tables[:0]
}

// put copies a value; the decoder reuses its memory.
func (w *window) put(d event.Datum) {
	w.cells = append(w.cells, cell{d.State, int32(len(w.arena)), int32(len(d.Text))})
	w.arena = append(w.arena, d.Text...)
}

func (w *window) text(c cell) []byte { return w.arena[c.start : c.start+c.size] }

// upsert adds a row to write. Key columns come from the record's key when it has one: the key decides which row is meant.
func (w *window) upsert(b *binding, row, key event.Row) error {
	if row == nil {
		return sink.Permanent(errors.New("the event has no row after the change"))
	}
	o := op{b, opUpsert, int32(len(w.cells))}
	for i, c := range b.columns {
		d := row[c.source]
		if i < b.keys {
			if len(key) > c.source && key[c.source].State != event.Absent {
				d = key[c.source]
			}
			if d.State != event.Text {
				return w.undo(o, sink.Permanent(fmt.Errorf("key column %s has no value", c.name)))
			}
		}
		if d.State == event.Absent {
			o.kind = opPatch
		}
		w.put(d)
	}
	w.ops = append(w.ops, o)
	w.fold(o)
	return nil
}

// move adds a key change with absent columns. It must be alone in its window: it is not folded.
func (w *window) move(b *binding, row, key, oldKey event.Row) error {
	if err := w.upsert(b, row, key); err != nil {
		return err
	}
	for _, c := range b.columns[:b.keys] {
		if len(oldKey) <= c.source || oldKey[c.source].State != event.Text {
			return sink.Permanent(fmt.Errorf("key column %s of the key before has no value", c.name))
		}
		w.put(oldKey[c.source])
	}
	w.ops[len(w.ops)-1].kind = opMove
	return nil
}

// whole tells that no column of a row is absent.
func whole(b *binding, row event.Row) bool {
	for _, c := range b.columns[b.keys:] {
		if row[c.source].State == event.Absent {
			return false
		}
	}
	return true
}

// delete adds a row to delete.
func (w *window) delete(b *binding, key event.Row) error {
	o := op{b, opDelete, int32(len(w.cells))}
	for _, c := range b.columns[:b.keys] {
		if len(key) <= c.source || key[c.source].State != event.Text {
			return w.undo(o, sink.Permanent(fmt.Errorf("key column %s of a delete has no value", c.name)))
		}
		w.put(key[c.source])
	}
	w.ops = append(w.ops, o)
	w.fold(o)
	return nil
}

func (w *window) undo(o op, err error) error {
	w.cells = w.cells[:o.cells]
	return err
}

// fold applies an operation to its key's slot.
func (w *window) fold(o op) {
	f := w.table(o.b)
	w.key = w.key[:0]
	for _, c := range w.cells[o.cells : int(o.cells)+o.b.keys] {
		w.key = binary.AppendUvarint(w.key, uint64(c.size))
		w.key = append(w.key, w.text(c)...)
	}
	i, known := f.byKey[string(w.key)]
	if !known {
		i = len(f.slots)
		f.slots = append(f.slots, slot{})
		f.byKey[string(w.key)] = i
	}
	s := &f.slots[i]
	switch {
	case o.kind == opDelete:
		*s = slot{deleted: true, cells: o.cells}
	case o.kind == opPatch && s.present:
		// What is absent is as the operation before left it. The cells are copied: the ones of each operation stay as they
		// are, for writing in source order.
		s.cells = w.complete(o, s.cells)
	default:
		s.kind, s.present, s.cells = o.kind, true, o.cells
	}
}

// complete returns cells with the operation's values, and those of the cells before where it has none.
func (w *window) complete(o op, before int32) int32 {
	at := int32(len(w.cells))
	for i := range o.b.columns {
		c := w.cells[int(o.cells)+i]
		if c.state == event.Absent {
			c = w.cells[int(before)+i]
		}
		w.cells = append(w.cells, c)
	}
	return at
}

func (w *window) table(b *binding) *folded {
	if f := w.byName[b.table]; f != nil {
		return f
	}
	var f *folded
	if n := len(w.free); n > 0 {
		f, w.free = w.free[n-1], w.free[:n-1]
	} else {
		f = &folded{byKey: make(map[string]int)}
	}
	f.b = b
	if w.byName == nil {
		w.byName = make(map[*table]*folded)
	}
	w.byName[b.table] = f
	w.tables = append(w.tables, f)
	return f
}

// mask tells which columns a slot has; two rows with the same mask can be written by the same statement.
func (w *window) mask(dst []byte, b *binding, cells int32) []byte {
	dst = dst[:0]
	for i := range b.columns {
		if w.cells[int(cells)+i].state == event.Absent {
			dst = append(dst, '0')
		} else {
			dst = append(dst, '1')
		}
	}
	return dst
}

// ordered tells that folding may be refused, exact that it must not be done.
func (w *window) rules() (ordered, exact bool) {
	for _, f := range w.tables {
		ordered = ordered || f.b.table.ordered || !f.b.simple
		exact = exact || f.b.table.exact
	}
	return ordered, exact
}
