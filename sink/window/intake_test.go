package window

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/rowtrail/rowtrail/connectors/event"
	"github.com/rowtrail/rowtrail/sink"
	"github.com/rowtrail/rowtrail/sink/sinktest"
)

type name string

func (n name) String() string { return string(n) }

type version struct{ shape Shape }

func (v *version) Shape() *Shape { return &v.shape }

// content is the rows of each table by their key, with their columns in one order.
type content map[name]map[string][]string

func (c content) clone() content {
	d := content{}
	for t, rows := range c {
		d[t] = maps.Clone(rows)
	}
	return d
}

func (c content) String() string { return fmt.Sprint(map[name]map[string][]string(c)) }

// memory is a Database that writes both ways, folded and in order, and holds that they come to the same.
type memory struct {
	in     *Intake[*version]
	tables content
}

func (m *memory) Bind(_ context.Context, schema *event.Schema, _ string, _ bool) (*version, error) {
	if !m.in.Empty() || len(m.in.truncate) > 0 {
		return nil, errors.New("bind while something waits")
	}
	v := &version{Shape{Table: name(schema.Table), Keys: 1}}
	for i := range schema.Columns {
		v.shape.Names, v.shape.Sources = append(v.shape.Names, schema.Columns[i].Name), append(v.shape.Sources, i)
	}
	if m.tables[name(schema.Table)] == nil {
		m.tables[name(schema.Table)] = map[string][]string{}
	}
	return v, nil
}

func (m *memory) Check(context.Context, *version, event.Row) error { return nil }

func (m *memory) HoldsRows(_ context.Context, v *version) (bool, error) {
	return len(m.tables[v.shape.Table.(name)]) > 0, nil
}

func (m *memory) Truncate(_ context.Context, tables []*version) error {
	for _, v := range tables {
		clear(m.tables[v.shape.Table.(name)])
	}
	return nil
}

func (m *memory) Write(context.Context) error {
	folded := m.tables.clone()
	for i := range m.in.Ops {
		o := &m.in.Ops[i]
		if o.Kind == Move && len(m.in.Ops) > 1 {
			return errors.New("a move beside other operations")
		}
		if err := m.operation(m.tables, o); err != nil {
			return err
		}
	}
	if m.in.Ops[0].Kind == Move {
		return nil
	}
	for _, f := range m.in.Tables {
		for i := range f.Slots {
			s := &f.Slots[i]
			if s.Deleted {
				delete(folded[f.B.shape.Table.(name)], m.key(s.Cells))
			}
			if s.Present {
				if err := m.operation(folded, &Op[*version]{B: f.B, Kind: s.Kind, Cells: s.Cells, Fresh: s.Fresh}); err != nil {
					return fmt.Errorf("folded: %w", err)
				}
			}
		}
	}
	if folded.String() != m.tables.String() {
		return fmt.Errorf("folded %s, in order %s", folded, m.tables)
	}
	return nil
}

func (m *memory) key(first int32) string { return string(m.in.Text(m.in.Cell(first, 0))) }

func (m *memory) operation(c content, o *Op[*version]) error {
	rows := c[o.B.shape.Table.(name)]
	key := m.key(o.Cells)
	if o.Kind == Delete {
		delete(rows, key)
		return nil
	}
	n := len(o.B.shape.Sources)
	before, there := rows[key]
	if o.Kind == Move {
		old := m.key(o.Cells + int32(n))
		before, there = rows[old]
		delete(rows, old)
	}
	if o.Kind != Upsert && !there {
		return AbsentRow(o.B.shape.Table, 1, 1)
	}
	row := make([]string, n)
	for i, column := range o.B.shape.Names {
		at := place(column)
		switch cell := m.in.Cell(o.Cells, i); cell.State {
		case event.Absent:
			row[at] = before[at]
		case event.Null:
			row[at] = "NULL"
		default:
			row[at] = string(m.in.Text(cell))
		}
	}
	rows[key] = row
	return nil
}

func place(column string) int { return slices.Index([]string{"id", "v", "w"}, column) }

func versions(t *testing.T) (list []*event.Schema) {
	for _, table := range []string{"a", "b"} {
		for v := range 2 {
			columns := []event.Column{sinktest.Col("id", "integer", event.KindInt32, 1), sinktest.Col("v", "text", event.KindText, 0), sinktest.Col("w", "text", event.KindText, 0)}
			if v == 1 {
				slices.Reverse(columns[1:])
			}
			s, err := event.NewSchema(event.Options{Name: "shop", Database: "shop"}, "public", table, columns)
			if err != nil {
				t.Fatal(err)
			}
			list = append(list, s)
		}
	}
	return list
}

// Whatever is gathered, folded and put off, the tables are what the events come to one after another.
func TestIntake(t *testing.T) {
	list := versions(t)
	ctx := context.Background()
	rapid.Check(t, func(rt *rapid.T) {
		m := &memory{tables: content{}}
		m.in = NewIntake(m, true)
		want := content{"a": {}, "b": {}}
		values := []string{"", "x", "yy"}
		m.in.Careful = rapid.IntRange(0, 9).Draw(rt, "careful") == 0
		apply := func(ev *sink.Event) {
			if err := m.in.Apply(ctx, ev); err != nil {
				rt.Fatal(err)
			}
		}
		row := func(s *event.Schema, id string, before []string) (event.Row, []string) { // with columns absent where there is a row before
			r, plain := event.Row{sinktest.Text(id), {}, {}}, []string{id, "", ""}
			for i := 1; i < 3; i++ {
				at := place(s.Columns[i].Name)
				switch kind := rapid.IntRange(0, 3).Draw(rt, "value"); {
				case kind == 0:
					r[i], plain[at] = sinktest.Null(), "NULL"
				case kind == 1 && before != nil:
					plain[at] = before[at]
				default:
					plain[at] = rapid.SampledFrom(values).Draw(rt, "text")
					r[i] = sinktest.Text(plain[at])
				}
			}
			return r, plain
		}
		for range rapid.IntRange(1, 40).Draw(rt, "events") {
			s := rapid.SampledFrom(list).Draw(rt, "version")
			rows := want[name(s.Table)]
			id := string(rune('0' + rapid.IntRange(0, 4).Draw(rt, "id")))
			ev := &sink.Event{Topic: "shop." + s.Collection(), Schema: s, Key: event.Row{sinktest.Text(id), {}, {}}}
			switch op := rapid.IntRange(0, 9).Draw(rt, "op"); {
			case op == 0:
				ev.Change.Op, ev.Key = event.OpTruncate, nil
				clear(rows)
			case op == 1 && rows[id] != nil: // a key change: a delete and a create
				to := string(rune('5' + rapid.IntRange(0, 3).Draw(rt, "to")))
				if rows[to] != nil {
					continue
				}
				next, plain := row(s, to, rows[id])
				from := ev.Key
				ev.Change.Op, ev.NewKey = event.OpDelete, event.Row{sinktest.Text(to), {}, {}}
				apply(ev)
				delete(rows, id)
				if rapid.IntRange(0, 4).Draw(rt, "leaves") == 0 { // without a create it is a delete
					continue
				}
				rows[to] = plain
				ev = &sink.Event{Topic: ev.Topic, Schema: s, Key: ev.NewKey, OldKey: from, Change: event.Change{Op: event.OpCreate, After: next}}
			case op <= 3:
				ev.Change.Op = event.OpDelete
				delete(rows, id)
			case rows[id] == nil:
				ev.Change.Op = event.OpCreate
				ev.Change.After, rows[id] = row(s, id, nil)
			default:
				ev.Change.Op = event.OpUpdate
				ev.Change.After, rows[id] = row(s, id, rows[id])
			}
			apply(ev)
		}
		if err := m.in.Settle(ctx); err != nil {
			rt.Fatal(err)
		}
		for table, rows := range want {
			if got := m.tables[table]; len(got)+len(rows) > 0 && fmt.Sprint(got) != fmt.Sprint(rows) {
				rt.Fatalf("table %s: %v, want %v", table, got, rows)
			}
		}
	})
}

// Where tables must not be emptied, a truncate of one with rows stops the sink; an empty one is as it should be.
func TestIntakeWithoutTruncate(t *testing.T) {
	s := versions(t)[0]
	ctx := context.Background()
	m := &memory{tables: content{}}
	m.in = NewIntake(m, false)
	truncate := &sink.Event{Schema: s, Change: event.Change{Op: event.OpTruncate}}
	if err := m.in.Apply(ctx, truncate); err != nil {
		t.Fatal(err)
	}
	create := &sink.Event{Schema: s, Key: event.Row{sinktest.Text("1"), {}, {}}, Change: event.Change{Op: event.OpCreate, After: event.Row{sinktest.Text("1"), {}, {}}}}
	create.Change.After[1], create.Change.After[2] = sinktest.Null(), sinktest.Null()
	if err := m.in.Apply(ctx, create); err != nil {
		t.Fatal(err)
	}
	if err := m.in.Apply(ctx, truncate); !sink.IsPermanent(err) || !strings.Contains(err.Error(), "truncate.enabled is false; empty a by hand") {
		t.Fatalf("truncate of a table with rows: %v", err)
	}
}
