package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"

	"github.com/rowtrail/rowtrail/itest/process"
	"github.com/rowtrail/rowtrail/itest/toolchain"
)

// nodeProject has the programs that judge with the clients of Node, and their lock file.
const nodeProject = "itest/clients/node"

// nodeClients is the family's state: its packages are installed once.
type nodeClients struct {
	root string
	once sync.Once
	dir  string // a copy of the project with its packages
	err  error
}

func nodeSuites(root string) ([]Suite, error) {
	file, err := os.ReadFile(filepath.Join(root, nodeProject, "package.json"))
	if err != nil {
		return nil, fmt.Errorf("run this in the repository's root: %w", err)
	}
	var pins struct {
		Dependencies map[string]string `json:"dependencies"`
	}
	if err := json.Unmarshal(file, &pins); err != nil {
		return nil, fmt.Errorf("%s/package.json: %w", nodeProject, err)
	}
	n := &nodeClients{root: root}
	const confluent = "@confluentinc/kafka-javascript"
	suites := []Suite{
		{Name: "node/kafkajs", Client: "kafkajs " + pins.Dependencies["kafkajs"],
			Judges: "its codecs, headers, nulls, idempotence, groups, transactions, compacted topics, administration", Run: n.tests("kafkajs.js")},
		{Name: "node/confluent", Client: confluent + " " + pins.Dependencies[confluent],
			Judges: "the same with every codec, over its librdkafka", Run: n.tests("confluent.js")},
	}
	for i := range suites {
		suites[i].Tools = []Tool{{"node", []string{"nodejs"}}, {"npm", []string{"npm"}}}
		suites[i].Build = n.build
	}
	return suites, nil
}

// build installs what the lock file names, and compiles the native client.
func (n *nodeClients) build(ctx context.Context, env *Env) error {
	n.once.Do(func() {
		n.dir = filepath.Join(env.Cache, "node")
		source := filepath.Join(n.root, nodeProject)
		n.err = buildOnce(n.dir, []string{source}, func() error {
			if err := os.CopyFS(n.dir, os.DirFS(source)); err != nil {
				return err
			}
			if out, err := output(ctx, n.dir, "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"); err != nil {
				return fmt.Errorf("%w: %s", err, out)
			}
			return n.buildNative(ctx, env)
		})
	})
	return n.err
}

func (n *nodeClients) buildNative(ctx context.Context, env *Env) error {
	dir := filepath.Join(n.dir, "node_modules", "@confluentinc", "kafka-javascript")
	install := filepath.Join(n.dir, "node_modules", ".bin", "node-pre-gyp")
	// Compiled with the system's libraries: nothing is fetched but what the lock file names.
	const headers = `printf '#include <zlib.h>\n#include <zstd.h>\n#include <openssl/ssl.h>\n' | g++ -E -x c++ - >/dev/null && command -v make`
	if _, err := output(ctx, dir, "sh", "-c", headers); err != nil {
		compiler := Tool{"g++", []string{"g++", "make", "zlib1g-dev", "libzstd-dev", "libssl-dev", "libcurl4-openssl-dev"}}
		if err := env.tools.Install(ctx, toolchain.Tool(compiler)); err != nil {
			return err
		}
	}
	argv := []string{"env", "CKJS_LINKING=dynamic"}
	if node, err := exec.LookPath("node"); err == nil {
		prefix := filepath.Dir(filepath.Dir(node))
		if _, err := os.Stat(filepath.Join(prefix, "include", "node", "node.h")); err == nil {
			argv = append(argv, "npm_config_nodedir="+prefix)
		}
	}
	out, err := output(ctx, dir, append(argv, install, "install", "--build-from-source")...)
	if err != nil {
		return fmt.Errorf("%w: %s", err, failuresOf(out))
	}
	return nil
}

// tests runs one program of tests against a node of its own.
func (n *nodeClients) tests(program string) func(context.Context, *Env, *Result) error {
	return func(ctx context.Context, env *Env, r *Result) error {
		return env.runTests(ctx, r, process.Config{}, "node", filepath.Join(n.dir, program))
	}
}
