package schema

import (
	"fmt"
	"strings"

	"github.com/rowtrail/rowtrail/connectors/mysql/binlog"
	"github.com/rowtrail/rowtrail/connectors/mysql/charset"
	"github.com/rowtrail/rowtrail/connectors/mysql/ddl"
)

// fromMetadata is the table that a table map with FULL metadata tells of. errs are of columns whose form it leaves open; why says why
// nothing else is known of them.
func (b *Book) fromMetadata(t *binlog.Table, why string) (table *ddl.Table, errs []error) {
	table, errs = &ddl.Table{}, make([]error, len(t.Columns))
	for i := range t.Columns {
		w := &t.Columns[i]
		c := ddl.Column{Name: w.Name, Length: -1, Scale: -1, Unsigned: w.Unsigned, Nullable: w.Nullable, Invisible: w.Invisible}
		if err := b.wireType(w, &c); err != nil {
			errs[i] = fmt.Errorf("%w, and the table's description is not known: %s; load the table anew", err, why)
		}
		if !isNumber(c.Type) {
			c.Unsigned = false
		}
		table.Columns = append(table.Columns, c)
	}
	return table, errs
}

// hashColumn is how MariaDB names the columns that hold the hashes of a unique key whose values are too long for a key. The binlog has
// them, behind all others, and no statement and no catalog does.
const hashColumn = "DB_ROW_HASH_"

// withoutHashes is a table map without such columns, if that fits a table's description; nil stands for any.
func (b *Book) withoutHashes(t *binlog.Table, d *ddl.Table) *binlog.Table {
	if b.o.Flavour != ddl.MariaDB {
		return t
	}
	n := len(t.Columns)
	for n > 0 && t.Columns[n-1].Type == binlog.WireLongLong && (!t.Named || strings.HasPrefix(t.Columns[n-1].Name, hashColumn)) {
		n--
	}
	if d != nil && !t.Named {
		n = max(n, len(d.Columns))
		if len(t.Columns)-n > len(d.Unique) {
			n = len(t.Columns)
		}
	}
	if n == len(t.Columns) || !t.Named && d == nil {
		return t
	}
	short := *t
	short.Columns = t.Columns[:n]
	return &short
}

// wireType names a column's type as a CREATE TABLE would.
func (b *Book) wireType(w *binlog.WireColumn, c *ddl.Column) error {
	maria := b.o.Flavour == ddl.MariaDB
	meta := int(w.Meta)
	switch w.Type {
	case binlog.WireTiny:
		c.Type = "tinyint"
	case binlog.WireShort:
		c.Type = "smallint"
	case binlog.WireInt24:
		c.Type = "mediumint"
	case binlog.WireLong:
		c.Type = "int"
	case binlog.WireLongLong:
		c.Type = "bigint"
	case binlog.WireFloat:
		c.Type = "float"
	case binlog.WireDouble:
		c.Type = "double"
	case binlog.WireDecimal:
		c.Type, c.Length, c.Scale = "decimal", meta>>8, meta&0xff
	case binlog.WireYear:
		c.Type = "year"
	case binlog.WireDate, binlog.WireNewDate:
		c.Type = "date"
	case binlog.WireTime:
		c.Type, c.Length = "time", fraction(meta)
	case binlog.WireDatetime:
		c.Type, c.Length = "datetime", fraction(meta)
	case binlog.WireTimestamp:
		c.Type, c.Length = "timestamp", fraction(meta)
	case binlog.WireBit:
		c.Type, c.Length = "bit", meta>>8*8+meta&0xff
	case binlog.WireJSON:
		c.Type = "json"
	case binlog.WireVector:
		c.Type, c.Length = "vector", int(w.Dimensions)
	case binlog.WireGeometry:
		names := [...]string{"geometry", "point", "linestring", "polygon", "multipoint", "multilinestring", "multipolygon", "geomcollection"}
		if int(w.Geometry) >= len(names) {
			return fmt.Errorf("a geometry of type %d", w.Geometry)
		}
		if c.Type = names[w.Geometry]; maria && w.Geometry == 7 {
			c.Type = "geometrycollection"
		}
	case binlog.WireEnum, binlog.WireSet:
		c.Type = "enum"
		if w.Type == binlog.WireSet {
			c.Type = "set"
		}
		labels, err := b.labels(w)
		if err != nil {
			return err
		}
		c.Values = labels
	case binlog.WireBlob, binlog.WireBlobCompressed, binlog.WireString, binlog.WireVarchar, binlog.WireVarcharCompressed, binlog.WireVarString:
		return stringType(w, c, maria)
	default:
		return fmt.Errorf("the table map does not tell how many fraction digits it has")
	}
	return nil
}

// fraction is a number of fraction digits as ddl has it: none is no length.
func fraction(n int) int {
	if n == 0 {
		return -1
	}
	return n
}

func stringType(w *binlog.WireColumn, c *ddl.Column, maria bool) error {
	cs, ok := charset.OfCollation(uint64(w.Collation))
	if !ok {
		return fmt.Errorf("collation %d is not known", w.Collation)
	}
	text := cs != "binary"
	size := int(w.Meta)
	switch w.Type {
	case binlog.WireBlob, binlog.WireBlobCompressed:
		names := [...]string{"tinyblob", "blob", "mediumblob", "longblob"}
		if text {
			names = [...]string{"tinytext", "text", "mediumtext", "longtext"}
		}
		c.Type = names[size-1]
		return nil
	case binlog.WireString:
		if c.Type = "binary"; text {
			c.Type = "char"
		}
		if maria && !text && (size == 4 || size == 16) {
			return fmt.Errorf("it is a string of %d bytes, or a UUID, INET4 or INET6", size)
		}
	default:
		if c.Type = "varbinary"; text {
			c.Type = "varchar"
		}
		if w.Type == binlog.WireVarcharCompressed {
			size-- // it has a byte that says how
		}
		if maria && !text && size%4 == 0 && w.Type == binlog.WireVarchar {
			return fmt.Errorf("it is a binary string of %d bytes, or a VECTOR", size)
		}
	}
	if c.Length = size; text {
		c.Length = size / maxBytes(cs)
	}
	return nil
}

// maxBytes is the length of a charset's longest character.
func maxBytes(charset string) int {
	switch charset {
	case "utf8mb4", "utf16", "utf16le", "utf32", "gb18030":
		return 4
	case "utf8mb3", "ujis", "eucjpms":
		return 3
	case "ucs2", "big5", "gbk", "gb2312", "sjis", "cp932", "euckr":
		return 2
	}
	return 1
}
