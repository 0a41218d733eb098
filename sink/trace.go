package sink

import (
	"maps"
	"slices"
	"strconv"

	"github.com/rowtrail/rowtrail/connectors/event"
)

// Trace is what a target's columns were at the source when they were last written: it tells a renamed column from a new one (P19) and
// a changed type from one that the target's owner chose. It is kept in the target, in the transactions that write rows.
type Trace struct {
	Topic    string
	Identity uint32
	Columns  map[string]Traced
	Type     func(*event.Column) string // as the trace writes it
}

// Traced is one column of a Trace.
type Traced struct {
	Name   string `json:"name"`
	Number int    `json:"number"`
	Type   string `json:"type"`
}

// Changes is what brings the trace up to a table version: names to drop, and columns to write. Columns that the version lacks stay:
// another one may take their name. gone are the names that Renames gave.
func (t *Trace) Changes(schema *event.Schema, gone []string) (drop []string, put []Traced) {
	for i := range schema.Columns {
		c := &schema.Columns[i]
		now := Traced{c.Name, c.Number, t.Type(c)}
		was, known := t.Columns[c.Name]
		if now.Number == 0 && t.Identity == schema.Identity {
			now.Number = was.Number
		}
		if !known || was != now || t.Identity != schema.Identity {
			put = append(put, now)
		}
	}
	if t.Identity != schema.Identity {
		gone = slices.Sorted(maps.Keys(t.Columns)) // numbers of another table
	}
	return gone, put
}

// Former is the name that a column had before; "" when that is not known.
func (t *Trace) Former(schema *event.Schema, c *event.Column) string {
	if c.Number == 0 || t.Identity != schema.Identity {
		return ""
	}
	for name, was := range t.Columns {
		if was.Number == c.Number {
			return name
		}
	}
	return ""
}

// Was is what a column was when the target was last written.
func (t *Trace) Was(schema *event.Schema, c *event.Column, name string) (Traced, bool) {
	if f := t.Former(schema, c); f != "" {
		name = f
	}
	was, known := t.Columns[name]
	return was, known
}

// NameClash is a column whose name the target has for something else.
type NameClash struct {
	Column string
	Former string // the source renamed it from; "": the source dropped a column of the name and has another one now
}

// Renames lists new names and the former ones that the target still has, and the names that are no more.
func (t *Trace) Renames(schema *event.Schema, has func(column string) bool) (renames map[string]string, gone []string, clash *NameClash) {
	renames = map[string]string{}
	taken := map[string]bool{}
	for i := range schema.Columns {
		c := &schema.Columns[i]
		if f := t.Former(schema, c); f != "" && f != c.Name {
			gone = append(gone, f)
			if has(f) {
				renames[c.Name] = f
				taken[f] = true
			}
		}
	}
	for i := range schema.Columns {
		c := &schema.Columns[i]
		_, renamed := renames[c.Name]
		was := t.Columns[c.Name]
		replaced := c.Number != 0 && was.Number != 0 && was.Number != c.Number && t.Identity == schema.Identity
		if !has(c.Name) || taken[c.Name] || !renamed && !replaced {
			continue
		}
		if renamed && !replaced { // renamed by hand, or a column of the target's own
			if _, known := t.Columns[c.Name]; !known {
				return nil, nil, &NameClash{c.Name, renames[c.Name]}
			}
		}
		return nil, nil, &NameClash{Column: c.Name}
	}
	gone = slices.DeleteFunc(gone, func(name string) bool {
		return slices.ContainsFunc(schema.Columns, func(c event.Column) bool { return c.Name == name })
	})
	return renames, gone, nil
}

// RenameSteps lists from and to of each step that renames columns, on a detour when names are exchanged.
func RenameSteps(renames map[string]string) (steps [][2]string) {
	var then [][2]string
	for i, to := range slices.Sorted(maps.Keys(renames)) {
		from := renames[to]
		if _, clash := renames[from]; !clash {
			then = append(then, [2]string{from, to})
			continue
		}
		detour := "rowtrail_rename_" + strconv.Itoa(i)
		steps = append(steps, [2]string{from, detour})
		then = append(then, [2]string{detour, to})
	}
	return append(steps, then...)
}
