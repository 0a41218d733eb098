package netns

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"time"
)

// The bounds of one direction of a relayed connection.
const (
	relayChunk  = 32 << 10
	relayQueued = 64 // chunks
	relayDial   = 2 * time.Second
)

// relay passes connections on and holds up what they carry.
type relay struct {
	listener  net.Listener
	target    string
	d, jitter time.Duration

	mu     sync.Mutex
	closed bool
	conns  map[net.Conn]bool
	work   sync.WaitGroup
}

// Forward lets hosts reach an address of this machine's loopback under the address that it returns.
func (n *Network) Forward(target string) (address string, stop func(), err error) {
	r, err := startRelay(n.Outer+":0", target, 0, 0)
	if err != nil {
		return "", nil, err
	}
	return r.address(), r.close, nil
}

func startRelay(listen, target string, d, jitter time.Duration) (*relay, error) {
	l, err := net.Listen("tcp", listen)
	if err != nil {
		return nil, fmt.Errorf("listen for a slow line to %s: %w", target, err)
	}
	r := &relay{listener: l, target: target, d: d, jitter: jitter, conns: map[net.Conn]bool{}}
	r.work.Go(r.accept)
	return r, nil
}

func (r *relay) address() string { return r.listener.Addr().String() }

func (r *relay) close() {
	r.mu.Lock()
	r.closed = true
	for c := range r.conns {
		c.Close()
	}
	r.mu.Unlock()
	r.listener.Close()
	r.work.Wait()
}

// hold says whether a connection may go on, and closes it with the relay.
func (r *relay) hold(c net.Conn) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.closed {
		r.conns[c] = true
	}
	return !r.closed
}

func (r *relay) accept() {
	for {
		c, err := r.listener.Accept()
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				return
			}
			continue
		}
		r.work.Go(func() { r.serve(c) })
	}
}

func (r *relay) serve(from net.Conn) {
	defer from.Close()
	to, err := net.DialTimeout("tcp", r.target, relayDial)
	if err != nil {
		return
	}
	defer to.Close()
	if !r.hold(from) || !r.hold(to) {
		return
	}
	var both sync.WaitGroup
	both.Go(func() { r.pass(from, to) })
	both.Go(func() { r.pass(to, from) })
	both.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.conns, from)
	delete(r.conns, to)
}

type chunk struct {
	data []byte
	due  time.Time
}

// pass copies one direction; the end of either ends both.
func (r *relay) pass(from, to net.Conn) {
	queue := make(chan chunk, relayQueued)
	var writing sync.WaitGroup
	writing.Go(func() {
		broken := false
		for c := range queue {
			if broken {
				continue
			}
			time.Sleep(time.Until(c.due))
			_, err := to.Write(c.data)
			if broken = err != nil; broken {
				from.Close()
			}
		}
	})
	for {
		b := make([]byte, relayChunk)
		n, err := from.Read(b)
		if n > 0 {
			d := r.d
			if r.jitter > 0 {
				d += time.Duration(rand.Int64N(int64(r.jitter)))
			}
			queue <- chunk{b[:n], time.Now().Add(d)}
		}
		if err != nil {
			if !errors.Is(err, io.EOF) {
				from.Close()
			}
			break
		}
	}
	close(queue)
	writing.Wait()
	to.Close()
}
