package mysql

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/rowtrail/rowtrail/connectors/event"
	"github.com/rowtrail/rowtrail/sink"
)

// typeText is a type as the trace writes it.
func (e *evolver) typeText(c *event.Column) string {
	k, err := sourceType(e.schema, c, len(e.key))
	if err != nil {
		return c.Type
	}
	return k.withCharset()
}

func (k kindOf) withCharset() string {
	if k.charset == "" {
		return k.String()
	}
	return k.String() + " CHARACTER SET " + k.charset
}

// readTrace reads the trace of a topic. A topic that is applied from its start again, because its offsets are gone, has none.
func (e *evolver) readTrace(ctx context.Context, topic string) (*sink.Trace, error) {
	s, c := e.s, e.s.target.config
	where := " WHERE sink = " + literal(c.Name) + " AND topic = " + literal(topic)
	t := &sink.Trace{Topic: topic, Columns: map[string]sink.Traced{}, Type: e.typeText}
	if !s.traced[topic] && !slices.ContainsFunc(s.offsets, func(o sink.Offset) bool { return o.Topic == topic }) {
		if err := s.begin(ctx); err != nil {
			return nil, err
		}
		if _, err := s.conn.exec(ctx, "DELETE FROM "+c.columnsTable()+where); err != nil {
			return nil, fmt.Errorf("write %s: %w", c.columnsTable(), err)
		}
	}
	s.traced[topic] = true
	rows, err := s.conn.query(ctx, "SELECT column_name, identity, number, type FROM "+c.columnsTable()+where)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", c.columnsTable(), err)
	}
	for _, r := range rows {
		identity, _ := strconv.ParseUint(r[1], 10, 32)
		number, _ := strconv.Atoi(r[2])
		t.Identity = uint32(identity)
		t.Columns[r[0]] = sink.Traced{Name: r[0], Number: number, Type: r[3]}
	}
	return t, nil
}

// saveTrace brings a trace up to a table version, in the target transaction.
func (e *evolver) saveTrace(ctx context.Context, t *sink.Trace, gone []string) error {
	drop, put := t.Changes(e.schema, gone)
	s, c := e.s, e.s.target.config
	if len(drop)+len(put) == 0 {
		return nil
	}
	if err := s.begin(ctx); err != nil {
		return err
	}
	key := literal(c.Name) + ", " + literal(t.Topic) + ", "
	for _, name := range drop {
		if _, err := s.conn.exec(ctx, "DELETE FROM "+c.columnsTable()+" WHERE (sink, topic, column_name) = ("+key+literal(name)+")"); err != nil {
			return fmt.Errorf("write %s: %w", c.columnsTable(), err)
		}
	}
	for _, p := range put { // the sink's own table, with one key
		_, err := s.conn.exec(ctx, fmt.Sprintf("REPLACE INTO %s (sink, topic, column_name, identity, number, type) VALUES (%s%s, %d, %d, %s)",
			c.columnsTable(), key, literal(p.Name), e.schema.Identity, p.Number, literal(p.Type)))
		if err != nil {
			return fmt.Errorf("write %s: %w", c.columnsTable(), err)
		}
	}
	return nil
}

// follow does to a table what the source did to its columns, as far as the trace tells: renames, and types that grew. It returns the
// names that are no more, and stops at what it must not or cannot do (invariant 7).
func (e *evolver) follow(ctx context.Context, t *table, tr *sink.Trace) (*table, []string, error) {
	renames, gone, err := e.renames(t, tr)
	if err != nil {
		return nil, nil, err
	}
	var steps []string
	for _, step := range sink.RenameSteps(renames) {
		steps = append(steps, "ALTER TABLE "+e.name.String()+" RENAME COLUMN "+quote(step[0])+" TO "+quote(step[1]))
	}
	renamed := len(steps) > 0
	for i := range e.schema.Columns {
		c := &e.schema.Columns[i]
		name := c.Name
		if from, ok := renames[name]; ok {
			name = from
		}
		was, known := tr.Was(e.schema, c, name)
		have, ok := t.columns[name]
		if !ok || !known || was.Type == e.typeText(c) {
			continue
		}
		sql, err := e.retype(ctx, c, was.Type, have.declared, tr.Topic)
		if err != nil {
			return nil, nil, err
		}
		if sql != "" {
			steps = append(steps, sql)
		}
	}
	if len(steps) == 0 {
		return t, gone, nil
	}
	if err := e.change(ctx, steps, renamed); err != nil {
		return nil, nil, err
	}
	t, err = e.lookAgain(ctx)
	return t, gone, err
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
	kind, definition, err := e.s.declare(ctx, e.schema, c, len(e.key))
	if err != nil {
		return "", err
	}
	have, known := parseKind(declared)
	if known && widens(kind, have) && widens(have, kind) {
		return "", nil
	}
	switch {
	case c.Key > 0:
		definition += " NOT NULL"
	case c.Missing != nil:
		value, err := e.standing(c, kind)
		if err != nil {
			return "", err
		}
		definition += " DEFAULT " + value
	}
	sql := "ALTER TABLE " + e.name.String() + " MODIFY COLUMN " + quote(c.Name) + " " + definition
	now := e.typeText(c)
	before, fine := parseKind(was)
	after, fine2 := parseKind(now)
	if fine && fine2 && known && widens(before, after) {
		switch {
		case widens(kind, have): // the target's owner made it wider already
			return "", nil
		case e.allow && widens(have, kind):
			return sql, nil
		}
	}
	config := e.s.target.config
	return "", sink.Permanent(fmt.Errorf("the source changed the type of column %s of table %s from %s to %s, and the target has %s: %s (or, to keep the target's type, "+
		"UPDATE %s SET type = %s WHERE sink = %s AND topic = %s AND column_name = %s)", quote(c.Name), e.name, was, now, strings.TrimSpace(declared), sql,
		config.columnsTable(), literal(now), literal(config.Name), literal(topic), literal(c.Name)))
}
