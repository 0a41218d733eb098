package event

import (
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// everyColumn is one column of each kind, and an array of each.
func everyColumn() []Column {
	kinds := []Kind{KindBool, KindInt16, KindInt32, KindInt64, KindOID, KindFloat32, KindFloat64, KindNumeric, KindMoney, KindDate, KindTime,
		KindTimeTZ, KindTimestamp, KindTimestampTZ, KindInterval, KindBytes, KindBit, KindUUID, KindJSON, KindXML, KindEnum, KindHstore,
		KindLtree, KindTSVector, KindText}
	var columns []Column
	for _, k := range kinds {
		modifiers := []int32{-1}
		switch k {
		case KindNumeric:
			modifiers = append(modifiers, 10<<16+2+typmodHeader)
		case KindTime, KindTimestamp, KindTimestampTZ, KindBit:
			modifiers = append(modifiers, 0, 1, 3)
		}
		for _, modifier := range modifiers {
			columns = append(columns, Column{Name: "v", Type: string(k), Kind: k, Modifier: modifier, Key: 1},
				Column{Name: "v", Type: string(k) + "[]", Kind: KindArray, Elem: k, Modifier: modifier, Key: 1})
		}
	}
	return columns
}

var lookalikes = []string{"t", "-1", "0", "-0", "007", "1e5", "1.", ".5", "NaN", "Infinity", "infinity", "-infinity", "1.50", "-0.00", "$1.00", "$1,000.00",
	"$1000.00", "-$0.00", "$,100.00", "2024-02-30", "2024-02-29", "0000-01-01", "0001-01-01 BC", "12:00:00", "12:00:00.10", "24:00:01", "23:59:60", "12:00:00+00",
	"12:00:00-00", "12:00:00+02:00", "2024-01-01 00:00:00", "2024-01-01 00:00:00+00", "2024-01-01 00:00:00+02", "2024-01-01 24:00:00", "294247-01-10 04:00:25.2",
	"292278994-08-16 23:00:00+00", "1 day", "1 days", "2 day", "0 days", "1 day 00:00:00", "13 mons", "-00:00:00", "00:00:00", "1 mon 1 year", "\\x00", "\\xAB", "\\x0",
	"101", "1", "{}", "{1}", "{1,NULL}", "{null}", `{"null"}`, `{"a"}`, `{"a b"}`, "{{}}", "{{1},{2}}", "[2:2]={1}", "[", "{1,}", "{a b}", `"a"=>"1"`, `"a"=>NULL`, `"a"=>null`,
	`"a"=>"1","b"=>"2"`, `{"t"}`, "[1", `{"\x"}`, "{{{{{{{1}}}}}}}", "\xff", "a\x00b", ""}

// TestRefusedOrExact: whatever text arrives, it is refused or comes back as it was.
func TestRefusedOrExact(t *testing.T) {
	var pairs []pair
	for _, o := range formats() {
		for _, c := range everyColumn() {
			if p := newPair(t, o, c); len(p.schema.Lossy()) == 0 {
				pairs = append(pairs, p)
			}
		}
	}
	carried := 0
	check := func(t interface{ Fatalf(string, ...any) }, p pair, value string) {
		back, event, err := p.trip(value)
		switch refused := (*ValueError)(nil); {
		case errors.As(err, &refused) && refused.Action == "encode":
		case err != nil:
			t.Fatalf("%s %q: %v", p.schema.Columns[0].Type, value, err)
		case back != value:
			t.Fatalf("%+v %s: %q became %q by %s", p.schema.Format, p.schema.Columns[0].Type, value, back, event)
		default:
			carried++
		}
	}
	for _, p := range pairs {
		for _, v := range lookalikes {
			check(t, p, v)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		p := rapid.SampledFrom(pairs).Draw(t, "column")
		typed := rapid.StringOf(rapid.RuneFrom([]rune(`0123456789-+:. $,{}"\TZNULLx=>[]yearmonsdBCétf`)))
		joined := rapid.Map(rapid.SliceOfN(rapid.SampledFrom(lookalikes), 1, 3), func(s []string) string { return strings.Join(s, " ") })
		check(t, p, rapid.OneOf(typed, joined).Draw(t, "text"))
	})
	if carried < 1000 {
		t.Errorf("only %d values were carried: the test checks nothing", carried)
	}
}
