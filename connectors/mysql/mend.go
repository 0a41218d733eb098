package mysql

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/rowtrail/rowtrail/connectors/mysql/binlog"
	"github.com/rowtrail/rowtrail/connectors/mysql/chunks"
	"github.com/rowtrail/rowtrail/connectors/mysql/gtid"
)

// lost is a gap that the stream ran into; the next run repairs it.
type lost struct {
	gap *gapError
	at  time.Time

	taken bool // a run has begun to repair it
}

// repairAgain is how long after one repair began another gap that only the stream finds is an error, lest a source that cannot be
// followed is compared for ever.
const repairAgain = time.Minute

// repairs tells whether a gap is to be repaired by the next run.
func (c *Connector) repairs(err error) bool {
	var gap *gapError
	if !c.config.Repair || !errors.As(err, &gap) || c.lost != nil && time.Since(c.lost.at) < repairAgain {
		return false
	}
	c.lost = &lost{gap: gap, at: time.Now()}
	return true
}

// mend begins a repair: the position goes on behind the gap, in the log transaction that has what is to be repaired.
func (r *run) mend(ctx context.Context, s *session, gap *gapError) error {
	r.mending = true
	next := gap.next
	if next == nil {
		find := r.oldest
		if gap.end {
			find = r.newest
		}
		var err error
		if next, err = find(ctx, s); err != nil {
			return err
		}
	}
	p := *next
	if !gap.end {
		p.seek = nil // what was prepared before the capture is behind the gap, too
	}
	p.repair = &repairState{Until: p.commits, Missing: gap.Problem}
	if gap.Err != nil {
		p.repair.Missing += ": " + gap.Err.Error()
	}
	r.resume.point, r.resume.uuid = &p, r.server.identity()
	r.log.Warn("a gap in the source's history is repaired: the captured tables are compared with the log", "missing", p.repair.Missing, "from", p.String(), "tables", len(r.tables))
	r.warn(p.repair.running())
	return nil
}

// oldest is the first place that the source still has. What it has had and the log has not is the gap.
func (r *run) oldest(ctx context.Context, s *session) (*point, error) {
	p := *r.resume.point
	p.at, p.timeUs = place{}, time.Now().UnixMicro()
	if p.base == nil {
		files, err := s.binlogFiles(ctx)
		if err != nil {
			return nil, err
		}
		if len(files) == 0 {
			return nil, fmt.Errorf("the source has no binlog")
		}
		p.at = place{files[0].file, 4}
		return &p, nil
	}
	set, err := p.executed()
	if err != nil {
		return nil, err
	}
	executed, err := r.server.executed()
	if err != nil {
		return nil, fmt.Errorf("read what the source has executed: %w", err)
	}
	purged, err := r.purged(ctx, s)
	if err != nil {
		return nil, err
	}
	found, err := gtid.MissingFrom(set, executed, purged)
	if err != nil {
		return nil, err
	}
	p.base, p.first = purged.Clone(), 0
	if found.Ahead.IsEmpty() { // else the source has begun anew, with the same numbers
		err = p.base.Union(set)
	}
	return &p, err
}

// newest is where the source is now.
func (r *run) newest(ctx context.Context, s *session) (*point, error) {
	var err error
	if r.before, err = s.beforeBegin(ctx); err != nil {
		return nil, err
	}
	status, err := s.binlogStatus(ctx)
	if err != nil {
		return nil, err
	}
	if r.server, err = s.server(ctx); err != nil { // what was executed, after the place
		return nil, err
	}
	now, err := r.begin(ctx, s, status.place)
	if err != nil {
		return nil, err
	}
	p := *r.resume.point
	p.base, p.first, p.at, p.timeUs, p.seek = now.base, 0, now.at, now.timeUs, now.seek
	return &p, nil
}

// verifyOrMend makes sure that the source has what follows the resume point, or begins a repair.
func (r *run) verifyOrMend(ctx context.Context, s *session) error {
	err := r.verify(ctx, s)
	var gap *gapError
	switch {
	case !r.config.Repair:
		return err
	case errors.As(err, &gap):
	case err == nil && r.lost != nil && !r.lost.taken:
		gap = r.lost.gap
	default:
		return err
	}
	if r.lost != nil {
		r.lost.taken = true
	}
	return r.mend(ctx, s, gap)
}

// newRepair makes the repair that begins or goes on, nil if there is none, and gives the load what is to be loaded again: tables without
// a key, those that were being loaded, and where the log has no views all.
func (r *run) newRepair(ctx context.Context, load *loader) (*repairer, error) {
	if !r.mending {
		return r.newRepairer(ctx)
	}
	p := &repairer{loader: r.chunkReader(), repairState: *r.resume.point.repair, began: time.Now()}
	for _, t := range r.tables {
		if r.parking.Has(t.String()) { // what waits of it lacks the gap
			r.parking.Owe(t.String())
			continue
		}
		plan, err := p.plan(ctx, t, "")
		if err != nil {
			return nil, err
		}
		if load.partly(t.String()) || !r.keepsState() || !r.comparable(plan, p.tables[t.String()]) {
			if err := load.reload(ctx, t); err != nil {
				return nil, err
			}
			continue
		}
		if err := p.load.Add(plan, ""); err != nil {
			return nil, err
		}
		p.Tables++
	}
	if p.Tables == 0 {
		r.forget(p.running())
		r.warn(p.Missing + ": the tables are loaded again (on.gap: repair)")
		p = nil
	}
	r.resume.point.repair = p.state()
	return p, nil
}

// partly tells whether the log has not all rows of a table, as it waits to be loaded.
func (l *loader) partly(collection string) bool {
	return slices.ContainsFunc(l.load.Tables(), func(p *chunks.Progress) bool { return p.Signal == "" && p.Plan.Table.Collection() == collection })
}

// reload has a table loaded from its first row on, behind a truncate.
func (l *loader) reload(ctx context.Context, t *table) error {
	if slices.Contains(l.fresh, t.id()) {
		return nil
	}
	if n := l.load.Stop(func(p *chunks.Progress) bool { return p.Signal == "" && p.Plan.Table.Collection() == t.String() }); n > 0 {
		l.total -= n
		l.about -= t.rows
	}
	delete(l.held, t.id())
	if err := l.add(ctx, t, "", ""); err != nil {
		return err
	}
	l.fresh = append(l.fresh, t.id())
	return nil
}

// keepsState tells whether the log's views have all changes of the tables.
func (r *run) keepsState() bool {
	return r.deps.Rows != nil && !r.config.SkipCreate && !r.config.SkipUpdate && !r.config.SkipDelete
}

// passed tells whether a place is before that of the point, where that is known.
func (s *stream) passed(at place) bool {
	was := s.point.at
	if was.file == "" || at.file == "" {
		return false
	}
	n, m := fileNumber(at.file), fileNumber(was.file)
	return n < m || n == m && at.pos <= was.pos
}

// lostEvents takes an incident (M8): what came before it is committed, and the next run goes on behind it with a repair.
func (s *stream) lostEvents(ctx context.Context, e *binlog.EventError) error {
	gap := s.config.gap(fmt.Sprintf("the source lost changes at %s", place{s.file, e.Pos}), e.Err)
	id := s.group.id
	if s.group.open && s.Pos.Order > 0 {
		return gap // rows of its own group are in the open log transaction, which is given up
	}
	s.group.open = false
	if err := s.placeMark(ctx, true); err != nil {
		return err
	}
	if err := s.flush(ctx); err != nil {
		return err
	}
	if s.point.base != nil && id == nil { // no set of GTIDs is behind it alone
		gap.end = true
		return gap
	}
	next, err := s.point.after(id, place{s.file, e.Pos}, s.Now.UnixMicro())
	if err != nil {
		return err
	}
	gap.next = next
	return gap
}
