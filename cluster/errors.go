package cluster

import "errors"

// Errors that callers act on. The broker maps each to its protocol code.
var (
	ErrTopicExists              = errors.New("topic exists already")
	ErrUnknownTopic             = errors.New("unknown topic or partition")
	ErrInvalidTopic             = errors.New("invalid topic name")
	ErrInvalidPartitions        = errors.New("invalid number of partitions")
	ErrInvalidReplicationFactor = errors.New("invalid replication factor")
	ErrInvalidAssignment        = errors.New("invalid assignment of replicas")
	ErrNoReassignment           = errors.New("no reassignment is under way")
	ErrUnknownNode              = errors.New("no such node")
	ErrInvalidNode              = errors.New("not possible for this node")
	ErrInvalidConfig            = errors.New("invalid topic configuration")
	ErrInvalidCredential        = errors.New("unacceptable credential")
	ErrUnknownUser              = errors.New("no such credential")
	ErrInvalidQuota             = errors.New("invalid quota")
	// ErrOverloaded: the append queue was full until the caller's context ended.
	ErrOverloaded = errors.New("append queue is full")
	// ErrNotEnoughReplicas: fewer than min.insync.replicas replicas are in sync, and nothing was appended.
	ErrNotEnoughReplicas = errors.New("fewer replicas are in sync than min.insync.replicas")
	// ErrNotEnoughReplicasAfterAppend: it was appended, and is on fewer disks than min.insync.replicas.
	ErrNotEnoughReplicasAfterAppend = errors.New("appended to fewer replicas than min.insync.replicas")
	// ErrNotController: this node does not lead the controller's group.
	ErrNotController = errors.New("not the controller")
	// ErrClusterID: the data directory belongs to another cluster.
	ErrClusterID = errors.New("data directory belongs to another cluster")
	// ErrIdentity: the data directory is not this node's, or two nodes have one id.
	ErrIdentity = errors.New("wrong node")
	// ErrRemoved: the data directory is of a node that was removed from its cluster.
	ErrRemoved = errors.New("it was removed from the cluster")
	// errHalted wraps the failure that stopped the node.
	errHalted = errors.New("node halted")
)
