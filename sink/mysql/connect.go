package mysql

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/go-mysql-org/go-mysql/client"
	"github.com/go-mysql-org/go-mysql/mysql"
)

// Times of a connection.
const (
	connectTimeout = 10 * time.Second
	closeTimeout   = 2 * time.Second
)

// The session is strict, takes dates that no calendar has, as the source did, and reads literals without escapes. Relaxed it lets an
// ENUM be ” (index 0), and warns.
const (
	relaxedMode = "ALLOW_INVALID_DATES,NO_AUTO_VALUE_ON_ZERO,NO_ENGINE_SUBSTITUTION,NO_BACKSLASH_ESCAPES"
	strictMode  = "STRICT_ALL_TABLES," + relaxedMode
)

// Settings of a session, and those that one of the two has alone. Waiting for locks is bounded; lists of keys are read by the index however
// long they are.
const (
	sessionSQL = `SET SESSION sql_mode = '` + strictMode + `', time_zone = '+00:00', autocommit = 1, wait_timeout = 28800,
		innodb_lock_wait_timeout = 60, lock_wait_timeout = 60, foreign_key_checks = 1, unique_checks = 1, sql_safe_updates = 0,
		sql_notes = 1`
	mysqlSQL   = `SET SESSION range_optimizer_max_mem_size = 0`
	mariadbSQL = `SET SESSION in_predicate_conversion_threshold = 0, max_statement_time = 0, idle_transaction_timeout = 300`
)

// conn is one connection to the target.
type conn struct {
	*client.Conn
	mariadb   bool
	version   string
	number    int // 80044, 101114
	maxPacket int
	loads     bool // the server takes LOAD DATA LOCAL
}

// connect opens a session.
func connect(ctx context.Context, c *Config) (*conn, error) {
	config, err := c.Connect.tls()
	if err != nil {
		return nil, c.connectFailed(err)
	}
	raw, err := dial(ctx, c.Connect, func(m *client.Conn) { m.SetTLSConfig(config) })
	if err != nil && c.Connect.SSLMode == sslPreferred && strings.Contains(err.Error(), "does not support TLS") {
		raw, err = dial(ctx, c.Connect, func(*client.Conn) {})
	}
	if err != nil {
		return nil, c.connectFailed(err)
	}
	m := &conn{Conn: raw}
	if err := m.setUp(ctx); err != nil {
		m.close()
		return nil, fmt.Errorf("set up session: %w", err)
	}
	return m, nil
}

func dial(ctx context.Context, c *Connection, secure func(*client.Conn)) (*client.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	var opened net.Conn
	dialer := func(ctx context.Context, network, address string) (net.Conn, error) {
		var d net.Dialer
		conn, err := d.DialContext(ctx, network, address)
		opened = conn
		if err == nil { // the handshake knows no context
			deadline, _ := ctx.Deadline()
			err = conn.SetDeadline(deadline)
		}
		return conn, err
	}
	raw, err := client.ConnectWithDialer(ctx, c.Network, c.Address, c.User, c.Password, "", dialer, func(m *client.Conn) error {
		secure(m)
		return errors.Join(m.SetCapability(mysql.CLIENT_FOUND_ROWS), m.SetCapability(mysql.CLIENT_LOCAL_FILES))
	})
	if err != nil {
		if opened != nil {
			_ = opened.Close()
		}
		return nil, err
	}
	return raw, raw.SetDeadline(time.Time{})
}

func (m *conn) setUp(ctx context.Context) error {
	for _, sql := range []string{"SET NAMES utf8mb4", sessionSQL, "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED"} {
		if _, err := m.exec(ctx, sql); err != nil {
			return err
		}
	}
	rows, err := m.query(ctx, "SELECT VERSION(), @@max_allowed_packet, @@local_infile")
	if err != nil {
		return err
	}
	m.version = rows[0][0]
	m.mariadb = strings.Contains(m.version, "MariaDB")
	m.number = versionNumber(m.version)
	m.loads = rows[0][2] == "1"
	if m.maxPacket, err = strconv.Atoi(rows[0][1]); err != nil {
		return err
	}
	own := mysqlSQL
	if m.mariadb {
		own = mariadbSQL
	}
	_, err = m.exec(ctx, own)
	return err
}

// versionNumber is 80044 of 8.0.44, and 101114 of 10.11.14-MariaDB.
func versionNumber(text string) int {
	text, _, _ = strings.Cut(text, "-")
	n := 0
	for i, part := range strings.SplitN(text+".0.0", ".", 4) {
		if i == 3 {
			break
		}
		v, err := strconv.Atoi(part)
		if err != nil {
			return 0
		}
		n = n*100 + v
	}
	return n
}

// exec runs a statement. The client knows no context: when it ends, so does the connection.
func (m *conn) exec(ctx context.Context, sql string) (*mysql.Result, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	stop := context.AfterFunc(ctx, func() { _ = m.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	r, err := m.Execute(sql)
	if err != nil && ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return r, err
}

// query reads all rows of a statement as text, NULL as "".
func (m *conn) query(ctx context.Context, sql string) ([][]string, error) {
	r, err := m.exec(ctx, sql)
	if err != nil {
		return nil, err
	}
	rows := make([][]string, len(r.Values))
	for i, values := range r.Values {
		rows[i] = make([]string, len(values))
		for j := range values {
			switch v := values[j].Value().(type) {
			case nil:
			case []byte:
				rows[i][j] = string(v)
			default:
				rows[i][j] = fmt.Sprint(v)
			}
		}
	}
	return rows, nil
}

// close ends the session; the server rolls back what is open.
func (m *conn) close() {
	_ = m.SetDeadline(time.Now().Add(closeTimeout))
	if m.Quit() != nil {
		_ = m.Conn.Close()
	}
}

// connectError is why no connection came about.
type connectError struct {
	where, problem, remedy string
	err                    error
}

func (e *connectError) Error() string {
	return fmt.Sprintf("connect to %s: %s; %s", e.where, e.problem, e.remedy)
}

func (e *connectError) Unwrap() error { return e.err }

func (c *Config) connectFailed(err error) error {
	e := &connectError{
		where: c.Connect.Address + " as " + c.Connect.User, problem: err.Error(), err: err,
		remedy: "check host and port in dsn, and that the server listens at " + c.Connect.Address,
	}
	if errors.Is(err, context.DeadlineExceeded) {
		e.problem = fmt.Sprintf("no answer within %s", connectTimeout)
	}
	var my *mysql.MyError
	if !errors.As(err, &my) {
		return e
	}
	e.problem = my.Error()
	switch my.Code {
	case mysql.ER_ACCESS_DENIED_ERROR:
		e.remedy = "check user and password in dsn, and from which hosts the user may log in (SELECT user, host FROM mysql.user)"
	case mysql.ER_CON_COUNT_ERROR:
		e.remedy = "raise max_connections, or free connections"
	case mysql.ER_HOST_NOT_PRIVILEGED:
		e.remedy = "create the user for this host"
	default:
		e.remedy = "see the server's error log"
	}
	return e
}
