// Package cluster replicates partition logs through Raft groups.
package cluster

import (
	"context"
	"log/slog"

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
}

// Node runs this process's replicas and the controller: the topic catalogue kept in Raft group 1.
type Node struct{}

// Start opens every group and returns when this node leads them (single voter: at once).
func Start(ctx context.Context, opts Options) (*Node, error) { panic("stub") }

// Stop hands in what is in flight and stops the workers. The Store is closed by its owner afterwards.
func (n *Node) Stop(ctx context.Context) error { panic("stub") }

func (n *Node) ID() int32         { panic("stub") }
func (n *Node) ClusterID() string { panic("stub") }

// Topic is an immutable entry of the catalogue.
type Topic struct {
	Name       string
	ID         [16]byte
	Internal   bool
	Partitions []Placement       // index = partition number
	Config     map[string]string // only what was set; defaults are applied by configs of the reader
}

// Placement is where one partition lives.
type Placement struct {
	Group    log.GroupID
	Replicas []int32
}

// Catalog is an immutable snapshot of the cluster's topics.
type Catalog struct {
	Version uint64
	Topics  map[string]*Topic
	ByID    map[[16]byte]*Topic
}

func (n *Node) Catalog() *Catalog { panic("stub") }

// CatalogChanged returns a channel that is closed at the next change of the catalogue.
func (n *Node) CatalogChanged() <-chan struct{} { panic("stub") }

// TopicSpec asks for a topic. Partitions -1: the default.
type TopicSpec struct {
	Name       string
	Partitions int32
	Internal   bool
	Config     map[string]string
}

// Controller operations; each is durable when it returns. Errors: ErrTopicExists, ErrUnknownTopic,
// ErrInvalidTopic, ErrInvalidPartitions, ErrInvalidConfig (all wrapped with what to do).
func (n *Node) CreateTopic(ctx context.Context, spec TopicSpec) (*Topic, error) { panic("stub") }
func (n *Node) DeleteTopic(ctx context.Context, name string) error              { panic("stub") }
func (n *Node) CreatePartitions(ctx context.Context, name string, count int32) error {
	panic("stub")
}

// SetTopicConfig sets keys; a nil value removes the key.
func (n *Node) SetTopicConfig(ctx context.Context, name string, set map[string]*string) error {
	panic("stub")
}

// NextProducerIDs reserves n producer ids durably and returns the first.
func (n *Node) NextProducerIDs(ctx context.Context, count int64) (int64, error) { panic("stub") }

// Replica returns this node's replica of a partition; ErrUnknownTopic when there is none.
func (n *Node) Replica(topic string, partition int32) (*Replica, error) { panic("stub") }

// Replica is one partition on this node.
type Replica struct{}

// Log is the reading side.
func (r *Replica) Log() *log.Partition { panic("stub") }

// Leader is the current leader and its epoch (Raft term of its own first applied entry). self is true only after
// that entry is applied: a leader serves nothing before (invariant 1).
func (r *Replica) Leader() (node, epoch int32, self bool) { panic("stub") }

// AppendResult is what Append's callback gets.
type AppendResult struct {
	BaseOffset int64
	LogStart   int64
	Err        error // log.Err*, ErrOverloaded
}

// Append stages, proposes and, once committed (acks -1) or on this leader's disk (acks 1), calls done from a cluster
// goroutine: done must not block. It owns batch from here on. Batches of one caller are staged in call order.
// The queue in front of each worker is bounded in bytes: above the bound Append blocks until ctx ends.
func (r *Replica) Append(ctx context.Context, batch []byte, acks int16, done func(AppendResult)) {
	panic("stub")
}
