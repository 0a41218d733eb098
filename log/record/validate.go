package record

import (
	"fmt"
	"hash/crc32"
)

// Checks say what Validate accepts besides a well-formed data batch.
type Checks struct {
	// AllowControl accepts control batches, which only a transaction coordinator may write.
	AllowControl bool
	// AllowGaps accepts batches with fewer records than offsets, as compaction leaves them.
	AllowGaps bool
}

// Validate checks that b is exactly one batch that may be appended: lengths, checksum, codec, and one offset for each
// record. It does not look into the records: iterate them with a Reader where that matters.
func Validate(b []byte, c Checks) (Header, error) {
	h, err := ParseHeader(b)
	if err != nil {
		return h, err
	}
	if h.Size() != len(b) {
		return h, fmt.Errorf("%w: %d bytes follow the batch", ErrCorrupt, len(b)-h.Size())
	}
	if got := crc32.Checksum(b[attributesAt:], castagnoli); got != h.CRC {
		return h, fmt.Errorf("%w: checksum is %08x, the header says %08x", ErrCorrupt, got, h.CRC)
	}
	switch {
	case h.Codec() > maxCodec:
		return h, fmt.Errorf("%w: unknown compression codec %d", ErrCorrupt, h.Codec())
	case !c.AllowGaps && h.LastOffsetDelta != h.Count-1:
		return h, fmt.Errorf("%w: last offset delta %d with %d records", ErrCorrupt, h.LastOffsetDelta, h.Count)
	case h.Control() && !c.AllowControl:
		return h, fmt.Errorf("%w: clients cannot write control batches", ErrCorrupt)
	case h.ProducerID < NoProducer || h.ProducerID >= 0 && (h.ProducerEpoch < 0 || h.BaseSequence < 0 && !h.Control()):
		return h, fmt.Errorf("%w: producer %d epoch %d sequence %d", ErrCorrupt, h.ProducerID, h.ProducerEpoch, h.BaseSequence)
	case h.Transactional() && h.ProducerID < 0:
		return h, fmt.Errorf("%w: a transactional batch without a producer id", ErrCorrupt)
	}
	return h, nil
}
