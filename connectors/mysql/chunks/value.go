package chunks

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"strconv"

	"github.com/go-mysql-org/go-mysql/mysql"

	"github.com/rowtrail/rowtrail/connectors/mysql/charset"
	"github.com/rowtrail/rowtrail/connectors/mysql/rows"
	"github.com/rowtrail/rowtrail/log/fields"
)

// kind is what a Value is of.
type kind byte

// Kinds, whose numbers are in resume tokens.
const (
	kindInt     kind = 1
	kindUint    kind = 2
	kindDouble  kind = 3
	kindDecimal kind = 4  // text
	kindBytes   kind = 5  // a binary string
	kindText    kind = 6  // bytes in a charset
	kindDate    kind = 7  // text
	kindTime    kind = 8  // text
	kindMoment  kind = 9  // text of a DATETIME or TIMESTAMP
	kindPrinted kind = 10 // text of a type that has no literal of its own
)

// Value is one column of a Cursor, exactly as the server has it.
type Value struct {
	kind    kind
	number  uint64 // of the numbers: two's complement, or bits
	charset string // of kindText
	bytes   string // of the others
}

// Cursor is the key of a row, one Value for each of its columns; nil is before all rows.
type Cursor []Value

// ErrToken tells of a resume token that is damaged or of another version.
var ErrToken = errors.New("malformed resume token")

// valueOf takes a column of a row that the server sent.
func valueOf(c *KeyColumn, f *rows.Field, raw []byte) (Value, error) {
	if raw == nil {
		return Value{}, fmt.Errorf("key column %s: it is NULL", c.Name)
	}
	text := func(k kind) (Value, error) {
		b, err := rows.AppendText(nil, f, raw)
		return Value{kind: k, bytes: string(b)}, err
	}
	switch f.Type {
	case mysql.MYSQL_TYPE_TINY, mysql.MYSQL_TYPE_SHORT, mysql.MYSQL_TYPE_INT24, mysql.MYSQL_TYPE_LONG, mysql.MYSQL_TYPE_LONGLONG, mysql.MYSQL_TYPE_YEAR:
		var v uint64
		for i := len(raw) - 1; i >= 0; i-- {
			v = v<<8 | uint64(raw[i])
		}
		if f.Unsigned() {
			return Value{kind: kindUint, number: v}, nil
		}
		shift := 64 - 8*len(raw)
		return Value{kind: kindInt, number: uint64(int64(v) << shift >> shift)}, nil //nolint:gosec // sign extension
	case mysql.MYSQL_TYPE_BIT:
		var v uint64
		for _, b := range raw {
			v = v<<8 | uint64(b)
		}
		return Value{kind: kindUint, number: v}, nil
	case mysql.MYSQL_TYPE_FLOAT: // every one is a DOUBLE, as which the server compares it
		v := math.Float32frombits(binary.LittleEndian.Uint32(raw))
		return Value{kind: kindDouble, number: math.Float64bits(float64(v))}, nil
	case mysql.MYSQL_TYPE_DOUBLE:
		return Value{kind: kindDouble, number: binary.LittleEndian.Uint64(raw)}, nil
	case mysql.MYSQL_TYPE_DECIMAL, mysql.MYSQL_TYPE_NEWDECIMAL:
		return text(kindDecimal)
	case mysql.MYSQL_TYPE_DATE, mysql.MYSQL_TYPE_NEWDATE:
		return text(kindDate)
	case mysql.MYSQL_TYPE_TIME, mysql.MYSQL_TYPE_TIME2:
		return text(kindTime)
	case mysql.MYSQL_TYPE_DATETIME, mysql.MYSQL_TYPE_TIMESTAMP, mysql.MYSQL_TYPE_DATETIME2, mysql.MYSQL_TYPE_TIMESTAMP2:
		return text(kindMoment)
	}
	if c.printed() {
		return Value{kind: kindPrinted, bytes: string(raw)}, nil
	}
	if f.Binary() {
		return Value{kind: kindBytes, bytes: string(raw)}, nil
	}
	cs, ok := charset.OfCollation(uint64(f.Collation))
	if !ok {
		return Value{}, fmt.Errorf("key column %s: collation %d is not known: give the column one of MySQL 9.7 or MariaDB 11.8", c.Name, f.Collation)
	}
	return Value{kind: kindText, charset: cs, bytes: string(raw)}, nil
}

// literal is the value in SQL. Nothing of a row stands in it but numbers, hexadecimal and what check has passed. Literals and not
// parameters, because a server derives a parameter's type and charset from what it is compared with, and converts: with bytes
// that are no character the result is NULL, no row follows it, and the load would seem to be at its end. In a literal they are an
// error.
func (v Value) literal() string {
	switch v.kind {
	case kindInt:
		return strconv.FormatInt(int64(v.number), 10) //nolint:gosec // two's complement
	case kindUint:
		return strconv.FormatUint(v.number, 10)
	case kindDouble:
		return strconv.FormatFloat(math.Float64frombits(v.number), 'e', -1, 64)
	case kindDecimal:
		return v.bytes
	case kindDate:
		return "CAST('" + v.bytes + "' AS DATE)"
	case kindTime:
		return "CAST('" + v.bytes + "' AS TIME(6))"
	case kindMoment:
		return "CAST('" + v.bytes + "' AS DATETIME(6))"
	case kindPrinted:
		return "'" + v.bytes + "'"
	case kindText: // of the column's charset and weaker than the column, whose collation decides
		return "_" + v.charset + " x'" + hex.EncodeToString([]byte(v.bytes)) + "'"
	}
	return "x'" + hex.EncodeToString([]byte(v.bytes)) + "'"
}

// check looks at what stands in a literal as it is.
func (v Value) check() error {
	within := func(s, chars string) error {
		for i := range len(s) {
			c := s[i]
			if c >= '0' && c <= '9' || c >= 'a' && c <= 'z' {
				continue
			}
			found := false
			for j := range len(chars) {
				found = found || chars[j] == c
			}
			if !found {
				return fmt.Errorf("%w: %q in a value", ErrToken, c)
			}
		}
		return nil
	}
	switch v.kind {
	case kindInt, kindUint, kindDouble, kindBytes:
		return nil
	case kindDecimal, kindDate, kindTime, kindMoment, kindPrinted:
		return within(v.bytes, "-+.: ")
	case kindText:
		return within(v.charset, "")
	}
	return fmt.Errorf("%w: a value of kind %d", ErrToken, v.kind)
}

func appendCursor(dst []byte, c Cursor) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(c)))
	for _, v := range c {
		dst = append(dst, byte(v.kind))
		switch v.kind {
		case kindInt, kindUint, kindDouble:
			dst = binary.BigEndian.AppendUint64(dst, v.number)
		case kindText:
			dst = fields.AppendBytes(fields.AppendBytes(dst, v.charset), v.bytes)
		default:
			dst = fields.AppendBytes(dst, v.bytes)
		}
	}
	return dst
}

func readCursor(r *fields.Reader) (Cursor, error) {
	n := r.Count()
	var c Cursor
	for range n {
		v := Value{kind: kind(r.Byte())}
		switch v.kind {
		case kindInt, kindUint, kindDouble:
			v.number = r.Uint64()
		case kindText:
			v.charset = string(r.Bytes())
			v.bytes = string(r.Bytes())
		default:
			v.bytes = string(r.Bytes())
		}
		if !r.OK() {
			return nil, fmt.Errorf("%w: it is cut", ErrToken)
		}
		if err := v.check(); err != nil {
			return nil, err
		}
		c = append(c, v)
	}
	return c, nil
}

func (c Cursor) equal(o Cursor) bool {
	if len(c) != len(o) {
		return false
	}
	for i := range c {
		if c[i] != o[i] {
			return false
		}
	}
	return true
}
