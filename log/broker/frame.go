package broker

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rowtrail/rowtrail/log/broker/room"
)

const (
	// maxSmallRequestBytes bounds a frame of every API but Produce.
	maxSmallRequestBytes = 8 << 20 // bytes
	// decodedFactor is how much larger than its frame a decoded request of small elements can be. Frames
	// other than Produce take this many times their size from the in-flight bytes, once they are whole.
	decodedFactor = 16
	// A frame of at most connReadBuffer takes nothing until it is whole. Of a larger one, eagerFrameBytes are taken and
	// allocated on a network client's word; the rest only as it arrives, frameGrowth times as much at a time.
	eagerFrameBytes = 16 << 10 // bytes
	frameGrowth     = 8
	// checkedFrameBytes: the outline of a larger Produce frame is read before it is decoded.
	checkedFrameBytes = 1 << 20
	// partBytes of a frame or a response must go through in the time that so much may take, beside the bound of the whole.
	partBytes = 1 << 20
	// produceBytesPerElement: a Produce frame with more topics and partitions than one per so many
	// bytes carries no records worth the memory that decoding it takes.
	produceBytesPerElement = 16
)

var (
	errFrame = errors.New("bad frame")
	errIdle  = errors.New("idle for too long")
)

// frame is one request as read from a connection.
type frame struct {
	header header
	api    *api
	err    error      // errUnsupported for ApiVersions alone, which is answered
	body   []byte     // behind the fixed header
	held   *room.Hold // of the bytes in flight
}

// frameTime is how long a transfer of n bytes may take.
func (b *Broker) frameTime(n int) time.Duration {
	return b.opts.FrameTimeout + time.Duration(n)*time.Second/time.Duration(b.opts.MinTransferRate)
}

// checkSize refuses a frame before memory is spent on it.
func (b *Broker) checkSize(size int32) error {
	switch {
	case size < headerBytes:
		return fmt.Errorf("frame of %d bytes is shorter than a header: %w", size, errFrame)
	case size > b.opts.MaxRequestBytes:
		return fmt.Errorf("frame of %d bytes exceeds the limit of %d: %w", size, b.opts.MaxRequestBytes, errFrame)
	}
	return nil
}

// readFrame reads one frame. Memory and in-flight bytes are bounded before the body is read.
func (c *conn) readFrame() (frame, error) {
	var word [4]byte
	c.waitIdle()
	if n, err := io.ReadFull(c.br, word[:]); err != nil {
		if n == 0 && errors.Is(err, os.ErrDeadlineExceeded) {
			err = errIdle
		}
		return frame{}, err
	}
	size := int32(binary.BigEndian.Uint32(word[:]))
	if err := c.b.checkSize(size); err != nil {
		return frame{}, err
	}
	if err := c.waitMuted(); err != nil {
		return frame{}, err
	}
	if c.br.Buffered() < int(size) {
		c.waitFrame(int(size))
	}
	fixed, err := c.br.Peek(headerBytes)
	if err != nil {
		return frame{}, noEOF(err)
	}
	f := frame{header: parseHeader((*[headerBytes]byte)(fixed))}
	f.api, f.err = c.b.lookup(f.header)
	if f.err != nil && (f.api == nil || f.header.key != keyAPIVersions) {
		return frame{}, f.err
	}
	if err := c.mayPass(f.header, size); err != nil {
		return frame{}, err
	}
	if f.header.key != keyProduce && size > maxSmallRequestBytes {
		return frame{}, fmt.Errorf("%s frame of %d bytes exceeds the limit of %d: %w",
			kmsg.NameForKey(f.header.key), size, maxSmallRequestBytes, errFrame)
	}
	if err := c.readBody(&f, int(size)); err != nil {
		if f.held != nil {
			f.held.Release()
		}
		return frame{}, noEOF(err)
	}
	c.b.requests.Add(1)
	c.b.bytesIn.Add(int64(size) + int64(len(word)))
	return f, nil
}

// readBody reads a frame of size bytes of which none are taken yet, and takes what it weighs from the bytes in flight.
func (c *conn) readBody(f *frame, size int) error {
	weight := int64(size)
	if f.header.key != keyProduce {
		weight *= decodedFactor
	}
	if size <= connReadBuffer {
		if _, err := c.br.Peek(size); err != nil {
			return err
		}
		f.held = c.shares.bytes.Small()
		if _, err := f.held.Grow(c.ctx, weight); err != nil {
			return err
		}
		_, _ = c.br.Discard(headerBytes)
		f.body = make([]byte, size-headerBytes)
		_, err := io.ReadFull(c.br, f.body)
		return err
	}
	f.held = c.shares.bytes.Large()
	eager := eagerFrameBytes
	if c.internal {
		eager = size
	}
	_, _ = c.br.Discard(headerBytes)
	if err := c.readLarge(f, size-headerBytes, eager); err != nil {
		return err
	}
	if f.header.key == keyProduce {
		return checkProduceShape(f.header.version, f.body)
	}
	_, err := f.held.Grow(c.ctx, weight)
	return err
}

// readLarge reads a body of n bytes, taking and allocating them as they arrive. Each part must come in time, unless it is one.
func (c *conn) readLarge(f *frame, n, eager int) error {
	for at := 0; at < n; {
		next := min(n, max(eager, at*frameGrowth))
		waited, err := f.held.Grow(c.ctx, int64(next+headerBytes))
		if err != nil {
			return err
		}
		if waited {
			c.waitFrame(n - at) // waiting for room was not the client's fault
		}
		grown := make([]byte, next)
		copy(grown, f.body)
		for f.body = grown; at < next; {
			part := min(next-at, partBytes)
			if n > partBytes && !c.internal {
				c.waitPart(part)
			}
			if _, err := io.ReadFull(c.br, f.body[at:at+part]); err != nil {
				return err
			}
			at += part
		}
	}
	return nil
}

// checkProduceShape refuses a large Produce frame that is made of topics and partitions rather than of
// records: decoding it would take a multiple of its bytes.
func checkProduceShape(version int16, body []byte) error {
	if len(body) <= checkedFrameBytes {
		return nil
	}
	flexible := version >= 9
	r := kbin.Reader{Src: body}
	length := func() int32 {
		if flexible {
			return r.CompactArrayLen()
		}
		return r.ArrayLen()
	}
	tags := func() {
		if flexible {
			kmsg.SkipTags(&r)
		}
	}
	r.NullableString() // client id
	tags()
	if flexible {
		r.CompactNullableString()
	} else {
		r.NullableString()
	}
	r.Span(2 + 4) // acks, timeout
	left := int64(len(body)) / produceBytesPerElement
	for topics := length(); topics > 0 && left > 0 && r.Ok(); topics-- {
		left--
		switch {
		case version >= 13:
			r.Span(16)
		case flexible:
			r.UnsafeCompactString()
		default:
			r.UnsafeString()
		}
		for parts := length(); parts > 0 && left > 0 && r.Ok(); parts-- {
			left--
			r.Span(4)
			if flexible {
				r.CompactNullableBytes()
			} else {
				r.NullableBytes()
			}
			tags()
		}
		tags()
	}
	if left == 0 {
		return fmt.Errorf("%s frame of %d bytes names too many partitions: %w", kmsg.NameForKey(keyProduce), len(body), errFrame)
	}
	return nil // whether it is complete is for the decoder to say
}

// noEOF marks an end within a frame as an error, unlike one between frames.
func noEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
