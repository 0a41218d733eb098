package record

import (
	"encoding/binary"
	"fmt"
	"io"
	"slices"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

const (
	// xerialVersions are the framing's version and the oldest reader's: Java refuses lower ones.
	xerialVersions = "\x00\x00\x00\x01\x00\x00\x00\x01"
	// xerialBlock is how much a block of the framing holds, as with Java producers.
	xerialBlock = 32 << 10
	// zstdWindow bounds what an encoder keeps, and what every consumer has to keep to decode.
	zstdWindow = 1 << 20
)

// Levels returns Kafka's range of a codec's compression level and the default; codecs without levels have 0.
// Gzip knows no level 0.
func Levels(codec Codec) (lowest, highest, normal int) {
	switch codec {
	case Gzip:
		return -1, 9, -1
	case LZ4:
		return 1, 17, 9
	case Zstd:
		return -1 << 17, 22, 3
	default:
		return 0, 0, 0
	}
}

// compressor keeps one encoder per codec that it met, of the level that was asked for last. It is not safe for concurrent use.
type compressor struct {
	out       appender
	gzip      *gzip.Writer
	gzipLevel int
	lz4       *lz4.Writer
	lz4Level  lz4.CompressionLevel
	zstd      *zstd.Encoder
	zstdLevel zstd.EncoderLevel
}

// appender is a writer to the end of a slice.
type appender struct{ b []byte }

func (a *appender) Write(p []byte) (int, error) {
	a.b = append(a.b, p...)
	return len(p), nil
}

// compress appends src to dst, compressed. Codecs without levels ignore the level.
func (c *compressor) compress(dst []byte, codec Codec, level int, src []byte) ([]byte, error) {
	lowest, highest, _ := Levels(codec)
	if levelled := lowest != highest; levelled && (level < lowest || level > highest || codec == Gzip && level == 0) {
		return dst, fmt.Errorf("compression level %d is not one of codec %d's: choose one from %d to %d", level, codec, lowest, highest)
	}
	switch codec {
	case None:
		return append(dst, src...), nil
	case Snappy:
		return appendXerial(dst, src), nil
	case Gzip:
		if c.gzip == nil || c.gzipLevel != level {
			w, err := gzip.NewWriterLevel(io.Discard, level)
			if err != nil {
				return dst, fmt.Errorf("compress: %w", err)
			}
			c.gzip, c.gzipLevel = w, level
		}
		return c.stream(dst, c.gzip, src)
	case LZ4:
		if err := c.setLZ4(lz4Level(level)); err != nil {
			return dst, fmt.Errorf("compress: %w", err)
		}
		return c.stream(dst, c.lz4, src)
	case Zstd:
		if at := zstd.EncoderLevelFromZstd(level); c.zstd == nil || c.zstdLevel != at {
			w, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(at), zstd.WithEncoderConcurrency(1),
				zstd.WithWindowSize(zstdWindow), zstd.WithLowerEncoderMem(true), zstd.WithEncoderCRC(false))
			if err != nil {
				return dst, fmt.Errorf("compress: %w", err)
			}
			c.zstd, c.zstdLevel = w, at
		}
		return c.zstd.EncodeAll(src, dst), nil
	default:
		return dst, fmt.Errorf("no compression codec has the number %d", codec)
	}
}

func (c *compressor) setLZ4(level lz4.CompressionLevel) error {
	if c.lz4 != nil && c.lz4Level == level {
		return nil
	}
	w := lz4.NewWriter(io.Discard)
	// Small blocks, as Kafka's own: a reader's buffers are as large as a block. The batch has a checksum already.
	err := w.Apply(lz4.BlockSizeOption(lz4.Block64Kb), lz4.ChecksumOption(false), lz4.CompressionLevelOption(level))
	if err == nil {
		c.lz4, c.lz4Level = w, level
	}
	return err
}

// lz4Level finds the library's level. Kafka's default, 9, is the fast compressor; all others are the thorough one's.
func lz4Level(level int) lz4.CompressionLevel {
	if level == 9 {
		return lz4.Fast
	}
	return 1 << (8 + min(level, 9))
}

func (c *compressor) stream(dst []byte, w interface {
	io.WriteCloser
	Reset(io.Writer)
}, src []byte) ([]byte, error) {
	c.out.b = dst
	w.Reset(&c.out)
	_, err := w.Write(src)
	if err == nil {
		err = w.Close()
	}
	dst, c.out.b = c.out.b, nil
	if err != nil {
		return dst, fmt.Errorf("compress: %w", err)
	}
	return dst, nil
}

// appendXerial writes snappy in the framing of Java producers, which every client reads.
func appendXerial(dst, src []byte) []byte {
	dst = append(append(dst, xerialMagic...), xerialVersions...)
	for len(src) > 0 {
		n := min(len(src), xerialBlock)
		dst = slices.Grow(dst, 4+s2.MaxEncodedLen(n))
		at := len(dst) + 4
		block := s2.EncodeSnappy(dst[at:cap(dst)], src[:n])
		binary.BigEndian.PutUint32(dst[at-4:at], uint32(len(block)))
		dst, src = dst[:at+len(block)], src[n:]
	}
	return dst
}
