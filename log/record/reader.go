package record

import (
	"encoding/binary"
	"fmt"
)

// Record is one record of a batch. Its slices alias the batch or the Reader's buffer: they hold until the next Reset.
type Record struct {
	Offset    int64
	Timestamp int64
	Key       []byte // nil: no key
	Value     []byte // nil: null, a tombstone where the topic is compacted

	headers     []byte
	headerCount int
}

// HeaderCount is the number of headers.
func (r *Record) HeaderCount() int { return r.headerCount }

// EachHeader calls f for each header in order until f returns false. A nil value is null.
func (r *Record) EachHeader(f func(key, value []byte) bool) {
	b := cursor{b: r.headers}
	for range r.headerCount {
		key, value := b.bytes(), b.bytes()
		if b.bad || !f(key, value) {
			return
		}
	}
}

// Header returns the last header of that name, which is the one in force.
func (r *Record) Header(name string) (value []byte, ok bool) {
	r.EachHeader(func(k, v []byte) bool {
		if string(k) == name {
			value, ok = v, true
		}
		return true
	})
	return value, ok
}

// Reader iterates over the records of batches without allocating per record. It is not safe for concurrent use.
//
//	for r.Next() { use(r.Record()) }
//	return r.Err()
type Reader struct {
	d    decompressor
	h    Header
	c    cursor
	left int32
	last int64 // offset delta of the record before; they rise
	rec  Record
	raw  []byte // the record's bytes, with their length before them
	err  error
}

// NewReader returns a Reader that refuses batches of more than maxBytes of decompressed records with ErrTooLarge.
func NewReader(maxBytes int) *Reader {
	return &Reader{d: decompressor{max: maxBytes}}
}

// Reset starts over with one batch, decompressing it.
func (r *Reader) Reset(batch []byte) error {
	r.left, r.c, r.last, r.rec = 0, cursor{}, -1, Record{}
	r.h, r.err = ParseHeader(batch)
	if r.err != nil {
		return r.err
	}
	body, err := r.d.decompress(r.h.Codec(), batch[HeaderLen:r.h.Size()])
	if err != nil {
		r.err = fmt.Errorf("read batch at offset %d: %w", r.h.BaseOffset, err)
		return r.err
	}
	r.c.b, r.left = body, r.h.Count
	return nil
}

// BatchHeader is the header of the batch being read.
func (r *Reader) BatchHeader() *Header { return &r.h }

// Record is the record that Next found. It is overwritten by the next call.
func (r *Reader) Record() *Record { return &r.rec }

// Err is what ended the iteration early; nil at the proper end.
func (r *Reader) Err() error { return r.err }

// Next moves to the next record.
func (r *Reader) Next() bool {
	if r.err != nil {
		return false
	}
	if r.left == 0 {
		if len(r.c.b) != 0 {
			r.fail("bytes follow the last record")
		}
		return false
	}
	r.left--
	start := r.c.b
	n := r.c.varint()
	if r.c.bad || n < 0 || n > int64(len(r.c.b)) {
		return r.fail("record length is out of bounds")
	}
	c := cursor{b: r.c.b[:n]}
	r.c.b = r.c.b[n:]
	r.raw = start[:len(start)-len(r.c.b)]
	c.skip(1) // attributes: none are defined
	ts := c.varint()
	delta := c.varint()
	r.rec.Key = c.bytes()
	r.rec.Value = c.bytes()
	headers := c.varint()
	if c.bad || headers < 0 || headers > int64(len(c.b)) {
		return r.fail("record fields are out of bounds")
	}
	if delta <= r.last || delta > int64(r.h.LastOffsetDelta) {
		return r.fail("offset delta is out of order")
	}
	r.last = delta
	r.rec.headers, r.rec.headerCount = c.b, int(headers)
	for range headers {
		key := c.bytes()
		c.bytes()
		if c.bad || key == nil {
			return r.fail("record headers are out of bounds")
		}
	}
	if len(c.b) != 0 {
		return r.fail("bytes follow a record's headers")
	}
	r.rec.Offset = r.h.BaseOffset + delta
	r.rec.Timestamp = r.h.FirstTimestamp + ts
	if r.h.LogAppendTime() {
		r.rec.Timestamp = r.h.MaxTimestamp
	}
	return true
}

func (r *Reader) fail(what string) bool {
	r.err = fmt.Errorf("%w: base offset %d: %s", ErrCorrupt, r.h.BaseOffset, what)
	return false
}

// cursor reads varint-framed fields; bad is sticky.
type cursor struct {
	b   []byte
	bad bool
}

func (c *cursor) varint() int64 {
	v, n := binary.Varint(c.b)
	if n <= 0 {
		c.bad, c.b = true, nil
		return 0
	}
	c.b = c.b[n:]
	return v
}

func (c *cursor) skip(n int) {
	if len(c.b) < n {
		c.bad, c.b = true, nil
		return
	}
	c.b = c.b[n:]
}

// bytes reads a length and that many bytes; length -1 is null. An empty value is not nil.
func (c *cursor) bytes() []byte {
	n := c.varint()
	if n == -1 && !c.bad {
		return nil
	}
	if c.bad || n < 0 || n > int64(len(c.b)) {
		c.bad, c.b = true, nil
		return nil
	}
	v := c.b[:n:n]
	c.b = c.b[n:]
	return v
}
