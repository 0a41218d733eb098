package servers

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/rowtrail/rowtrail/log/sleep"
)

const (
	defaultVersion = 15
	readyTimeout   = 60 * time.Second
)

// Options describe a server. The zero value is a Postgres of the default version with wal_level=logical.
type Options struct {
	Version  int               // major version; 0: ROWTRAIL_ITEST_PG, else 15
	Settings map[string]string // server settings on top of the defaults
	Local    bool              // from local binaries even when Docker answers
	Logf     func(format string, args ...any)
}

// Shutdown is how a server is stopped.
type Shutdown int

// The ways of stopping.
const (
	Fast      Shutdown = iota // sessions are ended, a checkpoint is written
	Immediate                 // as after a power cut: recovery at the next start
)

// driver is where a server runs.
type driver interface {
	start(ctx context.Context) error
	stop(ctx context.Context, how Shutdown) error
	remove(ctx context.Context) error
	describe() string
}

// Postgres is a running server. Its port stays the same over Stop and Start.
type Postgres struct {
	driver driver
	port   int
}

// StartPostgres brings up a new, empty server and waits until it answers.
func StartPostgres(ctx context.Context, opts Options) (*Postgres, error) {
	if opts.Logf == nil {
		opts.Logf = func(string, ...any) {}
	}
	if opts.Version == 0 {
		opts.Version = defaultVersion
		if v := os.Getenv("ROWTRAIL_ITEST_PG"); v != "" {
			n, err := strconv.Atoi(v)
			if err != nil {
				return nil, fmt.Errorf("ROWTRAIL_ITEST_PG=%s: want a major version such as 15", v)
			}
			opts.Version = n
		}
	}
	settings := map[string]string{
		"wal_level": "logical", "max_replication_slots": "32", "max_wal_senders": "32", "max_connections": "200",
		"log_min_messages": "warning", "max_prepared_transactions": "10",
	}
	for k, v := range opts.Settings {
		settings[k] = v
	}
	opts.Settings = settings
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	p := &Postgres{port: port}
	mode := os.Getenv("ROWTRAIL_ITEST_SERVERS")
	if opts.Local {
		mode = "local"
	}
	switch mode {
	case "docker":
		p.driver, err = newDocker(ctx, port, opts)
	case "local":
		p.driver, err = newLocal(ctx, port, opts)
	case "", "auto":
		if dockerAnswers(ctx) {
			p.driver, err = newDocker(ctx, port, opts)
		} else {
			p.driver, err = newLocal(ctx, port, opts)
		}
	default:
		return nil, fmt.Errorf("ROWTRAIL_ITEST_SERVERS=%s: want docker, local or auto", mode)
	}
	if err != nil {
		return nil, err
	}
	if err := p.Start(ctx); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	opts.Logf("itest: %s on 127.0.0.1:%d", p.Describe(), port)
	return p, nil
}

// ForTest is StartPostgres for a test: it fails the test on error and closes the server with it.
func ForTest(t testing.TB, opts Options) *Postgres {
	t.Helper()
	if opts.Logf == nil {
		opts.Logf = func(format string, args ...any) { fmt.Printf(format+"\n", args...) }
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	p, err := StartPostgres(ctx, opts)
	if err != nil {
		t.Fatalf("start Postgres: %v", err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Logf("close Postgres: %v", err)
		}
	})
	return p
}

// DSN of a database on this server, as its superuser.
func (p *Postgres) DSN(database string) string {
	return fmt.Sprintf("postgres://postgres@127.0.0.1:%d/%s?sslmode=disable", p.port, database)
}

// Port on 127.0.0.1.
func (p *Postgres) Port() int { return p.port }

// Describe says what runs: version and where it came from.
func (p *Postgres) Describe() string { return p.driver.describe() }

// BinDir is the folder of a local server's programs, "" for a container.
func (p *Postgres) BinDir() string {
	if l, ok := p.driver.(*local); ok {
		return l.bin
	}
	return ""
}

// CreateDatabase makes an empty database and returns its DSN.
func (p *Postgres) CreateDatabase(ctx context.Context, name string) (string, error) {
	conn, err := pgx.Connect(ctx, p.DSN("postgres"))
	if err != nil {
		return "", fmt.Errorf("create database %s: %w", name, err)
	}
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, "CREATE DATABASE "+pgx.Identifier{name}.Sanitize()); err != nil {
		return "", fmt.Errorf("create database %s: %w", name, err)
	}
	return p.DSN(name), nil
}

// Start starts a stopped server and waits until it answers.
func (p *Postgres) Start(ctx context.Context) error {
	if err := p.driver.start(ctx); err != nil {
		return fmt.Errorf("start %s: %w", p.Describe(), err)
	}
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	for {
		conn, err := pgx.Connect(ctx, p.DSN("postgres"))
		if err == nil {
			return conn.Close(ctx)
		}
		if !sleep.For(ctx, 50*time.Millisecond) {
			return fmt.Errorf("wait for %s: %w", p.Describe(), err)
		}
	}
}

// Stop stops the server; its data stay.
func (p *Postgres) Stop(ctx context.Context, how Shutdown) error { return p.driver.stop(ctx, how) }

// Restart is Stop and Start.
func (p *Postgres) Restart(ctx context.Context, how Shutdown) error {
	if err := p.Stop(ctx, how); err != nil {
		return err
	}
	return p.Start(ctx)
}

// Close ends the server and removes its data.
func (p *Postgres) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), readyTimeout)
	defer cancel()
	return p.driver.remove(ctx)
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("find a free port: %w", err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// moduleRoot is the checkout that the tests run in.
func moduleRoot() (string, error) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/rowtrail/rowtrail").Output()
	if err != nil {
		return "", fmt.Errorf("find the checkout: %w", err)
	}
	return filepath.Clean(string(out[:len(out)-1])), nil
}
