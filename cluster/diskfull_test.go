package cluster

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/rowtrail/rowtrail/log"
)

// TestFullDiskCanBeEmptied: below the watermark what gives space back goes on: topics are deleted, their retention is lowered, and
// transactions end in the coordinators' logs. Producers are refused.
func TestFullDiskCanBeEmptied(t *testing.T) {
	dir := t.TempDir()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	n := startNode(t, dir)
	n.topic(t, "data", 1)
	n.topic(t, "other", 1)
	if _, err := n.CreateTopic(ctx, TopicSpec{Name: "__state", Partitions: 1, Internal: true}); err != nil {
		t.Fatal(err)
	}
	if a := appendNow(n.replica(t, "data", 0), batchOf("v")); a.Err != nil {
		t.Fatal(a.Err)
	}
	n.close(t)

	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		t.Fatal(err)
	}
	store, err := log.Open(dir, log.Options{Logger: quiet(), MinFreeBytes: 2 * int64(st.Bavail) * st.Bsize})
	if err != nil {
		t.Fatal(err)
	}
	node, err := Start(ctx, Options{NodeID: 1, Store: store, Logger: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	n = &testNode{node, store}
	defer n.close(t)
	if a := appendNow(n.replica(t, "data", 0), batchOf("v")); !errors.Is(a.Err, log.ErrDiskFull) {
		t.Errorf("a producer: %v", a.Err)
	}
	if a := appendNow(n.replica(t, "__state", 0), batchOf("v")); a.Err != nil {
		t.Errorf("a coordinator: %v", a.Err)
	}
	retention := "1000"
	if err := n.SetTopicConfig(ctx, "data", map[string]*string{"retention.ms": &retention}); err != nil {
		t.Errorf("lower retention: %v", err)
	}
	if err := n.DeleteTopic(ctx, "other"); err != nil {
		t.Errorf("delete a topic: %v", err)
	}
}

// A node without space lets others lead, who can write, and leads again when it has some.
func TestANodeWithoutSpaceLetsOthersLead(t *testing.T) {
	c := newTestCluster(t, 3)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	const partitions = 6
	if _, err := c.nodes[0].CreateTopic(ctx, TopicSpec{Name: "t", Partitions: partitions, ReplicationFactor: 3}); err != nil {
		t.Fatal(err)
	}
	full := c.nodes[0]
	led := func() (n int) {
		topic := c.nodes[1].Catalog().Topics["t"]
		for i := range int32(partitions) {
			if topic == nil {
				break
			}
			if leader, _, _ := c.nodes[1].LeaderOf(topic, i); leader == full.id {
				n++
			}
		}
		return n
	}
	again := func(minFree int64) {
		full.stop()
		full.minFree = minFree
		if err := full.start(c.peers); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "node 1 leads its share", func() (bool, string) { return led() > 0, fmt.Sprint(led()) })

	var st syscall.Statfs_t
	if err := syscall.Statfs(full.dir, &st); err != nil {
		t.Fatal(err)
	}
	again(2 * int64(st.Bavail) * st.Bsize)
	restarted := time.Now()
	eventually(t, "node 1 leads nothing", func() (bool, string) {
		said := 0
		for _, x := range c.nodes[1:] {
			x.leaders.mu.Lock()
			if x.leaders.left[full.id].After(restarted) {
				said++
			}
			x.leaders.mu.Unlock()
		}
		return said == 2 && led() == 0, fmt.Sprintf("%d, and has said so to %d nodes", led(), said)
	})
	for i := range int32(partitions) {
		c.append("t", i, "v")
	}
	again(0)
	eventually(t, "node 1 leads its share again", func() (bool, string) { return led() > 0, fmt.Sprint(led()) })
}
