package mysql

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/rowtrail/rowtrail/connectors"
	"github.com/rowtrail/rowtrail/connectors/mysql/chunks"
)

// lockPoint is what each reading session goes back to after a chunk: the snapshot stays, and the lock on the table's definition that
// reading took does not, so that nobody waits for the whole load to alter a table.
const lockPoint = "rowtrail"

// snapshots are sessions that all show the source at one place of its binlog (M14).
type snapshots struct {
	at      place
	lock    *session   // held until all is read (snapshot.locking.mode extended), else nil
	readers []*session // for chunks
	whole   *session   // for tables without a key
	tables  []*table   // that the lock was on
}

func (v *snapshots) close() {
	if v == nil {
		return
	}
	v.lock.close()
	v.whole.close()
	for _, s := range v.readers {
		s.close()
	}
}

// bound has a session wait for a lock only so long as everybody else may be kept waiting behind it.
func (c *Config) bound(ctx context.Context, s *session) error {
	seconds := max(1, int(c.lockTimeout/time.Second))
	return s.execute(ctx, fmt.Sprintf("SET SESSION lock_wait_timeout = %d, wait_timeout = 31536000", seconds))
}

// take takes a lock.
func (c *Config) take(ctx context.Context, s *session, way chunks.Lock) error {
	// A statement of a lock may wait several times, for one table after the other.
	timed, cancel := context.WithTimeout(ctx, c.lockTimeout*time.Duration(len(way.Take)+1))
	defer cancel()
	for _, sql := range way.Take {
		err := s.execute(timed, sql)
		if err == nil {
			continue
		}
		if code(err) == erLockWaitTimeout || timed.Err() != nil && ctx.Err() == nil {
			return &connectors.Passing{
				Problem: fmt.Sprintf("%s was not given within %s: statements or transactions of others are in its way", way.Name, c.lockTimeout), Err: err,
				Remedy: "end those that SHOW PROCESSLIST shows as long, or set snapshot.lock.timeout.ms higher, or snapshot.locking.mode: none",
			}
		}
		return fmt.Errorf("%s: %w", way.Name, err)
	}
	return nil
}

// snapshots begins where the source is now, and opens sessions that show it there. Everything that takes long is done before the lock.
func (r *run) snapshots(ctx context.Context) (v *snapshots, p *point, err error) {
	v = &snapshots{tables: r.tables}
	defer func() {
		if err != nil {
			v.close()
		}
	}()
	l := &loader{run: r, marks: chunks.Marks{MariaDB: r.config.MariaDB, GTIDs: true}} // which read without locks on rows
	for range r.config.SnapshotThreads + 1 {
		s, _, err := l.session(ctx)
		if err != nil {
			return v, nil, err
		}
		if v.whole == nil {
			v.whole = s
		} else {
			v.readers = append(v.readers, s)
		}
	}
	way, err := r.lock(ctx, v)
	if err != nil {
		return v, nil, err
	}
	began := time.Now()
	if p, err = r.pin(ctx, v); err != nil {
		return v, nil, fmt.Errorf("begin the load under %s: %w", way.Name, err)
	}
	for _, sql := range way.Release {
		if r.config.Locking == LockingExtended {
			break
		}
		if err := v.lock.execute(ctx, sql); err != nil {
			return v, nil, fmt.Errorf("release %s: %w", way.Name, err)
		}
	}
	if r.config.Locking != LockingExtended {
		v.lock.close()
		v.lock = nil
	}
	if way.Name != chunks.LockTable().Name {
		v.tables = nil // all are locked
	}
	r.log.Info("snapshots begin", "lock", way.Name, "mode", string(r.config.Locking), "at", v.at.String(), "took", time.Since(began).Round(time.Millisecond))
	return v, p, nil
}

// lock takes the best lock that the user may take.
func (r *run) lock(ctx context.Context, v *snapshots) (chunks.Lock, error) {
	tables := make([]*chunks.Table, len(r.tables))
	for i, t := range r.tables {
		tables[i] = &chunks.Table{Database: t.schema, Name: t.name}
	}
	ways, err := chunks.Locks(string(r.config.Locking), r.config.MariaDB, tables)
	if err != nil {
		return chunks.Lock{}, err
	}
	var refused error
	for _, way := range ways {
		s, err := r.config.dial(ctx)
		if err != nil {
			return way, err
		}
		if err = r.config.bound(ctx, s); err == nil {
			err = r.config.take(ctx, s, way)
		}
		if err == nil {
			v.lock = s
			return way, nil
		}
		s.close()
		if !denied(err) && code(err) != erAccessDenied { // as which managed servers refuse a lock
			return way, err
		}
		r.log.Info("the user may not take a lock", "lock", way.Name, "error", err)
		refused = errors.Join(refused, err)
	}
	return chunks.Lock{}, &connectors.Fault{
		Problem: fmt.Sprintf("snapshot.locking.mode is %s, and user %s may take no lock", r.config.Locking, r.config.user), Err: refused,
		Remedy: r.config.grantSQL("RELOAD") + "; or snapshot.locking.mode: none",
	}
}

// pin reads the position and begins the snapshots. The lock is held.
func (r *run) pin(ctx context.Context, v *snapshots) (*point, error) {
	timed, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	for _, s := range append([]*session{v.whole}, v.readers...) {
		for _, sql := range []string{chunks.Snapshot, "SAVEPOINT " + lockPoint} {
			if err := s.execute(timed, sql); err != nil {
				return nil, err
			}
		}
	}
	status, err := v.lock.binlogStatus(timed)
	if err != nil {
		return nil, err
	}
	v.at = status.place
	if r.server, err = v.lock.server(timed); err != nil {
		return nil, err
	}
	return r.begin(timed, v.lock, v.at)
}

// pinned is the Marker of a session whose snapshot is of one place.
type pinned struct {
	at  chunks.Point
	s   *session
	ctx context.Context
}

func (p pinned) Low() (chunks.Point, error) { return p.at, nil }

func (p pinned) High() (chunks.Point, error) {
	return p.at, p.s.execute(p.ctx, "ROLLBACK TO SAVEPOINT "+lockPoint)
}

// loadSnapshots tells what the snapshots show, before the stream begins. What they cannot show to the end, as a table was altered or a
// connection broke, is left to chunks beside the stream: rows that are told of the place where the stream begins are right, however
// many of a table there are.
func (s *stream) loadSnapshots(ctx context.Context, v *snapshots) error {
	l := s.loader
	l.pinned = v.whole
	l.locking(false)
	file, end := s.file, s.end
	s.file, s.end = v.at.file, v.at.pos
	defer func() {
		l.pinned = nil
		l.locking(l.marks.Locking())
		s.file, s.end = file, end
	}()
	here := chunks.Point{Server: s.run.server.identity(), File: v.at.file, Pos: v.at.pos}
	reading, cancel := context.WithCancel(ctx)
	defer cancel()
	g, reading := errgroup.WithContext(reading)
	for _, session := range v.readers {
		g.Go(func() error { return l.workPinned(reading, session, here) })
	}
	var broken error
	for broken == nil || l.out > 0 {
		if broken == nil {
			if err := l.nextPinned(here); err != nil {
				return err
			}
		}
		s.Touch()
		ready := slices.Clone(l.load.Boundary(here))
		for _, t := range ready {
			before := s.Events
			err := s.tell(ctx, t)
			if err != nil && (s.Events != before || ctx.Err() != nil) { // the log transaction ends without it
				return err
			}
			if err != nil {
				broken = err
				l.load.Later(t)
			}
		}
		if l.out == 0 {
			if len(ready) == 0 {
				break
			}
			continue
		}
		select {
		case <-reading.Done():
			return g.Wait()
		case d := <-l.results:
			if err := l.donePinned(d); err != nil {
				broken = err
			}
		}
	}
	cancel()
	if err := g.Wait(); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	if broken != nil {
		s.run.log.Info("the load goes on beside the stream, without locks", "tables_left", len(l.load.Tables()), "reason", broken)
	}
	return ctx.Err()
}

// locking says how the tables that wait are read: a snapshot needs no locks on rows.
func (l *loader) locking(on bool) {
	for _, p := range l.load.Tables() {
		p.Plan.Locking = on
	}
}

// nextPinned begins chunks of snapshots.
func (l *loader) nextPinned(here chunks.Point) error {
	for t := l.load.Next(here); t != nil; t = l.load.Next(here) {
		if !t.Whole() {
			l.out++
			l.tasks <- t // there is room for each
			continue
		}
		l.snapshots[t] = l.pinned
		t.At(here)
		if err := l.load.Done(t, nil); err != nil {
			return err
		}
	}
	return nil
}

// donePinned takes a chunk back. Its error ends the reading of snapshots, not the run.
func (l *loader) donePinned(d loaded) error {
	l.out--
	err := l.load.Done(d.task, d.err)
	if d.err != nil {
		return d.err
	}
	return err
}

// workPinned reads chunks in a session that has a snapshot.
func (l *loader) workPinned(ctx context.Context, s *session, at chunks.Point) error {
	stop := context.AfterFunc(ctx, s.close) // ends a blocked read
	defer stop()
	if err := s.conn.SetDeadline(time.Time{}); err != nil {
		return err
	}
	reader := s.reader()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case t := <-l.tasks:
			err := t.Read(reader, pinned{at, s, ctx})
			l.results <- loaded{t, err} // there is room for each task
		}
	}
}

// rest are captured tables that the lock was not on.
func (v *snapshots) rest(tables []*table) (locked, rest []*table) {
	if v.tables == nil {
		return tables, nil
	}
	on := tableSet{}
	for _, t := range v.tables {
		on[t.id()] = true
	}
	for _, t := range tables {
		if on[t.id()] {
			locked = append(locked, t)
		} else {
			rest = append(rest, t)
		}
	}
	return locked, rest
}
