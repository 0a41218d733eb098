// Package fields reads what was written as varints, and as bytes behind their length.
package fields

import "encoding/binary"

// Reader takes fields from the front of some bytes. The first one that is cut or has no bounds ends it: that and all further ones are zero, so
// that whoever reads asks once, at the end, whether all were there.
type Reader struct {
	b   []byte
	bad bool
}

// Read begins to read b.
func Read(b []byte) Reader { return Reader{b: b} }

// OK reports that every field so far was there.
func (r *Reader) OK() bool { return !r.bad }

// Done reports that every field was there and that nothing is left.
func (r *Reader) Done() bool { return !r.bad && len(r.b) == 0 }

// Len is how many bytes are left; none behind a field that was not there.
func (r *Reader) Len() int { return len(r.b) }

func (r *Reader) fail() { r.bad, r.b = true, nil }

// Uvarint reads an unsigned varint.
func (r *Reader) Uvarint() uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 {
		r.fail()
		return 0
	}
	r.b = r.b[n:]
	return v
}

// Varint reads a signed varint.
func (r *Reader) Varint() int64 {
	v, n := binary.Varint(r.b)
	if n <= 0 {
		r.fail()
		return 0
	}
	r.b = r.b[n:]
	return v
}

// Byte reads one byte.
func (r *Reader) Byte() byte {
	if len(r.b) == 0 {
		r.fail()
		return 0
	}
	c := r.b[0]
	r.b = r.b[1:]
	return c
}

// Uint64 reads eight bytes, the most significant one first.
func (r *Reader) Uint64() uint64 {
	if len(r.b) < 8 {
		r.fail()
		return 0
	}
	v := binary.BigEndian.Uint64(r.b)
	r.b = r.b[8:]
	return v
}

// Count reads how many elements follow. Each takes a byte or more, so there are no more than bytes are left.
func (r *Reader) Count() int {
	n := r.Uvarint()
	if n > uint64(len(r.b)) {
		r.fail()
		return 0
	}
	return int(n) //nolint:gosec // at most a length
}

// Bytes reads a length and so many bytes, which stay the caller's of Read. It is nil only where they were not there.
func (r *Reader) Bytes() []byte {
	n := r.Count()
	if r.bad {
		return nil
	}
	b := r.b[:n:n]
	r.b = r.b[n:]
	return b
}

// AppendBytes writes what Bytes reads.
func AppendBytes[B ~[]byte | ~string](dst []byte, b B) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(b))), b...)
}
