package binlogs

import (
	"context"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rowtrail/rowtrail/itest/servers"
)

// eventCheckpoint is MariaDB's, which writes it when it gets round to it.
const eventCheckpoint = 161

var (
	update = flag.Bool("update", false, "write testdata anew")
	only   = flag.String("script", "", "only this script of cases")
)

// TestFixturesAreWhatServersWrite runs every script on a real server and compares what is stored with it: the truth in
// full, and of the events their number and types, since times, ids and sizes that depend on them differ.
func TestFixturesAreWhatServersWrite(t *testing.T) {
	stored, err := Fixtures()
	if err != nil {
		t.Fatal(err)
	}
	names, err := Scripts()
	if err != nil {
		t.Fatal(err)
	}
	servers.EachMySQL(t, servers.Options{}, func(t *testing.T, m *servers.MySQL) {
		for _, name := range names {
			if *only != "" && *only != name {
				continue
			}
			t.Run(name, func(t *testing.T) {
				r, err := RunScript(context.Background(), m, name)
				if err != nil {
					t.Fatal(err)
				}
				if len(r.Steps) == 0 {
					return // for another flavour
				}
				id := strings.ReplaceAll(m.Version(), ":", "-") + "/" + name
				if *update {
					write(t, id, r)
					return
				}
				want := stored[id]
				if want == nil {
					t.Fatalf("no fixture %s: run this test with -update", id)
				}
				if diff := cmp.Diff(outline(want), outline(r)); diff != "" {
					t.Errorf("the server writes other than %s (-stored +now):\n%s", id, diff)
				}
			})
		}
	})
}

type outlineStep struct {
	SQL    string
	Types  []byte
	Tables []Table
}

func outline(r *Recording) []outlineStep {
	var steps []outlineStep
	for _, s := range r.Steps {
		o := outlineStep{SQL: s.SQL, Tables: s.Tables}
		for _, e := range s.Events {
			if EventType(e) != eventCheckpoint {
				o.Types = append(o.Types, EventType(e))
			}
		}
		steps = append(steps, o)
	}
	return steps
}

func write(t *testing.T, id string, r *Recording) {
	t.Helper()
	data, err := r.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join("testdata", id+".jsonl")
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, data, 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestFixturesBelongToScripts sees that every stored recording has the statements of its script, and that marshalling
// loses nothing.
func TestFixturesBelongToScripts(t *testing.T) {
	stored, err := Fixtures()
	if err != nil {
		t.Fatal(err)
	}
	names, err := Scripts()
	if err != nil {
		t.Fatal(err)
	}
	for id, r := range stored {
		version, name, _ := strings.Cut(id, "/")
		if !slices.Contains(names, name) {
			t.Errorf("%s has no script", id)
			continue
		}
		statements, err := script(name)
		if err != nil {
			t.Fatal(err)
		}
		var want, got []string
		for _, s := range statements {
			if s.only == "" || s.only == r.Flavour || s.only == strings.Replace(version, "-", ":", 1) {
				want = append(want, s.sql)
			}
		}
		events := 0
		for _, s := range r.Steps {
			got = append(got, s.SQL)
			events += len(s.Events)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s is not of its script: run with -update (-script +stored):\n%s", id, diff)
		}
		if events == 0 {
			t.Errorf("%s has no events", id)
		}
		data, err := r.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		again, err := Unmarshal(data)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(r, again); diff != "" {
			t.Errorf("%s changes when it is stored:\n%s", id, diff)
		}
	}
	if len(stored) == 0 {
		t.Error("no fixtures")
	}
}
