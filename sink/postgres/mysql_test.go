package postgres

import (
	"slices"
	"strings"
	"testing"

	"github.com/rowtrail/rowtrail/connectors/event"
	"github.com/rowtrail/rowtrail/sink"
)

func mysqlFacts(columnType string, labels ...string) event.MySQLFacts {
	data, _, _ := strings.Cut(columnType, "(")
	data, _, _ = strings.Cut(data, " ")
	f := event.MySQLFacts{DataType: data, ColumnType: columnType, Unsigned: strings.Contains(columnType, "unsigned"), Length: -1, Scale: -1, Labels: labels}
	switch columnType {
	case "decimal(12,2)":
		f.Precision, f.Scale = 12, 2
	case "bit(13)":
		f.Precision = 13
	case "time(3)", "datetime(3)", "timestamp(3)":
		f.Fraction = 3
	case "vector(3)":
		f.Dimension = 3
	}
	return f
}

func mysqlVersion(t testing.TB, table string, facts ...event.MySQLFacts) *event.Schema {
	t.Helper()
	columns := []event.Column{}
	for i, f := range append([]event.MySQLFacts{mysqlFacts("int")}, facts...) {
		name, key := "v", 0
		if i == 0 {
			name, key = "id", 1
		}
		c, err := event.MySQLColumn(name, f, key > 0, key)
		if err != nil {
			t.Fatal(err)
		}
		columns = append(columns, c)
	}
	s, err := event.NewSchema(event.Options{Name: "shop", Connector: event.SourceMySQL}, "shop", table, columns)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Columns of MySQL and MariaDB arrive in types that hold them, whatever Postgres takes their names for; what Postgres cannot hold stops
// the sink.
func TestMySQLTypes(t *testing.T) {
	dsn, conn := database(t)
	for i, c := range []struct {
		facts  event.MySQLFacts
		want   string
		values []string
		bad    string
	}{
		{mysqlFacts("tinyint(1)"), "smallint", []string{"-128", "127"}, ""}, {mysqlFacts("tinyint unsigned"), "smallint", []string{"255"}, ""}, {mysqlFacts("smallint unsigned"), "integer", []string{"65535"}, ""},
		{mysqlFacts("mediumint unsigned"), "integer", []string{"16777215"}, ""}, {mysqlFacts("int unsigned"), "bigint", []string{"4294967295"}, ""},
		{mysqlFacts("bigint"), "bigint", []string{"-9223372036854775808"}, ""}, {mysqlFacts("bigint unsigned"), "numeric(20,0)", []string{"18446744073709551615"}, ""},
		{mysqlFacts("decimal(12,2)"), "numeric(12,2)", []string{"-9999999999.90"}, ""}, {mysqlFacts("float"), "real", []string{"0.1"}, ""}, {mysqlFacts("double"), "double precision", []string{"0.1"}, ""},
		{mysqlFacts("bit(13)"), "bit(13)", []string{"1000000000011"}, ""}, {mysqlFacts("date"), "date", []string{"2024-02-29"}, "0000-00-00"},
		{mysqlFacts("time(3)"), "interval", []string{"-838:59:59.5", "100:00:00"}, ""}, {mysqlFacts("datetime(3)"), "timestamp(3) without time zone", []string{"2024-02-29 12:00:00.123"}, "2023-00-15 00:00:00.000"},
		{mysqlFacts("timestamp(3)"), "timestamp(3) with time zone", []string{"2024-02-29 12:00:00.123"}, "0000-00-00 00:00:00.000"}, {mysqlFacts("year"), "smallint", []string{"0", "2155"}, ""},
		{mysqlFacts("varchar(7)"), "character varying(7)", []string{"äöü 😀 "}, "12345678"}, {mysqlFacts("char(5)"), "character varying(5)", []string{"a"}, ""}, {mysqlFacts("longtext"), "text", []string{"it's"}, "a\x00b"},
		{mysqlFacts("binary(4)"), "bytea", []string{`\xab000000`}, ""}, {mysqlFacts("blob"), "bytea", []string{`\x`}, ""}, {mysqlFacts("enum('a','b')", "a", "b"), "text", []string{"a", ""}, ""},
		{mysqlFacts("set('a','b')", "a", "b"), "text", []string{"a,b", ""}, ""}, {mysqlFacts("json"), "json", []string{`{"a": 1.0, "a": 1e400}`}, ""}, {mysqlFacts("uuid"), "uuid", []string{"a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"}, ""},
		{mysqlFacts("inet6"), "text", []string{"::ffff:10.0.0.1"}, ""}, {mysqlFacts("point"), "bytea", []string{`\x000000000101000000000000000000f83f00000000000000c0`}, ""},
		{mysqlFacts("vector(3)"), "bytea", []string{`\x0000803fcdcccc3d000000c0`}, ""},
	} {
		table := "t" + string(rune('a'+i%26)) + string(rune('a'+i/26))
		tab := mysqlVersion(t, table, c.facts)
		s := openSession(t, config(t, "w", dsn, nil))
		want := slices.Clone(c.values)
		for n, v := range c.values {
			mustApply(t, s, ev(tab, event.OpCreate, text(string(rune('0'+n)), v)))
		}
		if c.bad != "" {
			if err := apply(t, s, ev(tab, event.OpCreate, text("9", c.bad))); !sink.IsPermanent(err) {
				t.Errorf("%s: %q: %v; want a permanent error", c.facts.ColumnType, c.bad, err)
			}
		}
		s.Close()
		read := "v::text"
		if strings.HasPrefix(c.facts.ColumnType, "timestamp") {
			read = "(v AT TIME ZONE 'UTC')::text"
		}
		slices.Sort(want)
		if got := rows(t, conn, "SELECT "+read+" AS v FROM shop."+table); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", c.facts.ColumnType, got, want)
		}
		if got := rows(t, conn, "SELECT format_type(atttypid, atttypmod) FROM pg_attribute WHERE attrelid = $1::text::regclass AND attname = 'v'", "shop."+table); !slices.Equal(got, []string{c.want}) {
			t.Errorf("%s: type %q, want %s", c.facts.ColumnType, got, c.want)
		}
	}
	if got := rows(t, conn, "SELECT typname FROM pg_type WHERE typtype = 'e'"); len(got) > 0 {
		t.Errorf("enum types were made: %q", got)
	}
}

// Types of MySQL that grow are followed in Postgres' terms.
func TestMySQLTypesThatGrowFollow(t *testing.T) {
	dsn, conn := database(t)
	s := openSession(t, config(t, "w", dsn, nil))
	mustApply(t, s, ev(mysqlVersion(t, "t", mysqlFacts("int unsigned")), event.OpCreate, text("1", "5")))
	mustApply(t, s, ev(mysqlVersion(t, "t", mysqlFacts("bigint unsigned")), event.OpCreate, text("2", "18446744073709551615")))
	if got := rows(t, conn, "SELECT v, pg_typeof(v)::text FROM shop.t"); !slices.Equal(got, []string{"18446744073709551615|numeric", "5|numeric"}) {
		t.Fatalf("rows %q", got)
	}
	err := apply(t, s, ev(mysqlVersion(t, "t", mysqlFacts("date")), event.OpCreate, text("3", "2024-02-29")))
	if !sink.IsPermanent(err) || !strings.Contains(err.Error(), `ALTER COLUMN "v" TYPE date`) {
		t.Fatalf("another type: %v", err)
	}
}

// A SET that the target's owner keeps in an enum type does not get labels for its values.
func TestMySQLSetIsNoEnum(t *testing.T) {
	dsn, conn := database(t)
	must(t, conn, "CREATE SCHEMA shop; CREATE TYPE ab AS ENUM ('a', 'b'); CREATE TABLE shop.t (id integer PRIMARY KEY, v ab)")
	tab := mysqlVersion(t, "t", mysqlFacts("set('a','b')", "a", "b"))
	if err := apply(t, openSession(t, config(t, "w", dsn, nil)), ev(tab, event.OpCreate, text("1", "a,b"))); !sink.IsPermanent(err) {
		t.Fatalf("apply: %v; want a permanent error", err)
	}
	if got := rows(t, conn, "SELECT enumlabel FROM pg_enum"); !slices.Equal(got, []string{"a", "b"}) {
		t.Fatalf("labels %q", got)
	}
}
