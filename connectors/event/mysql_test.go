package event

import (
	"encoding/hex"
	"errors"
	"math"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// mysqlColumn is a column of each type with a generator of canonical texts.
type mysqlColumn struct {
	column Column
	values *rapid.Generator[string]
}

func describeMySQL(t testing.TB, f MySQLFacts, notNull bool) Column {
	t.Helper()
	c, err := MySQLColumn("v", f, notNull, 1)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// facts is a type as the server prints it: the numbers in parentheses are set where the type has them.
func facts(columnType string, sizes ...int) MySQLFacts {
	name, _, _ := strings.Cut(columnType, "(")
	dataType, _, _ := strings.Cut(name, " ")
	f := MySQLFacts{DataType: dataType, ColumnType: columnType, Scale: -1, Unsigned: strings.Contains(columnType, "unsigned")}
	if len(sizes) > 0 {
		f.Precision, f.Fraction, f.Length, f.Dimension = sizes[0], sizes[0], int64(sizes[0]), sizes[0]
	}
	if len(sizes) > 1 {
		f.Scale = sizes[1]
	}
	return f
}

func mysqlFormats() []Options {
	base := Options{Name: "shop", Version: "1", Connector: SourceMySQL}
	list := []Options{base}
	add := func(change func(*Options)) {
		o := base
		change(&o)
		list = append(list, o)
	}
	add(func(o *Options) { o.SchemasEnable, o.Connector = true, SourceMariaDB })
	for _, m := range []DecimalHandling{DecimalDouble, DecimalString} {
		add(func(o *Options) { o.DecimalHandling = m })
	}
	for _, m := range []TimePrecision{TimeAdaptive, TimeMicroseconds, TimeNanoseconds, TimeISOString, TimeConnect} {
		add(func(o *Options) { o.TimePrecision = m })
	}
	for _, m := range []BinaryHandling{BinaryBase64, BinaryBase64URLSafe, BinaryHex} {
		add(func(o *Options) { o.BinaryHandling = m })
	}
	add(func(o *Options) { o.BigintUnsigned = BigintUnsignedLong })
	add(func(o *Options) { o.ZeroDate = ZeroDateFail })
	add(func(o *Options) { o.ZeroDate = ZeroDateDebezium })
	return list
}

func number[T int64 | uint64](g *rapid.Generator[T]) *rapid.Generator[string] {
	return rapid.Map(g, func(v T) string {
		if v < 0 {
			return strconv.FormatInt(int64(v), 10)
		}
		return strconv.FormatUint(uint64(v), 10)
	})
}

func pad(v, width int) string {
	s := strconv.Itoa(v)
	return strings.Repeat("0", max(0, width-len(s))) + s
}

func fractions(digits int) *rapid.Generator[string] {
	if digits == 0 {
		return rapid.Just("")
	}
	return rapid.Custom(func(t *rapid.T) string {
		return "." + pad(rapid.IntRange(0, int(pow10[digits])-1).Draw(t, "fraction"), digits)
	})
}

// mysqlDates has also dates that no calendar has.
func mysqlDates() *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		return pad(rapid.IntRange(0, 9999).Draw(t, "year"), 4) + "-" + pad(rapid.IntRange(0, 12).Draw(t, "month"), 2) + "-" +
			pad(rapid.IntRange(0, 31).Draw(t, "day"), 2)
	})
}

func mysqlClocks(hours, digits int) *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		return pad(rapid.IntRange(0, hours).Draw(t, "hour"), 2) + ":" + pad(rapid.IntRange(0, 59).Draw(t, "minute"), 2) + ":" +
			pad(rapid.IntRange(0, 59).Draw(t, "second"), 2) + fractions(digits).Draw(t, "f")
	})
}

func mysqlTimes(digits int) *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		v := mysqlClocks(838, digits).Draw(t, "time")
		if rapid.Bool().Draw(t, "negative") && strings.Trim(v, "0:.") != "" {
			return "-" + v
		}
		return v
	})
}

func hexBytes(g *rapid.Generator[[]byte]) *rapid.Generator[string] {
	return rapid.Map(g, func(b []byte) string { return `\x` + hex.EncodeToString(b) })
}

func mysqlFloats(bits int) *rapid.Generator[string] {
	return rapid.Map(rapid.Uint64(), func(b uint64) string {
		v := math.Float64frombits(b)
		if bits == 32 {
			v = float64(math.Float32frombits(uint32(b)))
		}
		if math.IsNaN(v) || math.IsInf(v, 0) {
			v = 1.5
		}
		return string(appendFloat(nil, v, bits))
	})
}

func mysqlColumns(t testing.TB) []mysqlColumn {
	var list []mysqlColumn
	add := func(f MySQLFacts, values *rapid.Generator[string]) {
		list = append(list, mysqlColumn{describeMySQL(t, f, false), values})
	}
	add(facts("tinyint(1)"), number(rapid.Int64Range(-128, 127)))
	add(facts("tinyint unsigned"), number(rapid.Int64Range(0, 255)))
	add(facts("smallint unsigned"), number(rapid.Int64Range(0, 65535)))
	add(facts("mediumint"), number(rapid.Int64Range(-1<<23, 1<<23-1)))
	add(facts("int unsigned"), number(rapid.Int64Range(0, math.MaxUint32)))
	add(facts("bigint"), number(rapid.Int64()))
	add(facts("bigint unsigned"), number(rapid.Uint64()))
	add(facts("float"), mysqlFloats(32))
	add(facts("double"), mysqlFloats(64))
	add(facts("decimal(65,30)", 65, 30), rapid.StringMatching(`-?[1-9][0-9]{0,34}\.[0-9]{30}`))
	add(facts("decimal(5,0) unsigned", 5, 0), number(rapid.Int64Range(0, 99999)))
	add(facts("bit(1)", 1), rapid.StringMatching(`[01]`))
	add(facts("bit(13)", 13), rapid.StringMatching(`[01]{13}`))
	add(facts("bit(64)", 64), rapid.StringMatching(`[01]{64}`))
	add(facts("date"), mysqlDates())
	for _, f := range []int{0, 3, 6} {
		add(facts("datetime", f), rapid.Custom(func(t *rapid.T) string {
			return mysqlDates().Draw(t, "date") + " " + mysqlClocks(23, f).Draw(t, "time")
		}))
		add(facts("timestamp", f), rapid.Custom(func(t *rapid.T) string {
			return mysqlDates().Draw(t, "date") + " " + mysqlClocks(23, f).Draw(t, "time")
		}))
		add(facts("time", f), mysqlTimes(f))
	}
	add(facts("year"), rapid.OneOf(rapid.Just("0000"), number(rapid.Int64Range(1901, 2155))))
	text := rapid.String()
	add(facts("varchar(20)", 20), text)
	add(facts("longtext"), text)
	add(facts("binary(4)", 4), hexBytes(rapid.SliceOfN(rapid.Byte(), 4, 4)))
	add(facts("longblob"), hexBytes(rapid.SliceOf(rapid.Byte())))
	labels := facts("enum('a','it''s')")
	labels.Labels = []string{"a", "it's"}
	add(labels, rapid.SampledFrom([]string{"", "a", "it's"}))
	labels.DataType, labels.ColumnType = "set", "set('a','it''s')"
	add(labels, rapid.SampledFrom([]string{"", "a", "a,it's"}))
	add(facts("json"), rapid.SampledFrom([]string{`{"a": 1.0, "b": [null, "\\u00e9"]}`, "null", `"x"`}))
	add(facts("uuid"), rapid.Just("a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"))
	add(facts("inet4"), rapid.Just("10.0.0.1"))
	add(facts("inet6"), rapid.Just("::ffff:10.0.0.1"))
	add(facts("geometry"), hexBytes(rapid.SliceOfN(rapid.Byte(), 4, 40)))
	add(facts("point"), rapid.Map(hexBytes(rapid.SliceOfN(rapid.Byte(), 20, 20)), func(s string) string { return s[:10] + "0101000000" + s[10:] }))
	add(facts("vector(3)", 3), rapid.Map(rapid.SliceOfN(rapid.Float32(), 3, 3), func(v []float32) string {
		var b []byte
		for _, f := range v {
			bits := math.Float32bits(f)
			if f != f {
				bits = onlyNaN
			}
			b = append(b, byte(bits), byte(bits>>8), byte(bits>>16), byte(bits>>24))
		}
		return `\x` + hex.EncodeToString(b)
	}))
	return list
}

// mysqlRefusal names the values that a format cannot say; everything else must come back.
func mysqlRefusal(o Options, c *Column, value string) error {
	dated := c.Kind == KindMySQLDate || c.Kind == KindMySQLDateTime || c.Kind == KindMySQLTimestamp
	switch {
	case c.Kind == KindUint64 && o.BigintUnsigned == BigintUnsignedLong && (len(value) > 19 || (len(value) == 19 && value > "9223372036854775807")):
		return errBigintLong
	case dated && o.ZeroDate == ZeroDateFail:
		if _, real, _, _ := parseMySQLDate([]byte(value)); !real {
			return errZeroDate
		}
	case c.Kind == KindMySQLDateTime && o.TimePrecision == TimeNanoseconds:
		at, real, _ := parseMySQLDateTime([]byte(value), fractionDigits(c.Modifier))
		if _, fits := at.nanos(); real && !fits {
			return errTimeRange
		}
	case c.Kind == KindMySQLTime && (o.TimePrecision == TimeConnect || (o.TimePrecision == TimeAdaptive && c.Modifier <= 3)):
		if us, _ := parseMySQLTime([]byte(value), -1); us/1000 > math.MaxInt32 || us/1000 < math.MinInt32 {
			return errClockRange
		}
	}
	return nil
}

// TestMySQLRoundTrip: each canonical text of each type comes back from its JSON in every format, or is refused for the one reason that
// the format has.
func TestMySQLRoundTrip(t *testing.T) {
	for _, o := range mysqlFormats() {
		for _, c := range mysqlColumns(t) {
			p := newPair(t, o, c.column)
			lossy := len(p.schema.Lossy()) > 0
			rapid.Check(t, func(t *rapid.T) {
				value := c.values.Draw(t, "value")
				row := Row{text(value)}
				if lossy { // the key of a lossy value can be null
					if _, err := p.enc.AppendValue(nil, OpCreate, nil, row, &Meta{}); err != nil && !errors.Is(err, errClockRange) {
						t.Fatalf("%+v %s %q: %v", o, c.column.Type, value, err)
					}
					return
				}
				back, event, err := p.trip(value)
				if refusal := mysqlRefusal(o, &c.column, value); refusal != nil {
					if !errors.Is(err, refusal) {
						t.Fatalf("%+v %s %q: want %v, got %v", o, c.column.Type, value, refusal, err)
					}
					return
				}
				if err != nil || back != value {
					t.Fatalf("%+v %s: %q became %q by %s, %v", o, c.column.Type, value, back, event, err)
				}
			})
		}
	}
}

var mysqlLookalikes = []string{"18446744073709551615", "18446744073709551616", "-1", "01", "0000-00-00", "2023-00-15", "2023-02-31", "2023-13-01", "2023-01-32", "10000-01-01",
	"0000-00-00 00:00:00", "2024-02-29 24:00:00", "2024-02-29 23:59:60", "2024-02-29 12:00:00.5", "2024-02-29 12:00:00.500", "2024-02-29T12:00:00Z", "2024-02-29Z",
	"-838:59:59", "838:59:59.000", "839:00:00", "-00:00:00", "012:00:00", "1:00:00", "12:60:00", "00:00:00.000000", "0000", "1900", "2156", "24", "02024", `\x00000000`,
	`\x0000`, `\xAB000000`, `\x0000c07f`, `\x0100c07f`, `\x0000807f`, `\x00000080`, `\x000000000101000000000000000000f03f0000000000000040`,
	`\x00000000010200000000000000000000000000000000000000`, "2024-02-29 12:00:00.5000000", "101", "0000000000001"}

// TestMySQLRefusedOrExact: whatever text arrives, it is refused or comes back as it was.
func TestMySQLRefusedOrExact(t *testing.T) {
	carried := 0
	for _, o := range mysqlFormats() {
		for _, c := range mysqlColumns(t) {
			p := newPair(t, o, c.column)
			if len(p.schema.Lossy()) > 0 {
				continue
			}
			for _, value := range append(mysqlLookalikes, lookalikes...) {
				back, event, err := p.trip(value)
				switch refused := (*ValueError)(nil); {
				case errors.As(err, &refused) && refused.Action == "encode":
				case err != nil:
					t.Fatalf("%s %q: %v", c.column.Type, value, err)
				case back != value:
					t.Fatalf("%+v %s: %q became %q by %s", o, c.column.Type, value, back, event)
				default:
					carried++
				}
			}
		}
	}
	if carried < 1000 {
		t.Errorf("only %d values were carried: the test checks nothing", carried)
	}
}

// TestM16ZeroDates: what stands for a date that no calendar has is the policy's, in every representation, and read back where it can be.
func TestM16ZeroDates(t *testing.T) {
	for _, c := range []struct {
		f       MySQLFacts
		value   string
		iso     bool
		notNull bool
		policy  ZeroDateHandling
		json    string
	}{
		{facts("date"), "0000-00-00", false, false, "", `"0000-00-00"`},
		{facts("date"), "2023-00-15", true, false, "", `"2023-00-15"`},
		{facts("datetime(3)", 3), "2023-02-31 01:02:03.004", false, false, "", `"2023-02-31 01:02:03.004"`},
		{facts("timestamp"), "0000-00-00 00:00:00", false, true, "", `"0000-00-00 00:00:00"`},
		{facts("date"), "0000-01-01", false, false, ZeroDateFail, "-719528"}, // the year 0 is a year
		{facts("date"), "0000-00-00", false, false, ZeroDateDebezium, "null"},
		{facts("date"), "0000-00-00", false, true, ZeroDateDebezium, "0"},
		{facts("date"), "0000-00-00", true, true, ZeroDateDebezium, `"1970-01-01Z"`},
		{facts("datetime"), "2023-00-15 00:00:00", false, false, ZeroDateDebezium, "null"},
		{facts("datetime"), "2023-00-15 00:00:00", false, true, ZeroDateDebezium, "0"},
		{facts("datetime"), "2023-00-15 00:00:00", true, true, ZeroDateDebezium, `"1970-01-01T00:00:00Z"`},
		{facts("timestamp(6)", 6), "0000-00-00 00:00:00.000000", false, false, ZeroDateDebezium, "null"},
		{facts("timestamp(6)", 6), "0000-00-00 00:00:00.000000", false, true, ZeroDateDebezium, `"1970-01-01T00:00:00Z"`},
	} {
		o := Options{Connector: SourceMySQL, ZeroDate: c.policy}
		if c.iso {
			o.TimePrecision = TimeISOString
		}
		p := newPair(t, o, describeMySQL(t, c.f, c.notNull))
		if lossy := len(p.schema.Lossy()) > 0; lossy != (c.policy == ZeroDateDebezium) {
			t.Errorf("%s %s: lossy is %v", c.f.ColumnType, c.policy, lossy)
		}
		b, err := p.enc.AppendValue(nil, OpCreate, nil, Row{text(c.value)}, &Meta{})
		if want := `"after":{"v":` + c.json + `}`; err != nil || !strings.Contains(string(b), want) {
			t.Errorf("%s %q: no %s in %s, %v", c.f.ColumnType, c.value, want, b, err)
			continue
		}
		ch, err := p.dec.Decode(b, Position{})
		if err != nil || (ch.After[0].State == Null) != (c.json == "null") || (c.policy == "" && string(ch.After[0].Text) != c.value) {
			t.Errorf("%s %q came back as %v %q, %v", c.f.ColumnType, c.value, ch.After[0].State, ch.After[0].Text, err)
		}
	}
	for _, f := range []MySQLFacts{facts("date"), facts("datetime"), facts("timestamp")} {
		value := "0000-00-00 00:00:00"
		if f.DataType == "date" {
			value = "0000-00-00"
		}
		p := newPair(t, Options{Connector: SourceMySQL, ZeroDate: ZeroDateFail}, describeMySQL(t, f, false))
		if _, _, err := p.trip(value); !errors.Is(err, errZeroDate) {
			t.Errorf("%s: %v", f.ColumnType, err)
		}
	}
}

// TestMySQLColumnRefusals: facts that no server has are refused by column and type.
func TestMySQLColumnRefusals(t *testing.T) {
	for _, f := range []MySQLFacts{facts("xmltype"), facts("decimal(66,0)", 66, 0), facts("decimal(5,6)", 5, 6), facts("bit(0)", 0), facts("bit(65)", 65), facts("time(7)", 7)} {
		if _, err := MySQLColumn("c", f, false, 0); err == nil || !strings.Contains(err.Error(), "column c ("+f.ColumnType+")") {
			t.Errorf("%s: %v", f.ColumnType, err)
		}
	}
}

// TestMySQLNoAllocationPerRow holds for every type, both ways.
func TestMySQLNoAllocationPerRow(t *testing.T) {
	var columns []Column
	var row Row
	for i, c := range mysqlColumns(t) {
		c.column.Name, c.column.Key = "c"+strconv.Itoa(i), 0
		columns, row = append(columns, c.column), append(row, text(c.values.Example(7)))
	}
	p := newPair(t, Options{Connector: SourceMariaDB, Name: "shop"}, columns...)
	var value []byte
	meta := binlogMeta
	encode := func() {
		var err error
		if value, err = p.enc.AppendValue(value[:0], OpUpdate, row, row, &meta); err != nil {
			t.Fatal(err)
		}
	}
	decode := func() {
		if _, err := p.dec.Decode(value, Position{}); err != nil {
			t.Fatal(err)
		}
	}
	if n := testing.AllocsPerRun(100, encode); n > 0 {
		t.Errorf("encoding allocates %v times per row", n)
	}
	if n := testing.AllocsPerRun(100, decode); n > 0 {
		t.Errorf("decoding allocates %v times per row", n)
	}
}

// TestMySQLValueRefusals: what is not a value of its type is refused at either end.
func TestMySQLValueRefusals(t *testing.T) {
	for _, c := range []struct {
		f     MySQLFacts
		value string
		want  error
	}{
		{facts("point"), `\x00000000010200000000000000000000000000000000000000`, errPoint}, {facts("point"), `\x00000000010700000000000000`, errPoint},
		{facts("vector(1)", 1), `\x0100c07f`, errVectorNaN}, {facts("vector(1)", 1), `\x0000`, errMySQLText}, {facts("geometry"), `\x0000`, errMySQLText},
		{facts("year"), "1900", errMySQLText}, {facts("time"), "839:00:00", errMySQLText}, {facts("datetime(3)", 3), "2024-02-29 12:00:00", errMySQLText},
		{facts("bigint unsigned"), "18446744073709551616", errMySQLText}, {facts("bit(2)", 2), "101", errNotCanonical},
	} {
		if _, _, err := newPair(t, Options{Connector: SourceMySQL}, describeMySQL(t, c.f, false)).trip(c.value); !errors.Is(err, c.want) {
			t.Errorf("%s %q: %v", c.f.ColumnType, c.value, err)
		}
	}
	for _, c := range []struct {
		f    MySQLFacts
		o    Options
		json string
	}{
		{facts("date"), Options{}, "2932897"}, {facts("date"), Options{}, `"2024-02-29"`}, {facts("date"), Options{TimePrecision: TimeISOString}, "1"},
		{facts("datetime"), Options{}, "1"}, {facts("datetime"), Options{TimePrecision: TimeISOString}, `"infinity"`}, {facts("datetime"), Options{}, `"1970-01-01T00:00:00Z"`},
		{facts("time"), Options{}, "1"}, {facts("time"), Options{}, "3020400000000"}, {facts("time"), Options{TimePrecision: TimeISOString}, `"12:00:00"`},
		{facts("timestamp"), Options{}, `"1970-01-01T00:00:00.5Z"`}, {facts("timestamp"), Options{}, `"1970-01-01 00:00:00"`}, {facts("year"), Options{}, "1900"},
		{facts("bigint unsigned"), Options{}, `"/w=="`}, {facts("bigint unsigned"), Options{BigintUnsigned: BigintUnsignedLong}, "9223372036854775808"},
		{facts("vector(1)", 1), Options{}, "[null]"}, {facts("vector(1)", 1), Options{}, "[1e39]"}, {facts("point"), Options{}, `{"x":1,"y":1,"wkb":"AQ==","srid":null}`},
		{facts("geometry"), Options{}, `{"srid":1}`}, {facts("geometry"), Options{}, `{"wkb":"AQ==","srid":2147483648}`}, {facts("geometry"), Options{}, `{"wkb":"AQ==","z":1}`},
	} {
		c.o.Connector = SourceMySQL
		p := newPair(t, c.o, describeMySQL(t, c.f, false))
		var refused *ValueError
		if ch, err := p.dec.Decode([]byte(`{"after":{"v":`+c.json+`},"op":"c"}`), Position{}); !errors.As(err, &refused) {
			t.Errorf("%s %s was read as %+v, %v", c.f.ColumnType, c.json, ch.After, err)
		}
	}
}
