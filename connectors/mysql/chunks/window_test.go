package chunks

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/rowtrail/rowtrail/connectors/event"
)

// texts makes a row: "-" is absent, "NULL" is NULL.
func texts(values ...string) event.Row {
	row := make(event.Row, len(values))
	for i, v := range values {
		switch v {
		case "-":
		case "NULL":
			row[i].State = event.Null
		default:
			row[i] = event.Datum{State: event.Text, Text: []byte(v)}
		}
	}
	return row
}

func show(row event.Row) string {
	out := make([]string, len(row))
	for i, d := range row {
		out[i] = map[event.State]string{event.Absent: "-", event.Null: "NULL", event.Text: string(d.Text)}[d.State]
	}
	return strings.Join(out, ",")
}

func at(pos uint64) Point { return Point{Server: "s", File: "bin.000001", Pos: pos} }

// chunk is a window over a table of id, a, b.
func chunk(rows ...event.Row) *Window {
	w := &Window{}
	w.open(3, []int{0}, at(10))
	for _, r := range rows {
		w.rows.add(r)
	}
	return w
}

func (w *Window) told() string {
	var out []string
	for i := range w.rows.len() {
		if !w.rows.dropped[i] {
			out = append(out, show(w.rows.at(i)))
		}
	}
	return strings.Join(out, " ")
}

// TestWindow has each kind of change before the rows are there and after.
func TestWindow(t *testing.T) {
	type change struct{ before, after event.Row }
	for _, c := range []struct {
		name    string
		changes []change
		want    string
	}{
		{"nothing", nil, "1,a,x 2,b,y A,c,z"},
		{"an update", []change{{texts("2", "b", "y"), texts("2", "bb", "y")}}, "1,a,x A,c,z"},
		{"an insert", []change{{nil, texts("2", "b", "y")}}, "1,a,x A,c,z"},
		{"a delete", []change{{texts("1", "a", "x"), nil}}, "2,b,y A,c,z"},
		{"another row", []change{{texts("7", "b", "y"), texts("7", "b", "z")}}, "1,a,x 2,b,y A,c,z"},
		{"a key that changes", []change{{texts("1", "a", "x"), texts("2", "a", "x")}}, "A,c,z"},
		{"a key that changes to what the server holds for the same", []change{{texts("a", "c", "z"), texts("A", "c", "z")}}, "1,a,x 2,b,y"},
		{"a part", []change{{texts("2", "-", "-"), texts("-", "-", "yy")}}, "1,a,x 2,b,yy A,c,z"},
		{"parts", []change{{texts("2", "-", "-"), texts("-", "-", "yy")}, {texts("2", "-", "-"), texts("-", "NULL", "-")}, {texts("2", "-", "-"), texts("-", "-", "")}}, "1,a,x 2,NULL, A,c,z"},
		{"a part, then all", []change{{texts("2", "-", "-"), texts("-", "-", "yy")}, {nil, texts("2", "b", "y")}}, "1,a,x A,c,z"},
		{"a part of a deleted row's successor", []change{{texts("2", "-", "-"), nil}, {nil, texts("2", "-", "y")}}, "1,a,x A,c,z"},
		{"a part with a new key", []change{{texts("1", "-", "-"), texts("2", "-", "w")}}, "2,b,w A,c,z"},
	} {
		for _, early := range []bool{true, false} {
			w := chunk(texts("1", "a", "x"), texts("2", "b", "y"), texts("A", "c", "z"))
			load := func() {
				if err := w.load(at(10), at(20)); err != nil {
					t.Fatal(err)
				}
			}
			if !early {
				load()
			}
			for _, ch := range c.changes {
				if err := w.Change(ch.before, ch.after); err != nil {
					t.Fatal(c.name, err)
				}
			}
			if early {
				load()
			}
			if got := w.told(); got != c.want {
				t.Errorf("%s, before the rows %v: %q, want %q", c.name, early, got, c.want)
			}
		}
	}
}

func TestWindowTruncate(t *testing.T) {
	for _, early := range []bool{true, false} {
		w := chunk(texts("1", "a", "x"))
		if early {
			w.Truncate()
		}
		if err := w.load(at(10), at(20)); err != nil {
			t.Fatal(err)
		}
		if !early {
			w.Truncate()
		}
		if err := w.Change(nil, texts("1", "-", "z")); err != nil {
			t.Fatal(err)
		}
		if got := w.told(); got != "" {
			t.Errorf("told %q", got)
		}
	}
}

// TestWindowMarks: a chunk read too early is refused, and its rows wait for the high mark.
func TestWindowMarks(t *testing.T) {
	w := chunk()
	if err := w.load(at(9), at(20)); !errors.Is(err, ErrEarly) {
		t.Errorf("a chunk of before the stream: %v", err)
	}
	w = chunk()
	if err := w.load(at(10), at(20)); err != nil {
		t.Fatal(err)
	}
	if w.ready(at(19)) || !w.ready(at(20)) {
		t.Error("the high mark")
	}
	if other := (Point{Server: "other", File: "bin.000001", Pos: 99}); !w.ready(other) || !w.lost {
		t.Error("a file of another server decided")
	}
}

// TestWindowWithoutIdentity: an image that does not tell its row costs the chunk, not the truth.
func TestWindowWithoutIdentity(t *testing.T) {
	w := chunk(texts("1", "a", "x"))
	if err := w.Change(texts("-", "a", "x"), texts("-", "b", "-")); !errors.Is(err, ErrIdentity) {
		t.Errorf("%v", err)
	}
	if err := w.load(at(10), at(20)); err != nil || !w.ready(at(0)) || !w.lost {
		t.Errorf("the chunk is not lost: %v", err)
	}
}

// TestWindowIsBounded: what is kept while a chunk is read has a bound, and a row that changes again and again takes its own size.
func TestWindowIsBounded(t *testing.T) {
	w := chunk(texts("1", "a", "x"))
	wide := strings.Repeat("w", 1000)
	n := 0
	for ; !w.Full() && n < 1e6; n++ {
		if err := w.Change(nil, texts(fmt.Sprint(n), "-", wide)); err != nil {
			t.Fatal(err)
		}
	}
	if n < 8000 || n > 20000 {
		t.Errorf("full after %d rows of 1,000 bytes", n)
	}
	if err := w.load(at(10), at(20)); err != nil || w.Full() {
		t.Errorf("full with the rows there: %v", err)
	}
	before := w.rows.size()
	for i := range 3000 {
		if err := w.Change(texts("1", "-", "-"), texts("-", "-", strings.Repeat("v", i))); err != nil {
			t.Fatal(err)
		}
	}
	if got := w.told(); got != "1,-,"+strings.Repeat("v", 2999) && got != "1,a,"+strings.Repeat("v", 2999) {
		t.Errorf("told %.20s...", got)
	}
	if grown := w.rows.size() - before; grown > 16000 {
		t.Errorf("grown by %d bytes", grown)
	}
	w = chunk()
	for range 100000 {
		if err := w.Change(texts("1", "-", "-"), texts("-", "-", wide)); err != nil {
			t.Fatal(err)
		}
	}
	if w.Full() {
		t.Error("one row fills the window")
	}
}
