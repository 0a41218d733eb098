package spread

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"
)

const (
	// pingEvery is how often a node that works on an answer says so.
	pingEvery = time.Second
	// stallTimeout is for how long a node that owes an answer may say nothing.
	stallTimeout = 10 * time.Second

	idleTimeout       = stallTimeout / 2 // of connections that are kept for the next question
	idlePerNode       = 16
	readHeaderTimeout = 10 * time.Second
	maxHeaderBytes    = 16 << 10
)

// NewClient asks nodes over connections that dial opens: host N is node N.
func NewClient(dial func(ctx context.Context, node int32) (net.Conn, error)) *http.Client {
	return &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, address string) (net.Conn, error) {
			host, _, err := net.SplitHostPort(address)
			if err != nil {
				return nil, err
			}
			node, err := strconv.ParseInt(host, 10, 32)
			if err != nil {
				return nil, fmt.Errorf("%s is no node: %w", host, err)
			}
			c, err := dial(ctx, int32(node))
			if err != nil {
				return nil, err
			}
			return &watched{Conn: c}, nil
		},
		DisableCompression: true, MaxIdleConnsPerHost: idlePerNode, IdleConnTimeout: idleTimeout,
	}}
}

// url is where a node answers.
func url(node int32, path string) string { return "http://" + strconv.Itoa(int(node)) + path }

// Get asks a node for a path.
func Get(ctx context.Context, c *http.Client, node int32, path string) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url(node, path), http.NoBody)
	if err != nil {
		return nil, fmt.Errorf("ask node %d: %w", node, err)
	}
	answer, err := c.Do(r)
	if err != nil {
		return nil, &unreachableError{node, err}
	}
	return answer, nil
}

// watched is a connection that ends when its other end says nothing for too long.
type watched struct{ net.Conn }

func (c *watched) Read(b []byte) (int, error) {
	if err := c.SetReadDeadline(time.Now().Add(stallTimeout)); err != nil {
		return 0, err
	}
	return c.Conn.Read(b)
}

// Write begins a question: the read that already waits is for its answer.
func (c *watched) Write(b []byte) (int, error) {
	if err := c.SetDeadline(time.Now().Add(stallTimeout)); err != nil {
		return 0, err
	}
	return c.Conn.Write(b)
}

// Server answers on connections that other nodes open.
type Server struct {
	http  *http.Server
	conns chan net.Conn

	done chan struct{} // closed by Close
	once sync.Once
	wg   sync.WaitGroup
}

// NewServer serves a handler.
func NewServer(h http.Handler, logger *slog.Logger) *Server {
	s := &Server{conns: make(chan net.Conn), done: make(chan struct{})}
	s.http = &http.Server{
		Handler: h, ReadHeaderTimeout: readHeaderTimeout, IdleTimeout: 2 * stallTimeout, MaxHeaderBytes: maxHeaderBytes,
		ErrorLog: slog.NewLogLogger(logger.Handler(), slog.LevelDebug),
	}
	s.wg.Go(func() {
		if err := s.http.Serve(s); !errors.Is(err, http.ErrServerClosed) && !errors.Is(err, net.ErrClosed) {
			logger.Error("other nodes are not answered any more", "error", err)
		}
	})
	return s
}

// ServeConn serves a connection until it ends.
func (s *Server) ServeConn(c net.Conn) {
	t := &tracked{Conn: c, closed: make(chan struct{})}
	select {
	case s.conns <- t:
	case <-s.done:
		_ = c.Close()
		return
	}
	<-t.closed
}

// Accept implements net.Listener.
func (s *Server) Accept() (net.Conn, error) {
	select {
	case c := <-s.conns:
		return c, nil
	case <-s.done:
		return nil, net.ErrClosed
	}
}

// Addr implements net.Listener.
func (s *Server) Addr() net.Addr { return &net.UnixAddr{Name: "peers"} }

// Close ends every connection and what runs for it.
func (s *Server) Close() error {
	s.once.Do(func() { close(s.done) })
	return nil
}

// Shutdown lets running requests end until ctx does, then cuts them.
func (s *Server) Shutdown(ctx context.Context) error {
	err := s.http.Shutdown(ctx)
	if err != nil {
		err = errors.Join(err, s.http.Close())
	}
	_ = s.Close()
	s.wg.Wait()
	return err
}

// tracked says when it was closed.
type tracked struct {
	net.Conn
	once   sync.Once
	closed chan struct{}
}

func (t *tracked) Close() error {
	err := t.Conn.Close()
	t.once.Do(func() { close(t.closed) })
	return err
}
