package sink

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/rowtrail/rowtrail/connectors/event"
)

// Records without a position header come from other producers. Their key is a JSON object whose members are the key columns;
// their value a JSON object of columns, or a Debezium envelope around one (also within schema and payload). A null value
// deletes. The table must exist and have the columns: JSON says nothing about types. Strings and numbers are cast to
// the column's type; objects and arrays stay JSON.

// Foreign makes changes of such records.
type Foreign struct {
	schemas map[string]*event.Schema // by their columns
}

// maxForeignShapes bounds the sets of columns that a session keeps (invariant 9).
const maxForeignShapes = 1000

// Read turns such a record into a change of a made-up table version. A nil schema means that there is nothing to do.
func (f *Foreign) Read(ev *Event) (*event.Schema, event.Change, event.Row, error) {
	fail := func(err error) (*event.Schema, event.Change, event.Row, error) {
		return nil, event.Change{}, nil, Permanent(err)
	}
	if len(ev.RawKey) == 0 {
		return fail(errors.New("the record has no key, so its row cannot be told apart in the target"))
	}
	key, err := object(ev.RawKey)
	if err != nil || key == nil {
		return fail(fmt.Errorf("the record's key is not a JSON object of key columns: %w", orNotObject(err)))
	}
	op, row, err := foreignValue(ev.RawValue)
	if err != nil {
		return fail(err)
	}
	if ofConnector(ev.Topic, key, row) {
		return nil, event.Change{}, nil, nil
	}
	if op == event.OpTruncate {
		return fail(errors.New("a truncate without a position header cannot be ordered with the rows of other partitions"))
	}
	for name, v := range key {
		if row != nil {
			row[name] = v
		}
	}
	columns := row
	if op == event.OpDelete {
		columns = key
	}
	schema := f.schema(ev.Topic, columns, key)
	if schema == nil {
		return nil, event.Change{}, nil, errors.New("records come in too many shapes, starting a fresh session")
	}
	keyRow, after := make(event.Row, len(schema.Columns)), make(event.Row, len(schema.Columns))
	for i := range schema.Columns {
		name := schema.Columns[i].Name
		if v, ok := key[name]; ok {
			keyRow[i] = datum(v)
		}
		after[i] = datum(columns[name])
	}
	return schema, event.Change{Op: op, After: after}, keyRow, nil
}

// ofConnector tells a record that a connector of Debezium writes for itself, and that is no row: a heartbeat or a schema change.
func ofConnector(topic string, key, value map[string]json.RawMessage) bool {
	if len(key) != 1 {
		return false
	}
	if server := datum(key["serverName"]); server.State == event.Text {
		return len(value) == 1 && len(value["ts_ms"]) > 0 && strings.HasSuffix(topic, "."+string(server.Text))
	}
	for _, name := range []string{"source", "databaseName", "ddl", "tableChanges"} {
		if _, ok := value[name]; !ok {
			return false
		}
	}
	return len(key["databaseName"]) > 0
}

func orNotObject(err error) error {
	if err == nil {
		return errors.New("it is null")
	}
	return err
}

// foreignValue takes the operation and the row out of a value.
func foreignValue(value []byte) (event.Op, map[string]json.RawMessage, error) {
	if value == nil {
		return event.OpDelete, nil, nil
	}
	m, err := object(value)
	if err != nil || m == nil {
		return 0, nil, fmt.Errorf("the record's value is not a JSON object of columns: %w", orNotObject(err))
	}
	var op string
	_, hasBefore := m["before"]
	if json.Unmarshal(m["op"], &op) != nil || len(op) != 1 || !hasBefore {
		return event.OpUpdate, m, nil
	}
	if op[0] == byte(event.OpDelete) || op[0] == byte(event.OpTruncate) {
		return event.Op(op[0]), nil, nil
	}
	after, err := object(m["after"])
	if err != nil || after == nil {
		return 0, nil, fmt.Errorf("the envelope has no row after the change: %w", orNotObject(err))
	}
	return event.OpUpdate, after, nil
}

// object reads a JSON object, out of Connect's schema and payload when it is wrapped in them.
func object(b []byte) (map[string]json.RawMessage, error) {
	var m map[string]json.RawMessage
	if err := json.Unmarshal(b, &m); err != nil {
		return nil, err
	}
	_, hasSchema := m["schema"]
	payload, hasPayload := m["payload"]
	if len(m) == 2 && hasSchema && hasPayload {
		m = nil
		if err := json.Unmarshal(payload, &m); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func datum(raw json.RawMessage) event.Datum {
	switch {
	case len(raw) == 0:
		return event.Datum{State: event.Absent}
	case bytes.Equal(raw, []byte("null")):
		return event.Datum{State: event.Null}
	case raw[0] == '"':
		var text string
		if err := json.Unmarshal(raw, &text); err == nil {
			return event.Datum{State: event.Text, Text: []byte(text)}
		}
	}
	return event.Datum{State: event.Text, Text: raw}
}

// schema is the made-up table version of a set of columns; nil when there are too many sets.
func (f *Foreign) schema(topic string, columns, key map[string]json.RawMessage) *event.Schema {
	names := make([]string, 0, len(columns))
	for name := range columns {
		names = append(names, name)
	}
	slices.Sort(names)
	var sig strings.Builder
	sig.WriteString(topic)
	for _, name := range names {
		_, isKey := key[name]
		fmt.Fprintf(&sig, "\x00%t%s", isKey, name)
	}
	if have := f.schemas[sig.String()]; have != nil {
		return have
	}
	if len(f.schemas) >= maxForeignShapes {
		return nil
	}
	if f.schemas == nil {
		f.schemas = make(map[string]*event.Schema)
	}
	schema := new(event.Schema)
	schema.Schema, schema.Table = foreignTable(topic)
	place := 0
	for _, name := range names {
		c := event.Column{Name: name, Type: "text", Kind: event.KindText, Modifier: -1}
		if _, isKey := key[name]; isKey {
			place++
			c.Key = place
		}
		schema.Columns = append(schema.Columns, c)
	}
	f.schemas[sig.String()] = schema
	return schema
}

// foreignTable is the source table that a topic's name stands for: its last two parts, or public and all of it.
func foreignTable(topic string) (schema, table string) {
	rest, table, ok := cutLast(topic)
	if !ok {
		return "public", topic
	}
	_, schema, _ = cutLast(rest)
	return schema, table
}

func cutLast(text string) (before, after string, ok bool) {
	i := strings.LastIndexByte(text, '.')
	if i < 0 {
		return "", text, false
	}
	return text[:i], text[i+1:], true
}
