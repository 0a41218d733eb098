package cluster

import (
	"go.etcd.io/raft/v3/raftpb"

	"github.com/rowtrail/rowtrail/log"
)

// Envelope is one Raft message of one group.
type Envelope struct {
	Group   log.GroupID
	Message *raftpb.Message
}

// Transport carries messages to other nodes. Send must not block and may drop: Raft repeats what matters. The
// transport does not keep the slice, and must not change the messages, which share their entries with the log.
type Transport interface {
	Send(node int32, messages []Envelope)
}

// noPeers is the transport of a cluster of one: every group's only voter is this node, so Raft addresses nobody.
type noPeers struct{}

func (noPeers) Send(int32, []Envelope) {}

// replicaID is the Raft id of a node's replica; Raft reserves 0. The upper half is left to generations: a replica that
// rejoins after it lost its log must do so under an id that has never voted.
func replicaID(node int32) uint64 { return uint64(uint32(node)) + 1 }

// nodeOf is the inverse of replicaID; none (0) gives -1.
func nodeOf(replica uint64) int32 { return int32(uint32(replica)) - 1 }
