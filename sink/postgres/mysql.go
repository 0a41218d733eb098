package postgres

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/rowtrail/rowtrail/connectors/event"
)

// fromMySQL tells that a table's source is MySQL or MariaDB, whose types' names mean something else here, or nothing.
func fromMySQL(s *event.Schema) bool {
	return s.Source == event.SourceMySQL || s.Source == event.SourceMariaDB
}

// sourceType is what a column is at the source, in Postgres' terms. The trace keeps it.
func sourceType(s *event.Schema, c *event.Column) string {
	if fromMySQL(s) {
		if kind := mysqlType(c); kind != "" {
			return kind
		}
	}
	return c.Type
}

// mysqlType is the type, as Postgres prints it, that holds every value of a column of MySQL or MariaDB, but for values that Postgres
// refuses by name: zero and partial dates, and NUL characters in text. docs/sinks.md has the table. "": no such type is known.
func mysqlType(c *event.Column) string {
	switch c.Kind {
	case event.KindInt16, event.KindYear:
		return "smallint"
	case event.KindInt32:
		return "integer"
	case event.KindInt64:
		return "bigint"
	case event.KindUint64:
		return "numeric(20,0)"
	case event.KindFloat32:
		return "real"
	case event.KindFloat64:
		return "double precision"
	case event.KindNumeric:
		if c.Modifier < numericHeader {
			return "numeric"
		}
		return fmt.Sprintf("numeric(%d,%d)", (c.Modifier-numericHeader)>>16, (c.Modifier-numericHeader)&0xffff)
	case event.KindMySQLBit:
		return "bit(" + strconv.Itoa(int(c.Modifier)) + ")"
	case event.KindMySQLDate:
		return "date"
	case event.KindMySQLTime: // -838:59:59 is no time of the day
		return "interval"
	case event.KindMySQLDateTime:
		return "timestamp(" + strconv.Itoa(int(c.Modifier)) + ") without time zone"
	case event.KindMySQLTimestamp:
		return "timestamp(" + strconv.Itoa(int(c.Modifier)) + ") with time zone"
	case event.KindBytes, event.KindGeometry, event.KindPoint, event.KindVector:
		return "bytea"
	case event.KindUUID:
		return "uuid"
	case event.KindJSON: // jsonb would write it another way
		return "json"
	case event.KindEnum, event.KindSet: // '' is a value of each, and no label
		return "text"
	case event.KindText:
		return mysqlText(c)
	}
	return ""
}

// numericHeader is what Postgres adds to the modifier of numeric.
const numericHeader = 4

var mysqlLength = regexp.MustCompile(`^(?:var)?char\((\d+)\)`)

// mysqlText: CHAR loses the spaces at its end at the source, where Postgres would add some.
func mysqlText(c *event.Column) string {
	if m := mysqlLength.FindStringSubmatch(strings.ToLower(c.Type)); m != nil && m[1] != "0" {
		return "character varying(" + m[1] + ")"
	}
	return "text"
}
