package mysql

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/rowtrail/rowtrail/connectors"
	"github.com/rowtrail/rowtrail/connectors/mysql/binlog"
	"github.com/rowtrail/rowtrail/connectors/mysql/charset"
	"github.com/rowtrail/rowtrail/connectors/mysql/chunks"
	"github.com/rowtrail/rowtrail/connectors/mysql/ddl"
	"github.com/rowtrail/rowtrail/connectors/mysql/rows"
	"github.com/rowtrail/rowtrail/log/sleep"
)

const (
	// maxLost is how many chunks in a row may lose their connection before the run ends, to be tried again after a while.
	maxLost = 5
	// maxOdd is how often in a row a table may lack what the catalog said it had, oddPause how long each time waits: the statement
	// that changed it is on its way in the stream.
	maxOdd   = 60
	oddPause = time.Second
	// lockPause is how long a table without a key waits that could not be locked in time.
	lockPause = 30 * time.Second
)

// loader loads tables beside the stream, in chunks between watermarks: see package chunks. It belongs to the stream's goroutine, but
// for its workers, which only read.
type loader struct {
	run     *run
	load    *chunks.Load
	marks   chunks.Marks
	tables  map[string]*connectors.Table
	tasks   chan *chunks.Task // nil: the worker's session is not needed for now
	results chan loaded
	out     int // tasks that workers have
	lost    int // connections, one after the other
	odd     map[string]int
	rows    int64 // told, since nothing was to be loaded
	total   int   // tables, likewise
	about   int64 // rows that the server estimates, likewise
	began   time.Time

	// held are the tables whose rows are in the log: those that were loaded, and those that the stream has had since they were created.
	held  tableSet
	left  tableSet            // that were dropped or renamed in this run: their topics hold rows
	fresh []ddl.TableName     // that join at the start
	dirty bool                // load or held are not what the last mark has
	asked []connectors.Signal // by the transaction that is read

	snapshots map[*chunks.Task]*session // of tables without a key
	lockAt    time.Time                 // before it none of them is tried again
	pinned    *session                  // all of them are read in its snapshot
}

// loaded is a chunk that was read.
type loaded struct {
	task *chunks.Task
	err  error
}

// newLoader prepares the load: what the resume point tells of, and captured tables whose rows are not in the log.
func (r *run) newLoader(ctx context.Context) (*loader, error) {
	l := r.chunkReader()
	p := r.resume.point
	var err error
	if l.held, err = parseTableSet(p.held); err != nil {
		return nil, err
	}
	if p.load != nil && !r.again() {
		if err := l.restore(ctx, p.load); err != nil {
			return nil, fmt.Errorf("go on with the load: %w", err)
		}
	}
	for name := range l.held {
		if !r.config.captures(name.Database, name.Table) { // what it misses meanwhile is known only by loading it again
			delete(l.held, name)
			l.dirty = true
		}
	}
	if p.held == nil && !r.fresh { // the resume point is from before tables were counted
		for _, t := range r.tables {
			if !l.load.Waits(t.String()) {
				l.hold(t.id())
			}
		}
	}
	return l, l.join(ctx, r.tables)
}

// chunkReader is a loader of no tables.
func (r *run) chunkReader() *loader {
	n := r.config.SnapshotThreads
	l := &loader{
		run: r, load: chunks.NewLoad(chunks.Options{Parallel: n}), tables: map[string]*connectors.Table{}, began: time.Now(),
		tasks: make(chan *chunks.Task, n), results: make(chan loaded, n), snapshots: map[*chunks.Task]*session{},
		held: tableSet{}, left: tableSet{}, odd: map[string]int{},
		marks: chunks.Marks{MariaDB: r.config.MariaDB, GTIDs: r.server.gtids(), Status: "SHOW MASTER STATUS", Server: r.server.identity()},
	}
	if !r.config.MariaDB && r.server.number >= 80200 {
		l.marks.Status = "SHOW BINARY LOG STATUS"
	}
	return l
}

// began says that the load of this start of snapshot.mode always is in the log.
func (r *run) began() { r.begun, r.always = true, false }

// again tells whether all tables are to be loaded whatever was loaded before.
func (r *run) again() bool { return r.fresh || r.always }

// restore takes up a load that another run left.
func (l *loader) restore(ctx context.Context, token []byte) error {
	err := l.load.Restore(token, func(database, name, filter string) (*chunks.Plan, error) {
		if !l.run.config.captures(database, name) || l.run.parking.Has(database+"."+name) { // the latter is loaded when it is unparked
			l.dirty = true
			return nil, nil
		}
		now, err := l.run.lookUp(ctx, database, name)
		if now == nil || err != nil {
			return nil, err
		}
		l.about += now.rows
		return l.plan(ctx, now, filter)
	})
	l.total = len(l.load.Tables())
	l.dirty = l.dirty || l.total == 0
	return err
}

// join adds the tables that are to be loaded at the start.
func (l *loader) join(ctx context.Context, tables []*table) error {
	for _, t := range tables {
		if l.run.parking.Has(t.String()) || l.load.Waits(t.String()) || l.held[t.id()] && !l.run.again() {
			continue
		}
		switch {
		case l.run.config.Snapshot == SnapshotNoData:
			continue
		case !l.run.config.loads.Match(t.String()): // streamed only
			l.hold(t.id())
			continue
		}
		delete(l.held, t.id())
		if err := l.add(ctx, t, "", ""); err != nil {
			return err
		}
		l.fresh = append(l.fresh, t.id())
	}
	return nil
}

func (l *loader) hold(name ddl.TableName) {
	l.held[name], l.dirty = true, true
}

// add puts a table behind those that wait. signal is "" of a table whose rows are not in the log.
func (l *loader) add(ctx context.Context, t *table, filter, signal string) error {
	p, err := l.plan(ctx, t, filter)
	if err == nil {
		err = l.load.Add(p, signal)
	}
	if err != nil {
		return err
	}
	if l.total == 0 {
		l.began = time.Now()
	}
	l.total++
	l.about += t.rows
	l.dirty = true
	return nil
}

// plan says how a table is read, by the columns that its events have. filter is a condition that rows must meet, or "".
func (l *loader) plan(ctx context.Context, now *table, filter string) (*chunks.Plan, error) {
	if err := l.run.history.describe(ctx, now); err != nil {
		return nil, err
	}
	columns, err := l.run.config.columnsOf(now)
	if err != nil {
		return nil, err
	}
	t, err := l.run.config.NewTable(0, now.schema, now.name, columns)
	if err != nil {
		return nil, err
	}
	if err := l.run.writer.EnsureTable(ctx, &t); err != nil {
		return nil, err
	}
	l.tables[t.Collection] = &t
	names := make([]string, len(columns))
	for i := range columns {
		names[i] = columns[i].Name
	}
	p := chunks.NewPlan(chunks.Table{Database: now.schema, Name: now.name, Columns: names, Keys: now.keys}, filter, "")
	p.Locking = l.marks.Locking()
	return p, nil
}

// work reads chunks in a session of its own, which it opens for the first one and again when it broke.
func (l *loader) work(ctx context.Context) error {
	var s *session
	var reader *rows.Session
	stop := func() bool { return true }
	end := func() {
		stop()
		s.close()
		s = nil
	}
	defer end()
	for {
		var t *chunks.Task
		select {
		case <-ctx.Done():
			return ctx.Err()
		case t = <-l.tasks:
		}
		if t == nil { // all is loaded
			end()
			continue
		}
		if s == nil {
			var err error
			if s, reader, err = l.session(ctx); err != nil {
				if ctx.Err() != nil || connectors.IsFault(err) {
					return err
				}
				s = nil
				l.give(t, fmt.Errorf("%w: %w", chunks.ErrLost, err))
				continue
			}
			stop = context.AfterFunc(ctx, s.close) // ends a blocked read
		}
		err := t.Read(reader, l.marks.Marker(s.texts(ctx)))
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			if err = s.after(ctx, err); errors.Is(err, chunks.ErrLost) {
				end()
			}
			if odd(err, t.Plan.Filter) && !sleep.For(ctx, oddPause) {
				return ctx.Err()
			}
		}
		l.give(t, err)
	}
}

// give hands a chunk back.
func (l *loader) give(t *chunks.Task, err error) {
	l.results <- loaded{t, err} // there is room for each task
	l.run.wake()
}

// after looks at a session whose chunk failed: what broke the connection is ErrLost, and of another error no transaction, with its
// locks on the table's definition, stays open.
func (s *session) after(ctx context.Context, err error) error {
	timed, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	broken := s.execute(timed, "ROLLBACK")
	if broken == nil {
		broken = s.conn.SetDeadline(time.Time{})
	}
	if broken == nil {
		return err
	}
	return fmt.Errorf("%w: %w", chunks.ErrLost, err)
}

// odd tells that a table is not what the catalog said: it was changed since. What is wrong with a filter is not that.
func odd(err error, filter string) bool {
	switch code(err) {
	case erNoSuchTable, erNoSuchKey:
		return true
	case erBadField:
		return filter == ""
	}
	return false
}

// wake has the stream look for what waits beside it where nothing comes from the source.
func (r *run) wake() {
	select {
	case r.receiver.chunks <- &chunk{}:
	default: // it has enough to do
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
	return s, s.reader(), nil
}

// reader reads rows in a session.
func (s *session) reader() *rows.Session {
	charsets := &charset.Decoders{}
	return rows.NewSession(s.conn, func(collation uint32) (binlog.Charset, error) {
		name, _ := charset.OfCollation(uint64(collation))
		return decoderOf(charsets, name, collation), nil
	})
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

// done takes a chunk back that was read.
func (l *loader) done(d loaded) error {
	l.out--
	p := d.task.Progress
	err := l.load.Done(d.task, d.err)
	table := d.task.Plan.Table
	var column *binlog.ColumnError
	switch {
	case d.err == nil:
		l.lost = 0
		delete(l.odd, table.Collection())
		return err
	case errors.Is(d.err, chunks.ErrLost):
		if l.lost++; l.lost > maxLost {
			return fmt.Errorf("%d chunks in a row: %w", l.lost, d.err)
		}
		l.run.log.Info("a chunk is read again", "table", table.Collection(), "error", d.err)
		return nil
	case err == nil:
		return nil
	case odd(err, d.task.Plan.Filter) && l.odd[table.Collection()] < maxOdd:
		l.odd[table.Collection()]++
		return nil
	case p.Signal != "": // such as a mistake in its filter: that is no fault of the stream's
		l.load.Stop(func(o *chunks.Progress) bool { return o == p })
		l.dirty = true
		l.run.signalled(connectors.SignalResult{
			ID: p.Signal, Type: connectors.SignalExecute, Tables: []string{table.Collection()}, Reason: connectors.SignalFailed, Error: err.Error(),
		})
		return nil
	case errors.As(err, &column):
		return columnFault("a row of table "+table.Collection()+", in the load,", column)
	case denied(err):
		return &connectors.Fault{
			Problem: "table " + table.Collection() + " cannot be read", Err: err, Collection: table.Collection(),
			Remedy: "GRANT SELECT ON " + quoteIdent(table.Database) + "." + quoteIdent(table.Name) + " TO " + l.run.config.account(),
		}
	}
	return err
}

// report shows how far the load is.
func (l *loader) report(current string, p *chunks.Progress) {
	if l.load.Empty() {
		l.run.tracker.Update(func(st *connectors.Status) { st.Load = nil })
		return
	}
	status := connectors.LoadStatus{
		Tables: l.total, TablesDone: l.total - len(l.load.Tables()), Rows: l.rows, RowsEstimated: l.about, Current: current, Paused: l.load.Paused(),
	}
	if p != nil {
		status.Signal = p.Signal
	}
	l.run.tracker.Update(func(st *connectors.Status) {
		if current == "" && st.Load != nil {
			status.Current, status.Signal = st.Load.Current, st.Load.Signal
		}
		st.Load = &status
	})
}

// initial tells whether tables wait whose rows are not in the log.
func (l *loader) initial() bool {
	return slices.ContainsFunc(l.load.Tables(), func(p *chunks.Progress) bool { return p.Signal == "" })
}
