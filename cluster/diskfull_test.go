package cluster

import (
	"context"
	"errors"
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
