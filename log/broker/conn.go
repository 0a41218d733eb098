package broker

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rowtrail/rowtrail/log/broker/quiet"
)

const (
	// maxFramesAhead is how many requests of a connection are read before the first is answered.
	maxFramesAhead = 32
	// connReadBuffer holds small frames; an idle connection costs this much and two goroutines.
	connReadBuffer = 4 << 10 // bytes
	// idleGrain is how often the idle deadline is moved: a deadline costs as much as a small request.
	idleGrain = time.Second
)

// conn is one client connection.
type conn struct {
	b        *Broker
	nc       net.Conn
	socket   net.Conn // below nc when that is TLS
	br       *bufio.Reader
	limits   *listenerLimits
	shares   shares
	internal bool
	host     string

	session  session
	admitted bool      // the reader may take any frame: the log-in is over
	loginBy  time.Time // no deadline is later; zero after the log-in
	frameBy  time.Time // when the frame that is being read must be through

	mutedUntil atomic.Int64 // Unix nanoseconds: no frame is read before

	work work // of the request that is handled

	ctx      context.Context // ends when the client is gone or the broker stops
	lasting  context.Context // goes on when the client is gone
	cancel   context.CancelFunc
	draining atomic.Bool
	idleSet  time.Time // when the idle deadline was last set; zero while a frame's is

	frames chan frame
	staged chan stagedReply // begun by the first staged request
	behind sync.WaitGroup   // staged requests not yet answered
	reason sync.Once        // one log line for each closed connection
}

func newConn(b *Broker, nc net.Conn, limits *listenerLimits, h *host, internal bool) *conn {
	socket := nc
	if b.opts.TLS != nil && !internal {
		nc = tls.Server(socket, b.opts.TLS)
	}
	c := &conn{
		b: b, nc: nc, socket: socket, limits: limits, internal: internal,
		br:     bufio.NewReaderSize(nc, connReadBuffer),
		host:   "in-process",
		frames: make(chan frame, maxFramesAhead),
	}
	c.session.from = h
	c.shares = limits.shares(h)
	if !internal {
		if host, _, err := net.SplitHostPort(nc.RemoteAddr().String()); err == nil {
			c.host = host
		}
	}
	c.lasting = withWork(b.ctx, &c.work)
	c.ctx, c.cancel = context.WithCancel(c.lasting)
	return c
}

// run serves the connection until it ends.
func (c *conn) run() {
	if err := c.welcome(); err != nil {
		c.cancel()
		c.fail(err)
		return
	}
	c.admitted = true
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
		level, reason := c.b.logger.Warn, reasonOf(err, c.draining.Load())
		switch reason {
		case closedByClient:
			if !errors.Is(err, io.ErrUnexpectedEOF) {
				level = c.b.logger.Debug
			}
		case closedIdle, closedShutdown, closedExpired:
			level = c.b.logger.Debug
		}
		if !c.internal {
			c.b.tallies.closed[reason].Add(1)
		}
		level("closed connection", quiet.Kind, reason.String(), "client", c.nc.RemoteAddr().String(), "reason", err)
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
	c.frameBy = time.Now().Add(c.b.frameTime(size))
	c.deadline(c.frameBy)
}

// waitPart sets the read deadline for a part of a large frame: one that stops coming must not hold its bytes for as long
// as the whole may take.
func (c *conn) waitPart(size int) {
	if t := time.Now().Add(c.b.frameTime(size)); t.Before(c.frameBy) {
		c.deadline(t)
	} else {
		c.deadline(c.frameBy)
	}
}

func (c *conn) deadline(t time.Time) {
	if !c.loginBy.IsZero() && t.After(c.loginBy) {
		t = c.loginBy
	}
	_ = c.nc.SetReadDeadline(t)
	if c.draining.Load() {
		_ = c.nc.SetReadDeadline(time.Unix(1, 0))
	}
}

// process is the connection's processor. It handles every frame that was read whole, also after the
// client hung up: with acks=0 a producer may well be gone before its records are appended.
func (c *conn) process() {
	broken := false
	for f := range c.frames {
		if broken {
			f.held.Release()
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
		defer f.held.Release()
		return c.write(f.header, c.b.apiVersionsFallback())
	}
	c.work.start(time.Now())
	req, clientID, err := decode(f.header, f.body)
	if err != nil {
		f.held.Release()
		return err
	}
	r := &request{
		req: req, key: f.header.key, version: f.header.version, corr: f.header.corr,
		clientID: clientID, host: c.host, internal: c.internal, shares: &c.shares,
		principal: c.session.principal, session: &c.session, held: f.held,
	}
	if err := c.expired(r); err != nil {
		f.held.Release()
		return err
	}
	if f.api.stage != nil {
		return c.stage(f, r)
	}
	defer f.held.Release()
	resume := c.work.pause()
	c.behind.Wait() // answers keep the order of requests
	resume()
	defer func() {
		r.endTurn()
		if r.release != nil {
			r.release()
		}
	}()
	if !c.internal && countNamed(req, len(f.body)) > maxNamed {
		resp, err := refuseNamed(req)
		if err != nil {
			return err
		}
		c.chargeWork(r)
		r.tell(resp)
		return c.answerOnce(f.header, r, resp)
	}
	if err := c.respond(f, r); err != nil {
		return err
	}
	return r.hangUp
}

// expired ends a session that was not renewed in time (KIP-368).
func (c *conn) expired(r *request) error {
	if c.session.expires.IsZero() || r.key == keySASLHandshake || r.key == keySASLAuthenticate || time.Now().Before(c.session.expires) {
		return nil
	}
	return errExpired
}

// handle calls a handler. A panic ends this connection and no other.
func (c *conn) handle(a *api, r *request) (resp kmsg.Response, err error) {
	defer c.recoverTo(r, &err)
	return a.handle(c.b, c.ctx, r)
}

func (c *conn) recoverTo(r *request, err *error) {
	if p := recover(); p != nil {
		c.b.logger.Error("request handler failed", quiet.Kind, kmsg.NameForKey(r.key), "api", kmsg.NameForKey(r.key), "version", r.version,
			"panic", fmt.Sprint(p), "stack", string(debug.Stack()))
		*err = fmt.Errorf("handle %s: internal error", kmsg.NameForKey(r.key))
	}
}
