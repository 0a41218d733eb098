package binlog

import (
	"bytes"
	"compress/flate"
	"compress/zlib"
	"fmt"
	"io"
)

const (
	// deflateGrowth is more than deflate can grow anything: a size beyond it is not believed.
	deflateGrowth = 1100
	// maxKeptUnpacked is the largest buffer that is kept for the next event.
	maxKeptUnpacked = 4 << 20
)

// unpacker uncompresses what MariaDB compresses: queries and rows of events, and columns. Its results are valid until it is used
// again for the same.
type unpacker struct {
	in           bytes.Reader
	zlib         io.ReadCloser
	flate        io.ReadCloser
	body, values []byte
}

// event uncompresses the content of an event (log_bin_compress): a byte with the algorithm and the size's size, the size, zlib.
func (u *unpacker) event(b []byte, limit int) ([]byte, error) {
	r := reader{b: b}
	head := r.uint8()
	if r.err == nil && (head&0x80 == 0 || head&0x70 != 0) {
		return nil, unsupported("an event compressed with method %d", head>>4)
	}
	size := bigEndian(r.take(int(head & 7)))
	if r.err != nil {
		return nil, r.err
	}
	if cap(u.body) > maxKeptUnpacked {
		u.body = nil
	}
	var err error
	u.body, err = u.inflate(u.body[:0], r.b, size, limit, true)
	return u.body, err
}

// column uncompresses the value of a COMPRESSED column: a byte with the method, whether zlib's frame is left out and the size's size,
// then the size and the data. Method 0 is no compression.
func (u *unpacker) column(b []byte, limit int) ([]byte, error) {
	const methodZlib = 8
	if len(b) == 0 {
		return b, nil
	}
	r := reader{b: b}
	head := r.uint8()
	switch head >> 4 {
	case 0:
		return r.b, nil
	case methodZlib:
	default:
		return nil, unsupported("a column compressed with method %d", head>>4)
	}
	size := bigEndian(r.take(int(head & 7)))
	if r.err != nil {
		return nil, r.err
	}
	if cap(u.values) > maxKeptUnpacked {
		u.values = nil
	}
	var err error
	u.values, err = u.inflate(u.values[:0], r.b, size, limit, head&8 == 0)
	return u.values, err
}

// inflate appends exactly size bytes.
func (u *unpacker) inflate(dst, b []byte, size uint64, limit int, framed bool) ([]byte, error) {
	if size > uint64(limit) {
		return dst, fmt.Errorf("%w: %d bytes after uncompressing, at most %d", ErrTooLarge, size, limit)
	}
	if size > uint64(len(b))*deflateGrowth {
		return dst, malformed("%d bytes cannot hold %d", len(b), size)
	}
	u.in.Reset(b)
	src, err := u.source(framed)
	if err != nil {
		return dst, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	if uint64(cap(dst)) < size {
		dst = make([]byte, 0, size)
	}
	dst = dst[:size]
	if _, err := io.ReadFull(src, dst); err != nil {
		return dst, fmt.Errorf("%w: uncompress: %w", ErrMalformed, err)
	}
	// The end of the stream is read too, as it has the checksum.
	var more [1]byte
	if n, err := src.Read(more[:]); n != 0 || err != io.EOF {
		return dst, malformed("compressed data that does not end after %d bytes: %v", size, err)
	}
	return dst, nil
}

func (u *unpacker) source(framed bool) (io.Reader, error) {
	if framed {
		if u.zlib == nil {
			z, err := zlib.NewReader(&u.in)
			if err != nil {
				return nil, err
			}
			u.zlib = z
			return z, nil
		}
		return u.zlib, u.zlib.(zlib.Resetter).Reset(&u.in, nil)
	}
	if u.flate == nil {
		u.flate = flate.NewReader(&u.in)
		return u.flate, nil
	}
	return u.flate, u.flate.(flate.Resetter).Reset(&u.in, nil)
}
