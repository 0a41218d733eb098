package postgres

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/rowtrail/rowtrail/itest/servers"
)

// startTimeout is enough to build the server's image first.
const startTimeout = 5 * time.Minute

var (
	sharedServer struct {
		once sync.Once
		*servers.Postgres
		err error
	}
	databases atomic.Int64
)

// shared is the server of all tests that need no settings of their own; the first one starts it.
func shared(t testing.TB) *servers.Postgres {
	t.Helper()
	sharedServer.once.Do(func() {
		sharedServer.Postgres, sharedServer.err = newServer("wal_sender_timeout=10s")
		if sharedServer.err == nil {
			fmt.Printf("postgres tests: %s\n", sharedServer.Describe())
		}
	})
	if sharedServer.err != nil {
		t.Fatal("integration tests need a Postgres server: ", sharedServer.err)
	}
	return sharedServer.Postgres
}

func removeShared() error {
	if s := sharedServer.Postgres; s != nil {
		return s.Close()
	}
	return nil
}

// newServer starts a server with settings name=value. Its crashes are those of the process, so it need not sync.
func newServer(settings ...string) (*servers.Postgres, error) {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	set := map[string]string{"fsync": "off", "max_replication_slots": "40", "max_wal_senders": "40"}
	for _, s := range settings {
		name, value, _ := strings.Cut(s, "=")
		set[name] = value
	}
	return servers.StartPostgres(ctx, servers.Options{Settings: set})
}

// ownServer starts a server with settings of its own.
func ownServer(t *testing.T, settings ...string) *servers.Postgres {
	t.Helper()
	s, err := newServer(settings...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// database is one test's database.
type database struct {
	t      testing.TB
	server *servers.Postgres
	name   string
	conn   *pgconn.PgConn
}

func newDatabase(t testing.TB, server *servers.Postgres) *database {
	t.Helper()
	if server == nil {
		server = shared(t)
	}
	d := &database{t: t, server: server, name: fmt.Sprintf("t%d", databases.Add(1))}
	admin, err := pgconn.Connect(context.Background(), server.DSN("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close(context.Background())
	if err := execSQL(admin, "CREATE DATABASE "+d.name+" TEMPLATE template0 ENCODING 'UTF8'"); err != nil {
		t.Fatal(err)
	}
	d.reconnect()
	t.Cleanup(func() {
		d.conn.Close(context.Background())
		admin, err := pgconn.Connect(context.Background(), server.DSN("postgres"))
		if err != nil {
			return // the test's own server is gone
		}
		defer admin.Close(context.Background())
		for range 100 { // a slot is released a moment after its reader has gone
			_ = execSQL(admin, "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE NOT active AND database = '"+d.name+"'")
			if err := execSQL(admin, "DROP DATABASE "+d.name+" WITH (FORCE)"); err == nil {
				return
			}
			time.Sleep(20 * time.Millisecond)
		}
	})
	return d
}

func (d *database) reconnect() {
	conn, err := pgconn.Connect(context.Background(), d.dsn())
	if err != nil {
		d.t.Fatal(err)
	}
	d.conn = conn
}

func (d *database) dsn() string { return d.server.DSN(d.name) }

func execSQL(conn *pgconn.PgConn, sql string) error {
	_, err := conn.Exec(context.Background(), sql).ReadAll()
	return err
}

// exec runs SQL, each element on its own.
func (d *database) exec(sql ...string) {
	d.t.Helper()
	for _, q := range sql {
		if err := execSQL(d.conn, q); err != nil {
			d.t.Fatalf("%s: %v", strings.TrimSpace(q), err)
		}
	}
}

// value runs a query for one value.
func (d *database) value(sql string) string {
	d.t.Helper()
	rows, err := query(context.Background(), d.conn, sql)
	if err != nil {
		d.t.Fatalf("%s: %v", sql, err)
	}
	if len(rows) == 0 {
		return ""
	}
	return string(rows[0][0])
}

// session is another connection to the database.
func (d *database) session() *database {
	s := &database{t: d.t, server: d.server, name: d.name}
	s.reconnect()
	d.t.Cleanup(func() { s.conn.Close(context.Background()) })
	return s
}
