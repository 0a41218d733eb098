package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/rowtrail/rowtrail/connectors/event"
	"github.com/rowtrail/rowtrail/sink"
)

// readTrace reads the trace of a topic. A topic that is applied from its start again, because its offsets are gone, has none.
func (s *session) readTrace(ctx context.Context, topic string, schema *event.Schema) (*sink.Trace, error) {
	c := s.target.config
	if !s.traced[topic] && !slices.ContainsFunc(s.offsets, func(o sink.Offset) bool { return o.Topic == topic }) {
		if _, err := query(ctx, s.conn, "DELETE FROM "+c.columnsTable()+" WHERE sink = $1 AND topic = $2", c.Name, topic); err != nil {
			return nil, fmt.Errorf("write %s: %w", c.columnsTable(), err)
		}
	}
	s.traced[topic] = true
	rows, err := query(ctx, s.conn, "SELECT column_name, identity, number, type FROM "+c.columnsTable()+" WHERE sink = $1 AND topic = $2", c.Name, topic)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", c.columnsTable(), err)
	}
	t := &sink.Trace{Topic: topic, Columns: make(map[string]sink.Traced, len(rows)), Type: func(c *event.Column) string { return sourceType(schema, c) }}
	for _, r := range rows {
		identity, _ := strconv.ParseUint(string(r[1]), 10, 32)
		number, _ := strconv.Atoi(string(r[2]))
		t.Identity = uint32(identity)
		t.Columns[string(r[0])] = sink.Traced{Name: string(r[0]), Number: number, Type: string(r[3])}
	}
	return t, nil
}

// saveTrace brings a trace up to a table version.
func (s *session) saveTrace(ctx context.Context, t *sink.Trace, schema *event.Schema, gone []string) error {
	drop, put := t.Changes(schema, gone)
	c := s.target.config
	for _, name := range drop {
		if _, err := query(ctx, s.conn, "DELETE FROM "+c.columnsTable()+" WHERE sink = $1 AND topic = $2 AND column_name = $3", c.Name, t.Topic, name); err != nil {
			return fmt.Errorf("write %s: %w", c.columnsTable(), err)
		}
	}
	if len(put) == 0 {
		return nil
	}
	columns, err := json.Marshal(put)
	if err != nil {
		return fmt.Errorf("write %s: %w", c.columnsTable(), err)
	}
	_, err = query(ctx, s.conn, "INSERT INTO "+c.columnsTable()+` (sink, topic, column_name, identity, number, type)
		SELECT $1, $2, j.name, $3, j.number, j.type FROM json_to_recordset($4::json) AS j(name text, number integer, type text)
		ON CONFLICT (sink, topic, column_name) DO UPDATE SET identity = EXCLUDED.identity, number = EXCLUDED.number, type = EXCLUDED.type`,
		c.Name, t.Topic, strconv.FormatUint(uint64(schema.Identity), 10), string(columns))
	if err != nil {
		return fmt.Errorf("write %s: %w", c.columnsTable(), err)
	}
	return nil
}

// follow does to a table what the source did to its columns, as far as the trace tells: renames, and types that grew. It returns the
// names that are no more, and stops at what it must not or cannot do (invariant 7).
func (e *evolver) follow(ctx context.Context, t *table, tr *sink.Trace) (gone []string, changed bool, err error) {
	renames, gone, err := e.renames(t, tr)
	if err != nil {
		return nil, false, err
	}
	var steps []string
	for _, step := range sink.RenameSteps(renames) {
		steps = append(steps, "ALTER TABLE "+e.name.String()+" RENAME COLUMN "+quote(step[0])+" TO "+quote(step[1]))
	}
	if !e.allow && len(steps) > 0 {
		return nil, false, sink.Permanent(fmt.Errorf("the source renamed columns of table %s, and it is not to be changed by the sink: %s", e.name, strings.Join(steps, "; ")))
	}
	for _, sql := range steps {
		if err := e.s.change(ctx, e.s.conn, "table", sql); err != nil {
			return nil, false, err
		}
	}
	for i := range e.schema.Columns {
		c := &e.schema.Columns[i]
		name := c.Name
		if from, ok := renames[name]; ok {
			name = from
		}
		was, known := tr.Was(e.schema, c, name)
		have, ok := t.columns[name]
		if !ok || !known || was.Type == sourceType(e.schema, c) {
			continue
		}
		sql, err := e.retype(ctx, c, was.Type, have.declared, tr.Topic)
		if err != nil {
			return nil, false, err
		}
		if sql != "" {
			if err := e.s.change(ctx, e.s.conn, "table", sql); err != nil {
				return nil, false, err
			}
			changed = true
		}
	}
	return gone, changed || len(steps) > 0, nil
}

// renames lists new names and the former ones that the target still has.
func (e *evolver) renames(t *table, tr *sink.Trace) (renames map[string]string, gone []string, err error) {
	renames, gone, clash := tr.Renames(e.schema, func(name string) bool {
		_, ok := t.columns[name]
		return ok
	})
	switch {
	case clash == nil:
		return renames, gone, nil
	case clash.Former != "":
		return nil, nil, sink.Permanent(fmt.Errorf("the source renamed column %s of table %s to %s, and the target has both: ALTER TABLE %s DROP COLUMN %s, of the one that is not needed",
			quote(clash.Former), e.name, quote(clash.Column), e.name, quote(clash.Column)))
	}
	return nil, nil, sink.Permanent(fmt.Errorf("the source dropped column %s of table %s and has another one of that name now, while the target's rows hold the values of the former: "+
		"ALTER TABLE %s DROP COLUMN %s, and the sink goes on", quote(clash.Column), e.name, e.name, quote(clash.Column)))
}

// retype is the SQL that follows a change of type at the source; "" when the target needs none.
func (e *evolver) retype(ctx context.Context, c *event.Column, was, declared, topic string) (string, error) {
	var kind string
	var err error
	ok := true
	if e.allow {
		kind, err = e.typeOf(ctx, c)
	} else {
		kind, ok, err = e.resolve(ctx, c)
	}
	if err != nil {
		return "", err
	}
	source := sourceType(e.schema, c)
	if !ok {
		kind = source
	}
	if kind == declared {
		return "", nil
	}
	using := quote(c.Name)
	if len(c.Enum) > 0 && !fromMySQL(e.schema) {
		using += "::text"
	}
	sql := "ALTER TABLE " + e.name.String() + " ALTER COLUMN " + quote(c.Name) + " TYPE " + kind + " USING " + using + "::" + kind
	if widens(was, source) {
		switch {
		case widens(kind, declared): // the target's owner made it wider already
			return "", nil
		case e.allow && widens(declared, kind):
			return sql, nil
		}
	}
	config := e.s.target.config
	return "", sink.Permanent(fmt.Errorf("the source changed the type of column %s of table %s from %s to %s, and the target has %s: %s (or, to keep the target's type, "+
		"UPDATE %s SET type = %s WHERE sink = %s AND topic = %s AND column_name = %s)", quote(c.Name), e.name, was, source, declared, sql,
		config.columnsTable(), literal(source), literal(config.Name), literal(topic), literal(c.Name)))
}
