package schema

import (
	"math"
	"strconv"

	"github.com/rowtrail/rowtrail/connectors/event"
	"github.com/rowtrail/rowtrail/connectors/mysql/ddl"
)

// Collations are the collations of a server, by number and by charset. A nil one knows none.
type Collations struct {
	names    map[uint32]string
	known    map[string]bool
	defaults map[string]string // by charset
}

// name is a collation's name, "" if it is not known.
func (c *Collations) name(id uint32) string {
	if c == nil {
		return ""
	}
	return c.names[id]
}

func (c *Collations) defaultOf(charset string) string {
	if c == nil {
		return ""
	}
	return c.defaults[charset]
}

// column is a column for a schema and for the topic of schema changes. After an error it has its name and type.
func (b *Book) column(c ddl.Column, key int) (event.TableColumn, error) {
	column, err := event.MySQLColumn(c.Name, b.Facts(c), !c.Nullable, key)
	if err != nil {
		column = event.Column{Name: c.Name, Type: c.ColumnType(b.o.Flavour), Modifier: -1, NotNull: !c.Nullable, Key: key}
	}
	t := event.TableColumn{Column: column, AutoIncrement: c.AutoIncrement || c.OnUpdate, DefaultText: c.Default}
	if c.Comment != "" {
		t.Comment = &c.Comment
	}
	return t, err
}

// Facts are a description's in the terms of information_schema.
func (b *Book) Facts(c ddl.Column) event.MySQLFacts {
	f := event.MySQLFacts{
		DataType: c.Type, ColumnType: c.ColumnType(b.o.Flavour), Length: -1, Scale: -1,
		Unsigned: c.Unsigned, Charset: c.Charset, Collation: b.collation(c), Labels: c.Values,
		Generated: c.Generated != "", Invisible: c.Invisible,
	}
	switch c.Type {
	case "char", "varchar", "binary", "varbinary":
		f.Length = int64(c.Length)
	case "decimal":
		f.Precision, f.Scale = c.Length, c.Scale
	case "float", "double":
		f.Scale = c.Scale
	case "bit":
		f.Precision = c.Length
	case "time", "datetime", "timestamp":
		f.Fraction = max(c.Length, 0)
	case "vector":
		f.Dimension = c.Length
	}
	if id, err := strconv.ParseUint(c.SRID, 10, 32); c.SRID != "" && err == nil && id <= math.MaxUint32 {
		f.SRID = new(uint32(id))
	}
	if f.Generated {
		return f
	}
	f.Default, f.Computed = constant(c)
	return f
}

// collation is a column's in full: descriptions leave the charset's default out.
func (b *Book) collation(c ddl.Column) string {
	switch {
	case !isText(c.Type):
		return ""
	case c.Collation == "":
		return b.o.Collations.defaultOf(c.Charset)
	case b.o.Collations != nil && !b.o.Collations.known[c.Collation] && b.o.Collations.known[c.Charset+"_"+c.Collation]:
		return c.Charset + "_" + c.Collation // MariaDB's uca1400_ai_ci is of any charset
	}
	return c.Collation
}

// tableChange describes a table for the topic of schema changes.
func (b *Book) tableChange(typ string, name ddl.TableName, t *ddl.Table) event.TableChange {
	c := event.TableChange{Type: typ, Database: name.Database, Table: name.Table, Charset: t.Charset}
	if t.Comment != "" {
		c.Comment = &t.Comment
	}
	c.Columns, _ = b.Columns(t)
	return c
}

// Columns are a table's columns without a table map: those that an initial load reads, and that rows of the stream have where a
// Description is Whole. errs has why a column cannot be captured, nil where it can.
func (b *Book) Columns(t *ddl.Table) (columns []event.TableColumn, errs []error) {
	keys := keyPlaces(t)
	columns, errs = make([]event.TableColumn, len(t.Columns)), make([]error, len(t.Columns))
	for i, c := range t.Columns {
		columns[i], errs[i] = b.column(c, keys[i])
	}
	return columns, errs
}
