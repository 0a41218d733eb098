package mysql

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/rowtrail/rowtrail/connectors"
	"github.com/rowtrail/rowtrail/itest/servers"
)

// signal gives a running connector a signal.
func (r *running) signal(typ, data string) connectors.SignalResult {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	return r.c.Signal(ctx, connectors.Signal{ID: "s", Type: typ, Data: json.RawMessage(data)})
}

func (d *database) signalTable() {
	d.exec("CREATE TABLE signals (id VARCHAR(42) PRIMARY KEY, type VARCHAR(32) NOT NULL, data VARCHAR(2048))")
}

func (d *database) signal(id, typ, data string) {
	d.exec(fmt.Sprintf("INSERT INTO signals VALUES ('%s', '%s', '%s')", id, typ, data))
}

// TestSignalTable: signals take effect at their place in the stream, and only when their transaction is committed.
func TestSignalTable(t *testing.T) {
	pool.Each(t, func(t *testing.T, m *servers.MySQL) {
		d, l := newDatabase(t, m), newLog(t, 1)
		d.signalTable()
		d.exec("CREATE TABLE t (id INT PRIMARY KEY)", "CREATE TABLE u (id INT PRIMARY KEY)", "CREATE TABLE keyless (id INT)", "INSERT INTO t VALUES (1), (2), (3)", "INSERT INTO u VALUES (1)",
			"INSERT INTO keyless VALUES (5), (5)")
		more := map[string]string{"snapshot.mode": "no_data", "table.include.list": d.name + "\\.(t|u|keyless)", "signal.data.collection": d.name + ".signals"}
		r := start(t, l, d.one(more)).streaming()
		topic := func(name string) string { return "p." + d.name + "." + name }
		d.exec("BEGIN", "INSERT INTO t VALUES (4)",
			fmt.Sprintf(`INSERT INTO signals VALUES ('a', 'execute-snapshot', '{"data-collections": ["%s.t"], "type": "incremental"}')`, d.name), "COMMIT")
		l.awaitOps(topic("t"), "id", "c4 r1 r2 r3 r4")
		if x := l.read(topic("t"))[1]; x.Source["snapshot"] != "incremental" {
			t.Errorf("source %v", x.Source)
		}
		d.signal("b", "execute-snapshot", `{"data-collections": ["`+d.name+`.[tu]"], "truncate": true, "additional-conditions": [{"data-collection": "`+d.name+`.t", "filter": "id IN (2, 3)"}]}`)
		l.awaitOps(topic("t"), "id", "c4 r1 r2 r3 r4 t r2 r3")
		l.awaitOps(topic("u"), "id", "t r1")
		d.signal("c", "execute-snapshot", `{"data-collections": ["`+d.name+`.keyless"]}`)
		l.awaitOps(topic("keyless"), "id", "r5 r5")
		d.exec("BEGIN", fmt.Sprintf(`INSERT INTO signals VALUES ('d', 'execute-snapshot', '{"data-collections": ["%s.t"]}')`, d.name), "ROLLBACK")
		// One that is wrong is told, and stops nothing.
		for _, c := range []struct{ id, typ, data, want string }{
			{"e1", "execute-snapshot", `{"data-collections": ["` + d.name + `.t"], "filters": 1}`, "filters"},
			{"e2", "execute-snapshot", `{"data-collections": ["` + d.name + `.signals"]}`, "none of the captured tables"},
			{"e3", "execute-snapshot", `{"data-collections": ["` + d.name + `.t"], "additional-conditions": [{"data-collection": ".*", "filter": "nothing = 1"}]}`, "nothing"},
			{"e4", "blow-up", ``, "blow-up"},
		} {
			d.signal(c.id, c.typ, c.data)
			eventually(t, "the result of "+c.id, func() bool {
				s := r.c.Status().Signal
				return s != nil && s.ID == c.id && strings.Contains(s.Error, c.want)
			})
		}
		d.exec("INSERT INTO t VALUES (5)")
		l.awaitOps(topic("t"), "id", "c4 r1 r2 r3 r4 t r2 r3 c5")
		if s := r.c.Status(); s.State != connectors.StateStreaming || s.Load != nil {
			t.Errorf("%+v", s)
		}
		for _, x := range l.read("p.schema") {
			if strings.Contains(x.Key, "signals") {
				t.Errorf("the table of signals is captured: %s", x.Key)
			}
		}
		// While the connector is away.
		if err := r.stop(); err != nil {
			t.Fatal(err)
		}
		d.signal("f", "execute-snapshot", `{"data-collections": ["`+d.name+`.u"]}`)
		_ = start(t, l, d.one(more)).streaming()
		l.awaitOps(topic("u"), "id", "t r1 r1")
	})
}

// TestSignalsOfACommand: by a user who may only read, with pause, restart, resume and stop; changes of the window go before rows of the
// chunk.
func TestSignalsOfACommand(t *testing.T) {
	pool.Each(t, func(t *testing.T, m *servers.MySQL) {
		const rows = 20000
		d, l := newDatabase(t, m), newLog(t, 2)
		d.exec("CREATE TABLE t (id INT PRIMARY KEY, n INT NOT NULL, pad VARCHAR(200))", "CREATE TABLE u (id INT PRIMARY KEY, n INT NOT NULL)")
		d.fill(rows)
		user := d.reader("")
		config := func() *Config {
			return d.config(map[string]string{"database.user": user, "database.password": "x", "snapshot.mode": "no_data"})
		}
		r := start(t, l, config()).streaming()
		stop, done := make(chan struct{}), make(chan error, 2)
		for range 2 {
			w := d.session()
			go func() { done <- w.write(stop, 200) }()
		}
		all := `{"data-collections": ["` + d.name + `\\..*"]}`
		if s := r.signal("execute-snapshot", all); s.Error != "" || len(s.Tables) != 2 {
			t.Fatalf("%+v", s)
		}
		if s := r.signal("pause-snapshot", ""); s.Error != "" || len(s.Tables) == 0 {
			t.Fatalf("%+v", s)
		}
		eventually(t, "the pause", func() bool { s := r.c.Status().Load; return s != nil && s.Paused && s.Tables == 2 })
		if p := l.resumePoint(); p.point.load == nil {
			t.Fatal("what was answered is not in the log")
		}
		if err := r.stop(); err != nil {
			t.Fatal(err)
		}
		r = start(t, l, config()).streaming()
		eventually(t, "the pause after a restart", func() bool { s := r.c.Status().Load; return s != nil && s.Paused })
		if s := r.signal("resume-snapshot", ""); s.Error != "" {
			t.Fatalf("%+v", s)
		}
		eventually(t, "the end of the load", func() bool { return l.resumePoint().point.load == nil })
		if s := r.signal("execute-snapshot", all); s.Error != "" {
			t.Fatalf("%+v", s)
		}
		if s := r.signal("stop-snapshot", `{"data-collections": ["`+d.name+`.t"]}`); s.Error != "" {
			t.Fatalf("%+v", s)
		}
		eventually(t, "the end of the other", func() bool { return l.resumePoint().point.load == nil && r.c.Status().Load == nil })
		close(stop)
		for range 2 {
			if err := <-done; err != nil {
				t.Fatal(err)
			}
		}
		d.folds(l, rows)
		for want, s := range map[string]connectors.SignalResult{
			connectors.SignalMalformed:    r.signal("execute-snapshot", `{}`),
			connectors.SignalUnknownTable: r.signal("execute-snapshot", `{"data-collections": ["no.such"]}`),
			"":                            r.signal("pause-snapshot", ``),
		} {
			if s.Reason != want || (s.Error == "") != (want == "") {
				t.Errorf("%+v, want %q", s, want)
			}
		}
		if s := r.c.Status(); s.State != connectors.StateStreaming || s.Load != nil {
			t.Errorf("%+v", s)
		}
		if err := r.stop(); err != nil {
			t.Fatal(err)
		}
		if s := r.signal("stop-snapshot", ``); s.Reason != connectors.SignalUnavailable || !strings.Contains(s.Error, "stopped") {
			t.Errorf("%+v", s)
		}
	})
}

// TestSignalsOverKills: each signal of the table is taken exactly once, and what it loads is told exactly once, however often the connector
// is killed.
func TestSignalsOverKills(t *testing.T) {
	pool.Each(t, func(t *testing.T, m *servers.MySQL) {
		const signals, rows = 60, 40
		d, l := newDatabase(t, m), newLog(t, 1)
		d.signalTable()
		d.exec("CREATE TABLE t (id INT PRIMARY KEY)")
		for i := range rows {
			d.exec(fmt.Sprintf("INSERT INTO t VALUES (%d)", i))
		}
		props := d.properties(map[string]string{"snapshot.mode": "no_data", "table.include.list": d.name + ".t", "signal.data.collection": d.name + ".signals", "topic.creation.default.partitions": "1"})
		cmd := child(t, m.Flavour(), l, props)
		defer func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}()
		eventually(t, "the first resume point", func() bool { return l.resumePoint() != nil })
		for i := range signals {
			d.signal(fmt.Sprint(i), "execute-snapshot", fmt.Sprintf(`{"data-collections": ["%s.t"], "additional-conditions": [{"data-collection": ".*", "filter": "id = %d"}]}`, d.name, i%rows))
			time.Sleep(time.Duration(rand.IntN(120)) * time.Millisecond)
			if i%12 == 11 {
				_ = cmd.Process.Kill()
				_ = cmd.Wait()
				cmd = child(t, m.Flavour(), l, props)
			}
		}
		d.exec(fmt.Sprintf("INSERT INTO t VALUES (%d)", 1000))
		want := map[string]int{`{"id":1000}`: 1}
		for i := range signals {
			want[fmt.Sprintf(`{"id":%d}`, i%rows)]++
		}
		got := map[string]int{}
		eventually(t, "the last row and the end of the load", func() bool {
			clear(got)
			for _, x := range l.read("p." + d.name + ".t") {
				got[x.Key]++
			}
			return got[`{"id":1000}`] == 1 && l.resumePoint().point.load == nil
		})
		for key, n := range want {
			if got[key] != n {
				t.Errorf("%s is told %d times, want %d", key, got[key], n)
			}
		}
	})
}
