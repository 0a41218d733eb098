package ddl

import (
	"strconv"
	"strings"
)

func canonicalCharset(s string) string {
	s = strings.ToLower(s)
	if s == "utf8" {
		return "utf8mb3"
	}
	return s
}

// charsetOf is a collation's charset; MariaDB's uca1400 collations are of any.
func charsetOf(collation, otherwise string) string {
	name, _, _ := strings.Cut(collation, "_")
	if strings.HasPrefix(name, "uca") || name == "default" {
		return otherwise
	}
	return canonicalCharset(name)
}

func hasCharset(typ string) bool {
	switch typ {
	case "char", "varchar", "tinytext", "text", "mediumtext", "longtext", "enum", "set":
		return true
	}
	return false
}

// byCharset turns character types of charset binary into their binary types.
func byCharset(c Column) Column {
	if c.Charset != "binary" {
		return c
	}
	switch c.Type {
	case "char":
		c.Type = "binary"
	case "varchar":
		c.Type = "varbinary"
	case "tinytext", "text", "mediumtext", "longtext":
		c.Type = strings.Replace(c.Type, "text", "blob", 1)
	default:
		return c
	}
	c.Charset, c.Collation = "", ""
	return c
}

// grown is a text column after a conversion: the server picks the type that holds as many characters.
func grown(c Column, was string) Column {
	sizes := []string{"tinytext", "text", "mediumtext", "longtext"}
	for i, s := range sizes {
		if c.Type == s && i < 3 && bytesPer(c.Charset) > bytesPer(was) {
			c.Type = sizes[i+1]
			break
		}
	}
	return c
}

func bytesPer(charset string) int {
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

// dataType reads a type with its brackets and attributes that belong to it.
func (p *parser) dataType(c *Column) {
	c.Length, c.Scale, c.Nullable = -1, -1, true
	name := strings.ToLower(p.name())
	switch name {
	case "bool", "boolean":
		c.Type, c.Length = "tinyint", 1
		return
	case "integer", "int4":
		name = "int"
	case "int1":
		name = "tinyint"
	case "int2":
		name = "smallint"
	case "int3", "middleint":
		name = "mediumint"
	case "int8":
		name = "bigint"
	case "dec", "numeric", "fixed":
		name = "decimal"
	case "float8":
		name = "double"
	case "float4":
		name = "float"
	case "double":
		p.take("PRECISION")
	case "real":
		name = "double"
		if p.o.Mode&RealAsFloat != 0 {
			name = "float"
		}
	case "serial":
		c.Type, c.Unsigned, c.Nullable, c.stated, c.AutoIncrement, c.unique = "bigint", true, false, true, true, true
		return
	case "character":
		name = "char"
		fallthrough
	case "char":
		if p.takeAny("VARYING") != "" {
			name = "varchar"
		} else if p.take("LARGE", "OBJECT") {
			p.fail()
		}
	case "varcharacter":
		name = "varchar"
	case "national":
		c.Charset = "utf8mb3"
		name = "char"
		if p.takeAny("VARCHAR", "VARCHARACTER") != "" {
			name = "varchar"
		} else if p.takeAny("CHAR", "CHARACTER") != "" {
			if p.take("VARYING") {
				name = "varchar"
			}
		} else {
			p.fail()
		}
	case "nchar":
		c.Charset, name = "utf8mb3", "char"
		if p.takeAny("VARYING", "VARCHAR", "VARCHARACTER") != "" {
			name = "varchar"
		}
	case "nvarchar":
		c.Charset, name = "utf8mb3", "varchar"
	case "long":
		name = "mediumtext"
		if p.take("VARBINARY") {
			name = "mediumblob"
		} else if p.takeAny("VARCHAR", "VARCHARACTER") == "" && p.takeAny("CHAR", "CHARACTER") != "" {
			p.want("VARYING")
		}
	case "geometrycollection":
		name = "geomcollection"
	}
	c.Type = name
	switch name {
	case "enum", "set":
		p.want("(")
		for !p.failed {
			t := p.next()
			if t.kind != text {
				p.fail()
			}
			c.Values = append(c.Values, strings.TrimRight(t.text, " "))
			if !p.take(",") {
				break
			}
		}
		p.want(")")
	case "tinyint", "smallint", "mediumint", "int", "bigint", "float", "double", "decimal", "bit", "year", "date", "time", "datetime",
		"timestamp", "char", "varchar", "binary", "varbinary", "tinytext", "text", "mediumtext", "longtext", "tinyblob", "blob",
		"mediumblob", "longblob", "json", "geometry", "point", "linestring", "polygon", "multipoint", "multilinestring",
		"multipolygon", "geomcollection", "vector", "inet4", "inet6", "uuid":
		p.lengths(c)
	default:
		p.fail()
	}
	p.impliedLength(c)
}

func (p *parser) lengths(c *Column) {
	if !p.take("(") {
		return
	}
	c.Length = p.integer()
	if p.take(",") {
		c.Scale = p.integer()
	}
	p.want(")")
}

func (p *parser) integer() int {
	t := p.next()
	n, err := strconv.Atoi(t.text)
	if t.kind != number || err != nil {
		p.fail()
	}
	return n
}

func (p *parser) impliedLength(c *Column) {
	none := c.Length < 0
	switch c.Type {
	case "char", "binary", "bit":
		if none {
			c.Length = 1
		}
	case "decimal":
		if none {
			c.Length = 10
		}
		c.Scale = max(c.Scale, 0)
	case "float":
		if !none && c.Scale < 0 { // FLOAT(p) is a number of bits
			if c.Length > 24 {
				c.Type = "double"
			}
			c.Length = -1
		}
	case "vector":
		if none && p.o.Flavour == MySQL {
			c.Length = 2048
		}
	case "time", "datetime", "timestamp":
		if c.Length == 0 {
			c.Length = -1
		}
	case "year":
		c.Length = -1
	case "text", "blob":
		if !none {
			p.sized(c)
		}
	}
}

// sized turns TEXT(n) and BLOB(n) into the smallest type for it; a text's bytes depend on a charset that is not known yet.
func (p *parser) sized(c *Column) {
	if c.Type == "text" {
		p.undefined = "TEXT(n): its type depends on the charset"
		return
	}
	n := c.Length
	c.Length = -1
	switch {
	case n < 1<<8:
		c.Type = "tinyblob"
	case n < 1<<16:
	case n < 1<<24:
		c.Type = "mediumblob"
	default:
		c.Type = "longblob"
	}
}

// ColumnType is the type as information_schema.columns.column_type prints it.
func (c Column) ColumnType(f Flavour) string {
	s := c.Type
	length := c.Length
	if c.Type == "enum" || c.Type == "set" {
		escape := strings.NewReplacer("'", "''", `\`, `\\`, "\x00", `\0`, "\n", `\n`, "\r", `\r`)
		labels := make([]string, len(c.Values))
		for i, v := range c.Values {
			labels[i] = "'" + escape.Replace(v) + "'"
		}
		return s + "(" + strings.Join(labels, ",") + ")"
	}
	switch width := displayWidth(c); {
	case width == 0:
	case f == MariaDB || c.Zerofill:
		if length < 0 {
			length = width
		}
	case c.Type != "tinyint" || length != 1 || c.Unsigned:
		length = -1 // MySQL has given widths up, but for tinyint(1)
	}
	if c.Type == "year" && f == MariaDB {
		length = 4
	}
	if length >= 0 {
		s += "(" + strconv.Itoa(length)
		if c.Scale >= 0 {
			s += "," + strconv.Itoa(c.Scale)
		}
		s += ")"
	}
	if c.Unsigned {
		s += " unsigned"
	}
	if c.Zerofill {
		s += " zerofill"
	}
	return s
}

// displayWidth is the width that an integer type has if none is given; 0 of other types.
func displayWidth(c Column) int {
	width := 0
	switch c.Type {
	case "tinyint":
		width = 4
	case "smallint":
		width = 6
	case "mediumint":
		width = 9
	case "int":
		width = 11
	case "bigint":
		return 20
	}
	if c.Unsigned && width > 0 {
		width--
	}
	return width
}
