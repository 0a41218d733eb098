package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"

	"github.com/rowtrail/rowtrail/itest/process"
	"github.com/rowtrail/rowtrail/itest/toolchain"
)

// pythonProject has the programs that judge with confluent-kafka, and the pin of it.
const pythonProject = "itest/clients/python"

// python is the family's state: its virtual environment is made once.
type python struct {
	root string
	once sync.Once
	dir  string // the virtual environment
	err  error
}

func pythonSuites(root string) ([]Suite, error) {
	pins, err := os.ReadFile(filepath.Join(root, pythonProject, "requirements.txt"))
	if err != nil {
		return nil, fmt.Errorf("run this in the repository's root: %w", err)
	}
	pin := regexp.MustCompile(`(?m)^confluent-kafka==(\S+)`).FindSubmatch(pins)
	if pin == nil {
		return nil, fmt.Errorf("%s/requirements.txt pins no confluent-kafka", pythonProject)
	}
	p := &python{root: root}
	suites := []Suite{
		{Name: "python/records", Judges: "codecs, idempotence, headers, nulls, times, limits, compacted topics", Run: p.tests("records.py")},
		{Name: "python/groups", Judges: "members that join and leave, cooperative and static ones, commits; the same by the consumer protocol (KIP-848)", Run: p.tests("groups.py")},
		{Name: "python/transactions", Judges: "isolation, fencing, offsets, a loop of consume, transform and produce over SIGKILLs", Run: p.tests("transactions.py")},
		{Name: "python/admin", Judges: "topics, settings one by one, offsets of partitions and of groups", Run: p.tests("administration.py")},
	}
	for i := range suites {
		suites[i].Client = "confluent-kafka " + string(pin[1])
		suites[i].Tools = []Tool{{"python3", []string{"python3", "python3-venv"}}}
		suites[i].Build = p.build
	}
	return suites, nil
}

// build makes a virtual environment with the pinned client, once; not again while the pin is the same.
func (p *python) build(ctx context.Context, env *Env) error {
	p.once.Do(func() {
		p.dir = filepath.Join(env.Cache, "python")
		pins := filepath.Join(p.root, pythonProject, "requirements.txt")
		p.err = buildOnce(p.dir, []string{pins}, func() error {
			// As root on Debian a Python can be there without the module that makes environments.
			if _, err := output(ctx, ".", "python3", "-c", "import ensurepip, venv"); err != nil {
				if err := env.tools.Install(ctx, toolchain.Tool(Tool{"python3", []string{"python3-venv"}})); err != nil {
					return err
				}
			}
			if out, err := output(ctx, ".", "python3", "-m", "venv", p.dir); err != nil {
				return fmt.Errorf("%w: %s", err, out)
			}
			out, err := output(ctx, ".", filepath.Join(p.dir, "bin", "pip"), "install", "-q", "--require-hashes", "-r", pins)
			if err != nil {
				return fmt.Errorf("%w: %s", err, out)
			}
			return nil
		})
	})
	return p.err
}

// tests runs one program of tests against a node of its own.
func (p *python) tests(program string) func(context.Context, *Env, *Result) error {
	return func(ctx context.Context, env *Env, r *Result) error {
		file, err := filepath.Abs(filepath.Join(p.root, pythonProject, program))
		if err != nil {
			return err
		}
		// -B: no compiled files beside the sources.
		return env.runTests(ctx, r, process.Config{}, filepath.Join(p.dir, "bin", "python"), "-B", file)
	}
}

// runTests starts a node and runs a program of tests, which learns from BOOTSTRAP where the node is, and
// prints a line of pass or fail per test.
func (e *Env) runTests(ctx context.Context, r *Result, cfg process.Config, argv ...string) error {
	node, err := e.Node(ctx, cfg)
	if err != nil {
		return err
	}
	r.Output, err = output(ctx, e.Dir, append([]string{"env", "BOOTSTRAP=" + node.Kafka}, argv...)...)
	r.count(r.Output)
	return err
}

// buildOnce calls make when dir was not made of the same files; it starts from an absent directory.
func buildOnce(dir string, files []string, make func() error) error {
	var sum strings.Builder
	for _, file := range files {
		part, err := toolchain.HashFiles(file)
		if err != nil {
			return err
		}
		sum.WriteString(part + "\n")
	}
	stamp := filepath.Join(dir, "built")
	if built, err := os.ReadFile(stamp); err == nil && string(built) == sum.String() {
		return nil
	}
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	if err := make(); err != nil {
		return fmt.Errorf("build %s: %w", filepath.Base(dir), err)
	}
	return os.WriteFile(stamp, []byte(sum.String()), 0o644)
}
