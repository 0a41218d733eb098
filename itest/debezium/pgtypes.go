package main

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
)

// pgSetUp makes the types that the tables have.
func pgSetUp() []string {
	return []string{
		"CREATE EXTENSION hstore", "CREATE EXTENSION citext", "CREATE EXTENSION ltree", "CREATE EXTENSION cube",
		"CREATE SCHEMA other",
		`CREATE TYPE other.mood AS ENUM ('sad', 'it''s "ok"', 'happy, {very}', 'NULL')`,
		"CREATE TYPE pt AS (x int, y text)",
		"CREATE DOMAIN amount AS numeric(12,4) CHECK (VALUE > -1000000)",
		"CREATE DOMAIN amount2 AS amount",
		"CREATE DOMAIN tags AS text[]",
	}
}

func pgRefusedNumericInterval(m *mode) bool { return m.is(propInterval, "numeric") }
func pgRefusedMicros(m *mode) bool          { return m.is(propTime, "microseconds") }

// pgTypes are Postgres' types with their border values.
func pgTypes() []typeCase {
	refused := func(in func(*mode) bool) func(*value) { return func(v *value) { v.refused = in } }
	micros := func(r *rand.Rand) string {
		return strconv.FormatInt(r.Int64N(1<<55)-1<<54, 10) + " * interval '1 microsecond'"
	}
	stamps := []string{"2024-02-29 12:34:56.123456", "1970-01-01 00:00:00", "1969-12-31 23:59:59.999999", "infinity", "-infinity",
		"0001-01-01 00:00:00", "0001-12-31 23:59:59.5 BC", "4713-11-24 00:00:00 BC", "0044-03-15 12:00:00 BC", "99999-12-31 00:00:00",
		"10000-01-01 00:00:00", "1900-02-28 00:00:00"}
	return []typeCase{
		quoted("bool", "t", "f"), quoted("int2", "0", "-32768", "32767"), quoted("int4", "-2147483648", "2147483647", "-1"),
		quoted("int8", "-9223372036854775808", "9223372036854775807", "9007199254740993"), quoted("oid", "0", "4294967295"),
		quoted("float4", "0", "-0", "NaN", "Infinity", "-Infinity", "3.4028235e+38", "1e-45", "0.1", "16777216"),
		quoted("float8", "0", "-0", "NaN", "Infinity", "-Infinity", "1.7976931348623157e+308", "5e-324", "0.1", "1e20", "123456789012345680").
			with(func(r *rand.Rand) string {
				return fmt.Sprintf("'%se%d'::float8", strconv.FormatFloat(r.NormFloat64(), 'g', -1, 64), r.IntN(600)-300)
			}),
		quoted("numeric", "0", "0.00", "NaN", "Infinity", "-Infinity", "1", "-1", "0.1", "1.50", "100", "-0.00001", "128", "-129", "999999999999999999", "9223372036854775808",
			"123456789012345678901234567890.123456789000", "1e100", "-1e-100", strings.Repeat("9", 400)+"."+strings.Repeat("7", 300)).
			with(func(r *rand.Rand) string { return fmt.Sprintf("'%d.%d'::numeric", r.Int64(), r.Uint64()) }),
		quoted("numeric(10,2)", "0", "1.5", "-12345678.99", "99999999.99", "0.01", "NaN"), quoted("numeric(5,0)", "0", "99999", "-1"),
		quoted("numeric(38,10)", "1234567890123456789012345678.0123456789", "-0.0000000001"),
		quoted("numeric(3,5)", "0.00123", "-0.00999"), quoted("numeric(2,-3)", "0", "12000", "-99000"),
		quoted("money", "0", "1", "-0.01", "1234.56", "-1234567.89", "92233720368547758.07", "-92233720368547758.08"),
		quoted("date", "2024-02-29", "1970-01-01", "1969-12-31", "infinity", "-infinity", "4713-11-24 BC", "0001-01-01", "0001-12-31 BC", "5874897-12-31", "10000-01-01").
			with(func(r *rand.Rand) string { return fmt.Sprintf("date '2000-01-01' + %d", r.IntN(2_000_000)-700_000) }),
		quoted("time", "00:00:00", "24:00:00", "23:59:59.999999", "12:34:56.1", "00:00:00.000001"),
		quoted("time(3)", "24:00:00", "01:02:03.4567", "00:00:00"), quoted("time(0)", "23:59:59.6"),
		quoted("timetz", "13:45:30.5+02", "00:00:00+00", "24:00:00+00", "24:00:00-15:59", "12:00:00+05:30", "12:00:00-00:30", "12:00:00+01:02:03", "23:59:59.999999+00"),
		quoted("timestamp", stamps...).with(func(r *rand.Rand) string { return "timestamp '1000-01-01' + " + micros(r) }).inNanoseconds(),
		quoted("timestamp(3)", "2024-02-29 12:34:56.7891", "294276-12-31 23:59:59.999", "infinity", "-infinity", "0044-03-15 00:00:00 BC").
			but(refused(pgRefusedMicros), "294276-12-31 23:59:59.999").inNanoseconds(),
		quoted("timestamp(0)", "2024-01-01 00:00:00"),
		quoted("timestamptz", append([]string{"294276-12-31 23:59:59.999999"}, stamps...)...).
			with(func(r *rand.Rand) string { return "timestamptz '1000-01-01' + " + micros(r) }),
		quoted("timestamptz(3)", "2024-02-29 12:34:56.789+05:30", "2024-02-29 12:34:56.7"), quoted("timestamptz(0)", "2024-01-01"),
		quoted("interval", "0", "1 year 2 mons 3 days 04:05:06.78", "-1 year -2 mons +3 days -04:05:06", "1 year -2 days", "-1 day 00:00:01",
			"178000000 years", "-178000000 years", "1 mon", "-1 mon 1 day", "00:00:00.000001", "-00:00:00.000001", "1 day -00:00:01.5", "100:00:00").
			but(refused(pgRefusedNumericInterval), "178000000 years", "-178000000 years").
			with(func(r *rand.Rand) string {
				return fmt.Sprintf("make_interval(months => %d, days => %d) + %d * interval '1 microsecond'", r.IntN(100)-50, r.IntN(100)-50, r.Int64N(1<<45)-1<<44)
			}),
		quoted("interval(3)", "1.23456 seconds"), quoted("interval year to month", "3 years 4 mons"),
		quoted("bytea", `\x`, `\x00ff10`, `\x`+strings.Repeat("00fa", 700), `\xfbff`),
		quoted("bit(1)", "0", "1"), quoted("bit(8)", "10110010", "00000000"), quoted("bit(13)", "1000000000011", "0000000000001"), quoted("bit(64)", strings.Repeat("10", 32)),
		quoted("varbit", "", "0101", "101"), quoted("varbit(1)", "1"), quoted("varbit(12)", "000000001"),
		quoted("uuid", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"),
		quoted("json", `{"b": 1.0, "a":[null,"x\u00e9"], "b":2}`, `"s"`, "null", "1e15"), quoted("jsonb", `{"b": 1.0, "a":[null,"xé"]}`, "9007199254740993.00"),
		quoted("xml", "<a b='c'>&amp;</a>"),
		quoted("text", "", "plain", `q"uo\te`, "tab\tnew\nline\r\b\f\x01\x1f\x7f", "ünï €uro 😀 \u2028", "NULL", "  spaces  ", strings.Repeat("long ", 500), `{"a":1}`),
		quoted("varchar(20)", "abc "), quoted("varchar", "x"), quoted("char(5)", "ab", "é", ""), quoted("name", "n"), quoted(`"char"`, "x"),
		quoted("citext", "MiXed"), quoted("ltree", "a.b_c.d"), quoted("cube", "(1,2),(3,4)"),
		quoted("hstore", "", `a=>1, "b c"=>NULL`, `"q\"uote"=>"back\\slash"`, `"é"=>"😀", ""=>"", "NULL"=>"NULL"`),
		quoted("inet", "10.0.0.1/8", "::1"), quoted("cidr", "10.0.0.0/8"), quoted("macaddr", "08:00:2b:01:02:03"), quoted("macaddr8", "08:00:2b:01:02:03:04:05"),
		quoted("point", "(1.5,-2)"), quoted("box", "(1,1),(0,0)"), quoted("lseg", "[(0,0),(1,1)]"), quoted("line", "{1,-1,0}"), quoted("path", "[(0,0),(1,1)]", "((0,0),(1,1))"),
		quoted("polygon", "((0,0),(1,1),(1,0))"), quoted("circle", "<(1,2),3>"),
		quoted("tsvector", "a fat:2 'c at':3A"), quoted("tsquery", "fat & !rat"), quoted("pg_lsn", "16/B374D848"), quoted("txid_snapshot", "10:20:10,14,15"), quoted("regclass", "pg_class"),
		quoted("int4range", "[1,5)", "empty", "(,)"), quoted("int8range", "[1,5)"), quoted("numrange", "[1.5,2.50)"), quoted("tsrange", `["2024-01-01 00:00:00","2024-01-02 00:00:00")`),
		quoted("tstzrange", `["2024-01-01 00:00:00+00","infinity")`), quoted("daterange", "[2024-01-01,2024-02-01)"), quoted("int4multirange", "{[1,3),[5,9)}"),
		quoted("other.mood", "sad", `it's "ok"`, "happy, {very}", "NULL"), quoted("pt", `(1,"a ""b"", c")`, "(,)"),
		quoted("amount", "1.5", "0"), quoted("amount2", "99999.1234"), quoted("tags", `{a,"b c",NULL}`),
		quoted("int2[]", "{1,NULL,-3}"), quoted("int4[]", "{}", "{1,NULL,-3}", "{{1,2},{3,4}}", "[0:1]={1,2}", "{NULL}"), quoted("int8[]", "{9007199254740993,NULL}"), quoted("oid[]", "{4294967295}"),
		quoted("text[]", `{"",NULL,"NULL","null","a b","q\"u","b\\s","{x}","c,d",plain,"é😀"}`, `{{"a","b"},{"c",NULL}}`), quoted("varchar(5)[]", "{abc,NULL}"), quoted("char(3)[]", `{a,"b c"}`),
		quoted("numeric[]", "{1.50,NULL,1e30}", "{NaN,Infinity}"), quoted("numeric(10,2)[]", "{1.5,NULL}", "{NaN}"), quoted("bool[]", "{t,f,NULL}"), quoted("float4[]", "{1.5,NULL}"), quoted("float8[]", "{1.5,NaN,-Infinity,NULL,1e300}"),
		quoted("timestamp[]", `{"2024-01-01 00:00:00.5",NULL}`, "{infinity}"), quoted("timestamp(3)[]", `{"2024-01-01 00:00:00.5"}`), quoted("timestamptz[]", `{"2024-01-01 00:00:00.5+00"}`, "{-infinity}"),
		quoted("date[]", "{2024-01-01,NULL}", "{infinity}"), quoted("time[]", "{12:34:56.5}", "{24:00:00}"), quoted("timetz[]", "{12:00:00+02}"), quoted("interval[]", `{"1 day","-00:00:01"}`),
		quoted("bytea[]", `{"\\x00ff","\\x"}`), quoted("bit(1)[]", "{1,0}"), quoted("bit(3)[]", "{101,001}"), quoted("varbit[]", "{101,0}"), quoted("uuid[]", "{a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11,NULL}"),
		quoted("json[]", `{"{\"a\": 1}"}`), quoted("jsonb[]", `{"{\"a\": [1, \"x\"]}","null",NULL}`), quoted("xml[]", "{<a/>}"), quoted("hstore[]", `{"\"a\"=>\"1\", \"b\"=>NULL",""}`), quoted("other.mood[]", `{sad,"NULL","happy, {very}",NULL}`),
		quoted("box[]", "{(1,1),(0,0);(2,2),(1,1)}"), quoted("point[]", `{"(1,2)"}`), quoted("pt[]", `{"(1,\"x y\")"}`), quoted("money[]", `{$1,"$1,234.56"}`),
		quoted("amount[]", "{1.5,2}"), quoted("inet[]", "{10.0.0.1}"), quoted("macaddr[]", "{08:00:2b:01:02:03}"), quoted("int4range[]", `{"[1,5)"}`), quoted("tstzrange[]", `{"[\"2024-01-01 00:00:00+00\",)"}`),
		quoted("citext[]", "{MiXed,NULL}"), quoted("ltree[]", "{a.b,c}"), quoted("name[]", "{n}"), quoted("tsvector[]", `{"'a' 'b'"}`), quoted("int2vector", "1 2 3"), quoted("oidvector", "1 2"),
	}
}

// pgKeys are types of keys with two values each.
func pgKeys() [][3]string {
	list := [][3]string{
		{"bool", "t", "f"}, {"int2", "1", "2"}, {"int8", "9007199254740993", "-1"}, {"oid", "1", "4294967295"}, {"float8", "1.5", "1e20"},
		{"numeric", "1.50", "2"}, {"numeric(10,2)", "1.5", "2"}, {"money", "1", "1234.56"},
		{"text", "a", "é"}, {"varchar(10)", "a", ""}, {"char(5)", "a", "b"}, {"citext", "A", "b"}, {"name", "a", "b"},
		{"uuid", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a12"}, {"bytea", `\x00ff`, `\x01`},
		{"date", "2024-02-29", "1969-12-31"}, {"time", "12:34:56.5", "00:00:00"}, {"timestamp", "2024-02-29 12:00:00.5", "1969-12-31 23:59:59"},
		{"timestamp(3)", "2024-02-29 12:00:00.5", "1969-12-31 23:59:59"}, {"timestamptz", "2024-02-29 12:00:00.5", "1969-12-31 23:59:59"},
		{"interval", "1 day", "1 mon"}, {"bit(8)", "10000000", "00000001"}, {"other.mood", "sad", "NULL"}, {"inet", "10.0.0.1", "::1"},
		{"int4[]", "{1,2}", "{3}"}, {"text[]", "{a}", "{b}"}, {"int4range", "[1,2)", "[3,4)"}, {"amount", "1.5", "2"},
	}
	for i := range list {
		list[i][1], list[i][2] = quote(list[i][1]), quote(list[i][2])
	}
	return list
}

// pgToast are values that are stored out of line, so that an update of another column does not send them.
func pgToast() [][2]string {
	const md5s = "(SELECT string_agg(md5(i::text), '') FROM generate_series(1, 300) i)"
	list := func(element string) string {
		return "(SELECT array_agg(" + element + ") FROM generate_series(1, 4000) i)"
	}
	return [][2]string{
		{"text", md5s}, {"varchar", md5s}, {"char(9600)", md5s}, {"citext", md5s + "::citext"}, {"bytea", "decode(" + md5s + ", 'hex')"},
		{"json", "to_json(" + md5s + ")"}, {"jsonb", "to_jsonb(" + md5s + ")"}, {"xml", "('<a>' || " + md5s + " || '</a>')::xml"},
		{"numeric", "('1' || translate(" + md5s + ", 'abcdef', '123456'))::numeric"}, {"numeric(1000,10)", "('1' || repeat('1234567890', 90))::numeric"},
		{"hstore", "hstore('k', " + md5s + ")"}, {"ltree", "(SELECT string_agg(md5(i::text), '.') FROM generate_series(1, 300) i)::ltree"},
		{"tsvector", "(SELECT string_agg(md5(i::text), ' ') FROM generate_series(1, 300) i)::tsvector"},
		{"varbit", "(SELECT string_agg(get_byte(decode(md5(i::text), 'hex'), 0)::bit(8)::text, '') FROM generate_series(1, 30000) i)::varbit"},
		{"bool[]", list("i % 3 = 0")}, {"int2[]", list("i::int2")}, {"int4[]", list("i")}, {"int8[]", list("i::int8")}, {"float4[]", list("sqrt(i)::float4")}, {"float8[]", list("sqrt(i)")},
		{"numeric[]", list("sqrt(i)::numeric")}, {"numeric(10,2)[]", list("i::numeric(10,2)")}, {"text[]", list("md5(i::text)")}, {"varchar[]", list("md5(i::text)::varchar")},
		{"bytea[]", list("decode(md5(i::text), 'hex')")}, {"uuid[]", list("md5(i::text)::uuid")}, {"date[]", list("date '2000-01-01' + i")}, {"timestamp[]", list("timestamp '2000-01-01' + i * interval '1 hour'")},
		{"timestamptz[]", list("timestamptz '2000-01-01' + i * interval '1 hour'")}, {"time[]", list("time '00:00' + i * interval '1 second'")}, {"interval[]", list("i * interval '1 hour'")},
		{"jsonb[]", list("to_jsonb(md5(i::text))")}, {"hstore[]", list("hstore('k', md5(i::text))")}, {"other.mood[]", list("'sad'::other.mood")}, {"inet[]", list("'10.0.0.1'::inet + i")},
		{"bit(3)[]", list("(i % 8)::bit(3)")}, {"money[]", list("i::money")}, {"point[]", list("point(i, i)")}, {"polygon", "(SELECT polygon(path('((' || string_agg(i || ',' || i * i, '),(') || '))')) FROM generate_series(1, 3000) i)"},
		{"path", "(SELECT path('((' || string_agg(i || ',' || i * i, '),(') || '))') FROM generate_series(1, 3000) i)"},
		{"int4multirange", "(SELECT range_agg(int4range(i * 3, i * 3 + 2)) FROM generate_series(1, 3000) i)"},
	}
}
