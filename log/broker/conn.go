package broker

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
	"golang.org/x/sync/semaphore"
)

const (
	// maxFramesAhead is how many requests of a connection are read before the first is answered.
	maxFramesAhead = 32
	// connReadBuffer holds small frames; an idle connection costs this much and two goroutines.
	connReadBuffer = 4 << 10 // bytes
	// connShare: one connection may hold this fraction of the bytes in flight (and always one request).
	connShare = 2
	// idleGrain is how often the idle deadline is moved: a deadline costs as much as a small request.
	idleGrain = time.Second
)

// conn is one client connection.
type conn struct {
	b        *Broker
	nc       net.Conn
	br       *bufio.Reader
	limits   *listenerLimits
	share    int64 // bytes of limits.bytes that this connection may hold
	inflight *semaphore.Weighted
	internal bool
	host     string

	ctx      context.Context // ends when the client is gone or the broker stops
	cancel   context.CancelFunc
	draining atomic.Bool
	idleSet  time.Time // when the idle deadline was last set; zero while a frame's is

	frames chan frame
	staged chan stagedReply // begun by the first staged request
	behind sync.WaitGroup   // staged requests not yet answered
	reason sync.Once        // one log line for each closed connection
}

func newConn(b *Broker, nc net.Conn, limits *listenerLimits, internal bool) *conn {
	c := &conn{
		b: b, nc: nc, limits: limits, internal: internal,
		br:     bufio.NewReaderSize(nc, connReadBuffer),
		share:  max(int64(b.opts.MaxRequestBytes), limits.maxBytes/connShare),
		host:   "in-process",
		frames: make(chan frame, maxFramesAhead),
	}
	c.inflight = semaphore.NewWeighted(c.share)
	if !internal {
		if host, _, err := net.SplitHostPort(nc.RemoteAddr().String()); err == nil {
			c.host = host
		}
	}
	c.ctx, c.cancel = context.WithCancel(b.ctx)
	return c
}

// run serves the connection until it ends.
func (c *conn) run() {
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.process()
	}()
	err := c.read()
	close(c.frames)
	c.cancel()
	<-done
	c.fail(err)
	_ = c.nc.Close()
}

// drain ends reading; what has arrived is still answered.
func (c *conn) drain() {
	c.draining.Store(true)
	_ = c.nc.SetReadDeadline(time.Unix(1, 0))
}

// fail logs why a connection ends, once, and closes it. A client that hangs up between frames is no news.
func (c *conn) fail(err error) {
	c.reason.Do(func() {
		level := c.b.logger.Warn
		switch {
		case err == nil, errors.Is(err, io.EOF), errors.Is(err, net.ErrClosed),
			errors.Is(err, errIdle), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE),
			errors.Is(err, context.Canceled), errors.Is(err, os.ErrDeadlineExceeded) && c.draining.Load():
			level = c.b.logger.Debug
		}
		level("closed connection", "client", c.nc.RemoteAddr().String(), "reason", err)
	})
	_ = c.nc.Close()
}

// read is the connection's reader.
func (c *conn) read() error {
	for {
		f, err := c.readFrame()
		if err != nil {
			return err
		}
		// The reader goes on while a request is handled, so that a client that hangs up during a
		// long poll is noticed; it stops when maxFramesAhead are waiting.
		c.frames <- f
	}
}

// waitIdle and waitFrame set the read deadline for the gap between frames and for the rest of a frame.
func (c *conn) waitIdle() {
	if now := time.Now(); now.Sub(c.idleSet) > idleGrain {
		c.idleSet = now
		c.deadline(now.Add(c.b.opts.IdleTimeout))
	}
}

func (c *conn) waitFrame(size int) {
	c.idleSet = time.Time{}
	c.deadline(time.Now().Add(c.b.frameTime(size)))
}

func (c *conn) deadline(t time.Time) {
	_ = c.nc.SetReadDeadline(t)
	if c.draining.Load() {
		_ = c.nc.SetReadDeadline(time.Unix(1, 0))
	}
}

// reserve takes bytes from the connection's and from everyone's share, waiting for them if it must (invariant 9).
func (c *conn) reserve(n int64) (waited bool, err error) {
	if !c.inflight.TryAcquire(n) {
		waited = true
		if err := c.inflight.Acquire(c.ctx, n); err != nil {
			return waited, err
		}
	}
	if !c.limits.bytes.TryAcquire(n) {
		waited = true
		if err := c.limits.bytes.Acquire(c.ctx, n); err != nil {
			c.inflight.Release(n)
			return waited, err
		}
	}
	return waited, nil
}

func (c *conn) unreserve(n int64) {
	c.limits.bytes.Release(n)
	c.inflight.Release(n)
}

// process is the connection's processor. It handles every frame that was read whole, also after the
// client hung up: with acks=0 a producer may well be gone before its records are appended.
func (c *conn) process() {
	broken := false
	for f := range c.frames {
		if broken {
			c.unreserve(f.weight)
			continue
		}
		if err := c.dispatch(f); err != nil {
			c.behind.Wait() // answers ahead of the failed request still go out
			c.fail(err)
			c.cancel()
			broken = true
		}
	}
	if c.staged != nil {
		close(c.staged)
		c.behind.Wait()
	}
}

// dispatch handles one frame.
func (c *conn) dispatch(f frame) error {
	if f.err != nil { // an ApiVersions request of a future version: its body cannot be read
		c.behind.Wait()
		defer c.unreserve(f.weight)
		return c.write(f.header, c.b.apiVersionsFallback())
	}
	req, clientID, err := decode(f.header, f.body)
	if err != nil {
		c.unreserve(f.weight)
		return err
	}
	r := &request{
		req: req, key: f.header.key, version: f.header.version, corr: f.header.corr,
		clientID: clientID, host: c.host, internal: c.internal, limits: c.limits,
	}
	if f.api.stage != nil {
		return c.stage(f, r)
	}
	defer c.unreserve(f.weight)
	c.behind.Wait() // answers keep the order of requests
	defer func() {
		if r.release != nil {
			r.release()
		}
	}()
	resp, err := c.handle(f.api, r)
	if err != nil || resp == nil {
		return err
	}
	return c.write(f.header, resp)
}

// handle calls a handler. A panic ends this connection and no other.
func (c *conn) handle(a *api, r *request) (resp kmsg.Response, err error) {
	defer c.recoverTo(r, &err)
	return a.handle(c.b, c.ctx, r)
}

func (c *conn) recoverTo(r *request, err *error) {
	if p := recover(); p != nil {
		c.b.logger.Error("request handler failed", "api", kmsg.NameForKey(r.key), "version", r.version,
			"panic", fmt.Sprint(p), "stack", string(debug.Stack()))
		*err = fmt.Errorf("handle %s: internal error", kmsg.NameForKey(r.key))
	}
}
