package postgres

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/rowtrail/rowtrail/sink"
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

// target is a sink.Target.
type target struct {
	config *Config
	deps   sink.Deps
	log    *slog.Logger
}

// New makes a Postgres sink.
func New(c *Config, deps sink.Deps) (*sink.Runner, error) {
	if c == nil || c.Connect == nil {
		return nil, fmt.Errorf("create postgres sink: no configuration")
	}
	return sink.NewRunner(c.Settings, newTarget(c, deps), deps), nil
}

func newTarget(c *Config, deps sink.Deps) *target {
	log := deps.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &target{c, deps, log.With("sink", c.Name)}
}

// Ping connects and leaves.
func (t *target) Ping(ctx context.Context) error {
	conn, err := connect(ctx, t.config, "rowtrail ping")
	if err != nil {
		return err
	}
	closeConn(conn)
	return nil
}

// Open is described at sink.Target.
func (t *target) Open(ctx context.Context) (sink.Session, error) {
	conn, err := connect(ctx, t.config, t.config.applicationName())
	if err != nil {
		return nil, err
	}
	s := newSession(t, conn)
	if err := s.takeOver(ctx); err != nil {
		closeConn(conn)
		return nil, classify(err)
	}
	return s, nil
}

func (c *Config) applicationName() string { return "rowtrail sink " + c.Name }

func connect(ctx context.Context, c *Config, application string) (*pgconn.PgConn, error) {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	config := c.Connect.Copy()
	config.RuntimeParams["application_name"] = application
	conn, err := pgconn.ConnectConfig(ctx, config)
	if err != nil {
		return nil, err
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
