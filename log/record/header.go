package record

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
)

// HeaderLen is the size of a batch's header; the records follow it.
const HeaderLen = 61

const (
	lengthAt     = 8  // what the length field counts starts behind it
	lengthEnd    = 12 // base offset and the length itself are not counted
	epochAt      = 12
	magicAt      = 16
	crcAt        = 17
	attributesAt = 21 // the checksum covers everything from here
	lastDeltaAt  = 23
	firstTsAt    = 27
	maxTsAt      = 35
	producerAt   = 43
	prodEpochAt  = 51
	sequenceAt   = 53
	countAt      = 57
)

// Attribute bits.
const (
	attrCodec         = 0x07
	attrLogAppendTime = 0x08
	attrTransactional = 0x10
	attrControl       = 0x20
)

// NoProducer marks a batch that was not written by an idempotent producer.
const NoProducer int64 = -1

// ErrCorrupt says that bytes are not the record batch that they should be.
var ErrCorrupt = errors.New("corrupt record batch")

// castagnoli is the checksum's polynomial table.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Header is the fixed part of a batch.
type Header struct {
	BaseOffset      int64
	Length          int32 // bytes behind the length field
	LeaderEpoch     int32
	CRC             uint32
	Attributes      int16
	LastOffsetDelta int32
	FirstTimestamp  int64
	MaxTimestamp    int64
	ProducerID      int64
	ProducerEpoch   int16
	BaseSequence    int32
	Count           int32
}

// ParseHeader reads the header of the batch at the start of b, which may go on behind that batch. It checks
// what the header itself can tell (magic, lengths, counts), not the checksum.
func ParseHeader(b []byte) (Header, error) {
	var h Header
	if len(b) < HeaderLen {
		return h, fmt.Errorf("%w: %d bytes are too few for a header", ErrCorrupt, len(b))
	}
	if magic := int8(b[magicAt]); magic != 2 {
		return h, fmt.Errorf("%w: magic %d, only 2 is supported", ErrCorrupt, magic)
	}
	be := binary.BigEndian
	h = Header{
		BaseOffset:      int64(be.Uint64(b)),
		Length:          int32(be.Uint32(b[lengthAt:])),
		LeaderEpoch:     int32(be.Uint32(b[epochAt:])),
		CRC:             be.Uint32(b[crcAt:]),
		Attributes:      int16(be.Uint16(b[attributesAt:])),
		LastOffsetDelta: int32(be.Uint32(b[lastDeltaAt:])),
		FirstTimestamp:  int64(be.Uint64(b[firstTsAt:])),
		MaxTimestamp:    int64(be.Uint64(b[maxTsAt:])),
		ProducerID:      int64(be.Uint64(b[producerAt:])),
		ProducerEpoch:   int16(be.Uint16(b[prodEpochAt:])),
		BaseSequence:    int32(be.Uint32(b[sequenceAt:])),
		Count:           int32(be.Uint32(b[countAt:])),
	}
	switch {
	case h.Length < HeaderLen-lengthEnd:
		return h, fmt.Errorf("%w: length %d is shorter than a header", ErrCorrupt, h.Length)
	case int64(h.Length)+lengthEnd > int64(len(b)):
		return h, fmt.Errorf("%w: length %d, but only %d bytes are there", ErrCorrupt, h.Length, len(b)-lengthEnd)
	case h.LastOffsetDelta < 0 || h.Count < 0 || int64(h.Count) > int64(h.LastOffsetDelta)+1:
		return h, fmt.Errorf("%w: %d records up to offset delta %d", ErrCorrupt, h.Count, h.LastOffsetDelta)
	}
	return h, nil
}

// Size is the length of the whole batch in bytes.
func (h *Header) Size() int { return int(h.Length) + lengthEnd }

// LastOffset is the offset of the batch's last record.
func (h *Header) LastOffset() int64 { return h.BaseOffset + int64(h.LastOffsetDelta) }

// LastSequence is the sequence number of the last record; sequences wrap from the largest int32 to 0.
func (h *Header) LastSequence() int32 {
	return int32((int64(h.BaseSequence) + int64(h.LastOffsetDelta)) & math.MaxInt32)
}

// Codec is how the records are compressed.
func (h *Header) Codec() Codec { return Codec(h.Attributes & attrCodec) }

// Transactional says that the records become readable by the commit of their transaction.
func (h *Header) Transactional() bool { return h.Attributes&attrTransactional != 0 }

// Control says that the batch holds a transaction marker, not data.
func (h *Header) Control() bool { return h.Attributes&attrControl != 0 }

// LogAppendTime says that MaxTimestamp is the broker's time and holds for every record.
func (h *Header) LogAppendTime() bool { return h.Attributes&attrLogAppendTime != 0 }

// Stamp sets base offset and leader epoch in place. Both lie outside the checksum.
func Stamp(batch []byte, baseOffset int64, leaderEpoch int32) {
	binary.BigEndian.PutUint64(batch, uint64(baseOffset))
	binary.BigEndian.PutUint32(batch[epochAt:], uint32(leaderEpoch))
}

// SetLogAppendTime makes ms the timestamp of every record in place, and renews the checksum.
func SetLogAppendTime(batch []byte, ms int64) {
	be := binary.BigEndian
	be.PutUint16(batch[attributesAt:], be.Uint16(batch[attributesAt:])|attrLogAppendTime)
	be.PutUint64(batch[maxTsAt:], uint64(ms))
	setCRC(batch)
}

// SetMaxTimestamp corrects the header's largest timestamp in place, and renews the checksum.
func SetMaxTimestamp(batch []byte, ms int64) {
	binary.BigEndian.PutUint64(batch[maxTsAt:], uint64(ms))
	setCRC(batch)
}

func setCRC(batch []byte) {
	binary.BigEndian.PutUint32(batch[crcAt:], crc32.Checksum(batch[attributesAt:], castagnoli))
}

// Next splits off the first of concatenated batches.
func Next(b []byte) (batch, rest []byte, err error) {
	h, err := ParseHeader(b)
	if err != nil {
		return nil, nil, err
	}
	n := h.Size()
	return b[:n:n], b[n:], nil
}
