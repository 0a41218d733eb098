package mysql

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/rowtrail/rowtrail/connectors/event"
	"github.com/rowtrail/rowtrail/sink"
)

// Limits of the servers.
const (
	maxKeyBytes    = 3072  // of an index
	maxVarchar     = 16383 // characters of utf8mb4
	maxDecimal     = 65
	maxScale       = 30
	maxBits        = 64
	numericHeader  = 4 // what the modifier of NUMERIC has over it
	versionVector  = 90000
	versionVectorM = 110700
	versionUUID    = 100700
	versionINET4   = 101000
)

// fromMySQL tells that a table's source is MySQL or MariaDB, so that its columns' types are this target's.
func fromMySQL(source string) bool {
	return source == event.SourceMySQL || source == event.SourceMariaDB
}

// kindOf is a type taken apart: decimal(10,2) unsigned, enum('a','b'), varchar(20).
type kindOf struct {
	name     string
	args     string // between the brackets
	unsigned bool
	charset  string // "" when the type has none, or it is not known
}

var (
	kindPattern = regexp.MustCompile(`(?is)^([a-z]+[0-9]?)(?: *\((.*)\))?((?: (?:unsigned|zerofill|character set [a-z0-9_]+))*)$`)
	commentRule = regexp.MustCompile(`(?s) */\*.*?\*/ *`)
)

// parseKind reads a type as information_schema prints it, perhaps with its charset. Display widths of integers say nothing of their values.
func parseKind(text string) (kindOf, bool) {
	m := kindPattern.FindStringSubmatch(strings.TrimSpace(commentRule.ReplaceAllString(text, "")))
	if m == nil {
		return kindOf{}, false
	}
	k := kindOf{name: strings.ToLower(m[1]), args: m[2]}
	for word := range strings.FieldsSeq(strings.ToLower(m[3])) {
		switch word {
		case "unsigned":
			k.unsigned = true
		case "zerofill", "character", "set":
		default:
			k.charset = word
		}
	}
	switch k.name {
	case "integer":
		k.name = "int"
	case "bool", "boolean":
		k.name = "tinyint"
	case "numeric":
		k.name = "decimal"
	case "real":
		k.name = "double"
	case "geomcollection":
		k.name = "geometrycollection"
	}
	switch k.name {
	case "tinyint":
		if k.args != "1" { // how BOOLEAN is told from other numbers
			k.args = ""
		}
	case "smallint", "mediumint", "int", "bigint", "year", "float", "double":
		k.args = ""
	case "datetime", "timestamp", "time":
		if k.args == "" {
			k.args = "0"
		}
	case "bit", "char", "binary":
		if k.args == "" {
			k.args = "1"
		}
	case "decimal":
		switch {
		case k.args == "":
			k.args = "10,0"
		case !strings.Contains(k.args, ","):
			k.args += ",0"
		}
	}
	return k, true
}

// String declares the type, without its charset.
func (k kindOf) String() string {
	text := k.name
	if k.args != "" {
		text += "(" + k.args + ")"
	}
	if k.unsigned {
		text += " unsigned"
	}
	return text
}

// numbers are the arguments.
func (k kindOf) numbers() (list []int) {
	for arg := range strings.SplitSeq(k.args, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(arg))
		if err != nil {
			return nil
		}
		list = append(list, n)
	}
	return list
}

func (k kindOf) textual() bool {
	switch k.name {
	case "char", "varchar", "tinytext", "text", "mediumtext", "longtext", "enum", "set":
		return true
	}
	return false
}

// sourceType is a column's type in this target's terms, before the server at hand is looked at. The trace keeps it. docs/sinks.md has the
// table; a type that would lose values is refused by name. keys is the number of columns that the key has.
func sourceType(s *event.Schema, c *event.Column, keys int) (kindOf, error) {
	if !fromMySQL(s.Source) {
		return postgresType(c, keys)
	}
	k, ok := parseKind(c.Type)
	if !ok {
		return kindOf{}, sink.Permanent(fmt.Errorf("column %s has the type %s, which is not known: create the column in the target by hand, or leave it out at the source with column.exclude.list", c.Name, c.Type))
	}
	k.charset = c.Charset
	if k.name == "enum" || k.name == "set" {
		k.args = labels(c.Enum)
	}
	if c.Key > 0 { // indexes of a part of a column do not tell rows apart
		switch k.name {
		case "tinytext", "text", "mediumtext", "longtext":
			return keyText(keys), nil
		case "tinyblob", "blob", "mediumblob", "longblob":
			return kindOf{name: "varbinary", args: strconv.Itoa(maxKeyBytes / keys)}, nil
		}
	}
	return k, nil
}

func labels(list []string) string {
	quoted := make([]string, len(list))
	for i, l := range list {
		quoted[i] = literal(l)
	}
	return strings.Join(quoted, ",")
}

func keyText(keys int) kindOf {
	return kindOf{name: "varchar", args: strconv.Itoa(maxKeyBytes / 4 / keys), charset: "utf8mb4"}
}

var postgresLength = regexp.MustCompile(`^character(?: varying)?\((\d+)\)$`)

// postgresType is the type that holds every value of a column of Postgres, but for values that the server refuses by name: infinite dates and
// numbers, NaN, years before 1 and after 9999, and numerics without a declared size that are longer than DECIMAL can be.
func postgresType(c *event.Column, keys int) (kindOf, error) {
	of := func(name string, args ...int) (kindOf, error) {
		k := kindOf{name: name}
		for i, a := range args {
			if i > 0 {
				k.args += ","
			}
			k.args += strconv.Itoa(a)
		}
		if k.textual() {
			k.charset = "utf8mb4"
		}
		return k, nil
	}
	digits := 6
	if c.Modifier >= 0 && c.Modifier <= 6 {
		digits = int(c.Modifier)
	}
	switch c.Kind {
	case event.KindBool:
		return of("tinyint", 1)
	case event.KindInt16:
		return of("smallint")
	case event.KindInt32:
		return of("int")
	case event.KindInt64:
		return of("bigint")
	case event.KindOID:
		return kindOf{name: "int", unsigned: true}, nil
	case event.KindFloat32:
		return of("float")
	case event.KindFloat64:
		return of("double")
	case event.KindNumeric:
		if c.Modifier < numericHeader {
			return of("decimal", maxDecimal, maxScale)
		}
		precision, scale := int(c.Modifier-numericHeader)>>16, int(c.Modifier-numericHeader)&0x7ff
		if precision > maxDecimal || scale > min(precision, maxScale) {
			return kindOf{}, sink.Permanent(fmt.Errorf("column %s has the type %s, and DECIMAL has %d digits at most, %d of them fraction: create the column in the target by hand as it fits, "+
				"or leave it out at the source with column.exclude.list", c.Name, c.Type, maxDecimal, maxScale))
		}
		return of("decimal", precision, scale)
	case event.KindMoney:
		return of("decimal", 19, 2)
	case event.KindDate:
		return of("date")
	case event.KindTime:
		return of("time", digits)
	case event.KindTimestamp, event.KindTimestampTZ: // TIMESTAMP ends in 2038
		return of("datetime", digits)
	case event.KindUUID:
		return kindOf{name: "char", args: "36", charset: "ascii"}, nil
	case event.KindBit:
		if n := int(c.Modifier); n > 0 && n <= maxBits && !strings.Contains(c.Type, "varying") {
			return of("bit", n)
		}
	case event.KindBytes:
		if c.Key > 0 {
			return of("varbinary", maxKeyBytes/keys)
		}
		return of("longblob")
	}
	if m := postgresLength.FindStringSubmatch(c.Type); m != nil {
		if n, err := strconv.Atoi(m[1]); err == nil && n <= maxVarchar && (c.Key == 0 || n <= maxKeyBytes/4/keys) {
			return of("varchar", n)
		}
	}
	if c.Key > 0 {
		return keyText(keys), nil
	}
	return of("longtext")
}

// declare is how a column is declared at the server at hand.
func (s *session) declare(ctx context.Context, schema *event.Schema, c *event.Column, keys int) (kindOf, string, error) {
	k, err := sourceType(schema, c, keys)
	if err != nil {
		return k, "", err
	}
	m := s.conn
	refuse := func(what string) (kindOf, string, error) {
		return k, "", sink.Permanent(fmt.Errorf("column %s has the type %s, which %s does not know: %s, or leave it out at the source with column.exclude.list", c.Name, c.Type, m.version, what))
	}
	switch k.name {
	case "uuid":
		if !m.mariadb || m.number < versionUUID {
			k = kindOf{name: "char", args: "36", charset: "ascii"}
		}
	case "inet4":
		if !m.mariadb || m.number < versionINET4 {
			k = kindOf{name: "varchar", args: "15", charset: "ascii"}
		}
	case "inet6":
		if !m.mariadb {
			k = kindOf{name: "varchar", args: "45", charset: "ascii"}
		}
	case "vector":
		if m.mariadb && m.number < versionVectorM || !m.mariadb && m.number < versionVector {
			return refuse("create a LONGBLOB of the name by hand")
		}
	case "json":
		if m.mariadb {
			return kindOf{name: "longtext", charset: "utf8mb4"}, "json", nil
		}
	}
	definition := k.String()
	if k.textual() {
		if k, definition, err = s.withCharset(ctx, k, c); err != nil {
			return k, "", err
		}
	}
	switch {
	case k.name == "timestamp" && c.Key > 0: // without a default the first of a table would follow the clock
		definition += " DEFAULT '1970-01-01 00:00:01'"
	case k.name == "timestamp":
		definition += " NULL"
	case c.SRID != nil && !m.mariadb && classOf(k.name) == classBytes:
		definition += " SRID " + strconv.FormatUint(uint64(*c.SRID), 10)
	}
	return k, definition, nil
}

var wordPattern = regexp.MustCompile(`^[a-z0-9_]+$`)

// withCharset adds the source's charset and collation where the server has them, as they say which keys are the same. Where it does not, and
// for Postgres, text is kept in utf8mb4 and compared byte by byte, spaces at the end included.
func (s *session) withCharset(ctx context.Context, k kindOf, c *event.Column) (kindOf, string, error) {
	if c.Charset != "" && c.Collation != "" && k.charset == c.Charset {
		has, err := s.hasCollation(ctx, c.Charset, c.Collation)
		if err != nil {
			return k, "", err
		}
		if has {
			return k, k.String() + " CHARACTER SET " + c.Charset + " COLLATE " + c.Collation, nil
		}
	}
	if k.charset == "ascii" {
		return k, k.String() + " CHARACTER SET ascii COLLATE ascii_bin", nil
	}
	k.charset = "utf8mb4"
	switch k.name {
	case "tinytext", "text", "mediumtext":
		k = kindOf{name: "longtext", charset: k.charset} // the same characters take more bytes
	case "varchar":
		if n := k.numbers(); len(n) == 1 && n[0] > maxVarchar {
			k = kindOf{name: "longtext", charset: k.charset}
		}
	}
	collation := "utf8mb4_0900_bin"
	if s.conn.mariadb {
		collation = "utf8mb4_nopad_bin"
	}
	return k, k.String() + " CHARACTER SET utf8mb4 COLLATE " + collation, nil
}

func (s *session) hasCollation(ctx context.Context, charset, collation string) (bool, error) {
	if !wordPattern.MatchString(charset) || !wordPattern.MatchString(collation) {
		return false, nil
	}
	if has, known := s.collations[collation]; known {
		return has, nil
	}
	_, err := s.conn.query(ctx, "SELECT _"+charset+"'' COLLATE "+collation)
	if err != nil && code(err) != errUnknownCollate && code(err) != errUnknownCharset && code(err) != errCollateOfOther && code(err) != errUnknownColumn && code(err) != errParse {
		return false, fmt.Errorf("look for collation %s: %w", collation, err)
	}
	s.collations[collation] = err == nil
	return err == nil, nil
}
