package broker

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/rowtrail/rowtrail/log/sleep"
)

const (
	// The in-process clients have bounds of their own, so that no network client can starve connectors
	// and sinks: connections, bytes of requests being handled, bytes of fetched records on their way.
	maxInternalConnections = 4096
	internalInFlightBytes  = 128 << 20
	internalFetchBytes     = 128 << 20

	acceptBackoff = 50 * time.Millisecond // after a failed accept (out of file descriptors)
)

// keepAlive finds out that a client's machine is gone within about a minute.
//
//nolint:gochecknoglobals // immutable
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: 30 * time.Second, Interval: 10 * time.Second, Count: 3}

// Serve accepts connections until the listener fails or Shutdown; then it returns ErrClosed.
func (b *Broker) Serve(l net.Listener) error {
	b.mu.Lock()
	if b.closed {
		b.mu.Unlock()
		_ = l.Close()
		return ErrClosed
	}
	b.listeners[l] = struct{}{}
	b.mu.Unlock()
	defer func() {
		b.mu.Lock()
		delete(b.listeners, l)
		b.mu.Unlock()
		_ = l.Close()
	}()
	for {
		nc, err := l.Accept()
		if err != nil {
			if b.ctx.Err() != nil || b.isClosed() {
				return ErrClosed
			}
			if errors.Is(err, net.ErrClosed) {
				return fmt.Errorf("accept connection: %w", err)
			}
			b.logger.Warn("cannot accept a connection; raise the open file limit if this persists", "error", err)
			if !sleep.For(b.ctx, acceptBackoff) {
				return ErrClosed
			}
			continue
		}
		if tcp, ok := nc.(interface {
			SetKeepAliveConfig(net.KeepAliveConfig) error
		}); ok {
			if err := tcp.SetKeepAliveConfig(keepAlive); err != nil {
				b.logger.Debug("connection without keep-alive", "error", err)
			}
		}
		if err := b.start(nc, b.external, false); err != nil {
			_ = nc.Close()
			if r := (*refusedError)(nil); errors.As(err, &r) {
				b.tallies.refused[r.reason].Add(1)
			}
			if errors.Is(err, ErrClosed) {
				return ErrClosed
			}
			b.logger.Warn(refusedLine, "client", nc.RemoteAddr().String(), "error", err)
		}
	}
}

// Dialer returns a dial function for clients in this process. Its connections carry the internal principal. Where another node has said that
// clients reach it, that node is reached, over a connection between nodes; every other address is this node's, in memory.
func (b *Broker) Dialer() func(ctx context.Context, network, addr string) (net.Conn, error) {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if node := b.nodeAt(addr); node >= 0 {
			return b.node.DialKafka(ctx, node)
		}
		client, server := newPipe()
		if err := b.start(server, b.internal, true); err != nil {
			_ = client.Close()
			_ = server.Close()
			return nil, fmt.Errorf("dial in-process broker: %w", err)
		}
		return client, nil
	}
}

// nodeAt is the other node that clients reach at an address; -1: there is none.
func (b *Broker) nodeAt(addr string) int32 {
	self, _ := b.endpoint(b.node.ID())
	if addr == self.address() {
		return -1
	}
	for _, n := range b.node.Catalog().Nodes {
		if e, ok := b.endpoint(n.ID); ok && n.ID != b.node.ID() && e.address() == addr {
			return n.ID
		}
	}
	return -1
}

// servePeer serves a connection of the protocol that another node opened, as of the internal principal, until it ends.
func (b *Broker) servePeer(nc net.Conn) {
	done, err := b.startConn(nc, b.internal, true)
	if err != nil {
		b.logger.Debug("a node's connection was refused", "remote", nc.RemoteAddr().String(), "error", err)
		_ = nc.Close()
		return
	}
	<-done
}

func (b *Broker) isClosed() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.closed
}

// start registers a connection and runs it in its own goroutines.
func (b *Broker) start(nc net.Conn, limits *listenerLimits, internal bool) error {
	_, err := b.startConn(nc, limits, internal)
	return err
}

// startConn is start; done is closed when the connection has ended.
func (b *Broker) startConn(nc net.Conn, limits *listenerLimits, internal bool) (done <-chan struct{}, err error) {
	h, err := limits.enter(nc.RemoteAddr())
	if err != nil {
		return nil, err
	}
	c := newConn(b, nc, limits, h, internal)
	b.mu.Lock()
	if b.closed {
		b.mu.Unlock()
		limits.leave(h)
		c.cancel()
		return nil, ErrClosed
	}
	b.conns[c] = struct{}{}
	b.wg.Add(1)
	b.mu.Unlock()
	ended := make(chan struct{})
	go func() {
		defer b.wg.Done()
		defer close(ended)
		c.run()
		limits.leave(h)
		b.mu.Lock()
		delete(b.conns, c)
		b.mu.Unlock()
	}()
	return ended, nil
}
