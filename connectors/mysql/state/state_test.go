package state

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/rowtrail/rowtrail/connectors/event"
	"github.com/rowtrail/rowtrail/connectors/mysql/binlog"
)

// shape makes a version of table d.t with an INT key and columns of other types.
func shape(t testing.TB, names ...string) *event.Schema {
	t.Helper()
	columns := make([]event.Column, len(names))
	for i, n := range names {
		f, key := event.MySQLFacts{DataType: "varchar", ColumnType: "varchar(20)", Length: 20, Charset: "utf8mb4"}, 0
		switch {
		case i == 0:
			f, key = event.MySQLFacts{DataType: "int", ColumnType: "int"}, 1
		case strings.HasPrefix(n, "j"):
			f = event.MySQLFacts{DataType: "json", ColumnType: "json"}
		case strings.HasPrefix(n, "g"):
			f.Generated = true
		}
		c, err := event.MySQLColumn(n, f, i == 0, key)
		if err != nil {
			t.Fatal(err)
		}
		columns[i] = c
	}
	s, err := event.NewSchema(event.Options{Connector: event.SourceMySQL, Name: "p"}, "d", "t", columns)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func text(s string) event.Datum { return event.Datum{State: event.Text, Text: []byte(s)} }

func rowText(r event.Row) string {
	if r == nil {
		return "none"
	}
	parts := make([]string, len(r))
	for i, d := range r {
		switch d.State {
		case event.Absent:
			parts[i] = "?"
		case event.Null:
			parts[i] = "NULL"
		default:
			parts[i] = string(d.Text)
		}
	}
	return strings.Join(parts, "|")
}

// source is the table, what a reader without bounds could know of it, and the log.
type source struct {
	t      *testing.T
	rng    *rand.Rand
	schema *event.Schema

	rows  map[string]event.Row // as the server has them
	known map[string]event.Row // as everything that was sent tells them; naive, and never forgets
	trail []written            // of the open log transaction
	view  map[string]Row       // what is committed

	kept      *Rows
	trust     *Trust
	completer *Completer
	change    uint64
	commit    uint64
	filled    int // columns that were completed
}

type written struct {
	key      string
	row      Row
	truncate bool
}

func (s *source) datum() event.Datum {
	if s.rng.IntN(5) == 0 {
		return event.Datum{State: event.Null}
	}
	return text(strings.Repeat(fmt.Sprint(s.rng.IntN(1000)), 1+s.rng.IntN(4)))
}

func (s *source) document() event.Datum {
	return text(fmt.Sprintf(`{"a": %d, "b": %d, "c": 1}`, s.rng.IntN(100), s.rng.IntN(100)))
}

// committed ends the log transaction.
func (s *source) committed() {
	for _, w := range s.trail {
		if w.truncate {
			clear(s.view)
			continue
		}
		s.view[w.key] = w.row
	}
	s.trail = s.trail[:0]
	s.kept.Committed(s.change)
}

func (s *source) write(key string, row event.Row) {
	s.change++
	r := Row{Schema: s.schema, Columns: row.Clone(), Commit: s.commit}
	if row == nil {
		r = Row{Commit: s.commit}
	}
	s.trail = append(s.trail, written{key: key, row: r})
	s.kept.Set("d.t", []byte(key), r, s.change)
}

// before is what a connector does to learn what a row was.
func (s *source) before(key string) event.Row {
	row, found := s.kept.Get("d.t", []byte(key))
	if found == Unknown {
		s.kept.Learn("d.t", []byte(key), s.view[key])
		if row, found = s.kept.Get("d.t", []byte(key)); found == Unknown {
			row, found = s.view[key], Known // no room
		}
	}
	if found == Lost || row.Columns == nil {
		return nil
	}
	fit := make(event.Row, len(s.schema.Columns))
	s.trust.Fit(fit, s.schema, row)
	return fit
}

// image is what the source sends of a row; the key is always there.
func (s *source) image(row event.Row, sent func(i int) bool) event.Row {
	out := make(event.Row, len(row))
	for i := range row {
		if i == 0 || sent(i) {
			out[i] = row[i]
		}
	}
	return out
}

func (s *source) all(int) bool      { return true }
func (s *source) none(int) bool     { return false }
func (s *source) noBlob(i int) bool { return i != 2 }

// check compares what was completed with the server's row, and, where nothing can have been forgotten, with all that could be known.
func (s *source) check(what, key string, got, server, naive event.Row, exact bool) {
	s.t.Helper()
	for i := range got {
		if got[i].State != event.Absent && (got[i].State != server[i].State || string(got[i].Text) != string(server[i].Text)) {
			s.t.Fatalf("%s %s: completed as %s, the server has %s", what, key, rowText(got), rowText(server))
		}
	}
	if exact && rowText(got) != rowText(naive) {
		s.t.Fatalf("%s %s: completed as %s, all that was sent is %s", what, key, rowText(got), rowText(naive))
	}
}

// TestRandomChanges compares completion with a naive reader that keeps everything in a map: over images of all kinds, in sessions that
// change between them, key changes, truncates, commits at any time, columns that are dropped and made anew, and too little room.
func TestRandomChanges(t *testing.T) {
	for seed := range uint64(24) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			limit := MaxBytes
			if seed%2 == 1 {
				limit = 4000
			}
			s := &source{
				t: t, rng: rand.New(rand.NewPCG(seed, 1)), schema: shape(t, "id", "a", "b", "j"), rows: map[string]event.Row{}, known: map[string]event.Row{},
				view: map[string]Row{}, kept: New(limit),
			}
			s.completer = NewCompleter(s.schema, nil)
			exact := seed%2 == 0
			for range 2500 {
				s.commit++
				for range 1 + s.rng.IntN(3) {
					s.step(exact)
				}
				if s.rng.IntN(6) == 0 {
					s.committed()
				}
				if s.kept.Size() > limit {
					t.Fatalf("%d bytes are kept, the limit is %d", s.kept.Size(), limit)
				}
			}
			if s.filled == 0 {
				t.Fatal("nothing was completed")
			}
		})
	}
}

func (s *source) step(exact bool) {
	key := fmt.Sprint(s.rng.IntN(40))
	row, exists := s.rows[key]
	switch p := s.rng.IntN(100); {
	case p == 0: // TRUNCATE
		s.change++
		clear(s.rows)
		clear(s.known)
		s.trail = append(s.trail, written{truncate: true})
		s.kept.Truncate("d.t", s.change)
	case p == 1: // ALTER TABLE t DROP COLUMN a, ADD COLUMN a, at the same place
		s.commit++
		s.trust = s.trust.Changed(s.commit, "d.t", "A")
		for k := range s.rows {
			s.rows[k][1] = event.Datum{State: event.Null}
			s.known[k][1] = event.Datum{}
		}
		s.commit++
	case !exists:
		s.insert(key)
	case p < 20:
		image := s.image(row, []func(int) bool{s.all, s.none, s.noBlob}[s.rng.IntN(3)])
		old := s.oldOf(key, image)
		if err := s.completer.Delete(image, old); err != nil {
			s.t.Fatal(err)
		}
		s.check("delete", key, image, row, s.naive(key, image), exact)
		delete(s.rows, key)
		delete(s.known, key)
		s.write(key, nil)
	default:
		s.update(key, exact)
	}
}

func (s *source) oldOf(key string, image event.Row) event.Row {
	if !Lacks(image) {
		return nil
	}
	old := s.before(key)
	for i := range old {
		if old[i].State != event.Absent && image[i].State == event.Absent {
			s.filled++
		}
	}
	return old
}

// naive is a row image completed from everything that was ever sent.
func (s *source) naive(key string, image event.Row) event.Row {
	out := image.Clone()
	for i := range out {
		if out[i].State == event.Absent {
			out[i] = s.known[key][i]
		}
	}
	return out
}

func (s *source) insert(key string) {
	row := event.Row{text(key), s.datum(), s.datum(), s.document()}
	image := row
	if s.rng.IntN(4) == 0 { // binlog_row_image=MINIMAL, and the statement names no other columns
		row[1] = event.Datum{State: event.Null} // the default
		image = s.image(row, func(i int) bool { return i == 3 })
	}
	s.rows[key], s.known[key] = row.Clone(), image.Clone()
	s.write(key, image)
}

func (s *source) update(key string, exact bool) {
	row := s.rows[key]
	next, to := row.Clone(), key
	changed := map[int]bool{1 + s.rng.IntN(2): true}
	for i := range changed {
		next[i] = s.datum()
	}
	if s.rng.IntN(10) == 0 {
		if free := fmt.Sprint(s.rng.IntN(40)); s.rows[free] == nil {
			to, next[0] = free, text(free)
		}
	}
	var diffs []binlog.Diff
	before, after := s.image(row, s.all), s.image(next, s.all)
	switch s.rng.IntN(4) {
	case 0:
		before, after = s.image(row, s.none), s.image(next, func(i int) bool { return changed[i] })
	case 1:
		before, after = s.image(row, s.noBlob), s.image(next, func(i int) bool { return i != 2 || changed[2] })
	case 2: // JSON_REMOVE(j, '$.a') under PARTIAL_JSON with MINIMAL
		if before, after = s.image(row, s.none), s.image(next, func(i int) bool { return changed[i] }); strings.Contains(string(row[3].Text), `"a"`) {
			diffs = []binlog.Diff{{Index: 3, Change: append([]byte{2, 3}, "$.a"...)}}
			document := string(row[3].Text)
			next[3] = text("{" + document[strings.Index(document, `"b"`):])
			after[3] = event.Datum{}
		}
	}
	known := s.naive(key, before)
	old := s.oldOf(key, before)
	if err := s.completer.Update(before, after, old, diffs); err != nil {
		s.t.Fatal(err)
	}
	s.check("update before", key, before, row, known, exact)
	want := next.Clone()
	for i := range want {
		if known[i].State == event.Absent && !changed[i] && i > 0 {
			want[i] = event.Datum{} // nobody ever sent it
		}
		if after[i].State != event.Absent && want[i].State == event.Absent {
			want[i] = after[i] // sent again, unchanged
		}
	}
	s.check("update after", key, after, next, want, exact)
	delete(s.rows, key)
	delete(s.known, key)
	s.rows[to], s.known[to] = next, after.Clone()
	if to != key {
		s.write(key, nil)
	}
	s.write(to, after)
}

func TestTrust(t *testing.T) {
	old, now := shape(t, "id", "a", "b", "g"), shape(t, "id", "b", "c", "a", "g")
	row := Row{Schema: old, Columns: event.Row{text("1"), text("A"), text("B"), text("G")}, Commit: 10}
	fit := func(trust *Trust) string {
		dst := make(event.Row, len(now.Columns))
		trust.Fit(dst, now, row)
		return rowText(dst)
	}
	var none *Trust
	for _, tc := range []struct {
		trust *Trust
		want  string
	}{
		{none, "1|B|?|A|G"},
		{none.All(11), "?|?|?|?|?"},
		{none.All(10), "1|B|?|A|G"},
		{none.Changed(11, "d.t", "A"), "1|B|?|?|?"}, // a generated column may be of any
		{none.Changed(11, "d.other"), "1|B|?|A|G"},
		{none.Changed(11, "d.t"), "?|?|?|?|?"},
		{none.Changed(11, "d.t").Emptied("d.t"), "1|B|?|A|G"},
	} {
		if got := fit(tc.trust); got != tc.want {
			t.Errorf("%+v: %s, want %s", tc.trust, got, tc.want)
		}
	}
	many := none
	for i := range maxColumns + 1 {
		many = many.Changed(11, "d.t", fmt.Sprint("c", i))
	}
	if got := fit(many); got != "?|?|?|?|?" || len(many.Tables["d.t"].Columns) > 0 {
		t.Errorf("%d columns are told apart: %s", len(many.Tables["d.t"].Columns), got)
	}
	tables := none
	for i := range maxTables + 1 {
		tables = tables.Changed(11, fmt.Sprint("d.x", i))
	}
	if got := fit(tables); got != "?|?|?|?|?" || len(tables.Tables) > 0 {
		t.Errorf("%d tables are told apart: %s", len(tables.Tables), got)
	}
	other := shape(t, "id", "j", "a")
	other.Columns[2].Type = "varchar(30)" // wider since
	dst := make(event.Row, 3)
	none.Fit(dst, &event.Schema{ID: 1, Schema: "d", Table: "t", Columns: other.Columns}, row)
	if got := rowText(dst); got != "1|?|?" {
		t.Errorf("another type: %s", got)
	}
}

// TestDrift: a state that the source's images contradict is worth nothing, also for the columns that they do not tell.
func TestDrift(t *testing.T) {
	c := NewCompleter(shape(t, "id", "a", "b", "j"), nil)
	before := event.Row{text("1"), text("x"), {}, {}}
	after := event.Row{text("1"), text("y"), {}, {}}
	old := event.Row{text("1"), text("other"), text("b"), text(`{"a": 1}`)}
	var drift *DriftError
	if err := c.Update(before, after, old, nil); !errors.As(err, &drift) || drift.Column != "a" {
		t.Fatalf("%v", err)
	}
	if got := rowText(before) + " " + rowText(after); got != "1|x|?|? 1|y|?|?" {
		t.Errorf("completed from it: %s", got)
	}
	old[1], old[3] = text("x"), text(`{"b": 1}`)
	diffs := []binlog.Diff{{Index: 3, Change: append([]byte{2, 3}, "$.a"...)}}
	if err := c.Update(before, after, old, diffs); !errors.As(err, &drift) || drift.Column != "j" || !errors.Is(err, binlog.ErrDiff) {
		t.Fatalf("%v", err)
	}
	if got := rowText(before) + " " + rowText(after); got != "1|x|?|? 1|y|?|?" {
		t.Errorf("completed from it: %s", got)
	}
	if err := c.Delete(event.Row{text("1"), text("z"), {}, {}}, old); !errors.As(err, &drift) {
		t.Fatalf("%v", err)
	}
}

// TestRows: what is known of a key from one change to the next, and what the views are not asked for.
func TestRows(t *testing.T) {
	schema := shape(t, "id", "a")
	row := func(a string) Row {
		return Row{Schema: schema, Columns: event.Row{text("1"), text(a)}, Commit: 1}
	}
	key := []byte("k")
	get := func(r *Rows) string {
		got, found := r.Get("d.t", key)
		return fmt.Sprint([]string{"unknown", "known", "lost"}[found], " ", rowText(got.Columns))
	}
	r := New(MaxBytes)
	expect := func(what, want string) {
		t.Helper()
		if got := get(r); got != want {
			t.Errorf("%s: %s, want %s", what, got, want)
		}
	}
	expect("at first", "unknown none")
	r.Learn("d.t", key, row("view"))
	expect("the view told it", "known 1|view")
	r.Set("d.t", key, row("new"), 1)
	r.Learn("d.t", key, row("view"))
	expect("the view is older", "known 1|new")
	r.Replace("d.t", key, row("loaded"))
	expect("a load told it", "known 1|loaded")
	r.Set("d.t", key, Row{Commit: 2}, 2)
	expect("deleted", "known none")
	r.Set("d.t", key, row("again"), 3)
	r.Truncate("d.t", 4)
	r.Learn("d.t", key, row("view"))
	expect("emptied", "known none")
	r.Committed(3)
	expect("emptied, and what was before is committed", "known none")
	r.Committed(4)
	expect("committed", "unknown none")
	r.Replace("d.t", key, row("loaded"))
	expect("a load told what is not kept", "unknown none")
	if r.Size() != 0 {
		t.Errorf("%d bytes are kept", r.Size())
	}

	r = New(2*rowCost + 200)
	r.Learn("d.t", key, row("view"))
	for i := range 5 {
		r.Set("d.t", fmt.Append(nil, i), row("other"), uint64(10+i))
	}
	expect("no room, as others are not committed", "lost none")
	r.Committed(13)
	expect("some of them are", "lost none")
	r.Committed(14)
	expect("all of them are", "unknown none")
	r.Learn("d.t", key, row("view"))
	expect("there is room again", "known 1|view")
}

// TestSilentColumns: a column that the source may change without sending it is not taken for unchanged.
func TestSilentColumns(t *testing.T) {
	c := NewCompleter(shape(t, "id", "a", "b", "g"), []bool{false, false, false, true})
	before, after := event.Row{text("1"), {}, {}, {}}, event.Row{text("1"), text("y"), {}, {}}
	if err := c.Update(before, after, event.Row{text("1"), text("x"), text("b"), text("x2")}, nil); err != nil {
		t.Fatal(err)
	}
	if got := rowText(before) + " " + rowText(after); got != "1|x|b|x2 1|y|b|?" {
		t.Error(got)
	}
}

// TestUnknownBase: the change of a document that is not known leaves the column absent; it is not what it was before.
func TestUnknownBase(t *testing.T) {
	c := NewCompleter(shape(t, "id", "a", "b", "j"), nil)
	diffs := []binlog.Diff{{Index: 3, Change: append([]byte{2, 3}, "$.a"...)}}
	for _, base := range []event.Datum{{}, {State: event.Null}} {
		before, after := event.Row{text("1"), {}, {}, {}}, event.Row{text("1"), text("y"), {}, {}}
		if err := c.Update(before, after, event.Row{text("1"), text("x"), text("b"), base}, diffs); err != nil {
			t.Fatal(err)
		}
		if got := rowText(after); got != "1|y|b|?" {
			t.Errorf("after a change of %v: %s", base, got)
		}
	}
}
