package record

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// EndTxn is a transaction marker: the single record of a control batch.
type EndTxn struct {
	ProducerID       int64
	ProducerEpoch    int16
	CoordinatorEpoch int32
	Commit           bool
}

// Kinds of control records.
const (
	controlAbort  kmsg.ControlRecordKeyType = 0
	controlCommit kmsg.ControlRecordKeyType = 1
)

// Build returns the marker as a control batch with the given timestamp (ms).
func (m EndTxn) Build(timestamp int64) []byte {
	key := kmsg.ControlRecordKey{Type: controlAbort}
	if m.Commit {
		key.Type = controlCommit
	}
	value := kmsg.EndTxnMarker{CoordinatorEpoch: m.CoordinatorEpoch}
	var b Builder
	b.Append(timestamp, key.AppendTo(nil), value.AppendTo(nil))
	return b.build(&Producer{ID: m.ProducerID, Epoch: m.ProducerEpoch, BaseSequence: -1, Transactional: true}, attrControl)
}

// ParseEndTxn reads the marker of a control batch. Other control records are ErrCorrupt: the log writes none.
func ParseEndTxn(batch []byte) (EndTxn, error) {
	r := Reader{d: decompressor{max: len(batch)}}
	if err := r.Reset(batch); err != nil {
		return EndTxn{}, err
	}
	if !r.h.Control() || r.h.Count != 1 || !r.Next() {
		return EndTxn{}, fmt.Errorf("%w: not a control batch of one record", ErrCorrupt)
	}
	var key kmsg.ControlRecordKey
	if err := key.ReadFrom(r.rec.Key); err != nil {
		return EndTxn{}, fmt.Errorf("%w: control record key: %w", ErrCorrupt, err)
	}
	if key.Type != controlAbort && key.Type != controlCommit {
		return EndTxn{}, fmt.Errorf("%w: control record type %d is not a transaction marker", ErrCorrupt, key.Type)
	}
	var value kmsg.EndTxnMarker
	if err := value.ReadFrom(r.rec.Value); err != nil {
		return EndTxn{}, fmt.Errorf("%w: transaction marker: %w", ErrCorrupt, err)
	}
	return EndTxn{
		ProducerID: r.h.ProducerID, ProducerEpoch: r.h.ProducerEpoch,
		CoordinatorEpoch: value.CoordinatorEpoch, Commit: key.Type == controlCommit,
	}, nil
}
