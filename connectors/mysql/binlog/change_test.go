package binlog

import (
	"errors"
	"strings"
	"testing"
)

// diff is one change of a JSON document; values are in the binary form.
func diff(op byte, path string, value ...byte) []byte {
	b := append([]byte{op, byte(len(path))}, path...)
	if op == diffRemove {
		return b
	}
	return append(append(b, byte(len(value))), value...)
}

func TestApplyDiff(t *testing.T) {
	one, x := []byte{jsonInt16, 1, 0}, []byte{jsonString, 1, 'x'}
	for _, c := range []struct {
		before string
		change []byte
		want   string // "": it does not fit
	}{
		{`{"a": 2}`, nil, `{"a": 2}`},
		{`{"a": 2, "c": 3, "aa": 4}`, diff(diffInsert, "$.b", one...), `{"a": 2, "b": 1, "c": 3, "aa": 4}`},
		{`{"a": 2, "c": 3, "aa": 4}`, diff(diffInsert, "$.d", one...), `{"a": 2, "c": 3, "d": 1, "aa": 4}`},
		{`{"a": 2}`, diff(diffInsert, `$.""`, x...), `{"": "x", "a": 2}`},
		{`{"a": 2}`, diff(diffInsert, `$."a\"b"`, x...), `{"a": 2, "a\"b": "x"}`},
		{`{"a": {"é": [1.0, 2]}}`, diff(diffReplace, `$.a.é[1]`, x...), `{"a": {"é": [1.0, "x"]}}`},
		{`[1, 2]`, diff(diffInsert, `$[1]`, x...), `[1, "x", 2]`},
		{`[1, 2]`, diff(diffInsert, `$[9]`, x...), `[1, 2, "x"]`},
		{`[1, 2]`, diff(diffRemove, `$[0]`), `[2]`},
		{`{"a": 2, "b": 1e15}`, diff(diffRemove, `$.a`), `{"b": 1e15}`},
		{`{"a": 2}`, append(diff(diffReplace, "$.a", one...), diff(diffInsert, "$.b", x...)...), `{"a": 1, "b": "x"}`},
		{`{"a": 2}`, diff(diffReplace, "$", one...), `1`},
		{`{"a": 2}`, diff(diffInsert, "$.a", one...), ""},
		{`{"a": 2}`, diff(diffReplace, "$.b", one...), ""},
		{`{"a": 2}`, diff(diffRemove, "$.b"), ""},
		{`{"a": 2}`, diff(diffRemove, "$[0]"), ""},
		{`{"a": 2}`, diff(diffReplace, "$.a.b.c", one...), ""},
		{`[1]`, diff(diffReplace, "$[1]", one...), ""},
		{`2`, diff(diffRemove, "$"), ""},
	} {
		got, err := ApplyDiff([]byte("> "), []byte(c.before), c.change)
		switch {
		case c.want == "" && !errors.Is(err, ErrDiff):
			t.Errorf("%s, %q: %s, %v", c.before, c.change, got, err)
		case c.want != "" && (err != nil || string(got) != "> "+c.want):
			t.Errorf("%s, %q: %s, %v; want %s", c.before, c.change, got, err, c.want)
		}
	}
	for _, bad := range [][]byte{{9, 1, '$'}, diff(diffReplace, "$.a"), diff(diffRemove, "a"), diff(diffRemove, "$["), diff(diffRemove, "$[1"), diff(diffRemove, "$."), diff(diffRemove, `$."x`), {0, 200, '$'}} {
		if got, err := ApplyDiff(nil, []byte(`{"a": 2}`), bad); !errors.Is(err, ErrMalformed) {
			t.Errorf("%q: %s, %v", bad, got, err)
		}
	}
	for _, bad := range []string{"", "{", `{"a"}`, `[1`, `[1,]`, `"x`, `1 2`, `{"a":1,"b"}`, `]`, strings.Repeat("[", 1000)} {
		if got, err := ApplyDiff(nil, []byte(bad), diff(diffRemove, "$.a")); !errors.Is(err, ErrMalformed) {
			t.Errorf("%q: %s, %v", bad, got, err)
		}
	}
}

// TestMetadataBits has bitmaps over the columns that they are about, and such as do not fit.
func TestMetadataBits(t *testing.T) {
	types := []WireType{WireLong, WireDate, WireTiny, WireYear}
	table, err := parseTable(tableMap(types, nil, metaSignedness, 1, 0b01000000, metaVisibility, 1, 0b10110000), false)
	if err != nil || table.Err != nil {
		t.Fatal(err, table)
	}
	for i, c := range table.Columns {
		if c.Unsigned != (i == 2) || c.Invisible != (i == 1) {
			t.Errorf("%d: %+v", i, c)
		}
	}
	for _, optional := range [][]byte{{metaSignedness, 2, 0, 0}, {metaSignedness, 0}, {metaVisibility, 0}} {
		if table, err := parseTable(tableMap(types, nil, optional...), false); err != nil || table.Err == nil {
			t.Errorf("%v: %+v, %v", optional, table, err)
		}
	}
}

// upper is a charset of a test.
type upper struct{}

func (upper) AppendUTF8(dst, src []byte) ([]byte, error) {
	return append(dst, strings.ToUpper(string(src))...), nil
}

func TestTrailingSpaces(t *testing.T) {
	for _, c := range []struct {
		typ     WireType
		meta    []byte
		charset Charset
		want    string
	}{
		{WireString, []byte{254, 9}, nil, "a b"}, {WireString, []byte{254, 9}, upper{}, "A B"},
		{WireVarchar, []byte{9, 0}, nil, "a b "}, {WireVarchar, []byte{9, 0}, upper{}, "A B "},
	} {
		row, err := decodeOne(t, []WireType{c.typ}, c.meta, []Column{{Charset: c.charset}}, "000461206220")
		if err != nil || string(row[0].Text) != c.want {
			t.Errorf("type %d: %q, %v", c.typ, texts(row), err)
		}
	}
}

// TestStatusVariables reads those of MariaDB 11.8 for an ALTER TABLE in two phases, up to the last.
func TestStatusVariables(t *testing.T) {
	vars := "\x00\x00\x00\x00\x01\x01\x00\x00\x20\x54\x00\x00\x00\x00\x06\x03std\x04\x00\x09\x00\x09\x00\x09\x81\x09\x00\x00\x00\x00\x00\x00\x00\x82\x04\x03\x00\x00\x00\x00\x00\x00\x00"
	q := Query{}
	if err := q.status([]byte(vars + "\x12\x2d\x00")); err != nil || q.SQLMode != 0x54200000 || q.DDLXID != 9 || q.Charset.Server != 0x900 || q.Charset.UTF8MB4 != 45 {
		t.Errorf("%+v, %v", q, err)
	}
	for n := range vars {
		if err := (&Query{}).status([]byte(vars[:n])); err != nil && !errors.Is(err, ErrMalformed) {
			t.Error(err)
		}
	}
}

func TestPreviousGTIDs(t *testing.T) {
	u := func(c byte) string { return strings.Repeat(string([]byte{c}), 16) }
	number := func(v byte) string { return string([]byte{v, 0, 0, 0, 0, 0, 0, 0}) }
	plain := number(2) + u(0x11) + number(2) + number(1) + number(4) + number(7) + number(8) + u(0x22) + number(1) + number(1) + number(2)
	tagged := "\x01\x04\x00\x00\x00\x00\x00\x01" + u(0x11) + "\x00" + number(1) + number(1) + number(4) + u(0x11) + "\x02a" + number(1) + number(1) + number(2) +
		u(0x22) + "\x04bb" + number(1) + number(3) + number(5) + u(0x33) + "\x00" + number(1) + number(9) + number(10)
	one, two, three := "11111111-1111-1111-1111-111111111111", "22222222-2222-2222-2222-222222222222", "33333333-3333-3333-3333-333333333333"
	for body, want := range map[string]string{
		number(0): "", plain: one + ":1-3:7," + two + ":1", tagged: one + ":1-3:a:1," + two + ":bb:3-4," + three + ":9",
	} {
		got, err := previousGTIDs([]byte(body))
		if err != nil || string(got) != want {
			t.Errorf("%s, want %s: %v", got, want, err)
		}
		for n := range body {
			if got, err := previousGTIDs([]byte(body[:n])); err == nil {
				t.Errorf("%d bytes of %d: %s", n, len(body), got)
			}
		}
	}
}
