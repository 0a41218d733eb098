package mysql

import (
	"bufio"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/rowtrail/rowtrail/itest/servers"
	"github.com/rowtrail/rowtrail/sink"
	"github.com/rowtrail/rowtrail/sink/sinktest"
)

// childEnv makes this test binary a sink in a process of its own: seeds, dsn, database.
const childEnv = "ROWTRAIL_SINK_TEST_CHILD"

// runChild runs a sink until it is killed.
func runChild() int {
	args := strings.Fields(os.Getenv(childEnv))
	c, errs := ParseConfig("w", []string{"shop.public.*"}, map[string]string{
		"dsn": args[1], "target.database": args[2], "offsets.database": args[2], "batch.max.rows": "40",
	})
	if len(errs) > 0 {
		fmt.Fprintln(os.Stderr, errs)
		return 1
	}
	logger := slog.New(slog.NewTextHandler(os.Stderr, nil))
	r, err := New(c, sink.Deps{Client: []kgo.Opt{kgo.SeedBrokers(strings.Split(args[0], ",")...)}, Logger: logger, Instance: "node-1"})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() { // the parent is gone
		_, _ = bufio.NewReader(os.Stdin).ReadByte()
		cancel()
	}()
	if err := r.Run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// child starts a sink process and returns how to kill it.
func child(t *testing.T, seeds []string, h *home) (kill func()) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), childEnv+"="+strings.Join(seeds, ",")+" "+h.dsn()+" "+h.name)
	cmd.Stderr = logWriter{t}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return func() {
		_ = cmd.Process.Kill() // SIGKILL
		_ = cmd.Wait()
		_ = stdin.Close()
	}
}

type logWriter struct{ t *testing.T }

func (w logWriter) Write(b []byte) (int, error) {
	w.t.Log(strings.TrimSpace(string(b)))
	return len(b), nil
}

// auditSQL lets the target count every change that it takes. Triggers make the sink write in source order. A key change without its large
// column is two events and one statement.
func auditSQL() []string {
	sql := []string{
		"CREATE TABLE audit (n bigint AUTO_INCREMENT PRIMARY KEY, what text)",
		"CREATE TABLE orders (id int PRIMARY KEY, customer int, note longtext, state longtext)",
		"CREATE TABLE customers (id int PRIMARY KEY, email longtext)",
		"CREATE TABLE accounts (id int PRIMARY KEY, balance bigint)",
	}
	for _, table := range []string{"orders", "customers", "accounts"} {
		for _, when := range []string{"INSERT", "DELETE"} {
			sql = append(sql, fmt.Sprintf("CREATE TRIGGER %s_%s AFTER %s ON %s FOR EACH ROW INSERT INTO audit (what) VALUES ('%s')", table, when, when, table, table))
		}
		sql = append(sql, fmt.Sprintf("CREATE TRIGGER %s_update AFTER UPDATE ON %s FOR EACH ROW INSERT INTO audit (what) SELECT '%s' UNION ALL SELECT 'move' FROM DUAL WHERE OLD.id <> NEW.id",
			table, table, table))
	}
	return sql
}

// SIGKILL of the sink at random moments and of the target too: every change is applied once, whole transactions only.
func TestKilledSinkAppliesExactlyOnce(t *testing.T) {
	servers.EachMySQL(t, servers.Options{Settings: map[string]string{"innodb_flush_log_at_trx_commit": "1", "log_bin_trust_function_creators": "ON"}}, func(t *testing.T, m *servers.MySQL) {
		ctx := context.Background()
		h := newHome(t, m)
		h.must(t, auditSQL()...)
		l := sinktest.NewLog(t, "shop")
		s := sinktest.NewSource(t, l, 3)
		s.KeepRows = true
		rng := rand.New(rand.NewPCG(rand.Uint64(), 7))
		const kills, restarts = 8, 2
		for i := range kills {
			kill := child(t, l.Seeds(), h)
			for deadline := time.Now().Add(time.Duration(300+rng.IntN(500)) * time.Millisecond); time.Now().Before(deadline); {
				s.Work(t, rng, 5)
				time.Sleep(5 * time.Millisecond)
			}
			if i%(kills/restarts) == kills/restarts-1 {
				if err := m.Restart(ctx, servers.Immediate); err != nil {
					t.Fatalf("restart target: %v", err)
				}
			}
			kill()
		}
		kill := child(t, l.Seeds(), h)
		defer kill()
		deadline := time.Now().Add(60 * time.Second)
		for _, tab := range s.Tables() {
			for {
				got, err := h.tryRows("SELECT * FROM " + tab.Schema.Table)
				if err == nil && strings.Join(got, "\n") == strings.Join(s.Rows(tab), "\n") {
					break
				}
				if time.Now().After(deadline) {
					t.Fatalf("%s: %d rows in the target, %d in the source, %v", tab.Schema.Collection(), len(got), len(s.Rows(tab)), err)
				}
				time.Sleep(50 * time.Millisecond)
			}
		}
		count := h.rows(t, "SELECT count(*) FROM audit")
		if want := fmt.Sprint(s.Events); count[0] != want {
			t.Errorf("the target has taken %s changes, the log has %s", count[0], want)
		}
		t.Logf("%d transactions, %d changes, %d kills, %d restarts of the target", s.Count, s.Events, kills, restarts)
	})
}
