package mysql

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/rowtrail/rowtrail/connectors"
	"github.com/rowtrail/rowtrail/connectors/event"
	"github.com/rowtrail/rowtrail/connectors/mysql/chunks"
	"github.com/rowtrail/rowtrail/connectors/mysql/ddl"
	"github.com/rowtrail/rowtrail/connectors/mysql/state"
)

// repairState is what a repair has to go on from, a part of the resume point. It does not change.
type repairState struct {
	// Until is the commit up to which the log may lack changes of the tables.
	Until   uint64       `json:"until"`
	Missing string       `json:"missing"`
	Chunks  []byte       `json:"chunks,omitempty"` // tables whose rows are compared: a token of package chunks
	Sweeps  []sweepState `json:"sweeps,omitempty"` // tables whose keys are looked for
	Tables  int          `json:"tables"`
	Counts  repairCounts `json:"counts"`
}

// running is the warning of a repair that goes on.
func (st *repairState) running() string {
	return st.Missing + ": the captured tables are being compared with the log (on.gap: repair)"
}

// sweepState is how far the keys of a table are looked for.
type sweepState struct {
	Database  string `json:"database"`
	Table     string `json:"table"`
	Partition int32  `json:"partition"`
	After     []byte `json:"after,omitempty"` // the last key
}

// repairCounts is what a repair told.
type repairCounts struct {
	Compared int64 `json:"compared"`
	Created  int64 `json:"created"`
	Updated  int64 `json:"updated"`
	Deleted  int64 `json:"deleted"`
}

// repairer makes up for a gap in the source's history (on.gap: repair). Each table is read in chunks between watermarks, as a load
// reads it, and each row is compared with its state in the log: what differs is told as an insert or update. Then the keys of the
// state are looked for at the source, a page at a time and between watermarks, too: those that it has not are told as deletes.
//
// Each chunk's changes are a source transaction of their own, and commit with how far the repair is. Windows are as a load's: a row or
// key that an event touches meanwhile is left to the event. A state from before the gap completes no row image of a table until that is
// repaired.
type repairer struct {
	*loader // which reads
	repairState
	sweeps []*sweep
	began  time.Time
}

type sweep struct {
	sweepState
	plan   *chunks.Plan
	keys   [][]byte // the page that is looked for; nil: none is
	images []event.Row
	end    []byte // the page's last key; nil: nothing follows it in its partition
}

// newRepairer takes up the repair that the resume point tells of; nil: there is none.
func (r *run) newRepairer(ctx context.Context) (*repairer, error) {
	st := r.resume.point.repair
	if st == nil {
		return nil, nil
	}
	p := &repairer{loader: r.chunkReader(), repairState: *st, began: time.Now()}
	again := func(database, name, _ string) (*chunks.Plan, error) {
		now, err := r.lookUp(ctx, database, name)
		if now == nil || err != nil {
			return nil, err
		}
		return p.plan(ctx, now, "")
	}
	if len(st.Chunks) > 0 {
		if err := p.load.Restore(st.Chunks, again); err != nil {
			return nil, fmt.Errorf("go on with the repair: %w", err)
		}
	}
	r.warn(st.running())
	for _, s := range st.Sweeps {
		plan, err := again(s.Database, s.Table, "")
		if err != nil {
			return nil, err
		}
		if plan != nil {
			p.sweeps = append(p.sweeps, &sweep{sweepState: s, plan: plan})
		}
	}
	return p, nil
}

// concerns tells whether a table is not repaired yet.
func (p *repairer) concerns(collection string) bool {
	if p == nil {
		return false
	}
	return slices.ContainsFunc(p.load.Tables(), func(o *chunks.Progress) bool { return o.Plan.Table.Collection() == collection }) ||
		slices.ContainsFunc(p.sweeps, func(s *sweep) bool { return s.plan.Table.Collection() == collection })
}

// stale tells whether a row's state may lack changes.
func (p *repairer) stale(collection string, commit uint64) bool {
	return p != nil && commit <= p.Until && p.concerns(collection)
}

// state is what the next mark has of the repair; nil: it is done.
func (p *repairer) state() *repairState {
	if p == nil {
		return nil
	}
	st := p.repairState
	st.Chunks, st.Sweeps = nil, nil
	if slices.ContainsFunc(p.load.Tables(), func(o *chunks.Progress) bool { return !o.Finding() }) {
		st.Chunks = p.load.AppendToken(nil)
	}
	for _, s := range p.sweeps {
		st.Sweeps = append(st.Sweeps, s.sweepState)
	}
	if st.Chunks == nil && st.Sweeps == nil {
		return nil
	}
	return &st
}

// comparable tells whether a table can be compared with its state: rows are told apart by the record's key, which is a key of the table.
func (r *run) comparable(p *chunks.Plan, t *connectors.Table) bool {
	if p.Key() == nil || !p.Findable() || len(t.Keys) != len(p.KeyColumns()) {
		return false
	}
	for _, k := range t.Keys {
		if !slices.Contains(p.KeyColumns(), k) {
			return false
		}
	}
	return exactKey(t)
}

// repairStep goes on with the repair between two transactions.
func (s *stream) repairStep(ctx context.Context) error {
	p := s.repair
	for more := true; more; {
		select {
		case d := <-p.results:
			if err := p.done(d); err != nil {
				return err
			}
		default:
			more = false
		}
	}
	here, err := s.here(false)
	if err != nil || here.File == "" {
		return err
	}
	for _, t := range slices.Clone(p.load.Boundary(here)) {
		tell := s.compareChunk
		if t.Finding() {
			tell = s.tellMissing
		}
		if err := tell(ctx, t); err != nil {
			return err
		}
	}
	if p.state() == nil {
		return s.repaired(ctx)
	}
	if p.out >= cap(p.tasks) {
		return nil
	}
	for _, w := range slices.Clone(p.sweeps) {
		if err := s.nextPage(ctx, w); err != nil {
			return err
		}
	}
	if p.state() == nil {
		return s.repaired(ctx)
	}
	if here, err = s.here(true); err != nil {
		return err
	}
	for t := p.load.Next(here); t != nil; t = p.load.Next(here) {
		p.out++
		p.tasks <- t
	}
	return nil
}

// repairPlace begins a transaction of the repair, after the last of the source.
func (s *stream) repairPlace() {
	now := s.Now.UnixMicro()
	s.Meta = event.Meta{
		TsMs: s.Meta.TsMs, SourceTsUs: now, Snapshot: snapshotSignal,
		Binlog: event.Binlog{ServerID: s.run.server.serverID(), File: s.file, Pos: s.end},
	}
	s.Begin(event.Position{Commit: s.point.commits + 1, CommitTime: now})
	s.ID = event.AppendBinlogTransactionID(s.ID, "", s.file, s.end)
}

// repairMark ends it: its events and how far the repair is commit together.
func (s *stream) repairMark(ctx context.Context, current string) error {
	had, err := s.End(ctx)
	if err != nil {
		return err
	}
	next := *s.point
	if next.repair = s.repair.state(); had {
		next.commits++
		next.timeUs = s.Pos.CommitTime
		s.txs++
	}
	s.point = &next
	s.repair.show(current)
	return s.placeMark(ctx, true)
}

// compareChunk tells what of a chunk's rows the log does not have so.
func (s *stream) compareChunk(ctx context.Context, t *chunks.Task) error {
	p := s.repair
	table := p.tables[t.Plan.Table.Collection()]
	var rows []event.Row
	var keys [][]byte
	err := t.Each(func(row event.Row) error {
		key, _, err := table.Encoder.AppendKey(nil, row)
		rows, keys = append(rows, row.Clone()), append(keys, key)
		return err
	})
	if err != nil {
		return err
	}
	if err := s.know(ctx, table, keys); err != nil {
		return err
	}
	s.repairPlace()
	told, err := asTold(table, rows)
	if err != nil {
		return err
	}
	for i, row := range rows {
		was, known := s.stateOf(table, keys[i])
		if known && was != nil && sameRow(was, told[i]) {
			continue
		}
		if err := s.Prepare(ctx, table); err != nil {
			return err
		}
		s.Next(table)
		op, before := event.OpCreate, event.Row(nil)
		if !known || was != nil {
			op = event.OpUpdate
			p.Counts.Updated++
			if was != nil && !state.Lacks(was) {
				before = was
			}
		} else {
			p.Counts.Created++
		}
		if err := s.Change(table, op, before, row, row, nil); err != nil {
			return err
		}
		s.state.kept.Set(table.Collection, keys[i], state.Row{Schema: table.Schema, Columns: row, Commit: s.Pos.Commit}, s.Events)
	}
	p.Counts.Compared += int64(len(rows))
	if p.load.Told(t) {
		name := t.Plan.Table
		p.sweeps = append(p.sweeps, &sweep{sweepState: sweepState{Database: name.Database, Table: name.Name}, plan: t.Plan})
	}
	return s.repairMark(ctx, table.Collection)
}

// know makes the state of rows known, as far as there is room.
func (s *stream) know(ctx context.Context, t *connectors.Table, keys [][]byte) error {
	c := s.state
	c.kept.Committed(s.run.committedEvents())
	var unknown [][]byte
	for _, k := range keys {
		if _, found := c.kept.Get(t.Collection, k); found == state.Unknown {
			unknown = append(unknown, k)
		}
	}
	if len(unknown) == 0 {
		return nil
	}
	return s.ask(ctx, t, unknown)
}

// stateOf is a row as the log has it, in the table's columns now, whatever has happened to them: nil if it has none. It is the caller's.
func (s *stream) stateOf(t *connectors.Table, key []byte) (row event.Row, known bool) {
	had, found := s.state.kept.Get(t.Collection, key)
	if found != state.Known {
		return nil, false
	}
	if had.Columns == nil {
		return nil, true
	}
	row = make(event.Row, len(t.Schema.Columns))
	(*state.Trust)(nil).Fit(row, t.Schema, had)
	return row.Clone(), true
}

// nextPage begins to look for the next keys of a table's state.
func (s *stream) nextPage(ctx context.Context, w *sweep) error {
	if w.keys != nil {
		return nil
	}
	p, collection := s.repair, w.plan.Table.Collection()
	table := p.tables[collection]
	decoder, err := event.NewDecoder(table.Schema)
	if err != nil {
		return err
	}
	if err := s.awaitLoad(ctx); err != nil {
		return err
	}
	for w.Partition < table.Partitions {
		keys, err := s.stateKeys(ctx, table, w)
		if err != nil {
			return err
		}
		var images []event.Row
		for _, k := range keys {
			image, err := decoder.DecodeKey(k)
			if err != nil {
				s.run.warn(fmt.Sprintf("topic %s has keys that are not of table %s as it is now, as %s: whether their rows are still there is not known; load the table again", table.Topic, collection, k))
				continue
			}
			w.keys, images = append(w.keys, k), append(images, image.Clone())
		}
		w.end = nil
		if len(keys) == chunks.MaxFind {
			w.end = keys[len(keys)-1]
		}
		if len(images) > 0 {
			w.images = images
			return p.load.Find(w.plan, images)
		}
		w.turn()
	}
	p.sweeps = slices.DeleteFunc(p.sweeps, func(o *sweep) bool { return o == w })
	s.repairPlace()
	return s.repairMark(ctx, collection)
}

func (s *stream) stateKeys(ctx context.Context, t *connectors.Table, w *sweep) ([][]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	keys, err := s.state.rows.Keys(ctx, t.Topic, w.Partition, w.After, chunks.MaxFind, s.Writer.Committed(t.Topic))
	if err != nil {
		return nil, fmt.Errorf("list the keys of table %s as the log has them: %w", t.Collection, err)
	}
	return keys, nil
}

// turn goes behind the page.
func (w *sweep) turn() {
	w.After, w.keys, w.images = w.end, nil, nil
	if w.end == nil {
		w.Partition++
	}
}

// tellMissing tells the rows of a page that the source does not have any more.
func (s *stream) tellMissing(ctx context.Context, t *chunks.Task) error {
	p := s.repair
	collection := t.Plan.Table.Collection()
	missing := t.Missing()
	p.load.Told(t)
	i := slices.IndexFunc(p.sweeps, func(w *sweep) bool { return w.plan.Table.Collection() == collection })
	if i < 0 {
		return nil // the table was replaced meanwhile
	}
	w, table := p.sweeps[i], p.tables[collection]
	keys := make([][]byte, len(missing))
	for i, at := range missing {
		keys[i] = w.keys[at]
	}
	if err := s.know(ctx, table, keys); err != nil {
		return err
	}
	s.repairPlace()
	for i, at := range missing {
		was, known := s.stateOf(table, keys[i])
		if known && was == nil {
			continue // an event has told so, or its record in another partition
		}
		if was == nil {
			was = make(event.Row, len(table.Schema.Columns))
		}
		for _, k := range table.Keys {
			was[k] = w.images[at][k]
		}
		if err := s.Prepare(ctx, table); err != nil {
			return err
		}
		s.Next(table)
		p.Counts.Deleted++
		if err := s.Change(table, event.OpDelete, was, nil, was, nil); err != nil {
			return err
		}
		s.state.kept.Set(collection, keys[i], state.Row{Commit: s.Pos.Commit}, s.Events)
	}
	p.Counts.Compared += int64(len(w.keys))
	w.turn()
	return s.repairMark(ctx, collection)
}

// repaired ends the repair.
func (s *stream) repaired(ctx context.Context) error {
	p := s.repair
	s.repair = nil
	next := *s.point
	next.repair = nil
	s.point = &next
	s.run.log.Warn("the gap is repaired", "missing", p.Missing, "tables", p.Tables, "compared", p.Counts.Compared, "created", p.Counts.Created,
		"updated", p.Counts.Updated, "deleted", p.Counts.Deleted, "took", time.Since(p.began).Round(time.Millisecond))
	s.run.forget(p.running())
	s.run.warn(fmt.Sprintf("%s: the tables were compared with the log, and %d rows told as created, %d as updated, %d as deleted. What happened to a row in between is not in the log",
		p.Missing, p.Counts.Created, p.Counts.Updated, p.Counts.Deleted))
	s.run.tracker.Update(func(st *connectors.Status) { st.Load = nil })
	for range cap(p.tasks) - len(p.tasks) {
		select {
		case p.tasks <- nil: // nothing needs the workers' sessions now
		default:
		}
	}
	return s.placeMark(ctx, true)
}

// show tells how far the repair is.
func (p *repairer) show(current string) {
	left := len(p.sweeps)
	for _, o := range p.load.Tables() {
		if !o.Finding() {
			left++
		}
	}
	counts := p.Counts
	p.run.tracker.Update(func(st *connectors.Status) {
		st.Load = &connectors.LoadStatus{Tables: p.Tables, TablesDone: p.Tables - left, Rows: counts.Compared, Current: "repair of " + current}
	})
}

// reshapeRepair begins anew with tables that a statement altered, replaced or dropped.
func (s *stream) reshapeRepair(ctx context.Context, effect *ddl.Effect) error {
	p := s.repair
	if p == nil {
		return nil
	}
	names := slices.Clone(effect.Tables)
	for _, r := range effect.Renames {
		names = append(names, r.From, r.To)
	}
	for _, name := range names {
		collection := name.Database + "." + name.Table
		if !p.concerns(collection) {
			continue
		}
		if effect.Kind == ddl.TruncateTable {
			if w := p.load.Window(collection); w != nil {
				w.Truncate()
			}
			continue
		}
		p.load.Stop(func(o *chunks.Progress) bool { return o.Plan.Table.Collection() == collection })
		p.sweeps = slices.DeleteFunc(p.sweeps, func(w *sweep) bool { return w.plan.Table.Collection() == collection })
		now, err := s.run.lookUp(ctx, name.Database, name.Table)
		if err != nil {
			return err
		}
		if now == nil {
			continue
		}
		plan, err := p.plan(ctx, now, "")
		if err == nil {
			err = p.load.Add(plan, "")
		}
		if err != nil {
			return err
		}
	}
	next := *s.point
	next.repair = p.state()
	s.point = &next
	return nil
}

// sameRow compares a row of the log with one of the source. What the log has not is no reason to call them the same.
func sameRow(was, now event.Row) bool {
	for i := range now {
		if was[i].State != now[i].State || string(was[i].Text) != string(now[i].Text) {
			return false
		}
	}
	return true
}

// asTold are rows as the log would give them back, which are others where the settings lose a part of a value.
func asTold(t *connectors.Table, rows []event.Row) ([]event.Row, error) {
	if len(t.Schema.Lossy()) == 0 {
		return rows, nil
	}
	d, err := event.NewDecoder(t.Schema)
	if err != nil {
		return nil, err
	}
	told := make([]event.Row, len(rows))
	for i, row := range rows {
		value, err := t.Encoder.AppendValue(nil, event.OpRead, nil, row, &event.Meta{Snapshot: snapshotSignal})
		if err != nil {
			return nil, err
		}
		change, err := d.Decode(value, event.Position{Schema: t.Schema.ID})
		if err != nil {
			return nil, err
		}
		told[i] = change.After.Clone()
	}
	return told, nil
}
