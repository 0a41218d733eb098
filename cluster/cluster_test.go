package cluster

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/rowtrail/rowtrail/log"
)

// testCluster is several nodes over real stores and loopback connections.
type testCluster struct {
	t     testing.TB
	nodes []*clusterNode
	peers []Peer
	// retention is how often logs are trimmed; 0: as by default.
	retention time.Duration
}

type clusterNode struct {
	c     *testCluster
	id    int32
	dir   string
	rack  string
	addr  string
	*Node // nil: stopped
	store *log.Store
	// minFree is the disk's watermark; 0: none.
	minFree int64
	// change may change its options; patience is how long it may take to start, 0: 30 s.
	change   func(*Options)
	patience time.Duration
}

func newTestCluster(t testing.TB, n int) *testCluster {
	c := &testCluster{t: t}
	for i := range n {
		c.add(fmt.Sprint("rack", i), t.TempDir())
	}
	c.startAll()
	return c
}

// add makes a node that is one of the peers.
func (c *testCluster) add(rack, dir string) *clusterNode {
	x := &clusterNode{c: c, id: int32(len(c.nodes) + 1), dir: dir, rack: rack, addr: freeAddress(c.t)}
	c.nodes = append(c.nodes, x)
	c.peers = append(c.peers, Peer{ID: x.id, Address: x.addr})
	c.t.Cleanup(func() { x.stop() })
	return x
}

func freeAddress(t testing.TB) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func (c *testCluster) startAll() {
	var wg sync.WaitGroup
	for _, x := range c.nodes {
		wg.Go(func() {
			if err := x.start(c.peers); err != nil {
				c.t.Errorf("node %d: %v", x.id, err)
			}
		})
	}
	wg.Wait()
	if c.t.Failed() {
		c.t.FailNow()
	}
}

func clusterLogger(id int32) *slog.Logger {
	if os.Getenv("ROWTRAIL_CLUSTER_LOG") == "" {
		return quiet()
	}
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug})).With("at", id)
}

func (x *clusterNode) start(peers []Peer) error {
	l, err := net.Listen("tcp", x.addr)
	if err != nil {
		return err
	}
	store, err := log.Open(x.dir+"/log", log.Options{Logger: quiet(), MinFreeBytes: max(1, x.minFree), Configuration: Configuration})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), cmp.Or(x.patience, 30*time.Second))
	defer cancel()
	o := Options{
		NodeID: x.id, Store: store, Logger: clusterLogger(x.id), DataDir: x.dir, Peers: peers, Listener: l, RetentionInterval: x.c.retention,
		Info: NodeInfo{Address: x.addr, Host: "127.0.0.1", Port: 9000 + x.id, Rack: x.rack}, ReplicaLagTime: 2 * time.Second,
	}
	if x.change != nil {
		x.change(&o)
	}
	n, err := Start(ctx, o)
	if err != nil {
		_ = store.Close()
		return err
	}
	x.Node, x.store = n, store
	return nil
}

func (x *clusterNode) stop() {
	if x.Node == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := x.Stop(ctx); err != nil {
		x.c.t.Errorf("stop node %d: %v", x.id, err)
	}
	if err := x.store.Close(); err != nil {
		x.c.t.Errorf("close node %d: %v", x.id, err)
	}
	x.Node = nil
}

// eventually waits for what replication brings.
func eventually(t testing.TB, what string, check func() (bool, string)) {
	t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for {
		ok, got := check()
		if ok {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: still %s", what, got)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// leader waits for a partition's leader among the running nodes.
func (c *testCluster) leader(topic string, partition int32) *clusterNode {
	c.t.Helper()
	var found *clusterNode
	eventually(c.t, "leader of "+topic, func() (bool, string) {
		for _, x := range c.nodes {
			if x.Node == nil {
				continue
			}
			if r, err := x.Replica(topic, partition); err == nil {
				if _, _, self := r.Leader(); self {
					found = x
					return true, ""
				}
			}
		}
		return false, "none"
	})
	return found
}

// append writes through whoever leads, again and again until it is acknowledged.
func (c *testCluster) append(topic string, partition int32, value string) int64 {
	c.t.Helper()
	var base int64
	eventually(c.t, "append", func() (bool, string) {
		x := c.leader(topic, partition)
		r, err := x.Replica(topic, partition)
		if err != nil {
			return false, err.Error()
		}
		done := make(chan AppendResult, 1)
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		r.Append(ctx, batchOf(value), -1, func(a AppendResult) { done <- a })
		select {
		case a := <-done:
			base = a.BaseOffset
			return a.Err == nil, fmt.Sprint(a.Err)
		case <-ctx.Done():
			return false, "not answered"
		}
	})
	return base
}

// same waits until a node has exactly these values, in this order. One whose acknowledgement was lost may stand there again: these
// producers are not idempotent.
func (c *testCluster) same(x *clusterNode, topic string, partition int32, want []string) {
	c.t.Helper()
	eventually(c.t, fmt.Sprintf("%s-%d on node %d", topic, partition, x.id), func() (bool, string) {
		r, err := x.Replica(topic, partition)
		if err != nil {
			return false, err.Error()
		}
		var got []string
		seen := map[string]bool{}
		for _, v := range valuesOf(c.t, r.Log()) {
			if !seen[v] {
				seen[v] = true
				got = append(got, v)
			}
		}
		return fmt.Sprint(got) == fmt.Sprint(want), fmt.Sprintf("%d of %d records", len(got), len(want))
	})
}

func TestClusterReplicates(t *testing.T) {
	c := newTestCluster(t, 3)
	id := c.nodes[0].ClusterID()
	for _, x := range c.nodes {
		if x.ClusterID() != id {
			t.Errorf("node %d is in cluster %s, node 1 in %s", x.id, x.ClusterID(), id)
		}
	}
	// Any node may be asked.
	topic, err := c.nodes[2].CreateTopic(t.Context(), TopicSpec{Name: "t", Partitions: 3})
	if err != nil {
		t.Fatal(err)
	}
	for i := range topic.Partitions {
		if n := topic.Partitions[i].Nodes(); len(n) != 3 {
			t.Fatalf("partition %d is on %v", i, n)
		}
	}
	var want []string
	for i := range 20 {
		v := fmt.Sprint("v", i)
		if base := c.append("t", 0, v); base != int64(i) {
			t.Fatalf("%s is at %d", v, base)
		}
		want = append(want, v)
	}
	for _, x := range c.nodes {
		c.same(x, "t", 0, want)
	}
	// Everyone knows who leads.
	lead := c.leader("t", 0)
	for _, x := range c.nodes {
		eventually(t, "announcement", func() (bool, string) {
			node, _, inSync := x.LeaderOf(x.Catalog().Topics["t"], 0)
			return node == lead.id && len(inSync) == 3, fmt.Sprint(node, inSync)
		})
	}
	// The leader stops; another one goes on at once, and it catches up when it is back.
	lead.stop()
	began := time.Now()
	want = append(want, "after")
	c.append("t", 0, "after")
	t.Logf("the next acknowledgement came %v after the leader had stopped in order", time.Since(began).Round(time.Millisecond))
	if err := lead.start(c.peers); err != nil {
		t.Fatal(err)
	}
	for _, x := range c.nodes {
		c.same(x, "t", 0, want)
	}
}

// TestWipedNodeComesBackAsAnother: a node that lost its disk never votes for what it forgot; all its replicas are replaced by fresh ones, which learn
// first, here through raftSnapshots.
func TestWipedNodeComesBackAsAnother(t *testing.T) {
	c := newTestCluster(t, 3)
	if _, err := c.nodes[0].CreateTopic(t.Context(), TopicSpec{Name: "t", Partitions: 1}); err != nil {
		t.Fatal(err)
	}
	var want []string
	for i := range 30 {
		want = append(want, fmt.Sprint("v", i))
		c.append("t", 0, want[i])
	}
	r, err := c.leader("t", 0).Replica("t", 0)
	if err != nil {
		t.Fatal(err)
	}
	if start, err := r.DeleteRecords(t.Context(), 10); err != nil || start != 10 {
		t.Fatal(start, err)
	}
	want = want[10:]
	for _, x := range c.nodes {
		c.same(x, "t", 0, want)
	}
	lost := c.nodes[0]
	lost.stop()
	lost.dir = t.TempDir()
	if err := lost.start(c.peers); err != nil {
		t.Fatal(err)
	}
	c.append("t", 0, "more")
	want = append(want, "more")
	for _, x := range c.nodes {
		c.same(x, "t", 0, want)
	}
	eventually(t, "members", func() (bool, string) {
		p := c.nodes[1].Catalog().Topics["t"].Partitions[0]
		m, _ := p.on(lost.id)
		q := c.nodes[1].Quorum()
		return p.Target == nil && m.Gen > 0 && len(q.Voters) == 3, fmt.Sprintf("%+v, controllers %v", p, q.Voters)
	})
	// And it can be relied on: with another node gone, the rest goes on.
	c.nodes[2].stop()
	c.append("t", 0, "last")
	c.same(c.nodes[0], "t", 0, append(want, "last"))
}

// TestNodesComeAndGo: a fourth node gets its share, a drained one gives all of it away and leaves; what is written meanwhile is all there.
func TestNodesComeAndGo(t *testing.T) {
	c := newTestCluster(t, 3)
	const partitions = 4
	if _, err := c.nodes[0].CreateTopic(t.Context(), TopicSpec{Name: "t", Partitions: partitions}); err != nil {
		t.Fatal(err)
	}
	want := make([][]string, partitions)
	write := func(n int) {
		for range n {
			for p := range want {
				v := fmt.Sprint("v", p, "-", len(want[p]))
				c.append("t", int32(p), v)
				want[p] = append(want[p], v)
			}
		}
	}
	write(5)
	x := c.add("rack3", t.TempDir())
	if err := x.start(c.peers[:3]); err != nil {
		t.Fatal(err)
	}
	count := func(node int32) (n int) {
		for _, p := range c.nodes[1].Catalog().Topics["t"].Partitions {
			for _, list := range [][]Member{p.Members, p.Target} {
				for _, m := range list {
					if m.Node == node {
						n++
					}
				}
			}
		}
		return n
	}
	eventually(t, "the new node's share", func() (bool, string) {
		write(1)
		return count(x.id) >= 3, fmt.Sprint(count(x.id))
	})
	if err := x.Drain(t.Context(), 1, true); err != nil {
		t.Fatal(err)
	}
	eventually(t, "drained", func() (bool, string) {
		write(1)
		return count(1) == 0, fmt.Sprint(count(1))
	})
	eventually(t, "removed", func() (bool, string) {
		err := x.RemoveNode(t.Context(), 1)
		return err == nil, fmt.Sprint(err)
	})
	c.nodes[0].stop()
	write(2)
	for p, values := range want {
		for _, n := range c.nodes[1:] {
			if n.Catalog().Topics["t"].Partitions[p].Target == nil {
				c.same(n, "t", int32(p), values)
			}
		}
	}
}

// TestADeadProcessIsNotWaitedFor: when a node's process ends, the others see its connections refused, and elect new leaders long before the
// election timeout.
func TestADeadProcessIsNotWaitedFor(t *testing.T) {
	c := newTestCluster(t, 3)
	const partitions = 100
	if _, err := c.nodes[0].CreateTopic(t.Context(), TopicSpec{Name: "t", Partitions: partitions}); err != nil {
		t.Fatal(err)
	}
	for p := range int32(partitions) {
		c.leader("t", p)
	}
	dead := c.nodes[1]
	eventually(t, "its leaderships", func() (bool, string) {
		n := 0
		for _, r := range dead.Replicas() {
			if _, _, self := r.Leader(); self {
				n++
			}
		}
		return n >= partitions/3, fmt.Sprint(n)
	})
	began := time.Now()
	if err := dead.net.net.Close(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "new leaders", func() (bool, string) {
		n := 0
		for p := range int32(partitions) {
			for _, x := range []*clusterNode{c.nodes[0], c.nodes[2]} {
				if r, err := x.Replica("t", p); err == nil {
					if _, _, self := r.Leader(); self {
						n++
					}
				}
			}
		}
		return n == partitions, fmt.Sprint(n)
	})
	took := time.Since(began)
	t.Logf("%d partitions have leaders again after %v", partitions, took.Round(time.Millisecond))
	if took > electionTicks*tickInterval {
		t.Errorf("it took %v, which is what an election timeout takes", took)
	}
}

// TestALostTailIsNoticed: a replica whose log was cut behind its back, below what it has acknowledged, is closed and replaced; the others and
// everything acknowledged go on.
func TestALostTailIsNoticed(t *testing.T) {
	c := newTestCluster(t, 3)
	if _, err := c.nodes[0].CreateTopic(t.Context(), TopicSpec{Name: "t", Partitions: 1}); err != nil {
		t.Fatal(err)
	}
	var want []string
	write := func(n int) {
		for range n {
			v := fmt.Sprint("v", len(want))
			c.append("t", 0, v)
			want = append(want, v)
		}
	}
	write(20)
	for _, x := range c.nodes {
		c.same(x, "t", 0, want)
	}
	lead := c.leader("t", 0)
	cut := c.nodes[lead.id%3]
	old := cut.dir
	cut.stop()
	cut.dir = t.TempDir()
	if err := os.CopyFS(cut.dir, os.DirFS(old)); err != nil {
		t.Fatal(err)
	}
	earlier := cut.dir
	cut.dir = old
	if err := cut.start(c.peers); err != nil {
		t.Fatal(err)
	}
	write(20)
	for _, x := range c.nodes {
		c.same(x, "t", 0, want)
	}
	cut.stop()
	cut.dir = earlier // with the same disk id, and without the last half
	if err := cut.start(c.peers); err != nil {
		t.Fatal(err)
	}
	write(5)
	eventually(t, "replacement", func() (bool, string) {
		p := lead.Catalog().Topics["t"].Partitions[0]
		m, _ := p.on(cut.id)
		return m.Gen > 0 && p.Target == nil, fmt.Sprintf("%+v", p)
	})
	for _, x := range c.nodes {
		c.same(x, "t", 0, want)
	}
}
