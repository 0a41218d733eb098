package servers

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-mysql-org/go-mysql/client"
	"github.com/go-mysql-org/go-mysql/mysql"
)

const (
	mysqlUser     = "root"
	mysqlPassword = "rowtrail"
	mysqlTimeout  = 10 * time.Second
)

// Flavours that tests run on; the first is the default.
func flavours() []string { return []string{"mysql:9.7", "mariadb:11.8", "mariadb:10.11"} }

// MySQL is a running MySQL or MariaDB server.
type MySQL struct {
	server
	flavour, version string
}

// MySQLVersion is the version, as in Options, that a name stands for: the newest of a flavour (mysql, mariadb), or the version itself.
func MySQLVersion(name string) (string, error) {
	for _, v := range flavours() {
		if flavour, _, _ := strings.Cut(v, ":"); name == v || name == flavour {
			return v, nil
		}
	}
	return "", fmt.Errorf("MySQL server %q: want mysql, mariadb or one of %s", name, strings.Join(flavours(), ", "))
}

// StartMySQL brings up a new, empty MySQL or MariaDB server, with a binary log as capture wants it, and waits until it
// answers. In Settings a name is an option of the server with _ or -; a name that begins with skip stands alone.
func StartMySQL(ctx context.Context, opts Options) (*MySQL, error) {
	if opts.Logf == nil {
		opts.Logf = func(string, ...any) {}
	}
	if opts.Version == "" {
		opts.Version = chosenFlavours()[0]
	}
	if !slices.Contains(flavours(), opts.Version) {
		return nil, fmt.Errorf("MySQL server %q: want one of %s (ROWTRAIL_ITEST_MYSQL)", opts.Version, strings.Join(flavours(), ", "))
	}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	m := &MySQL{}
	m.flavour, m.version, _ = strings.Cut(opts.Version, ":")
	name, daemon := "MySQL "+m.version, "mysqld"
	if m.MariaDB() {
		name, daemon = "MariaDB "+m.version, "mariadbd"
	}
	settings := mysqlSettings(m.flavour, port, opts.Settings)
	m.server, err = newServer(ctx, port, program{
		name:  name,
		image: opts.Version,
		port:  3306,
		env: map[string]string{
			"MYSQL_ROOT_PASSWORD": mysqlPassword, "MYSQL_INITDB_SKIP_TZINFO": "1",
		},
		command:      append([]string{daemon}, settings...),
		installation: &mysqld{flavour: m.flavour, version: m.version, settings: settings},
		answers: func(ctx context.Context, port int) error {
			conn, err := connectMySQL(ctx, port, "")
			if err != nil {
				return err
			}
			return conn.Close()
		},
	}, opts)
	if err != nil {
		return nil, err
	}
	return m, nil
}

// mysqlSettings are the server's arguments: the defaults with the caller's own over them.
func mysqlSettings(flavour string, port int, own map[string]string) []string {
	settings := map[string]string{
		"server_id": strconv.Itoa(port), "log_bin": "mysql-bin", "binlog_format": "ROW", "binlog_row_image": "FULL",
		"binlog_row_metadata": "FULL", "character_set_server": "utf8mb4", "max_connections": "200", "local_infile": "ON",
		"secure_file_priv": "", "skip_name_resolve": "",
		// Tests end the process and not the machine, so that what was written survives without a sync.
		"sync_binlog": "0", "innodb_flush_log_at_trx_commit": "2",
	}
	if flavour == "mariadb" {
		maps.Copy(settings, map[string]string{"gtid_strict_mode": "ON", "log_slave_updates": "ON"})
	} else {
		maps.Copy(settings, map[string]string{
			"gtid_mode": "ON", "enforce_gtid_consistency": "ON", "log_replica_updates": "ON", "mysqlx": "OFF", "performance_schema": "OFF",
		})
	}
	for k, v := range own {
		k = strings.ReplaceAll(k, "-", "_")
		if k == "log_replica_updates" && flavour == "mariadb" {
			k = "log_slave_updates"
		}
		settings[k] = v
	}
	var args []string
	for _, k := range slices.Sorted(maps.Keys(settings)) { // skip_log_bin comes after log_bin, and wins
		if strings.HasPrefix(k, "skip") && settings[k] == "" {
			args = append(args, "--"+k)
		} else {
			args = append(args, "--"+k+"="+settings[k])
		}
	}
	return args
}

// chosenFlavours are the servers that the environment asks for, else all.
func chosenFlavours() []string {
	if v := os.Getenv("ROWTRAIL_ITEST_MYSQL"); v != "" {
		return strings.Split(v, ",")
	}
	return flavours()
}

// needMySQL skips a test where the environment asks for no server.
func needMySQL(t testing.TB) {
	t.Helper()
	if os.Getenv("ROWTRAIL_ITEST_MYSQL") == "" {
		t.Skip("ROWTRAIL_ITEST_MYSQL asks for no server; make test-mysql runs on " + strings.Join(flavours(), ", "))
	}
}

// MySQLForTest is StartMySQL for a test: it fails the test on error and closes the server with it.
func MySQLForTest(t testing.TB, opts Options) *MySQL {
	t.Helper()
	needMySQL(t)
	return forTest(t, StartMySQL, opts)
}

// EachMySQL runs a test on a server of its own of every flavour that ROWTRAIL_ITEST_MYSQL names.
func EachMySQL(t *testing.T, opts Options, test func(t *testing.T, m *MySQL)) {
	t.Helper()
	EachMySQLVersion(t, func(t *testing.T, version string) {
		opts := opts
		opts.Version = version
		test(t, MySQLForTest(t, opts))
	})
}

// Flavour is mysql or mariadb.
func (m *MySQL) Flavour() string { return m.flavour }

// Version is as in Options: mysql:9.7, mariadb:10.11.
func (m *MySQL) Version() string { return m.flavour + ":" + m.version }

// MariaDB says whether it is one.
func (m *MySQL) MariaDB() bool { return m.flavour == "mariadb" }

// Host that clients reach it at.
func (m *MySQL) Host() string { return "127.0.0.1" }

// User may do everything.
func (m *MySQL) User() string { return mysqlUser }

// Password of User.
func (m *MySQL) Password() string { return mysqlPassword }

// Connect opens a session of User, with a database or "".
func (m *MySQL) Connect(ctx context.Context, database string) (*client.Conn, error) {
	return connectMySQL(ctx, m.port, database)
}

func connectMySQL(ctx context.Context, port int, database string) (*client.Conn, error) {
	addr := fmt.Sprintf("127.0.0.1:%d", port)
	conn, err := client.ConnectWithContext(ctx, addr, mysqlUser, mysqlPassword, database, mysqlTimeout)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", addr, err)
	}
	return conn, nil
}

// Exec runs statements one after another in a session of its own, in a database or "".
func (m *MySQL) Exec(ctx context.Context, database string, statements ...string) error {
	conn, err := m.Connect(ctx, database)
	if err != nil {
		return err
	}
	defer conn.Close()
	for _, s := range statements {
		if _, err := conn.Execute(s); err != nil {
			return fmt.Errorf("%s: %w", s, err)
		}
	}
	return nil
}

// Query is the rows that a statement gives, as text; NULL is "NULL".
func (m *MySQL) Query(ctx context.Context, database, statement string) ([][]string, error) {
	conn, err := m.Connect(ctx, database)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	res, err := conn.Execute(statement)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", statement, err)
	}
	return text(res), nil
}

func text(res *mysql.Result) [][]string {
	var rows [][]string
	for _, values := range res.Values {
		row := make([]string, len(values))
		for i := range values {
			row[i] = "NULL"
			if v := values[i].Value(); v != nil {
				row[i] = fmt.Sprint(v)
				if b, ok := v.([]byte); ok {
					row[i] = string(b)
				}
			}
		}
		rows = append(rows, row)
	}
	return rows
}

// CreateDatabase makes an empty database.
func (m *MySQL) CreateDatabase(ctx context.Context, name string) error {
	return m.Exec(ctx, "", "CREATE DATABASE `"+strings.ReplaceAll(name, "`", "``")+"`")
}
