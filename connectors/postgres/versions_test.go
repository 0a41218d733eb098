package postgres

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rowtrail/rowtrail/connectors"
)

// needs skips a test whose subject the server under test does not have.
func (d *database) needs(major int) {
	d.t.Helper()
	n, err := strconv.Atoi(d.value("SHOW server_version_num"))
	if err != nil {
		d.t.Fatal(err)
	}
	if n/10000 < major {
		d.t.Skipf("it takes Postgres %d, this is %d (ROWTRAIL_ITEST_PG=%d)", major, n/10000, major)
	}
}

func TestFailoverSlot(t *testing.T) {
	d, l := newDatabase(t, nil), newLog(t, 1)
	d.needs(17)
	d.exec("CREATE TABLE t (id int PRIMARY KEY)")
	c := config(t, d, map[string]string{"slot.failover": "true"})
	r := start(t, l, c).streaming()
	failover := func() string {
		return d.value("SELECT failover FROM pg_replication_slots WHERE slot_name = '" + c.Slot + "'")
	}
	if failover() != "t" {
		t.Fatal("the slot is not a failover slot")
	}
	_ = r.stop()
	eventually(t, "the slot to be free", func() bool {
		return execSQL(d.conn, "SELECT pg_drop_replication_slot('"+c.Slot+"')") == nil
	})
	d.exec("SELECT pg_create_logical_replication_slot('" + c.Slot + "', 'pgoutput')")
	f := Check(context.Background(), c)
	if len(f) != 1 || f[0].Level != connectors.LevelWarning || !strings.HasPrefix(f[0].Remedy, "ALTER_REPLICATION_SLOT") {
		t.Fatalf("%+v", f)
	}
	conn, _, err := c.dialReplication(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	defer closeConn(conn)
	sql, _, _ := strings.Cut(f[0].Remedy, " on ")
	if err := execute(context.Background(), conn, sql); err != nil || failover() != "t" {
		t.Fatal("the remedy does not work: ", err)
	}
}

func TestP15SlotInvalidatedByIdleTimeout(t *testing.T) {
	newDatabase(t, nil).needs(18)
	d, l := newDatabase(t, ownServer(t, "idle_replication_slot_timeout=1s")), newLog(t, 1)
	d.exec("CREATE TABLE t (id int PRIMARY KEY)")
	c := config(t, d, nil)
	r := start(t, l, c).streaming()
	_ = r.stop()
	eventually(t, "the invalidation", func() bool {
		time.Sleep(300 * time.Millisecond)
		d.exec("CHECKPOINT")
		return d.value("SELECT invalidation_reason FROM pg_replication_slots") == "idle_timeout"
	})
	if err := start(t, l, c).fails(); !strings.Contains(err.Error(), "idle_timeout") || !strings.Contains(err.Error(), "p.position") {
		t.Fatal(err)
	}
}

// P21: a publication can be told to publish stored generated columns; the load then has them, too.
func TestP21PublishedGeneratedColumns(t *testing.T) {
	d, l := newDatabase(t, nil), newLog(t, 1)
	d.needs(18)
	d.exec("CREATE TABLE t (id int PRIMARY KEY, a int, g int GENERATED ALWAYS AS (a * 2) STORED, v int GENERATED ALWAYS AS (a * 3) VIRTUAL)", "INSERT INTO t VALUES (1, 1)")
	c := config(t, d, map[string]string{"publication.autocreate.mode": "disabled"})
	d.exec("CREATE PUBLICATION " + c.Publication + " FOR TABLE t WITH (publish_generated_columns = stored)")
	start(t, l, c).streaming()
	d.exec("INSERT INTO t VALUES (2, 2)")
	list := l.waitFor(2, "p.public.t")
	equal(t, summary(list), `r {"id":1} null -> {"a":1,"g":2,"id":1}`+"\n"+`c {"id":2} null -> {"a":2,"g":4,"id":2}`)
	if list[0].Pos.Schema != list[1].Pos.Schema {
		t.Fatal("load and stream have different schemas")
	}
}

// P7: with REPLICA IDENTITY FULL, Postgres 18 refuses changes of published tables whose generated columns are not published.
func TestP7GeneratedColumnsInFullIdentity(t *testing.T) {
	d := newDatabase(t, nil)
	d.needs(18)
	d.exec("CREATE TABLE s (id int PRIMARY KEY, a int, g int GENERATED ALWAYS AS (a * 2) STORED)", "ALTER TABLE s REPLICA IDENTITY FULL",
		"CREATE TABLE v (id int PRIMARY KEY, a int, g int GENERATED ALWAYS AS (a * 2) VIRTUAL)", "ALTER TABLE v REPLICA IDENTITY FULL",
		"INSERT INTO s VALUES (1, 1)", "INSERT INTO v VALUES (1, 1)")
	c := config(t, d, nil)
	refused := func(want ...string) {
		t.Helper()
		var got []string
		for _, f := range Check(context.Background(), c) {
			if f.Level == connectors.LevelError {
				got = append(got, f.Subject)
			}
		}
		if strings.Join(got, ",") != strings.Join(want, ",") {
			t.Fatalf("refused %v, want %v", got, want)
		}
	}
	refused("table public.s", "table public.v")
	d.exec("CREATE PUBLICATION " + c.Publication + " FOR TABLE s, v")
	for _, table := range []string{"s", "v"} { // what the finding says is so
		if execSQL(d.conn, "UPDATE "+table+" SET a = 2") == nil {
			t.Fatalf("table %s can be updated", table)
		}
	}
	d.exec("ALTER PUBLICATION " + c.Publication + " SET (publish_generated_columns = stored, publish_via_partition_root = true)")
	refused("table public.v")
	d.exec("ALTER TABLE v REPLICA IDENTITY DEFAULT")
	refused()
	d.exec("UPDATE s SET a = 2", "UPDATE v SET a = 2")
}
