package mysql

import (
	"context"
	"fmt"
	"strings"

	"github.com/rowtrail/rowtrail/connectors"
	"github.com/rowtrail/rowtrail/connectors/event"
	"github.com/rowtrail/rowtrail/connectors/mysql/binlog"
	"github.com/rowtrail/rowtrail/connectors/mysql/charset"
	"github.com/rowtrail/rowtrail/connectors/mysql/ddl"
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
	text := s.utf8(q)
	flavour := ddl.MySQL
	if s.config.MariaDB {
		flavour = ddl.MariaDB
	}
	effect := ddl.Parse(text, ddl.Options{Flavour: flavour, Version: s.run.server.number, Database: string(q.Schema), Mode: ddl.SQLMode(q.SQLMode)})
	if s.run.server.variables["lower_case_table_names"] == "1" {
		lower(&effect)
	}
	if s.Meta.Binlog.Thread == 0 {
		s.Meta.Binlog.Thread = uint64(q.Thread)
	}
	s.distrust(&effect, q.ErrorCode != 0)
	switch {
	case effect.Kind == ddl.DML, q.Load, effect.Kind == ddl.Unknown && !alone:
		return s.unlogged(ctx, e, &effect)
	case effect.Kind == ddl.TruncateTable:
		if err := s.truncated(ctx, effect.Tables[0]); err != nil {
			return err
		}
		s.emptied(effect.Tables[0])
	case effect.Kind == ddl.Transaction, effect.Kind == ddl.Other:
		return nil
	}
	if effect.Rows {
		s.partitions(text, &effect)
	}
	if err := s.reshape(ctx, &effect); err != nil {
		return err
	}
	if err := s.reshapeRepair(ctx, &effect); err != nil {
		return err
	}
	return s.schemaChange(ctx, e, text, &effect)
}

// utf8 is a statement's text in UTF-8: it is logged in the charset of its session.
func (s *stream) utf8(q *binlog.Query) []byte {
	name, ok := charset.OfCollation(uint64(q.Charset.Client))
	if d := decoderOf(&s.charsets, name, 0); ok && d != nil {
		if text, err := d.AppendUTF8(nil, q.Text); err == nil {
			return text
		}
	}
	return q.Text
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

// lastVersion is a table's last version that is known; of one without, that it is there.
func (s *stream) lastVersion(ctx context.Context, name ddl.TableName) (*connectors.Table, error) {
	var last *relation
	var id uint64
	for t, r := range s.relations {
		if r != nil && t.Schema == name.Database && t.Name == name.Table && (last == nil || t.ID > id) {
			last, id = r, t.ID
		}
	}
	if last != nil {
		return &last.Table, nil
	}
	now, err := s.run.lookUp(ctx, name.Database, name.Table)
	if err != nil {
		return nil, err
	}
	var columns []event.Column
	if now != nil {
		if columns, err = s.config.columnsOf(now); err != nil {
			return nil, err
		}
	}
	t, err := s.config.NewTable(0, name.Database, name.Table, columns)
	return &t, err
}

// columnsOf are the captured columns of a table as the catalog has it.
func (c *Config) columnsOf(t *table) ([]event.Column, error) {
	list := make([]described, len(t.columns))
	for i := range t.columns {
		list[i] = described{name: t.columns[i].name, facts: t.columns[i].facts, notNull: t.columns[i].notNull}
	}
	key := c.recordKey(t.schema, t.name, list, t.primary, t)
	var columns []event.Column
	for _, d := range list {
		at := 0
		for i, k := range key {
			if k == d.name {
				at = i + 1
			}
		}
		if at == 0 && !c.CapturesColumn(t.schema, t.name, d.name) {
			continue
		}
		ec, err := event.MySQLColumn(d.name, d.facts, d.notNull, at)
		if err != nil {
			return nil, connectors.Indescribable(t.String(), err)
		}
		columns = append(columns, ec)
	}
	return columns, nil
}

// partitions tells of rows that come or go without events.
func (s *stream) partitions(text []byte, effect *ddl.Effect) {
	for _, t := range effect.Tables {
		if s.config.captures(t.Database, t.Table) {
			const most = 200
			s.run.warn(fmt.Sprintf("table %s.%s: %q moves rows without an event for each: topic, state and targets keep what is gone. "+
				"To end this warning, begin anew: %s", t.Database, t.Table, text[:min(len(text), most)], s.config.again()))
		}
	}
}

// schemaChange writes the event of the schema-change topic.
func (s *stream) schemaChange(ctx context.Context, e *binlog.Event, text []byte, effect *ddl.Effect) error {
	if s.changes == nil {
		return nil
	}
	change := event.SchemaChange{Database: string(e.Query.Schema), DDL: strings.TrimRight(string(text), "\x00")}
	wanted := false
	switch effect.Kind {
	case ddl.CreateDatabase, ddl.AlterDatabase, ddl.DropDatabase:
		change.Database = effect.Database
		wanted = s.config.capturesDatabase(effect.Database)
	default:
		var err error
		if change.Tables, err = s.tableChanges(ctx, effect); err != nil {
			return err
		}
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

// tableChanges says what became of the captured tables. A table's description is the catalog's, which may be ahead.
func (s *stream) tableChanges(ctx context.Context, effect *ddl.Effect) ([]event.TableChange, error) {
	type named struct {
		name ddl.TableName
		typ  string
	}
	var list []named
	switch effect.Kind {
	case ddl.CreateTable:
		list = append(list, named{effect.Tables[0], event.TableCreate})
	case ddl.AlterTable:
		list = append(list, named{effect.Tables[0], event.TableAlter})
	case ddl.DropTable:
		for _, t := range effect.Tables {
			list = append(list, named{t, event.TableDrop})
		}
	}
	for _, r := range effect.Renames {
		list = append(list, named{r.From, event.TableDrop}, named{r.To, event.TableCreate})
	}
	var changes []event.TableChange
	for _, n := range list {
		if !s.config.captures(n.name.Database, n.name.Table) {
			continue
		}
		change := event.TableChange{Type: n.typ, Database: n.name.Database, Table: n.name.Table}
		if n.typ != event.TableDrop {
			now, err := s.run.lookUp(ctx, n.name.Database, n.name.Table)
			if err != nil {
				return nil, err
			}
			if now == nil {
				continue // it is gone by now: the statement that did that tells
			}
			if err := s.config.describeChange(&change, now); err != nil {
				return nil, err
			}
		}
		changes = append(changes, change)
	}
	return changes, nil
}

func (c *Config) describeChange(change *event.TableChange, now *table) error {
	change.Charset = now.charset
	if now.comment != "" {
		change.Comment = &now.comment
	}
	columns, err := c.columnsOf(now)
	if err != nil {
		return err
	}
	for _, ec := range columns {
		col := now.column(ec.Name)
		tc := event.TableColumn{Column: ec, AutoIncrement: col.auto, DefaultText: col.text}
		if col.comment != "" {
			tc.Comment = &col.comment
		}
		change.Columns = append(change.Columns, tc)
	}
	return nil
}
