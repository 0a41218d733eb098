package chunks

import (
	"slices"
	"strconv"
	"strings"

	"github.com/rowtrail/rowtrail/connectors/mysql/rows"
)

// Plan is how one table is read.
type Plan struct {
	Table Table
	// Filter is a condition that rows must meet to be read (additional-conditions of a signal); "" is every row.
	Filter string
	// Override is a SELECT that takes the table's place (snapshot.select.statement.overrides); it must give all columns.
	Override string
	// Locking reads chunks with shared locks: see Marks.
	Locking bool

	key      *Key
	identity []int // the key's columns in Table.Columns
	places   []int // what compares as them, among what Chunk selects
	items    []string
}

// NewPlan chooses the key.
func NewPlan(t Table, filter, override string) *Plan {
	p := &Plan{Table: t, Filter: filter, Override: override, key: t.ChooseKey()}
	for _, c := range t.Columns {
		p.items = append(p.items, quote(c))
	}
	if p.key == nil {
		return p
	}
	for i := range p.key.Columns {
		c := &p.key.Columns[i]
		place := slices.Index(t.Columns, c.Name)
		p.identity = append(p.identity, place)
		if c.numbered() { // what compares is not what is told
			place = len(p.items)
			p.items = append(p.items, c.expression())
		}
		p.places = append(p.places, place)
	}
	return p
}

// Key is the key that orders the chunks, nil if the table is read as a whole.
func (p *Plan) Key() *Key { return p.key }

// Whole is the statement that reads the table at once.
func (p *Plan) Whole() string {
	return "SELECT " + strings.Join(p.items[:len(p.Table.Columns)], ", ") + " FROM " + p.from(false) + p.where(nil)
}

// Last is the statement that gives the largest key. It does not ask for the filter, which could make it search the whole table.
func (p *Plan) Last() string {
	var items []string
	for i := range p.key.Columns {
		items = append(items, p.key.Columns[i].expression())
	}
	return "SELECT " + strings.Join(items, ", ") + " FROM " + p.from(true) + p.order(" DESC") + " LIMIT 1"
}

// Chunk is the statement that reads up to limit rows behind a Cursor, up to another. Its first columns are the table's; numbers of
// ENUMs and SETs in the key follow.
func (p *Plan) Chunk(after, upTo Cursor, limit int) string {
	var conditions []string
	if after != nil {
		conditions = append(conditions, p.compare(after, ">", ">"))
	}
	if upTo != nil {
		conditions = append(conditions, p.compare(upTo, "<", "<="))
	}
	s := "SELECT " + strings.Join(p.items, ", ") + " FROM " + p.from(true) + p.where(conditions) + p.order("") + " LIMIT " + strconv.Itoa(limit)
	if p.Locking {
		s += " LOCK IN SHARE MODE"
	}
	return s
}

// Cursor is the key of a session's last row, of a statement that Chunk made.
func (p *Plan) Cursor(s *rows.Session) (Cursor, error) { return p.cursor(s, p.places) }

// LastCursor is the same of a statement that Last made.
func (p *Plan) LastCursor(s *rows.Session) (Cursor, error) {
	places := make([]int, len(p.places))
	for i := range places {
		places[i] = i
	}
	return p.cursor(s, places)
}

func (p *Plan) cursor(s *rows.Session, places []int) (Cursor, error) {
	c := make(Cursor, len(places))
	for i, place := range places {
		v, err := valueOf(&p.key.Columns[i], &s.Fields()[place], s.Raw(place))
		if err == nil {
			err = v.check()
		}
		if err != nil {
			return nil, err
		}
		c[i] = v
	}
	return c, nil
}

// from names the table and forces the key's index: without it an optimiser with old statistics sorts the whole table for each chunk.
func (p *Plan) from(byKey bool) string {
	switch {
	case p.Override != "":
		return "(" + p.Override + "\n) AS rowtrail_rows" // a comment at its end does not swallow the bracket
	case byKey:
		return p.Table.quoted() + " FORCE INDEX (" + quote(p.key.Name) + ")"
	}
	return p.Table.quoted()
}

func (p *Plan) where(conditions []string) string {
	if p.Filter != "" {
		conditions = append(conditions, "("+p.Filter+"\n)")
	}
	if len(conditions) == 0 {
		return ""
	}
	return " WHERE " + strings.Join(conditions, " AND ")
}

func (p *Plan) order(direction string) string {
	var items []string
	for i := range p.key.Columns {
		items = append(items, quote(p.key.Columns[i].Name)+direction) // an ENUM is ordered by its number
	}
	return " ORDER BY " + strings.Join(items, ", ")
}

// compare is (k1, k2) > (v1, v2) column by column, because neither server searches an index for a comparison of whole rows.
func (p *Plan) compare(c Cursor, strict, last string) string {
	n := len(c) - 1
	at := func(i int, operator string) string {
		return p.key.Columns[i].expression() + " " + operator + " " + c[i].literal()
	}
	condition := at(n, last)
	for i := n - 1; i >= 0; i-- {
		condition = "(" + at(i, strict) + " OR (" + at(i, "=") + " AND " + condition + "))"
	}
	return condition
}
