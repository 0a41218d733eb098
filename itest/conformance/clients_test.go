package main

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const root = "../.."

// TestClientsPage keeps the table of docs/clients.md in step with the suites, their pinned versions and their last results.
// -update rewrites it; results come from `make conformance UPDATE=1`.
func TestClientsPage(t *testing.T) {
	suites, err := allSuites(root)
	if err != nil {
		t.Fatal(err)
	}
	results, err := readOutcomes(root)
	if err != nil {
		t.Fatal(err)
	}
	if flag.Lookup("update").Value.String() == "true" {
		if err := results.update(root, suites); err != nil {
			t.Fatal(err)
		}
	}
	for _, lack := range results.lacks(suites) {
		t.Errorf("%s: run `make conformance UPDATE=1`, with RUN=name for a single suite", lack)
	}
	_, got, _, err := cutPage(filepath.Join(root, clientsPage))
	if err != nil {
		t.Fatal(err)
	}
	if want := results.table(suites); got != want {
		t.Errorf("%s is out of date: run `go test ./itest/conformance -run ClientsPage -update`\n%s", clientsPage, want)
	}
}

func TestResultsThatThePageCannotShow(t *testing.T) {
	suites := []Suite{{Name: "a/one", Client: "a 1"}, {Name: "a/two", Client: "a 1"}}
	whole := func() outcomes {
		o := outcomes{}
		for _, s := range suites {
			o.record(s, &Result{Passed: 3, Skipped: 1})
		}
		return o
	}
	if lacks := whole().lacks(suites); len(lacks) > 0 {
		t.Fatalf("a whole run lacks %q", lacks)
	}
	for name, spoil := range map[string]func(outcomes){
		"no result":      func(o outcomes) { delete(o, "a/two") },
		"a 1 is pinned":  func(o outcomes) { o["a/two"] = outcome{Client: "a 0", Passed: 3} },
		"3 / 1 / 0":      func(o outcomes) { o.record(suites[1], &Result{Passed: 3, Err: errors.New("refused")}) },
		"0 / 0 / 0":      func(o outcomes) { o.record(suites[1], &Result{}) },
		"a/three is no ": func(o outcomes) { o["a/three"] = outcome{} },
	} {
		o := whole()
		spoil(o)
		if lacks := o.lacks(suites); len(lacks) != 1 || !strings.Contains(lacks[0], name) {
			t.Errorf("%s: lacks %q", name, lacks)
		}
	}
}

func TestSuitesHaveDistinctNamesVersionsAndTools(t *testing.T) {
	suites, err := allSuites(root)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, s := range suites {
		if seen[s.Name] || !strings.Contains(s.Name, "/") {
			t.Errorf("name %q is taken, or has no family", s.Name)
		}
		seen[s.Name] = true
		if name, version, _ := strings.Cut(s.Client, " "); name == "" || version == "" {
			t.Errorf("%s: client %q has no version", s.Name, s.Client)
		}
		if s.Judges == "" || s.Run == nil || len(s.Tools) == 0 {
			t.Errorf("%s is incomplete", s.Name)
		}
		for _, tool := range s.Tools {
			if tool.Name == "" || len(tool.Packages) == 0 {
				t.Errorf("%s: tool %q names no package that brings it", s.Name, tool.Name)
			}
		}
	}
}

func TestMain(m *testing.M) {
	flag.Bool("update", false, "rewrite docs/clients.md")
	flag.Parse()
	os.Exit(m.Run())
}
