package postgres

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// This file finds the Postgres servers that the tests use: local binaries. Tests know only testServer, pgServer and database.

// pgServer is a running server.
type pgServer struct {
	bin, dir string
	port     int
	args     []string
	cmd      *exec.Cmd
	output   bytes.Buffer
}

var (
	sharedServer struct {
		once sync.Once
		*pgServer
		err error
	}
	databases atomic.Int64
)

// shared is the server of all tests that need no settings of their own; the first one starts it.
func shared(t testing.TB) *pgServer {
	t.Helper()
	sharedServer.once.Do(func() {
		sharedServer.pgServer, sharedServer.err = newServer("wal_sender_timeout=10s", "max_prepared_transactions=10")
	})
	if sharedServer.err != nil {
		t.Fatal("integration tests need a Postgres server: ", sharedServer.err)
	}
	return sharedServer.pgServer
}

func removeShared() {
	if s := sharedServer.pgServer; s != nil {
		s.remove()
	}
}

// binaries returns the newest local server binaries.
func binaries() (string, error) {
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if len(found) == 0 {
		return "", fmt.Errorf("no Postgres server binaries in /usr/lib/postgresql: install package postgresql")
	}
	return filepath.Dir(found[len(found)-1]), nil
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

func newServer(settings ...string) (*pgServer, error) {
	bin, err := binaries()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "rowtrail-pg-")
	if err != nil {
		return nil, err
	}
	s := &pgServer{bin: bin, dir: dir}
	if os.Getuid() == 0 { // the server refuses to run as root
		if err := os.Chown(dir, 65534, 65534); err != nil {
			return nil, err
		}
	}
	if s.port, err = freePort(); err != nil {
		return nil, err
	}
	init := s.command("initdb", "-D", dir+"/data", "-U", "postgres", "-A", "trust", "-N")
	if out, err := init.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("initdb: %w: %s", err, out)
	}
	s.args = []string{"-D", dir + "/data", "-p", strconv.Itoa(s.port), "-k", dir, "-c", "listen_addresses=127.0.0.1", "-c", "fsync=off"}
	for _, set := range append([]string{"wal_level=logical", "max_replication_slots=40", "max_wal_senders=40", "max_connections=100"}, settings...) {
		s.args = append(s.args, "-c", set)
	}
	return s, s.start()
}

func (s *pgServer) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(s.bin, name), args...)
	cmd.Dir = s.dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if os.Getuid() == 0 {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: 65534, Gid: 65534}
	}
	return cmd
}

func (s *pgServer) start() error {
	s.cmd = s.command("postgres", s.args...)
	s.cmd.Stdout, s.cmd.Stderr = &s.output, &s.output
	if err := s.cmd.Start(); err != nil {
		return err
	}
	for range 300 {
		conn, err := pgconn.Connect(context.Background(), s.dsn("postgres"))
		if err == nil {
			return conn.Close(context.Background())
		}
		time.Sleep(30 * time.Millisecond)
	}
	return fmt.Errorf("postgres did not start: %s", s.output.String())
}

// stop ends the server: SIGINT is its fast shutdown, SIGQUIT a crash.
func (s *pgServer) stop(sig syscall.Signal) {
	_ = s.cmd.Process.Signal(sig)
	_ = s.cmd.Wait()
}

func (s *pgServer) remove() {
	s.stop(syscall.SIGQUIT)
	_ = os.RemoveAll(s.dir)
}

func (s *pgServer) dsn(database string) string {
	return fmt.Sprintf("postgres://postgres@127.0.0.1:%d/%s?sslmode=disable", s.port, database)
}

// ownServer starts a server with settings of its own.
func ownServer(t *testing.T, settings ...string) *pgServer {
	t.Helper()
	s, err := newServer(settings...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.remove)
	return s
}

// database is one test's database.
type database struct {
	t      testing.TB
	server *pgServer
	name   string
	conn   *pgconn.PgConn
}

func newDatabase(t testing.TB, server *pgServer) *database {
	t.Helper()
	if server == nil {
		server = shared(t)
	}
	d := &database{t: t, server: server, name: fmt.Sprintf("t%d", databases.Add(1))}
	admin, err := pgconn.Connect(context.Background(), server.dsn("postgres"))
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
		admin, err := pgconn.Connect(context.Background(), server.dsn("postgres"))
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

func (d *database) dsn() string { return d.server.dsn(d.name) }

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
