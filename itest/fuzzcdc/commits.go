package main

import (
	"regexp"
	"strconv"
)

// partitionOf is the end of a partition's name: what happens to it is told of its table.
const partitionOf = `_p[0-9]$`

// touched is what one transaction did to one table.
type touched struct {
	stamps  []int64 // of rows written
	deletes int
	unsure  bool // keys may have changed: how many deletes there are is not known
}

// commit is one source transaction.
type commit struct {
	id        string
	tables    map[string]*touched
	truncates bool // tables, too
}

func (c *commit) table(name string) *touched {
	name = regexp.MustCompile(partitionOf).ReplaceAllString(name, "")
	t := c.tables[name]
	if t == nil {
		t = &touched{}
		c.tables[name] = t
	}
	return t
}

// commits are the transactions of a run, as the source tells them.
type commits struct {
	byID  map[string]*commit
	rows  int
	since int64 // transactions before this one are not noted
}

// noted tells whether a transaction of the log is one of those.
func (c *commits) noted(id string) bool {
	n, err := strconv.ParseInt(id, 10, 64)
	return err != nil || n >= c.since
}

func newCommits() *commits { return &commits{byID: map[string]*commit{}} }

// add takes a transaction; one that is told again, after a crash of the source, replaces itself.
func (c *commits) add(tx *commit) {
	if len(tx.tables) == 0 && !tx.truncates {
		return
	}
	c.byID[tx.id] = tx
	for _, t := range tx.tables {
		c.rows += len(t.stamps) + t.deletes
	}
}
