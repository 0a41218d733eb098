package mysql

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rowtrail/rowtrail/connectors/event"
	"github.com/rowtrail/rowtrail/connectors/mysql/binlog"
	"github.com/rowtrail/rowtrail/connectors/mysql/charset"
)

// collationBinary is that of binary strings.
const collationBinary = 63

// wireFacts is what a table map with FULL metadata tells of a column; labels are in UTF-8.
func wireFacts(w *binlog.WireColumn, labels []string) event.MySQLFacts {
	f := event.MySQLFacts{Unsigned: w.Unsigned, Invisible: w.Invisible, Labels: labels, Scale: -1, Length: -1}
	binary := w.Collation == collationBinary || w.Collation == 0
	set := func(name string) { f.DataType, f.ColumnType = name, name }
	sized := func(name string, size int) {
		f.DataType, f.ColumnType, f.Length = name, fmt.Sprintf("%s(%d)", name, size), int64(size)
	}
	fraction := func(name string) {
		set(name)
		if f.Fraction = int(w.Meta); f.Fraction > 0 {
			f.ColumnType = fmt.Sprintf("%s(%d)", name, f.Fraction)
		}
	}
	if name, ok := charset.OfCollation(uint64(w.Collation)); ok && !binary {
		f.Charset = name
	}
	characters := int(w.Meta) / widest(f.Charset)
	switch w.Type {
	case binlog.WireTiny:
		set("tinyint")
	case binlog.WireShort:
		set("smallint")
	case binlog.WireInt24:
		set("mediumint")
	case binlog.WireLong:
		set("int")
	case binlog.WireLongLong:
		set("bigint")
	case binlog.WireFloat:
		set("float")
	case binlog.WireDouble:
		set("double")
	case binlog.WireDecimal:
		set("decimal")
		f.Precision, f.Scale = int(w.Meta>>8), int(w.Meta&0xff)
		f.ColumnType = fmt.Sprintf("decimal(%d,%d)", f.Precision, f.Scale)
	case binlog.WireYear:
		set("year")
	case binlog.WireDate, binlog.WireNewDate:
		set("date")
	case binlog.WireTime:
		fraction("time")
	case binlog.WireDatetime:
		fraction("datetime")
	case binlog.WireTimestamp:
		fraction("timestamp")
	case binlog.WireTimeOld:
		set("time")
	case binlog.WireDatetimeOld:
		set("datetime")
	case binlog.WireTimestampOld:
		set("timestamp")
	case binlog.WireBit:
		f.Precision = int(w.Meta>>8)*8 + int(w.Meta&0xff)
		f.DataType, f.ColumnType = "bit", fmt.Sprintf("bit(%d)", f.Precision)
	case binlog.WireEnum:
		f.DataType, f.ColumnType = "enum", listOf("enum", labels)
	case binlog.WireSet:
		f.DataType, f.ColumnType = "set", listOf("set", labels)
	case binlog.WireJSON:
		set("json")
	case binlog.WireVector:
		sized("vector", int(w.Dimensions))
		f.Dimension = int(w.Dimensions)
	case binlog.WireGeometry:
		set("geometry")
		names := []string{"geometry", "point", "linestring", "polygon", "multipoint", "multilinestring", "multipolygon", "geometrycollection"}
		if int(w.Geometry) < len(names) {
			set(names[w.Geometry])
		}
	case binlog.WireString:
		if binary {
			sized("binary", int(w.Meta))
		} else {
			sized("char", characters)
		}
	case binlog.WireVarchar, binlog.WireVarString, binlog.WireVarcharCompressed:
		if binary {
			sized("varbinary", int(w.Meta))
		} else {
			sized("varchar", characters)
		}
	case binlog.WireBlob, binlog.WireBlobCompressed:
		size := []string{"", "tiny", "", "medium", "long"}[w.Meta]
		if binary {
			set(size + "blob")
		} else {
			set(size + "text")
		}
	}
	if f.Unsigned {
		f.ColumnType += " unsigned"
	}
	return f
}

func listOf(name string, labels []string) string {
	quoted := make([]string, len(labels))
	for i, l := range labels {
		quoted[i] = "'" + strings.ReplaceAll(l, "'", "''") + "'"
	}
	return name + "(" + strings.Join(quoted, ",") + ")"
}

// widest is how many bytes a character of a charset has at most.
func widest(charset string) int {
	switch charset {
	case "utf8mb4", "utf16", "utf16le", "utf32", "gb18030":
		return 4
	case "utf8mb3", "utf8", "ujis", "eucjpms":
		return 3
	case "ucs2", "big5", "gbk", "gb2312", "sjis", "cp932", "euckr":
		return 2
	}
	return 1
}

// known tells whether the catalog speaks of the column that a table map with FULL metadata has: it may be ahead of the binlog (M1).
func known(w *binlog.WireColumn, wire *event.MySQLFacts, now *column) bool {
	if now == nil || now.facts.Unsigned != wire.Unsigned || !slices.Equal(now.facts.Labels, wire.Labels) {
		return false
	}
	if textual(now.facts.DataType) && now.facts.Charset != wire.Charset {
		return false
	}
	one := binlog.Table{Columns: []binlog.WireColumn{*w}}
	return one.Agrees([]binlog.Described{{Type: now.facts.ColumnType}}) == nil
}

// textual tells the types whose charset a table map has.
func textual(dataType string) bool {
	switch dataType {
	case "char", "varchar", "tinytext", "text", "mediumtext", "longtext", "enum", "set":
		return true
	}
	return false
}

// form is what the bytes of a type's strings are.
func form(dataType string) binlog.Form {
	switch dataType {
	case "binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob", "vector":
		return binlog.FormBinary
	case "uuid":
		return binlog.FormUUID
	case "inet4":
		return binlog.FormInet4
	case "inet6":
		return binlog.FormInet6
	}
	return binlog.FormText
}
