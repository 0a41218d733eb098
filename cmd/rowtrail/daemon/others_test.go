package daemon

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rowtrail/rowtrail/cluster"
	"github.com/rowtrail/rowtrail/cmd/rowtrail/admin"
	"github.com/rowtrail/rowtrail/configs"
)

// TestEveryNodeAnswersOverHTTP: three nodes hold a topic's partitions once each, and each of them answers for all, right after a write is
// acknowledged.
func TestEveryNodeAnswersOverHTTP(t *testing.T) {
	const n = 3
	var addresses, peers []string
	for i := range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		addresses = append(addresses, l.Addr().String())
		peers = append(peers, fmt.Sprintf("{id: %d, address: %q}", i+1, addresses[i]))
		_ = l.Close()
	}
	nodes := make([]*Daemon, n)
	var wg sync.WaitGroup
	for i := range n {
		text := fmt.Sprintf("node: {id: %d, data_dir: %q, min_free_bytes: 1MiB}\nlisten: {kafka: \"127.0.0.1:0\", http: \"127.0.0.1:0\"}\n"+
			"cluster: {listen: %q, peers: [%s]}\n", i+1, t.TempDir(), addresses[i], strings.Join(peers, ", "))
		cfg, err := configs.Parse("test.yaml", []byte(text), configs.OS())
		if err != nil {
			t.Fatal(err)
		}
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
			defer cancel()
			d, err := Start(ctx, cfg, Options{Logger: slog.New(slog.DiscardHandler), Version: "test"})
			if err != nil {
				t.Error(err)
				return
			}
			nodes[i] = d
			t.Cleanup(func() { stop(t, d) })
		})
	}
	wg.Wait()
	if t.Failed() {
		return
	}
	_, err := nodes[0].node.CreateTopic(t.Context(), cluster.TopicSpec{Name: "t", Assignment: [][]int32{{1}, {2}, {3}}})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 12 {
		offset := produce(t, nodes[i%n], "t", fmt.Sprintf(`{"id":%d}`, i), fmt.Sprintf(`{"n":%d}`, i))
		for at, d := range nodes {
			status, body := get(t, d, fmt.Sprintf("/v1/state/t/%d", i))
			var row admin.Row
			if err := json.Unmarshal([]byte(body), &row); err != nil || status != http.StatusOK || row.Offset != offset || string(row.Value) != fmt.Sprintf(`{"n":%d}`, i) {
				t.Fatalf("node %d answers for row %d, which is at offset %d: %d %s", at+1, i, offset, status, body)
			}
		}
	}
	var scans, topics [n]string
	for i, d := range nodes {
		_, scans[i] = get(t, d, "/v1/state/t")
		var topic admin.Topic
		deadline := time.Now().Add(20 * time.Second)
		for sum := int64(0); sum != 12; { // followers may know of the newest leaders a moment later
			_, topics[i] = get(t, d, "/v1/topics/t")
			if err := json.Unmarshal([]byte(topics[i]), &topic); err != nil {
				t.Fatal(err)
			}
			sum = 0
			for p, at := range topic.Partitions {
				sum += at.HighWatermark
				if at.Leader != int32(p+1) {
					t.Errorf("node %d says that node %d leads partition %d", i+1, at.Leader, p)
				}
			}
			if sum != 12 && time.Now().After(deadline) {
				t.Fatalf("node %d: %s", i+1, topics[i])
			}
		}
		if status, body := get(t, d, "/v1/state/t?at=12"); status != http.StatusBadRequest || !strings.Contains(body, "beyond the end") {
			t.Errorf("node %d: a point beyond the end is answered with %d %s", i+1, status, body)
		}
		if status, body := get(t, d, "/v1/state/t?stale=ok"); status != http.StatusOK || body != scans[i] {
			t.Errorf("node %d: %d %s", i+1, status, body)
		}
		if status, body := get(t, d, "/v1/history/t/7"); status != http.StatusOK || strings.Count(body, "\n") != 1 {
			t.Errorf("node %d: history of row 7: %d %s", i+1, status, body)
		}
	}
	if strings.Count(scans[0], "\n") != 12 || scans[1] != scans[0] || scans[2] != scans[0] {
		t.Errorf("scans differ:\n%s\n%s\n%s", scans[0], scans[1], scans[2])
	}
}
