package main

import (
	"bufio"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/rowtrail/rowtrail/itest/process"
)

// librdkafkaList names every test of the suite by its number: those that run, and those that do not with the reason.
//
//go:embed librdkafka.txt
var librdkafkaList string

// librdkafkaLimit is for all tests; a single one has librdkafkaTestLimit.
const (
	librdkafkaLimit     = 40 * time.Minute
	librdkafkaTestLimit = 3 * time.Minute
)

// librdkafkaTests reads a list: a number a line, with a reason behind a dash where it is not run.
func librdkafkaTests(list string) (run []string, excluded map[string]string, err error) {
	excluded = map[string]string{}
	seen := map[string]bool{}
	number := regexp.MustCompile(`^\d{4}$`)
	scanner := bufio.NewScanner(strings.NewReader(list))
	for scanner.Scan() {
		line := strings.TrimSpace(scanner.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		name, reason, out := strings.Cut(line, " - ")
		if !number.MatchString(name) || seen[name] || out && reason == "" {
			return nil, nil, fmt.Errorf("librdkafka.txt: %q is no new number, alone or with a reason behind \" - \"", line)
		}
		seen[name] = true
		if out {
			excluded[name] = reason
		} else {
			run = append(run, name)
		}
	}
	return run, excluded, scanner.Err()
}

// librdkafkaSuites are of librdkafka's source tree in dir, which is built where it is.
func librdkafkaSuites(dir string) ([]Suite, error) {
	header, err := os.ReadFile(filepath.Join(dir, "src", "rdkafka.h"))
	if err != nil {
		return nil, fmt.Errorf("%s is no source tree of librdkafka: %w", dir, err)
	}
	version := regexp.MustCompile(`#define RD_KAFKA_VERSION 0x(\S{6})`).FindSubmatch(header)
	if version == nil {
		return nil, fmt.Errorf("%s/src/rdkafka.h tells no version", dir)
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return nil, err
	}
	return []Suite{{
		Name: "librdkafka/tests", Client: "librdkafka 0x" + string(version[1]), Judges: "its own tests, but those of librdkafka.txt with a reason",
		Tools: []Tool{{"make", []string{"make"}}, {"g++", []string{"g++", "gcc", "libc6-dev", "zlib1g-dev", "libssl-dev"}}},
		Limit: librdkafkaLimit,
		Build: func(ctx context.Context, _ *Env) error { return buildLibrdkafka(ctx, dir) },
		Run:   func(ctx context.Context, env *Env, r *Result) error { return runLibrdkafka(ctx, env, r, dir) },
	}}, nil
}

func buildLibrdkafka(ctx context.Context, dir string) error {
	steps := [][]string{{"make", "-j2", "libs"}, {"make", "-j2", "-C", "tests", "build"}}
	if _, err := os.Stat(filepath.Join(dir, "Makefile.config")); errors.Is(err, os.ErrNotExist) {
		steps = append([][]string{{"./configure", "--disable-gssapi", "--disable-lz4-ext"}}, steps...)
	}
	for _, step := range steps {
		if out, err := output(ctx, dir, step...); err != nil {
			return fmt.Errorf("build librdkafka: %w: %s", err, failuresOf(out))
		}
	}
	return nil
}

func runLibrdkafka(ctx context.Context, env *Env, r *Result, dir string) error {
	run, _, err := librdkafkaTests(librdkafkaList)
	if err != nil {
		return err
	}
	// The tests expect that topics are created when they are asked for, with four partitions.
	node, err := env.Node(ctx, process.Config{Log: map[string]string{"num.partitions": "4"}})
	if err != nil {
		return err
	}
	conf := filepath.Join(env.Dir, "test.conf")
	if err := os.WriteFile(conf, []byte("metadata.broker.list="+node.Kafka+"\ntest.timeout.multiplier=2\n"), 0o644); err != nil {
		return err
	}
	var failed []string
	for _, number := range run {
		begun := time.Now()
		out, err := runLibrdkafkaTest(ctx, dir, conf, number)
		passed := regexp.MustCompile(number + `_\S*\s*\|\s*PASSED`).MatchString(out) // a skipped test ends well, too
		fmt.Printf("     librdkafka %s %-6s %5.1fs\n", number, map[bool]string{true: "ok", false: "FAIL"}[err == nil && passed], time.Since(begun).Seconds())
		if err != nil || !passed {
			r.Failed++
			failed = append(failed, number)
			r.Output += failuresOf(out) + "\n"
			continue
		}
		r.Passes()
	}
	if len(failed) > 0 {
		return fmt.Errorf("failed, or passed nothing: %s", strings.Join(failed, ", "))
	}
	return nil
}

func runLibrdkafkaTest(ctx context.Context, dir, conf, number string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, librdkafkaTestLimit)
	defer cancel()
	// One at a time, quick, and without what slows sockets down.
	return output(ctx, filepath.Join(dir, "tests"), "env", "TESTS="+number, "RDKAFKA_TEST_CONF="+conf,
		"LD_LIBRARY_PATH=../src:../src-cpp", "./test-runner", "-p1", "-Q", "-E")
}
