package schema

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rowtrail/rowtrail/connectors/event"
	"github.com/rowtrail/rowtrail/connectors/mysql/binlog"
	"github.com/rowtrail/rowtrail/connectors/mysql/charset"
	"github.com/rowtrail/rowtrail/connectors/mysql/ddl"
)

// Description is what the rows of one table map are. It does not change; the Book gives the same one while nothing about the table does.
type Description struct {
	Name ddl.TableName
	From Place // where the description is valid from
	// Whole is false of a description that the table map alone gave: types are printed from what it says, and defaults, comments
	// and generated columns are not known.
	Whole   bool
	Table   *binlog.Table
	Comment string

	columns []event.TableColumn
	bind    []binlog.Column
	errs    []error // why a column cannot be captured; nil: it can
}

// Bind is the columns for event.NewSchema and, beside them, those for binlog.NewLayout of the description's table map, which has all that
// are kept at their place in the schema. keep is given each column's name; nil: all are kept. key names the columns of the record
// key in its order; nil: the table's own. Columns of the key are always kept. What cannot be captured of a column is an error only where
// the column is kept.
//
// Columns that SELECT * does not show are columns like others: invisible ones, and the key that MySQL makes by itself
// (my_row_id). So are generated columns. MySQL sends their values; MariaDB leaves those that can be computed out of what an update
// sends, and they are absent then, which is not NULL.
func (d *Description) Bind(keep func(column string) bool, key []string) ([]event.Column, []binlog.Column, error) {
	columns := make([]event.Column, 0, len(d.columns))
	bind := slices.Clone(d.bind)
	found := 0
	for i := range d.columns {
		c := d.columns[i].Column
		if key != nil {
			if c.Key = slices.Index(key, c.Name) + 1; c.Key > 0 {
				found++
			}
		}
		if c.Key == 0 && keep != nil && !keep(c.Name) {
			bind[i].Index = -1
			continue
		}
		if err := d.errs[i]; err != nil {
			return nil, nil, &Error{Table: d.Name, Reason: fmt.Sprintf("column %s: %v", c.Name, err), Remedy: "leave the column out with column.exclude.list", Err: err}
		}
		bind[i].Index = len(columns)
		columns = append(columns, c)
	}
	if found < len(key) {
		return nil, nil, &Error{Table: d.Name, Reason: "it has not all columns of the key " + strings.Join(key, ", "), Remedy: "mend message.key.columns"}
	}
	return columns, bind, nil
}

// PrimaryKey names the columns of the table's own key, in its order.
func (d *Description) PrimaryKey() []string {
	columns := make([]event.Column, len(d.columns))
	for i := range d.columns {
		columns[i] = d.columns[i].Column
	}
	var names []string
	for _, i := range (&event.Schema{Columns: columns}).KeyColumns() {
		names = append(names, columns[i].Name)
	}
	return names
}

// Columns are all columns, as the topic of schema changes has them.
func (d *Description) Columns() []event.TableColumn { return d.columns }

// description joins a table map with a table that agrees with it: what the map says wins. errs are those of columns that the table is
// not sure of.
func (b *Book) description(name ddl.TableName, e *entry, t *binlog.Table, table *ddl.Table, errs []error) *Description {
	d := &Description{Name: name, From: e.from, Whole: e.table != nil, Table: t, Comment: table.Comment, errs: make([]error, len(table.Columns))}
	copy(d.errs, errs)
	fail := func(i int, err error) {
		if d.errs[i] == nil {
			d.errs[i] = err
		}
	}
	merged := &ddl.Table{Charset: table.Charset, Columns: slices.Clone(table.Columns), Primary: table.Primary, Unique: table.Unique}
	for i := range merged.Columns {
		bind, err := b.merge(t, i, &merged.Columns[i])
		fail(i, err)
		d.bind = append(d.bind, bind)
	}
	for range len(t.Columns) - len(merged.Columns) { // hashes of MariaDB's
		d.bind = append(d.bind, binlog.Column{Index: -1})
	}
	keys := keyPlaces(merged)
	if t.Named {
		keys = make([]int, len(t.Columns))
		for place, part := range t.PrimaryKey {
			if part.Column < len(merged.Columns) {
				keys[part.Column] = place + 1
			}
		}
	}
	for i, c := range merged.Columns {
		column, err := b.column(c, keys[i])
		fail(i, err)
		d.columns = append(d.columns, column)
	}
	return d
}

// merge puts what the table map says of a column over its description, and binds it.
func (b *Book) merge(t *binlog.Table, i int, c *ddl.Column) (binlog.Column, error) {
	w := &t.Columns[i]
	c.Nullable = w.Nullable
	if t.Named {
		c.Name = w.Name
		if b.o.Flavour == ddl.MySQL {
			c.Invisible = w.Invisible
		}
	}
	if t.Signed && isNumber(c.Type) {
		c.Unsigned = w.Unsigned
	}
	bind := binlog.Column{Index: i, Unsigned: c.Unsigned}
	switch c.Type {
	case "time", "datetime", "timestamp":
		bind.Fraction = max(c.Length, 0)
	case "uuid":
		bind.Form = binlog.FormUUID
	case "inet4":
		bind.Form = binlog.FormInet4
	case "inet6":
		bind.Form = binlog.FormInet6
	default:
		if isBinary(c.Type) || c.Type == "vector" {
			bind.Form = binlog.FormBinary
		}
	}
	if !isText(c.Type) {
		return bind, nil
	}
	if w.Collation != 0 {
		told, ok := charset.OfCollation(uint64(w.Collation))
		if !ok {
			return bind, fmt.Errorf("collation %d is not known", w.Collation)
		}
		c.Charset, c.Collation = told, b.o.Collations.name(w.Collation)
	}
	if labels, err := b.labels(w); err != nil {
		return bind, err
	} else if labels != nil {
		c.Values = labels
	}
	if bind.Labels = c.Values; len(c.Values) > 0 {
		return bind, nil
	}
	decoder, err := b.decoder(c.Charset)
	if err != nil {
		return bind, err
	}
	bind.Charset = decoder
	return bind, nil
}

// decoder is nil where the bytes are UTF-8.
func (b *Book) decoder(name string) (binlog.Charset, error) {
	switch name {
	case "utf8mb4", "utf8mb3", "utf8", "ascii":
		return nil, nil
	}
	return b.charsets.Of(name)
}

// labels are those of the table map in UTF-8, nil if it has none.
func (b *Book) labels(w *binlog.WireColumn) ([]string, error) {
	if len(w.Labels) == 0 {
		return nil, nil
	}
	d, err := b.charsets.OfCollation(uint64(w.Collation))
	if err != nil {
		return nil, err
	}
	labels := make([]string, len(w.Labels))
	for i, label := range w.Labels {
		text, err := d.AppendUTF8(nil, []byte(label))
		if err != nil {
			return nil, err
		}
		labels[i] = string(text)
	}
	return labels, nil
}

// keyPlaces numbers the columns of the key.
func keyPlaces(t *ddl.Table) []int {
	places := make([]int, len(t.Columns))
	for place, name := range t.PrimaryKey() {
		for i := range t.Columns {
			if t.Columns[i].Name == name {
				places[i] = place + 1
			}
		}
	}
	return places
}

func isNumber(typ string) bool {
	switch typ {
	case "tinyint", "smallint", "mediumint", "int", "bigint", "float", "double", "decimal":
		return true
	}
	return false
}

func isText(typ string) bool {
	switch typ {
	case "char", "varchar", "tinytext", "text", "mediumtext", "longtext", "enum", "set":
		return true
	}
	return false
}

func isBinary(typ string) bool {
	switch typ {
	case "binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob":
		return true
	}
	return false
}
