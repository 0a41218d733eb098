package rows

import (
	"encoding/binary"
	"fmt"

	"github.com/go-mysql-org/go-mysql/mysql"
)

// Field is a column of a result, as the server describes it before the rows.
type Field struct {
	Schema, Table string // of the table that the column is of; "" of an expression
	Name          string
	Type          byte   // as mysql.MYSQL_TYPE_LONG
	Flags         uint16 // as mysql.UNSIGNED_FLAG
	Collation     uint32 // of a string; 63: binary
	Length        uint32 // bytes, of BIT bits
	Decimals      byte   // digits of a second's fraction
}

// collationBinary is the collation of what is not text.
const collationBinary = 63

// maxFraction is how many digits a second's fraction can have.
const maxFraction = 6

// ParseField reads a column definition packet. Its result holds nothing of b.
func ParseField(b []byte) (Field, error) {
	r := reader{b: b}
	r.bytes() // catalogue
	f := Field{}
	f.Schema = string(r.bytes())
	r.bytes() // alias of the table
	f.Table = string(r.bytes())
	f.Name = string(r.bytes())
	r.bytes() // name in the table
	fixed := r.bytes()
	if r.bad || len(fixed) < 10 {
		return Field{}, malformed("a column definition of %d bytes", len(b))
	}
	f.Collation = uint32(binary.LittleEndian.Uint16(fixed))
	f.Length = binary.LittleEndian.Uint32(fixed[2:])
	f.Type = fixed[6]
	f.Flags = binary.LittleEndian.Uint16(fixed[7:])
	f.Decimals = fixed[9]
	return f, nil
}

// Unsigned says whether a number has no sign.
func (f *Field) Unsigned() bool { return f.Flags&mysql.UNSIGNED_FLAG != 0 }

// Labelled says whether the column is an ENUM or SET, which come as strings.
func (f *Field) Labelled() bool { return f.Flags&(mysql.ENUM_FLAG|mysql.SET_FLAG) != 0 }

// Binary says whether a string is bytes and no text.
func (f *Field) Binary() bool { return f.Collation == collationBinary }

func (f *Field) collection() string { return f.Schema + "." + f.Table }

// reader takes fields from the front of a packet. The first that is cut ends it.
type reader struct {
	b   []byte
	bad bool
}

func (r *reader) bytes() []byte {
	n := r.packed()
	if n > uint64(len(r.b)) {
		r.b, r.bad = nil, true
		return nil
	}
	v := r.b[:n:n]
	r.b = r.b[n:]
	return v
}

// packed reads a length-encoded number.
func (r *reader) packed() uint64 {
	v, size := packed(r.b)
	if size == 0 {
		r.b, r.bad = nil, true
		return 0
	}
	r.b = r.b[size:]
	return v
}

// packed reads a length-encoded number; of size 0 there is none.
func packed(b []byte) (v uint64, size int) {
	if len(b) == 0 {
		return 0, 0
	}
	switch b[0] {
	case 0xfb, 0xff:
		return 0, 0
	case 0xfc:
		size = 3
	case 0xfd:
		size = 4
	case 0xfe:
		size = 9
	default:
		return uint64(b[0]), 1
	}
	if len(b) < size {
		return 0, 0
	}
	for i := size - 1; i > 0; i-- {
		v = v<<8 | uint64(b[i])
	}
	return v, size
}

func malformed(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{mysql.ErrMalformPacket}, args...)...)
}
