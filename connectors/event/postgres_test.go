package event

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
)

// valueCase is a column type with values as SQL expressions of that type.
type valueCase struct {
	typ    string
	values []string
}

func quoted(typ string, texts ...string) valueCase {
	c := valueCase{typ: typ}
	for _, v := range texts {
		c.values = append(c.values, "E'"+strings.ReplaceAll(strings.ReplaceAll(v, `\`, `\\`), "'", "''")+"'")
	}
	return c
}

const typesSQL = `
CREATE EXTENSION hstore; CREATE EXTENSION citext; CREATE EXTENSION ltree; CREATE EXTENSION cube;
CREATE SCHEMA other;
CREATE TYPE other.mood AS ENUM ('sad', 'it''s "ok"', 'happy, {very}', 'ΝULL', 'NULL');
CREATE TYPE pt AS (x int, y text);
CREATE DOMAIN amount AS numeric(12,4) CHECK (VALUE > -1000000);
CREATE DOMAIN amount2 AS amount;
CREATE DOMAIN tags AS text[];
`

func postgresCases() []valueCase {
	times := []string{"00:00:00", "24:00:00", "23:59:59.999999", "12:34:56.1", "00:00:00.000001"}
	stamps := []string{"2024-02-29 12:34:56.123456", "1970-01-01 00:00:00", "1969-12-31 23:59:59.999999", "infinity", "-infinity",
		"0001-01-01 00:00:00", "0001-12-31 23:59:59.5 BC", "4713-11-24 00:00:00 BC", "0044-03-15 12:00:00 BC", "0005-02-29 00:00:00 BC",
		"99999-12-31 00:00:00", "294247-01-10 04:00:25", "10000-01-01 00:00:00", "1900-02-28 00:00:00", "2000-02-29 00:00:00"}
	intervals := []string{"0", "1 year 2 mons 3 days 04:05:06.78", "-1 year -2 mons +3 days -04:05:06", "1 year -2 days", "-1 day 00:00:01",
		"178000000 years", "-178000000 years", "2147483647 days", "2562047788 hours", "-2562047788 hours", "1 mon", "-1 mon 1 day", "11 mons",
		"00:00:00.000001", "-00:00:00.000001", "1 day -00:00:01.5", "-5 years +1 mon", "1 day", "100:00:00", "-1 mons +1 hours"}
	texts := []string{"", "plain", `q"uo\te`, "tab\tnew\nline\r\b\f\x01\x1f\x7f", "ünï €uro 😀 \u2028", "__debezium_unavailable_value", "NULL", "null",
		"  spaces  ", strings.Repeat("long ", 5000), `{"a":1}`, "\\u0041"}
	return []valueCase{
		quoted("bool", "t", "f"),
		quoted("int2", "0", "-32768", "32767"), quoted("int4", "-2147483648", "2147483647", "-1"),
		quoted("int8", "-9223372036854775808", "9223372036854775807", "9007199254740993"),
		quoted("oid", "0", "4294967295"),
		quoted("float4", "0", "-0", "NaN", "Infinity", "-Infinity", "3.4028235e+38", "1e-45", "0.1", "16777216", "1.17549435e-38"),
		quoted("float8", "0", "-0", "NaN", "Infinity", "-Infinity", "1.7976931348623157e+308", "5e-324", "0.1", "1e20", "123456789012345680", "2.2250738585072014e-308"),
		quoted("numeric", "0", "0.00", "NaN", "Infinity", "-Infinity", "1", "-1", "0.1", "-0.00001", "127", "128", "-128", "-129", "255", "256",
			"999999999999999999", "1000000000000000000", "9223372036854775807", "9223372036854775808", "-9223372036854775808", "-9223372036854775809",
			"18446744073709551616", "123456789012345678901234567890.123456789000", "1e1000", "-1e-1000", strings.Repeat("9", 131072)+"."+strings.Repeat("7", 16383)),
		quoted("numeric(10,2)", "0", "1.5", "-12345678.99", "99999999.99", "0.01", "-0.01", "NaN"),
		quoted("numeric(5,0)", "0", "99999", "-1"), quoted("numeric(38,10)", "1234567890123456789012345678.0123456789", "-0.0000000001"),
		quoted("numeric(3,5)", "0.00123", "-0.00999"), quoted("numeric(2,-3)", "0", "12000", "-99000", "1499"),
		quoted("numeric(1000,500)", strings.Repeat("7", 500)+"."+strings.Repeat("3", 500)),
		quoted("money", "0", "1", "-0.01", "1234.56", "-1234567.89", "92233720368547758.07", "-92233720368547758.08", "999.99", "1000"),
		quoted("date", "2024-02-29", "1970-01-01", "1969-12-31", "infinity", "-infinity", "4713-11-24 BC", "0001-01-01", "0001-12-31 BC", "5874897-12-31", "10000-01-01"),
		quoted("time", times...), quoted("time(3)", "24:00:00", "01:02:03.4567", "00:00:00"), quoted("time(0)", "23:59:59.6"),
		quoted("timetz", "13:45:30.5+02", "00:00:00+00", "24:00:00-15:59", "12:00:00+05:30", "12:00:00-00:30", "12:00:00+01:02:03", "12:00:00+15:59:59"),
		quoted("timestamp", stamps...), quoted("timestamp(3)", "2024-02-29 12:34:56.7891", "294276-12-31 23:59:59.999", "infinity", "-infinity", "0044-03-15 00:00:00 BC"),
		quoted("timestamp(0)", "2024-01-01 00:00:00"),
		quoted("timestamptz", append([]string{"294276-12-31 23:59:59.999999", "294247-01-10 04:00:25.2"}, stamps...)...), quoted("timestamptz(3)", "2024-02-29 12:34:56.789+05:30"), quoted("timestamptz(0)", "2024-01-01"),
		quoted("interval", intervals...), quoted("interval(3)", "1.23456 seconds"), quoted("interval year to month", "3 years 4 mons"),
		quoted("bytea", `\x`, `\x00ff10`, `\x`+strings.Repeat("00fa", 3000), `\x01`, `\xfbff`),
		quoted("bit(1)", "0", "1"), quoted("bit(8)", "10110010"), quoted("bit(13)", "1000000000011", "0000000000001"), quoted("bit(64)", strings.Repeat("10", 32)),
		quoted("varbit", "", "0101", "101"), quoted("varbit(12)", "000000001"),
		quoted("uuid", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"),
		quoted("json", `{"b": 1.0, "a":[null,"x\u00e9"], "b":2}`, `"s"`, "null", "1e15"), quoted("jsonb", `{"b": 1.0, "a":[null,"xé"]}`, "9007199254740993.00"),
		quoted("xml", "<a b='c'>&amp;</a>"), quoted("text", texts...), quoted("varchar(20)", "abc "), quoted("char(5)", "ab", "é", ""), quoted("name", "n"), quoted(`"char"`, "x"),
		quoted("citext", "MiXed"), quoted("ltree", "a.b_c.d"), quoted("cube", "(1,2),(3,4)"),
		quoted("hstore", "", `a=>1, "b c"=>NULL`, `"q\"uote"=>"back\\slash"`, `"é"=>"😀", ""=>"", "NULL"=>"NULL", x=>"a, b=>c"`),
		quoted("inet", "10.0.0.1/8", "::1"), quoted("cidr", "10.0.0.0/8"), quoted("macaddr", "08:00:2b:01:02:03"),
		quoted("point", "(1.5,-2)"), quoted("box", "(1,1),(0,0)"), quoted("polygon", "((0,0),(1,1),(1,0))"), quoted("tsvector", "a fat:2 'c at':3A"), quoted("tsquery", "fat & !rat"),
		quoted("pg_lsn", "16/B374D848"), quoted("int4range", "[1,5)", "empty", "(,)"), quoted("tstzrange", `["2024-01-01 00:00:00","infinity")`), quoted("int4multirange", "{[1,3),[5,9)}"),
		quoted("other.mood", "sad", `it's "ok"`, "happy, {very}", "NULL"), quoted("pt", `(1,"a ""b"", c")`, "(,)"),
		quoted("amount", "1.5", "0"), quoted("amount2", "99999.1234"), quoted("tags", `{a,"b c",NULL}`),
		quoted("int4[]", "{}", "{1,NULL,-3}", "{{1,2},{3,4}}", "{{{1},{2}},{{3},{4}}}", "[0:1]={1,2}", "[-2:-1][3:4]={{1,2},{3,4}}", "{NULL}"),
		quoted("text[]", `{"",NULL,"NULL","null","a b","q\"u","b\\s","{x}","c,d",plain,"é😀","\t"}`, `{{"a","b"},{"c",NULL}}`, "[2:2]={\"x\"}"),
		quoted("numeric[]", "{1.50,NaN,NULL,Infinity,1e30}"), quoted("numeric(10,2)[]", "{1.5,NaN,NULL}"), quoted("bool[]", "{t,f,NULL}"), quoted("float8[]", "{1.5,NaN,-Infinity,NULL,1e300}"),
		quoted("timestamp[]", `{"2024-01-01 00:00:00.5",infinity,NULL}`), quoted("timestamp(3)[]", `{"2024-01-01 00:00:00.5"}`), quoted("timestamptz[]", `{"2024-01-01 00:00:00.5+00",-infinity}`),
		quoted("date[]", "{2024-01-01,infinity,\"0044-03-15 BC\"}"), quoted("time[]", "{24:00:00}"), quoted("interval[]", `{"1 day","-00:00:01"}`),
		quoted("bytea[]", `{"\\x00ff","\\x"}`), quoted("bit(3)[]", "{101,001}"), quoted("varbit[]", "{101,0}"), quoted("uuid[]", "{a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11}"),
		quoted("jsonb[]", `{"{\"a\": [1, \"x\"]}","null",NULL}`), quoted("hstore[]", `{"\"a\"=>\"1\", \"b\"=>NULL",""}`), quoted("other.mood[]", `{sad,"NULL","happy, {very}",NULL}`),
		quoted("box[]", "{(1,1),(0,0);(2,2),(1,1)}"), quoted("point[]", `{"(1,2)"}`), quoted("pt[]", `{"(1,\"x y\")"}`), quoted("money[]", "{$1,\"$1,234.56\"}"),
		quoted("amount[]", "{1.5,2}"), quoted("inet[]", "{10.0.0.1}"), quoted("int4range[]", `{"[1,5)"}`), quoted("char(3)[]", `{a,"b c"}`),
		quoted("int2vector", "1 2 3"), quoted("oidvector", "1 2"),
	}
}

// refusedIn names the values that a format cannot say; everything else must come back.
func refusedIn(o Options, typ, value string) error {
	micros := strings.HasPrefix(typ, "timestamp") && !strings.HasPrefix(typ, "timestamptz")
	switch {
	case o.IntervalHandling == IntervalNumeric && (value == "178000000 years" || value == "-178000000 years"):
		return errIntervalRange
	case micros && o.TimePrecision == TimeMicroseconds && strings.HasPrefix(value, "294276"):
		return errTimeRange
	case micros && o.TimePrecision == TimeNanoseconds:
		if at, ok := parseTimestamp([]byte(value), false); ok {
			if _, fits := at.nanos(); !fits {
				return errTimeRange
			}
		}
	}
	return nil
}

// TestP23PostgresValues asks a real server for the canonical text of every value and sends it through each format.
func TestP23PostgresValues(t *testing.T) {
	conn := startPostgres(t)
	ctx := context.Background()
	if _, err := conn.Exec(ctx, typesSQL).ReadAll(); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Exec(ctx, "CREATE TABLE vas AS SELECT B'101' AS v").ReadAll(); err != nil {
		t.Fatal(err)
	}
	if got, _, err := newPair(t, Options{}, describeColumn(t, conn, "vas")).trip("101"); err != nil || got != "101" {
		t.Errorf("bit of no declared length: %s, %v", got, err)
	}
	values := 0
	cases := append(postgresCases(), randomCases(rand.New(rand.NewPCG(1, 2)))...)
	for n, c := range cases {
		table := "v" + strconv.Itoa(n)
		sql := fmt.Sprintf("CREATE TABLE %s (id serial, v %s)", table, c.typ)
		for _, v := range c.values {
			sql += fmt.Sprintf("; INSERT INTO %s(v) VALUES (%s)", table, v)
		}
		if _, err := conn.Exec(ctx, sql).ReadAll(); err != nil {
			t.Fatalf("%s: %v", c.typ, err)
		}
		column := describeColumn(t, conn, table)
		rows := queryTexts(t, conn, "SELECT v FROM "+table+" ORDER BY id")
		if len(rows) != len(c.values) {
			t.Fatalf("%s: %d rows for %d values", c.typ, len(rows), len(c.values))
		}
		for _, o := range formats() {
			p := newPair(t, o, column)
			lossy := len(p.schema.Lossy()) > 0
			for _, want := range rows {
				if len(want[0]) > 100_000 && o != formats()[0] {
					continue // the largest numeric takes long and only one representation computes with it
				}
				values++
				got, event, err := p.trip(string(want[0]))
				if refusal := refusedIn(o, c.typ, string(want[0])); refusal != nil {
					if !errors.Is(err, refusal) {
						t.Errorf("%s %.60s: want %v, got %v", c.typ, want[0], refusal, err)
					}
					continue
				}
				if lossy {
					continue
				}
				if err != nil {
					t.Errorf("%+v %s %.60s: %v", o.Format(), c.typ, want[0], err)
				} else if got != string(want[0]) {
					t.Errorf("%+v %s: %.200q became %.200q by %.300s", o.Format(), c.typ, want[0], got, event)
				}
			}
		}
	}
	t.Logf("%d types, %d values sent through", len(cases), values)
}

// randomCases lets the server make values of the types whose text takes parsing.
func randomCases(r *rand.Rand) []valueCase {
	random := func(typ string, n int, expr func() string) valueCase {
		c := valueCase{typ: typ}
		for range n {
			c.values = append(c.values, expr())
		}
		return c
	}
	micros := func() string { return strconv.FormatInt(r.Int64N(1<<57)-1<<56, 10) + " * interval '1 microsecond'" }
	digits := func() string {
		var b strings.Builder
		for range 1 + r.IntN(60) {
			b.WriteByte(byte('0' + r.IntN(10)))
		}
		return fmt.Sprintf("'%d%s.%s'::numeric", r.Int32(), b.String()[:r.IntN(min(b.Len(), 30))], b.String())
	}
	return []valueCase{
		random("timestamp", 300, func() string { return "timestamp '1000-01-01' + " + micros() }),
		random("timestamptz", 300, func() string { return "timestamptz '1000-01-01' + " + micros() }),
		random("date", 300, func() string { return fmt.Sprintf("date '2000-01-01' + %d", r.IntN(4_000_000)-2_000_000) }),
		random("date", 100, func() string { return fmt.Sprintf("date '2000-01-01' + %d", r.IntN(2_000_000_000)) }),
		random("interval", 400, func() string {
			return fmt.Sprintf("make_interval(months => %d, days => %d) + %d * interval '1 microsecond'",
				r.IntN(100)-50, r.IntN(100)-50, r.Int64N(1<<(10+r.IntN(40)))*(1-2*int64(r.IntN(2))))
		}),
		random("numeric", 300, digits),
		random("numeric(70,30)", 200, digits),
		random("money", 200, func() string { return fmt.Sprintf("(%d::numeric / 100)::money", r.Int64()>>r.IntN(60)) }),
		random("float8", 300, func() string {
			return fmt.Sprintf("'%se%d'::float8", strconv.FormatFloat(r.NormFloat64(), 'g', -1, 64), r.IntN(600)-300)
		}),
		random("timetz", 200, func() string {
			return fmt.Sprintf("'%02d:%02d:%02d.%d%+03d:%02d'::timetz", r.IntN(24), r.IntN(60), r.IntN(60), r.IntN(1e6), r.IntN(31)-15, r.IntN(60))
		}),
		random("text[]", 300, func() string {
			const alphabet = `ab"\{}, NULn` + "\t\né"
			var elems []string
			for range r.IntN(5) {
				var b strings.Builder
				for range r.IntN(6) {
					b.WriteRune([]rune(alphabet)[r.IntN(14)])
				}
				elems = append(elems, "E'"+strings.ReplaceAll(b.String(), `\`, `\\`)+"'")
			}
			return "ARRAY[" + strings.Join(elems, ",") + "]::text[]"
		}),
		random("hstore", 200, func() string {
			return fmt.Sprintf(`hstore(ARRAY[E'k"%d','b\\%c'], ARRAY[E'v%c''"\\', NULL])`, r.IntN(100), 'a'+r.IntN(26), 'a'+r.IntN(26))
		}),
	}
}

func queryTexts(t *testing.T, conn *pgconn.PgConn, sql string) [][][]byte {
	t.Helper()
	results, err := conn.Exec(context.Background(), sql).ReadAll()
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return results[0].Rows
}

// describeColumn reads column v's type as a connector would: domains followed to their base, arrays by typarray.
func describeColumn(t *testing.T, conn *pgconn.PgConn, table string) Column {
	t.Helper()
	rows := queryTexts(t, conn, fmt.Sprintf("SELECT atttypid, atttypmod FROM pg_attribute WHERE attrelid = '%s'::regclass AND attname = 'v'", table))
	oid, _ := strconv.Atoi(string(rows[0][0]))
	modifier, _ := strconv.Atoi(string(rows[0][1]))
	c, err := PostgresColumn("v", typeFacts(t, conn, oid, modifier), false, 1)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func typeFacts(t *testing.T, conn *pgconn.PgConn, oid, modifier int) TypeFacts {
	t.Helper()
	r := queryTexts(t, conn, fmt.Sprintf(`SELECT t.typtype, t.typname, n.nspname, t.typbasetype, t.typtypmod,
		coalesce((SELECT e.oid FROM pg_type e WHERE e.typarray = t.oid), 0), format_type(t.oid, %d)
		FROM pg_type t JOIN pg_namespace n ON n.oid = t.typnamespace WHERE t.oid = %d`, modifier, oid))[0]
	number := func(i int) int { v, _ := strconv.Atoi(string(r[i])); return v }
	if r[0][0] == 'd' {
		return typeFacts(t, conn, number(3), max(modifier, number(4)))
	}
	f := TypeFacts{OID: uint32(oid), Class: r[0][0], Name: string(r[1]), Namespace: string(r[2]), Modifier: int32(modifier), Formatted: string(r[6])}
	if elem := number(5); elem != 0 {
		e := typeFacts(t, conn, elem, modifier)
		f.Elem = &e
	}
	for _, label := range queryTexts(t, conn, fmt.Sprintf("SELECT enumlabel FROM pg_enum WHERE enumtypid = %d ORDER BY enumsortorder", oid)) {
		f.Enum = append(f.Enum, string(label[0]))
	}
	return f
}
