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
)

// goProject is a module of its own, so that its clients are no dependencies of Rowtrail.
const goProject = "itest/clients/go"

// goClients is the family's state: its tests are compiled once.
type goClients struct {
	root string
	once sync.Once
	dir  string // one test binary per package
	err  error
}

func goSuites(root string) ([]Suite, error) {
	mod, err := os.ReadFile(filepath.Join(root, goProject, "go.mod"))
	if err != nil {
		return nil, fmt.Errorf("run this in the repository's root: %w", err)
	}
	g := &goClients{root: root}
	compiler := Tool{"go", []string{"golang-go"}}
	suites := []Suite{
		{Name: "go/sarama", Client: "github.com/IBM/sarama", Judges: "protocol versions from 2.0 to its newest: codecs, idempotence, transactions, groups, administration", Tools: []Tool{compiler}},
		{Name: "go/segmentio", Client: "github.com/segmentio/kafka-go", Judges: "Reader with and without groups, Writer, Conn, Client, codecs, transactions", Tools: []Tool{compiler}},
		{Name: "go/confluent", Client: "github.com/confluentinc/confluent-kafka-go/v2", Judges: "codecs, groups of both protocols, transactions, administration, over its librdkafka", Tools: []Tool{compiler, {"cc", []string{"gcc", "libc6-dev"}}}},
	}
	for i := range suites {
		s := &suites[i]
		pin := regexp.MustCompile(`(?m)^\s*(?:require )?` + regexp.QuoteMeta(s.Client) + ` v(\S+)$`).FindSubmatch(mod)
		if pin == nil {
			return nil, fmt.Errorf("%s/go.mod requires no %s as a direct dependency", goProject, s.Client)
		}
		_, folder, _ := strings.Cut(s.Name, "/")
		s.Client = strings.TrimPrefix(s.Client, "github.com/") + " " + string(pin[1])
		s.Build, s.Run = g.build, g.tests(folder)
	}
	return suites, nil
}

func (g *goClients) build(ctx context.Context, env *Env) error {
	g.once.Do(func() {
		g.dir = filepath.Join(env.Cache, "go")
		source := filepath.Join(g.root, goProject)
		g.err = buildOnce(g.dir, []string{source}, func() error {
			if err := os.MkdirAll(g.dir, 0o755); err != nil {
				return err
			}
			if out, err := output(ctx, source, "go", "test", "-c", "-o", g.dir+string(filepath.Separator), "./..."); err != nil {
				return fmt.Errorf("%w: %s", err, out)
			}
			return nil
		})
	})
	return g.err
}

// tests runs one package of tests against a node of its own. None of them may skip itself.
func (g *goClients) tests(folder string) func(context.Context, *Env, *Result) error {
	return func(ctx context.Context, env *Env, r *Result) error {
		node, err := env.Node(ctx, process.Config{})
		if err != nil {
			return err
		}
		out, err := output(ctx, env.Dir, "env", "BOOTSTRAP="+node.Kafka, filepath.Join(g.dir, folder+".test"), "-test.v", "-test.timeout", suiteTimeout.String())
		r.Output = out
		if skipped := r.countGo(out, nil); err == nil && len(skipped) > 0 {
			err = fmt.Errorf("skipped: %s", strings.Join(skipped, ", "))
		}
		return err
	}
}
