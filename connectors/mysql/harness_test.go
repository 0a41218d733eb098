package mysql

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sort"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-mysql-org/go-mysql/client"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/rowtrail/rowtrail/connectors"
	"github.com/rowtrail/rowtrail/connectors/event"
	"github.com/rowtrail/rowtrail/itest/fakelog"
	"github.com/rowtrail/rowtrail/itest/servers"
)

var (
	pool      servers.MySQLPool
	databases atomic.Int64
)

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) != "" {
		os.Exit(childMain())
	}
	code := m.Run()
	if err := pool.Close(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// testLog is a Kafka-protocol log for one test.
type testLog struct {
	t       testing.TB
	opts    []kgo.Opt
	addr    []string
	cluster *kfake.Cluster
	views   *views // nil: the log is another Kafka
}

func newLog(t testing.TB, partitions int) *testLog {
	t.Helper()
	cluster := fakelog.Start(t, kfake.DefaultNumPartitions(partitions))
	return &testLog{t: t, opts: []kgo.Opt{kgo.SeedBrokers(cluster.ListenAddrs()...)}, addr: cluster.ListenAddrs(), cluster: cluster}
}

// withViews is a log with views.
func withViews(t testing.TB, partitions int) *testLog {
	t.Helper()
	l := newLog(t, partitions)
	l.views = newViews(l.opts)
	return l
}

// database is one test's database, and a session in it.
type database struct {
	t      testing.TB
	server *servers.MySQL
	name   string
	conn   *client.Conn
}

func newDatabase(t testing.TB, server *servers.MySQL) *database {
	t.Helper()
	d := &database{t: t, server: server, name: fmt.Sprintf("t%d", databases.Add(1))}
	if err := server.CreateDatabase(context.Background(), d.name); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Exec(context.Background(), "", "DROP DATABASE "+d.name) })
	return d.session()
}

// session is another session in the database.
func (d *database) session() *database {
	d.t.Helper()
	conn, err := d.server.Connect(context.Background(), d.name)
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() { _ = conn.Close() })
	return &database{t: d.t, server: d.server, name: d.name, conn: conn}
}

// exec runs statements one after another.
func (d *database) exec(statements ...string) {
	d.t.Helper()
	for _, q := range statements {
		if _, err := d.conn.Execute(q); err != nil {
			d.t.Fatalf("%s: %v", q, err)
		}
	}
}

// value is the one value that a statement gives.
func (d *database) value(statement string) string {
	d.t.Helper()
	res, err := d.conn.Execute(statement)
	if err != nil {
		d.t.Fatalf("%s: %v", statement, err)
	}
	return string(textOf(&res.Values[0][0]))
}

// properties are usual ones for a database.
func (d *database) properties(more map[string]string) map[string]string {
	all := map[string]string{
		"database.hostname": d.server.Host(), "database.port": strconv.Itoa(d.server.Port()), "database.user": d.server.User(),
		"database.password": d.server.Password(), "snapshot.mode": "no_data", "topic.prefix": "p", "database.include.list": d.name,
		// Connectors of other tests read the same server.
		"database.server.id": strconv.Itoa(int(1000000 + databases.Add(1))),
	}
	for k, v := range more {
		all[k] = v
	}
	return all
}

func (d *database) config(more map[string]string) *Config {
	d.t.Helper()
	return parsed(d.t, d.server.Flavour(), d.properties(more))
}

func parsed(t testing.TB, kind string, props map[string]string) *Config {
	t.Helper()
	c, errs := ParseConfig("c", kind, props)
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
	deps := connectors.Deps{Client: l.opts, Logger: logger, Version: "test"}
	if l.views != nil {
		deps.Rows = l.views
	}
	conn, err := New(c, deps)
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
func (r *running) fails() string {
	r.t.Helper()
	select {
	case err := <-r.done:
		r.ended = true
		if !connectors.IsFault(err) {
			r.t.Fatalf("ended with %v, want a fault", err)
		}
		return err.Error()
	case <-time.After(30 * time.Second):
		r.t.Fatalf("did not fail: %+v", r.c.Status())
		return ""
	}
}

func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(25 * time.Second)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatal("timed out: " + what)
		}
		time.Sleep(20 * time.Millisecond)
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
	for deadline := time.Now().Add(20 * time.Second); len(list) < n && time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		list = l.read(topics...)
	}
	if len(list) != n {
		l.t.Fatalf("%d records in %v, want %d:\n%s", len(list), topics, n, summary(list))
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
