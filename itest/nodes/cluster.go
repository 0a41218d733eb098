// Package nodes runs a cluster of `rowtrail serve` processes, each on a host, a rack and a disk of its own: package netns makes the
// hosts, and a disk is a small tmpfs.
package nodes

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/rowtrail/rowtrail/itest/checker/load"
	"github.com/rowtrail/rowtrail/itest/netns"
	"github.com/rowtrail/rowtrail/itest/process"
	"github.com/rowtrail/rowtrail/log/sleep"
)

// Every node has the same ports at an address of its own.
const (
	kafkaPort   = 9092
	httpPort    = 8080
	ClusterPort = 9094 // where nodes connect to each other
)

// MinFree is node.min_free_bytes of every node.
const MinFree = 64 << 20

const (
	diskSize     = "2g"
	racks        = 3               // of nodes in turn: a, b, c
	lagTimeMax   = 2 * time.Second // replica_lag_time_max: what is in sync was so a moment ago
	wholeFor     = lagTimeMax + 1500*time.Millisecond
	wholeTimeout = 2 * time.Minute
	lookEvery    = 200 * time.Millisecond
	readyTimeout = 90 * time.Second
)

// Member is one node: a process on a host, with a disk.
type Member struct {
	ID   int32
	Host *netns.Host
	Dir  string
	Proc *process.Rowtrail
}

// String names it.
func (m *Member) String() string { return fmt.Sprintf("node %d", m.ID) }

// Disk is where its file system is mounted.
func (m *Member) Disk() string { return filepath.Join(m.Dir, "disk") }

// Data is its data directory.
func (m *Member) Data() string { return filepath.Join(m.Disk(), "data") }

// Kafka is the address that clients connect to.
func (m *Member) Kafka() string { return fmt.Sprintf("%s:%d", m.Host.Address, kafkaPort) }

// Cluster is the nodes and the network between them. Its operations are called by one goroutine; Members, Seeds, Dial and Client by any.
type Cluster struct {
	opts   Options
	net    *netns.Network
	spare  []*netns.Host
	nextID int32
	dialer net.Dialer

	mu      sync.Mutex
	members []*Member
}

// Options are what differs between clusters.
type Options struct {
	Binary, Dir string
	Nodes       int            // that found the cluster
	Spare       int            // hosts for nodes that join later
	Network     *netns.Network // with as many hosts; nil: one is made. The cluster closes it
	Connectors  []process.Connector
	Sinks       []process.Sink
}

// New starts nodes that found a cluster.
func New(ctx context.Context, o Options) (*Cluster, error) {
	network := o.Network
	if network == nil {
		var err error
		if network, err = netns.New(o.Nodes + o.Spare); err != nil {
			return nil, err
		}
	}
	c := &Cluster{opts: o, net: network, nextID: 1,
		spare: slices.Clone(network.Hosts), dialer: net.Dialer{Timeout: load.DialTimeout}}
	var peers []*Member
	for range o.Nodes {
		peers = append(peers, c.Next())
	}
	for _, m := range peers {
		if err := c.Add(m, peers); err != nil {
			return nil, errors.Join(err, c.Close())
		}
	}
	if err := c.Ready(ctx); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// Next is a Member on a spare host, under an id that nobody had.
func (c *Cluster) Next() *Member {
	m := &Member{ID: c.nextID, Host: c.spare[0], Dir: filepath.Join(c.opts.Dir, fmt.Sprintf("node-%d", c.nextID))}
	c.spare = c.spare[1:]
	c.nextID++
	return m
}

// Add makes the Member's disk and configuration, and starts it.
func (c *Cluster) Add(m *Member, peers []*Member) error {
	if err := os.MkdirAll(m.Disk(), 0o755); err != nil {
		return err
	}
	if err := syscall.Mount("tmpfs", m.Disk(), "tmpfs", 0, "size="+diskSize); err != nil {
		return fmt.Errorf("mount the disk of %s: %w", m, err)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "cluster:\n  listen: %s:%d\n  replica_lag_time_max: %s\n  peers:\n", m.Host.Address, ClusterPort, lagTimeMax)
	for _, p := range peers {
		fmt.Fprintf(&b, "    - {id: %d, address: %q}\n", p.ID, fmt.Sprintf("%s:%d", p.Host.Address, ClusterPort))
	}
	var err error
	m.Proc, err = process.New(c.opts.Binary, m.Dir, process.Config{
		Kafka: m.Kafka(), HTTP: fmt.Sprintf("%s:%d", m.Host.Address, httpPort), Command: m.Host.Command(), More: b.String(),
		Listen:     map[string]string{"http": fmt.Sprintf("0.0.0.0:%d", httpPort)}, // commands come over loopback
		Connectors: c.opts.Connectors, Sinks: c.opts.Sinks,
		Node: map[string]string{"id": fmt.Sprint(m.ID), "data_dir": m.Data(), "rack": string('a' + (m.ID-1)%racks), "min_free_bytes": fmt.Sprint(MinFree)},
	})
	if err != nil {
		return err
	}
	c.mu.Lock()
	c.members = append(c.members, m)
	c.mu.Unlock()
	return m.Proc.Start()
}

// Drop forgets a Member whose process has ended; its host is free.
func (c *Cluster) Drop(m *Member) error {
	c.mu.Lock()
	c.members = slices.DeleteFunc(c.members, func(o *Member) bool { return o == m })
	c.mu.Unlock()
	c.spare = append(c.spare, m.Host)
	return syscall.Unmount(m.Disk(), 0)
}

// Members are the nodes there are.
func (c *Cluster) Members() []*Member {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.members)
}

// Others are all but one.
func (c *Cluster) Others(m *Member) []*Member {
	return slices.DeleteFunc(c.Members(), func(o *Member) bool { return o == m })
}

// Hosts are those of members.
func Hosts(members []*Member) []*netns.Host {
	var all []*netns.Host
	for _, m := range members {
		all = append(all, m.Host)
	}
	return all
}

// Seeds are the addresses that clients are told.
func (c *Cluster) Seeds() []string {
	var all []string
	for _, m := range c.Members() {
		all = append(all, m.Kafka())
	}
	return all
}

// Dial connects straight to a node.
func (c *Cluster) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	return c.dialer.DialContext(ctx, network, address)
}

// Client is one of the harness's own.
func (c *Cluster) Client(opts ...kgo.Opt) (*kgo.Client, error) {
	return kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(c.Seeds()...), kgo.Dialer(c.Dial), kgo.MetadataMinAge(50 * time.Millisecond),
		kgo.RequestTimeoutOverhead(5 * time.Second), kgo.RetryTimeout(15 * time.Second)}, opts...)...)
}

// Close ends everything; what nodes wrote is kept in the directory where Keep was called before.
func (c *Cluster) Close() error {
	var errs []error
	for _, m := range c.Members() {
		if m.Proc != nil {
			if running, _ := m.Proc.Runs(); running {
				_ = syscall.Kill(m.Proc.PID(), syscall.SIGCONT)
			}
			errs = append(errs, m.Proc.Kill())
		}
		errs = append(errs, syscall.Unmount(m.Disk(), 0))
	}
	return errors.Join(append(errs, c.net.Close())...)
}

// Keep copies the nodes' data out of their disks, which end with the run.
func (c *Cluster) Keep() error {
	var errs []error
	for _, m := range c.Members() {
		errs = append(errs, os.CopyFS(filepath.Join(m.Dir, "kept"), os.DirFS(m.Disk())))
	}
	return errors.Join(errs...)
}

// Ready waits until every node is.
func (c *Cluster) Ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	for _, m := range c.Members() {
		if err := m.Proc.WaitReady(ctx); err != nil {
			return fmt.Errorf("%s is not ready though nothing is in its way: %w", m, err)
		}
	}
	return nil
}

// Whole waits until every partition has had a leader and all of its replicas in sync for so long that each of them has caught up.
func (c *Cluster) Whole(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, wholeTimeout)
	defer cancel()
	cl, err := c.Client()
	if err != nil {
		return err
	}
	defer cl.Close()
	adm := kadm.NewClient(cl)
	var since time.Time
	last := "nobody answered"
	for {
		asking, cancel := context.WithTimeout(ctx, 5*time.Second)
		all, err := adm.Metadata(asking)
		cancel()
		switch missing := c.missing(all); {
		case ctx.Err() != nil:
			return fmt.Errorf("the cluster is not whole %s after everything was healed: %s", wholeTimeout, last)
		case err != nil:
			since, last = time.Time{}, err.Error()
		case missing != "":
			since, last = time.Time{}, missing
		case since.IsZero():
			since = time.Now()
		case time.Since(since) >= wholeFor:
			return nil
		}
		sleep.For(ctx, lookEvery)
	}
}

// missing says what of the cluster is not as it should be.
func (c *Cluster) missing(all kadm.Metadata) string {
	known := map[int32]bool{}
	for _, b := range all.Brokers {
		known[b.NodeID] = true
	}
	for _, m := range c.Members() {
		if !known[m.ID] {
			return fmt.Sprintf("%s is not among the brokers", m)
		}
		delete(known, m.ID)
	}
	for id := range known {
		return fmt.Sprintf("node %d is among the brokers, and not in the cluster any more", id)
	}
	for _, t := range all.Topics.Sorted() {
		for _, p := range t.Partitions.Sorted() {
			if p.Err != nil || p.Leader < 0 || len(p.ISR) < len(p.Replicas) || len(p.OfflineReplicas) > 0 {
				return fmt.Sprintf("%s-%d: error %v, leader %d, replicas %v, in sync %v", t.Topic, p.Partition, p.Err, p.Leader, p.Replicas, p.ISR)
			}
		}
	}
	return ""
}

// Leader is the Member that leads a partition now, as a node says; nil: nobody knows.
func (c *Cluster) Leader(ctx context.Context, topic string, partition int32) *Member {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	cl, err := c.Client()
	if err != nil {
		return nil
	}
	defer cl.Close()
	all, err := kadm.NewClient(cl).Metadata(ctx, topic)
	if err != nil {
		return nil
	}
	id := all.Topics[topic].Partitions[partition].Leader
	for _, m := range c.Members() {
		if m.ID == id {
			return m
		}
	}
	return nil
}

// Outer is the address that clients of this process come from.
func (c *Cluster) Outer() string { return c.net.Outer }

// Spares is how many hosts are free.
func (c *Cluster) Spares() int { return len(c.spare) }
