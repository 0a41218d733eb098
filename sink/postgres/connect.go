package postgres

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// Times of a connection.
const (
	connectTimeout = 10 * time.Second
	closeTimeout   = 2 * time.Second
)

// sessionSQL fixes how the source's text is read, and bounds what a lost or stuck session holds up.
const sessionSQL = `SET client_encoding = 'UTF8'; SET DateStyle = 'ISO, YMD'; SET IntervalStyle = 'postgres'; SET TimeZone = 'UTC';
SET lc_monetary = 'C'; SET search_path = pg_catalog; SET plan_cache_mode = 'force_generic_plan'; SET lock_timeout = '60s';
SET statement_timeout = 0; SET idle_in_transaction_session_timeout = '300s'; SET standard_conforming_strings = on;`

// keepaliveSQL lets the server notice a dead node, so that its locks do not outlive it for hours.
const keepaliveSQL = `SET tcp_keepalives_idle = 30; SET tcp_keepalives_interval = 10; SET tcp_keepalives_count = 3;`

func connect(ctx context.Context, c *Config, application string) (*pgconn.PgConn, error) {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	config := c.Connect.Copy()
	config.RuntimeParams["application_name"] = application
	conn, err := pgconn.ConnectConfig(ctx, config)
	if err != nil {
		return nil, c.connectFailed(err)
	}
	sql := sessionSQL
	if !strings.HasPrefix(config.Host, "/") {
		sql += keepaliveSQL
	}
	if _, err := conn.Exec(ctx, sql).ReadAll(); err != nil {
		closeConn(conn)
		return nil, fmt.Errorf("set up session: %w", err)
	}
	return conn, nil
}

func closeConn(conn *pgconn.PgConn) {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	_ = conn.Close(ctx) // the server rolls back what is open
}

// connectError is why no connection came about: the last cause alone, as each address is tried with and without TLS.
type connectError struct {
	where, problem, remedy string
	err                    error
}

func (e *connectError) Error() string {
	return fmt.Sprintf("connect to %s: %s; %s", e.where, e.problem, e.remedy)
}

func (e *connectError) Unwrap() error { return e.err }

func (c *Config) connectFailed(err error) error {
	address := net.JoinHostPort(c.Connect.Host, strconv.Itoa(int(c.Connect.Port)))
	cause := rootCause(err)
	e := &connectError{
		where: fmt.Sprintf("database %s on %s as %s", c.Connect.Database, address, c.Connect.User), problem: cause.Error(), err: err,
		remedy: "check host and port in dsn, and that the server listens at " + address,
	}
	if errors.Is(cause, context.DeadlineExceeded) {
		e.problem = fmt.Sprintf("no answer within %s", connectTimeout)
	}
	var pg *pgconn.PgError
	if !errors.As(cause, &pg) {
		return e
	}
	switch pg.Code {
	case "3D000":
		e.remedy = "CREATE DATABASE " + quote(c.Connect.Database)
	case "28000", "28P01":
		e.remedy = "check user and password in dsn, and pg_hba.conf"
	case "53300":
		e.remedy = "raise max_connections and restart the server, or free connections"
	default:
		e.remedy = "see the server's log"
	}
	return e
}

// rootCause goes down to the last cause of an error.
func rootCause(err error) error {
	for {
		switch e := err.(type) { //nolint:errorlint // the tree itself is walked
		case interface{ Unwrap() []error }:
			list := e.Unwrap()
			if len(list) == 0 {
				return err
			}
			err = list[len(list)-1]
		case interface{ Unwrap() error }:
			next := e.Unwrap()
			if next == nil {
				return err
			}
			err = next
		default:
			return err
		}
	}
}
