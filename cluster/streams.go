package cluster

import (
	"context"
	"fmt"
	"net"

	"github.com/rowtrail/rowtrail/cluster/peer"
)

// ServeKafka has connections of the Kafka protocol that other nodes open served, as those of an internal principal.
func (n *Node) ServeKafka(serve func(net.Conn)) { n.serveKind(peer.Kafka, serve) }

// DialKafka opens a connection of the Kafka protocol to another node's broker, as an internal principal.
func (n *Node) DialKafka(ctx context.Context, node int32) (net.Conn, error) {
	return n.dialKind(ctx, node, peer.Kafka)
}

// ServeHTTP has connections of HTTP that other nodes open served, as those of an internal principal. serve returns when it has done with the
// connection.
func (n *Node) ServeHTTP(serve func(net.Conn)) { n.serveKind(peer.HTTP, serve) }

// DialHTTP opens a connection of HTTP to another node, as an internal principal.
func (n *Node) DialHTTP(ctx context.Context, node int32) (net.Conn, error) {
	return n.dialKind(ctx, node, peer.HTTP)
}

func (n *Node) serveKind(kind peer.Kind, serve func(net.Conn)) {
	if n.net != nil {
		n.net.mu.Lock()
		n.net.streams[kind] = serve
		n.net.mu.Unlock()
	}
}

func (n *Node) dialKind(ctx context.Context, node int32, kind peer.Kind) (net.Conn, error) {
	if n.net == nil {
		return nil, fmt.Errorf("connect to node %d: %w", node, ErrUnknownNode)
	}
	return n.net.net.Open(ctx, node, kind)
}

// serve hands an accepted connection of a kind to whoever serves it here; without one it is closed.
func (x *network) serve(kind peer.Kind) func(net.Conn, peer.Identity) {
	return func(c net.Conn, _ peer.Identity) {
		x.mu.Lock()
		serve := x.streams[kind]
		x.mu.Unlock()
		if serve == nil {
			_ = c.Close()
			return
		}
		serve(c)
	}
}
