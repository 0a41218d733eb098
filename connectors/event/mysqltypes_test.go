package event

import (
	"strings"
	"testing"
)

// TestMySQLRepresentations: one value of each type in each mode as Debezium 3.6.1 writes it, and its Connect schema, but for what doc.go
// lists.
func TestMySQLRepresentations(t *testing.T) {
	labelled := func(columnType string) MySQLFacts {
		f := facts(columnType)
		f.Labels = []string{"a", "b", "c"}
		return f
	}
	adaptive, iso := Options{TimePrecision: TimeAdaptive}, Options{TimePrecision: TimeISOString}
	micros, connect := Options{TimePrecision: TimeMicroseconds}, Options{TimePrecision: TimeConnect}
	nanos := Options{TimePrecision: TimeNanoseconds}
	for _, c := range []struct {
		f      MySQLFacts
		o      Options
		value  string
		json   string
		schema string // the type, then what follows "optional"
	}{
		{facts("tinyint(1)"), Options{}, "-1", "-1", `"int16"`}, {facts("tinyint unsigned"), Options{}, "255", "255", `"int16"`},
		{facts("smallint"), Options{}, "-32768", "-32768", `"int16"`}, {facts("smallint unsigned"), Options{}, "65535", "65535", `"int32"`},
		{facts("mediumint unsigned"), Options{}, "16777215", "16777215", `"int32"`}, {facts("int"), Options{}, "-1", "-1", `"int32"`},
		{facts("int(10) unsigned zerofill"), Options{}, "4294967295", "4294967295", `"int64"`}, {facts("bigint"), Options{}, "-9223372036854775808", "-9223372036854775808", `"int64"`},
		{facts("bigint unsigned"), Options{}, "18446744073709551615", `"AP//////////"`, `"bytes","name":"org.apache.kafka.connect.data.Decimal","version":1,"parameters":{"scale":"0","connect.decimal.precision":"20"}`},
		{facts("bigint unsigned"), Options{BigintUnsigned: BigintUnsignedLong}, "9223372036854775807", "9223372036854775807", `"int64"`},
		{facts("float"), Options{}, "3.4028235e+38", "3.4028235e+38", `"float"`}, {facts("float(7,4)", 7, 4), Options{}, "12.3457", "12.3457", `"double"`},
		{facts("double"), Options{}, "0.1", "0.1", `"double"`},
		{facts("decimal(10,2)", 10, 2), Options{}, "-1.28", `"gA=="`, `"bytes","name":"org.apache.kafka.connect.data.Decimal","version":1,"parameters":{"scale":"2","connect.decimal.precision":"10"}`},
		{facts("decimal(10,2)", 10, 2), Options{DecimalHandling: DecimalDouble}, "1.50", "1.50", `"double"`},
		{facts("decimal(10,2)", 10, 2), Options{DecimalHandling: DecimalString}, "1.50", `"1.50"`, `"string"`},
		{facts("bit(1)", 1), Options{}, "1", "true", `"boolean"`},
		{facts("bit(10)", 10), Options{}, "1000000001", `"AQI="`, `"bytes","name":"io.debezium.data.Bits","version":1,"parameters":{"length":"10"}`},
		{facts("bit(64)", 64), Options{}, strings.Repeat("0", 63) + "1", `"AQAAAAAAAAA="`, `"bytes","name":"io.debezium.data.Bits","version":1,"parameters":{"length":"64"}`},

		{facts("date"), Options{}, "1969-12-31", "-1", `"int32","name":"io.debezium.time.Date","version":1`},
		{facts("date"), connect, "1970-01-02", "1", `"int32","name":"org.apache.kafka.connect.data.Date","version":1`},
		{facts("date"), iso, "2017-09-15", `"2017-09-15Z"`, `"string","name":"io.debezium.time.IsoDate","version":1`},
		{facts("time"), Options{}, "-838:59:59", "-3020399000000", `"int64","name":"io.debezium.time.MicroTime","version":1`},
		{facts("time(3)", 3), adaptive, "-00:00:00.001", "-1", `"int32","name":"io.debezium.time.Time","version":1`},
		{facts("time(6)", 6), adaptive, "100:00:00.000001", "360000000001", `"int64","name":"io.debezium.time.MicroTime","version":1`},
		{facts("time(1)", 1), micros, "00:00:00.5", "500000", `"int64","name":"io.debezium.time.MicroTime","version":1`},
		{facts("date"), nanos, "1970-01-02", "1", `"int32","name":"io.debezium.time.Date","version":1`},
		{facts("time(6)", 6), nanos, "-838:59:59.000000", "-3020399000000000", `"int64","name":"io.debezium.time.NanoTime","version":1`},
		{facts("datetime(6)", 6), nanos, "1969-12-31 23:59:59.999999", "-1000", `"int64","name":"io.debezium.time.NanoTimestamp","version":1`},
		{facts("time(6)", 6), connect, "-00:00:01.000999", "-1000", `"int32","name":"org.apache.kafka.connect.data.Time","version":1`},
		{facts("time(3)", 3), iso, "04:05:11.780", `"04:05:11.78Z"`, `"string","name":"io.debezium.time.IsoTime","version":1`},
		{facts("time"), iso, "-838:59:59", `"-838:59:59Z"`, `"string","name":"io.debezium.time.IsoTime","version":1`},
		{facts("datetime"), Options{}, "2018-06-20 06:37:03", "1529476623000", `"int64","name":"io.debezium.time.Timestamp","version":1`},
		{facts("datetime(6)", 6), Options{}, "1969-12-31 23:59:59.999999", "-1", `"int64","name":"io.debezium.time.MicroTimestamp","version":1`},
		{facts("datetime(3)", 3), micros, "1970-01-01 00:00:00.001", "1000", `"int64","name":"io.debezium.time.MicroTimestamp","version":1`},
		{facts("datetime(6)", 6), connect, "1969-12-31 23:59:59.999999", "-1", `"int64","name":"org.apache.kafka.connect.data.Timestamp","version":1`},
		{facts("datetime(6)", 6), iso, "2019-07-09 02:28:57.123400", `"2019-07-09T02:28:57.1234Z"`, `"string","name":"io.debezium.time.IsoTimestamp","version":1`},
		{facts("timestamp"), Options{}, "2018-06-20 13:37:03", `"2018-06-20T13:37:03Z"`, `"string","name":"io.debezium.time.ZonedTimestamp","version":1`},
		{facts("timestamp(6)", 6), connect, "2018-06-20 13:37:03.500000", `"2018-06-20T13:37:03.500000Z"`, `"string","name":"io.debezium.time.ZonedTimestamp","version":1`},
		{facts("year"), Options{}, "0000", "0", `"int32","name":"io.debezium.time.Year","version":1`}, {facts("year"), Options{}, "2155", "2155", `"int32","name":"io.debezium.time.Year","version":1`},

		{facts("char(5)", 5), Options{}, "né", `"né"`, `"string"`}, {facts("longtext"), Options{}, "a\n", `"a\n"`, `"string"`},
		{facts("inet6"), Options{}, "::1", `"::1"`, `"string"`}, {facts("uuid"), Options{}, "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", `"a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"`, `"string","name":"io.debezium.data.Uuid","version":1`},
		{facts("binary(4)", 4), Options{}, `\xab000000`, `"qwAAAA=="`, `"bytes"`}, {facts("blob"), Options{BinaryHandling: BinaryHex}, `\xab00`, `"ab00"`, `"string"`},
		{facts("varbinary(4)", 4), Options{BinaryHandling: BinaryBase64}, `\xfbff`, `"+/8="`, `"string"`}, {facts("blob"), Options{BinaryHandling: BinaryBase64URLSafe}, `\xfbff`, `"-_8="`, `"string"`},
		{labelled("enum('a','b','c')"), Options{}, "", `""`, `"string","name":"io.debezium.data.Enum","version":1,"parameters":{"allowed":"a,b,c"}`},
		{labelled("set('a','b','c')"), Options{}, "a,c", `"a,c"`, `"string","name":"io.debezium.data.EnumSet","version":1,"parameters":{"allowed":"a,b,c"}`},
		{facts("json"), Options{}, `{"a": 1.0}`, `"{\"a\": 1.0}"`, `"string","name":"io.debezium.data.Json","version":1`},
		{facts("vector(3)", 3), Options{}, `\x0000803fcdcccc3d000000c0`, "[1,0.1,-2]", `"array","name":"io.debezium.data.FloatVector","version":1`},
		{facts("point"), Options{}, `\x000000000101000000000000000000f83f00000000000000c0`, `{"x":1.5,"y":-2,"wkb":"AQEAAAAAAAAAAAD4PwAAAAAAAADA","srid":null}`,
			`"struct","name":"io.debezium.data.geometry.Point","version":1,"doc":"Geometry (POINT)"`},
		{facts("geomcollection"), Options{}, `\xe6100000010700000000000000`, `{"wkb":"AQcAAAAAAAAA","srid":4326}`,
			`"struct","name":"io.debezium.data.geometry.Geometry","version":1,"doc":"Geometry"`},
	} {
		c.o.Connector = SourceMySQL
		column := describeMySQL(t, c.f, true)
		p := newPair(t, c.o, column)
		back, event, err := p.trip(c.value)
		if want := `"after":{"v":` + c.json + `}`; err != nil || !strings.Contains(string(event), want) {
			t.Errorf("%s %q: no %s in %s, %v", c.f.ColumnType, c.value, want, event, err)
			continue
		}
		if back != c.value && len(p.schema.Lossy()) == 0 {
			t.Errorf("%s %q came back as %q", c.f.ColumnType, c.value, back)
		}
		codec, err := newCodec(&column, p.schema.Format)
		if err != nil {
			t.Fatal(err)
		}
		typ, rest, named := strings.Cut(c.schema, ",")
		end := `"optional":false`
		if column.Kind == KindGeometry { // Debezium's is optional in any column
			end = `"optional":true`
		}
		if named {
			end += "," + rest
		}
		schema := string(codec.connect().appendSchema(nil, false, ""))
		if !strings.HasPrefix(schema, `{"type":`+typ+",") || !strings.HasSuffix(schema, end+"}") {
			t.Errorf("%s: schema %s, want %s", c.f.ColumnType, schema, c.schema)
		}
	}
}
