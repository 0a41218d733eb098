package broker

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	// maxPeerRequests is how many requests to one other node are under way at a time, for each kind; what comes meanwhile shares the next
	// ones.
	maxPeerRequests = 4
	// maxPeerQueue bounds what waits for them (invariant 9). Above it callers are told to come again.
	maxPeerQueue = 64 << 10
	// maxPeerBatch is how many things one request asks for.
	maxPeerBatch = 1000
	// peerTimeout bounds a request. It is longer than any election, so that one is given up only when it cannot be answered any more.
	peerTimeout = 30 * time.Second
	// maxPeerAnswer bounds an answer in bytes.
	maxPeerAnswer = 16 << 20
)

// peers are the other nodes' brokers, asked over connections of the internal principal.
type peers struct {
	dial func(ctx context.Context, node int32) (net.Conn, error)

	mu   sync.Mutex
	idle map[int32][]net.Conn // Invariant: at most maxPeerRequests of each node
	shut bool
}

func newPeers(dial func(context.Context, int32) (net.Conn, error)) *peers {
	return &peers{dial: dial, idle: map[int32][]net.Conn{}}
}

func (p *peers) take(ctx context.Context, node int32) (net.Conn, bool, error) {
	p.mu.Lock()
	if list := p.idle[node]; len(list) > 0 {
		c := list[len(list)-1]
		p.idle[node] = list[:len(list)-1]
		p.mu.Unlock()
		return c, true, nil
	}
	p.mu.Unlock()
	c, err := p.dial(ctx, node)
	return c, false, err
}

func (p *peers) give(node int32, c net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.shut || len(p.idle[node]) >= maxPeerRequests {
		_ = c.Close()
		return
	}
	p.idle[node] = append(p.idle[node], c)
}

func (p *peers) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.shut = true
	for _, list := range p.idle {
		for _, c := range list {
			_ = c.Close()
		}
	}
	p.idle = map[int32][]net.Conn{}
}

// ask sends a request to a node and returns its answer. A connection that was idle may have died since: what it takes no byte of an answer for
// is asked again on a new one, where again is allowed.
func (p *peers) ask(ctx context.Context, node int32, req kmsg.Request, again bool) (kmsg.Response, error) {
	ctx, cancel := context.WithTimeout(ctx, peerTimeout)
	defer cancel()
	for {
		c, used, err := p.take(ctx, node)
		if err != nil {
			return nil, err
		}
		resp, err := askOn(ctx, c, req)
		if err == nil {
			p.give(node, c)
			return resp, nil
		}
		_ = c.Close()
		if !used || !again || ctx.Err() != nil {
			return nil, fmt.Errorf("%s to node %d: %w", kmsg.NameForKey(req.Key()), node, err)
		}
	}
}

// peerClient is the client id of nodes among themselves.
const peerClient = "rowtrail"

func askOn(ctx context.Context, c net.Conn, req kmsg.Request) (kmsg.Response, error) {
	if deadline, ok := ctx.Deadline(); ok {
		if err := c.SetDeadline(deadline); err != nil {
			return nil, err
		}
	}
	stop := context.AfterFunc(ctx, func() { _ = c.Close() })
	defer stop()
	if _, err := c.Write(kmsg.NewRequestFormatter(kmsg.FormatterClientID(peerClient)).AppendRequest(nil, req, 0)); err != nil {
		return nil, err
	}
	var head [4]byte
	if _, err := io.ReadFull(c, head[:]); err != nil {
		return nil, err
	}
	size := binary.BigEndian.Uint32(head[:])
	if size < 4 || size > maxPeerAnswer {
		return nil, fmt.Errorf("an answer of %d bytes", size)
	}
	body := make([]byte, size)
	if _, err := io.ReadFull(c, body); err != nil {
		return nil, err
	}
	body = body[4:] // the correlation id: there is one request at a time
	resp := req.ResponseKind()
	if resp.IsFlexible() {
		if len(body) == 0 || body[0] != 0 {
			return nil, fmt.Errorf("an answer with header tags")
		}
		body = body[1:]
	}
	if err := resp.ReadFrom(body); err != nil {
		return nil, fmt.Errorf("decode answer: %w", err)
	}
	return resp, nil
}

// gather puts what is asked of one node into few requests.
type gather[T any] struct {
	send func(node int32, list []T)
	run  func(func()) // starts a goroutine

	mu    sync.Mutex
	nodes map[int32]*gathered[T]
}

type gathered[T any] struct {
	waiting []T
	flights int
}

func newGather[T any](run func(func()), send func(int32, []T)) *gather[T] {
	return &gather[T]{send: send, run: run, nodes: map[int32]*gathered[T]{}}
}

// add queues one thing for a node; false: too much waits for it.
func (g *gather[T]) add(node int32, x T) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	n := g.nodes[node]
	if n == nil {
		n = &gathered[T]{}
		g.nodes[node] = n
	}
	if len(n.waiting) >= maxPeerQueue {
		return false
	}
	n.waiting = append(n.waiting, x)
	if n.flights < maxPeerRequests {
		n.flights++
		g.run(func() { g.fly(node, n) })
	}
	return true
}

// fly sends until nothing waits.
func (g *gather[T]) fly(node int32, n *gathered[T]) {
	for {
		g.mu.Lock()
		k := min(len(n.waiting), maxPeerBatch)
		if k == 0 {
			n.flights--
			n.waiting = nil
			g.mu.Unlock()
			return
		}
		list := n.waiting[:k:k]
		n.waiting = n.waiting[k:]
		g.mu.Unlock()
		g.send(node, list)
	}
}
