package mysql

import (
	"context"
	"errors"

	"github.com/rowtrail/rowtrail/connectors"
)

// capture streams from the resume point. Without one it begins where the source is now, which the log has before anything else.
func (r *run) capture(ctx context.Context) error {
	s, err := r.config.dial(ctx)
	if err != nil {
		return err
	}
	defer func() { s.close() }()
	var view *snapshots
	if r.resume == nil || r.renew {
		view, err = r.start(ctx, s)
		defer view.close()
	} else {
		err = r.goOn(ctx, s)
	}
	gap := error(nil)
	if r.config.Snapshot == SnapshotInitialOnly && errors.As(err, new(*gapError)) { // which is nothing to one that is complete
		gap, err = err, nil
	}
	if err != nil {
		return err
	}
	// Behind the position: a table that comes later is created in the stream.
	if r.tables, err = r.config.catalog(ctx, s, "", ""); err != nil {
		return err
	}
	if err := r.history.begin(ctx); err != nil {
		return err
	}
	var rest []*table // that the lock was not on
	if view != nil {
		r.tables, rest = view.rest(r.tables)
	}
	load, err := r.newLoader(ctx)
	if err != nil {
		return err
	}
	repair, err := r.newRepair(ctx, load)
	if err != nil {
		return err
	}
	st, err := r.newStream(load, repair)
	if err != nil {
		return err
	}
	if r.fresh && load.load.Empty() { // else the load's first mark is the start
		if err := st.markStart(ctx); err != nil {
			return err
		}
	}
	if view != nil {
		err := r.underSnapshots(ctx, st, view, rest)
		if errors.Is(err, errLoaded) {
			return nil
		}
		if err != nil {
			return err
		}
		s.close() // it may have been idle for longer than servers allow
		if s, err = r.config.dial(ctx); err != nil {
			return err
		}
	}
	if r.config.Snapshot == SnapshotInitialOnly && load.load.Empty() {
		return nil
	}
	if gap != nil {
		return gap
	}
	conn, err := r.startDump(ctx, s)
	if err != nil {
		return err
	}
	if !load.initial() {
		r.tracker.SetState(connectors.StateStreaming, nil)
	}
	if err := r.streaming(ctx, conn, st); !errors.Is(err, errLoaded) {
		return err
	}
	return nil
}

// start begins where the source is now: with snapshots of all tables, or for chunks beside the stream.
func (r *run) start(ctx context.Context, s *session) (view *snapshots, err error) {
	var p *point
	if r.before, err = s.beforeBegin(ctx); err != nil {
		return nil, err
	}
	if r.config.Locking != LockingNone && r.config.Snapshot != SnapshotNoData && len(r.tables) > 0 {
		if view, p, err = r.snapshots(ctx); err != nil {
			return nil, err
		}
	} else {
		status, err := s.binlogStatus(ctx)
		if err != nil {
			return nil, err
		}
		if r.server, err = s.server(ctx); err != nil { // what was executed, after the place
			return nil, err
		}
		if p, err = r.begin(ctx, s, status.place); err != nil {
			return nil, err
		}
	}
	if r.resume != nil { // the order of events goes on
		p.commits = max(p.commits, r.resume.point.commits)
	}
	r.renew = false
	r.resume, r.fresh = &resume{point: p, source: r.config.kind(), uuid: r.server.identity()}, true
	return view, nil
}

// goOn makes sure that the source has what follows the resume point.
func (r *run) goOn(ctx context.Context, s *session) error {
	if err := r.verifyOrMend(ctx, s); err != nil {
		return err
	}
	if now := r.server.identity(); r.resume.uuid != now { // places of another server say nothing here
		p := *r.resume.point
		p.at, p.seek = place{}, nil
		r.resume.uuid, r.resume.point = now, &p
	}
	return nil
}

// underSnapshots loads what snapshots of one place show, and leaves the rest to chunks beside the stream.
func (r *run) underSnapshots(ctx context.Context, st *stream, view *snapshots, rest []*table) error {
	if err := st.startLoad(ctx); err != nil {
		return err
	}
	if err := st.loadSnapshots(ctx, view); err != nil {
		return err
	}
	view.close()
	if err := st.loader.join(ctx, rest); err != nil {
		return err
	}
	if st.loader.load.Empty() {
		return st.complete(ctx)
	}
	return nil
}

// markStart makes the point where the connector begins its resume point.
func (s *stream) markStart(ctx context.Context) error {
	if err := s.keepLoad(); err != nil {
		return err
	}
	if err := s.run.clearRaw(ctx, &s.Emitter); err != nil {
		return err
	}
	if err := s.placeMark(ctx, true); err != nil {
		return err
	}
	if err := s.Send(ctx); err != nil {
		return err
	}
	return s.Writer.Drain(ctx)
}
