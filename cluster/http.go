package cluster

import (
	"context"
	"fmt"
	"net"

	"github.com/rowtrail/rowtrail/cluster/peer"
)

// ServeHTTP has connections of HTTP that other nodes open served, as those of an internal principal. serve returns when it has done with the
// connection.
func (n *Node) ServeHTTP(serve func(net.Conn)) {
	if n.net != nil {
		n.net.mu.Lock()
		n.net.http = serve
		n.net.mu.Unlock()
	}
}

func (x *network) serveHTTP(c net.Conn, _ peer.Identity) {
	x.mu.Lock()
	serve := x.http
	x.mu.Unlock()
	if serve == nil {
		_ = c.Close()
		return
	}
	serve(c)
}

// DialHTTP opens a connection of HTTP to another node, as an internal principal.
func (n *Node) DialHTTP(ctx context.Context, node int32) (net.Conn, error) {
	if n.net == nil {
		return nil, fmt.Errorf("connect to node %d: %w", node, ErrUnknownNode)
	}
	return n.net.net.Open(ctx, node, peer.HTTP)
}
