package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/rowtrail/rowtrail/connectors/event"
	"github.com/rowtrail/rowtrail/sink"
)

// trace is what a target's columns were at the source when they were last written: it tells a renamed column from a new one (P19) and
// a changed type from one that the target's owner chose. It is kept in the target, in the transactions that change the table.
type trace struct {
	topic    string
	identity uint32
	columns  map[string]traced
}

type traced struct {
	Name   string `json:"name"`
	Number int    `json:"number"`
	Type   string `json:"type"`
}

// readTrace reads the trace of a topic. A topic that is applied from its start again, because its offsets are gone, has none.
func (s *session) readTrace(ctx context.Context, topic string) (*trace, error) {
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
	t := &trace{topic: topic, columns: make(map[string]traced, len(rows))}
	for _, r := range rows {
		identity, _ := strconv.ParseUint(string(r[1]), 10, 32)
		number, _ := strconv.Atoi(string(r[2]))
		t.identity = uint32(identity)
		t.columns[string(r[0])] = traced{string(r[0]), number, string(r[3])}
	}
	return t, nil
}

// save brings the trace up to a table version. Columns that it lacks stay: another one may take their name.
func (t *trace) save(ctx context.Context, s *session, schema *event.Schema, gone []string) error {
	var list []traced
	for i := range schema.Columns {
		c := &schema.Columns[i]
		now := traced{c.Name, c.Number, c.Type}
		was, known := t.columns[c.Name]
		if now.Number == 0 && t.identity == schema.Identity {
			now.Number = was.Number
		}
		if !known || was != now || t.identity != schema.Identity {
			list = append(list, now)
		}
	}
	c := s.target.config
	if t.identity != schema.Identity {
		gone = slices.Collect(maps.Keys(t.columns)) // numbers of another table
	}
	for _, name := range gone {
		if _, err := query(ctx, s.conn, "DELETE FROM "+c.columnsTable()+" WHERE sink = $1 AND topic = $2 AND column_name = $3", c.Name, t.topic, name); err != nil {
			return fmt.Errorf("write %s: %w", c.columnsTable(), err)
		}
	}
	if len(list) == 0 {
		return nil
	}
	columns, err := json.Marshal(list)
	if err != nil {
		return fmt.Errorf("write %s: %w", c.columnsTable(), err)
	}
	_, err = query(ctx, s.conn, "INSERT INTO "+c.columnsTable()+` (sink, topic, column_name, identity, number, type)
		SELECT $1, $2, j.name, $3, j.number, j.type FROM json_to_recordset($4::json) AS j(name text, number integer, type text)
		ON CONFLICT (sink, topic, column_name) DO UPDATE SET identity = EXCLUDED.identity, number = EXCLUDED.number, type = EXCLUDED.type`,
		c.Name, t.topic, strconv.FormatUint(uint64(schema.Identity), 10), string(columns))
	if err != nil {
		return fmt.Errorf("write %s: %w", c.columnsTable(), err)
	}
	return nil
}

// former is the name that a column had before.
func (t *trace) former(schema *event.Schema, c *event.Column) string {
	if c.Number == 0 || t.identity != schema.Identity {
		return ""
	}
	for name, was := range t.columns {
		if was.Number == c.Number {
			return name
		}
	}
	return ""
}

// follow does to a table what the source did to its columns, as far as the trace tells: renames, and types that grew. It returns the
// names that are no more, and stops at what it must not or cannot do (invariant 7).
func (e *evolver) follow(ctx context.Context, t *table, tr *trace) (gone []string, changed bool, err error) {
	renames, gone, err := e.renames(t, tr)
	if err != nil {
		return nil, false, err
	}
	steps := renameSteps(e.name, renames)
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
		was, known := tr.columns[name]
		if f := tr.former(e.schema, c); f != "" {
			was, known = tr.columns[f], true
		}
		have, ok := t.columns[name]
		if !ok || !known || was.Type == c.Type {
			continue
		}
		sql, err := e.retype(ctx, c, was.Type, have.declared, tr.topic)
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
func (e *evolver) renames(t *table, tr *trace) (renames map[string]string, gone []string, err error) {
	renames = map[string]string{}
	taken := map[string]bool{}
	for i := range e.schema.Columns {
		c := &e.schema.Columns[i]
		if f := tr.former(e.schema, c); f != "" && f != c.Name {
			gone = append(gone, f)
			if _, ok := t.columns[f]; ok {
				renames[c.Name] = f
				taken[f] = true
			}
		}
	}
	for i := range e.schema.Columns {
		c := &e.schema.Columns[i]
		_, renamed := renames[c.Name]
		was := tr.columns[c.Name]
		_, there := t.columns[c.Name]
		replaced := c.Number != 0 && was.Number != 0 && was.Number != c.Number && tr.identity == e.schema.Identity
		if !there || taken[c.Name] || !renamed && !replaced {
			continue
		}
		if renamed && !replaced { // renamed by hand, or a column of the target's own
			if _, known := tr.columns[c.Name]; !known {
				return nil, nil, sink.Permanent(fmt.Errorf("the source renamed column %s of table %s to %s, and the target has both: ALTER TABLE %s DROP COLUMN %s, of the one that is not needed",
					quote(renames[c.Name]), e.name, quote(c.Name), e.name, quote(c.Name)))
			}
		}
		return nil, nil, sink.Permanent(fmt.Errorf("the source dropped column %s of table %s and has another one of that name now, while the target's rows hold the values of the former: "+
			"ALTER TABLE %s DROP COLUMN %s, and the sink goes on", quote(c.Name), e.name, e.name, quote(c.Name)))
	}
	gone = slices.DeleteFunc(gone, func(name string) bool {
		return slices.ContainsFunc(e.schema.Columns, func(c event.Column) bool { return c.Name == name })
	})
	return renames, gone, nil
}

// renameSteps renames columns, on a detour when names are exchanged.
func renameSteps(name tableName, renames map[string]string) []string {
	rename := func(from, to string) string {
		return "ALTER TABLE " + name.String() + " RENAME COLUMN " + quote(from) + " TO " + quote(to)
	}
	var first, then []string
	for i, to := range slices.Sorted(maps.Keys(renames)) {
		from := renames[to]
		if _, clash := renames[from]; !clash {
			then = append(then, rename(from, to))
			continue
		}
		detour := "rowtrail_rename_" + strconv.Itoa(i)
		first = append(first, rename(from, detour))
		then = append(then, rename(detour, to))
	}
	return append(first, then...)
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
	if !ok {
		kind = c.Type
	}
	if kind == declared {
		return "", nil
	}
	using := quote(c.Name)
	if len(c.Enum) > 0 {
		using += "::text"
	}
	sql := "ALTER TABLE " + e.name.String() + " ALTER COLUMN " + quote(c.Name) + " TYPE " + kind + " USING " + using + "::" + kind
	if widens(was, c.Type) {
		switch {
		case widens(kind, declared): // the target's owner made it wider already
			return "", nil
		case e.allow && widens(declared, kind):
			return sql, nil
		}
	}
	config := e.s.target.config
	return "", sink.Permanent(fmt.Errorf("the source changed the type of column %s of table %s from %s to %s, and the target has %s: %s (or, to keep the target's type, "+
		"UPDATE %s SET type = %s WHERE sink = %s AND topic = %s AND column_name = %s)", quote(c.Name), e.name, was, c.Type, declared, sql,
		config.columnsTable(), literal(c.Type), literal(config.Name), literal(topic), literal(c.Name)))
}
