package chunks

import (
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/rowtrail/rowtrail/connectors/event"
	"github.com/rowtrail/rowtrail/connectors/mysql/rows"
)

// MaxFind is how many keys are looked for at once: few enough for a server to search its index for each.
const MaxFind = 512

// ErrKey tells of a key's text that no literal can be made of.
var ErrKey = errors.New("the key cannot be looked for")

// Find puts keys behind the tables that wait, to learn which of them the source does not have: a chunk of rows by their keys. Its Task's
// Missing tells, at the Boundary. images are rows of which only the plan's key columns count.
func (l *Load) Find(p *Plan, images []event.Row) error {
	o := &Progress{Plan: p, find: []Cursor{}}
	for _, row := range images {
		c, err := p.CursorOf(row)
		if err != nil {
			return err
		}
		identity, err := AppendIdentity(nil, row, p.identity)
		if err != nil {
			return err
		}
		o.find, o.sought = append(o.find, c), append(o.sought, string(identity))
	}
	return l.add(o)
}

// Finding says that the Task is one of Find.
func (t *Task) Finding() bool { return t.find != nil }

// Finding says that what is to be read are keys of Find.
func (p *Progress) Finding() bool { return p.find != nil }

// Findable says whether keys of the table can be looked for by their texts.
func (p *Plan) Findable() bool {
	if p.key == nil {
		return false
	}
	for i := range p.key.Columns {
		switch strings.ToLower(p.key.Columns[i].DataType) {
		case "tinyint", "smallint", "mediumint", "int", "integer", "bigint", "year", "bit", "float", "double", "decimal", "numeric", "date", "time",
			"datetime", "timestamp", "binary", "varbinary", "char", "varchar", "enum", "set", "uuid", "inet4", "inet6",
			"tinyblob", "blob", "mediumblob", "longblob", "tinytext", "text", "mediumtext", "longtext":
		default:
			return false
		}
	}
	return true
}

// Missing are the places, in what Find was given, of the keys that the source does not have and that no event has touched, ascending.
func (t *Task) Missing() []int {
	list := make([]int, 0, len(t.Window.sought))
	for _, i := range t.Window.sought {
		list = append(list, i)
	}
	slices.Sort(list)
	return list
}

// KeyColumns are the places of the key's columns in the table's, nil if it is read as a whole.
func (p *Plan) KeyColumns() []int { return p.identity }

// Found is the statement that gives those of some keys that are there.
func (p *Plan) Found(keys []Cursor) string {
	var items, conditions []string
	for i := range p.key.Columns {
		items = append(items, quote(p.key.Columns[i].Name))
	}
	for _, k := range keys {
		var parts []string
		for i, v := range k {
			parts = append(parts, quote(p.key.Columns[i].Name)+" = "+v.literal()) // an ENUM by its label
		}
		conditions = append(conditions, "("+strings.Join(parts, " AND ")+")")
	}
	s := "SELECT " + strings.Join(items, ", ") + " FROM " + p.from(true) + " WHERE " + strings.Join(conditions, " OR ")
	if p.Locking {
		s += " LOCK IN SHARE MODE"
	}
	return s
}

func (t *Task) lookFor(s *rows.Session) error {
	t.bounded, t.end = true, true
	if len(t.find) == 0 {
		return nil
	}
	if err := s.Select(t.Plan.Found(t.find)); err != nil {
		return err
	}
	row := make(event.Row, len(t.Plan.identity))
	places := make([]int, len(row))
	for i := range places {
		places[i] = i
	}
	var identity []byte
	for {
		more, err := s.Next(row)
		if err == nil && more {
			identity, err = AppendIdentity(identity[:0], row, places)
		}
		if err != nil {
			return errors.Join(err, s.Skip())
		}
		if !more {
			return nil
		}
		t.found = append(t.found, string(identity))
	}
}

// seek begins a search.
func (w *Window) seek(keys []Cursor, sought []string) {
	if keys == nil {
		return
	}
	w.sought = make(map[string]int, len(sought))
	for i, identity := range sought {
		w.sought[identity] = i
	}
}

// found takes what is there from what is sought.
func (w *Window) found(identities []string) {
	for _, identity := range identities {
		delete(w.sought, identity)
	}
}

// CursorOf is the key of a row by its canonical texts.
func (p *Plan) CursorOf(row event.Row) (Cursor, error) {
	c := make(Cursor, len(p.identity))
	for i, place := range p.identity {
		if row[place].State != event.Text {
			return nil, ErrIdentity
		}
		v, err := valueOfText(&p.key.Columns[i], string(row[place].Text))
		if err == nil {
			err = v.check()
		}
		if err != nil {
			return nil, fmt.Errorf("table %s, key column %s (%s): %w", p.Table.Collection(), p.key.Columns[i].Name, p.key.Columns[i].DataType, err)
		}
		c[i] = v
	}
	return c, nil
}

// valueOfText takes a column's canonical text.
func valueOfText(c *KeyColumn, text string) (Value, error) {
	switch strings.ToLower(c.DataType) {
	case "tinyint", "smallint", "mediumint", "int", "integer", "bigint", "year":
		if n, err := strconv.ParseInt(text, 10, 64); err == nil {
			return Value{kind: kindInt, number: uint64(n)}, nil //nolint:gosec // two's complement
		}
		n, err := strconv.ParseUint(text, 10, 64)
		return Value{kind: kindUint, number: n}, keyError(err)
	case "bit":
		n, err := strconv.ParseUint(text, 2, 64)
		return Value{kind: kindUint, number: n}, keyError(err)
	case "float":
		f, err := strconv.ParseFloat(text, 32)
		return Value{kind: kindDouble, number: math.Float64bits(f)}, keyError(err)
	case "double":
		f, err := strconv.ParseFloat(text, 64)
		return Value{kind: kindDouble, number: math.Float64bits(f)}, keyError(err)
	case "decimal", "numeric":
		return Value{kind: kindDecimal, bytes: text}, nil
	case "date":
		return Value{kind: kindDate, bytes: text}, nil
	case "time":
		return Value{kind: kindTime, bytes: text}, nil
	case "datetime", "timestamp":
		return Value{kind: kindMoment, bytes: text}, nil
	case "binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob":
		digits, ok := strings.CutPrefix(text, `\x`)
		if !ok {
			return Value{}, ErrKey
		}
		b, err := hex.DecodeString(digits)
		return Value{kind: kindBytes, bytes: string(b)}, keyError(err)
	case "char", "varchar", "tinytext", "text", "mediumtext", "longtext", "enum", "set":
		return Value{kind: kindText, charset: "utf8mb4", bytes: text}, nil
	}
	if c.printed() {
		return Value{kind: kindPrinted, bytes: text}, nil
	}
	return Value{}, ErrKey
}

func keyError(err error) error {
	if err != nil {
		return ErrKey
	}
	return nil
}
