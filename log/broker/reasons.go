package broker

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kbin"

	"github.com/rowtrail/rowtrail/log/broker/quiet"
	"github.com/rowtrail/rowtrail/log/broker/sasl"
)

const (
	// Lines that clients cause are logged so often of each kind in a logWindow; what comes beyond is summed up.
	logWindow = 10 * time.Second
	logBurst  = 20
	// refusedLine comes once a window: connections are refused because there are too many already.
	refusedLine = "refused a connection"
)

// quieted is the broker's logger, with a bound for what clients can make it write (invariant 9).
func quieted(l *slog.Logger) (*slog.Logger, *quiet.Handler) {
	h := quiet.New(l.Handler(), quiet.Options{Window: logWindow, Burst: logBurst, Bursts: map[string]int{refusedLine: 1}})
	return slog.New(h), h
}

// refusalReason is why a connection was not let in.
type refusalReason int

const (
	refusedAll refusalReason = iota
	refusedHost
	refusalReasons
)

func (r refusalReason) String() string {
	return [...]string{"max_connections", "max_connections_per_ip"}[r]
}

// closeReason is why a connection ended.
type closeReason int

const (
	closedByClient closeReason = iota // the client hung up
	closedIdle
	closedSlow // a frame, a response or a log-in that did not get through in time
	closedMalformed
	closedTLS
	closedAuthentication
	closedExpired
	closedShutdown
	closedError
	closeReasons
)

func (r closeReason) String() string {
	return [...]string{"client", "idle", "slow", "malformed", "tls", "authentication", "expired", "shutdown", "error"}[r]
}

// reasonOf sorts the errors that end connections.
func reasonOf(err error, draining bool) closeReason {
	var record tls.RecordHeaderError
	var alert tls.AlertError
	switch {
	case errors.Is(err, errHandshake), errors.As(err, &record), errors.As(err, &alert):
		return closedTLS
	case draining, errors.Is(err, context.Canceled):
		return closedShutdown
	case err == nil, errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, net.ErrClosed),
		errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return closedByClient
	case errors.Is(err, errIdle):
		return closedIdle
	case errors.Is(err, os.ErrDeadlineExceeded):
		return closedSlow
	case errors.Is(err, errFrame), errors.Is(err, errUnsupported), errors.Is(err, kbin.ErrNotEnoughData):
		return closedMalformed
	case errors.Is(err, errExpired):
		return closedExpired
	case errors.Is(err, errLogin), errors.Is(err, sasl.ErrDenied), errors.Is(err, sasl.ErrMechanism):
		return closedAuthentication
	}
	return closedError
}

// tallies are the broker's counts of what happened to connections.
type tallies struct {
	refused   [refusalReasons]atomic.Int64
	closed    [closeReasons]atomic.Int64
	denied    atomic.Int64 // log-ins that failed
	throttled [throttleKinds]atomic.Int64
	worked    atomic.Int64 // nanoseconds of requests
}

// Stats are counts for metrics.
type Stats struct {
	Connections, InternalConnections int64 // open now
	Requests                         int64 // since the start
	BytesIn, BytesOut                int64 // of whole frames, since the start

	// Of network connections, since the start, by reason.
	Refused, Closed map[string]int64
	// AuthenticationFailures counts log-ins that failed, since the start.
	AuthenticationFailures int64
	// Throttled is how long connections were to be muted for by client quotas, by the quota's name.
	Throttled map[string]time.Duration
	// Worked is how much of this node's threads' time requests of network connections took, since the start.
	Worked time.Duration
}

// Stats returns counts for metrics.
func (b *Broker) Stats() Stats {
	s := Stats{
		Connections: b.external.conns.Load(), InternalConnections: b.internal.conns.Load(),
		Requests: b.requests.Load(), BytesIn: b.bytesIn.Load(), BytesOut: b.bytesOut.Load(),
		Refused: map[string]int64{}, Closed: map[string]int64{}, Throttled: map[string]time.Duration{},
		AuthenticationFailures: b.tallies.denied.Load(), Worked: time.Duration(b.tallies.worked.Load()),
	}
	for r := range b.tallies.refused {
		s.Refused[refusalReason(r).String()] = b.tallies.refused[r].Load()
	}
	for r := range b.tallies.closed {
		s.Closed[closeReason(r).String()] = b.tallies.closed[r].Load()
	}
	for k := range b.tallies.throttled {
		s.Throttled[throttleKind(k).String()] = time.Duration(b.tallies.throttled[k].Load())
	}
	return s
}
