package event

import (
	"fmt"
	"testing"
)

// TestKeyStaysBesideTheValue: a record's key and value are decoded one after the other and used together, whatever the columns before
// the key have.
func TestKeyStaysBesideTheValue(t *testing.T) {
	s, err := NewSchema(Options{}, "public", "t", []Column{
		{Name: "a", Type: "numeric", Kind: KindNumeric, Modifier: -1}, {Name: "b", Type: "text", Kind: KindText},
		{Name: "k", Type: "timestamp with time zone", Kind: KindTimestampTZ, Modifier: -1, Key: 1}, {Name: "l", Type: "text", Kind: KindText, Key: 2},
	})
	if err != nil {
		t.Fatal(err)
	}
	e, err := NewEncoder(s, Options{})
	if err != nil {
		t.Fatal(err)
	}
	d, err := NewDecoder(s)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 { // the arenas grow
		row := Row{
			{State: Text, Text: []byte("12345678901234567890.5")}, {State: Text, Text: []byte("a \"quoted\"\nline")},
			{State: Text, Text: fmt.Appendf(nil, "2024-01-01 00:00:0%d+00", i)}, {State: Text, Text: fmt.Appendf(nil, "\"key\" %d", i)},
		}
		key, _, err := e.AppendKey(nil, row)
		if err != nil {
			t.Fatal(err)
		}
		value, err := e.AppendValue(nil, OpCreate, nil, row, &Meta{})
		if err != nil {
			t.Fatal(err)
		}
		keys, err := d.DecodeKey(key)
		if err != nil {
			t.Fatal(err)
		}
		change, err := d.Decode(value, Position{})
		if err != nil {
			t.Fatal(err)
		}
		for c, want := range row {
			if got := string(change.After[c].Text); got != string(want.Text) {
				t.Errorf("the value's column %d is %q, want %q", c, got, want.Text)
			}
			if got := string(keys[c].Text); c >= 2 && got != string(want.Text) {
				t.Errorf("the key's column %d is %q, want %q", c, got, want.Text)
			}
		}
	}
}
