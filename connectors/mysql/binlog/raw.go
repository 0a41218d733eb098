package binlog

import "encoding/hex"

// AppendRaw appends an event of rows as it came, for Replay. One that MariaDB compressed stays so.
func (e *Event) AppendRaw(dst []byte) []byte {
	return append(append(dst, byte(e.Header.Type)), e.body...)
}

// AppendRaw appends a table map as it came, for Replay.
func (t *Table) AppendRaw(dst []byte) []byte {
	return append(append(dst, byte(typeTableMap)), t.body...)
}

// Replay decodes rows once more, or a table map, which has to come before the first rows of its table. The Event is as those of a payload:
// it has no place of its own. A table that is mapped as one of the dump is the same Table.
func (d *Decoder) Replay(raw []byte) (*Event, error) {
	if len(raw) == 0 {
		return nil, &EventError{0, d.end, ErrTruncated}
	}
	h := Header{Type: Type(raw[0])}
	if !h.Type.rows() {
		return nil, &EventError{h.Type, d.end, malformed("it holds no rows")}
	}
	d.replaying = true
	defer func() { d.replaying = false }()
	return d.decode(h, raw[1:], true)
}

// appendXID writes the name of an XA transaction as the servers do: X'6162',X'63',1.
func appendXID(dst []byte, format uint32, global, branch []byte) []byte {
	dst = append(hex.AppendEncode(append(dst, "X'"...), global), "',X'"...)
	dst = append(hex.AppendEncode(dst, branch), "',"...)
	return appendUint(dst, uint64(format))
}
