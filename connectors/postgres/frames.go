package postgres

import (
	"encoding/binary"
	"fmt"
	"io"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
)

const (
	// chunkBytes is how much of the stream is read and handed over at once.
	chunkBytes = 256 << 10
	frameHead  = 5 // type byte and length
)

// frames stands between pgconn and the socket. While pgconn uses it, a Read never goes past the end of the current protocol
// message, so pgconn holds nothing of the stream when it has read the answer to START_REPLICATION. From then on
// next reads whole frames in large chunks, without a copy or an allocation per message.
type frames struct {
	src  io.Reader
	left int             // bytes of the current message not yet passed on
	head [frameHead]byte // a message head that is being passed on
	have int             // of head, read
	sent int             // of head, passed on

	rest []byte // begin of an incomplete frame, from the last chunk
}

// tapFrontend makes cfg's connections read through a frames, which the result returns once connected.
func tapFrontend(cfg *pgconn.Config) func() *frames {
	var last *frames
	cfg.BuildFrontend = func(r io.Reader, w io.Writer) *pgproto3.Frontend {
		last = &frames{src: r}
		return pgproto3.NewFrontend(last, w)
	}
	return func() *frames { return last }
}

// Read passes on at most the rest of one message.
func (f *frames) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	if f.left == 0 && f.sent == f.have {
		f.have, f.sent = 0, 0
		for f.have < frameHead {
			n, err := f.src.Read(f.head[f.have:])
			f.have += n
			if err != nil {
				return 0, err
			}
		}
		size := int(binary.BigEndian.Uint32(f.head[1:]))
		if size < 4 {
			return 0, fmt.Errorf("read protocol message: length %d", size)
		}
		f.left = size - 4
	}
	if f.sent < f.have {
		n := copy(p, f.head[f.sent:f.have])
		f.sent += n
		return n, nil
	}
	n, err := f.src.Read(p[:min(len(p), f.left)])
	f.left -= n
	return n, err
}

// next fills buf with whole frames; buf grows only for a frame that is larger than it.
func (f *frames) next(buf []byte) ([]byte, error) {
	buf = append(buf[:0], f.rest...)
	f.rest = f.rest[:0]
	whole := wholeFrames(buf)
	for whole == 0 {
		if len(buf) >= frameHead && binary.BigEndian.Uint32(buf[1:]) < 4 {
			return nil, fmt.Errorf("read replication stream: frame of length %d", binary.BigEndian.Uint32(buf[1:]))
		}
		if len(buf) == cap(buf) {
			need := 2 * cap(buf)
			if len(buf) >= frameHead {
				need = max(frameHead, 1+int(binary.BigEndian.Uint32(buf[1:])))
			}
			buf = append(make([]byte, 0, max(need, chunkBytes)), buf...)
		}
		n, err := f.src.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		whole = wholeFrames(buf)
		if err != nil && whole == 0 {
			return nil, err
		}
	}
	f.rest = append(f.rest, buf[whole:]...)
	return buf[:whole], nil
}

// wholeFrames returns the length of the complete frames at the start of buf.
func wholeFrames(buf []byte) int {
	at := 0
	for len(buf)-at >= frameHead {
		size := 1 + int(binary.BigEndian.Uint32(buf[at+1:]))
		if size < frameHead || len(buf)-at < size {
			break
		}
		at += size
	}
	return at
}
