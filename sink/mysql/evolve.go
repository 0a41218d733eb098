package mysql

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/rowtrail/rowtrail/connectors/event"
	"github.com/rowtrail/rowtrail/sink"
	"github.com/rowtrail/rowtrail/sink/window"
)

// errAgain ends a target transaction that stood in the way of a change of a table. The sink applies it again.
var errAgain = errors.New("the table was changed beside the target transaction, which is applied again")

// binding ties one version of a source table to a target table.
type binding struct {
	table   *table
	shape   window.Shape
	columns []boundColumn // written columns, key columns first in key order
	keys    int
	simple  bool // equal keys have equal text
}

// Shape tells the window what it gathers.
func (b *binding) Shape() *window.Shape { return &b.shape }

// Bind is described at window.Database.
func (s *session) Bind(ctx context.Context, schema *event.Schema, topic string, foreign bool) (*binding, error) {
	key := schema.KeyColumns()
	name := s.target.config.tableFor(schema.Schema, schema.Table)
	t := s.tables[name]
	if t == nil {
		var err error
		if t, err = s.lookup(ctx, name); err != nil {
			return nil, err
		}
	}
	e := evolver{s: s, schema: schema, name: name, allow: s.target.config.Evolve && !foreign, key: key}
	was := t
	t, err := e.bring(ctx, t, topic, foreign)
	if err != nil {
		return nil, err
	}
	if s.tables[name] = t; was != nil && was != t { // what was bound to the table as it was no longer fits
		s.in.Forget(was)
	}
	return newBinding(t, schema, key)
}

func newBinding(t *table, schema *event.Schema, key []int) (*binding, error) {
	b := &binding{table: t, keys: len(key), simple: true}
	names := make([]string, len(key))
	for i, k := range key {
		names[i] = schema.Columns[k].Name
	}
	if err := t.checkKey(names); err != nil {
		return nil, err
	}
	add := func(i int) error {
		source := &schema.Columns[i]
		c := t.columns[source.Name]
		if c.computed {
			return nil
		}
		b.columns = append(b.columns, boundColumn{source.Name, i, classOf(c.data), source.Kind, schema.Source, c})
		return fits(t, schema, source, c, len(key))
	}
	for _, k := range key {
		if err := add(k); err != nil {
			return nil, err
		}
		c := t.columns[schema.Columns[k].Name]
		b.simple = b.simple && (classOf(c.data) == classNumber || c.data == "date" || c.data == "binary" || c.data == "varbinary")
	}
	if len(b.columns) != len(key) {
		return nil, sink.Permanent(fmt.Errorf("table %s computes a key column itself: it cannot be written", t.name))
	}
	for i := range schema.Columns {
		if schema.Columns[i].Key == 0 {
			if err := add(i); err != nil {
				return nil, err
			}
		}
	}
	b.shape = window.Shape{Table: t, Keys: b.keys}
	for _, c := range b.columns {
		b.shape.Names, b.shape.Sources = append(b.shape.Names, c.name), append(b.shape.Sources, c.source)
	}
	return b, nil
}

// fits refuses columns that the server would round without a word: times with fewer digits, and FLOAT for DOUBLE.
func fits(t *table, schema *event.Schema, source *event.Column, c column, keys int) error {
	want, err := sourceType(schema, source, keys)
	have, ok := parseKind(c.declared)
	if err != nil || !ok || schema.Source == "" {
		return nil //nolint:nilerr // there is a column already, and the server judges its values
	}
	lossy := want.name == "double" && have.name == "float"
	if x, y := want.numbers(), have.numbers(); len(x) == 1 && len(y) == 1 {
		switch have.name {
		case "datetime", "timestamp", "time":
			switch want.name {
			case "datetime", "timestamp", "time":
				lossy = y[0] < x[0]
			}
		}
	}
	if !lossy {
		return nil
	}
	return sink.Permanent(fmt.Errorf("column %s of table %s is %s and would round the source's %s: ALTER TABLE %s MODIFY COLUMN %s %s",
		quote(source.Name), t.name, c.declared, want, t.name, quote(source.Name), want))
}

// evolver brings a target table up to a version of its source table.
type evolver struct {
	s      *session
	schema *event.Schema
	name   tableName
	allow  bool
	key    []int
}

// bring makes a table fit for a table version, and remembers that it is.
func (e *evolver) bring(ctx context.Context, t *table, topic string, foreign bool) (*table, error) {
	var tr *sink.Trace
	var gone []string
	var err error
	if !foreign {
		if tr, err = e.readTrace(ctx, topic); err != nil {
			return nil, err
		}
		if t != nil {
			if t, gone, err = e.follow(ctx, t, tr); err != nil {
				return nil, err
			}
		}
	}
	if t, err = e.complete(ctx, t); err != nil || foreign {
		return t, err
	}
	return t, e.saveTrace(ctx, tr, gone)
}

// complete creates what is missing.
func (e *evolver) complete(ctx context.Context, t *table) (*table, error) {
	var add, unknown []string
	for i := range e.schema.Columns {
		c := &e.schema.Columns[i]
		if t != nil {
			if _, ok := t.columns[c.Name]; ok {
				continue
			}
		}
		kind, definition, err := e.s.declare(ctx, e.schema, c, len(e.key))
		if err != nil {
			return nil, err
		}
		definition = quote(c.Name) + " " + definition
		switch {
		case c.Key > 0:
			definition += " NOT NULL"
		case t != nil && c.Missing != nil:
			value, err := e.standing(c, kind)
			if err != nil {
				return nil, err
			}
			definition += " DEFAULT " + value
		case t != nil && c.Default:
			unknown = append(unknown, quote(c.Name))
		}
		add = append(add, definition)
	}
	if t != nil && len(add) == 0 {
		return t, nil
	}
	var err error
	if t == nil {
		err = e.change(ctx, e.create(add), false)
	} else {
		err = e.change(ctx, []string{"ALTER TABLE " + e.name.String() + " ADD COLUMN " + strings.Join(add, ", ADD COLUMN ")}, false)
	}
	if err != nil {
		return nil, err
	}
	if len(unknown) > 0 {
		e.s.target.log.Warn("the source fills new columns by itself, and does not tell what its rows from before hold: they are NULL in the target",
			"table", e.name.String(), "columns", strings.Join(unknown, ", "), "remedy", "write these rows again at the source: each is then sent")
	}
	return e.lookAgain(ctx)
}

func (e *evolver) lookAgain(ctx context.Context) (*table, error) {
	t, err := e.s.lookup(ctx, e.name)
	if err == nil && t == nil {
		err = fmt.Errorf("read %s: not found after it was changed", e.name)
	}
	return t, err
}

// standing is what rows from before have in a new column, as its default. It stays: what the log still has from before is written without
// the column.
func (e *evolver) standing(c *event.Column, k kindOf) (string, error) {
	bound := boundColumn{name: c.Name, class: classOf(k.name), kind: c.Kind, of: e.schema.Source, column: column{data: k.name}}
	value, err := bound.append(nil, []byte(*c.Missing))
	if err != nil {
		return "", err
	}
	return "(" + string(value) + ")", nil
}

// create is the SQL of a new table. Only key columns are NOT NULL: a column that the source drops later would else make every new row
// impossible.
func (e *evolver) create(columns []string) []string {
	names := make([]string, len(e.key))
	for i, k := range e.key {
		names[i] = e.schema.Columns[k].Name
	}
	return []string{"CREATE TABLE IF NOT EXISTS " + e.name.String() + " (" + strings.Join(columns, ", ") + ", PRIMARY KEY (" + quoted(names) + ")) ENGINE = InnoDB"}
}

// change runs DDL beside the session, which must not have written the table: it would wait for itself. moves tells that rows written
// before would not fit afterwards.
func (e *evolver) change(ctx context.Context, statements []string, moves bool) error {
	s := e.s
	if !e.allow {
		return sink.Permanent(fmt.Errorf("table %s lacks what the source has, and it is not to be changed by the sink: %s", e.name, strings.Join(statements, "; ")))
	}
	again := s.open && s.touched[e.name]
	if again && moves { // alone, its transaction begins after those that wrote the table as it was
		return sink.Permanent(fmt.Errorf("the source renamed columns of table %s in a transaction that wrote it before: %s", e.name, strings.Join(statements, "; ")))
	}
	if again {
		if _, err := s.conn.exec(ctx, "ROLLBACK"); err != nil {
			return fmt.Errorf("roll back target transaction: %w", err)
		}
	}
	side, err := connect(ctx, s.target.config)
	if err != nil {
		return err
	}
	defer side.close()
	if err := e.createDatabase(ctx, side); err != nil {
		return err
	}
	for _, sql := range statements {
		if _, err := side.exec(ctx, sql); err != nil {
			return fmt.Errorf("change table in the target: %w; run by hand what the sink may not: %s", err, sql)
		}
		s.target.log.Info("table changed in the target", "sql", sql)
	}
	if again {
		return fmt.Errorf("table %s: %w", e.name, errAgain)
	}
	return nil
}

func (e *evolver) createDatabase(ctx context.Context, side *conn) error {
	rows, err := side.query(ctx, "SELECT COUNT(*) FROM information_schema.schemata WHERE schema_name = "+literal(e.name.Schema))
	if err != nil || rows[0][0] != "0" {
		return err
	}
	sql := "CREATE DATABASE IF NOT EXISTS " + quote(e.name.Schema)
	if _, err := side.exec(ctx, sql); err != nil {
		return fmt.Errorf("change database in the target: %w; run by hand what the sink may not: %s", err, sql)
	}
	e.s.target.log.Info("database changed in the target", "sql", sql)
	return nil
}
