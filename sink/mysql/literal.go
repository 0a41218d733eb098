package mysql

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"

	"github.com/rowtrail/rowtrail/connectors/event"
	"github.com/rowtrail/rowtrail/sink"
)

// class is how a column's values are written into a statement, by the target column's type.
type class uint8

const (
	classText   class = iota
	classNumber       // exact: in quotes it would be compared as a DOUBLE
	classFloat
	classDouble
	classBytes
	classBit
	classEnum
	classJSON
)

func classOf(data string) class {
	switch data {
	case "tinyint", "smallint", "mediumint", "int", "bigint", "decimal":
		return classNumber
	case "float":
		return classFloat
	case "double":
		return classDouble
	case "binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob", "vector", "geometry", "point", "linestring", "polygon", "multipoint",
		"multilinestring", "multipolygon", "geomcollection", "geometrycollection":
		return classBytes
	case "bit":
		return classBit
	case "enum":
		return classEnum
	case "json": // of MySQL; MariaDB's is a LONGTEXT
		return classJSON
	}
	return classText
}

// boundColumn is one column that is written.
type boundColumn struct {
	name   string
	source int // in Schema.Columns and Row
	class  class
	kind   event.Kind // of the source
	of     string     // schema's source
	column column
}

// literal quotes a string; the session has NO_BACKSLASH_ESCAPES.
func literal(text string) string { return "'" + strings.ReplaceAll(text, "'", "''") + "'" }

func appendLiteral(dst, text []byte) []byte {
	dst = append(dst, '\'')
	for {
		i := bytes.IndexByte(text, '\'')
		if i < 0 {
			dst = append(dst, text...)
			return append(dst, '\'')
		}
		dst = append(dst, text[:i+1]...)
		dst = append(dst, '\'')
		text = text[i+1:]
	}
}

// append writes a value as a literal that the column takes unchanged.
func (c *boundColumn) append(dst, text []byte) ([]byte, error) {
	text = c.convert(text)
	switch c.class {
	case classNumber:
		if isNumber(text) {
			return append(dst, text...), nil
		}
	case classFloat, classDouble:
		return c.appendFloat(dst, text)
	case classBytes:
		return c.appendBytes(dst, text)
	case classBit:
		return c.appendBits(dst, text)
	case classJSON:
		return c.appendJSON(dst, text)
	}
	return appendLiteral(dst, text), nil
}

// convert brings what Postgres and JSON write in another way into the form that the column's type has.
func (c *boundColumn) convert(text []byte) []byte {
	number := c.class == classNumber || c.class == classBit
	switch {
	case c.kind == event.KindBool && number && len(text) == 1:
		if text[0] == 't' {
			return []byte("1")
		}
		return []byte("0")
	case c.of == "" && number && string(text) == "true": // JSON of another producer
		return []byte("1")
	case c.of == "" && number && string(text) == "false":
		return []byte("0")
	case c.kind == event.KindMoney && number: // -$1,234.56
		return bytes.ReplaceAll(bytes.Replace(text, []byte("$"), nil, 1), []byte(","), nil)
	case c.kind == event.KindTimestampTZ && (c.column.data == "datetime" || c.column.data == "timestamp"):
		return bytes.TrimSuffix(text, []byte("+00"))
	}
	return text
}

// isNumber tells that a text is digits, perhaps with a sign and a point.
func isNumber(text []byte) bool {
	digits, points := 0, 0
	for i, ch := range text {
		switch {
		case ch >= '0' && ch <= '9':
			digits++
		case ch == '.' && points == 0:
			points++
		case ch == '-' && i == 0:
		default:
			return false
		}
	}
	return digits > 0
}

// appendFloat writes the number that a text stands for with all of its digits: the largest FLOAT in its shortest form is a little larger
// than itself.
func (c *boundColumn) appendFloat(dst, text []byte) ([]byte, error) {
	bits := 64
	if c.class == classFloat {
		bits = 32
	}
	f, err := strconv.ParseFloat(string(text), bits)
	switch {
	case err != nil || f != f || f-f != 0:
		return dst, sink.Permanent(fmt.Errorf("column %s: %s has no value %q", c.name, strings.ToUpper(c.column.data), text))
	case f == 0 && text[0] == '-':
		return append(dst, "-0e0"...), nil
	}
	return strconv.AppendFloat(dst, f, 'e', -1, 64), nil
}

// appendBytes writes bytes of the source's binary types, and others as text.
func (c *boundColumn) appendBytes(dst, text []byte) ([]byte, error) {
	switch c.kind {
	case event.KindBytes, event.KindGeometry, event.KindPoint, event.KindVector:
	default:
		return appendLiteral(dst, text), nil
	}
	digits, ok := bytes.CutPrefix(text, []byte(`\x`))
	if !ok || len(digits)%2 != 0 || len(bytes.Trim(digits, "0123456789abcdefABCDEF")) != 0 {
		return dst, sink.Permanent(fmt.Errorf("column %s: %.40q is not hexadecimal", c.name, text))
	}
	dst = append(dst, "x'"...)
	dst = append(dst, digits...)
	return append(dst, '\''), nil
}

// appendBits writes binary digits.
func (c *boundColumn) appendBits(dst, text []byte) ([]byte, error) {
	switch {
	case c.kind != event.KindMySQLBit && c.kind != event.KindBit:
		if isNumber(text) {
			return append(dst, text...), nil
		}
	case len(text) > 0 && len(bytes.Trim(text, "01")) == 0:
		dst = append(dst, "b'"...)
		dst = append(dst, text...)
		return append(dst, '\''), nil
	}
	return dst, sink.Permanent(fmt.Errorf("column %s: %.80q is not what BIT can hold", c.name, text))
}
