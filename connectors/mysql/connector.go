package mysql

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/rowtrail/rowtrail/connectors"
	"github.com/rowtrail/rowtrail/connectors/event"
	"github.com/rowtrail/rowtrail/connectors/mysql/binlog"
	"github.com/rowtrail/rowtrail/connectors/park"
	"github.com/rowtrail/rowtrail/connectors/raw"
)

const queryTimeout = 30 * time.Second

// Connector captures one server.
type Connector struct {
	config  *Config
	deps    connectors.Deps
	log     *slog.Logger
	tracker *connectors.Tracker

	isolation *park.Isolation

	undo *undoError // what the last run found to be taken back
	lost *lost      // a gap that the last run found, to be repaired
	asks chan *ask

	begun     bool      // snapshot.mode always: the load of this start has begun
	renew     bool      // snapshot.mode when_needed: the next run begins anew
	renewedAt time.Time // when that was last

	tracking map[string]bool // tables whose rows were found to be needed while they were not kept

	mu      sync.Mutex
	current *run // for Status
	base    connectors.Status
}

// New prepares a connector; it connects to nothing.
func New(config *Config, deps connectors.Deps) (*Connector, error) {
	if deps.Logger == nil {
		return nil, errors.New("create connector: no logger")
	}
	c := *config
	c.Event.Version = deps.Version
	log := deps.Logger.With("connector", c.Name)
	deps.Logger = log
	if len(c.Ignored) > 0 {
		log.Info("properties without effect", "properties", c.Ignored)
	}
	return &Connector{
		config: &c, deps: deps, log: log, tracker: connectors.NewTracker(c.Name, c.kind(), c.Prefix), asks: make(chan *ask, maxAsks),
		isolation: park.NewIsolation(c.Name, c.Park, log),
	}, nil
}

// Run captures until ctx ends; see connectors.Connector.
func (c *Connector) Run(ctx context.Context) error {
	c.begun = false
	return connectors.Supervise(ctx, c.log, c.tracker, c.isolation.Isolate(func(ctx context.Context) error {
		for {
			err := c.once(ctx)
			if c.tracks(err) && ctx.Err() == nil || c.repairs(err) && ctx.Err() == nil {
				continue
			}
			if c.renews(err) && ctx.Err() == nil {
				continue
			}
			var undo *undoError
			if !errors.As(err, &undo) || ctx.Err() != nil {
				return err
			}
			if c.undo != nil && c.undo.group == undo.group && len(c.undo.undo) >= len(undo.undo) {
				return fmt.Errorf("%w, and again", err)
			}
			c.log.Info("source transaction is read again", "reason", undo.Error())
			c.undo = undo
		}
	}))
}

// Unpark is connectors.Connector's.
func (c *Connector) Unpark(u connectors.Unpark) error { return c.isolation.Unpark(u) }

// renewAgain is how long after one new load another gap is an error, lest a source that has one at once is loaded for ever.
const renewAgain = time.Minute

// renews tells whether a gap is to be made up for by loading all tables again (snapshot.mode when_needed).
func (c *Connector) renews(err error) bool {
	var gap *gapError
	if c.config.Snapshot != SnapshotWhenNeeded || !errors.As(err, &gap) || time.Since(c.renewedAt) < renewAgain {
		return false
	}
	c.log.Warn("all tables are loaded again (snapshot.mode when_needed)", "reason", gap.Problem)
	c.renew, c.renewedAt = true, time.Now()
	return true
}

// run is one attempt: from connecting to the first failure.
type run struct {
	*Connector
	server   *server
	replica  bool
	writer   *connectors.Writer
	raw      *raw.Store
	parking  *park.Parking
	resume   *resume
	fresh    bool // there was no resume point, or it is given up
	always   bool // all tables are loaded, whatever was
	before   *beforeBegin
	mending  bool // a repair begins
	tables   []*table
	receiver *receiver
	stream   *stream
	history  *history

	side      *side
	committed atomic.Pointer[connectors.Mark]
	known     sync.Map // schemas written
	behind    atomic.Int64

	warnMu   sync.Mutex
	warnings []string
}

func (c *Connector) once(ctx context.Context) (err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r := &run{Connector: c, side: &side{config: c.config}, always: c.config.Snapshot == SnapshotAlways && !c.begun}
	c.mu.Lock()
	c.current = r
	c.mu.Unlock()
	defer c.retire(r)
	defer r.side.close()
	if err := r.prepare(ctx); err != nil {
		return err
	}
	defer r.writer.Close()
	writing := make(chan error, 1)
	go func() {
		writing <- r.writer.Run(ctx)
		cancel()
	}()
	err = r.capture(ctx)
	cancel()
	// The writer's own error is the cause; the source only sees that it stopped.
	if werr := <-writing; werr != nil && !errors.Is(werr, context.Canceled) {
		return werr
	}
	return err
}

// prepare looks before it touches: nothing is fenced in the log until the source is fit.
func (r *run) prepare(ctx context.Context) (err error) {
	var in *inspection
	if err := r.side.use(ctx, func(s *session) (err error) {
		in, err = r.config.inspect(ctx, s)
		return err
	}); err != nil {
		return err
	}
	r.server, r.replica, r.tables = in.server, in.replica, in.tables
	whole, unfit := connectors.Sort(r.config.findings(in), func(f connectors.Finding) {
		r.log.Warn("source", "subject", f.Subject, "problem", f.Problem, "remedy", f.Remedy)
	})
	if err := connectors.Refuse(whole); err != nil {
		return err
	}
	writer, err := connectors.OpenWriter(ctx, r.deps, connectors.WriterOptions{
		Name: r.config.Name, Prefix: r.config.Prefix, Topics: r.config.Topics, Compression: r.config.Compression,
		AppendResume: r.appendResume, OnCommit: r.onCommit,
	})
	if err != nil {
		return err
	}
	r.mu.Lock()
	r.writer = writer
	r.mu.Unlock()
	defer func() {
		if err != nil {
			writer.Close()
		}
	}()
	value, err := writer.Resume(ctx)
	if err != nil {
		return err
	}
	if r.raw, err = r.openRaw(ctx, writer); err != nil {
		return err
	}
	if value != nil {
		if r.resume, err = r.config.readResume(value); err != nil {
			return err
		}
		if r.resume.capture != r.config.capture { // what was not captured is not in the log
			p := *r.resume.point
			p.trust = p.trust.All(p.commits + 1)
			r.resume.point = &p
		}
		r.mu.Lock()
		r.base.Position = r.resume.point.String()
		r.mu.Unlock()
	}
	if err := r.park(unfit); err != nil {
		return err
	}
	if err := r.ownTopics(ctx); err != nil {
		return err
	}
	return r.openHistory(ctx)
}

func (r *run) onCommit(m connectors.Mark) {
	r.committed.Store(&m)
	if p, ok := m.Resume.(*point); ok {
		r.isolation.Committed(p.parked)
	}
}

func (r *run) ownTopics(ctx context.Context) error {
	kinds := map[string]connectors.TopicKind{
		r.config.Prefix + ".transaction": connectors.TopicTransaction,
		r.config.Prefix + ".schema":      connectors.TopicCompacted,
		r.config.HistoryTopic():          connectors.TopicCompacted,
	}
	if r.config.HeartbeatInterval > 0 {
		kinds[r.config.HeartbeatTopic] = connectors.TopicSingle
	}
	if r.config.SchemaChanges {
		kinds[r.config.Prefix] = connectors.TopicSingle
	}
	for name, kind := range kinds {
		if _, err := r.writer.EnsureTopic(ctx, name, kind); err != nil {
			return err
		}
	}
	return nil
}

// newStream makes the stream that begins at the resume point.
func (r *run) newStream(load *loader, repair *repairer) (*stream, error) {
	p := r.resume.point
	s := &stream{
		Emitter: connectors.Emitter{Settings: &r.config.Settings, Writer: r.writer, Known: &r.known},
		run:     r, config: r.config, decoder: binlog.NewDecoder(binlog.Options{}), relations: map[*binlog.Table]*relation{},
		loader: load, repair: repair, state: newCompletion(r), point: p, mark: p, markedAt: time.Now(), file: p.at.file, end: p.at.pos,
		parking: r.parking,
	}
	s.Where = func() string {
		return fmt.Sprintf("%s:%d, row %d, of transaction %s", s.file, s.Meta.Binlog.Pos, s.Meta.Binlog.Row+1, s.group.name)
	}
	if r.config.SchemaChanges {
		var err error
		if s.changes, err = event.NewSchemaChangeEncoder(r.config.Event); err != nil {
			return nil, err
		}
	}
	s.Touch()
	return s, nil
}

func (r *run) streaming(ctx context.Context, conn net.Conn, s *stream) error {
	in := newReceiver(conn)
	r.mu.Lock()
	r.receiver, r.stream = in, s
	r.mu.Unlock()
	r.log.Info("streaming", "from", s.point.String())
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return in.run(ctx) })
	g.Go(func() error {
		if err := s.parking.Start(ctx, &s.Emitter, s, r.wake); err != nil {
			return err
		}
		defer s.parking.Close()
		if err := s.startLoad(ctx); err != nil {
			return err
		}
		return connectors.Pump(ctx, &s.Emitter, in.chunks, s.handle, s.beat)
	})
	for range r.config.SnapshotThreads {
		g.Go(func() error { return s.loader.work(ctx) })
	}
	if s.repair != nil {
		for range r.config.SnapshotThreads {
			g.Go(func() error { return s.repair.work(ctx) })
		}
	}
	g.Go(func() error { return r.watch(ctx) })
	if r.config.HeartbeatQuery != "" {
		g.Go(func() error { return r.heartbeatQuery(ctx) })
	}
	g.Go(func() error { // a blocked read ends with its connection
		<-ctx.Done()
		_ = conn.Close()
		return ctx.Err()
	})
	return r.config.dumpError(g.Wait())
}

// appendResume is the resume point of a mark.
func (r *run) appendResume(dst []byte, m connectors.Mark) []byte {
	p, _ := m.Resume.(*point)
	state := resume{point: p, uuid: r.resume.uuid, source: r.config.kind(), capture: r.config.capture}
	b, err := state.append(dst)
	if err != nil { // a set that can be kept can be written: finish has seen to that
		r.log.Error("the resume point cannot be written", "error", err)
	}
	return b
}

// heartbeatQuery runs heartbeat.action.query on a connection of its own. A failure is logged: it is the user's statement.
func (r *run) heartbeatQuery(ctx context.Context) error {
	ticker := time.NewTicker(r.config.HeartbeatInterval)
	defer ticker.Stop()
	own := &side{config: r.config}
	defer own.close()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
		timed, cancel := context.WithTimeout(ctx, queryTimeout)
		err := own.use(timed, func(s *session) error { return s.execute(timed, r.config.HeartbeatQuery) })
		cancel()
		if err != nil && ctx.Err() == nil {
			r.log.Warn("heartbeat.action.query failed", "error", err)
		}
	}
}

// forget takes a warning back.
func (r *run) forget(text string) {
	r.warnMu.Lock()
	defer r.warnMu.Unlock()
	r.warnings = slices.DeleteFunc(r.warnings, func(w string) bool { return w == text })
}

// warn adds a warning to the status.
func (r *run) warn(text string) {
	r.warnMu.Lock()
	known := slices.Contains(r.warnings, text)
	if !known {
		r.warnings = append(r.warnings, text)
	}
	list := slices.Clone(r.warnings)
	r.warnMu.Unlock()
	if known {
		return
	}
	r.log.Warn("source", "problem", text)
	r.tracker.Update(func(s *connectors.Status) { s.Warnings = list })
}
