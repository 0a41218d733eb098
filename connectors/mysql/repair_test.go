package mysql

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rowtrail/rowtrail/connectors"
	"github.com/rowtrail/rowtrail/itest/servers"
)

// rows are a table's, as l.state has those of its topic: columns of integers and short strings.
func (d *database) rows(table string, columns ...string) string {
	d.t.Helper()
	slices.Sort(columns)
	res, err := d.conn.Execute("SELECT " + strings.Join(columns, ", ") + " FROM " + table)
	if err != nil {
		d.t.Fatal(err)
	}
	var lines []string
	for i := range res.Values {
		var parts []string
		for j, c := range columns {
			text := "null"
			if v := res.Values[i][j]; v.Value() != nil {
				if text = string(textOf(&v)); strings.Trim(text, "-0123456789") != "" || text == "" {
					text = fmt.Sprintf("%q", text)
				}
			}
			parts = append(parts, fmt.Sprintf("%q:%s", c, text))
		}
		lines = append(lines, "{"+strings.Join(parts, ",")+"}")
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// repaired waits for the end of a repair.
func (r *running) repaired() string {
	r.t.Helper()
	var warnings string
	eventually(r.t, "the end of the repair", func() bool {
		s := r.c.Status()
		if s.State == connectors.StateFailed {
			r.t.Fatal(s.Error)
		}
		warnings = strings.Join(s.Warnings, "\n")
		return strings.Contains(warnings, "rows told as created")
	})
	return warnings
}

// TestM10PurgedTransactionsAreRepaired: what the source has purged is made up for by comparing the tables with the log: missed inserts,
// updates and deletes are told, and nothing else; a table without a key is loaded again.
func TestM10PurgedTransactionsAreRepaired(t *testing.T) {
	servers.EachMySQL(t, servers.Options{}, func(t *testing.T, m *servers.MySQL) {
		d, l := newDatabase(t, m), withViews(t, 3)
		d.exec("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(20))",
			"CREATE TABLE u (a VARCHAR(20) CHARACTER SET latin1, b DECIMAL(6,2), v INT, PRIMARY KEY (a, b))",
			"CREATE TABLE w (k BINARY(4) PRIMARY KEY, e ENUM('x','y'), f FLOAT)", "CREATE TABLE keyless (v INT)", "CREATE TABLE same (id INT PRIMARY KEY)",
			"CREATE TABLE many (id INT PRIMARY KEY, n INT)")
		c := d.config(map[string]string{"on.gap": "repair"})
		r := start(t, l, c).streaming()
		topic := func(table string) string { return "p." + d.name + "." + table }
		d.exec("INSERT INTO t VALUES (1, 'one'), (2, 'two'), (3, 'three')", "INSERT INTO u VALUES ('é', 1, 1), ('a', 2.5, 2), ('b', -1, 3)",
			"INSERT INTO w VALUES (0xAB000000, 'x', 1.1), (0x00000001, 'y', NULL)", "INSERT INTO keyless VALUES (1), (2)", "INSERT INTO same VALUES (1), (2)",
			"INSERT INTO many WITH RECURSIVE s (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < 1000) SELECT n, n FROM s",
			"INSERT INTO many SELECT id + 1000, n FROM many", "INSERT INTO many SELECT id + 2000, n FROM many")
		eventually(t, "all rows", func() bool { return len(l.read(topic("many"))) == 4000 })
		if err := r.stop(); err != nil {
			t.Fatal(err)
		}
		d.exec("UPDATE t SET v = 'zwei' WHERE id = 2", "DELETE FROM t WHERE id = 3", "INSERT INTO t VALUES (4, 'four')",
			"DELETE FROM u WHERE a = 'é'", "UPDATE u SET v = 20 WHERE a = 'a'", "INSERT INTO u VALUES ('E', 1, 4)",
			"DELETE FROM w WHERE k = 0xAB000000", "DELETE FROM keyless WHERE v = 1", "DELETE FROM many WHERE id % 7 = 0", "UPDATE many SET n = -1 WHERE id % 1000 = 1")
		if err := m.PurgeBinaryLogs(context.Background()); err != nil {
			t.Fatal(err)
		}
		d.exec("UPDATE t SET v = 'uno' WHERE id = 1", "DELETE FROM same WHERE id = 2")
		r = start(t, l, c).streaming()
		warnings := r.repaired()
		if !strings.Contains(warnings, "gap") || !strings.Contains(warnings, "2 rows told as created, 5 as updated, 574 as deleted") {
			t.Errorf("warnings %q", warnings)
		}
		d.exec("INSERT INTO t VALUES (5, 'five')")
		eventually(t, "the last row", func() bool { return strings.Contains(l.state(t, topic("t")), "five") })
		for table, columns := range map[string][]string{"t": {"id", "v"}, "same": {"id"}, "many": {"id", "n"}} {
			equal(t, l.state(t, topic(table)), d.rows(table, columns...))
		}
		ops := strings.Fields(ids(l.read(topic("t"))))
		slices.Sort(ops)
		if got := strings.Join(ops, " "); got != "c1 c2 c3 c4 c5 d3 u1 u2" {
			t.Errorf("t: %s", got)
		}
		if got := len(l.read(topic("same"))); got != 4 { // two inserts, a delete, a tombstone
			t.Errorf("same: %d records", got)
		}
		if got := l.state(t, topic("u")); strings.Contains(got, "é") || !strings.Contains(got, `"E"`) || !strings.Contains(got, `"v":20`) {
			t.Errorf("u: %s", got)
		}
		if got := ids(l.read(topic("keyless"))); strings.ReplaceAll(got, "t ", "") != "c c r" && got != "c c t r t t" {
			t.Errorf("keyless: %s", got)
		}
		wholeTransactions(t, l, l.stream(topic("t"), topic("u"), topic("w"), topic("same"), topic("many"), topic("keyless")))
		var last uint64
		for _, x := range l.read("p.transaction") {
			if x.Pos.Commit < last {
				t.Fatalf("transaction %d comes after %d", x.Pos.Commit, last)
			}
			last = x.Pos.Commit
		}
		if err := r.stop(); err != nil {
			t.Fatal(err)
		}
		if p := l.resumePoint().point; p.repair != nil || p.load != nil {
			t.Errorf("resume point %+v", p)
		}
		r = start(t, l, c).streaming() // the gap is behind it
		d.exec("INSERT INTO t VALUES (6, 'six')")
		eventually(t, "the last row", func() bool { return strings.Contains(l.state(t, topic("t")), "six") })
		if s := r.c.Status(); len(s.Warnings) > 0 {
			t.Errorf("%v", s.Warnings)
		}
	})
}

// stream is read without what belongs to no transaction, and without keys.
func (l *testLog) stream(topics ...string) []rec {
	l.t.Helper()
	return slices.DeleteFunc(l.read(topics...), func(x rec) bool { return x.Pos.Order == 0 })
}

// TestM10ResetSourcesAreRepaired: the source's binlog was emptied and begins anew with the same numbers.
func TestM10ResetSourcesAreRepaired(t *testing.T) {
	servers.EachMySQL(t, servers.Options{}, func(t *testing.T, m *servers.MySQL) {
		d, l := newDatabase(t, m), withViews(t, 1)
		d.exec("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(20))")
		stop := d.config(nil)
		r := start(t, l, stop).streaming()
		d.exec("INSERT INTO t VALUES (1, 'one'), (2, 'two')", "INSERT INTO t VALUES (3, 'three')")
		topic := "p." + d.name + ".t"
		l.waitFor(3, topic)
		if err := r.stop(); err != nil {
			t.Fatal(err)
		}
		d.exec("DELETE FROM t WHERE id = 2", "UPDATE t SET v = 'eins' WHERE id = 1")
		reset := "RESET MASTER"
		if !m.MariaDB() && m.Version() != "mysql:8.0" {
			reset = "RESET BINARY LOGS AND GTIDS"
		}
		d.exec(reset, "INSERT INTO t VALUES (4, 'four')")
		if got := start(t, l, stop).fails(); !strings.Contains(got, "lacks") {
			t.Error(got)
		}
		r = start(t, l, d.config(map[string]string{"on.gap": "repair"})).streaming()
		r.repaired()
		d.exec("INSERT INTO t VALUES (5, 'five')")
		eventually(t, "the last row", func() bool { return strings.Contains(l.state(t, topic), "five") })
		equal(t, l.state(t, topic), d.rows("t", "id", "v"))
	})
}

// TestM8IncidentsAreRepaired: the server itself says that it lost changes.
func TestM8IncidentsAreRepaired(t *testing.T) {
	servers.EachMySQL(t, servers.Options{Settings: map[string]string{"max_binlog_stmt_cache_size": "4096", "binlog_stmt_cache_size": "4096"}}, func(t *testing.T, m *servers.MySQL) {
		d, l := newDatabase(t, m), withViews(t, 1)
		d.exec("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(20))", "CREATE TABLE my (id INT PRIMARY KEY, v TEXT) ENGINE=MyISAM")
		r := start(t, l, d.config(nil)).streaming()
		topic := "p." + d.name + ".my"
		d.exec("INSERT INTO t VALUES (1, 'one')", "INSERT INTO my VALUES (1, 'one')")
		l.waitFor(1, topic)
		// A statement on a table without transactions that is larger than the cache: what it did cannot be logged.
		var values []string
		for i := range 200 {
			values = append(values, fmt.Sprintf("(%d, REPEAT('x', 200))", 10+i))
		}
		if _, err := d.conn.Execute("INSERT INTO my VALUES " + strings.Join(values, ",")); err == nil {
			t.Fatal("the statement was logged")
		}
		d.exec("INSERT INTO t VALUES (2, 'two')")
		if got := r.fails(); !strings.Contains(got, "the source lost changes") {
			t.Error(got)
		}
		r = start(t, l, d.config(map[string]string{"on.gap": "repair"})).streaming()
		if warnings := r.repaired(); !strings.Contains(warnings, "lost changes") {
			t.Errorf("warnings %q", warnings)
		}
		d.exec("INSERT INTO t VALUES (3, 'three')")
		eventually(t, "the last row", func() bool { return strings.Contains(l.state(t, "p."+d.name+".t"), "three") })
		equal(t, l.state(t, "p."+d.name+".t"), d.rows("t", "id", "v"))
		equal(t, l.state(t, topic), d.rows("my", "id", "v"))
		if err := r.stop(); err != nil {
			t.Fatal(err)
		}
		start(t, l, d.config(nil)).streaming() // the incident is behind it
		d.exec("INSERT INTO t VALUES (4, 'four')")
		eventually(t, "the last row", func() bool { return strings.Contains(l.state(t, "p."+d.name+".t"), "four") })
	})
}

// TestM10KilledRepair: the connector is killed while it repairs, and two sessions write, one of them MINIMAL images. In the end the log has what the
// source has.
func TestM10KilledRepair(t *testing.T) {
	servers.EachMySQL(t, servers.Options{}, func(t *testing.T, m *servers.MySQL) {
		const rows = 20000
		d, l := newDatabase(t, m), withViews(t, 2)
		d.exec("CREATE TABLE t (id INT PRIMARY KEY, n INT NOT NULL, w VARCHAR(20))", "CREATE TABLE u (id INT PRIMARY KEY, n INT NOT NULL)")
		props := d.properties(map[string]string{"on.gap": "repair"})
		cmd := child(t, m.Flavour(), l, props)
		kill := func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
		defer func() { kill() }()
		eventually(t, "the first resume point", func() bool { return l.resumePoint() != nil })
		d.exec("INSERT INTO t WITH RECURSIVE s (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < 1000) SELECT n, 0, 'x' FROM s")
		for n := 1000; n < rows; n *= 2 {
			d.exec(fmt.Sprintf("INSERT INTO t SELECT id + %d, n, w FROM t", n))
		}
		d.exec("INSERT INTO u SELECT id, n FROM t WHERE id <= 200", "INSERT INTO t VALUES (1000000, 0, 'loaded')")
		topics := []string{"p." + d.name + ".t", "p." + d.name + ".u"}
		eventually(t, "all rows", func() bool { return strings.Contains(l.state(t, topics[0]), "loaded") })
		kill()
		d.exec("DELETE FROM t WHERE id % 3 = 0 AND id > 200", "UPDATE t SET w = 'missed' WHERE id % 5 = 0", "INSERT INTO t SELECT id + 2000000, n, w FROM t WHERE id > 200 AND id % 11 = 0")
		if err := m.PurgeBinaryLogs(context.Background()); err != nil {
			t.Fatal(err)
		}
		stop, done := make(chan struct{}), make(chan error, 2)
		for i := range 2 {
			w := d.session()
			if i == 1 {
				w.exec("SET SESSION binlog_row_image = 'MINIMAL'")
			}
			go func() { done <- w.write(stop, 200) }()
		}
		cmd = child(t, m.Flavour(), l, props)
		eventually(t, "the repair", func() bool { return l.resumePoint().point.repair != nil })
		for range 4 {
			time.Sleep(time.Duration(100+rand.IntN(300)) * time.Millisecond)
			kill()
			cmd = child(t, m.Flavour(), l, props)
		}
		time.Sleep(time.Second)
		close(stop)
		for range 2 {
			if err := <-done; err != nil {
				t.Fatal(err)
			}
		}
		eventually(t, "the end of the repair", func() bool { return l.resumePoint().point.repair == nil })
		d.exec("INSERT INTO t VALUES (3000000, 0, 'end')")
		eventually(t, "the last row", func() bool { return strings.Contains(l.state(t, topics[0]), `"end"`) })
		for i, table := range []string{"t", "u"} {
			columns := []string{"id", "n", "w"}[:3-i]
			got, want := strings.Split(l.state(t, topics[i]), "\n"), strings.Split(d.rows(table, columns...), "\n")
			if len(got) != len(want) {
				t.Fatalf("%s: %d rows in the log, %d at the source", table, len(got), len(want))
			}
			for n := range got {
				if got[n] != want[n] && !strings.Contains(got[n], "unavailable") {
					t.Fatalf("%s: %s in the log, %s at the source", table, got[n], want[n])
				}
			}
		}
		wholeTransactions(t, l, l.stream(topics...))
	})
}
