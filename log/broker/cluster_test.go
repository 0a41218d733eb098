package broker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rowtrail/rowtrail/cluster"
	"github.com/rowtrail/rowtrail/log"
	"github.com/rowtrail/rowtrail/log/broker/sasl"
)

// brokers is a cluster of nodes with a broker each, over loopback sockets, in one process.
type brokers struct {
	t     testing.TB
	nodes []*clusterBroker
	peers []cluster.Peer
}

// clusterBroker is one of them. Broker is nil while it is stopped.
type clusterBroker struct {
	*Broker
	c            *brokers
	id           int32
	dir, rack    string
	peer, client string // addresses
	node         *cluster.Node
	store        *log.Store
	logs         *logLines
	served       chan error
	change       []func(*Options)
}

// serveCluster starts n nodes, each in a rack of its own.
func serveCluster(t testing.TB, n int, change ...func(*Options)) *brokers {
	t.Helper()
	c := &brokers{t: t}
	for i := range n {
		x := &clusterBroker{c: c, id: int32(i + 1), dir: t.TempDir(), rack: fmt.Sprint("rack", i+1), peer: unusedAddress(t), client: unusedAddress(t), change: change}
		c.nodes = append(c.nodes, x)
		c.peers = append(c.peers, cluster.Peer{ID: x.id, Address: x.peer})
	}
	t.Cleanup(func() {
		var wg sync.WaitGroup
		for _, x := range c.nodes {
			wg.Go(x.stop)
		}
		wg.Wait()
	})
	c.start(c.nodes...)
	return c
}

func unusedAddress(t testing.TB) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// start starts nodes side by side.
func (c *brokers) start(nodes ...*clusterBroker) {
	c.t.Helper()
	var wg sync.WaitGroup
	for _, x := range nodes {
		wg.Go(func() {
			if err := x.start(); err != nil {
				c.t.Errorf("node %d: %v", x.id, err)
			}
		})
	}
	wg.Wait()
	if c.t.Failed() {
		c.t.FailNow()
	}
}

func (x *clusterBroker) start() error {
	peers, err := net.Listen("tcp", x.peer)
	if err != nil {
		return err
	}
	clients, err := net.Listen("tcp", x.client)
	if err != nil {
		return err
	}
	x.store, err = log.Open(x.dir+"/log", log.Options{MinFreeBytes: 1 << 20, Configuration: cluster.Configuration})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	port := int32(clients.Addr().(*net.TCPAddr).Port)
	logger := slog.New(slog.DiscardHandler)
	if os.Getenv("ROWTRAIL_CLUSTER_LOG") != "" {
		logger = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug})).With("at", x.id)
	}
	x.node, err = cluster.Start(ctx, cluster.Options{
		NodeID: x.id, Store: x.store, Logger: logger, DataDir: x.dir, Peers: x.c.peers, Listener: peers, ReplicaLagTime: 2 * time.Second,
		Info: cluster.NodeInfo{Address: x.peer, Host: "127.0.0.1", Port: port, Rack: x.rack},
	})
	if err != nil {
		return err
	}
	x.logs = &logLines{}
	opts := Options{
		Node: x.node, AdvertisedHost: "127.0.0.1", AdvertisedPort: port, Rack: x.rack, Logger: slog.New(slog.NewTextHandler(x.logs, nil)),
		AutoCreateTopics: true,
	}
	for _, f := range x.change {
		f(&opts)
	}
	b, err := New(opts)
	if err != nil {
		return err
	}
	x.served = make(chan error, 1)
	go func() { x.served <- b.Serve(clients) }()
	x.Broker = b
	return nil
}

// stop ends a node in order: it hands over what it leads.
func (x *clusterBroker) stop() {
	if x.node == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if x.Broker != nil {
		if err := x.Shutdown(ctx); err != nil {
			x.c.t.Errorf("shut down broker %d: %v", x.id, err)
		}
		if err := <-x.served; !errors.Is(err, ErrClosed) {
			x.c.t.Errorf("broker %d: Serve returned %v", x.id, err)
		}
	}
	if err := x.node.Stop(ctx); err != nil {
		x.c.t.Errorf("stop node %d: %v", x.id, err)
	}
	if err := x.store.Close(); err != nil {
		x.c.t.Errorf("close store %d: %v", x.id, err)
	}
	if n := x.logs.count("request handler failed"); n > 0 {
		x.c.t.Errorf("%d handlers panicked:\n%s", n, x.logs)
	}
	if x.c.t.Failed() {
		x.c.t.Logf("node %d said:\n%s", x.id, x.logs)
	}
	x.node, x.Broker = nil, nil
}

// seeds are the addresses of the nodes that run.
func (c *brokers) seeds() []string {
	var out []string
	for _, x := range c.nodes {
		if x.Broker != nil {
			out = append(out, x.client)
		}
	}
	return out
}

func (c *brokers) client(opts ...kgo.Opt) *kgo.Client {
	c.t.Helper()
	cl, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(c.seeds()...), kgo.MetadataMinAge(20 * time.Millisecond)}, opts...)...)
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(cl.Close)
	return cl
}

// leader waits until a partition's leader serves.
func (c *brokers) leader(topic string, partition int32) *clusterBroker {
	c.t.Helper()
	var found *clusterBroker
	waitLong(c.t, "leader of "+topic, func() bool {
		for _, x := range c.nodes {
			if x.Broker == nil {
				continue
			}
			if r, err := x.node.Replica(topic, partition); err == nil {
				if _, _, self := r.Leader(); self {
					found = x
					return true
				}
			}
		}
		return false
	})
	return found
}

func TestClusterMetadata(t *testing.T) {
	c := serveCluster(t, 3)
	adm := kadm.NewClient(c.client())
	if _, err := adm.CreateTopic(t.Context(), 3, 3, nil, "t"); err != nil {
		t.Fatal(err)
	}
	if _, err := adm.CreateTopic(t.Context(), 1, 4, nil, "u"); err == nil {
		t.Error("four replicas on three nodes")
	}
	for _, x := range c.nodes {
		one, err := kgo.NewClient(kgo.SeedBrokers(x.client))
		if err != nil {
			t.Fatal(err)
		}
		defer one.Close()
		waitLong(t, fmt.Sprintf("node %d knows all", x.id), func() bool {
			m, err := kadm.NewClient(one).Metadata(t.Context(), "t")
			if err != nil || len(m.Brokers) != 3 || m.Controller < 1 {
				return false
			}
			for _, b := range m.Brokers {
				n := c.nodes[b.NodeID-1]
				if net.JoinHostPort(b.Host, fmt.Sprint(b.Port)) != n.client || b.Rack == nil || *b.Rack != n.rack {
					t.Fatalf("node %d is told to be at %s:%d, rack %v", b.NodeID, b.Host, b.Port, b.Rack)
				}
			}
			for _, p := range m.Topics["t"].Partitions {
				if p.Leader != p.Replicas[0] || len(p.ISR) != 3 || p.Err != nil {
					return false
				}
			}
			return len(m.Topics["t"].Partitions) == 3
		})
	}
	for _, name := range []string{"__consumer_offsets", "__transaction_state"} {
		waitLong(t, name, func() bool {
			for _, x := range c.nodes {
				if topic := x.node.Catalog().Topics[name]; topic == nil || len(topic.Partitions[0].Members) != 3 {
					return false
				}
			}
			return true
		})
	}
}

// TestClusterLeaderStops: what was acknowledged is there, in order and once, and clients go on by themselves when the node that leads their
// partition and their group stops.
func TestClusterLeaderStops(t *testing.T) {
	c := serveCluster(t, 3)
	adm := kadm.NewClient(c.client())
	if _, err := adm.CreateTopic(t.Context(), 1, 3, nil, "t"); err != nil {
		t.Fatal(err)
	}
	p := c.client(kgo.DefaultProduceTopic("t"))
	produce := func(from, to int) {
		t.Helper()
		for i := from; i < to; i++ {
			if err := p.ProduceSync(t.Context(), kgo.StringRecord(fmt.Sprint(i))).FirstErr(); err != nil {
				t.Fatalf("record %d: %v", i, err)
			}
		}
	}
	read := func(cl *kgo.Client, n int) (got []string) {
		t.Helper()
		for _, r := range consume(t, cl, n) {
			got = append(got, string(r.Value))
		}
		return got
	}
	numbers := func(from, to int) (out []string) {
		for i := from; i < to; i++ {
			out = append(out, fmt.Sprint(i))
		}
		return out
	}
	produce(0, 50)
	cl := c.client(kgo.ConsumerGroup("g"), kgo.ConsumeTopics("t"), kgo.DisableAutoCommit())
	if got := read(cl, 50); !slices.Equal(got, numbers(0, 50)) {
		t.Fatalf("read %v", got)
	}
	if err := cl.CommitUncommittedOffsets(t.Context()); err != nil {
		t.Fatal(err)
	}
	lead := c.leader("t", 0)
	lead.stop()
	produce(50, 100)
	if got := read(cl, 50); !slices.Equal(got, numbers(50, 100)) {
		t.Fatalf("read %v", got)
	}
	// The group's coordinator goes, too.
	c.start(lead)
	keeper := c.leader("__consumer_offsets", lead.groups.PartitionFor("g"))
	if err := cl.CommitUncommittedOffsets(t.Context()); err != nil {
		t.Fatal(err)
	}
	keeper.stop()
	produce(100, 120)
	if got := read(cl, 20); !slices.Equal(got, numbers(100, 120)) {
		t.Fatalf("read %v", got)
	}
	if err := cl.CommitUncommittedOffsets(t.Context()); err != nil {
		t.Fatal(err)
	}
	cl.Close()
	produce(120, 130)
	again := c.client(kgo.ConsumerGroup("g"), kgo.ConsumeTopics("t"))
	if got := read(again, 10); !slices.Equal(got, numbers(120, 130)) {
		t.Fatalf("read after the commit %v", got)
	}
}

// readFrom counts the Fetch responses of each node.
type readFrom struct {
	mu    sync.Mutex
	nodes map[int32]int
}

func (h *readFrom) OnBrokerRead(m kgo.BrokerMetadata, key int16, n int, _, _ time.Duration, err error) {
	if key == 1 && err == nil && n > 1000 {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.nodes[m.NodeID]++
	}
}

// TestClusterReadsInTheRack: a consumer that says its rack reads from the replica there (KIP-392), and from another one when that is gone.
func TestClusterReadsInTheRack(t *testing.T) {
	c := serveCluster(t, 3)
	adm := kadm.NewClient(c.client())
	if _, err := adm.CreateTopic(t.Context(), 1, 3, nil, "t"); err != nil {
		t.Fatal(err)
	}
	value := make([]byte, 2000)
	p := c.client(kgo.DefaultProduceTopic("t"))
	produce := func() {
		t.Helper()
		for range 20 {
			if err := p.ProduceSync(t.Context(), &kgo.Record{Value: value}).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
	}
	produce()
	lead := c.leader("t", 0)
	near := c.nodes[int(lead.id)%3]
	seen := &readFrom{nodes: map[int32]int{}}
	cl := c.client(kgo.Rack(near.rack), kgo.ConsumeTopics("t"), kgo.WithHooks(seen), kgo.RecheckPreferredReplicaInterval(5*time.Second))
	consume(t, cl, 20)
	produce()
	consume(t, cl, 20)
	seen.mu.Lock()
	if seen.nodes[near.id] == 0 || len(seen.nodes) != 1 {
		t.Errorf("read from %v, want all from %d", seen.nodes, near.id)
	}
	seen.mu.Unlock()
	near.stop()
	produce()
	consume(t, cl, 20)
}

// TestClusterMinority: a node that is left alone refuses writes in bounded time with an error that clients retry, goes on to serve what it has, also after
// a restart, and takes writes again with the others.
func TestClusterMinority(t *testing.T) {
	c := serveCluster(t, 3)
	adm := kadm.NewClient(c.client())
	if _, err := adm.CreateTopic(t.Context(), 1, 3, nil, "t"); err != nil {
		t.Fatal(err)
	}
	p := c.client(kgo.DefaultProduceTopic("t"))
	for i := range 10 {
		if err := p.ProduceSync(t.Context(), kgo.StringRecord(fmt.Sprint(i))).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	alone := c.nodes[0]
	waitLong(t, "all of it on node 1", func() bool {
		r, err := alone.node.Replica("t", 0)
		return err == nil && r.Log().Marks().HighWatermark == 10
	})
	for _, x := range c.nodes[1:] {
		x.stop()
	}
	reads := func() {
		t.Helper()
		req := kmsg.NewPtrFetchRequest()
		req.Version, req.MaxBytes, req.MaxWaitMillis = 12, 1<<20, 100
		req.Topics = []kmsg.FetchRequestTopic{{Topic: "t", Partitions: []kmsg.FetchRequestTopicPartition{
			{CurrentLeaderEpoch: -1, LastFetchedEpoch: -1, PartitionMaxBytes: 1 << 20}}}}
		conn := dial(t, alone.client)
		resp := askRaw[*kmsg.FetchResponse](t, conn, req)
		if sp := resp.Topics[0].Partitions[0]; sp.ErrorCode != 0 || sp.HighWatermark != 10 || len(sp.RecordBatches) == 0 {
			t.Errorf("a minority reads: %+v", sp)
		}
	}
	refuses := func() {
		t.Helper()
		conn := dial(t, alone.client)
		began := time.Now()
		resp := askRaw[*kmsg.ProduceResponse](t, conn, produceRequest("t", -1, batchOf("v")))
		code := resp.Topics[0].Partitions[0].ErrorCode
		if err := kerr.ErrorForCode(code); code == 0 || !kerr.IsRetriable(err) {
			t.Errorf("a minority answers a write with %v", err)
		}
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("a minority answers a write after %v", took)
		}
	}
	// Whoever else led meanwhile may have acknowledged more: a leader does not tell the end without a quorum, though it has not stepped down yet.
	ends := func() {
		t.Helper()
		req := kmsg.NewPtrListOffsetsRequest()
		req.Version = 7
		req.Topics = []kmsg.ListOffsetsRequestTopic{{Topic: "t", Partitions: []kmsg.ListOffsetsRequestTopicPartition{{CurrentLeaderEpoch: -1, Timestamp: offsetLatest}}}}
		resp := askRaw[*kmsg.ListOffsetsResponse](t, dial(t, alone.client), req)
		code := resp.Topics[0].Partitions[0].ErrorCode
		if err := kerr.ErrorForCode(code); code == 0 || !kerr.IsRetriable(err) {
			t.Errorf("a minority tells the end: %+v (%v)", resp.Topics[0].Partitions[0], err)
		}
	}
	// A client that knows nothing but this node finds it, reads from the start and is refused to write, though no leader is known.
	finds := func() {
		t.Helper()
		cl := c.client(kgo.SeedBrokers(alone.client), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{"t": {0: kgo.NewOffset().AtStart()}}))
		defer cl.Close()
		for i, r := range consume(t, cl, 10) {
			if string(r.Value) != fmt.Sprint(i) {
				t.Errorf("a client reads %q as record %d", r.Value, i)
			}
		}
		req := kmsg.NewPtrMetadataRequest()
		req.Version = 9
		resp := askRaw[*kmsg.MetadataResponse](t, dial(t, alone.client), req)
		for _, rt := range resp.Topics {
			for _, rp := range rt.Partitions {
				if rp.Leader != alone.id || rp.ErrorCode != 0 || len(rp.OfflineReplicas) != 2 {
					t.Errorf("metadata of topic %s: %+v", *rt.Topic, rp)
				}
			}
		}
	}
	ends()
	refuses()
	reads()
	finds()
	alone.stop()
	c.start(alone) // without a controller
	reads()
	refuses()
	finds()
	c.start(c.nodes[1:]...)
	again := c.client(kgo.DefaultProduceTopic("t"), kgo.ConsumeTopics("t"))
	if err := again.ProduceSync(t.Context(), kgo.StringRecord("more")).FirstErr(); err != nil {
		t.Fatal(err)
	}
	// What was refused may have been appended by then.
	got := consume(t, again, 11)
	for string(got[len(got)-1].Value) != "more" {
		got = append(got, consume(t, again, 1)...)
	}
	for i, r := range got[:10] {
		if string(r.Value) != fmt.Sprint(i) {
			t.Errorf("record %d is %q", i, r.Value)
		}
	}
}

// TestClusterInProcessClients: a client in a node's process reaches partitions that other nodes lead, as the internal principal.
func TestClusterInProcessClients(t *testing.T) {
	c := serveCluster(t, 3, func(o *Options) {
		o.SASL = &SASLOptions{Mechanisms: []string{"PLAIN"}, Users: []sasl.User{{Name: "u", Password: "p"}}}
	})
	x := c.nodes[0]
	client := func(opts ...kgo.Opt) *kgo.Client {
		return c.client(append(opts, kgo.SeedBrokers(x.client), kgo.Dialer(x.Dialer()))...)
	}
	adm := kadm.NewClient(client())
	if _, err := adm.CreateTopic(t.Context(), 3, 2, nil, "t"); err != nil {
		t.Fatal(err)
	}
	p := client(kgo.DefaultProduceTopic("t"), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.TransactionalID("x"))
	if err := p.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	for i := range 30 {
		r := &kgo.Record{Partition: int32(i % 3), Value: fmt.Append(nil, i)}
		if err := p.ProduceSync(t.Context(), r).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.EndTransaction(t.Context(), kgo.TryCommit); err != nil {
		t.Fatal(err)
	}
	consume(t, client(kgo.ConsumerGroup("g"), kgo.ConsumeTopics("t"), kgo.FetchIsolationLevel(kgo.ReadCommitted())), 30)
}

// TestClusterElectionsAndMoves: replicas move and leaders change as an admin asks, while a producer goes on.
func TestClusterElectionsAndMoves(t *testing.T) {
	c := serveCluster(t, 3)
	adm := kadm.NewClient(c.client())
	one := []kmsg.CreateTopicsRequestTopicReplicaAssignment{{Partition: 0, Replicas: []int32{2, 3}}}
	create := kmsg.NewPtrCreateTopicsRequest()
	create.Topics = []kmsg.CreateTopicsRequestTopic{{Topic: "t", NumPartitions: -1, ReplicationFactor: -1, ReplicaAssignment: one}}
	if resp, err := create.RequestWith(t.Context(), c.client()); err != nil || resp.Topics[0].ErrorCode != 0 {
		t.Fatal(err, resp)
	}
	p := c.client(kgo.DefaultProduceTopic("t"))
	produced := 0
	produce := func() {
		t.Helper()
		if err := p.ProduceSync(t.Context(), kgo.StringRecord(fmt.Sprint(produced))).FirstErr(); err != nil {
			t.Fatal(err)
		}
		produced++
	}
	produce()
	at := func() kadm.PartitionDetail {
		m, err := adm.Metadata(t.Context(), "t")
		if err != nil {
			t.Fatal(err)
		}
		return m.Topics["t"].Partitions[0]
	}
	if d := at(); d.Leader != 2 || !slices.Equal(d.Replicas, []int32{2, 3}) {
		t.Fatalf("assigned to 2 and 3: %+v", d)
	}
	// A third replica, which is to lead.
	moves := kadm.AlterPartitionAssignmentsReq{}
	moves.Assign("t", 0, []int32{1, 2, 3})
	if _, err := adm.AlterPartitionAssignments(t.Context(), moves); err != nil {
		t.Fatal(err)
	}
	waitLong(t, "three replicas", func() bool {
		produce()
		d := at()
		return slices.Equal(d.Replicas, []int32{1, 2, 3}) && len(d.ISR) == 3
	})
	var tp kadm.TopicsSet
	tp.Add("t", 0)
	waitLong(t, "the end of the move", func() bool {
		list, err := adm.ListPartitionReassignments(t.Context(), tp)
		return err == nil && len(list.Sorted()) == 0
	})
	if _, err := adm.ElectLeaders(t.Context(), kadm.ElectPreferredReplica, tp); err != nil {
		t.Fatal(err)
	}
	waitLong(t, "the preferred leader", func() bool { produce(); return at().Leader == 1 })
	// And one replica less.
	moves = kadm.AlterPartitionAssignmentsReq{}
	moves.Assign("t", 0, []int32{3})
	if _, err := adm.AlterPartitionAssignments(t.Context(), moves); err != nil {
		t.Fatal(err)
	}
	waitLong(t, "one replica", func() bool {
		produce()
		d := at()
		return d.Leader == 3 && slices.Equal(d.Replicas, []int32{3})
	})
	for i, r := range consume(t, c.client(kgo.ConsumeTopics("t")), produced) {
		if string(r.Value) != fmt.Sprint(i) {
			t.Fatalf("record %d is %q", i, r.Value)
		}
	}
}
