package mysql

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/rowtrail/rowtrail/connectors"
	"github.com/rowtrail/rowtrail/connectors/mysql/binlog"
	"github.com/rowtrail/rowtrail/connectors/mysql/charset"
	"github.com/rowtrail/rowtrail/connectors/mysql/chunks"
	"github.com/rowtrail/rowtrail/connectors/mysql/rows"
)

// loader loads tables beside the stream, in chunks between watermarks: see package chunks. It belongs to the stream's goroutine, but
// for its workers, which only read.
type loader struct {
	run     *run
	load    *chunks.Load
	marks   chunks.Marks
	tables  map[string]*connectors.Table
	tasks   chan *chunks.Task
	results chan loaded
	out     int // tasks that workers have
	total   int
	rows    int64
	began   time.Time

	snapshots map[*chunks.Task]*session // of tables without a key
}

// loaded is a chunk that was read.
type loaded struct {
	task *chunks.Task
	err  error
}

// newLoader prepares the load that the resume point tells of, or of all captured tables where the connector begins; nil if there is none.
func (r *run) newLoader(ctx context.Context) (*loader, error) {
	p := r.resume.point
	if r.config.Snapshot == SnapshotNoData && p.load == nil || !r.fresh && p.load == nil {
		return nil, nil
	}
	n := r.config.SnapshotThreads
	l := &loader{
		run: r, load: chunks.NewLoad(chunks.Options{Parallel: n}), tables: map[string]*connectors.Table{}, began: time.Now(),
		tasks: make(chan *chunks.Task, n), results: make(chan loaded, n), snapshots: map[*chunks.Task]*session{},
		marks: chunks.Marks{MariaDB: r.config.MariaDB, GTIDs: r.server.gtids(), Status: "SHOW MASTER STATUS", Server: r.server.identity()},
	}
	if !r.config.MariaDB && r.server.number >= 80200 {
		l.marks.Status = "SHOW BINARY LOG STATUS"
	}
	plan := func(now *table) (*chunks.Plan, error) {
		if now == nil {
			return nil, nil
		}
		return l.plan(ctx, now)
	}
	if p.load != nil {
		err := l.load.Restore(p.load, func(database, name, _ string) (*chunks.Plan, error) {
			now, err := r.lookUp(ctx, database, name)
			if err != nil {
				return nil, err
			}
			return plan(now)
		})
		if err != nil {
			return nil, fmt.Errorf("go on with the load: %w", err)
		}
		l.total = len(l.load.Tables())
		return l, nil
	}
	for _, t := range r.tables {
		made, err := plan(t)
		if err == nil {
			err = l.load.Add(made, "")
		}
		if err != nil {
			return nil, err
		}
	}
	l.total = len(l.load.Tables())
	return l, nil
}

// plan says how a table is read, by the columns that its events have.
func (l *loader) plan(ctx context.Context, now *table) (*chunks.Plan, error) {
	columns, err := l.run.config.columnsOf(now)
	if err != nil {
		return nil, err
	}
	t, err := l.run.config.NewTable(0, now.schema, now.name, columns)
	if err != nil {
		return nil, err
	}
	if t.Partitions, err = l.run.writer.EnsureTopic(ctx, t.Topic, connectors.TopicData); err != nil {
		return nil, err
	}
	l.tables[t.Collection] = &t
	names := make([]string, len(columns))
	for i := range columns {
		names[i] = columns[i].Name
	}
	p := chunks.NewPlan(chunks.Table{Database: now.schema, Name: now.name, Columns: names, Keys: now.keys}, "", "")
	p.Locking = l.marks.Locking()
	return p, nil
}

// work reads chunks in a session of its own.
func (l *loader) work(ctx context.Context) error {
	var s *session
	var reader *rows.Session
	defer func() { s.close() }()
	for {
		var t *chunks.Task
		select {
		case <-ctx.Done():
			return ctx.Err()
		case t = <-l.tasks:
		}
		if s == nil {
			var err error
			if s, reader, err = l.session(ctx); err != nil {
				return err
			}
			stop := context.AfterFunc(ctx, s.close) // ends a blocked read
			defer stop()
		}
		err := t.Read(reader, l.marks.Marker(s.texts(ctx)))
		if ctx.Err() != nil {
			return ctx.Err()
		}
		l.results <- loaded{t, err} // there is room for each task
		select {
		case l.run.receiver.chunks <- &chunk{}: // wakes the stream where nothing comes
		default:
		}
	}
}

// session is one that reads rows.
func (l *loader) session(ctx context.Context) (*session, *rows.Session, error) {
	s, err := l.run.config.dial(ctx)
	if err != nil {
		return nil, nil, err
	}
	for _, sql := range append(rows.Settings(l.run.config.MariaDB), l.marks.Settings()...) {
		if err := s.execute(ctx, sql); err != nil {
			s.close()
			return nil, nil, fmt.Errorf("prepare a session for the load: %w", err)
		}
	}
	if err := s.conn.SetDeadline(time.Time{}); err != nil {
		s.close()
		return nil, nil, err
	}
	charsets := &charset.Decoders{}
	return s, rows.NewSession(s.conn, func(collation uint32) (binlog.Charset, error) {
		name, _ := charset.OfCollation(uint64(collation))
		return decoderOf(charsets, name, collation), nil
	}), nil
}

// texts runs statements for package chunks.
func (s *session) texts(ctx context.Context) chunks.Query {
	return func(statement string) ([][]string, error) {
		found, err := s.query(ctx, statement)
		list := make([][]string, len(found))
		for i, r := range found {
			for _, v := range r {
				list[i] = append(list[i], string(v))
			}
		}
		return list, err
	}
}

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

// boundary tells the chunks that may be told between two transactions, and begins others.
func (s *stream) boundary(ctx context.Context) error {
	l := s.loader
	if l == nil || s.group.open {
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
	if l.load.Empty() {
		s.run.log.Info("initial load ends", "tables", l.total, "rows", l.rows, "took", time.Since(l.began).Round(time.Millisecond))
		s.run.tracker.SetState(connectors.StateStreaming, nil)
		s.loader = nil
		return nil
	}
	if l.out >= cap(l.tasks) {
		return nil
	}
	if here, err = s.here(true); err != nil {
		return err
	}
	for t := l.load.Next(here); t != nil; t = l.load.Next(here) {
		if t.Whole() {
			if err := l.whole(ctx, t); err != nil {
				return err
			}
			continue
		}
		l.out++
		l.tasks <- t
	}
	return nil
}

func (l *loader) done(d loaded) error {
	l.out--
	err := l.load.Done(d.task, d.err)
	if denied(err) {
		table := d.task.Plan.Table
		return &connectors.Fault{
			Problem: "table " + table.Collection() + " cannot be read", Err: err,
			Remedy: "GRANT SELECT ON " + quoteIdent(table.Database) + "." + quoteIdent(table.Name) + " TO " + l.run.config.account(),
		}
	}
	return err
}

// whole begins the load of a table without a key: a snapshot of it at a position, under a lock that is held that long. The stream waits.
func (l *loader) whole(ctx context.Context, t *chunks.Task) error {
	lock, err := l.run.config.dial(ctx)
	if err != nil {
		return err
	}
	defer lock.close() // ends the lock, too
	s, _, err := l.session(ctx)
	if err != nil {
		return err
	}
	way := chunks.LockTable(&t.Plan.Table)
	for _, sql := range way.Take {
		if err := lock.execute(ctx, sql); err != nil {
			s.close()
			if denied(err) {
				return &connectors.Fault{Problem: "table " + t.Plan.Table.Collection() + " has no key, and the user may not lock it", Err: err, Remedy: l.run.config.grantSQL(way.Needs)}
			}
			return fmt.Errorf("load table %s: %w", t.Plan.Table.Collection(), err)
		}
	}
	err = s.execute(ctx, chunks.Snapshot)
	var end binlogStatus
	if err == nil {
		end, err = lock.binlogStatus(ctx)
	}
	if err != nil {
		s.close()
		return fmt.Errorf("load table %s: %w", t.Plan.Table.Collection(), err)
	}
	l.snapshots[t] = s
	t.At(chunks.Point{Server: l.run.server.identity(), File: end.file, Pos: end.pos})
	return l.load.Done(t, nil)
}
