package mysql

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/rowtrail/rowtrail/itest/servers"
)

// has tells whether a finding's subject, problem and remedy hold some words.
func has(t *testing.T, c *Config, words ...string) {
	t.Helper()
	var all strings.Builder
	for _, f := range Check(context.Background(), c) {
		one := fmt.Sprintf("%s %s: %s; %s", f.Level, f.Subject, f.Problem, f.Remedy)
		fits := true
		for _, w := range words {
			fits = fits && strings.Contains(one, w)
		}
		if fits {
			return
		}
		all.WriteString(one + "\n")
	}
	t.Errorf("no finding with %q:\n%s", words, all.String())
}

// TestCheckFindsWhatIsWrong: settings, privileges and tables, each broken alone, and the statement that mends it.
func TestCheckFindsWhatIsWrong(t *testing.T) {
	servers.EachMySQL(t, servers.Options{}, func(t *testing.T, m *servers.MySQL) {
		d := newDatabase(t, m)
		d.exec("CREATE TABLE t (id INT PRIMARY KEY)")
		c := d.config(nil)
		if list := Check(context.Background(), c); len(list) > 0 {
			t.Fatalf("findings on a right server: %+v", list)
		}
		for _, set := range []struct{ variable, wrong, right, want string }{
			{"binlog_format", "'MIXED'", "'ROW'", "binlog_format = 'ROW'"},
			{"binlog_row_image", "'MINIMAL'", "'FULL'", "binlog_row_image = 'FULL'"},
			{"binlog_row_metadata", "'MINIMAL'", "'FULL'", "binlog_row_metadata = 'FULL'"},
			{"binlog_expire_logs_seconds", "3600", "2592000", "binlog_expire_logs_seconds = 604800"},
		} {
			d.exec("SET GLOBAL " + set.variable + " = " + set.wrong)
			has(t, c, set.variable, set.want)
			d.exec("SET GLOBAL " + set.variable + " = " + set.right)
		}
		if m.MariaDB() {
			d.exec("SET GLOBAL gtid_strict_mode = OFF")
			has(t, c, "gtid_strict_mode", "gtid_strict_mode = ON")
			d.exec("SET GLOBAL gtid_strict_mode = ON")
		} else {
			d.exec("SET GLOBAL gtid_mode = ON_PERMISSIVE")
			has(t, c, "warning", "gtid_mode", "gtid_mode = ON")
			d.exec("SET GLOBAL gtid_mode = ON", "SET GLOBAL binlog_row_value_options = 'PARTIAL_JSON'", "SET GLOBAL binlog_row_image = 'NOBLOB'")
			has(t, c, "binlog_row_value_options", "binlog_row_value_options = ''")
			d.exec("SET GLOBAL binlog_row_value_options = ''", "SET GLOBAL binlog_row_image = 'FULL'")
		}
		d.exec("CREATE USER weak@'%' IDENTIFIED BY 'weak'", "GRANT INSERT ON "+d.name+".* TO weak@'%'")
		weak := d.config(map[string]string{"database.user": "weak", "database.password": "weak"})
		has(t, weak, "user weak", "GRANT REPLICATION SLAVE ON *.* TO 'weak'")
		has(t, weak, "user weak", "GRANT "+c.clientPrivilege()+" ON *.* TO 'weak'")
		has(t, weak, "table "+d.name+".t", "GRANT SELECT ON `"+d.name+"`.`t` TO 'weak'")
		has(t, d.config(map[string]string{"table.include.list": "nothing"}), "no table is captured", "table.include.list")
		has(t, d.config(map[string]string{"database.server.id": d.value("SELECT @@server_id")}), "database.server.id", "that of the source itself")
		other := KindMySQL
		if !m.MariaDB() {
			other = KindMariaDB
		}
		has(t, parsed(t, other, d.properties(nil)), "server", "type: "+m.Flavour())
		d.exec("CREATE TABLE keyless (v INT)")
		has(t, c, "warning", "keyless", "ADD PRIMARY KEY")
	})
}

// TestM26ReplicaWithoutItsSourcesChanges: a replica that does not log what it applies.
func TestM26ReplicaWithoutItsSourcesChanges(t *testing.T) {
	pool.Each(t, func(t *testing.T, m *servers.MySQL) {
		d := newDatabase(t, m)
		d.exec("CREATE TABLE t (id INT PRIMARY KEY)")
		replica, err := servers.StartMySQLReplica(context.Background(), m, servers.Options{Settings: map[string]string{"log_replica_updates": "OFF"}})
		if err != nil {
			t.Fatal(err)
		}
		defer replica.Close()
		if err := replica.CatchUp(context.Background(), m); err != nil {
			t.Fatal(err)
		}
		o := &database{t: t, server: replica, name: d.name}
		has(t, o.config(nil), "error", "= ON under [mysqld]", "is a replica")
	})
}

// TestCheckOfWhatTestsCannotHave: findings by what a server would say.
func TestCheckOfWhatTestsCannotHave(t *testing.T) {
	good := func() *inspection {
		return &inspection{mayDump: true, mayList: true, tables: []*table{{schema: "d", name: "t", primary: []string{"id"}}}, server: &server{version: "9.7.0", number: 90700, variables: map[string]string{
			"log_bin": "ON", "binlog_format": "ROW", "binlog_row_image": "FULL", "binlog_row_metadata": "FULL", "gtid_mode": "ON", "server_id": "1",
		}}}
	}
	unset := ""
	for want, change := range map[string]func(*inspection){
		"log_bin = mysql-bin":         func(in *inspection) { in.server.variables["log_bin"] = "OFF" },
		"rds_set_configuration":       func(in *inspection) { in.rds = &unset },
		"MySQL 8.0 or later":          func(in *inspection) { in.server.number = 50744 },
		"binlog_ignore_db = d":        func(in *inspection) { in.status.ignore = "x,d" },
		"binlog_do_db = d":            func(in *inspection) { in.status.do = "x" },
		"takes no readers":            func(in *inspection) { in.server.variables["server_id"] = "0" },
		"where the binlog ends: nope": func(in *inspection) { in.noState = errors.New("nope") },
	} {
		c, errs := ParseConfig("c", KindMySQL, map[string]string{"database.hostname": "h", "database.user": "u"})
		if len(errs) > 0 {
			t.Fatal(errs)
		}
		if list := c.findings(good()); len(list) > 1 { // the table has no columns, and so no key
			t.Fatal(list)
		}
		in := good()
		change(in)
		if got := fmt.Sprint(c.findings(in)); !strings.Contains(got, want) {
			t.Errorf("%s does not hold %q", got, want)
		}
	}
}
