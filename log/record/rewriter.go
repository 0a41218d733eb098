package record

import (
	"encoding/binary"
	"fmt"
)

// keepRewritten is how large a Rewriter's buffers may be to be kept for the next batch.
const keepRewritten = 8 << 20

// noTimestamp is the first timestamp of a batch without records.
const noTimestamp int64 = -1

// Rewriter makes batches out of stored ones: without some records, or in another codec. Its buffers and encoders are
// reused from batch to batch. It is not safe for concurrent use.
//
// Invariant 2: whatever it makes takes the same offsets as the batch that it was made of, and every record that is left has
// the same bytes: offset and timestamp deltas, key, value and headers.
type Rewriter struct {
	r    Reader
	c    compressor
	body []byte
}

// NewRewriter returns a Rewriter that refuses batches of more than maxBytes of decompressed records with ErrTooLarge.
func NewRewriter(maxBytes int) *Rewriter {
	return &Rewriter{r: Reader{d: decompressor{max: maxBytes}}}
}

// Rewrite appends to dst the batch without the records that keep refuses, and tells how many are left.
//
// Base and last offset, producer, epoch, sequence, leader epoch, timestamp type and the transactional and control bits stay,
// and the codec as long as there are records. Largest timestamp is that of the records left, unless it is the broker's
// time. When all are kept the bytes are the batch's own; when none is, what is left is a header that says that it covers these offsets
// and holds nothing. The batch may become larger when its producer compressed harder.
//
// A batch with a wrong checksum or malformed records is refused with ErrCorrupt (after keep has seen the records before the
// damage), so that damage never gets a right checksum. dst must not share memory with the batch. keep must not hold on
// to the record.
func (w *Rewriter) Rewrite(dst, batch []byte, keep func(*Record) bool) (out []byte, kept int, err error) {
	h, err := w.reset(batch)
	if err != nil {
		return dst, 0, err
	}
	defer w.shrink()
	maxTs := noTimestamp
	for w.r.Next() {
		rec := w.r.Record()
		at := rec.Timestamp
		if !keep(rec) {
			continue
		}
		w.body = append(w.body, w.r.raw...)
		if kept == 0 || at > maxTs {
			maxTs = at
		}
		kept++
	}
	if err := w.r.Err(); err != nil {
		return dst, 0, err
	}
	switch {
	case kept == int(h.Count):
		return append(dst, batch...), kept, nil
	case kept == 0:
		return appendEmpty(dst, batch, &h), 0, nil
	case h.LogAppendTime():
		maxTs = h.MaxTimestamp
	}
	start := len(dst)
	_, _, level := Levels(h.Codec())
	out, err = w.c.compress(append(dst, batch[:HeaderLen]...), h.Codec(), level, w.body)
	if err != nil {
		return dst, 0, fmt.Errorf("rewrite batch at offset %d: %w", h.BaseOffset, err)
	}
	be := binary.BigEndian
	be.PutUint64(out[start+maxTsAt:], uint64(maxTs))
	be.PutUint32(out[start+countAt:], uint32(kept))
	seal(out[start:])
	return out, kept, nil
}

// Recompress appends to dst the batch with its records in another codec. Levels are Kafka's (see Levels) and mean nothing to
// a codec that has none. A batch that is in that codec already keeps its bytes, as in Kafka, whatever level it was made
// with; so does one without records. Bad batches are refused as by Rewrite.
func (w *Rewriter) Recompress(dst, batch []byte, codec Codec, level int) ([]byte, error) {
	return w.RecompressSeen(dst, batch, codec, level, func(*Record) {})
}

// RecompressSeen is Recompress for who has to look at the records as well: it calls see for each of them in order. see must not
// hold on to the record.
func (w *Rewriter) RecompressSeen(dst, batch []byte, codec Codec, level int, see func(*Record)) ([]byte, error) {
	h, err := w.reset(batch)
	if err != nil {
		return dst, err
	}
	defer w.shrink()
	body := w.r.c.b
	for w.r.Next() {
		see(w.r.Record())
	}
	if err := w.r.Err(); err != nil {
		return dst, err
	}
	if h.Codec() == codec || h.Count == 0 {
		return append(dst, batch...), nil
	}
	start := len(dst)
	out, err := w.c.compress(append(dst, batch[:HeaderLen]...), codec, level, body)
	if err != nil {
		return dst, fmt.Errorf("recompress batch at offset %d: %w", h.BaseOffset, err)
	}
	be := binary.BigEndian
	attributes := be.Uint16(out[start+attributesAt:])
	be.PutUint16(out[start+attributesAt:], attributes&^attrCodec|uint16(codec))
	seal(out[start:])
	return out, nil
}

func (w *Rewriter) reset(batch []byte) (Header, error) {
	w.body = w.body[:0]
	h, err := Validate(batch, Checks{AllowControl: true, AllowGaps: true})
	if err != nil {
		return h, err
	}
	return h, w.r.Reset(batch)
}

// shrink lets go of what an unusually large batch left behind.
func (w *Rewriter) shrink() {
	w.r.c, w.r.rec, w.r.raw = cursor{}, Record{}, nil
	if cap(w.r.d.out) > keepRewritten {
		w.r.d.out = nil
	}
	if cap(w.body) > keepRewritten {
		w.body = nil
	}
}

// appendEmpty writes the header that stands for a batch without records: uncompressed, as an empty body is no compressed one.
func appendEmpty(dst, batch []byte, h *Header) []byte {
	start := len(dst)
	dst = append(dst, batch[:HeaderLen]...)
	be := binary.BigEndian
	be.PutUint16(dst[start+attributesAt:], uint16(h.Attributes)&(attrLogAppendTime|attrTransactional|attrControl))
	none := noTimestamp
	be.PutUint64(dst[start+firstTsAt:], uint64(none))
	be.PutUint32(dst[start+countAt:], 0)
	seal(dst[start:])
	return dst
}

// seal sets the length and the checksum of a batch whose body is complete.
func seal(batch []byte) {
	binary.BigEndian.PutUint32(batch[lengthAt:], uint32(len(batch)-lengthEnd))
	setCRC(batch)
}
