// Package limits holds the bounds that Rowtrail promises, each run against the real binary: memory under a huge source
// transaction, disk under retention, time to open, a dead sink, bad input.
package limits

import (
	"context"
	"crypto/rand"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/rowtrail/rowtrail/itest/process"
	"github.com/rowtrail/rowtrail/itest/servers"
	"github.com/rowtrail/rowtrail/itest/shop"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	memoryBound     = 300 << 20
	hugeTransaction = 2_000_000
	smallPerSecond  = 1000
	volume          = 2 << 30
	retention       = 128 << 20
	diskBound       = 1 << 30
	openBound       = 2 * time.Second
)

func binary(t *testing.T) string {
	t.Helper()
	if testing.Short() {
		t.Skip("runs the whole binary against real servers for up to minutes; run without -short")
	}
	path, err := process.Build(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func node(t *testing.T, binary string, cfg process.Config) *process.Rowtrail {
	t.Helper()
	n, err := process.New(binary, t.TempDir(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("last lines of rowtrail:\n%s", n.Tail(30))
		}
		n.Kill()
	})
	return n
}

func start(t *testing.T, n *process.Rowtrail) {
	t.Helper()
	if err := n.Start(); err != nil {
		t.Fatal(err)
	}
	if err := n.WaitReady(context.Background()); err != nil {
		t.Fatal(err)
	}
}

func connect(t *testing.T, dsn string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(context.Background(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.Background()) })
	return conn
}

func run(t *testing.T, conn *pgx.Conn, sql string, args ...any) {
	t.Helper()
	if _, err := conn.Exec(context.Background(), sql, args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

func one[T any](t *testing.T, conn *pgx.Conn, sql string, args ...any) T {
	t.Helper()
	var v T
	if err := conn.QueryRow(context.Background(), sql, args...).Scan(&v); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return v
}

// eventually polls until ok, failing with what at the deadline.
func eventually(t *testing.T, within time.Duration, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(within)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("not within %s: %s", within, what)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

func streaming(n *process.Rowtrail) func() bool {
	return func() bool {
		var status []struct{ State string }
		return n.JSON(context.Background(), "/v1/connectors", &status) == nil && len(status) == 1 && status[0].State == "streaming"
	}
}

// TestHugeTransactionStaysInMemory: 2 million rows in one source transaction pass through log and sink while 1,000 small
// transactions a second go on, with the process under 300 MB of anonymous memory.
func TestHugeTransactionStaysInMemory(t *testing.T) {
	bin := binary(t)
	ctx := context.Background()
	p := servers.ForTest(t, servers.Options{Settings: map[string]string{"max_wal_size": "8GB"}})
	source, err := p.CreateDatabase(ctx, "source")
	if err != nil {
		t.Fatal(err)
	}
	target, err := p.CreateDatabase(ctx, "target")
	if err != nil {
		t.Fatal(err)
	}
	conn := connect(t, source)
	run(t, conn, `CREATE TABLE huge (id bigint PRIMARY KEY, rev int NOT NULL, note text);
		CREATE TABLE small (id bigint PRIMARY KEY, rev int NOT NULL, note text)`)
	n := node(t, bin, process.Config{
		Connectors: []process.Connector{{Name: "shop", Config: map[string]string{"database.dsn": source, "topic.prefix": "shop", "table.include.list": `public\..*`}}},
		Sinks:      []process.Sink{{Name: "copy", Topics: []string{"shop.public.*"}, Config: map[string]string{"dsn": target}}},
	})
	start(t, n)
	eventually(t, time.Minute, "streaming", streaming(n))

	small := startSmall(t, source)
	stopPeak := watchMemory(n)
	run(t, conn, fmt.Sprintf("INSERT INTO huge SELECT i, 1, 'row ' || i FROM generate_series(1, %d) i", hugeTransaction))
	inserted := time.Now()
	targetConn := connect(t, target)
	eventually(t, 5*time.Minute, "the huge transaction at the target", func() bool {
		var count int
		err := targetConn.QueryRow(ctx, "SELECT count(*) FROM huge").Scan(&count)
		if err == nil && count != 0 && count != hugeTransaction {
			t.Fatalf("the target shows %d of %d rows of one transaction", count, hugeTransaction)
		}
		return err == nil && count == hugeTransaction
	})
	passed := time.Since(inserted)
	rate := small.stop(t)
	eventually(t, 3*time.Minute, "source and target equal", func() bool {
		different, err := shop.Compare(ctx, shop.Postgres(source), shop.Postgres(target), []string{"public.huge", "public.small"})
		return err == nil && len(different) == 0
	})
	top := stopPeak()
	fmt.Printf("itest: %d rows in one transaction passed in %s beside %.0f small transactions/s; RssAnon at most %d MB\n",
		hugeTransaction, passed.Round(time.Second), rate, top>>20)
	if top > memoryBound {
		t.Errorf("RssAnon reached %d MB, want at most %d MB", top>>20, memoryBound>>20)
	}
	if rate < 0.95*smallPerSecond {
		t.Errorf("only %.0f small transactions/s were committed meanwhile, want %d", rate, smallPerSecond)
	}
}

// small is a steady writer of one-row transactions.
type small struct {
	began     time.Time
	committed atomic.Int64
	quit      chan struct{}
	done      chan error
	sessions  int
}

// startSmall writes at smallPerSecond from several sessions; a session that falls behind catches up.
func startSmall(t *testing.T, dsn string) *small {
	t.Helper()
	const sessions = 8
	s := &small{began: time.Now(), quit: make(chan struct{}), done: make(chan error, sessions), sessions: sessions}
	for n := range sessions {
		conn := connect(t, dsn)
		go func() {
			_, err := conn.Exec(context.Background(), "SET synchronous_commit = off")
			next := s.began
			for id := int64(n); err == nil; id += sessions {
				next = next.Add(sessions * time.Second / smallPerSecond)
				select {
				case <-s.quit:
					s.done <- nil
					return
				case <-time.After(time.Until(next)):
				}
				if _, err = conn.Exec(context.Background(), "INSERT INTO small VALUES ($1, 1, 'small')", id); err == nil {
					s.committed.Add(1)
				}
			}
			s.done <- err
		}()
	}
	return s
}

// stop ends the writer and returns its rate in transactions per second.
func (s *small) stop(t *testing.T) float64 {
	t.Helper()
	close(s.quit)
	for range s.sessions {
		if err := <-s.done; err != nil {
			t.Fatal(err)
		}
	}
	return float64(s.committed.Load()) / time.Since(s.began).Seconds()
}

// watchMemory samples RssAnon until stop is called, which returns the peak.
func watchMemory(n *process.Rowtrail) (stop func() int64) {
	quit, done := make(chan struct{}), make(chan int64)
	var peak int64
	go func() {
		for {
			if m, err := n.Memory(); err == nil {
				peak = max(peak, m.Anonymous)
			}
			select {
			case <-quit:
				done <- peak
				return
			case <-time.After(100 * time.Millisecond):
			}
		}
	}()
	return func() int64 { close(quit); return <-done }
}

// TestDeadSinkDoesNotHoldTheSource: with the sink's database gone, the slot's confirmed position keeps advancing through
// WAL that takes a steady writer ten minutes, and once the database is back the target becomes equal.
func TestDeadSinkDoesNotHoldTheSource(t *testing.T) {
	bin := binary(t)
	ctx := context.Background()
	p, q := servers.ForTest(t, servers.Options{}), servers.ForTest(t, servers.Options{})
	source, err := p.CreateDatabase(ctx, "source")
	if err != nil {
		t.Fatal(err)
	}
	target, err := q.CreateDatabase(ctx, "target")
	if err != nil {
		t.Fatal(err)
	}
	conn := connect(t, source)
	run(t, conn, "CREATE TABLE t (id bigint PRIMARY KEY, rev int NOT NULL, note text)")
	n := node(t, bin, process.Config{
		Connectors: []process.Connector{{Name: "shop", Config: map[string]string{"database.dsn": source, "topic.prefix": "shop", "table.include.list": `public\.t`, "status.update.interval.ms": "1000"}}},
		Sinks:      []process.Sink{{Name: "copy", Topics: []string{"shop.public.*"}, Config: map[string]string{"dsn": target}}},
	})
	start(t, n)
	eventually(t, time.Minute, "streaming", streaming(n))
	if err := q.Stop(ctx, servers.Immediate); err != nil {
		t.Fatal(err)
	}
	// Ten minutes of a writer of 200 rows of 1 kB a second.
	const steps, perStep = 24, 5000
	confirmed := func() int64 {
		return one[int64](t, conn, "SELECT (confirmed_flush_lsn - '0/0'::pg_lsn)::bigint FROM pg_replication_slots WHERE database = 'source' AND plugin = 'pgoutput'")
	}
	first := confirmed()
	for i := range steps {
		run(t, conn, fmt.Sprintf("INSERT INTO t SELECT i, 1, repeat(md5(i::text), 32) FROM generate_series(%d, %d) i", i*perStep+1, (i+1)*perStep))
		end := one[int64](t, conn, "SELECT (pg_current_wal_flush_lsn() - '0/0'::pg_lsn)::bigint")
		eventually(t, 30*time.Second, "the slot confirmed the WAL of a step", func() bool { return confirmed() >= end })
	}
	fmt.Printf("itest: sink down: the slot's confirmed_flush_lsn advanced over %d MB of WAL\n", (confirmed()-first)>>20)
	if err := q.Start(ctx); err != nil {
		t.Fatal(err)
	}
	eventually(t, 2*time.Minute, "the target caught up", func() bool {
		different, err := shop.Compare(ctx, shop.Postgres(source), shop.Postgres(target), []string{"public.t"})
		return err == nil && len(different) == 0
	})
}

// produce writes total bytes of random 1 kB records.
func produce(t *testing.T, n *process.Rowtrail, topic string, total int) {
	t.Helper()
	client, err := n.Client(kgo.DefaultProduceTopic(topic), kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.MaxBufferedRecords(50_000))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	payload := make([]byte, 1<<20)
	rand.Read(payload)
	failed := make(chan error, 1)
	for sent := 0; sent < total; sent += 1024 {
		at := sent % (len(payload) - 1024)
		client.Produce(context.Background(), &kgo.Record{Value: payload[at : at+1024]}, func(_ *kgo.Record, err error) {
			if err != nil {
				select {
				case failed <- err:
				default:
				}
			}
		})
	}
	if err := client.Flush(context.Background()); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-failed:
		t.Fatal(err)
	default:
	}
}

func createTopic(t *testing.T, n *process.Rowtrail, name string, configs map[string]*string) {
	t.Helper()
	client, err := n.Client()
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if _, err := kadm.NewClient(client).CreateTopic(context.Background(), 1, 1, configs, name); err != nil {
		t.Fatal(err)
	}
}

// diskUse is what the directory takes on disk: blocks, not lengths of sparse files.
func diskUse(t *testing.T, dir string) int64 {
	t.Helper()
	var total int64
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return nil // a file that went away meanwhile
		}
		total += blocks(path)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return total
}

// TestRetentionGivesDiskBack: 2 GB through a topic that keeps 128 MB leave the data directory under 1 GB all along.
func TestRetentionGivesDiskBack(t *testing.T) {
	n := node(t, binary(t), process.Config{})
	start(t, n)
	keep := fmt.Sprint(retention)
	createTopic(t, n, "flow", map[string]*string{"retention.bytes": &keep})
	var peak int64
	began := time.Now()
	for range 16 {
		produce(t, n, "flow", volume/16)
		peak = max(peak, diskUse(t, n.DataDir()))
	}
	took := time.Since(began)
	fmt.Printf("itest: %d MB through retention.bytes=%d MB in %s: data directory at most %d MB\n", volume>>20, retention>>20, took.Round(time.Second), peak>>20)
	if peak > diskBound {
		t.Errorf("the data directory reached %d MB, want under %d MB", peak>>20, diskBound>>20)
	}
}

// TestOpensFast: a data directory of 1 GB is open and ready in under 2 s, after a clean stop and after a SIGKILL.
func TestOpensFast(t *testing.T) {
	n := node(t, binary(t), process.Config{})
	start(t, n)
	createTopic(t, n, "big", nil)
	produce(t, n, "big", 1<<30)
	for _, end := range []struct {
		name string
		stop func() error
	}{{"a clean stop", n.Stop}, {"SIGKILL", n.Kill}} {
		if err := end.stop(); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		start(t, n)
		took := time.Since(began)
		fmt.Printf("itest: a data directory of %d MB was open and ready in %s after %s\n", diskUse(t, n.DataDir())>>20, took.Round(time.Millisecond), end.name)
		if took > openBound {
			t.Errorf("ready after %s, want under %s", took, openBound)
		}
	}
}

func blocks(path string) int64 {
	info, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return statBlocks(info)
}
