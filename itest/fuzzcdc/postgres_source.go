package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/rowtrail/rowtrail/itest/audit"
	"github.com/rowtrail/rowtrail/itest/pipeline"
	"github.com/rowtrail/rowtrail/itest/servers"
	"github.com/rowtrail/rowtrail/log/sleep"
)

// lockTimeout is how long a session of the workload waits for a lock: a prepared transaction may hold it.
const lockTimeout = "4s"

type postgresSource struct {
	server pipeline.Server
	dsn    string
}

func (p *postgresSource) restart(ctx context.Context, how servers.Shutdown) error {
	return p.server.Restart(ctx, how)
}

type postgresSession struct{ conn *pgx.Conn }

func (p *postgresSource) connect(ctx context.Context) (session, error) {
	conn, err := pgx.Connect(ctx, p.dsn)
	if err != nil {
		return nil, err
	}
	s := &postgresSession{conn}
	if _, err := s.exec(ctx, "SET lock_timeout = '"+lockTimeout+"'"); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

func (s *postgresSession) exec(ctx context.Context, sql string) (int64, error) {
	results, err := s.conn.PgConn().Exec(ctx, sql).ReadAll()
	if err != nil {
		return 0, err
	}
	if len(results) == 0 {
		return 0, nil
	}
	return results[len(results)-1].CommandTag.RowsAffected(), nil
}

func (s *postgresSession) close() { _ = s.conn.Close(context.Background()) }

// States of Postgres' errors.
const (
	undefinedTable  = "42P01"
	undefinedColumn = "42703"
	undefinedObject = "42704" // of a prepared transaction, too
)

func (p *postgresSource) judge(err error) verdict {
	var e *pgconn.PgError
	if !errors.As(err, &e) {
		return lost
	}
	switch {
	case strings.HasPrefix(e.Code, "57P"), strings.HasPrefix(e.Code, "08"):
		return lost
	case strings.HasPrefix(e.Code, "40"), e.Code == "55P03":
		return again
	case e.Code == undefinedTable, e.Code == undefinedColumn:
		return notYet
	case e.Code == undefinedObject, e.Code == "42P07", e.Code == "42701", e.Code == "42710":
		return settled
	}
	return refused
}

func (p *postgresSource) cut(ctx context.Context) error {
	return pipeline.WithConn(ctx, p.dsn, func(c *pgx.Conn) error {
		_, err := c.Exec(ctx, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE '%rowtrail%' OR backend_type = 'walsender'")
		return err
	})
}

// settle ends prepared transactions whose session is gone: which way depends on their number alone.
func (p *postgresSource) settle(ctx context.Context) error {
	return pipeline.WithConn(ctx, p.dsn, func(c *pgx.Conn) error {
		rows, err := c.Query(ctx, "SELECT gid FROM pg_prepared_xacts")
		if err != nil {
			return err
		}
		open, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			return err
		}
		for _, gid := range open {
			verb := "COMMIT"
			if strings.HasSuffix(gid, "1") {
				verb = "ROLLBACK"
			}
			if _, err := c.Exec(ctx, verb+" PREPARED '"+gid+"'"); err != nil {
				return fmt.Errorf("settle %s: %w", gid, err)
			}
		}
		return nil
	})
}

// postgresEndpoint reads tables of a Postgres database.
type postgresEndpoint struct{ conn *pgx.Conn }

func openPostgres(ctx context.Context, dsn string) (*postgresEndpoint, error) {
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return nil, err
	}
	// As the connector's own sessions, so that state, source and target print alike.
	const settings = `SET DateStyle = 'ISO, YMD'; SET IntervalStyle = 'postgres'; SET TimeZone = 'UTC'; SET bytea_output = 'hex'; SET extra_float_digits = 3;
		SET lc_monetary = 'C'; SET search_path = pg_catalog; SET default_transaction_isolation = 'read committed'`
	if _, err := conn.PgConn().Exec(ctx, settings).ReadAll(); err != nil {
		_ = conn.Close(ctx)
		return nil, err
	}
	return &postgresEndpoint{conn}, nil
}

func (e *postgresEndpoint) close() { _ = e.conn.Close(context.Background()) }

func (e *postgresEndpoint) columns(ctx context.Context, table string) ([]string, error) {
	rows, err := e.conn.Query(ctx, `SELECT attname FROM pg_attribute WHERE attrelid = $1::regclass AND attnum > 0 AND NOT attisdropped AND attgenerated = '' ORDER BY attnum`,
		pgx.Identifier{"public", table}.Sanitize())
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}

func (e *postgresEndpoint) read(ctx context.Context, table string, columns, key []string) (*copied, error) {
	list := make([]string, len(columns))
	for i, c := range columns {
		list[i] = pgx.Identifier{c}.Sanitize()
	}
	// Without a cast, which prints some types otherwise: the simple protocol has every value as its type prints it.
	results, err := e.conn.PgConn().Exec(ctx, "SELECT "+strings.Join(list, ", ")+" FROM "+pgx.Identifier{"public", table}.Sanitize()).ReadAll()
	if err != nil {
		return nil, err
	}
	c := newCopied(columns)
	for _, values := range results[0].Rows {
		row := make([]*string, len(values))
		for i, v := range values {
			if v != nil {
				row[i] = new(string(v))
			}
		}
		c.add(row, key)
	}
	return c, nil
}

// postgresAudit reads what test_decoding makes of the same WAL.
type postgresAudit struct{ dsn string }

// take waits until the log has all: tables without a key are not compared otherwise.
func (a *postgresAudit) take(ctx context.Context, to *commits) error {
	return pipeline.WithConn(ctx, a.dsn, func(c *pgx.Conn) error {
		if err := a.passed(ctx, c); err != nil {
			return err
		}
		var open *commit
		return audit.Take(ctx, c, func(line string) error {
			switch {
			case strings.HasPrefix(line, "BEGIN "):
				open = &commit{id: strings.TrimPrefix(line, "BEGIN "), tables: map[string]*touched{}}
				return nil
			case strings.HasPrefix(line, "COMMIT "):
				to.add(open)
				return nil
			case strings.HasPrefix(line, "message: "):
				return nil
			}
			return open.line(line)
		})
	})
}

// passed writes something behind all commits, which flushes them (some sessions did not wait for that), and waits until the connector
// has confirmed it.
func (a *postgresAudit) passed(ctx context.Context, c *pgx.Conn) error {
	var at string
	if err := c.QueryRow(ctx, "SELECT pg_logical_emit_message(true, 'fuzz', 'behind all')::text").Scan(&at); err != nil {
		return err
	}
	deadline := time.Now().Add(settleTime)
	for {
		var reached bool
		err := c.QueryRow(ctx, "SELECT confirmed_flush_lsn >= $1::text::pg_lsn FROM pg_replication_slots WHERE plugin = 'pgoutput' AND NOT temporary", at).Scan(&reached)
		if err == nil && reached {
			return nil
		}
		if time.Now().After(deadline) || !sleep.For(ctx, compareEach) {
			return errors.Join(fmt.Errorf("the connector has not confirmed %s %s after it was written", at, settleTime), err)
		}
	}
}

// line takes a change as test_decoding prints it. The stamp is the table's first column, so that no value is taken for one.
func (c *commit) line(line string) error {
	rest, ok := strings.CutPrefix(line, "table public.")
	if !ok {
		if strings.HasPrefix(line, "table ") { // of other schemas there are none
			return fmt.Errorf("parse %q: not a change of a table of public", line)
		}
		return nil
	}
	at := -1
	op := ""
	for _, o := range []string{": INSERT: ", ": UPDATE: ", ": DELETE: ", ": TRUNCATE: "} {
		if i := strings.Index(rest, o); i >= 0 && (at < 0 || i < at) {
			at, op = i, strings.Trim(o, ": ")
		}
	}
	if at < 0 {
		return fmt.Errorf("parse %q: no operation", line)
	}
	name := rest[:at]
	tuple := rest[at+len(op)+4:]
	if op == "TRUNCATE" { // public.a, public.b: TRUNCATE: ...
		c.truncates = true
		return nil
	}
	if strings.HasPrefix(name, `"`) {
		name = strings.ReplaceAll(strings.Trim(name, `"`), `""`, `"`)
	}
	t := c.table(name)
	if op == "DELETE" {
		t.deletes++
		return nil
	}
	if old, fresh, ok := strings.Cut(tuple, " new-tuple: "); ok && strings.HasPrefix(old, "old-key: ") {
		t.unsure = true // the key may have changed: a delete and a create
		tuple = fresh
	}
	var stamp int64
	if _, err := fmt.Sscanf(tuple, stampColumn+"[bigint]:%d", &stamp); err != nil {
		return fmt.Errorf("parse %q: no stamp: %w", line, err)
	}
	t.stamps = append(t.stamps, stamp)
	return nil
}
