package state

import (
	"maps"
	"strings"

	"github.com/rowtrail/rowtrail/connectors/event"
)

const (
	// maxColumns is how many columns of a table are told apart; of more, all count as changed.
	maxColumns = 32
	// maxTables is how many tables are; of more, the state of all counts from there on.
	maxTables = 256
)

// Trust tells from which place on the state of a table and of its columns counts: what was written before is of other columns, or
// lacks changes. It is part of the resume point, and does not change: what changes it gives another one.
type Trust struct {
	// Since is for all tables.
	Since  uint64              `json:"since,omitempty"`
	Tables map[string]*Columns `json:"tables,omitempty"` // by collection
}

// Columns is the Trust in a table.
type Columns struct {
	Since   uint64            `json:"since,omitempty"`   // for all columns
	Columns map[string]uint64 `json:"columns,omitempty"` // for one
}

// Changed is the Trust after a change, at a place, of what some columns of a table are; none: all.
func (t *Trust) Changed(at uint64, collection string, columns ...string) *Trust {
	n := t.clone()
	was := n.Tables[collection]
	now := &Columns{Columns: map[string]uint64{}}
	if was != nil {
		now.Since = was.Since
		maps.Copy(now.Columns, was.Columns)
	}
	for _, c := range columns {
		now.Columns[strings.ToLower(c)] = at // as servers compare names of columns
	}
	if len(columns) == 0 || len(now.Columns) > maxColumns {
		now.Since, now.Columns = at, nil
	}
	n.Tables[collection] = now
	if len(n.Tables) > maxTables {
		return &Trust{Since: at}
	}
	return n
}

// All is the Trust after something, at a place, that may be of any table.
func (*Trust) All(at uint64) *Trust { return &Trust{Since: at} }

// Emptied is the Trust after a truncate that the log has: all state of the table comes after it.
func (t *Trust) Emptied(collection string) *Trust {
	if t == nil || t.Tables[collection] == nil {
		return t
	}
	n := t.clone()
	delete(n.Tables, collection)
	return n
}

func (t *Trust) clone() *Trust {
	n := &Trust{Tables: map[string]*Columns{}}
	if t != nil {
		n.Since = t.Since
		maps.Copy(n.Tables, t.Tables)
	}
	return n
}

// of is from where on a column's state counts. A generated column may be another when any column is.
func (t *Trust) of(collection string, c *event.Column) uint64 {
	if t == nil {
		return 0
	}
	since := t.Since
	table := t.Tables[collection]
	if table == nil {
		return since
	}
	since = max(since, table.Since, table.Columns[strings.ToLower(c.Name)])
	if c.Generated {
		for _, at := range table.Columns {
			since = max(since, at)
		}
	}
	return since
}

// Fit gives the columns of a table's version their values in a row, which another version may have written; dst has one for each. What
// does not count stays absent.
func (t *Trust) Fit(dst event.Row, to *event.Schema, row Row) {
	clear(dst)
	collection := to.Collection()
	for i := range to.Columns {
		c := &to.Columns[i]
		at := i
		if row.Schema.ID != to.ID {
			at = same(row.Schema, c, i)
		}
		if at >= 0 && row.Commit >= t.of(collection, c) {
			dst[i] = row.Columns[at]
		}
	}
}

// same finds a column in another version of its table; -1: there is none of its name and type.
func same(s *event.Schema, c *event.Column, near int) int {
	for n := range s.Columns {
		i := (near + n) % len(s.Columns)
		o := &s.Columns[i]
		if o.Name != c.Name {
			continue
		}
		equal := o.Type == c.Type && o.Kind == c.Kind && o.Modifier == c.Modifier && o.Unsigned == c.Unsigned && o.Charset == c.Charset && len(o.Enum) == len(c.Enum)
		for l := range o.Enum {
			equal = equal && o.Enum[l] == c.Enum[l]
		}
		if !equal {
			return -1
		}
		return i
	}
	return -1
}
