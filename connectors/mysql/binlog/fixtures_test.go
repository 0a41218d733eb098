package binlog

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/rowtrail/rowtrail/connectors/event"
	"github.com/rowtrail/rowtrail/connectors/mysql/charset"
	"github.com/rowtrail/rowtrail/itest/binlogs"
)

// replica keeps tables as the decoded rows make them, to compare them with what the server's tables hold.
type replica struct {
	t        *testing.T
	decoder  *Decoder
	charsets charset.Decoders
	tables   map[string][]event.Row
	types    map[string][]binlogs.Column
	layouts  map[*Table]*Layout
	loose    map[string]bool // what the binlog has not: statements, tables made by SELECT
	rows     int
	last     uint64                       // position
	again    func(*Event) (*Event, error) // decodes rows as if they had been kept; nil: as they come
}

// TestFixtures decodes what real servers wrote, and compares the tables that come of it with the servers' own after each step.
func TestFixtures(t *testing.T) {
	fixtures, err := binlogs.Fixtures()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range slices.Sorted(func(yield func(string) bool) {
		for name := range fixtures {
			if !yield(name) {
				return
			}
		}
	}) {
		t.Run(name, func(t *testing.T) { replay(t, fixtures[name], nil) })
		// Kept rows are the same rows, in the stream that they came in and long after it.
		t.Run(name+" kept", func(t *testing.T) { replay(t, fixtures[name], func(d *Decoder) *Decoder { return d }) })
		t.Run(name+" kept for long", func(t *testing.T) {
			replay(t, fixtures[name], func(d *Decoder) *Decoder { return &Decoder{limit: d.limit, format: d.format, known: true} })
		})
	}
}

func replay(t *testing.T, f *binlogs.Recording, by func(*Decoder) *Decoder) {
	r := &replica{t: t, decoder: NewDecoder(Options{}), tables: map[string][]event.Row{}, types: map[string][]binlogs.Column{}, layouts: map[*Table]*Layout{}, loose: map[string]bool{}}
	if by != nil {
		r.again = func(e *Event) (*Event, error) {
			if e.Rows.Table == nil {
				return e, nil
			}
			d := by(r.decoder)
			mapped, rows := e.Rows.Table.AppendRaw([]byte{}), e.AppendRaw(nil)
			if e, err := d.Replay(mapped); err != nil || e.Kind != KindTable {
				t.Fatalf("a table map became kind %d, %v", e.Kind, err)
			}
			return d.Replay(rows)
		}
	}
	r.packets(f.Head)
	for i, step := range f.Steps {
		for _, table := range step.Tables { // the columns at the position: they are described after the step
			if !table.Dropped {
				name := table.Schema + "." + table.Name
				if old := r.types[name]; old != nil && fmt.Sprint(old) != fmt.Sprint(table.Columns) {
					r.loose[name] = true // changed in place: rows that were there are the server's
				}
				r.types[name] = table.Columns
			}
		}
		r.packets(step.Events)
		for _, table := range step.Tables {
			r.compare(i, step.SQL, table)
		}
	}
	if r.rows == 0 {
		t.Log("no rows")
	}
}

func (r *replica) packets(packets [][]byte) {
	r.t.Helper()
	for _, p := range packets {
		for e, err := r.decoder.Decode(p); ; e, err = r.decoder.Next() {
			if err != nil {
				if errors.Is(err, ErrIncident) {
					r.t.Log(err)
					break
				}
				r.t.Fatal(err)
			}
			if e == nil {
				break
			}
			// Positions that headers leave out are the sum of the sizes.
			if pos := e.Header.LogPos; pos != 0 && r.last != 0 && e.Header.Flags&FlagArtificial == 0 && !e.Inner && r.last+uint64(e.Header.Size) != uint64(pos) {
				r.t.Errorf("an event of %d bytes after %d ends at %d", e.Header.Size, r.last, pos)
			}
			if r.last = e.End; e.Kind == KindRotate || e.Kind == KindFormat {
				r.last = 0
			}
			switch e.Kind {
			case KindRows:
				if r.again != nil {
					if e, err = r.again(e); err != nil {
						r.t.Fatal(err)
					}
				}
				r.apply(&e.Rows)
			case KindGTID:
				if g := e.GTID; !g.MariaDB && (g.Committed == 0 || g.Original == 0 || g.Length == 0) {
					r.t.Errorf("%+v", g)
				}
			case KindQuery: // a change in statement format is none of rows
				if word, _, _ := strings.Cut(string(e.Query.Text), " "); e.Query.Load || slices.Contains([]string{"INSERT", "UPDATE", "DELETE"}, word) {
					for name := range r.types {
						r.loose[name] = true
					}
				}
			case KindXA, KindXAPrepare: // rows of prepared transactions are the server's later
				for name := range r.types {
					r.loose[name] = true
				}
			}
		}
	}
}

func (r *replica) layout(t *Table) *Layout {
	r.t.Helper()
	if l := r.layouts[t]; l != nil {
		return l
	}
	described := r.types[t.Collection()]
	var d []Described
	for _, c := range described {
		d = append(d, Described{Type: c.Type})
	}
	if err := t.Agrees(d); err != nil {
		r.t.Fatal(err)
	}
	var columns []Column
	var err error
	if t.Named {
		columns, err = t.FullColumns(func(collation uint32) (Charset, error) { return r.charsets.OfCollation(uint64(collation)) })
		if err != nil {
			r.t.Fatal(err)
		}
	} else {
		columns = make([]Column, len(t.Columns))
	}
	for i, c := range described {
		columns[i].Index = i
		if !t.Named {
			columns[i].Unsigned = strings.Contains(c.Type, "unsigned")
			if columns[i].Form = FormText; c.Charset == "" || c.Charset == "binary" {
				columns[i].Form = FormBinary
			} else if columns[i].Charset, err = r.charsets.Of(c.Charset); err != nil {
				r.t.Fatal(err)
			}
			if strings.HasPrefix(c.Type, "enum") || strings.HasPrefix(c.Type, "set") {
				columns[i].Labels = strings.Split(strings.Trim(c.Type[strings.IndexByte(c.Type, '('):], "()'"), "','")
			}
		} else if t.Columns[i].Name != c.Name {
			r.t.Errorf("%s: column %s is %s", t.Collection(), c.Name, t.Columns[i].Name)
		}
		switch c.Type {
		case "uuid":
			columns[i].Form = FormUUID
		case "inet4":
			columns[i].Form = FormInet4
		case "inet6":
			columns[i].Form = FormInet6
		}
		if (t.Columns[i].Type == WireTimeOld || t.Columns[i].Type == WireDatetimeOld || t.Columns[i].Type == WireTimestampOld) && strings.Contains(c.Type, "(") {
			columns[i].Fraction = int(c.Type[strings.IndexByte(c.Type, '(')+1] - '0')
		}
	}
	l, err := NewLayout(t, columns)
	if err != nil {
		r.t.Fatal(err)
	}
	r.layouts[t] = l
	return l
}

func (r *replica) apply(rows *Rows) {
	r.t.Helper()
	name := rows.Table.Collection()
	if r.types[name] == nil {
		r.loose[name] = true
		return
	}
	l := r.layout(rows.Table)
	before, after := make(event.Row, len(l.bindings)), make(event.Row, len(l.bindings))
	for {
		more, err := rows.Next(l, before, after)
		if err != nil {
			r.t.Fatal(err)
		}
		if !more {
			return
		}
		r.rows++
		at := -1
		if rows.Op != event.OpCreate {
			at = r.find(name, before)
			if at < 0 {
				if !r.loose[name] {
					r.t.Errorf("%s has no row %v", name, texts(before))
				}
				continue
			}
		}
		switch rows.Op {
		case event.OpDelete:
			r.tables[name] = slices.Delete(r.tables[name], at, at+1)
		case event.OpCreate:
			r.tables[name] = append(r.tables[name], after.Clone())
		default:
			row := r.tables[name][at]
			for _, d := range rows.Diffs {
				text, err := ApplyDiff(nil, row[d.Index].Text, d.Change)
				if err != nil {
					r.t.Fatal(err)
				}
				row[d.Index].Text = text
			}
			for i, d := range after.Clone() {
				if d.State != event.Absent || generated(r.types[name][i]) {
					row[i] = d
				}
			}
		}
	}
}

// generated columns are absent in the after images of MariaDB 11.8, though they change.
func generated(c binlogs.Column) bool { return strings.Contains(c.Extra, "GENERATED") }

// find is the row that a before image is of.
func (r *replica) find(name string, before event.Row) int {
	return slices.IndexFunc(r.tables[name], func(row event.Row) bool {
		for i, d := range before {
			if d.State != event.Absent && (i >= len(row) || row[i].State != event.Absent && (d.State != row[i].State || !bytes.Equal(d.Text, row[i].Text))) {
				return false
			}
		}
		return true
	})
}

// compare checks a table after a step, and takes over from the server what no binlog tells: what DDL does to rows, statements,
// columns that are absent of an inserted row and get their defaults.
func (r *replica) compare(i int, sql string, want binlogs.Table) {
	r.t.Helper()
	name := want.Schema + "." + want.Name
	if want.Dropped {
		delete(r.tables, name)
		delete(r.types, name)
		return
	}
	server := make([]event.Row, len(want.Rows))
	for j, row := range want.Rows {
		for _, v := range row {
			d := event.Datum{State: event.Null}
			if v != nil {
				d = event.Datum{State: event.Text, Text: []byte(*v)}
			}
			server[j] = append(server[j], d)
		}
	}
	first, _, _ := strings.Cut(strings.ToUpper(strings.TrimSpace(sql)), " ")
	ours := r.tables[name]
	r.tables[name] = slices.Clone(server)
	if r.decoder.format.MariaDB && want.Name == "child" { // it does not log what foreign keys cascade
		return
	}
	if r.loose[name] || !slices.Contains([]string{"INSERT", "UPDATE", "DELETE", "COMMIT", "REPLACE", "LOAD", "XA"}, strings.Trim(first, ";")) {
		delete(r.loose, name)
		return
	}
	if len(ours) != len(server) {
		r.t.Errorf("step %d, %.200s: %s has %d rows, the server %d", i, sql, name, len(ours), len(server))
		return
	}
	for _, row := range ours {
		at := slices.IndexFunc(server, func(s event.Row) bool {
			return slices.EqualFunc(s, row, func(a, b event.Datum) bool {
				return b.State == event.Absent || a.State == b.State && bytes.Equal(a.Text, b.Text)
			})
		})
		if at < 0 {
			r.t.Errorf("step %d, %.200s: %s: decoded %.2000q, the server has %.2000q", i, sql, name, texts(row), fmt.Sprintf("%q", texts(server[0])))
			continue
		}
		server = slices.Delete(server, at, at+1)
	}
}
