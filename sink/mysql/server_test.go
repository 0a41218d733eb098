package mysql

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/rowtrail/rowtrail/connectors/event"
	"github.com/rowtrail/rowtrail/itest/servers"
	"github.com/rowtrail/rowtrail/sink"
	"github.com/rowtrail/rowtrail/sink/sinktest"
)

// shared is a server of each flavour for all tests; each test has a database of its own for all that it writes.
var shared struct {
	servers.MySQLPool
	n int
}

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) != "" {
		os.Exit(runChild())
	}
	code := m.Run()
	_ = shared.Close()
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// home is a database on a server.
type home struct {
	*servers.MySQL
	name string
}

// each runs a test in an empty database of every flavour.
func each(t *testing.T, test func(t *testing.T, h *home)) {
	t.Helper()
	shared.Each(t, func(t *testing.T, m *servers.MySQL) { test(t, newHome(t, m)) })
}

func newHome(t testing.TB, m *servers.MySQL) *home {
	t.Helper()
	shared.n++
	h := &home{m, fmt.Sprintf("t%d", shared.n)}
	if err := m.CreateDatabase(context.Background(), h.name); err != nil {
		t.Fatal(err)
	}
	return h
}

func (h *home) dsn() string {
	return fmt.Sprintf("mysql://%s:%s@127.0.0.1:%d/?ssl-mode=disabled", h.User(), h.Password(), h.Port())
}

func (h *home) must(t testing.TB, statements ...string) {
	t.Helper()
	if err := h.Exec(context.Background(), h.name, statements...); err != nil {
		t.Fatal(err)
	}
}

// rows reads a query's rows as text, columns parted by |, sorted by the text.
func (h *home) rows(t testing.TB, sql string) []string {
	t.Helper()
	list, err := h.tryRows(sql)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func (h *home) tryRows(sql string) ([]string, error) {
	rows, err := h.Query(context.Background(), h.name, sql)
	if err != nil {
		return nil, err
	}
	list := make([]string, len(rows))
	for i, r := range rows {
		list[i] = strings.Join(r, "|")
	}
	slices.Sort(list)
	return list, nil
}

// config parses a configuration for the database.
func (h *home) config(t testing.TB, name string, props map[string]string) *Config {
	t.Helper()
	all := map[string]string{"dsn": h.dsn(), "target.database": h.name, "offsets.database": h.name}
	for k, v := range props {
		all[k] = v
	}
	c, errs := ParseConfig(name, []string{"shop.public.*"}, all)
	if len(errs) > 0 {
		t.Fatalf("parse config: %v", errs)
	}
	return c
}

func (h *home) open(t testing.TB, name string, props map[string]string) *session {
	t.Helper()
	s, err := newTarget(h.config(t, name, props), sink.Deps{Version: "test"}).Open(context.Background())
	if err != nil {
		t.Fatalf("open session: %v", err)
	}
	t.Cleanup(s.Close)
	return s.(*session)
}

// tableOf makes a table version of Postgres.
func tableOf(t testing.TB, name string, columns ...event.Column) *event.Schema {
	t.Helper()
	s, err := event.NewSchema(event.Options{Name: "shop", Database: "shop"}, "public", name, columns)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// mysqlTable makes a table version of MySQL.
func mysqlTable(t testing.TB, name string, columns ...event.Column) *event.Schema {
	t.Helper()
	s, err := event.NewSchema(event.Options{Name: "shop", Connector: event.SourceMySQL}, "shop", name, columns)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func mysqlCol(t testing.TB, name string, key int, f event.MySQLFacts) event.Column {
	t.Helper()
	c, err := event.MySQLColumn(name, f, key > 0, key)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// ev makes an event; key columns are taken from the row.
func ev(s *event.Schema, op event.Op, row event.Row) *sink.Event {
	key := make(event.Row, len(row))
	for _, k := range s.KeyColumns() {
		key[k] = row[k]
	}
	e := &sink.Event{Topic: "shop." + s.Collection(), Schema: s, Key: key, Change: event.Change{Op: op, After: row}}
	if op == event.OpDelete {
		e.Change.Before, e.Change.After = key, nil
	}
	return e
}

func text(values ...string) event.Row {
	row := make(event.Row, len(values))
	for i, v := range values {
		switch v {
		case "NULL":
			row[i] = sinktest.Null()
		case "ABSENT":
		default:
			row[i] = sinktest.Text(v)
		}
	}
	return row
}

// apply applies events and commits.
func apply(t testing.TB, s sink.Session, events ...*sink.Event) error {
	t.Helper()
	for _, e := range events {
		if err := s.Apply(context.Background(), e); err != nil {
			return err
		}
	}
	topic := "shop.public.x"
	if len(events) > 0 {
		topic = events[0].Topic
	}
	return s.Commit(context.Background(), []sink.Offset{{Topic: topic, Next: 1}})
}

func mustApply(t testing.TB, s sink.Session, events ...*sink.Event) {
	t.Helper()
	if err := apply(t, s, events...); err != nil {
		t.Fatalf("apply: %v", err)
	}
}

func TestConformance(t *testing.T) {
	shared.Each(t, func(t *testing.T, m *servers.MySQL) {
		sinktest.Run(t, func(t *testing.T) sinktest.Harness {
			h := newHome(t, m)
			var mu sync.Mutex // a test reads from two goroutines
			return sinktest.Harness{
				Target: func(name string) sink.Target { return newTarget(h.config(t, name, nil), sink.Deps{Version: "test"}) },
				Rows: func(table string) []string {
					mu.Lock()
					defer mu.Unlock()
					list, err := h.tryRows("SELECT * FROM " + strings.TrimPrefix(table, "public."))
					if err != nil && !strings.Contains(err.Error(), "1146") {
						t.Errorf("read %s: %v", table, err)
					}
					if list == nil {
						list = []string{}
					}
					return list
				},
				Interrupt: func(name string) { h.interrupt(t, name) },
			}
		})
	})
}

// interrupt ends the connection of a sink's session.
func (h *home) interrupt(t testing.TB, name string) {
	t.Helper()
	lock := h.config(t, name, nil).lockName()
	for _, id := range h.rows(t, "SELECT IS_USED_LOCK('"+lock+"')") {
		if id != "NULL" {
			_ = h.Exec(context.Background(), "", "KILL "+id) // it may be gone
		}
	}
}
