package mysql

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/go-mysql-org/go-mysql/mysql"

	"github.com/rowtrail/rowtrail/connectors"
)

const (
	// receiveBytes bounds what is read from the source and not yet decoded.
	receiveBytes = 16 << 20
	// receiveChunks bounds how many chunks that is.
	receiveChunks = 256
	// chunkBytes is how much of the stream is read and handed over at once.
	chunkBytes = 256 << 10
	// maxEvent is what one event may have; the servers' own limit is a little above max_allowed_packet's 1 GiB.
	maxEvent = 1<<30 + 1<<20
	// silence without even a heartbeat means that the connection is dead.
	silence = 30 * time.Second

	packetHead    = 4
	packetMaximum = 1<<24 - 1 // a packet of this size is followed by another one of the same event
)

var errStreamEnded = errors.New("the server ended the binlog stream")

// chunk is some events, each without the protocol around it.
type chunk struct {
	buf    []byte
	events [][]byte
}

// receiver reads the dump and hands over chunks. It decodes nothing.
type receiver struct {
	conn   net.Conn
	in     packets
	chunks chan *chunk
	free   chan *chunk
	gate   *connectors.Gate
}

func newReceiver(conn net.Conn) *receiver {
	return &receiver{
		conn: conn, in: packets{src: conn, sequence: 1}, gate: connectors.NewGate(receiveBytes),
		chunks: make(chan *chunk, receiveChunks), free: make(chan *chunk, receiveChunks),
	}
}

// run reads until the connection fails or ctx ends; closing the connection ends a blocked read.
func (r *receiver) run(ctx context.Context) error {
	for {
		var c *chunk
		select {
		case c = <-r.free:
		default:
			c = &chunk{buf: make([]byte, 0, chunkBytes)}
		}
		if err := r.conn.SetReadDeadline(time.Now().Add(silence)); err != nil {
			return fmt.Errorf("read binlog stream: %w", err)
		}
		err := r.in.next(c)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if len(c.events) > 0 { // what came before an error counts
			if err := r.gate.Acquire(ctx, nil, int64(cap(c.buf))); err != nil {
				return err
			}
			select {
			case r.chunks <- c:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = errStreamEnded
			}
			return fmt.Errorf("read binlog stream: %w", err)
		}
	}
}

// release gives a decoded chunk back.
func (r *receiver) release(c *chunk) {
	r.gate.Release(int64(cap(c.buf)))
	if cap(c.buf) > 2*chunkBytes || cap(c.buf) == 0 {
		return
	}
	select {
	case r.free <- c:
	default:
	}
}

// packets takes the network protocol apart in large reads, without a copy of an event that is in one packet.
type packets struct {
	src      io.Reader
	sequence byte
	rest     []byte // begin of an incomplete packet, from the last chunk
}

// next fills a chunk with at least one event. Its buffer grows only for an event that is larger than it.
func (p *packets) next(c *chunk) error {
	buf := append(c.buf[:0], p.rest...)
	c.events = c.events[:0]
	p.rest = p.rest[:0]
	at := 0
	for {
		for {
			payload, end, err := p.whole(buf, at)
			if err != nil {
				c.buf = buf
				return err
			}
			if payload == nil {
				break
			}
			at = end
			if err := c.add(payload); err != nil {
				c.buf = buf
				return err
			}
		}
		if len(c.events) > 0 {
			p.rest = append(p.rest, buf[at:]...)
			c.buf = buf
			return nil
		}
		if len(buf) == cap(buf) {
			need := max(2*cap(buf), chunkBytes)
			if len(buf)-at >= packetHead {
				need = max(need, packetHead+length(buf[at:])+packetHead)
			}
			if need = min(need, maxEvent); need <= len(buf) {
				c.buf = buf
				return &connectors.Fault{Problem: fmt.Sprintf("an event of more than %d bytes", maxEvent), Remedy: "report this with the server's version"}
			}
			buf = append(make([]byte, 0, need), buf...)
		}
		n, err := p.src.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		if n == 0 && err != nil {
			c.buf = buf
			return err
		}
	}
}

func length(head []byte) int { return int(head[0]) | int(head[1])<<8 | int(head[2])<<16 }

// whole returns the payload that begins at a place, put together if it came in several packets, and where it ends; nil when
// bytes are missing.
func (p *packets) whole(buf []byte, at int) (payload []byte, end int, err error) {
	sequence := p.sequence
	end = at
	for {
		if len(buf)-end < packetHead {
			return nil, 0, nil
		}
		n := length(buf[end:])
		if len(buf)-end < packetHead+n {
			return nil, 0, nil
		}
		if buf[end+3] != sequence {
			return nil, 0, fmt.Errorf("packet %d where %d follows: bytes were lost or added on the way", buf[end+3], sequence)
		}
		sequence++
		end += packetHead + n
		if n < packetMaximum {
			break
		}
	}
	p.sequence = sequence
	if first := length(buf[at:]); first < packetMaximum {
		return buf[at+packetHead : end : end], end, nil
	}
	payload = buf[at+packetHead : at+packetHead]
	for from := at; from < end; {
		n := length(buf[from:])
		payload = append(payload, buf[from+packetHead:from+packetHead+n]...) // the first onto itself, the others to the left
		from += packetHead + n
	}
	return payload, end, nil
}

// add takes one payload apart.
func (c *chunk) add(payload []byte) error {
	switch {
	case len(payload) == 0:
		return errors.New("an empty packet")
	case payload[0] == mysql.OK_HEADER:
		c.events = append(c.events, payload[1:])
		return nil
	case payload[0] == mysql.ERR_HEADER:
		return serverError(payload)
	case payload[0] == mysql.EOF_HEADER:
		return errStreamEnded
	}
	return fmt.Errorf("a packet that begins with %#x", payload[0])
}
