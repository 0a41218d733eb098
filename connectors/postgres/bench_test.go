package postgres

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/rowtrail/rowtrail/connectors"
)

// externalLog runs the log in another process, so that this one's memory and CPU are the connector's.
func externalLog(t testing.TB) *testLog {
	t.Helper()
	if addr := os.Getenv("ROWTRAIL_BENCH_BROKERS"); addr != "" { // any other log, one run per log
		return &testLog{t: t, brokers: addr, opts: []kgo.Opt{kgo.SeedBrokers(strings.Split(addr, ",")...)}}
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"=log")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	var addr string
	if _, err := fmt.Fscanln(out, &addr); err != nil {
		t.Fatal(err)
	}
	return &testLog{t: t, brokers: addr, opts: []kgo.Opt{kgo.SeedBrokers(strings.Split(addr, ",")...)}}
}

// logMain serves a log until it is killed.
func logMain() int {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.DefaultNumPartitions(4))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Println(strings.Join(cluster.ListenAddrs(), ","))
	select {}
}

func cpu() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// capture measures how long the connector takes for what is in the slot.
func capture(b *testing.B, l *testLog, c *Config, events uint64) {
	began, used := time.Now(), cpu()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	r := start(b, l, c)
	for r.c.Status().Events < events {
		if s := r.c.Status(); s.State == connectors.StateFailed || time.Since(began) > 2*time.Minute {
			b.Fatalf("%+v", s)
		}
		time.Sleep(5 * time.Millisecond)
	}
	took := time.Since(began)
	runtime.ReadMemStats(&after)
	b.ReportMetric(float64(events)/took.Seconds(), "events/s")
	b.ReportMetric(float64((cpu()-used).Nanoseconds())/float64(events), "cpu-ns/event")
	b.ReportMetric(float64(after.Mallocs-before.Mallocs)/float64(events), "allocs/event")
	r.c.mu.Lock()
	_, commits := r.c.current.writer.Counts()
	r.c.mu.Unlock()
	b.ReportMetric(float64(events)/float64(commits), "events/commit")
	if err := r.stop(); err != nil {
		b.Fatal(err)
	}
}

const benchTable = "CREATE TABLE t (id bigint PRIMARY KEY, name text NOT NULL, amount numeric(10,2), created timestamptz NOT NULL DEFAULT now(), done boolean)"

// prepared stops a connector after its empty load, so that what follows waits in the slot.
func prepared(b *testing.B, d *database, l *testLog) *Config {
	d.exec(benchTable)
	c := config(b, d, map[string]string{"topic.prefix": "bench_" + d.name})
	if codec := os.Getenv("ROWTRAIL_BENCH_CODEC"); codec != "" {
		c.Compression = codec
	}
	if err := start(b, l, c).stopAfterStreaming(); err != nil {
		b.Fatal(err)
	}
	return c
}

func (r *running) stopAfterStreaming() error { return r.streaming().stop() }

func BenchmarkOneTransaction(b *testing.B) {
	d, l := newDatabase(b, nil), externalLog(b)
	c := prepared(b, d, l)
	n := max(b.N, 1000)
	d.exec(fmt.Sprintf("INSERT INTO t SELECT i, 'name ' || i, i / 7.0, now(), i %% 2 = 0 FROM generate_series(1, %d) i", n))
	b.ResetTimer()
	capture(b, l, c, uint64(n))
}

func BenchmarkOneRowTransactions(b *testing.B) {
	d, l := newDatabase(b, nil), externalLog(b)
	c := prepared(b, d, l)
	n := max(b.N, 1000)
	d.exec("SET synchronous_commit = off", fmt.Sprintf("DO $$ BEGIN FOR i IN 1..%d LOOP INSERT INTO t VALUES (i, 'name ' || i, i / 7.0, now(), true); COMMIT; END LOOP; END $$", n))
	b.ResetTimer()
	capture(b, l, c, uint64(n))
}

func BenchmarkInitialLoad(b *testing.B) {
	d, l := newDatabase(b, nil), externalLog(b)
	d.exec(benchTable)
	n := max(b.N, 1000)
	d.exec(fmt.Sprintf("INSERT INTO t SELECT i, 'name ' || i, i / 7.0, now(), i %% 2 = 0 FROM generate_series(1, %d) i", n), "ANALYZE t")
	b.ResetTimer()
	capture(b, l, config(b, d, map[string]string{"topic.prefix": "bench_" + d.name}), uint64(n))
}
