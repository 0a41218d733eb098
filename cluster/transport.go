package cluster

import (
	"go.etcd.io/raft/v3/raftpb"

	"github.com/rowtrail/rowtrail/log"
)

// Envelope is one Raft message of one group.
type Envelope struct {
	Group   log.GroupID
	Message *raftpb.Message
	// Shared goes with a heartbeat: up to here every member has the log on its disk.
	Shared uint64
}

// Transport carries messages to other nodes. Send must not block and may drop: Raft repeats what matters. The
// transport does not keep the slice, and must not change the messages, which share their entries with the log.
type Transport interface {
	Send(node int32, messages []Envelope)
}

// noPeers is the transport of a cluster of one: every group's only voter is this node, so Raft addresses nobody.
type noPeers struct{}

func (noPeers) Send(int32, []Envelope) {}

// Snapshots sends raftSnapshots. Send must not block; its outcome is told by scheduler.reportSnapshot.
type Snapshots interface {
	Send(group log.GroupID, message *raftpb.Message)
}
