package binlog

import (
	"fmt"
	"strconv"
	"strings"
)

// Described is a column as a schema history or the server's catalog has it.
type Described struct {
	Type string // as information_schema.columns.column_type has it: int unsigned, decimal(10,2), enum('a','b')
}

// Agrees tells whether the rows of this table map can be of a table with these columns. What it finds is an error that names the
// column. Agreement does not prove that a description is right, disagreement proves that it is not.
func (t *Table) Agrees(columns []Described) error {
	if t.Err != nil {
		return t.Err
	}
	if len(columns) != len(t.Columns) {
		return fmt.Errorf("table %s has %d columns in the binlog, %d are described", t.Collection(), len(t.Columns), len(columns))
	}
	for i := range columns {
		if !t.Columns[i].agrees(columns[i].Type) {
			return t.columnError(i, fmt.Errorf("%s in the binlog (metadata %#x), described as %s", t.Columns[i].name(), t.Columns[i].Meta, columns[i].Type))
		}
	}
	return nil
}

// agrees compares with a type. Sizes of strings are in characters there and in bytes here, so that they only bound each other.
func (c *WireColumn) agrees(typ string) bool {
	typ = strings.ToLower(strings.TrimSpace(typ))
	word := typ
	if end := strings.IndexAny(typ, " (/"); end >= 0 {
		word = typ[:end]
	}
	first, second := typeNumbers(typ)
	number := func(n, ifNone int) int {
		if n < 0 {
			return ifNone
		}
		return n
	}
	blob := func(size uint16) bool {
		return (c.Type == WireBlob || c.Type == WireBlobCompressed) && c.Meta == size
	}
	length := func(atLeast, atMost int) bool { return int(c.Meta) >= atLeast && int(c.Meta) <= atMost }
	switch word {
	case "tinyint", "bool", "boolean":
		return c.Type == WireTiny
	case "smallint":
		return c.Type == WireShort
	case "mediumint":
		return c.Type == WireInt24
	case "int", "integer":
		return c.Type == WireLong
	case "bigint":
		return c.Type == WireLongLong
	case "float":
		return c.Type == WireFloat
	case "double":
		return c.Type == WireDouble
	case "decimal", "numeric":
		return c.Type == WireDecimal && int(c.Meta>>8) == number(first, 10) && int(c.Meta&0xff) == number(second, 0)
	case "year":
		return c.Type == WireYear
	case "date":
		return c.Type == WireDate || c.Type == WireNewDate
	case "time":
		return c.Type == WireTimeOld || c.Type == WireTime && int(c.Meta) == number(first, 0)
	case "datetime":
		return c.Type == WireDatetimeOld || c.Type == WireDatetime && int(c.Meta) == number(first, 0)
	case "timestamp":
		return c.Type == WireTimestampOld || c.Type == WireTimestamp && int(c.Meta) == number(first, 0)
	case "bit":
		return c.Type == WireBit && c.bits() == number(first, 1)
	case "char":
		return c.Type == WireString && length(number(first, 1), 4*number(first, 1))
	case "binary":
		return c.Type == WireString && int(c.Meta) == number(first, 1)
	case "varchar":
		return (c.Type == WireVarchar || c.Type == WireVarcharCompressed || c.Type == WireVarString) && length(first, 4*first+1)
	case "varbinary":
		return (c.Type == WireVarchar || c.Type == WireVarcharCompressed) && length(first, first+1)
	case "tinytext", "tinyblob":
		return blob(1)
	case "text", "blob":
		return blob(2)
	case "mediumtext", "mediumblob":
		return blob(3)
	case "longtext", "longblob":
		return blob(4)
	case "json":
		return c.Type == WireJSON || blob(4)
	case "vector":
		return c.Type == WireVector || c.Type == WireVarchar && int(c.Meta) == 4*first
	case "uuid", "inet6":
		return c.Type == WireString && c.Meta == 16
	case "inet4":
		return c.Type == WireString && c.Meta == 4
	case "enum":
		n := labelCount(typ)
		return c.Type == WireEnum && (c.Meta == 1) == (n < 256)
	case "set":
		n := (labelCount(typ) + 7) / 8
		if n > 4 {
			n = 8
		}
		return c.Type == WireSet && int(c.Meta) == n
	case "geometry", "point", "linestring", "polygon", "multipoint", "multilinestring", "multipolygon", "geometrycollection", "geomcollection":
		return c.Type == WireGeometry
	}
	return false
}

// typeNumbers are the one or two numbers in brackets, -1 where there are none.
func typeNumbers(typ string) (first, second int) {
	_, rest, found := strings.Cut(typ, "(")
	list, _, closed := strings.Cut(rest, ")")
	if !found || !closed {
		return -1, -1
	}
	a, b, two := strings.Cut(list, ",")
	first, err := strconv.Atoi(strings.TrimSpace(a))
	if err != nil {
		return -1, -1
	}
	if second = -1; two {
		if second, err = strconv.Atoi(strings.TrimSpace(b)); err != nil {
			return -1, -1
		}
	}
	return first, second
}

// labelCount counts the quoted labels of an ENUM or SET; a quote in a label is doubled.
func labelCount(typ string) int {
	n, quoted := 0, false
	for i := 0; i < len(typ); i++ {
		if typ[i] != '\'' {
			continue
		}
		if quoted && i+1 < len(typ) && typ[i+1] == '\'' {
			i++
			continue
		}
		if quoted = !quoted; quoted {
			n++
		}
	}
	return n
}
