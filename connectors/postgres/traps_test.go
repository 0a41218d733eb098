package postgres

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/rowtrail/rowtrail/connectors/event"
	"github.com/rowtrail/rowtrail/itest/servers"
)

func TestP1InterleavedTransactionsAcrossRestart(t *testing.T) {
	d, l := newDatabase(t, nil), newLog(t, 1)
	d.exec("CREATE TABLE t (id int PRIMARY KEY)")
	c := config(t, d, nil)
	r := start(t, l, c).streaming()
	a := d.session()
	a.exec("BEGIN", "INSERT INTO t VALUES (1)")
	d.exec("INSERT INTO t VALUES (2)")
	l.waitFor(1, "p.public.t")
	_ = r.stop()
	a.exec("COMMIT") // its change has a lower LSN than what is stored
	start(t, l, c)
	list := l.waitFor(2, "p.public.t")
	equal(t, summary(list), `c {"id":2} null -> {"id":2}`+"\n"+`c {"id":1} null -> {"id":1}`)
	d.exec("COPY t FROM PROGRAM 'seq 10 500'") // rows of one COPY share LSNs
	list = l.waitFor(493, "p.public.t")
	checkEnds(t, l, list)
}

func TestP2HandoffUnderSynchronousReplication(t *testing.T) {
	server := ownServer(t)
	d, l := newDatabase(t, server), newLog(t, 1)
	d.exec("CREATE TABLE t (id int PRIMARY KEY)", "INSERT INTO t VALUES (1)",
		"ALTER SYSTEM SET synchronous_standby_names = 'nobody'", "SELECT pg_reload_conf()")
	waiting := make(chan error, 1)
	w := d.session()
	go func() { waiting <- execSQL(w.conn, "INSERT INTO t VALUES (2)") }() // committed in the WAL, not yet visible
	eventually(t, "a commit that waits", func() bool {
		return d.value("SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'") == "1"
	})
	r := start(t, l, config(t, d, nil))
	time.Sleep(300 * time.Millisecond)
	local(t, server, "ALTER SYSTEM RESET synchronous_standby_names", "SELECT pg_reload_conf()")
	if err := <-waiting; err != nil {
		t.Fatal(err)
	}
	r.streaming()
	d.exec("INSERT INTO t VALUES (3)")
	list := l.waitFor(3, "p.public.t")
	for i, x := range list {
		if want := fmt.Sprintf(`{"id":%d}`, i+1); x.Key != want {
			t.Fatalf("record %d is %s", i, x)
		}
	}
}

// local runs SQL that must not itself wait for a standby.
func local(t testing.TB, s *servers.Postgres, sql ...string) {
	t.Helper()
	d := &database{t: t, server: s, name: "postgres"}
	d.reconnect()
	defer d.conn.Close(context.Background())
	d.exec(append([]string{"SET synchronous_commit = local"}, sql...)...)
}

func TestP3SlotWithoutResumePoint(t *testing.T) {
	// What a crash between creating the slot and the first commit leaves behind.
	d, l := newDatabase(t, nil), newLog(t, 1)
	c := config(t, d, nil)
	d.exec("CREATE TABLE t (id int PRIMARY KEY)", "INSERT INTO t VALUES (1)",
		"CREATE PUBLICATION "+c.Publication+" FOR TABLE t",
		"SELECT pg_create_logical_replication_slot('"+c.Slot+"', 'pgoutput')",
		"INSERT INTO t VALUES (2)", "UPDATE t SET id = 10 WHERE id = 1")
	start(t, l, c).streaming()
	d.exec("INSERT INTO t VALUES (3)")
	equal(t, summary(l.waitFor(3, "p.public.t")), `
r {"id":2} null -> {"id":2}
r {"id":10} null -> {"id":10}
c {"id":3} null -> {"id":3}`)
}

func TestP4ParallelLoadUnderWrites(t *testing.T) {
	d, l := newDatabase(t, nil), newLog(t, 3)
	d.exec("CREATE TABLE a (id int PRIMARY KEY, n int, pad text)", "CREATE TABLE b (id int PRIMARY KEY, n int, pad text)",
		"INSERT INTO a SELECT i, 0, repeat('x', 500) FROM generate_series(1, 20000) i", "INSERT INTO b SELECT i, 0, repeat('x', 500) FROM generate_series(1, 20000) i")
	w := d.session()
	stop := make(chan struct{})
	done := make(chan int)
	go func() {
		n := 0
		for {
			select {
			case <-stop:
				done <- n
				return
			default:
			}
			n++
			w.exec(fmt.Sprintf("BEGIN; UPDATE a SET n = %d WHERE id %% 100 = %d; UPDATE b SET n = %d WHERE id %% 100 = %d; COMMIT", n, n%100, n, n%100))
		}
	}()
	time.Sleep(50 * time.Millisecond)
	start(t, l, config(t, d, map[string]string{"snapshot.max.threads": "4"})).streaming()
	time.Sleep(200 * time.Millisecond)
	close(stop)
	<-done
	want := d.value("SELECT md5(string_agg(id || ':' || n, ',' ORDER BY id)) || (SELECT md5(string_agg(id || ':' || n, ',' ORDER BY id)) FROM b) FROM a")
	d.exec("CREATE TABLE folded (tbl text, id int, n int)")
	eventually(t, "log equals tables", func() bool {
		state := map[string]string{}
		for _, x := range l.read("p.public.a", "p.public.b") {
			if _, twice := state[x.Topic+x.Key]; twice && x.Op == "r" {
				t.Fatalf("%s is loaded twice or after a change", x)
			}
			state[x.Topic+x.Key] = fmt.Sprintf("('%s',%v,%v)", x.Topic[len("p.public."):], x.After["id"], x.After["n"])
		}
		if len(state) == 0 {
			return false
		}
		values := make([]string, 0, len(state))
		for _, v := range state {
			values = append(values, v)
		}
		d.exec("TRUNCATE folded", "INSERT INTO folded VALUES "+strings.Join(values, ","))
		return d.value("SELECT md5(string_agg(id || ':' || n, ',' ORDER BY id) FILTER (WHERE tbl = 'a')) || md5(string_agg(id || ':' || n, ',' ORDER BY id) FILTER (WHERE tbl = 'b')) FROM folded") == want
	})
	checkEnds(t, l, l.read("p.public.a", "p.public.b"))
}

func TestP5SlotOlderThanPublication(t *testing.T) {
	d, l := newDatabase(t, nil), newLog(t, 1)
	c := config(t, d, nil)
	d.exec("CREATE TABLE t (id int PRIMARY KEY)",
		"SELECT pg_create_logical_replication_slot('"+c.Slot+"', 'pgoutput')",
		"INSERT INTO t VALUES (1)") // decoding this one needs the publication, which is not there yet
	start(t, l, c).streaming()
	d.exec("INSERT INTO t VALUES (2)")
	equal(t, summary(l.waitFor(2, "p.public.t")), `r {"id":1} null -> {"id":1}`+"\n"+`c {"id":2} null -> {"id":2}`)
}

func TestP6UnchangedToast(t *testing.T) {
	d, l := newDatabase(t, nil), newLog(t, 1)
	d.exec("CREATE TABLE t (id int PRIMARY KEY, big text, small int)", "ALTER TABLE t ALTER big SET STORAGE EXTERNAL",
		"CREATE TABLE f (id int PRIMARY KEY, big text, small int)", "ALTER TABLE f ALTER big SET STORAGE EXTERNAL", "ALTER TABLE f REPLICA IDENTITY FULL")
	start(t, l, config(t, d, nil)).streaming()
	for _, table := range []string{"t", "f"} {
		d.exec("INSERT INTO "+table+" VALUES (1, repeat('x', 5000), 1)", "UPDATE "+table+" SET small = 2", "UPDATE "+table+" SET big = NULL")
	}
	list := l.waitFor(3, "p.public.t")
	if got := list[1].Pos.Absent; len(got) != 1 || got[0] != 1 || list[1].After["big"] != event.DefaultUnavailableValue {
		t.Fatalf("unchanged TOAST: %+v", list[1])
	}
	if list[2].Pos.Absent != nil || list[2].After["big"] != nil {
		t.Fatalf("NULL: %+v", list[2])
	}
	list = l.waitFor(3, "p.public.f")
	if list[1].Pos.Absent != nil || list[1].After["big"] != strings.Repeat("x", 5000) || list[1].Before["small"] == nil {
		t.Fatalf("REPLICA IDENTITY FULL: %+v", list[1])
	}
}

func TestP7NoReplicaIdentity(t *testing.T) {
	d, l := newDatabase(t, nil), newLog(t, 1)
	d.exec("CREATE TABLE t (a int)", "INSERT INTO t VALUES (1)", "CREATE TABLE ok (id int PRIMARY KEY)")
	c := config(t, d, nil)
	err := start(t, l, c).fails()
	if !strings.Contains(err.Error(), `ALTER TABLE "public"."t" REPLICA IDENTITY FULL`) {
		t.Fatal(err)
	}
	if n := d.value("SELECT count(*) FROM pg_publication"); n != "0" {
		t.Fatal("a publication was made although the source was refused")
	}
	d.exec("UPDATE t SET a = 2") // the application is not hurt
	if f := Check(context.Background(), c); len(f) != 1 || f[0].Subject != "table public.t" {
		t.Fatalf("%+v", f)
	}
	d.exec("ALTER TABLE t REPLICA IDENTITY FULL")
	start(t, l, c).streaming()
	d.exec("UPDATE t SET a = 3", "DELETE FROM t")
	equal(t, summary(l.waitFor(3, "p.public.t")), `
r  null -> {"a":2}
u  {"a":2} -> {"a":3}
d  {"a":3} -> null`)
	if tables := d.value("SELECT string_agg(tablename, ',' ORDER BY tablename) FROM pg_publication_tables"); tables != "ok,t" {
		t.Fatal(tables)
	}
}

func TestP8IdentityIndex(t *testing.T) {
	d, l := newDatabase(t, nil), newLog(t, 1)
	d.exec("CREATE TABLE t (id int PRIMARY KEY, code text NOT NULL, v int)", "CREATE UNIQUE INDEX code ON t (code)",
		"ALTER TABLE t REPLICA IDENTITY USING INDEX code")
	c := config(t, d, nil)
	r := start(t, l, c).streaming()
	d.exec("INSERT INTO t VALUES (1, 'a', 1)", "UPDATE t SET v = 2", "UPDATE t SET id = 5", "UPDATE t SET code = 'b'", "DELETE FROM t")
	equal(t, summary(l.waitFor(8, "p.public.t")), `
c {"code":"a"} null -> {"code":"a","id":1,"v":1}
u {"code":"a"} null -> {"code":"a","id":1,"v":2}
u {"code":"a"} null -> {"code":"a","id":5,"v":2}
d {"code":"a"} {"code":"a"} -> null
tombstone {"code":"a"}
c {"code":"b"} null -> {"code":"b","id":5,"v":2}
d {"code":"b"} {"code":"b"} -> null
tombstone {"code":"b"}`)
	_ = r.stop()
	d.exec("DROP INDEX code")
	if p := start(t, l, c).parked("public.t"); !strings.Contains(p.Reason, "no replica identity") {
		t.Fatalf("%+v", p)
	}
}

func TestP9KeyUpdate(t *testing.T) {
	for _, identity := range []string{"DEFAULT", "FULL"} {
		t.Run(identity, func(t *testing.T) {
			d, l := newDatabase(t, nil), newLog(t, 1)
			d.exec("CREATE TABLE t (id int, v text, PRIMARY KEY (id))", "ALTER TABLE t REPLICA IDENTITY "+identity, "INSERT INTO t VALUES (1, 'x')")
			start(t, l, config(t, d, nil)).streaming()
			d.exec("UPDATE t SET id = 2 WHERE id = 1")
			list := l.waitFor(4, "p.public.t")
			before := `{"id":1}`
			if identity == "FULL" {
				before = `{"id":1,"v":"x"}`
			}
			equal(t, summary(list), `
r {"id":1} null -> {"id":1,"v":"x"}
d {"id":1} `+before+` -> null
tombstone {"id":1}
c {"id":2} null -> {"id":2,"v":"x"}`)
			if list[1].Headers[event.NewKeyHeader] != `{"id":2}` || list[2].Headers[event.NewKeyHeader] != `{"id":2}` || list[3].Headers[event.OldKeyHeader] != `{"id":1}` {
				t.Fatalf("headers %v %v", list[1].Headers, list[3].Headers)
			}
			if list[1].Pos.Order != 1 || list[2].Pos.Order != 1 || list[3].Pos.Order != 2 {
				t.Fatalf("orders %+v", list)
			}
			checkEnds(t, l, list)
		})
	}
}

// TestSequenceBeginsWithTheEndOfTheLastCommit: source.sequence is that end, as the position has it, and the change's LSN; it is null
// before the first commit, and a message outside of transactions counts for one.
func TestSequenceBeginsWithTheEndOfTheLastCommit(t *testing.T) {
	d, l := newDatabase(t, nil), newLog(t, 1)
	d.exec("CREATE TABLE t (id int PRIMARY KEY)")
	c := config(t, d, map[string]string{"message.prefix.include.list": "mine"})
	r := start(t, l, c).streaming()
	sequence := func(r rec) (commit string, at string) {
		parts := strings.Split(strings.Trim(r.Source["sequence"].(string), "[]"), ",")
		return strings.Trim(parts[0], `"`), strings.Trim(parts[1], `"`)
	}
	d.exec("INSERT INTO t VALUES (1)")
	list := l.waitFor(1, "p.public.t")
	if commit, at := sequence(list[0]); commit != "null" || at != fmt.Sprint(list[0].Source["lsn"]) {
		t.Errorf("first: %v", list[0].Source)
	}
	d.exec("INSERT INTO t VALUES (2)")
	list = l.waitFor(2, "p.public.t")
	ends := map[uint64]string{}
	for _, p := range l.read("p.position") {
		if strings.Contains(p.Key, "session") { // where a run begins
			continue
		}
		at, err := parseResume([]byte(p.Value))
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := ends[uint64(at.Commit)]; !ok { // later ones are of an idle source
			ends[uint64(at.Commit)] = strconv.FormatUint(uint64(at.LSN), 10)
		}
	}
	if commit, _ := sequence(list[1]); commit != ends[list[0].Pos.Commit] || commit == strconv.FormatUint(list[0].Pos.Commit, 10) {
		t.Errorf("second: %v, want the end of %d in %v", list[1].Source, list[0].Pos.Commit, ends)
	}
	d.exec("SELECT pg_logical_emit_message(false, 'mine', 'x')")
	message := l.waitFor(1, "p.message")[0]
	if at := message.Pos.Commit; !strings.Contains(message.Value, fmt.Sprintf(`"sequence":"[\"%d\",\"%d\"]"`, at, at)) {
		t.Errorf("message at %d: %s", at, message.Value)
	}
	_ = r.stop()
	start(t, l, c).streaming()
	d.exec("INSERT INTO t VALUES (3)")
	if commit, _ := sequence(l.waitFor(3, "p.public.t")[2]); commit == "null" {
		t.Error("after a restart there is no last commit")
	}
}

func TestP10IdleDatabase(t *testing.T) {
	d, noisy, l := newDatabase(t, nil), newDatabase(t, nil), newLog(t, 1)
	d.exec("CREATE TABLE t (id int PRIMARY KEY)")
	noisy.exec("CREATE TABLE n (id int)")
	c := config(t, d, nil)
	r := start(t, l, c).streaming()
	noisy.exec("INSERT INTO n SELECT generate_series(1, 50000)")
	end := noisy.value("SELECT pg_current_wal_lsn()")
	eventually(t, "slot of the idle database to advance", func() bool {
		return d.value("SELECT confirmed_flush_lsn >= '"+end+"' FROM pg_replication_slots WHERE slot_name = '"+c.Slot+"'") == "t"
	})
	_ = r.stop()
	start(t, l, c).streaming() // the advanced slot is not taken for a gap
	d.exec("INSERT INTO t VALUES (1)")
	l.waitFor(1, "p.public.t")
}

// An idle database has no lag, however much the others of its server write and whether or not the log takes its position.
func TestP10IdleDatabaseHasNoLag(t *testing.T) {
	d, noisy, l := newDatabase(t, nil), newDatabase(t, nil), newLog(t, 1)
	gate := l.stallable()
	d.exec("CREATE TABLE t (id int PRIMARY KEY)")
	noisy.exec("CREATE TABLE n (id int)")
	r := start(t, l, config(t, d, nil)).streaming()
	d.exec("INSERT INTO t VALUES (1)")
	l.waitFor(1, "p.public.t")
	gate.on.Store(true)
	noisy.exec("INSERT INTO n SELECT generate_series(1, 50000)")
	end, err := parseLSN(noisy.value("SELECT pg_current_wal_flush_lsn()"))
	if err != nil {
		t.Fatal(err)
	}
	at := func() lsn { return lsn(r.c.current.receiver.walEnd.Load()) }
	eventually(t, "no lag", func() bool {
		s := r.c.Status()
		if s.LagEvents != 0 || s.LagSeconds != 0 {
			t.Fatalf("lag of an idle database: %+v", s)
		}
		return at() >= end && s.LagBytes == 0
	})
	d.exec("INSERT INTO t VALUES (2)")
	eventually(t, "a lag", func() bool {
		s := r.c.Status()
		return s.LagEvents == 1 && s.LagBytes > 0 && s.LagSeconds > 0
	})
	gate.on.Store(false)
	eventually(t, "no lag again", func() bool {
		s := r.c.Status()
		return s.LagEvents == 0 && s.LagBytes == 0 && s.LagSeconds == 0
	})
}

// The server learns what is in the log soon after each commit, not only at the status interval.
func TestConfirmsSoonAfterCommit(t *testing.T) {
	d, l := newDatabase(t, nil), newLog(t, 1)
	d.exec("CREATE TABLE t (id int PRIMARY KEY)")
	c := config(t, d, map[string]string{"status.update.interval.ms": "60000"})
	start(t, l, c).streaming()
	for i := range 3 {
		d.exec(fmt.Sprintf("INSERT INTO t VALUES (%d)", i))
		end, began := d.value("SELECT pg_current_wal_insert_lsn()"), time.Now()
		eventually(t, "confirmation", func() bool {
			return d.value("SELECT confirmed_flush_lsn >= '"+end+"'::pg_lsn - 8 FROM pg_replication_slots WHERE slot_name = '"+c.Slot+"'") == "t"
		})
		if took := time.Since(began); took > 2*time.Second { // a quarter of wal_sender_timeout is 2.5 s
			t.Fatalf("confirmed after %s", took)
		}
	}
}

// stall is a log whose answers can be held back.
type stall struct{ on atomic.Bool }

func TestP11ConfirmsOnlyWhatIsInTheLog(t *testing.T) {
	d, l := newDatabase(t, nil), newLog(t, 1)
	gate := l.stallable()
	d.exec("CREATE TABLE t (id int PRIMARY KEY)")
	c := config(t, d, nil)
	r := start(t, l, c).streaming()
	d.exec("INSERT INTO t VALUES (1)")
	l.waitFor(1, "p.public.t")
	flushed := func() string {
		return d.value("SELECT confirmed_flush_lsn FROM pg_replication_slots WHERE slot_name = '" + c.Slot + "'")
	}
	eventually(t, "confirmation", func() bool {
		return d.value("SELECT '"+flushed()+"'::pg_lsn > '"+r.c.Status().Position+"'::pg_lsn - 1") == "t"
	})
	gate.on.Store(true)
	before := d.value("SELECT pg_current_wal_insert_lsn()")
	d.exec("INSERT INTO t VALUES (2)")
	eventually(t, "the lag of a blocked log", func() bool {
		if now := flushed(); d.value("SELECT '"+now+"'::pg_lsn > '"+before+"'") == "t" {
			t.Fatalf("confirmed %s although the log does not answer; the change is behind %s", now, before)
		}
		s := r.c.Status()
		return s.LagEvents == 1 && s.LagSeconds > 1 && s.LagBytes > 0
	})
	gate.on.Store(false)
	l.waitFor(2, "p.public.t")
	eventually(t, "confirmation after the stall", func() bool { return d.value("SELECT '"+flushed()+"'::pg_lsn > '"+before+"'") == "t" })
}

func TestP12LogStallsLongerThanTimeout(t *testing.T) {
	server := ownServer(t, "wal_sender_timeout=2s")
	d, l := newDatabase(t, server), newLog(t, 1)
	gate := l.stallable()
	d.exec("CREATE TABLE t (id int PRIMARY KEY, pad text)")
	c := config(t, d, map[string]string{"status.update.interval.ms": "10000"})
	start(t, l, c).streaming()
	pid := d.value("SELECT active_pid FROM pg_replication_slots")
	gate.on.Store(true)
	d.exec("INSERT INTO t SELECT i, repeat('x', 3000) FROM generate_series(1, 30000) i")
	time.Sleep(6 * time.Second)
	gate.on.Store(false)
	eventually(t, "all rows", func() bool { return len(l.read("p.transaction")) == 1 })
	if now := d.value("SELECT active_pid FROM pg_replication_slots"); now != pid {
		t.Fatalf("the walsender was lost: process %s, then %q", pid, now)
	}
	if n := len(l.read("p.public.t")); n != 30000 {
		t.Fatalf("%d rows", n)
	}
}

func TestP13Subtransactions(t *testing.T) {
	server := ownServer(t, "logical_decoding_work_mem=64kB")
	d, l := newDatabase(t, server), newLog(t, 1)
	d.exec("CREATE TABLE t (id int PRIMARY KEY)")
	start(t, l, config(t, d, nil)).streaming()
	d.exec("BEGIN", "INSERT INTO t SELECT generate_series(1, 2000)", "SAVEPOINT s", "INSERT INTO t SELECT generate_series(2001, 4000)",
		"ROLLBACK TO s", "INSERT INTO t SELECT generate_series(5001, 5005)", "COMMIT")
	list := l.waitFor(2005, "p.public.t")
	checkEnds(t, l, list)
}

func TestP14TwoPhaseCommit(t *testing.T) {
	d, l := newDatabase(t, nil), newLog(t, 1)
	d.exec("CREATE TABLE t (id int PRIMARY KEY)")
	start(t, l, config(t, d, nil)).streaming()
	d.exec("BEGIN", "INSERT INTO t VALUES (1)", "PREPARE TRANSACTION 'g'", "INSERT INTO t VALUES (2)")
	equal(t, summary(l.waitFor(1, "p.public.t")), `c {"id":2} null -> {"id":2}`)
	d.exec("COMMIT PREPARED 'g'")
	l.waitFor(2, "p.public.t")
}

func TestP15SlotGone(t *testing.T) {
	d, l := newDatabase(t, nil), newLog(t, 1)
	d.exec("CREATE TABLE t (id int PRIMARY KEY)")
	c := config(t, d, nil)
	r := start(t, l, c).streaming()
	d.exec("INSERT INTO t VALUES (1)")
	l.waitFor(1, "p.public.t")
	_ = r.stop()
	eventually(t, "slot to be free", func() bool {
		return execSQL(d.conn, "SELECT pg_drop_replication_slot('"+c.Slot+"')") == nil
	})
	d.exec("INSERT INTO t VALUES (2)")
	if err := start(t, l, c).fails(); !strings.Contains(err.Error(), "does not exist") {
		t.Fatal(err)
	}
	d.exec("SELECT pg_create_logical_replication_slot('" + c.Slot + "', 'pgoutput')")
	if err := start(t, l, c).fails(); !strings.Contains(err.Error(), "was recreated") || !strings.Contains(err.Error(), "p.position") {
		t.Fatal(err)
	}
	l.waitFor(1, "p.public.t")
}

func TestP15SlotInvalidated(t *testing.T) {
	server := ownServer(t, "max_slot_wal_keep_size=1MB", "min_wal_size=32MB", "max_wal_size=32MB")
	d, l := newDatabase(t, server), newLog(t, 1)
	d.exec("CREATE TABLE t (id int PRIMARY KEY)", "CREATE TABLE noise (t text)")
	c := config(t, d, map[string]string{"table.include.list": "public.t"})
	r := start(t, l, c).streaming()
	_ = r.stop()
	for range 4 {
		d.exec("INSERT INTO noise SELECT repeat('x', 1000) FROM generate_series(1, 20000)", "SELECT pg_switch_wal()", "CHECKPOINT")
	}
	if err := start(t, l, c).fails(); !strings.Contains(err.Error(), "is lost") {
		t.Fatal(err)
	}
}

func TestP16OtherServer(t *testing.T) {
	d, other, l := newDatabase(t, nil), newDatabase(t, ownServer(t)), newLog(t, 1)
	d.exec("CREATE TABLE t (id int PRIMARY KEY)")
	other.exec("CREATE TABLE t (id int PRIMARY KEY)")
	_ = start(t, l, config(t, d, nil)).streaming().stop()
	if err := start(t, l, config(t, other, nil)).fails(); !strings.Contains(err.Error(), "belongs to database") {
		t.Fatal(err)
	}
}

func TestP18SchemaChangesWhileLagging(t *testing.T) {
	d, l := newDatabase(t, nil), newLog(t, 1)
	d.exec("CREATE TABLE t (id int PRIMARY KEY, a text)")
	c := config(t, d, nil)
	_ = start(t, l, c).streaming().stop()
	d.exec("INSERT INTO t VALUES (1, 'x')", "ALTER TABLE t ADD c int", "INSERT INTO t VALUES (2, 'y', 7)", "ALTER TABLE t DROP a",
		"INSERT INTO t VALUES (3, 8)", "ALTER TABLE t ALTER c TYPE text", "INSERT INTO t VALUES (4, '9')", "ALTER TABLE t RENAME c TO d", "INSERT INTO t VALUES (5, 'z')")
	start(t, l, c)
	equal(t, summary(l.waitFor(5, "p.public.t")), `
c {"id":1} null -> {"a":"x","id":1}
c {"id":2} null -> {"a":"y","c":7,"id":2}
c {"id":3} null -> {"c":8,"id":3}
c {"id":4} null -> {"c":"9","id":4}
c {"id":5} null -> {"d":"z","id":5}`)
	ids := map[uint64]bool{}
	for _, x := range l.read("p.public.t") {
		ids[x.Pos.Schema] = true
	}
	for _, x := range l.read("p.schema") {
		s, err := event.ParseSchema([]byte(x.Value))
		if err != nil {
			t.Fatal(err)
		}
		delete(ids, s.ID)
	}
	if len(ids) > 0 {
		t.Fatalf("%d schemas were not written", len(ids))
	}
}

func TestP18TableDroppedWhileLagging(t *testing.T) {
	d, l := newDatabase(t, nil), newLog(t, 1)
	d.exec("CREATE TABLE t (id int PRIMARY KEY, a varchar(9))", "CREATE TABLE u (id int PRIMARY KEY)")
	c := config(t, d, nil)
	_ = start(t, l, c).streaming().stop()
	d.exec("INSERT INTO t VALUES (1, 'x')", "DROP TABLE t")
	start(t, l, c)
	equal(t, summary(l.waitFor(1, "p.public.t")), `c {"id":1} null -> {"a":"x","id":1}`)
}

func TestP21GeneratedColumns(t *testing.T) {
	d, l := newDatabase(t, nil), newLog(t, 1)
	d.exec("CREATE TABLE t (id int PRIMARY KEY, a int, g int GENERATED ALWAYS AS (a * 2) STORED)", "INSERT INTO t VALUES (1, 1)")
	start(t, l, config(t, d, nil)).streaming()
	d.exec("INSERT INTO t VALUES (2, 2)")
	list := l.waitFor(2, "p.public.t")
	equal(t, summary(list), `r {"id":1} null -> {"a":1,"id":1}`+"\n"+`c {"id":2} null -> {"a":2,"id":2}`)
	if list[0].Pos.Schema != list[1].Pos.Schema {
		t.Fatal("load and stream have different schemas")
	}
}

func TestP22Partitions(t *testing.T) {
	d, l := newDatabase(t, nil), newLog(t, 1)
	d.exec("CREATE TABLE t (id int PRIMARY KEY, v text) PARTITION BY RANGE (id)",
		"CREATE TABLE t1 PARTITION OF t FOR VALUES FROM (0) TO (100)",
		"CREATE TABLE t2 (v text, id int NOT NULL)", "ALTER TABLE t ATTACH PARTITION t2 FOR VALUES FROM (100) TO (200)",
		"INSERT INTO t VALUES (1, 'a'), (101, 'b')")
	start(t, l, config(t, d, map[string]string{"snapshot.max.threads": "1"})).streaming()
	d.exec("INSERT INTO t VALUES (2, 'c'), (102, 'd')", "UPDATE t SET id = 103 WHERE id = 1",
		"CREATE TABLE t3 PARTITION OF t FOR VALUES FROM (200) TO (300)", "INSERT INTO t VALUES (201, 'e')")
	list := l.waitFor(8, "p.public.t")
	equal(t, summary(list), `
r {"id":1} null -> {"id":1,"v":"a"}
r {"id":101} null -> {"id":101,"v":"b"}
c {"id":2} null -> {"id":2,"v":"c"}
c {"id":102} null -> {"id":102,"v":"d"}
d {"id":1} {"id":1} -> null
tombstone {"id":1}
c {"id":103} null -> {"id":103,"v":"a"}
c {"id":201} null -> {"id":201,"v":"e"}`)
	checkEnds(t, l, list)
	cl, err := kgo.NewClient(l.opts...)
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	topics, err := kadm.NewClient(cl).ListTopics(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range topics.Names() {
		if strings.HasPrefix(name, "p.public.") && name != "p.public.t" {
			t.Errorf("partitions share the table's topic, and there is %s", name)
		}
	}
}

func TestP23LoadAndStreamAgree(t *testing.T) {
	d, l := newDatabase(t, nil), newLog(t, 1)
	d.exec("CREATE TYPE mood AS ENUM ('sad', 'ok')", "CREATE DOMAIN price AS numeric(10,2)", "CREATE TYPE pair AS (a int, b text)",
		`CREATE TABLE t (id int PRIMARY KEY, d date, ts timestamp, tz timestamptz, n numeric, n2 numeric(12,3), m money, i interval, b bit(5), vb varbit,
 e mood, ea mood[], da price[], p price, f4 real, f8 float8, by bytea, u uuid, j json, jb jsonb, ip inet, r int4range, co pair, tm time(3), tt timetz, c char(5), ta text[], x xml, tv tsvector, o oid, nm name)`,
		"ALTER DATABASE "+d.name+" SET datestyle = 'SQL, DMY'", "ALTER DATABASE "+d.name+" SET timezone = 'Asia/Kolkata'", "ALTER DATABASE "+d.name+" SET intervalstyle = 'iso_8601'",
		"ALTER DATABASE "+d.name+" SET bytea_output = 'escape'", "ALTER DATABASE "+d.name+" SET extra_float_digits = 0")
	rows := []string{
		`(%d, 'infinity', '-infinity', 'infinity', 1e30, 1.500, '1234.56', '1 year 2 mons 3 days 04:05:06.789', B'10110', B'101', 'sad', '{ok,NULL}', '{1.1,2}', 9.99, 0.1, 0.1, '\x00ff5c', '00000000-0000-0000-0000-000000000001', '{"a": 1}', '{"b":[1,2]}', '10.0.0.0/8', '[1,5)', '(1,"x y")', '12:34:56.789', '12:34:56+05:30', 'ab', '{"a\\b","c,d",NULL,""}', '<a/>', 'a:1 b:2', 42, 'nm')`,
		`(%d, '0214-02-05 BC', '0001-01-01 BC', '294276-12-31 23:59:59.999999+00', -0.0001, NULL, '-5', '-1 mons', B'00000', B'', 'ok', '{}', '{}', -1, '-Infinity', 'NaN', '', NULL, 'null', 'null', '::1', 'empty', NULL, '24:00:00', '00:00:00-12', '', '{}', NULL, NULL, 0, NULL)`,
	}
	d.reconnect()
	for i, r := range rows {
		d.exec("INSERT INTO t VALUES " + fmt.Sprintf(r, i))
	}
	start(t, l, config(t, d, map[string]string{"time.precision.mode": "isostring", "decimal.handling.mode": "string"})).streaming()
	for i, r := range rows {
		d.exec("INSERT INTO t VALUES " + fmt.Sprintf(r, i+10))
	}
	list := l.waitFor(4, "p.public.t")
	for i := range 2 {
		a, b := list[i], list[i+2]
		a.Op, b.Op, a.Key, b.Key = "", "", "", ""
		delete(a.After, "id")
		delete(b.After, "id")
		equal(t, b.String(), a.String())
		if list[i].Pos.Schema != list[i+2].Pos.Schema {
			t.Fatal("schemas differ")
		}
	}
}

func TestP24LogicalMessages(t *testing.T) {
	d, l := newDatabase(t, nil), newLog(t, 1)
	d.exec("CREATE TABLE t (id int PRIMARY KEY)")
	c := config(t, d, map[string]string{"message.prefix.include.list": "mine.*"})
	r := start(t, l, c).streaming()
	d.exec("BEGIN; SELECT pg_logical_emit_message(true, 'mine', 'x'); INSERT INTO t VALUES (1); COMMIT", "SELECT pg_logical_emit_message(true, 'other', 'x')",
		"BEGIN; SELECT pg_logical_emit_message(true, 'mine', 'lost'); ROLLBACK", "SELECT pg_logical_emit_message(false, 'mine2', 'y')",
		"SELECT pg_switch_wal()", "INSERT INTO t VALUES (2)")
	l.waitFor(2, "p.public.t")
	list := l.waitFor(2, "p.message")
	if list[0].Key != `{"prefix":"mine"}` || list[1].Key != `{"prefix":"mine2"}` || !strings.Contains(list[0].Value, `"op":"m"`) {
		t.Fatalf("%+v", list)
	}
	_ = r.stop()
	start(t, l, c).streaming()
	d.exec("INSERT INTO t VALUES (3)")
	checkEnds(t, l, l.waitFor(3, "p.public.t"))
	l.waitFor(2, "p.message")
}

// TestP24CommitRightBehindAMessage: the connector restarts between a message outside of transactions and a commit whose record
// begins where the message's ends, at the very end of the WAL.
func TestP24CommitRightBehindAMessage(t *testing.T) {
	d, l := newDatabase(t, nil), newLog(t, 1)
	d.exec("CREATE TABLE t (id int PRIMARY KEY)")
	c := config(t, d, map[string]string{"message.prefix.include.list": "mine"})
	r := start(t, l, c).streaming()
	other := d.session()
	other.exec("BEGIN; INSERT INTO t VALUES (1)")
	d.exec("SELECT pg_logical_emit_message(false, 'mine', 'x')")
	l.waitFor(1, "p.message")
	_ = r.stop()
	r = start(t, l, c).streaming()
	_ = r.stop()
	other.exec("COMMIT")
	start(t, l, c).streaming()
	checkEnds(t, l, l.waitFor(1, "p.public.t"))
	l.waitFor(1, "p.message")
}

func TestP25Truncate(t *testing.T) {
	d, l := newDatabase(t, nil), newLog(t, 3)
	d.exec("CREATE TABLE a (id int PRIMARY KEY)", "CREATE TABLE b (id int PRIMARY KEY, a int REFERENCES a)")
	r := start(t, l, config(t, d, nil)).streaming()
	d.exec("TRUNCATE a CASCADE", "INSERT INTO a VALUES (1)")
	l.waitFor(1, "p.public.a") // skipped by default, as Debezium does
	_ = r.stop()
	start(t, l, config(t, d, map[string]string{"skipped.operations": "none"})).streaming()
	d.exec("BEGIN; TRUNCATE a CASCADE; INSERT INTO a VALUES (2); COMMIT")
	a, b := l.waitFor(5, "p.public.a"), l.waitFor(3, "p.public.b")
	barriers := map[int32]bool{}
	for _, x := range append(a, b...) {
		if x.Op == "t" {
			if x.Key != "" || x.Pos.Order == 0 || x.Pos.Order > 2 {
				t.Fatalf("%+v", x)
			}
			if strings.HasSuffix(x.Topic, ".a") {
				barriers[x.Partition] = true
			}
		}
	}
	if len(barriers) != 3 {
		t.Fatalf("truncate went to %d partitions of 3", len(barriers))
	}
	checkEnds(t, l, append(a, b...))
}

func TestP26Identifiers(t *testing.T) {
	d, l := newDatabase(t, nil), newLog(t, 1)
	d.exec(`CREATE TABLE "tablé x" ("ключ" int PRIMARY KEY, "a""b\c" text)`, `INSERT INTO "tablé x" VALUES (1, 'ü')`, "CREATE TABLE tabl__x (id int PRIMARY KEY)")
	if err := start(t, l, config(t, d, nil)).fails(); !strings.Contains(err.Error(), "share topic") {
		t.Fatal(err)
	}
	d.exec("DROP TABLE tabl__x")
	start(t, l, config(t, d, nil)).streaming()
	d.exec(`INSERT INTO "tablé x" VALUES (2, 'ß')`)
	equal(t, summary(l.waitFor(2, "p.public.tabl__x")), `r {"ключ":1} null -> {"a\"b\\c":"ü","ключ":1}`+"\n"+`c {"ключ":2} null -> {"a\"b\\c":"ß","ключ":2}`)
}

func TestP26Latin1Database(t *testing.T) {
	d, l := newDatabase(t, nil), newLog(t, 1)
	d.exec("CREATE DATABASE " + d.name + "l TEMPLATE template0 ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C'")
	latin := &database{t: t, server: d.server, name: d.name + "l"}
	latin.reconnect()
	latin.exec("SET client_encoding = 'UTF8'", "CREATE TABLE t (id int PRIMARY KEY, v text)", "INSERT INTO t VALUES (1, 'ü')")
	c := config(t, latin, nil)
	r := start(t, l, c).streaming()
	latin.exec("INSERT INTO t VALUES (2, 'é')")
	equal(t, summary(l.waitFor(2, "p.public.t")), `r {"id":1} null -> {"id":1,"v":"ü"}`+"\n"+`c {"id":2} null -> {"id":2,"v":"é"}`)
	_ = r.stop()
	latin.conn.Close(context.Background())
	eventually(t, "drop", func() bool {
		_ = execSQL(d.conn, "SELECT pg_drop_replication_slot('"+c.Slot+"')")
		return execSQL(d.conn, "DROP DATABASE "+latin.name) == nil
	})
}

func TestServerCrashAndRestart(t *testing.T) {
	server := ownServer(t)
	d, l := newDatabase(t, server), newLog(t, 2)
	d.exec("CREATE TABLE t (id int PRIMARY KEY)", "INSERT INTO t VALUES (0)")
	r := start(t, l, config(t, d, nil)).streaming()
	for i := range 3 {
		d.exec(fmt.Sprintf("INSERT INTO t VALUES (%d)", i+1))
		if err := server.Restart(context.Background(), servers.Immediate); err != nil {
			t.Fatal(err)
		}
		d.reconnect()
	}
	list := l.waitFor(4, "p.public.t")
	checkEnds(t, l, list)
	r.streaming()
}
