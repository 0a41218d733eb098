package mysql

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rowtrail/rowtrail/connectors/event"
	"github.com/rowtrail/rowtrail/itest/servers"
	"github.com/rowtrail/rowtrail/sink"
	"github.com/rowtrail/rowtrail/sink/sinktest"
)

// typeCase is a column of a source table with SQL values, and the expression that makes the canonical text of the column.
type typeCase struct {
	typ, canonical string // canonical has @ for the column
	labels         []string
	values         []string
}

const hexText = `CONCAT('\\x', LOWER(HEX(@)))`

// typeCases has hard values of every type that a server has. FLOAT and DOUBLE are compared as what they are and not as they are printed.
func typeCases(m *servers.MySQL) []typeCase {
	bits := func(n int) string { return fmt.Sprintf("LPAD(BIN(@ + 0), %d, '0')", n) }
	list := []typeCase{
		{"tinyint(1)", "@", nil, []string{"-128", "127"}}, {"tinyint unsigned", "@", nil, []string{"255"}}, {"smallint", "@", nil, []string{"-32768"}},
		{"smallint unsigned", "@", nil, []string{"65535"}}, {"mediumint", "@", nil, []string{"-8388608"}}, {"mediumint unsigned", "@", nil, []string{"16777215"}},
		{"int", "@", nil, []string{"-2147483648"}}, {"int unsigned zerofill", "@ + 0", nil, []string{"4294967295", "7"}},
		{"bigint", "@", nil, []string{"-9223372036854775808", "9223372036854775807"}}, {"bigint unsigned", "@", nil, []string{"18446744073709551615", "9223372036854775808"}},
		{"decimal(65,30)", "@", nil, []string{"12345678901234567890123456789012345.123456789012345678901234567890", "-0.000000000000000000000000000001"}},
		{"decimal(5,0)", "@", nil, []string{"-99999"}}, {"decimal(10,2) unsigned", "@", nil, []string{"1.5"}},
		{"bit(1)", bits(1), nil, []string{"0", "1"}}, {"bit(13)", bits(13), nil, []string{"b'1000000000011'"}}, {"bit(64)", bits(64), nil, []string{"18446744073709551615", "1"}},
		{"date", "@", nil, []string{"'0000-00-00'", "'2023-00-15'", "'2023-02-31'", "'9999-12-31'"}},
		{"datetime", "@", nil, []string{"'0000-00-00'", "'9999-12-31 23:59:59'"}}, {"datetime(3)", "@", nil, []string{"'2024-02-29 12:00:00.5'", "'2023-01-00 01:02:03'"}},
		{"datetime(6)", "@", nil, []string{"'1969-12-31 23:59:59.999999'"}}, {"timestamp NULL", "@", nil, []string{"'0000-00-00'", "'2038-01-19 03:14:07'"}},
		{"timestamp(6) NULL", "@", nil, []string{"'1970-01-01 00:00:01.000001'"}},
		{"time", "@", nil, []string{"'-838:59:59'", "'838:59:59'"}}, {"time(6)", "@", nil, []string{"'100:00:00.000001'", "'-00:00:00.5'"}},
		{"year", "CAST(@ AS CHAR)", nil, []string{"0", "1901", "2155"}},
		{"char(5)", "@", nil, []string{"'ab '", "'né'"}}, {"varchar(20) character set latin1", "@", nil, []string{"'né '", "''"}},
		{"varchar(20) collate utf8mb4_bin", "@", nil, []string{`'\\ ''"'`}}, {"longtext", "@", nil, []string{"'\\n\\0😀'"}}, {"tinytext", "@", nil, []string{"'x'"}},
		{"text", "@", nil, []string{"'x'"}}, {"mediumtext", "@", nil, []string{"'x'"}},
		{"binary(4)", hexText, nil, []string{"x'ab'", "x'AB000000'"}}, {"varbinary(4)", hexText, nil, []string{"x'00ff'", "''"}}, {"tinyblob", hexText, nil, []string{"x'27'"}},
		{"blob", hexText, nil, []string{"x'fbff5c'"}}, {"mediumblob", hexText, nil, []string{"''"}}, {"longblob", hexText, nil, []string{"x'00'"}},
		{"enum('a','it''s','x,y','(')", "@", []string{"a", "it's", "x,y", "("}, []string{"'it''s'", "''", "'('"}}, {"enum('','a')", "@", []string{"", "a"}, []string{"''"}},
		{"set('a','b')", "@", []string{"a", "b"}, []string{"'b,a'", "''"}},
		{"geometry", hexText, nil, []string{"ST_GeomFromText('LINESTRING(0 0,1 1)', 4326)"}}, {"point", hexText, nil, []string{"ST_GeomFromText('POINT(1.5 -2)')"}},
		{"linestring", hexText, nil, []string{"ST_GeomFromText('LINESTRING(0 0,1 1)')"}}, {"polygon", hexText, nil, []string{"ST_GeomFromText('POLYGON((0 0,1 1,1 0,0 0))')"}},
		{"multipoint", hexText, nil, []string{"ST_GeomFromText('MULTIPOINT(0 0,1 1)')"}}, {"multilinestring", hexText, nil, []string{"ST_GeomFromText('MULTILINESTRING((0 0,1 1))')"}},
		{"multipolygon", hexText, nil, []string{"ST_GeomFromText('MULTIPOLYGON(((0 0,1 1,1 0,0 0)))')"}},
		{"geometrycollection", hexText, nil, []string{"ST_GeomFromText('GEOMETRYCOLLECTION(POINT(1 1))')"}},
		{"json", "@", nil, []string{`'{"b": 1.0, "a": [null, "é", 1e15, 9007199254740993, 18446744073709551615]}'`, `'"it''s \\\\ \\n"'`}},
	}
	if !m.MariaDB() {
		list = append(list, typeCase{"vector(3)", hexText, nil, []string{"STRING_TO_VECTOR('[1,0.1,-2]')"}}, typeCase{"point SRID 4326", hexText, nil, []string{"ST_GeomFromText('POINT(10 20)', 4326)"}})
		return list
	}
	if strings.HasPrefix(m.Version(), "mariadb:11") {
		list = append(list, typeCase{"vector(3)", hexText, nil, []string{"VEC_FromText('[1,0.1,-2]')"}})
	}
	return append(list, typeCase{"uuid", "@", nil, []string{"'A0EEBC99-9c0b-4ef8-bb6d-6bb9bd380a11'"}},
		typeCase{"inet6", "@", nil, []string{"'::FFFF:10.0.0.1'"}}, typeCase{"inet4", "@", nil, []string{"'10.0.0.1'"}})
}

func floatCases() []typeCase {
	return []typeCase{
		{"float", "@", nil, []string{"3.4028235e+38", "1.1754944e-38", "0.1", "16777216", "-0", "1.4e-45"}}, {"double", "@", nil, []string{"1.7976931348623157e+308", "5e-324", "0.1", "1.5e+21", "-0"}},
	}
}

const sessionMode = "SET sql_mode = 'ALLOW_INVALID_DATES', time_zone = '+00:00'"

// source makes a table with a column of each case, and reads its columns' facts and its rows in canonical text.
func (h *home) source(t *testing.T, cases []typeCase) (*event.Schema, []event.Row, string) {
	t.Helper()
	ctx := context.Background()
	conn, err := h.Connect(ctx, h.name)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	exec := func(sql string) {
		if _, err := conn.Execute(sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
	exec("SET NAMES utf8mb4")
	exec(sessionMode)
	most, defs := 1, []string{"id int PRIMARY KEY"}
	for i, c := range cases {
		defs = append(defs, fmt.Sprintf("c%d %s", i, c.typ))
		most = max(most, len(c.values))
	}
	exec("CREATE TABLE every (" + strings.Join(defs, ", ") + ")")
	list := []string{"CAST(id AS CHAR)"}
	for i, c := range cases {
		list = append(list, "CAST("+strings.ReplaceAll(c.canonical, "@", "c"+strconv.Itoa(i))+" AS CHAR CHARACTER SET utf8mb4)")
	}
	for row := range most + 1 { // the last is NULL
		values := []string{strconv.Itoa(row)}
		for _, c := range cases {
			v := "NULL"
			if row < most {
				v = c.values[row%len(c.values)]
			}
			values = append(values, v)
		}
		exec("INSERT INTO every VALUES (" + strings.Join(values, ", ") + ")")
	}
	columns := []event.Column{mysqlCol(t, "id", 1, event.MySQLFacts{DataType: "int", ColumnType: "int"})}
	for i := range cases {
		columns = append(columns, h.column(t, "every", "c"+strconv.Itoa(i), cases[i].labels))
	}
	connector := event.SourceMySQL
	if h.MariaDB() {
		connector = event.SourceMariaDB
	}
	schema, err := event.NewSchema(event.Options{Name: "shop", Connector: connector}, "shop", "every", columns)
	if err != nil {
		t.Fatal(err)
	}
	read := "SELECT " + strings.Join(list, ", ") + " FROM every ORDER BY id"
	return schema, h.read(t, read), read
}

// column asks the server for a column's facts.
func (h *home) column(t *testing.T, table, name string, labels []string) event.Column {
	t.Helper()
	srs := "NULL"
	if !h.MariaDB() {
		srs = "srs_id"
	}
	rows, err := h.Query(context.Background(), h.name, `SELECT data_type, column_type, coalesce(character_maximum_length, -1), coalesce(numeric_precision, 0),
		coalesce(numeric_scale, -1), coalesce(datetime_precision, 0), coalesce(character_set_name, ''), coalesce(collation_name, ''), `+srs+`
		FROM information_schema.columns WHERE table_schema = '`+h.name+`' AND table_name = '`+table+`' AND column_name = '`+name+`'`)
	if err != nil || len(rows) != 1 {
		t.Fatalf("%v, %v", rows, err)
	}
	r := rows[0]
	number := func(i int) int { v, _ := strconv.Atoi(r[i]); return v }
	f := event.MySQLFacts{DataType: r[0], ColumnType: r[1], Length: int64(number(2)), Precision: number(3), Scale: number(4), Fraction: number(5),
		Unsigned: strings.Contains(r[1], "unsigned"), Charset: r[6], Collation: r[7], Labels: labels}
	if n, err := strconv.ParseUint(r[8], 10, 32); err == nil {
		id := uint32(n)
		f.SRID = &id
	}
	return mysqlCol(t, name, 0, f)
}

func (h *home) read(t *testing.T, sql string) (out []event.Row) {
	t.Helper()
	conn, err := h.Connect(context.Background(), h.name)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for _, set := range []string{"SET NAMES utf8mb4", sessionMode} {
		if _, err := conn.Execute(set); err != nil {
			t.Fatal(err)
		}
	}
	r, err := conn.Execute(sql)
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	for _, values := range r.Values {
		row := make(event.Row, len(values))
		for i := range values {
			row[i] = sinktest.Null()
			if v, ok := values[i].Value().([]byte); ok {
				row[i] = sinktest.Text(string(v))
			}
		}
		out = append(out, row)
	}
	return out
}

// same compares what the target has with rows.
func (h *home) same(t *testing.T, how string, schema *event.Schema, data []event.Row, read string) {
	t.Helper()
	got := h.read(t, read)
	for i, row := range data {
		if i >= len(got) {
			t.Fatalf("%s: %d rows, want %d", how, len(got), len(data))
		}
		for j := range row {
			if sinktest.Format(got[i][j:j+1]) != sinktest.Format(row[j:j+1]) {
				t.Errorf("%s: row %d column %s (%s): %q, want %q", how, i, schema.Columns[j].Name, schema.Columns[j].Type, got[i][j].Text, row[j].Text)
			}
		}
	}
}

// Every value arrives as it left, in a column of the same type: written as new rows, as updates one by one and many at a time.
func TestM15M16M17M19EveryTypeRoundTrips(t *testing.T) {
	each(t, func(t *testing.T, h *home) {
		cases := typeCases(h.MySQL)
		schema, data, read := h.source(t, cases)
		h.must(t, "RENAME TABLE every TO origin")
		s := h.open(t, "w", nil)
		check := func(how string) {
			t.Helper()
			h.same(t, how, schema, data, read)
		}
		for _, op := range []event.Op{event.OpCreate, event.OpUpdate} {
			var events []*sink.Event
			for _, row := range data {
				events = append(events, ev(schema, op, row))
			}
			mustApply(t, s, events...)
			check(string(rune(op)))
		}
		var events []*sink.Event
		for i := range 3 * minStaged { // through the stage, some of them new
			row := slices.Clone(data[i%len(data)])
			row[0] = sinktest.Text(strconv.Itoa(i))
			events = append(events, ev(schema, event.OpUpdate, row))
		}
		mustApply(t, s, events...)
		check("staged")
		for i := range schema.Columns {
			c := h.column(t, "every", schema.Columns[i].Name, nil)
			want, have := schema.Columns[i], c
			from, _ := parseKind(want.Type)
			to, _ := parseKind(have.Type)
			if from != to || want.Charset != have.Charset || want.Collation != have.Collation {
				t.Errorf("column %s: %s %s %s, want %s %s %s", want.Name, have.Type, have.Charset, have.Collation, want.Type, want.Charset, want.Collation)
			}
		}
		t.Logf("%d types", len(cases))
	})
}

// FLOAT and DOUBLE keep all bits: asked of the server in arithmetic that does not round.
func TestM5FloatsKeepAllBits(t *testing.T) {
	each(t, func(t *testing.T, h *home) {
		cases := floatCases()
		schema, data, _ := h.source(t, cases)
		for i := range data[:len(data)-1] {
			for j, c := range cases {
				data[i][j+1] = sinktest.Text(c.values[i%len(c.values)])
			}
		}
		h.must(t, "RENAME TABLE every TO origin")
		for _, loadFrom := range []int{minLoaded, 1} {
			h.must(t, "DROP TABLE IF EXISTS every")
			h.floats(t, schema, data, loadFrom)
		}
	})
}

func (h *home) floats(t *testing.T, schema *event.Schema, data []event.Row, loadFrom int) {
	s := h.open(t, "w", nil)
	s.loadFrom = loadFrom
	var events []*sink.Event
	for _, row := range data {
		events = append(events, ev(schema, event.OpCreate, row))
	}
	mustApply(t, s, events...)
	conn, err := h.Connect(context.Background(), h.name)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	st, err := conn.Prepare("SELECT c0, c1 FROM every WHERE c0 IS NOT NULL ORDER BY id")
	if err != nil {
		t.Fatal(err)
	}
	r, err := st.Execute() // in binary
	if err != nil {
		t.Fatal(err)
	}
	for i, values := range r.Values {
		for j, width := range []int{32, 64} {
			want, err := strconv.ParseFloat(string(data[i][j+1].Text), width)
			if h.MariaDB() { // has no literal of -0
				want += 0
			}
			if got := values[j].AsFloat64(); err != nil || got != want || math.Signbit(got) != math.Signbit(want) {
				t.Errorf("%s is %g, %v (from %d rows on loaded)", data[i][j+1].Text, got, err, loadFrom)
			}
		}
	}
}

// Columns of Postgres arrive in types that hold them.
func TestPostgresTypes(t *testing.T) {
	each(t, func(t *testing.T, h *home) {
		numeric := func(p, s int32) int32 { return p<<16 + s + 4 }
		col := func(name, typ string, kind event.Kind, modifier int32) event.Column {
			c := sinktest.Col(name, typ, kind, 0)
			c.Modifier = modifier
			return c
		}
		for i, c := range []struct {
			column event.Column
			want   string // the column's type in the target
			values []string
			read   string // how it is read back; "": as it is
			bad    string // is refused
		}{
			{col("v", "boolean", event.KindBool, -1), "tinyint(1)", []string{"t"}, "IF(v, 't', 'f')", "maybe"}, {col("v", "smallint", event.KindInt16, -1), "smallint", []string{"-32768"}, "", "32768"},
			{col("v", "integer", event.KindInt32, -1), "int", []string{"2147483647"}, "", "x"}, {col("v", "bigint", event.KindInt64, -1), "bigint", []string{"-9223372036854775808"}, "", "9223372036854775808"},
			{col("v", "oid", event.KindOID, -1), "int unsigned", []string{"4294967295"}, "", "-1"}, {col("v", "real", event.KindFloat32, -1), "float", []string{"0.5"}, "", "NaN"},
			{col("v", "double precision", event.KindFloat64, -1), "double", []string{"0.1"}, "", "-Infinity"}, {col("v", "numeric(12,2)", event.KindNumeric, numeric(12, 2)), "decimal(12,2)", []string{"-9999999999.99"}, "", "NaN"},
			{col("v", "numeric", event.KindNumeric, -1), "decimal(65,30)", []string{"1.500000000000000000000000000000"}, "", "0.0000000000000000000000000000001"},
			{col("v", "money", event.KindMoney, -1), "decimal(19,2)", []string{"-$1,234.56"}, "CONCAT('-$', FORMAT(-v, 2))", "x"},
			{col("v", "date", event.KindDate, -1), "date", []string{"2024-02-29"}, "", "infinity"}, {col("v", "time(3) without time zone", event.KindTime, 3), "time(3)", []string{"24:00:00.000"}, "", "x"},
			{col("v", "time with time zone", event.KindTimeTZ, -1), "longtext", []string{"24:00:00+15:59:59"}, "", ""},
			{col("v", "timestamp without time zone", event.KindTimestamp, -1), "datetime(6)", []string{"2024-02-29 12:00:00.123456"}, "", "4713-01-01 00:00:00 BC"},
			{col("v", "timestamp(3) with time zone", event.KindTimestampTZ, 3), "datetime(3)", []string{"2024-02-29 12:00:00.123+00"}, "CONCAT(v, '+00')", "infinity"},
			{col("v", "interval", event.KindInterval, -1), "longtext", []string{"-1 years -2 mons +3 days -04:05:06.789"}, "", ""}, {col("v", "bytea", event.KindBytes, -1), "longblob", []string{`\x00ff27`, `\x`}, `CONCAT('\\x', LOWER(HEX(v)))`, "x"},
			{col("v", "bit(3)", event.KindBit, 3), "bit(3)", []string{"101"}, "LPAD(BIN(v + 0), 3, '0')", "1011"}, {col("v", "bit varying(5)", event.KindBit, 5), "longtext", []string{"010"}, "", ""},
			{col("v", "uuid", event.KindUUID, -1), "char(36)", []string{"a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"}, "", ""}, {col("v", "jsonb", event.KindJSON, -1), "longtext", []string{`{"b": 1e400}`}, "", ""},
			{col("v", "character varying(7)", event.KindText, 11), "varchar(7)", []string{"äöü 😀"}, "", "12345678"}, {col("v", "character(5)", event.KindText, 9), "varchar(5)", []string{"a    "}, "", "123456"},
			{col("v", "public.mood", event.KindEnum, -1), "longtext", []string{"it's"}, "", ""}, {col("v", "integer[]", event.KindArray, -1), "longtext", []string{"{1,NULL}"}, "", ""},
		} {
			table := "t" + strconv.Itoa(i)
			tab := tableOf(t, table, idCol, c.column)
			s := h.open(t, "w", nil)
			var want []string
			for n, v := range c.values {
				mustApply(t, s, ev(tab, event.OpCreate, text(strconv.Itoa(n), v)))
				want = append(want, v)
			}
			if c.bad != "" {
				if err := apply(t, s, ev(tab, event.OpCreate, text("9", c.bad))); !sink.IsPermanent(err) {
					t.Errorf("%s: %q: %v; want a permanent error", c.column.Type, c.bad, err)
				}
			}
			s.Close()
			read := c.read
			if read == "" {
				read = "v"
			}
			slices.Sort(want)
			if got := h.rows(t, "SELECT CAST("+read+" AS CHAR) FROM "+table); !slices.Equal(got, want) {
				t.Errorf("%s: %q, want %q", c.column.Type, got, want)
			}
			kind, _ := parseKind(h.column(t, table, "v", nil).Type)
			if kind.String() != c.want {
				t.Errorf("%s: %s, want %s", c.column.Type, kind, c.want)
			}
		}
		for i, bad := range []string{"10000-01-01", "0044-03-15 BC", "-infinity"} {
			table := "d" + strconv.Itoa(i)
			for _, kind := range []event.Kind{event.KindDate, event.KindTimestampTZ} {
				s := h.open(t, "w", nil)
				if err := apply(t, s, ev(tableOf(t, table+string(kind), idCol, col("v", "date", kind, -1)), event.OpCreate, text("1", bad))); !sink.IsPermanent(err) {
					t.Errorf("%s %q: %v; want a permanent error", kind, bad, err)
				}
				s.Close()
			}
		}
		wide := col("v", "numeric(70,2)", event.KindNumeric, numeric(70, 2))
		if err := apply(t, h.open(t, "w", nil), ev(tableOf(t, "wide", idCol, wide), event.OpCreate, text("1", "1"))); !sink.IsPermanent(err) || !strings.Contains(err.Error(), "numeric(70,2)") {
			t.Errorf("numeric(70,2): %v", err)
		}
	})
}

// Keys of every kind of type name their rows: updates and deletes find them, one by one and many at a time.
func TestKeysOfEveryType(t *testing.T) {
	each(t, func(t *testing.T, h *home) {
		for i, c := range []typeCase{
			{"bigint unsigned", "@", nil, []string{"18446744073709551615", "18446744073709551614"}}, {"decimal(30,2)", "@", nil, []string{"1234567890123456789012345678.12", "1234567890123456789012345678.13"}},
			{"varchar(20) character set latin1", "@", nil, []string{"é", "it's", "a "}}, {"varchar(20) collate utf8mb4_bin", "@", nil, []string{"a", "A", "😀"}},
			{"binary(4)", hexText, nil, []string{`\xab000000`, `\x27000000`}}, {"date", "@", nil, []string{"0000-00-00", "2024-02-29"}},
			{"datetime(3)", "@", nil, []string{"2024-02-29 12:00:00.500", "2024-02-29 12:00:00.501"}}, {"timestamp(6)", "@", nil, []string{"2024-02-29 12:00:00.500001", "2024-02-29 12:00:00.500000"}},
			{"time(2)", "@", nil, []string{"-838:59:59.00", "00:00:00.10"}}, {"bit(13)", "LPAD(BIN(@ + 0), 13, '0')", nil, []string{"1000000000011", "0000000000001"}},
			{"enum('a','b')", "@", []string{"a", "b"}, []string{"a", "", "b"}}, {"set('a','b')", "@", []string{"a", "b"}, []string{"a,b", ""}}, {"year", "@", nil, []string{"2024", "1999"}},
		} {
			table := "k" + strconv.Itoa(i)
			h.must(t, "CREATE TABLE facts (v "+c.typ+" NOT NULL)")
			v := h.column(t, "facts", "v", c.labels)
			h.must(t, "DROP TABLE facts")
			n := mysqlCol(t, "n", 2, event.MySQLFacts{DataType: "int", ColumnType: "int"})
			v.Key, v.NotNull = 1, true
			tab := mysqlTable(t, table, v, n, mysqlCol(t, "x", 0, event.MySQLFacts{DataType: "int", ColumnType: "int"}))
			s := h.open(t, "w", nil)
			for _, copies := range []int{1, 2 * minStaged} {
				var create, update, remove []*sink.Event
				var want []string
				for _, value := range c.values {
					for k := range copies {
						key := strconv.Itoa(k)
						create = append(create, ev(tab, event.OpCreate, text(value, key, "1")))
						update = append(update, ev(tab, event.OpUpdate, text(value, key, "2")))
						remove = append(remove, ev(tab, event.OpDelete, text(value, key, "ABSENT")))
						want = append(want, value+"|"+key+"|2")
					}
				}
				mustApply(t, s, create...)
				mustApply(t, s, update...)
				slices.Sort(want)
				if got := h.rows(t, "SELECT "+strings.ReplaceAll(c.canonical, "@", "v")+", n, x FROM "+table); !slices.Equal(got, want) {
					t.Errorf("%s: rows %q, want %q", c.typ, got, want)
				}
				mustApply(t, s, remove...)
				if got := h.rows(t, "SELECT * FROM "+table); len(got) > 0 {
					t.Errorf("%s: rows are left: %q", c.typ, got)
				}
			}
			s.Close()
		}
	})
}

func TestWidens(t *testing.T) {
	for _, c := range []struct {
		from, to string
		want     bool
	}{
		{"tinyint", "smallint", true}, {"int(11)", "bigint(20)", true}, {"bigint", "int", false}, {"int unsigned", "int", false}, {"int unsigned", "bigint", true}, {"int", "bigint unsigned", false},
		{"decimal(10,2)", "decimal(12,2)", true}, {"decimal(10,2)", "decimal(10,3)", false}, {"decimal(10,2)", "decimal(11,3)", true}, {"float", "double", true}, {"double", "float", false},
		{"varchar(3) CHARACTER SET latin1", "varchar(4) CHARACTER SET latin1", true}, {"varchar(4)", "varchar(3)", false}, {"varchar(3) CHARACTER SET latin1", "varchar(3) CHARACTER SET utf8mb4", true},
		{"varchar(3) CHARACTER SET utf8mb4", "varchar(3) CHARACTER SET latin1", false}, {"varchar(300)", "text", true}, {"varchar(300)", "tinytext", false}, {"text", "longtext", true}, {"longtext", "text", false},
		{"char(3)", "varchar(3)", true}, {"varchar(3)", "char(3)", false}, {"binary(3)", "binary(4)", false}, {"varbinary(3)", "varbinary(4)", true}, {"varbinary(3)", "blob", true}, {"blob", "longblob", true}, {"blob", "longtext", false},
		{"datetime", "datetime(3)", true}, {"datetime(3)", "datetime", false}, {"date", "datetime", true}, {"datetime", "date", false}, {"timestamp", "datetime", false}, {"time(1)", "time(6)", true},
		{"enum('a','b')", "enum('a','c','b')", true}, {"enum('a','b')", "enum('a')", false}, {"set('a','b')", "set('a','x','b')", true}, {"set('a','b')", "set('b','a')", false}, {"bit(3)", "bit(4)", true}, {"json", "longtext", false},
		{"int", "varchar(20)", false},
	} {
		a, ok := parseKind(c.from)
		b, ok2 := parseKind(c.to)
		if got := widens(a, b); !ok || !ok2 || got != c.want {
			t.Errorf("widens(%s, %s) = %t (%+v, %+v)", c.from, c.to, got, a, b)
		}
	}
}
