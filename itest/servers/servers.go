package servers

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/rowtrail/rowtrail/log/sleep"
)

const (
	startTimeout = 5 * time.Minute // of a server for a test, whose image may have to be built first
	readyTimeout = 60 * time.Second
)

// Options describe a server. The zero value is a server of the default version, set up so that it can be captured.
type Options struct {
	Version  string            // Postgres: a major version; MySQL: a flavour and version such as mariadb:11.8; "": by environment or default
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
	// address is where another server of the same driver reaches this one.
	address(ctx context.Context) (host string, port int, err error)
}

// program is a server of some kind, as drivers run it.
type program struct {
	name         string // for people
	image        string
	port         int // in its container
	env          map[string]string
	command      []string // in its container
	installation installation
	answers      func(ctx context.Context, port int) error
}

// installation is how a program is run from the binaries of this machine.
type installation interface {
	// find is the folder of the binaries, which are brought in where they can be.
	find(ctx context.Context, logf func(string, ...any)) (string, error)
	// prepare makes the data directory below the local server's own folder.
	prepare(ctx context.Context, l *local) error
	// serve is the command of the server itself.
	serve(l *local) (binary string, args []string)
	// signal is what ends the server.
	signal(how Shutdown) syscall.Signal
}

// server is what the servers of all kinds have in common. Its port stays the same over Stop and Start.
type server struct {
	driver  driver
	port    int
	answers func(ctx context.Context, port int) error
}

// newServer brings up a new, empty server at the port and waits until it answers.
func newServer(ctx context.Context, port int, p program, opts Options) (server, error) {
	s := server{port: port, answers: p.answers}
	mode := os.Getenv("ROWTRAIL_ITEST_SERVERS")
	if opts.Local {
		mode = "local"
	}
	var err error
	switch mode {
	case "docker":
		s.driver, err = newDocker(ctx, port, p, opts)
	case "local":
		s.driver, err = newLocal(ctx, port, p, opts)
	case "", "auto":
		if dockerAnswers(ctx) {
			s.driver, err = newDocker(ctx, port, p, opts)
		} else {
			s.driver, err = newLocal(ctx, port, p, opts)
		}
	default:
		err = fmt.Errorf("ROWTRAIL_ITEST_SERVERS=%s: want docker, local or auto", mode)
	}
	if err != nil {
		return server{}, err
	}
	if err := s.Start(ctx); err != nil {
		return server{}, errors.Join(err, s.Close())
	}
	opts.Logf("itest: %s on 127.0.0.1:%d", s.Describe(), port)
	return s, nil
}

// Port on 127.0.0.1.
func (s *server) Port() int { return s.port }

// Describe says what runs: version and where it came from.
func (s *server) Describe() string { return s.driver.describe() }

// BinDir is the folder of a local server's programs, "" for a container.
func (s *server) BinDir() string {
	if l, ok := s.driver.(*local); ok {
		return l.bin
	}
	return ""
}

// Start starts a stopped server and waits until it answers.
func (s *server) Start(ctx context.Context) error {
	if err := s.driver.start(ctx); err != nil {
		return fmt.Errorf("start %s: %w", s.Describe(), err)
	}
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	for {
		err := s.answers(ctx, s.port)
		if err == nil {
			return nil
		}
		if !sleep.For(ctx, 50*time.Millisecond) {
			return fmt.Errorf("wait for %s: %w", s.Describe(), err)
		}
	}
}

// Stop stops the server; its data stay.
func (s *server) Stop(ctx context.Context, how Shutdown) error { return s.driver.stop(ctx, how) }

// Kill is Stop as a power cut would.
func (s *server) Kill(ctx context.Context) error { return s.Stop(ctx, Immediate) }

// Restart is Stop and Start.
func (s *server) Restart(ctx context.Context, how Shutdown) error {
	if err := s.Stop(ctx, how); err != nil {
		return err
	}
	return s.Start(ctx)
}

// Close ends the server and removes its data.
func (s *server) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), readyTimeout)
	defer cancel()
	return s.driver.remove(ctx)
}

// forTest starts a server for a test: it fails the test on error and closes the server with it.
func forTest[S interface{ Close() error }](t testing.TB, start func(context.Context, Options) (S, error), opts Options) S {
	t.Helper()
	if opts.Logf == nil {
		opts.Logf = func(format string, args ...any) { fmt.Printf(format+"\n", args...) }
	}
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	s, err := start(ctx, opts)
	if err != nil {
		t.Fatalf("start a server: %v", err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Logf("close a server: %v", err)
		}
	})
	return s
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
