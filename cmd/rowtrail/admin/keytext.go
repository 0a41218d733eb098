package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/rowtrail/rowtrail/connectors/event"
	"github.com/rowtrail/rowtrail/snapshot"
)

// resolveKey turns what a person writes into the bytes of a key of the topic. A record's key that is exactly what was written
// comes first. Then JSON is put into the order and form that the topic's keys have, and a bare value stands for a key of one
// column; then text is taken for what an answer shows of a key that is no object. When no row has any of these keys, the values
// are taken for the source's text (2026-01-02, 12.50), which the topic's table versions tell how to write.
func (s *Server) resolveKey(ctx context.Context, views Views, topic, text string) ([]byte, error) {
	sample, _, err := views.AnyKey(ctx, topic)
	if err != nil {
		return nil, err
	}
	key, wrong := expandKey(sample, text)
	candidates := [][]byte{[]byte(text)}
	if wrong == nil {
		candidates = append(candidates, key)
	}
	for _, candidate := range append(candidates, shownKeys(text)...) {
		if _, found, err := views.Latest(ctx, topic, candidate, snapshot.At{Now: true}); err != nil || found {
			return candidate, err
		}
	}
	if wrong != nil && !errors.Is(wrong, errKeyColumns) {
		return nil, wrong
	}
	versions, prefix, err := s.versions(ctx, views, topic)
	if err != nil {
		return nil, err
	}
	for _, version := range versions {
		given, ok := written(version, text)
		if !ok {
			continue
		}
		candidate, ok := encodeKey(version, prefix, given)
		if !ok {
			continue
		}
		if wrong != nil { // columns that the table had before, or has since
			key, wrong = candidate, nil
		}
		_, found, err := views.Latest(ctx, topic, candidate, snapshot.At{Now: true})
		if err != nil {
			return nil, err
		}
		if found {
			return candidate, nil
		}
	}
	return key, wrong
}

// versions reads a topic's table versions that have a key, latest first, and the prefix of its connector's topics.
func (s *Server) versions(ctx context.Context, views Views, topic string) (list []*event.Schema, prefix string, err error) {
	r := newColumnReader(views, s.opts.Node, topic)
	if r.schemas == "" {
		return nil, "", nil
	}
	type place struct {
		schema *event.Schema
		offset int64
	}
	var found []place
	err = views.Scan(ctx, r.schemas, snapshot.At{Now: true}, func(row snapshot.Row) error {
		collection, _, err := event.ParseSchemaKey(row.Key)
		if err != nil || !r.holds(collection) {
			return nil //nolint:nilerr // another table's, or none of ours
		}
		schema, err := event.ParseSchema(row.Value)
		if err != nil {
			return fmt.Errorf("read table version in %s, offset %d: %w", r.schemas, row.Offset, err)
		}
		if len(schema.KeyColumns()) > 0 {
			found = append(found, place{schema, row.Offset})
		}
		return nil
	})
	if err != nil {
		return nil, "", fmt.Errorf("look up table versions: %w", err)
	}
	slices.SortFunc(found, func(a, b place) int { return int(min(max(b.offset-a.offset, -1), 1)) })
	for _, p := range found {
		list = append(list, p.schema)
	}
	return list, strings.TrimSuffix(r.schemas, ".schema"), nil
}

// written reads a key as the values of a table version's key columns; false when it does not have exactly those.
func written(version *event.Schema, text string) (event.Row, bool) {
	key := version.KeyColumns()
	row := make(event.Row, len(version.Columns))
	given, ok := members([]byte(strings.TrimSpace(text)))
	if !ok {
		if len(key) != 1 {
			return nil, false
		}
		value := text
		var unquoted string
		if json.Unmarshal([]byte(text), &unquoted) == nil {
			value = unquoted
		}
		row[key[0]] = event.Datum{State: event.Text, Text: []byte(value)}
		return row, true
	}
	if len(given) != len(key) {
		return nil, false
	}
	for _, k := range key {
		i := slices.IndexFunc(given, func(m member) bool { return m.name == version.Columns[k].Name })
		if i < 0 {
			return nil, false
		}
		row[k] = sourceText(given[i].value, version.Columns[k].Kind)
	}
	return row, true
}

// sourceText is a JSON value as the source prints it. What is a boolean in JSON is a bit at the source when it is no bool.
func sourceText(value json.RawMessage, kind event.Kind) event.Datum {
	var text string
	switch {
	case bytes.Equal(value, []byte("null")):
		return event.Datum{State: event.Null}
	case kind == event.KindBool && (bytes.Equal(value, []byte("true")) || bytes.Equal(value, []byte("false"))):
		value = value[:1]
	case bytes.Equal(value, []byte("true")):
		value = []byte("1")
	case bytes.Equal(value, []byte("false")):
		value = []byte("0")
	case json.Unmarshal(value, &text) == nil:
		value = []byte(text)
	}
	return event.Datum{State: event.Text, Text: value}
}

// encodeKey writes a key as the connector does; false when a value is none of its column's type.
func encodeKey(version *event.Schema, prefix string, row event.Row) ([]byte, bool) {
	encoder, err := event.NewEncoder(version, version.Options(prefix))
	if err != nil {
		return nil, false
	}
	key, ok, err := encoder.AppendKey(nil, row)
	return key, ok && err == nil
}
