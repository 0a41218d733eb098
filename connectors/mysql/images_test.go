package mysql

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rowtrail/rowtrail/itest/servers"
)

// TestM13ImagesAreCompleted: row images of sessions, with the log's views at hand: what a session leaves out is what the row had,
// in the same log transaction as what made it and after it, over a restart, over key changes, deletes and inserts of one key.
func TestM13ImagesAreCompleted(t *testing.T) {
	pool.Each(t, func(t *testing.T, m *servers.MySQL) {
		d, l := newDatabase(t, m), withViews(t, 2)
		d.exec("CREATE TABLE t (id INT PRIMARY KEY, a INT, b INT, x TEXT)")
		c := d.config(map[string]string{"topic.creation.default.partitions": "1", "skipped.operations": "none"})
		r := start(t, l, c).streaming()
		topic := "p." + d.name + ".t"
		d.exec("INSERT INTO t VALUES (1, 1, 1, 'long')", "SET SESSION binlog_row_image = 'MINIMAL'", "UPDATE t SET a = NULL WHERE id = 1",
			"UPDATE t SET id = 2 WHERE id = 1", "DELETE FROM t WHERE id = 2",
			"BEGIN", "INSERT INTO t VALUES (3, 3, 3, 'drei')", "UPDATE t SET b = 4 WHERE id = 3", "UPDATE t SET id = 4 WHERE id = 3", "UPDATE t SET a = 5 WHERE id = 4",
			"DELETE FROM t WHERE id = 4", "INSERT INTO t (id, a) VALUES (4, 6)", "UPDATE t SET a = 7 WHERE id = 4", "COMMIT",
			"SET SESSION binlog_row_image = 'NOBLOB'", "INSERT INTO t VALUES (5, 5, 5, 'noblob')", "UPDATE t SET a = 6 WHERE id = 5")
		list := l.waitFor(19, topic)
		equal(t, summary(list), `c {"id":1} null -> {"a":1,"b":1,"id":1,"x":"long"}
u {"id":1} {"a":1,"b":1,"id":1,"x":"long"} -> {"a":null,"b":1,"id":1,"x":"long"}
d {"id":1} {"a":null,"b":1,"id":1,"x":"long"} -> null
tombstone {"id":1}
c {"id":2} null -> {"a":null,"b":1,"id":2,"x":"long"}
d {"id":2} {"a":null,"b":1,"id":2,"x":"long"} -> null
tombstone {"id":2}
c {"id":3} null -> {"a":3,"b":3,"id":3,"x":"drei"}
u {"id":3} {"a":3,"b":3,"id":3,"x":"drei"} -> {"a":3,"b":4,"id":3,"x":"drei"}
d {"id":3} {"a":3,"b":4,"id":3,"x":"drei"} -> null
tombstone {"id":3}
c {"id":4} null -> {"a":3,"b":4,"id":4,"x":"drei"}
u {"id":4} {"a":3,"b":4,"id":4,"x":"drei"} -> {"a":5,"b":4,"id":4,"x":"drei"}
d {"id":4} {"a":5,"b":4,"id":4,"x":"drei"} -> null
tombstone {"id":4}
c {"id":4} null -> {"a":6,"id":4,"x":"__debezium_unavailable_value"}
u {"id":4} null -> {"a":7,"id":4,"x":"__debezium_unavailable_value"}
c {"id":5} null -> {"a":5,"b":5,"id":5,"x":"noblob"}
u {"id":5} {"a":5,"b":5,"id":5,"x":"noblob"} -> {"a":6,"b":5,"id":5,"x":"noblob"}`+"\n")
		if a := fmt.Sprint(list[16].Pos.Absent); a != "[2 3]" {
			t.Errorf("absent columns %s", a)
		}
		if err := r.stop(); err != nil {
			t.Fatal(err)
		}
		d.exec("SET SESSION binlog_row_image = 'MINIMAL'", "UPDATE t SET b = 7 WHERE id = 5")
		r = start(t, l, c).streaming()
		equal(t, summary(l.waitFor(20, topic)[19:]), `u {"id":5} {"a":6,"b":5,"id":5,"x":"noblob"} -> {"a":6,"b":7,"id":5,"x":"noblob"}`)
		// The topic is made anew: what it had is no state any more.
		if err := r.stop(); err != nil {
			t.Fatal(err)
		}
		l.deleteTopic(topic)
		r = start(t, l, c).streaming()
		d.exec("UPDATE t SET b = 8 WHERE id = 5", "UPDATE t SET a = 8 WHERE id = 5", "TRUNCATE TABLE t", "INSERT INTO t (id, a) VALUES (5, 1)", "UPDATE t SET a = 2 WHERE id = 5")
		equal(t, summary(l.waitFor(5, topic)), `u {"id":5} null -> {"b":8,"id":5,"x":"__debezium_unavailable_value"}
u {"id":5} null -> {"a":8,"b":8,"id":5,"x":"__debezium_unavailable_value"}
t  null -> null
c {"id":5} null -> {"a":1,"id":5,"x":"__debezium_unavailable_value"}
u {"id":5} null -> {"a":2,"id":5,"x":"__debezium_unavailable_value"}`)
		if w := r.c.Status().Warnings; len(w) > 0 {
			t.Errorf("warnings %v", w)
		}
	})
}

// TestM6JSONChanges: a session's binlog_row_value_options=PARTIAL_JSON, with and without the column in the image before.
func TestM6JSONChanges(t *testing.T) {
	pool.Each(t, func(t *testing.T, m *servers.MySQL) {
		if m.MariaDB() {
			t.Skip("MariaDB's JSON is text and is sent whole")
		}
		d, l := newDatabase(t, m), withViews(t, 1)
		d.exec("CREATE TABLE t (id INT PRIMARY KEY, j JSON, k JSON, n INT)")
		r := start(t, l, d.config(nil)).streaming()
		topic := "p." + d.name + ".t"
		const before = `{"a": 1, "b": "a long text that makes the change worth while", "c": [1, 2, 3]}`
		d.exec("SET SESSION binlog_row_value_options = 'PARTIAL_JSON'", fmt.Sprintf("INSERT INTO t VALUES (1, '%s', '%s', 1)", before, before),
			"UPDATE t SET j = JSON_SET(j, '$.a', 2) WHERE id = 1", "SET SESSION binlog_row_image = 'MINIMAL'",
			"UPDATE t SET j = JSON_REPLACE(j, '$.a', 3) WHERE id = 1",
			"BEGIN", "UPDATE t SET k = JSON_SET(k, '$.a', 4), n = 2 WHERE id = 1", "UPDATE t SET k = JSON_REMOVE(k, '$.c'), j = JSON_SET(j, '$.c[1]', 'x') WHERE id = 1", "COMMIT",
			"SET SESSION binlog_row_image = 'NOBLOB'", "UPDATE t SET k = JSON_SET(k, '$.a', 5) WHERE id = 1")
		want := d.value("SELECT CONCAT(j, k, n) FROM t")
		list := l.waitFor(6, topic)
		got := fmt.Sprint(list[5].After["j"], list[5].After["k"], list[5].After["n"])
		if got != want {
			t.Errorf("%s\nthe server has\n%s", got, want)
		}
		for i, x := range list {
			if len(x.Pos.Absent) > 0 || i > 0 && len(x.Before) != 4 {
				t.Errorf("%s lacks columns %v", x, x.Pos.Absent)
			}
		}
		// Without the document before, the change is worth nothing: the column stays absent, and is told as such.
		if err := r.stop(); err != nil {
			t.Fatal(err)
		}
		l.deleteTopic(topic)
		start(t, l, d.config(nil)).streaming()
		d.exec("SET SESSION binlog_row_image = 'MINIMAL'", "UPDATE t SET k = JSON_SET(k, '$.a', 6), n = 3 WHERE id = 1")
		if x := l.waitFor(1, topic)[0]; fmt.Sprint(x.Pos.Absent) != "[1 2]" || fmt.Sprint(x.After["n"]) != "3" || x.Before != nil {
			t.Errorf("%s, absent %v", x, x.Pos.Absent)
		}
	})
}

// TestM13AlteredTables: a column that is another than the one of its name before is not filled with that one's values.
func TestM13AlteredTables(t *testing.T) {
	pool.Each(t, func(t *testing.T, m *servers.MySQL) {
		d, l := newDatabase(t, m), withViews(t, 1)
		d.exec("CREATE TABLE t (id INT PRIMARY KEY, a INT, b INT, n INT)", "CREATE TABLE other (id INT PRIMARY KEY, a INT, b INT, n INT)")
		start(t, l, d.config(map[string]string{"table.include.list": d.name + ".t"})).streaming()
		topic := "p." + d.name + ".t"
		// One after the other: where the catalog is ahead, a column of MariaDB's that it does not have any more may have been a generated one.
		d.exec("SET SESSION binlog_row_image = 'MINIMAL'", "INSERT INTO t VALUES (1, 1, 2, 0)")
		for n, statements := range [][]string{
			{"ALTER TABLE t ADD COLUMN c INT DEFAULT 9 FIRST", "UPDATE t SET n = 1 WHERE id = 1"},           // c is not known
			{"ALTER TABLE t RENAME COLUMN a TO z, RENAME COLUMN b TO a", "UPDATE t SET n = 2 WHERE id = 1"}, // neither are z and a
			{"UPDATE t SET a = 5, z = 6, c = 7 WHERE id = 1"}, {"UPDATE t SET n = 3 WHERE id = 1"},          // now all are
			{"ALTER TABLE t DROP COLUMN a, ADD COLUMN a INT AFTER z", "UPDATE t SET n = 4 WHERE id = 1"},
		} {
			d.exec(statements...)
			l.waitFor(2+n, topic)
		}
		equal(t, summary(l.waitFor(6, topic)), `c {"id":1} null -> {"a":1,"b":2,"id":1,"n":0}
u {"id":1} null -> {"a":1,"b":2,"id":1,"n":1}
u {"id":1} null -> {"id":1,"n":2}
u {"id":1} null -> {"a":5,"c":7,"id":1,"n":2,"z":6}
u {"id":1} {"a":5,"c":7,"id":1,"n":2,"z":6} -> {"a":5,"c":7,"id":1,"n":3,"z":6}
u {"id":1} null -> {"c":7,"id":1,"n":4,"z":6}`)
		// Another table takes the name: its rows are not those of the topic.
		d.exec("INSERT INTO other VALUES (1, 100, 200, 300)", "RENAME TABLE t TO gone, other TO t", "UPDATE t SET n = 5 WHERE id = 1")
		equal(t, summary(l.waitFor(7, topic)[6:]), `u {"id":1} null -> {"id":1,"n":5}`)
	})
}

// TestM13KilledConnector: sessions of all images change rows at random while the connector is killed. Every column that an event has is
// what the row had there, and since the log has every change from the first on, nothing is absent.
func TestM13KilledConnector(t *testing.T) {
	pool.Each(t, func(t *testing.T, m *servers.MySQL) {
		const rows = 60
		d, l := newDatabase(t, m), withViews(t, 3)
		d.exec("CREATE TABLE t (id INT PRIMARY KEY, a INT NOT NULL, b INT NOT NULL, x TEXT NOT NULL)")
		props := d.properties(nil)
		cmd := child(t, m.Flavour(), l, props)
		defer func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}()
		eventually(t, "the first resume point", func() bool { return l.resumePoint() != nil })
		for i := range rows {
			d.exec(fmt.Sprintf("INSERT INTO t VALUES (%d, 0, 0, '0')", i))
		}
		stop, done := make(chan struct{}), make(chan error, 3)
		for i, image := range []string{"MINIMAL", "NOBLOB", "FULL"} {
			w := d.session()
			w.exec("SET SESSION binlog_row_image = '" + image + "'")
			go func() { done <- w.writeParts(stop, i*rows/3, rows/3) }()
		}
		for range 6 {
			time.Sleep(time.Duration(100+rand.IntN(500)) * time.Millisecond)
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
			cmd = child(t, m.Flavour(), l, props)
		}
		close(stop)
		for range 3 {
			if err := <-done; err != nil {
				t.Fatal(err)
			}
		}
		d.exec("INSERT INTO t VALUES (1000, 0, 0, 'end')")
		topic := "p." + d.name + ".t"
		eventually(t, "the last row", func() bool { return strings.Contains(l.state(t, topic), `"end"`) })
		last := map[string]map[string]any{}
		list := l.read(topic)
		for _, x := range list {
			if x.Tombstone {
				continue
			}
			if len(x.Pos.Absent) > 0 {
				t.Fatalf("%s lacks columns %v", x, x.Pos.Absent)
			}
			if was := last[x.Key]; fmt.Sprint(x.Before) != fmt.Sprint(was) && x.Op != "c" {
				t.Fatalf("%s: the row was %v", x, was)
			}
			last[x.Key] = x.After
		}
		want := d.value("SELECT CONCAT(COUNT(*), ' ', SUM(a), ' ', SUM(b), ' ', SUM(CRC32(x))) FROM t")
		copied := d.session()
		copied.exec("CREATE TEMPORARY TABLE copied (id INT PRIMARY KEY, a INT, b INT, x TEXT)")
		for _, row := range last {
			if row != nil {
				copied.exec(fmt.Sprintf("INSERT INTO copied VALUES (%v, %v, %v, '%v')", row["id"], row["a"], row["b"], row["x"]))
			}
		}
		if got := copied.value("SELECT CONCAT(COUNT(*), ' ', SUM(a), ' ', SUM(b), ' ', SUM(CRC32(x))) FROM copied"); got != want {
			t.Errorf("the log folds to %s, the table to %s", got, want)
		}
		t.Logf("%d records", len(list))
	})
}

// writeParts changes rows of one's own, some columns at a time, until stop.
func (d *database) writeParts(stop <-chan struct{}, first, rows int) error {
	for n := 0; ; n++ {
		select {
		case <-stop:
			return nil
		default:
		}
		id := first + rand.IntN(rows)
		q := []string{
			"UPDATE t SET a = a + 1 WHERE id = %d", "UPDATE t SET b = b + a WHERE id = %d", "UPDATE t SET x = CONCAT(LEFT(x, 40), a) WHERE id = %d",
			"DELETE FROM t WHERE id = %d", "REPLACE INTO t VALUES (%d, 1, 1, 'new')",
		}[rand.IntN(5)]
		if _, err := d.conn.Execute(fmt.Sprintf(q, id)); err != nil {
			return fmt.Errorf("%s: %w", q, err)
		}
	}
}

// TestM13ColumnsThatTheServerSets: what a statement does not name and the server changes all the same is in the image after the change,
// or not taken for unchanged: generated columns, ON UPDATE, triggers.
func TestM13ColumnsThatTheServerSets(t *testing.T) {
	pool.Each(t, func(t *testing.T, m *servers.MySQL) {
		for _, image := range []string{"MINIMAL", "NOBLOB"} {
			d, l := newDatabase(t, m), withViews(t, 1)
			d.exec("CREATE TABLE t (id INT PRIMARY KEY, i INT, n INT, st INT GENERATED ALWAYS AS (i * 2) STORED, vi INT GENERATED ALWAYS AS (i * 3) VIRTUAL, "+
				"late INT GENERATED ALWAYS AS (n + 1) VIRTUAL, at DATETIME(6) DEFAULT CURRENT_TIMESTAMP(6) ON UPDATE CURRENT_TIMESTAMP(6), b INT, x TEXT, long_text TEXT GENERATED ALWAYS AS (CONCAT(x, i)) STORED)",
				"CREATE TRIGGER before_update BEFORE UPDATE ON t FOR EACH ROW SET NEW.b = NEW.i + 100")
			r := start(t, l, d.config(nil)).streaming()
			topic := "p." + d.name + ".t"
			d.exec("INSERT INTO t (id, i, n, x) VALUES (1, 1, 1, 'x'), (2, 2, 2, 'y')", "SET SESSION binlog_row_image = '"+image+"'")
			for n, statement := range []string{"UPDATE t SET i = 5 WHERE id = 1", "UPDATE t SET n = 7 WHERE id = 1", "UPDATE t SET x = 'z' WHERE id = 1", "UPDATE t SET i = 6, n = 8, x = 'w' WHERE id = 1"} {
				d.exec(statement)
				x := l.waitFor(3+n, topic)[2+n]
				for _, c := range []string{"i", "n", "st", "vi", "late", "b", "x", "long_text"} {
					if got, has := x.After[c]; has && fmt.Sprint(got) != d.value("SELECT "+c+" FROM t WHERE id = 1") && fmt.Sprint(got) != "__debezium_unavailable_value" {
						t.Errorf("%s, %s: %s is %v, the server has %s", image, statement, c, got, d.value("SELECT "+c+" FROM t WHERE id = 1"))
					}
				}
				us, _ := strconv.ParseInt(fmt.Sprint(x.After["at"]), 10, 64)
				if want := d.value("SELECT at FROM t WHERE id = 1"); x.After["at"] != nil && time.UnixMicro(us).UTC().Format("2006-01-02 15:04:05.000000") != want {
					t.Errorf("%s, %s: at is %v, the server has %s", image, statement, time.UnixMicro(us).UTC(), want)
				}
				if len(x.Pos.Absent) > 0 {
					t.Logf("%s, %s: columns %v are absent", image, statement, x.Pos.Absent)
				}
			}
			if err := r.stop(); err != nil {
				t.Fatal(err)
			}
		}
	})
}
