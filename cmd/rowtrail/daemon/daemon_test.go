package daemon

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/goleak"

	"github.com/rowtrail/rowtrail/cmd/rowtrail/admin"
	"github.com/rowtrail/rowtrail/configs"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

func parse(t *testing.T, dir, more string) *configs.Config {
	t.Helper()
	text := fmt.Sprintf("node: {data_dir: %q, min_free_bytes: 1MiB}\nlisten: {kafka: \"127.0.0.1:0\", http: \"127.0.0.1:0\"}\n%s", dir, more)
	cfg, err := configs.Parse("test.yaml", []byte(text), configs.OS())
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

func start(t *testing.T, cfg *configs.Config) *Daemon {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	d, err := Start(ctx, cfg, Options{Logger: slog.New(slog.DiscardHandler), Version: "test"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(t, d) })
	return d
}

func stop(t *testing.T, d *Daemon) {
	t.Helper()
	http.DefaultClient.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := d.Stop(ctx); err != nil {
		t.Error(err)
	}
}

func get(t *testing.T, d *Daemon, path string) (int, string) {
	t.Helper()
	resp, err := http.Get("http://" + d.HTTPAddress() + path)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

// produce writes one version of a row over the network.
func produce(t *testing.T, d *Daemon, topic, key, value string) int64 {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(d.KafkaAddress()), kgo.AllowAutoTopicCreation())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	r := &kgo.Record{Topic: topic, Key: []byte(key)}
	if value != "" {
		r.Value = []byte(value)
	}
	if err := client.ProduceSync(ctx, r).FirstErr(); err != nil {
		t.Fatal(err)
	}
	return r.Offset
}

// eventually waits for views, which fold behind the log.
func eventually(t *testing.T, what string, check func() (bool, string)) {
	t.Helper()
	deadline := time.Now().Add(15 * time.Second)
	for {
		ok, got := check()
		if ok {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: still %s", what, got)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func TestNodeServesAndComesBack(t *testing.T) {
	dir := t.TempDir()
	d := start(t, parse(t, dir, ""))
	if status, body := get(t, d, "/readyz"); status != 200 {
		t.Fatalf("readyz: %d %s", status, body)
	}
	first := produce(t, d, "users", `{"id":1}`, `{"name":"a"}`)
	second := produce(t, d, "users", `{"id":1}`, `{"name":"b"}`)
	produce(t, d, "users", `{"id":2}`, `{"name":"c"}`)
	check := func(d *Daemon) {
		t.Helper()
		eventually(t, "state", func() (bool, string) {
			status, body := get(t, d, "/v1/state/users/1")
			return status == 200 && strings.Contains(body, `"value":{"name":"b"}`), body
		})
		if status, body := get(t, d, fmt.Sprintf("/v1/state/users/1?at=%d", first)); status != 200 || !strings.Contains(body, `{"name":"a"}`) {
			t.Errorf("state as of offset %d: %d %s", first, status, body)
		}
		_, body := get(t, d, "/v1/history/users/1")
		var offsets []int64
		for line := range strings.Lines(body) {
			var row admin.Row
			if err := json.Unmarshal([]byte(line), &row); err != nil {
				t.Fatal(err)
			}
			offsets = append(offsets, row.Offset)
		}
		if fmt.Sprint(offsets) != fmt.Sprint([]int64{first, second}) {
			t.Errorf("history at offsets %v", offsets)
		}
		if _, body := get(t, d, "/v1/state/users"); strings.Count(body, "\n") != 2 {
			t.Errorf("all rows: %s", body)
		}
		if _, body := get(t, d, "/metrics"); !strings.Contains(body, `rowtrail_partition_high_watermark{partition="0",topic="users"} 3`) {
			t.Error("metrics lack the high watermark")
		}
	}
	check(d)
	cluster := d.node.ClusterID()
	stop(t, d)

	d = start(t, parse(t, dir, ""))
	check(d)
	if d.node.ClusterID() != cluster {
		t.Errorf("cluster id was %s and is %s", cluster, d.node.ClusterID())
	}
	// A deleted topic is gone from the views, and its name may be used again.
	client, err := kgo.NewClient(kgo.SeedBrokers(d.KafkaAddress()))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if _, err := kadm.NewClient(client).DeleteTopics(context.Background(), "users"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "deleted topic", func() (bool, string) {
		status, body := get(t, d, "/v1/state/users")
		return status == 404, body
	})
	produce(t, d, "users", `{"id":9}`, `{"name":"z"}`)
	eventually(t, "topic made anew", func() (bool, string) {
		_, body := get(t, d, "/v1/state/users")
		return strings.Count(body, "\n") == 1 && strings.Contains(body, `"name":"z"`), body
	})
}

func TestStartErrorsNameTheRemedy(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	dir := t.TempDir()
	start(t, parse(t, dir, ""))
	cases := []struct{ name, yaml, want string }{
		{"Kafka port taken", fmt.Sprintf("node: {data_dir: %q}\nlisten: {kafka: %q, http: \"\"}", t.TempDir(), taken.Addr()),
			fmt.Sprintf("listen on %s: the port is taken by another process; stop it, or set listen.kafka to a free port", taken.Addr())},
		{"HTTP port taken", fmt.Sprintf("node: {data_dir: %q}\nlisten: {kafka: \"127.0.0.1:0\", http: %q}", t.TempDir(), taken.Addr()),
			fmt.Sprintf("listen on %s: the port is taken by another process; stop it, or set listen.http to a free port", taken.Addr())},
		{"foreign address", fmt.Sprintf("node: {data_dir: %q}\nlisten: {kafka: \"192.0.2.1:0\", http: \"\"}", t.TempDir()),
			"listen on 192.0.2.1:0: this machine has no such address; set listen.kafka to one of its own"},
		{"data directory locked", fmt.Sprintf("node: {data_dir: %q}\nlisten: {kafka: \"127.0.0.1:0\", http: \"\"}", dir),
			fmt.Sprintf("open node.data_dir: data directory is in use: %s/log is open in process %d; stop it or choose another data directory", dir, os.Getpid())},
		{"data directory in a file", fmt.Sprintf("node: {data_dir: %q}\nlisten: {kafka: \"127.0.0.1:0\", http: \"\"}", "/dev/null/x"),
			"create node.data_dir: mkdir /dev/null: not a directory; make its parent writable, or name another directory"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			cfg, err := configs.Parse("test.yaml", []byte(c.yaml), configs.OS())
			if err != nil {
				t.Fatal(err)
			}
			d, err := Start(context.Background(), cfg, Options{})
			if err == nil {
				stop(t, d)
				t.Fatal("started")
			}
			if !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("got  %v\nwant %s", err, c.want)
			}
		})
	}
}

// TestDiskNearlyFull: below the watermark writes are refused and said to be, reads go on, and with space writes resume.
func TestDiskNearlyFull(t *testing.T) {
	dir := t.TempDir()
	d := start(t, parse(t, dir, ""))
	produce(t, d, "things", `{"id":1}`, `"v"`)
	stop(t, d)

	cfg := parse(t, dir, "")
	cfg.Node.MinFreeBytes = 1 << 60
	if _, err := Start(context.Background(), cfg, Options{}); err == nil || !strings.HasSuffix(err.Error(), "; free space there, or lower node.min_free_bytes") {
		t.Errorf("starts on a disk with no space at all: %v", err)
	}
	_, free := d.diskSpace()
	cfg.Node.MinFreeBytes = configs.Size(2 * free)
	d = start(t, cfg)
	client, err := kgo.NewClient(kgo.SeedBrokers(d.KafkaAddress()), kgo.RecordDeliveryTimeout(2*time.Second), kgo.RecordRetries(1))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	if err := client.ProduceSync(ctx, &kgo.Record{Topic: "things", Key: []byte("k"), Value: []byte("v")}).FirstErr(); err == nil {
		t.Error("a write is accepted below the watermark")
	}
	if status, body := get(t, d, "/readyz"); status != 503 || !strings.Contains(body, "writes are refused: data directory is below its free space watermark") || !strings.Contains(body, "free space or lower retention") {
		t.Errorf("readyz: %d %s", status, body)
	}
	reading, cancelRead := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancelRead()
	client.AddConsumePartitions(map[string]map[int32]kgo.Offset{"things": {0: kgo.NewOffset().AtStart()}})
	if got := client.PollFetches(reading); got.NumRecords() != 1 || got.Err() != nil {
		t.Errorf("read %d records, %v", got.NumRecords(), got.Err())
	}
	stop(t, d)

	d = start(t, parse(t, dir, ""))
	produce(t, d, "things", `{"id":2}`, `"v"`)
	if status, body := get(t, d, "/readyz"); status != 200 {
		t.Errorf("readyz: %d %s", status, body)
	}
}
