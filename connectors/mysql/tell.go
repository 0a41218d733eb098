package mysql

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/rowtrail/rowtrail/connectors"
	"github.com/rowtrail/rowtrail/connectors/event"
	"github.com/rowtrail/rowtrail/connectors/mysql/binlog"
	"github.com/rowtrail/rowtrail/connectors/mysql/chunks"
	"github.com/rowtrail/rowtrail/connectors/mysql/ddl"
)

// errLoaded ends a run of snapshot.mode initial_only.
var errLoaded = errors.New("all tables are loaded")

// What events say of themselves in source.snapshot.
const (
	snapshotInitial = "true"
	snapshotSignal  = "incremental"
)

// here is where the stream stands between two transactions. The set is for what follows; to compare, the place is enough.
func (s *stream) here(withSet bool) (chunks.Point, error) {
	at := place{s.file, s.end}
	if n, m := fileNumber(at.file), fileNumber(s.point.at.file); at.file == "" || n < m || n == m && at.pos < s.point.at.pos {
		at = s.point.at // the dump repeats where it begins
	}
	p := chunks.Point{Server: s.run.server.identity(), File: at.file, Pos: at.pos}
	if !withSet || s.config.MariaDB {
		return p, nil
	}
	set, err := s.point.executed()
	p.GTIDs = set
	return p, err
}

// boundary takes what is asked for between two transactions, tells the chunks that may be told there, and begins others.
func (s *stream) boundary(ctx context.Context) error {
	if s.group.open {
		return nil
	}
	if s.repair != nil {
		if err := s.repairStep(ctx); err != nil {
			return err
		}
	}
	l := s.loader
	if err := s.parking.Boundary(ctx, &s.Emitter, s); err != nil {
		return err
	}
	if len(s.run.asks) > 0 {
		if err := s.takeAsks(ctx); err != nil {
			return err
		}
	}
	if l.total == 0 && l.out == 0 && !l.dirty { // nothing is being loaded
		return nil
	}
	for {
		select {
		case d := <-l.results:
			if err := l.done(d); err != nil {
				return err
			}
			continue
		default:
		}
		break
	}
	here, err := s.here(false)
	if err != nil {
		return err
	}
	if here.File == "" {
		return nil // the dump has not told yet where it is
	}
	for _, t := range slices.Clone(l.load.Boundary(here)) {
		if err := s.tell(ctx, t); err != nil {
			return err
		}
	}
	if l.dirty {
		if err := s.markLoad(ctx); err != nil {
			return err
		}
	}
	if l.load.Empty() {
		return s.complete(ctx)
	}
	if l.out >= cap(l.tasks) {
		return nil
	}
	return s.next(ctx)
}

// next begins chunks.
func (s *stream) next(ctx context.Context) error {
	l := s.loader
	here, err := s.here(true)
	if err != nil {
		return err
	}
	later := 0
	for t := l.load.Next(here); t != nil; t = l.load.Next(here) {
		if !t.Whole() {
			l.out++
			l.tasks <- t // there is room for each
			continue
		}
		if time.Now().Before(l.lockAt) {
			l.load.Later(t)
			if later++; later >= len(l.load.Tables()) {
				return nil
			}
			continue
		}
		if err := l.whole(ctx, t); err != nil {
			return err
		}
	}
	return nil
}

// complete ends a load when all is told.
func (s *stream) complete(ctx context.Context) error {
	l := s.loader
	if l.total == 0 {
		return nil
	}
	s.run.log.Info("load ends", "tables", l.total, "rows", l.rows, "took", time.Since(l.began).Round(time.Millisecond))
	l.total, l.rows, l.about = 0, 0, 0
	l.load.Resume() // a pause is of what was being loaded
	if s.run.config.Snapshot == SnapshotInitialOnly {
		if err := s.flush(ctx); err != nil {
			return err
		}
		return errLoaded
	}
	for range cap(l.tasks) - len(l.tasks) {
		select {
		case l.tasks <- nil: // nothing needs the workers' sessions now
		default:
		}
	}
	s.run.tracker.SetState(connectors.StateStreaming, nil)
	return nil
}

// flush waits until the log has everything up to the last forced mark.
func (s *stream) flush(ctx context.Context) error {
	if err := s.Send(ctx); err != nil {
		return err
	}
	return s.Writer.Drain(ctx)
}

// tell writes the rows of a chunk, and what the load has to go on from, in one log transaction.
func (s *stream) tell(ctx context.Context, t *chunks.Task) error {
	l := s.loader
	collection := t.Plan.Table.Collection()
	table := l.tables[collection]
	s.loadPlace()
	if t.Progress.Signal != "" {
		s.Meta.Snapshot = snapshotSignal
	}
	if err := s.SchemaOnce(ctx, table); err != nil {
		return err
	}
	n := 0
	each := func(row event.Row) error {
		if err := s.Room(ctx); err != nil {
			return err
		}
		n++
		s.Events++
		if err := s.told(table, row); err != nil {
			return err
		}
		return s.Change(table, event.OpRead, nil, row, row, nil)
	}
	var err error
	if t.Whole() {
		snapshot := l.snapshots[t]
		delete(l.snapshots, t)
		stop := context.AfterFunc(ctx, snapshot.close)
		defer stop()
		if snapshot != l.pinned {
			defer snapshot.close()
		}
		if err := snapshot.conn.SetDeadline(time.Time{}); err != nil {
			return err
		}
		if err = t.Stream(snapshot.reader(), each); err == nil && snapshot == l.pinned {
			err = snapshot.execute(ctx, "ROLLBACK TO SAVEPOINT "+lockPoint)
		}
	} else {
		err = t.Each(each)
	}
	var column *binlog.ColumnError
	if errors.As(err, &column) {
		return columnFault("a row of table "+collection+", in the load,", column)
	}
	if err != nil {
		return err
	}
	if l.load.Told(t) && t.Progress.Signal == "" {
		l.hold(ddl.TableName{Database: t.Plan.Table.Database, Table: t.Plan.Table.Name})
	}
	l.rows += int64(n)
	l.report(collection, t.Progress)
	return s.markLoad(ctx)
}

// markLoad makes how far the load is a part of the position.
func (s *stream) markLoad(ctx context.Context) error {
	if err := s.keepLoad(); err != nil {
		return err
	}
	return s.placeMark(ctx, true)
}

// keepLoad has the next mark hold how far the load is.
func (s *stream) keepLoad() error {
	l := s.loader
	next := *s.point
	if next.load = nil; !l.load.Empty() {
		next.load = l.load.AppendToken(nil)
	}
	if l.dirty || next.held == nil {
		var err error
		if next.held, err = l.held.json(); err != nil {
			return err
		}
	}
	l.dirty = false
	s.point = &next
	return nil
}

// turn takes what the transaction that has ended asked of the load, as part of the position after it. It tells whether that is to be
// committed at once.
func (s *stream) turn(ctx context.Context) (bool, error) {
	l := s.loader
	for _, signal := range l.asked {
		result, err := s.signal(ctx, signal)
		if err != nil {
			return false, err
		}
		s.run.signalled(result)
	}
	l.asked = l.asked[:0]
	if !l.dirty {
		return false, nil
	}
	if err := s.keepLoad(); err != nil {
		return false, err
	}
	l.report("", nil)
	return true, nil
}

// loadPlace puts what follows at the load's place: after the last transaction.
func (s *stream) loadPlace() {
	s.state.loading = true
	now := s.Now.UnixMicro()
	s.Meta = event.Meta{TsMs: s.Meta.TsMs, SourceTsUs: now, Snapshot: snapshotInitial, Binlog: event.Binlog{File: s.file, Pos: s.end}}
	s.Pos = event.Position{Commit: s.point.commits, CommitTime: now}
}

// startLoad begins with a truncate of the topics that hold rows: what was deleted at the source since is in no change and in no chunk.
func (s *stream) startLoad(ctx context.Context) error {
	l := s.loader
	if !l.load.Empty() {
		if l.initial() {
			s.run.tracker.SetState(connectors.StateLoading, nil)
		}
		s.run.log.Info("load begins", "tables", l.total, "at", s.point.String())
		l.report("", nil)
	}
	if s.run.fresh {
		if err := s.run.clearRaw(ctx, &s.Emitter); err != nil {
			return err
		}
	}
	fresh := l.fresh
	l.fresh = nil
	for _, name := range fresh {
		t := l.tables[name.Database+"."+name.Table]
		holds, err := s.Writer.HoldsRecords(ctx, t.Topic)
		if err != nil {
			return err
		}
		if !holds {
			continue
		}
		if err := s.clear(ctx, t); err != nil {
			return err
		}
	}
	if l.dirty || s.run.fresh || s.run.mending {
		if err := s.markLoad(ctx); err != nil {
			return err
		}
	}
	if s.run.always {
		if err := s.flush(ctx); err != nil { // from now on a failure goes on with the load
			return err
		}
		s.run.began()
	}
	return nil
}

// clear writes a truncate at the load's place.
func (s *stream) clear(ctx context.Context, t *connectors.Table) error {
	s.run.log.Info("table is loaded again: a truncate comes first", "table", t.Collection, "topic", t.Topic)
	s.loadPlace()
	if err := s.SchemaOnce(ctx, t); err != nil {
		return err
	}
	if err := s.Room(ctx); err != nil {
		return err
	}
	return s.Truncate(t)
}

// touch tells the load of a change that passes in the stream.
func (s *stream) touch(ctx context.Context, l *loader, w *chunks.Window, r *relation, op event.Op) error {
	plan := l.tables[r.Collection]
	same := slices.EqualFunc(plan.Schema.Columns, r.Schema.Columns, func(a, b event.Column) bool { return a.Name == b.Name })
	if !same { // the columns changed: the chunk is read again
		w.Abandon()
		return nil
	}
	before, after := r.before, r.after
	switch op {
	case event.OpCreate:
		before = nil
	case event.OpDelete:
		after = nil
	}
	if err := w.Change(before, after); err != nil {
		return err
	}
	for w.Full() { // the stream waits for the chunk
		select {
		case <-ctx.Done():
			return ctx.Err()
		case d := <-l.results:
			if err := l.done(d); err != nil {
				return err
			}
		}
	}
	return nil
}
