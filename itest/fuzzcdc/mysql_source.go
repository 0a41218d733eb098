package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-mysql-org/go-mysql/client"
	"github.com/go-mysql-org/go-mysql/mysql"

	"github.com/rowtrail/rowtrail/itest/binlogs"
	"github.com/rowtrail/rowtrail/itest/servers"
)

type mysqlSource struct {
	server   *servers.MySQL
	database string
}

func (m *mysqlSource) restart(ctx context.Context, how servers.Shutdown) error {
	return m.server.Restart(ctx, how)
}

type mysqlSession struct{ conn *client.Conn }

func (m *mysqlSource) connect(ctx context.Context) (session, error) {
	conn, err := m.server.Connect(ctx, m.database)
	if err != nil {
		return nil, err
	}
	s := &mysqlSession{conn}
	for _, sql := range []string{"SET NAMES utf8mb4", "SET SESSION innodb_lock_wait_timeout = 4, lock_wait_timeout = 10"} {
		if _, err := s.exec(ctx, sql); err != nil {
			s.close()
			return nil, err
		}
	}
	return s, nil
}

func (s *mysqlSession) exec(_ context.Context, sql string) (int64, error) {
	res, err := s.conn.Execute(sql)
	if err != nil {
		return 0, err
	}
	defer res.Close()
	return int64(res.AffectedRows), nil
}

func (s *mysqlSession) close() { _ = s.conn.Close() }

func (m *mysqlSource) judge(err error) verdict {
	var e *mysql.MyError
	if !errors.As(err, &e) {
		return lost
	}
	switch e.Code {
	case mysql.ER_SERVER_SHUTDOWN, mysql.ER_QUERY_INTERRUPTED, 1927: // the connection was killed
		return lost
	case mysql.ER_LOCK_DEADLOCK, mysql.ER_LOCK_WAIT_TIMEOUT:
		return again
	case mysql.ER_NO_SUCH_TABLE, mysql.ER_BAD_FIELD_ERROR, mysql.ER_BAD_TABLE_ERROR, mysql.ER_CANT_DROP_FIELD_OR_KEY:
		return notYet
	case mysql.ER_TABLE_EXISTS_ERROR, mysql.ER_DUP_FIELDNAME:
		return settled
	}
	return refused
}

// settle ends XA transactions that are prepared and whose session is gone.
func (m *mysqlSource) settle(ctx context.Context) error {
	rows, err := m.server.Query(ctx, "", "XA RECOVER")
	if err != nil {
		return err
	}
	for _, row := range rows {
		verb := "COMMIT"
		if strings.HasSuffix(row[3], "1") {
			verb = "ROLLBACK"
		}
		if err := m.server.Exec(ctx, "", fmt.Sprintf("XA %s '%s'", verb, row[3])); err != nil {
			return fmt.Errorf("settle %s: %w", row[3], err)
		}
	}
	return nil
}

func (m *mysqlSource) cut(ctx context.Context) error {
	rows, err := m.server.Query(ctx, "", "SELECT id FROM information_schema.processlist WHERE command LIKE 'Binlog Dump%'")
	if err != nil {
		return err
	}
	for _, row := range rows {
		if err := m.server.Exec(ctx, "", "KILL "+row[0]); err != nil && m.judge(err) == lost {
			return err
		}
	}
	return nil
}

// mysqlEndpoint reads tables of a MySQL or MariaDB database.
type mysqlEndpoint struct {
	conn     *client.Conn
	database string
}

func openMySQL(ctx context.Context, server *servers.MySQL, database string) (*mysqlEndpoint, error) {
	conn, err := server.Connect(ctx, database)
	if err != nil {
		return nil, err
	}
	return &mysqlEndpoint{conn, database}, nil
}

func (e *mysqlEndpoint) close() { _ = e.conn.Close() }

func (e *mysqlEndpoint) table(name string) (*binlogs.Table, error) {
	all, err := binlogs.Contents(e.conn, e.database)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(all, func(t binlogs.Table) bool { return t.Name == name })
	if i < 0 {
		return nil, fmt.Errorf("%s has no table %s", e.database, name)
	}
	return &all[i], nil
}

func (e *mysqlEndpoint) columns(_ context.Context, table string) ([]string, error) {
	t, err := e.table(table)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, c := range t.Columns {
		if !strings.HasPrefix(c.Extra, "VIRTUAL") && !strings.HasPrefix(c.Extra, "STORED") { // generated
			names = append(names, c.Name)
		}
	}
	return names, nil
}

func (e *mysqlEndpoint) read(_ context.Context, table string, columns, key []string) (*copied, error) {
	t, err := e.table(table)
	if err != nil {
		return nil, err
	}
	at := make([]int, len(columns))
	for i, name := range columns {
		if at[i] = slices.IndexFunc(t.Columns, func(c binlogs.Column) bool { return c.Name == name }); at[i] < 0 {
			return nil, fmt.Errorf("table %s has no column %s", table, name)
		}
	}
	c := newCopied(columns)
	for _, values := range t.Rows {
		row := make([]*string, len(columns))
		for i := range columns {
			row[i] = values[at[i]]
		}
		c.add(row, key)
	}
	return c, nil
}
