package mysql

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
	"github.com/rowtrail/rowtrail/itest/servers"
)

// childEnv makes the test binary a connector that is killed; it holds the type.
const (
	childEnv   = "ROWTRAIL_TEST_CHILD"
	brokersEnv = "ROWTRAIL_TEST_BROKERS"
	propsEnv   = "ROWTRAIL_TEST_PROPERTIES"
	unparkEnv  = "ROWTRAIL_TEST_UNPARK" // a table that is unparked as soon as that can be
	viewsEnv   = "ROWTRAIL_TEST_VIEWS"
)

// childMain is what the test binary does when it is started as a child.
func childMain() int {
	props := map[string]string{}
	if err := json.Unmarshal([]byte(os.Getenv(propsEnv)), &props); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	c, errs := ParseConfig("c", os.Getenv(childEnv), props)
	if len(errs) > 0 {
		fmt.Fprintln(os.Stderr, errs)
		return 1
	}
	client := []kgo.Opt{kgo.SeedBrokers(strings.Split(os.Getenv(brokersEnv), ",")...)}
	deps := connectors.Deps{Client: client, Logger: slog.New(slog.NewTextHandler(io.Discard, nil)), Version: "test"}
	if os.Getenv(viewsEnv) != "" {
		deps.Rows = newViews(client)
	}
	conn, err := New(c, deps)
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
func child(t *testing.T, kind string, l *testLog, props map[string]string) *exec.Cmd {
	t.Helper()
	b, err := json.Marshal(props)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+kind, brokersEnv+"="+strings.Join(l.addr, ","), propsEnv+"="+string(b))
	if l.views != nil {
		cmd.Env = append(cmd.Env, viewsEnv+"=yes")
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd
}

// TestKilledConnector kills the connector at random moments while two sessions write. In the log every change must be exactly once, in
// order, and every transaction whole; the log's content must be the server's.
func TestKilledConnector(t *testing.T) {
	kills := 10
	if v := os.Getenv("ROWTRAIL_KILLS"); v != "" {
		kills, _ = strconv.Atoi(v)
	}
	pool.Each(t, func(t *testing.T, m *servers.MySQL) { killedConnector(t, m, kills) })
}

func killedConnector(t *testing.T, m *servers.MySQL, kills int) {
	const rows = 200
	d, l := newDatabase(t, m), newLog(t, 3)
	d.exec("CREATE TABLE t (id INT PRIMARY KEY, n INT NOT NULL)", "CREATE TABLE u (id INT PRIMARY KEY, n INT NOT NULL)")
	props := d.properties(nil)
	cmd := child(t, m.Flavour(), l, props)
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	eventually(t, "the first resume point", func() bool { return l.resumePoint() != nil })
	for _, table := range []string{"t", "u"} {
		for i := range rows {
			d.exec(fmt.Sprintf("INSERT INTO %s VALUES (%d, 0)", table, i+1))
		}
	}
	stop, done := make(chan struct{}), make(chan error, 2)
	for range 2 {
		w := d.session()
		go func() { done <- w.write(stop, rows) }()
	}
	for range kills {
		time.Sleep(time.Duration(50+rand.IntN(700)) * time.Millisecond)
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		cmd = child(t, m.Flavour(), l, props)
	}
	close(stop)
	for range 2 {
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
	d.exec("INSERT INTO t VALUES (1000, 0)")
	eventually(t, "the last row", func() bool {
		for _, x := range l.read("p." + d.name + ".t") {
			if x.Key == `{"id":1000}` {
				return true
			}
		}
		return false
	})
	list := l.read("p."+d.name+".t", "p."+d.name+".u")
	last, seen := map[string]int{}, map[string]bool{}
	for _, x := range list {
		n, _ := strconv.Atoi(fmt.Sprint(x.After["n"]))
		k := x.Topic + x.Key
		before, known := last[k]
		switch {
		case x.Op == "c" && known:
			t.Fatalf("%s comes after %d", x, before)
		case x.Op == "u" && (!known || n != before+1):
			t.Fatalf("%s after n = %d: lost, repeated or out of order", x, before)
		}
		last[k] = n
		id := fmt.Sprint(x.Topic, x.Pos.Commit, "/", x.Pos.Order)
		if seen[id] {
			t.Fatalf("%s is there twice", x)
		}
		seen[id] = true
	}
	for _, table := range []string{"t", "u"} {
		sum, count := 0, 0
		for k, n := range last {
			if strings.HasPrefix(k, "p."+d.name+"."+table+"{") {
				sum, count = sum+n, count+1
			}
		}
		if want := d.value("SELECT CONCAT(SUM(n), ' in ', COUNT(*)) FROM " + table); fmt.Sprintf("%d in %d", sum, count) != want {
			t.Fatalf("%s: the log folds to %d in %d, the table to %s", table, sum, count, want)
		}
	}
	wholeTransactions(t, l, list)
	t.Logf("%d kills, %d records", kills, len(list))
}

// write changes rows in transactions over both tables until stop.
func (d *database) write(stop <-chan struct{}, rows int) error {
	for {
		select {
		case <-stop:
			return nil
		default:
		}
		a, b := rand.IntN(rows)+1, rand.IntN(rows)+1
		statements := []string{"BEGIN", "UPDATE t SET n = n + 1 WHERE id = %d", "UPDATE u SET n = n + 1 WHERE id = %d", "UPDATE t SET n = n + 1 WHERE id = %d", "COMMIT"}
		if a == b {
			statements = []string{"UPDATE t SET n = n + 1 WHERE id BETWEEN %d AND 40"}
		}
		for i, q := range statements {
			if strings.Contains(q, "%d") {
				q = fmt.Sprintf(q, []int{a, min(a, b), a, max(a, b)}[min(i, 3)])
			}
			if _, err := d.conn.Execute(q); err != nil {
				_, _ = d.conn.Execute("ROLLBACK")
				const deadlock, lockTimeout, recordChanged = 1213, 1205, 1020
				if n := code(err); n != deadlock && n != lockTimeout && n != recordChanged && n != erTableChanged {
					return fmt.Errorf("%s: %w", q, err)
				}
				break
			}
		}
	}
}

// wholeTransactions compares the END records with the events.
func wholeTransactions(t *testing.T, l *testLog, list []rec) {
	t.Helper()
	got := map[uint64]int{}
	for _, x := range list {
		if !x.Tombstone {
			got[x.Pos.Commit]++
		}
	}
	for _, x := range l.read("p.transaction") {
		var end struct {
			Status string `json:"status"`
			Count  int    `json:"event_count"`
		}
		if err := json.Unmarshal([]byte(x.Value), &end); err != nil {
			t.Fatal(err)
		}
		if end.Status == "END" {
			if got[x.Pos.Commit] != end.Count {
				t.Fatalf("transaction %s has %d events, its END says %d", x.Key, got[x.Pos.Commit], end.Count)
			}
			delete(got, x.Pos.Commit)
		}
	}
	if len(got) > 0 {
		t.Fatalf("%d transactions have no END, or two", len(got))
	}
}

// resumePoint is the last one in the log, nil if there is none.
func (l *testLog) resumePoint() *resume {
	l.t.Helper()
	list := l.read("p.position")
	for i := len(list) - 1; i >= 0; i-- {
		if list[i].Key == `{"connector":"c"}` {
			r, err := parseResume([]byte(list[i].Value))
			if err != nil {
				l.t.Fatal(err)
			}
			return r
		}
	}
	return nil
}
