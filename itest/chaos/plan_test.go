package main

import "testing"

func TestASeedRepeatsTheFaults(t *testing.T) {
	a, b, other := NewDealer(5), NewDealer(5), NewDealer(6)
	differs := false
	for range 200 {
		e := a.Next()
		if e != b.Next() {
			t.Fatal("the same seed deals other faults")
		}
		differs = differs || e != other.Next()
	}
	if !differs {
		t.Error("another seed deals the same faults")
	}
}

// A round has every kind, and what destroys comes alone.
func TestARoundHasEveryKind(t *testing.T) {
	want := map[Kind]int{}
	size := 0
	for _, s := range shares() {
		want[s.kind] = s.times
		size += s.times
	}
	d := NewDealer(1)
	for range 10 {
		got := map[Kind]int{}
		for range size {
			e := d.Next()
			got[e.Kind]++
			if e.With != "" && (e.Kind.destructive() || e.With.destructive()) {
				t.Errorf("%s", e)
			}
		}
		for kind, n := range want {
			if got[kind] != n {
				t.Errorf("%s %d times", kind, got[kind])
			}
		}
	}
}
