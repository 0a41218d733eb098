package postgres

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/rowtrail/rowtrail/connectors"
	"github.com/rowtrail/rowtrail/connectors/event"
)

func TestLoadThenStream(t *testing.T) {
	d, l := newDatabase(t, nil), newLog(t, 1)
	d.exec("CREATE TABLE t (id int PRIMARY KEY, v text)", "INSERT INTO t SELECT i, 'v' || i FROM generate_series(1, 3) i")
	r := start(t, l, config(t, d, nil)).streaming()
	d.exec("INSERT INTO t VALUES (6, E'a\\tb\\n\"')", "UPDATE t SET v = NULL WHERE id = 1", "DELETE FROM t WHERE id = 2")
	list := l.waitFor(7, "p.public.t")
	equal(t, summary(list), `
r {"id":1} null -> {"id":1,"v":"v1"}
r {"id":2} null -> {"id":2,"v":"v2"}
r {"id":3} null -> {"id":3,"v":"v3"}
c {"id":6} null -> {"id":6,"v":"a\tb\n\""}
u {"id":1} null -> {"id":1,"v":null}
d {"id":2} {"id":2} -> null
tombstone {"id":2}`)
	for i, x := range list {
		load := i < 3
		if load != (x.Pos.Order == 0) || x.Pos.Schema == 0 || x.Pos.Commit == 0 || (!load && (x.Pos.Order != 1 || x.Pos.CollectionOrder != 1)) {
			t.Fatalf("record %d has position %+v", i, x.Pos)
		}
		if i > 0 && x.Pos.Commit < list[i-1].Pos.Commit {
			t.Fatalf("position falls at record %d", i)
		}
	}
	checkEnds(t, l, list)
	if n := len(l.read("p.schema")); n != 1 {
		t.Fatalf("%d schema records, want 1", n)
	}
	eventually(t, "status", func() bool { s := r.c.Status(); return s.Events == 6 && s.Transactions == 3 && s.LagEvents == 0 })
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
}

// checkEnds compares the END records with the changes: each transaction is whole and counted right (invariant 5).
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
	seen := map[uint64]bool{}
	for _, x := range l.read("p.transaction") {
		end, err := event.ParseTransaction([]byte(x.Value))
		if err != nil {
			t.Fatal(err)
		}
		if end.Status != event.TransactionEndMark {
			continue
		}
		if seen[x.Pos.Commit] {
			t.Fatalf("two END records at %d", x.Pos.Commit)
		}
		seen[x.Pos.Commit] = true
		for _, c := range end.Collections {
			k := key{x.Pos.Commit, c.Collection}
			if got := have[k]; int64(len(got)) != c.Count || !got[uint64(c.Count)] || !got[1] {
				t.Fatalf("transaction %s: %d changes of %s, END says %d", end.ID, len(got), c.Collection, c.Count)
			}
			delete(have, k)
		}
	}
	for k := range have {
		t.Fatalf("changes at %d of %s without END record", k.commit, k.table)
	}
}

func TestRestartResumes(t *testing.T) {
	d, l := newDatabase(t, nil), newLog(t, 2)
	d.exec("CREATE TABLE t (id int PRIMARY KEY)", "INSERT INTO t VALUES (0)")
	c := config(t, d, nil)
	for i := range 5 {
		r := start(t, l, c).streaming()
		d.exec(fmt.Sprintf("INSERT INTO t VALUES (%d)", 2*i+1))
		l.waitFor(2*i+2, "p.public.t")
		if err := r.stop(); err != nil {
			t.Fatal(err)
		}
		d.exec(fmt.Sprintf("INSERT INTO t VALUES (%d)", 2*i+2))
	}
	start(t, l, c)
	list := l.waitFor(11, "p.public.t")
	checkEnds(t, l, list)
}

func TestTableAddedLater(t *testing.T) {
	d, l := newDatabase(t, nil), newLog(t, 1)
	d.exec("CREATE TABLE a (id int PRIMARY KEY)", "CREATE TABLE b (id int PRIMARY KEY)", "INSERT INTO a VALUES (1)", "INSERT INTO b VALUES (1)")
	r := start(t, l, config(t, d, map[string]string{"table.include.list": "public.a"})).streaming()
	d.exec("INSERT INTO b VALUES (2)", "INSERT INTO a VALUES (2)")
	l.waitFor(2, "p.public.a")
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	d.exec("BEGIN; INSERT INTO b VALUES (3); INSERT INTO a VALUES (3); COMMIT")
	start(t, l, config(t, d, nil)).streaming()
	d.exec("INSERT INTO b VALUES (4)")
	list := l.waitFor(4, "p.public.b")
	equal(t, summary(list), `
r {"id":1} null -> {"id":1}
r {"id":2} null -> {"id":2}
r {"id":3} null -> {"id":3}
c {"id":4} null -> {"id":4}`)
	checkEnds(t, l, append(list, l.waitFor(3, "p.public.a")...))
}

func TestTableRecreated(t *testing.T) {
	d, l := newDatabase(t, nil), newLog(t, 1)
	d.exec("CREATE TABLE t (id int PRIMARY KEY)", "INSERT INTO t VALUES (1)")
	c := config(t, d, nil)
	_ = start(t, l, c).streaming().stop()
	d.exec("INSERT INTO t VALUES (2)", "DROP TABLE t", "CREATE TABLE t (id int PRIMARY KEY)", "INSERT INTO t VALUES (3)")
	start(t, l, c).streaming()
	d.exec("INSERT INTO t VALUES (4)")
	// The new table is loaded; what happened to the old one before that is no longer its history.
	equal(t, summary(l.waitFor(4, "p.public.t")), `
r {"id":1} null -> {"id":1}
t  null -> null
r {"id":3} null -> {"id":3}
c {"id":4} null -> {"id":4}`)
}

func TestAllTablesOnlyWhenAsked(t *testing.T) {
	d, l := newDatabase(t, nil), newLog(t, 1)
	d.exec("CREATE TABLE t (id int PRIMARY KEY)")
	r := start(t, l, config(t, d, map[string]string{"publication.autocreate.mode": "all_tables"})).streaming()
	// A table that appears while streaming is loaded and followed: with this mode the stream delivers it unasked.
	d.exec("CREATE TABLE n (id int PRIMARY KEY)", "INSERT INTO n VALUES (1)", "INSERT INTO n VALUES (2)")
	l.waitFor(2, "p.public.n")
	r.streaming()
	d.exec("INSERT INTO n VALUES (3)")
	list := l.waitFor(3, "p.public.n")
	if list[0].Key != `{"id":1}` || list[2].Op != "c" {
		t.Fatal(summary(list))
	}
}

func TestBadSource(t *testing.T) {
	d, l := newDatabase(t, nil), newLog(t, 1)
	d.exec("CREATE TABLE t (id int PRIMARY KEY)", "DROP ROLE IF EXISTS weak", "CREATE ROLE weak LOGIN")
	defer d.exec("DROP ROLE weak")
	weak := strings.Replace(d.dsn(), "postgres@", "weak@", 1)
	err := start(t, l, config(t, d, map[string]string{"database.dsn": weak})).fails()
	found := fmt.Sprint(Check(context.Background(), config(t, d, map[string]string{"database.dsn": weak})))
	for want, stops := range map[string]bool{`ALTER ROLE "weak" REPLICATION`: true, `GRANT CREATE ON DATABASE`: true, `GRANT SELECT ON "public"."t" TO "weak"`: false} {
		if strings.Contains(err.Error(), want) != stops { // what a single table lacks parks that table
			t.Errorf("%q, which stops the connector: %v, is or is not in: %v", want, stops, err)
		}
		if !strings.Contains(found, want) {
			t.Errorf("%q is not in what a check finds: %s", want, found)
		}
	}
	err = start(t, l, config(t, d, map[string]string{"database.dsn": d.server.DSN("nowhere")})).fails()
	if !strings.Contains(err.Error(), "to an existing database") {
		t.Error(err)
	}
	replica := newDatabase(t, ownServer(t, "wal_level=replica"))
	replica.exec("CREATE TABLE t (id int PRIMARY KEY)")
	if err = start(t, l, config(t, replica, nil)).fails(); !strings.Contains(err.Error(), "ALTER SYSTEM SET wal_level = logical") {
		t.Error(err)
	}
	if f := Check(context.Background(), config(t, d, map[string]string{"database.dsn": "postgres://u@127.0.0.1:1/d"})); len(f) != 1 || f[0].Remedy == "" {
		t.Errorf("%+v", f)
	}
}

func TestSnapshotModes(t *testing.T) {
	t.Run("no_data", func(t *testing.T) {
		d, l := newDatabase(t, nil), newLog(t, 1)
		d.exec("CREATE TABLE t (id int PRIMARY KEY)", "INSERT INTO t VALUES (1)")
		r := start(t, l, config(t, d, map[string]string{"snapshot.mode": "no_data"})).streaming()
		d.exec("INSERT INTO t VALUES (2)")
		equal(t, summary(l.waitFor(1, "p.public.t")), `c {"id":2} null -> {"id":2}`)
		_ = r.stop()
		d.exec("INSERT INTO t VALUES (3)")
		start(t, l, config(t, d, map[string]string{"snapshot.mode": "no_data"})).streaming()
		l.waitFor(2, "p.public.t")
	})
	t.Run("initial_only", func(t *testing.T) {
		d, l := newDatabase(t, nil), newLog(t, 1)
		d.exec("CREATE TABLE t (id int PRIMARY KEY)", "INSERT INTO t VALUES (1)")
		r := start(t, l, config(t, d, map[string]string{"snapshot.mode": "initial_only"}))
		if err := <-r.done; err != nil {
			t.Fatal(err)
		}
		r.ended = true
		equal(t, summary(l.waitFor(1, "p.public.t")), `r {"id":1} null -> {"id":1}`)
	})
}

func TestMetadataAndHeartbeat(t *testing.T) {
	d, l := newDatabase(t, nil), newLog(t, 1)
	d.exec("CREATE TABLE t (id int PRIMARY KEY)", "CREATE TABLE beats (n int)")
	start(t, l, config(t, d, map[string]string{
		"provide.transaction.metadata": "true", "heartbeat.interval.ms": "100",
		"heartbeat.action.query": "INSERT INTO public.beats VALUES (1)", "table.include.list": "public.t",
	})).streaming()
	d.exec("BEGIN; INSERT INTO t VALUES (1); INSERT INTO t VALUES (2); COMMIT")
	list := l.waitFor(2, "p.public.t")
	if !strings.Contains(list[1].Value, `"total_order":2,"data_collection_order":2`) {
		t.Fatal(list[1].Value)
	}
	tx := l.waitFor(2, "p.transaction")
	if !strings.Contains(tx[0].Value, `"BEGIN"`) || !strings.Contains(tx[1].Value, `"END"`) {
		t.Fatal(tx)
	}
	eventually(t, "heartbeats", func() bool {
		return len(l.read("__debezium-heartbeat.p")) > 1 && d.value("SELECT count(*) FROM beats") != "0"
	})
}

// What a setting makes of a table's values is said before the first of them is captured.
func TestCheckWarnsOfLossyColumns(t *testing.T) {
	d := newDatabase(t, nil)
	d.exec("CREATE DOMAIN moment AS timestamp(6)", "CREATE TABLE t (id int PRIMARY KEY, at moment, coarse timestamp(3), span interval, list time[])")
	f := Check(context.Background(), config(t, d, map[string]string{"time.precision.mode": "connect", "interval.handling.mode": "numeric"}))
	if len(f) != 1 || f[0].Level != connectors.LevelWarning || !strings.Contains(f[0].Problem, ": at, span, list") ||
		f[0].Remedy != "time.precision.mode: adaptive, interval.handling.mode: string" {
		t.Fatalf("%+v", f)
	}
	if f := Check(context.Background(), config(t, d, nil)); len(f) != 0 {
		t.Fatalf("%+v", f)
	}
	d.exec("CREATE DOMAIN pair AS int[]", "CREATE TABLE u (id int PRIMARY KEY, pairs pair[])")
	f = Check(context.Background(), config(t, d, nil))
	if len(f) != 1 || f[0].Level != connectors.LevelError || f[0].Subject != "table public.u" || !strings.Contains(f[0].Problem, "pairs") {
		t.Fatalf("%+v", f)
	}
	l := newLog(t, 1)
	if err := start(t, l, config(t, d, nil)).fails(); !strings.Contains(err.Error(), "column.exclude.list") {
		t.Fatal(err)
	}
	start(t, l, config(t, d, map[string]string{"column.exclude.list": "public.u.pairs"})).streaming()
}
