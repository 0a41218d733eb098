package postgres

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pglogrepl"
	"github.com/jackc/pgx/v5/pgconn"
	"golang.org/x/sync/errgroup"

	"github.com/rowtrail/rowtrail/connectors"
	"github.com/rowtrail/rowtrail/connectors/event"
)

const queryTimeout = 30 * time.Second

// streaming starts replication at the resume point and runs the receiver, the decoder and feedback until one ends.
func (r *run) streaming(ctx context.Context, conn *pgconn.PgConn, fr *frames) error {
	args := []string{"proto_version '1'", "publication_names " + quoteLiteral(quoteIdent(r.config.Publication))}
	if r.config.capturesMessages() {
		args = append(args, "messages 'true'")
	}
	err := pglogrepl.StartReplication(ctx, conn, r.config.Slot, pglogrepl.LSN(r.resume.LSN), pglogrepl.StartReplicationOptions{PluginArgs: args})
	if err != nil {
		closeConn(conn)
		return r.streamError(fmt.Errorf("start replication from slot %s: %w", r.config.Slot, err))
	}
	raw, err := conn.Hijack()
	if err != nil {
		closeConn(conn)
		return fmt.Errorf("take over replication connection: %w", err)
	}
	interval := statusInterval(r.config.StatusInterval, r.in.setting("wal_sender_timeout"))
	fb := newFeedback(raw.Conn, interval, r.resume.LSN)
	in := newReceiver(raw.Conn, fr, interval, fb.poke)
	s := &stream{
		Emitter: r.config.emitter(r.writer, &r.known), config: r.config, side: r.side, relations: map[uint32]*relation{},
		loaded: r.resume.Loaded, encoded: encodeLoads(r.resume.Loaded), needLoad: r.config.Snapshot != SnapshotNoData, resume: r.resume.LSN,
		previous: r.resume.Commit, marked: r.resume.LSN, markedAt: time.Now(), idleEvery: interval, committed: r.committedEvents, emptied: &r.truncated,
		parking: r.parking,
	}
	s.Where = func() string {
		commit := s.Pos.Commit
		if s.kept.writing {
			commit = s.kept.tx.commit
		}
		return fmt.Sprintf("%s of the transaction that committed at %s", lsn(s.Meta.LSN), lsn(commit))
	}
	if s.previous != 0 {
		s.ended = r.resume.LSN
	}
	if r.loader != nil {
		s.Events = uint64(r.loader.rows.Load())
		s.seen.Store(s.Events)
	}
	if r.config.capturesMessages() {
		if s.messages, err = event.NewMessageEncoder(r.config.Event); err != nil {
			_ = raw.Conn.Close()
			return err
		}
	}
	s.Touch()
	r.mu.Lock()
	r.feedback, r.receiver, r.stream = fb, in, s
	r.mu.Unlock()
	r.log.Info("streaming", "slot", r.config.Slot, "from", r.resume.LSN.String())

	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return fb.run(ctx) })
	g.Go(func() error { return in.run(ctx) })
	g.Go(func() error { return s.run(ctx, in) })
	g.Go(func() error { return r.watchWAL(ctx, in, fb) })
	parked := r.parking.Names()
	g.Go(func() error { return r.watchTables(ctx, parked) })
	if r.config.HeartbeatQuery != "" {
		g.Go(func() error { return r.heartbeatQuery(ctx) })
	}
	g.Go(func() error { // a blocked read or write ends with its connection
		<-ctx.Done()
		_ = fb.send(false) // what was committed last; the connection may be gone already
		_ = raw.Conn.Close()
		return ctx.Err()
	})
	return r.streamError(g.Wait())
}

// emitter is one of this connector's.
func (c *Config) emitter(w *connectors.Writer, known *sync.Map) connectors.Emitter {
	return connectors.Emitter{Settings: &c.Settings, Writer: w, Known: known}
}

// streamError tells what a restart cannot mend.
func (r *run) streamError(err error) error {
	var pg *pgconn.PgError
	if err == nil || connectors.IsFault(err) || !errors.As(err, &pg) {
		return err
	}
	switch pg.Code {
	case "42704": // undefined object: the slot, or the publication in the catalog that the slot decodes with (P5)
		return &connectors.Fault{
			Problem: "replication cannot go on", Err: err,
			Remedy: fmt.Sprintf("if publication %s was dropped or created after slot %s: SELECT pg_drop_replication_slot(%s), delete topic %s.position (`rowtrail topics delete`) and restart the connector (`rowtrail connectors restart`): it loads its tables again",
				r.config.Publication, r.config.Slot, quoteLiteral(r.config.Slot), r.config.Prefix),
		}
	case "55000": // object not in prerequisite state: wal_level, or a slot that was invalidated (P15)
		return r.config.gap(r.resume.LSN, pg.Message)
	case "58P01": // a WAL segment is gone
		return r.config.gap(r.resume.LSN, pg.Message)
	case "42501":
		return &connectors.Fault{Problem: "the role may not replicate", Err: err, Remedy: "ALTER ROLE " + quoteIdent(r.config.conn.User) + " REPLICATION"}
	}
	return err
}

// heartbeat writes the heartbeat record.
func (s *stream) heartbeat(ctx context.Context) error {
	if err := s.Heartbeat(ctx); err != nil {
		return err
	}
	if !s.open {
		s.mark(s.marked, s.Now.UnixMicro(), false)
	}
	return nil
}

// heartbeatQuery runs heartbeat.action.query on a connection of its own. A failure is logged: it is the user's statement.
func (r *run) heartbeatQuery(ctx context.Context) error {
	ticker := time.NewTicker(r.config.HeartbeatInterval)
	defer ticker.Stop()
	var conn *pgconn.PgConn
	defer func() {
		if conn != nil {
			closeConn(conn)
		}
	}()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
		err := func() (err error) {
			ctx, cancel := context.WithTimeout(ctx, queryTimeout)
			defer cancel()
			if conn == nil || conn.IsClosed() {
				if conn, err = r.config.dial(ctx); err != nil {
					return err
				}
			}
			return execute(ctx, conn, r.config.HeartbeatQuery)
		}()
		if err != nil && ctx.Err() == nil {
			r.log.Warn("heartbeat.action.query failed", "error", err)
		}
	}
}
