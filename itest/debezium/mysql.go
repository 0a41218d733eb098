package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/go-mysql-org/go-mysql/client"

	"github.com/rowtrail/rowtrail/itest/servers"
)

// Server ids under which the two read the binary log.
const (
	debeziumServerID = "5501"
	rowtrailServerID = 5502 // and the next
)

// mysql is a MySQL or MariaDB server; each mode has a database of its own.
type mysql struct {
	server   *servers.MySQL
	conn     *client.Conn
	database string
}

// startMySQL starts the newest server of a flavour.
func startMySQL(version string) func(context.Context, func(string, ...any)) (source, error) {
	return func(ctx context.Context, logf func(string, ...any)) (source, error) {
		s, err := servers.StartMySQL(ctx, servers.Options{Version: version, Logf: logf})
		if err != nil {
			return nil, err
		}
		return &mysql{server: s}, nil
	}
}

func (s *mysql) cases(m *mode, seed uint64) []tableCase {
	var list []tableCase
	for i, t := range mysqlTypes(s.server.Flavour()) {
		list = append(list, typed(fmt.Sprintf("t%d", i), t.typ, "", t.expand(seed, i), m, mysqlTransaction))
	}
	for i, k := range mysqlKeys() {
		list = append(list, keyed(fmt.Sprintf("k%d", i), k[0], k[1], k[2], k[3]))
	}
	return append(list, mysqlShapes()...)
}

func mysqlTransaction(statements []string) []string {
	return append(append([]string{"BEGIN"}, statements...), "COMMIT")
}

func (s *mysql) open(ctx context.Context, database string) error {
	if s.conn != nil {
		_ = s.conn.Close()
		s.conn = nil
	}
	if err := s.server.CreateDatabase(ctx, database); err != nil {
		return err
	}
	conn, err := s.server.Connect(ctx, database)
	if err != nil {
		return err
	}
	s.conn, s.database = conn, database
	if err := s.exec(ctx, "SET sql_mode = 'ALLOW_INVALID_DATES', time_zone = '+00:00'"); err != nil || s.server.MariaDB() {
		return err
	}
	return s.exec(ctx, "SET binlog_rows_query_log_events = ON") // as MariaDB does by itself
}

func (s *mysql) exec(ctx context.Context, statements ...string) error {
	for _, sql := range statements {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if _, err := s.conn.Execute(sql); err != nil {
			return fmt.Errorf("%.300s: %w", sql, err)
		}
	}
	return nil
}

func (s *mysql) rowtrail(prefix string) (typ string, props map[string]string) {
	props = s.properties()
	id := rowtrailServerID
	if prefix == prefixSchemas {
		id++
	}
	props["database.server.id"] = strconv.Itoa(id)
	return s.server.Flavour(), props
}

func (s *mysql) debezium() map[string]string {
	props := s.properties()
	props["connector.class"] = "io.debezium.connector.mysql.MySqlConnector"
	if s.server.MariaDB() {
		props["connector.class"] = "io.debezium.connector.mariadb.MariaDbConnector"
	}
	props["database.server.id"] = debeziumServerID
	props["schema.history.internal"] = "io.debezium.relational.history.MemorySchemaHistory"
	return props
}

// properties are those that both are given alike.
func (s *mysql) properties() map[string]string {
	return map[string]string{
		"database.hostname": s.server.Host(), "database.port": strconv.Itoa(s.server.Port()),
		"database.user": s.server.User(), "database.password": s.server.Password(), "database.include.list": s.database,
	}
}

// ready: the initial load is over; without one, the last of the schema's events is there, which are written behind the place in the log where
// the stream begins.
func (s *mysql) ready(m *mode, last *record) bool {
	if m.is(propSnapshot, "initial") {
		return field(payload(last.value), "source", "snapshot") == "last"
	}
	return last.topic == topicSchemaChanges && strings.Contains(text(field(payload(last.value), "ddl")), endTable)
}

func (s *mysql) dataTopic(table string) string { return s.database + "." + table }

func (s *mysql) close() error {
	if s.conn != nil {
		_ = s.conn.Close()
	}
	return s.server.Close()
}
