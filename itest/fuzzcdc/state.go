package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"

	"github.com/rowtrail/rowtrail/itest/pipeline"
	"github.com/rowtrail/rowtrail/itest/process"
)

// topicOf is the topic of a table: what topics' names cannot hold is _.
func topicOf(namespace, table string) string {
	return pipeline.Prefix + "." + namespace + "." + strings.Map(func(r rune) rune {
		switch {
		case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9', r == '.', r == '_', r == '-':
			return r
		}
		return '_'
	}, table)
}

// readState reads a table as the node's view has it. Columns that a row lacks are told by their names.
func readState(ctx context.Context, node *process.Rowtrail, topic string, columns, key []string, skip map[string]bool) (*copied, error) {
	var body string
	if err := node.JSON(ctx, "/v1/state/"+url.PathEscape(topic)+"?text=true", &body); err != nil {
		return nil, err
	}
	c := newCopied(columns)
	d := json.NewDecoder(strings.NewReader(body))
	for d.More() {
		var line struct {
			Error  string
			Absent []string
			Row    map[string]*string
		}
		if err := d.Decode(&line); err != nil {
			return nil, fmt.Errorf("read the state of %s: %w in %.300s", topic, err, body)
		}
		if line.Error != "" {
			return nil, fmt.Errorf("read the state of %s: %s", topic, line.Error)
		}
		row := make([]*string, len(columns))
		for i, name := range columns {
			v, there := line.Row[name]
			if !there && !skip[name] {
				v = new("(the row has no such column)")
			}
			row[i] = v
		}
		for _, name := range line.Absent {
			for i, column := range columns {
				if name == column {
					row[i] = new("(absent)")
				}
			}
		}
		c.add(row, key)
	}
	return c, nil
}
