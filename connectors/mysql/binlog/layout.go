package binlog

import (
	"errors"
	"fmt"
)

// Charset decodes the strings of one charset.
type Charset interface {
	// AppendUTF8 appends src in UTF-8.
	AppendUTF8(dst, src []byte) ([]byte, error)
}

// Form is what the bytes of a string column are.
type Form uint8

// Forms of strings.
const (
	FormText   Form = iota // text in Column.Charset
	FormBinary             // BINARY, VARBINARY, blobs, MariaDB's VECTOR
	FormUUID               // MariaDB
	FormInet4              // MariaDB
	FormInet6              // MariaDB
)

// Column binds a column of the wire to one of a schema, with what the wire does not tell.
type Column struct {
	Index    int // in event.Row; -1: the column is not captured
	Unsigned bool
	Form     Form
	Charset  Charset  // of FormText; nil: its bytes are UTF-8 already
	Labels   []string // of an ENUM or SET, in UTF-8
	Fraction int      // digits of MariaDB's temporal types without mysql56_temporal_format, whose table map does not tell
}

// Layout is how to decode the rows of one Table. It does not change.
type Layout struct {
	table    *Table
	bindings []binding
	width    int // of the rows
	json     int // columns of MySQL's JSON type, captured or not
}

// ErrLayout tells that rows are of another Table than the Layout.
var ErrLayout = errors.New("the layout is of another table map")

// NewLayout binds each column of the table, in its order.
func NewLayout(t *Table, columns []Column) (*Layout, error) {
	if t.Err != nil {
		return nil, t.Err
	}
	if len(columns) != len(t.Columns) {
		return nil, fmt.Errorf("table %s has %d columns in the binlog, %d were described", t.Collection(), len(t.Columns), len(columns))
	}
	l := &Layout{table: t, bindings: make([]binding, len(columns))}
	for i := range columns {
		wire, c := &t.Columns[i], &columns[i]
		b, err := bind(wire, c)
		if err != nil {
			return nil, t.columnError(i, err)
		}
		l.bindings[i] = b
		l.width = max(l.width, c.Index+1)
		if wire.Type == WireJSON {
			l.json++
		}
	}
	return l, nil
}

// Table is what the Layout was made for.
func (l *Layout) Table() *Table { return l.table }

func (t *Table) columnError(i int, err error) error {
	e := &ColumnError{Table: t.Collection(), Column: i + 1, Err: err}
	if i < len(t.Columns) {
		e.Name = t.Columns[i].Name
	}
	return e
}

// FullColumns describes the columns as the table map's metadata does; charset gives the decoder of a collation, nil where its
// bytes are UTF-8. What the metadata does not tell (MariaDB's UUID and INET types look like BINARY) is the caller's to add.
func (t *Table) FullColumns(charset func(collation uint32) (Charset, error)) ([]Column, error) {
	if t.Err != nil {
		return nil, t.Err
	}
	if !t.Named {
		return nil, fmt.Errorf("table %s: its table map has no names: SET GLOBAL binlog_row_metadata = 'FULL'", t.Collection())
	}
	out := make([]Column, len(t.Columns))
	for i := range t.Columns {
		w := &t.Columns[i]
		c := &out[i]
		c.Index, c.Unsigned = i, w.Unsigned
		if !w.isString(false) && !w.isEnumOrSet() {
			continue
		}
		if w.Collation == collationBinary {
			c.Form = FormBinary
			c.Labels = w.Labels
			continue
		}
		cs, err := charset(w.Collation)
		if err != nil {
			return nil, t.columnError(i, err)
		}
		c.Charset = cs
		for _, label := range w.Labels {
			if cs != nil {
				b, err := cs.AppendUTF8(nil, []byte(label))
				if err != nil {
					return nil, t.columnError(i, err)
				}
				label = string(b)
			}
			c.Labels = append(c.Labels, label)
		}
	}
	return out, nil
}

// op is how a value's bytes become text.
type op uint8

const (
	opInt op = iota
	opUint
	opFloat
	opDouble
	opDecimal
	opBit
	opYear
	opDate
	opTime
	opDatetime
	opTimestamp
	opTimeOld
	opDatetimeOld
	opTimestampOld
	opTimeHires
	opDatetimeHires
	opTimestampHires
	opEnum
	opSet
	opUTF8  // the bytes are the text
	opChar  // the same, without trailing spaces
	opText  // in another charset
	opTextC // the same, without trailing spaces
	opHex
	opJSON
	opUUID
	opInet4
	opInet6
)

// binding is a Column made ready for decoding.
type binding struct {
	op       op
	index    int
	size     int // of a value, or
	prefix   int // bytes of the length before it, then size is the length that it is padded to
	a, b     int // precision and scale, or fraction digits, or bits
	packed   bool
	partial  bool // JSON
	charset  Charset
	labels   []string
	nullable bool
}

func bind(w *WireColumn, c *Column) (binding, error) {
	b := binding{index: c.Index, nullable: w.Nullable, charset: c.Charset, labels: c.Labels}
	integer := func(size int) {
		b.size, b.op = size, opInt
		if c.Unsigned {
			b.op = opUint
		}
	}
	fraction := func(op op, whole int) {
		b.op, b.a, b.b = op, int(w.Meta), (int(w.Meta)+1)/2
		b.size = whole + b.b
	}
	old := func(plain, hires op, sizes [7]int) error {
		if c.Fraction < 0 || c.Fraction > 6 {
			return fmt.Errorf("%d fraction digits", c.Fraction)
		}
		b.op, b.a, b.size = plain, c.Fraction, sizes[c.Fraction]
		if c.Fraction > 0 {
			b.op = hires
		}
		return nil
	}
	switch w.Type {
	case WireTiny:
		integer(1)
	case WireShort:
		integer(2)
	case WireInt24:
		integer(3)
	case WireLong:
		integer(4)
	case WireLongLong:
		integer(8)
	case WireFloat:
		b.op, b.size = opFloat, 4
	case WireDouble:
		b.op, b.size = opDouble, 8
	case WireDecimal:
		b.op, b.a, b.b = opDecimal, int(w.Meta>>8), int(w.Meta&0xff)
		b.size = decimalSize(b.a, b.b)
	case WireYear:
		b.op, b.size = opYear, 1
	case WireDate, WireNewDate:
		b.op, b.size = opDate, 3
	case WireTime:
		fraction(opTime, 3)
	case WireDatetime:
		fraction(opDatetime, 5)
	case WireTimestamp:
		fraction(opTimestamp, 4)
	case WireTimeOld:
		return b, old(opTimeOld, opTimeHires, [7]int{3, 4, 4, 5, 5, 5, 6})
	case WireDatetimeOld:
		return b, old(opDatetimeOld, opDatetimeHires, [7]int{8, 6, 6, 7, 7, 7, 8})
	case WireTimestampOld:
		return b, old(opTimestampOld, opTimestampHires, [7]int{4, 5, 5, 6, 6, 7, 7})
	case WireBit:
		b.op, b.a = opBit, w.bits()
		b.size = (b.a + 7) / 8
	case WireEnum, WireSet:
		b.size, b.op = int(w.Meta), opEnum
		if w.Type == WireSet {
			b.op = opSet
		}
		if c.Index >= 0 && len(c.Labels) == 0 {
			return b, fmt.Errorf("the labels of its %s are not known: SET GLOBAL binlog_row_metadata = 'FULL'", w.name())
		}
	case WireJSON:
		b.op, b.prefix, b.partial = opJSON, int(w.Meta), true
	case WireVector, WireGeometry:
		b.op, b.prefix = opHex, int(w.Meta)
	case WireString, WireVarString, WireVarchar, WireVarcharCompressed, WireBlob, WireBlobCompressed:
		return b, b.string(w, c)
	default:
		return b, unsupported("type %d", w.Type)
	}
	return b, nil
}

func (b *binding) string(w *WireColumn, c *Column) error {
	b.prefix = 1
	switch w.Type {
	case WireBlob:
		b.prefix = int(w.Meta)
	case WireBlobCompressed:
		b.prefix, b.packed = int(w.Meta), true
	default:
		if w.Meta > 255 {
			b.prefix = 2
		}
		b.packed = w.Type == WireVarcharCompressed
	}
	fixed := w.Type == WireString
	switch c.Form {
	case FormText:
		switch {
		case c.Charset != nil && fixed:
			b.op = opTextC
		case c.Charset != nil:
			b.op = opText
		case fixed:
			b.op = opChar
		default:
			b.op = opUTF8
		}
	case FormBinary:
		b.op = opHex
		if fixed {
			b.size = int(w.Meta)
		}
	case FormUUID:
		return b.fixedBinary(opUUID, w, 16)
	case FormInet4:
		return b.fixedBinary(opInet4, w, 4)
	case FormInet6:
		return b.fixedBinary(opInet6, w, 16)
	default:
		return fmt.Errorf("unknown form %d", c.Form)
	}
	return nil
}

func (b *binding) fixedBinary(op op, w *WireColumn, size int) error {
	if w.Type != WireString || int(w.Meta) != size {
		return fmt.Errorf("%s of %d bytes in the binlog, not %d", w.name(), w.Meta, size)
	}
	b.op, b.size = op, size
	return nil
}
