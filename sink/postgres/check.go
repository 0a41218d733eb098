package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/rowtrail/rowtrail/sink"
)

const minServerVersion = 120000

// checker collects findings.
type checker struct {
	config   *Config
	conn     *pgconn.PgConn
	user     string
	database string
	findings []sink.Finding
}

func (c *checker) add(level, subject, problem, remedy string) {
	f := sink.Finding{Level: level, Subject: subject, Problem: problem, Remedy: remedy}
	if !slices.Contains(c.findings, f) {
		c.findings = append(c.findings, f)
	}
}

// Check connects to the target and reports what the sink would stumble over, with the SQL that mends it. It changes nothing.
func Check(ctx context.Context, config *Config) []sink.Finding {
	c := &checker{config: config}
	conn, err := connect(ctx, config, "rowtrail check")
	if err != nil {
		problem, remedy := err.Error(), "see the server's log"
		if e := (*connectError)(nil); errors.As(err, &e) {
			problem, remedy = "cannot connect to "+e.where+": "+e.problem, e.remedy
		}
		c.add(sink.LevelError, "target", problem, remedy)
		return c.findings
	}
	defer closeConn(conn)
	c.conn = conn
	for _, step := range []func(context.Context) error{c.server, c.offsets, c.schemas, c.tables} {
		if err := step(ctx); err != nil {
			c.add(sink.LevelError, "target", err.Error(), "see the server's log")
			return c.findings
		}
	}
	return c.findings
}

// ask runs a query of one row of booleans and text.
func (c *checker) ask(ctx context.Context, sql string, params ...string) ([]string, error) {
	rows, err := query(ctx, c.conn, sql, params...)
	if err != nil {
		return nil, fmt.Errorf("check target: %w", err)
	}
	if len(rows) != 1 {
		return nil, fmt.Errorf("check target: %d rows instead of 1", len(rows))
	}
	out := make([]string, len(rows[0]))
	for i, v := range rows[0] {
		out[i] = string(v)
	}
	return out, nil
}

func (c *checker) server(ctx context.Context) error {
	r, err := c.ask(ctx, `SELECT current_user, current_database(), current_setting('server_version_num')::int >= $1::int,
		current_setting('server_version'), pg_is_in_recovery(), current_setting('default_transaction_read_only')`, fmt.Sprint(minServerVersion))
	if err != nil {
		return err
	}
	c.user, c.database = r[0], r[1]
	if r[2] != "t" {
		c.add(sink.LevelError, "server", "Postgres "+r[3]+" is too old: 12 or newer is needed", "upgrade the target")
	}
	if r[4] == "t" {
		c.add(sink.LevelError, "server", "the server is a standby and cannot be written", "name the primary in dsn, or target_session_attrs=read-write")
	}
	if r[5] == "on" {
		c.add(sink.LevelError, "server", "transactions are read-only by default",
			fmt.Sprintf("ALTER ROLE %s IN DATABASE %s SET default_transaction_read_only = off", quote(c.user), quote(c.database)))
	}
	return nil
}

// schema reports what the role may not do in a schema; usable tells whether its tables can be looked at.
func (c *checker) schema(ctx context.Context, schema string, create bool) (usable bool, err error) {
	r, err := c.ask(ctx, `SELECT to_regnamespace($1) IS NOT NULL,
		has_database_privilege(current_database(), 'CREATE'),
		CASE WHEN to_regnamespace($1) IS NOT NULL THEN has_schema_privilege(to_regnamespace($1), 'USAGE') END,
		CASE WHEN to_regnamespace($1) IS NOT NULL THEN has_schema_privilege(to_regnamespace($1), 'CREATE') END`, quote(schema))
	if err != nil {
		return false, err
	}
	exists, mayUse, mayCreate := r[0] == "t", r[2] == "t", r[3] == "t"
	if !exists && create && r[1] != "t" {
		c.add(sink.LevelError, "schema "+schema, "does not exist, and "+c.user+" may not create it",
			fmt.Sprintf("CREATE SCHEMA %s AUTHORIZATION %s", quote(schema), quote(c.user)))
	}
	if exists && !mayUse {
		c.add(sink.LevelError, "schema "+schema, c.user+" may not use it", fmt.Sprintf("GRANT USAGE ON SCHEMA %s TO %s", quote(schema), quote(c.user)))
	}
	if exists && create && !mayCreate {
		c.add(sink.LevelError, "schema "+schema, c.user+" may not create tables in it",
			fmt.Sprintf("GRANT CREATE ON SCHEMA %s TO %s", quote(schema), quote(c.user)))
	}
	return exists && mayUse, nil
}

func (c *checker) offsets(ctx context.Context) error {
	usable, err := c.schema(ctx, c.config.OffsetsSchema, false)
	if err != nil {
		return err
	}
	if usable {
		r, err := c.ask(ctx, "SELECT to_regclass($1) IS NOT NULL AND to_regclass($2) IS NOT NULL", c.config.sinksTable(), c.config.offsetsTable())
		if err != nil {
			return err
		}
		if r[0] == "t" {
			for _, t := range []string{c.config.sinksTable(), c.config.offsetsTable()} {
				if err := c.rights(ctx, t, "SELECT", "INSERT", "UPDATE"); err != nil {
					return err
				}
			}
			return nil
		}
	}
	if r, err := c.ask(ctx, "SELECT to_regnamespace($1) IS NOT NULL", quote(c.config.OffsetsSchema)); err != nil || (r[0] == "t" && !usable) {
		return err // reported above
	}
	_, err = c.schema(ctx, c.config.OffsetsSchema, true)
	return err
}

// rights reports what the role may not do with a table.
func (c *checker) rights(ctx context.Context, table string, rights ...string) error {
	for _, right := range rights {
		r, err := c.ask(ctx, "SELECT has_table_privilege(to_regclass($1), $2)", table, right)
		if err != nil {
			return err
		}
		if r[0] != "t" {
			c.add(sink.LevelError, "table "+table, c.user+" has no "+right+" right", fmt.Sprintf("GRANT %s ON %s TO %s", right, table, quote(c.user)))
		}
	}
	return nil
}

// schemas checks where tables will be created, as far as the configuration tells.
func (c *checker) schemas(ctx context.Context) error {
	if c.config.Naming.Schema != "" {
		_, err := c.schema(ctx, c.config.Naming.Schema, c.config.Evolve)
		return err
	}
	if !c.config.Evolve {
		return nil
	}
	r, err := c.ask(ctx, "SELECT has_database_privilege(current_database(), 'CREATE')")
	if err != nil {
		return err
	}
	if r[0] != "t" {
		c.add(sink.LevelWarning, "database "+c.database, c.user+" may not create the source's schemas when they are missing",
			fmt.Sprintf("GRANT CREATE ON DATABASE %s TO %s, or create the schemas by hand", quote(c.database), quote(c.user)))
	}
	return nil
}

// tables checks the tables that the configuration names and that exist already.
func (c *checker) tables(ctx context.Context) error {
	for _, mapped := range c.config.Naming.Mapped() {
		name := tableName(mapped)
		usable, err := c.schema(ctx, name.Schema, false)
		if err != nil {
			return err
		}
		if !usable {
			continue
		}
		r, err := c.ask(ctx, "SELECT to_regclass($1) IS NOT NULL", name.String())
		if err != nil {
			return err
		}
		if r[0] != "t" {
			if !c.config.Evolve {
				c.add(sink.LevelError, "table "+name.String(), "does not exist and schema.evolution is none", "create it with the source's columns and key")
			}
			continue
		}
		rights := []string{"SELECT", "INSERT", "UPDATE", "DELETE"}
		if c.config.Truncate {
			rights = append(rights, "TRUNCATE")
		}
		if err := c.rights(ctx, name.String(), rights...); err != nil {
			return err
		}
	}
	return nil
}
