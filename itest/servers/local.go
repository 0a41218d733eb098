package servers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// nobody runs servers that refuse to run as root.
const nobody = 65534

// local runs a server from binaries of this machine.
type local struct {
	name         string
	bin, dir     string
	port         int
	installation installation
	process      *exec.Cmd
	done         chan error
}

func newLocal(ctx context.Context, port int, p program, opts Options) (*local, error) {
	bin, err := p.installation.find(ctx, opts.Logf)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "rowtrail-db-")
	if err != nil {
		return nil, fmt.Errorf("make a data directory: %w", err)
	}
	l := &local{name: p.name, bin: bin, dir: dir, port: port, installation: p.installation}
	if os.Geteuid() == 0 {
		if err := errors.Join(os.Chmod(dir, 0o755), os.Chown(dir, nobody, nobody)); err != nil {
			return nil, fmt.Errorf("make a data directory: %w", err)
		}
	}
	if err := p.installation.prepare(ctx, l); err != nil {
		os.RemoveAll(dir)
		return nil, fmt.Errorf("make a data directory: %w", err)
	}
	return l, nil
}

func (l *local) data() string { return filepath.Join(l.dir, "data") }

// command prepares a server program as a user that it accepts; it dies with this process. It has a folder of its own for temporary files, as a
// MariaDB that starts removes those that it finds.
func (l *local) command(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, filepath.Join(l.bin, name), args...)
	cmd.Dir = l.dir
	cmd.Env = append(os.Environ(), "LC_ALL=C.UTF-8", "HOME="+l.dir, "TMPDIR="+l.dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGQUIT, Setpgid: true}
	if os.Geteuid() == 0 {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: nobody, Gid: nobody}
	}
	return cmd
}

// run runs a server program to its end.
func (l *local) run(ctx context.Context, name string, args ...string) error {
	if out, err := l.command(ctx, name, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", name, err, bytes.TrimSpace(out))
	}
	return nil
}

func (l *local) start(context.Context) error {
	log, err := os.OpenFile(filepath.Join(l.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	binary, args := l.installation.serve(l)
	cmd := l.command(context.Background(), binary, args...)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return err
	}
	l.process, l.done = cmd, make(chan error, 1)
	go func() { l.done <- cmd.Wait() }()
	return nil
}

func (l *local) stop(ctx context.Context, how Shutdown) error {
	if l.process == nil {
		return nil
	}
	if err := l.process.Process.Signal(l.installation.signal(how)); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stop %s: %w", l.name, err)
	}
	select {
	case <-l.done: // its exit code says how it was stopped
	case <-ctx.Done():
		return fmt.Errorf("stop %s: %w", l.name, ctx.Err())
	case <-time.After(readyTimeout):
		return fmt.Errorf("stop %s: it did not end within a minute", l.name)
	}
	l.process = nil
	return nil
}

func (l *local) remove(ctx context.Context) error {
	return errors.Join(l.stop(ctx, Immediate), os.RemoveAll(l.dir))
}

func (l *local) describe() string { return fmt.Sprintf("%s from %s", l.name, l.bin) }

func (l *local) address(context.Context) (string, int, error) { return "127.0.0.1", l.port, nil }

// unpack puts packages of a Debian suite, with all that they need, into a folder below .cache.
func unpack(ctx context.Context, root string, logf func(string, ...any), suite, folder string, packages ...string) error {
	dir := filepath.Join(root, ".cache", folder)
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return err
	}
	logf("itest: unpacking %s of Debian %s into .cache", strings.Join(packages, " "), suite)
	cmd := exec.CommandContext(ctx, filepath.Join(root, "itest/images/unpack-debs"), append([]string{suite, dir}, packages...)...)
	if out, err := cmd.CombinedOutput(); err != nil {
		os.RemoveAll(dir)
		return fmt.Errorf("unpack %s: %w: %s", folder, err, lastLine(out))
	}
	return nil
}

func have(program string) bool {
	_, err := exec.LookPath(program)
	return err == nil
}

func lastLine(out []byte) string {
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	return lines[len(lines)-1]
}
