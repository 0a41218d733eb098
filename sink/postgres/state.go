package postgres

import (
	"context"
	"fmt"
	"strconv"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/rowtrail/rowtrail/sink"
)

func (c *Config) sinksTable() string   { return tableName{c.OffsetsSchema, "sinks"}.String() }
func (c *Config) offsetsTable() string { return tableName{c.OffsetsSchema, "offsets"}.String() }
func (c *Config) columnsTable() string { return tableName{c.OffsetsSchema, "columns"}.String() }

// stateSQL creates the tables of a target. The offsets table is small and rewritten with every commit, hence its
// storage settings.
func (c *Config) stateSQL() string {
	return "CREATE TABLE IF NOT EXISTS " + c.sinksTable() + ` (
	sink text PRIMARY KEY,
	epoch bigint NOT NULL,
	version text NOT NULL,
	opened_at timestamptz NOT NULL
);
CREATE TABLE IF NOT EXISTS ` + c.offsetsTable() + ` (
	sink text NOT NULL,
	topic text NOT NULL,
	partition integer NOT NULL,
	next_offset bigint NOT NULL,
	position bigint NOT NULL,
	behind boolean NOT NULL,
	updated_at timestamptz NOT NULL,
	log_id text,
	PRIMARY KEY (sink, topic, partition)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
CREATE TABLE IF NOT EXISTS ` + c.columnsTable() + ` (
	sink text NOT NULL,
	topic text NOT NULL,
	column_name text NOT NULL,
	identity bigint NOT NULL,
	number integer NOT NULL,
	type text NOT NULL,
	PRIMARY KEY (sink, topic, column_name)
)`
}

// takeOver makes this session the sink's only one: it ends what an instance before left connected, raises the epoch and
// reads the offsets, in that order (invariant 4).
func (s *session) takeOver(ctx context.Context) error {
	c := s.target.config
	if err := s.createState(ctx); err != nil {
		return err
	}
	if err := s.addOrigins(ctx); err != nil {
		return err
	}
	// A session that is cut off can hold row locks for as long as its server process lives.
	_, err := query(ctx, s.conn, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
		WHERE application_name = $1 AND pid <> pg_backend_pid() AND usename = current_user AND datname = current_database()`,
		c.applicationName())
	if err != nil {
		return fmt.Errorf("end sessions before: %w", err)
	}
	rows, err := query(ctx, s.conn, "INSERT INTO "+c.sinksTable()+` AS s (sink, epoch, version, opened_at) VALUES ($1, 1, $2, now())
		ON CONFLICT (sink) DO UPDATE SET epoch = s.epoch + 1, version = EXCLUDED.version, opened_at = now() RETURNING epoch`,
		c.Name, s.target.deps.Version)
	if err != nil {
		return fmt.Errorf("take over sink in %s: %w", c.sinksTable(), err)
	}
	s.epoch = string(rows[0][0])
	rows, err = query(ctx, s.conn, "SELECT topic, partition, next_offset, position, behind, log_id FROM "+c.offsetsTable()+" WHERE sink = $1", c.Name)
	if err != nil {
		return fmt.Errorf("read offsets from %s: %w", c.offsetsTable(), err)
	}
	for _, row := range rows {
		o, err := parseOffset(row)
		if err != nil {
			return fmt.Errorf("read offsets from %s: %w", c.offsetsTable(), err)
		}
		s.offsets = append(s.offsets, o)
	}
	return nil
}

func parseOffset(row [][]byte) (sink.Offset, error) {
	p, err := strconv.ParseInt(string(row[1]), 10, 32)
	if err != nil {
		return sink.Offset{}, err
	}
	next, err := strconv.ParseInt(string(row[2]), 10, 64)
	if err != nil {
		return sink.Offset{}, err
	}
	position, err := strconv.ParseInt(string(row[3]), 10, 64)
	if err != nil {
		return sink.Offset{}, err
	}
	return sink.Offset{
		Topic: string(row[0]), Partition: int32(p), Next: next, Position: uint64(position), Behind: string(row[4]) == "t",
		Log: string(row[5]),
	}, nil
}

// createState creates what is missing. CREATE ... IF NOT EXISTS needs rights even when there is nothing to create.
func (s *session) createState(ctx context.Context) error {
	c := s.target.config
	rows, err := query(ctx, s.conn, "SELECT to_regnamespace($1) IS NOT NULL, to_regclass($2) IS NOT NULL AND to_regclass($3) IS NOT NULL AND to_regclass($4) IS NOT NULL",
		quote(c.OffsetsSchema), c.sinksTable(), c.offsetsTable(), c.columnsTable())
	if err != nil {
		return fmt.Errorf("look for offsets tables: %w", err)
	}
	schema, tables := string(rows[0][0]) == "t", string(rows[0][1]) == "t"
	if !schema {
		if _, err := s.conn.Exec(ctx, "CREATE SCHEMA IF NOT EXISTS "+quote(c.OffsetsSchema)).ReadAll(); err != nil {
			return fmt.Errorf("create schema %s: %w", quote(c.OffsetsSchema), err)
		}
	}
	if !tables {
		if _, err := s.conn.Exec(ctx, c.stateSQL()).ReadAll(); err != nil {
			return fmt.Errorf("create offsets tables in schema %s: %w", quote(c.OffsetsSchema), err)
		}
	}
	return nil
}

// query runs one statement with text parameters and reads all of its rows as text.
func query(ctx context.Context, conn *pgconn.PgConn, sql string, params ...string) ([][][]byte, error) {
	values := make([][]byte, len(params))
	for i, p := range params {
		values[i] = []byte(p)
	}
	r := conn.ExecParams(ctx, sql, values, nil, nil, nil).Read()
	return r.Rows, r.Err
}
