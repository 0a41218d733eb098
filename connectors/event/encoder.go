package event

import (
	"errors"
	"fmt"
)

// Encoder turns rows of one schema version into Debezium JSON. Not safe for concurrent use; it appends to dst
// and allocates nothing per row in steady state.
type Encoder struct {
	table        string
	columns      []encoderColumn
	key          []int
	source       sourceBlock
	schemas      bool
	valuePrefix  []byte // {"schema":...,"payload": when schemas are on
	keyPrefix    []byte
	keyFragments [][]byte
}

type encoderColumn struct {
	name        string
	typ         string
	fragment    []byte // ,"name":
	unavailable []byte
	codec       codec
	key         bool
	notNull     bool
}

var (
	errRowLength = errors.New("the row does not have one value per column of its schema")
	errKeyAbsent = errors.New("the source did not send this key column; check the table's replica identity")
)

// NewEncoder prepares a table version. Its Format must be the options' (NewSchema sees to that).
func NewEncoder(s *Schema, opts Options) (*Encoder, error) {
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	if s.Format != opts.Format() {
		return nil, fmt.Errorf("create encoder of %s: the schema's format is not that of the options", s.Collection())
	}
	p, err := newPlaceholder(opts.UnavailableValue)
	if err != nil {
		return nil, err
	}
	e := &Encoder{table: s.Collection(), key: s.KeyColumns(), schemas: s.Format.Schemas, source: newSourceBlock(s, opts)}
	for i := range s.Columns {
		c := &s.Columns[i]
		codec, err := newCodec(c, s.Format)
		if err != nil {
			return nil, fmt.Errorf("create encoder of %s column %s (%s): %w", s.Collection(), c.Name, c.Type, err)
		}
		e.columns = append(e.columns, encoderColumn{
			name: c.Name, typ: c.Type, codec: codec, key: c.Key > 0, notNull: c.NotNull,
			fragment: append(appendString([]byte{','}, c.Name), ':'), unavailable: codec.unavailable(p),
		})
	}
	for i, k := range e.key {
		fragment := e.columns[k].fragment
		if i == 0 {
			fragment = fragment[1:]
		}
		e.keyFragments = append(e.keyFragments, fragment)
	}
	if e.schemas {
		name := opts.Name + "." + s.Collection()
		e.valuePrefix = schemaPrefix(valueSchema(name, opts.Connector, e.columns))
		e.keyPrefix = schemaPrefix(keySchema(name, e.columns, e.key))
	}
	return e, nil
}

// AppendKey writes the record key; ok is false when the table has no key columns (the key is then null).
func (e *Encoder) AppendKey(dst []byte, row Row) (out []byte, ok bool, err error) {
	if len(e.key) == 0 {
		return dst, false, nil
	}
	if len(row) != len(e.columns) {
		return dst, false, fmt.Errorf("encode key of %s: %w", e.table, errRowLength)
	}
	b := append(dst, e.keyPrefix...)
	b = append(b, '{')
	for i, k := range e.key {
		b = append(b, e.keyFragments[i]...)
		switch row[k].State {
		case Text:
			if b, err = e.columns[k].codec.encode(b, row[k].Text); err != nil {
				return dst, false, e.valueError(k, err)
			}
		case Null:
			b = append(b, "null"...)
		default:
			return dst, false, e.valueError(k, errKeyAbsent)
		}
	}
	b = append(b, '}')
	if e.schemas {
		b = append(b, '}')
	}
	return b, true, nil
}

// AppendValue writes the envelope. An Absent column is left out of before; in after it is the unavailable value's
// placeholder in the column's type, or left out when the type has none.
func (e *Encoder) AppendValue(dst []byte, op Op, before, after Row, m *Meta) ([]byte, error) {
	if err := e.check(op, before, after); err != nil {
		return dst, err
	}
	b := append(dst, e.valuePrefix...)
	b = append(b, `{"before":`...)
	b, err := e.appendRow(b, before, false)
	if err != nil {
		return dst, err
	}
	b = append(b, `,"after":`...)
	if b, err = e.appendRow(b, after, true); err != nil {
		return dst, err
	}
	b = append(b, ',')
	b = e.source.append(b, m)
	b = appendEnvelopeEnd(b, op, m)
	if e.schemas {
		b = append(b, '}')
	}
	return b, nil
}

func (e *Encoder) check(op Op, before, after Row) error {
	if (before != nil && len(before) != len(e.columns)) || (after != nil && len(after) != len(e.columns)) {
		return fmt.Errorf("encode %s: %w", e.table, errRowLength)
	}
	ok := false
	switch op {
	case OpCreate, OpRead:
		ok = before == nil && after != nil
	case OpUpdate:
		ok = after != nil
	case OpDelete:
		ok = before != nil && after == nil
	case OpTruncate:
		ok = before == nil && after == nil
	}
	if !ok {
		return fmt.Errorf("encode %s: the images do not fit operation %q", e.table, string(rune(op)))
	}
	return nil
}

func (e *Encoder) appendRow(dst []byte, row Row, after bool) ([]byte, error) {
	if row == nil {
		return append(dst, "null"...), nil
	}
	dst = append(dst, '{')
	skip := 1 // no comma before the first field
	for i := range row {
		c := &e.columns[i]
		switch row[i].State {
		case Text:
			dst = append(dst, c.fragment[skip:]...)
			var err error
			if dst, err = c.codec.encode(dst, row[i].Text); err != nil {
				return dst, e.valueError(i, err)
			}
		case Null:
			dst = append(dst, c.fragment[skip:]...)
			dst = append(dst, "null"...)
		default:
			// Invariant 6: never null.
			if !after || c.unavailable == nil {
				continue
			}
			dst = append(dst, c.fragment[skip:]...)
			dst = append(dst, c.unavailable...)
		}
		skip = 0
	}
	return append(dst, '}'), nil
}

func (e *Encoder) valueError(i int, err error) error {
	return &ValueError{Action: "encode", Table: e.table, Column: e.columns[i].name, Type: e.columns[i].typ, Err: err}
}
