package main

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// texts that programs trip over.
func texts() []string {
	return []string{"", "a", " ", "a  ", "NULL", `\N`, `\\x00`, `"quoted"`, "it's", "{}", "{1,NULL}", `{"a":1}`, "a,b;c", "Größe ☃ 𝄞", "tab\tline\nend\r\n",
		"\u200b\ufeff", "e\u0301", "%s %d", "0", "-1", "true", "\x7f", "__debezium_unavailable_value", "0x1F", "<a>&amp;</a>", "ﷺ", "null"}
}

// quoted is a text literal whatever standard_conforming_strings says of it.
func quoted(text string) string {
	return "E'" + strings.NewReplacer(`\`, `\\`, "'", `\'`).Replace(text) + "'"
}

// among are values given as they stand, each cast to the type.
func among(name string, values ...string) func(*rand.Rand) string {
	return func(r *rand.Rand) string { return "'" + pick(r, values) + "'::" + name }
}

// big is a text too large for a page: it is stored elsewhere, and not sent again when an update leaves it alone.
func big(r *rand.Rand) string {
	return fmt.Sprintf("(SELECT string_agg(md5((%d + n)::text), '') FROM generate_series(1, %d) n)", r.IntN(1_000_000), 100+r.IntN(200))
}

func postgresText(r *rand.Rand) string {
	switch r.IntN(10) {
	case 0, 1, 2:
		return big(r)
	case 3:
		return fmt.Sprintf("repeat(%s, %d)", quoted(pick(r, texts())), 1+r.IntN(4000))
	}
	return quoted(pick(r, texts()))
}

func number(limit int64) func(*rand.Rand) string {
	return func(r *rand.Rand) string {
		switch r.IntN(6) {
		case 0:
			return fmt.Sprint(limit)
		case 1:
			return fmt.Sprint(-limit)
		}
		return fmt.Sprint(r.Int64N(limit)/int64(1+r.IntN(1000)) - 3)
	}
}

func decimal(whole, scale int) func(*rand.Rand) string {
	return func(r *rand.Rand) string {
		var b strings.Builder
		if oneIn(r, 2) {
			b.WriteByte('-')
		}
		b.WriteString(digitsOf(r, 1+r.IntN(whole)))
		if n := r.IntN(scale + 1); n > 0 {
			b.WriteString("." + digitsOf(r, n))
		}
		return b.String()
	}
}

func digitsOf(r *rand.Rand, n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte('0' + r.IntN(10))
	}
	return string(b)
}

func hexOf(r *rand.Rand, n int) string {
	var b strings.Builder
	for range n {
		fmt.Fprintf(&b, "%02x", r.IntN(256))
	}
	return b.String()
}

// postgresKinds are the column types of a Postgres source.
func postgresKinds() []*kind {
	var kinds []*kind
	add := func(name string, literal func(*rand.Rand) string, wider ...string) {
		kinds = append(kinds, &kind{name: name, literal: literal, wider: wider})
	}
	add("smallint", number(32767), "integer", "bigint", "numeric")
	add("integer", number(2147483647), "bigint", "double precision")
	add("bigint", number(9223372036854775807), "numeric", "numeric(24,4)")
	add("numeric", func(r *rand.Rand) string {
		if oneIn(r, 3) {
			return among("numeric", "NaN", "Infinity", "-Infinity", "0", "0.000", "1.500", "1e-20", "123456789012345678901234567890.123456789")(r)
		}
		return decimal(30, 20)(r)
	})
	add("numeric(12,3)", decimal(9, 5), "numeric(20,3)", "numeric(15,5)", "numeric")
	add("numeric(3,-2)", func(r *rand.Rand) string { return fmt.Sprint(r.IntN(99999) - 50000) })
	floats := []string{"0", "-0", "NaN", "Infinity", "-Infinity", "1e-30", "0.1", "3.4028235e38", "1.1754944e-38", "123456.79", "1e15"}
	add("real", among("real", floats...), "double precision")
	add("double precision", among("double precision", append(floats, "1.7976931348623157e308", "5e-324", "0.30000000000000004")...))
	add("text", postgresText)
	add("varchar(20)", func(r *rand.Rand) string { return "left(" + quoted(pick(r, texts())) + ", 20)" }, "varchar(60)", "text")
	add("char(6)", func(r *rand.Rand) string { return "left(" + quoted(pick(r, texts())) + ", 6)" })
	add("name", func(r *rand.Rand) string { return quoted(pick(r, texts())) + "::name" })
	add(`"char"`, among(`"char"`, "a", "", " "))
	add("bytea", func(r *rand.Rand) string {
		if oneIn(r, 4) {
			return "decode(" + big(r) + ", 'hex')"
		}
		return `decode('` + hexOf(r, r.IntN(20)) + `', 'hex')`
	})
	add("boolean", among("boolean", "t", "f"))
	add("date", among("date", "2024-02-29", "0001-01-01", "4713-01-01 BC", "5874897-12-31", "infinity", "-infinity", "1970-01-01"))
	add("time", among("time", "00:00:00", "24:00:00", "23:59:59.999999", "12:30:00.5"))
	add("time(2)", among("time(2)", "00:00:00", "24:00:00", "12:30:00.51"), "time")
	add("timetz", among("timetz", "00:00:00+00", "24:00:00-15:59:59", "12:30:00.5+05:30"))
	stamps := []string{"2024-02-29 12:00:00.123456", "0001-01-01 00:00:00", "4713-01-01 00:00:00 BC", "9999-12-31 23:59:59.999999", "infinity", "-infinity", "1969-12-31 23:59:59.5", "2024-03-31 02:30:00"}
	add("timestamp", among("timestamp", stamps...))
	add("timestamp(3)", among("timestamp(3)", stamps[0], stamps[4], stamps[6]), "timestamp")
	add("timestamptz", among("timestamptz", "2024-02-29 12:00:00.123456+05:30", "infinity", "-infinity", "4713-01-01 00:00:00+00 BC", "1969-12-31 23:59:59.5Z", "2024-10-27 00:30:00Z"))
	add("interval", among("interval", "P1Y2M3DT4H5M6.789S", "P-1Y", "PT0S", "P1D", "PT24H", "P-1Y2M-3DT4H-5M", "PT-0.000001S"))
	add("uuid", func(r *rand.Rand) string { return "md5('" + digitsOf(r, 4) + "')::uuid" })
	add("json", among("json", `{"a": 1, "a":2}`, ` [1 , 2.0,1e5] `, `null`, `"x"`, `{"b":"\u00e4","n":12345678901234567890.0100}`))
	add("jsonb", func(r *rand.Rand) string {
		if oneIn(r, 4) {
			return "jsonb_build_object('big', " + big(r) + ")"
		}
		return among("jsonb", `{"b": 1, "a":{"c":[1,2,null]}}`, `1e400`, `null`, `""`, `[]`, `{"n":12345678901234567890.0100}`)(r)
	})
	add("inet", among("inet", "10.1.2.3", "10.1.2.3/8", "::1", "2001:db8::/32", "::ffff:1.2.3.4"))
	add("cidr", among("cidr", "10.0.0.0/8", "2001:db8::/32"), "inet")
	add("macaddr", among("macaddr", "08:00:2b:01:02:03"))
	add("macaddr8", among("macaddr8", "08:00:2b:01:02:03:04:05"))
	add("bit(5)", among("bit(5)", "00101", "11111", "00000"))
	add("bit varying(9)", among("bit varying(9)", "", "1", "010101010"), "bit varying(40)", "bit varying")
	add("money", among("money", "0", "-12.34", "92233720368547758.07"))
	add("int4range", among("int4range", "empty", "[1,5)", "(,)", "[3,)"))
	add("numrange", among("numrange", "empty", "[1.50,2.0]", "(,0)"))
	add("tstzrange", among("tstzrange", "empty", "[2024-01-01 00:00:00Z,infinity)", "(,2024-01-01 00:00:00Z]"))
	add("int4multirange", among("int4multirange", "{}", "{[1,3),[5,9)}"))
	add("integer[]", among("integer[]", "{}", "{1,NULL,-3}", "{{1,2},{3,4}}", "[2:3]={1,2}", "{NULL}"))
	add("text[]", among("text[]", "{}", `{a,"b c",NULL,"NULL","",",","\"","{}"}`, `{{a,b},{c,d}}`, "[0:0]={x}"))
	add("timestamptz[]", among("timestamptz[]", `{"2024-01-01 00:00:00Z",NULL,infinity}`))
	add("numeric(8,2)[]", among("numeric(8,2)[]", "{1.5,NULL,-3.25}", "{}"))
	add("bytea[]", func(r *rand.Rand) string { return "ARRAY[decode('" + hexOf(r, 3) + "','hex'), NULL]" })
	add("public.mood", among("public.mood", "sad", "so so", "it''s \"ok\""))
	add("public.mood[]", func(r *rand.Rand) string { return "ARRAY['sad','so so',NULL]::public.mood[]" })
	add("public.pair", func(r *rand.Rand) string {
		return "ROW(" + digitsOf(r, 3) + ", " + quoted(pick(r, texts())) + ")::public.pair"
	})
	add("public.small", number(999))
	add("point", among("point", "(1,2)", "(-0.1,1e-30)", "(Infinity,NaN)"))
	add("box", among("box", "(1,2),(3,4)"))
	add("polygon", among("polygon", "((0,0),(1,1),(1,0))"))
	add("circle", among("circle", "<(1,2),3>"))
	add("line", among("line", "{1,2,3}"))
	add("path", among("path", "[(0,0),(1,1)]", "((0,0),(1,1))"))
	add("tsvector", among("tsvector", "a fat:2 cat:3A", ""))
	add("tsquery", among("tsquery", "fat & (rat | !cat)"))
	add("pg_lsn", among("pg_lsn", "16/B374D848", "0/0"))
	add("oid", among("oid", "0", "4294967295"))
	add("xid8", among("xid8", "18446744073709551615"))
	add("regclass", among("regclass", "pg_class"))
	return kinds
}

// postgresKeys are the types of key columns. Some print equal values differently.
func postgresKeys() []*kind {
	var kinds []*kind
	add := func(name string, few int, key func(*rand.Rand, int) string) {
		kinds = append(kinds, &kind{name: name, key: key, few: few})
	}
	each := func(name, format string) func(*rand.Rand, int) string {
		return func(_ *rand.Rand, i int) string { return "'" + fmt.Sprintf(format, i) + "'::" + name }
	}
	add("bigint", 0, func(_ *rand.Rand, i int) string {
		return fmt.Sprintf("(%d)::bigint", 9223372036854775807-int64(i)*307445734561825860)
	})
	add("integer", 0, func(_ *rand.Rand, i int) string { return fmt.Sprintf("(%d)", i-10) })
	add("text", 0, func(_ *rand.Rand, i int) string {
		return quoted(texts()[i%len(texts())] + strings.Repeat("+", i/len(texts())))
	})
	add("varchar(40)", 0, each("varchar(40)", "k %d"))
	add("char(8)", 0, func(r *rand.Rand, i int) string {
		return "'" + fmt.Sprint(i) + strings.Repeat(" ", r.IntN(3)) + "'::char(8)"
	})
	add("uuid", 0, func(_ *rand.Rand, i int) string { return fmt.Sprintf("md5('%d')::uuid", i) })
	add("bytea", 0, func(_ *rand.Rand, i int) string { return fmt.Sprintf("decode('%02xff00', 'hex')", i) })
	add("numeric", 0, func(r *rand.Rand, i int) string { return fmt.Sprintf("%d.%s", i, strings.Repeat("0", 1+r.IntN(3))) })
	add("numeric(10,2)", 0, func(_ *rand.Rand, i int) string { return fmt.Sprintf("%d.5", i) })
	add("date", 0, func(_ *rand.Rand, i int) string { return fmt.Sprintf("'2024-01-%02d'::date", i+1) })
	add("timestamptz", 0, each("timestamptz", "2024-01-01 00:00:00.%06dZ"))
	add("timestamp(3)", 0, each("timestamp(3)", "2024-01-01 00:%02d:00.001"))
	add("double precision", 0, func(r *rand.Rand, i int) string {
		if i == 0 && oneIn(r, 2) {
			return "'-0'::double precision"
		}
		return fmt.Sprintf("%d.1::double precision * sign(%d)", i, i)
	})
	add("interval", 0, func(r *rand.Rand, i int) string {
		if oneIn(r, 2) {
			return fmt.Sprintf("'PT%dH'::interval", 24*i)
		}
		return fmt.Sprintf("'P%dD'::interval", i)
	})
	add("inet", 0, each("inet", "10.0.0.%d/8"))
	add("bit varying(9)", 0, func(_ *rand.Rand, i int) string { return fmt.Sprintf("B'%b'::bit varying(9)", i) })
	add("integer[]", 0, each("integer[]", "{%d,NULL}"))
	add("boolean", 2, func(_ *rand.Rand, i int) string { return fmt.Sprint(i%2 == 0) })
	add("public.mood", 3, func(_ *rand.Rand, i int) string {
		return []string{"'sad'", "'so so'", "'it''s \"ok\"'"}[i%3] + "::public.mood"
	})
	add("smallint", 5, func(_ *rand.Rand, i int) string { return fmt.Sprint(i % 5) })
	return kinds
}
