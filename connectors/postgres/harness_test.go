package postgres

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/goleak"

	"github.com/rowtrail/rowtrail/connectors"
	"github.com/rowtrail/rowtrail/connectors/event"
	"github.com/rowtrail/rowtrail/itest/fakelog"
)

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) != "" {
		os.Exit(childMain())
	}
	code := m.Run()
	if err := removeShared(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	if code == 0 && !fuzzing() {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// fuzzing tells that the fuzzer, whose goroutines stay, runs.
func fuzzing() bool {
	for _, name := range []string{"test.fuzz", "test.fuzzworker"} {
		if f := flag.Lookup(name); f != nil && f.Value.String() != "" && f.Value.String() != "false" {
			return true
		}
	}
	return false
}

// testLog is a Kafka-protocol log for one test.
type testLog struct {
	t       testing.TB
	brokers string
	opts    []kgo.Opt
	// connector are the options of the connector's clients, if they differ.
	connector []kgo.Opt
}

func newLog(t testing.TB, partitions int) *testLog {
	t.Helper()
	cluster := fakelog.Start(t, kfake.DefaultNumPartitions(partitions))
	return &testLog{t: t, opts: []kgo.Opt{kgo.SeedBrokers(cluster.ListenAddrs()...)}}
}

// config parses a test's configuration over usual properties.
func config(t testing.TB, d *database, props map[string]string) *Config {
	t.Helper()
	all := map[string]string{
		"database.dsn": d.dsn(), "topic.prefix": "p", "slot.name": "slot_" + d.name, "publication.name": "pub_" + d.name,
		"table.include.list": "public\\..*", "status.update.interval.ms": "200",
	}
	for k, v := range props {
		all[k] = v
	}
	c, errs := ParseConfig("c", all)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	return c
}

// running is a connector under test.
type running struct {
	t      testing.TB
	c      *Connector
	cancel context.CancelFunc
	done   chan error
	ended  bool
}

func start(t testing.TB, l *testLog, c *Config) *running {
	t.Helper()
	out := io.Discard
	if testing.Verbose() {
		out = os.Stderr
	}
	logger := slog.New(slog.NewTextHandler(out, &slog.HandlerOptions{Level: slog.LevelInfo}))
	opts := l.opts
	if l.connector != nil {
		opts = l.connector
	}
	conn, err := New(c, connectors.Deps{Client: opts, Logger: logger, Version: "test"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	r := &running{t: t, c: conn, cancel: cancel, done: make(chan error, 1)}
	go func() { r.done <- conn.Run(ctx) }()
	t.Cleanup(func() { _ = r.stop() })
	return r
}

func (r *running) stop() error {
	if r.ended {
		return nil
	}
	r.ended = true
	r.cancel()
	return <-r.done
}

// fails waits for the connector to end with a fault and returns it.
func (r *running) fails() error {
	r.t.Helper()
	select {
	case err := <-r.done:
		r.ended = true
		if !connectors.IsFault(err) {
			r.t.Fatalf("ended with %v, want a fault", err)
		}
		return err
	case <-time.After(20 * time.Second):
		r.t.Fatalf("did not fail: %+v", r.c.Status())
		return nil
	}
}

func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatal("timed out: " + what)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func (r *running) streaming() *running {
	r.t.Helper()
	eventually(r.t, "streaming", func() bool {
		s := r.c.Status()
		if s.State == connectors.StateFailed {
			r.t.Fatal(s.Error)
		}
		return s.State == connectors.StateStreaming
	})
	return r
}

// rec is a decoded record.
type rec struct {
	Topic     string
	Partition int32
	Offset    int64
	Key       string
	Value     string
	Tombstone bool
	Pos       event.Position
	Headers   map[string]string
	Op        string
	Before    map[string]any
	After     map[string]any
	Source    map[string]any
}

// read returns the committed records of topics up to the end, in partition order.
func (l *testLog) read(topics ...string) []rec {
	l.t.Helper()
	var list []rec
	for _, r := range fakelog.Read(l.t, l.opts, topics...) {
		list = append(list, decode(l.t, r))
	}
	sort.SliceStable(list, func(i, j int) bool {
		a, b := list[i], list[j]
		if a.Topic != b.Topic {
			return a.Topic < b.Topic
		}
		if a.Partition != b.Partition {
			return a.Partition < b.Partition
		}
		return a.Offset < b.Offset
	})
	return list
}

func decode(t testing.TB, r *kgo.Record) rec {
	t.Helper()
	out := rec{Topic: r.Topic, Partition: r.Partition, Offset: r.Offset, Key: string(r.Key), Value: string(r.Value), Tombstone: r.Value == nil, Headers: map[string]string{}}
	for _, h := range r.Headers {
		if h.Key == event.PositionHeader {
			var err error
			if out.Pos, err = event.ParsePosition(h.Value); err != nil {
				t.Fatal(err)
			}
			continue
		}
		out.Headers[h.Key] = string(h.Value)
	}
	var v struct {
		Op     string         `json:"op"`
		Before map[string]any `json:"before"`
		After  map[string]any `json:"after"`
		Source map[string]any `json:"source"`
	}
	if bytes.HasPrefix(r.Value, []byte(`{"before"`)) {
		d := json.NewDecoder(strings.NewReader(out.Value))
		d.UseNumber()
		if err := d.Decode(&v); err != nil {
			t.Fatalf("%s: %v", out.Value, err)
		}
	}
	out.Op, out.Before, out.After, out.Source = v.Op, v.Before, v.After, v.Source
	return out
}

// waitFor reads a topic until it has n records.
func (l *testLog) waitFor(n int, topics ...string) []rec {
	l.t.Helper()
	var list []rec
	eventually(l.t, fmt.Sprintf("%d records in %v", n, topics), func() bool {
		list = l.read(topics...)
		return len(list) >= n
	})
	if len(list) > n {
		l.t.Fatalf("%d records in %v, want %d: %+v", len(list), topics, n, list)
	}
	return list
}

func (r rec) String() string {
	if r.Tombstone {
		return "tombstone " + r.Key
	}
	b, _ := json.Marshal(r.Before)
	a, _ := json.Marshal(r.After)
	return fmt.Sprintf("%s %s %s -> %s", r.Op, r.Key, b, a)
}

func summary(list []rec) string {
	var b strings.Builder
	for _, r := range list {
		b.WriteString(r.String())
		b.WriteByte('\n')
	}
	return b.String()
}

func equal(t testing.TB, got, want string) {
	t.Helper()
	if strings.TrimSpace(got) != strings.TrimSpace(want) {
		t.Fatalf("got:\n%s\nwant:\n%s", got, want)
	}
}
