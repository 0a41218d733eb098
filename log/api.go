package log

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/rowtrail/rowtrail/log/record"
)

// Bounds of what callers hand in (invariant 9).
const (
	// MaxCommitBytes and MaxCommitEntries bound what one Commit makes durable in a single transaction and sync. A
	// larger Commit is made durable as several, in order, so that a crash leaves a prefix of each group's entries.
	MaxCommitBytes   = 16 << 20
	MaxCommitEntries = 2048
	// MaxBatchBytes is the largest batch that can be stored, whatever a topic's max.message.bytes says.
	MaxBatchBytes = 32 << 20
)

// GroupID names one Raft group, and so one partition log, within a cluster.
type GroupID uint64

// EntryType tells how a Raft entry's payload is read.
type EntryType uint8

const (
	// EntryBatch carries exactly one Kafka record batch (v2), stamped.
	EntryBatch EntryType = iota
	// EntryMeta carries no records: a leader's no-op or a configuration change. It takes no offset.
	EntryMeta
	// EntryMetaV2 is EntryMeta for raftpb.EntryConfChangeV2.
	EntryMetaV2
	// EntryTrim moves the log start, see TrimPayload. It carries no records.
	EntryTrim
)

// Entry is one Raft entry as it is stored. Data is the payload that a Fetch returns.
type Entry struct {
	Index, Term uint64
	Type        EntryType
	Data        []byte
}

// HardState is Raft's durable vote. It is written when Term or Vote change, with a checkpoint, and with an entry that changes the members;
// Commit is therefore a lower bound. Of the changes of members that a log holds all but the last are below it, so that a restart knows the
// members that Raft's rules for their next change count on.
type HardState struct {
	Term, Vote, Commit uint64
}

// Mutation is everything that one turn of one group makes durable.
type Mutation struct {
	Group GroupID
	// TruncateFrom, when not 0, first deletes the stored entries at this index and above.
	TruncateFrom uint64
	Entries      []Entry
	HardState    *HardState // nil: unchanged
	// Install, when not nil, first replaces the whole log by a raftSnapshot that was received: an *Incoming.
	Install Installation
}

// Installation is a raftSnapshot that has arrived whole.
type Installation interface {
	// LastIndex is the entry that it ends with.
	LastIndex() uint64
	// Discard drops it: it is not needed.
	Discard() error
}

// Isolation is what a reader may see.
type Isolation int8

// The isolation levels of the Kafka protocol.
const (
	ReadUncommitted Isolation = iota // up to the high watermark
	ReadCommitted                    // up to the last stable offset
)

// AbortedTxn is one entry of a Fetch response's aborted transaction list.
type AbortedTxn struct {
	ProducerID              int64
	FirstOffset, LastOffset int64
}

// Marks are a partition's offsets at one moment. Invariant: LogStart <= LastStable <= HighWatermark <= End.
type Marks struct {
	LogStart, LastStable, HighWatermark, End int64
}

// ReadResult holds whole stored batches; the first one contains the offset asked for, or is the first behind it where compaction
// has left a gap.
type ReadResult struct {
	Batches []byte       // read only: others may hold the same bytes
	Aborted []AbortedTxn // ReadCommitted only, sorted by FirstOffset
	Marks   Marks
}

// Staged is a batch that the leader has checked and stamped, ready to be proposed.
type Staged struct {
	BaseOffset, LastOffset int64
	// Duplicate: an earlier append of the same producer sequence; nothing is to be proposed and
	// BaseOffset is that append's. It may be answered once the high watermark passes LastOffset.
	Duplicate bool
}

// Errors that callers act on. The broker maps each to its protocol code.
var (
	ErrOffsetOutOfRange     = errors.New("offset out of range")
	ErrOutOfOrderSequence   = errors.New("out of order sequence number")
	ErrDuplicateSequence    = errors.New("duplicate sequence number")
	ErrInvalidProducerEpoch = errors.New("producer epoch is fenced")
	ErrInvalidTxnState      = errors.New("invalid transaction state")
	ErrFencedCoordinator    = errors.New("transaction coordinator is fenced")
	ErrCorrupt              = record.ErrCorrupt
	ErrTooLarge             = errors.New("record batch is too large")
	ErrDiskFull             = errors.New("data directory is below its free space watermark")
	ErrNotLeader            = errors.New("not the leader of this partition")
	ErrClosed               = errors.New("closed")
	ErrDropped              = fmt.Errorf("%w: the group was dropped", ErrClosed) // its id is never used again
	ErrLocked               = errors.New("data directory is in use")
	ErrFormat               = errors.New("data directory has another format")
	ErrDamaged              = errors.New("data directory is damaged")
	ErrCompacted            = errors.New("raft entry is below the first index")
	ErrUnavailable          = errors.New("raft entry is above the last index")
)

// Defaults of CompactionOptions.
const (
	DefaultCompactionInterval = 15 * time.Second
	DefaultCompactionRate     = 64 << 20
	DefaultCompactionShare    = 0.5
)

// CompactionOptions configure the Store's one cleaner. A zero value takes the default.
type CompactionOptions struct {
	// Interval is how often partitions are looked at for whether compaction is due; below 0: never, only Store.Compact does it.
	Interval time.Duration
	// BytesPerSecond bounds what is read for compaction.
	BytesPerSecond int64
	// CPUShare bounds the time that compaction works, as a share of one core's; at 1 and above it does not rest.
	CPUShare float64
	// Now is the clock that ages of records are measured with.
	Now func() time.Time
}

// Options configure a Store.
type Options struct {
	Logger *slog.Logger
	// MinFreeBytes: below this much free space on the data directory's file system appends are refused
	// with ErrDiskFull; reads go on. Default 512 MiB.
	MinFreeBytes int64
	// OnFatal is called once when durability can no longer be promised (a failed sync); the node must stop.
	OnFatal func(error)
	// Configuration tells which configuration a group has from an entry of type EntryMeta or EntryMetaV2 on; nil bytes: the entry
	// changes none. The log keeps the bytes and does not look into them.
	Configuration func(t EntryType, data []byte) ([]byte, error)
	// Compaction bounds what the compaction of all partitions takes.
	Compaction CompactionOptions

	// rewriting, when set, is called with the store right before Badger reads the newest version for a collection. It
	// does so without a lock; a version that is one commit old makes it keep more, so only the race detector minds.
	rewriting func(*Store)
}
