package binlog

import (
	"fmt"
	"math/bits"

	"github.com/rowtrail/rowtrail/connectors/event"
)

// flagStatementEnd ends a statement: the next one maps its tables anew.
const flagStatementEnd = 1

// partialJSON is the bit of a row's value options that says that JSON columns may be diffs.
const partialJSON = 1

// Rows are the rows of one event. Next decodes them one after the other.
type Rows struct {
	Table        *Table // its Err tells that Next cannot decode them
	Op           event.Op
	StatementEnd bool
	// Diffs are the changes of the row's JSON columns that Next could not apply, because the before image has no value for them:
	// the after image has them absent. ApplyDiff completes them from a value that the caller has.
	Diffs []Diff

	decoder       *Decoder
	before, after image
	partial       bool
	rest          []byte
	started       bool
}

// Diff is a change of a JSON document, as the server logs it with binlog_row_value_options=PARTIAL_JSON.
type Diff struct {
	Index  int // of the column in event.Row
	Change []byte
}

// image tells which columns an event has.
type image struct {
	columns []byte // bitmap; nil: the event has no such image
	count   int
	all     bool
}

func newImage(columns []byte, n int) image {
	m := image{columns: columns}
	for i, b := range columns {
		if rest := n - 8*i; rest < 8 {
			b &= 1<<rest - 1
		}
		m.count += bits.OnesCount8(b)
	}
	m.all = m.count == n
	return m
}

func (m *image) has(i int) bool { return m.all || m.columns[i>>3]&(1<<(i&7)) != 0 }

func (d *Decoder) rows(e *Event, typ Type, body []byte) error {
	r := reader{b: body}
	id, flags := r.fixed(6), r.uint16()
	switch typ {
	case typeWriteRows2, typeUpdateRows2, typeDeleteRows2, typePartialUpdateRows, typeWriteRows2Packed, typeUpdateRows2Packed, typeDeleteRows2Packed:
		r.take(int(r.uint16()) - 2) // partition, NDB: nothing that changes the rows
	}
	n := r.packed()
	if r.err == nil && n/8 > uint64(len(r.b)) {
		return ErrTruncated
	}
	end := flags&flagStatementEnd != 0
	if end && !d.replaying {
		defer d.tables.end()
	}
	if n == 0 && len(r.b) == 0 && (id == 1<<48-1 || id == 1<<32-1 || id == 1<<24-1) {
		return r.err // ends a statement that changed no table which is logged
	}
	t := d.tables.find(id)
	if t == nil && r.err == nil {
		return fmt.Errorf("%w (table id %d)", ErrNoTable, id)
	}
	if r.err == nil && t.Err == nil && uint64(len(t.Columns)) != n {
		return malformed("rows of %d columns, %s is mapped with %d", n, t.Collection(), len(t.Columns))
	}
	x := &e.Rows
	*x = Rows{Table: t, Op: event.OpUpdate, StatementEnd: end, Diffs: x.Diffs[:0], decoder: d, partial: typ == typePartialUpdateRows}
	size := (int(n) + 7) / 8
	first := newImage(r.take(size), int(n))
	packed := false
	switch typ {
	case typeWriteRows1Packed, typeWriteRows2Packed:
		packed = true
		fallthrough
	case typeWriteRows1, typeWriteRows2:
		x.Op, x.after = event.OpCreate, first
	case typeDeleteRows1Packed, typeDeleteRows2Packed:
		packed = true
		fallthrough
	case typeDeleteRows1, typeDeleteRows2:
		x.Op, x.before = event.OpDelete, first
	default:
		packed = typ == typeUpdateRows1Packed || typ == typeUpdateRows2Packed
		x.before, x.after = first, newImage(r.take(size), int(n))
	}
	x.rest = r.b
	if packed && r.err == nil {
		x.rest, r.err = d.unpack.event(x.rest, d.limit)
	}
	d.text = d.text[:0]
	if cap(d.text) > maxKeptText {
		d.text = nil
	}
	e.Kind, e.Table = KindRows, t
	return r.err
}

// maxKeptText is the largest arena that is kept for the next event.
const maxKeptText = 4 << 20

// Next decodes the next row into before and after, which have a Datum for each column of the schema; nil if an image is not
// wanted. Columns that are not in an image are absent in it, which is not NULL. false: there are no more rows. Texts are valid
// until the Decoder is used again.
func (r *Rows) Next(l *Layout, before, after event.Row) (bool, error) {
	if r.Table.Err != nil {
		return false, r.Table.Err
	}
	if l.table != r.Table {
		return false, ErrLayout
	}
	if len(r.rest) == 0 && (r.started || r.before.count+r.after.count > 0) {
		return false, nil // a row without any column is there once, in no bytes
	}
	if (before != nil && len(before) < l.width) || (after != nil && len(after) < l.width) {
		return false, fmt.Errorf("rows of %d columns, the layout has %d", min(len(before), len(after)), l.width)
	}
	size := len(r.rest)
	r.Diffs = r.Diffs[:0]
	clear(before)
	clear(after)
	if r.before.columns != nil {
		if err := r.image(l, &r.before, before, nil, false); err != nil {
			return false, err
		}
	}
	if r.after.columns != nil {
		if err := r.image(l, &r.after, after, before, r.partial); err != nil {
			return false, err
		}
	}
	if len(r.rest) == size && (size > 0 || r.started) {
		return false, &EventError{r.decoder.event.Header.Type, r.decoder.end, malformed("rows without columns")}
	}
	r.started = true
	return true, nil
}

// image decodes one image of a row. before is given with partial updates only.
func (r *Rows) image(l *Layout, m *image, row, before event.Row, partial bool) error {
	b := r.rest
	var diffs []byte // bitmap over the JSON columns
	if partial {
		p := reader{b: b}
		if p.packed()&partialJSON != 0 {
			diffs = p.take((l.json + 7) / 8)
		}
		if p.err != nil {
			return r.failed(0, p.err)
		}
		b = p.b
	}
	n := (m.count + 7) / 8
	if len(b) < n {
		return r.failed(0, ErrTruncated)
	}
	nulls, dst := b[:n], r.decoder.text
	b = b[n:]
	k, json := 0, 0
	for i := range l.bindings {
		c := &l.bindings[i]
		isDiff := false
		if c.partial {
			isDiff = diffs != nil && diffs[json>>3]&(1<<(json&7)) != 0
			json++
		}
		if !m.has(i) {
			continue
		}
		null := nulls[k>>3]&(1<<(k&7)) != 0
		k++
		wanted := row != nil && c.index >= 0
		if null {
			if wanted {
				row[c.index].State = event.Null
			}
			continue
		}
		raw, size := c.raw(b)
		if size < 0 {
			return r.failed(i, ErrTruncated)
		}
		b = b[size:]
		if !wanted {
			continue
		}
		if isDiff {
			if before == nil || before[c.index].State != event.Text {
				r.Diffs = append(r.Diffs, Diff{c.index, raw})
				continue
			}
			start := len(dst)
			var err error
			if dst, err = ApplyDiff(dst, before[c.index].Text, raw); err != nil {
				return r.failed(i, err)
			}
			row[c.index] = event.Datum{State: event.Text, Text: dst[start:len(dst):len(dst)]}
			continue
		}
		if c.packed {
			var err error
			if raw, err = r.decoder.unpack.column(raw, r.decoder.limit); err != nil {
				return r.failed(i, err)
			}
		}
		switch c.op {
		case opUTF8:
			if c.packed { // the unpacker's buffer is used again
				start := len(dst)
				dst = append(dst, raw...)
				raw = dst[start:len(dst):len(dst)]
			}
			row[c.index] = event.Datum{State: event.Text, Text: raw}
		case opChar:
			row[c.index] = event.Datum{State: event.Text, Text: trimSpaces(raw)}
		default:
			start := len(dst)
			var err error
			if dst, err = c.append(dst, raw); err != nil {
				return r.failed(i, err)
			}
			row[c.index] = event.Datum{State: event.Text, Text: dst[start:len(dst):len(dst)]}
		}
	}
	r.rest, r.decoder.text = b, dst
	return nil
}

func (r *Rows) failed(i int, err error) error { return r.Table.columnError(i, err) }
