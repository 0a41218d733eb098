package cluster

import (
	"time"

	"github.com/rowtrail/rowtrail/log"
)

// StateMachine is what a group replicates into. Every method is called by the group's one step worker, in Raft order;
// none may block on the group itself, and none keeps the slices it is given (the payload bytes it may keep).
//
// Stage and Follow run ahead of consensus: what they record may still be replaced. When Stage is called in a new term
// everything of earlier terms is applied, so what was staged then is settled one way or the other. Apply is final and deterministic: the same
// entries in the same order give the same state on every replica and after every restart. A payload that the state
// machine refuses is an error of Stage; after it is proposed there is no refusal.
type StateMachine interface {
	// Stage checks and stamps a payload with epoch and position; the group proposes it at once or calls Unstage.
	Stage(epoch int32, payload []byte, now time.Time) (log.Staged, error)
	Unstage(log.Staged)
	// Follow records entries that reached the Raft log without Stage, replacing any at the same indexes and above.
	Follow([]log.Entry)
	Apply([]log.Entry)
	// AppliedIndex is the last entry whose effects survived the last restart, later the last one applied.
	AppliedIndex() uint64
}

// EntryStore is the durable side of one group's Raft log. Methods are safe against a concurrent Commit.
type EntryStore interface {
	HardState() log.HardState
	FirstIndex() uint64
	LastIndex() uint64
	Term(index uint64) (uint64, error)
	Entries(lo, hi, maxBytes uint64) ([]log.Entry, error)
}

// Retainer decides where a group's log is to start. It is asked by the group's worker and changes nothing: the leader proposes a trim.
type Retainer interface {
	// Outgrown reports that a trim is due at once.
	Outgrown() bool
	RetainTo(now time.Time) (logStart int64, move bool)
	// ForgetIdle does, on every replica, what time alone makes due.
	ForgetIdle(now time.Time)
}

// SnapshotStore is an EntryStore that can tell a follower where to go on from when the entries that it needs are gone.
type SnapshotStore interface {
	// Configuration is the group's newest applied one; nil: it has had its first one only.
	Configuration() []byte
	// Horizon is the entry before the first one that is stored, and the configuration as of it.
	Horizon() (index, term uint64, configuration []byte)
}

// Restorer is a StateMachine that keeps more than its log does.
type Restorer interface {
	// Restored is called when a raftSnapshot has replaced the log.
	Restored()
}

// Sharer is told how far compaction may go.
type Sharer interface {
	// SetShared: all entries up to index are durable on every member. several is false where there is one only.
	SetShared(several bool, index uint64)
	Bytes() int64
}

// Committer makes mutations of many groups durable in one sync. It is called by one goroutine. log.ErrDiskFull means that
// nothing was written and the same commit may be tried again; any other error is final: nothing is known about what
// reached the disk.
type Committer interface {
	Commit([]log.Mutation) error
}

// compile-time proof that the partition log plugs in.
var (
	_ StateMachine = (*log.Partition)(nil)
	_ EntryStore   = (*log.Partition)(nil)
	_ Retainer     = (*log.Partition)(nil)
	_ Committer    = (*log.Store)(nil)

	_ SnapshotStore = (*log.Partition)(nil)
	_ Sharer        = (*log.Partition)(nil)
)
