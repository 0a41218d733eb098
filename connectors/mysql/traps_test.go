package mysql

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rowtrail/rowtrail/connectors"
	"github.com/rowtrail/rowtrail/itest/servers"
)

// only keeps the records that are no truncate or tombstone of a table's keys.
func ids(list []rec) string {
	var b strings.Builder
	for _, r := range list {
		if !r.Tombstone {
			fmt.Fprintf(&b, "%s%s ", r.Op, strings.TrimSuffix(strings.TrimPrefix(r.Key, `{"id":`), "}"))
		}
	}
	return strings.TrimSpace(b.String())
}

// TestM1ColumnsAreThoseOfTheBinlog: while the connector is away the table changes its shape; rows from before have the columns of then.
func TestM1ColumnsAreThoseOfTheBinlog(t *testing.T) {
	pool.Each(t, func(t *testing.T, m *servers.MySQL) {
		d, l := newDatabase(t, m), newLog(t, 1)
		d.exec("CREATE TABLE t (id INT PRIMARY KEY, a INT, b INT)")
		c := d.config(nil)
		r := start(t, l, c).streaming()
		if err := r.stop(); err != nil {
			t.Fatal(err)
		}
		d.exec("INSERT INTO t VALUES (1, 10, 20)", "ALTER TABLE t ADD COLUMN c INT FIRST, CHANGE a b INT, CHANGE b a INT", "INSERT INTO t (id, a, b, c) VALUES (2, 100, 200, 300)")
		start(t, l, c).streaming()
		equal(t, summary(l.waitFor(2, "p."+d.name+".t")), `c {"id":1} null -> {"a":10,"b":20,"id":1}
c {"id":2} null -> {"a":100,"b":200,"c":300,"id":2}`)
	})
}

// TestM7CompressedTransactions: a session's binlog_transaction_compression; the inner events must not place marks.
func TestM7CompressedTransactions(t *testing.T) {
	pool.Each(t, func(t *testing.T, m *servers.MySQL) {
		if m.MariaDB() {
			t.Skip("MariaDB has no compressed transactions")
		}
		d, l := newDatabase(t, m), newLog(t, 1)
		d.exec("CREATE TABLE t (id INT PRIMARY KEY, v TEXT)")
		c := d.config(nil)
		r := start(t, l, c).streaming()
		d.exec("SET SESSION binlog_transaction_compression = ON", "BEGIN", "INSERT INTO t VALUES (1, REPEAT('x', 5000))", "INSERT INTO t VALUES (2, REPEAT('y', 5000))",
			"UPDATE t SET v = 'z' WHERE id = 1", "COMMIT", "SET SESSION binlog_transaction_compression = OFF", "INSERT INTO t VALUES (3, 'plain')")
		topic := "p." + d.name + ".t"
		equal(t, ids(l.waitFor(4, topic)), "c1 c2 u1 c3")
		if err := r.stop(); err != nil {
			t.Fatal(err)
		}
		start(t, l, c).streaming()
		d.exec("DELETE FROM t WHERE id = 1")
		equal(t, ids(l.waitFor(6, topic)), "c1 c2 u1 c3 d1")
	})
}

// TestM8StatementsPark: a change of a captured table that was logged as a statement parks the table and names the remedy; one of another
// table does not.
func TestM8StatementsPark(t *testing.T) {
	pool.Each(t, func(t *testing.T, m *servers.MySQL) {
		d, l := newDatabase(t, m), newLog(t, 1)
		d.exec("CREATE TABLE t (id INT PRIMARY KEY)", "CREATE TABLE other (id INT PRIMARY KEY)")
		c := d.config(map[string]string{"table.include.list": d.name + ".t"})
		r := start(t, l, c).streaming()
		w := d.session()
		w.exec("SET SESSION binlog_format = 'STATEMENT'", "INSERT INTO other VALUES (1)")
		d.exec("INSERT INTO t VALUES (1)")
		l.waitFor(1, "p."+d.name+".t")
		w.exec("INSERT INTO t VALUES (2)")
		d.exec("INSERT INTO t VALUES (3)")
		p := r.parked(d.name + ".t")
		for _, want := range []string{d.name + ".t", "SET GLOBAL binlog_format = 'ROW'", "--reload", "table.exclude.list"} {
			if !strings.Contains(p.Reason+p.Remedy, want) {
				t.Errorf("%+v lacks %q", p, want)
			}
		}
		r.waits(d.name+".t", 2)
		equal(t, ids(l.waitFor(1, "p."+d.name+".t")), "c1")
	})
}

// TestM10PurgedTransactionsAreAGap: what the source no longer has stops the connector and is named.
func TestM10PurgedTransactionsAreAGap(t *testing.T) {
	servers.EachMySQL(t, servers.Options{}, func(t *testing.T, m *servers.MySQL) {
		d, l := newDatabase(t, m), newLog(t, 1)
		d.exec("CREATE TABLE t (id INT PRIMARY KEY)")
		c := d.config(nil)
		r := start(t, l, c).streaming()
		d.exec("INSERT INTO t VALUES (1)")
		l.waitFor(1, "p."+d.name+".t")
		if err := r.stop(); err != nil {
			t.Fatal(err)
		}
		before := l.resumePoint().point.String()
		d.exec("INSERT INTO t VALUES (2)")
		if err := m.PurgeBinaryLogs(context.Background()); err != nil {
			t.Fatal(err)
		}
		missing, err := m.GTIDs(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		missing = missing[strings.LastIndexAny(missing, "-:")+1:]
		got := start(t, l, c).fails()
		if !strings.Contains(got, "gap") || !strings.Contains(got, missing) || !strings.Contains(got, "p.position") {
			t.Errorf("after %s: %q does not name %s", before, got, missing)
		}
	})
}

// TestM10AnotherServerIsNoGap: a server that has never had what is in the log is refused.
func TestM10AnotherServerIsRefused(t *testing.T) {
	servers.EachMySQL(t, servers.Options{}, func(t *testing.T, m *servers.MySQL) {
		d, l := newDatabase(t, m), newLog(t, 1)
		d.exec("CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1)")
		r := start(t, l, d.config(nil)).streaming()
		d.exec("INSERT INTO t VALUES (2)")
		l.waitFor(1, "p."+d.name+".t")
		if err := r.stop(); err != nil {
			t.Fatal(err)
		}
		other := servers.MySQLForTest(t, servers.Options{Version: m.Version()})
		o := &database{t: t, server: other, name: d.name}
		if err := other.CreateDatabase(context.Background(), d.name); err != nil {
			t.Fatal(err)
		}
		o.session().exec("CREATE TABLE t (id INT PRIMARY KEY)")
		if got := start(t, l, o.config(nil)).fails(); !strings.Contains(got, "lacks") || !strings.Contains(got, "another server") {
			t.Error(got)
		}
	})
}

// TestM10Failover goes on at a promoted replica by GTID: nothing is lost, nothing twice, and the order goes on.
func TestM10Failover(t *testing.T) {
	servers.EachMySQL(t, servers.Options{}, func(t *testing.T, m *servers.MySQL) {
		ctx := context.Background()
		d, l := newDatabase(t, m), newLog(t, 1)
		d.exec("CREATE TABLE t (id INT PRIMARY KEY, v INT)")
		replica, err := servers.StartMySQLReplica(ctx, m, servers.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = replica.Close() })
		r := start(t, l, d.config(nil)).streaming()
		topic := "p." + d.name + ".t"
		d.exec("INSERT INTO t VALUES (1, 1)", "INSERT INTO t VALUES (2, 1)")
		l.waitFor(2, topic)
		if err := r.stop(); err != nil {
			t.Fatal(err)
		}
		d.exec("UPDATE t SET v = 2 WHERE id = 1")
		if err := replica.CatchUp(ctx, m); err != nil {
			t.Fatal(err)
		}
		if err := replica.Promote(ctx); err != nil {
			t.Fatal(err)
		}
		o := (&database{t: t, server: replica, name: d.name}).session()
		r = start(t, l, o.config(nil)).streaming()
		o.exec("INSERT INTO t VALUES (3, 1)")
		equal(t, ids(l.waitFor(4, topic)), "c1 c2 u1 c3")
		list := l.read(topic)
		for i := 1; i < len(list); i++ {
			if list[i].Pos.Commit <= list[i-1].Pos.Commit {
				t.Errorf("commit %d after %d", list[i].Pos.Commit, list[i-1].Pos.Commit)
			}
		}
		if err := r.stop(); err != nil {
			t.Fatal(err)
		}
	})
}

// TestM11FileAndPosition: without GTIDs the position is file and offset of one server, over rotations and purges.
func TestM11FileAndPosition(t *testing.T) {
	opts := servers.Options{Settings: map[string]string{"gtid_mode": "OFF", "enforce_gtid_consistency": "OFF"}}
	if v := chosen(); v != "" {
		opts.Version = v
	}
	m := servers.MySQLForTest(t, opts)
	ctx := context.Background()
	d, l := newDatabase(t, m), newLog(t, 1)
	d.exec("CREATE TABLE t (id INT PRIMARY KEY)")
	c := d.config(nil)
	r := start(t, l, c).streaming()
	topic := "p." + d.name + ".t"
	d.exec("INSERT INTO t VALUES (1)", "FLUSH BINARY LOGS", "INSERT INTO t VALUES (2)")
	l.waitFor(2, topic)
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	if p := l.resumePoint(); p.point.base != nil || p.point.at.pos < 4 || p.uuid == "" {
		t.Fatalf("resume point %+v", p)
	}
	d.exec("FLUSH BINARY LOGS", "INSERT INTO t VALUES (3)")
	r = start(t, l, c).streaming()
	equal(t, ids(l.waitFor(3, topic)), "c1 c2 c3")
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	d.exec("INSERT INTO t VALUES (4)")
	if err := m.PurgeBinaryLogs(ctx); err != nil {
		t.Fatal(err)
	}
	if got := start(t, l, c).fails(); !strings.Contains(got, "gap") || !strings.Contains(got, "oldest binlog") {
		t.Error(got)
	}
	other := servers.MySQLForTest(t, opts)
	o := &database{t: t, server: other, name: d.name}
	if err := other.CreateDatabase(ctx, d.name); err != nil {
		t.Fatal(err)
	}
	o.session().exec("CREATE TABLE t (id INT PRIMARY KEY)")
	if got := start(t, l, o.config(nil)).fails(); !strings.Contains(got, "is of server") {
		t.Error(got)
	}
}

func chosen() string {
	return "mysql:9.7"
}

// TestM12TransactionEnds: XID, COMMIT of tables without transactions, implicit commits, rollbacks, savepoints.
func TestM12TransactionEnds(t *testing.T) {
	pool.Each(t, func(t *testing.T, m *servers.MySQL) {
		if !m.MariaDB() { // whose GTIDs do not go together with tables without transactions
			m = servers.MySQLForTest(t, servers.Options{Version: m.Version(), Settings: map[string]string{"gtid_mode": "OFF", "enforce_gtid_consistency": "OFF"}})
		}
		d, l := newDatabase(t, m), newLog(t, 1)
		d.exec("CREATE TABLE t (id INT PRIMARY KEY, v INT)", "CREATE TABLE my (id INT PRIMARY KEY, v INT) ENGINE=MyISAM")
		r := start(t, l, d.config(nil)).streaming()
		d.exec("INSERT INTO t VALUES (1, 0)", "INSERT INTO my VALUES (1, 0)",
			"BEGIN", "INSERT INTO t VALUES (2, 0)", "CREATE TABLE implicit (id INT PRIMARY KEY)",
			"BEGIN", "INSERT INTO t VALUES (3, 0)", "ROLLBACK",
			"BEGIN", "INSERT INTO t VALUES (4, 0)", "SAVEPOINT a", "INSERT INTO t VALUES (5, 0)", "ROLLBACK TO a", "INSERT INTO t VALUES (6, 0)", "COMMIT",
			"BEGIN", "INSERT INTO t VALUES (7, 0)", "INSERT INTO my VALUES (7, 0)", "ROLLBACK", "INSERT INTO t VALUES (8, 0)")
		equal(t, ids(l.waitFor(5, "p."+d.name+".t")), "c1 c2 c4 c6 c8")
		equal(t, ids(l.waitFor(2, "p."+d.name+".my")), "c1 c7")
		// In mixed format such groups are in the binlog whole, with what was rolled back.
		w := d.session()
		w.exec("SET SESSION binlog_format = 'MIXED'",
			"BEGIN", "INSERT INTO t SELECT 20, LENGTH(UUID())", "INSERT INTO my SELECT 20, LENGTH(UUID())", "INSERT INTO t SELECT 21, LENGTH(UUID())", "ROLLBACK",
			"BEGIN", "INSERT INTO t SELECT 30, LENGTH(UUID())", "SAVEPOINT `s p`", "INSERT INTO t SELECT 31, LENGTH(UUID())", "INSERT INTO my SELECT 31, LENGTH(UUID())",
			"ROLLBACK TO `s p`", "INSERT INTO t SELECT 32, LENGTH(UUID())", "COMMIT",
			"INSERT INTO t SELECT 33, LENGTH(UUID())")
		equal(t, ids(l.waitFor(8, "p."+d.name+".t")), "c1 c2 c4 c6 c8 c30 c32 c33")
		equal(t, ids(l.waitFor(4, "p."+d.name+".my")), "c1 c7 c20 c31")
		// Several of them at once: each is read again, and none makes another one be read again for ever.
		if err := r.stop(); err != nil {
			t.Fatal(err)
		}
		d.exec("INSERT INTO t VALUES (39, 0)") // is read again, too
		for id := 40; id < 44; id++ {
			w.exec("BEGIN", fmt.Sprintf("INSERT INTO t SELECT %d, LENGTH(UUID())", id), fmt.Sprintf("INSERT INTO my SELECT %d, LENGTH(UUID())", id), "ROLLBACK")
		}
		r = start(t, l, d.config(nil)).streaming()
		equal(t, ids(l.waitFor(8, "p."+d.name+".my")), "c1 c7 c20 c31 c40 c41 c42 c43")
		equal(t, ids(l.waitFor(9, "p."+d.name+".t")), "c1 c2 c4 c6 c8 c30 c32 c33 c39")
		if s := r.c.Status(); s.State != connectors.StateStreaming {
			t.Errorf("%+v", s)
		}
		wholeTransactions(t, l, l.read("p."+d.name+".t", "p."+d.name+".my"))
	})
}

// TestM13AbsentIsNotNull: row images of sessions.
func TestM13AbsentIsNotNull(t *testing.T) {
	pool.Each(t, func(t *testing.T, m *servers.MySQL) {
		d, l := newDatabase(t, m), newLog(t, 1)
		d.exec("CREATE TABLE t (id INT PRIMARY KEY, a INT, b INT, x TEXT)")
		start(t, l, d.config(nil)).streaming()
		d.exec("INSERT INTO t VALUES (1, 1, 1, 'long')", "SET SESSION binlog_row_image = 'MINIMAL'", "UPDATE t SET a = NULL WHERE id = 1",
			"UPDATE t SET id = 2 WHERE id = 1", "DELETE FROM t WHERE id = 2", "INSERT INTO t (id, b) VALUES (3, 3)",
			"SET SESSION binlog_row_image = 'NOBLOB'", "UPDATE t SET a = 5 WHERE id = 3", "SET SESSION binlog_row_image = 'FULL'", "UPDATE t SET a = 6 WHERE id = 3")
		list := l.waitFor(10, "p."+d.name+".t")
		equal(t, summary(list), `c {"id":1} null -> {"a":1,"b":1,"id":1,"x":"long"}
u {"id":1} null -> {"a":null,"id":1,"x":"__debezium_unavailable_value"}
d {"id":1} {"id":1} -> null
tombstone {"id":1}
c {"id":2} null -> {"id":2,"x":"__debezium_unavailable_value"}
d {"id":2} {"id":2} -> null
tombstone {"id":2}
c {"id":3} null -> {"b":3,"id":3,"x":"__debezium_unavailable_value"}
u {"id":3} null -> {"a":5,"b":3,"id":3,"x":"__debezium_unavailable_value"}
u {"id":3} {"a":5,"b":3,"id":3,"x":null} -> {"a":6,"b":3,"id":3,"x":null}`)
		if a := fmt.Sprint(list[1].Pos.Absent); a != "[2 3]" {
			t.Errorf("absent columns %s", a)
		}
	})
}

// TestM23ServerIDClash: a reader whose ID another one has stops before it ends that one.
func TestM23ServerIDClash(t *testing.T) {
	pool.Each(t, func(t *testing.T, m *servers.MySQL) {
		d, l := newDatabase(t, m), newLog(t, 1)
		d.exec("CREATE TABLE t (id INT PRIMARY KEY)")
		id := map[string]string{"database.server.id": "4711"}
		first := start(t, l, d.config(id)).streaming()
		props := d.properties(map[string]string{"database.server.id": "4711", "topic.prefix": "q"})
		c, errs := ParseConfig("other", m.Flavour(), props)
		if len(errs) > 0 {
			t.Fatal(errs)
		}
		if got := start(t, newLog(t, 1), c).fails(); !strings.Contains(got, "4711") || !strings.Contains(got, "database.server.id") {
			t.Error(got)
		}
		d.exec("INSERT INTO t VALUES (1)")
		l.waitFor(1, "p."+d.name+".t")
		// One that does not look first ends the first, which says so and does not end the other in turn.
		thief := start(t, newLog(t, 1), parsed(t, m.Flavour(), d.properties(id)))
		if got := first.fails(); !strings.Contains(got, "4711") || !strings.Contains(got, "another reader") {
			t.Error(got)
		}
		thief.streaming()
	})
}

// TestM25LogIn: caching_sha2_password in full over RSA and over TLS, with a long password; secrets are in no error.
func TestM25LogIn(t *testing.T) {
	pool.Each(t, func(t *testing.T, m *servers.MySQL) {
		d := newDatabase(t, m)
		secret := "S3cret" + strings.Repeat("pässword", 12)
		user := fmt.Sprintf("u%d", databases.Add(1))
		d.exec("CREATE USER "+user+"@'%' IDENTIFIED BY '"+secret+"'", "GRANT REPLICATION SLAVE, REPLICATION CLIENT, SELECT ON *.* TO "+user+"@'%'")
		modes := []string{"disabled", "preferred", "required"}
		if m.Version() == "mariadb:10.11" { // it has no certificate of its own
			modes = modes[:2]
		}
		for _, mode := range modes {
			if !m.MariaDB() {
				d.exec("FLUSH PRIVILEGES") // forgets what would make the short way do
			}
			c := d.config(map[string]string{"database.user": user, "database.password": secret, "database.ssl.mode": mode})
			s, err := c.dial(context.Background())
			if err != nil {
				t.Errorf("%s: %v", mode, err)
				continue
			}
			list, err := s.query(context.Background(), "SHOW STATUS LIKE 'Ssl_cipher'")
			if err != nil {
				t.Fatal(err)
			}
			if cipher := string(list[0][1]); (cipher == "") != (mode == "disabled" || len(modes) == 2) {
				t.Errorf("%s: cipher %q", mode, cipher)
			}
			s.close()
		}
		for _, mode := range []string{"verify_ca", "verify_identity"} {
			c := d.config(map[string]string{"database.user": user, "database.password": secret, "database.ssl.mode": mode})
			if s, err := c.dial(context.Background()); err == nil {
				s.close()
				t.Errorf("%s: a certificate of an unknown authority was taken", mode)
			} else if !connectors.IsFault(err) {
				t.Errorf("%s: %v is no fault", mode, err)
			}
		}
		wrong := d.config(map[string]string{"database.user": user, "database.password": secret + "x"})
		_, err := wrong.dial(context.Background())
		if !connectors.IsFault(err) || strings.Contains(err.Error(), "S3cret") || !strings.Contains(err.Error(), user) {
			t.Errorf("wrong password: %v", err)
		}
		list := Check(context.Background(), wrong)
		if len(list) != 1 || strings.Contains(fmt.Sprint(list), "S3cret") {
			t.Errorf("%v", list)
		}
	})
}

// TestIdlePositionAdvances: where nothing is captured the position follows all the same.
func TestIdlePositionAdvances(t *testing.T) {
	pool.Each(t, func(t *testing.T, m *servers.MySQL) {
		d, l := newDatabase(t, m), newLog(t, 1)
		d.exec("CREATE TABLE t (id INT PRIMARY KEY)", "CREATE TABLE other (id INT PRIMARY KEY)")
		r := start(t, l, d.config(map[string]string{"table.include.list": d.name + ".t"})).streaming()
		before := l.resumePoint().point.String()
		d.exec("INSERT INTO other VALUES (1)")
		began := time.Now()
		eventually(t, "the position", func() bool { return l.resumePoint().point.String() != before })
		t.Logf("after %s", time.Since(began))
		eventually(t, "no lag", func() bool { return r.c.Status().LagBytes == 0 })
	})
}
