package schema

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rowtrail/rowtrail/connectors/mysql/binlog"
	"github.com/rowtrail/rowtrail/connectors/mysql/charset"
	"github.com/rowtrail/rowtrail/connectors/mysql/ddl"
)

// agrees tells whether a description can be that of the table map's rows: in number and types of columns, and in all else that the map says.
func (b *Book) agrees(t *binlog.Table, d *ddl.Table) error {
	t = b.withoutHashes(t, d)
	described := make([]binlog.Described, len(d.Columns))
	for i, c := range d.Columns {
		described[i].Type = c.ColumnType(b.o.Flavour)
	}
	if err := t.Agrees(described); err != nil {
		return err
	}
	for i := range d.Columns {
		if what := b.differs(t, &t.Columns[i], &d.Columns[i]); what != "" {
			return fmt.Errorf("column %s is another in the binlog than by its description: %s", d.Columns[i].Name, what)
		}
	}
	return nil
}

// differs says in what a column of the table map is another than the described one, of the same type.
func (b *Book) differs(t *binlog.Table, w *binlog.WireColumn, c *ddl.Column) string {
	// Whether a timestamp can be NULL depends on a setting that the binlog does not have.
	if w.Nullable != c.Nullable && c.Type != "timestamp" {
		return "NOT NULL"
	}
	if t.Named && !strings.EqualFold(w.Name, c.Name) {
		return "its name, " + w.Name
	}
	if t.Signed && isNumber(c.Type) && w.Unsigned != c.Unsigned {
		return "UNSIGNED"
	}
	switch {
	case isText(c.Type):
		told, _ := charset.OfCollation(uint64(w.Collation))
		if told == "" && c.Charset == "" && len(c.Values) == 0 {
			return "the description has no charset"
		}
		if told != "" && c.Charset != "" && told != c.Charset {
			return "its charset, " + told
		}
		if labels, err := b.labels(w); err == nil && labels != nil && !slices.Equal(labels, c.Values) {
			return "its labels"
		}
	case isBinary(c.Type):
		if told, known := charset.OfCollation(uint64(w.Collation)); known && told != "binary" {
			return "its charset, " + told
		}
	}
	return ""
}

// withGeneratedKey is the table with the invisible key that MySQL gives to one without a primary key, if the session asks for it; nil if
// the table map cannot have it.
func (b *Book) withGeneratedKey(d *ddl.Table, t *binlog.Table) *ddl.Table {
	if b.o.Flavour != ddl.MySQL || len(d.Primary) > 0 || len(t.Columns) != len(d.Columns)+1 || t.Columns[0].Type != binlog.WireLongLong {
		return nil
	}
	g := d.Clone()
	g.Columns = slices.Insert(g.Columns, 0, ddl.Column{
		Name: "my_row_id", Type: "bigint", Length: -1, Scale: -1, Unsigned: true, AutoIncrement: true, Invisible: true,
	})
	g.Primary = []string{"my_row_id"}
	return g
}
