package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/rowtrail/rowtrail/itest/process"
)

const (
	franzModule = "github.com/twmb/franz-go"
	// franzRecords sizes the tests that move records through chains of groups and transactions.
	franzRecords      = 50_000
	franzChaosRecords = 20_000
	franzLimit        = 12 * time.Minute
)

// notForOneNode are the tests of the package that skip themselves here, and why. Any other skip is a failure: the tests
// skip what the broker does not advertise.
func notForOneNode() map[string]string {
	const share = "share groups are not advertised"
	return map[string]string{
		"TestShareGroup": share, "TestShareGroupETL": share, "TestShareGroupAckOnClose": share,
		"TestShareGroupOffsetsAdmin": share, "TestConsumeRegexShareSkipsInternal": share,
		"TestSCRAMAuth":                            "wants a listener with log-ins",
		"TestSCRAMAuthBadCredentials":              "wants a listener with log-ins",
		"TestOAuthAuth":                            "OAUTHBEARER is not offered",
		"TestIssueProduceBrokerTooOldFailsRecords": "wants a broker that refuses to advertise Produce version 2; it stays advertised for librdkafka",
	}
}

// franz is the test suite of franz-go's own client, built from the module that Rowtrail itself uses.
type franz struct {
	root, version string
	once          sync.Once
	dir           string
	err           error
}

func franzSuites(root string) ([]Suite, error) {
	mod, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		return nil, fmt.Errorf("run this in the repository's root: %w", err)
	}
	pin := regexp.MustCompile(`(?m)^\s*` + regexp.QuoteMeta(franzModule) + ` (v\S+)`).FindSubmatch(mod)
	if pin == nil {
		return nil, fmt.Errorf("go.mod requires no %s", franzModule)
	}
	f := &franz{root: root, version: string(pin[1])}
	suites := []Suite{
		{Name: "franz-go/kgo", Judges: "its whole test suite: groups of both protocols, transactions, regexes, large records", Run: f.whole},
		{Name: "franz-go/chaos", Judges: "chains of groups and of transactions whose members come and go", Run: f.chaos},
	}
	for i := range suites {
		suites[i].Client, suites[i].Build, suites[i].Limit = "franz-go "+f.version, f.build, franzLimit
		suites[i].Tools = []Tool{{"go", []string{"golang-go"}}}
	}
	return suites, nil
}

// build compiles the tests from a copy of the module: files of the module cache are read-only, and its module is the main one here.
func (f *franz) build(ctx context.Context, env *Env) error {
	f.once.Do(func() {
		f.dir = filepath.Join(env.Cache, "franz-go")
		f.err = buildOnce(f.dir, []string{filepath.Join(f.root, "go.mod")}, func() error {
			source, err := output(ctx, f.root, "go", "list", "-m", "-f", "{{.Dir}}", franzModule)
			if err != nil {
				return fmt.Errorf("%w: %s", err, source)
			}
			if err := os.CopyFS(f.dir, os.DirFS(strings.TrimSpace(source))); err != nil {
				return err
			}
			if out, err := output(ctx, f.dir, "go", "test", "-c", "-o", "kgo.test", "./pkg/kgo"); err != nil {
				return fmt.Errorf("%w: %s", err, out)
			}
			return nil
		})
	})
	return f.err
}

func (f *franz) whole(ctx context.Context, env *Env, r *Result) error {
	return f.run(ctx, env, r, franzRecords, nil)
}

func (f *franz) chaos(ctx context.Context, env *Env, r *Result) error {
	return f.run(ctx, env, r, franzChaosRecords, []string{"KGO_TEST_CHAOS=1"}, "-test.run", "^(TestGroupETL|TestTxnEtl)$")
}

func (f *franz) run(ctx context.Context, env *Env, r *Result, records int, environment []string, args ...string) error {
	node, err := env.Node(ctx, process.Config{})
	if err != nil {
		return err
	}
	argv := append([]string{"env", "KGO_SEEDS=" + node.Kafka, "KGO_TEST_RF=1", "KGO_TEST_RECORDS=" + strconv.Itoa(records)}, environment...)
	argv = append(argv, filepath.Join(f.dir, "kgo.test"), "-test.v", "-test.timeout", franzLimit.String())
	out, err := output(ctx, filepath.Join(f.dir, "pkg", "kgo"), append(argv, args...)...)
	unexpected := r.countGo(out, notForOneNode())
	if err != nil || len(unexpected) > 0 {
		r.Output = failuresOf(out)
	}
	if err == nil && len(unexpected) > 0 {
		err = fmt.Errorf("skipped, though the suite lists no reason: %s", strings.Join(unexpected, ", "))
	}
	return err
}

// countGo counts the tests in the output of `go test -v`, and answers those that skipped themselves without being
// among the known.
func (r *Result) countGo(out string, known map[string]string) (unexpected []string) {
	skipped := map[string]bool{}
	// Tests of a test are indented.
	for _, m := range regexp.MustCompile(`(?m)^( *)--- (PASS|FAIL|SKIP): (\S+)`).FindAllStringSubmatch(out, -1) {
		switch indent, word, name := m[1], m[2], m[3]; {
		case word == "SKIP" && known[name] == "":
			skipped[name] = true
		case word == "SKIP" && indent == "":
			r.Skipped++
		case word == "PASS" && indent == "":
			r.Passed++
		case word == "FAIL" && indent == "":
			r.Failed++
		}
	}
	return slices.Sorted(maps.Keys(skipped))
}

// failuresOf are the last lines of an output, and those that tell what failed.
func failuresOf(out string) string {
	const lastLines = 150
	lines := strings.Split(out, "\n")
	var told []string
	for _, line := range lines[:max(0, len(lines)-lastLines)] {
		if strings.Contains(line, "--- FAIL") || strings.Contains(line, "_test.go:") && !strings.Contains(line, "deleting") {
			told = append(told, line)
		}
	}
	told = told[max(0, len(told)-lastLines):]
	return strings.Join(append(told, lines[max(0, len(lines)-lastLines):]...), "\n")
}
