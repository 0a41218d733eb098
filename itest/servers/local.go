package servers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// nobody runs servers that refuse to run as root.
const nobody = 65534

// local runs a server from binaries of this machine.
type local struct {
	bin, dir string
	port     int
	version  string
	settings map[string]string
	process  *exec.Cmd
	done     chan error
}

func newLocal(ctx context.Context, port int, opts Options) (*local, error) {
	bin, err := findBinaries(ctx, opts)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "rowtrail-pg-")
	if err != nil {
		return nil, fmt.Errorf("make a data directory: %w", err)
	}
	l := &local{bin: bin, dir: dir, port: port, settings: opts.Settings}
	if os.Geteuid() == 0 {
		if err := errors.Join(os.Chmod(dir, 0o755), os.Chown(dir, nobody, nobody)); err != nil {
			return nil, fmt.Errorf("make a data directory: %w", err)
		}
	}
	out, err := l.command(ctx, "initdb", "-D", l.data(), "-U", "postgres", "-A", "trust", "-N", "-E", "UTF8", "--locale=C.UTF-8").CombinedOutput()
	if err != nil {
		os.RemoveAll(dir)
		return nil, fmt.Errorf("initdb: %w: %s", err, bytes.TrimSpace(out))
	}
	v, err := os.ReadFile(filepath.Join(l.data(), "PG_VERSION"))
	if err == nil {
		l.version = strings.TrimSpace(string(v))
	}
	return l, nil
}

func (l *local) data() string { return filepath.Join(l.dir, "data") }

// command prepares a server program as a user that it accepts; it dies with this process.
func (l *local) command(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, filepath.Join(l.bin, name), args...)
	cmd.Dir = l.dir
	cmd.Env = append(os.Environ(), "LC_ALL=C.UTF-8", "HOME="+l.dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGQUIT, Setpgid: true}
	if os.Geteuid() == 0 {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: nobody, Gid: nobody}
	}
	return cmd
}

func (l *local) start(context.Context) error {
	args := []string{"-D", l.data(), "-p", strconv.Itoa(l.port), "-k", l.dir, "-c", "listen_addresses=127.0.0.1"}
	for k, v := range l.settings {
		args = append(args, "-c", k+"="+v)
	}
	log, err := os.OpenFile(filepath.Join(l.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := l.command(context.Background(), "postgres", args...)
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
	sig := syscall.SIGINT
	if how == Immediate {
		sig = syscall.SIGQUIT
	}
	if err := l.process.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stop Postgres: %w", err)
	}
	select {
	case <-l.done: // its exit code says how it was stopped
	case <-ctx.Done():
		return fmt.Errorf("stop Postgres: %w", ctx.Err())
	case <-time.After(readyTimeout):
		return errors.New("stop Postgres: it did not end within a minute")
	}
	l.process = nil
	return nil
}

func (l *local) remove(ctx context.Context) error {
	return errors.Join(l.stop(ctx, Immediate), os.RemoveAll(l.dir))
}

func (l *local) describe() string {
	return fmt.Sprintf("Postgres %s from %s", l.version, l.bin)
}

// findBinaries looks for a server of the wanted version, then of any, then unpacks or installs one.
func findBinaries(ctx context.Context, opts Options) (string, error) {
	root, err := moduleRoot()
	if err != nil {
		return "", err
	}
	if bin := installed(root, opts.Version); bin != "" {
		return bin, nil
	}
	if os.Geteuid() == 0 && have("apt-get") && opts.Version == defaultVersion {
		opts.Logf("itest: no Postgres here: installing one with apt")
		if err := install(ctx); err == nil {
			if bin := installed(root, 0); bin != "" {
				return bin, nil
			}
		}
	}
	if have("apt-get") && have("patchelf") {
		opts.Logf("itest: unpacking Postgres %d from Debian packages into .cache", opts.Version)
		if err := unpack(ctx, root, opts.Version); err != nil {
			return "", err
		}
		if bin := installed(root, opts.Version); bin != "" {
			return bin, nil
		}
	}
	if bin := installed(root, 0); bin != "" && os.Getenv("ROWTRAIL_ITEST_PG") == "" {
		return bin, nil
	}
	return "", fmt.Errorf("no Postgres %d server: start a Docker daemon, or install the postgresql package of your system", opts.Version)
}

// installed is the folder of a server's programs, of one major version or (0) of the newest.
func installed(root string, version int) string {
	pattern := "*"
	if version != 0 {
		pattern = strconv.Itoa(version)
	}
	var found []string
	for _, glob := range []string{
		"/usr/lib/postgresql/" + pattern + "/bin",
		filepath.Join(root, ".cache", "pg*", "usr/lib/postgresql", pattern, "bin"),
		"/usr/pgsql-" + pattern + "/bin",
		"/opt/homebrew/opt/postgresql@" + pattern + "/bin",
	} {
		matches, _ := filepath.Glob(glob)
		found = append(found, matches...)
	}
	for i := len(found) - 1; i >= 0; i-- {
		if _, err := os.Stat(filepath.Join(found[i], "initdb")); err == nil {
			return found[i]
		}
	}
	return ""
}

// install brings in Debian's server without the cluster that its package would start.
func install(ctx context.Context) error {
	const script = `export DEBIAN_FRONTEND=noninteractive
apt-get update -q && apt-get install -y -q --no-install-recommends postgresql-common &&
sed -i 's/^#*create_main_cluster.*/create_main_cluster = false/' /etc/postgresql-common/createcluster.conf &&
apt-get install -y -q --no-install-recommends postgresql`
	if out, err := exec.CommandContext(ctx, "sh", "-c", script).CombinedOutput(); err != nil {
		return fmt.Errorf("install postgresql with apt: %w: %s", err, lastLine(out))
	}
	return nil
}

func unpack(ctx context.Context, root string, version int) error {
	suite := map[int]string{15: "bookworm", 17: "trixie", 18: "forky"}[version]
	if suite == "" {
		return fmt.Errorf("unpack Postgres %d: no Debian suite has it; use 15, 17 or 18", version)
	}
	dir := filepath.Join(root, ".cache", fmt.Sprintf("pg%d", version))
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, filepath.Join(root, "itest/images/unpack-debs"), suite, dir, fmt.Sprintf("postgresql-%d", version))
	if out, err := cmd.CombinedOutput(); err != nil {
		os.RemoveAll(dir)
		return fmt.Errorf("unpack Postgres %d: %w: %s", version, err, lastLine(out))
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
