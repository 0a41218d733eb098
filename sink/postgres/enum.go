package postgres

import (
	"bytes"
	"context"
	"fmt"

	"github.com/rowtrail/rowtrail/connectors/event"
	"github.com/rowtrail/rowtrail/sink"
)

// enumType is an enum type of the target. Tables share it.
type enumType struct {
	name   string // as format_type prints it
	labels map[string]bool
}

// enumColumn is a written column whose values are labels, or arrays of labels, of an enum type in source and target.
type enumColumn struct {
	target *enumType
	source *event.Column
	index  int // in Row
	array  bool
}

// lookupEnums reads the enum types of a table's columns.
func (s *session) lookupEnums(ctx context.Context, t *table) error {
	rows, err := query(ctx, s.conn, `SELECT a.attname, e.oid, format_type(e.oid, -1), e.oid <> a.atttypid, array_agg(l.enumlabel)
		FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid JOIN pg_type e ON e.oid IN (t.oid, t.typelem) AND e.typtype = 'e'
		LEFT JOIN pg_enum l ON l.enumtypid = e.oid
		WHERE a.attrelid = to_regclass($1) AND a.attnum > 0 AND NOT a.attisdropped GROUP BY 1, 2, 3, 4`, t.name.String())
	if err != nil {
		return fmt.Errorf("read enum types of %s: %w", t.name, err)
	}
	for _, r := range rows {
		oid := string(r[1])
		e := s.enums[oid]
		if e == nil {
			e = &enumType{name: string(r[2]), labels: make(map[string]bool)}
			s.enums[oid] = e
		}
		_ = eachElement(r[4], nil, func(label []byte) error {
			e.labels[string(label)] = true
			return nil
		})
		c := t.columns[string(r[0])]
		c.enum, c.enumArray = e, string(r[3]) == "t"
		t.columns[string(r[0])] = c
	}
	return nil
}

// enumColumns lists the enum columns of a binding; labels that its table version has and the target's types have not are
// added.
func (s *session) enumColumns(ctx context.Context, b *binding, allow bool) error {
	b.evolve = allow
	for _, c := range b.columns {
		source, target := &b.schema.Columns[c.source], b.table.columns[c.name]
		if target.enum == nil || len(source.Enum) == 0 || source.Kind == event.KindSet {
			continue
		}
		b.enums = append(b.enums, enumColumn{target.enum, source, c.source, target.enumArray})
		for _, label := range source.Enum {
			if err := s.needLabel(ctx, b, &b.enums[len(b.enums)-1], label); err != nil {
				return err
			}
		}
	}
	return nil
}

// Check looks for labels that a row has and the target has not: a label that the source got after the table version
// was written is in no version.
func (s *session) Check(ctx context.Context, b *binding, row event.Row) error {
	if row == nil {
		return nil
	}
	for i := range b.enums {
		c := &b.enums[i]
		d := row[c.index]
		switch {
		case d.State != event.Text:
		case !c.array:
			if !c.target.labels[string(d.Text)] {
				if err := s.needLabel(ctx, b, c, string(d.Text)); err != nil {
					return err
				}
			}
		default:
			err := eachElement(d.Text, &s.element, func(label []byte) error {
				if c.target.labels[string(label)] {
					return nil
				}
				return s.needLabel(ctx, b, c, string(label))
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// needLabel adds a label to the target's type, on a connection of its own: it cannot be used before it is committed. It stays
// when the target transaction is rolled back, which harms nothing.
func (s *session) needLabel(ctx context.Context, b *binding, c *enumColumn, label string) error {
	e := c.target
	if e.labels[label] {
		return nil
	}
	sql := "ALTER TYPE " + e.name + " ADD VALUE IF NOT EXISTS " + literal(label) + e.neighbour(c.source.Enum, label)
	if !b.evolve {
		return sink.Permanent(fmt.Errorf("column %s of table %s has the label %q at the source, and the type is not to be changed by the sink: %s",
			c.source.Name, b.table.name, label, sql))
	}
	conn, err := s.connectAside(ctx)
	if err != nil {
		return err
	}
	defer closeConn(conn)
	if err := s.change(ctx, conn, "enum type", sql); err != nil {
		return err
	}
	e.labels[label] = true
	return nil
}

// neighbour places a new label as the source has it; without a place it comes last.
func (e *enumType) neighbour(source []string, label string) string {
	before := ""
	for i, l := range source {
		if l != label {
			if e.labels[l] {
				before = l
			}
			continue
		}
		if before != "" {
			return " AFTER " + literal(before)
		}
		for _, after := range source[i+1:] {
			if e.labels[after] {
				return " BEFORE " + literal(after)
			}
		}
	}
	return ""
}

// eachElement calls fn with every element of a text array, of any dimensions, that is not NULL. scratch, when it is not nil,
// is reused for elements in quotes.
func eachElement(array []byte, scratch *[]byte, fn func(element []byte) error) error {
	if scratch == nil {
		scratch = new([]byte)
	}
	if i := bytes.IndexByte(array, '{'); i > 0 { // [2:3]={...}
		array = array[i:]
	}
	for i := 0; i < len(array); {
		switch array[i] {
		case '{', '}', ',':
			i++
		case '"':
			*scratch = (*scratch)[:0]
			for i++; i < len(array) && array[i] != '"'; i++ {
				if array[i] == '\\' && i+1 < len(array) {
					i++
				}
				*scratch = append(*scratch, array[i])
			}
			i++
			if err := fn(*scratch); err != nil {
				return err
			}
		default:
			start := i
			for i < len(array) && array[i] != ',' && array[i] != '}' {
				i++
			}
			if element := array[start:i]; string(element) != "NULL" {
				if err := fn(element); err != nil {
					return err
				}
			}
		}
	}
	return nil
}
