package postgres

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"golang.org/x/sync/errgroup"

	"github.com/rowtrail/rowtrail/connectors"
	"github.com/rowtrail/rowtrail/connectors/event"
)

const (
	// groupPages is how much of small tables shares one log transaction (64 MB of 8 kB pages).
	groupPages = 8192
	// rangePages is the size of one piece of a table; pieces are copied in parallel.
	rangePages    = 4096
	progressEvery = 10 * time.Second
	// ctidRangeVersion: before it a condition on ctid reads the whole table.
	ctidRangeVersion = 140000
)

// loader copies tables under one exported snapshot.
type loader struct {
	config  *Config
	writer  *connectors.Writer
	tracker *connectors.Tracker
	log     *slog.Logger
	version int
	// publication is what the stream reads through, nil if it was just made.
	publication *publication
	point       lsn    // of the snapshot
	name        string // of the snapshot
	timeUs      int64
	base        resume // what the marks continue
	rows        atomic.Int64
	workers     []*loadWorker
	known       *sync.Map
}

type loadWorker struct {
	*loader
	connectors.Emitter
	conn      *pgconn.PgConn
	relations map[uint32]*relation
}

// piece is a range of pages of one heap.
type piece struct {
	table    *table
	heap     partition
	from, to int64 // pages; to 0: to the end
	whole    bool
}

// run loads the tables group by group. Each group ends with a mark, so its rows and the fact that its tables are
// loaded are in the log together or not at all; the last mark says that the load is complete (P3).
func (l *loader) run(ctx context.Context, tables []*table, imported func()) error {
	var estimate float64
	for _, t := range tables {
		estimate += max(t.rows, 0)
	}
	l.tracker.SetState(connectors.StateLoading, nil)
	l.tracker.Update(func(s *connectors.Status) {
		s.Load = &connectors.LoadStatus{Tables: len(tables), RowsEstimated: int64(estimate)}
	})
	defer l.close()
	if err := l.connect(ctx); err != nil {
		return err
	}
	imported()
	stop := l.report(ctx)
	defer stop()
	loaded, done := l.base.Loaded, 0
	var skipped []*table
	var group []*table
	pages := int64(0)
	for i, t := range tables {
		if l.config.loadTables.Match(t.String()) {
			group = append(group, t)
			pages += t.pages
			if t.partitioned {
				pages += groupPages
			}
		} else {
			skipped = append(skipped, t) // streamed only: snapshot.include.collection.list leaves it out
			done++
		}
		if last := i == len(tables)-1; pages < groupPages && !last {
			continue
		}
		if err := l.group(ctx, group); err != nil {
			return err
		}
		loaded = loaded.with(append(skipped, group...), l.point)
		done += len(group)
		if err := l.mark(ctx, loaded, i == len(tables)-1); err != nil {
			return err
		}
		l.tracker.Update(func(s *connectors.Status) {
			if s.Load != nil {
				s.Load.TablesDone = done
			}
		})
		group, skipped, pages = group[:0], nil, 0
	}
	l.base.Loaded = loaded
	return nil
}

// connect opens the workers' connections and pins each to the snapshot (P4). Once that is done the exporter may go.
func (l *loader) connect(ctx context.Context) error {
	for range l.config.SnapshotThreads {
		conn, err := l.config.dial(ctx)
		if err != nil {
			return err
		}
		w := &loadWorker{loader: l, conn: conn, relations: map[uint32]*relation{}}
		w.Emitter = l.config.emitter(l.writer, l.known)
		l.workers = append(l.workers, w)
		if err := execute(ctx, conn, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"); err != nil {
			return fmt.Errorf("begin load: %w", err)
		}
		if err := execute(ctx, conn, "SET TRANSACTION SNAPSHOT "+quoteLiteral(l.name)); err != nil {
			return fmt.Errorf("import snapshot of the slot (is every connection to the same server?): %w", err)
		}
	}
	return nil
}

func (l *loader) close() {
	for _, w := range l.workers {
		w.Discard()
		ctx, cancel := context.WithTimeout(context.Background(), connectTimeout)
		_ = w.conn.Close(ctx) // reading only: nothing is lost
		cancel()
	}
}

// group copies whole tables; their pieces go to whichever worker is free.
func (l *loader) group(ctx context.Context, tables []*table) error {
	var names []string
	pieces := make([]piece, 0, len(tables))
	for _, t := range tables {
		names = append(names, t.String())
		list, err := l.pieces(ctx, t)
		if err != nil {
			return err
		}
		pieces = append(pieces, list...)
	}
	l.tracker.Update(func(s *connectors.Status) {
		if s.Load != nil {
			s.Load.Current = strings.Join(names, ", ")
		}
	})
	if err := l.clear(ctx, tables); err != nil {
		return err
	}
	var next atomic.Int64
	g, ctx := errgroup.WithContext(ctx)
	for _, w := range l.workers {
		g.Go(func() error {
			for {
				i := int(next.Add(1)) - 1
				if i >= len(pieces) {
					return w.Send(ctx)
				}
				if err := w.copy(ctx, pieces[i]); err != nil {
					return err
				}
			}
		})
	}
	return g.Wait()
}

func (l *loader) pieces(ctx context.Context, t *table) ([]piece, error) {
	heaps := []partition{{schema: t.schema, name: t.name, pages: t.pages}}
	if t.partitioned {
		var err error
		if heaps, err = partitions(ctx, l.workers[0].conn, t); err != nil {
			return nil, err
		}
	}
	var list []piece
	for _, h := range heaps {
		step := int64(rangePages)
		if l.version < ctidRangeVersion || h.pages <= step {
			list = append(list, piece{table: t, heap: h, whole: true})
			continue
		}
		for from := int64(0); from < h.pages; from += step {
			p := piece{table: t, heap: h, from: from, to: from + step}
			if p.to >= h.pages {
				p.to = 0 // the heap may have grown since its size was read
			}
			list = append(list, p)
		}
	}
	return list, nil
}

// mark ends the log transaction of a group.
func (l *loader) mark(ctx context.Context, loaded loads, complete bool) error {
	b, err := l.writer.NewBatch(ctx)
	if err != nil {
		return err
	}
	state := l.base
	state.Loaded, state.Complete = loaded, complete
	b.Mark(connectors.Mark{Order: uint64(state.Commit), Confirm: uint64(state.LSN), TimeUs: l.timeUs, Events: uint64(l.rows.Load()), Resume: &state, Force: true})
	return l.writer.Send(ctx, b)
}

// report logs progress until stopped.
func (l *loader) report(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	began := time.Now()
	go func() {
		defer close(done)
		ticker := time.NewTicker(progressEvery)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
				load := l.tracker.Status().Load
				if load == nil {
					continue
				}
				l.log.Info("initial load", "tables_done", load.TablesDone, "tables", load.Tables, "rows", l.rows.Load(), "rows_estimated", load.RowsEstimated,
					"rows_per_second", int64(float64(l.rows.Load())/time.Since(began).Seconds()), "current", load.Current)
			}
		}
	}()
	return func() {
		cancel()
		<-done
	}
}

// relationFor describes a table as the snapshot's catalog has it.
func (w *loadWorker) relationFor(ctx context.Context, t *table) (*relation, error) {
	if r := w.relations[t.oid]; r != nil {
		return r, nil
	}
	now, err := w.loader.config.captured(ctx, w.conn, t.oid)
	if err != nil {
		return nil, err
	}
	if len(now) == 0 {
		return nil, fmt.Errorf("load table %s: it is gone; the load begins again", t)
	}
	r, err := w.loader.config.relationOf(ctx, w.conn, catalogRelation(now[0], w.publication), now[0])
	if err != nil {
		return nil, err
	}
	if err := w.loader.writer.EnsureTable(ctx, &r.Table); err != nil {
		return nil, err
	}
	w.relations[t.oid] = r
	return r, nil
}

// copy writes one piece as read events.
func (w *loadWorker) copy(ctx context.Context, p piece) error {
	r, err := w.relationFor(ctx, p.table)
	if err != nil {
		return err
	}
	w.Touch()
	if err := w.SchemaOnce(ctx, &r.Table); err != nil {
		return err
	}
	w.place()
	rows := &rowWriter{worker: w, ctx: ctx, relation: r}
	_, err = w.conn.CopyTo(ctx, rows, copySQL(r, p))
	w.flushRows(rows)
	if rows.err != nil {
		return rows.err
	}
	if err != nil {
		if sqlState(err) == "42501" {
			return &connectors.Fault{Collection: p.table.String(), Problem: "table " + p.table.String() + " cannot be read", Err: err, Remedy: "GRANT SELECT ON " + p.table.quoted() + " TO " + quoteIdent(w.loader.config.conn.User)}
		}
		return fmt.Errorf("load table %s: %w", p.table, err)
	}
	return nil
}

// copySQL selects the captured columns by name, in the order of the schema.
func copySQL(r *relation, p piece) string {
	columns := make([]string, len(r.Schema.Columns))
	for i := range r.Schema.Columns {
		columns[i] = quoteIdent(r.Schema.Columns[i].Name)
	}
	sql := "COPY (SELECT " + strings.Join(columns, ", ") + " FROM ONLY " + quoteIdent(p.heap.schema) + "." + quoteIdent(p.heap.name)
	if !p.whole {
		sql += fmt.Sprintf(" WHERE ctid >= '(%d,0)'::tid", p.from)
		if p.to > 0 {
			sql += fmt.Sprintf(" AND ctid < '(%d,0)'::tid", p.to)
		}
	}
	return sql + ") TO STDOUT"
}

// progressRows is how many rows a worker copies between updates of the progress and of the clock.
const progressRows = 4096

// rowWriter receives COPY's rows, one per Write as the server sends them.
type rowWriter struct {
	worker   *loadWorker
	ctx      context.Context
	relation *relation
	parser   copyParser
	rows     int64
	err      error
}

func (rw *rowWriter) Write(line []byte) (int, error) {
	if err := rw.row(line); err != nil {
		rw.err = err
		return 0, err
	}
	return len(line), nil
}

func (rw *rowWriter) row(line []byte) error {
	w, r := rw.worker, rw.relation
	if err := rw.parser.row(line, r.row); err != nil {
		if errors.Is(err, errCopyRow) {
			return &connectors.Fault{Collection: r.Collection, Problem: "table " + r.Collection + " cannot be loaded", Err: err, Remedy: "report this with the server's version"}
		}
		return err
	}
	if err := w.Room(rw.ctx); err != nil {
		return err
	}
	if rw.rows++; rw.rows >= progressRows {
		w.flushRows(rw)
		w.Touch()
	}
	return w.Change(&r.Table, event.OpRead, nil, r.row, r.row, nil)
}

func (w *loadWorker) flushRows(rw *rowWriter) {
	total := w.rows.Add(rw.rows)
	rw.rows = 0
	w.tracker.Update(func(s *connectors.Status) {
		if s.Load != nil {
			s.Load.Rows = total
		}
	})
}
