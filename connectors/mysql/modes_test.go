package mysql

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rowtrail/rowtrail/connectors"
	"github.com/rowtrail/rowtrail/itest/servers"
)

// ops are the operations of a topic's records, with what a read or a create gave of a column.
func (l *testLog) ops(topic, column string) string {
	l.t.Helper()
	var list []string
	for _, x := range l.read(topic) {
		switch {
		case x.Tombstone:
		case x.Op == "t":
			list = append(list, "t")
		default:
			list = append(list, fmt.Sprint(x.Op, x.After[column]))
		}
	}
	return strings.Join(list, " ")
}

func (l *testLog) awaitOps(topic, column, want string) {
	l.t.Helper()
	got := ""
	deadline := time.Now().Add(25 * time.Second)
	for got = l.ops(topic, column); got != want && time.Now().Before(deadline); got = l.ops(topic, column) {
		time.Sleep(20 * time.Millisecond)
	}
	if got != want {
		l.t.Fatalf("%s: %s, want %s", topic, got, want)
	}
}

// ends waits for the connector to end by itself.
func (r *running) completes() *running {
	r.t.Helper()
	select {
	case err := <-r.done:
		r.ended = true
		if s := r.c.Status(); err != nil || s.State != connectors.StateComplete {
			r.t.Fatalf("ended with %v: %+v", err, s)
		}
	case <-time.After(30 * time.Second):
		r.t.Fatalf("did not end: %+v", r.c.Status())
	}
	return r
}

// one is a configuration of one partition.
func (d *database) one(more map[string]string) *Config {
	d.t.Helper()
	props := map[string]string{"topic.creation.default.partitions": "1", "snapshot.mode": "initial"}
	for k, v := range more {
		props[k] = v
	}
	return d.config(props)
}

// TestSnapshotModes: what each mode loads, at the first start and at later ones.
func TestSnapshotModes(t *testing.T) {
	pool.Each(t, func(t *testing.T, m *servers.MySQL) {
		for _, locking := range []string{"none", "minimal"} {
			t.Run(locking, func(t *testing.T) {
				d, l := newDatabase(t, m), newLog(t, 1)
				d.exec("CREATE TABLE t (id INT PRIMARY KEY)", "CREATE TABLE streamed (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1), (2)", "INSERT INTO streamed VALUES (1)")
				topic := "p." + d.name + ".t"
				mode := func(mode string) *Config {
					return d.one(map[string]string{"snapshot.mode": mode, "snapshot.locking.mode": locking, "snapshot.include.collection.list": d.name + ".t"})
				}
				start(t, l, mode("initial_only")).completes()
				l.awaitOps(topic, "id", "r1 r2")
				d.exec("INSERT INTO t VALUES (3)", "INSERT INTO streamed VALUES (2)")
				start(t, l, mode("initial_only")).completes() // it is, already
				l.awaitOps(topic, "id", "r1 r2")
				r := start(t, l, mode("initial")).streaming() // goes on from there
				l.awaitOps(topic, "id", "r1 r2 c3")
				l.awaitOps("p."+d.name+".streamed", "id", "c2")
				if err := r.stop(); err != nil {
					t.Fatal(err)
				}
				d.exec("DELETE FROM t WHERE id = 1")
				r = start(t, l, mode("always")).streaming()
				l.awaitOps(topic, "id", "r1 r2 c3 t d<nil> r2 r3")
				if err := r.stop(); err != nil {
					t.Fatal(err)
				}
				d.exec("INSERT INTO t VALUES (4)")
				_ = start(t, l, mode("no_data")).streaming()
				l.awaitOps(topic, "id", "r1 r2 c3 t d<nil> r2 r3 c4")
			})
		}
	})
}

// TestWhenNeeded: at a gap all is loaded again, and the order of events goes on.
func TestWhenNeeded(t *testing.T) {
	pool.Each(t, func(t *testing.T, m *servers.MySQL) {
		d, l := newDatabase(t, m), newLog(t, 1)
		d.exec("CREATE TABLE t (id INT PRIMARY KEY, v INT)", "INSERT INTO t VALUES (1, 1), (2, 2)")
		topic := "p." + d.name + ".t"
		r := start(t, l, d.one(map[string]string{"snapshot.mode": "when_needed"})).streaming()
		d.exec("INSERT INTO t VALUES (3, 3)")
		l.awaitOps(topic, "id", "r1 r2 c3")
		if err := r.stop(); err != nil {
			t.Fatal(err)
		}
		d.exec("DELETE FROM t WHERE id = 1")
		d.purge()
		text := start(t, l, d.one(nil)).fails()
		if !strings.Contains(text, "gap") {
			t.Fatal(text)
		}
		r = start(t, l, d.one(map[string]string{"snapshot.mode": "when_needed"})).streaming()
		l.awaitOps(topic, "id", "r1 r2 c3 t r2 r3")
		d.exec("INSERT INTO t VALUES (4, 4)")
		l.awaitOps(topic, "id", "r1 r2 c3 t r2 r3 c4")
		last := uint64(0)
		for _, x := range l.read(topic) {
			if x.Pos.Commit < last {
				t.Errorf("%s is of commit %d, after %d", x, x.Pos.Commit, last)
			}
			last = x.Pos.Commit
		}
		if err := r.stop(); err != nil {
			t.Fatal(err)
		}
	})
}

// purge removes all binlog but what is written from now on.
func (d *database) purge() {
	d.t.Helper()
	d.exec("FLUSH BINARY LOGS")
	file, _, err := d.server.BinaryLog(d.t.Context())
	if err != nil {
		d.t.Fatal(err)
	}
	eventually(d.t, "the purge", func() bool { // another reader may still be in a file
		_, err := d.conn.Execute("PURGE BINARY LOGS TO '" + file + "'")
		if err != nil {
			d.t.Fatal(err)
		}
		res, err := d.conn.Execute("SHOW BINARY LOGS")
		if err != nil {
			d.t.Fatal(err)
		}
		return string(textOf(&res.Values[0][0])) == file
	})
}

// TestSnapshotProperties: what is not supported is refused by name, with what to do instead.
func TestSnapshotProperties(t *testing.T) {
	for _, c := range []struct{ name, value, want string }{
		{"snapshot.mode", "recovery", "leave it out"}, {"snapshot.mode", "schema_only_recovery", "leave it out"}, {"snapshot.mode", "configuration_based", "the one that is meant"},
		{"snapshot.mode", "custom", "Java class"}, {"snapshot.mode", "sometimes", "use initial"},
		{"snapshot.locking.mode", "minimal_percona", "Percona"}, {"snapshot.locking.mode", "custom", "Java class"}, {"snapshot.locking.mode", "x", "use none"},
		{"snapshot.lock.timeout.ms", "10", "at least"}, {"signal.data.collection", "signals", "<database>.<table>"},
		{"signal.enabled.channels", "kafka", "rowtrail connectors signal"}, {"signal.kafka.topic", "x", "rowtrail connectors signal"}, {"snapshot.include.collection.list", "(", "RE2"},
	} {
		_, errs := ParseConfig("c", KindMySQL, map[string]string{"database.hostname": "h", "database.user": "u", c.name: c.value})
		if len(errs) != 1 || !strings.Contains(errs[0].Error(), c.name) || !strings.Contains(errs[0].Error(), c.want) {
			t.Errorf("%s = %s: %v, want %q", c.name, c.value, errs, c.want)
		}
	}
	for name, values := range map[string]string{
		"snapshot.mode": "initial initial_only always when_needed no_data never schema_only", "snapshot.locking.mode": "none minimal extended",
		"read.only": "true false", "incremental.snapshot.watermarking.strategy": "insert_insert insert_delete", "signal.enabled.channels": "source", "signal.data.collection": "d.signals",
	} {
		for _, v := range strings.Fields(values) {
			if _, errs := ParseConfig("c", KindMySQL, map[string]string{"database.hostname": "h", "database.user": "u", name: v}); len(errs) > 0 {
				t.Errorf("%s = %s: %v", name, v, errs)
			}
		}
	}
}
