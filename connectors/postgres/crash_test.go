package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/rowtrail/rowtrail/connectors"
)

// childEnv makes the test binary a child: a log, or a connector that is killed.
const (
	childEnv   = "ROWTRAIL_TEST_CHILD"
	brokersEnv = "ROWTRAIL_TEST_BROKERS"
	propsEnv   = "ROWTRAIL_TEST_PROPERTIES"
	unparkEnv  = "ROWTRAIL_TEST_UNPARK" // a table that is unparked as soon as that can be
)

// childMain is what the test binary does when it is started as a child.
func childMain() int {
	if os.Getenv(childEnv) == "log" {
		return logMain()
	}
	props := map[string]string{}
	if err := json.Unmarshal([]byte(os.Getenv(propsEnv)), &props); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	c, errs := ParseConfig("c", props)
	if len(errs) > 0 {
		fmt.Fprintln(os.Stderr, errs)
		return 1
	}
	conn, err := New(c, connectors.Deps{
		Client: []kgo.Opt{kgo.SeedBrokers(strings.Split(os.Getenv(brokersEnv), ",")...)},
		Logger: slog.New(slog.NewTextHandler(io.Discard, nil)), Version: "test",
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if table := os.Getenv(unparkEnv); table != "" {
		go func() {
			for conn.Unpark(connectors.Unpark{Table: table}) != nil {
				time.Sleep(time.Millisecond)
			}
		}()
	}
	if err := conn.Run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// child starts a connector in a process of its own.
func child(t *testing.T, brokers string, props map[string]string) *exec.Cmd {
	t.Helper()
	b, err := json.Marshal(props)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"=connector", brokersEnv+"="+brokers, propsEnv+"="+string(b))
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd
}

// TestKilledConnector kills the connector at random moments of the load and of the stream while a workload runs. In the log every
// change must be exactly once and every transaction whole.
func TestKilledConnector(t *testing.T) {
	kills := 12
	if v := os.Getenv("ROWTRAIL_KILLS"); v != "" {
		kills, _ = strconv.Atoi(v)
	}
	d, l := newDatabase(t, nil), externalLog(t)
	const rows = 300
	d.exec("CREATE TABLE t (id int PRIMARY KEY, n int NOT NULL)", "CREATE TABLE u (id int PRIMARY KEY, n int NOT NULL)",
		"CREATE TABLE big (id int PRIMARY KEY, pad text)", "CREATE TABLE big2 (id int PRIMARY KEY, pad text)",
		fmt.Sprintf("INSERT INTO t SELECT i, 0 FROM generate_series(1, %d) i", rows), "INSERT INTO u SELECT * FROM t",
		"INSERT INTO big SELECT i, repeat('x', 1500) FROM generate_series(1, 45000) i", "INSERT INTO big2 SELECT * FROM big")
	props := map[string]string{
		"database.dsn": d.dsn(), "topic.prefix": "p", "slot.name": "slot_" + d.name, "publication.name": "pub_" + d.name,
		"status.update.interval.ms": "100",
	}
	stop, done := make(chan struct{}), make(chan error, 2)
	for range 2 {
		w := d.session()
		go func() {
			for {
				select {
				case <-stop:
					done <- nil
					return
				default:
				}
				a, b := rand.IntN(rows)+1, rand.IntN(rows)+1
				sql := fmt.Sprintf("BEGIN; UPDATE t SET n = n + 1 WHERE id = %d; UPDATE u SET n = n + 1 WHERE id = %d; UPDATE t SET n = n + 1 WHERE id = %d; COMMIT", min(a, b), a, max(a, b))
				if a == b {
					sql = fmt.Sprintf("UPDATE t SET n = n + 1 WHERE id BETWEEN %d AND %d", a, a+40)
				}
				if err := execSQL(w.conn, sql); err != nil {
					_ = execSQL(w.conn, "ROLLBACK") // a deadlock between the two
					if sqlState(err) != "40P01" {
						done <- err
						return
					}
				}
			}
		}()
	}
	for i := range kills {
		cmd := child(t, l.brokers, props)
		time.Sleep(time.Duration(50+rand.IntN(700)) * time.Millisecond)
		if i == kills/2 { // the second half of the kills meets the stream
			for patience := time.Now().Add(2 * time.Minute); !l.reached("0/0"); time.Sleep(100 * time.Millisecond) {
				if time.Now().After(patience) {
					t.Fatal("the load does not end")
				}
			}
		}
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
	cmd := child(t, l.brokers, props)
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	close(stop)
	for range 2 {
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
	end := d.value("SELECT pg_current_wal_lsn()")
	deadline := time.Now().Add(2 * time.Minute)
	for !l.reached(end) {
		if time.Now().After(deadline) {
			t.Fatal("the connector does not catch up")
		}
		time.Sleep(200 * time.Millisecond)
	}
	list := l.read("p.public.t", "p.public.u")
	t.Logf("%d records, %d transactions", len(list), len(l.read("p.transaction")))
	last := map[string]int{}
	seen := map[string]bool{}
	for _, x := range list {
		n, _ := strconv.Atoi(fmt.Sprint(x.After["n"]))
		k := x.Topic + x.Key
		before, known := last[k]
		switch {
		case x.Op == "r" && known:
			t.Fatalf("%s comes after %d", x, before)
		case x.Op == "u" && (!known || n != before+1):
			t.Fatalf("%s after n = %d: lost, repeated or out of order", x, before)
		}
		last[k] = n
		id := fmt.Sprint(x.Topic, x.Pos.Commit, "/", x.Pos.Order)
		if x.Pos.Order > 0 && seen[id] {
			t.Fatalf("%s is there twice", x)
		}
		seen[id] = true
	}
	for _, table := range []string{"t", "u"} {
		var sum int
		for k, n := range last {
			if strings.HasPrefix(k, "p.public."+table+"{") {
				sum += n
			}
		}
		if want := d.value("SELECT sum(n) FROM " + table); strconv.Itoa(sum) != want {
			t.Fatalf("%s: the log folds to %d, the table to %s", table, sum, want)
		}
	}
	checkEnds(t, l, list)
	for _, table := range []string{"big", "big2"} {
		ids := map[string]bool{}
		for _, x := range l.read("p.public." + table) {
			if x.Op == "t" {
				t.Fatalf("a load that was cut off left nothing readable: no truncate of %s was due", table)
			}
			if ids[x.Key] {
				t.Fatalf("%s is loaded twice", x.Key)
			}
			ids[x.Key] = true
		}
		if len(ids) != 45000 {
			t.Fatalf("%s: %d rows", table, len(ids))
		}
	}
}

// reached tells whether the load is complete and the resume point has passed a place in the WAL.
func (l *testLog) reached(end string) bool {
	l.t.Helper()
	at, err := parseLSN(end)
	if err != nil {
		l.t.Fatal(err)
	}
	list := l.read("p.position")
	for i := len(list) - 1; i >= 0; i-- {
		if list[i].Key != `{"connector":"c"}` {
			continue
		}
		r, err := parseResume([]byte(list[i].Value))
		if err != nil {
			l.t.Fatal(err)
		}
		return r.Complete && r.LSN >= at
	}
	return false
}

// anonymous is a process's RssAnon in bytes.
func anonymous(t *testing.T, pid int) int {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range strings.Split(string(b), "\n") {
		if f := strings.Fields(line); len(f) == 3 && f[0] == "RssAnon:" {
			kb, _ := strconv.Atoi(f[1])
			return kb << 10
		}
	}
	t.Fatal("no RssAnon in /proc/" + strconv.Itoa(pid) + "/status")
	return 0
}

// TestBigTransactionMemory streams one large source transaction: memory must not depend on its size (invariant 9). The
// connector is a process of its own, so that nothing else is measured.
func TestBigTransactionMemory(t *testing.T) {
	rows := 300000
	if v := os.Getenv("ROWTRAIL_BIG_ROWS"); v != "" {
		rows, _ = strconv.Atoi(v)
	}
	d, l := newDatabase(t, nil), externalLog(t)
	d.exec(benchTable)
	cmd := child(t, l.brokers, map[string]string{
		"database.dsn": d.dsn(), "topic.prefix": "p", "slot.name": "slot_" + d.name, "publication.name": "pub_" + d.name, "status.update.interval.ms": "100",
	})
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	confirmed := func(end string) bool {
		return d.value("SELECT coalesce(confirmed_flush_lsn >= '"+end+"', false) FROM pg_replication_slots WHERE slot_name = 'slot_"+d.name+"'") == "t"
	}
	eventually(t, "the slot", func() bool { return confirmed(d.value("SELECT pg_current_wal_lsn()")) })
	began := time.Now()
	d.exec(fmt.Sprintf("INSERT INTO t SELECT i, repeat('n', 200) || i, i / 7.0, now(), i %% 2 = 0 FROM generate_series(1, %d) i", rows))
	inserted, end := time.Now(), d.value("SELECT pg_current_wal_lsn()")
	peak := 0
	for !confirmed(end) {
		peak = max(peak, anonymous(t, cmd.Process.Pid))
		if time.Since(began) > 5*time.Minute {
			t.Fatal("the connector does not catch up")
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Logf("%d rows: inserted in %s, captured %s later, RssAnon at most %d MiB", rows, inserted.Sub(began), time.Since(inserted), peak>>20)
	if peak > raceFactor*200<<20 {
		t.Fatalf("RssAnon reached %d MiB", peak>>20)
	}
}
