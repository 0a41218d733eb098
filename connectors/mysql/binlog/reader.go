package binlog

import (
	"bytes"
	"encoding/binary"
)

// reader takes apart one event. After an error it returns zeroes; err tells.
type reader struct {
	b   []byte
	err error
}

func (r *reader) take(n int) []byte {
	if r.err != nil || n < 0 || len(r.b) < n {
		if r.err == nil {
			r.err = ErrTruncated
		}
		return nil
	}
	v := r.b[:n:n]
	r.b = r.b[n:]
	return v
}

func (r *reader) uint8() byte {
	if v := r.take(1); v != nil {
		return v[0]
	}
	return 0
}

func (r *reader) uint16() uint16 {
	if v := r.take(2); v != nil {
		return binary.LittleEndian.Uint16(v)
	}
	return 0
}

func (r *reader) uint32() uint32 {
	if v := r.take(4); v != nil {
		return binary.LittleEndian.Uint32(v)
	}
	return 0
}

func (r *reader) uint64() uint64 {
	if v := r.take(8); v != nil {
		return binary.LittleEndian.Uint64(v)
	}
	return 0
}

// fixed is a little-endian number of n bytes, at most 8.
func (r *reader) fixed(n int) uint64 { return littleEndian(r.take(n)) }

// packed is a length-encoded number.
func (r *reader) packed() uint64 {
	switch c := r.uint8(); c {
	case 0xfb, 0xff:
		if r.err == nil {
			r.err = malformed("length byte %#x", c)
		}
		return 0
	case 0xfc:
		return r.fixed(2)
	case 0xfd:
		return r.fixed(3)
	case 0xfe:
		return r.fixed(8)
	default:
		return uint64(c)
	}
}

// packedBytes are bytes after their length-encoded count.
func (r *reader) packedBytes() []byte {
	n := r.packed()
	if r.err == nil && n > uint64(len(r.b)) {
		r.err = ErrTruncated
	}
	return r.take(int(n))
}

func (r *reader) cstring() []byte {
	if r.err != nil {
		return nil
	}
	i := bytes.IndexByte(r.b, 0)
	if i < 0 {
		r.err = ErrTruncated
		return nil
	}
	v := r.b[:i:i]
	r.b = r.b[i+1:]
	return v
}

func littleEndian(b []byte) uint64 {
	var v uint64
	for i := len(b) - 1; i >= 0; i-- {
		v = v<<8 | uint64(b[i])
	}
	return v
}

func bigEndian(b []byte) uint64 {
	var v uint64
	for _, c := range b {
		v = v<<8 | uint64(c)
	}
	return v
}
