package event

import (
	"bytes"
	"encoding/hex"
	"errors"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestPositionRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := Position{
			Commit: rapid.Uint64().Draw(t, "commit"), Order: rapid.Uint64().Draw(t, "order"),
			CollectionOrder: rapid.Uint64().Draw(t, "collectionOrder"), CommitTime: rapid.Int64().Draw(t, "time"),
			Schema: rapid.Uint64().Draw(t, "schema"), Absent: rapid.SliceOfNDistinct(rapid.Uint16(), 0, 8, rapid.ID).Draw(t, "absent"),
		}
		slices.Sort(p.Absent)
		if len(p.Absent) == 0 {
			p.Absent = nil
		}
		b := p.Append(nil)
		got, err := ParsePosition(b)
		if err != nil || !reflect.DeepEqual(got, p) {
			t.Fatalf("%+v came back as %+v, %v", p, got, err)
		}
		for i := range b {
			if _, err := ParsePosition(b[:i]); !errors.Is(err, ErrPosition) {
				t.Fatalf("cut at %d: %v", i, err)
			}
		}
		if _, err := ParsePosition(append(b, 0)); !errors.Is(err, ErrPosition) {
			t.Fatalf("a byte too many: %v", err)
		}
	})
}

// TestPositionLayout pins version 1: snapshot views read its first fields by themselves.
func TestPositionLayout(t *testing.T) {
	b := Position{Commit: 300, Order: 2, CollectionOrder: 1, CommitTime: 1000, Schema: 0x0102030405060708, Absent: []uint16{1, 4}}.Append(nil)
	if got, want := hex.EncodeToString(b), "01"+"ac02"+"02"+"01"+"d00f"+"0102030405060708"+"02"+"01"+"03"; got != want {
		t.Errorf("position is %s, want %s", got, want)
	}
	b[0] = 2
	if _, err := ParsePosition(b); !errors.Is(err, ErrPosition) {
		t.Errorf("a later version was read: %v", err)
	}
}

func FuzzParsePosition(f *testing.F) {
	f.Add([]byte{})
	f.Add(Position{Commit: 1 << 40, Order: 3, CommitTime: -5, Schema: 1, Absent: []uint16{0, 65535}}.Append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := ParsePosition(b)
		if err != nil {
			return
		}
		again, err := ParsePosition(p.Append(nil))
		if err != nil || !reflect.DeepEqual(again, p) {
			t.Fatalf("%x: %+v came back as %+v, %v", b, p, again, err)
		}
		if len(p.Append(nil)) > len(b) {
			t.Fatalf("%x grew to %x", b, bytes.Clone(p.Append(nil)))
		}
	})
}
