// Command conformance judges the broker with clients and tools that others wrote: it builds the binary, starts nodes of its
// own and runs the suites one after the other.
//
//	go run ./itest/conformance -list
//	go run ./itest/conformance -run 'java/.*' -update
//
// A suite prints one line; the whole output is shown only of what failed. What a suite needs (a JDK, Maven) is
// installed as root on Debian and Ubuntu, and otherwise the suite fails naming it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"syscall"
	"time"

	"github.com/rowtrail/rowtrail/itest/process"
	"github.com/rowtrail/rowtrail/itest/toolchain"
)

func main() {
	var (
		pattern = flag.String("run", "", "run only the suites whose name matches this regular expression")
		list    = flag.Bool("list", false, "print the suites and stop")
		cache   = flag.String("cache", filepath.Join(".cache", "conformance"), "directory of builds, logs and data")
		seed    = flag.Uint64("seed", 0, "seed of the random choices; 0: a new one, which is printed")
		keep    = flag.Bool("keep", false, "keep the nodes' data directories of suites that passed")
	)
	update := flag.Bool("update", false, "write the results to docs/clients.md")
	rdkafka := flag.String("librdkafka", "", "source tree of librdkafka: run its own tests instead of the suites")
	flag.Parse()
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	failed, err := run(ctx, *pattern, *cache, *rdkafka, *seed, *list, *keep, *update)
	if err != nil {
		fmt.Fprintln(os.Stderr, "conformance:", err)
		os.Exit(2)
	}
	if failed > 0 {
		os.Exit(1)
	}
}

func run(ctx context.Context, pattern, cache, rdkafka string, seed uint64, list, keep, update bool) (failed int, err error) {
	selected, err := regexp.Compile(pattern)
	if err != nil {
		return 0, fmt.Errorf("-run: %w", err)
	}
	families := func() ([]Suite, error) { return allSuites(".") }
	if rdkafka != "" {
		if update {
			return 0, errors.New("-update: the page has no results of librdkafka's own tests")
		}
		families = func() ([]Suite, error) { return librdkafkaSuites(rdkafka) }
	}
	suites, err := families()
	if err != nil {
		return 0, err
	}
	if list {
		for _, s := range suites {
			fmt.Printf("%-28s %-24s %s\n", s.Name, s.Client, s.Judges)
		}
		return 0, nil
	}
	if cache, err = filepath.Abs(cache); err != nil {
		return 0, err
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return 0, err
	}
	binary, err := process.Build(cache)
	if err != nil {
		return 0, err
	}
	if seed == 0 {
		seed = rand.Uint64()
	}
	fmt.Printf("conformance: seed %d\n", seed)
	env := &Env{Cache: cache, Seed: seed, binary: binary, keep: keep, tools: &toolchain.Chain{}}
	results, err := readOutcomes(".")
	if err != nil {
		return 0, err
	}
	failed, err = runSuites(ctx, env, suites, selected, results)
	if update {
		err = errors.Join(err, results.update(".", suites))
	}
	return failed, err
}

func runSuites(ctx context.Context, env *Env, suites []Suite, selected *regexp.Regexp, results outcomes) (failed int, err error) {
	started := time.Now()
	var ran, passedTests, failedTests int
	var failures []string
	for _, s := range suites {
		if !selected.MatchString(s.Name) {
			continue
		}
		ran++
		result := env.runSuite(ctx, s)
		if ctx.Err() == nil {
			results.record(s, result)
		}
		passedTests += result.Passed
		word := "ok"
		if result.Err != nil {
			word = "FAIL"
			failedTests += max(result.Failed, 1)
			failures = append(failures, s.Name)
			fmt.Printf("--- FAIL: %s\n%s\n%v\n", s.Name, result.Output, result.Err)
		}
		fmt.Printf("%-4s %-28s %-24s %4d tests %6.1fs\n", word, s.Name, s.Client, result.Passed+result.Failed, result.Took.Seconds())
		if ctx.Err() != nil {
			return len(failures), fmt.Errorf("interrupted: %w", ctx.Err())
		}
	}
	if ran == 0 {
		return 0, fmt.Errorf("no suite matches -run %q; -list prints their names", selected)
	}
	if len(failures) > 0 {
		fmt.Println("failed:")
		for _, name := range failures {
			fmt.Println("  " + name)
		}
	}
	fmt.Printf("took %s\n%d passed, %d failed\n", time.Since(started).Round(time.Second), passedTests, failedTests)
	return len(failures), nil
}
