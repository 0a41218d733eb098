package postgres

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/rowtrail/rowtrail/connectors"
)

const (
	// receiveBytes bounds what is read from the source and not yet decoded.
	receiveBytes = 16 << 20
	// receiveChunks bounds how many chunks that is.
	receiveChunks = 256
	// silenceFactor times the status interval without a word from the server means that the connection is dead: each
	// status asks for an answer.
	silenceFactor = 4
	silenceMin    = 30 * time.Second

	// In a dense stream of small writes by the server, a short wait lets the kernel gather some: reads closer than
	// denseGap that bring less than denseBytes are dense.
	denseGap   = time.Millisecond
	denseBytes = 16 << 10
	denseWait  = 300 * time.Microsecond

	xlogHead = 25 // 'w', start, end and send time
)

var errStreamEnded = errors.New("the server ended the replication stream")

// receiver reads the replication connection and hands over chunks of whole frames. It decodes nothing.
type receiver struct {
	conn   net.Conn
	frames *frames
	chunks chan []byte
	free   chan []byte
	gate   *connectors.Gate
	wake   func()        // a reply is asked for
	limit  time.Duration // of silence
	walEnd atomic.Uint64 // of the server
}

func newReceiver(conn net.Conn, fr *frames, statusInterval time.Duration, wake func()) *receiver {
	return &receiver{
		conn: conn, frames: fr, wake: wake,
		chunks: make(chan []byte, receiveChunks), free: make(chan []byte, receiveChunks),
		gate:  connectors.NewGate(receiveBytes),
		limit: max(silenceFactor*statusInterval, silenceMin),
	}
}

// run reads until the connection fails or ctx ends; closing the connection ends a blocked read.
func (r *receiver) run(ctx context.Context) error {
	wait := time.NewTimer(denseWait)
	defer wait.Stop()
	var last time.Time
	for {
		var buf []byte
		select {
		case buf = <-r.free:
		default:
			buf = make([]byte, 0, chunkBytes)
		}
		if err := r.conn.SetReadDeadline(time.Now().Add(r.limit)); err != nil {
			return fmt.Errorf("read replication stream: %w", err)
		}
		chunk, err := r.frames.next(buf)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = errStreamEnded
			}
			return fmt.Errorf("read replication stream: %w", err)
		}
		now := time.Now()
		dense := len(chunk) < denseBytes && now.Sub(last) < denseGap+denseWait
		last = now
		if err := r.scan(chunk); err != nil {
			return err
		}
		if err := r.gate.Acquire(ctx, nil, int64(cap(chunk))); err != nil {
			return err
		}
		select {
		case r.chunks <- chunk:
		case <-ctx.Done():
			return ctx.Err()
		}
		if dense {
			wait.Reset(denseWait)
			select {
			case <-wait.C:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
}

// scan looks at what must not wait for the decoder: the end of the server's WAL, a wish for a reply, an error.
func (r *receiver) scan(chunk []byte) error {
	end := uint64(0)
	for at := 0; at < len(chunk); {
		size := 1 + int(binary.BigEndian.Uint32(chunk[at+1:]))
		body := chunk[at+frameHead : at+size]
		switch chunk[at] {
		case 'd':
			switch {
			case len(body) >= xlogHead && body[0] == 'w':
				end = max(end, binary.BigEndian.Uint64(body[9:]))
			case len(body) == 18 && body[0] == 'k':
				end = max(end, binary.BigEndian.Uint64(body[1:]))
				if body[17] == 1 {
					r.wake()
				}
			}
		case 'E':
			var m pgproto3.ErrorResponse
			if err := m.Decode(body); err != nil {
				return fmt.Errorf("read replication stream: undecodable error of the server: %w", err)
			}
			return pgconn.ErrorResponseToPgError(&m)
		case 'c', 'C', 'Z':
			return errStreamEnded
		case 'N', 'S':
		default:
			return fmt.Errorf("read replication stream: unexpected protocol message %q", chunk[at])
		}
		at += size
	}
	r.reaches(lsn(end))
	return nil
}

// reaches notes how far the server's WAL goes at least.
func (r *receiver) reaches(end lsn) {
	for {
		now := r.walEnd.Load()
		if uint64(end) <= now || r.walEnd.CompareAndSwap(now, uint64(end)) {
			return
		}
	}
}

// nudge has the decoder look whether there is anything to do, where nothing comes.
func (r *receiver) nudge() {
	select {
	case r.chunks <- nil:
	default:
	}
}

// release gives a decoded chunk back.
func (r *receiver) release(chunk []byte) {
	r.gate.Release(int64(cap(chunk)))
	if cap(chunk) > 2*chunkBytes || chunk == nil {
		return
	}
	select {
	case r.free <- chunk:
	default:
	}
}
