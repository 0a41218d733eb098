package postgres

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/rowtrail/rowtrail/connectors"
	"github.com/rowtrail/rowtrail/connectors/park"
)

const dropTimeout = 10 * time.Second

// Connector captures one database.
type Connector struct {
	config  *Config
	deps    connectors.Deps
	log     *slog.Logger
	tracker *connectors.Tracker

	isolation *park.Isolation

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
		config: &c, deps: deps, log: log, tracker: connectors.NewTracker(c.Name, "postgres", c.Prefix), isolation: park.NewIsolation(c.Name, c.Park, log),
	}, nil
}

// Run captures until ctx ends; see connectors.Connector.
func (c *Connector) Run(ctx context.Context) error {
	err := connectors.Supervise(ctx, c.log, c.tracker, c.isolation.Isolate(c.once))
	if ctx.Err() != nil && c.config.DropSlot {
		c.dropSlot()
	}
	return err
}

// Unpark is connectors.Connector's.
func (c *Connector) Unpark(u connectors.Unpark) error { return c.isolation.Unpark(u) }

// dropSlot is slot.drop.on.stop.
func (c *Connector) dropSlot() {
	ctx, cancel := context.WithTimeout(context.Background(), dropTimeout)
	defer cancel()
	conn, err := c.config.dial(ctx)
	if err == nil {
		defer closeConn(conn)
		err = execute(ctx, conn, "SELECT pg_drop_replication_slot("+quoteLiteral(c.config.Slot)+")")
	}
	if err != nil {
		c.log.Warn("slot was not dropped", "slot", c.config.Slot, "error", err)
	}
}

// run is one attempt: from connecting to the first failure.
type run struct {
	*Connector
	in       *inspection
	writer   *connectors.Writer
	identity identity
	resume   *resume
	feedback *feedback
	receiver *receiver
	stream   *stream
	loader   *loader
	parking  *park.Parking
	unfit    map[string]bool // tables that are not published

	side      *sideConn
	committed atomic.Pointer[connectors.Mark]
	known     sync.Map // schemas written
	published uint32   // OID of the publication
	truncated sync.Map // names of tables that the stream truncated, for the watch
}

func (c *Connector) once(ctx context.Context) (err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r := &run{Connector: c, side: &sideConn{config: c.config}, unfit: map[string]bool{}}
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

func (r *run) inspect(ctx context.Context) error {
	return r.side.use(ctx, func(conn *pgconn.PgConn) (err error) {
		r.in, err = r.config.inspect(ctx, conn)
		return err
	})
}

func (r *run) inUse() error {
	return fmt.Errorf("slot %s is in use by process %d of the server", r.config.Slot, r.in.slot.activePID)
}

// prepare looks before it touches: nothing is changed at the source or fenced in the log until the source is fit.
func (r *run) prepare(ctx context.Context) (err error) {
	if err := r.inspect(ctx); err != nil {
		return err
	}
	if s := r.in.slot; s != nil && s.active {
		free, err := r.awaitSlot(ctx, r.inUse())
		if err == nil && free {
			err = r.inspect(ctx)
		}
		if err != nil {
			return err
		}
	}
	var unfit []connectors.Finding                  // tables
	if s := r.in.slot; s == nil || s.lost() == "" { // a lost slot is reported with the position it leaves a gap after
		var whole []connectors.Finding
		whole, unfit = connectors.Sort(r.config.findings(r.in), func(f connectors.Finding) {
			r.log.Warn("source", "subject", f.Subject, "problem", f.Problem, "remedy", f.Remedy)
		})
		if err := connectors.Refuse(whole); err != nil {
			return err
		}
	}
	if s := r.in.slot; s != nil && s.active {
		return r.inUse()
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
			r.writer.Close()
		}
	}()
	value, err := r.writer.Resume(ctx)
	if err != nil {
		return err
	}
	if value != nil {
		if r.resume, err = r.config.readResume(value); err != nil {
			return err
		}
		r.resume.forget(r.config)
		if err := r.config.verifyPublication(r.in.version, r.in.publication, r.resume); err != nil {
			return r.otherServerOr(ctx, err)
		}
	}
	if err := r.park(ctx, unfit); err != nil {
		return err
	}
	if err := r.ownTopics(ctx); err != nil {
		return err
	}
	// P5: before the slot, which decodes with the catalog as it was.
	return r.side.use(ctx, func(conn *pgconn.PgConn) error {
		if err := r.publish(ctx, conn); err != nil {
			return err
		}
		p, err := readPublication(ctx, conn, r.config.Publication, r.in.version)
		if err == nil && p != nil {
			r.published = p.oid
		}
		return err
	})
}

// otherServerOr says that this is another server, if it is (P16): that its publication is another one is only what follows.
func (r *run) otherServerOr(ctx context.Context, gap error) error {
	conn, _, err := r.config.dialReplication(ctx)
	if err != nil {
		return err
	}
	defer closeConn(conn)
	now, err := identify(ctx, conn)
	if err != nil {
		return err
	}
	if err := r.config.verifyServer(ctx, conn, now, r.resume); err != nil {
		return err
	}
	return gap
}

// publish makes the publication right.
func (r *run) publish(ctx context.Context, conn *pgconn.PgConn) error {
	for _, sql := range r.config.publicationSQL(r.in.publication, r.fit()) {
		r.log.Info("change publication", "sql", sql)
		if err := execute(ctx, conn, sql); err != nil {
			return fmt.Errorf("change publication %s: %w", r.config.Publication, err)
		}
	}
	return nil
}

func (r *run) ownTopics(ctx context.Context) error {
	kinds := map[string]connectors.TopicKind{
		r.config.Prefix + ".transaction": connectors.TopicTransaction,
		r.config.Prefix + ".schema":      connectors.TopicCompacted,
	}
	if r.config.HeartbeatInterval > 0 {
		kinds[r.config.HeartbeatTopic] = connectors.TopicSingle
	}
	if r.config.capturesMessages() {
		kinds[r.config.messageTopic()] = connectors.TopicSingle
	}
	for name, kind := range kinds {
		if _, err := r.writer.EnsureTopic(ctx, name, kind); err != nil {
			return err
		}
	}
	return nil
}

// capture loads what must be loaded, then streams.
func (r *run) capture(ctx context.Context) error {
	conn, frames, err := r.config.dialReplication(ctx)
	if err != nil {
		return err
	}
	closed := false
	defer func() {
		if !closed {
			closeConn(conn)
		}
	}()
	if r.identity, err = identify(ctx, conn); err != nil {
		return err
	}
	if r.resume != nil {
		if err := r.config.verifyServer(ctx, conn, r.identity, r.resume); err != nil {
			return err
		}
		if err := r.config.verifySlot(r.in.slot, r.resume); err != nil {
			return err
		}
		r.resume.server, r.resume.Slot, r.resume.Publication = r.identity.server, r.config.Slot, r.published
		r.mu.Lock()
		r.base.Position = r.resume.LSN.String()
		r.mu.Unlock()
	}
	if conn, frames, err = r.startPoint(ctx, conn, frames); err != nil {
		return err
	}
	if r.config.Snapshot == SnapshotInitialOnly {
		return nil
	}
	r.tracker.SetState(connectors.StateStreaming, nil)
	closed = true
	return r.streaming(ctx, conn, frames)
}

// pendingTables are those that the load still has to take.
func (r *run) pendingTables() []*table {
	if r.config.Snapshot == SnapshotNoData {
		return nil
	}
	var list []*table
	for _, t := range r.in.tables {
		if r.parking.Has(t.String()) {
			continue // loaded when it is unparked
		}
		if r.resume == nil {
			list = append(list, t)
		} else if !r.resume.Loaded.has(t.String(), t.oid) {
			list = append(list, t)
		}
	}
	return list
}

// startPoint makes sure that the slot exists and that every captured table is loaded. It returns the connection to stream on.
func (r *run) startPoint(ctx context.Context, conn *pgconn.PgConn, fr *frames) (*pgconn.PgConn, *frames, error) {
	tables := r.pendingTables()
	fresh := r.in.slot == nil
	if !fresh && len(tables) == 0 && r.resume != nil {
		return conn, fr, nil
	}
	var point lsn
	var snapshot string
	var err error
	switch {
	case fresh:
		point, snapshot, err = r.config.createSlot(ctx, conn, r.config.Slot, false, r.in.version)
		r.log.Info("created slot", "slot", r.config.Slot, "at", point.String())
	case len(tables) > 0:
		point, snapshot, err = r.config.createSlot(ctx, conn, r.config.Slot+loadSlotSuffix, true, r.in.version)
	default: // no_data on a slot that exists: from where it stands
		point = r.in.slot.flush
	}
	if err != nil {
		return conn, fr, err
	}
	if r.resume == nil {
		if !fresh && len(tables) > 0 {
			if err := r.advanceSlot(ctx, point); err != nil {
				return conn, fr, err
			}
		}
		r.resume = &resume{server: r.identity.server, Slot: r.config.Slot, LSN: point, Loaded: loads{}, Publication: r.published}
	}
	r.resume.Parked = r.parking.Marked()
	r.loader = &loader{
		config: r.config, writer: r.writer, tracker: r.tracker, log: r.log, version: r.in.version, publication: r.in.publication,
		point: point, name: snapshot, timeUs: time.Now().UnixMicro(), base: *r.resume, known: &r.known,
	}
	if len(tables) == 0 {
		if err = r.loader.mark(ctx, r.resume.Loaded, true); err == nil {
			err = r.writer.Drain(ctx)
		}
		r.resume.Complete = true
		return conn, fr, err
	}
	r.log.Info("initial load begins", "tables", len(tables), "at", point.String())
	began := time.Now()
	imported := func() {
		// Every worker holds the snapshot now: the temporary slot need not keep WAL any longer.
		closeConn(conn)
	}
	if err := r.loader.run(ctx, tables, imported); err != nil {
		return conn, fr, err
	}
	if err := r.writer.Drain(ctx); err != nil { // it has ended when it is in the log
		return conn, fr, err
	}
	r.log.Info("initial load ends", "tables", len(tables), "rows", r.loader.rows.Load(), "took", time.Since(began).Round(time.Millisecond))
	r.resume.Loaded, r.resume.Complete = r.loader.base.Loaded, true
	conn, fr, err = r.config.dialReplication(ctx)
	return conn, fr, err
}

// advanceSlot moves a slot that has no resume point to where the load stands: what it holds from before is in the load, and may
// be older than the publication, which its decoding would then not find (P5).
func (r *run) advanceSlot(ctx context.Context, to lsn) error {
	return r.side.use(ctx, func(conn *pgconn.PgConn) error {
		if err := execute(ctx, conn, "SELECT pg_replication_slot_advance("+quoteLiteral(r.config.Slot)+", "+quoteLiteral(to.String())+")"); err != nil {
			return fmt.Errorf("advance slot %s to the load's point %s: %w", r.config.Slot, to, err)
		}
		s, err := readSlot(ctx, conn, r.config.Slot, r.in.version)
		if err != nil {
			return err
		}
		if s == nil || s.flush > to {
			return fmt.Errorf("advance slot %s to the load's point %s: it moved past it", r.config.Slot, to)
		}
		return nil
	})
}

// appendResume is the resume point of a mark.
func (r *run) appendResume(dst []byte, m connectors.Mark) []byte {
	if state, ok := m.Resume.(*resume); ok {
		return state.append(dst)
	}
	also, _ := m.Resume.(*streamed)
	state := resume{
		server: r.identity.server, Slot: r.config.Slot, Complete: true,
		LSN: lsn(m.Confirm), Commit: lsn(m.Order), TimeUs: m.TimeUs, Publication: r.published, Parked: also.parked,
	}
	return state.appendWith(dst, also.loads)
}

func (r *run) onCommit(m connectors.Mark) {
	r.committed.Store(&m)
	switch also := m.Resume.(type) {
	case *streamed:
		r.isolation.Committed(also.parked)
	case *resume:
		r.isolation.Committed(also.Parked)
	}
	r.mu.Lock()
	f := r.feedback
	r.mu.Unlock()
	if f != nil {
		f.confirm(lsn(m.Confirm))
	}
}

func closeConn(conn *pgconn.PgConn) {
	if conn == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = conn.Close(ctx) // there is nothing to save
}
