package main

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

func newCopied(columns []string) *copied {
	return &copied{columns: columns, rows: map[string][]*string{}}
}

// add takes a row. Without a key, rows are told apart by their stamp.
func (c *copied) add(row []*string, key []string) {
	if len(key) == 0 {
		key = []string{stampColumn}
	}
	parts := make([]string, len(key))
	for i, name := range key {
		parts[i] = shown(row[slices.Index(c.columns, name)])
	}
	k := strings.Join(parts, ", ")
	if _, there := c.rows[k]; there {
		c.twice = append(c.twice, k)
	}
	c.rows[k] = row
}

// shown is a value for people.
func shown(v *string) string {
	if v == nil {
		return "NULL"
	}
	const most = 200
	text := strconv.Quote(*v)
	if len(text) > most {
		return fmt.Sprintf("%s... (%d bytes)", text[:most], len(*v))
	}
	return text
}

func same(a, b *string) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a == *b
}

// difference is one place at which two ends are not the same.
type difference struct {
	where       string // target or state
	table       string
	key, column string
	source, got string
	index       int // of the key
	count       int // rows of the table that differ
}

func (d *difference) String() string {
	place := "row " + d.key
	if d.column != "" {
		place += " column " + d.column
	}
	return fmt.Sprintf("%s of table %s, %s: the source has %s, %s has %s (%d rows differ)", d.where, d.table, place, d.source, d.where, d.got, d.count)
}

// compare finds the first difference between two copies, by the columns of the source that are not skipped.
func compare(where, table string, source, got *copied, skip map[string]bool) *difference {
	var first *difference
	count := 0
	found := func(d difference) {
		count++
		if first == nil {
			d.where, d.table = where, table
			first = &d
		}
	}
	for _, key := range slices.Sorted(maps.Keys(source.rows)) {
		want := source.rows[key]
		have, there := got.rows[key]
		if !there {
			found(difference{key: key, source: describe(source.columns, want), got: "no such row", index: indexOf(source, want)})
			continue
		}
		for i, name := range source.columns {
			if skip[name] {
				continue
			}
			at := slices.Index(got.columns, name)
			if at < 0 {
				found(difference{key: key, column: name, source: shown(want[i]), got: "no such column", index: indexOf(source, want)})
				break
			}
			if !same(want[i], have[at]) {
				found(difference{key: key, column: name, source: shown(want[i]), got: shown(have[at]), index: indexOf(source, want)})
				break
			}
		}
	}
	for _, key := range slices.Sorted(maps.Keys(got.rows)) {
		if _, there := source.rows[key]; !there {
			found(difference{key: key, source: "no such row", got: describe(got.columns, got.rows[key]), index: indexOf(got, got.rows[key])})
		}
	}
	if len(got.twice) > 0 {
		found(difference{key: got.twice[0], source: "one row", got: "several", index: many})
	}
	if first != nil {
		first.count = count
	}
	return first
}

func describe(columns []string, row []*string) string {
	var parts []string
	for i, name := range columns {
		parts = append(parts, name+"="+shown(row[i]))
	}
	return strings.Join(parts, " ")
}

// indexOf is which of the table's keys a row has.
func indexOf(c *copied, row []*string) int {
	at := slices.Index(c.columns, indexColumn)
	if at < 0 || row[at] == nil {
		return many
	}
	i, err := strconv.Atoi(*row[at])
	if err != nil {
		return many
	}
	return i
}
