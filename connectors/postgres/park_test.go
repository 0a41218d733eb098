package postgres

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/rowtrail/rowtrail/connectors"
)

// tooLate is a timestamp that microseconds in 64 bits do not have; time.precision.mode isostring has it.
const tooLate = "'294276-12-31 00:00:00'"

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

// unpark asks for it; want is how many tables are parked when it is done.
func (r *running) unpark(table, how string, want int) {
	r.t.Helper()
	eventually(r.t, "the connector takes the request", func() bool {
		return r.c.Unpark(connectors.Unpark{Table: table, How: how}) == nil
	})
	eventually(r.t, table+" is unparked", func() bool { return len(r.c.Status().Parked) == want })
}

// confirmed waits until the slot has passed the end of the WAL.
func (d *database) confirmed() {
	d.t.Helper()
	end := d.value("SELECT pg_current_wal_lsn()")
	eventually(d.t, "the slot passes "+end, func() bool {
		return d.value("SELECT coalesce(confirmed_flush_lsn >= '"+end+"', false) FROM pg_replication_slots WHERE slot_name = 'slot_"+d.name+"'") == "t"
	})
}

// TestParkedTable: a value that cannot be encoded parks its table alone. The others go on, the position advances, a restart changes
// nothing. Unparked too early it stays parked; once mended, everything that waited comes in order, the table's changes of shape
// included, and then what follows.
func TestParkedTable(t *testing.T) {
	d, l := newDatabase(t, nil), newLog(t, 3)
	d.exec("CREATE TABLE t (id int PRIMARY KEY, at timestamp)", "CREATE TABLE u (id int PRIMARY KEY, n int)", "ALTER TABLE t REPLICA IDENTITY FULL")
	c := config(t, d, map[string]string{"skipped.operations": "none"})
	r := start(t, l, c).streaming()
	d.exec("INSERT INTO t VALUES (1, '2024-01-01')")
	l.waitFor(1, "p.public.t")
	d.exec("BEGIN; INSERT INTO u VALUES (1, 1); INSERT INTO t VALUES (2, "+tooLate+"); INSERT INTO u VALUES (2, 2); COMMIT",
		"UPDATE t SET at = '2024-02-02' WHERE id = 1")
	p := r.parked("public.t")
	if !strings.Contains(p.Reason, "public.t") || !strings.Contains(p.Reason, "cannot be encoded") || p.Remedy != "column.exclude.list: public.t.at, or another handling mode for type timestamp without time zone" {
		t.Fatalf("%+v", p)
	}
	d.exec("ALTER TABLE t ADD COLUMN x text DEFAULT 'd'", "TRUNCATE t, u", "INSERT INTO t VALUES (3, '2025-01-01', 'y'), (4, "+tooLate+", NULL)", "INSERT INTO u VALUES (5, 5)",
		"UPDATE t SET id = 30 WHERE id = 3", "DELETE FROM t WHERE id = 4")
	d.confirmed()
	r.waits("public.t", 7)
	if got := r.parked("public.t"); !got.Since.Equal(p.Since) || got.Bytes == 0 {
		t.Fatalf("%+v", got)
	}
	equal(t, summary(l.waitFor(6, "p.public.u")), `
c {"id":1} null -> {"id":1,"n":1}
t  null -> null
c {"id":2} null -> {"id":2,"n":2}
t  null -> null
t  null -> null
c {"id":5} null -> {"id":5,"n":5}`)
	l.waitFor(1, "p.public.t")
	checkEnds(t, l, l.read("p.public.t", "p.public.u"))

	_ = r.stop()
	r = start(t, l, c).streaming()
	if again := r.parked("public.t"); !again.Since.Equal(p.Since) || again.Reason != p.Reason || again.Changes != 7 {
		t.Fatalf("after a restart: %+v, before %+v", again, p)
	}
	if err := r.c.Unpark(connectors.Unpark{Table: "public.u"}); err == nil || !strings.Contains(err.Error(), "is not parked") {
		t.Fatal(err)
	}
	eventually(t, "the request is taken", func() bool { return r.c.Unpark(connectors.Unpark{Table: "public.t"}) == nil }) // nothing is mended yet
	d.exec("INSERT INTO u VALUES (6, 6)")
	l.waitFor(7, "p.public.u")
	eventually(t, "it is parked again", func() bool {
		s := r.c.Status()
		return s.State == connectors.StateStreaming && len(s.Parked) == 1 && s.Parked[0].State == connectors.StateParked && s.Parked[0].Changes == 7
	})
	l.waitFor(1, "p.public.t")

	_ = r.stop()
	mended := config(t, d, map[string]string{"skipped.operations": "none", "time.precision.mode": "isostring"})
	r = start(t, l, mended).streaming()
	d.exec("INSERT INTO t VALUES (7, '2025-07-07', 'live')")
	r.waits("public.t", 8)
	r.unpark("public.t", "", 0)
	d.exec("INSERT INTO t VALUES (8, '2025-08-08', 'after')")
	list := l.waitFor(15, "p.public.t") // 3 truncates of one
	inOrder(t, list)
	got := map[string]string{}
	for _, x := range list {
		got[x.Key] += x.Op
		if x.Key == `{"id":2}` && x.After["at"] != "+294276-12-31T00:00:00Z" {
			t.Errorf("%v", x.After)
		}
		if x.Key == `{"id":30}` && (x.After["x"] != "y" || x.Headers["__debezium.oldkey"] == "") {
			t.Errorf("%+v", x)
		}
	}
	want := map[string]string{`{"id":1}`: "cu", `{"id":2}`: "c", "": "ttt", `{"id":3}`: "cd", `{"id":30}`: "c", `{"id":4}`: "cd", `{"id":7}`: "c", `{"id":8}`: "c"}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %v, want %v", got, want)
	}
	checkEnds(t, l, append(list, l.read("p.public.u")...))
	for _, x := range list {
		if x.Key == `{"id":7}` && (x.Source["txId"] == nil || x.Source["lsn"] == nil || fmt.Sprint(x.Source["lsn"]) == strconv.FormatUint(x.Pos.Commit, 10)) {
			t.Errorf("what waited has lost what the source says of it: %v", x.Source)
		}
	}
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

// TestParkingKinds: whatever concerns one table alone parks it, and no other.
func TestParkingKinds(t *testing.T) {
	for name, kind := range map[string]struct {
		props  map[string]string
		before []string // the load
		change []string
		reason string
		mend   func(t *testing.T, d *database, l *testLog) map[string]string
		want   string // of the table at the end
	}{
		"a column that cannot be expressed": {
			change: []string{"CREATE DOMAIN pair AS int[]", "ALTER TABLE t ADD COLUMN pairs pair[]", "INSERT INTO t VALUES (1, 'x', NULL)"},
			reason: "pairs",
			mend: func(*testing.T, *database, *testLog) map[string]string {
				return map[string]string{"column.exclude.list": "public.t.pairs"}
			},
			want: `c {"id":1} null -> {"id":1,"v":"x"}`,
		},
		"a record that is too large": {
			props:  map[string]string{"topic.creation.default.max.message.bytes": "100000", "producer.override.compression.type": "none"},
			change: []string{"INSERT INTO t SELECT 1, string_agg(md5(i::text), '') FROM generate_series(1, 8000) i"},
			reason: "too large",
			mend: func(t *testing.T, _ *database, l *testLog) map[string]string {
				cl, err := kgo.NewClient(l.opts...)
				if err != nil {
					t.Fatal(err)
				}
				defer cl.Close()
				limit := "10000000"
				if _, err := kadm.NewClient(cl).AlterTopicConfigs(t.Context(), []kadm.AlterConfig{{Name: "max.message.bytes", Value: &limit}}, "p.public.t"); err != nil {
					t.Fatal(err)
				}
				return map[string]string{"topic.creation.default.max.message.bytes": "100000"}
			},
			want: "c ",
		},
		"a value in the initial load": {
			before: []string{"ALTER TABLE t ADD COLUMN at timestamp", "INSERT INTO t VALUES (1, 'x', " + tooLate + ")"},
			change: []string{"UPDATE t SET v = 'y'"},
			reason: "in the initial load",
			mend: func(*testing.T, *database, *testLog) map[string]string {
				return map[string]string{"time.precision.mode": "isostring"}
			},
			want: `r {"id":1} null -> {"at":"+294276-12-31T00:00:00Z","id":1,"v":"y"}`,
		},
		"no replica identity any more": {
			change: []string{"ALTER TABLE t DROP CONSTRAINT t_pkey", "INSERT INTO t VALUES (1, 'x')"},
			reason: "no replica identity",
			mend: func(_ *testing.T, d *database, _ *testLog) map[string]string {
				d.exec("ALTER TABLE t ADD PRIMARY KEY (id)")
				return nil
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			d, l := newDatabase(t, nil), newLog(t, 1)
			d.exec("CREATE TABLE t (id int PRIMARY KEY, v text)", "CREATE TABLE u (id int PRIMARY KEY)", "INSERT INTO u VALUES (0)")
			d.exec(kind.before...)
			c := config(t, d, kind.props)
			r := start(t, l, c).streaming()
			d.exec(kind.change...)
			d.exec("INSERT INTO u VALUES (1)")
			if name == "no replica identity any more" { // found when it starts
				l.waitFor(2, "p.public.u")
				_ = r.stop()
				l.waitFor(1, "p.public.t")
				kind.want = "c  null -> {\"id\":1,\"v\":\"x\"}\nc  null -> {\"id\":2,\"v\":\"z\"}" // it had no key then
				r = start(t, l, c).streaming()
				d.exec("INSERT INTO t VALUES (2, 'z')")
			}
			if p := r.parked("public.t"); !strings.Contains(p.Reason, kind.reason) || p.Remedy == "" {
				t.Fatalf("%+v", p)
			}
			d.exec("INSERT INTO u VALUES (2)")
			l.waitFor(3, "p.public.u")
			d.confirmed()
			_ = r.stop()
			props := map[string]string{}
			for k, v := range kind.mend(t, d, l) {
				props[k] = v
			}
			r = start(t, l, config(t, d, props)).streaming()
			r.parked("public.t")
			r.unpark("public.t", "", 0)
			n := len(strings.Split(kind.want, "\n"))
			if got := summary(l.waitFor(n, "p.public.t")); !strings.HasPrefix(got, kind.want) {
				t.Fatalf("got %.300s, want %s", got, kind.want)
			}
			checkEnds(t, l, l.read("p.public.t", "p.public.u"))
		})
	}
}

// TestUnparkOtherwise: a parked table is loaded again, or what waits is thrown away, when that is asked for.
func TestUnparkOtherwise(t *testing.T) {
	d, l := newDatabase(t, nil), newLog(t, 1)
	d.exec("CREATE TABLE t (id int PRIMARY KEY, at timestamp)", "CREATE TABLE u (id int PRIMARY KEY)")
	r := start(t, l, config(t, d, nil)).streaming()
	d.exec("INSERT INTO t VALUES (1, '2024-01-01')")
	l.waitFor(1, "p.public.t")
	d.exec("INSERT INTO t VALUES (2, " + tooLate + ")")
	r.parked("public.t")
	d.exec("DELETE FROM t WHERE id = 1", "UPDATE t SET at = '2024-02-02' WHERE id = 2")
	r.waits("public.t", 3)
	r.unpark("public.t", connectors.UnparkReload, 0)
	eventually(t, "the load", func() bool { return len(l.read("p.public.t")) == 3 })
	d.exec("INSERT INTO t VALUES (3, '2024-03-03')")
	equal(t, summary(l.waitFor(4, "p.public.t")), `
c {"id":1} null -> {"at":1704067200000000,"id":1}
t  null -> null
r {"id":2} null -> {"at":1706832000000000,"id":2}
c {"id":3} null -> {"at":1709424000000000,"id":3}`)

	d.exec("INSERT INTO t VALUES (4, "+tooLate+")", "INSERT INTO t VALUES (5, '2024-05-05')")
	r.parked("public.t")
	r.waits("public.t", 2)
	r.unpark("public.t", connectors.UnparkDiscard, 0)
	d.exec("INSERT INTO t VALUES (6, '2024-06-06')")
	list := l.waitFor(5, "p.public.t")
	if list[4].Key != `{"id":6}` {
		t.Fatal(list[4])
	}
	if left := liveKeys(l, "p.raw"); len(left) != 0 {
		t.Fatalf("kept for nobody: %v", left)
	}
	inOrder(t, list)
	checkEnds(t, l, list)
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

// TestFailingConnector: with event.processing.failure.handling.mode fail, an error of a table is one of the connector.
func TestFailingConnector(t *testing.T) {
	d, l := newDatabase(t, nil), newLog(t, 1)
	d.exec("CREATE TABLE t (id int PRIMARY KEY, at timestamp)")
	r := start(t, l, config(t, d, map[string]string{"event.processing.failure.handling.mode": "fail"})).streaming()
	d.exec("INSERT INTO t VALUES (1, " + tooLate + ")")
	if err := r.fails(); !strings.Contains(err.Error(), "public.t") {
		t.Fatal(err)
	}
	for _, mode := range []string{"skip", "warn", "maybe"} {
		if _, errs := ParseConfig("c", map[string]string{"database.dsn": d.dsn(), "event.processing.failure.handling.mode": mode}); len(errs) != 1 {
			t.Errorf("%s: %v", mode, errs)
		}
	}
}

// TestKilledWhileUnparking kills the connector at random moments while a table is unparked and changed. In the end its topic has every
// change once, in order.
func TestKilledWhileUnparking(t *testing.T) {
	kills := 8
	d, l := newDatabase(t, nil), externalLog(t)
	const rows, rounds = 200, 120
	d.exec("CREATE TABLE t (id int PRIMARY KEY, n int NOT NULL, at timestamp, pad text)", "CREATE TABLE u (id int PRIMARY KEY)", "ALTER TABLE t REPLICA IDENTITY FULL",
		fmt.Sprintf("INSERT INTO t SELECT i, 0, '2024-01-01', '' FROM generate_series(1, %d) i", rows))
	props := map[string]string{
		"database.dsn": d.dsn(), "topic.prefix": "p", "slot.name": "slot_" + d.name, "publication.name": "pub_" + d.name, "status.update.interval.ms": "100",
	}
	cmd := child(t, l.brokers, props)
	stop := func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
	defer func() { stop() }()
	eventually(t, "the load", func() bool { return l.reached("0/0") })
	d.exec("UPDATE t SET at = " + tooLate + " WHERE id = 1") // parks it
	for i := range rounds {
		d.exec(fmt.Sprintf("UPDATE t SET n = n + 1, pad = repeat('%d', 500)", i))
	}
	d.confirmed()
	stop()
	props["time.precision.mode"] = "isostring"
	t.Setenv(unparkEnv, "public.t")
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
			if err := execSQL(w.conn, fmt.Sprintf("UPDATE t SET n = n + 1 WHERE id = %d", rand.IntN(rows)+1)); err != nil {
				done <- err
				return
			}
		}
	}()
	for range kills {
		cmd = child(t, l.brokers, props)
		time.Sleep(time.Duration(100+rand.IntN(900)) * time.Millisecond)
		stop()
	}
	cmd = child(t, l.brokers, props)
	time.Sleep(500 * time.Millisecond)
	close(end)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	at := d.value("SELECT pg_current_wal_lsn()")
	eventually(t, "all is written", func() bool {
		list := l.read("p.position")
		last := list[len(list)-1]
		return l.reached(at) && !strings.Contains(last.Value, `"parked"`)
	})
	list := l.read("p.public.t")
	inOrder(t, list)
	last := map[string]int{}
	for _, x := range list {
		n, _ := strconv.Atoi(fmt.Sprint(x.After["n"]))
		before, known := last[x.Key]
		switch {
		case x.Op == "u" && x.Key == `{"id":1}` && n == 0:
		case x.Op == "r" && known, x.Op == "u" && (!known || n != before+1):
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
	checkEnds(t, l, append(list, l.read("p.public.u")...))
	if left := liveKeys(l, "p.raw"); len(left) != 0 {
		t.Fatalf("kept for nobody: %v", left)
	}
	t.Logf("%d records", len(list))
}
