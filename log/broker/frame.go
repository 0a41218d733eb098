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
)

const (
	// maxSmallRequestBytes bounds a frame of every API but Produce.
	maxSmallRequestBytes = 8 << 20 // bytes
	// decodedFactor is how much larger than its frame a decoded request of small elements can be. Frames
	// other than Produce take this many times their size from the in-flight bytes.
	decodedFactor = 16
	// eagerFrameBytes are allocated on a network client's word; the rest of a larger frame only as it
	// arrives, frameGrowth times as much at a time.
	eagerFrameBytes = 1 << 20 // bytes
	frameGrowth     = 8
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
	err    error  // errUnsupported for ApiVersions alone, which is answered
	body   []byte // behind the fixed header
	weight int64  // taken from the in-flight bytes
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
	var fixed [headerBytes]byte
	if _, err := io.ReadFull(c.br, fixed[:]); err != nil {
		return frame{}, noEOF(err)
	}
	f := frame{header: parseHeader(&fixed)}
	f.api, f.err = c.b.lookup(f.header)
	if f.err != nil && (f.api == nil || f.header.key != keyAPIVersions) {
		return frame{}, f.err
	}
	if err := c.mayPass(f.header, size); err != nil {
		return frame{}, err
	}
	f.weight = int64(size)
	if f.header.key != keyProduce {
		if size > maxSmallRequestBytes {
			return frame{}, fmt.Errorf("%s frame of %d bytes exceeds the limit of %d: %w",
				kmsg.NameForKey(f.header.key), size, maxSmallRequestBytes, errFrame)
		}
		f.weight *= decodedFactor
	}
	f.weight = min(f.weight, c.share)
	waited, err := c.reserve(f.weight)
	if err != nil {
		return frame{}, err
	}
	if waited {
		c.waitFrame(int(size)) // waiting for room was not the client's fault
	}
	eager, part := eagerFrameBytes, c.waitPart
	if c.internal {
		eager, part = int(size), nil
	}
	if f.body, err = readBody(c.br, int(size)-headerBytes, eager, part); err == nil && f.header.key == keyProduce {
		err = checkProduceShape(f.header.version, f.body)
	}
	if err != nil {
		c.unreserve(f.weight)
		return frame{}, noEOF(err)
	}
	c.b.requests.Add(1)
	c.b.bytesIn.Add(int64(size) + int64(len(word)))
	return f, nil
}

// readBody reads n bytes, allocating a large body only as it arrives. part is told of each part of it, unless it is one.
func readBody(r io.Reader, n, eager int, part func(size int)) ([]byte, error) {
	body := make([]byte, min(n, eager))
	for at := 0; ; {
		for at < len(body) {
			size := min(len(body)-at, partBytes)
			if part != nil && n > partBytes {
				part(size)
			}
			if _, err := io.ReadFull(r, body[at:at+size]); err != nil {
				return nil, err
			}
			at += size
		}
		if at == n {
			return body, nil
		}
		grown := make([]byte, min(n, at*frameGrowth))
		copy(grown, body)
		body = grown
	}
}

// checkProduceShape refuses a large Produce frame that is made of topics and partitions rather than of
// records: decoding it would take a multiple of its bytes.
func checkProduceShape(version int16, body []byte) error {
	if len(body) <= eagerFrameBytes {
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
