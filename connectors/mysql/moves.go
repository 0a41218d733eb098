package mysql

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/rowtrail/rowtrail/connectors/event"
	"github.com/rowtrail/rowtrail/connectors/mysql/ddl"
	"github.com/rowtrail/rowtrail/connectors/mysql/schema"
)

// moved says which table each name of a rename's stands for after it: by its name before, or for none.
type moved struct {
	names []ddl.TableName // in the order of the statement
	now   map[ddl.TableName]*ddl.TableName
	taken map[ddl.TableName]bool // the name stood for a table before
}

// moves follows the renames of a statement, of which a later one sees what earlier ones did.
func moves(e *ddl.Effect) *moved {
	m := &moved{now: map[ddl.TableName]*ddl.TableName{}, taken: map[ddl.TableName]bool{}}
	for _, r := range e.Renames {
		if r.From == r.To {
			continue
		}
		from, known := m.now[r.From]
		if !known {
			from = &r.From
			m.taken[r.From] = true
		}
		m.now[r.From], m.now[r.To] = nil, from
		for _, n := range []ddl.TableName{r.From, r.To} {
			if !slices.Contains(m.names, n) {
				m.names = append(m.names, n)
			}
		}
	}
	return m
}

// gone are the names that stand for no table any more.
func (m *moved) gone() []ddl.TableName {
	var list []ddl.TableName
	for _, n := range m.names {
		if m.now[n] == nil && m.taken[n] {
			list = append(list, n)
		}
	}
	return list
}

// strangers are the names of tables whose rows are not in the name's topic: captured names that stand for another table than before, or
// for one where there was none. The copy that a tool for online changes of schema puts in a table's place has the table's rows (M3).
func (m *moved) strangers(captures func(ddl.TableName) bool) []ddl.TableName {
	var list []ddl.TableName
	for _, n := range m.names {
		if of := m.now[n]; of != nil && *of != n && captures(n) && !(m.taken[n] && migrates(*of, n)) {
			list = append(list, n)
		}
	}
	return list
}

// replaced follows a statement after which a table's rows in the log are no longer those of the source though no row was changed: they
// have another key. The table is loaded again. Where tables are not loaded there is a warning, also of tables that took a name (renamed
// loads those).
func (s *stream) replaced(ctx context.Context, change *schema.Change) error {
	captures := func(n ddl.TableName) bool { return s.config.captures(n.Database, n.Table) }
	m := moves(&change.Effect)
	for _, n := range m.strangers(captures) {
		if !s.loads(n) {
			s.run.warn(fmt.Sprintf("table %s.%s was %s.%s before: its topic, state and targets lack the rows that it had then. To end this warning, begin anew: %s",
				n.Database, n.Table, m.now[n].Database, m.now[n].Table, s.config.again()))
		}
	}
	n := change.Altered
	if change.Before == nil || !captures(n) {
		return nil
	}
	before, _ := s.run.history.book.Columns(change.Before)
	after, _ := s.run.history.book.Columns(change.After)
	was, is := s.config.keyForm(n, before), s.config.keyForm(n, after)
	if was == is {
		return nil
	}
	if !s.loads(n) {
		s.run.warn(fmt.Sprintf("table %s.%s: the key of its records was (%s) and is (%s): topic, state and targets keep rows under their former keys. "+
			"To end this warning, begin anew: %s", n.Database, n.Table, was, is, s.config.again()))
		return nil
	}
	now, err := s.run.lookUp(ctx, n.Database, n.Table)
	if now == nil || err != nil { // gone: the statement that did that is behind this one
		return err
	}
	s.run.log.Info("the key of a table's records changes: it is loaded again", "table", now.String(), "was", was, "is", is)
	s.stop(n)
	delete(s.loader.held, n)
	return s.newcomer(ctx, n, now)
}

// loads tells whether a table that joins is loaded.
func (s *stream) loads(n ddl.TableName) bool {
	return s.config.Snapshot != SnapshotNoData && s.config.loads.Match(n.Database+"."+n.Table)
}

// keyForm is what records' keys of a table are made of: two versions of a table with the same form give a row the same key.
func (c *Config) keyForm(n ddl.TableName, all []event.TableColumn) string {
	list, _ := c.captured(n.Database, n.Table, all, nil)
	columns := bare(list)
	var form []string
	for _, i := range (&event.Schema{Columns: columns}).KeyColumns() {
		k := &columns[i]
		s := k.Name
		switch k.Kind {
		case event.KindInt16, event.KindInt32, event.KindInt64: // the same digits
			s += " integer"
			if c.Event.SchemasEnable {
				s += fmt.Sprintf(" %s", k.Kind)
			}
		case event.KindText, event.KindEnum, event.KindSet:
			s += " text"
			if c.Event.SchemasEnable {
				s += fmt.Sprintf(" %s %s", k.Kind, strings.Join(k.Enum, ","))
			}
		default:
			s += fmt.Sprintf(" %s", k.Type)
		}
		form = append(form, s)
	}
	return strings.Join(form, ", ")
}
