package postgres

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/rowtrail/rowtrail/connectors/event"
	"github.com/rowtrail/rowtrail/sink"
	"github.com/rowtrail/rowtrail/sink/window"
)

// binding ties one version of a source table to a target table.
type binding struct {
	table   *table
	shape   window.Shape
	schema  *event.Schema
	columns []boundColumn // written columns, key columns first in key order
	keys    int
	enums   []enumColumn
	evolve  bool // the target may be changed
	simple  bool // equal keys have equal text
	sql     map[string]prepared
}

// Shape tells the window what it gathers.
func (b *binding) Shape() *window.Shape { return &b.shape }

// boundColumn is one column that is written.
type boundColumn struct {
	name   string
	source int // in Schema.Columns and Row
	cast   string
}

// simpleKeyTypes are those of which two equal values are always written alike.
func simpleKeyType(cast string) bool {
	switch cast {
	case "smallint", "integer", "bigint", "uuid", "text", "character varying", "date", "boolean":
		return true
	}
	return false
}

// Bind is described at window.Database. What it changes it changes inside of the target transaction.
func (s *session) Bind(ctx context.Context, schema *event.Schema, topic string, foreign bool) (*binding, error) {
	key := schema.KeyColumns()
	if err := s.begin(ctx); err != nil {
		return nil, err
	}
	name := s.target.config.tableFor(schema.Schema, schema.Table)
	t := s.tables[name]
	if t == nil {
		var err error
		if t, err = s.lookup(ctx, name); err != nil {
			return nil, err
		}
	}
	allow := s.target.config.Evolve && !foreign
	evolver := evolver{s: s, schema: schema, name: name, allow: allow}
	defer evolver.close()
	was := t
	t, err := evolver.bring(ctx, t, key, topic, foreign)
	if err != nil {
		return nil, err
	}
	if s.tables[name] = t; was != nil && was != t { // statements for the table as it was no longer fit
		s.in.Forget(was)
	}
	b, err := newBinding(t, schema, key)
	if err != nil {
		return nil, err
	}
	return b, s.enumColumns(ctx, b, allow)
}

func newBinding(t *table, schema *event.Schema, key []int) (*binding, error) {
	b := &binding{table: t, schema: schema, keys: len(key), simple: true, sql: make(map[string]prepared)}
	names := make([]string, len(key))
	for i, k := range key {
		names[i] = schema.Columns[k].Name
	}
	if err := t.checkKey(names); err != nil {
		return nil, err
	}
	add := func(i int) {
		c := t.columns[schema.Columns[i].Name]
		if c.computed {
			return
		}
		b.columns = append(b.columns, boundColumn{schema.Columns[i].Name, i, c.cast})
	}
	for _, k := range key {
		add(k)
		b.simple = b.simple && simpleKeyType(t.columns[schema.Columns[k].Name].cast)
	}
	if len(b.columns) != len(key) {
		return nil, sink.Permanent(fmt.Errorf("table %s computes a key column itself: it cannot be written", t.name))
	}
	for i := range schema.Columns {
		if schema.Columns[i].Key == 0 {
			add(i)
		}
	}
	b.shape = window.Shape{Table: t, Keys: b.keys}
	for _, c := range b.columns {
		b.shape.Names, b.shape.Sources = append(b.shape.Names, c.name), append(b.shape.Sources, c.source)
	}
	return b, nil
}

// evolver brings a target table up to a version of its source table. The table is changed in the target transaction;
// what tables share, schemas and types, on a connection of its own.
type evolver struct {
	s      *session
	schema *event.Schema
	name   tableName
	allow  bool
	side   *pgconn.PgConn // opened when it is needed
}

// connect opens the other connection. Nothing is looked up in the target transaction that is made on the side: a server
// process remembers what it did not find.
func (e *evolver) connect(ctx context.Context) (*pgconn.PgConn, error) {
	if e.side == nil {
		conn, err := e.s.connectAside(ctx)
		if err != nil {
			return nil, err
		}
		e.side = conn
	}
	return e.side, nil
}

func (e *evolver) close() {
	if e.side != nil {
		closeConn(e.side)
	}
}

// change runs DDL on the side.
func (e *evolver) change(ctx context.Context, what, sql string) error {
	conn, err := e.connect(ctx)
	if err != nil {
		return err
	}
	return e.s.change(ctx, conn, what, sql)
}

// bring makes a table fit for a table version, and remembers that it is.
func (e *evolver) bring(ctx context.Context, t *table, key []int, topic string, foreign bool) (*table, error) {
	if foreign {
		return e.evolve(ctx, t, key)
	}
	tr, err := e.s.readTrace(ctx, topic, e.schema)
	if err != nil {
		return nil, err
	}
	var gone []string
	if t != nil {
		var changed bool
		if gone, changed, err = e.follow(ctx, t, tr); err != nil {
			return nil, err
		}
		if changed {
			if t, err = e.s.lookup(ctx, e.name); err != nil {
				return nil, err
			}
		}
	}
	if t, err = e.evolve(ctx, t, key); err != nil {
		return nil, err
	}
	return t, e.s.saveTrace(ctx, tr, e.schema, gone)
}

// evolve creates what is missing.
func (e *evolver) evolve(ctx context.Context, t *table, key []int) (*table, error) {
	var add, filled, unknown []string
	for i := range e.schema.Columns {
		c := &e.schema.Columns[i]
		if t != nil {
			if _, ok := t.columns[c.Name]; ok {
				continue
			}
		}
		kind := sourceType(e.schema, c)
		if e.allow {
			var err error
			if kind, err = e.typeOf(ctx, c); err != nil {
				return nil, err
			}
		}
		definition := quote(c.Name) + " " + kind
		if t != nil {
			definition = addition(definition, c.Missing)
			switch {
			case c.Missing != nil:
				filled = append(filled, c.Name)
			case c.Default:
				unknown = append(unknown, quote(c.Name))
			}
		}
		add = append(add, definition)
	}
	if t != nil && len(add) == 0 {
		return t, nil
	}
	sql := e.statement(t, add, key)
	if len(filled) > 0 {
		sql += "; " + dropDefaults(e.name, filled)
	}
	if !e.allow {
		return nil, sink.Permanent(fmt.Errorf("table %s lacks what the source has, and it is not to be changed by the sink: %s", e.name, sql))
	}
	if err := e.s.change(ctx, e.s.conn, "table", sql); err != nil {
		return nil, err
	}
	if len(unknown) > 0 {
		e.s.target.log.Warn("the source fills new columns by itself, and does not tell what its rows from before hold: they are NULL in the target",
			"table", e.name.String(), "columns", strings.Join(unknown, ", "),
			"remedy", "at the source, UPDATE "+quote(e.schema.Schema)+"."+quote(e.schema.Table)+" SET "+unknown[0]+" = "+unknown[0]+": each row is then sent again")
	}
	t, err := e.s.lookup(ctx, e.name)
	if err == nil && t == nil {
		err = fmt.Errorf("read %s: not found after it was created", e.name)
	}
	return t, err
}

// statement creates the table or adds columns. Only key columns are NOT NULL: a column that the source drops later would
// else make every new row impossible.
func (e *evolver) statement(t *table, add []string, key []int) string {
	if t != nil {
		return "ALTER TABLE " + e.name.String() + " ADD COLUMN " + strings.Join(add, ", ADD COLUMN ")
	}
	names := make([]string, len(key))
	for i, k := range key {
		names[i] = quote(e.schema.Columns[k].Name)
	}
	create := "CREATE TABLE " + e.name.String() + " (" + strings.Join(add, ", ") + ", PRIMARY KEY (" + strings.Join(names, ", ") + "))"
	return create
}

// typeOf is the target's type for a new column: the source's, as the target prints it.
func (e *evolver) typeOf(ctx context.Context, c *event.Column) (string, error) {
	if err := e.schemaExists(ctx, e.name.Schema); err != nil {
		return "", err
	}
	kind, ok, err := e.resolve(ctx, c)
	if err != nil || ok {
		return kind, err
	}
	if fromMySQL(e.schema) {
		return "", sink.Permanent(fmt.Errorf("column %s has the type %s of MySQL or MariaDB, for which no type of Postgres is known: create the column by hand, or leave it out "+
			"at the source with column.exclude.list", c.Name, c.Type))
	}
	if len(c.Enum) > 0 {
		if err := e.createEnum(ctx, c); err != nil {
			return "", err
		}
		if kind, ok, err = e.resolve(ctx, c); err != nil || ok {
			return kind, err
		}
	}
	e.s.target.log.Warn("the target does not have the column's type, text is used instead",
		"table", e.name.String(), "column", c.Name, "type", c.Type)
	return "text", nil
}

// resolve asks the target for a type by name. The server prints it, so nothing of the record reaches the SQL unchecked.
func (e *evolver) resolve(ctx context.Context, c *event.Column) (string, bool, error) {
	if fromMySQL(e.schema) {
		kind := mysqlType(c)
		return kind, kind != "", nil
	}
	modifier := int32(-1)
	if strings.Contains(c.Type, "(") { // else a modifier is how values are written, not a limit of the column
		modifier = c.Modifier
	}
	conn, err := e.connect(ctx)
	if err != nil {
		return "", false, err
	}
	rows, err := query(ctx, conn, "SELECT format_type(to_regtype($1), $2)", c.Type, strconv.Itoa(int(modifier)))
	if err != nil {
		return "", false, fmt.Errorf("look for type %s: %w", c.Type, err)
	}
	if rows[0][0] == nil {
		return "", false, nil
	}
	return string(rows[0][0]), true, nil
}

func (e *evolver) createEnum(ctx context.Context, c *event.Column) error {
	name := strings.TrimSuffix(c.Type, "[]")
	schema, kind, err := splitQualified(name)
	if err != nil {
		return sink.Permanent(fmt.Errorf("read type %s of column %s: %w", c.Type, c.Name, err))
	}
	if err := e.schemaExists(ctx, schema); err != nil {
		return err
	}
	labels := make([]string, len(c.Enum))
	for i, l := range c.Enum {
		labels[i] = literal(l)
	}
	return e.change(ctx, "enum type", "CREATE TYPE "+tableName{schema, kind}.String()+" AS ENUM ("+strings.Join(labels, ", ")+")")
}

func (e *evolver) schemaExists(ctx context.Context, schema string) error {
	conn, err := e.connect(ctx)
	if err != nil {
		return err
	}
	rows, err := query(ctx, conn, "SELECT to_regnamespace($1) IS NOT NULL", quote(schema))
	if err != nil {
		return fmt.Errorf("look for schema %s: %w", quote(schema), err)
	}
	if string(rows[0][0]) == "t" {
		return nil
	}
	return e.change(ctx, "schema", "CREATE SCHEMA IF NOT EXISTS "+quote(schema))
}

// connectAside opens a connection beside the session's, for what must be committed before the target transaction is.
func (s *session) connectAside(ctx context.Context) (*pgconn.PgConn, error) {
	return connect(ctx, s.target.config, s.target.config.applicationName()+" types")
}

// change runs DDL in the target.
func (s *session) change(ctx context.Context, conn *pgconn.PgConn, what, sql string) error {
	if _, err := conn.Exec(ctx, sql).ReadAll(); err != nil {
		return fmt.Errorf("change %s in the target: %w; run by hand what the sink may not: %s", what, err, sql)
	}
	s.target.log.Info(what+" changed in the target", "sql", sql)
	return nil
}

// splitQualified takes a name apart as format_type prints it: schema.name, each in double quotes when it needs them.
func splitQualified(text string) (schema, name string, err error) {
	first, rest, err := cutIdentifier(text)
	if err != nil {
		return "", "", err
	}
	if rest == "" {
		return "public", first, nil
	}
	second, rest, err := cutIdentifier(strings.TrimPrefix(rest, "."))
	if err != nil || rest != "" {
		return "", "", errors.New("not of the form schema.name")
	}
	return first, second, nil
}

func cutIdentifier(text string) (name, rest string, err error) {
	if !strings.HasPrefix(text, `"`) {
		i := strings.IndexByte(text, '.')
		if i < 0 {
			i = len(text)
		}
		if i == 0 {
			return "", "", errors.New("empty name")
		}
		return text[:i], text[i:], nil
	}
	var b strings.Builder
	for i := 1; i < len(text); i++ {
		switch {
		case text[i] != '"':
			b.WriteByte(text[i])
		case i+1 < len(text) && text[i+1] == '"':
			b.WriteByte('"')
			i++
		default:
			return b.String(), text[i+1:], nil
		}
	}
	return "", "", errors.New("quote is not closed")
}

// literal quotes a string; the session sets standard_conforming_strings.
func literal(text string) string { return "'" + strings.ReplaceAll(text, "'", "''") + "'" }
