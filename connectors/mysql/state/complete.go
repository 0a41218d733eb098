package state

import (
	"bytes"
	"fmt"

	"github.com/rowtrail/rowtrail/connectors/event"
	"github.com/rowtrail/rowtrail/connectors/mysql/binlog"
)

// Lacks says whether a row image has not all columns.
func Lacks(row event.Row) bool {
	for i := range row {
		if row[i].State == event.Absent {
			return true
		}
	}
	return false
}

// Incomplete says whether the row as it was is needed to complete the images of a changed row: the image before the change completes
// the one after it. What an insert does not send is the table's default, which no former row tells.
func Incomplete(op event.Op, before event.Row) bool { return op != event.OpCreate && Lacks(before) }

// DriftError says that the state of a row is not the row as the source had it. Its Error is for people.
type DriftError struct {
	Column string
	Err    error // nil: the source's image before the change has another value
}

func (e *DriftError) Error() string {
	if e.Err != nil {
		return fmt.Sprintf("a change of column %s does not fit the value in the log: %v", e.Column, e.Err)
	}
	return fmt.Sprintf("column %s has another value in the log than the source had before the change", e.Column)
}

func (e *DriftError) Unwrap() error { return e.Err }

// Completer completes images of one table version's rows. It belongs to one goroutine.
type Completer struct {
	schema *event.Schema
	lossy  []bool // columns whose text in the log may be another
	silent []bool // columns that may be others after a change that does not send them
	text   []byte // of JSON documents; the texts of a row are valid until the next one
}

// NewCompleter makes one. silent are the columns that the source may change without sending them, one for each column; nil: none are.
func NewCompleter(s *event.Schema, silent []bool) *Completer {
	c := &Completer{schema: s, lossy: make([]bool, len(s.Columns)), silent: silent}
	if silent == nil {
		c.silent = make([]bool, len(s.Columns))
	}
	for _, name := range s.Lossy() {
		for i := range s.Columns {
			c.lossy[i] = c.lossy[i] || s.Columns[i].Name == name
		}
	}
	return c
}

// Update completes the images of an update: before from old, the row as it was (nil: not known), and after from before and from the
// changes of JSON columns. On an *DriftError old is worth nothing, and the images are completed from each other alone.
func (c *Completer) Update(before, after, old event.Row, diffs []binlog.Diff) error {
	err := c.fits(before, old)
	if err == nil && old != nil {
		if err = c.apply(after, before, old, diffs); err == nil {
			fill(before, old)
		}
	}
	for i := range after {
		if after[i].State == event.Absent && !c.silent[i] && !isDiff(diffs, i) {
			after[i] = before[i]
		}
	}
	return err
}

// Delete completes the image of a deleted row.
func (c *Completer) Delete(before, old event.Row) error {
	if err := c.fits(before, old); err != nil {
		return err
	}
	fill(before, old)
	return nil
}

func fill(row, old event.Row) {
	for i := range old {
		if row[i].State == event.Absent {
			row[i] = old[i]
		}
	}
}

func isDiff(diffs []binlog.Diff, column int) bool {
	for i := range diffs {
		if diffs[i].Index == column {
			return true
		}
	}
	return false
}

// fits compares what the source sent of the row as it was with what the log has.
func (c *Completer) fits(before, old event.Row) error {
	for i := range old {
		if before[i].State == event.Absent || old[i].State == event.Absent || c.lossy[i] {
			continue
		}
		if before[i].State != old[i].State || !bytes.Equal(before[i].Text, old[i].Text) {
			return &DriftError{Column: c.schema.Columns[i].Name}
		}
	}
	return nil
}

// apply makes the documents after the changes of JSON columns. One whose document before is not known stays absent.
func (c *Completer) apply(after, before, old event.Row, diffs []binlog.Diff) error {
	c.text = c.text[:0]
	for i := range diffs {
		d := &diffs[i]
		base := before[d.Index]
		if base.State == event.Absent {
			base = old[d.Index]
		}
		if base.State != event.Text {
			continue
		}
		start := len(c.text)
		text, err := binlog.ApplyDiff(c.text, base.Text, d.Change)
		if err != nil {
			for j := range diffs[:i] {
				after[diffs[j].Index] = event.Datum{}
			}
			return &DriftError{Column: c.schema.Columns[d.Index].Name, Err: err}
		}
		c.text = text
		after[d.Index] = event.Datum{State: event.Text, Text: text[start:len(text):len(text)]}
	}
	return nil
}
