package rows

import (
	"fmt"

	"github.com/go-mysql-org/go-mysql/mysql"

	"github.com/rowtrail/rowtrail/connectors/mysql/binlog"
)

// CharsetOf gives the decoder of a collation, nil where its bytes are UTF-8 already. The stream must use the same.
type CharsetOf func(collation uint32) (binlog.Charset, error)

// op is how a value's bytes become text.
type op uint8

const (
	opInt op = iota
	opUint
	opFloat
	opDouble
	opYear
	opBit
	opDate
	opDatetime
	opTime
	opZerofill // a DECIMAL with zeros before it, which no other type has in the binary protocol
	opUTF8     // the bytes are the text
	opChar     // the same, without trailing spaces
	opText     // in another charset
	opTextC    // the same, without trailing spaces
	opHex
)

// column is a Field made ready for decoding.
type column struct {
	op      op
	size    int // of a value; 0: its length stands before it
	n       int // bits, fraction digits, or bytes that a BINARY is padded to
	charset binlog.Charset
}

// layout is how to decode the rows of one result.
type layout struct {
	fields  []Field
	columns []column
}

func newLayout(fields []Field, charset CharsetOf) (*layout, error) {
	l := &layout{fields: fields, columns: make([]column, len(fields))}
	for i := range fields {
		c, err := bind(&fields[i], charset)
		if err != nil {
			return nil, l.columnError(i, err)
		}
		l.columns[i] = c
	}
	return l, nil
}

func (l *layout) columnError(i int, err error) error {
	return &binlog.ColumnError{Table: l.fields[i].collection(), Column: i + 1, Name: l.fields[i].Name, Err: err}
}

func bind(f *Field, charset CharsetOf) (column, error) {
	integer := func(size int) (column, error) {
		if f.Unsigned() {
			return column{op: opUint, size: size}, nil
		}
		return column{op: opInt, size: size}, nil
	}
	temporal := func(op op) (column, error) {
		if f.Decimals > maxFraction {
			return column{}, malformed("%d fraction digits", f.Decimals)
		}
		return column{op: op, n: int(f.Decimals)}, nil
	}
	switch f.Type {
	case mysql.MYSQL_TYPE_TINY:
		return integer(1)
	case mysql.MYSQL_TYPE_SHORT:
		return integer(2)
	case mysql.MYSQL_TYPE_LONG, mysql.MYSQL_TYPE_INT24:
		return integer(4)
	case mysql.MYSQL_TYPE_LONGLONG:
		return integer(8)
	case mysql.MYSQL_TYPE_YEAR:
		return column{op: opYear, size: 2}, nil
	case mysql.MYSQL_TYPE_FLOAT:
		return column{op: opFloat, size: 4}, nil
	case mysql.MYSQL_TYPE_DOUBLE:
		return column{op: opDouble, size: 8}, nil
	case mysql.MYSQL_TYPE_DATE, mysql.MYSQL_TYPE_NEWDATE:
		return column{op: opDate}, nil
	case mysql.MYSQL_TYPE_DATETIME, mysql.MYSQL_TYPE_TIMESTAMP, mysql.MYSQL_TYPE_DATETIME2, mysql.MYSQL_TYPE_TIMESTAMP2:
		return temporal(opDatetime)
	case mysql.MYSQL_TYPE_TIME, mysql.MYSQL_TYPE_TIME2:
		return temporal(opTime)
	case mysql.MYSQL_TYPE_BIT:
		if f.Length < 1 || f.Length > 64 {
			return column{}, malformed("BIT(%d)", f.Length)
		}
		return column{op: opBit, n: int(f.Length)}, nil
	case mysql.MYSQL_TYPE_DECIMAL, mysql.MYSQL_TYPE_NEWDECIMAL:
		if f.Flags&mysql.ZEROFILL_FLAG != 0 {
			return column{op: opZerofill}, nil
		}
		return column{op: opUTF8}, nil
	case mysql.MYSQL_TYPE_JSON:
		return column{op: opUTF8}, nil
	case mysql.MYSQL_TYPE_GEOMETRY, mysql.MYSQL_TYPE_VECTOR:
		return column{op: opHex}, nil
	case mysql.MYSQL_TYPE_STRING, mysql.MYSQL_TYPE_VAR_STRING, mysql.MYSQL_TYPE_VARCHAR, mysql.MYSQL_TYPE_ENUM, mysql.MYSQL_TYPE_SET,
		mysql.MYSQL_TYPE_TINY_BLOB, mysql.MYSQL_TYPE_BLOB, mysql.MYSQL_TYPE_MEDIUM_BLOB, mysql.MYSQL_TYPE_LONG_BLOB:
		return text(f, charset)
	}
	return column{}, fmt.Errorf("%w: type %d in a result", binlog.ErrUnsupported, f.Type)
}

// text binds a string. CHAR comes without the spaces at its end from a session with the Settings; taking them off again costs
// nothing, and is what the stream does.
func text(f *Field, charset CharsetOf) (column, error) {
	fixed := f.Type == mysql.MYSQL_TYPE_STRING && !f.Labelled()
	if f.Binary() {
		switch {
		case f.Labelled():
			return column{op: opUTF8}, nil // labels are text also where their charset is binary
		case fixed:
			return column{op: opHex, n: int(f.Length)}, nil
		}
		return column{op: opHex}, nil
	}
	cs, err := charset(f.Collation)
	if err != nil {
		return column{}, err
	}
	c := column{op: opUTF8, charset: cs}
	switch {
	case cs != nil && fixed:
		c.op = opTextC
	case cs != nil:
		c.op = opText
	case fixed:
		c.op = opChar
	}
	return c, nil
}
