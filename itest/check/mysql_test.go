package check

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-mysql-org/go-mysql/client"
	"github.com/go-mysql-org/go-mysql/mysql"
	"github.com/go-mysql-org/go-mysql/replication"

	"github.com/rowtrail/rowtrail/itest/process"
	"github.com/rowtrail/rowtrail/itest/servers"
)

const (
	readerID  = "77001" // the connector's
	account   = "'cdc'@'%'"
	longTable = "a_table_with_a_name_of_more_than_fifty_characters_for_a_topic"
)

// rightsOf are what a connector needs, and no more.
func rightsOf(m *servers.MySQL) []string {
	if m.MariaDB() {
		return []string{"REPLICATION SLAVE", "BINLOG MONITOR", "REPLICATION MASTER ADMIN"}
	}
	return []string{"REPLICATION SLAVE", "REPLICATION CLIENT"}
}

// session is an administrator's that stays open, so that a case may keep others out.
func session(t *testing.T, m *servers.MySQL) func(...string) error {
	t.Helper()
	conn, err := m.Connect(context.Background(), "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return func(statements ...string) error { return run(conn, statements) }
}

func run(conn *client.Conn, statements []string) error {
	for _, sql := range statements {
		if _, err := conn.Execute(sql); err != nil {
			return fmt.Errorf("%s: %w", sql, err)
		}
	}
	return nil
}

// captured is a server with one table and a user that may capture it.
func captured(t *testing.T, m *servers.MySQL) *server {
	t.Helper()
	s := &server{exec: session(t, m)}
	err := s.exec("CREATE DATABASE shop", "CREATE TABLE shop.orders (id INT PRIMARY KEY, state TEXT)", "CREATE USER "+account+" IDENTIFIED BY '"+secret+"'",
		"GRANT "+strings.Join(rightsOf(m), ", ")+" ON *.* TO "+account, "GRANT SELECT ON shop.* TO "+account)
	if err != nil {
		t.Fatal(err)
	}
	s.right = process.Config{Connectors: []process.Connector{{Name: "shop", Type: m.Flavour(), Config: map[string]string{
		"database.hostname": m.Host(), "database.port": strconv.Itoa(m.Port()), "database.user": "cdc", "database.password": secret, "database.include.list": "shop", "database.server.id": readerID,
	}}}}
	return s
}

// permanent is how check prints a setting of a variable.
func permanent(m *servers.MySQL, name, value string) string {
	if m.MariaDB() {
		return "SET GLOBAL " + name + " = " + value
	}
	return "SET PERSIST " + name + " = " + value
}

// TestM26EveryMisconfigurationOfMySQL: settings, privileges, tables and properties of a source, each broken alone.
func TestM26EveryMisconfigurationOfMySQL(t *testing.T) {
	servers.EachMySQL(t, servers.Options{}, func(t *testing.T, m *servers.MySQL) {
		s := captured(t, m)
		t.Run("settings", func(t *testing.T) { s.all(t, settingsOf(m)) })
		t.Run("rights", func(t *testing.T) { s.all(t, missingRights(m)) })
		t.Run("tables and properties", func(t *testing.T) { s.all(t, tablesOf(t, m)) })
		t.Run("harmless", func(t *testing.T) { harmless(t, m, s) })
		t.Run("M23 another reader", func(t *testing.T) { anotherReader(t, m, s) })
	})
}

// settingsOf are variables of the server.
func settingsOf(m *servers.MySQL) []wrong {
	variable := func(level, name, value, right string) wrong {
		return wrong{name: name + " " + value, breaks: []string{"SET GLOBAL " + name + " = " + value}, level: level, words: []string{name}, sql: []string{permanent(m, name, right)}}
	}
	list := []wrong{
		variable(bad, "binlog_format", "'STATEMENT'", "'ROW'"), variable(bad, "binlog_format", "'MIXED'", "'ROW'"),
		variable(warn, "binlog_row_image", "'MINIMAL'", "'FULL'"), variable(warn, "binlog_row_image", "'NOBLOB'", "'FULL'"),
		variable(warn, "binlog_row_metadata", "'MINIMAL'", "'FULL'"),
	}
	// Who may not do what init_connect says cannot connect, who may hides changes.
	admin, initConnect := "SESSION_VARIABLES_ADMIN", "SET GLOBAL init_connect = 'SET sql_log_bin = 0'"
	if m.MariaDB() {
		admin = "BINLOG ADMIN"
	}
	list = append(list,
		wrong{name: "init_connect", breaks: []string{initConnect, "GRANT " + admin + " ON *.* TO " + account}, level: bad, words: []string{"init_connect", "what sessions log", "sql_log_bin"},
			sql: []string{permanent(m, "init_connect", "''")}, undo: []string{"REVOKE " + admin + " ON *.* FROM " + account}},
		wrong{name: "init_connect that fails", breaks: []string{initConnect}, level: bad, words: []string{"connection", "init_connect"}, sql: []string{"SET GLOBAL init_connect = ''"}},
	)
	retention := variable(warn, "binlog_expire_logs_seconds", "3600", "604800")
	retention.words = append(retention.words, "3600 s")
	list = append(list, retention)
	if m.MariaDB() {
		list = append(list, variable(warn, "gtid_strict_mode", "OFF", "ON"), variable(warn, "binlog_row_metadata", "'NO_LOG'", "'FULL'"),
			wrong{name: "include.query without statements", breaks: []string{"SET GLOBAL binlog_annotate_row_events = OFF"}, props: map[string]string{"include.query": "true"}, level: warn,
				words: []string{"binlog_annotate_row_events"}, sql: []string{permanent(m, "binlog_annotate_row_events", "ON")}})
		if strings.HasPrefix(m.Version(), "mariadb:11") {
			list = append(list, variable(warn, "max_binlog_total_size", "1000000000", "0"))
		}
		return list
	}
	return append(list,
		wrong{name: "server_id", breaks: []string{"SET GLOBAL server_id = 0"}, level: bad, words: []string{"server_id", "takes no readers"}, sql: []string{"SET PERSIST server_id = 1"},
			undo: []string{"SET PERSIST server_id = " + strconv.Itoa(m.Port())}},
		wrong{name: "gtid_mode ON_PERMISSIVE", breaks: []string{"SET GLOBAL gtid_mode = ON_PERMISSIVE"}, level: warn, words: []string{"gtid_mode", "failover"},
			sql: []string{"SET PERSIST enforce_gtid_consistency = ON", "SET PERSIST gtid_mode = ON"}},
		wrong{name: "gtid_mode OFF", breaks: []string{"SET GLOBAL gtid_mode = ON_PERMISSIVE", "SET GLOBAL gtid_mode = OFF_PERMISSIVE", "SET GLOBAL gtid_mode = OFF", "SET GLOBAL enforce_gtid_consistency = OFF"},
			level: warn, words: []string{"gtid_mode", "failover"},
			sql: []string{"SET PERSIST enforce_gtid_consistency = ON", "SET PERSIST gtid_mode = OFF_PERMISSIVE", "SET PERSIST gtid_mode = ON_PERMISSIVE", "SET PERSIST gtid_mode = ON"}},
		wrong{name: "binlog_row_value_options", breaks: []string{"SET GLOBAL binlog_row_value_options = 'PARTIAL_JSON'", "SET GLOBAL binlog_row_image = 'NOBLOB'"}, level: warn,
			words: []string{"binlog_row_value_options", "JSON"}, sql: []string{"SET PERSIST binlog_row_value_options = ''", "SET PERSIST binlog_row_image = 'FULL'"}},
		wrong{name: "include.query without statements", props: map[string]string{"include.query": "true"}, level: warn, words: []string{"binlog_rows_query_log_events"},
			sql: []string{permanent(m, "binlog_rows_query_log_events", "ON")}, undo: []string{"SET PERSIST binlog_rows_query_log_events = OFF"}},
	)
}

// missingRights takes one right after the other away.
func missingRights(m *servers.MySQL) []wrong {
	level := map[string]string{"REPLICATION MASTER ADMIN": warn}
	var list []wrong
	for _, right := range rightsOf(m) {
		c := wrong{name: right, breaks: []string{"REVOKE " + right + " ON *.* FROM " + account}, level: bad, words: []string{"user cdc"}, sql: []string{"GRANT " + right + " ON *.* TO " + account}}
		if l := level[right]; l != "" {
			c.level = l
		}
		list = append(list, c)
	}
	if m.MariaDB() {
		list = append(list, wrong{name: "a user of the server's own machine", breaks: []string{"CREATE USER sock@'%' IDENTIFIED VIA unix_socket"}, props: map[string]string{"database.user": "sock"}, level: bad,
			words: []string{"connection", "Access denied", "database.user"}, undo: []string{"DROP USER sock@'%'"}})
	}
	return append(list,
		wrong{name: "SELECT", breaks: []string{"REVOKE SELECT ON shop.* FROM " + account, "GRANT INSERT ON shop.* TO " + account}, level: bad, words: []string{"table shop.orders", "may not read"},
			sql: []string{"GRANT SELECT ON `shop`.`orders` TO " + account}, undo: []string{"REVOKE INSERT ON shop.* FROM " + account, "GRANT SELECT ON shop.* TO " + account, "REVOKE SELECT ON shop.orders FROM " + account}},
		wrong{name: "all rights on the table", breaks: []string{"REVOKE SELECT ON shop.* FROM " + account}, level: bad, words: []string{"no table is captured", "GRANT SELECT ON *.*"},
			sql: []string{"GRANT SELECT ON *.* TO " + account}, undo: []string{"REVOKE SELECT ON *.* FROM " + account, "GRANT SELECT ON shop.* TO " + account}},
		wrong{name: "LOCK TABLES for a table without a key", breaks: []string{"CREATE TABLE shop.log (v INT)"}, props: map[string]string{"message.key.columns": "shop.log:v"}, level: bad,
			words: []string{"user cdc", "table shop.log", "lock"}, sql: []string{"GRANT LOCK TABLES ON `shop`.* TO " + account}, undo: []string{"DROP TABLE shop.log", "REVOKE LOCK TABLES ON shop.* FROM " + account}},
		wrong{name: "locked account", breaks: []string{"ALTER USER " + account + " ACCOUNT LOCK"}, level: bad, words: []string{"connection", "locked"}, sql: []string{"ALTER USER " + account + " ACCOUNT UNLOCK"}},
		wrong{name: "expired password", breaks: []string{"ALTER USER " + account + " PASSWORD EXPIRE"}, level: bad,
			words: []string{"connection", "password", "ALTER USER " + account + " IDENTIFIED BY ... PASSWORD EXPIRE NEVER"}, undo: []string{"ALTER USER " + account + " IDENTIFIED BY '" + secret + "'"}},
		wrong{name: "wrong password", props: map[string]string{"database.password": "x"}, level: bad, words: []string{"connection", "Access denied", "database.password"}},
		wrong{name: "a server that wants TLS", breaks: []string{"SET GLOBAL require_secure_transport = ON"}, props: map[string]string{"database.ssl.mode": "disabled"}, level: bad,
			words: []string{"connection", "insecure transport", "set database.ssl.mode to required"}, undo: []string{"SET GLOBAL require_secure_transport = OFF"}},
		wrong{name: "a user who needs TLS", breaks: []string{"ALTER USER " + account + " REQUIRE SSL"}, props: map[string]string{"database.ssl.mode": "disabled"}, level: bad,
			words: []string{"connection", "database.ssl.mode to required"}, undo: []string{"ALTER USER " + account + " REQUIRE NONE"}},
	)
}

// tablesOf are tables that cannot be captured, or not as well as others, and properties that do not fit the server.
func tablesOf(t *testing.T, m *servers.MySQL) []wrong {
	t.Helper()
	other := "mariadb"
	if m.MariaDB() {
		other = "mysql"
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed := strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
	l.Close()
	return []wrong{
		{name: "no table", props: map[string]string{"table.include.list": "shop.nothing"}, level: bad, words: []string{"no table is captured", "table.include.list"}},
		{name: "keyless table", breaks: []string{"CREATE TABLE shop.log (v INT)", "GRANT LOCK TABLES ON shop.* TO " + account}, level: warn, words: []string{"table shop.log", "ADD PRIMARY KEY"},
			undo: []string{"DROP TABLE shop.log", "REVOKE LOCK TABLES ON shop.* FROM " + account}},
		{name: "key of a column that is not there", props: map[string]string{"message.key.columns": "shop.orders:code"}, level: bad, words: []string{"table shop.orders", "no column code", "message.key.columns"}},
		{name: "other flavour", typ: other, level: bad, words: []string{"server", "type: " + m.Flavour()}},
		{name: "lossy times", breaks: []string{"ALTER TABLE shop.orders ADD at DATETIME(6)"}, props: map[string]string{"time.precision.mode": "connect"}, level: warn,
			words: []string{"table shop.orders", "columns at", "time.precision.mode: adaptive_time_microseconds"}, undo: []string{"ALTER TABLE shop.orders DROP at"}},
		{name: "topic too long", breaks: []string{"CREATE TABLE shop." + longTable + " (id INT PRIMARY KEY)"}, props: map[string]string{"topic.prefix": strings.Repeat("p", 195), "topic.heartbeat.prefix": "h"}, level: bad,
			words: []string{longTable, "shorter topic.prefix"}, undo: []string{"DROP TABLE shop." + longTable}},
		{name: "one topic of two tables", breaks: []string{"CREATE TABLE shop.`a b` (id INT PRIMARY KEY)", "CREATE TABLE shop.a_b (id INT PRIMARY KEY)"}, level: bad,
			words: []string{"share topic shop.shop.a_b", "table.exclude.list"}, undo: []string{"DROP TABLE shop.`a b`", "DROP TABLE shop.a_b"}},
		{name: "nobody there", props: map[string]string{"database.port": closed}, level: bad, words: []string{"connection", "refused", "start the server"}},
		{name: "unknown host", props: map[string]string{"database.hostname": "nowhere.invalid"}, level: bad, words: []string{"connection", "correct database.hostname"}},
		{name: "the server's own ID", props: map[string]string{"database.server.id": strconv.Itoa(m.Port())}, level: bad, words: []string{"database.server.id", "that of the source itself"}},
	}
}

// harmless are settings that a source may have: they are no findings.
func harmless(t *testing.T, m *servers.MySQL, s *server) {
	t.Helper()
	list := map[string]string{"binlog_expire_logs_seconds": "0", "binlog_row_value_options": "'PARTIAL_JSON'", "binlog_transaction_compression": "ON", "binlog_checksum": "NONE", "init_connect": "'SET autocommit = 1'"}
	back := map[string]string{"binlog_expire_logs_seconds": "2592000", "binlog_row_value_options": "''", "binlog_transaction_compression": "OFF", "binlog_checksum": "CRC32", "init_connect": "''"}
	if m.MariaDB() {
		for _, name := range []string{"binlog_row_value_options", "binlog_transaction_compression"} {
			delete(list, name)
		}
		list["log_bin_compress"], back["log_bin_compress"] = "ON", "OFF"
		list["binlog_annotate_row_events"], back["binlog_annotate_row_events"] = "OFF", "ON"
	}
	for name, value := range list {
		if err := s.exec("SET GLOBAL " + name + " = " + value); err != nil {
			t.Fatal(err)
		}
		s.clean(t, s.right, name+" = "+value)
		if err := s.exec("SET GLOBAL " + name + " = " + back[name]); err != nil {
			t.Fatal(err)
		}
	}
	s.clean(t, s.with(&wrong{props: map[string]string{"database.ssl.mode": "disabled"}}), "without TLS")
	// Rights of a role, as long as it is active.
	role := "CREATE ROLE capture"
	active := "SET DEFAULT ROLE capture TO " + account
	if m.MariaDB() {
		active = "SET DEFAULT ROLE capture FOR " + account
	}
	all := strings.Join(rightsOf(m), ", ")
	if err := s.exec(role, "GRANT "+all+" ON *.* TO capture", "GRANT capture TO "+account, active, "REVOKE "+all+" ON *.* FROM "+account); err != nil {
		t.Fatal(err)
	}
	s.clean(t, s.right, "rights of a role")
	if err := s.exec("GRANT "+all+" ON *.* TO "+account, "DROP ROLE capture"); err != nil {
		t.Fatal(err)
	}
}

// anotherReader reads the binlog under the connector's server ID.
func anotherReader(t *testing.T, m *servers.MySQL, s *server) {
	t.Helper()
	id, _ := strconv.ParseUint(readerID, 10, 32)
	syncer := replication.NewBinlogSyncer(replication.BinlogSyncerConfig{
		ServerID: uint32(id), Flavor: m.Flavour(), Host: m.Host(), Port: uint16(m.Port()), User: m.User(), Password: m.Password(), HeartbeatPeriod: time.Second,
	})
	file, pos, err := m.BinaryLog(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	stream, err := syncer.StartSync(mysql.Position{Name: file, Pos: uint32(pos)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), checkTimeout)
	defer cancel()
	if _, err := stream.GetEvent(ctx); err != nil { // it reads
		t.Fatal(err)
	}
	list, code := ask(t, s.right)
	if len(list) != 1 || code != 1 || list[0].Subject != "database.server.id" || !strings.Contains(list[0].Problem, "server ID "+readerID+" is in use by another reader") ||
		!strings.Contains(list[0].Remedy, "set database.server.id to a number") {
		t.Errorf("exit %d, %v", code, list)
	}
	mended := s.with(&wrong{props: map[string]string{"database.server.id": "77002"}})
	s.clean(t, mended, "with another server ID")
	syncer.Close()
	for { // the server notices when it next writes to the reader
		if list, _ := ask(t, s.right); len(list) == 0 {
			return
		}
		if ctx.Err() != nil {
			t.Fatal("the reader that has gone is still found")
		}
	}
}

// TestMisconfigurationsAtTheStartOfMySQL: what only a restart of the server changes.
func TestMisconfigurationsAtTheStartOfMySQL(t *testing.T) {
	for name, c := range map[string]struct {
		settings map[string]string
		words    [][]string // of one error each
	}{
		"M26 no binlog": {map[string]string{"skip_log_bin": ""}, [][]string{{"log_bin", "no binlog", "log_bin = mysql-bin", "restart the server"}}},
		"databases left out": {map[string]string{"binlog_do_db": "other", "binlog_ignore_db": "shop"}, [][]string{
			{"binlog_do_db", "shop are not logged", "add binlog_do_db = shop to my.cnf"}, {"binlog_ignore_db", "shop are not logged", "remove binlog_ignore_db = shop from my.cnf"},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			servers.EachMySQL(t, servers.Options{Settings: c.settings}, func(t *testing.T, m *servers.MySQL) {
				s := captured(t, m)
				list, code := ask(t, s.right)
				if code != 1 || len(list) != len(c.words) {
					t.Errorf("exit %d, %v", code, list)
				}
				for _, words := range c.words {
					if !slicesHave(list, words) {
						t.Errorf("no error with %q in\n%v", words, list)
					}
				}
			})
		})
	}
}

// TestTablesInLowerCase: names of lists do not tell cases apart, as a server need not. MySQL takes the setting only when it is made.
func TestTablesInLowerCase(t *testing.T) {
	servers.EachMySQL(t, servers.Options{}, func(t *testing.T, m *servers.MySQL) {
		if m.MariaDB() {
			m = servers.MySQLForTest(t, servers.Options{Version: m.Version(), Settings: map[string]string{"lower_case_table_names": "1"}})
		}
		s := captured(t, m)
		s.clean(t, s.with(&wrong{props: map[string]string{"database.include.list": "", "table.include.list": "Shop.Orders"}}), "names in another case")
	})
}

func slicesHave(list []finding, words []string) bool {
	for _, f := range list {
		has := f.Level == bad
		for _, w := range words {
			has = has && strings.Contains(f.String(), w)
		}
		if has {
			return true
		}
	}
	return false
}

// TestM26ReplicaOfMySQL: a replica that keeps what it applies to itself, also where that may not be asked.
func TestM26ReplicaOfMySQL(t *testing.T) {
	servers.EachMySQL(t, servers.Options{}, func(t *testing.T, m *servers.MySQL) {
		s := captured(t, m)
		replica, err := servers.StartMySQLReplica(context.Background(), m, servers.Options{Settings: map[string]string{"log_replica_updates": "OFF"}})
		if err != nil {
			t.Fatal(err)
		}
		defer replica.Close()
		if err := replica.CatchUp(context.Background(), m); err != nil {
			t.Fatal(err)
		}
		name, may := "log_replica_updates", "REPLICATION CLIENT"
		if m.MariaDB() {
			name, may = "log_slave_updates", "REPLICA MONITOR"
		}
		cfg := s.with(&wrong{props: map[string]string{"database.port": strconv.Itoa(replica.Port())}})
		list, code := ask(t, cfg)
		if m.MariaDB() {
			if len(list) != 1 || code != 0 || list[0].Level != warn || !strings.Contains(list[0].Remedy, "GRANT "+may+" ON *.* TO "+account) {
				t.Errorf("exit %d, %v", code, list)
			}
			if err := s.exec("GRANT " + may + " ON *.* TO " + account); err != nil {
				t.Fatal(err)
			}
			if err := replica.CatchUp(context.Background(), m); err != nil {
				t.Fatal(err)
			}
			list, code = ask(t, cfg)
		}
		if code != 1 || !slicesHave(list, []string{name, "is a replica", name + " = ON under [mysqld]", "restart the server"}) {
			t.Errorf("exit %d, %v", code, list)
		}
	})
}

// TestEveryMisconfigurationOfAMySQLTarget: a sink's server, rights and tables, each broken alone.
func TestEveryMisconfigurationOfAMySQLTarget(t *testing.T) {
	servers.EachMySQL(t, servers.Options{}, func(t *testing.T, m *servers.MySQL) {
		s := &server{exec: session(t, m)}
		offsets := []string{"SELECT", "INSERT", "UPDATE", "DELETE", "CREATE", "CREATE TEMPORARY TABLES"}
		rows := []string{"SELECT", "INSERT", "UPDATE", "DELETE", "CREATE", "ALTER"}
		err := s.exec("CREATE DATABASE warehouse", "CREATE TABLE warehouse.items (id INT PRIMARY KEY)", "CREATE USER "+account+" IDENTIFIED BY '"+secret+"'",
			"GRANT "+strings.Join(offsets, ", ")+" ON rowtrail.* TO "+account, "GRANT "+strings.Join(rows, ", ")+" ON warehouse.* TO "+account)
		if err != nil {
			t.Fatal(err)
		}
		dsn := func(password, address string) string { return "mysql://cdc:" + password + "@" + address + "/" }
		address := net.JoinHostPort(m.Host(), strconv.Itoa(m.Port()))
		s.right = process.Config{Sinks: []process.Sink{{Name: "warehouse", Type: "mysql", Topics: []string{"shop.*"}, Config: map[string]string{
			"dsn": dsn(secret, address), "target.database": "warehouse", "table.map": "shop.items:warehouse.items",
		}}}}
		list := []wrong{
			{name: "read-only", breaks: []string{"SET GLOBAL read_only = ON"}, level: bad, words: []string{"server", "read-only"}, sql: []string{"SET GLOBAL read_only = OFF"}},
			{name: "binlog_format", breaks: []string{"SET GLOBAL binlog_format = 'STATEMENT'"}, level: bad, words: []string{"server", "binlog_format"}, sql: []string{"SET GLOBAL binlog_format = 'ROW'"}},
			{name: "max_allowed_packet", breaks: []string{"SET GLOBAL max_allowed_packet = 1048576"}, level: warn, words: []string{"server", "1048576"}, sql: []string{"SET GLOBAL max_allowed_packet = 67108864"}},
			{name: "engine", breaks: []string{"ALTER TABLE warehouse.items ENGINE = MyISAM"}, level: bad, words: []string{"MyISAM", "no transactions"}, sql: []string{"ALTER TABLE `warehouse`.`items` ENGINE = InnoDB"}},
			{name: "no database", props: map[string]string{"schema.evolution": "none", "target.database": "missing", "table.map": ""}, breaks: []string{"GRANT ALL ON missing.* TO " + account}, level: bad,
				words: []string{"database missing", "does not exist"}, sql: []string{"CREATE DATABASE `missing`"}, undo: []string{"DROP DATABASE missing", "REVOKE ALL ON missing.* FROM " + account}},
			{name: "no table", props: map[string]string{"schema.evolution": "none", "table.map": "shop.a:warehouse.a"}, level: bad, words: []string{"table `warehouse`.`a`", "does not exist", "create it"}},
			{name: "wrong password", props: map[string]string{"dsn": dsn("x", address)}, level: bad, words: []string{"target", "cannot connect"}},
			{name: "nobody there", props: map[string]string{"dsn": dsn(secret, "127.0.0.1:1")}, level: bad, words: []string{"target", "cannot connect", "refused"}},
		}
		for _, right := range offsets {
			list = append(list, wrong{name: "offsets " + right, breaks: []string{"REVOKE " + right + " ON rowtrail.* FROM " + account}, level: bad, words: []string{"database rowtrail", "lacks " + right},
				sql: []string{"GRANT " + right + " ON `rowtrail`.* TO 'cdc'@'%'"}})
		}
		for _, right := range rows {
			list = append(list, wrong{name: "rows " + right, breaks: []string{"REVOKE " + right + " ON warehouse.* FROM " + account}, level: bad, words: []string{"database warehouse", "lacks " + right},
				sql: []string{"GRANT " + right + " ON `warehouse`.* TO 'cdc'@'%'"}})
		}
		s.all(t, list)
	})
}
