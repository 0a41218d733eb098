package postgres

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/rowtrail/rowtrail/connectors/event"
	"github.com/rowtrail/rowtrail/sink"
	"github.com/rowtrail/rowtrail/sink/sinktest"
)

// tableOf makes a table version.
func tableOf(t testing.TB, name string, columns ...event.Column) *event.Schema {
	t.Helper()
	s, err := event.NewSchema(event.Options{Name: "shop", Database: "shop"}, "public", name, columns)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// openSession opens a session in a database.
func openSession(t testing.TB, c *Config) sink.Session {
	t.Helper()
	s, err := newTarget(c, sink.Deps{Version: "test"}).Open(context.Background())
	if err != nil {
		t.Fatalf("open session: %v", err)
	}
	t.Cleanup(s.Close)
	return s
}

// ev makes an event; key columns are taken from the row.
func ev(s *event.Schema, op event.Op, row event.Row) *sink.Event {
	key := make(event.Row, len(row))
	for _, k := range s.KeyColumns() {
		key[k] = row[k]
	}
	e := &sink.Event{Topic: "shop." + s.Collection(), Schema: s, Key: key, Change: event.Change{Op: op, After: row}}
	if op == event.OpDelete {
		e.Change.Before, e.Change.After = key, nil
	}
	return e
}

func text(values ...string) event.Row {
	row := make(event.Row, len(values))
	for i, v := range values {
		switch v {
		case "NULL":
			row[i] = sinktest.Null()
		case "ABSENT":
		default:
			row[i] = sinktest.Text(v)
		}
	}
	return row
}

// apply applies events and commits.
func apply(t testing.TB, s sink.Session, events ...*sink.Event) error {
	t.Helper()
	for _, e := range events {
		if err := s.Apply(context.Background(), e); err != nil {
			return err
		}
	}
	topic := "shop.public.x"
	if len(events) > 0 {
		topic = events[0].Topic
	}
	return s.Commit(context.Background(), []sink.Offset{{Topic: topic, Next: 1}})
}

func mustApply(t testing.TB, s sink.Session, events ...*sink.Event) {
	t.Helper()
	if err := apply(t, s, events...); err != nil {
		t.Fatalf("apply: %v", err)
	}
}

// drawOps draws changes that a source with PRIMARY KEY (id), UNIQUE (email) and a reference to a parent could have made one
// after another, and the rows that they leave.
func drawOps(t *rapid.T, child, parent *event.Schema) (ops []*sink.Event, children, parents map[string]event.Row) {
	children, parents = map[string]event.Row{}, map[string]event.Row{}
	emails := map[string]string{} // to id
	refs := map[string]int{}
	id := func() string { return strconv.Itoa(rapid.IntRange(1, 5).Draw(t, "id")) }
	drop := func(key string) {
		row := children[key]
		delete(emails, string(row[1].Text))
		refs[string(row[2].Text)]--
		delete(children, key)
		ops = append(ops, ev(child, event.OpDelete, row))
	}
	for range rapid.IntRange(1, 30).Draw(t, "ops") {
		key := id()
		switch rapid.IntRange(0, 6).Draw(t, "op") {
		case 0:
			row := text(key, "p"+strconv.Itoa(len(ops)))
			parents[key] = row
			ops = append(ops, ev(parent, event.OpUpdate, row))
		case 1:
			if parents[key] != nil && refs[key] == 0 {
				delete(parents, key)
				ops = append(ops, ev(parent, event.OpDelete, text(key, "ABSENT")))
			}
		case 2:
			if children[key] != nil {
				drop(key)
			}
		case 3: // key change
			to := id()
			if old := children[key]; old != nil && children[to] == nil {
				row := slices.Clone(old)
				drop(key)
				row[0] = sinktest.Text(to)
				children[to], emails[string(row[1].Text)] = row, to
				refs[string(row[2].Text)]++
				ops = append(ops, ev(child, event.OpCreate, row))
			}
		default:
			email := "e" + strconv.Itoa(rapid.IntRange(0, 6).Draw(t, "email"))
			ref := id()
			if holder, taken := emails[email]; (taken && holder != key) || parents[ref] == nil {
				continue
			}
			note := sinktest.Text("n" + strconv.Itoa(len(ops)))
			old := children[key]
			row := event.Row{sinktest.Text(key), sinktest.Text(email), sinktest.Text(ref), note}
			sent := slices.Clone(row)
			if old != nil {
				delete(emails, string(old[1].Text))
				refs[string(old[2].Text)]--
				if rapid.Bool().Draw(t, "absent") {
					sent[3], row[3] = sinktest.Absent(), old[3]
				}
			}
			children[key], emails[email] = row, key
			refs[ref]++
			ops = append(ops, ev(child, event.OpUpdate, sent))
		}
	}
	return ops, children, parents
}

// Folding a window never shows: with other unique indexes and foreign keys in the target the result is as if every change
// had been applied by itself, in source order.
func TestM27FoldingKeepsSourceOrder(t *testing.T) {
	dsn, conn := database(t)
	child := tableOf(t, "child", sinktest.Col("id", "integer", event.KindInt32, 1), sinktest.Col("email", "text", event.KindText, 0),
		sinktest.Col("ref", "integer", event.KindInt32, 0), sinktest.Col("note", "text", event.KindText, 0))
	parent := tableOf(t, "parent", sinktest.Col("id", "integer", event.KindInt32, 1), sinktest.Col("name", "text", event.KindText, 0))
	must(t, conn, `CREATE TABLE parent (id integer PRIMARY KEY, name text UNIQUE);
		CREATE TABLE child (id integer PRIMARY KEY, email text NOT NULL UNIQUE, ref integer NOT NULL REFERENCES parent, note text)`)
	s := openSession(t, config(t, "w", dsn, nil))
	rapid.Check(t, func(rt *rapid.T) {
		if _, err := conn.Exec(context.Background(), "TRUNCATE parent, child"); err != nil {
			rt.Fatal(err)
		}
		ops, children, parents := drawOps(rt, child, parent)
		for i, op := range ops {
			if err := s.Apply(context.Background(), op); err != nil {
				rt.Fatalf("apply %d: %v", i, err)
			}
			if rapid.IntRange(0, 9).Draw(rt, "commit") == 0 {
				if err := s.Commit(context.Background(), nil); err != nil {
					rt.Fatalf("commit: %v", err)
				}
			}
		}
		if err := s.Commit(context.Background(), nil); err != nil {
			rt.Fatalf("commit: %v", err)
		}
		for table, want := range map[string]map[string]event.Row{"child": children, "parent": parents} {
			var list []string
			for _, row := range want {
				list = append(list, sinktest.Format(row))
			}
			slices.Sort(list)
			if got := rows(t, conn, "SELECT * FROM "+table); !slices.Equal(got, list) {
				rt.Fatalf("%s: %v, want %v", table, got, list)
			}
		}
	})
}

// A unique index other than the key's never decides which row is written.
func TestM27OtherUniqueIndexIsAnError(t *testing.T) {
	dsn, conn := database(t)
	must(t, conn, "CREATE TABLE u (id integer PRIMARY KEY, email text UNIQUE)")
	u := tableOf(t, "u", sinktest.Col("id", "integer", event.KindInt32, 1), sinktest.Col("email", "text", event.KindText, 0))
	s := openSession(t, config(t, "w", dsn, nil))
	mustApply(t, s, ev(u, event.OpCreate, text("1", "a")))
	err := apply(t, s, ev(u, event.OpCreate, text("2", "a")))
	if err == nil || !sink.IsPermanent(err) || !strings.Contains(err.Error(), "23505") {
		t.Fatalf("apply: %v; want a permanent unique violation", err)
	}
	if got := rows(t, conn, "SELECT * FROM u"); !slices.Equal(got, []string{"1|a"}) {
		t.Fatalf("rows %v", got)
	}
}

func TestP6AbsentIsNotNull(t *testing.T) {
	dsn, conn := database(t)
	s := openSession(t, config(t, "w", dsn, nil))
	tab := tableOf(t, "t", sinktest.Col("id", "integer", event.KindInt32, 1), sinktest.Col("big", "text", event.KindText, 0), sinktest.Col("small", "integer", event.KindInt32, 0))
	// Insert and partial update meet in one window, on an empty target.
	mustApply(t, s, ev(tab, event.OpCreate, text("1", "toast", "1")), ev(tab, event.OpUpdate, text("1", "ABSENT", "2")),
		ev(tab, event.OpCreate, text("2", "other", "1")))
	mustApply(t, s, ev(tab, event.OpUpdate, text("1", "ABSENT", "3")), ev(tab, event.OpUpdate, text("2", "NULL", "4")))
	if got := rows(t, conn, "SELECT * FROM t"); !slices.Equal(got, []string{"1|toast|3", "2|NULL|4"}) {
		t.Fatalf("rows %v", got)
	}
	err := apply(t, s, ev(tab, event.OpUpdate, text("3", "ABSENT", "1")))
	if err == nil || !sink.IsPermanent(err) || !strings.Contains(err.Error(), "1 of 1 rows") {
		t.Fatalf("update of a row that is not there: %v", err)
	}
}

func TestP9KeyUpdate(t *testing.T) {
	dsn, conn := database(t)
	s := openSession(t, config(t, "w", dsn, nil))
	tab := tableOf(t, "t", sinktest.Col("id", "integer", event.KindInt32, 1), sinktest.Col("v", "text", event.KindText, 0))
	mustApply(t, s, ev(tab, event.OpCreate, text("1", "a")))
	mustApply(t, s, ev(tab, event.OpDelete, text("1", "ABSENT")), ev(tab, event.OpCreate, text("2", "a")))
	if got := rows(t, conn, "SELECT * FROM t"); !slices.Equal(got, []string{"2|a"}) {
		t.Fatalf("rows %v", got)
	}
}

// A key change whose create lacks a column (unchanged TOAST) keeps what the row has, in the target or in the window.
func TestP9KeyUpdateKeepsAbsentColumns(t *testing.T) {
	dsn, conn := database(t)
	for _, careful := range []bool{false, true} {
		s := openSession(t, config(t, "w", dsn, nil))
		s.SetCareful(careful)
		tab := tableOf(t, "t", sinktest.Col("a", "integer", event.KindInt32, 1), sinktest.Col("b", "integer", event.KindInt32, 2),
			sinktest.Col("big", "text", event.KindText, 0), sinktest.Col("v", "text", event.KindText, 0))
		rekey := func(from, to event.Row) []*sink.Event {
			d, c := ev(tab, event.OpDelete, from), ev(tab, event.OpCreate, to)
			d.NewKey, c.OldKey = c.Key, d.Key
			return []*sink.Event{d, c}
		}
		must(t, conn, "DROP TABLE IF EXISTS t")
		mustApply(t, s, ev(tab, event.OpCreate, text("1", "1", "toast", "x")))
		events := rekey(text("1", "1", "ABSENT", "ABSENT"), text("2", "1", "ABSENT", "y"))
		events = append(events, ev(tab, event.OpCreate, text("5", "5", "new", "z")))
		events = append(events, rekey(text("5", "5", "ABSENT", "ABSENT"), text("6", "5", "ABSENT", "z"))...)
		events = append(events, rekey(text("2", "1", "ABSENT", "ABSENT"), text("3", "1", "whole", "w"))...)
		mustApply(t, s, events...)
		if got := rows(t, conn, "SELECT * FROM t"); !slices.Equal(got, []string{"3|1|whole|w", "6|5|new|z"}) {
			t.Fatalf("careful %t: rows %v", careful, got)
		}
		// A delete whose create does not follow is a delete.
		mustApply(t, s, rekey(text("6", "5", "ABSENT", "ABSENT"), text("7", "5", "ABSENT", "z"))[0])
		if got := rows(t, conn, "SELECT * FROM t"); !slices.Equal(got, []string{"3|1|whole|w"}) {
			t.Fatalf("careful %t: rows %v", careful, got)
		}
	}
}

// TRUNCATE a, b of tables that refer to each other is one event per table.
func TestP25TruncateTogether(t *testing.T) {
	dsn, conn := database(t)
	must(t, conn, "CREATE TABLE a (id integer PRIMARY KEY); CREATE TABLE b (id integer PRIMARY KEY REFERENCES a)")
	a, b := tableOf(t, "a", sinktest.Col("id", "integer", event.KindInt32, 1)), tableOf(t, "b", sinktest.Col("id", "integer", event.KindInt32, 1))
	s := openSession(t, config(t, "w", dsn, nil))
	mustApply(t, s, ev(a, event.OpCreate, text("1")), ev(b, event.OpCreate, text("1")),
		ev(a, event.OpTruncate, text("1")), ev(b, event.OpTruncate, text("1")), ev(a, event.OpCreate, text("2")))
	if got := rows(t, conn, "SELECT a.id, b.id AS b FROM a LEFT JOIN b USING (id)"); !slices.Equal(got, []string{"2|NULL"}) {
		t.Fatalf("rows %v", got)
	}
	refuse := openSession(t, config(t, "x", dsn, map[string]string{"truncate.enabled": "false"}))
	mustApply(t, refuse, ev(b, event.OpTruncate, text("1"))) // there is nothing to lose
	if err := apply(t, refuse, ev(a, event.OpTruncate, text("1"))); !sink.IsPermanent(err) {
		t.Fatalf("truncate.enabled=false: %v", err)
	}
}

// A value that does not fit is refused, not cut off.
func TestValueThatDoesNotFit(t *testing.T) {
	dsn, conn := database(t)
	must(t, conn, "CREATE TABLE t (id integer PRIMARY KEY, v varchar(3), b bit(3))")
	tab := tableOf(t, "t", sinktest.Col("id", "integer", event.KindInt32, 1), sinktest.Col("v", "text", event.KindText, 0), sinktest.Col("b", "text", event.KindText, 0))
	for _, bad := range []event.Row{text("1", "abcd", "NULL"), text("1", "NULL", "1111")} {
		s := openSession(t, config(t, "w", dsn, nil))
		if err := apply(t, s, ev(tab, event.OpCreate, bad)); !sink.IsPermanent(err) {
			t.Errorf("%v: %v; want a permanent error", bad, err)
		}
	}
	s := openSession(t, config(t, "w", dsn, nil))
	mustApply(t, s, ev(tab, event.OpCreate, text("1", "abc", "101")))
	if got := rows(t, conn, "SELECT * FROM t"); !slices.Equal(got, []string{"1|abc|101"}) {
		t.Fatalf("rows %v", got)
	}
}

func TestEvolution(t *testing.T) {
	dsn, conn := database(t)
	must(t, conn, "CREATE TABLE nokey (id integer, v text); CREATE TYPE public.state AS ENUM ('on', 'off')")
	col := sinktest.Col
	v1 := tableOf(t, `we"ird Tab`, col("Id", "bigint", event.KindInt64, 1), col("a b", "text", event.KindText, 0))
	mood := col("mood", `public."Mo'od"`, event.KindEnum, 0)
	mood.Enum = []string{"so so", "it's \\ ok"}
	moods := col("moods", `public."Mo'od"[]`, event.KindArray, 0)
	moods.Elem, moods.Enum = event.KindEnum, mood.Enum
	num := col("num", "numeric(10,2)", event.KindNumeric, 0)
	num.Modifier = (10<<16 | 2) + 4
	v2 := tableOf(t, `we"ird Tab`, col("Id", "bigint", event.KindInt64, 1), col("a b", "text", event.KindText, 0), mood, moods, num,
		col("st", "public.state", event.KindText, 0), col("odd", "public.nowhere", event.KindText, 0))

	none := openSession(t, config(t, "none", dsn, map[string]string{"schema.evolution": "none"}))
	if err := apply(t, none, ev(v1, event.OpCreate, text("1", "x"))); !sink.IsPermanent(err) || !strings.Contains(err.Error(), "CREATE TABLE") {
		t.Fatalf("schema.evolution=none: %v", err)
	}
	s := openSession(t, config(t, "w", dsn, nil))
	mustApply(t, s, ev(v1, event.OpCreate, text("1", "x")), ev(v2, event.OpCreate, text("2", "y", "so so", `{"it's \\ ok"}`, "1.50", "on", "?")))
	got := rows(t, conn, `SELECT * FROM "we""ird Tab"`)
	if want := []string{"1|x|NULL|NULL|NULL|NULL|NULL", `2|y|so so|["it's \\ ok"]|1.50|on|?`}; !slices.Equal(got, want) {
		t.Fatalf("rows %q, want %q", got, want)
	}
	types := rows(t, conn, `SELECT attnum, format_type(atttypid, atttypmod) FROM pg_attribute WHERE attrelid = '"we""ird Tab"'::regclass AND attnum > 4`)
	if want := []string{"5|numeric(10,2)", "6|state", "7|text"}; !slices.Equal(types, want) {
		t.Fatalf("types %q, want %q", types, want)
	}
	noKey := tableOf(t, "nokey", col("id", "integer", event.KindInt32, 1), col("v", "text", event.KindText, 0))
	if err := apply(t, s, ev(noKey, event.OpCreate, text("1", "x"))); !sink.IsPermanent(err) || !strings.Contains(err.Error(), `ADD UNIQUE ("id")`) {
		t.Fatalf("target without key: %v", err)
	}
	s = openSession(t, config(t, "w", dsn, nil))
	keyless := tableOf(t, "keyless", col("id", "integer", event.KindInt32, 0))
	if err := apply(t, s, ev(keyless, event.OpCreate, text("1"))); !sink.IsPermanent(err) || !strings.Contains(err.Error(), "primary key") {
		t.Fatalf("source without key: %v", err)
	}
}

func TestTableMap(t *testing.T) {
	dsn, conn := database(t)
	s := openSession(t, config(t, "w", dsn, map[string]string{"target.schema": "dw", "table.map": "public.a:other.b"}))
	a, c := tableOf(t, "a", sinktest.Col("id", "integer", event.KindInt32, 1)), tableOf(t, "c", sinktest.Col("id", "integer", event.KindInt32, 1))
	mustApply(t, s, ev(a, event.OpCreate, text("1")), ev(c, event.OpCreate, text("2")))
	if got := rows(t, conn, "SELECT b.id, c.id AS c FROM other.b, dw.c"); !slices.Equal(got, []string{"1|2"}) {
		t.Fatalf("rows %v", got)
	}
}

// Records of other producers: JSON keys and values, into a table that exists.
func TestForeignRecords(t *testing.T) {
	dsn, conn := database(t)
	must(t, conn, "CREATE TABLE app (id integer PRIMARY KEY, name text, at timestamptz, doc jsonb)")
	s := openSession(t, config(t, "w", dsn, nil))
	raw := func(key, value string) *sink.Event {
		e := &sink.Event{Topic: "their.public.app", RawKey: []byte(key)}
		if value != "" {
			e.RawValue = []byte(value)
		}
		return e
	}
	mustApply(t, s,
		raw(`{"id":1}`, `{"id":1,"name":"a\"b","at":"2024-05-06T07:08:09Z","doc":{"x":[1,2]}}`),
		raw(`{"id":2}`, `{"before":null,"after":{"id":2,"name":null},"op":"c"}`),
		raw(`{"schema":{},"payload":{"id":3}}`, `{"schema":{},"payload":{"before":null,"after":{"id":3,"name":"c"},"op":"r"}}`),
		raw(`{"id":4}`, `{"name":"gone"}`), raw(`{"id":4}`, ""),
		raw(`{"id":5}`, `{"name":"gone"}`), raw(`{"id":5}`, `{"before":{"id":5},"after":null,"op":"d"}`))
	got := rows(t, conn, "SELECT id, name, at AT TIME ZONE 'UTC' AS at, doc::text FROM app")
	if want := []string{`1|a"b|2024-05-06T07:08:09|{"x": [1, 2]}`, "2|NULL|NULL|NULL", "3|c|NULL|NULL"}; !slices.Equal(got, want) {
		t.Fatalf("rows %q, want %q", got, want)
	}
	for _, bad := range []*sink.Event{raw("", `{"id":1}`), raw("7", `{"id":1}`), raw(`{"id":1}`, `[]`), raw(`{"id":1}`, `{"unknown":1}`)} {
		s := openSession(t, config(t, "w", dsn, nil))
		if err := apply(t, s, bad); !sink.IsPermanent(err) {
			t.Errorf("key %s value %s: %v; want a permanent error", bad.RawKey, bad.RawValue, err)
		}
	}
}

// A label that the target's enum type lacks is added where the source has it: labels of a new table version, labels that no
// version names yet, and labels in arrays; to a type that is there and to one that the same transaction created.
func TestEnumLabels(t *testing.T) {
	dsn, conn := database(t)
	must(t, conn, "CREATE TYPE state AS ENUM ('new', 'paid'); CREATE TABLE orders (id integer PRIMARY KEY, state state, states state[])")
	version := func(table, kind string, labels ...string) *event.Schema {
		one, many := sinktest.Col("state", kind, event.KindEnum, 0), sinktest.Col("states", kind+"[]", event.KindArray, 0)
		many.Elem, one.Enum, many.Enum = event.KindEnum, labels, labels
		return tableOf(t, table, sinktest.Col("id", "integer", event.KindInt32, 1), one, many)
	}
	v1, v2 := version("orders", "public.state", "new", "paid"), version("orders", "public.state", "draft", "new", "held", "paid")

	none := openSession(t, config(t, "none", dsn, map[string]string{"schema.evolution": "none"}))
	err := apply(t, none, ev(v1, event.OpCreate, text("9", "it's", "{}")))
	if !sink.IsPermanent(err) || !strings.Contains(err.Error(), "ALTER TYPE public.state ADD VALUE IF NOT EXISTS 'it''s'") {
		t.Fatalf("schema.evolution=none: %v", err)
	}
	s := openSession(t, config(t, "w", dsn, nil))
	mustApply(t, s, ev(v1, event.OpCreate, text("1", "new", "{paid,NULL}")), ev(v1, event.OpCreate, text("2", "it's", "{}")),
		ev(v2, event.OpCreate, text("3", "held", "{draft}")), ev(v2, event.OpCreate, text("4", "new", `{{"a b",new},{"\"",NULL}}`)))
	if got, want := rows(t, conn, "SELECT id, state, states::text FROM orders"), []string{"1|new|{paid,NULL}", "2|it's|{}", "3|held|{draft}", `4|new|{{"a b",new},{"\"",NULL}}`}; !slices.Equal(got, want) {
		t.Errorf("rows %q, want %q", got, want)
	}
	made, wider := version("made", "public.kind", "a", "c"), version("made", "public.kind", "a", "b", "c")
	mustApply(t, s, ev(made, event.OpCreate, text("1", "a", "{c}")), ev(wider, event.OpCreate, text("2", "b", "{d}")))
	for kind, want := range map[string]string{"state": `{draft,new,held,paid,it's,"a b","\""}`, "kind": "{a,b,c,d}"} {
		if got := rows(t, conn, "SELECT array_agg(enumlabel ORDER BY enumsortorder)::text FROM pg_enum WHERE enumtypid = $1::text::regtype", kind); !slices.Equal(got, []string{want}) {
			t.Errorf("labels of %s: %q, want %q", kind, got, want)
		}
	}
	other := openSession(t, config(t, "w2", dsn, nil)) // a session that finds all of it
	mustApply(t, other, ev(wider, event.OpUpdate, text("1", "d", "{b}")))
}
