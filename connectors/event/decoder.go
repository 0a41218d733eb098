package event

import (
	"errors"
	"fmt"
)

// Decoder reads events of one schema version back: Encoder then Decoder gives the same Row for every value that is not
// refused, but for what Schema.Lossy names. It needs no settings: the schema carries its Format. Not safe for concurrent use.
type Decoder struct {
	schema  *Schema
	columns []decoderColumn
	index   map[string]int
	key     []int
	s       scanner
	before  Row
	after   Row
	keyRow  Row
	absent  []bool // columns that the event's position calls absent
	keys    []byte // the arena of keys
}

type decoderColumn struct {
	name  string
	codec codec
}

var (
	errMissing    = errors.New("the event has no value for this column and its position does not call it absent")
	errDuplicate  = errors.New("the column occurs twice in one image")
	errUnknown    = errors.New("the schema has no such column")
	errNoOp       = errors.New("the event has no valid op")
	errImage      = errors.New("the images do not fit the operation")
	errOtherTable = errors.New("the position header names another schema version")
)

// NewDecoder prepares a table version.
func NewDecoder(s *Schema) (*Decoder, error) {
	d := &Decoder{
		schema: s, key: s.KeyColumns(), index: make(map[string]int, len(s.Columns)),
		before: make(Row, len(s.Columns)), after: make(Row, len(s.Columns)), keyRow: make(Row, len(s.Columns)),
		absent: make([]bool, len(s.Columns)),
	}
	for i := range s.Columns {
		c := &s.Columns[i]
		codec, err := newCodec(c, s.Format)
		if err != nil {
			return nil, fmt.Errorf("create decoder of %s column %s (%s): %w", s.Collection(), c.Name, c.Type, err)
		}
		d.columns = append(d.columns, decoderColumn{name: c.Name, codec: codec})
		d.index[c.Name] = i
	}
	return d, nil
}

// Schema is the version that the decoder reads.
func (d *Decoder) Schema() *Schema { return d.schema }

// Decode reads a record's value; pos tells which columns are Absent. The result is valid until the next call.
func (d *Decoder) Decode(value []byte, pos Position) (Change, error) {
	if pos.Schema != 0 && pos.Schema != d.schema.ID {
		return Change{}, d.fail(errOtherTable)
	}
	clear(d.absent)
	for _, c := range pos.Absent {
		if int(c) >= len(d.absent) {
			return Change{}, d.fail(ErrPosition)
		}
		d.absent[c] = true
	}
	d.s.reset(value)
	var ch Change
	err := d.payload(func() error { return d.envelope(&ch) })
	if err != nil {
		return Change{}, d.fail(err)
	}
	return ch, nil
}

// DecodeKey reads a record's key into a Row with only the key columns present. A null key gives a nil Row.
// The result is valid until the next call of DecodeKey: Decode leaves it as it is, so that a record's key and value are there together.
func (d *Decoder) DecodeKey(key []byte) (Row, error) {
	if len(key) == 0 {
		return nil, nil
	}
	d.s.arena, d.keys = d.keys, d.s.arena
	defer func() { d.s.arena, d.keys = d.keys, d.s.arena }()
	d.s.reset(key)
	var row Row
	err := d.payload(func() (err error) {
		row, err = d.row(d.keyRow)
		return err
	})
	if err != nil {
		return nil, d.fail(err)
	}
	for _, k := range d.key {
		if row != nil && row[k].State == Absent {
			return nil, d.valueError(k, errMissing)
		}
	}
	return row, nil
}

func (d *Decoder) fail(err error) error {
	if v := (*ValueError)(nil); errors.As(err, &v) {
		return err
	}
	return fmt.Errorf("decode event of %s at byte %d: %w", d.schema.Collection(), d.s.i, err)
}

func (d *Decoder) valueError(i int, err error) error {
	return &ValueError{Action: "decode", Table: d.schema.Collection(), Column: d.columns[i].name,
		Type: d.schema.Columns[i].Type, Err: err}
}

// payload calls read at the payload: the whole text, or behind "payload" when schemas are on.
func (d *Decoder) payload(read func() error) error {
	s := &d.s
	if !d.schema.Format.Schemas {
		if err := read(); err != nil {
			return err
		}
	} else {
		found := false
		err := s.members(func(name []byte) error {
			if string(name) != "payload" || found {
				return s.skip()
			}
			found = true
			return read()
		})
		if err != nil {
			return err
		}
		if !found {
			return errJSONValue
		}
	}
	if !s.atEnd() {
		return errSyntax
	}
	return nil
}

func (d *Decoder) envelope(ch *Change) error {
	err := d.s.members(func(name []byte) (err error) {
		switch string(name) {
		case "before":
			ch.Before, err = d.row(d.before)
		case "after":
			ch.After, err = d.row(d.after)
			if err == nil && ch.After != nil {
				err = d.complete(ch.After)
			}
		case "source":
			err = d.source(ch)
		case "op":
			err = d.op(ch)
		default:
			err = d.s.skip()
		}
		return err
	})
	if err != nil {
		return err
	}
	switch ch.Op {
	case OpCreate, OpRead, OpUpdate:
		if ch.After == nil {
			return errImage
		}
	case OpDelete:
		if ch.Before == nil || ch.After != nil {
			return errImage
		}
	case OpTruncate:
	default:
		return errNoOp
	}
	return nil
}

func (d *Decoder) op(ch *Change) error {
	b, err := d.s.str()
	if err != nil || len(b) != 1 {
		return errNoOp
	}
	ch.Op = Op(b[0])
	return nil
}

func (d *Decoder) source(ch *Change) error {
	if d.s.literal("null") {
		return nil
	}
	return d.s.members(func(name []byte) error {
		var v int64
		var err error
		switch string(name) {
		case "ts_ms", "lsn", "txId":
			if d.s.literal("null") {
				return nil
			}
			v, err = d.s.integer()
		default:
			return d.s.skip()
		}
		switch name[0] {
		case 'l':
			ch.LSN = uint64(v)
		case 't':
			if name[1] == 'x' {
				ch.TxID = uint32(v)
			} else {
				ch.SourceTsMs = v
			}
		}
		return err
	})
}

// row reads one image into row. Columns mostly come in the schema's order, so the next one is tried before the index.
func (d *Decoder) row(row Row) (Row, error) {
	s := &d.s
	if s.literal("null") {
		return nil, nil
	}
	if !s.take('{') {
		return nil, errJSONValue
	}
	clear(row)
	next := 0
	for first := true; !s.take('}'); first = false {
		if !first && !s.take(',') {
			return nil, errSyntax
		}
		name, err := s.name()
		if err != nil {
			return nil, err
		}
		i := next
		if i >= len(d.columns) || d.columns[i].name != string(name) {
			var ok bool
			if i, ok = d.index[string(name)]; !ok {
				return nil, &ValueError{Action: "decode", Table: d.schema.Collection(), Column: string(name),
					Type: "unknown", Err: errUnknown}
			}
		}
		next = i + 1
		if row[i].State != Absent {
			return nil, d.valueError(i, errDuplicate)
		}
		if err := d.value(&row[i], i, &row[0] == &d.after[0]); err != nil {
			return nil, d.valueError(i, err)
		}
	}
	return row, nil
}

func (d *Decoder) value(v *Datum, i int, after bool) (err error) {
	switch {
	case after && d.absent[i]:
		return d.s.skip() // the placeholder
	case d.s.literal("null"):
		v.State = Null
		return nil
	}
	v.State = Text
	v.Text, err = d.columns[i].codec.decode(&d.s)
	return err
}

// complete: invariant 6 and 7, a column is absent because its position says so and for no other reason.
func (d *Decoder) complete(row Row) error {
	for i := range row {
		if row[i].State == Absent && !d.absent[i] {
			return d.valueError(i, errMissing)
		}
	}
	return nil
}
