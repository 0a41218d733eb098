package postgres

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pglogrepl"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/rowtrail/rowtrail/connectors"
	"github.com/rowtrail/rowtrail/connectors/event"
)

// versions are the columns of a table's versions, oldest first.
func (l *testLog) versions(collection string) (list [][]event.Column) {
	l.t.Helper()
	for _, r := range l.read("p.schema") {
		s, err := event.ParseSchema([]byte(r.Value))
		if err != nil {
			l.t.Fatal(err)
		}
		if s.Collection() == collection {
			list = append(list, s.Columns)
		}
	}
	return list
}

func describeColumns(columns []event.Column) string {
	var b strings.Builder
	for _, c := range columns {
		fmt.Fprintf(&b, "%d:%s", c.Number, c.Name)
		if c.Missing != nil {
			fmt.Fprintf(&b, "=%s", *c.Missing)
		}
		if c.Default {
			b.WriteString("?")
		}
		b.WriteString(" ")
	}
	return b.String()
}

// A table version says what tells a rename from a new column, and what rows from before a column hold.
func TestP19P20ColumnsTellTheirNumberAndMissingValue(t *testing.T) {
	d := newDatabase(t, nil)
	d.exec("CREATE TABLE t (id int PRIMARY KEY, a text)", "INSERT INTO t VALUES (1, 'x')",
		"CREATE TABLE m (id int, at date, PRIMARY KEY (id, at)) PARTITION BY RANGE (at)",
		"CREATE TABLE m1 PARTITION OF m FOR VALUES FROM ('2024-01-01') TO ('2025-01-01')", "INSERT INTO m VALUES (1, '2024-03-01')")
	l := newLog(t, 1)
	start(t, l, config(t, d, nil)).streaming()
	d.exec("ALTER TABLE t ADD COLUMN d int DEFAULT 9, ADD l text[] DEFAULT '{\"a b\",NULL}', ADD at timestamptz DEFAULT '2024-01-01 00:00+00', ADD r float DEFAULT random()",
		"INSERT INTO t (id) VALUES (2)")
	l.waitFor(2, "p.public.t")
	d.exec("ALTER TABLE t RENAME COLUMN a TO b", "ALTER TABLE t DROP COLUMN l", "ALTER TABLE t ADD COLUMN l text", "INSERT INTO t (id) VALUES (3)")
	l.waitFor(3, "p.public.t")
	d.exec("ALTER TABLE m ADD COLUMN d int DEFAULT 9", "INSERT INTO m VALUES (2, '2024-03-01')")
	l.waitFor(2, "p.public.m")
	var got []string
	for _, name := range []string{"public.t", "public.m"} {
		for _, columns := range l.versions(name) {
			got = append(got, describeColumns(columns))
		}
	}
	equal(t, strings.Join(got, "\n"), `1:id 2:a 
1:id 2:a 3:d? 4:l? 5:at? 6:r? 
1:id 2:b 3:d? 5:at? 6:r? 7:l 
1:id 2:at 
1:id 2:at 3:d=9 `)
}

// Without a volatile default the table is not rewritten.
func TestP20MissingValue(t *testing.T) {
	d := newDatabase(t, nil)
	d.exec("CREATE TABLE t (id int PRIMARY KEY)", "INSERT INTO t VALUES (1)")
	l := newLog(t, 1)
	start(t, l, config(t, d, nil)).streaming()
	d.exec("ALTER TABLE t ADD COLUMN d int DEFAULT 9, ADD l text[] DEFAULT '{\"a b\",NULL}', ADD at timestamptz DEFAULT '2024-01-01 00:00+00', ADD n text", "INSERT INTO t (id) VALUES (2)")
	l.waitFor(2, "p.public.t")
	got := l.versions("public.t")
	equal(t, describeColumns(got[len(got)-1]), `1:id 2:d=9 3:l={"a b",NULL} 4:at=2024-01-01 00:00:00+00 5:n `)
}

// What a lost slot hides is told by the load: it begins with a truncate in every partition, whatever skipped.operations says.
func TestP15LoadAgainBeginsWithTruncate(t *testing.T) {
	d := newDatabase(t, nil)
	d.exec("CREATE TABLE t (id int PRIMARY KEY)", "INSERT INTO t SELECT generate_series(1, 9)", "CREATE TABLE late (id int PRIMARY KEY)")
	l := newLog(t, 3)
	c := config(t, d, map[string]string{"skipped.operations": "t", "table.include.list": "public.t"})
	r := start(t, l, c).streaming()
	d.exec("DELETE FROM t WHERE id = 1")
	l.waitFor(11, "p.public.t")
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	d.dropSlot(c.Slot)
	d.exec("DELETE FROM t WHERE id <= 3")
	l.deleteTopic("p.position")
	start(t, l, config(t, d, map[string]string{"skipped.operations": "t"})).streaming()
	truncated := map[int32]int{}
	alive := map[string]bool{}
	for _, rec := range l.waitFor(11+3+6, "p.public.t") {
		switch {
		case rec.Op == "t":
			truncated[rec.Partition]++
			if rec.Pos.Order != 0 || rec.Source["snapshot"] != "true" {
				t.Fatalf("truncate at %+v from %v", rec.Pos, rec.Source)
			}
			for key := range alive {
				if strings.HasPrefix(key, fmt.Sprint(rec.Partition, " ")) {
					delete(alive, key)
				}
			}
		case rec.Tombstone || rec.Op == "d":
			delete(alive, fmt.Sprint(rec.Partition, " ", rec.Key))
		default:
			alive[fmt.Sprint(rec.Partition, " ", rec.Key)] = true
		}
	}
	if len(truncated) != 3 || truncated[0]*truncated[1]*truncated[2] != 1 || len(alive) != 6 {
		t.Fatalf("truncates %v, alive %v", truncated, alive)
	}
	if got := l.read("p.public.late"); len(got) != 0 {
		t.Fatalf("a table that is new has %v", got)
	}
}

// dropSlot waits until the slot's reader has gone.
func (d *database) dropSlot(name string) {
	d.t.Helper()
	eventually(d.t, "the slot is free", func() bool {
		return d.value("SELECT active FROM pg_replication_slots WHERE slot_name = '"+name+"'") == "f"
	})
	d.exec("SELECT pg_drop_replication_slot('" + name + "')")
}

func (l *testLog) deleteTopic(name string) {
	l.t.Helper()
	cl, err := kgo.NewClient(l.opts...)
	if err != nil {
		l.t.Fatal(err)
	}
	defer cl.Close()
	if _, err := kadm.NewClient(cl).DeleteTopic(context.Background(), name); err != nil {
		l.t.Fatal(err)
	}
}

// A table that was left out for a while missed changes: it is loaded again.
func TestTableLeftOutForAWhileIsLoadedAgain(t *testing.T) {
	d := newDatabase(t, nil)
	d.exec("CREATE TABLE t (id int PRIMARY KEY)", "CREATE TABLE other (id int PRIMARY KEY)", "INSERT INTO t VALUES (1), (2)")
	l := newLog(t, 1)
	if err := start(t, l, config(t, d, nil)).streaming().stop(); err != nil {
		t.Fatal(err)
	}
	r := start(t, l, config(t, d, map[string]string{"table.include.list": "public.other"})).streaming()
	d.exec("DELETE FROM t WHERE id = 1", "INSERT INTO other VALUES (1)")
	l.waitFor(1, "p.public.other")
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	start(t, l, config(t, d, nil)).streaming()
	equal(t, summary(l.waitFor(4, "p.public.t")), `r {"id":1} null -> {"id":1}
r {"id":2} null -> {"id":2}
t  null -> null
r {"id":2} null -> {"id":2}`)
}

func (r *running) warned(parts ...string) {
	r.t.Helper()
	eventually(r.t, fmt.Sprint("a warning with ", parts), func() bool {
		return slices.ContainsFunc(r.c.Status().Warnings, func(w string) bool {
			return !slices.ContainsFunc(parts, func(p string) bool { return !strings.Contains(w, p) })
		})
	})
	if s := r.c.Status(); s.State != connectors.StateStreaming {
		r.t.Fatalf("state %s: %s", s.State, s.Error)
	}
}

// What the stream does not tell is told by the catalog, and the other tables go on.
func TestTablesThatGoAreTold(t *testing.T) {
	d := newDatabase(t, nil)
	d.exec("CREATE TABLE a (id int PRIMARY KEY)", "CREATE TABLE b (id int PRIMARY KEY)", "CREATE TABLE c (id int PRIMARY KEY)",
		"CREATE TABLE m (id int PRIMARY KEY) PARTITION BY RANGE (id)", "CREATE TABLE m1 PARTITION OF m FOR VALUES FROM (0) TO (10)",
		"CREATE TABLE m2 PARTITION OF m FOR VALUES FROM (10) TO (20)", "CREATE TABLE m3 PARTITION OF m FOR VALUES FROM (20) TO (30)",
		"INSERT INTO a VALUES (1)", "INSERT INTO m VALUES (1), (11), (21)")
	l := newLog(t, 1)
	r := start(t, l, config(t, d, map[string]string{"table.include.list": "public.a,public.b,public.c,public.m"})).streaming()
	l.waitFor(3, "p.public.m")
	d.exec("TRUNCATE m", "INSERT INTO m VALUES (1), (11), (21)", "ALTER TABLE a RENAME TO elsewhere", "INSERT INTO elsewhere VALUES (2)", "DROP TABLE b")
	r.warned("table public.a was renamed to public.elsewhere", "Add public.elsewhere to table.include.list")
	r.warned("table public.b was dropped", "take public.b out of table.include.list")
	for _, w := range r.c.Status().Warnings {
		if strings.Contains(w, "partition") {
			t.Fatalf("the truncate of the whole table is an event: %s", w)
		}
	}
	d.exec("ALTER TABLE m DETACH PARTITION m1", "TRUNCATE m2", "INSERT INTO c VALUES (1)")
	r.warned("partition public.m1 of table public.m was detached or dropped")
	r.warned("partition public.m2 of table public.m was truncated")
	if got := len(r.c.Status().Warnings); got != 4 {
		t.Fatalf("warnings %q", r.c.Status().Warnings)
	}
	l.waitFor(1, "p.public.c")
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	again := start(t, l, config(t, d, map[string]string{"table.include.list": "public.a,public.b,public.c,public.m"})).streaming()
	again.warned("table public.b was dropped")
}

// A table that takes the place of a captured one is published and loaded without a restart by hand.
func TestReplacedTableIsLoaded(t *testing.T) {
	d := newDatabase(t, nil)
	d.exec("CREATE TABLE a (id int PRIMARY KEY)", "INSERT INTO a VALUES (1), (2)")
	l := newLog(t, 1)
	r := start(t, l, config(t, d, map[string]string{"table.include.list": "public.a"})).streaming()
	l.waitFor(2, "p.public.a")
	d.exec("DROP TABLE a", "CREATE TABLE a (id int PRIMARY KEY)", "INSERT INTO a VALUES (3)")
	equal(t, summary(l.waitFor(4, "p.public.a")), `r {"id":1} null -> {"id":1}
r {"id":2} null -> {"id":2}
t  null -> null
r {"id":3} null -> {"id":3}`)
	r.streaming()
	if got := r.c.Status().Warnings; len(got) > 0 {
		t.Fatalf("warnings %q", got)
	}
}

func TestCheckSeesASlotThatCannotGoOn(t *testing.T) {
	d := newDatabase(t, nil)
	d.exec("CREATE TABLE t (id int PRIMARY KEY)")
	l := newLog(t, 1)
	c := config(t, d, nil)
	r := start(t, l, c).streaming()
	problem := func() string {
		var list []string
		for _, f := range Check(context.Background(), c) {
			if f.Level == connectors.LevelError {
				list = append(list, f.Problem+"; "+f.Remedy)
			}
		}
		return strings.Join(list, "\n")
	}
	if got := problem(); got != "" {
		t.Fatalf("while it runs: %s", got)
	}
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the slot is free", func() bool {
		return d.value("SELECT active FROM pg_replication_slots WHERE slot_name = '"+c.Slot+"'") == "f"
	})
	if got := problem(); got != "" {
		t.Fatalf("stopped: %s", got)
	}
	d.exec("DROP PUBLICATION " + c.Publication)
	if got := problem(); !strings.Contains(got, "does not") || !strings.Contains(got, "pg_drop_replication_slot('"+c.Slot+"')") {
		t.Fatalf("without publication: %q", got)
	}
	d.exec("INSERT INTO t VALUES (2)", "CREATE PUBLICATION "+c.Publication+" FOR TABLE t")
	if got := problem(); !strings.Contains(got, "after it") || !strings.Contains(got, "delete topic p.position") {
		t.Fatalf("another publication: %q", got)
	}
	other := *c
	other.conn = c.conn.Copy()
	other.conn.RuntimeParams["application_name"] = "other program"
	conn, _, err := other.dialReplication(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	defer closeConn(conn)
	d.exec("SELECT pg_drop_replication_slot('"+c.Slot+"')", "SELECT pg_create_logical_replication_slot('"+c.Slot+"', 'pgoutput')")
	if err := pglogrepl.StartReplication(context.Background(), conn, c.Slot, 0, pglogrepl.StartReplicationOptions{
		PluginArgs: []string{"proto_version '1'", "publication_names '" + c.Publication + "'"}}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "another reader", func() bool { return strings.Contains(problem(), `another program reads it: "other program"`) })
}

// From Postgres 18 on the server passes over changes while the publication does not exist, and says nothing.
func TestP5PublicationMadeAnew(t *testing.T) {
	d := newDatabase(t, nil)
	d.needs(18)
	d.exec("CREATE TABLE t (id int PRIMARY KEY)")
	l := newLog(t, 1)
	c := config(t, d, nil)
	r := start(t, l, c).streaming()
	d.exec("INSERT INTO t VALUES (1)")
	l.waitFor(1, "p.public.t")
	d.exec("DROP PUBLICATION "+c.Publication, "INSERT INTO t VALUES (2)", "CREATE PUBLICATION "+c.Publication+" FOR TABLE t")
	for range 2 { // while it runs, and at the next start
		if err := r.fails(); !strings.Contains(err.Error(), "publication "+c.Publication+" was dropped") {
			t.Fatal(err)
		}
		r = start(t, l, c)
	}
}
