package peer

import (
	"bufio"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/rowtrail/rowtrail/log/sleep"
)

// Options configure a Network. Addresses, Check and Receive are required.
type Options struct {
	// Self is this node, as it says hello.
	Self func() Identity
	// Addresses are where a node may listen for its peers, the likeliest first; empty ones do not count. One that a node itself has said hello
	// with goes before them.
	Addresses func(node int32) []string
	// Check says why a caller is not welcome, in one line with the remedy; nil: it is.
	Check func(Hello) error
	// Receive takes a frame of Raft's messages. The bytes are the receiver's. An error, which says that it is not readable, ends the connection.
	Receive func(from int32, frame []byte) error
	// Serve takes over accepted connections of the other kinds, and closes them.
	Serve map[Kind]func(net.Conn, Identity)
	// Lost is told that messages to a node were dropped, Gone that its process has ended.
	Lost, Gone func(node int32)
	// Removed is told, again and again, that a node says that this one was removed from the cluster. nil: nobody is told.
	Removed func()

	ServerTLS *tls.Config        // nil: in the clear
	ClientTLS func() *tls.Config // asked for every connection, as certificates change; nil: in the clear
	Logger    *slog.Logger
	// Version and MinVersion are what is spoken; 0: this release's.
	Version, MinVersion int
}

// Bounds and times of the connections.
const (
	controlBytes = 4 << 20  // waiting for one peer
	appendBytes  = 64 << 20 // waiting for one peer

	dialTimeout  = 2 * time.Second
	writeTimeout = 5 * time.Second
	minBackoff   = 50 * time.Millisecond
	maxBackoff   = time.Second
	// maxClockSkew is how far wall clocks may be apart without a word.
	maxClockSkew = 2 * helloTimeout
	// maxAccepted bounds the connections that are open at a time, maxStrangers those that have not said hello: the oldest makes room, as nodes
	// say it at once. So connections of others keep no node out.
	maxAccepted  = 4096
	maxStrangers = 256
)

var errClock = errors.New("a peer's wall clock and this node's are apart; keep both in step (NTP): timestamps, retention and queries by time go by them")

// Network is a node's end of all connections to its peers.
type Network struct {
	opts     Options
	listener net.Listener
	ctx      context.Context
	cancel   context.CancelFunc
	wg       sync.WaitGroup
	said     complaints
	heard    heard

	mu      sync.Mutex
	closed  bool
	senders map[senderKey]*sender
	conns   map[net.Conn]Identity // accepted ones; the zero one: it has not said hello yet
	// strangers are those of conns that have not said hello, the oldest first.
	strangers []net.Conn
	warnings  warnings

	sent, received, dropped atomic.Int64
}

type senderKey struct {
	node int32
	kind Kind
}

// New starts a network on a listener, which it closes.
func New(l net.Listener, opts Options) *Network {
	opts.Version, opts.MinVersion = cmp.Or(opts.Version, Version), cmp.Or(opts.MinVersion, minVersion)
	n := &Network{opts: opts, listener: l, senders: map[senderKey]*sender{}, conns: map[net.Conn]Identity{}}
	n.ctx, n.cancel = context.WithCancel(context.Background())
	n.wg.Go(n.accept)
	return n
}

// Send queues a frame of Raft's messages; it takes over the bytes. false: it was dropped.
func (n *Network) Send(node int32, kind Kind, frame Frame) bool {
	s := n.sender(senderKey{node, kind})
	if s == nil || !s.out.put(frame) {
		n.dropped.Add(1)
		return false
	}
	return true
}

func (n *Network) sender(k senderKey) *sender {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return nil
	}
	s := n.senders[k]
	if s == nil {
		limit := appendBytes
		if k.kind == Control {
			limit = controlBytes
		}
		s = &sender{n: n, senderKey: k, out: newOutbox(limit)}
		n.senders[k] = s
		n.wg.Go(s.run)
	}
	return s
}

// Open dials a node for a kind of connection that the caller drives, and closes.
func (n *Network) Open(ctx context.Context, node int32, kind Kind) (net.Conn, error) {
	var failed error
	for _, address := range n.addresses(node) {
		c, id, err := n.OpenAddress(ctx, address, kind)
		if err == nil && id.Node == node {
			return c, nil
		}
		if err == nil {
			_ = c.Close()
			err = fmt.Errorf("node %d answers at %s; correct the address", id.Node, address)
		}
		err = fmt.Errorf("connect to node %d: %w", node, err)
		if errors.Is(err, syscall.ECONNREFUSED) && n.heard.forget(node, address) {
			return nil, err // the process that said hello has ended, which is to be known at once
		}
		if failed != nil {
			err = fmt.Errorf("%w; %w", failed, err)
		}
		failed = err
	}
	if failed == nil {
		failed = fmt.Errorf("connect to node %d: its address is not known", node)
	}
	return nil, failed
}

// OpenAddress is Open for whoever listens at an address.
func (n *Network) OpenAddress(ctx context.Context, address string, kind Kind) (net.Conn, Identity, error) {
	c, id, stop, err := open(ctx, n.ctx, address, n.opts.ClientTLS, n.hello(kind), n.opts.MinVersion)
	if errors.Is(err, ErrRemoved) && n.opts.Removed != nil {
		n.opts.Removed()
	}
	if err != nil {
		return nil, id, err
	}
	return &stoppable{c, stop}, id, nil
}

// open connects and says hello; the connection ends with life.
func open(ctx, life context.Context, address string, secure func() *tls.Config, h Hello, least int) (net.Conn, Identity, func() bool, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	d := &net.Dialer{}
	c, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, Identity{}, nil, err
	}
	if secure != nil {
		t, err := secureClient(ctx, c, secure(), address)
		if err != nil {
			_ = c.Close()
			return nil, Identity{}, nil, fmt.Errorf("TLS with %s: %w", address, err)
		}
		c = t
	}
	stop := context.AfterFunc(life, func() { _ = c.Close() }) // it may run on when stop was called
	id, err := greet(c, h, least)
	if err != nil {
		stop()
		_ = c.Close()
		if secure != nil && isAlert(err) { // since TLS 1.3 it looks at certificates when this side is done
			return nil, id, nil, fmt.Errorf("TLS with %s: %w", address, explainTLS(err))
		}
		return nil, id, nil, fmt.Errorf("%s: %w", address, err)
	}
	return c, id, stop, nil
}

// stoppable is a connection that the network's end closes, too.
type stoppable struct {
	net.Conn
	stop func() bool
}

func (s *stoppable) Close() error {
	s.stop()
	return s.Conn.Close()
}

func (n *Network) hello(kind Kind) Hello {
	return Hello{Version: n.opts.Version, Kind: kind, Identity: n.opts.Self(), Time: time.Now().UnixMilli()}
}

func (n *Network) accept() {
	for {
		c, err := n.listener.Accept()
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil: // out of file descriptors, for one
			n.opts.Logger.Warn("a connection of a peer was not accepted", "error", err)
			if !sleep.For(n.ctx, minBackoff) {
				return
			}
			continue
		}
		if !n.track(c) {
			_ = c.Close()
			continue
		}
		n.wg.Go(func() {
			defer n.forget(c)
			n.serve(c)
		})
	}
}

func (n *Network) track(c net.Conn) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.strangers) >= maxStrangers {
		_ = n.strangers[0].Close()
		delete(n.conns, n.strangers[0])
		n.strangers = n.strangers[1:]
	}
	if n.closed || len(n.conns) >= maxAccepted {
		return false
	}
	n.conns[c] = Identity{}
	n.strangers = append(n.strangers, c)
	return true
}

// belongs notes whose an accepted connection is.
func (n *Network) belongs(c net.Conn, i Identity) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.meet(c)
	if _, ok := n.conns[c]; ok {
		n.conns[c] = i
	}
}

// meet has a connection be no stranger any more.
func (n *Network) meet(c net.Conn) {
	n.strangers = slices.DeleteFunc(n.strangers, func(o net.Conn) bool { return o == c })
}

// Disconnect closes accepted connections, so that who is at their other end says hello again.
func (n *Network) Disconnect(whose func(Identity) bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for c, i := range n.conns {
		if whose(i) {
			_ = c.Close()
		}
	}
}

func (n *Network) forget(c net.Conn) {
	_ = c.Close()
	n.mu.Lock()
	n.meet(c)
	delete(n.conns, c)
	n.mu.Unlock()
}

func (n *Network) serve(accepted net.Conn) {
	c := accepted
	if n.opts.ServerTLS != nil {
		t, err := n.secureServer(c)
		if err != nil {
			n.turnedAway(c, Hello{}, err)
			return
		}
		c = t
	}
	h, err := welcome(c, n.hello(""), n.check)
	if err != nil {
		n.turnedAway(c, h, err)
		return
	}
	n.belongs(accepted, h.Identity)
	n.compareClocks(h)
	if h.Kind == Control || h.Kind == Append {
		n.heard.set(h.Node, h.Address)
		n.receive(c, h.Node)
		return
	}
	n.opts.Serve[h.Kind](c, h.Identity)
}

// compareClocks says which peer's wall clock is off, or this node's. A hello may take helloTimeout to be read.
func (n *Network) compareClocks(h Hello) {
	if h.Time == 0 {
		return
	}
	whose, ahead := fmt.Sprintf("clock of node %d", h.Node), time.Until(time.UnixMilli(h.Time))
	if ahead.Abs() < maxClockSkew {
		n.said.over(whose)
		return
	}
	if n.said.worth(whose, errClock) {
		n.opts.Logger.Warn(errClock.Error(), "node", h.Node, "ahead", ahead.Round(time.Second).String())
	}
}

// turnedAway says why a caller was, once in a while.
func (n *Network) turnedAway(c net.Conn, h Hello, err error) {
	write := n.warn
	switch {
	case errors.Is(err, ErrLater), errors.Is(err, io.EOF), errors.Is(err, net.ErrClosed): // a look whether this process is there says nothing, too
		write = n.opts.Logger.Debug
	case !n.said.worth(fmt.Sprintf("node %d at %s", h.Node, hostOf(c.RemoteAddr())), err):
		return
	}
	what := "a peer was turned away"
	if errors.Is(err, errTLS) {
		what = "a caller has no TLS with this node"
	}
	write(what, "remote", c.RemoteAddr().String(), "node", h.Node, "error", err)
}

func (n *Network) check(h Hello) error {
	if h.Node < 0 {
		return fmt.Errorf("node %d: ids are not negative; what calls is no rowtrail node", h.Node)
	}
	if h.Version < n.opts.MinVersion {
		return tooOld(h, n.opts.MinVersion)
	}
	if h.Kind != Control && h.Kind != Append && n.opts.Serve[h.Kind] == nil {
		return fmt.Errorf("connections of kind %q are not known here; upgrade this node", h.Kind)
	}
	return n.opts.Check(h)
}

// readBuffer gathers small frames; large ones go around it.
const readBuffer = 16 << 10

func (n *Network) receive(c net.Conn, from int32) {
	r := bufio.NewReaderSize(c, readBuffer) // a small frame and its length are one read
	for {
		b, err := ReadFrame(r, maxFrameBytes)
		if err != nil {
			if errors.Is(err, errFrame) {
				n.warn("a peer's connection was closed", "node", from, "error", err)
			}
			return
		}
		n.received.Add(int64(len(b)))
		if err := n.opts.Receive(from, b); err != nil {
			n.warn("a peer's connection was closed", "node", from, "error", err)
			return // what it says next means nothing, either
		}
	}
}

// Close ends every connection and goroutine.
func (n *Network) Close() error {
	n.mu.Lock()
	n.closed = true
	for c := range n.conns {
		_ = c.Close()
	}
	n.mu.Unlock()
	n.cancel()
	err := n.listener.Close()
	n.wg.Wait()
	return err
}

// Stats are the network's figures.
type Stats struct {
	SentBytes, ReceivedBytes int64
	DroppedFrames            int64
	QueueBytes               int64
	Accepted, Dialed         int // connections that are open
}

// Stats returns the figures of this moment.
func (n *Network) Stats() Stats {
	s := Stats{SentBytes: n.sent.Load(), ReceivedBytes: n.received.Load(), DroppedFrames: n.dropped.Load()}
	n.mu.Lock()
	defer n.mu.Unlock()
	s.Accepted = len(n.conns)
	for _, x := range n.senders {
		s.QueueBytes += int64(x.out.size())
		if x.connected.Load() {
			s.Dialed++
		}
	}
	return s
}

// Connected are the nodes that messages were sent to, and whether heartbeats can be sent now.
func (n *Network) Connected() map[int32]bool {
	out := map[int32]bool{}
	n.mu.Lock()
	defer n.mu.Unlock()
	for k, x := range n.senders {
		if k.kind == Control {
			out[k.node] = x.connected.Load()
		}
	}
	return out
}
