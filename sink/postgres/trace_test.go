package postgres

import (
	"slices"
	"strings"
	"testing"

	"github.com/rowtrail/rowtrail/connectors/event"
	"github.com/rowtrail/rowtrail/sink"
	"github.com/rowtrail/rowtrail/sink/sinktest"
)

func numbered(c event.Column, number int) event.Column {
	c.Number = number
	return c
}

func col(name, kind string, number int) event.Column {
	return numbered(sinktest.Col(name, kind, event.KindText, 0), number)
}

var idColumn = numbered(sinktest.Col("id", "integer", event.KindInt32, 1), 1)

func versionOf(t testing.TB, identity uint32, columns ...event.Column) *event.Schema {
	t.Helper()
	s, err := event.NewSchemaOf(event.Options{Name: "shop", Database: "shop"}, identity, "public", "t", append([]event.Column{idColumn}, columns...))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Each session sees one table version: what the columns were before has to come from the target.
func TestP19RenamedColumns(t *testing.T) {
	dsn, conn := database(t)
	c := config(t, "w", dsn, nil)
	step := func(schema *event.Schema, row event.Row) {
		t.Helper()
		s := openSession(t, c)
		mustApply(t, s, ev(schema, event.OpCreate, row))
		s.Close()
	}
	want := func(list ...string) {
		t.Helper()
		if got := rows(t, conn, "SELECT * FROM t"); !slices.Equal(got, list) {
			t.Fatalf("rows %q, want %q", got, list)
		}
	}
	step(versionOf(t, 7, col("a", "text", 2), col("b", "text", 3)), text("1", "a1", "b1"))
	step(versionOf(t, 7, col("c", "text", 2), col("b", "text", 3)), text("2", "c2", "b2"))
	want("1|a1|b1", "2|c2|b2")
	step(versionOf(t, 7, col("b", "text", 2), col("c", "text", 3)), text("3", "b3", "c3")) // names exchanged
	want("1|a1|b1", "2|c2|b2", "3|b3|c3")
	if got := rows(t, conn, "SELECT attname FROM pg_attribute WHERE attrelid = 't'::regclass AND attnum > 0"); !slices.Equal(got, []string{"b", "c", "id"}) {
		t.Fatalf("columns %q", got)
	}
	step(versionOf(t, 7, col("b", "text", 2), col("c", "text", 3), col("a", "text", 4)), text("4", "b4", "c4", "a4"))
	want("1|a1|b1|NULL", "2|c2|b2|NULL", "3|b3|c3|NULL", "4|b4|c4|a4")
	// Another table of the name: its numbers say nothing about the columns.
	step(versionOf(t, 8, col("c", "text", 2), col("b", "text", 3), col("a", "text", 4)), text("5", "c5", "b5", "a5"))
	want("1|a1|b1|NULL", "2|c2|b2|NULL", "3|b3|c3|NULL", "4|b4|c4|a4", "5|b5|c5|a5")
}

// A column that was dropped and added again holds nothing at the source of what the target has.
func TestP19ReplacedColumnStops(t *testing.T) {
	dsn, conn := database(t)
	s := openSession(t, config(t, "w", dsn, nil))
	mustApply(t, s, ev(versionOf(t, 7, col("a", "text", 2)), event.OpCreate, text("1", "old")))
	missing := "it's 9"
	again := col("a", "text", 3)
	again.Missing = &missing
	v2 := versionOf(t, 7, again)
	err := apply(t, s, ev(v2, event.OpCreate, text("2", "new")))
	if !sink.IsPermanent(err) || !strings.Contains(err.Error(), `ALTER TABLE "public"."t" DROP COLUMN "a"`) {
		t.Fatalf("replaced column: %v", err)
	}
	s.Close()
	must(t, conn, `ALTER TABLE "public"."t" DROP COLUMN "a"`)
	mustApply(t, openSession(t, config(t, "w", dsn, nil)), ev(v2, event.OpCreate, text("2", "new")))
	if got := rows(t, conn, "SELECT * FROM t"); !slices.Equal(got, []string{"1|it's 9", "2|new"}) {
		t.Fatalf("rows %q", got)
	}
}

func TestP20DefaultOfRowsFromBefore(t *testing.T) {
	dsn, conn := database(t)
	s := openSession(t, config(t, "w", dsn, nil))
	v1 := versionOf(t, 7)
	mustApply(t, s, ev(v1, event.OpCreate, text("1")))
	nine, list := "9", `{"a b",NULL}`
	d, l := col("d", "integer", 2), col("l", "text[]", 3)
	d.Missing, l.Missing = &nine, &list
	v := col("v", "text", 4)
	v.Default = true
	mustApply(t, s, ev(versionOf(t, 7, d, l, v), event.OpCreate, text("2", "NULL", "{}", "x")))
	if got := rows(t, conn, "SELECT id, d, l::text, v FROM t"); !slices.Equal(got, []string{`1|9|{"a b",NULL}|NULL`, "2|NULL|{}|x"}) {
		t.Fatalf("rows %q", got)
	}
	if got := rows(t, conn, "SELECT adnum FROM pg_attrdef WHERE adrelid = 't'::regclass"); len(got) > 0 {
		t.Fatalf("defaults are left: %q", got)
	}
}

func TestTypesThatGrowFollow(t *testing.T) {
	dsn, conn := database(t)
	s := openSession(t, config(t, "w", dsn, nil))
	mustApply(t, s, ev(versionOf(t, 7, col("n", "integer", 2), col("s", "character varying(3)", 3)), event.OpCreate, text("1", "5", "abc")))
	v2 := versionOf(t, 7, col("n", "bigint", 2), col("s", "text", 3))
	mustApply(t, s, ev(v2, event.OpCreate, text("2", "5000000000", "longer")))
	v3 := versionOf(t, 7, col("n", "uuid", 2), col("s", "text", 3))
	err := apply(t, s, ev(v3, event.OpCreate, text("3", "00000000-0000-0000-0000-000000000001", "x")))
	const remedy = `ALTER TABLE "public"."t" ALTER COLUMN "n" TYPE uuid USING "n"::uuid`
	if !sink.IsPermanent(err) || !strings.Contains(err.Error(), remedy) {
		t.Fatalf("uuid: %v", err)
	}
	s.Close()
	must(t, conn, `ALTER TABLE t ALTER COLUMN n TYPE uuid USING lpad(n::text, 32, '0')::uuid`)
	mustApply(t, openSession(t, config(t, "w", dsn, nil)), ev(v3, event.OpCreate, text("3", "00000000-0000-0000-0000-000000000001", "x")))
	if got := rows(t, conn, "SELECT n, s FROM t"); !slices.Equal(got, []string{
		"00000000-0000-0000-0000-000000000001|x", "00000000-0000-0000-0000-000000000005|abc", "00000000-0000-0000-0000-005000000000|longer"}) {
		t.Fatalf("rows %q", got)
	}
}

// Without its offsets a sink applies the log again: what the columns were in the end is not what they were in the beginning.
func TestTraceEndsWithTheOffsets(t *testing.T) {
	dsn, conn := database(t)
	v1 := versionOf(t, 7, col("n", "integer", 2))
	s := openSession(t, config(t, "w", dsn, nil))
	mustApply(t, s, ev(v1, event.OpCreate, text("1", "5")))
	mustApply(t, s, ev(versionOf(t, 7, col("n", "bigint", 2)), event.OpCreate, text("2", "6")))
	s.Close()
	must(t, conn, "DELETE FROM rowtrail.offsets")
	mustApply(t, openSession(t, config(t, "w", dsn, nil)), ev(v1, event.OpCreate, text("1", "7")))
	if got := rows(t, conn, "SELECT * FROM t"); !slices.Equal(got, []string{"1|7", "2|6"}) {
		t.Fatalf("rows %q", got)
	}
}

func TestTypeOfTheTargetsOwner(t *testing.T) {
	dsn, conn := database(t)
	must(t, conn, "CREATE TABLE t (id integer PRIMARY KEY, n numeric)")
	s := openSession(t, config(t, "w", dsn, map[string]string{"schema.evolution": "none"}))
	mustApply(t, s, ev(versionOf(t, 7, col("n", "integer", 2)), event.OpCreate, text("1", "5")))
	mustApply(t, s, ev(versionOf(t, 7, col("n", "bigint", 2)), event.OpCreate, text("2", "5000000000")))
	if got := rows(t, conn, "SELECT pg_typeof(n), n FROM t"); !slices.Equal(got, []string{"numeric|5", "numeric|5000000000"}) {
		t.Fatalf("rows %q", got)
	}
	err := apply(t, s, ev(versionOf(t, 7, col("m", "bigint", 2)), event.OpCreate, text("3", "6")))
	if !sink.IsPermanent(err) || !strings.Contains(err.Error(), `ALTER TABLE "public"."t" RENAME COLUMN "n" TO "m"`) {
		t.Fatalf("rename: %v", err)
	}
}

func TestWidens(t *testing.T) {
	for _, c := range []struct {
		from, to string
		want     bool
	}{
		{"smallint", "integer", true}, {"integer", "bigint", true}, {"bigint", "integer", false}, {"bigint", "numeric", true},
		{"integer", "numeric(10,0)", true}, {"integer", "numeric(10,2)", false}, {"integer", "numeric(12,2)", true}, {"bigint", "double precision", false},
		{"character varying(3)", "character varying(4)", true}, {"character varying(4)", "character varying(3)", false},
		{"character varying(3)", "text", true}, {"character varying", "character varying(3)", false}, {"text", "character varying", true}, {"text", "character varying(9)", false},
		{"numeric(10,2)", "numeric(12,2)", true}, {"numeric(10,2)", "numeric(10,3)", false}, {"numeric(10,2)", "numeric", true}, {"numeric", "numeric(10,2)", false},
		{"timestamp(3) without time zone", "timestamp(6) without time zone", true}, {"timestamp without time zone", "timestamp(3) without time zone", false},
		{"timestamp without time zone", "timestamp with time zone", false}, {"time(0) with time zone", "time with time zone", true},
		{"integer[]", "bigint[]", true}, {"integer[]", "bigint", false}, {"character(3)", "character(4)", false}, {"public.mood", "text", false},
		{"real", "double precision", true}, {"date", "timestamp without time zone", true}, {"date", "timestamp(0) without time zone", false},
	} {
		if got := widens(c.from, c.to); got != c.want {
			t.Errorf("widens(%s, %s) = %t", c.from, c.to, got)
		}
	}
}
