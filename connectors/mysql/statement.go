package mysql

import (
	"context"
	"fmt"
	"strings"

	"github.com/rowtrail/rowtrail/connectors"
	"github.com/rowtrail/rowtrail/connectors/event"
	"github.com/rowtrail/rowtrail/connectors/mysql/binlog"
	"github.com/rowtrail/rowtrail/connectors/mysql/ddl"
	"github.com/rowtrail/rowtrail/connectors/mysql/schema"
)

// statement takes DDL, and whatever else was logged as a statement. Outside of BEGIN and COMMIT it is a transaction of its own.
func (s *stream) statement(ctx context.Context, e *binlog.Event) error {
	if !s.group.open {
		s.open(e)
	}
	alone := !s.group.explicit
	if !s.group.skip && !s.group.alter {
		if err := s.effect(ctx, e, alone); err != nil {
			return err
		}
	}
	if alone {
		return s.finish(ctx, e)
	}
	return nil
}

func (s *stream) effect(ctx context.Context, e *binlog.Event, alone bool) error {
	q := &e.Query
	if s.Meta.Binlog.Thread == 0 {
		s.Meta.Binlog.Thread = uint64(q.Thread)
	}
	if !e.Inner {
		s.Meta.Binlog.Pos = e.End - min(e.End, uint64(e.Header.Size))
	}
	change := s.run.history.book.Statement(s.bookPlace(), q)
	effect := &change.Effect
	if s.run.server.variables["lower_case_table_names"] == "1" {
		lower(effect)
	}
	s.distrust(effect, q.ErrorCode != 0)
	switch {
	case effect.Kind == ddl.DML, q.Load, effect.Kind == ddl.Unknown && !alone:
		return s.unlogged(ctx, e, effect)
	case effect.Kind == ddl.TruncateTable:
		if err := s.truncated(ctx, effect.Tables[0]); err != nil {
			return err
		}
		s.emptied(effect.Tables[0])
	case effect.Kind == ddl.Transaction, effect.Kind == ddl.Other:
		return nil
	}
	if effect.Rows {
		s.partitions(change.Text, effect)
	}
	if err := s.reshape(ctx, effect); err != nil {
		return err
	}
	if err := s.reshapeRepair(ctx, effect); err != nil {
		return err
	}
	if err := s.replaced(ctx, &change); err != nil {
		return err
	}
	return s.schemaChange(ctx, e, &change)
}

// unlogged refuses a change of captured tables whose rows are not in the binlog (M8).
func (s *stream) unlogged(ctx context.Context, e *binlog.Event, effect *ddl.Effect) error {
	at := fmt.Sprintf("at %s:%d (transaction %s, thread %d)", s.file, e.End, s.group.name, e.Query.Thread)
	named := false
	for _, t := range effect.Tables {
		if !s.config.captures(t.Database, t.Table) {
			continue
		}
		named = true
		name := t.Database + "." + t.Table
		if !s.parking.Has(name) {
			return s.unloggedFault(name, at)
		}
		if err := s.keepChange(ctx, name, nil, keptUnlogged, func(dst []byte) []byte { return append(dst, at...) }); err != nil {
			return err
		}
	}
	if named || !effect.Any {
		return nil
	}
	return s.unloggedFault("", at)
}

// unloggedFault is the Fault for a statement without its rows; collection is the table that it changed, "" if it may be any.
func (s *stream) unloggedFault(collection, at string) error {
	what, load := "table "+collection, s.config.reload(collection)
	if collection == "" {
		what, load = "any table", s.config.again()
	}
	return &connectors.Fault{
		Problem: fmt.Sprintf("a statement that may change %s was logged without its rows, %s", what, at), Collection: collection,
		Remedy: "SET GLOBAL binlog_format = 'ROW', and end the sessions that have another binlog_format of their own; what the statement changed is known only by a new load: " +
			load + ", or leave the table out with table.exclude.list",
	}
}

// truncated writes a truncate.
func (s *stream) truncated(ctx context.Context, name ddl.TableName) error {
	if !s.config.captures(name.Database, name.Table) || s.config.SkipTruncate {
		return nil
	}
	return s.truncate(ctx, name)
}

// lastVersion is a table as it is at the stream's place; of one that is not known there, that it is there.
func (s *stream) lastVersion(ctx context.Context, name ddl.TableName) (*connectors.Table, error) {
	all, errs := s.run.history.known(name)
	if all == nil {
		now, err := s.run.lookUp(ctx, name.Database, name.Table)
		if err != nil {
			return nil, err
		}
		if now != nil {
			all, errs = now.columnsOf()
		}
	}
	columns, err := s.config.captured(name.Database, name.Table, all, errs)
	if err != nil {
		return nil, err
	}
	t, err := s.config.NewTable(0, name.Database, name.Table, bare(columns))
	return &t, err
}

// partitions tells of rows that come or go without events.
func (s *stream) partitions(text string, effect *ddl.Effect) {
	for _, t := range effect.Tables {
		if s.config.captures(t.Database, t.Table) {
			const most = 200
			s.run.warn(fmt.Sprintf("table %s.%s: %q moves rows without an event for each: topic, state and targets keep what is gone. "+
				"To end this warning, begin anew: %s", t.Database, t.Table, text[:min(len(text), most)], s.config.again()))
		}
	}
}

// schemaChange writes the event of the schema-change topic.
func (s *stream) schemaChange(ctx context.Context, e *binlog.Event, done *schema.Change) error {
	if s.changes == nil {
		return nil
	}
	effect := &done.Effect
	change := event.SchemaChange{Database: string(e.Query.Schema), DDL: strings.TrimRight(done.Text, "\x00")}
	wanted := false
	switch effect.Kind {
	case ddl.CreateDatabase, ddl.AlterDatabase, ddl.DropDatabase:
		change.Database = effect.Database
		wanted = s.config.capturesDatabase(effect.Database)
	default:
		change.Tables = s.tableChanges(done)
		wanted = len(change.Tables) > 0
		for _, t := range effect.Tables {
			wanted = wanted || s.config.captures(t.Database, t.Table)
		}
		if len(change.Tables) > 0 {
			change.Database = change.Tables[0].Database
		} else if len(effect.Tables) > 0 {
			change.Database = effect.Tables[0].Database
		}
	}
	if !wanted {
		return nil
	}
	if err := s.Room(ctx); err != nil {
		return err
	}
	buf := s.Batch.Buf()
	key := connectors.Span{From: len(buf)}
	buf = s.changes.AppendKey(buf, change.Database)
	key.To = len(buf)
	value := connectors.Span{From: len(buf)}
	buf = s.changes.AppendValue(buf, &change, &s.Meta)
	value.To = len(buf)
	s.Batch.Keep(buf)
	s.Batch.Record(s.config.Prefix, 0, key.Of(buf), value.Of(buf), s.Now)
	return nil
}

// tableChanges says what became of the captured tables, and has those that are known as they are after the statement.
func (s *stream) tableChanges(done *schema.Change) []event.TableChange {
	var changes []event.TableChange
	for _, c := range done.Tables {
		if s.config.captures(c.Database, c.Table) {
			c.Columns, _ = s.config.captured(c.Database, c.Table, c.Columns, nil)
			changes = append(changes, c)
		}
	}
	for _, name := range moves(&done.Effect).gone() {
		if s.config.captures(name.Database, name.Table) {
			changes = append(changes, event.TableChange{Type: event.TableDrop, Database: name.Database, Table: name.Table})
		}
	}
	return changes
}
