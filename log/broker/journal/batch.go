package journal

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/rowtrail/rowtrail/log/record"
)

// Record is one key and its value; a nil value is a tombstone.
type Record struct {
	Key, Value []byte
}

// Producer is whose transaction a batch belongs to.
type Producer struct {
	ID    int64
	Epoch int16
}

// Batch is one stored batch, decoded. Keys and values share the stored bytes.
type Batch struct {
	BaseOffset, LastOffset int64
	Producer               Producer
	Transactional          bool
	Marker                 *record.EndTxn // the batch ends a transaction and has no records
	Records                []Record
}

const (
	maxBatchBytes  = 1 << 20 // records of one turn are cut into batches of about this size
	recordOverhead = 32      // upper bound of a record's varints
)

func encode(p *record.Producer, records []Record, now time.Time) []byte {
	var b record.Builder
	ts := now.UnixMilli()
	for i := range records {
		b.Append(ts, records[i].Key, records[i].Value)
	}
	return b.Build(p)
}

// decode reads the first batch of src and returns the rest. Internal topics are written by coordinators alone, so
// compression is refused rather than supported.
func decode(src []byte) (b Batch, rest []byte, err error) {
	raw, rest, err := record.Next(src)
	if err != nil {
		return b, nil, err
	}
	h, err := record.Validate(raw, record.Checks{AllowControl: true, AllowGaps: true})
	if err != nil {
		return b, nil, err
	}
	if h.Codec() != 0 {
		return b, nil, errors.New("it is compressed, which internal topics never are")
	}
	b = Batch{BaseOffset: h.BaseOffset, LastOffset: h.LastOffset(), Transactional: h.Transactional(),
		Producer: Producer{ID: h.ProducerID, Epoch: h.ProducerEpoch}}
	if h.Control() {
		m, err := record.ParseEndTxn(raw)
		if err != nil {
			return b, nil, err
		}
		b.Marker = &m
		return b, rest, nil
	}
	r := record.NewReader(math.MaxInt32)
	if err := r.Reset(raw); err != nil {
		return b, nil, err
	}
	b.Records = make([]Record, 0, min(h.Count, int32(len(raw)/7)))
	for r.Next() {
		b.Records = append(b.Records, Record{Key: r.Record().Key, Value: r.Record().Value})
	}
	if err := r.Err(); err != nil {
		return b, nil, fmt.Errorf("record %d: %w", len(b.Records), err)
	}
	return b, rest, nil
}

// sequence is where a producer's next batch in this partition continues. Coordinators write into other producers'
// transactions, so the journal numbers their batches here, by itself.
type sequence struct {
	epoch int16
	next  int32
}

// number gives a transactional batch of n records its place.
func (j *Journal) number(p Producer, n int) *record.Producer {
	s := j.sequences[p.ID]
	if s.epoch != p.Epoch {
		s = sequence{epoch: p.Epoch}
	}
	rp := &record.Producer{ID: p.ID, Epoch: p.Epoch, BaseSequence: s.next, Transactional: true}
	s.next = int32((int64(s.next) + int64(n)) & math.MaxInt32)
	j.sequences[p.ID] = s
	return rp
}

// renumber learns from the partition where its producers stand. Nothing may be on its way.
func (j *Journal) renumber() {
	j.sequences = map[int64]sequence{}
	for _, p := range j.opts.Log.Producers() {
		j.sequences[p.ProducerID] = sequence{epoch: p.Epoch, next: int32((int64(p.LastSequence) + 1) & math.MaxInt32)}
	}
}
