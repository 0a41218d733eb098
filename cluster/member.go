package cluster

import (
	"fmt"

	"github.com/rowtrail/rowtrail/log"
)

// Member names a replica of a group: the node that keeps it, and the generation of the placement. Generations are counted per group and
// never come back, so a replica that lost its log, or was removed and placed again, is another member and has never voted.
type Member struct {
	Node int32  `json:"node"`
	Gen  uint32 `json:"gen,omitempty"`
}

func (m Member) String() string { return fmt.Sprintf("%d.%d", m.Node, m.Gen) }

// raftID is the member's id in its Raft group. Raft reserves 0.
func (m Member) raftID() uint64 { return uint64(m.Gen)<<32 | uint64(uint32(m.Node)+1) }

// memberOf is the inverse of raftID; none (0) gives node -1.
func memberOf(id uint64) Member { return Member{Node: int32(uint32(id)) - 1, Gen: uint32(id >> 32)} }

func raftIDs(ms []Member) []uint64 {
	ids := make([]uint64, len(ms))
	for i, m := range ms {
		ids[i] = m.raftID()
	}
	return ids
}

// Bounds of what names a replica's log in a node's store.
const (
	maxGroup = log.GroupID(1)<<48 - 1
	maxGen   = 1<<16 - 1
)

// logID is the id of the member's log in its node's store. It is never used again there, so nothing that a dropped replica left on
// the disk, or that the storage engine brings back, is taken for a part of its successor.
func logID(group log.GroupID, gen uint32) log.GroupID { return log.GroupID(gen)<<48 | group }

// groupOf is the inverse of logID.
func groupOf(id log.GroupID) (group log.GroupID, gen uint32) { return id & maxGroup, uint32(id >> 48) }
