package record

import (
	"encoding/binary"
	"slices"
)

// RecordHeader is one header of a record to be built.
type RecordHeader struct {
	Key   string
	Value []byte
}

// Producer identifies an idempotent or transactional producer's batch.
type Producer struct {
	ID            int64
	Epoch         int16
	BaseSequence  int32
	Transactional bool
}

// Builder makes uncompressed batches. The zero value is ready; Build starts the next batch.
type Builder struct {
	buf     []byte
	count   int32
	firstTs int64
	maxTs   int64
}

// Append adds a record. A nil key or value is null.
func (b *Builder) Append(timestamp int64, key, value []byte, headers ...RecordHeader) {
	if b.count == 0 {
		b.buf = append(b.buf[:0], make([]byte, HeaderLen)...)
		b.firstTs, b.maxTs = timestamp, timestamp
	}
	b.maxTs = max(b.maxTs, timestamp)
	tsDelta := timestamp - b.firstTs
	n := 1 + varintLen(tsDelta) + varintLen(int64(b.count)) + fieldLen(key) + fieldLen(value) + varintLen(int64(len(headers)))
	for _, h := range headers {
		n += varintLen(int64(len(h.Key))) + len(h.Key) + fieldLen(h.Value)
	}
	out := binary.AppendVarint(b.buf, int64(n))
	out = append(out, 0)
	out = binary.AppendVarint(out, tsDelta)
	out = binary.AppendVarint(out, int64(b.count))
	out = appendField(out, key)
	out = appendField(out, value)
	out = binary.AppendVarint(out, int64(len(headers)))
	for _, h := range headers {
		out = binary.AppendVarint(out, int64(len(h.Key)))
		out = append(out, h.Key...)
		out = appendField(out, h.Value)
	}
	b.buf = out
	b.count++
}

// Size is the length that Build's batch would have now.
func (b *Builder) Size() int {
	if b.count == 0 {
		return HeaderLen
	}
	return len(b.buf)
}

// Build returns the batch in a slice of its own, at base offset 0, and starts the next one. A nil producer makes a
// batch without sequence numbers. Without records it returns nil.
func (b *Builder) Build(p *Producer) []byte { return b.build(p, 0) }

func (b *Builder) build(p *Producer, attributes int16) []byte {
	if b.count == 0 {
		return nil
	}
	who := Producer{ID: NoProducer, Epoch: -1, BaseSequence: -1}
	if p != nil {
		who = *p
	}
	if who.Transactional {
		attributes |= attrTransactional
	}
	out := slices.Clone(b.buf)
	be := binary.BigEndian
	be.PutUint32(out[lengthAt:], uint32(len(out)-lengthEnd))
	be.PutUint32(out[epochAt:], ^uint32(0))
	out[magicAt] = 2
	be.PutUint16(out[attributesAt:], uint16(attributes))
	be.PutUint32(out[lastDeltaAt:], uint32(b.count-1))
	be.PutUint64(out[firstTsAt:], uint64(b.firstTs))
	be.PutUint64(out[maxTsAt:], uint64(b.maxTs))
	be.PutUint64(out[producerAt:], uint64(who.ID))
	be.PutUint16(out[prodEpochAt:], uint16(who.Epoch))
	be.PutUint32(out[sequenceAt:], uint32(who.BaseSequence))
	be.PutUint32(out[countAt:], uint32(b.count))
	setCRC(out)
	b.count = 0
	return out
}

func fieldLen(v []byte) int {
	if v == nil {
		return 1
	}
	return varintLen(int64(len(v))) + len(v)
}

func appendField(dst, v []byte) []byte {
	if v == nil {
		return binary.AppendVarint(dst, -1)
	}
	return append(binary.AppendVarint(dst, int64(len(v))), v...)
}

func varintLen(v int64) int {
	u := uint64(v)<<1 ^ uint64(v>>63)
	n := 1
	for ; u >= 0x80; u >>= 7 {
		n++
	}
	return n
}
