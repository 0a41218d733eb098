package log

import "time"

// Store is a node's Badger database of partition logs (DB-L). It has one writer: Commit is called by one
// goroutine at a time; everything else is safe for concurrent use.
type Store struct{}

// Open locks dir, checks its format and opens it. Errors wrap ErrLocked, ErrFormat.
func Open(dir string, opts Options) (*Store, error) { panic("stub") }

// Close writes checkpoints of all open partitions and closes the database.
func (s *Store) Close() error { panic("stub") }

// Commit makes all mutations durable in one Badger transaction and one sync. On return they are on disk
// and visible to Partition.Entries/Read. Retention deletes and due checkpoints ride along in the same transaction.
func (s *Store) Commit(ms []Mutation) error { panic("stub") }

// Writable reports ErrDiskFull while the file system is below the watermark.
func (s *Store) Writable() error { panic("stub") }

// Partition opens (creating it when new) the log of one group. Opening loads the last checkpoint and
// scans the keys behind it. The same *Partition is returned for the same id.
func (s *Store) Partition(id GroupID) (*Partition, error) { panic("stub") }

// Groups lists the groups that have data.
func (s *Store) Groups() []GroupID { panic("stub") }

// Drop deletes a group's log lazily, in bounded ranges that ride on Commit.
func (s *Store) Drop(id GroupID) { panic("stub") }

// Stats of the whole store, for metrics.
type StoreStats struct {
	Syncs, CommittedBytes, CommittedMutations int64
	DiskBytes, FreeBytes                      int64
}

func (s *Store) Stats() StoreStats { panic("stub") }

// Partition is one partition log: a state machine without goroutines. The Raft side is called by the
// group's single step worker; the reading side by anyone.
type Partition struct{}

// ---- Raft side ----

// HardState, FirstIndex, LastIndex, AppliedIndex and Term back raft.Storage. Invariant:
// FirstIndex-1 <= AppliedIndex <= LastIndex.
func (p *Partition) HardState() HardState                             { panic("stub") }
func (p *Partition) FirstIndex() uint64                               { panic("stub") }
func (p *Partition) LastIndex() uint64                                { panic("stub") }
func (p *Partition) AppliedIndex() uint64                             { panic("stub") }
func (p *Partition) Term(index uint64) (uint64, error)                { panic("stub") }
func (p *Partition) Entries(lo, hi, maxBytes uint64) ([]Entry, error) { panic("stub") }

// Stage checks a producer's batch (sequence, epoch, transaction state, size) against everything
// appended so far, committed or not, and stamps base offset and leader epoch in place.
// The caller proposes the bytes at once, or calls Unstage if Raft refused them.
func (p *Partition) Stage(epoch int32, batch []byte, now time.Time) (Staged, error) { panic("stub") }
func (p *Partition) Unstage(s Staged)                                               { panic("stub") }

// Follow records entries that reached this replica's Raft log without Stage (as a follower, or on restart),
// replacing any at the same indexes; Stage continues behind them after a change of leader.
func (p *Partition) Follow(entries []Entry) { panic("stub") }

// Apply folds committed entries in index order: high watermark, producers, transactions, waiters.
func (p *Partition) Apply(entries []Entry) { panic("stub") }

// ---- Reading side ----

func (p *Partition) Marks() Marks { panic("stub") }

// Changed returns a channel that is closed when any of Marks moves next.
func (p *Partition) Changed() <-chan struct{} { panic("stub") }

// Read returns whole batches from the one that holds offset, up to maxBytes (but at least one batch
// when minOne), below the isolation's end. At the end it returns no batches and no error.
func (p *Partition) Read(offset int64, maxBytes int, minOne bool, iso Isolation) (ReadResult, error) {
	panic("stub")
}

// OffsetForTime returns the first readable offset whose timestamp is >= ts (ms), with that timestamp and
// leader epoch; ok is false when there is none.
func (p *Partition) OffsetForTime(ts int64, iso Isolation) (offset, timestamp int64, epoch int32, ok bool, err error) {
	panic("stub")
}

// MaxTimestamp returns the offset and timestamp of the record with the largest timestamp.
func (p *Partition) MaxTimestamp() (offset, timestamp int64, epoch int32, err error) { panic("stub") }

// EpochEnd answers OffsetForLeaderEpoch: the largest epoch <= epoch and its end offset, or -1, -1.
func (p *Partition) EpochEnd(epoch int32) (int32, int64) { panic("stub") }

// ProducerState is one active producer, for DescribeProducers and snapshots.
type ProducerState struct {
	ProducerID       int64
	Epoch            int16
	LastSequence     int32
	LastTimestamp    int64
	CoordinatorEpoch int32
	CurrentTxnFirst  int64 // -1: no open transaction
}

func (p *Partition) Producers() []ProducerState { panic("stub") }

// Bytes is the stored size of all batches.
func (p *Partition) Bytes() int64 { panic("stub") }

// Config is what a topic's configuration means to its partitions. Zero values: no limit.
type Config struct {
	RetentionBytes  int64 // -1: none
	RetentionMs     int64 // -1: none
	MaxMessageBytes int32
	LogAppendTime   bool
	Compact         bool
}

func (p *Partition) SetConfig(Config) { panic("stub") }

// Retain deletes whole batches from the start by size, time or a DeleteRecords request, never above the
// high watermark and never the last batch of an open transaction. It returns the new log start.
func (p *Partition) Retain(now time.Time) int64                      { panic("stub") }
func (p *Partition) DeleteRecordsBefore(offset int64) (int64, error) { panic("stub") }
