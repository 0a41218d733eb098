package main

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
)

// Every node has the same ports at an address of its own.
const (
	kafkaPort   = 9092
	httpPort    = 8080
	clusterPort = 9094
)

const (
	diskSize     = "2g"
	minFree      = 64 << 20
	lagTimeMax   = 2 * time.Second // replica_lag_time_max: what is in sync was so a moment ago
	wholeFor     = lagTimeMax + 1500*time.Millisecond
	wholeTimeout = 2 * time.Minute
	lookEvery    = 200 * time.Millisecond
	readyTimeout = 90 * time.Second
)

// member is one node: a process on a host, with a disk.
type member struct {
	id     int32
	host   *netns.Host
	dir    string
	proc   *process.Rowtrail
	mayEnd bool // a full disk may end it
}

func (m *member) String() string { return fmt.Sprintf("node %d", m.id) }

func (m *member) disk() string { return filepath.Join(m.dir, "disk") }

func (m *member) data() string { return filepath.Join(m.disk(), "data") }

func (m *member) kafka() string { return fmt.Sprintf("%s:%d", m.host.Address, kafkaPort) }

// Cluster is the nodes and the network between them.
type Cluster struct {
	binary string
	dir    string
	racks  []string
	more   string // YAML of all nodes
	net    *netns.Network
	spare  []*netns.Host
	nextID int32
	dialer net.Dialer

	mu      sync.Mutex
	members []*member
}

// NewCluster starts nodes that found a cluster; spare hosts are for nodes that join later.
func NewCluster(ctx context.Context, binary, dir string, nodes, spare int, more string) (*Cluster, error) {
	network, err := netns.New(nodes + spare)
	if err != nil {
		return nil, err
	}
	c := &Cluster{binary: binary, dir: dir, net: network, racks: []string{"a", "b", "c"}, more: more, nextID: 1,
		spare: slices.Clone(network.Hosts), dialer: net.Dialer{Timeout: load.DialTimeout}}
	var peers []*member
	for range nodes {
		peers = append(peers, c.next())
	}
	for _, m := range peers {
		if err := c.add(m, peers); err != nil {
			return nil, errors.Join(err, c.Close())
		}
	}
	if err := c.ready(ctx); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// next is a member on a spare host, under an id that nobody had.
func (c *Cluster) next() *member {
	m := &member{id: c.nextID, host: c.spare[0], dir: filepath.Join(c.dir, fmt.Sprintf("node-%d", c.nextID))}
	c.spare = c.spare[1:]
	c.nextID++
	return m
}

// add makes the member's disk and configuration, and starts it.
func (c *Cluster) add(m *member, peers []*member) error {
	if err := os.MkdirAll(m.disk(), 0o755); err != nil {
		return err
	}
	if err := syscall.Mount("tmpfs", m.disk(), "tmpfs", 0, "size="+diskSize); err != nil {
		return fmt.Errorf("mount the disk of %s: %w", m, err)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "cluster:\n  listen: %s:%d\n  replica_lag_time_max: %s\n  peers:\n", m.host.Address, clusterPort, lagTimeMax)
	for _, p := range peers {
		fmt.Fprintf(&b, "    - {id: %d, address: %q}\n", p.id, fmt.Sprintf("%s:%d", p.host.Address, clusterPort))
	}
	var err error
	m.proc, err = process.New(c.binary, m.dir, process.Config{
		Kafka: m.kafka(), HTTP: fmt.Sprintf("%s:%d", m.host.Address, httpPort), Command: m.host.Command(), More: b.String() + c.more,
		Node: map[string]string{"id": fmt.Sprint(m.id), "data_dir": m.data(), "rack": c.racks[int(m.id-1)%len(c.racks)], "min_free_bytes": fmt.Sprint(minFree)},
	})
	if err != nil {
		return err
	}
	c.mu.Lock()
	c.members = append(c.members, m)
	c.mu.Unlock()
	return m.proc.Start()
}

// drop forgets a member whose process has ended; its host is free.
func (c *Cluster) drop(m *member) error {
	c.mu.Lock()
	c.members = slices.DeleteFunc(c.members, func(o *member) bool { return o == m })
	c.mu.Unlock()
	c.spare = append(c.spare, m.host)
	return syscall.Unmount(m.disk(), 0)
}

// Members are the nodes there are.
func (c *Cluster) Members() []*member {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.members)
}

func (c *Cluster) others(m *member) []*member {
	return slices.DeleteFunc(c.Members(), func(o *member) bool { return o == m })
}

func hosts(members []*member) []*netns.Host {
	var all []*netns.Host
	for _, m := range members {
		all = append(all, m.host)
	}
	return all
}

// Seeds are the addresses that clients are told.
func (c *Cluster) Seeds() []string {
	var all []string
	for _, m := range c.Members() {
		all = append(all, m.kafka())
	}
	return all
}

// Dial connects straight to a node.
func (c *Cluster) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	return c.dialer.DialContext(ctx, network, address)
}

// client is one of the harness's own.
func (c *Cluster) client(opts ...kgo.Opt) (*kgo.Client, error) {
	return kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(c.Seeds()...), kgo.Dialer(c.Dial), kgo.MetadataMinAge(50 * time.Millisecond),
		kgo.RequestTimeoutOverhead(5 * time.Second), kgo.RetryTimeout(15 * time.Second)}, opts...)...)
}

// Close ends everything; what nodes wrote is kept in the directory where keep was called before.
func (c *Cluster) Close() error {
	var errs []error
	for _, m := range c.Members() {
		if m.proc != nil {
			if running, _ := m.proc.Runs(); running {
				_ = syscall.Kill(m.proc.PID(), syscall.SIGCONT)
			}
			errs = append(errs, m.proc.Kill())
		}
		errs = append(errs, syscall.Unmount(m.disk(), 0))
	}
	return errors.Join(append(errs, c.net.Close())...)
}

// keep copies the nodes' data out of their disks, which end with the run.
func (c *Cluster) keep() error {
	var errs []error
	for _, m := range c.Members() {
		errs = append(errs, os.CopyFS(filepath.Join(m.dir, "kept"), os.DirFS(m.disk())))
	}
	return errors.Join(errs...)
}

// ready waits until every node is.
func (c *Cluster) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	for _, m := range c.Members() {
		if err := m.proc.WaitReady(ctx); err != nil {
			return fmt.Errorf("%s is not ready though nothing is in its way: %w", m, err)
		}
	}
	return nil
}

// whole waits until every partition has had a leader and all of its replicas in sync for so long that each of them has caught up.
func (c *Cluster) whole(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, wholeTimeout)
	defer cancel()
	cl, err := c.client()
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
		load.Pause(ctx, lookEvery)
	}
}

// missing says what of the cluster is not as it should be.
func (c *Cluster) missing(all kadm.Metadata) string {
	known := map[int32]bool{}
	for _, b := range all.Brokers {
		known[b.NodeID] = true
	}
	for _, m := range c.Members() {
		if !known[m.id] {
			return fmt.Sprintf("%s is not among the brokers", m)
		}
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

// leader is the member that leads a partition now, as a node says; nil: nobody knows.
func (c *Cluster) leader(ctx context.Context, topic string, partition int32) *member {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	cl, err := c.client()
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
		if m.id == id {
			return m
		}
	}
	return nil
}
