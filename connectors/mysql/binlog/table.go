package binlog

import (
	"bytes"
	"fmt"
)

// WireType is a column's type on the wire.
type WireType uint8

// Types of columns on the wire.
const (
	WireTiny              WireType = 1
	WireShort             WireType = 2
	WireLong              WireType = 3
	WireFloat             WireType = 4
	WireDouble            WireType = 5
	WireTimestampOld      WireType = 7
	WireLongLong          WireType = 8
	WireInt24             WireType = 9
	WireDate              WireType = 10
	WireTimeOld           WireType = 11
	WireDatetimeOld       WireType = 12
	WireYear              WireType = 13
	WireNewDate           WireType = 14
	WireVarchar           WireType = 15
	WireBit               WireType = 16
	WireTimestamp         WireType = 17
	WireDatetime          WireType = 18
	WireTime              WireType = 19
	WireBlobCompressed    WireType = 140 // MariaDB
	WireVarcharCompressed WireType = 141 // MariaDB
	WireVector            WireType = 242 // MySQL; MariaDB's are WireVarchar
	WireJSON              WireType = 245 // MySQL; MariaDB's are WireBlob
	WireDecimal           WireType = 246
	WireEnum              WireType = 247
	WireSet               WireType = 248
	WireBlob              WireType = 252
	WireVarString         WireType = 253
	WireString            WireType = 254
	WireGeometry          WireType = 255
)

// collationBinary is the collation of binary strings.
const collationBinary = 63

// Table is what a table map event tells. It does not change, and one that is mapped again the same way is the same Table, so
// that it can be the key of what is made from it.
type Table struct {
	ID           uint64
	Flags        uint16
	Schema, Name string
	Columns      []WireColumn
	// Named tells that the table map has the columns' names (binlog_row_metadata=FULL), and with them all that WireColumn tells.
	Named bool
	// Signed tells that it has the signedness of numbers, and Charsets the charsets of strings, as with MINIMAL.
	Signed, Charsets bool
	PrimaryKey       []KeyPart // with FULL
	// Err is why the columns cannot be read: rows of the table cannot be decoded, those of others can.
	Err error

	body []byte
}

// WireColumn is a column as the table map has it.
type WireColumn struct {
	Type     WireType
	Meta     uint16 // DECIMAL: precision, scale; strings: bytes; temporal: fraction digits; ENUM, SET, blobs: bytes of number or length
	Nullable bool

	// With MINIMAL metadata.
	Unsigned  bool
	Collation uint32 // of a string, ENUM or SET; 0: not told
	Geometry  uint32 // type of a GEOMETRY, 0 for any

	// With FULL metadata.
	Name       string
	Labels     []string // of an ENUM or SET, in the column's charset
	Invisible  bool
	Dimensions uint32 // of a VECTOR
}

// KeyPart is one column of a primary key.
type KeyPart struct {
	Column int
	Prefix uint64 // characters; 0: the whole value
}

// Collection is the table's name with its schema's.
func (t *Table) Collection() string { return t.Schema + "." + t.Name }

// tables are the maps of a stream by id. Those of earlier statements are kept only to know them again.
type tables struct {
	byID      map[uint64]*mapped
	statement uint64
}

type mapped struct {
	table     *Table
	body      []byte
	mariaDB   bool
	statement uint64 // that mapped it last
}

func (t *tables) forget() { t.byID = nil }

func (t *tables) end() { t.statement++ }

func (t *tables) find(id uint64) *Table {
	if m := t.byID[id]; m != nil && m.statement == t.statement {
		return m.table
	}
	return nil
}

func (t *tables) add(body []byte, mariaDB bool) (*Table, error) {
	if len(body) < 6 {
		return nil, ErrTruncated
	}
	id := littleEndian(body[:6])
	if m := t.byID[id]; m != nil && m.mariaDB == mariaDB && bytes.Equal(m.body, body) {
		m.statement = t.statement
		return m.table, nil
	}
	if t.byID == nil {
		t.byID = make(map[uint64]*mapped)
	}
	if len(t.byID) >= maxTables {
		for id, m := range t.byID {
			if m.statement != t.statement {
				delete(t.byID, id)
			}
		}
		if len(t.byID) >= maxTables {
			return nil, fmt.Errorf("%w: one statement maps more than %d tables", ErrTooLarge, maxTables)
		}
	}
	own := bytes.Clone(body)
	table, err := parseTable(own, mariaDB)
	if err != nil {
		return nil, err
	}
	t.byID[id] = &mapped{table, own, mariaDB, t.statement}
	return table, nil
}

func (d *Decoder) table(e *Event, body []byte) error {
	t, err := d.tables.add(body, d.format.MariaDB)
	if err != nil {
		return err
	}
	e.Kind, e.Table = KindTable, t
	return nil
}

// parseTable reads a table map. Only one whose name cannot be read is an error: others concern no table but theirs.
func parseTable(b []byte, mariaDB bool) (*Table, error) {
	r := reader{b: b}
	t := &Table{ID: r.fixed(6), Flags: r.uint16(), body: b}
	t.Schema = string(r.take(int(r.uint8())))
	r.uint8()
	t.Name = string(r.take(int(r.uint8())))
	r.uint8()
	if r.err != nil {
		return nil, r.err
	}
	if err := t.columns(&r, mariaDB); err != nil {
		t.Columns, t.Named, t.Signed, t.Charsets, t.PrimaryKey = nil, false, false, false, nil
		t.Err = fmt.Errorf("table map of %s: %w", t.Collection(), err)
	}
	return t, nil
}

func (t *Table) columns(r *reader, mariaDB bool) error {
	n := r.packed()
	if r.err == nil && n > uint64(len(r.b)) {
		return ErrTruncated
	}
	types := r.take(int(n))
	meta := reader{b: r.packedBytes()}
	nulls := r.take((int(n) + 7) / 8)
	if r.err != nil {
		return r.err
	}
	t.Columns = make([]WireColumn, n)
	for i := range t.Columns {
		c := &t.Columns[i]
		c.Type, c.Nullable = WireType(types[i]), nulls[i/8]&(1<<(i%8)) != 0
		if err := c.meta(&meta); err != nil {
			return fmt.Errorf("column %d: %w", i+1, err)
		}
	}
	if len(meta.b) > 0 {
		return malformed("%d bytes of column metadata left over", len(meta.b))
	}
	return t.metadata(r, mariaDB)
}

func (c *WireColumn) meta(r *reader) error {
	switch c.Type {
	case WireTiny, WireShort, WireLong, WireTimestampOld, WireLongLong, WireInt24, WireDate, WireTimeOld, WireDatetimeOld, WireYear, WireNewDate:
	case WireFloat, WireDouble, WireTimestamp, WireDatetime, WireTime, WireBlob, WireBlobCompressed, WireVector, WireJSON, WireGeometry:
		c.Meta = uint16(r.uint8())
	case WireVarchar, WireVarcharCompressed, WireVarString, WireBit:
		c.Meta = r.uint16()
	case WireDecimal:
		c.Meta = uint16(r.uint8())<<8 | uint16(r.uint8())
	case WireString, WireEnum, WireSet:
		real, size := r.uint8(), r.uint8()
		c.string(WireType(real), size)
	default:
		return unsupported("type %d", uint8(c.Type))
	}
	if r.err != nil {
		return r.err
	}
	return c.valid()
}

// string takes apart the metadata of a CHAR, whose bits 4 and 5 of the type are the upper ones of the length, inverted, and of an
// ENUM or SET.
func (c *WireColumn) string(typ WireType, size byte) {
	c.Meta = uint16(size)
	switch {
	case typ&0x30 != 0x30:
		c.Meta |= uint16(typ&0x30^0x30) << 4
		c.Type = typ | 0x30
	case typ != 0:
		c.Type = typ
	}
}

func (c *WireColumn) valid() error {
	switch c.Type {
	case WireFloat:
		if c.Meta != 4 {
			return malformed("FLOAT of %d bytes", c.Meta)
		}
	case WireDouble:
		if c.Meta != 8 {
			return malformed("DOUBLE of %d bytes", c.Meta)
		}
	case WireTimestamp, WireDatetime, WireTime:
		if c.Meta > 6 {
			return malformed("%d fraction digits", c.Meta)
		}
	case WireBlob, WireBlobCompressed, WireVector, WireJSON, WireGeometry:
		if c.Meta < 1 || c.Meta > 4 {
			return malformed("lengths of %d bytes", c.Meta)
		}
	case WireDecimal:
		if p, s := c.Meta>>8, c.Meta&0xff; p < 1 || p > 81 || s > p {
			return malformed("DECIMAL(%d,%d)", p, s)
		}
	case WireBit:
		if n := c.bits(); n < 1 || n > 64 {
			return malformed("BIT(%d)", n)
		}
	case WireEnum:
		if c.Meta < 1 || c.Meta > 2 {
			return malformed("ENUM of %d bytes", c.Meta)
		}
	case WireSet:
		if c.Meta < 1 || c.Meta > 8 {
			return malformed("SET of %d bytes", c.Meta)
		}
	case WireTiny, WireShort, WireLong, WireTimestampOld, WireLongLong, WireInt24, WireDate, WireTimeOld, WireDatetimeOld, WireYear,
		WireNewDate, WireVarchar, WireVarcharCompressed, WireVarString, WireString:
	default:
		return malformed("type %d in a string's metadata", c.Type)
	}
	return nil
}

func (c *WireColumn) bits() int { return int(c.Meta>>8)*8 + int(c.Meta&0xff) }

// name is the type as it stands in messages.
func (c *WireColumn) name() string {
	switch c.Type {
	case WireEnum:
		return "ENUM"
	case WireSet:
		return "SET"
	case WireString:
		return "a string"
	}
	return fmt.Sprintf("type %d", c.Type)
}
