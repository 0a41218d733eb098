package mysql

import (
	"context"
	"strings"

	"github.com/rowtrail/rowtrail/connectors"
	"github.com/rowtrail/rowtrail/connectors/mysql/chunks"
	"github.com/rowtrail/rowtrail/connectors/mysql/ddl"
)

// reshape follows a statement that empties, alters, replaces or drops tables: which tables come and go, and how those that are being
// loaded are read from there on. A table that is created is told by the stream alone. One that takes the name of a captured table has
// rows that no event told: it is loaded.
func (s *stream) reshape(ctx context.Context, effect *ddl.Effect) error {
	switch effect.Kind {
	case ddl.TruncateTable:
		name := effect.Tables[0]
		if w := s.loader.load.Window(name.Database + "." + name.Table); w != nil {
			w.Truncate()
		}
		return nil
	case ddl.CreateTable:
		return s.created(ctx, effect)
	case ddl.DropTable:
		for _, name := range effect.Tables {
			s.leave(name)
		}
		return nil
	case ddl.DropDatabase:
		for _, name := range s.tablesOf(effect.Database) {
			s.leave(name)
		}
		return nil
	}
	if len(effect.Renames) > 0 {
		return s.renamed(ctx, effect.Renames)
	}
	for _, name := range effect.Tables {
		if err := s.altered(ctx, name, effect.Kind == ddl.Unknown); err != nil {
			return err
		}
	}
	for _, name := range effect.Doubt { // a table that was a partition has its rows
		if err := s.altered(ctx, name, true); err != nil {
			return err
		}
	}
	return nil
}

// tablesOf are the tables of a database that are known.
func (s *stream) tablesOf(database string) []ddl.TableName {
	var list []ddl.TableName
	for name := range s.loader.held {
		if name.Database == database {
			list = append(list, name)
		}
	}
	for _, p := range s.loader.load.Tables() {
		if t := &p.Plan.Table; t.Database == database {
			list = append(list, ddl.TableName{Database: t.Database, Table: t.Name})
		}
	}
	return list
}

// created takes a table that is new, if it is: the stream has all its rows.
func (s *stream) created(ctx context.Context, effect *ddl.Effect) error {
	l, name := s.loader, effect.Tables[0]
	if !s.config.captures(name.Database, name.Table) {
		return nil
	}
	known := l.held[name] || l.load.Waits(name.Database+"."+name.Table)
	maybe := effect.IfExists && !effect.Replace // it may have been there
	switch {
	case known && maybe:
		return nil
	case l.held[name]:
		s.leave(name)
	case known: // the catalog had it already when the run began; nothing of it is told
		s.stop(name)
	case maybe && !l.left[name] && s.config.Snapshot == SnapshotNoData: // tables that were there are not counted
		return nil
	}
	holds, err := s.holds(ctx, name)
	if err != nil {
		return err
	}
	if holds { // rows of the table that had the name
		if err := s.truncate(ctx, name); err != nil {
			return err
		}
	}
	delete(l.left, name)
	l.hold(name)
	return nil
}

// holds tells whether the topic of a table that joins has rows.
func (s *stream) holds(ctx context.Context, name ddl.TableName) (bool, error) {
	if s.loader.left[name] {
		return true, nil
	}
	topic := s.config.TopicOf(name.Database, name.Table)
	if _, err := s.Writer.EnsureTopic(ctx, topic, connectors.TopicData); err != nil {
		return false, err
	}
	return s.Writer.HoldsRecords(ctx, topic)
}

// leave forgets a table that is not there any more. Its topic keeps what it has.
func (s *stream) leave(name ddl.TableName) {
	l := s.loader
	if !s.config.captures(name.Database, name.Table) {
		return
	}
	s.stop(name)
	l.dirty = l.dirty || l.held[name]
	delete(l.held, name)
	l.left[name] = true
}

// stop ends the load of a table.
func (s *stream) stop(name ddl.TableName) {
	collection := name.Database + "." + name.Table
	n := s.loader.load.Stop(func(p *chunks.Progress) bool { return p.Plan.Table.Collection() == collection })
	s.loader.dirty = s.loader.dirty || n > 0
}

// altered reads a table by its new columns, if it is being loaded. A statement that is not understood may have made it, or removed it.
func (s *stream) altered(ctx context.Context, name ddl.TableName, unclear bool) error {
	l := s.loader
	collection := name.Database + "." + name.Table
	waits := l.load.Waits(collection)
	if !s.config.captures(name.Database, name.Table) || !waits && !unclear {
		return nil
	}
	now, err := s.run.lookUp(ctx, name.Database, name.Table)
	switch {
	case err != nil:
		return err
	case now == nil && unclear:
		s.leave(name)
		return nil
	case now == nil: // the statement that did that is behind this one
		return nil
	case !waits && l.held[name]:
		return nil
	case !waits:
		return s.newcomer(ctx, name, now)
	}
	plans := map[string]*chunks.Plan{}
	for _, p := range l.load.Tables() {
		if p.Plan.Table.Collection() != collection {
			continue
		}
		if plans[p.Plan.Filter], err = l.plan(ctx, now, p.Plan.Filter); err != nil {
			return err
		}
	}
	l.load.Replan(collection, func(p *chunks.Progress) *chunks.Plan { return plans[p.Plan.Filter] })
	return nil
}

// newcomer loads a table whose rows no event told.
func (s *stream) newcomer(ctx context.Context, name ddl.TableName, now *table) error {
	l := s.loader
	if s.config.Snapshot == SnapshotNoData || now == nil {
		return nil
	}
	if s.parking.Has(now.String()) { // loaded when it is unparked
		s.parking.Owe(now.String())
		l.dirty = l.dirty || l.held[name]
		delete(l.held, name)
		return nil
	}
	if !s.config.loads.Match(name.Database + "." + name.Table) {
		l.hold(name)
		return nil
	}
	holds, err := s.holds(ctx, name)
	if err != nil {
		return err
	}
	if holds {
		if err := s.truncate(ctx, name); err != nil {
			return err
		}
	}
	delete(l.left, name)
	s.run.log.Info("table joins: it is loaded beside the stream", "table", now.String())
	s.run.tracker.SetState(connectors.StateLoading, nil)
	return l.add(ctx, now, "", "")
}

// renamed follows the steps of one statement, which happen at once.
func (s *stream) renamed(ctx context.Context, steps []ddl.Rename) error {
	origin := map[ddl.TableName]ddl.TableName{} // of the name that a table has now
	var gone, names []ddl.TableName
	for _, step := range steps {
		from, ok := origin[step.From]
		if !ok {
			from = step.From
			gone = append(gone, from)
		}
		delete(origin, step.From)
		if _, ok := origin[step.To]; !ok {
			names = append(names, step.To)
		}
		origin[step.To] = from
	}
	was := tableSet{}
	for _, name := range gone {
		was[name] = true
		if s.config.captures(name.Database, name.Table) && origin[name] != name {
			if _, followed := origin[name]; !followed || !migrates(origin[name], name) {
				s.leave(name)
			}
		}
	}
	for _, name := range names {
		from, ok := origin[name]
		if !ok || !s.config.captures(name.Database, name.Table) {
			continue
		}
		if from == name || was[name] && migrates(from, name) { // the same rows, by other columns
			if err := s.altered(ctx, name, false); err != nil {
				return err
			}
			continue
		}
		now, err := s.run.lookUp(ctx, name.Database, name.Table)
		if err != nil {
			return err
		}
		if now == nil { // the statement that did that is behind this one
			continue
		}
		s.stop(name)
		delete(s.loader.held, name)
		if err := s.newcomer(ctx, name, now); err != nil {
			return err
		}
	}
	return nil
}

// migrates tells whether a table is the copy that a tool for online changes of schema makes of another one (M3): gh-ost, pt-osc, spirit.
// It takes the place of its original in one statement, and has the same rows.
func migrates(from, to ddl.TableName) bool {
	if from.Database != to.Database || !strings.HasPrefix(from.Table, "_") {
		return false
	}
	name := strings.TrimLeft(from.Table, "_")
	original := strings.TrimLeft(to.Table, "_")
	return name == original+"_gho" || name == original+"_new"
}

// truncate writes a truncate as an event of the transaction that is being read.
func (s *stream) truncate(ctx context.Context, name ddl.TableName) error {
	if collection := name.Database + "." + name.Table; s.parking.Has(collection) {
		return s.keepChange(ctx, collection, nil, keptTruncate, func(dst []byte) []byte { return dst })
	}
	t, err := s.lastVersion(ctx, name)
	if err != nil {
		return err
	}
	if err := s.Writer.EnsureTable(ctx, t); err != nil {
		return err
	}
	if err := s.Prepare(ctx, t); err != nil {
		return err
	}
	s.Meta.Binlog.Row = 0
	s.Next(t)
	return s.Truncate(t)
}
