package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/rowtrail/rowtrail/itest/process"
	"github.com/rowtrail/rowtrail/itest/toolchain"
)

// suiteTimeout ends a suite whose client waits for ever. Installing and building are not part of it.
const suiteTimeout = 5 * time.Minute

// prepareTimeout bounds the installation of tools and the build of a client: both fetch packages.
const prepareTimeout = 15 * time.Minute

// logTail is how many lines of a log the output of a failure shows.
const logTail = 30

// Tool is a program that a suite needs.
type Tool toolchain.Tool

// toolsOf are a suite's tools as the chain takes them.
func toolsOf(list ...Tool) []toolchain.Tool {
	out := make([]toolchain.Tool, len(list))
	for i, t := range list {
		out[i] = toolchain.Tool(t)
	}
	return out
}

// Suite is one judge.
type Suite struct {
	Name   string // family/what, as -run selects it
	Client string // the client and its pinned version
	Judges string // what it looks at, in a few words; docs/clients.md says the same
	Tools  []Tool
	Build  func(ctx context.Context, env *Env) error // makes the client, before the suite's time runs; may be nil
	Limit  time.Duration                             // 0: suiteTimeout
	Run    func(ctx context.Context, env *Env, r *Result) error
}

// Result is what a suite found. A suite that returns an error failed, whatever it counted.
type Result struct {
	Passed, Failed int
	Skipped        int           // with a reason that the suite lists; any other test that skips itself has failed
	Output         string        // shown when the suite failed
	Took           time.Duration // without installing and building
	Err            error
}

// Passes counts one check that held.
func (r *Result) Passes() { r.Passed++ }

// count reads the lines by which a client's tests tell how they went: pass, fail or skip, and a name. None is skipped:
// what the broker does not advertise, it does not do.
func (r *Result) count(output string) {
	for line := range strings.Lines(output) {
		word, _, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch word {
		case "pass":
			r.Passed++
		case "fail", "skip":
			r.Failed++
		}
	}
}

// Env is what a suite runs in. Its nodes die with the suite.
type Env struct {
	Cache string // builds of clients go to a directory of their own in here
	Dir   string // the suite's own scratch directory
	Seed  uint64 // of the suites' random choices; -seed repeats it

	binary string
	keep   bool
	tools  *toolchain.Chain
	nodes  []*process.Rowtrail
}

// allSuites are the suites of all families, in the order they run.
func allSuites(root string) ([]Suite, error) {
	var all []Suite
	for _, family := range []func(root string) ([]Suite, error){
		javaSuites, pythonSuites, nodeSuites, goSuites, franzSuites, kcatSuites,
	} {
		suites, err := family(root)
		if err != nil {
			return nil, err
		}
		all = append(all, suites...)
	}
	return all, nil
}

func (e *Env) runSuite(ctx context.Context, s Suite) *Result {
	r := &Result{}
	own := *e
	own.Dir = filepath.Join(e.Cache, "run", strings.ReplaceAll(s.Name, "/", "-"))
	defer func() {
		if r.Err == nil && !e.keep {
			r.Err = os.RemoveAll(own.Dir)
		}
	}()
	defer own.stopNodes(r)
	if r.Err = os.RemoveAll(own.Dir); r.Err != nil {
		return r
	}
	if r.Err = os.MkdirAll(own.Dir, 0o755); r.Err != nil {
		return r
	}
	preparing := time.Now()
	if r.Err = e.prepare(ctx, s); r.Err != nil {
		return r
	}
	if took := time.Since(preparing); took > time.Second {
		fmt.Printf("made what %s needs in %.1fs\n", s.Name, took.Seconds())
	}
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(s.Limit, suiteTimeout))
	defer cancel()
	begun := time.Now()
	r.Err = s.Run(ctx, &own, r)
	r.Took = time.Since(begun)
	if r.Err == nil && r.Failed > 0 {
		r.Err = fmt.Errorf("%d tests failed or were skipped", r.Failed)
	}
	if r.Err == nil && r.Passed == 0 {
		r.Err = errors.New("the suite ran no test")
	}
	return r
}

// prepare installs what a suite needs and builds its client.
func (e *Env) prepare(ctx context.Context, s Suite) error {
	ctx, cancel := context.WithTimeout(ctx, prepareTimeout)
	defer cancel()
	if err := e.tools.Need(ctx, toolsOf(s.Tools...)); err != nil || s.Build == nil {
		return err
	}
	return s.Build(ctx, e)
}

// Node starts a node and waits until it is ready.
func (e *Env) Node(ctx context.Context, cfg process.Config) (*process.Rowtrail, error) {
	dir := filepath.Join(e.Dir, fmt.Sprintf("node%d", len(e.nodes)+1))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	node, err := process.New(e.binary, dir, cfg)
	if err != nil {
		return nil, err
	}
	e.nodes = append(e.nodes, node)
	return node, restart(ctx, node)
}

// restart starts a node that is not running and waits until it is ready.
func restart(ctx context.Context, node *process.Rowtrail) error {
	if err := node.Start(); err != nil {
		return err
	}
	return node.WaitReady(ctx)
}

// stopNodes ends the suite's nodes; one that does not end well fails the suite.
func (e *Env) stopNodes(r *Result) {
	for _, node := range e.nodes {
		if err := node.Stop(); err != nil {
			r.Err = errors.Join(r.Err, err)
		}
	}
	if r.Err == nil {
		return
	}
	logs, err := filepath.Glob(filepath.Join(e.Dir, "*.log"))
	r.Err = errors.Join(r.Err, err)
	for _, log := range logs {
		r.Output += fmt.Sprintf("\nlast lines of %s:\n%s\n", log, tail(log))
	}
	for _, node := range e.nodes {
		r.Output += fmt.Sprintf("\nlast lines of %s:\n%s\n", node.LogFile(), node.Tail(logTail))
	}
}

// tail is the end of a client's log.
func tail(file string) string {
	content, err := os.ReadFile(file)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(content)), "\n")
	return strings.Join(lines[max(0, len(lines)-logTail):], "\n")
}
