package binlog

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"
)

const (
	payloadSize         = 1
	payloadCompression  = 2
	payloadUncompressed = 3

	compressionZstd = 0
	compressionNone = 255

	// maxWindow is what zstd at its highest level looks back.
	maxWindow = 128 << 20
	// payloadStep is how much of an event is read before memory for more is taken.
	payloadStep = 64 << 10
	// maxKeptEvent is the largest buffer that is kept for the next event.
	maxKeptEvent = 4 << 20
)

// payload is a compressed transaction that is being read, event by event.
type payload struct {
	open    bool
	header  Header
	in      bytes.Reader
	zstd    *zstd.Decoder
	src     io.Reader
	left    uint64 // uncompressed bytes
	event   []byte
	packets []byte
}

// begin opens the payload. Its bytes are kept, because the packet may be used again before the last event is read.
func (p *payload) begin(h Header, body []byte, out *Payload) error {
	r := reader{b: body}
	*out = Payload{}
	compression := uint64(compressionNone)
	for {
		field := r.packed()
		if r.err != nil {
			return r.err
		}
		if field == 0 {
			break
		}
		f := reader{b: r.packedBytes()}
		switch field {
		case payloadSize:
			out.Compressed = f.packed()
		case payloadCompression:
			compression = f.packed()
		case payloadUncompressed:
			out.Uncompressed = f.packed()
		}
		if f.err != nil {
			return f.err
		}
	}
	if uint64(len(r.b)) != out.Compressed {
		return malformed("a payload of %d bytes, its header says %d", len(r.b), out.Compressed)
	}
	if cap(p.packets) > maxKeptEvent {
		p.packets = nil
	}
	p.packets = append(p.packets[:0], r.b...)
	p.in.Reset(p.packets)
	switch compression {
	case compressionNone:
		p.src = &p.in
		out.Uncompressed = out.Compressed
	case compressionZstd:
		if p.zstd == nil {
			z, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxWindow))
			if err != nil {
				return fmt.Errorf("zstd: %w", err)
			}
			p.zstd = z
		}
		if err := p.zstd.Reset(&p.in); err != nil {
			return fmt.Errorf("%w: zstd: %w", ErrMalformed, err)
		}
		p.src = p.zstd
	default:
		return unsupported("a payload compressed with method %d", compression)
	}
	p.open, p.header, p.left = true, h, out.Uncompressed
	return nil
}

func (p *payload) close() { p.open = false }

// next reads one event; nil at the payload's end.
func (p *payload) next(limit int) ([]byte, error) {
	if p.left == 0 {
		var more [1]byte
		if n, err := io.ReadFull(p.src, more[:]); n != 0 || !errors.Is(err, io.EOF) {
			return nil, malformed("a payload that does not end: %v", err)
		}
		return nil, nil
	}
	if cap(p.event) > maxKeptEvent {
		p.event = nil
	}
	if err := p.read(headerSize); err != nil {
		return nil, err
	}
	size := uint64(binary.LittleEndian.Uint32(p.event[9:]))
	if size < headerSize {
		return nil, malformed("event size %d", size)
	}
	if size > uint64(limit) {
		return nil, fmt.Errorf("%w: an event of %d bytes after uncompressing, at most %d", ErrTooLarge, size, limit)
	}
	if err := p.read(int(size)); err != nil {
		return nil, err
	}
	p.left -= size
	return p.event, nil
}

// read makes the event's buffer size bytes long, in steps, so that a size is believed only as far as bytes come.
func (p *payload) read(size int) error {
	if uint64(size) > p.left {
		return malformed("an event that goes over its payload's end")
	}
	have := 0
	if size > headerSize {
		have = headerSize
	}
	p.event = p.event[:have]
	for have < size {
		n := min(size-have, max(payloadStep, have))
		if cap(p.event) < have+n {
			grown := make([]byte, have, have+n)
			copy(grown, p.event)
			p.event = grown
		}
		p.event = p.event[:have+n]
		if _, err := io.ReadFull(p.src, p.event[have:]); err != nil {
			return fmt.Errorf("%w: uncompress: %w", ErrMalformed, err)
		}
		have += n
	}
	return nil
}
