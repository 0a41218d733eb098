package snapshot

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/rowtrail/rowtrail/log"
)

// Source is one partition's log as a view reads it; a *log.Partition is one.
type Source interface {
	// ID tells one log from another: a topic deleted and created again has other ones.
	ID() log.GroupID
	Marks() log.Marks
	// Whole is the offset below which records may have been taken out of the log. It never goes back.
	Whole() int64
	// Installed is where the log came as a whole from another replica when that was last; 0: it never did. Records before it may have been
	// deleted, and their deletes compacted away, so what was folded of the log before does not lead there.
	Installed() int64
	Read(offset int64, maxBytes int, minOne bool, iso log.Isolation) (log.ReadResult, error)
}

// At is a cut through a topic. Exactly one field is set; the zero value is Now.
type At struct {
	Now bool
	// Offset cuts every partition behind this offset.
	Offset *int64
	// Time cuts behind the last change that the source had committed then; a record without a position header counts
	// by its timestamp.
	Time *time.Time
	// Position cuts behind this commit position (Postgres: LSN).
	Position *uint64
}

// Row is a record as the log holds it.
type Row struct {
	Topic      string
	Partition  int32
	Offset     int64
	Timestamp  time.Time
	CommitTime time.Time // of the source; zero when the record has no position header
	Position   uint64    // commit position in the source; 0 when the record has no position header
	Key, Value []byte    // Value of a Deleted row is nil, or the event of the delete
	Deleted    bool
	Place      []byte // the whole position header; nil when the record has none
	OldKey     []byte // the key that the row had before; nil unless the record is the create of a key change
	// Hash stands for the key of a Deleted row in an answer of ScanIn, where nothing else is known of it any more.
	Hash []byte
	// WholeFrom is set in a history: from this offset on the partition's versions are all told, and older ones may have been
	// taken by compaction. 0: none were, other than by retention.
	WholeFrom int64
}

// Options configure Views.
type Options struct {
	Logger *slog.Logger
}

// Errors that callers act on.
var (
	ErrUnknownTopic = errors.New("topic is not followed by views")
	ErrClosed       = errors.New("views are closed")
	ErrNotReady     = errors.New("partition is not readable yet; try again")
	ErrNoPosition   = errors.New("record has no source position that this build can read; ask by offset instead")
	ErrAt           = errors.New("a cut is one of now, an offset, a time and a position")
	// ErrCompacted: what was asked for cannot be told any more; the error is a *CompactedError.
	ErrCompacted = errors.New("compaction has taken what the answer needs")
	// ErrElsewhere: a partition that the answer needs is not on this node; the error is an *ElsewhereError.
	ErrElsewhere = errors.New("partition is not on this node")
)

// ElsewhereError names a partition that cannot be read here.
type ElsewhereError struct {
	Topic     string
	Partition int32
}

func (e *ElsewhereError) Error() string {
	return fmt.Sprintf("partition %d of %s is not on this node; ask a node that has a replica of it", e.Partition, e.Topic)
}

// Is makes it an ErrElsewhere.
func (e *ElsewhereError) Is(target error) bool { return target == ErrElsewhere }

// CompactedError says from which offset on the history of a partition is whole.
type CompactedError struct {
	Topic     string
	Partition int32
	Whole     int64
	// Absent: no partition that was asked has the key, and this one may have had it. Whoever finds it in another one has the answer.
	Absent bool
}

func (e *CompactedError) Error() string {
	return fmt.Sprintf("%s was compacted: in partition %d its past is whole only from offset %d on; ask for a later point, or for now",
		e.Topic, e.Partition, e.Whole)
}

// Is makes it an ErrCompacted.
func (e *CompactedError) Is(target error) bool { return target == ErrCompacted }

// Bounds (invariant 9) and shares.
const (
	// backgroundShare is the part of one core's time that background folding takes.
	backgroundShare = 0.2
	// idleInterval is how often partitions are looked at when none has anything to fold; of very many, as seldom as keeps the looking to
	// idleShare of one core's time, but not more seldom than idleMost.
	idleInterval = 500 * time.Millisecond
	idleShare    = 0.0003
	idleMost     = time.Second

	foldBytes   = 1 << 20   // of log read in one step
	foldEntries = 4096      // written in one Badger transaction
	foldKeys    = 512 << 10 // bytes of keys in one Badger transaction

	sweepEntries = 4096      // looked at in one deletion step
	sweepKeys    = 512 << 10 // bytes of keys deleted in one, but for the last
	// sweepShare: a pass over a partition's entries is worth it when this part of its offsets was retired.
	sweepShare = 4

	goneReads = 64 // tombstones looked up in the log in one deletion step

	// retries of a question about now whose records were compacted away, as newer ones had come, while they were read.
	retries = 8

	scanRows  = 16384   // read back from the log at a time: the more, the fewer times a batch is read
	scanBytes = 8 << 20 // of values among them (one row may be larger)

	maxInlineKey     = 1024      // longer keys are entered by their hash
	maxBatchUnpacked = 256 << 20 // of one batch's records
)

func (a At) now() bool { return a.Offset == nil && a.Time == nil && a.Position == nil }

func (a At) check() error {
	n := 0
	for _, set := range []bool{a.Now, a.Offset != nil, a.Time != nil, a.Position != nil} {
		if set {
			n++
		}
	}
	if n > 1 {
		return ErrAt
	}
	return nil
}
