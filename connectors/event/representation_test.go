package event

import (
	"strings"
	"testing"
)

// TestUnavailableUUID: the placeholder of a UUID is a UUID, the one of Debezium 3.6.1; of others it is the text.
func TestUnavailableUUID(t *testing.T) {
	p, err := newPlaceholder("")
	if err != nil {
		t.Fatal(err)
	}
	for kind, want := range map[Kind]string{KindUUID: `["b68a35a7-17ad-35b3-af2a-ae46edb4545a"]`, KindText: `["__debezium_unavailable_value"]`} {
		codec, err := newCodec(&Column{Name: "v", Kind: KindArray, Elem: kind, Modifier: -1}, Options{}.Format())
		if err != nil {
			t.Fatal(err)
		}
		if got := string(codec.unavailable(p)); got != want {
			t.Errorf("%s[]: %s, want %s", kind, got, want)
		}
	}
}

// TestVariableDecimalSchema: with the doc that Debezium's has.
func TestVariableDecimalSchema(t *testing.T) {
	got := string((&variableDecimalCodec{}).connect().appendSchema(nil, true, "v"))
	want := `{"type":"struct","fields":[{"type":"int32","optional":false,"field":"scale"},{"type":"bytes","optional":false,"field":"value"}],"optional":true,` +
		`"name":"io.debezium.data.VariableScaleDecimal","version":1,"doc":"Variable scaled decimal","field":"v"}`
	if got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// TestRepresentations pins how single values look, beside the golden files.
func TestRepresentations(t *testing.T) {
	for _, c := range []struct {
		kind     Kind
		modifier int32
		o        Options
		value    string
		json     string
	}{
		{KindTimestampTZ, -1, Options{}, "infinity", `"infinity"`},
		{KindTimestampTZ, -1, Options{}, "2024-02-29 12:00:00+00", `"2024-02-29T12:00:00.000000Z"`},
		{KindTimestampTZ, 3, Options{}, "2024-02-29 12:00:00.5+00", `"2024-02-29T12:00:00.500Z"`},
		{KindTimestampTZ, 0, Options{}, "0044-03-15 12:00:00+00 BC", `"-0043-03-15T12:00:00Z"`},
		{KindTimestamp, -1, Options{}, "infinity", "9223372036825200000"},
		{KindTimestamp, -1, Options{}, "-infinity", "-9223372036832400000"},
		{KindTimestamp, 3, Options{}, "infinity", "9223372036825200"},
		{KindTimestamp, 3, Options{}, "1969-12-31 23:59:59.999", "-1"},
		{KindTimestamp, 3, Options{TimePrecision: TimeMicroseconds}, "1970-01-01 00:00:00.001", "1000"},
		{KindTimestamp, -1, Options{TimePrecision: TimeISOString}, "2024-02-29 12:00:00.5", `"2024-02-29T12:00:00.5Z"`},
		{KindTimestamp, -1, Options{TimePrecision: TimeConnect}, "1970-01-01 00:00:00.0015", "1"},
		{KindTimestamp, 3, Options{TimePrecision: TimeNanoseconds}, "2262-04-11 23:47:16.854", "9223372036854000000"},
		{KindTimestamp, -1, Options{TimePrecision: TimeNanoseconds}, "1677-09-21 00:12:43.145225", "-9223372036854775000"},
		{KindTimestamp, -1, Options{TimePrecision: TimeNanoseconds}, "infinity", "9223372036854775807"},
		{KindTimestamp, -1, Options{TimePrecision: TimeNanoseconds}, "-infinity", "-9223372036854775808"},
		{KindTime, -1, Options{TimePrecision: TimeNanoseconds}, "24:00:00", "86400000000000"},
		{KindDate, -1, Options{}, "1969-12-31", "-1"},
		{KindDate, -1, Options{TimePrecision: TimeISOString}, "2017-09-15", `"2017-09-15Z"`},
		{KindTime, -1, Options{}, "24:00:00", "86400000000"},
		{KindTime, 3, Options{}, "24:00:00", "86400000"},
		{KindTime, 3, Options{TimePrecision: TimeAdaptiveMicroseconds}, "00:00:01", "1000000"},
		{KindTimeTZ, -1, Options{}, "13:45:30.5+02", `"13:45:30.5+02:00"`},
		{KindInterval, -1, Options{}, "1 year 2 mons 3 days 04:05:06.78", `"P1Y2M3DT4H5M6.78S"`},
		{KindInterval, -1, Options{}, "-1 days +00:00:00.5", `"P0Y0M-1DT0H0M0.5S"`},
		{KindInterval, -1, Options{IntervalHandling: IntervalNumeric}, "1 mon", "2629800000000"},
		{KindNumeric, 10<<16 + 2 + typmodHeader, Options{}, "-1.28", `"gA=="`},
		{KindNumeric, -1, Options{}, "-Infinity", `"-Infinity"`},
		{KindNumeric, -1, Options{DecimalHandling: DecimalString}, "1.50", `"1.50"`},
		{KindNumeric, -1, Options{DecimalHandling: DecimalDouble}, "1.50", "1.50"},
		{KindMoney, -1, Options{DecimalHandling: DecimalString}, "-$1,234.56", `"-1234.56"`},
		{KindBit, 1, Options{}, "1", "true"},
		{KindBit, 10, Options{}, "1000000001", `"AQI="`},
		{KindBit, 10, Options{}, "0000000001", `"AQ=="`},
		{KindBit, 10, Options{}, "0000000000", `""`},
		{KindBytes, -1, Options{BinaryHandling: BinaryBase64URLSafe}, `\xfbff`, `"-_8="`},
		{KindBytes, -1, Options{BinaryHandling: BinaryHex}, `\xfbff`, `"fbff"`},
		{KindHstore, -1, Options{HstoreHandling: HstoreMap}, `"a"=>"1", "b"=>NULL`, `{"a":"1","b":null}`},
		{KindFloat64, -1, Options{}, "1e+20", "1e+20"},
		{KindFloat64, -1, Options{}, "NaN", `"NaN"`},
		{KindText, -1, Options{}, "\x01\t\"\\", `"\u0001\t\"\\"`},
	} {
		p := newPair(t, c.o, Column{Name: "v", Type: string(c.kind), Kind: c.kind, Modifier: c.modifier, Key: 1})
		back, event, err := p.trip(c.value)
		if err != nil {
			t.Errorf("%s %q: %v", c.kind, c.value, err)
			continue
		}
		if want := `"after":{"v":` + c.json + `}`; !strings.Contains(string(event), want) {
			t.Errorf("%s %q: no %s in %s", c.kind, c.value, want, event)
		}
		if back != c.value && len(p.schema.Lossy()) == 0 {
			t.Errorf("%s %q came back as %q", c.kind, c.value, back)
		}
	}
}
