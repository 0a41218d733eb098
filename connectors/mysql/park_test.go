package mysql

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rowtrail/rowtrail/connectors"
	"github.com/rowtrail/rowtrail/connectors/event"
	"github.com/rowtrail/rowtrail/itest/servers"
)

// parked waits until a table is parked and returns what is said of it.
func (r *running) parked(table string) connectors.ParkedStatus {
	r.t.Helper()
	var found connectors.ParkedStatus
	eventually(r.t, table+" is parked", func() bool {
		s := r.c.Status()
		if s.State == connectors.StateFailed {
			r.t.Fatal(s.Error)
		}
		for _, p := range s.Parked {
			if p.Table == table && p.State == connectors.StateParked {
				found = p
				return true
			}
		}
		return false
	})
	return found
}

// waits waits until so many changes of a parked table wait.
func (r *running) waits(table string, changes int64) {
	r.t.Helper()
	eventually(r.t, fmt.Sprintf("%d changes of %s wait", changes, table), func() bool { return r.parked(table).Changes == changes })
}

// unpark asks for it, and waits until no table is parked.
func (r *running) unpark(table, how string) {
	r.t.Helper()
	eventually(r.t, "the connector takes the request", func() bool {
		return r.c.Unpark(connectors.Unpark{Table: table, How: how}) == nil
	})
	eventually(r.t, table+" is unparked", func() bool { return len(r.c.Status().Parked) == 0 })
}

// reached waits until the connector's position has everything that the server has.
func (d *database) reached(l *testLog) {
	d.t.Helper()
	d.exec("INSERT INTO mark VALUES (NULL)")
	last := d.value("SELECT max(id) FROM mark")
	eventually(d.t, "the position advances", func() bool {
		for _, x := range l.read("p." + d.name + ".mark") {
			if x.Key == `{"id":`+last+`}` {
				return true
			}
		}
		return false
	})
}

// inOrder checks that positions rise in each partition.
func inOrder(t *testing.T, list []rec) {
	t.Helper()
	last := map[string]rec{}
	for _, x := range list {
		p := fmt.Sprint(x.Topic, x.Partition)
		before, ok := last[p]
		if ok && (x.Pos.Commit < before.Pos.Commit || x.Pos.Commit == before.Pos.Commit && x.Pos.Order < before.Pos.Order) {
			t.Fatalf("%s at %d/%d comes after %s at %d/%d", x, x.Pos.Commit, x.Pos.Order, before, before.Pos.Commit, before.Pos.Order)
		}
		last[p] = x
	}
}

// liveKeys are the keys of a compacted topic that have a value, but for those of sessions.
func liveKeys(l *testLog, topic string) []string {
	live := map[string]bool{}
	for _, x := range l.read(topic) {
		live[x.Key] = !x.Tombstone && !strings.Contains(x.Key, "session")
	}
	var list []string
	for k, ok := range live {
		if ok {
			list = append(list, k)
		}
	}
	return list
}

// tooLarge is a number that bigint.unsigned.handling.mode long has not.
const tooLarge = "18446744073709551615"

// TestParkedTable: a value that cannot be encoded parks its table alone. The others go on, the position advances, a restart changes
// nothing. Unparked too early it stays parked; once mended, everything that waited comes in order, the table's changes of shape
// included, and then what follows.
func TestParkedTable(t *testing.T) {
	pool.Each(t, func(t *testing.T, m *servers.MySQL) {
		d, l := newDatabase(t, m), newLog(t, 3)
		d.exec("CREATE TABLE t (id INT PRIMARY KEY, n BIGINT UNSIGNED)", "CREATE TABLE u (id INT PRIMARY KEY, n INT)", "CREATE TABLE mark (id INT PRIMARY KEY AUTO_INCREMENT)")
		topic, u, table := "p."+d.name+".t", "p."+d.name+".u", d.name+".t"
		props := map[string]string{"skipped.operations": "none", "bigint.unsigned.handling.mode": "long"}
		c := d.config(props)
		r := start(t, l, c).streaming()
		d.exec("INSERT INTO t VALUES (1, 1)")
		l.waitFor(1, topic)
		d.exec("BEGIN", "INSERT INTO u VALUES (1, 1)", "INSERT INTO t VALUES (2, 2), (3, "+tooLarge+")", "INSERT INTO u VALUES (2, 2)", "COMMIT", "UPDATE t SET n = 11 WHERE id = 1")
		p := r.parked(table)
		if !strings.Contains(p.Reason, table) || !strings.Contains(p.Reason, "cannot be encoded") || !strings.Contains(p.Remedy, "column.exclude.list: "+table+".n") {
			t.Fatalf("%+v", p)
		}
		d.exec("ALTER TABLE t ADD COLUMN x VARCHAR(9) DEFAULT 'd'", "TRUNCATE t", "INSERT INTO t VALUES (4, 4, 'y'), (5, "+tooLarge+", NULL)", "INSERT INTO u VALUES (5, 5)",
			"UPDATE t SET id = 40 WHERE id = 4", "DELETE FROM t WHERE id = 5")
		d.reached(l)
		r.waits(table, 6)
		equal(t, ids(l.read(u)), "c1 c2 c5")
		l.waitFor(1, topic)

		_ = r.stop()
		r = start(t, l, c).streaming()
		if again := r.parked(table); !again.Since.Equal(p.Since) || again.Reason != p.Reason || again.Changes != 6 {
			t.Fatalf("after a restart: %+v, before %+v", again, p)
		}
		if err := r.c.Unpark(connectors.Unpark{Table: d.name + ".u"}); err == nil || !strings.Contains(err.Error(), "is not parked") {
			t.Fatal(err)
		}
		eventually(t, "the request is taken", func() bool { return r.c.Unpark(connectors.Unpark{Table: table}) == nil }) // nothing is mended yet
		d.reached(l)
		eventually(t, "it is parked again", func() bool {
			s := r.c.Status()
			return s.State == connectors.StateStreaming && len(s.Parked) == 1 && s.Parked[0].State == connectors.StateParked && s.Parked[0].Changes == 6
		})
		l.waitFor(1, topic)

		_ = r.stop()
		props["bigint.unsigned.handling.mode"] = "precise"
		r = start(t, l, d.config(props)).streaming()
		d.exec("INSERT INTO t VALUES (7, 7, 'live')")
		r.waits(table, 7)
		r.unpark(table, "")
		d.exec("INSERT INTO t VALUES (8, 8, 'after')")
		list := l.waitFor(16, topic) // 3 truncates of one
		inOrder(t, list)
		got := map[string]string{}
		for _, x := range list {
			got[x.Key] += x.Op
			if x.Key == `{"id":40}` && (x.After["x"] != "y" || x.Headers["__debezium.oldkey"] == "") {
				t.Errorf("%+v", x)
			}
			if x.Key == `{"id":7}` && (x.Source["file"] == "" || x.Source["pos"] == nil || fmt.Sprint(x.Source["ts_ms"]) == "0") {
				t.Errorf("what waited has lost what the source says of it: %v", x.Source)
			}
		}
		want := map[string]string{
			`{"id":1}`: "cu", `{"id":2}`: "c", `{"id":3}`: "c", "": "ttt", `{"id":4}`: "cd", `{"id":40}`: "c", `{"id":5}`: "cd", `{"id":7}`: "c", `{"id":8}`: "c",
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("got %v, want %v", got, want)
		}
		if left := liveKeys(l, "p.raw"); len(left) != 0 {
			t.Errorf("kept for nobody: %v", left)
		}
		checkEnds(t, l, append(list, l.read(u)...))
	})
}

// TestUnparkDiscards: what waits is thrown away when that is asked for. Without a load a table cannot be loaded again.
func TestUnparkDiscards(t *testing.T) {
	pool.Each(t, func(t *testing.T, m *servers.MySQL) {
		d, l := newDatabase(t, m), newLog(t, 1)
		d.exec("CREATE TABLE t (id INT PRIMARY KEY, n BIGINT UNSIGNED)")
		topic, table := "p."+d.name+".t", d.name+".t"
		r := start(t, l, d.config(map[string]string{"bigint.unsigned.handling.mode": "long"})).streaming()
		d.exec("INSERT INTO t VALUES (1, 1)")
		l.waitFor(1, topic)
		d.exec("INSERT INTO t VALUES (2, "+tooLarge+")", "INSERT INTO t VALUES (3, 3)")
		r.waits(table, 2)
		if err := r.c.Unpark(connectors.Unpark{Table: table, How: connectors.UnparkReload}); err == nil || !strings.Contains(err.Error(), "snapshot.mode") {
			t.Fatal(err)
		}
		r.unpark(table, connectors.UnparkDiscard)
		d.exec("INSERT INTO t VALUES (4, 4)")
		equal(t, ids(l.waitFor(2, topic)), "c1 c4")
		if left := liveKeys(l, "p.raw"); len(left) != 0 {
			t.Errorf("kept for nobody: %v", left)
		}
	})
}

// TestKilledWhileUnparking kills the connector at random moments while a table is unparked and changed. In the end its topic has every
// change once, in order.
func TestKilledWhileUnparking(t *testing.T) {
	pool.Each(t, func(t *testing.T, m *servers.MySQL) {
		const rows, rounds, kills = 200, 100, 6
		d, l := newDatabase(t, m), newLog(t, 3)
		d.exec("CREATE TABLE t (id INT PRIMARY KEY, n INT NOT NULL, big BIGINT UNSIGNED, pad VARCHAR(600))", "CREATE TABLE mark (id INT PRIMARY KEY AUTO_INCREMENT)")
		topic, table := "p."+d.name+".t", d.name+".t"
		props := d.properties(map[string]string{"bigint.unsigned.handling.mode": "long"})
		cmd := child(t, m.Flavour(), l, props)
		stop := func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
		defer func() { stop() }()
		eventually(t, "the first resume point", func() bool { return l.resumePoint() != nil })
		for i := range rows {
			d.exec(fmt.Sprintf("INSERT INTO t VALUES (%d, 0, 0, '')", i+1))
		}
		d.exec("UPDATE t SET n = n + 1, big = " + tooLarge + " WHERE id = 1") // parks it
		for i := range rounds {
			d.exec(fmt.Sprintf("UPDATE t SET n = n + 1, pad = repeat('%d', 250)", i%10))
		}
		d.reached(l)
		stop()
		props["bigint.unsigned.handling.mode"] = "precise"
		t.Setenv(unparkEnv, table)
		w := d.session()
		end, done := make(chan struct{}), make(chan error, 1)
		go func() {
			for {
				select {
				case <-end:
					done <- nil
					return
				case <-time.After(5 * time.Millisecond):
				}
				if _, err := w.conn.Execute(fmt.Sprintf("UPDATE t SET n = n + 1 WHERE id = %d", rand.IntN(rows)+1)); err != nil {
					done <- err
					return
				}
			}
		}()
		for range kills {
			cmd = child(t, m.Flavour(), l, props)
			time.Sleep(time.Duration(100+rand.IntN(900)) * time.Millisecond)
			stop()
		}
		cmd = child(t, m.Flavour(), l, props)
		time.Sleep(500 * time.Millisecond)
		close(end)
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		d.reached(l)
		eventually(t, "all is written", func() bool { return l.resumePoint().point.parked == nil })
		list := l.read(topic)
		inOrder(t, list)
		last := map[string]int{}
		for _, x := range list {
			n, _ := strconv.Atoi(fmt.Sprint(x.After["n"]))
			if before, known := last[x.Key]; x.Op == "c" && known || x.Op == "u" && (!known || n != before+1) {
				t.Fatalf("%s after n = %d: lost, repeated or out of order", x, before)
			}
			last[x.Key] = n
		}
		sum := 0
		for _, n := range last {
			sum += n
		}
		if want := d.value("SELECT sum(n) FROM t"); strconv.Itoa(sum) != want {
			t.Fatalf("the log folds to %d, the table to %s", sum, want)
		}
		checkEnds(t, l, list)
		if left := liveKeys(l, "p.raw"); len(left) != 0 {
			t.Fatalf("kept for nobody: %v", left)
		}
		t.Logf("%d records", len(list))
	})
}

// checkEnds checks that the END records count what is there: every event of a source transaction, and no other.
func checkEnds(t testing.TB, l *testLog, changes []rec) {
	t.Helper()
	type key struct {
		commit uint64
		table  string
	}
	have := map[key]map[uint64]bool{}
	for _, x := range changes {
		if x.Pos.Order == 0 {
			continue
		}
		k := key{x.Pos.Commit, strings.TrimPrefix(x.Topic, "p.")}
		if have[k] == nil {
			have[k] = map[uint64]bool{}
		}
		have[k][x.Pos.CollectionOrder] = true
	}
	for _, x := range l.read("p.transaction") {
		end, err := event.ParseTransaction([]byte(x.Value))
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range end.Collections {
			k := key{x.Pos.Commit, c.Collection}
			if got := have[k]; len(got) > 0 && (int64(len(got)) != c.Count || !got[uint64(c.Count)] || !got[1]) {
				t.Fatalf("transaction %s: %d changes of %s, END says %d", end.ID, len(got), c.Collection, c.Count)
			}
			delete(have, k)
		}
	}
	for k := range have {
		t.Fatalf("changes at %d of %s without END record", k.commit, k.table)
	}
}

// TestParkedLoads: a table that fails in its load keeps nothing and is loaded when it is unparked; a parked table is loaded again where
// that is asked for. Other tables' loads go on.
func TestParkedLoads(t *testing.T) {
	pool.Each(t, func(t *testing.T, m *servers.MySQL) {
		d, l := newDatabase(t, m), newLog(t, 1)
		d.exec("CREATE TABLE t (id INT PRIMARY KEY, n BIGINT UNSIGNED)", "CREATE TABLE u (id INT PRIMARY KEY)", "CREATE TABLE mark (id INT PRIMARY KEY AUTO_INCREMENT)",
			"INSERT INTO t VALUES (1, 1), (2, "+tooLarge+")", "INSERT INTO u VALUES (1)")
		topic, table := "p."+d.name+".t", d.name+".t"
		props := map[string]string{"snapshot.mode": "initial", "bigint.unsigned.handling.mode": "long"}
		r := start(t, l, d.config(props))
		if p := r.parked(table); !p.Load || !strings.Contains(p.Reason, "in the initial load") {
			t.Fatalf("%+v", p)
		}
		equal(t, ids(l.waitFor(1, "p."+d.name+".u")), "r1")
		d.exec("INSERT INTO t VALUES (3, 3)")
		d.reached(l)
		if p := r.parked(table); p.Changes != 0 {
			t.Fatalf("%+v", p)
		}
		_ = r.stop()
		props["bigint.unsigned.handling.mode"] = "precise"
		r = start(t, l, d.config(props)).streaming()
		r.unpark(table, "")
		eventually(t, "the load", func() bool { return len(l.read(topic)) >= 3 })
		d.exec("INSERT INTO t VALUES (4, 4)")
		equal(t, ids(l.waitFor(4, topic)), "r1 r2 r3 c4")
		eventually(t, "the load ends", func() bool { return r.c.Status().State == connectors.StateStreaming })
		_ = r.stop()

		props["bigint.unsigned.handling.mode"] = "long"
		r = start(t, l, d.config(props)).streaming()
		d.exec("UPDATE t SET n = " + tooLarge + " WHERE id = 1")
		r.waits(table, 1)
		d.exec("DELETE FROM t WHERE id IN (1, 2)", "UPDATE t SET n = 5 WHERE id = 3")
		r.waits(table, 3)
		r.unpark(table, connectors.UnparkReload)
		eventually(t, "the load", func() bool { return len(l.read(topic)) >= 7 })
		d.exec("INSERT INTO t VALUES (6, 6)")
		list := l.waitFor(8, topic)
		if got := ids(list); got != "r1 r2 r3 c4 t r3 r4 c6" || fmt.Sprint(list[5].After["n"]) != "5" {
			t.Fatal(got)
		}
		if left := liveKeys(l, "p.raw"); len(left) != 0 {
			t.Errorf("kept for nobody: %v", left)
		}
		checkEnds(t, l, list)
	})
}
