package postgres

import (
	"context"
	"net"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// stallable makes the connector's connections to the log such that their answers can be held back; reads of the test
// itself are made by clients with the plain options.
func (l *testLog) stallable() *stall {
	s := &stall{}
	l.connector = append(append([]kgo.Opt{}, l.opts...), kgo.Dialer(func(ctx context.Context, network, addr string) (net.Conn, error) {
		var d net.Dialer
		c, err := d.DialContext(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return &stalledConn{Conn: c, stall: s}, nil
	}))
	return s
}

type stalledConn struct {
	net.Conn
	stall *stall
}

func (c *stalledConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	for c.stall.on.Load() {
		time.Sleep(5 * time.Millisecond)
	}
	return n, err
}
