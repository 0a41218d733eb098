package externallog

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/rowtrail/rowtrail/itest/certs"
	"github.com/rowtrail/rowtrail/itest/process"
	"github.com/rowtrail/rowtrail/log/sleep"
)

const root = "../.."

func logf(format string, args ...any) { fmt.Printf(format+"\n", args...) }

func binary(t *testing.T) string {
	t.Helper()
	if testing.Short() {
		t.Skip("starts databases and a log; run without -short")
	}
	path, err := process.Build(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return path
}

const (
	user     = "rowtrail"
	password = "log-of-the-shop"
)

// ways are how nodes reach a log: the listeners of one cluster.
type ways struct {
	plaintext, saslSSL, saslPlaintext Log
	ca                                string // of the certificate
}

func loginYAML(mechanism, password string) string {
	return fmt.Sprintf("    sasl: {mechanism: %s, name: %s, password: %q}\n", mechanism, user, password)
}

func tlsYAML(ca string) string { return fmt.Sprintf("    tls: {ca: %q}\n", ca) }

// apache starts Apache Kafka.
func apache(t *testing.T) *ways {
	t.Helper()
	cache, err := filepath.Abs(filepath.Join(root, ".cache", "externallog"))
	if err != nil {
		t.Fatal(err)
	}
	jars, err := Jars(t.Context(), root, cache)
	if err != nil {
		t.Fatal(err)
	}
	authority := certs.New(t)
	security := Security{User: user, Password: password}
	security.Cert, security.Key = authority.Issue(t, "kafka")
	k, err := StartKafka(t.Context(), jars, t.TempDir(), security)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := k.Close(); err != nil {
			t.Error(err)
		}
	})
	return &ways{
		plaintext: Log{Brokers: []string{k.Address}},
		saslSSL: Log{
			Brokers: []string{k.SASLSSL}, YAML: tlsYAML(authority.CA) + loginYAML("SCRAM-SHA-512", password),
			Client: []kgo.Opt{kgo.DialTLSConfig(authority.Client(t, "")), kgo.SASL(scram.Auth{User: user, Pass: password}.AsSha256Mechanism())},
		},
		saslPlaintext: Log{
			Brokers: []string{k.SASLPlaintext}, YAML: loginYAML("PLAIN", password),
			Client: []kgo.Opt{kgo.SASL(plain.Auth{User: user, Pass: password}.AsMechanism())},
		},
		ca: authority.CA,
	}
}

// second starts another Rowtrail that holds the log, over TLS and with a log-in.
func second(t *testing.T, binary string) *ways {
	t.Helper()
	authority := certs.New(t)
	cert, key := authority.Issue(t, "log")
	node, err := process.New(binary, t.TempDir(), process.Config{
		Node: map[string]string{"min_free_bytes": "1MiB"},
		ListenMore: fmt.Sprintf("  tls: {cert: %q, key: %q}\n  sasl: {mechanisms: [SCRAM-SHA-256, SCRAM-SHA-512], users: [{name: %s, password: %q}]}\n",
			cert, key, user, password),
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := node.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := node.Stop(); err != nil {
			t.Error(err)
		}
	})
	if err := node.WaitReady(t.Context()); err != nil {
		t.Fatal(err)
	}
	return &ways{ca: authority.CA, saslSSL: Log{
		Brokers: []string{node.Kafka}, YAML: tlsYAML(authority.CA) + loginYAML("SCRAM-SHA-256", password),
		Client: []kgo.Opt{kgo.DialTLSConfig(authority.Client(t, "")), kgo.SASL(scram.Auth{User: user, Pass: password}.AsSha512Mechanism())},
	}}
}

func open(t *testing.T, binary string, nodes int, log Log) *Shop {
	t.Helper()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	s, err := Open(t.Context(), Options{Binary: binary, Dir: t.TempDir(), Log: log, Nodes: nodes, Seed: seed, Logf: logf})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(s.logs())
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := s.Loaded(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *Shop) judge(t *testing.T) {
	t.Helper()
	report, err := s.Judge(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	logf("itest: %s: %d transactions, %d changes: lost=0 duplicated=0 torn=0, target equal", t.Name(), report.Transactions, report.Changes)
}

// background writes until the returned function is called, which waits for the end.
func (s *Shop) background(t *testing.T, transactions int64, rate int) (finish func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Work(ctx, transactions, rate) }()
	t.Cleanup(cancel)
	return func() {
		t.Helper()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
}

// kills ends the only node with SIGKILL again and again.
func kills(t *testing.T, s *Shop) {
	t.Helper()
	if err := s.Storm(t.Context(), 1500, 100, 5); err != nil {
		t.Fatal(err)
	}
	s.judge(t)
}

func TestApacheKafkaKilled(t *testing.T) {
	bin := binary(t)
	kafka := apache(t)
	s := open(t, bin, 1, kafka.saslSSL)
	kills(t, s)
	commands(t, s)
	refusals(t, bin, kafka)
}

func TestSecondRowtrailKilled(t *testing.T) {
	bin := binary(t)
	log := second(t, bin)
	kills(t, open(t, bin, 1, log.saslSSL))
	refusals(t, bin, log)
}

// refusals: a node that is not let in says once which setting to correct, and so does check.
func refusals(t *testing.T, binary string, log *ways) {
	t.Helper()
	foreign := certs.New(t)
	for _, c := range []struct {
		name, yaml, want string
		at               Log
	}{
		{"wrong password", tlsYAML(log.ca) + loginYAML("SCRAM-SHA-512", "guessed"), "correct log.kafka.sasl.name and password", log.saslSSL},
		{"wrong password by PLAIN", loginYAML("PLAIN", "guessed"), "correct log.kafka.sasl.name and password", log.saslPlaintext},
		{"mechanism", tlsYAML(log.ca) + loginYAML("PLAIN", password), "set log.kafka.sasl.mechanism to one that it allows", log.saslSSL},
		{"unknown authority", tlsYAML(foreign.CA) + loginYAML("SCRAM-SHA-512", password), "name its authority in log.kafka.tls.ca", log.saslSSL},
		{"no log-in", tlsYAML(log.ca), "set log.kafka.tls and log.kafka.sasl as that listener wants them", log.saslSSL},
		{"TLS where there is none", tlsYAML(log.ca) + loginYAML("PLAIN", password), "log.kafka.tls", log.saslPlaintext},
	} {
		if len(c.at.Brokers) == 0 {
			continue // this log has no such listener
		}
		t.Run(c.name, func(t *testing.T) {
			node, err := process.New(binary, t.TempDir(), process.Config{
				Node: map[string]string{"id": "7"}, Brokers: c.at.Brokers, KafkaMore: c.yaml,
				Sinks: []process.Sink{{Name: "far", Topics: []string{"x*"}, Config: map[string]string{"dsn": "postgres://nobody@127.0.0.1:1/x?sslmode=disable"}}},
			})
			if err != nil {
				t.Fatal(err)
			}
			out, err := node.CLI(t.Context(), "check", "--connect")
			if err == nil || !strings.Contains(out, c.want) || strings.Contains(out, "guessed") || strings.Contains(out, password) {
				t.Errorf("check: %v\n%s", err, out)
			}
			if err := node.Start(); err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := node.Stop(); err != nil {
					t.Error(err)
				}
			}()
			text := func() string {
				b, _ := os.ReadFile(node.LogFile())
				return string(b)
			}
			for deadline := time.Now().Add(30 * time.Second); !strings.Contains(text(), c.want); {
				if time.Now().After(deadline) {
					t.Fatalf("%q is not said:\n%s", c.want, text())
				}
				if !sleep.For(t.Context(), pollEvery) {
					t.Fatal(t.Context().Err())
				}
			}
			if !sleep.For(t.Context(), time.Second) { // in which it tries again
				t.Fatal(t.Context().Err())
			}
			if all := text(); strings.Count(all, c.want) != 1 || strings.Contains(all, "guessed") || strings.Contains(all, password) {
				t.Errorf("it is to be said once:\n%s", all)
			}
		})
	}
}

// commands asks the log through the node's file, as an operator does.
func commands(t *testing.T, s *Shop) {
	t.Helper()
	for _, c := range []struct{ args, want string }{
		{"topics", "shop.public.orders"},
		{"topics describe shop.position", "compact"},
		{"topics describe shop.transaction", "compact"},
		{"topics describe shop.schema", "compact"},
		{"topics describe __rowtrail_tasks", "compact"},
		{"groups", "__rowtrail_tasks"},
		{"groups describe rowtrail-sink-warehouse", "shop.public.orders"},
		{"connectors", "1 (here)"},
		{"sinks", "1 (here)"},
		{"connectors restart shop", "restarts on node 1"},
		{"sinks restart warehouse", "restarts on node 1"},
		{"check --connect", "ok"},
	} {
		out, err := s.Nodes[0].CLI(t.Context(), strings.Fields(c.args)...)
		if err != nil || !strings.Contains(out, c.want) {
			t.Errorf("rowtrail %s: %v, want %q in\n%s", c.args, err, c.want, out)
		}
	}
	if out, err := s.Nodes[0].CLI(t.Context(), "topics"); err != nil || strings.Contains(out, "__rowtrail_tasks") {
		t.Errorf("topics lists what is the nodes' own: %v\n%s", err, out)
	}
	if out, err := s.Nodes[0].CLI(t.Context(), "state", "shop.public.orders", "1"); err == nil || !strings.Contains(out, "log.kafka") {
		t.Errorf("state does not say why it has none: %v\n%s", err, out)
	}
	for _, role := range []string{"connectors", "sinks"} {
		if _, _, err := s.Runner(t.Context(), role, "streaming", time.Minute); err != nil {
			t.Error(err)
		}
	}
}

// TestNodeDies: of three nodes the one that runs the connector is killed, and the one that runs the sink.
func TestNodeDies(t *testing.T) {
	bin := binary(t)
	s := open(t, bin, 3, apache(t).saslPlaintext)
	finish := s.background(t, 1500, 60)
	for _, role := range []string{"connectors", "sinks"} {
		owner, _, err := s.Runner(t.Context(), role, "streaming", time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Nodes[owner].Kill(); err != nil {
			t.Fatal(err)
		}
		next, took, err := s.Runner(t.Context(), role, "streaming", time.Minute, owner)
		if err != nil {
			t.Fatal(err)
		}
		logf("itest: %s moved from node %d to node %d in %s", role, owner+1, next+1, took.Round(time.Millisecond))
		if took > 10*time.Second {
			t.Errorf("%s moved in %s", role, took)
		}
		if err := s.Nodes[owner].Start(); err != nil {
			t.Fatal(err)
		}
		if err := s.Nodes[owner].WaitReady(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	finish()
	s.judge(t)
}

// TestZombie: nodes are paused for longer than their session and go on when others have their tasks.
func TestZombie(t *testing.T) {
	bin := binary(t)
	s := open(t, bin, 2, apache(t).plaintext)
	finish := s.background(t, 3000, 60)
	for _, role := range []string{"connectors", "sinks"} {
		owner, _, err := s.Runner(t.Context(), role, "streaming", time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Nodes[owner].Pause(); err != nil {
			t.Fatal(err)
		}
		next, took, err := s.Runner(t.Context(), role, "streaming", time.Minute, owner)
		if err != nil {
			t.Fatal(err)
		}
		logf("itest: %s moved from paused node %d to node %d in %s", role, owner+1, next+1, took.Round(time.Millisecond))
		if err := s.Nodes[owner].Resume(); err != nil {
			t.Fatal(err)
		}
		// It says so, and is a member again: the group knows which tasks are where, and it does too.
		for deadline := time.Now().Add(time.Minute); ; {
			text, err := os.ReadFile(s.Nodes[owner].LogFile())
			var list []Status
			if err == nil && strings.Contains(string(text), "joining again") && ask(t.Context(), s.Nodes[owner], "/v1/connectors", &list) == nil && list[0].Node > 0 {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("node %d does not join again: %v %+v", owner+1, err, list)
			}
			if !sleep.For(t.Context(), pollEvery) {
				t.Fatal(t.Context().Err())
			}
		}
	}
	finish()
	s.judge(t)
}
