package mysql

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/rowtrail/rowtrail/connectors/mysql/grants"
	"github.com/rowtrail/rowtrail/sink"
)

// Oldest servers, and the least packet that wide rows fit in.
const (
	minMySQL   = 80000
	minMariaDB = 100600
	minPacket  = 4 << 20
)

// checker collects findings.
type checker struct {
	config   *Config
	conn     *conn
	user     string
	grants   grants.List
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
	m, err := connect(ctx, config)
	if err != nil {
		problem, remedy := err.Error(), "see the server's error log"
		if e := (*connectError)(nil); errors.As(err, &e) {
			problem, remedy = "cannot connect to "+e.where+": "+e.problem, e.remedy
		}
		c.add(sink.LevelError, "target", problem, remedy)
		return c.findings
	}
	defer m.close()
	c.conn = m
	for _, step := range []func(context.Context) error{c.server, c.readGrants, c.offsets, c.databases, c.tables} {
		if err := step(ctx); err != nil {
			c.add(sink.LevelError, "target", fmt.Sprintf("check target: %v", err), "see the server's error log")
			return c.findings
		}
	}
	return c.findings
}

func (c *checker) server(ctx context.Context) error {
	name, least, text := "MySQL", minMySQL, "8.0"
	if c.conn.mariadb {
		name, least, text = "MariaDB", minMariaDB, "10.6"
	}
	if c.conn.number < least {
		c.add(sink.LevelError, "server", name+" "+c.conn.version+" is too old: "+text+" or newer is needed", "upgrade the target")
	}
	rows, err := c.conn.query(ctx, "SELECT CURRENT_USER(), @@GLOBAL.read_only, @@GLOBAL.log_bin, @@GLOBAL.binlog_format")
	if err != nil {
		return err
	}
	user, host, _ := strings.Cut(rows[0][0], "@")
	c.user = literal(user) + "@" + literal(host)
	if rows[0][1] != "0" && rows[0][1] != "OFF" {
		c.add(sink.LevelError, "server", "it is read-only, as replicas are", "name the primary in dsn, or SET GLOBAL read_only = OFF")
	}
	if rows[0][2] != "0" && rows[0][3] == "STATEMENT" {
		c.add(sink.LevelError, "server", "binlog_format is STATEMENT, with which InnoDB refuses READ COMMITTED transactions", "SET GLOBAL binlog_format = 'ROW'")
	}
	if c.conn.maxPacket < minPacket {
		c.add(sink.LevelWarning, "server", fmt.Sprintf("max_allowed_packet is %d bytes: a sink stops at a row that needs more", c.conn.maxPacket), "SET GLOBAL max_allowed_packet = "+strconv.Itoa(64<<20))
	}
	return nil
}

// readGrants reads the user's rights, with those of its roles.
func (c *checker) readGrants(ctx context.Context) error {
	sql := "SHOW GRANTS"
	if !c.conn.mariadb {
		rows, err := c.conn.query(ctx, "SELECT CURRENT_ROLE()")
		if err != nil {
			return err
		}
		if role := rows[0][0]; role != "NONE" {
			sql = "SHOW GRANTS FOR CURRENT_USER() USING " + role
		}
	}
	rows, err := c.conn.query(ctx, sql)
	if err != nil {
		return err
	}
	for _, r := range rows {
		if g, ok := grants.Parse(r[0]); ok {
			c.grants = append(c.grants, g)
		}
	}
	return nil
}

// need reports rights that the user lacks for a table, or with table "" for all of a database.
func (c *checker) need(database, table string, rights ...string) {
	var lacks []string
	for _, right := range rights {
		if !c.grants.Has(database, table, right) {
			lacks = append(lacks, right)
		}
	}
	if len(lacks) == 0 {
		return
	}
	subject, on := "database "+database, quote(database)+".*"
	if table != "" {
		subject, on = "table "+database+"."+table, tableName{database, table}.String()
	}
	list := strings.Join(lacks, ", ")
	c.add(sink.LevelError, subject, c.user+" lacks "+list, "GRANT "+list+" ON "+on+" TO "+c.user)
}

func (c *checker) exists(ctx context.Context, database string) (bool, error) {
	rows, err := c.conn.query(ctx, "SELECT COUNT(*) FROM information_schema.schemata WHERE schema_name = "+literal(database))
	return err == nil && rows[0][0] != "0", err
}

func (c *checker) offsets(ctx context.Context) error {
	c.need(c.config.OffsetsDatabase, "", "SELECT", "INSERT", "UPDATE", "DELETE", "CREATE", "CREATE TEMPORARY TABLES")
	return nil
}

// databases checks where tables will be created, as far as the configuration tells.
func (c *checker) databases(ctx context.Context) error {
	database := c.config.Naming.Schema
	if database == "" {
		return nil
	}
	rights := []string{"SELECT", "INSERT", "UPDATE", "DELETE"}
	if c.config.Evolve {
		rights = append(rights, "CREATE", "ALTER")
	} else if has, err := c.exists(ctx, database); err != nil || !has {
		c.add(sink.LevelError, "database "+database, "it does not exist, or the user may not see it, and schema.evolution is none", "CREATE DATABASE "+quote(database)+", with the source's tables")
		return err
	}
	c.need(database, "", rights...)
	return nil
}

// tables checks the tables that the configuration names and that exist already.
func (c *checker) tables(ctx context.Context) error {
	for _, mapped := range c.config.Naming.Mapped() {
		name := tableName(mapped)
		rows, err := c.conn.query(ctx, "SELECT engine FROM information_schema.tables WHERE table_schema = "+literal(name.Schema)+" AND table_name = "+literal(name.Table))
		if err != nil {
			return err
		}
		if len(rows) == 0 {
			if !c.config.Evolve {
				c.add(sink.LevelError, "table "+name.String(), "does not exist, or the user may not see it, and schema.evolution is none", "create it with the source's columns and key")
			}
			continue
		}
		if rows[0][0] != "InnoDB" {
			c.add(sink.LevelError, "table "+name.String(), "its engine "+rows[0][0]+" has no transactions", "ALTER TABLE "+name.String()+" ENGINE = InnoDB")
		}
		rights := []string{"SELECT", "INSERT", "UPDATE", "DELETE"}
		if c.config.Evolve {
			rights = append(rights, "ALTER")
		}
		c.need(name.Schema, name.Table, rights...)
	}
	return nil
}
