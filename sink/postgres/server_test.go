package postgres

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"

	"github.com/rowtrail/rowtrail/itest/servers"
	"github.com/rowtrail/rowtrail/sink"
	"github.com/rowtrail/rowtrail/sink/sinktest"
)

// shared is one server for all tests; each test has a database of its own.
var shared struct {
	once   sync.Once
	server *servers.Postgres
	err    error
	n      int
}

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) != "" {
		os.Exit(runChild())
	}
	code := m.Run()
	if shared.server != nil {
		_ = shared.server.Close()
	}
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// server starts the shared server.
func server(t testing.TB) *servers.Postgres {
	t.Helper()
	shared.once.Do(func() {
		shared.server, shared.err = servers.StartPostgres(context.Background(), servers.Options{})
	})
	if shared.err != nil {
		t.Fatalf("start Postgres: %v", shared.err)
	}
	return shared.server
}

// database makes an empty database and connects to it.
func database(t testing.TB) (dsn string, conn *pgx.Conn) {
	t.Helper()
	s := server(t)
	shared.n++
	name := fmt.Sprintf("t%d", shared.n)
	admin := open(t, s.DSN("postgres"))
	must(t, admin, "CREATE DATABASE "+name)
	_ = admin.Close(context.Background())
	dsn = s.DSN(name)
	return dsn, open(t, dsn)
}

func open(t testing.TB, dsn string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(context.Background(), dsn)
	if err != nil {
		t.Fatalf("connect: %v", err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

func must(t testing.TB, conn *pgx.Conn, sql string, args ...any) {
	t.Helper()
	if _, err := conn.Exec(context.Background(), sql, args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// rows reads a query's rows as text, columns parted by |, sorted by the text.
func rows(t testing.TB, conn *pgx.Conn, sql string, args ...any) []string {
	t.Helper()
	list, err := tryRows(conn, sql, args...)
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return list
}

func tryRows(conn *pgx.Conn, sql string, args ...any) ([]string, error) {
	r, err := conn.Query(context.Background(), "SELECT r FROM (SELECT concat_ws('|', VARIADIC (SELECT array_agg(coalesce(value, 'NULL') ORDER BY ordinality) "+
		"FROM json_each_text(row_to_json(q)) WITH ORDINALITY)) AS r FROM ("+sql+") q) x ORDER BY r COLLATE \"C\"", args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(r, pgx.RowTo[string])
}

// config parses a configuration for a database.
func config(t testing.TB, name, dsn string, props map[string]string, topics ...string) *Config {
	t.Helper()
	all := map[string]string{"dsn": dsn}
	for k, v := range props {
		all[k] = v
	}
	if len(topics) == 0 {
		topics = []string{"shop.public.*"}
	}
	c, errs := ParseConfig(name, topics, all)
	if len(errs) > 0 {
		t.Fatalf("parse config: %v", errs)
	}
	return c
}

func TestConformance(t *testing.T) {
	sinktest.Run(t, func(t *testing.T) sinktest.Harness {
		dsn, conn := database(t)
		killer := open(t, dsn)
		var mu sync.Mutex // a test reads from two goroutines
		return sinktest.Harness{
			Target: func(name string) sink.Target { return newTarget(config(t, name, dsn, nil), sink.Deps{Version: "test"}) },
			Rows: func(table string) []string {
				mu.Lock()
				list, err := tryRows(conn, "SELECT * FROM "+table)
				mu.Unlock()
				if err != nil && !strings.Contains(err.Error(), "42P01") {
					t.Errorf("read %s: %v", table, err)
				}
				if list == nil {
					list = []string{}
				}
				return list
			},
			Interrupt: func(name string) {
				must(t, killer, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = $1", "rowtrail sink "+name)
			},
		}
	})
}
