package mysql

import (
	"strings"
	"testing"

	"github.com/rowtrail/rowtrail/itest/servers"
)

// TestChangesOfEveryKind is the plain case: inserts, updates, a changed key, deletes and a truncate, in whole transactions.
func TestChangesOfEveryKind(t *testing.T) {
	pool.Each(t, func(t *testing.T, m *servers.MySQL) {
		d, l := newDatabase(t, m), newLog(t, 2)
		d.exec("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(20), n DECIMAL(6,2))", "INSERT INTO t VALUES (100, 'before the start', 0)")
		r := start(t, l, d.config(map[string]string{"topic.creation.default.partitions": "1", "skipped.operations": "none", "provide.transaction.metadata": "true"})).streaming()
		d.exec("BEGIN", "INSERT INTO t VALUES (1, 'one', 1.5), (2, 'zwei ü', NULL)", "UPDATE t SET v = 'eins' WHERE id = 1", "COMMIT",
			"UPDATE t SET id = 3 WHERE id = 2", "DELETE FROM t WHERE id = 1", "TRUNCATE TABLE t")
		topic := "p." + d.name + ".t"
		equal(t, summary(l.waitFor(9, topic)), `c {"id":1} null -> {"id":1,"n":"AJY=","v":"one"}
c {"id":2} null -> {"id":2,"n":null,"v":"zwei ü"}
u {"id":1} {"id":1,"n":"AJY=","v":"one"} -> {"id":1,"n":"AJY=","v":"eins"}
d {"id":2} {"id":2,"n":null,"v":"zwei ü"} -> null
tombstone {"id":2}
c {"id":3} null -> {"id":3,"n":null,"v":"zwei ü"}
d {"id":1} {"id":1,"n":"AJY=","v":"eins"} -> null
tombstone {"id":1}
t  null -> null`)
		list := l.read(topic)
		for i, want := range []uint64{1, 2, 3, 1, 1, 2, 1, 1, 1} {
			if list[i].Pos.Order != want || list[i].Pos.Commit == 0 || list[i].Pos.CommitTime == 0 {
				t.Errorf("record %d has place %+v, want order %d", i, list[i].Pos, want)
			}
			if i > 0 && list[i].Pos.Commit < list[i-1].Pos.Commit {
				t.Errorf("record %d: commit %d after %d", i, list[i].Pos.Commit, list[i-1].Pos.Commit)
			}
		}
		if h := list[3].Headers["__debezium.newkey"]; h != `{"id":3}` {
			t.Errorf("new key %s", h)
		}
		if s := list[0].Source; s["table"] != "t" || s["db"] != d.name || s["file"] == "" || s["gtid"] == nil || s["server_id"] == nil {
			t.Errorf("source %v", s)
		}
		ends := 0
		for _, x := range l.read("p.transaction") {
			if strings.Contains(x.Value, `"END"`) {
				ends++
			}
		}
		if ends != 4 {
			t.Errorf("%d END records, want 4", ends)
		}
		if s := r.c.Status(); s.Events != 7 || s.Transactions != 4 || s.Position == "" {
			t.Errorf("status %+v", s)
		}
		if got := len(l.read("p.schema")); got != 1 {
			t.Errorf("%d schemas", got)
		}
	})
}

// TestResume stops between transactions of all kinds: the next run goes on after them.
func TestResume(t *testing.T) {
	pool.Each(t, func(t *testing.T, m *servers.MySQL) {
		d, l := newDatabase(t, m), newLog(t, 1)
		d.exec("CREATE TABLE t (id INT PRIMARY KEY, v INT)")
		c := d.config(nil)
		r := start(t, l, c).streaming()
		topic := "p." + d.name + ".t"
		for i := range 5 {
			d.exec("INSERT INTO t VALUES ("+string(rune('1'+i))+", 0)", "UPDATE t SET v = v + 1")
			if err := r.stop(); err != nil {
				t.Fatal(err)
			}
			d.exec("UPDATE t SET v = v + 1 WHERE id = 1") // while it is away
			r = start(t, l, c).streaming()
		}
		// 5 inserts, updates of 1+2+3+4+5 rows, 5 updates while it was away.
		list := l.waitFor(5+15+5, topic)
		last := uint64(0)
		for _, x := range list {
			if x.Pos.Commit < last {
				t.Fatalf("commit %d after %d", x.Pos.Commit, last)
			}
			last = x.Pos.Commit
		}
		if v := list[len(list)-1].After["v"]; v == nil {
			t.Fatal(list[len(list)-1])
		}
	})
}
