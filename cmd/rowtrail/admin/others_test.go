package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"testing"

	"github.com/rowtrail/rowtrail/connectors"
	"github.com/rowtrail/rowtrail/snapshot"
	"github.com/rowtrail/rowtrail/snapshot/spread"
)

// remoteNode is one of which another node leads a partition and runs the connector.
type remoteNode struct{ fakeNode }

func (remoteNode) Connectors() []connectors.Status {
	return []connectors.Status{{Name: "shop", Type: "postgres", State: connectors.StateStreaming, Position: "1/100", Node: 2}}
}

func (n remoteNode) Topic(name string) (Topic, bool) {
	t, ok := n.fakeNode.Topic(name)
	t.Partitions = append([]Partition{}, t.Partitions...)
	t.Partitions = append(t.Partitions, Partition{Partition: 1, Leader: 2, Epoch: 4, HighWatermark: 3, End: 3, Bytes: 10})
	return t, ok
}

// failingViews have a leader that does not answer, and a replica that does.
type failingViews struct {
	fakeViews
	err error
}

func (v failingViews) Latest(context.Context, string, []byte, snapshot.At) (snapshot.Row, bool, error) {
	return snapshot.Row{}, false, v.err
}

func TestTopicsAreAsTheirLeadersHaveThem(t *testing.T) {
	asked := ""
	base := serve(t, Options{Node: remoteNode{}, Others: func(_ context.Context, topic string) ([]NodeTopics, []int32) {
		asked = topic
		led := Partition{Partition: 1, Leader: 2, Epoch: 4, HighWatermark: 500, End: 500, Bytes: 30}
		old := Partition{Partition: 1, Leader: 4, Epoch: 3, HighWatermark: 900, End: 900}
		return []NodeTopics{
			{4, []Topic{{Name: "shop.orders", Partitions: []Partition{{}, old}}}},
			{2, []Topic{{Name: "shop.orders", Partitions: []Partition{{Leader: 0, HighWatermark: 77}, led}}}},
		}, []int32{5, 3}
	}})
	resp, err := http.Get(base + "/v1/topics/shop.orders")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var topic Topic
	if err := json.NewDecoder(resp.Body).Decode(&topic); err != nil {
		t.Fatal(err)
	}
	if asked != "shop.orders" || topic.Partitions[0].HighWatermark != 10 || topic.Partitions[1].HighWatermark != 500 || topic.Bytes != 1020 {
		t.Errorf("asked for %s: %+v", asked, topic)
	}
	if missing := resp.Header.Get(missingHeader); missing != "3,5" {
		t.Errorf("missing nodes %q", missing)
	}
}

// TestPointsThatOtherNodesHaveReached: what this node knows of others is older than what they have.
func TestPointsThatOtherNodesHaveReached(t *testing.T) {
	opts := Options{Node: remoteNode{}, Others: func(context.Context, string) ([]NodeTopics, []int32) {
		return []NodeTopics{{2, []Topic{{Name: "shop.orders", Partitions: []Partition{{}, {Partition: 1, Leader: 2, Epoch: 4, End: 500}}}}}}, nil
	}, Position: func(_ context.Context, node int32, connector string) (string, bool) {
		return "1/200", node == 2 && connector == "shop"
	}}
	base := serve(t, opts)
	for at, want := range map[string]int{"499": 200, "500": 400, "1/FF": 200, "1/200": 200, "1/201": 400} {
		if status, body := get(t, base+"/v1/state/shop.orders?at="+at); status != want {
			t.Errorf("at %s: %d %s", at, status, body)
		}
	}
}

func TestStaleAnswers(t *testing.T) {
	for _, err := range []error{fmt.Errorf("partition 1 of shop.orders: %w", spread.ErrNoLeader), &snapshot.ElsewhereError{Topic: "shop.orders", Partition: 1}} {
		base := serve(t, Options{Views: failingViews{fakeViews{rows: sampleRows()}, err}, Stale: fakeViews{rows: sampleRows()}})
		if status, body := get(t, base+"/v1/state/shop.orders/2"); status != http.StatusServiceUnavailable || !bytes.Contains([]byte(body), []byte("artition 1 of shop.orders")) {
			t.Errorf("%d %s", status, body)
		}
		if status, body := get(t, base+"/v1/state/shop.orders/2?stale=ok"); status != http.StatusOK {
			t.Errorf("%d %s", status, body)
		}
		if status, _ := get(t, base+"/v1/state/shop.orders/2?stale=yes"); status != http.StatusBadRequest {
			t.Errorf("%d", status)
		}
	}
}
