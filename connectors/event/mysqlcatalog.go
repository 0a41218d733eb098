package event

import (
	"fmt"
	"math"
	"strings"
)

// MySQLFacts is what MySQL or MariaDB says about a column, in information_schema's terms.
type MySQLFacts struct {
	DataType   string // DATA_TYPE: int, varchar
	ColumnType string // COLUMN_TYPE: int unsigned, varchar(20), enum('a','b')
	Length     int64  // CHARACTER_MAXIMUM_LENGTH: characters, or the bytes of a binary type
	Precision  int    // NUMERIC_PRECISION of DECIMAL and BIT
	Scale      int    // NUMERIC_SCALE of DECIMAL, FLOAT and DOUBLE; -1: none
	Fraction   int    // DATETIME_PRECISION
	Dimension  int    // of VECTOR
	Unsigned   bool
	Charset    string
	Collation  string
	Labels     []string // of ENUM and SET, in order, in UTF-8
	SRID       *uint32  // SRS_ID; nil: any
	Default    *string  // canonical text of a default that is a constant: what rows older than the column have
	Computed   bool     // the default is an expression, or the column counts by itself
	Generated  bool
	Invisible  bool
}

// MySQLColumn describes a column from its facts. notNull and key are as in PostgresColumn. TINYINT(1), which is what BOOLEAN
// makes, is a number however the column was made, so that load and stream agree.
func MySQLColumn(name string, f MySQLFacts, notNull bool, key int) (Column, error) {
	dataType := strings.ToLower(f.DataType)
	c := Column{
		Name: name, Type: f.ColumnType, Modifier: -1, NotNull: notNull, Key: key, Enum: f.Labels,
		Missing: f.Default, Default: f.Computed || f.Generated,
		Unsigned: f.Unsigned, Charset: f.Charset, Collation: f.Collation, SRID: f.SRID, Generated: f.Generated, Invisible: f.Invisible,
	}
	var err error
	if c.Kind, err = mysqlKind(dataType, f); err != nil {
		return Column{}, fmt.Errorf("describe column %s (%s): %w", name, f.ColumnType, err)
	}
	if c.Modifier, err = mysqlModifier(dataType, f); err != nil {
		return Column{}, fmt.Errorf("describe column %s (%s): %w", name, f.ColumnType, err)
	}
	return c, nil
}

// mysqlKind is the encoder family of a type. The server says double of FLOAT(p) with more than 24 binary digits.
func mysqlKind(dataType string, f MySQLFacts) (Kind, error) {
	switch dataType {
	case "tinyint", "smallint", "mediumint", "int", "integer", "bigint":
		return mysqlInteger(dataType, f.Unsigned), nil
	case "bool", "boolean":
		return KindInt16, nil
	case "float":
		if f.Scale >= 0 { // Debezium's schema of FLOAT(M,D)
			return KindFloat64, nil
		}
		return KindFloat32, nil
	case "double", "real":
		return KindFloat64, nil
	case "decimal", "numeric":
		return KindNumeric, nil
	case "bit":
		return KindMySQLBit, nil
	case "date":
		return KindMySQLDate, nil
	case "time":
		return KindMySQLTime, nil
	case "datetime":
		return KindMySQLDateTime, nil
	case "timestamp":
		return KindMySQLTimestamp, nil
	case "year":
		return KindYear, nil
	case "binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob":
		return KindBytes, nil
	case "char", "varchar", "tinytext", "text", "mediumtext", "longtext", "inet4", "inet6":
		return KindText, nil
	case "enum":
		return KindEnum, nil
	case "set":
		return KindSet, nil
	case "json":
		return KindJSON, nil
	case "uuid":
		return KindUUID, nil
	case "point":
		return KindPoint, nil
	case "geometry", "linestring", "polygon", "multipoint", "multilinestring", "multipolygon", "geometrycollection", "geomcollection":
		return KindGeometry, nil
	case "vector":
		return KindVector, nil
	}
	return "", fmt.Errorf("the type %q is not known; leave the column out with column.exclude.list", dataType)
}

// mysqlInteger: an unsigned integer has the next larger Connect type, but for MEDIUMINT, which fits, and TINYINT, which Debezium has in
// 16 bits anyway.
func mysqlInteger(dataType string, unsigned bool) Kind {
	switch dataType {
	case "tinyint":
		return KindInt16
	case "smallint":
		if unsigned {
			return KindInt32
		}
		return KindInt16
	case "mediumint":
		return KindInt32
	case "bigint":
		if unsigned {
			return KindUint64
		}
		return KindInt64
	}
	if unsigned {
		return KindInt64
	}
	return KindInt32
}

// Limits of MySQL and MariaDB.
const (
	maxDecimalPrecision = 65
	maxDecimalScale     = 38
	maxBits             = 64
)

func mysqlModifier(dataType string, f MySQLFacts) (int32, error) {
	switch dataType {
	case "decimal", "numeric":
		if f.Precision < 1 || f.Precision > maxDecimalPrecision || f.Scale < 0 || f.Scale > min(f.Precision, maxDecimalScale) {
			return 0, fmt.Errorf("a decimal of %d digits, %d of them fraction, is not possible", f.Precision, f.Scale)
		}
		return int32(f.Precision<<precisionBits + f.Scale + typmodHeader), nil
	case "bit":
		if f.Precision < 1 || f.Precision > maxBits {
			return 0, fmt.Errorf("%d bits are not possible", f.Precision)
		}
		return int32(f.Precision), nil
	case "time", "datetime", "timestamp":
		if f.Fraction < 0 || f.Fraction > 6 {
			return 0, fmt.Errorf("%d digits of a second's fraction are not possible", f.Fraction)
		}
		return int32(f.Fraction), nil
	case "vector":
		return int32(f.Dimension), nil
	case "char", "varchar", "binary", "varbinary":
		if f.Length >= 0 && f.Length <= math.MaxInt32 {
			return int32(f.Length), nil
		}
	}
	return -1, nil
}
