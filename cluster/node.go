package cluster

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rowtrail/rowtrail/cluster/peer"
	"github.com/rowtrail/rowtrail/cluster/topicconfig"
	"github.com/rowtrail/rowtrail/log"
	"github.com/rowtrail/rowtrail/log/sleep"
)

// Options configure a Node.
type Options struct {
	NodeID    int32
	ClusterID string // "" on first start: generated and kept in the controller's log
	Store     *log.Store
	Logger    *slog.Logger
	// Workers is the number of step workers that drive all groups. Default 2.
	Workers int
	// DefaultPartitions is used where a TopicSpec says -1. Default 1.
	DefaultPartitions int32
	// ReplicationFactor is used where a TopicSpec does not say; a smaller cluster gives what it has. Default 3.
	ReplicationFactor int16
	// TopicDefaults are topic properties that hold where neither a topic nor the cluster's defaults say anything.
	TopicDefaults map[string]string
	// RetentionInterval is how often partitions are trimmed by size and time. Default 1 s, so that a fast producer
	// overshoots retention.bytes by little.
	RetentionInterval time.Duration
	// DataDir is where the node keeps who it is; "": nowhere, which is for tests of one node.
	DataDir string
	// Info is what other nodes and clients are told of this one.
	Info NodeInfo
	// Peers are the cluster's first nodes, or some nodes of a cluster to join; none: a cluster of one.
	Peers []Peer
	// Listener takes the connections of other nodes; nil: there are none.
	Listener  net.Listener
	ServerTLS *tls.Config        // between nodes; nil: in the clear
	ClientTLS func() *tls.Config // asked for every connection
	// ReplicaLagTime is replica.lag.time.max.ms. Default DefaultReplicaLagTime.
	ReplicaLagTime time.Duration
	// TransferRate bounds, in bytes per second, the raftSnapshots that this node sends. Default DefaultTransferRate.
	TransferRate int64
	// Waiting is told what the node waits for as it starts, in a sentence, again and again; "": for nothing any more.
	Waiting func(string)
	// OnFatal is called once when the node has halted because durability can no longer be promised. It may call Stop.
	OnFatal func(error)
}

// controllerDeletes is how long a deletion stays in the compacted controller's log, for nodes that are away.
const controllerDeletes = 24 * time.Hour

const (
	defaultWorkers           = 2
	defaultRetentionInterval = time.Second
)

func (o *Options) complete() error {
	if o.Store == nil {
		return fmt.Errorf("start cluster: Options.Store is missing")
	}
	if o.NodeID < 0 {
		return fmt.Errorf("start cluster: node id %d: choose 0 or more", o.NodeID)
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Workers <= 0 {
		o.Workers = defaultWorkers
	}
	if o.DefaultPartitions <= 0 {
		o.DefaultPartitions = 1
	}
	if o.ReplicationFactor <= 0 {
		o.ReplicationFactor = defaultReplicationFactor
	}
	if err := topicconfig.CheckTopic(o.TopicDefaults); err != nil {
		return fmt.Errorf("start cluster: defaults of topics: %w", err)
	}
	if o.RetentionInterval <= 0 {
		o.RetentionInterval = defaultRetentionInterval
	}
	if o.TransferRate <= 0 {
		o.TransferRate = DefaultTransferRate
	}
	if o.Waiting == nil {
		o.Waiting = func(string) {}
	}
	if o.ReplicaLagTime <= 0 {
		o.ReplicaLagTime = DefaultReplicaLagTime
	}
	return nil
}

// Node runs this process's replicas and its replica of the controller's log: the catalogue kept in Raft group 1.
type Node struct {
	opts    Options
	id      *identity
	sched   *scheduler
	log     *controllerLog
	ctl     *controller
	leaders *leaders
	net     *network // nil: a cluster of one

	leaving atomic.Bool // HandOver was called
	full    atomic.Bool // the disk is below its watermark
	asked   atomic.Bool // what was decided while this node was away is known, and the others know where it is now, or nobody could be asked
	// started is closed once the controller's log is open.
	started chan struct{}

	mu       sync.RWMutex
	opened   bool                  // all replicas that were placed here at the start have been opened
	replicas map[string][]*Replica // topic name -> by partition; nil entry: not on this node
	broken   map[log.GroupID]error // logs that could not be opened, by their id in the store

	reconciling sync.Mutex
	// settled are the catalogue's entries, which never change, that the replicas here agree with: nothing is to be done for them. Under reconciling.
	settled map[string]*Topic
	ctx     context.Context
	stop    context.CancelFunc
	loops   sync.WaitGroup
}

// Start opens every group that the catalogue places here. A node of a new cluster returns once the cluster is founded; one that comes
// back does not wait for the others.
func Start(ctx context.Context, opts Options) (*Node, error) {
	if err := opts.complete(); err != nil {
		return nil, err
	}
	n := &Node{
		opts: opts, replicas: map[string][]*Replica{}, settled: map[string]*Topic{}, broken: map[log.GroupID]error{}, leaders: newLeaders(), started: make(chan struct{}),
	}
	n.ctx, n.stop = context.WithCancel(context.Background())
	if err := n.start(ctx); err != nil {
		n.stop()
		if n.sched != nil {
			n.sched.closeGates(log.ErrClosed)
			if stopErr := n.sched.stop(ctx); stopErr != nil {
				opts.Logger.Warn("stop after a failed start", "error", stopErr)
			}
		}
		n.loops.Wait()
		if n.net != nil {
			n.net.close()
		} else if opts.Listener != nil {
			_ = opts.Listener.Close()
		}
		return nil, fmt.Errorf("start cluster: %w", err)
	}
	return n, nil
}

func (n *Node) start(ctx context.Context) error {
	var err error
	if n.id, err = openIdentity(n.opts.DataDir, n.opts.NodeID); err != nil {
		return err
	}
	if n.opts.Listener != nil {
		n.net = newNetwork(n)
	}
	c := schedulerConfig{
		store: n.opts.Store, transport: noPeers{}, workers: n.opts.Workers, logger: n.opts.Logger, now: time.Now, onFatal: n.opts.OnFatal,
	}
	if n.net != nil {
		c.transport, c.snapshots = n.net, n.net.transfers
	}
	n.sched = newScheduler(c)
	n.sched.start()
	n.loops.Go(func() { n.clockLoop(n.ctx) })
	if err := n.belong(ctx); err != nil {
		return err
	}
	if err := n.open(ctx); err != nil {
		return err
	}
	n.loops.Go(func() { n.reconcileLoop(n.ctx) })
	n.loops.Go(func() { n.registerLoop(n.ctx) })
	n.loops.Go(func() { n.balanceLoop(n.ctx) })
	if n.net != nil {
		n.loops.Go(func() { n.announceLoop(n.ctx) })
		n.loops.Go(func() { n.greetPeers(n.ctx) })
	}
	return nil
}

// belong makes a blank data directory belong to a cluster.
func (n *Node) belong(ctx context.Context) error {
	f := former{id: n.id, peers: n.opts.Peers, self: registration{Node: n.info(), ID: n.opts.NodeID}, named: n.opts.ClusterID, logger: n.opts.Logger, waits: n.belongs}
	if len(f.peers) == 0 {
		f.peers = []Peer{{ID: n.opts.NodeID}}
	}
	if n.net != nil {
		f.ask = n.net.net.CallAddress
	} else if len(f.peers) > 1 {
		return fmt.Errorf("cluster.peers names other nodes, and there is no cluster.listen for them: %w", ErrIdentity)
	}
	if n.net != nil && n.id.get().Formation != nil {
		return n.stillMember(ctx, &f)
	}
	err := f.form(ctx)
	if errors.Is(err, peer.ErrRemoved) {
		return n.markRemoved()
	}
	return err
}

// info is what this node says of itself.
func (n *Node) info() NodeInfo {
	i := n.opts.Info
	i.ID, i.Disk = n.opts.NodeID, n.id.get().Disk
	return i
}

// open brings up the controller's group, then every replica that its catalogue places here.
func (n *Node) open(ctx context.Context) error {
	err := n.openController()
	if errors.Is(err, log.ErrCorrupt) && n.net != nil {
		n.opts.Logger.Error("this node's replica of the controller's log cannot be trusted; it asks for a fresh one", "error", err)
		if err := n.renew(ctx); err != nil {
			return err
		}
		err = n.openController()
	}
	if err != nil {
		return err
	}
	close(n.started)
	if err := n.identify(ctx); err != nil {
		return err
	}
	err = n.reconcile(ctx)
	if err == nil || ctx.Err() != nil || n.sched.failed() != nil {
		return err
	}
	n.sayBroken(err) // and only that partition stays away
	return nil
}

func (n *Node) openController() error {
	me := n.id.get()
	self := Member{Node: n.opts.NodeID, Gen: me.Gen}
	id := logID(controllerGroup, me.Gen)
	part, err := n.opts.Store.Partition(id)
	if err != nil {
		return err
	}
	// On a full disk topics are deleted and their retention is lowered through this log.
	part.SetConfig(log.Config{
		MaxMessageBytes: log.MaxBatchBytes, RetentionBytes: -1, RetentionMs: -1,
		Compact: true, MinDirtyRatio: 0.5, DeleteRetentionMs: controllerDeletes.Milliseconds(), BelowWatermark: true,
	})
	if n.log, err = openControllerLog(part, n.opts.TopicDefaults, n.sched.fail); err != nil {
		return err
	}
	if n.Catalog().checkRemoved(me.Disk) != nil {
		return n.markRemoved()
	}
	g, err := n.sched.open(groupConfig{
		id: controllerGroup, log: id, self: self, first: me.Formation.firstControllers(), sm: n.log, store: part, lag: n.opts.ReplicaLagTime,
		notify: n.notify, lost: n.lose, logger: n.opts.Logger,
	})
	if err != nil {
		return err
	}
	n.ctl = newController(n.log, &Replica{topic: ControllerTopic, group: g, part: part, sched: n.sched})
	if n.net != nil {
		n.ctl.remote = n.net.net.Call
	}
	return nil
}

// controllerOf is the controller once it is there.
func (n *Node) controllerOf() *controller {
	select {
	case <-n.started:
		return n.ctl
	default:
		return nil
	}
}

// identify compares the cluster's id with the controller's log. The first leader of a new cluster writes it there, with the nodes that founded it.
func (n *Node) identify(ctx context.Context) error {
	me := n.id.get()
	if have := n.log.clusterID(); have != "" {
		return n.sameCluster(have, me)
	}
	err := n.introduce(ctx, func(s *catalogState) ([]change, error) {
		if s.clusterID != "" {
			return nil, nil
		}
		out := []change{encode(recordKey{Type: recordCluster}, clusterRecord{ID: me.Cluster, Disks: me.Formation.Disks})}
		for id, disk := range me.Formation.Disks {
			info := me.Formation.Nodes[id]
			info.ID, info.Disk = id, disk
			out = append(out, encodeNode(info))
		}
		return out, nil
	})
	if err != nil {
		return fmt.Errorf("wait for the controller's group: %w", err)
	}
	return n.sameCluster(n.log.clusterID(), me)
}

func (n *Node) sameCluster(have string, me identityFile) error {
	if want := n.opts.ClusterID; want != "" && want != have {
		return fmt.Errorf("cluster id is %s in the data directory and %s in the configuration; "+
			"correct one of them: %w", have, want, ErrClusterID)
	}
	if have != me.Cluster && n.id.fresh {
		// The log is older than what the directory says of itself.
		return n.id.change(func(x *identityFile) { x.Cluster, x.Formation.Cluster = have, have })
	}
	if have != me.Cluster {
		return fmt.Errorf("cluster id is %s in the log and %s in %s; the data directory was put together of two: %w", have, me.Cluster, identityName, ErrClusterID)
	}
	return nil
}

// registerLoop tells the catalogue where this node is, as soon as there is a leader to tell.
func (n *Node) registerLoop(ctx context.Context) {
	// A node that was away lacks what was decided meanwhile. Where nobody can be asked, what it knows has to do.
	ask, done := context.WithTimeout(ctx, askFor)
	if err := n.Current(ask); err != nil && ctx.Err() == nil {
		n.opts.Logger.Warn("what was decided while this node was away is not known: nobody who leads the controller's log answers", "error", err)
	}
	done()
	r := registration{Node: n.info(), ID: n.opts.NodeID}
	said := time.Now()
	for ctx.Err() == nil {
		try, cancel := context.WithTimeout(ctx, askFor)
		err := n.ctl.propose(try, func(s *catalogState) ([]change, error) { return s.register(r) })
		cancel()
		n.asked.Store(true)
		if err == nil {
			return
		}
		if errors.Is(err, ErrRemoved) {
			n.endRemoved()
			return
		}
		if ctx.Err() == nil && time.Since(said) >= sayEvery {
			said = time.Now()
			n.opts.Logger.Warn("the cluster was not told yet where this node is; it tries again", "error", err)
		}
		sleep.For(ctx, formEvery)
	}
}

// await waits until this node serves as the group's leader.
func (n *Node) await(ctx context.Context, g *group) error {
	select {
	case <-g.led:
		return nil
	case <-g.dead:
		if err := n.sched.failed(); err != nil {
			return err
		}
		return log.ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Stop gives away what this node leads, hands in what is in flight and stops the workers. The Store is closed by its owner afterwards.
func (n *Node) Stop(ctx context.Context) error {
	n.HandOver(ctx)
	n.stop()
	n.loops.Wait()
	err := n.sched.stop(ctx)
	if n.net != nil {
		n.net.close()
	}
	return err
}

// ID is this node's id.
func (n *Node) ID() int32 { return n.opts.NodeID }

// ClusterID is the cluster's id, the same on every node for ever.
func (n *Node) ClusterID() string { return n.log.clusterID() }

// TopicDefaults are the topic properties that Options gave. They are not to be changed.
func (n *Node) TopicDefaults() map[string]string { return n.opts.TopicDefaults }

// Catalog is the newest catalogue.
func (n *Node) Catalog() *Catalog { return n.log.catalog.Load() }

// CatalogChanged returns a channel that is closed at the next change of the catalogue. Take it before Catalog.
func (n *Node) CatalogChanged() <-chan struct{} { return n.log.changed() }

// Quorum is the state of the controller's group.
type Quorum struct {
	Leader, Epoch      int32 // -1: none is known
	HighWatermark, End int64 // of this node's log
	Voters             []int32
	Members            []QuorumMember
}

// QuorumMember is a member of the controller's group.
type QuorumMember struct {
	Node   int32
	Voter  bool
	InSync bool
	Behind uint64 // entries that the leader does not know on its disk yet
}

// Quorum describes the controller's group as this node sees it: how far the others are is the leader's to know.
func (n *Node) Quorum() Quorum {
	leader, epoch, self := n.ctl.replica.Leader()
	m := n.log.Marks()
	q := Quorum{Leader: leader, Epoch: epoch, HighWatermark: m.HighWatermark, End: m.End}
	last := n.ctl.replica.part.LastIndex()
	for _, x := range n.ctl.replica.Status().Members {
		member := QuorumMember{Node: x.Node, Voter: x.Voter, InSync: x.InSync || x.Node == n.opts.NodeID}
		if self && x.Node != n.opts.NodeID && last > x.Match {
			member.Behind = last - x.Match
		}
		if q.Members = append(q.Members, member); x.Voter {
			q.Voters = append(q.Voters, x.Node)
		}
	}
	return q
}

// Metrics are the node's figures.
type Metrics struct {
	Groups     int64
	Proposals  int64 // batches proposed by this node
	Commits    int64 // entries applied
	Written    int64 // entries made durable
	Syncs      int64 // Written / Syncs is how many entries share a sync
	QueueBytes int64 // appends not yet durable
	InFlight   int64 // appends not yet answered

	Elections     int64 // that replicas of this node stood in
	LeaderChanges int64 // other leaders than before that replicas of this node followed, or became
	InSyncShrinks int64 // times that replicas fell out of sync with a partition that this node leads
	InSyncExpands int64 // and came back

	Peers     peer.Stats
	Transfers TransferStats
	// Connected are the nodes that heartbeats can be sent to now.
	Connected map[int32]bool
}

// TransferStats are the figures of raftSnapshots.
type TransferStats struct {
	Sending       int64 // now
	SentBytes     int64
	ReceivedBytes int64
	Failed        int64 // transfers that broke; they are tried again
}

// Metrics returns the figures of this moment.
func (n *Node) Metrics() Metrics {
	c := &n.sched.counters
	m := Metrics{
		Groups: c.groups.Load(), Proposals: c.proposals.Load(), Commits: c.commits.Load(),
		Written: c.written.Load(), Syncs: c.syncs.Load(),
		QueueBytes: n.sched.queueBytes(), InFlight: n.sched.inflight.Load(),
		Elections: c.elections.Load(), LeaderChanges: c.leaderChanges.Load(), InSyncShrinks: c.shrinks.Load(), InSyncExpands: c.expands.Load(),
	}
	if n.net != nil {
		t := n.net.transfers
		m.Peers, m.Connected = n.net.net.Stats(), n.net.net.Connected()
		m.Transfers = TransferStats{Sending: t.active.Load(), SentBytes: t.sent.Load(), ReceivedBytes: t.received.Load(), Failed: t.failed.Load()}
	}
	return m
}

func randomID() (id [16]byte) {
	_, _ = rand.Read(id[:]) // never fails: crypto/rand ends the process instead
	return id
}
