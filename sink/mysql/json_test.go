package mysql

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rowtrail/rowtrail/connectors/event"
	"github.com/rowtrail/rowtrail/sink"
	"github.com/rowtrail/rowtrail/sink/sinktest"
)

// TestNumbersInJSON: which numbers MySQL keeps as they are written, which have to be decimals, and which are neither.
func TestNumbersInJSON(t *testing.T) {
	for number, want := range map[string]string{
		"0": "double", "-1": "double", "18446744073709551615": "double", "-9223372036854775808": "double", "1.0": "double", "0.1": "double", "-2.5": "double", "1e20": "double", "1e-16": "double",
		"1.7976931348623157e308": "double", "5e-324": "double", "100000.0": "double", "-0.0": "double",
		"1.50": "decimal", "0.10": "decimal", "18446744073709551616": "decimal", "-9223372036854775809": "decimal", "0.1234567890123456789": "decimal", "12345678901234567.5": "decimal",
		strings.Repeat("9", 65): "decimal", strings.Repeat("9", 35) + "." + strings.Repeat("9", 30): "decimal",
		"1E5": "double", "1.5e0": "double", "0.5" + strings.Repeat("0", 40): "double", // the same number, as a double writes it
		strings.Repeat("9", 66): "refused", "0." + strings.Repeat("1", 31): "refused", "1e400": "refused", "1.23456789012345678e5": "refused",
		"1.2.3": "double", "-": "double", "1.": "double", // no JSON: the server says so
	} {
		decimal, err := decimalInJSON([]byte(number))
		got := "double"
		if decimal {
			got = "decimal"
		}
		if err != nil {
			got = "refused"
		}
		if got != want {
			t.Errorf("%s: %s, want %s (%v)", number, got, want, err)
		}
	}
}

// TestM5DecimalsInJSON: a decimal inside of JSON arrives with its digits, wherever it stands, and what cannot is refused.
func TestM5DecimalsInJSON(t *testing.T) {
	each(t, func(t *testing.T, h *home) {
		c := mysqlCol(t, "v", 0, event.MySQLFacts{DataType: "json", ColumnType: "json"})
		schema, err := event.NewSchema(event.Options{Name: "shop", Connector: event.SourceMySQL}, "shop", "decimals",
			[]event.Column{mysqlCol(t, "id", 1, event.MySQLFacts{DataType: "int", ColumnType: "int"}), c})
		if err != nil {
			t.Fatal(err)
		}
		docs := []string{
			`1.50`, `-0.10`, `[]`, `{}`, `{"a": 1.50}`, `[1.50, 1.5, 1.0, 1e20, 18446744073709551616, -9223372036854775809]`, `{"it's \"q\" \\ é😀\n": [null, true, false, "1.50", {"": 0.1234567890123456789}]}`,
			`{"a": "1.50", "b": 2.0}`, `{"deep": [[[[[{"x": [0.10]}]]]]]}`, `"1.50"`, `null`, `12345678901234567890123456789012345.123456789012345678901234567890`,
		}
		s := h.open(t, "w", nil)
		var want []string
		for _, op := range []event.Op{event.OpCreate, event.OpUpdate} {
			var events []*sink.Event
			want = want[:0]
			for i, doc := range docs {
				if op == event.OpUpdate { // each row gets another one, through the stage
					doc = docs[(i+1)%len(docs)]
				}
				want = append(want, fmt.Sprintf("%02d %s", i, doc))
				events = append(events, ev(schema, op, event.Row{sinktest.Text(strconv.Itoa(i)), sinktest.Text(doc)}))
			}
			mustApply(t, s, events...)
			if got := h.rows(t, "SELECT CONCAT(LPAD(id, 2, '0'), ' ', v) FROM decimals"); !slices.Equal(got, want) {
				t.Errorf("%c:\n%q, want\n%q", op, got, want)
			}
		}
		s.loadFrom = 1 // where LOAD DATA would be used
		var loaded []*sink.Event
		for i, doc := range docs {
			loaded = append(loaded, ev(schema, event.OpCreate, event.Row{sinktest.Text(strconv.Itoa(50 + i)), sinktest.Text(doc)}))
			want = append(want, fmt.Sprintf("%02d %s", 50+i, doc))
		}
		mustApply(t, s, loaded...)
		if got := h.rows(t, "SELECT CONCAT(LPAD(id, 2, '0'), ' ', v) FROM decimals"); !slices.Equal(got, want) {
			t.Errorf("loaded:\n%q, want\n%q", got, want)
		}
		if h.MariaDB() {
			return // keeps the text
		}
		if got := h.rows(t, "SELECT JSON_TYPE(JSON_EXTRACT(v, '$.a')) FROM decimals WHERE id = 3"); !slices.Equal(got, []string{"DECIMAL"}) {
			t.Errorf("1.50 is a %q", got)
		}
		for _, doc := range []string{`{"a": 0.` + strings.Repeat("1", 31) + `}`, `[1e400]`} {
			if err := apply(t, s, ev(schema, event.OpCreate, event.Row{sinktest.Text("99"), sinktest.Text(doc)})); !sink.IsPermanent(err) || !strings.Contains(err.Error(), "column v") {
				t.Errorf("%s: %v, want a permanent error that names the column", doc, err)
			}
		}
	})
}
