package peer

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
)

// errTLS: there is no TLS with the other side. The text says what to change, and where.
var errTLS = errors.New("TLS")

// errSpeaksTLS: a caller begins TLS, which this node does not speak.
var errSpeaksTLS = fmt.Errorf("%w: what calls speaks TLS and this node does not; set cluster.tls on all nodes, or on none", errFrame)

const speaksNone = "what calls does not speak TLS and this node does; set cluster.tls on all nodes, or on none"

// tlsHandshake is how a TLS connection begins, where a frame has the upper half of its length.
const tlsHandshake = 0x1603

// tlsError is a handshake that failed.
type tlsError struct {
	kind string // of the failure, the same at every attempt
	err  error
}

func (e *tlsError) Error() string { return e.err.Error() }

func (e *tlsError) Unwrap() []error { return []error{errTLS, e.err} }

// secureClient is the calling side's handshake.
func secureClient(ctx context.Context, c net.Conn, cfg *tls.Config, address string) (net.Conn, error) {
	cfg = cfg.Clone()
	if cfg.ServerName == "" {
		cfg.ServerName, _, _ = net.SplitHostPort(address)
	}
	t := tls.Client(c, cfg)
	if err := t.HandshakeContext(ctx); err != nil {
		return nil, explainTLS(err)
	}
	return t, nil
}

// explainTLS tells what is behind the failure of a handshake; other errors are left as they are.
func explainTLS(err error) error {
	var (
		header  tls.RecordHeaderError
		alert   *net.OpError
		cert    *tls.CertificateVerificationError
		unknown x509.UnknownAuthorityError
		invalid x509.CertificateInvalidError
		host    x509.HostnameError
	)
	explain := func(kind, format string, args ...any) error { return &tlsError{kind, fmt.Errorf(format, args...)} }
	switch {
	case errors.As(err, &header):
		return explain("no TLS", "the other side does not speak TLS and this node does; set cluster.tls on all nodes, or on none")
	case isAlert(err) && errors.As(err, &alert):
		return explain("refused: "+alert.Err.Error(),
			"the other side does not accept this node's certificate (%w) and says why in its log; correct cluster.tls.cert here or cluster.tls.ca there", alert.Err)
	case errors.As(err, &cert):
		shown := "its certificate"
		if len(cert.UnverifiedCertificates) > 0 {
			shown = "its certificate " + cert.UnverifiedCertificates[0].Subject.String()
		}
		switch {
		case errors.As(err, &unknown):
			return explain("authority of "+shown, "%s: %w; compare cluster.tls.cert there with cluster.tls.ca here", shown, cert.Err)
		case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
			return explain("time of "+shown, "%s: %w; renew cluster.tls.cert there, or correct this machine's clock", shown, cert.Err)
		case errors.As(err, &host):
			return explain("name of "+shown, "%s: %w; it must name the host of its node's cluster.advertised", shown, cert.Err)
		}
		return explain(cert.Err.Error(), "%s: %w; correct cluster.tls.cert there", shown, cert.Err)
	case errors.Is(err, io.EOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, net.ErrClosed), errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return err
	}
	return explain(err.Error(), "%w; correct cluster.tls", err)
}

// secureServer is the accepting side's handshake. Who does not speak TLS is told so, in words that it understands.
func (n *Network) secureServer(c net.Conn) (net.Conn, error) {
	t := tls.Server(c, n.opts.ServerTLS)
	ctx, cancel := context.WithTimeout(n.ctx, helloTimeout)
	defer cancel()
	err := t.HandshakeContext(ctx)
	if err == nil {
		return t, nil
	}
	var header tls.RecordHeaderError
	if errors.As(err, &header) && header.Conn != nil {
		_ = writeJSON(header.Conn, reply{Error: "this node speaks TLS; set cluster.tls on all nodes, or on none", Hello: Hello{Version: n.opts.Version}})
		return nil, &tlsError{"no TLS", errors.New(speaksNone)}
	}
	return nil, explainTLS(err)
}
