package check

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rowtrail/rowtrail/itest/process"
)

// checkTimeout is for one run of the binary.
const checkTimeout = 90 * time.Second

var binary string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "rowtrail-check-")
	if err == nil {
		binary, err = process.Build(dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// finding is one result of check.
type finding struct{ Where, Level, Subject, Problem, Remedy string }

func (f finding) String() string {
	return fmt.Sprintf("%s: %s: %s: %s; %s", f.Where, f.Level, f.Subject, f.Problem, f.Remedy)
}

// ask runs the binary on a file with these connectors and sinks. Passwords are never printed.
func ask(t *testing.T, cfg process.Config) (findings []finding, code int) {
	t.Helper()
	n, err := process.New(binary, t.TempDir(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), checkTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary, "check", "--connect", "-c", n.ConfigFile(), "-o", "json")
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err = cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("check: %v\n%s", err, &errs)
	}
	if exit != nil {
		code = exit.ExitCode()
	}
	var report struct {
		OK       bool
		Findings []finding
	}
	if err := json.Unmarshal(out.Bytes(), &report); err != nil {
		t.Fatalf("check: exit %d, %v: %s%s", code, err, &out, &errs)
	}
	if report.OK != (code == 0) {
		t.Errorf("exit %d, ok %v", code, report.OK)
	}
	if strings.Contains(out.String(), secret) {
		t.Errorf("the password is printed: %s", &out)
	}
	if _, err := os.Stat(filepath.Join(n.Dir, "data")); err == nil {
		t.Error("check made the node's data directory")
	}
	return report.Findings, code
}

// secret is the password of every user that checks.
const secret = "s3cret-of-the-check"

// Levels of findings.
const (
	bad  = "error"
	warn = "warning"
)

// wrong is one misconfiguration.
type wrong struct {
	name   string
	breaks []string          // statements of an administrator that bring it about
	props  map[string]string // of the connector or sink, over the right ones
	typ    string            // of the connector; "": the right one
	level  string
	words  []string // of one finding: its subject, problem and remedy
	sql    []string // statements that the remedies hold word for word, and that mend it
	undo   []string // what mends it where no statement does; and what puts back what only the case needed
}

// server is what cases need of one.
type server struct {
	right process.Config // in which nothing is wrong
	exec  func(statements ...string) error
}

// with is the right configuration with a case's properties.
func (s *server) with(c *wrong) process.Config {
	cfg := s.right
	cfg.Connectors, cfg.Sinks = slices.Clone(cfg.Connectors), slices.Clone(cfg.Sinks)
	if len(cfg.Connectors) > 0 {
		cfg.Connectors[0].Config = over(cfg.Connectors[0].Config, c.props)
		if c.typ != "" {
			cfg.Connectors[0].Type = c.typ
		}
	} else {
		cfg.Sinks[0].Config = over(cfg.Sinks[0].Config, c.props)
	}
	return cfg
}

func over(props, own map[string]string) map[string]string {
	all := map[string]string{}
	for _, m := range []map[string]string{props, own} {
		for k, v := range m {
			if all[k] = v; v == "" {
				delete(all, k)
			}
		}
	}
	return all
}

// clean fails unless nothing is wrong.
func (s *server) clean(t *testing.T, cfg process.Config, when string) {
	t.Helper()
	if list, code := ask(t, cfg); len(list) > 0 || code != 0 {
		t.Errorf("%s: exit %d, %v", when, code, list)
	}
}

// try breaks the server, looks for the finding, runs the statements that it prints, and looks that it is gone.
func (s *server) try(t *testing.T, c *wrong) {
	t.Helper()
	if err := s.exec(c.breaks...); err != nil {
		t.Fatalf("break: %v", err)
	}
	list, code := ask(t, s.with(c))
	if want := map[string]int{bad: 1, warn: 0}[c.level]; code != want {
		t.Errorf("exit %d, want %d", code, want)
	}
	found := slices.ContainsFunc(list, func(f finding) bool {
		return f.Level == c.level && !slices.ContainsFunc(c.words, func(w string) bool { return !strings.Contains(f.String(), w) })
	})
	if !found {
		t.Errorf("no %s with %q in\n%v", c.level, c.words, list)
	}
	for _, sql := range c.sql {
		if !slices.ContainsFunc(list, func(f finding) bool { return strings.Contains(f.Remedy, sql) }) {
			t.Errorf("no remedy is %q in\n%v", sql, list)
		}
	}
	if err := s.exec(c.sql...); err != nil {
		t.Errorf("a statement that check prints: %v", err)
	}
	if len(c.sql) > 0 {
		s.clean(t, s.with(c), "after the statements that check prints")
	}
	if err := s.exec(c.undo...); err != nil {
		t.Fatalf("undo: %v", err)
	}
	s.clean(t, s.right, "afterwards")
}

// all tries cases one after the other on a server in which nothing else is wrong.
func (s *server) all(t *testing.T, cases []wrong) {
	t.Helper()
	s.clean(t, s.right, "with nothing wrong")
	for i := range cases {
		t.Run(cases[i].name, func(t *testing.T) { s.try(t, &cases[i]) })
	}
}
