package log

import (
	"fmt"

	"github.com/rowtrail/rowtrail/log/record"
)

// facts are what the folds need to know of one batch.
type facts struct {
	base, last           int64
	producerID           int64 // record.NoProducer: none
	epoch                int16
	firstSeq, lastSeq    int32
	maxTs                int64
	transactional        bool
	control, commit      bool
	coordinatorEpoch     int32
	leaderEpoch          int32
	lastDelta, sizeBytes int32

	// Of entries without records.
	logStart int64  // of a trim entry; else -1
	conf     []byte // the configuration from here on; nil: as before
}

// noFacts are those of an entry that tells nothing.
func noFacts() facts { return facts{producerID: record.NoProducer, logStart: -1} }

// factsOf reads one whole batch's header, and the marker of a control batch.
func factsOf(batch []byte) (facts, error) {
	h, err := record.ParseHeader(batch)
	if err != nil {
		return facts{}, err
	}
	if h.Size() != len(batch) {
		return facts{}, fmt.Errorf("%w: an entry holds %d bytes besides its batch", ErrCorrupt, len(batch)-h.Size())
	}
	f := facts{
		base: h.BaseOffset, last: h.LastOffset(),
		producerID: h.ProducerID, epoch: h.ProducerEpoch, firstSeq: h.BaseSequence, lastSeq: h.LastSequence(),
		maxTs: h.MaxTimestamp, transactional: h.Transactional(), control: h.Control(),
		leaderEpoch: h.LeaderEpoch, logStart: -1, lastDelta: h.LastOffsetDelta, sizeBytes: int32(len(batch)),
	}
	if f.control {
		m, err := record.ParseEndTxn(batch)
		if err != nil {
			return facts{}, err
		}
		f.commit, f.coordinatorEpoch = m.Commit, m.CoordinatorEpoch
	}
	return f, nil
}
