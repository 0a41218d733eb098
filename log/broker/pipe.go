package broker

import (
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// pipeBuffer is what one direction of an in-process connection holds, so that a small request or
// response does not wait for its reader. A larger write hands its bytes straight to the reader.
const pipeBuffer = 32 << 10 // bytes

// pipeConn is one end of an in-process connection. Its errors are those of a network connection, as clients tell
// by them what to try again.
type pipeConn struct {
	in, out *pipeHalf
}

func newPipe() (client, server *pipeConn) {
	a, b := newPipeHalf(), newPipeHalf()
	return &pipeConn{in: a, out: b}, &pipeConn{in: b, out: a}
}

type pipeAddr struct{}

func (pipeAddr) Network() string { return "in-process" }
func (pipeAddr) String() string  { return "in-process" }

func (c *pipeConn) Read(p []byte) (int, error)  { return c.in.read(p) }
func (c *pipeConn) Write(p []byte) (int, error) { return c.out.write(p) }

// Close ends both directions. What was written before can still be read by the peer.
func (c *pipeConn) Close() error {
	c.out.close(false)
	c.in.close(true)
	return nil
}

func (c *pipeConn) LocalAddr() net.Addr  { return pipeAddr{} }
func (c *pipeConn) RemoteAddr() net.Addr { return pipeAddr{} }

func (c *pipeConn) SetDeadline(t time.Time) error {
	_ = c.SetReadDeadline(t)
	return c.SetWriteDeadline(t)
}

func (c *pipeConn) SetReadDeadline(t time.Time) error {
	c.in.setDeadline(&c.in.reader, t)
	return nil
}

func (c *pipeConn) SetWriteDeadline(t time.Time) error {
	c.out.setDeadline(&c.out.writer, t)
	return nil
}

// pipeHalf is one direction. The bytes in transit are buf[at:] and then pending.
type pipeHalf struct {
	mu      sync.Mutex
	buf     []byte
	at      int
	pending []byte // what a blocked writer still holds

	writeClosed, readClosed bool
	reader, writer          pipeSide

	reading, writing sync.Mutex // one reader and one writer at a time
}

// pipeSide is what a reader or a writer waits with.
type pipeSide struct {
	wake     chan struct{}
	deadline time.Time
	timer    *time.Timer
}

func newPipeHalf() *pipeHalf {
	h := &pipeHalf{}
	h.reader.wake = make(chan struct{}, 1)
	h.writer.wake = make(chan struct{}, 1)
	return h
}

func (s *pipeSide) signal() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

func (s *pipeSide) passed() bool {
	return !s.deadline.IsZero() && !time.Now().Before(s.deadline)
}

// wait releases mu until the side is woken or its deadline passes.
func (h *pipeHalf) wait(s *pipeSide) error {
	if s.deadline.IsZero() {
		h.mu.Unlock()
		<-s.wake
		h.mu.Lock()
		return nil
	}
	left := time.Until(s.deadline)
	if left <= 0 {
		return os.ErrDeadlineExceeded
	}
	if s.timer == nil {
		s.timer = time.NewTimer(left)
	} else {
		s.timer.Reset(left)
	}
	timer := s.timer
	h.mu.Unlock()
	select {
	case <-s.wake:
		timer.Stop()
	case <-timer.C: // the caller looks at the deadline again: it may have moved
	}
	h.mu.Lock()
	return nil
}

func (h *pipeHalf) setDeadline(s *pipeSide, t time.Time) {
	h.mu.Lock()
	s.deadline = t
	h.mu.Unlock()
	s.signal()
}

func (h *pipeHalf) close(byReader bool) {
	h.mu.Lock()
	h.writeClosed = true
	if byReader {
		h.readClosed = true
		h.buf, h.at = nil, 0
	}
	h.mu.Unlock()
	h.reader.signal()
	h.writer.signal()
}

func (h *pipeHalf) read(p []byte) (int, error) {
	h.reading.Lock()
	defer h.reading.Unlock()
	h.mu.Lock()
	defer h.mu.Unlock()
	for {
		if h.readClosed {
			return 0, net.ErrClosed
		}
		if h.reader.passed() {
			return 0, os.ErrDeadlineExceeded
		}
		n := copy(p, h.buf[h.at:])
		if h.at += n; h.at == len(h.buf) {
			h.buf, h.at = h.buf[:0], 0
		}
		if n < len(p) && len(h.pending) > 0 {
			k := copy(p[n:], h.pending)
			n += k
			if h.pending = h.pending[k:]; len(h.pending) == 0 {
				h.writer.signal()
			}
		}
		if n > 0 || len(p) == 0 {
			return n, nil
		}
		if h.writeClosed {
			return 0, io.EOF
		}
		if err := h.wait(&h.reader); err != nil {
			return 0, err
		}
	}
}

func (h *pipeHalf) write(p []byte) (int, error) {
	h.writing.Lock()
	defer h.writing.Unlock()
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.writeClosed {
		return 0, net.ErrClosed
	}
	if h.writer.passed() {
		return 0, os.ErrDeadlineExceeded
	}
	if len(h.buf)-h.at+len(p) <= pipeBuffer {
		if h.buf == nil {
			h.buf = make([]byte, 0, pipeBuffer)
		} else if len(h.buf)+len(p) > pipeBuffer {
			h.buf, h.at = h.buf[:copy(h.buf, h.buf[h.at:])], 0
		}
		h.buf = append(h.buf, p...)
		h.reader.signal()
		return len(p), nil
	}
	h.pending = p
	h.reader.signal()
	for len(h.pending) > 0 {
		var err error
		if h.writeClosed {
			err = net.ErrClosed
		} else {
			err = h.wait(&h.writer)
		}
		if err != nil {
			n := len(p) - len(h.pending)
			h.pending = nil
			return n, err
		}
	}
	h.pending = nil
	return len(p), nil
}
