package servers

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"
)

const defaultPostgres = "15"

// Postgres is a running Postgres server.
type Postgres struct{ server }

// StartPostgres brings up a new, empty server and waits until it answers.
func StartPostgres(ctx context.Context, opts Options) (*Postgres, error) {
	if opts.Logf == nil {
		opts.Logf = func(string, ...any) {}
	}
	p := postgres{version: opts.Version}
	if p.version == "" {
		p.version, p.any = defaultPostgres, true
		if v := os.Getenv("ROWTRAIL_ITEST_PG"); v != "" {
			p.version, p.any = v, false
		}
	}
	if _, err := strconv.Atoi(p.version); err != nil {
		return nil, fmt.Errorf("Postgres %s: want a major version such as 15 (ROWTRAIL_ITEST_PG)", p.version)
	}
	settings := map[string]string{
		"wal_level": "logical", "max_replication_slots": "32", "max_wal_senders": "32", "max_connections": "200",
		"log_min_messages": "warning", "max_prepared_transactions": "10",
	}
	for k, v := range opts.Settings {
		settings[k] = v
	}
	for k, v := range settings {
		p.settings = append(p.settings, "-c", k+"="+v)
	}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	s, err := newServer(ctx, port, program{
		name:         "Postgres " + p.version,
		image:        "postgres:" + p.version,
		port:         5432,
		env:          map[string]string{"POSTGRES_HOST_AUTH_METHOD": "trust"},
		command:      append([]string{"postgres"}, p.settings...),
		installation: &p,
		answers: func(ctx context.Context, port int) error {
			conn, err := pgx.Connect(ctx, postgresDSN(port, "postgres"))
			if err != nil {
				return err
			}
			return conn.Close(ctx)
		},
	}, opts)
	if err != nil {
		return nil, err
	}
	return &Postgres{s}, nil
}

// ForTest is StartPostgres for a test: it fails the test on error and closes the server with it.
func ForTest(t testing.TB, opts Options) *Postgres {
	t.Helper()
	return forTest(t, StartPostgres, opts)
}

// DSN of a database on this server, as its superuser.
func (p *Postgres) DSN(database string) string { return postgresDSN(p.port, database) }

func postgresDSN(port int, database string) string {
	return fmt.Sprintf("postgres://postgres@127.0.0.1:%d/%s?sslmode=disable", port, database)
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

// postgres runs Postgres from local binaries.
type postgres struct {
	version  string
	any      bool // another version will do
	settings []string
}

// find looks for a server of the wanted version, then of any, then unpacks or installs one.
func (p *postgres) find(ctx context.Context, logf func(string, ...any)) (string, error) {
	root, err := moduleRoot()
	if err != nil {
		return "", err
	}
	if bin := installedPostgres(root, p.version); bin != "" {
		return bin, nil
	}
	if os.Geteuid() == 0 && have("apt-get") && p.version == defaultPostgres {
		logf("itest: no Postgres here: installing one with apt")
		if err := installPostgres(ctx); err == nil {
			if bin := installedPostgres(root, "*"); bin != "" {
				return bin, nil
			}
		}
	}
	if have("apt-get") && have("patchelf") {
		suite := map[string]string{"15": "bookworm", "17": "trixie", "18": "forky"}[p.version]
		if suite == "" {
			return "", fmt.Errorf("unpack Postgres %s: no Debian suite has it; use 15, 17 or 18", p.version)
		}
		if err := unpack(ctx, root, logf, suite, "pg"+p.version, "postgresql-"+p.version); err != nil {
			return "", err
		}
		if bin := installedPostgres(root, p.version); bin != "" {
			return bin, nil
		}
	}
	if bin := installedPostgres(root, "*"); bin != "" && p.any {
		return bin, nil
	}
	return "", fmt.Errorf("no Postgres %s server: start a Docker daemon, or install the postgresql package of your system", p.version)
}

func (p *postgres) prepare(ctx context.Context, l *local) error {
	err := l.run(ctx, "initdb", "-D", l.data(), "-U", "postgres", "-A", "trust", "-N", "-E", "UTF8", "--locale=C.UTF-8")
	if err != nil {
		return err
	}
	v, err := os.ReadFile(filepath.Join(l.data(), "PG_VERSION"))
	if err != nil {
		return err
	}
	l.name = "Postgres " + strings.TrimSpace(string(v))
	return nil
}

func (p *postgres) serve(l *local) (string, []string) {
	return "postgres", append([]string{"-D", l.data(), "-p", strconv.Itoa(l.port), "-k", l.dir, "-c", "listen_addresses=127.0.0.1"}, p.settings...)
}

func (p *postgres) signal(how Shutdown) syscall.Signal {
	if how == Immediate {
		return syscall.SIGQUIT // takes its children along
	}
	return syscall.SIGINT
}

// installedPostgres is the folder of a server's programs, of one major version or (*) of the newest.
func installedPostgres(root, version string) string {
	var found []string
	for _, glob := range []string{
		"/usr/lib/postgresql/" + version + "/bin",
		filepath.Join(root, ".cache", "pg*", "usr/lib/postgresql", version, "bin"),
		"/usr/pgsql-" + version + "/bin",
		"/opt/homebrew/opt/postgresql@" + version + "/bin",
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

// installPostgres brings in Debian's server without the cluster that its package would start.
func installPostgres(ctx context.Context) error {
	const script = `export DEBIAN_FRONTEND=noninteractive
apt-get update -q && apt-get install -y -q --no-install-recommends postgresql-common &&
sed -i 's/^#*create_main_cluster.*/create_main_cluster = false/' /etc/postgresql-common/createcluster.conf &&
apt-get install -y -q --no-install-recommends postgresql`
	if out, err := exec.CommandContext(ctx, "sh", "-c", script).CombinedOutput(); err != nil {
		return fmt.Errorf("install postgresql with apt: %w: %s", err, lastLine(out))
	}
	return nil
}
