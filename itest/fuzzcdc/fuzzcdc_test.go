package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/rowtrail/rowtrail/itest/process"
)

// testTime is what all sources together take.
const testTime = 2 * time.Minute

// TestCapture draws a new seed every time, and prints it.
func TestCapture(t *testing.T) {
	if testing.Short() {
		t.Skip("runs the whole binary against real servers; run without -short")
	}
	if os.Getenv("ROWTRAIL_ITEST_MYSQL") == "" {
		t.Skip("it goes with the tests on MySQL and MariaDB: make test-mysql")
	}
	binary, err := process.Build(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	sources := []string{"postgres"}
	for _, source := range sources {
		t.Run(source, func(t *testing.T) {
			seed := uint64(time.Now().UnixNano())
			logf := func(format string, args ...any) { fmt.Printf(format+"\n", args...) }
			result, err := Run(context.Background(), Plan{Server: source, Duration: testTime / time.Duration(len(sources)), Seed: seed, Binary: binary, Logf: logf})
			if err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			if result.Compared == 0 || result.Transactions < result.Failed {
				t.Fatalf("seed %d: the run did too little to tell anything: %s", seed, result)
			}
			fmt.Printf("itest: fuzz-cdc: seed %d: %s\n", seed, result)
		})
	}
}

// planText is the first rounds of a seed.
func planText(t *testing.T, source string, seed uint64, rounds int) string {
	t.Helper()
	d, ok := dialectOf(source)
	if !ok {
		t.Fatalf("no source %s", source)
	}
	g := newGenerator(d, seed)
	text := strings.Join(g.start(), "\n")
	for range rounds {
		text += g.round().text()
	}
	return text
}

func TestSeedGivesThePlan(t *testing.T) {
	for _, source := range []string{"postgres", "mysql", "mariadb"} {
		a, b := planText(t, source, 7, 12), planText(t, source, 7, 12)
		if a != b {
			t.Errorf("%s: the same seed gives two plans", source)
		}
		if a == planText(t, source, 8, 12) {
			t.Errorf("%s: two seeds give the same plan", source)
		}
		if file := os.Getenv("ROWTRAIL_FUZZCDC_PLAN"); file != "" {
			if err := os.WriteFile(file+"."+source, []byte(a), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestCompareFindsEachDifference gives compare equal copies, and then one difference of each kind.
func TestCompareFindsEachDifference(t *testing.T) {
	copyOf := func() *copied {
		c := newCopied([]string{"v", "i", "a"})
		c.add([]*string{new("1"), new("0"), new("x")}, []string{"i"})
		c.add([]*string{new("2"), new("1"), nil}, []string{"i"})
		return c
	}
	for _, c := range []struct {
		name, want string
		spoil      func(c *copied)
		skip       map[string]bool
	}{
		{"nothing", "", func(*copied) {}, nil},
		{"a value", "column a", func(c *copied) { c.rows[`"0"`][2] = new("y") }, nil},
		{"NULL for a value", "NULL", func(c *copied) { c.rows[`"0"`][2] = nil }, nil},
		{"empty text for NULL", "column a", func(c *copied) { c.rows[`"1"`][2] = new("") }, nil},
		{"a row that is missing", "no such row", func(c *copied) { delete(c.rows, `"0"`) }, nil},
		{"a row too many", "no such row", func(c *copied) { c.add([]*string{new("3"), new("2"), nil}, []string{"i"}) }, nil},
		{"a row twice", "several", func(c *copied) { c.add(c.rows[`"0"`], []string{"i"}) }, nil},
		{"a column that is missing", "no such column", func(c *copied) { c.columns = []string{"v", "i", "b"} }, nil},
		{"a value that is not compared", "", func(c *copied) { c.rows[`"0"`][2] = new("y") }, map[string]bool{"a": true}},
	} {
		got := copyOf()
		c.spoil(got)
		d := compare("state", "t", copyOf(), got, c.skip)
		switch {
		case d == nil && c.want != "":
			t.Errorf("%s: not found", c.name)
		case d != nil && (c.want == "" || !strings.Contains(d.String(), c.want)):
			t.Errorf("%s: got %s", c.name, d)
		}
	}
}

// TestTrailFindsEachFault gives check a faultless log, and then one with each kind of fault.
func TestTrailFindsEachFault(t *testing.T) {
	source := func() *commits {
		c := newCommits()
		c.add(&commit{id: "1", tables: map[string]*touched{"t": {stamps: []int64{1, 2}}, "u": {stamps: []int64{3}}}})
		c.add(&commit{id: "2", tables: map[string]*touched{"t": {deletes: 1}}})
		return c
	}
	log := func() *trail {
		return &trail{
			events: map[string]map[string]*logged{
				"1": {"t": {stamps: []int64{1, 2}, all: 2}, "u": {stamps: []int64{3}, all: 1}}, "2": {"t": {deletes: 1, all: 1}},
			},
			ends: map[string]map[string]int{"1": {"t": 2, "u": 1}, "2": {"t": 1}}, seen: map[versionID]int{}, loaded: map[versionID]int{},
		}
	}
	for _, c := range []struct {
		name, want string
		spoil      func(*trail)
	}{
		{"nothing", "", func(*trail) {}},
		{"a lost version", "lost: version 2", func(l *trail) { l.events["1"]["t"] = &logged{stamps: []int64{1}, all: 2} }},
		{"a lost table", "has no event", func(l *trail) { delete(l.events["1"], "u") }},
		{"a lost transaction", "lost: version 3", func(l *trail) { delete(l.events, "1"); delete(l.ends, "1") }},
		{"a lost delete", "deletes 1 rows", func(l *trail) { l.events["2"]["t"].deletes = 0 }},
		{"no END", "no END", func(l *trail) { delete(l.ends, "2") }},
		{"an event too many", "its END says", func(l *trail) { l.events["1"]["u"].all++ }},
		{"a version that was rolled back", "never was", func(l *trail) { l.events["1"]["u"].stamps = []int64{3, 4} }},
		{"a transaction that was rolled back", "never was", func(l *trail) {
			l.events["9"] = map[string]*logged{"t": {all: 1}}
			l.ends["9"] = map[string]int{"t": 1}
		}},
		{"a row that is loaded twice", "loaded twice", func(l *trail) { l.loaded[versionID{"t", 1}] = 2 }},
	} {
		l := log()
		c.spoil(l)
		l.check(source(), map[string]bool{"t": true, "u": true})
		err := l.err()
		switch {
		case err == nil && c.want != "":
			t.Errorf("%s: not found", c.name)
		case err != nil && (c.want == "" || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: got %v", c.name, err)
		}
	}
}
