package postgres

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

// childEnv makes this test binary a sink in a process of its own: seeds, dsn.
const childEnv = "ROWTRAIL_SINK_TEST_CHILD"

// runChild runs a sink until it is killed.
func runChild() int {
	seeds, dsn, _ := strings.Cut(os.Getenv(childEnv), " ")
	c, errs := ParseConfig("w", []string{"shop.public.*"}, map[string]string{"dsn": dsn, "batch.max.rows": "40"})
	if len(errs) > 0 {
		fmt.Fprintln(os.Stderr, errs)
		return 1
	}
	logger := slog.New(slog.NewTextHandler(os.Stderr, nil))
	r, err := New(c, sink.Deps{Client: []kgo.Opt{kgo.SeedBrokers(strings.Split(seeds, ",")...)}, Logger: logger, Instance: "node-1"})
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
func child(t *testing.T, seeds []string, dsn string) (kill func()) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), childEnv+"="+strings.Join(seeds, ",")+" "+dsn)
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

// auditSQL lets the target count every change that it takes. A row trigger makes the sink write in source order.
const auditSQL = `CREATE TABLE public.audit (n bigserial, what text);
CREATE FUNCTION public.audited() RETURNS trigger LANGUAGE plpgsql AS
	'BEGIN
		INSERT INTO public.audit (what) VALUES (TG_TABLE_NAME || TG_OP);
		IF TG_OP = ''UPDATE'' THEN -- a key change without its large column is two events and one statement
			IF OLD.id <> NEW.id THEN INSERT INTO public.audit (what) VALUES (TG_TABLE_NAME || TG_OP); END IF;
		END IF;
		RETURN NULL;
	END';
CREATE TABLE public.orders (id integer PRIMARY KEY, customer integer, note text, state text);
CREATE TABLE public.customers (id integer PRIMARY KEY, email text);
CREATE TABLE public.accounts (id integer PRIMARY KEY, balance bigint);
CREATE TRIGGER a AFTER INSERT OR UPDATE OR DELETE ON public.orders FOR EACH ROW EXECUTE FUNCTION public.audited();
CREATE TRIGGER a AFTER INSERT OR UPDATE OR DELETE ON public.customers FOR EACH ROW EXECUTE FUNCTION public.audited();
CREATE TRIGGER a AFTER INSERT OR UPDATE OR DELETE ON public.accounts FOR EACH ROW EXECUTE FUNCTION public.audited();
CREATE TRIGGER b AFTER TRUNCATE ON public.customers FOR EACH STATEMENT EXECUTE FUNCTION public.audited();`

// SIGKILL of the sink at random moments and restarts of the target: every change is applied once, whole transactions only.
func TestKilledSinkAppliesExactlyOnce(t *testing.T) {
	ctx := context.Background()
	pg, err := servers.StartPostgres(ctx, servers.Options{})
	if err != nil {
		t.Fatalf("start Postgres: %v", err)
	}
	t.Cleanup(func() { _ = pg.Close() })
	dsn := pg.DSN("postgres")
	conn := open(t, dsn)
	must(t, conn, auditSQL)
	_ = conn.Close(ctx)

	l := sinktest.NewLog(t, "shop")
	s := sinktest.NewSource(t, l, 3)
	rng := rand.New(rand.NewPCG(rand.Uint64(), 7))
	const kills, restarts = 8, 2
	for i := range kills {
		kill := child(t, l.Seeds(), dsn)
		for deadline := time.Now().Add(time.Duration(150+rng.IntN(350)) * time.Millisecond); time.Now().Before(deadline); {
			s.Work(t, rng, 5)
			time.Sleep(5 * time.Millisecond)
		}
		if i%(kills/restarts) == kills/restarts-1 {
			if err := pg.Restart(ctx, servers.Immediate); err != nil {
				t.Fatalf("restart target: %v", err)
			}
		}
		kill()
	}
	kill := child(t, l.Seeds(), dsn)
	defer kill()
	conn = open(t, dsn)
	deadline := time.Now().Add(60 * time.Second)
	for _, tab := range s.Tables() {
		for {
			got, err := tryRows(conn, "SELECT * FROM "+tab.Schema.Collection())
			if err == nil && strings.Join(got, "\n") == strings.Join(s.Rows(tab), "\n") {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("%s: %d rows in the target, %d in the source, %v", tab.Schema.Collection(), len(got), len(s.Rows(tab)), err)
			}
			time.Sleep(50 * time.Millisecond)
		}
	}
	// A truncate is one event here and one statement; deletes of rows that are there count one each.
	count := rows(t, conn, "SELECT count(*) FROM public.audit")
	if want := fmt.Sprint(s.Events); count[0] != want {
		t.Errorf("the target has taken %s changes, the log has %s", count[0], want)
	}
	t.Logf("%d transactions, %d changes, %d kills, %d restarts of the target", s.Count, s.Events, kills, restarts)
}
