package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"github.com/rowtrail/rowtrail/cluster"
	"github.com/rowtrail/rowtrail/cluster/peer"
	"github.com/rowtrail/rowtrail/connectors"
	"github.com/rowtrail/rowtrail/log"
	"github.com/rowtrail/rowtrail/log/broker"
	"github.com/rowtrail/rowtrail/sink"
	"github.com/rowtrail/rowtrail/snapshot"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fakeNode is a node with two topics, a loading connector and a poisoned sink.
type fakeNode struct{ reasons []string }

func (fakeNode) Topics() []Topic {
	lastRound := time.UnixMilli(1_700_000_000_500)
	return []Topic{
		{Name: "__consumer_offsets", Internal: true, Config: map[string]string{}, Partitions: []Partition{{}}},
		{Name: "shop.orders", Bytes: 1000, Config: map[string]string{}, Partitions: []Partition{{HighWatermark: 10, LastStable: 9, End: 11, Bytes: 1000,
			Compaction: &Compaction{CompactedBytes: 750, DirtyBytes: 250, DirtyRatio: 0.25, LastRound: &lastRound}}}},
	}
}

func (n fakeNode) Topic(name string) (Topic, bool) {
	for _, t := range n.Topics() {
		if t.Name == name {
			return t, true
		}
	}
	return Topic{}, false
}

func (fakeNode) Connectors() []connectors.Status {
	return []connectors.Status{{Name: "shop", Type: "postgres", Node: 1, Here: true, State: connectors.StateLoading, LagBytes: 5, LagEvents: 6, LagSeconds: 7.5, Events: 8, Position: "1/100",
		Load: &connectors.LoadStatus{Tables: 3, TablesDone: 1, Rows: 10, RowsEstimated: 100, Current: "public.orders"}}}
}

func (fakeNode) Sinks() []sink.Status {
	return []sink.Status{{Name: "warehouse", Type: "postgres", Node: 1, Here: true, State: connectors.StateFailed, Error: "cannot apply", LagEvents: 3,
		Poison: &sink.Poison{Topic: "shop.orders", Offset: 4, Reason: "bad"}}}
}

func (n fakeNode) NotReady() []string { return n.reasons }

// fakeViews holds versions of rows in offset order.
type fakeViews struct {
	rows    []snapshot.Row
	breakAt int // Scan fails at this row, when > 0
}

func (v fakeViews) History(_ context.Context, topic string, key []byte, fn func(snapshot.Row) error) error {
	for _, r := range v.rows {
		if r.Topic == topic && bytes.Equal(r.Key, key) {
			if err := fn(r); err != nil {
				return err
			}
		}
	}
	return nil
}

func (v fakeViews) Latest(ctx context.Context, topic string, key []byte, at snapshot.At) (row snapshot.Row, found bool, err error) {
	err = v.History(ctx, topic, key, func(r snapshot.Row) error {
		if at.Offset == nil || r.Offset < *at.Offset {
			row, found = r, true
		}
		return nil
	})
	return row, found, err
}

func (v fakeViews) Scan(_ context.Context, topic string, _ snapshot.At, fn func(snapshot.Row) error) error {
	for i, r := range v.rows {
		if v.breakAt > 0 && i == v.breakAt {
			return errors.New("disk is gone")
		}
		if r.Topic == topic {
			if err := fn(r); err != nil {
				return err
			}
		}
	}
	return nil
}

func (v fakeViews) AnyKey(context.Context, string) ([]byte, bool, error) {
	if len(v.rows) == 0 {
		return nil, false, nil
	}
	return v.rows[0].Key, true, nil
}

func (fakeViews) Lag(string) int64 { return 2 }

func sampleRows() []snapshot.Row {
	at := time.Date(2026, 1, 2, 3, 4, 5, 600000000, time.UTC)
	row := func(offset int64, key, value string) snapshot.Row {
		r := snapshot.Row{Topic: "shop.orders", Offset: offset, Timestamp: at, CommitTime: at, Position: 1<<32 + 255, Key: []byte(key), Deleted: value == ""}
		if value != "" {
			r.Value = []byte(value)
		}
		return r
	}
	return []snapshot.Row{
		row(0, `{"id":1}`, `{"before":null,"after":{"id":1,"a":"<x>"},"source":{},"op":"c"}`),
		row(1, `{"id":2}`, `{"schema":{},"payload":{"before":null,"after":{"id":2},"source":{},"op":"r"}}`),
		row(2, `{"id":1}`, `{"before":{"id":1},"after":null,"source":{},"op":"d"}`),
		row(3, `{"id":1}`, ""),
	}
}

// fakeCluster is a cluster of two nodes, one of which is away.
type fakeCluster struct{}

func (fakeCluster) Overview(context.Context) cluster.Overview {
	o := cluster.Overview{Cluster: "c", Node: 1, Partitions: 4, NotPreferred: 1, Nodes: []cluster.NodeOverview{
		{ID: 1, Alive: true, Replicas: 4, Leaders: 3}, {ID: 2, Draining: true, Replicas: 3},
	}, Offline: []cluster.PartitionOverview{}, UnderReplicated: make([]cluster.PartitionOverview, 3), Moves: make([]cluster.MoveOverview, 2)}
	o.Controller.Leader = 1
	return o
}

func (fakeCluster) Lags(bool) []cluster.ReplicaLag {
	return []cluster.ReplicaLag{{Topic: "shop.orders", Node: 2, Entries: 7}, {Topic: "__consumer_offsets", Internal: true, Node: 2}}
}

func (fakeCluster) Metrics() cluster.Metrics {
	return cluster.Metrics{Elections: 5, LeaderChanges: 6, InSyncShrinks: 7, InSyncExpands: 8, Connected: map[int32]bool{2: true},
		Transfers: cluster.TransferStats{Sending: 1, SentBytes: 2, ReceivedBytes: 3, Failed: 4}, Peers: peer.Stats{QueueBytes: 9, DroppedFrames: 10, Accepted: 3, Dialed: 2}}
}

func (fakeCluster) Drain(_ context.Context, node int32, _ bool) error {
	if node != 1 {
		return fmt.Errorf("drain node %d: %w", node, cluster.ErrUnknownNode)
	}
	return nil
}

func (fakeCluster) RemoveNode(_ context.Context, node int32) error {
	return fmt.Errorf("remove node %d: drain it first: %w", node, cluster.ErrInvalidNode)
}

func (fakeCluster) Reassign(context.Context, string, int32, []int32) error {
	return fmt.Errorf("%w: no leader", cluster.ErrNotController)
}

func TestClusterChanges(t *testing.T) {
	base := serve(t, Options{})
	for _, c := range []struct {
		path, kind, body string
		status           int
		want             string
	}{
		{"drain", "application/json", `{"node":1,"on":true}`, 200, "{}\n"},
		{"drain", "application/json; charset=utf-8", `{"node":9,"on":true}`, 404, `{"error":"drain node 9: no such node"}` + "\n"},
		{"remove", "application/json", `{"node":1}`, 409, `{"error":"remove node 1: drain it first: not possible for this node"}` + "\n"},
		{"reassign", "application/json", `{"topic":"t"}`, 503, `{"error":"no node leads the controller's log: a majority of the nodes that vote has to be there; ` + "`rowtrail cluster status`" + ` shows them"}` + "\n"},
		{"drain", "text/plain", `{"node":1,"on":true}`, 415, `{"error":"send JSON, with the header Content-Type: application/json"}` + "\n"},
		{"drain", "application/json", `{"nodes":1}`, 400, `{"error":"the request's body is not what this endpoint takes: json: unknown field \"nodes\""}` + "\n"},
	} {
		resp, err := http.Post(base+"/v1/cluster/"+c.path, c.kind, strings.NewReader(c.body))
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if err != nil || resp.StatusCode != c.status || string(body) != c.want {
			t.Errorf("%s %s: %d %s %v", c.path, c.body, resp.StatusCode, body, err)
		}
	}
	if status, body := get(t, base+"/v1/cluster"); status != 200 || !strings.Contains(body, `"notPreferred":1`) {
		t.Errorf("%d %s", status, body)
	}
	for remote, want := range map[string]bool{"127.0.0.1:1": true, "[::1]:1": true, "10.0.0.1:1": false, "": false} {
		if fromHere(&http.Request{RemoteAddr: remote}) != want {
			t.Errorf("%q", remote)
		}
	}
}

// TestBegin: a node that waits for its peers is alive, not ready, and says why.
func TestBegin(t *testing.T) {
	s := Begin("v1", func() []string { return []string{"waits for node 2"} }, slog.New(slog.DiscardHandler))
	for path, want := range map[string]string{
		"/healthz":   `200 {"status":"ok","version":"v1"}`,
		"/readyz":    `503 {"ready":false,"reasons":["waits for node 2"],"degraded":[]}`,
		"/v1/topics": `503 {"error":"the node is not ready: waits for node 2"}`,
	} {
		w := httptest.NewRecorder()
		s.http.Handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		if got := fmt.Sprintf("%d %s", w.Code, strings.TrimSpace(w.Body.String())); got != want {
			t.Errorf("%s: %s", path, got)
		}
	}
}

func serve(t *testing.T, opts Options) string {
	t.Helper()
	if opts.Cluster == nil {
		opts.Cluster = fakeCluster{}
	}
	if opts.Node == nil {
		opts.Node = fakeNode{}
	}
	if opts.Views == nil {
		opts.Views = fakeViews{rows: sampleRows()}
	}
	opts.Storage = func() log.StoreStats { return log.StoreStats{Syncs: 3, CommittedMutations: 12, DiskBytes: 4096} }
	opts.Groups = func() []broker.GroupLag {
		return []broker.GroupLag{{Group: "g", Topic: "shop.orders", LagEvents: 9, LagBytes: 90, LagSeconds: 1.5, Members: 2, State: "Stable"}}
	}
	opts.Kafka = func() broker.Stats {
		return broker.Stats{Connections: 4, Refused: map[string]int64{"max_connections": 2}, Closed: map[string]int64{"idle": 3},
			AuthenticationFailures: 5, Throttled: map[string]time.Duration{"producer_byte_rate": 1500 * time.Millisecond}}
	}
	opts.Version, opts.Logger = "v1", slog.New(slog.DiscardHandler)
	s, err := New(opts)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- s.Serve(l) }()
	t.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		if err := s.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return "http://" + l.Addr().String()
}

func get(t *testing.T, url string) (int, string) {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, strings.TrimSuffix(string(body), "\n")
}

func TestEndpoints(t *testing.T) {
	base := serve(t, Options{Node: fakeNode{reasons: []string{"starting"}}})
	const stamp = `"timestamp":"2026-01-02T03:04:05.6Z","commitTime":"2026-01-02T03:04:05.6Z","position":"1/FF"`
	for _, c := range []struct {
		path   string
		status int
		body   string
	}{
		{"/healthz", 200, `{"status":"ok","version":"v1"}`},
		{"/readyz", 503, `{"ready":false,"reasons":["starting"],"degraded":["sink warehouse: cannot apply"]}`},
		{"/v1/state/shop.orders/2", 200, `{"topic":"shop.orders","partition":0,"offset":1,` + stamp + `,"key":{"id":2},"deleted":false,"op":"r","row":{"id":2}}`},
		{"/v1/state/shop.orders/%7B%22id%22%3A%201%7D?at=1", 200, `{"topic":"shop.orders","partition":0,"offset":0,` + stamp + `,"key":{"id":1},"deleted":false,"op":"c","row":{"id":1,"a":"<x>"}}`},
		{"/v1/state/shop.orders/1", 404, `{"error":"row with key {\"id\":1} in shop.orders was deleted (offset 3, 2026-01-02T03:04:05.6Z)"}`},
		{"/v1/state/shop.orders/3", 404, `{"error":"no row with key {\"id\":3} in shop.orders then"}`},
		{"/v1/state/nope/3", 404, "{\"error\":\"topic \\\"nope\\\" does not exist; `rowtrail topics` lists them\"}"},
		{"/v1/state/__consumer_offsets", 404, "{\"error\":\"topic \\\"__consumer_offsets\\\" does not exist; `rowtrail topics` lists them\"}"},
		{"/v1/state/shop.orders?at=noon", 400, `{"error":"\"noon\" is no point in a topic; write an offset (1234), a time (2026-01-31T12:00:00Z), a span before now (-5m, -7d) or a position (0/16B3748, a GTID, mysql-bin.000003:1234)"}`},
		{"/v1/state/shop.orders?at=11", 400, `{"error":"offset 11 is beyond the end of shop.orders, which is 11; leave the point out to ask for now"}`},
		{"/v1/state/shop.orders/1?at=10", 404, `{"error":"row with key {\"id\":1} in shop.orders was deleted (offset 3, 2026-01-02T03:04:05.6Z)"}`},
		{"/v1/state/shop.orders/1?at=2999-01-01", 400, `{"error":"2999-01-01T00:00:00Z has not come yet; leave the point out to ask for now"}`},
		{"/v1/state/shop.orders/1?at=1/200", 400, `{"error":"position 1/200 is beyond 1/100, up to which connector shop has written; leave the point out to ask for now"}`},
		{"/v1/state/shop.orders/%7B%22no%22:1%7D", 400, `{"error":"key has other columns than \"no\": write {\"id\": ...}"}`},
		{"/v1/state/shop.orders/", 404, `{"error":"no row with key {\"id\":\"\"} in shop.orders then"}`},
		{"/v1/history/shop.orders/", 404, `{"error":"no row with key {\"id\":\"\"} in shop.orders"}`},
		{"/v1/state/shop.orders?limit=x", 400, `{"error":"limit \"x\" is not a number of rows"}`},
		{"/v1/state/shop.orders?limit=0", 200, ""},
		{"/v1/history/shop.orders/9", 404, `{"error":"no row with key {\"id\":9} in shop.orders"}`},
		{"/v1/connectors/nope", 404, "{\"error\":\"no connector is named \\\"nope\\\"; `rowtrail connectors` lists them\"}"},
		{"/v1/nope", 404, `{"error":"no such endpoint: GET /v1/nope"}`},
		{"/debug/pprof/", 404, `{"error":"no such endpoint: GET /debug/pprof/"}`},
	} {
		if status, body := get(t, base+c.path); status != c.status || body != c.body {
			t.Errorf("%s:\n got %d %s\nwant %d %s", c.path, status, body, c.status, c.body)
		}
	}
	_, body := get(t, base+"/v1/history/shop.orders/1")
	var ops []string
	for line := range strings.Lines(body) {
		var row Row
		if err := json.Unmarshal([]byte(line), &row); err != nil {
			t.Fatal(err)
		}
		ops = append(ops, fmt.Sprint(row.Offset, row.Op, row.Deleted))
	}
	if want := []string{"0cfalse", "2dfalse", "3true"}; !slices.Equal(ops, want) {
		t.Errorf("history: %v", ops)
	}
	if _, body := get(t, base+"/v1/state/shop.orders/2?full=true"); !strings.Contains(body, `"value":{"schema":{},"payload":`) {
		t.Errorf("full: %s", body)
	}
	if _, body := get(t, base+"/v1/topics"); !strings.Contains(body, `"name":"shop.orders"`) {
		t.Errorf("topics: %s", body)
	}
	resp, err := http.Post(base+"/v1/topics", "text/plain", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusNotFound {
		t.Errorf("POST answers %s", resp.Status)
	}
}

func TestBrokenStreamSaysSo(t *testing.T) {
	base := serve(t, Options{Views: fakeViews{rows: sampleRows(), breakAt: 2}})
	status, body := get(t, base+"/v1/state/shop.orders")
	if lines := strings.Split(body, "\n"); status != 200 || lines[len(lines)-1] != `{"error":"disk is gone"}` || len(lines) != 3 {
		t.Errorf("got %d %s", status, body)
	}
	if _, body := get(t, base+"/v1/state/shop.orders?limit=1"); strings.Count(body, "\n") != 0 || strings.Contains(body, "error") {
		t.Errorf("limit 1 gave %s", body)
	}
}

// TestCompactedPastIsGone: a point that compaction has made unknown is 410, and a history says from where on it is whole.
func TestCompactedPastIsGone(t *testing.T) {
	rows := sampleRows()
	rows[1].WholeFrom = 7
	base := serve(t, Options{Views: compactedViews{fakeViews{rows: rows}}})
	const want = `{"error":"shop.orders was compacted: in partition 0 its past is whole only from offset 7 on; ask for a later point, or for now"}`
	for _, path := range []string{"/v1/state/shop.orders/2?at=1", "/v1/state/shop.orders?at=1"} {
		if status, body := get(t, base+path); status != http.StatusGone || body != want {
			t.Errorf("%s: got %d %s", path, status, body)
		}
	}
	if _, body := get(t, base+"/v1/history/shop.orders/2"); !strings.Contains(body, `"wholeFrom":7`) {
		t.Errorf("history: %s", body)
	}
	if _, body := get(t, base+"/v1/history/shop.orders/1"); strings.Contains(body, "wholeFrom") {
		t.Errorf("history: %s", body)
	}
}

// compactedViews cannot tell any point in the past.
type compactedViews struct{ fakeViews }

func (v compactedViews) Latest(ctx context.Context, topic string, key []byte, at snapshot.At) (snapshot.Row, bool, error) {
	if at.Offset == nil {
		return v.fakeViews.Latest(ctx, topic, key, at)
	}
	return snapshot.Row{}, false, fmt.Errorf("look up: %w", &snapshot.CompactedError{Topic: topic, Whole: 7})
}

func (v compactedViews) Scan(_ context.Context, topic string, _ snapshot.At, _ func(snapshot.Row) error) error {
	return &snapshot.CompactedError{Topic: topic, Whole: 7}
}

func TestPprofOnlyWhenEnabled(t *testing.T) {
	if status, _ := get(t, serve(t, Options{Pprof: true})+"/debug/pprof/"); status != 200 {
		t.Errorf("pprof answers %d", status)
	}
}

func TestMetrics(t *testing.T) {
	_, body := get(t, serve(t, Options{})+"/metrics")
	for _, want := range []string{
		`rowtrail_connector_lag_bytes{connector="shop"} 5`, `rowtrail_connector_lag_events{connector="shop"} 6`, `rowtrail_connector_lag_seconds{connector="shop"} 7.5`,
		`rowtrail_connector_state{connector="shop",state="loading",type="postgres"} 1`, `rowtrail_connector_state{connector="shop",state="failed",type="postgres"} 0`,
		`rowtrail_connector_load_tables_done{connector="shop"} 1`, `rowtrail_sink_lag_events{sink="warehouse"} 3`, `rowtrail_sink_poisoned{sink="warehouse"} 1`,
		`rowtrail_group_lag_events{group="g",partition="0",topic="shop.orders"} 9`, `rowtrail_group_lag_bytes{group="g",partition="0",topic="shop.orders"} 90`,
		`rowtrail_group_lag_seconds{group="g",partition="0",topic="shop.orders"} 1.5`, `rowtrail_group_members{group="g",state="Stable"} 2`,
		`rowtrail_partition_high_watermark{partition="0",topic="shop.orders"} 10`, `rowtrail_view_lag_records{topic="shop.orders"} 2`,
		`rowtrail_partition_dirty_ratio{partition="0",topic="shop.orders"} 0.25`, `rowtrail_partition_compaction_stopped{partition="0",topic="shop.orders"} 0`,
		`rowtrail_partition_last_compaction_seconds{partition="0",topic="shop.orders"} 1.7000000005e+09`, `rowtrail_log_syncs_total 3`, `rowtrail_cluster_nodes{state="dead"} 1`, `rowtrail_cluster_nodes{state="draining"} 1`, `rowtrail_cluster_is_controller 1`,
		`rowtrail_cluster_under_replicated_partitions 3`, `rowtrail_replica_count{role="follower"} 1`, `rowtrail_replica_lag_entries{node="2",partition="0",topic="shop.orders"} 7`,
		`rowtrail_raft_elections_total 5`, `rowtrail_insync_shrinks_total 7`, `rowtrail_raftsnapshot_failures_total 4`, `rowtrail_peer_dropped_frames_total 10`, `rowtrail_connections 4`, `rowtrail_ready 1`, `rowtrail_topics{internal="true"} 1`, "go_goroutines ", "process_resident_memory_bytes ",
	} {
		if !strings.Contains(body, want+"\n") && !strings.Contains(body, "\n"+want) {
			t.Errorf("/metrics lacks %s", want)
		}
	}
	if strings.Contains(body, `topic="__consumer_offsets"`) {
		t.Error("/metrics shows internal partitions")
	}
	for _, m := range Metrics() {
		if !strings.Contains(body, "# HELP "+m.Name+" ") {
			t.Errorf("/metrics does not fill %s", m.Name)
		}
	}
}

// TestMetricsAreDocumented keeps docs/metrics.md in step: every family with its labels and meaning.
func TestMetricsAreDocumented(t *testing.T) {
	doc, err := os.ReadFile("../../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range Metrics() {
		labels := "none"
		if len(m.Labels) > 0 {
			labels = strings.Join(m.Labels, ", ")
		}
		kind := "gauge"
		if strings.HasSuffix(m.Name, "_total") {
			kind = "counter"
		}
		row := fmt.Sprintf("| `%s` | %s | %s | %s |\n", m.Name, kind, labels, m.Help)
		if !strings.Contains(string(doc), row) {
			t.Errorf("docs/metrics.md lacks\n%s", row)
		}
	}
	if n := strings.Count(string(doc), "` | gauge | ") + strings.Count(string(doc), "` | counter | "); n != len(Metrics()) {
		t.Errorf("docs/metrics.md has %d families, the code %d", n, len(Metrics()))
	}
}

// TestRoutesAreDocumented keeps docs/http-api.md in step: every endpoint has its row, and no other.
func TestRoutesAreDocumented(t *testing.T) {
	doc, err := os.ReadFile("../../../docs/http-api.md")
	if err != nil {
		t.Fatal(err)
	}
	documented := map[string]bool{}
	for line := range strings.Lines(string(doc)) {
		row, ok := strings.CutPrefix(line, "| `")
		if method, rest, spaced := strings.Cut(row, " "); ok && spaced && (method == "GET" || method == "POST") {
			path, _, _ := strings.Cut(rest, "`")
			path, _, _ = strings.Cut(path, "?")
			documented[method+" "+path] = true
		}
	}
	s := &Server{opts: Options{Node: fakeNode{}, Pprof: true}}
	for _, r := range s.routes(prometheus.NewRegistry()) {
		if strings.HasSuffix(r.pattern, "/{$}") { // {key} with nothing in its place
			continue
		}
		if !documented[r.pattern] && !strings.HasPrefix(r.pattern, "GET /debug/pprof/") {
			t.Errorf("docs/http-api.md lacks %s", r.pattern)
		}
		delete(documented, r.pattern)
	}
	if len(documented) > 0 {
		t.Errorf("docs/http-api.md has endpoints that are not there: %v", documented)
	}
}

// awayNode runs nothing: another node does.
type awayNode struct{ fakeNode }

func (awayNode) Connectors() []connectors.Status {
	return []connectors.Status{{Name: "shop", Type: "postgres", Node: 2, State: connectors.StateStreaming, LagBytes: 5}}
}

// TestMetricsOfTasksElsewhere: the node that runs a connector has its series, so that sums over nodes hold.
func TestMetricsOfTasksElsewhere(t *testing.T) {
	base := serve(t, Options{Node: awayNode{}})
	_, body := get(t, base+"/metrics")
	if !strings.Contains(body, `rowtrail_connector_here{connector="shop"} 0`) || strings.Contains(body, `rowtrail_connector_lag_bytes{`) {
		t.Error("series of a connector that runs elsewhere")
	}
	if _, body := get(t, base+"/v1/connectors/shop"); !strings.Contains(body, `"node":2,"here":false,"state":"streaming"`) {
		t.Error(body)
	}
}

// TestLogElsewhere: a node without a log says where it is, and shows what it has.
func TestLogElsewhere(t *testing.T) {
	base := serve(t, Options{Elsewhere: "kafka-1:9092"})
	for _, path := range []string{"/v1/topics", "/v1/topics/shop.orders", "/v1/state/shop.orders", "/v1/state/shop.orders/1", "/v1/history/shop.orders/1"} {
		if status, body := get(t, base+path); status != http.StatusNotImplemented || !strings.Contains(body, "kafka-1:9092 (log.kafka)") {
			t.Errorf("%s: %d %s", path, status, body)
		}
	}
	status, body := get(t, base+"/metrics")
	if status != 200 || !strings.Contains(body, `rowtrail_sink_poisoned{sink="warehouse"} 1`) || strings.Contains(body, "rowtrail_log_syncs_total") {
		t.Errorf("metrics: %d %s", status, body)
	}
}

// post sends a body, as a browser does from another site where site says so, and returns the answer without the space around it.
func post(t *testing.T, url, site, body string) (status int, answer string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if site != "" {
		r.Header.Set("Sec-Fetch-Site", site)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(resp.Body)
	if err = errors.Join(err, resp.Body.Close()); err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, strings.TrimSpace(string(b))
}

func TestRestart(t *testing.T) {
	var asked []string
	base := serve(t, Options{Restart: func(_ context.Context, role, name string) (int32, error) {
		asked = append(asked, role+" "+name)
		if role == "sink" {
			return 0, errors.New("no node runs it")
		}
		return 2, nil
	}})
	for _, c := range []struct {
		path, site string
		status     int
		body       string
	}{
		{"/v1/connectors/shop/restart", "", 200, `{"name":"shop","node":2}`},
		{"/v1/sinks/warehouse/restart", "", 503, `{"error":"sink warehouse cannot be restarted: no node runs it"}`},
		{"/v1/sinks/nope/restart", "", 404, "{\"error\":\"no sink is named \\\"nope\\\"; `rowtrail sinks` lists them\"}"},
		{"/v1/connectors/shop/restart", "cross-site", 403, ""},
	} {
		if status, got := post(t, base+c.path, c.site, ""); status != c.status || c.body != "" && got != c.body {
			t.Errorf("%s: %d %s", c.path, status, got)
		}
	}
	if want := []string{"connector shop", "sink warehouse"}; !slices.Equal(asked, want) {
		t.Errorf("asked for %v", asked)
	}
}

func TestSignal(t *testing.T) {
	var asked []connectors.Signal
	base := serve(t, Options{Signal: func(_ context.Context, name string, s connectors.Signal) (int32, connectors.SignalResult, error) {
		asked = append(asked, s)
		switch s.ID {
		case "none":
			return 0, connectors.SignalResult{}, fmt.Errorf("%w: a postgres connector takes none", ErrNoSignals)
		case "malformed", "unknown table", "unavailable":
			return 2, s.Result().Refuse(s.ID, errors.New("it is "+s.ID)), nil
		}
		return 2, connectors.SignalResult{ID: s.ID, Type: s.Type, Tables: []string{"d.t"}}, nil
	}})
	for _, c := range []struct {
		path, site, request string
		status              int
		body                string
	}{
		{"/v1/connectors/shop/signal", "", `{"id":"1","type":"execute-snapshot","data":{"data-collections":["d.t"]}}`, 200, `{"name":"shop","node":2,"id":"1","type":"execute-snapshot","tables":["d.t"]}`},
		{"/v1/connectors/shop/signal", "", `{"id":"malformed"}`, 400, `{"error":"it is malformed"}`},
		{"/v1/connectors/shop/signal", "", `{"id":"unknown table"}`, 404, `{"error":"it is unknown table"}`},
		{"/v1/connectors/shop/signal", "", `{"id":"unavailable"}`, 503, `{"error":"connector shop: it is unavailable"}`},
		{"/v1/connectors/shop/signal", "", `{"id":"none"}`, 400, `{"error":"connector shop: it takes no signals: a postgres connector takes none"}`},
		{"/v1/connectors/shop/signal", "", `{"ids":"1"}`, 400, ""},
		{"/v1/connectors/shop/signal", "", `nothing`, 400, ""},
		{"/v1/connectors/nope/signal", "", `{}`, 404, "{\"error\":\"no connector is named \\\"nope\\\"; `rowtrail connectors` lists them\"}"},
		{"/v1/connectors/shop/signal", "cross-site", `{"id":"1"}`, 403, ""},
	} {
		if status, got := post(t, base+c.path, c.site, c.request); status != c.status || c.body != "" && got != c.body {
			t.Errorf("%s %s: %d %s", c.path, c.request, status, got)
		}
	}
	if len(asked) != 5 || string(asked[0].Data) != `{"data-collections":["d.t"]}` {
		t.Errorf("asked %+v", asked)
	}
}

func TestText(t *testing.T) {
	for in, want := range map[string]string{`{"a": 1}`: `{"a": 1}`, "{\n}": `{}`, "plain": `"plain"`, "12": "12", "\xff": `{"base64":"/w=="}`, "": `""`} {
		if got := string(Text([]byte(in))); got != want {
			t.Errorf("%q: got %s, want %s", in, got, want)
		}
	}
	if string(Text(nil)) != "null" {
		t.Error("nil is not null")
	}
}
