package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const root = "../.."

// TestClientsPage keeps the table of docs/clients.md in step with the suites and their pinned versions: -update rewrites it.
func TestClientsPage(t *testing.T) {
	suites, err := allSuites(root)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	b.WriteString("\n| suite | client | judges |\n| --- | --- | --- |\n")
	for _, s := range suites {
		fmt.Fprintf(&b, "| %s | %s | %s |\n", s.Name, s.Client, s.Judges)
	}
	b.WriteString("\n")
	const begin, end = "<!-- suites: written by `go test ./itest/conformance -run ClientsPage -update` -->", "<!-- end of suites -->"
	file := filepath.Join(root, "docs", "clients.md")
	page, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(page), begin)
	got, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("%s lacks the lines %q and %q", file, begin, end)
	}
	if flag.Lookup("update").Value.String() == "true" {
		if err := os.WriteFile(file, []byte(before+begin+b.String()+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if got != b.String() {
		t.Errorf("%s is out of date: run `go test ./itest/conformance -run ClientsPage -update`\n%s", file, b.String())
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
