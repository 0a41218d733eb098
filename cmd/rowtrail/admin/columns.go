package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/rowtrail/rowtrail/connectors/event"
	"github.com/rowtrail/rowtrail/snapshot"
)

// maxFill bounds how far back a column that the source did not send is looked for.
const maxFill = 256

// columnReader shows change events as their columns in the source's own text. One serves one request: it keeps the table
// versions that it met.
type columnReader struct {
	views      Views
	topic      string
	schemas    string // the schema topic
	collection string
	decoders   map[uint64]*event.Decoder
}

// newColumnReader finds the schema topic of a data topic: X.schema for the longest X that prefixes it.
func newColumnReader(views Views, node Node, topic string) *columnReader {
	r := &columnReader{views: views, topic: topic, decoders: map[uint64]*event.Decoder{}}
	if prefix := prefixOf(node, topic, ".schema"); prefix != "" {
		r.schemas, r.collection = prefix+".schema", topic[len(prefix)+1:]
	}
	return r
}

// columns are a row's, in the table's order; an absent one is left out and named in absent.
type columns struct {
	schema *event.Schema
	row    event.Row
	absent []string
}

// read decodes a row after its change; ok is false for what is no change event of a known table, and for a delete.
func (r *columnReader) read(ctx context.Context, row snapshot.Row) (columns, bool, error) {
	found, pos, ok, err := r.decode(ctx, row)
	if !ok || err != nil {
		return columns{}, false, err
	}
	missing := map[string]int{}
	for _, i := range pos.Absent {
		missing[found.schema.Columns[i].Name] = int(i)
	}
	if err := r.complete(ctx, &found, missing, row, pos); err != nil {
		return columns{}, false, err
	}
	for i, c := range found.schema.Columns {
		if _, still := missing[c.Name]; still {
			found.row[i].State = event.Absent
			found.absent = append(found.absent, c.Name)
		}
	}
	return found, true, nil
}

// complete looks for missing columns in the row's older versions. Invariant 6: an absent column is neither NULL nor the
// placeholder; its value is in the last version that has it, under the old key when the row has changed its key since.
func (r *columnReader) complete(ctx context.Context, found *columns, missing map[string]int, row snapshot.Row, pos event.Position) error {
	w := walk{key: row.Key, partition: row.Partition}
	w.pass(row)
	w.follow(row, pos)
	for step := 0; len(missing) > 0 && step < maxFill; step++ {
		version, exists, err := r.views.Latest(ctx, r.topic, w.key, w.at)
		if errors.Is(err, snapshot.ErrCompacted) {
			return nil // invariant 6: what is missing stays missing
		}
		if err != nil {
			return err
		}
		if !exists || !w.moved && version.Partition != w.partition {
			return nil
		}
		w.pass(version)
		older, olderPos, ok, err := r.decode(ctx, version)
		if err != nil {
			return err
		}
		if w.moved && (!ok || !earlier(olderPos, w.before)) {
			continue // the delete that the key change left, or another row that took the old key since
		}
		if !ok {
			return nil // the row's life begins above
		}
		w.moved = false
		fill(found, missing, older, olderPos)
		w.follow(version, olderPos)
	}
	return nil
}

// walk is a way back through the versions of a row.
type walk struct {
	key       []byte
	at        snapshot.At
	partition int32
	moved     bool           // the row has just left key: its last version there comes before
	before    event.Position // the create under the key that it went to
}

// pass goes on below a version.
func (w *walk) pass(version snapshot.Row) {
	offset := version.Offset - 1
	w.partition, w.at = version.Partition, snapshot.At{Offset: &offset}
}

// follow goes on under the old key when the version is the create of a key change. Its old row may lie in another
// partition, so it is looked for by position.
func (w *walk) follow(version snapshot.Row, pos event.Position) {
	if version.OldKey == nil {
		return
	}
	w.key, w.at, w.moved, w.before = version.OldKey, snapshot.At{Position: &pos.Commit}, true, pos
}

// earlier tells whether a comes before b at the source.
func earlier(a, b event.Position) bool {
	if a.Commit != b.Commit {
		return a.Commit < b.Commit
	}
	return a.Order < b.Order
}

// fill takes what an older version has of the missing columns.
func fill(row *columns, missing map[string]int, older columns, pos event.Position) {
	absent := map[int]bool{}
	for _, i := range pos.Absent {
		absent[int(i)] = true
	}
	for name, at := range missing {
		i := older.columnOf(row.schema, at)
		if i >= 0 && !absent[i] && older.row[i].State != event.Absent && row.schema.Columns[at].Type == older.schema.Columns[i].Type {
			row.row[at] = older.row[i]
			delete(missing, name)
		}
	}
}

// columnOf finds a column of another version of the table; -1: there is none. Its number is kept over a rename (P19), and another
// column may have its name; where a number is not known the name decides.
func (c *columns) columnOf(other *event.Schema, at int) int {
	want := &other.Columns[at]
	numbered := c.schema.Identity == other.Identity && want.Number != 0
	named := -1
	for i := range c.schema.Columns {
		have := &c.schema.Columns[i]
		if numbered && have.Number == want.Number {
			return i
		}
		if have.Name == want.Name && !(numbered && have.Number != 0) {
			named = i
		}
	}
	return named
}

// decode reads one version with the table version that its position header names.
func (r *columnReader) decode(ctx context.Context, row snapshot.Row) (columns, event.Position, bool, error) {
	if row.Value == nil || len(row.Place) == 0 || r.schemas == "" {
		return columns{}, event.Position{}, false, nil
	}
	pos, err := event.ParsePosition(row.Place)
	if err != nil || pos.Schema == 0 {
		return columns{}, pos, false, nil //nolint:nilerr // not for this build to read: shown as it is stored
	}
	decoder, err := r.decoder(ctx, pos.Schema)
	if err != nil {
		return columns{}, pos, false, err
	}
	if decoder == nil {
		return columns{}, pos, false, nil
	}
	change, err := decoder.Decode(row.Value, pos)
	if err != nil {
		return columns{}, pos, false, fmt.Errorf("%s, partition %d, offset %d: %w", row.Topic, row.Partition, row.Offset, err)
	}
	if change.After == nil {
		return columns{}, pos, false, nil
	}
	return columns{schema: decoder.Schema(), row: change.After.Clone()}, pos, true, nil
}

// decoder is nil when the schema topic does not hold the version.
func (r *columnReader) decoder(ctx context.Context, id uint64) (*event.Decoder, error) {
	if d, known := r.decoders[id]; known {
		return d, nil
	}
	record, found, err := r.version(ctx, id)
	if err != nil {
		return nil, fmt.Errorf("look up table version: %w", err)
	}
	var d *event.Decoder
	if found && !record.Deleted {
		schema, err := event.ParseSchema(record.Value)
		if err != nil {
			return nil, fmt.Errorf("read table version in %s, offset %d: %w", r.schemas, record.Offset, err)
		}
		if d, err = event.NewDecoder(schema); err != nil {
			return nil, fmt.Errorf("read table version in %s, offset %d: %w", r.schemas, record.Offset, err)
		}
	}
	r.decoders[id] = d
	return d, nil
}

// version is the schema topic's record of a table version.
func (r *columnReader) version(ctx context.Context, id uint64) (snapshot.Row, bool, error) {
	now := snapshot.At{Now: true}
	key, err := json.Marshal(event.SchemaKey{Collection: r.collection, ID: fmt.Sprintf("%016x", id)})
	if err != nil {
		return snapshot.Row{}, false, err
	}
	record, found, err := r.views.Latest(ctx, r.schemas, key, now)
	if found || err != nil {
		return record, found, err
	}
	err = r.views.Scan(ctx, r.schemas, now, func(row snapshot.Row) error { // a table whose name no topic can have
		collection, other, err := event.ParseSchemaKey(row.Key)
		if err == nil && other == id && r.holds(collection) {
			record, found = snapshot.Row{Offset: row.Offset, Value: bytes.Clone(row.Value), Deleted: row.Deleted}, true
		}
		return nil //nolint:nilerr // another table's, or none of ours
	})
	return record, found, err
}

// holds tells whether the topic is a table's: what topics' names cannot have is _ in them.
func (r *columnReader) holds(collection string) bool {
	return r.collection == strings.Map(func(c rune) rune {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '.', c == '_', c == '-':
			return c
		}
		return '_'
	}, collection)
}

// json writes the columns in the table's order: text as the source prints it, NULL as null, absent ones not at all.
func (c columns) json() json.RawMessage {
	fields := make([]member, 0, len(c.row))
	for i, datum := range c.row {
		switch datum.State {
		case event.Absent:
		case event.Null:
			fields = append(fields, member{c.schema.Columns[i].Name, json.RawMessage("null")})
		default:
			fields = append(fields, member{c.schema.Columns[i].Name, json.RawMessage(quote(string(datum.Text)))})
		}
	}
	return object(fields)
}
