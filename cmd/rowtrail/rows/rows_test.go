package rows

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/rowtrail/rowtrail/cluster"
	"github.com/rowtrail/rowtrail/log"
	"github.com/rowtrail/rowtrail/log/record"
	"github.com/rowtrail/rowtrail/snapshot"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// testNode is a node with its answers, in this process.
type testNode struct {
	t    testing.TB
	id   int32
	dir  string
	addr string

	*cluster.Node // nil: stopped
	store         *log.Store
	rows          *Rows
	stopRun       context.CancelFunc
	running       sync.WaitGroup
}

type testNodes struct {
	t     testing.TB
	nodes []*testNode
	peers []cluster.Peer
}

func startNodes(t testing.TB, n int) *testNodes {
	c := &testNodes{t: t}
	for i := range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		x := &testNode{t: t, id: int32(i + 1), dir: t.TempDir(), addr: l.Addr().String()}
		_ = l.Close()
		c.nodes = append(c.nodes, x)
		c.peers = append(c.peers, cluster.Peer{ID: x.id, Address: x.addr})
		t.Cleanup(x.stop)
	}
	var wg sync.WaitGroup
	for _, x := range c.nodes {
		wg.Go(func() {
			if err := x.start(c.peers); err != nil {
				t.Errorf("node %d: %v", x.id, err)
			}
		})
	}
	wg.Wait()
	if t.Failed() {
		t.FailNow()
	}
	return c
}

func (x *testNode) start(peers []cluster.Peer) error {
	l, err := net.Listen("tcp", x.addr)
	if err != nil {
		return err
	}
	x.store, err = log.Open(x.dir+"/log", log.Options{Logger: quiet(), MinFreeBytes: 1, Configuration: cluster.Configuration})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	x.Node, err = cluster.Start(ctx, cluster.Options{
		NodeID: x.id, Store: x.store, Logger: quiet(), DataDir: x.dir, Peers: peers, Listener: l,
		Info: cluster.NodeInfo{Address: x.addr, Host: "127.0.0.1", Port: 9000 + x.id},
	})
	if err != nil {
		return errors.Join(err, x.store.Close())
	}
	if x.rows, err = Open(Options{Dir: x.dir + "/views", Node: x.Node, Logger: quiet(), Hidden: func(t *cluster.Topic) bool { return t.Internal }}); err != nil {
		return err
	}
	run, stop := context.WithCancel(context.Background())
	x.stopRun = stop
	x.running.Go(func() { x.rows.Run(run) })
	return nil
}

// cut ends what runs for other nodes, as a crash does.
func (x *testNode) cut() {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_ = x.rows.server.Shutdown(ctx)
}

func (x *testNode) stop() {
	if x.Node == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	x.stopRun()
	x.running.Wait()
	_ = x.rows.Close(ctx)
	if err := x.Stop(ctx); err != nil {
		x.t.Errorf("stop node %d: %v", x.id, err)
	}
	if err := x.store.Close(); err != nil {
		x.t.Errorf("close node %d: %v", x.id, err)
	}
	x.Node = nil
}

func (c *testNodes) running() (list []*testNode) {
	for _, x := range c.nodes {
		if x.Node != nil {
			list = append(list, x)
		}
	}
	return list
}

func eventually(t testing.TB, what string, check func() error) {
	t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: still %v", what, err)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// append writes through whoever leads until it is acknowledged. Who did not acknowledge it may have written it, too: it says what was written again.
func (c *testNodes) append(topic string, partition int32, batch func() []byte) (base int64) {
	c.t.Helper()
	eventually(c.t, "append", func() error {
		for _, x := range c.running() {
			r, err := x.Replica(topic, partition)
			if err != nil {
				continue
			}
			if _, _, self := r.Leader(); !self {
				continue
			}
			done := make(chan cluster.AppendResult, 1)
			ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
			defer cancel()
			r.Append(ctx, batch(), -1, func(a cluster.AppendResult) { done <- a })
			a := <-done
			base = a.BaseOffset
			return a.Err
		}
		return fmt.Errorf("%s-%d has no leader", topic, partition)
	})
	return base
}

// written is a record that was acknowledged.
type written struct {
	partition int32
	ts        int64
	key       string
	value     string // "": a delete
}

func (w *written) batch() []byte {
	var b record.Builder
	var value []byte
	if w.value != "" {
		value = []byte(w.value)
	}
	b.Append(w.ts, []byte(w.key), value)
	return b.Build(nil)
}

// twin answers from all that was acknowledged.
type twin []written

func (w twin) state() string {
	last := map[string]written{}
	for _, r := range w {
		last[r.key] = r
	}
	var lines []string
	for _, k := range slices.Sorted(maps.Keys(last)) {
		if r := last[k]; r.value != "" {
			lines = append(lines, fmt.Sprintf("%s=%s in %d", k, r.value, r.partition))
		}
	}
	return strings.Join(lines, "\n")
}

func (w twin) history(key string) string {
	var order []int32
	of := map[int32][]string{}
	for _, r := range w {
		if r.key != key {
			continue
		}
		if of[r.partition] == nil {
			order = append(order, r.partition)
		}
		of[r.partition] = append(of[r.partition], fmt.Sprintf("%d=%s", r.partition, r.value))
	}
	var lines []string
	for _, p := range order {
		lines = append(lines, of[p]...)
	}
	return strings.Join(slices.Compact(lines), "\n")
}

func (w twin) latest(key string) string {
	for _, r := range slices.Backward(w) {
		if r.key == key {
			return fmt.Sprintf("%s in %d", r.value, r.partition)
		}
	}
	return "none"
}

func (x *testNode) state(ctx context.Context, topic string) (string, error) {
	var lines []string
	err := x.rows.Scan(ctx, topic, snapshot.At{Now: true}, func(r snapshot.Row) error {
		lines = append(lines, fmt.Sprintf("%s=%s in %d", r.Key, r.Value, r.Partition))
		return nil
	})
	return strings.Join(lines, "\n"), err
}

func (x *testNode) history(ctx context.Context, topic, key string) (string, error) {
	var lines []string
	err := x.rows.History(ctx, topic, []byte(key), func(r snapshot.Row) error {
		lines = append(lines, fmt.Sprintf("%d=%s", r.Partition, r.Value))
		return nil
	})
	return strings.Join(slices.Compact(lines), "\n"), err // of appends that were tried again
}

func (x *testNode) latest(ctx context.Context, topic, key string) (string, error) {
	r, found, err := x.rows.Latest(ctx, topic, []byte(key), snapshot.At{})
	if !found {
		return "none", err
	}
	return fmt.Sprintf("%s in %d", r.Value, r.Partition), err
}

// TestEveryNodeAnswers: every node gives the answers of one that has everything, right after each acknowledgement, of topics of which no node has all
// partitions, while replicas move and nodes stop and start.
func TestEveryNodeAnswers(t *testing.T) {
	c := startNodes(t, 3)
	ctx := t.Context()
	const partitions = 4
	twins := map[string]twin{"one": nil, "two": nil, "three": nil}
	for name, factor := range map[string]int16{"one": 1, "two": 2, "three": 3} {
		if _, err := c.nodes[0].CreateTopic(ctx, cluster.TopicSpec{Name: name, Partitions: partitions, ReplicationFactor: factor}); err != nil {
			t.Fatal(err)
		}
	}
	for _, x := range c.nodes {
		eventually(t, "catalogue", func() error {
			if len(x.Catalog().Topics) < len(twins) {
				return errors.New("topics are missing")
			}
			return nil
		})
	}
	rng := rand.New(rand.NewPCG(3, 4))
	now := int64(1_000_000)
	names := []string{"one", "two", "three"}
	moves := map[string]int{}
	for round := range 40 {
		for range 6 {
			now++
			name := names[rng.IntN(len(names))]
			w := written{int32(rng.IntN(partitions)), now, fmt.Sprint("k", rng.IntN(9)), fmt.Sprint("v", now)}
			if rng.IntN(4) == 0 {
				w.value = ""
			}
			c.append(name, w.partition, w.batch)
			twins[name] = append(twins[name], w)
		}
		for _, name := range names {
			key := fmt.Sprint("k", rng.IntN(9))
			for _, x := range c.running() {
				if got, err := x.state(ctx, name); err != nil || got != twins[name].state() {
					t.Fatalf("round %d, node %d: state of %s: %v\n%s\nwant\n%s", round, x.id, name, err, got, twins[name].state())
				}
				if got, err := x.history(ctx, name, key); err != nil || got != twins[name].history(key) {
					t.Fatalf("round %d, node %d: history of %s in %s: %v\n%s\nwant\n%s", round, x.id, key, name, err, got, twins[name].history(key))
				}
				if got, err := x.latest(ctx, name, key); err != nil || got != twins[name].latest(key) {
					t.Fatalf("round %d, node %d: %s in %s: %v, %s, want %s", round, x.id, key, name, err, got, twins[name].latest(key))
				}
			}
		}
		if round%3 == 2 { // replicas move, and leaders with them
			name, p := names[round/3%2], int32(rng.IntN(partitions))
			order := rng.Perm(3)
			to := []int32{int32(order[0] + 1)}
			if name == "two" {
				to = append(to, int32(order[1]+1))
			}
			if err := c.running()[0].Reassign(ctx, name, p, to); err == nil {
				moves[name]++
			}
		}
	}
	for _, name := range names[:2] {
		if moves[name] == 0 {
			t.Errorf("nothing of %s moved", name)
		}
	}
	eventually(t, "moves", func() error {
		for _, name := range names {
			for p, at := range c.nodes[0].Catalog().Topics[name].Partitions {
				if at.Target != nil {
					var on []string
					for _, x := range c.nodes {
						if r, err := x.Replica(name, int32(p)); err == nil {
							on = append(on, fmt.Sprintf("node %d %v: %+v %+v", x.id, r.Member(), r.Status(), r.Log().Marks()))
						} else {
							on = append(on, err.Error())
						}
					}
					return fmt.Errorf("%s-%d is still moving: %+v\n%s", name, p, at, strings.Join(on, "\n"))
				}
			}
		}
		return nil
	})
	c.agree(names)
	for _, name := range names[:2] { // a replica that has moved away is no longer answered from
		for p, at := range c.nodes[0].Catalog().Topics[name].Partitions {
			for _, x := range c.nodes {
				eventually(t, "views in step with the placement", func() error {
					_, _, err := x.rows.local.AnyKeyIn(ctx, name, []int32{int32(p)})
					if here := slices.Contains(at.Nodes(), x.id); here != (err == nil) || !here && !errors.Is(err, snapshot.ErrElsewhere) {
						return fmt.Errorf("%s-%d, which is on %v, is answered by node %d with %w", name, p, at.Nodes(), x.id, err)
					}
					return nil
				})
			}
		}
	}
	// Without one node, the topic of three replicas is answered as before, and one that needs the node says so.
	c.nodes[2].stop()
	for _, x := range c.running() {
		eventually(t, "state after a node has stopped", func() error {
			got, err := x.state(ctx, "three")
			if err == nil && got != twins["three"].state() {
				t.Fatalf("node %d: %s\nwant\n%s", x.id, got, twins["three"].state())
			}
			return err
		})
	}
}

// agree compares what nodes say of the past, and of what may be stale once nothing is written any more.
func (c *testNodes) agree(topics []string) {
	c.t.Helper()
	offset := int64(7)
	for _, topic := range topics {
		for what, ask := range map[string]func(*testNode) (string, error){
			"offset 7": func(x *testNode) (string, error) {
				var lines []string
				err := x.rows.Scan(c.t.Context(), topic, snapshot.At{Offset: &offset}, func(r snapshot.Row) error {
					lines = append(lines, fmt.Sprintf("%s=%s in %d", r.Key, r.Value, r.Partition))
					return nil
				})
				return strings.Join(lines, "\n"), err
			},
			"stale": func(x *testNode) (string, error) {
				r, found, err := x.rows.Stale().Latest(c.t.Context(), topic, []byte("k1"), snapshot.At{})
				return fmt.Sprintf("%s at %d@%d, %v", r.Value, r.Partition, r.Offset, found), err
			},
		} {
			eventually(c.t, what+" of "+topic, func() error {
				var first string
				for i, x := range c.running() {
					got, err := ask(x)
					if err != nil {
						return fmt.Errorf("node %d: %w", x.id, err)
					}
					if i == 0 {
						first = got
					} else if got != first {
						return fmt.Errorf("node %d: %s; node 1: %s", x.id, got, first)
					}
				}
				return nil
			})
		}
	}
}

// TestLeaderStopsInAScan: the answer is whole, or an error that names the node.
func TestLeaderStopsInAScan(t *testing.T) {
	c := startNodes(t, 3)
	ctx := t.Context()
	const rows, perBatch = 24_000, 200
	if _, err := c.nodes[0].CreateTopic(ctx, cluster.TopicSpec{Name: "t", Assignment: [][]int32{{1, 2, 3}, {2, 3, 1}, {3, 1, 2}}}); err != nil {
		t.Fatal(err)
	}
	value := []byte(strings.Repeat("v", 1000))
	for i := 0; i < rows; i += perBatch {
		c.append("t", int32(i/perBatch%3), func() []byte {
			var b record.Builder
			for j := range perBatch {
				b.Append(int64(i+j), fmt.Appendf(nil, "key-%08d", i+j), value)
			}
			return b.Build(nil)
		})
	}
	scan := func(x *testNode, each func(n int)) (int, error) {
		n, last := 0, ""
		err := x.rows.Scan(ctx, "t", snapshot.At{Now: true}, func(r snapshot.Row) error {
			if string(r.Key) <= last || len(r.Value) != len(value) {
				t.Fatalf("%q behind %q", r.Key, last)
			}
			last = string(r.Key)
			n++
			each(n)
			return nil
		})
		return n, err
	}
	for _, x := range c.nodes {
		if n, err := scan(x, func(int) {}); n != rows || err != nil {
			t.Fatalf("node %d: %d of %d rows, %v", x.id, n, rows, err)
		}
	}
	failed := 0
	for _, at := range []int{1, rows / 4, rows - 1} {
		n, err := scan(c.nodes[0], func(n int) {
			if n == at {
				c.nodes[1].cut()
			}
		})
		switch {
		case err == nil && n != rows:
			t.Errorf("a scan whose leader was cut at row %d ends well with %d of %d rows", at, n, rows)
		case err != nil && !strings.Contains(err.Error(), "node 2"):
			t.Errorf("cut at row %d: the error names no node: %v", at, err)
		case err != nil:
			failed++
		}
		c.nodes[1].stop()
		if err := c.nodes[1].start(c.peers); err != nil {
			t.Fatal(err)
		}
		eventually(t, "node 2 leads again", func() error {
			leader, _, _ := c.nodes[0].LeaderOf(c.nodes[0].Catalog().Topics["t"], 1)
			if leader != 2 {
				return fmt.Errorf("node %d leads", leader)
			}
			return nil
		})
	}
	if failed == 0 {
		t.Error("no scan was cut")
	}
	// One who goes away ends the work of the others.
	stopped, cancel := context.WithCancel(ctx)
	err := c.nodes[0].rows.Scan(stopped, "t", snapshot.At{}, func(snapshot.Row) error {
		cancel()
		return nil
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("a scan that nobody wants any more ends with %v", err)
	}
}
