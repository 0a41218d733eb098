// Package proxy stands between Kafka clients and a node, and treats requests badly: it delays them, sends them twice, sends
// copies of them later over connections of their own, lets later requests overtake them, and cuts connections before a request
// arrives or when its answer is lost. To the client every connection still answers in order, so what it sees is a slow and
// unreliable network, and not a broken protocol.
package proxy

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rowtrail/rowtrail/log/sleep"
)

// Request is what a policy sees of a request.
type Request struct {
	Key, Version int16
	ClientID     string
	Bytes        int
}

// Cut says when a connection is cut.
type Cut uint8

// The moments of a cut.
const (
	NoCut Cut = iota
	CutBefore
	CutAnswer
)

// Plan is what happens to a request. The zero plan passes it on.
type Plan struct {
	Delay time.Duration // before it is passed on; what follows on the connection waits too
	Twice bool          // passed on twice in a row; the second answer is dropped
	Later time.Duration // not 0: a copy follows after this time over another connection
	Aside time.Duration // not 0: it goes over another connection after this time, and what follows overtakes it
	Cut   Cut
	// Fragile: the connection is not cut while this request is unanswered.
	Fragile bool
}

// Policy plans the fate of requests. It is called by many goroutines.
type Policy func(Request) Plan

// Counts are the requests that were treated badly.
type Counts struct{ Delayed, Doubled, Copied, Overtaken, Cut, Passed int64 }

const (
	maxFrame      = 128 << 20
	maxPipelined  = 1024 // unanswered requests of a connection
	maxCopies     = 512  // copies under way
	answerTimeout = 30 * time.Second
	minHeader     = 10
)

// Proxy is a listener in front of a node.
type Proxy struct {
	target   string
	policy   Policy
	listener net.Listener
	ctx      context.Context
	stop     context.CancelFunc
	work     sync.WaitGroup
	copies   chan struct{}

	delayed, doubled, copied, overtaken, cut, passed atomic.Int64
}

// Start listens on a free loopback port.
func Start(target string, policy Policy) (*Proxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen for clients: %w", err)
	}
	p := &Proxy{target: target, policy: policy, listener: l, copies: make(chan struct{}, maxCopies)}
	p.ctx, p.stop = context.WithCancel(context.Background())
	p.work.Go(p.accept)
	return p, nil
}

// Addr is where clients connect to.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Counts are the totals so far.
func (p *Proxy) Counts() Counts {
	return Counts{p.delayed.Load(), p.doubled.Load(), p.copied.Load(), p.overtaken.Load(), p.cut.Load(), p.passed.Load()}
}

// Close cuts all connections and drops the copies that are still to come.
func (p *Proxy) Close() {
	p.stop()
	p.listener.Close()
	p.work.Wait()
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.work.Go(func() { p.serve(client) })
	}
}

// slot is the place of an answer in a connection's order.
type slot struct {
	answer  chan []byte
	drop    bool // the answer is for nobody
	cut     bool // the connection ends instead of the answer
	fragile bool
}

// conn is a client's connection and the node's half of it.
type conn struct {
	*Proxy
	client, node net.Conn
	ctx          context.Context
	end          context.CancelFunc
	asked        chan *slot // in the client's order
	sent         chan *slot // in the order of the node's connection
	fragile      atomic.Int64
}

func (p *Proxy) serve(client net.Conn) {
	defer client.Close()
	node, err := p.dial()
	if err != nil {
		return
	}
	c := &conn{Proxy: p, client: client, node: node, asked: make(chan *slot, maxPipelined), sent: make(chan *slot, maxPipelined)}
	c.ctx, c.end = context.WithCancel(p.ctx)
	var work sync.WaitGroup
	for _, f := range []func() error{c.requests, c.answers, c.write} {
		work.Go(func() { defer c.end(); f() })
	}
	<-c.ctx.Done()
	client.Close()
	node.Close()
	work.Wait()
}

func (p *Proxy) dial() (net.Conn, error) {
	d := net.Dialer{Timeout: answerTimeout}
	return d.DialContext(p.ctx, "tcp", p.target)
}

var errEnded = errors.New("the connection has ended")

// requests reads the client's requests and treats each as planned.
func (c *conn) requests() error {
	for {
		frame, err := readFrame(c.client)
		if err != nil {
			return err
		}
		r, err := parse(frame)
		if err != nil {
			return err
		}
		plan := c.policy(r)
		if plan.Later > 0 {
			c.later(frame, plan.Later)
		}
		if plan.Delay > 0 {
			c.delayed.Add(1)
			if !sleep.For(c.ctx, plan.Delay) {
				return errEnded
			}
		}
		if plan.Cut == CutBefore && c.fragile.Load() == 0 {
			c.cut.Add(1)
			return errEnded
		}
		s := &slot{answer: make(chan []byte, 1), cut: plan.Cut == CutAnswer, fragile: plan.Fragile}
		if plan.Fragile {
			c.fragile.Add(1)
		}
		if !put(c.ctx, c.asked, s) {
			return errEnded
		}
		if plan.Aside > 0 {
			c.overtaken.Add(1)
			c.work.Go(func() { c.aside(frame, plan.Aside, s) })
			continue
		}
		c.passed.Add(1)
		if err := c.forward(frame, s); err != nil {
			return err
		}
		if plan.Twice {
			c.doubled.Add(1)
			if err := c.forward(frame, &slot{drop: true}); err != nil {
				return err
			}
		}
	}
}

func (c *conn) forward(frame []byte, s *slot) error {
	if !put(c.ctx, c.sent, s) {
		return errEnded
	}
	_, err := c.node.Write(frame)
	return err
}

// answers hands the node's answers to their slots.
func (c *conn) answers() error {
	for {
		frame, err := readFrame(c.node)
		if err != nil {
			return err
		}
		select {
		case s := <-c.sent:
			if !s.drop {
				s.answer <- frame
			}
		case <-c.ctx.Done():
			return errEnded
		}
	}
}

// write sends the answers in the client's order.
func (c *conn) write() error {
	for {
		var s *slot
		select {
		case s = <-c.asked:
		case <-c.ctx.Done():
			return errEnded
		}
		var frame []byte
		select {
		case frame = <-s.answer:
		case <-c.ctx.Done():
			return errEnded
		}
		if s.fragile {
			c.fragile.Add(-1)
		}
		if s.cut && c.fragile.Load() == 0 {
			c.cut.Add(1)
			return errEnded
		}
		if _, err := c.client.Write(frame); err != nil {
			return err
		}
	}
}

// aside sends a request over a connection of its own. It arrives even when the client has gone meanwhile.
func (c *conn) aside(frame []byte, after time.Duration, s *slot) {
	if !sleep.For(c.Proxy.ctx, after) {
		return
	}
	answer, err := c.exchange(frame)
	if err != nil {
		c.end()
		return
	}
	s.answer <- answer
}

// later sends a copy of a request over a connection of its own.
func (p *Proxy) later(frame []byte, after time.Duration) {
	select {
	case p.copies <- struct{}{}:
	default:
		return
	}
	p.work.Go(func() {
		defer func() { <-p.copies }()
		if sleep.For(p.ctx, after) {
			if _, err := p.exchange(frame); err == nil {
				p.copied.Add(1)
			}
		}
	})
}

// exchange sends a request over a new connection and returns its answer.
func (p *Proxy) exchange(frame []byte) ([]byte, error) {
	node, err := p.dial()
	if err != nil {
		return nil, err
	}
	defer node.Close()
	defer context.AfterFunc(p.ctx, func() { node.Close() })()
	if err := node.SetDeadline(time.Now().Add(answerTimeout)); err != nil {
		return nil, err
	}
	if _, err := node.Write(frame); err != nil {
		return nil, err
	}
	return readFrame(node)
}

// readFrame reads a frame with its length.
func readFrame(r io.Reader) ([]byte, error) {
	var length [4]byte
	if _, err := io.ReadFull(r, length[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(length[:])
	if n > maxFrame {
		return nil, fmt.Errorf("a frame of %d bytes; is this the Kafka protocol?", n)
	}
	frame := make([]byte, 4+n)
	copy(frame, length[:])
	_, err := io.ReadFull(r, frame[4:])
	return frame, err
}

// parse reads a request's header.
func parse(frame []byte) (Request, error) {
	b := frame[4:]
	if len(b) < minHeader {
		return Request{}, fmt.Errorf("a request of %d bytes is shorter than its header", len(b))
	}
	r := Request{Key: int16(binary.BigEndian.Uint16(b)), Version: int16(binary.BigEndian.Uint16(b[2:])), Bytes: len(b)}
	if n := int(int16(binary.BigEndian.Uint16(b[8:]))); n > 0 && len(b) >= minHeader+n {
		r.ClientID = string(b[minHeader : minHeader+n])
	}
	return r, nil
}

func put(ctx context.Context, ch chan *slot, s *slot) bool {
	select {
	case ch <- s:
		return true
	case <-ctx.Done():
		return false
	}
}
