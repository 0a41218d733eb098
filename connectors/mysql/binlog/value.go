package binlog

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"math"
	"net/netip"
	"strconv"
)

// raw cuts a value's bytes off a row; size is what they take with their length, negative if the row ends before.
func (c *binding) raw(b []byte) (raw []byte, size int) {
	var n int
	switch c.prefix {
	case 0:
		if len(b) < c.size {
			return nil, -1
		}
		return b[:c.size:c.size], c.size
	case 1:
		if len(b) < 1 {
			return nil, -1
		}
		n = int(b[0])
	case 2:
		if len(b) < 2 {
			return nil, -1
		}
		n = int(binary.LittleEndian.Uint16(b))
	default:
		if len(b) < c.prefix {
			return nil, -1
		}
		n = int(littleEndian(b[:c.prefix]))
	}
	end := c.prefix + n
	if len(b) < end {
		return nil, -1
	}
	return b[c.prefix:end:end], end
}

// append writes a value's text. raw has the size that the binding says.
func (c *binding) append(dst, raw []byte) ([]byte, error) {
	switch c.op {
	case opInt:
		shift := 64 - 8*c.size
		return strconv.AppendInt(dst, int64(littleEndian(raw))<<shift>>shift, 10), nil
	case opUint:
		return strconv.AppendUint(dst, littleEndian(raw), 10), nil
	case opFloat:
		return AppendFloat(dst, float64(math.Float32frombits(binary.LittleEndian.Uint32(raw))), 32), nil
	case opDouble:
		return AppendFloat(dst, math.Float64frombits(binary.LittleEndian.Uint64(raw)), 64), nil
	case opDecimal:
		return appendDecimal(dst, raw, c.a, c.b)
	case opBit:
		v := bigEndian(raw)
		for i := c.a - 1; i >= 0; i-- {
			dst = append(dst, '0'+byte(v>>i&1))
		}
		return dst, nil
	case opYear:
		if raw[0] == 0 {
			return append(dst, "0000"...), nil
		}
		return appendUint(dst, 1900+uint64(raw[0])), nil
	case opDate:
		v := int(littleEndian(raw))
		return AppendDate(dst, v>>9, v>>5&15, v&31), nil
	case opTime, opDatetime, opTimestamp, opTimeOld, opDatetimeOld, opTimestampOld, opTimeHires, opDatetimeHires, opTimestampHires:
		return c.temporal(dst, raw)
	case opEnum:
		n := littleEndian(raw)
		if n > uint64(len(c.labels)) {
			return dst, malformed("label %d of %d", n, len(c.labels))
		}
		if n > 0 {
			dst = append(dst, c.labels[n-1]...)
		}
		return dst, nil
	case opSet:
		return c.set(dst, littleEndian(raw))
	case opText, opTextC:
		start := len(dst)
		dst, err := c.charset.AppendUTF8(dst, raw)
		if c.op == opTextC && err == nil {
			dst = dst[:start+len(trimSpaces(dst[start:]))]
		}
		return dst, err
	case opChar, opUTF8:
		return append(dst, raw...), nil
	case opHex:
		dst = hex.AppendEncode(append(dst, '\\', 'x'), raw)
		for range c.size - len(raw) { // the server does not log a BINARY's zero bytes at the end
			dst = append(dst, '0', '0')
		}
		return dst, nil
	case opJSON:
		return AppendJSON(dst, raw)
	case opUUID, opInet4, opInet6:
		return c.fixed(dst, raw)
	}
	return dst, unsupported("form %d", c.op)
}

func (c *binding) set(dst []byte, v uint64) ([]byte, error) {
	if n := len(c.labels); n < 64 && v>>n != 0 {
		return dst, malformed("SET value %#x of %d labels", v, n)
	}
	comma := false
	for i := 0; v != 0; i++ {
		if v&1 != 0 {
			if comma {
				dst = append(dst, ',')
			}
			dst = append(dst, c.labels[i]...)
			comma = true
		}
		v >>= 1
	}
	return dst, nil
}

// fixed writes MariaDB's types of fixed binary length, whose zero bytes at the end are not logged.
func (c *binding) fixed(dst, raw []byte) ([]byte, error) {
	var b [16]byte
	if len(raw) > c.size {
		return dst, malformed("%d bytes, at most %d", len(raw), c.size)
	}
	copy(b[:], raw)
	switch c.op {
	case opUUID:
		return appendUUID(dst, b[:]), nil
	case opInet4:
		return netip.AddrFrom4([4]byte(b[:4])).AppendTo(dst), nil
	}
	return appendInet6(dst, b), nil
}

// appendInet6 writes an address as MariaDB does: the longest run of zero groups, also of one group, is ::, and addresses that hold
// one of IPv4 have it in dots.
func appendInet6(dst []byte, b [16]byte) []byte {
	var groups [8]uint16
	for i := range groups {
		groups[i] = binary.BigEndian.Uint16(b[2*i:])
	}
	from, to := 0, 0 // of the longest run
	for i := 0; i < len(groups); i++ {
		j := i
		for j < len(groups) && groups[j] == 0 {
			j++
		}
		if j-i > to-from {
			from, to = i, j
		}
		i = max(i, j-1)
	}
	end := len(groups)
	if from == 0 && (to == 6 || to == 5 && groups[5] == 0xffff) {
		end = 6
	}
	for i := 0; i < end; i++ {
		if i == from && to > from {
			dst = append(dst, ':', ':')
			i = to - 1
			continue
		}
		if i > 0 && (i != to || from == to) {
			dst = append(dst, ':')
		}
		dst = strconv.AppendUint(dst, uint64(groups[i]), 16)
	}
	if end < len(groups) {
		if to < end {
			dst = append(dst, ':')
		}
		dst = netip.AddrFrom4([4]byte(b[12:])).AppendTo(dst)
	}
	return dst
}

func trimSpaces(b []byte) []byte {
	n := len(b)
	for n > 0 && b[n-1] == ' ' {
		n--
	}
	return b[:n:n]
}

func appendUint(dst []byte, v uint64) []byte { return strconv.AppendUint(dst, v, 10) }

// AppendFloat writes the shortest text that reads back to the same bits, with an exponent only where the first digit would stand
// more than six places right of the point or more than 21 left.
func AppendFloat(dst []byte, f float64, size int) []byte {
	a := math.Abs(f)
	if a == 0 || a >= 1e-5 && a < 1e20 {
		return strconv.AppendFloat(dst, f, 'f', -1, size)
	}
	start := len(dst)
	dst = strconv.AppendFloat(dst, f, 'e', -1, size)
	at := bytes.IndexByte(dst[start:], 'e') + start
	if at < start { // not a number, which the servers do not store
		return dst
	}
	exp := 0
	for _, c := range dst[at+2:] {
		exp = 10*exp + int(c-'0')
	}
	if negative := dst[at+1] == '-'; negative && exp <= 6 || !negative && exp < 21 { // rounded to fewer digits it is in bounds
		return strconv.AppendFloat(dst[:start], f, 'f', -1, size)
	}
	if dst[at+2] == '0' { // e-07 is e-7
		dst = append(dst[:at+2], dst[at+3:]...)
	}
	return dst
}
