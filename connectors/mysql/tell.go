package mysql

import (
	"context"
	"slices"
	"time"

	"github.com/rowtrail/rowtrail/connectors"
	"github.com/rowtrail/rowtrail/connectors/event"
	"github.com/rowtrail/rowtrail/connectors/mysql/binlog"
	"github.com/rowtrail/rowtrail/connectors/mysql/charset"
	"github.com/rowtrail/rowtrail/connectors/mysql/chunks"
	"github.com/rowtrail/rowtrail/connectors/mysql/ddl"
	"github.com/rowtrail/rowtrail/connectors/mysql/rows"
)

// tell writes the rows of a chunk, and what the load has to go on from, in one log transaction.
func (s *stream) tell(ctx context.Context, t *chunks.Task) error {
	l := s.loader
	table := l.tables[t.Plan.Table.Collection()]
	s.loadPlace()
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
		return s.Change(table, event.OpRead, nil, row, row, nil)
	}
	var err error
	if t.Whole() {
		snapshot := l.snapshots[t]
		delete(l.snapshots, t)
		defer snapshot.close()
		stop := context.AfterFunc(ctx, snapshot.close)
		defer stop()
		if err := snapshot.conn.SetDeadline(time.Time{}); err != nil {
			return err
		}
		charsets := &charset.Decoders{}
		err = t.Stream(rows.NewSession(snapshot.conn, func(collation uint32) (binlog.Charset, error) {
			name, _ := charset.OfCollation(uint64(collation))
			return decoderOf(charsets, name, collation), nil
		}), each)
	} else {
		err = t.Each(each)
	}
	if err != nil {
		return err
	}
	l.load.Told(t)
	l.rows += int64(n)
	left := l.load.Tables()
	s.run.tracker.Update(func(st *connectors.Status) {
		st.Load = &connectors.LoadStatus{Tables: l.total, TablesDone: l.total - len(left), Rows: l.rows, Current: table.Collection}
	})
	return s.markLoad(ctx)
}

// markLoad makes how far the load is a part of the position.
func (s *stream) markLoad(ctx context.Context) error {
	next := *s.point
	if next.load = nil; !s.loader.load.Empty() {
		next.load = s.loader.load.AppendToken(nil)
	}
	s.point = &next
	return s.placeMark(ctx, true)
}

// loadPlace puts what follows at the load's place: after the last transaction.
func (s *stream) loadPlace() {
	now := s.Now.UnixMicro()
	s.Meta = event.Meta{TsMs: s.Meta.TsMs, SourceTsUs: now, Snapshot: "true", Binlog: event.Binlog{ServerID: s.run.server.serverID(), File: s.file, Pos: s.end}}
	s.Pos = event.Position{Commit: s.point.commits, CommitTime: now}
}

// startLoad begins with a truncate of the topics that hold rows: what was deleted at the source since is in no change and in no chunk.
func (s *stream) startLoad(ctx context.Context) error {
	l := s.loader
	if l == nil {
		return nil
	}
	s.run.tracker.SetState(connectors.StateLoading, nil)
	s.run.log.Info("initial load begins", "tables", l.total, "at", s.point.String())
	if s.run.fresh {
		for _, p := range l.load.Tables() {
			t := l.tables[p.Plan.Table.Collection()]
			holds, err := s.Writer.HoldsRecords(ctx, t.Topic)
			if err != nil {
				return err
			}
			if !holds {
				continue
			}
			s.run.log.Info("table is loaded again: a truncate comes first", "table", t.Collection, "topic", t.Topic)
			s.loadPlace()
			if err := s.SchemaOnce(ctx, t); err != nil {
				return err
			}
			if err := s.Room(ctx); err != nil {
				return err
			}
			if err := s.Truncate(t); err != nil {
				return err
			}
		}
		if err := s.markLoad(ctx); err != nil {
			return err
		}
	}
	return s.boundary(ctx)
}

// touch tells the load of a change that passes in the stream.
func (s *stream) touch(ctx context.Context, w *chunks.Window, r *relation, op event.Op) error {
	plan := s.loader.tables[r.Collection]
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
		case d := <-s.loader.results:
			if err := s.loader.done(d); err != nil {
				return err
			}
		}
	}
	return nil
}

// reshape tells the load of a statement that empties, alters, replaces or drops tables.
func (s *stream) reshape(ctx context.Context, effect *ddl.Effect) error {
	if s.loader == nil {
		return nil
	}
	names := slices.Clone(effect.Tables)
	for _, r := range effect.Renames {
		names = append(names, r.From, r.To)
	}
	for _, name := range names {
		collection := name.Database + "." + name.Table
		if s.loader.tables[collection] == nil {
			continue
		}
		if effect.Kind == ddl.TruncateTable {
			if w := s.loader.load.Window(collection); w != nil {
				w.Truncate()
			}
			continue
		}
		now, err := s.run.lookUp(ctx, name.Database, name.Table)
		if err != nil {
			return err
		}
		if now == nil {
			s.loader.load.Stop(func(p *chunks.Progress) bool { return p.Plan.Table.Collection() == collection })
			continue
		}
		p, err := s.loader.plan(ctx, now)
		if err != nil {
			return err
		}
		s.loader.load.Replan(collection, func(*chunks.Progress) *chunks.Plan { return p })
	}
	return nil
}
