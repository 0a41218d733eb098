package broker

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rowtrail/rowtrail/cluster"
	"github.com/rowtrail/rowtrail/log/broker/pace"
	"github.com/rowtrail/rowtrail/log/broker/quiet"
	"github.com/rowtrail/rowtrail/log/broker/quota"
	"github.com/rowtrail/rowtrail/log/broker/sasl"
)

// Options configure a Broker. Zero values take the defaults named here.
type Options struct {
	Node *cluster.Node
	// AdvertisedHost and AdvertisedPort are what clients are told to dial. In-process clients dial
	// through Dialer. Default localhost:9092.
	AdvertisedHost string
	AdvertisedPort int32
	Logger         *slog.Logger
	Rack           string // reported in Metadata; "" for none
	DataDir        string // reported by DescribeLogDirs
	// CPU returns the machine's CPU time so far, how much of it was spent and all. Default pace.CPU.
	CPU func() (busy, all float64)
	// DiskSpace returns total and usable bytes of the data directory's file system; nil: not reported.
	DiskSpace func() (total, usable int64)

	// AutoCreateTopics creates a topic with the defaults when a client that allows it asks for its metadata.
	AutoCreateTopics bool
	// DefaultPartitions is reported as num.partitions. Default 1.
	DefaultPartitions int32

	Coordinators CoordinatorOptions

	// TLS and SASL are of network connections; nil: none.
	TLS  *tls.Config
	SASL *SASLOptions

	MaxConnections  int   // open network connections, the last part kept for hosts with few. Default 4096
	MaxRequestBytes int32 // bytes of one Produce frame. Default 100 MiB; other requests: maxSmallRequestBytes
	InFlightBytes   int64 // bytes of requests being handled, all network connections. Default 128 MiB, at least hostShare times MaxRequestBytes
	FetchBytes      int64 // bytes of fetched records on their way, all network connections; a response being written holds them twice. Default 128 MiB
	AnswerBytes     int64 // bytes of other answers being written, all network connections. Default 64 MiB
	MaxFetchBytes   int32 // bytes of one Fetch response. Default 55 MiB
	// MaxConnectionsPerIP bounds those from one address (of IPv6: one network of 64 bits). Default 2048.
	MaxConnectionsPerIP int
	IdleTimeout         time.Duration // a connection without a request is closed. Default 10 min
	FrameTimeout        time.Duration // a begun frame or response must be through by then, and ...
	MinTransferRate     int64         // ... bytes per second on top. Defaults 30 s and 256 KiB/s
}

func (o Options) withDefaults() Options {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.CPU == nil {
		o.CPU = pace.CPU
	}
	o.AdvertisedHost = cmp.Or(o.AdvertisedHost, "localhost")
	orDefault(&o.AdvertisedPort, 9092)
	orDefault(&o.DefaultPartitions, 1)
	orDefault(&o.MaxConnections, 4096)
	orDefault(&o.MaxConnectionsPerIP, 2048)
	orDefault(&o.MaxRequestBytes, 100<<20)
	orDefault(&o.InFlightBytes, 128<<20)
	orDefault(&o.FetchBytes, 128<<20)
	orDefault(&o.AnswerBytes, answerBytes)
	orDefault(&o.MaxFetchBytes, 55<<20)
	orDefault(&o.IdleTimeout, 10*time.Minute)
	orDefault(&o.FrameTimeout, 30*time.Second)
	orDefault(&o.MinTransferRate, 256<<10)
	return o
}

func orDefault[T int | int32 | int64 | time.Duration](v *T, def T) {
	if *v <= 0 {
		*v = def
	}
}

// Broker serves the Kafka protocol of one node.
type Broker struct {
	opts   Options
	node   *cluster.Node
	logger *slog.Logger // through quiet
	quiet  *quiet.Handler
	apis   [maxAPIKey + 1]*api

	coordinators // groups and txns

	external, internal *listenerLimits
	directory          *sasl.Directory // nil: nobody logs in
	quotas             *quota.Buckets
	pacer              *pace.Pacer // of reads of history
	tallies            tallies
	small, buffers     sync.Pool // *[]byte, for answers and for larger ones
	opening            *openers

	requests, bytesIn, bytesOut atomic.Int64

	ctx        context.Context // ends with Shutdown
	elections  elections
	redirected atomic.Int64 // partitions that clients were told of another leader of
	cancel     context.CancelFunc
	wg         sync.WaitGroup // connections

	mu        sync.Mutex
	closed    bool
	listeners map[net.Listener]struct{}
	conns     map[*conn]struct{}
}

// ErrClosed is returned by Serve and Dialer's function after Shutdown.
var ErrClosed = errors.New("broker is closed")

// New starts the coordinators and returns a broker that has no listener yet.
func New(opts Options) (*Broker, error) {
	if opts.Node == nil {
		return nil, errors.New("start broker: Options.Node is nil")
	}
	opts = opts.withDefaults()
	opening := newOpeners()
	b := &Broker{
		opts: opts, node: opts.Node,
		external: newListenerLimits(opts.MaxConnections, max(opts.InFlightBytes, hostShare*int64(opts.MaxRequestBytes)),
			max(opts.FetchBytes, hostShare*minFetchReserve), opts.AnswerBytes, opening),
		internal: newListenerLimits(maxInternalConnections, max(internalInFlightBytes, hostShare*int64(opts.MaxRequestBytes)), internalFetchBytes,
			internalAnswerBytes, opening),
		quotas:    quota.New(),
		pacer:     pace.New(time.Now, opts.CPU),
		listeners: map[net.Listener]struct{}{},
		conns:     map[*conn]struct{}{},
		opening:   opening,
	}
	b.logger, b.quiet = quieted(opts.Logger)
	b.external.maxHost = int64(opts.MaxConnectionsPerIP)
	for _, table := range [][]api{dataAPIs(), groupAPIs(), txnAPIs(), securityAPIs()} {
		for i := range table {
			a := &table[i]
			if b.apis[a.key] != nil {
				return nil, fmt.Errorf("start broker: API key %d is registered twice", a.key)
			}
			b.apis[a.key] = a
		}
	}
	b.ctx, b.cancel = context.WithCancel(context.Background())
	if err := b.openDirectory(b.ctx); err != nil {
		b.cancel()
		return nil, fmt.Errorf("start authentication: %w", err)
	}
	if err := b.startCoordinators(b.ctx); err != nil {
		b.cancel()
		return nil, fmt.Errorf("start coordinators: %w", err)
	}
	b.node.ServeKafka(b.servePeer)
	return b, nil
}

// Shutdown stops reading, lets requests that have arrived finish, closes all connections and stops the
// coordinators. When ctx ends first, connections are cut.
func (b *Broker) Shutdown(ctx context.Context) error {
	b.node.ServeKafka(nil)
	b.mu.Lock()
	first := !b.closed
	b.closed = true
	for l := range b.listeners {
		_ = l.Close()
	}
	for c := range b.conns {
		c.drain()
	}
	b.mu.Unlock()
	b.cancel() // long polls answer at once
	done := make(chan struct{})
	go func() {
		defer close(done)
		b.wg.Wait()
		if first {
			b.stopCoordinators()
		}
		b.quiet.Close()
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
	}
	b.mu.Lock()
	for c := range b.conns {
		_ = c.socket.Close() // TLS would wait to say good-bye
	}
	b.mu.Unlock()
	select {
	case <-done:
		return fmt.Errorf("shut down broker: connections were cut: %w", ctx.Err())
	case <-time.After(cutTimeout): // a node that has halted may never answer what it was given
		return fmt.Errorf("shut down broker: appends were never answered: %w", ctx.Err())
	}
}

// cutTimeout is how long Shutdown waits for handlers once their connections are cut.
const cutTimeout = 2 * time.Second
