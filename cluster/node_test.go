package cluster

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/rowtrail/rowtrail/log"
	"github.com/rowtrail/rowtrail/log/record"
)

// testNode is a node over a real store in a directory.
type testNode struct {
	*Node
	store *log.Store
}

func startNode(t testing.TB, dir string, change ...func(*Options)) *testNode {
	t.Helper()
	store, err := log.Open(dir, log.Options{Logger: quiet(), MinFreeBytes: 1})
	if err != nil {
		t.Fatal(err)
	}
	o := Options{NodeID: 1, Store: store, Logger: quiet()}
	for _, f := range change {
		f(&o)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	n, err := Start(ctx, o)
	if err != nil {
		_ = store.Close()
		t.Fatal(err)
	}
	return &testNode{n, store}
}

func (n *testNode) close(t testing.TB) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := n.Stop(ctx); err != nil {
		t.Error(err)
	}
	if err := n.store.Close(); err != nil {
		t.Error(err)
	}
}

func (n *testNode) topic(t testing.TB, name string, partitions int32, config ...string) *Topic {
	t.Helper()
	c := map[string]string{}
	for i := 0; i < len(config); i += 2 {
		c[config[i]] = config[i+1]
	}
	topic, err := n.CreateTopic(context.Background(), TopicSpec{Name: name, Partitions: partitions, Config: c})
	if err != nil {
		t.Fatal(err)
	}
	return topic
}

func (n *testNode) replica(t testing.TB, topic string, partition int32) *Replica {
	t.Helper()
	r, err := n.Replica(topic, partition)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func batchOf(values ...string) []byte {
	var b record.Builder
	for _, v := range values {
		b.Append(time.Now().UnixMilli(), nil, []byte(v))
	}
	return b.Build(nil)
}

func appendNow(r *Replica, batch []byte) AppendResult {
	c := make(chan AppendResult, 1)
	r.Append(context.Background(), batch, -1, func(a AppendResult) { c <- a })
	return <-c
}

// valuesOf reads the whole partition.
func valuesOf(t testing.TB, p *log.Partition) []string {
	t.Helper()
	var out []string
	reader := record.NewReader(1 << 24)
	marks := p.Marks()
	for next := marks.LogStart; next < marks.HighWatermark; {
		r, err := p.Read(next, 1<<20, true, log.ReadUncommitted)
		if err != nil {
			t.Fatal(err)
		}
		for rest := r.Batches; len(rest) > 0; {
			var batch []byte
			if batch, rest, err = record.Next(rest); err != nil {
				t.Fatal(err)
			}
			if err := reader.Reset(batch); err != nil {
				t.Fatal(err)
			}
			for reader.Next() {
				if rec := reader.Record(); rec.Offset != next {
					t.Fatalf("offset %d where %d belongs", rec.Offset, next)
				}
				next++
				out = append(out, string(reader.Record().Value))
			}
			if err := reader.Err(); err != nil {
				t.Fatal(err)
			}
		}
	}
	return out
}

func TestNodeRestartKeepsEverything(t *testing.T) {
	dir := t.TempDir()
	n := startNode(t, dir)
	id := n.ClusterID()
	first := n.topic(t, "orders", 3, "retention.ms", "-1")
	want := map[int32][]string{}
	for round := range 3 {
		for i := range 50 {
			p := int32(i % 3)
			v := fmt.Sprintf("%d/%d", round, i)
			a := appendNow(n.replica(t, "orders", p), batchOf(v))
			if a.Err != nil || a.BaseOffset != int64(len(want[p])) {
				t.Fatalf("append %s: %+v", v, a)
			}
			want[p] = append(want[p], v)
		}
		n.close(t)
		n = startNode(t, dir)
		if n.ClusterID() != id || n.ClusterID() == "" {
			t.Fatalf("cluster id %q, then %q", id, n.ClusterID())
		}
		topic := n.Catalog().Topics["orders"]
		if topic == nil || topic.ID != first.ID || len(topic.Partitions) != 3 || topic.Config["retention.ms"] != "-1" {
			t.Fatalf("topic after restart: %+v", topic)
		}
		for p, values := range want {
			r := n.replica(t, "orders", p)
			if got := valuesOf(t, r.Log()); fmt.Sprint(got) != fmt.Sprint(values) {
				t.Fatalf("partition %d holds %v, want %v", p, got, values)
			}
			if node, epoch, self := r.Leader(); node != 1 || int(epoch) != round+2 || !self {
				t.Errorf("leader %d epoch %d self %v", node, epoch, self)
			}
		}
	}
	n.close(t)
}

func TestTopicsLifecycle(t *testing.T) {
	ctx := context.Background()
	dir := t.TempDir()
	n := startNode(t, dir)
	changed := n.CatalogChanged()
	old := n.topic(t, "a.b", -1)
	select {
	case <-changed:
	default:
		t.Error("the catalogue's change was not announced")
	}
	if len(old.Partitions) != 1 || n.Catalog().ByID[old.ID] == nil {
		t.Fatalf("%+v", old)
	}
	for _, c := range []struct {
		spec TopicSpec
		want error
	}{
		{TopicSpec{Name: "a.b", Partitions: 1}, ErrTopicExists},
		{TopicSpec{Name: "a_b", Partitions: 1}, ErrInvalidTopic},
		{TopicSpec{Name: "x/y", Partitions: 1}, ErrInvalidTopic},
		{TopicSpec{Name: "x", Partitions: 0}, ErrInvalidPartitions},
		{TopicSpec{Name: "x", Partitions: 1, Config: map[string]string{"nope": "1"}}, ErrInvalidConfig},
		{TopicSpec{Name: "x", Partitions: 1, Config: map[string]string{"retention.ms": "soon"}}, ErrInvalidConfig},
		{TopicSpec{Name: ControllerTopic, Partitions: 1}, ErrTopicExists},
	} {
		if _, err := n.CreateTopic(ctx, c.spec); !errors.Is(err, c.want) {
			t.Errorf("create %+v: %v, want %v", c.spec, err, c.want)
		}
		if err := n.CheckTopic(c.spec); !errors.Is(err, c.want) {
			t.Errorf("check %+v: %v, want %v", c.spec, err, c.want)
		}
	}
	if err := n.CreatePartitions(ctx, "a.b", 4, nil); err != nil {
		t.Fatal(err)
	}
	if err := n.CreatePartitions(ctx, "a.b", 2, nil); !errors.Is(err, ErrInvalidPartitions) {
		t.Error(err)
	}
	if a := appendNow(n.replica(t, "a.b", 3), batchOf("v")); a.Err != nil {
		t.Fatal(a.Err)
	}
	small := "100"
	if err := n.SetTopicConfig(ctx, "a.b", map[string]*string{"max.message.bytes": &small}); err != nil {
		t.Fatal(err)
	}
	if a := appendNow(n.replica(t, "a.b", 3), batchOf(string(make([]byte, 200)))); !errors.Is(a.Err, log.ErrTooLarge) {
		t.Errorf("too large: %+v", a)
	}
	if err := n.SetTopicConfig(ctx, "a.b", map[string]*string{"max.message.bytes": nil}); err != nil {
		t.Fatal(err)
	}
	if a := appendNow(n.replica(t, "a.b", 3), batchOf(string(make([]byte, 200)))); a.Err != nil {
		t.Error(a.Err)
	}

	// Delete and create again: fresh id, fresh groups, no old records, epochs above.
	gone := n.replica(t, "a.b", 3)
	_, epoch, _ := gone.Leader()
	if err := n.DeleteTopic(ctx, "a.b"); err != nil {
		t.Fatal(err)
	}
	if err := n.DeleteTopic(ctx, "a.b"); !errors.Is(err, ErrUnknownTopic) {
		t.Error(err)
	}
	if _, err := n.Replica("a.b", 3); !errors.Is(err, ErrUnknownTopic) {
		t.Error(err)
	}
	again := n.topic(t, "a.b", 1)
	if again.ID == old.ID || again.Partitions[0].Group == old.Partitions[0].Group {
		t.Error("a recreated topic reuses id or group")
	}
	r := n.replica(t, "a.b", 0)
	if _, e, _ := r.Leader(); e <= epoch {
		t.Errorf("recreated topic has epoch %d, the old one had %d", e, epoch)
	}
	if m := r.Log().Marks(); m.End != 0 {
		t.Errorf("recreated topic starts with %+v", m)
	}
	for {
		if a := appendNow(gone, batchOf("late")); errors.Is(a.Err, ErrUnknownTopic) {
			break
		}
	}
	n.close(t)
	n = startNode(t, dir)
	defer n.close(t)
	if _, e, _ := n.replica(t, "a.b", 0).Leader(); e <= epoch+1 {
		t.Errorf("epoch after restart %d", e)
	}
	for _, g := range n.store.Groups() {
		if g > controllerGroup && g != again.Partitions[0].Group {
			t.Logf("group %d is still being deleted", g)
		}
	}
}

func TestProducerIDsAreNeverReused(t *testing.T) {
	dir := t.TempDir()
	n := startNode(t, dir)
	var mu sync.Mutex
	seen := map[int64]bool{}
	reserve := func(n *testNode) {
		var wg sync.WaitGroup
		for range 8 {
			wg.Add(1)
			go func() {
				defer wg.Done()
				first, err := n.NextProducerIDs(context.Background(), 10)
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				defer mu.Unlock()
				for i := first; i < first+10; i++ {
					if seen[i] {
						t.Errorf("producer id %d was given twice", i)
					}
					seen[i] = true
				}
			}()
		}
		wg.Wait()
	}
	reserve(n)
	n.close(t)
	n = startNode(t, dir)
	defer n.close(t)
	reserve(n)
	if len(seen) != 160 {
		t.Errorf("%d ids", len(seen))
	}
	if _, err := n.NextProducerIDs(context.Background(), 0); err == nil {
		t.Error("0 ids were reserved")
	}
}

func TestStartRefusesAnotherCluster(t *testing.T) {
	dir := t.TempDir()
	n := startNode(t, dir, func(o *Options) { o.ClusterID = "one" })
	n.close(t)
	store, err := log.Open(dir, log.Options{Logger: quiet(), MinFreeBytes: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	if _, err := Start(context.Background(), Options{NodeID: 1, Store: store, ClusterID: "two"}); !errors.Is(err, ErrClusterID) {
		t.Errorf("start: %v", err)
	}
}

func TestOrphansOfACrashAreDropped(t *testing.T) {
	dir := t.TempDir()
	n := startNode(t, dir)
	topic := n.topic(t, "t", 1)
	if a := appendNow(n.replica(t, "t", 0), batchOf("v")); a.Err != nil {
		t.Fatal(a.Err)
	}
	// The record of the deletion alone, as if the process had died right behind it.
	err := n.ctl.propose(context.Background(), func(s *catalogState) ([]change, error) { return s.deleteTopic("t", 1) })
	if err != nil {
		t.Fatal(err)
	}
	_ = n.Stop(context.Background())
	_ = n.store.Close()
	n = startNode(t, dir, func(o *Options) { o.RetentionInterval = 5 * time.Millisecond })
	defer n.close(t)
	deadline := time.Now().Add(10 * time.Second)
	for {
		left := false
		for _, g := range n.store.Groups() {
			left = left || g == topic.Partitions[0].Group
		}
		if !left {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("the deleted topic's group is still there")
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// A node may start with an older catalogue than the one by which it has dropped a replica.
func TestADroppedReplicaThatTheCatalogueStillPlacesHere(t *testing.T) {
	dir := t.TempDir()
	n := startNode(t, dir)
	topic := n.topic(t, "t", 1)
	n.topic(t, "other", 1)
	_ = n.Stop(context.Background())
	n.store.Drop(topic.Partitions[0].Group)
	// The intent is durable with the next commit.
	hs := log.HardState{Term: 1}
	if err := n.store.Commit([]log.Mutation{{Group: 1 << 40, HardState: &hs}}); err != nil {
		t.Fatal(err)
	}
	_ = n.store.Close()
	n = startNode(t, dir)
	defer n.close(t)
	if a := appendNow(n.replica(t, "other", 0), batchOf("v")); a.Err != nil {
		t.Error(a.Err)
	}
}

func TestRetentionRuns(t *testing.T) {
	n := startNode(t, t.TempDir(), func(o *Options) { o.RetentionInterval = 5 * time.Millisecond })
	defer n.close(t)
	n.topic(t, "t", 1, "retention.bytes", "4096")
	r := n.replica(t, "t", 0)
	for range 40 {
		if a := appendNow(r, batchOf(string(make([]byte, 1000)))); a.Err != nil {
			t.Fatal(a.Err)
		}
	}
	deadline := time.Now().Add(10 * time.Second)
	for r.Log().Marks().LogStart < 30 {
		if time.Now().After(deadline) {
			t.Fatalf("nothing was trimmed: %+v", r.Log().Marks())
		}
		time.Sleep(5 * time.Millisecond)
	}
	if a := appendNow(r, batchOf("v")); a.Err != nil || a.BaseOffset != 40 || a.LogStart < 30 {
		t.Errorf("%+v", a)
	}
}

func TestStopRefusesAndFinishes(t *testing.T) {
	n := startNode(t, t.TempDir())
	n.topic(t, "t", 1)
	r := n.replica(t, "t", 0)
	var wg sync.WaitGroup
	results := make([]error, 200)
	for i := range results {
		wg.Add(1)
		r.Append(context.Background(), batchOf(fmt.Sprint(i)), -1, func(a AppendResult) {
			results[i] = a.Err
			wg.Done()
		})
	}
	n.close(t)
	wg.Wait()
	for i, err := range results {
		if err != nil {
			t.Errorf("append %d was in flight at Stop: %v", i, err)
		}
	}
	if a := appendNow(r, batchOf("late")); !errors.Is(a.Err, log.ErrClosed) {
		t.Errorf("append after Stop: %+v", a)
	}
}

// TestOneBrokenReplicaStopsNoOther: a node whose log of one partition cannot be trusted starts, and serves the rest.
func TestOneBrokenReplicaStopsNoOther(t *testing.T) {
	dir := t.TempDir()
	n := startNode(t, dir)
	bad := n.topic(t, "bad", 1)
	n.topic(t, "good", 1)
	for _, topic := range []string{"bad", "good"} {
		if a := appendNow(n.replica(t, topic, 0), batchOf("v")); a.Err != nil {
			t.Fatal(a.Err)
		}
	}
	n.close(t)
	store, err := log.Open(dir, log.Options{Logger: quiet(), MinFreeBytes: 1})
	if err != nil {
		t.Fatal(err)
	}
	if err := store.Commit([]log.Mutation{{Group: bad.Partitions[0].Group, HardState: &log.HardState{Term: 9, Commit: 1000}}}); err != nil {
		t.Fatal(err)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	n = startNode(t, dir)
	defer n.close(t)
	if _, err := n.Replica("bad", 0); !errors.Is(err, log.ErrCorrupt) {
		t.Errorf("the broken replica: %v", err)
	}
	if a := appendNow(n.replica(t, "good", 0), batchOf("w")); a.Err != nil {
		t.Error(a.Err)
	}
	if err := n.DeleteTopic(context.Background(), "bad"); err != nil {
		t.Errorf("delete the broken topic: %v", err)
	}
}
