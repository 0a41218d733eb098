package log

// Config is what a topic's configuration means to its partitions. Zero values: no limit. Where cleanup.policy does not
// include delete, both retention limits are -1.
type Config struct {
	RetentionBytes  int64 // -1: none
	RetentionMs     int64 // -1: none
	MaxMessageBytes int32
	LogAppendTime   bool
	// BelowWatermark lets appends go on where there is too little space for others: for small logs whose records are what gives space
	// back (a topic's deletion, the end of a transaction that compaction waits for).
	BelowWatermark bool

	// Compact keeps the last record of every key; what follows counts only with it.
	Compact            bool
	MinCompactionLagMs int64   // a record younger than this is not compacted
	MaxCompactionLagMs int64   // a record older than this makes compaction due; 0: no such limit
	DeleteRetentionMs  int64   // how long a tombstone or marker stays after the first compaction that saw it
	MinDirtyRatio      float64 // the share of the log that is not compacted yet from which compaction is due
	// SegmentBytes and SegmentMs stand for a segment that is full: so much that is not compacted yet, or a record so old,
	// and compaction may be due. 0: the store's own bounds.
	SegmentBytes, SegmentMs int64
}

// ProducerState is one active producer, for DescribeProducers and snapshots.
type ProducerState struct {
	ProducerID       int64
	Epoch            int16
	LastSequence     int32
	LastTimestamp    int64
	CoordinatorEpoch int32
	CurrentTxnFirst  int64 // -1: no open transaction
}

// Marks returns the partition's offsets.
func (p *Partition) Marks() Marks {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.marksLocked()
}

func (p *Partition) marksLocked() Marks {
	// The last stable offset is clamped: DeleteRecords may move the log start into an open transaction.
	return Marks{
		LogStart:      p.fold.horizon.logStart,
		LastStable:    max(p.fold.lastStable(), p.fold.horizon.logStart),
		HighWatermark: p.fold.hwm,
		End:           max(p.staging.end, p.fold.hwm),
	}
}

// Changed returns a channel that is closed when the log start, the last stable offset or the high watermark moves
// next, and when the partition is closed or dropped.
func (p *Partition) Changed() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.changed == nil {
		p.changed = make(chan struct{})
		if p.closed {
			close(p.changed)
		}
	}
	return p.changed
}

// Nudge wakes those who wait for Changed, where something else has changed that they look at.
func (p *Partition) Nudge() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.closed {
		p.wakeLocked()
	}
}

// EpochEnd answers OffsetForLeaderEpoch: the largest epoch <= epoch and its end offset, or -1, -1 when this log has
// not reached that epoch. The newest epoch goes on: it ends where the log does and not at the high watermark, since its leader may be the last
// one to hear that a record is committed, and a reader has seen it at another replica (invariant 2).
func (p *Partition) EpochEnd(epoch int32) (int32, int64) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	at, end := p.fold.epochEnd(epoch)
	if p.fold.isNewest(at) {
		end = p.marksLocked().End
	}
	return at, end
}

// EpochAt is the leader epoch that an offset was, or will be, written in; -1 when this log does not know it.
func (p *Partition) EpochAt(offset int64) int32 {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.fold.epochAt(offset)
}

// Producers lists the known producers by id.
func (p *Partition) Producers() []ProducerState {
	p.mu.RLock()
	defer p.mu.RUnlock()
	all := p.fold.producers.sorted()
	out := make([]ProducerState, len(all))
	for i, q := range all {
		out[i] = ProducerState{
			ProducerID: q.id, Epoch: q.epoch, LastSequence: q.lastSeq(), LastTimestamp: q.lastTs,
			CoordinatorEpoch: q.coordinatorEpoch, CurrentTxnFirst: q.txnFirst,
		}
	}
	return out
}

// ExpectFirst says that a producer is about to begin an epoch here, so that its first batch has sequence 0 even where the
// producer is not known. It must be called before that batch is staged; it ends when the batch, or the
// marker of its transaction, is applied. It is not kept over a restart: who keeps the transaction says it again.
func (p *Partition) ExpectFirst(producerID int64, epoch int16) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.staging.producer(p.fold.producers, producerID) == nil {
		p.staging.expected[producerID] = epoch
	}
}

// Bytes is the stored size of all committed batches.
func (p *Partition) Bytes() int64 {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.bytesLocked()
}

func (p *Partition) bytesLocked() int64 { return p.runs.man.bytes + p.fold.bytes }
