package cluster

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/rowtrail/rowtrail/cluster/topicconfig"
	"github.com/rowtrail/rowtrail/log"
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
	// TopicDefaults are topic properties that hold where neither a topic nor the cluster's defaults say anything.
	TopicDefaults map[string]string
	// RetentionInterval is how often partitions are trimmed by size and time. Default 1 s, so that a fast producer
	// overshoots retention.bytes by little.
	RetentionInterval time.Duration
	// OnFatal is called once when the node has halted because durability can no longer be promised. It may call Stop.
	OnFatal func(error)
}

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
	if err := topicconfig.CheckTopic(o.TopicDefaults); err != nil {
		return fmt.Errorf("start cluster: defaults of topics: %w", err)
	}
	if o.RetentionInterval <= 0 {
		o.RetentionInterval = defaultRetentionInterval
	}
	return nil
}

// Node runs this process's replicas and the controller: the topic catalogue kept in Raft group 1.
type Node struct {
	opts  Options
	sched *scheduler
	log   *controllerLog
	ctl   *controller

	mu       sync.RWMutex
	replicas map[string][]*Replica // topic name -> by partition; nil entry: not on this node
	broken   map[log.GroupID]error // replicas that could not be opened

	reconciling sync.Mutex
	stop        context.CancelFunc
	loops       sync.WaitGroup
}

// Start opens every group and returns when this node leads them (single voter: at once).
func Start(ctx context.Context, opts Options) (*Node, error) {
	if err := opts.complete(); err != nil {
		return nil, err
	}
	n := &Node{opts: opts, replicas: map[string][]*Replica{}, broken: map[log.GroupID]error{}}
	n.sched = newScheduler(schedulerConfig{
		store: opts.Store, transport: noPeers{}, workers: opts.Workers, logger: opts.Logger,
		now: time.Now, onFatal: opts.OnFatal,
	})
	n.sched.start()
	if err := n.open(ctx); err != nil {
		if stopErr := n.sched.stop(ctx); stopErr != nil {
			opts.Logger.Warn("stop after a failed start", "error", stopErr)
		}
		return nil, fmt.Errorf("start cluster: %w", err)
	}
	loop, cancel := context.WithCancel(context.Background())
	n.stop = cancel
	n.loops.Add(2)
	go func() {
		defer n.loops.Done()
		n.reconcileLoop(loop)
	}()
	go func() {
		defer n.loops.Done()
		n.clockLoop(loop)
	}()
	return n, nil
}

// open brings up the controller's group, then every replica that its catalogue places here.
func (n *Node) open(ctx context.Context) error {
	part, err := n.opts.Store.Partition(controllerGroup)
	if err != nil {
		return err
	}
	// On a full disk topics are deleted and their retention is lowered through this log.
	part.SetConfig(log.Config{MaxMessageBytes: log.MaxBatchBytes, RetentionBytes: -1, RetentionMs: -1, BelowWatermark: true})
	if n.log, err = openControllerLog(part, n.opts.TopicDefaults, n.sched.fail); err != nil {
		return err
	}
	g, err := n.sched.open(groupConfig{
		id: controllerGroup, self: Member{Node: n.opts.NodeID}, first: []Member{{Node: n.opts.NodeID}}, sm: n.log, store: part, logger: n.opts.Logger,
	})
	if err != nil {
		return err
	}
	r := &Replica{topic: ControllerTopic, group: g, part: part, sched: n.sched}
	n.ctl = newController(n.log, r)
	if err := n.await(ctx, g); err != nil {
		return fmt.Errorf("wait for the controller's group: %w", err)
	}
	if err := n.identify(ctx); err != nil {
		return err
	}
	n.dropOrphans()
	return n.reconcile(ctx)
}

// nodes lists the members of the cluster, for placement.
func (n *Node) nodes() []int32 { return []int32{n.opts.NodeID} }

// identify checks the cluster id against the controller's log, and writes it there on the first start.
func (n *Node) identify(ctx context.Context) error {
	have, want := n.log.clusterID(), n.opts.ClusterID
	if have != "" {
		if want != "" && want != have {
			return fmt.Errorf("cluster id is %s in the data directory and %s in the configuration; "+
				"correct one of them: %w", have, want, ErrClusterID)
		}
		return nil
	}
	if want == "" {
		id := randomID()
		want = base64.RawURLEncoding.EncodeToString(id[:])
	}
	return n.ctl.propose(ctx, func(*catalogState) ([]change, error) {
		return []change{encode(recordKey{Type: recordCluster}, clusterRecord{ID: want})}, nil
	})
}

// dropOrphans finishes deletions that a crash interrupted.
func (n *Node) dropOrphans() {
	for _, id := range n.log.orphans(n.opts.Store.Groups()) {
		n.opts.Store.Drop(id)
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

// Stop hands in what is in flight and stops the workers. The Store is closed by its owner afterwards.
func (n *Node) Stop(ctx context.Context) error {
	n.stop()
	n.loops.Wait()
	return n.sched.stop(ctx)
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
}

// Quorum describes the controller's group as this node sees it.
func (n *Node) Quorum() Quorum {
	leader, epoch, _ := n.ctl.replica.Leader()
	m := n.log.Marks()
	return Quorum{Leader: leader, Epoch: epoch, HighWatermark: m.HighWatermark, End: m.End, Voters: n.nodes()}
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
}

// Metrics returns the figures of this moment.
func (n *Node) Metrics() Metrics {
	c := &n.sched.counters
	return Metrics{
		Groups: c.groups.Load(), Proposals: c.proposals.Load(), Commits: c.commits.Load(),
		Written: c.written.Load(), Syncs: c.syncs.Load(),
		QueueBytes: n.sched.queueBytes(), InFlight: n.sched.inflight.Load(),
	}
}

func randomID() (id [16]byte) {
	_, _ = rand.Read(id[:]) // never fails: crypto/rand ends the process instead
	return id
}
