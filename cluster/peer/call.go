package peer

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"time"
)

// maxCallBytes bounds a request and an answer.
const maxCallBytes = 16 << 20

// callTimeout bounds a call whose context has no deadline.
const callTimeout = 30 * time.Second

// Call sends a request to a node and returns its answer.
func (n *Network) Call(ctx context.Context, node int32, request []byte) ([]byte, error) {
	c, err := n.Open(ctx, node, Call)
	if err != nil {
		return nil, err
	}
	return exchange(ctx, c, request)
}

// CallAddress is Call for whoever listens at an address.
func (n *Network) CallAddress(ctx context.Context, address string, request []byte) ([]byte, Identity, error) {
	c, id, err := n.OpenAddress(ctx, address, Call)
	if err != nil {
		return nil, id, err
	}
	b, err := exchange(ctx, c, request)
	return b, id, err
}

// Ask is CallAddress for a process that is no node of the network and serves nothing.
func Ask(ctx context.Context, self Identity, address string, secure func() *tls.Config, request []byte) ([]byte, Identity, error) {
	c, id, stop, err := open(ctx, ctx, address, secure, Hello{Version: Version, Kind: Call, Identity: self}, minVersion)
	if err != nil {
		return nil, id, err
	}
	defer stop()
	b, err := exchange(ctx, c, request)
	return b, id, err
}

func exchange(ctx context.Context, c net.Conn, request []byte) ([]byte, error) {
	defer func() { _ = c.Close() }()
	deadline, ok := ctx.Deadline()
	if !ok {
		deadline = time.Now().Add(callTimeout)
	}
	if err := c.SetDeadline(deadline); err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = c.Close() })
	defer stop()
	if err := WriteFrame(c, request); err != nil {
		return nil, err
	}
	b, err := ReadFrame(c, maxCallBytes)
	if err != nil && ctx.Err() != nil {
		err = fmt.Errorf("no answer: %w", ctx.Err())
	}
	return b, err
}

// Answer serves one accepted connection of calls, one after the other, until it ends.
func Answer(ctx context.Context, c net.Conn, from Identity, answer func(context.Context, Identity, []byte) []byte) error {
	defer func() { _ = c.Close() }()
	stop := context.AfterFunc(ctx, func() { _ = c.Close() })
	defer stop()
	for {
		if err := c.SetReadDeadline(time.Now().Add(callTimeout)); err != nil {
			return err
		}
		b, err := ReadFrame(c, maxCallBytes)
		if errors.Is(err, net.ErrClosed) || ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		if err := c.SetWriteDeadline(time.Now().Add(callTimeout)); err != nil {
			return err
		}
		if err := WriteFrame(c, answer(ctx, from, b)); err != nil {
			return err
		}
	}
}
