package state

import (
	"github.com/rowtrail/rowtrail/connectors/event"
)

// MaxBytes is how much a connector keeps of what rows are, in bytes, about.
const MaxBytes = 64 << 20

// rowCost is what a row takes beside its key and texts, columnCost what a column does.
const (
	rowCost    = 224
	columnCost = 32
)

// Row is what a row is.
type Row struct {
	Schema  *event.Schema // of Columns
	Columns event.Row     // nil: there is no such row
	Commit  uint64        // of the change that made it so: event.Position.Commit
}

// Found says what Rows knows of a key.
type Found uint8

// What Rows knows.
const (
	Unknown Found = iota // nothing: what is committed is all
	Known                // the row
	Lost                 // it may have been changed since what is committed
)

// Rows are rows that a log transaction which is not committed has changed, and others for as long as there is room. It belongs to one
// goroutine.
type Rows struct {
	limit, size int
	tables      map[string]*table
	pinned      list // not committed, in the order of their changes
	free        list // committed, the last used last
	committed   uint64
	lost        uint64 // up to this change, some were not kept; 0: all were
}

type table struct {
	rows      map[string]*entry
	truncated uint64 // the change that emptied it; 0: none that is not committed
}

type entry struct {
	Row
	table      *table
	key        string
	change     uint64
	size       int
	pinned     bool
	prev, next *entry
}

// New is empty and holds so many bytes.
func New(limit int) *Rows {
	r := &Rows{limit: limit, tables: map[string]*table{}}
	r.pinned.init()
	r.free.init()
	return r
}

func (r *Rows) table(collection string) *table {
	t := r.tables[collection]
	if t == nil {
		t = &table{rows: map[string]*entry{}}
		r.tables[collection] = t
	}
	return t
}

// Get says what a row is. It is valid until the next change of Rows.
func (r *Rows) Get(collection string, key []byte) (Row, Found) {
	t := r.table(collection)
	if e := t.rows[string(key)]; e != nil {
		if !e.pinned {
			r.free.moveToEnd(e)
		}
		return e.Row, Known
	}
	switch {
	case r.lost > r.committed:
		return Row{}, Lost
	case t.truncated > r.committed:
		return Row{}, Known
	}
	return Row{}, Unknown
}

// Has says whether Get knows the row without using it.
func (r *Rows) Has(collection string, key []byte) bool {
	t := r.tables[collection]
	return t != nil && t.rows[string(key)] != nil
}

// Set notes what a change, the connector's change-th, made of a row. It is copied.
func (r *Rows) Set(collection string, key []byte, row Row, change uint64) {
	t := r.table(collection)
	e := t.rows[string(key)]
	if e != nil {
		r.remove(e)
	}
	r.put(t, key, row, change)
}

// Learn notes what the view says that a row is, unless something newer is known of it.
func (r *Rows) Learn(collection string, key []byte, row Row) {
	t := r.table(collection)
	if t.rows[string(key)] != nil || r.lost > r.committed || t.truncated > r.committed {
		return
	}
	r.put(t, key, row, 0)
}

// Replace puts another state of a row in the place of the one that is kept, if one is: a load has told it.
func (r *Rows) Replace(collection string, key []byte, row Row) {
	t := r.tables[collection]
	if t == nil {
		return
	}
	if e := t.rows[string(key)]; e != nil {
		change := e.change
		r.remove(e)
		r.put(t, key, row, change)
	}
}

func (r *Rows) put(t *table, key []byte, row Row, change uint64) {
	size := rowCost + len(key) + columnCost*len(row.Columns)
	text := 0
	for i := range row.Columns {
		text += len(row.Columns[i].Text)
	}
	size += text
	for r.size+size > r.limit && r.free.first() != nil {
		r.remove(r.free.first())
	}
	if r.size+size > r.limit {
		r.lost = max(r.lost, change)
		return
	}
	e := &entry{Row: row, table: t, key: string(key), change: change, size: size, pinned: change > r.committed}
	if row.Columns != nil {
		buf := make([]byte, 0, text)
		e.Columns = make(event.Row, len(row.Columns))
		for i, d := range row.Columns {
			start := len(buf)
			buf = append(buf, d.Text...)
			e.Columns[i] = event.Datum{State: d.State, Text: buf[start:len(buf):len(buf)]}
		}
	}
	t.rows[e.key] = e
	r.size += size
	if e.pinned {
		r.pinned.append(e)
	} else {
		r.free.append(e)
	}
}

func (r *Rows) remove(e *entry) {
	delete(e.table.rows, e.key)
	r.size -= e.size
	unlink(e)
}

// Truncate notes that a change emptied a table.
func (r *Rows) Truncate(collection string, change uint64) {
	t := r.table(collection)
	for _, e := range t.rows {
		r.remove(e)
	}
	t.truncated = max(t.truncated, change)
}

// Committed notes that the changes up to one are committed: the views tell them now.
func (r *Rows) Committed(change uint64) {
	if change <= r.committed {
		return
	}
	r.committed = change
	for e := r.pinned.first(); e != nil && e.change <= change; e = r.pinned.first() {
		unlink(e)
		e.pinned = false
		r.free.append(e)
	}
}

// Size is what is held, in bytes, about.
func (r *Rows) Size() int { return r.size }

// list is a ring of entries around one that is none.
type list struct{ root entry }

func (l *list) init() { l.root.prev, l.root.next = &l.root, &l.root }

func (l *list) first() *entry {
	if l.root.next == &l.root {
		return nil
	}
	return l.root.next
}

func (l *list) append(e *entry) {
	e.prev, e.next = l.root.prev, &l.root
	e.prev.next, l.root.prev = e, e
}

func (l *list) moveToEnd(e *entry) {
	unlink(e)
	l.append(e)
}

func unlink(e *entry) { e.prev.next, e.next.prev = e.next, e.prev }
