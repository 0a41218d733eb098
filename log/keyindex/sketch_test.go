package keyindex

import (
	"fmt"
	"math"
	"testing"

	"pgregory.net/rapid"
)

// TestSketchNeverDenies: what was put later is never denied, whatever the sketch's size, and offsets may lie anywhere.
func TestSketchNeverDenies(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		base := rapid.Int64Range(0, 1<<40).Draw(rt, "base")
		s := NewSketch(base, rapid.Int64Range(0, 10).Draw(rt, "records"))
		offset := rapid.OneOf(
			rapid.Int64Range(max(base-50, 0), base+50),
			rapid.Int64Range(base+math.MaxUint32-5, base+math.MaxUint32+5), // where positions end
			rapid.Int64Range(0, math.MaxInt64-1))
		last := map[string]int64{}
		for range rapid.IntRange(0, 3000).Draw(rt, "puts") {
			key, o := fmt.Sprint(rapid.IntRange(0, 1000).Draw(rt, "key")), offset.Draw(rt, "offset")
			s.Put([]byte(key), o)
			if at, ok := last[key]; !ok || o > at {
				last[key] = o
			}
		}
		for key, at := range last {
			for _, o := range []int64{0, base - 1, at - 1, offset.Draw(rt, "asked")} {
				if o >= 0 && o < at && (at >= base || o < base) && !s.Follows([]byte(key), o) {
					rt.Fatalf("%s was put at %d, base is %d: nothing follows %d", key, at, base, o)
				}
			}
		}
	})
}

// TestSketchSparesLookUps: it lets nothing follow nearly all records that nothing follows, and is bounded.
func TestSketchSparesLookUps(t *testing.T) {
	const keys, base = 100_000, 1_000_000
	s := NewSketch(base, 2*keys)
	for i := range 2 * keys {
		s.Put(fmt.Append(nil, i%keys), int64(base+i))
	}
	last, other := 0, 0
	for i := range keys {
		if s.Follows(fmt.Append(nil, i), int64(base+keys+i)) {
			last++
		}
		if s.Follows(fmt.Append(nil, "other", i), int64(i)) {
			other++
		}
	}
	if last > keys/20 || other > keys/10 {
		t.Errorf("of %d keys %d are said to be followed, and %d that were not put", keys, last, other)
	}
	if n := len(NewSketch(0, math.MaxInt64/8).slots); n != sketchSlots {
		t.Errorf("%d slots for any number of records", n)
	}
}
