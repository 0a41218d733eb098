package peer

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/rowtrail/rowtrail/log/sleep"
)

// sender writes one kind of frames to one peer.
type sender struct {
	n *Network
	senderKey
	out *outbox

	connected atomic.Bool
}

func (s *sender) run() {
	backoff := minBackoff
	for {
		select {
		case <-s.out.notify:
		case <-s.n.ctx.Done():
			return
		}
		c, err := s.dial()
		if err != nil {
			s.lose(err)
			if !sleep.For(s.n.ctx, backoff/2+rand.N(backoff)) {
				return
			}
			backoff = min(2*backoff, maxBackoff)
			continue
		}
		backoff = minBackoff
		s.n.said.over(s.peer())
		s.connected.Store(true)
		s.write(c)
		s.connected.Store(false)
	}
}

// lose drops what waits, and says so.
func (s *sender) lose(err error) {
	for range s.out.take() {
		s.n.dropped.Add(1)
	}
	s.n.opts.Lost(s.node)
	if s.kind != Control {
		return
	}
	if errors.Is(err, syscall.ECONNREFUSED) {
		s.n.opts.Gone(s.node)
	}
	what := ""
	switch {
	case errors.Is(err, errTLS):
		what = "there is no TLS with a peer"
	case errors.Is(err, ErrRefused):
		what = "a peer refuses this node"
	}
	if what != "" && s.n.said.worth(s.peer(), err) {
		s.n.opts.Logger.Error(what, "node", s.node, "error", err)
	}
}

func (s *sender) peer() string { return "node " + strconv.Itoa(int(s.node)) }

func (s *sender) dial() (net.Conn, error) {
	c, err := s.n.Open(s.n.ctx, s.node, s.kind)
	if err != nil {
		return nil, err
	}
	return c, nil
}

// write sends until the connection breaks.
func (s *sender) write(c net.Conn) {
	gone := make(chan struct{})
	go func() { // the peer never writes, so this ends when the connection does
		defer close(gone)
		_, _ = io.Copy(io.Discard, c)
	}()
	defer func() {
		_ = c.Close()
		<-gone
	}()
	w := bufio.NewWriterSize(c, writeBuffer)
	for {
		if frames := s.out.take(); len(frames) > 0 {
			size, err := writeAll(c, w, frames)
			if err != nil {
				s.n.dropped.Add(int64(len(frames)))
				s.lose(err)
				return
			}
			s.n.sent.Add(size)
		}
		select {
		case <-s.out.notify:
		case <-gone:
			s.lose(s.probe())
			return
		case <-s.n.ctx.Done():
			return
		}
	}
}

// writeBuffer gathers small frames; large ones go around it.
const writeBuffer = 64 << 10

func writeAll(c net.Conn, w *bufio.Writer, frames []Frame) (size int64, err error) {
	for _, f := range frames {
		if err := c.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
			return size, err
		}
		var word [4]byte
		n := f.size()
		binary.BigEndian.PutUint32(word[:], uint32(n)) //nolint:gosec // bounded by maxFrameBytes
		_, err := w.Write(word[:])
		for _, part := range f {
			if err == nil {
				_, err = w.Write(part)
			}
		}
		if err != nil {
			return size, err
		}
		size += int64(len(word) + n)
	}
	return size, w.Flush()
}

// probe asks why a connection ended: a process that is gone refuses the next one.
func (s *sender) probe() error {
	if s.kind != Control {
		return io.EOF
	}
	for tries := 1; ; tries++ {
		c, err := s.dial()
		if err == nil {
			_ = c.Close()
			return io.EOF
		}
		// A process that ends closes its connections before its listener or behind it: what was accepted in between was reset.
		if tries == maxProbes || errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, ErrRefused) || errors.Is(err, ErrLater) {
			return err
		}
		if !sleep.For(s.n.ctx, minBackoff) {
			return err
		}
	}
}

// maxProbes bounds how often a connection that ended is asked after.
const maxProbes = 4
