package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/rowtrail/rowtrail/cluster"
	"github.com/rowtrail/rowtrail/connectors"
	"github.com/rowtrail/rowtrail/log"
	"github.com/rowtrail/rowtrail/log/broker"
	"github.com/rowtrail/rowtrail/sink"
	"github.com/rowtrail/rowtrail/snapshot"
)

// Node is what the endpoints show of a running node.
type Node interface {
	Topics() []Topic
	Topic(name string) (Topic, bool)
	Connectors() []connectors.Status
	Sinks() []sink.Status
	// NotReady lists why the node should not get work yet; empty: it is ready.
	NotReady() []string
}

// Views answers for rows.
type Views interface {
	Latest(ctx context.Context, topic string, key []byte, at snapshot.At) (snapshot.Row, bool, error)
	Scan(ctx context.Context, topic string, at snapshot.At, fn func(snapshot.Row) error) error
	History(ctx context.Context, topic string, key []byte, fn func(snapshot.Row) error) error
	AnyKey(ctx context.Context, topic string) (key []byte, found bool, err error)
	Lag(topic string) int64
}

// Cluster is what the endpoints show and change of the node's cluster.
type Cluster interface {
	Overview(ctx context.Context) cluster.Overview
	Lags(moving bool) []cluster.ReplicaLag
	Metrics() cluster.Metrics
	Operations
}

// Operations change the cluster; any node takes them.
type Operations interface {
	Drain(ctx context.Context, node int32, on bool) error
	RemoveNode(ctx context.Context, node int32) error
	Reassign(ctx context.Context, topic string, partition int32, nodes []int32) error
}

// Options of a Server.
type Options struct {
	Node  Node
	Views Views
	// Stale answer from this node's replicas as they are; nil: as Views.
	Stale  Views
	Others Others // nil: there are no other nodes
	// Position asks a node how far its connector is; false: it did not say. nil: there are no other nodes.
	Position func(ctx context.Context, node int32, connector string) (string, bool)
	Storage  func() log.StoreStats
	Groups   func() []broker.GroupLag
	Kafka    func() broker.Stats
	Cluster  Cluster
	// Elsewhere names the brokers of the cluster that holds the log instead of this node; the four before are then not set.
	Elsewhere string
	// Restart starts a connector or sink (role) anew, and tells which node runs it.
	Restart func(ctx context.Context, role, name string) (node int32, err error)
	// Signal gives a connector a signal, and tells which node runs it.
	Signal func(ctx context.Context, name string, s connectors.Signal) (node int32, result connectors.SignalResult, err error)
	// Unpark has a connector unpark a table, and tells which node runs it.
	Unpark  func(ctx context.Context, name string, u connectors.Unpark) (node int32, err error)
	Version string
	Pprof   bool
	Logger  *slog.Logger
}

const (
	readHeaderTimeout = 10 * time.Second
	idleTimeout       = 2 * time.Minute
	maxHeaderBytes    = 64 << 10
	maxConcurrent     = 64 // requests being answered; more get 503
)

// Server is the admin endpoint of one node.
type Server struct {
	opts Options
	http *http.Server
	busy chan struct{}
	mux  atomic.Pointer[http.ServeMux]
}

// New builds the server and its own metrics registry.
func New(opts Options) (*Server, error) {
	s := Begin(opts.Version, opts.Node.NotReady, opts.Logger)
	return s, s.Open(opts)
}

// Begin builds a server that answers for the health of a node that has nothing else to show yet: one that waits for the other nodes of its cluster
// is alive, and says what it waits for.
func Begin(version string, notReady func() []string, logger *slog.Logger) *Server {
	s := &Server{busy: make(chan struct{}, maxConcurrent)}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { health(w, version) })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		reply(w, http.StatusServiceUnavailable, Readiness{Reasons: append([]string{}, notReady()...), Degraded: []string{}})
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "1")
		fail(w, http.StatusServiceUnavailable, "the node is not ready: "+strings.Join(notReady(), "; "))
	})
	s.mux.Store(mux)
	s.http = &http.Server{
		Handler: s.limit(), ReadHeaderTimeout: readHeaderTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeaderBytes,
		ErrorLog: slog.NewLogLogger(logger.Handler(), slog.LevelDebug),
	}
	return s
}

// Open has the server answer for a node that has started.
func (s *Server) Open(opts Options) error {
	s.opts = opts
	registry, err := newRegistry(opts)
	if err != nil {
		return fmt.Errorf("register metrics: %w", err)
	}
	mux := http.NewServeMux()
	for _, r := range s.routes(registry) {
		mux.HandleFunc(r.pattern, r.handle)
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		fail(w, http.StatusNotFound, fmt.Sprintf("no such endpoint: %s %s", r.Method, r.URL.Path))
	})
	s.mux.Store(mux)
	return nil
}

type route struct {
	pattern string
	handle  http.HandlerFunc
}

// routes are the endpoints, as docs/http-api.md lists them.
func (s *Server) routes(registry *prometheus.Registry) []route {
	metrics := promhttp.HandlerFor(registry, promhttp.HandlerOpts{MaxRequestsInFlight: 4})
	list := []route{
		{"GET /healthz", func(w http.ResponseWriter, _ *http.Request) { health(w, s.opts.Version) }},
		{"GET /readyz", s.ready},
		{"GET /metrics", metrics.ServeHTTP},
		{"GET /v1/topics", s.ofLog(s.topics)},
		{"GET /v1/topics/{topic}", s.ofLog(s.topic)},
		{"GET /v1/cluster", s.ofLog(s.cluster)},
		{"POST /v1/cluster/drain", s.ofLog(change(s.drain))},
		{"POST /v1/cluster/remove", s.ofLog(change(s.remove))},
		{"POST /v1/cluster/reassign", s.ofLog(change(s.reassign))},
		{"GET /v1/connectors", s.connectors},
		{"GET /v1/connectors/{name}", s.connector},
		{"POST /v1/connectors/{name}/restart", sameOrigin(s.restartConnector)},
		{"POST /v1/connectors/{name}/signal", sameOrigin(s.signal)},
		{"POST /v1/connectors/{name}/unpark", sameOrigin(s.unpark)},
		{"GET /v1/sinks", s.sinks},
		{"GET /v1/sinks/{name}", s.sink},
		{"POST /v1/sinks/{name}/restart", sameOrigin(s.restartSink)},
		{"GET /v1/state/{topic}", s.ofLog(s.scan)},
		{"GET /v1/state/{topic}/{key}", s.ofLog(s.latest)},
		{"GET /v1/state/{topic}/{$}", s.ofLog(s.latest)}, // the key that is empty text
		{"GET /v1/history/{topic}/{key}", s.ofLog(s.history)},
		{"GET /v1/history/{topic}/{$}", s.ofLog(s.history)},
	}
	if s.opts.Pprof {
		list = append(list,
			route{"GET /debug/pprof/", pprof.Index},
			route{"GET /debug/pprof/cmdline", pprof.Cmdline},
			route{"GET /debug/pprof/profile", pprof.Profile},
			route{"GET /debug/pprof/symbol", pprof.Symbol},
			route{"GET /debug/pprof/trace", pprof.Trace})
	}
	return list
}

// Serve answers on l until Shutdown.
func (s *Server) Serve(l net.Listener) error {
	if err := s.http.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve HTTP: %w", err)
	}
	return nil
}

// Shutdown lets running requests end until ctx does, then cuts them.
func (s *Server) Shutdown(ctx context.Context) error {
	if err := s.http.Shutdown(ctx); err != nil {
		return fmt.Errorf("shut down HTTP: requests were cut: %w", errors.Join(err, s.http.Close()))
	}
	return nil
}

// limit bounds the requests being answered; health and metrics must answer even then.
func (s *Server) limit() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/healthz", "/readyz", "/metrics":
		default:
			select {
			case s.busy <- struct{}{}:
				defer func() { <-s.busy }()
			default:
				w.Header().Set("Retry-After", "1")
				fail(w, http.StatusServiceUnavailable, fmt.Sprintf("%d requests are being answered; try again", maxConcurrent))
				return
			}
		}
		s.mux.Load().ServeHTTP(w, r)
	})
}

// health says that the process runs; it answers 200 as long as it can answer at all.
func health(w http.ResponseWriter, version string) {
	reply(w, http.StatusOK, map[string]string{"status": "ok", "version": version})
}

// Readiness is the answer of /readyz: 200 when Ready, 503 otherwise. Degraded names connectors and sinks that
// failed, and parked tables; the log serves without them, so they do not make the node unready.
type Readiness struct {
	Ready    bool     `json:"ready"`
	Reasons  []string `json:"reasons"`
	Degraded []string `json:"degraded"`
}

func (s *Server) ready(w http.ResponseWriter, _ *http.Request) {
	reasons := s.opts.Node.NotReady()
	status := http.StatusOK
	if len(reasons) > 0 {
		status = http.StatusServiceUnavailable
	}
	degraded := []string{}
	for _, c := range s.opts.Node.Connectors() {
		if c.State == connectors.StateFailed {
			degraded = append(degraded, fmt.Sprintf("connector %s: %s", c.Name, c.Error))
		}
		for _, p := range c.Parked {
			degraded = append(degraded, fmt.Sprintf("connector %s: table %s is parked: %s", c.Name, p.Table, p.Reason))
		}
	}
	for _, k := range s.opts.Node.Sinks() {
		if k.State == sink.StateFailed {
			degraded = append(degraded, fmt.Sprintf("sink %s: %s", k.Name, k.Error))
		}
	}
	reply(w, status, Readiness{Ready: len(reasons) == 0, Reasons: append([]string{}, reasons...), Degraded: degraded})
}

func (s *Server) topics(w http.ResponseWriter, r *http.Request) {
	list, missing := s.allTopics(r.Context())
	tellMissing(w, missing)
	reply(w, http.StatusOK, list)
}

func (s *Server) topic(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("topic")
	t, missing, ok := s.oneTopic(r.Context(), name)
	if !ok {
		failUnknownTopic(w, name)
		return
	}
	tellMissing(w, missing)
	reply(w, http.StatusOK, t)
}

func (s *Server) connectors(w http.ResponseWriter, _ *http.Request) {
	reply(w, http.StatusOK, append([]connectors.Status{}, s.opts.Node.Connectors()...))
}

func (s *Server) connector(w http.ResponseWriter, r *http.Request) {
	one(w, r, "connector", s.opts.Node.Connectors(), func(c connectors.Status) string { return c.Name })
}

func (s *Server) sinks(w http.ResponseWriter, _ *http.Request) {
	reply(w, http.StatusOK, append([]sink.Status{}, s.opts.Node.Sinks()...))
}

func (s *Server) sink(w http.ResponseWriter, r *http.Request) {
	one(w, r, "sink", s.opts.Node.Sinks(), func(k sink.Status) string { return k.Name })
}

// ofLog is an endpoint of what only the node that holds the log can show.
func (s *Server) ofLog(handle http.HandlerFunc) http.HandlerFunc {
	if s.opts.Elsewhere == "" {
		return handle
	}
	return func(w http.ResponseWriter, _ *http.Request) {
		fail(w, http.StatusNotImplemented, fmt.Sprintf("this node holds no log and no views: its log is the Kafka cluster at %s (log.kafka), which `rowtrail topics` and `rowtrail tail` ask themselves", s.opts.Elsewhere))
	}
}

// sameOrigin guards what changes something: a page that a browser of this machine shows must not.
func sameOrigin(handle http.HandlerFunc) http.HandlerFunc {
	guard := http.NewCrossOriginProtection()
	return func(w http.ResponseWriter, r *http.Request) {
		if err := guard.Check(r); err != nil {
			fail(w, http.StatusForbidden, err.Error())
			return
		}
		handle(w, r)
	}
}

// Restarted is the answer to a restart.
type Restarted struct {
	Name string `json:"name"`
	Node int32  `json:"node"` // that runs it
}

func (s *Server) restartConnector(w http.ResponseWriter, r *http.Request) {
	s.restart(w, r, "connector", slices.ContainsFunc(s.opts.Node.Connectors(), func(c connectors.Status) bool { return c.Name == r.PathValue("name") }))
}

func (s *Server) restartSink(w http.ResponseWriter, r *http.Request) {
	s.restart(w, r, "sink", slices.ContainsFunc(s.opts.Node.Sinks(), func(k sink.Status) bool { return k.Name == r.PathValue("name") }))
}

func (s *Server) restart(w http.ResponseWriter, r *http.Request, role string, known bool) {
	name := r.PathValue("name")
	if !known {
		failUnknown(w, role, name)
		return
	}
	node, err := s.opts.Restart(r.Context(), role, name)
	if err != nil {
		fail(w, http.StatusServiceUnavailable, fmt.Sprintf("%s %s cannot be restarted: %v", role, name, err))
		return
	}
	reply(w, http.StatusOK, Restarted{name, node})
}

func failUnknown(w http.ResponseWriter, role, name string) {
	fail(w, http.StatusNotFound, fmt.Sprintf("no %s is named %q; `rowtrail %ss` lists them", role, name, role))
}

// one answers with the status of the given name.
func one[T any](w http.ResponseWriter, r *http.Request, role string, list []T, nameOf func(T) string) {
	name := r.PathValue("name")
	i := slices.IndexFunc(list, func(s T) bool { return nameOf(s) == name })
	if i < 0 {
		failUnknown(w, role, name)
		return
	}
	reply(w, http.StatusOK, list[i])
}

// Failure is the body of every answer that is not 2xx, and the last line of a stream that broke.
type Failure struct {
	Error string `json:"error"`
}

func fail(w http.ResponseWriter, status int, message string) {
	reply(w, status, Failure{Error: message})
}

func failUnknownTopic(w http.ResponseWriter, name string) {
	fail(w, http.StatusNotFound, fmt.Sprintf("topic %q does not exist; `rowtrail topics` lists them", name))
}

func reply(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(body) // the client is gone: nobody to tell
}
