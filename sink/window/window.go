// Package window gathers the row operations of one round trip to a target: all of them in source order, and folded to one per key.
// Targets that are databases share it; what a table is to them stays their own.
package window

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/rowtrail/rowtrail/connectors/event"
	"github.com/rowtrail/rowtrail/sink"
)

// Bounds of a window (invariant 9): what is written in one round trip.
const (
	maxOps   = 4096
	maxBytes = 2 << 20
)

// Kind is what an operation does.
type Kind uint8

// Kinds of operations.
const (
	Upsert Kind = iota
	Patch       // columns are absent: the row must be there (invariant 6)
	Delete
	Move // a key change with absent columns: the row that is there gets another key
)

// Shape is how rows of one version of a source table are written.
type Shape struct {
	Table   fmt.Stringer // the target's; versions of one source table share it
	Names   []string     // of the columns that are written, those of the key first, in its order
	Sources []int        // their places in a Row
	Keys    int
}

// Binding ties one version of a source table to a target table.
type Binding interface {
	comparable
	Shape() *Shape
}

// Cell is one value of a window.
type Cell struct {
	State event.State
	start int32
	Size  int32
}

// Place is the record that an operation is from.
type Place struct {
	Topic     string
	Partition int32
	Offset    int64
}

// Op is one operation in source order. Its cells follow the shape's columns; a delete has only those of the key, a move those of
// the old key at the end.
type Op[B Binding] struct {
	B     B
	Kind  Kind
	Cells int32 // first cell
	Fresh bool  // the source made the row: it is not expected to be there
	Place Place
}

// Slot is what the operations on one key come to.
type Slot struct {
	Kind    Kind
	Present bool // a row is to be written (Upsert or Patch)
	Deleted bool // the row before is to be deleted first
	Fresh   bool // the row is not expected to be there
	Cells   int32
}

// Window is the operations that wait for one round trip.
type Window[B Binding] struct {
	At     Place // of the operations to come
	Ops    []Op[B]
	Tables []*Folded[B]

	arena  []byte
	cells  []Cell
	byName map[fmt.Stringer]*Folded[B]
	free   []*Folded[B]
	key    []byte
}

// Folded is a table's part of a window.
type Folded[B Binding] struct {
	B     B
	Slots []Slot
	byKey map[string]int
}

// Empty tells that nothing waits.
func (w *Window[B]) Empty() bool { return len(w.Ops) == 0 }

// Full tells that a bound is reached.
func (w *Window[B]) Full() bool { return len(w.Ops) >= maxOps || len(w.arena) >= maxBytes }

// Reset forgets everything that was written.
func (w *Window[B]) Reset() {
	w.arena, w.cells, w.Ops = w.arena[:0], w.cells[:0], w.Ops[:0]
	for _, f := range w.Tables {
		f.Slots = f.Slots[:0]
		clear(f.byKey)
		delete(w.byName, f.B.Shape().Table)
		w.free = append(w.free, f)
	}
	w.Tables = w.Tables[:0]
}

// put copies a value; the decoder reuses its memory.
func (w *Window[B]) put(d event.Datum) {
	w.cells = append(w.cells, Cell{d.State, int32(len(w.arena)), int32(len(d.Text))})
	w.arena = append(w.arena, d.Text...)
}

// Cell is the cell of a column of the row whose first cell is given.
func (w *Window[B]) Cell(first int32, column int) Cell { return w.cells[int(first)+column] }

// Text is a cell's value.
func (w *Window[B]) Text(c Cell) []byte { return w.arena[c.start : c.start+c.Size] }

// Upsert adds a row to write. Key columns come from the record's key when it has one: the key decides which row is meant.
func (w *Window[B]) Upsert(b B, row, key event.Row, fresh bool) error {
	if row == nil {
		return sink.Permanent(errors.New("the event has no row after the change"))
	}
	s := b.Shape()
	o := Op[B]{b, Upsert, int32(len(w.cells)), fresh, w.At}
	for i, source := range s.Sources {
		d := row[source]
		if i < s.Keys {
			if len(key) > source && key[source].State != event.Absent {
				d = key[source]
			}
			if d.State != event.Text {
				return w.undo(o, sink.Permanent(fmt.Errorf("key column %s has no value", s.Names[i])))
			}
		}
		if d.State == event.Absent {
			o.Kind = Patch
		}
		w.put(d)
	}
	w.Ops = append(w.Ops, o)
	w.fold(o)
	return nil
}

// Move adds a key change with absent columns. It must be alone in its window: it is not folded.
func (w *Window[B]) Move(b B, row, key, oldKey event.Row) error {
	if err := w.Upsert(b, row, key, false); err != nil {
		return err
	}
	s := b.Shape()
	for i, source := range s.Sources[:s.Keys] {
		if len(oldKey) <= source || oldKey[source].State != event.Text {
			return sink.Permanent(fmt.Errorf("key column %s of the key before has no value", s.Names[i]))
		}
		w.put(oldKey[source])
	}
	w.Ops[len(w.Ops)-1].Kind = Move
	return nil
}

// Whole tells that no column of a row is absent.
func (s *Shape) Whole(row event.Row) bool {
	for _, source := range s.Sources[s.Keys:] {
		if row[source].State == event.Absent {
			return false
		}
	}
	return true
}

// Delete adds a row to delete.
func (w *Window[B]) Delete(b B, key event.Row) error {
	s := b.Shape()
	o := Op[B]{b, Delete, int32(len(w.cells)), false, w.At}
	for i, source := range s.Sources[:s.Keys] {
		if len(key) <= source || key[source].State != event.Text {
			return w.undo(o, sink.Permanent(fmt.Errorf("key column %s of a delete has no value", s.Names[i])))
		}
		w.put(key[source])
	}
	w.Ops = append(w.Ops, o)
	w.fold(o)
	return nil
}

func (w *Window[B]) undo(o Op[B], err error) error {
	w.cells = w.cells[:o.Cells]
	return err
}

// Key appends what tells the key of a row from others of its table.
func (w *Window[B]) Key(dst []byte, s *Shape, first int32) []byte {
	for _, c := range w.cells[first : int(first)+s.Keys] {
		dst = binary.AppendUvarint(dst, uint64(c.Size))
		dst = append(dst, w.Text(c)...)
	}
	return dst
}

// fold applies an operation to its key's slot.
func (w *Window[B]) fold(o Op[B]) {
	f := w.table(o.B)
	w.key = w.Key(w.key[:0], o.B.Shape(), o.Cells)
	i, known := f.byKey[string(w.key)]
	if !known {
		i = len(f.Slots)
		f.Slots = append(f.Slots, Slot{Fresh: o.Fresh})
		f.byKey[string(w.key)] = i
	}
	s := &f.Slots[i]
	switch {
	case o.Kind == Delete:
		*s = Slot{Deleted: true, Fresh: true, Cells: o.Cells}
	case o.Kind == Patch && s.Present:
		// What is absent is as the operation before left it. The cells are copied: the ones of each operation stay as they
		// are, for writing in source order.
		s.Cells = w.complete(o, s.Cells)
	default:
		s.Kind, s.Present, s.Cells = o.Kind, true, o.Cells
	}
}

// complete returns cells with the operation's values, and those of the cells before where it has none.
func (w *Window[B]) complete(o Op[B], before int32) int32 {
	at := int32(len(w.cells))
	for i := range o.B.Shape().Sources {
		c := w.cells[int(o.Cells)+i]
		if c.State == event.Absent {
			c = w.cells[int(before)+i]
		}
		w.cells = append(w.cells, c)
	}
	return at
}

func (w *Window[B]) table(b B) *Folded[B] {
	table := b.Shape().Table
	if f := w.byName[table]; f != nil {
		return f
	}
	var f *Folded[B]
	if n := len(w.free); n > 0 {
		f, w.free = w.free[n-1], w.free[:n-1]
	} else {
		f = &Folded[B]{byKey: make(map[string]int)}
	}
	f.B = b
	if w.byName == nil {
		w.byName = make(map[fmt.Stringer]*Folded[B])
	}
	w.byName[table] = f
	w.Tables = append(w.Tables, f)
	return f
}

// Mask tells which columns a row has; two rows with the same mask can be written by the same statement.
func (w *Window[B]) Mask(dst []byte, s *Shape, first int32) []byte {
	dst = dst[:0]
	for i := range s.Sources {
		if w.cells[int(first)+i].State == event.Absent {
			dst = append(dst, '0')
		} else {
			dst = append(dst, '1')
		}
	}
	return dst
}

// Patches groups the rows of a table that lack columns by what they lack, in a fixed order.
func (w *Window[B]) Patches(f *Folded[B]) (masks []string, rows map[string][]int32) {
	var mask []byte
	for i := range f.Slots {
		sl := &f.Slots[i]
		if !sl.Present || sl.Kind != Patch {
			continue
		}
		if rows == nil {
			rows = make(map[string][]int32)
		}
		mask = w.Mask(mask, f.B.Shape(), sl.Cells)
		if rows[string(mask)] == nil {
			masks = append(masks, string(mask))
		}
		rows[string(mask)] = append(rows[string(mask)], sl.Cells)
	}
	return masks, rows
}
