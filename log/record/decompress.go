package record

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

// Codec is a batch's compression, as in the low bits of its attributes.
type Codec int8

// The codecs of the Kafka protocol.
const (
	None Codec = iota
	Gzip
	Snappy
	LZ4
	Zstd

	maxCodec = Zstd
)

// ErrTooLarge says that records decompress to more than the reader's bound.
var ErrTooLarge = errors.New("decompressed records exceed the bound")

// xerialMagic starts the framing that Java producers put around snappy blocks; two version words follow it.
const (
	xerialMagic     = "\x82SNAPPY\x00"
	xerialHeaderLen = len(xerialMagic) + 8
)

// decompressor keeps one decoder per codec that it met, and one output buffer. It is not safe for concurrent use.
type decompressor struct {
	max  int
	src  bytes.Reader
	gzip *gzip.Reader
	lz4  *lz4.Reader
	zstd *zstd.Decoder
	out  []byte
}

// decompress returns src's content; the result is valid until the next call.
func (d *decompressor) decompress(codec Codec, src []byte) ([]byte, error) {
	var err error
	switch codec {
	case None:
		return src, nil
	case Gzip:
		d.src.Reset(src)
		if d.gzip == nil {
			d.gzip, err = gzip.NewReader(&d.src)
		} else {
			err = d.gzip.Reset(&d.src)
		}
		if err == nil {
			err = d.stream(d.gzip)
		}
	case Snappy:
		err = d.snappy(src)
	case LZ4:
		d.src.Reset(src)
		if d.lz4 == nil {
			d.lz4 = lz4.NewReader(nil)
		}
		d.lz4.Reset(&d.src)
		err = d.stream(d.lz4)
	case Zstd:
		if d.zstd == nil {
			d.zstd, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
				zstd.WithDecoderMaxMemory(uint64(d.max)))
		}
		if err == nil {
			d.out, err = d.zstd.DecodeAll(src, d.out[:0])
		}
		if errors.Is(err, zstd.ErrDecoderSizeExceeded) {
			return nil, ErrTooLarge
		}
	default:
		return nil, fmt.Errorf("%w: unknown compression codec %d", ErrCorrupt, codec)
	}
	if errors.Is(err, ErrTooLarge) {
		return nil, err
	}
	if err != nil {
		return nil, fmt.Errorf("%w: decompress: %w", ErrCorrupt, err)
	}
	if len(d.out) > d.max {
		return nil, ErrTooLarge
	}
	return d.out, nil
}

// stream reads r to its end or to one byte above the bound.
func (d *decompressor) stream(r io.Reader) error {
	out := d.out[:0]
	for {
		out = slices.Grow(out, 512)
		n, err := r.Read(out[len(out):min(cap(out), d.max+1)])
		out = out[:len(out)+n]
		d.out = out
		switch {
		case len(out) > d.max:
			return ErrTooLarge
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
	}
}

// snappy decodes a plain block, or the Java framing of several.
func (d *decompressor) snappy(src []byte) error {
	if len(src) < xerialHeaderLen || string(src[:len(xerialMagic)]) != xerialMagic {
		d.out = d.out[:0]
		return d.snappyBlock(src)
	}
	d.out = d.out[:0]
	for src = src[xerialHeaderLen:]; len(src) > 0; {
		if len(src) < 4 {
			return io.ErrUnexpectedEOF
		}
		n := binary.BigEndian.Uint32(src)
		if uint64(n) > uint64(len(src)-4) {
			return io.ErrUnexpectedEOF
		}
		if err := d.snappyBlock(src[4 : 4+n]); err != nil {
			return err
		}
		src = src[4+n:]
	}
	return nil
}

func (d *decompressor) snappyBlock(src []byte) error {
	n, err := s2.DecodedLen(src)
	if err != nil {
		return err
	}
	if n > d.max-len(d.out) {
		return ErrTooLarge
	}
	at := len(d.out)
	d.out = slices.Grow(d.out, n)
	if _, err := s2.Decode(d.out[at:at+n:at+n], src); err != nil {
		return err
	}
	d.out = d.out[:at+n]
	return nil
}
