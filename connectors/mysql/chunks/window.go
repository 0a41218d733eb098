package chunks

import (
	"errors"

	"github.com/rowtrail/rowtrail/connectors/event"
)

const (
	// maxChunkBytes is how many bytes of rows a chunk holds; the row that goes beyond is its last.
	maxChunkBytes = 16 << 20
	// maxTouched is how many bytes of what events touched are kept while a chunk is read; at more the stream waits for the chunk.
	maxTouched = 16 << 20
	// touchedCost is what an entry takes beside its bytes, about.
	touchedCost = 64
)

// ErrEarly tells that a chunk may not show everything that the stream had at that time: it must be read again.
var ErrEarly = errors.New("the chunk was read at a position before that of the stream")

// Window decides what of a chunk may be told. It belongs to the goroutine of the stream, but for the rows, which Task.Read writes
// before it is loaded.
type Window struct {
	identity []int
	since    Point
	high     Point
	loaded   bool
	lost     bool
	all      bool                 // truncated
	touched  map[string]event.Row // before the rows are there; nil: the row's events tell all of it
	size     int
	rows     buffer
	key, old []byte
	sought   map[string]int // keys of Find that the source may not have; nil: of a chunk
}

func (w *Window) open(width int, identity []int, since Point) {
	w.identity, w.since, w.high = identity, since, Point{}
	w.loaded, w.lost, w.all, w.size = false, false, false, 0
	w.touched, w.sought = nil, nil
	w.rows.reset(width, identity)
}

// Change is a change of a row of the table that passes in the stream: before is nil of an insert, after of a delete. It must be
// called for each, also of transactions that turn out to be in the chunk. The error is ErrIdentity: the chunk is then lost, and
// would be again.
func (w *Window) Change(before, after event.Row) error {
	if w.lost || w.all {
		return nil
	}
	if err := w.change(before, after); err != nil {
		w.lost = true
		return err
	}
	return nil
}

func (w *Window) change(before, after event.Row) error {
	var err error
	if before != nil {
		if w.old, err = AppendIdentity(w.old[:0], before, w.identity); err != nil {
			return err
		}
	}
	if after == nil {
		return w.touch(w.old, nil)
	}
	w.key = w.key[:0]
	for k := range w.identity {
		row := after
		if after[w.identity[k]].State == event.Absent && before != nil { // it did not change
			row = before
		}
		if w.key, err = AppendIdentity(w.key, row, w.identity[k:k+1]); err != nil {
			return err
		}
	}
	if before != nil && string(w.old) != string(w.key) {
		if err := w.touch(w.old, nil); err != nil {
			return err
		}
	}
	for i := range after {
		if after[i].State == event.Absent {
			return w.touch(w.key, after)
		}
	}
	return w.touch(w.key, nil)
}

// touch notes what is known of a row: all of it, if image is nil, or some columns.
func (w *Window) touch(identity []byte, image event.Row) error {
	delete(w.sought, string(identity)) // whether it is there is told
	if w.loaded {
		return w.apply(identity, image)
	}
	had, ok := w.touched[string(identity)]
	switch {
	case ok && had == nil: // told already; what an incomplete insert after a delete lacks, the chunk cannot have either
		return nil
	case image == nil:
	case ok:
		image = overlaid(had, image)
	default:
		image = image.Clone()
	}
	if w.touched == nil {
		w.touched = map[string]event.Row{}
	}
	w.size += cost(identity, image) - cost(identity, had)
	if !ok {
		w.size += cost(identity, nil)
	}
	w.touched[string(identity)] = image
	return nil
}

func cost(identity []byte, image event.Row) int {
	n := touchedCost + len(identity)
	for i := range image {
		n += touchedCost/2 + len(image[i].Text)
	}
	return n
}

func overlaid(under, over event.Row) event.Row {
	row := over.Clone()
	for i := range row {
		if row[i].State == event.Absent {
			row[i] = under[i]
		}
	}
	return row
}

func (w *Window) apply(identity []byte, image event.Row) error {
	i, err := w.rows.find(identity)
	switch {
	case err != nil || i < 0 || w.rows.dropped[i]:
		return err
	case image == nil:
		w.rows.drop(i)
	default:
		w.rows.overlay(i, image)
	}
	return nil
}

// Truncate is a statement that empties the table, or replaces it by another: no row of the chunk is there any more.
func (w *Window) Truncate() {
	w.all, w.touched, w.size = true, nil, 0
	clear(w.sought)
	if w.loaded {
		w.rows.dropAll()
	}
}

// Abandon gives the chunk up: it will be read again. It is for what changes the table's columns, and for another server.
func (w *Window) Abandon() { w.lost = true }

// Full says that the stream must not pass on changes of the table before the chunk is there.
func (w *Window) Full() bool { return !w.loaded && !w.lost && w.size > maxTouched }

// load takes over the rows, which were read between the marks.
func (w *Window) load(low, high Point) error {
	if w.lost {
		return nil
	}
	ok, err := low.Includes(w.since)
	if err == nil && !ok {
		err = ErrEarly
	}
	if err != nil {
		w.lost = true
		return err
	}
	w.high, w.loaded = high, true
	if w.all {
		w.rows.dropAll()
	}
	for identity, image := range w.touched {
		if err := w.apply([]byte(identity), image); err != nil {
			w.lost = true
			return err
		}
	}
	w.touched, w.size = nil, 0
	return nil
}

// ready says whether, with the stream between two transactions, the rows can go out or the chunk has to be read again.
func (w *Window) ready(now Point) bool {
	if w.lost || !w.loaded {
		return w.lost
	}
	ok, err := now.Includes(w.high)
	if err != nil { // another server: no file of it can say
		w.lost = true
		return true
	}
	return ok
}
