package limits

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rowtrail/rowtrail/itest/process"
	"github.com/rowtrail/rowtrail/itest/servers"
	"github.com/twmb/franz-go/pkg/kgo"
)

// refused runs the binary, which must end with an error, and returns what it wrote to standard error.
func refused(t *testing.T, bin string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	var stdout, stderr strings.Builder
	cmd := exec.CommandContext(ctx, bin, args...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if err == nil || ctx.Err() != nil {
		t.Fatalf("rowtrail %s: %v, want it to end with an error by itself\n%s%s", strings.Join(args, " "), err, &stdout, &stderr)
	}
	return stdout.String() + stderr.String()
}

// errorLine finds the one line that matches and fails when the output has a stack trace or no such line.
func errorLine(t *testing.T, out, pattern string) {
	t.Helper()
	if strings.Contains(out, "goroutine ") {
		t.Errorf("a stack trace:\n%s", out)
	}
	matches := 0
	for _, line := range strings.Split(out, "\n") {
		if regexp.MustCompile(pattern).MatchString(line) {
			matches++
		}
	}
	if matches != 1 {
		t.Errorf("want one line that matches %q, got %d in:\n%s", pattern, matches, out)
	}
}

// TestBadInputNamesTheRemedy: each mistake that a user can make ends in one line that says what to do.
func TestBadInputNamesTheRemedy(t *testing.T) {
	bin := binary(t)
	ctx := context.Background()
	good := servers.ForTest(t, servers.Options{})
	plain := servers.ForTest(t, servers.Options{Settings: map[string]string{"wal_level": "replica"}})
	dsn, err := good.CreateDatabase(ctx, "shop")
	if err != nil {
		t.Fatal(err)
	}
	conn := connect(t, dsn)
	run(t, conn, "CREATE TABLE t (id int PRIMARY KEY); CREATE TABLE nokey (a int); CREATE ROLE visitor LOGIN")
	run(t, connect(t, plain.DSN("postgres")), "CREATE TABLE t (id int PRIMARY KEY)")
	connector := func(dsn, table string) process.Config {
		return process.Config{Connectors: []process.Connector{{Name: "shop", Config: map[string]string{
			"database.dsn": dsn, "topic.prefix": "shop", "table.include.list": table}}}}
	}
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	for _, c := range []struct {
		name string
		cfg  process.Config
		want string
	}{
		{"wrong DSN", connector("postgres://postgres:secret@"+closed.Addr().String()+"/shop", `public\.t`), `(?i)connect.*refused`},
		{"no such database", connector(good.DSN("nowhere"), `public\.t`), `nowhere`},
		{"missing permission", connector(strings.Replace(dsn, "postgres@", "visitor@", 1), `public\.t`), `ALTER ROLE "?visitor"? .*REPLICATION`},
		{"wal_level", connector(plain.DSN("postgres"), `public\.t`), `ALTER SYSTEM SET wal_level = '?logical`},
		{"replica identity", connector(dsn, `public\.nokey`), `ALTER TABLE "?public"?\."?nokey"? `},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := node(t, bin, c.cfg)
			out := refused(t, bin, "check", "--connect", "-c", n.ConfigFile())
			errorLine(t, out, c.want)
			if strings.Contains(out, "secret") {
				t.Errorf("a password is printed:\n%s", out)
			}
		})
	}
	t.Run("unknown YAML key", func(t *testing.T) {
		n := node(t, bin, process.Config{Node: map[string]string{"data_dri": "x"}})
		errorLine(t, refused(t, bin, "serve", "-c", n.ConfigFile()), `rowtrail\.yaml:\d+: .*data_dri.*data_dir`)
	})
	t.Run("port taken", func(t *testing.T) {
		n := node(t, bin, process.Config{})
		l, err := net.Listen("tcp", n.Kafka)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		errorLine(t, refused(t, bin, "serve", "-c", n.ConfigFile()), regexp.QuoteMeta(n.Kafka)+`.*taken`)
	})
	t.Run("data directory locked", func(t *testing.T) {
		n := node(t, bin, process.Config{})
		start(t, n)
		other := node(t, bin, process.Config{Node: map[string]string{"data_dir": n.DataDir()}})
		errorLine(t, refused(t, bin, "serve", "-c", other.ConfigFile()), `data directory is in use.*`+fmt.Sprint(n.PID()))
	})
	t.Run("data directory of a newer format", func(t *testing.T) {
		n := node(t, bin, process.Config{})
		start(t, n)
		if err := n.Stop(); err != nil {
			t.Fatal(err)
		}
		formats := 0
		err := filepath.WalkDir(n.DataDir(), func(path string, d os.DirEntry, err error) error {
			if err == nil && d.Name() == "FORMAT" {
				formats++
				text, err := os.ReadFile(path)
				if err != nil {
					return err
				}
				return os.WriteFile(path, regexp.MustCompile(`\d+`).ReplaceAll(text, []byte("999")), 0o644)
			}
			return err
		})
		if err != nil || formats == 0 {
			t.Fatalf("%d FORMAT files, %v", formats, err)
		}
		errorLine(t, refused(t, bin, "serve", "-c", n.ConfigFile()), `format.*999`)
	})
}

// TestDiskFull: on a small file system writes are refused at the watermark with one line, reads go on, nothing acknowledged is
// lost, and writes resume when space returns.
func TestDiskFull(t *testing.T) {
	bin := binary(t)
	n := node(t, bin, process.Config{Node: map[string]string{"min_free_bytes": "96MiB"}})
	if err := os.MkdirAll(n.DataDir(), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("tmpfs", n.DataDir(), "tmpfs", 0, "size=256m"); err != nil {
		t.Skipf("mounting a small file system needs root: %v", err)
	}
	t.Cleanup(func() {
		n.Kill()
		if err := syscall.Unmount(n.DataDir(), 0); err != nil {
			t.Errorf("unmount: %v", err)
		}
	})
	start(t, n)
	createTopic(t, n, "fill", nil)
	ballast := filepath.Join(n.DataDir(), "ballast")
	if err := os.WriteFile(ballast, make([]byte, 64<<20), 0o644); err != nil {
		t.Fatal(err)
	}
	client, err := n.Client(kgo.DefaultProduceTopic("fill"), kgo.ProducerBatchCompression(kgo.NoCompression()),
		kgo.RecordDeliveryTimeout(5*time.Second), kgo.MaxBufferedRecords(10_000))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	acknowledged := 0
	produceSome := func() error {
		var batch []*kgo.Record
		for range 64 {
			batch = append(batch, &kgo.Record{Value: []byte(strings.Repeat("x", 16<<10))})
		}
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		results := client.ProduceSync(ctx, batch...)
		for _, r := range results {
			if r.Err == nil {
				acknowledged++
			}
		}
		return results.FirstErr()
	}
	var full error
	for i := 0; full == nil && i < 512; i++ {
		full = produceSome()
	}
	if full == nil {
		t.Fatal("512 MiB went into a file system of 256 MiB")
	}
	read := func() int {
		reader, err := n.Client(kgo.ConsumeTopics("fill"))
		if err != nil {
			t.Fatal(err)
		}
		defer reader.Close()
		count := 0
		for {
			ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
			fetches := reader.PollFetches(ctx)
			cancel()
			if fetches.NumRecords() == 0 {
				return count
			}
			count += fetches.NumRecords()
		}
	}
	if got := read(); got < acknowledged {
		t.Errorf("%d records acknowledged, %d readable on the full disk", acknowledged, got)
	}
	errorLine(t, logLines(t, n, "refused"), `appends are refused`)
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	eventually(t, 30*time.Second, "writes resume when space returns", func() bool { return produceSome() == nil })
	if err := n.Kill(); err != nil {
		t.Fatal(err)
	}
	start(t, n)
	if got := read(); got < acknowledged {
		t.Errorf("%d records acknowledged, %d readable after a kill", acknowledged, got)
	}
	fmt.Printf("itest: disk full after %d records: refused, read, resumed, none lost\n", acknowledged)
}

// logLines are the lines of the node's output that contain a word.
func logLines(t *testing.T, n *process.Rowtrail, word string) string {
	t.Helper()
	b, err := os.ReadFile(n.LogFile())
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, line := range strings.Split(string(b), "\n") {
		if strings.Contains(line, word) {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "\n")
}
