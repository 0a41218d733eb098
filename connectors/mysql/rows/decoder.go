package rows

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"strconv"

	"github.com/rowtrail/rowtrail/connectors/event"
	"github.com/rowtrail/rowtrail/connectors/mysql/binlog"
)

// maxKept is the largest buffer that is kept for the next row.
const maxKept = 4 << 20

// decoder decodes rows one after the other, in memory that it uses again.
type decoder struct {
	arena []byte
	raw   [][]byte // of the last row; nil: NULL
}

// reset makes ready for the rows of a layout.
func (d *decoder) reset(l *layout) {
	if cap(d.raw) < len(l.columns) {
		d.raw = make([][]byte, len(l.columns))
	}
	d.raw = d.raw[:len(l.columns)]
	clear(d.raw)
}

// decode decodes a row packet. The first columns go to row, which may have fewer than the layout. Texts are valid until the next
// call, or until the packet changes.
func (d *decoder) decode(l *layout, packet []byte, row event.Row) error {
	if len(row) > len(l.columns) {
		return fmt.Errorf("rows of %d columns, the result has %d", len(row), len(l.columns))
	}
	const offset = 2 // of the first column's bit among the nulls
	size := (len(l.columns) + 7 + offset) / 8
	if len(packet) < 1+size || packet[0] != 0 {
		return malformed("a row of %d bytes", len(packet))
	}
	nulls, b := packet[1:1+size], packet[1+size:]
	dst := d.arena[:0]
	if cap(dst) > maxKept {
		dst = nil
	}
	for i := range l.columns {
		bit := i + offset
		if nulls[bit>>3]&(1<<(bit&7)) != 0 {
			d.raw[i] = nil
			if i < len(row) {
				row[i] = event.Datum{State: event.Null}
			}
			continue
		}
		c := &l.columns[i]
		raw, n := c.cut(b)
		if n < 0 {
			return l.columnError(i, malformed("bytes of the row are missing"))
		}
		b = b[n:]
		d.raw[i] = raw
		if i >= len(row) {
			continue
		}
		switch c.op {
		case opUTF8:
			row[i] = event.Datum{State: event.Text, Text: raw}
		case opChar:
			row[i] = event.Datum{State: event.Text, Text: trimSpaces(raw)}
		case opZerofill:
			row[i] = event.Datum{State: event.Text, Text: trimZeros(raw)}
		default:
			start := len(dst)
			var err error
			if dst, err = c.append(dst, raw); err != nil {
				return l.columnError(i, err)
			}
			row[i] = event.Datum{State: event.Text, Text: dst[start:len(dst):len(dst)]}
		}
	}
	d.arena = dst
	if len(b) != 0 {
		return malformed("%d bytes of a row left over", len(b))
	}
	return nil
}

// cut takes a value's bytes off a row; n is what they take with their length, negative if the row ends before.
func (c *column) cut(b []byte) (raw []byte, n int) {
	if c.size > 0 {
		if len(b) < c.size {
			return nil, -1
		}
		return b[:c.size:c.size], c.size
	}
	length, size := packed(b)
	if size == 0 || length > uint64(len(b)-size) {
		return nil, -1
	}
	end := size + int(length) //nolint:gosec // at most the packet's length
	return b[size:end:end], end
}

// append writes a value's text.
func (c *column) append(dst, raw []byte) ([]byte, error) {
	switch c.op {
	case opInt:
		shift := 64 - 8*len(raw)
		return strconv.AppendInt(dst, int64(littleEndian(raw))<<shift>>shift, 10), nil //nolint:gosec // sign extension
	case opUint:
		return strconv.AppendUint(dst, littleEndian(raw), 10), nil
	case opFloat:
		return binlog.AppendFloat(dst, float64(math.Float32frombits(binary.LittleEndian.Uint32(raw))), 32), nil
	case opDouble:
		return binlog.AppendFloat(dst, math.Float64frombits(binary.LittleEndian.Uint64(raw)), 64), nil
	case opYear:
		if v := littleEndian(raw); v != 0 {
			return strconv.AppendUint(dst, v, 10), nil
		}
		return append(dst, "0000"...), nil
	case opBit:
		return c.bits(dst, raw)
	case opDate:
		y, m, d, _, err := date(raw)
		return binlog.AppendDate(dst, y, m, d), err
	case opDatetime:
		return c.datetime(dst, raw)
	case opTime:
		return c.time(dst, raw)
	case opText, opTextC:
		start := len(dst)
		dst, err := c.charset.AppendUTF8(dst, raw)
		if c.op == opTextC && err == nil {
			dst = dst[:start+len(trimSpaces(dst[start:]))]
		}
		return dst, err
	case opHex:
		dst = hex.AppendEncode(append(dst, '\\', 'x'), raw)
		for range c.n - len(raw) {
			dst = append(dst, '0', '0')
		}
		return dst, nil
	}
	if c.op == opZerofill {
		raw = trimZeros(raw)
	}
	return append(dst, raw...), nil
}

func (c *column) bits(dst, raw []byte) ([]byte, error) {
	if len(raw) > 8 {
		return dst, malformed("BIT(%d) of %d bytes", c.n, len(raw))
	}
	var v uint64
	for _, b := range raw {
		v = v<<8 | uint64(b)
	}
	for i := c.n - 1; i >= 0; i-- {
		dst = append(dst, '0'+byte(v>>i&1))
	}
	return dst, nil
}

// date reads the parts of a date, zero where the server leaves them out, and gives what follows them.
func date(raw []byte) (year, month, day int, rest []byte, err error) {
	switch len(raw) {
	case 0:
		return 0, 0, 0, nil, nil
	case 4, 7, 11:
		return int(binary.LittleEndian.Uint16(raw)), int(raw[2]), int(raw[3]), raw[4:], nil
	}
	return 0, 0, 0, nil, malformed("a date of %d bytes", len(raw))
}

func (c *column) datetime(dst, raw []byte) ([]byte, error) {
	year, month, day, rest, err := date(raw)
	if err != nil {
		return dst, err
	}
	var hour, minute, second, micro int
	if len(rest) >= 3 {
		hour, minute, second = int(rest[0]), int(rest[1]), int(rest[2])
	}
	if len(rest) == 7 {
		if micro, err = micros(rest[3:]); err != nil {
			return dst, err
		}
	}
	dst = append(binlog.AppendDate(dst, year, month, day), ' ')
	return binlog.AppendClock(dst, hour, minute, second, micro, c.n), nil
}

// time writes a TIME, which comes as days and a time of the day.
func (c *column) time(dst, raw []byte) ([]byte, error) {
	var hour, minute, second, micro int
	var err error
	switch len(raw) {
	case 0:
	case 8, 12:
		days := binary.LittleEndian.Uint32(raw[1:])
		if days > 34 { // 838 hours
			return dst, malformed("TIME of %d days", days)
		}
		hour, minute, second = int(days)*24+int(raw[5]), int(raw[6]), int(raw[7])
		if len(raw) == 12 {
			if micro, err = micros(raw[8:]); err != nil {
				return dst, err
			}
		}
		if raw[0] != 0 {
			dst = append(dst, '-')
		}
	default:
		return dst, malformed("a TIME of %d bytes", len(raw))
	}
	return binlog.AppendClock(dst, hour, minute, second, micro, c.n), nil
}

func micros(b []byte) (int, error) {
	v := binary.LittleEndian.Uint32(b)
	if v > 999999 {
		return 0, malformed("%d microseconds", v)
	}
	return int(v), nil
}

func littleEndian(b []byte) uint64 {
	var v uint64
	for i := len(b) - 1; i >= 0; i-- {
		v = v<<8 | uint64(b[i])
	}
	return v
}

func trimSpaces(b []byte) []byte {
	b = bytes.TrimRight(b, " ")
	return b[:len(b):len(b)]
}

// AppendText writes the text of one value that a Session gave raw, of a number or time.
func AppendText(dst []byte, f *Field, raw []byte) ([]byte, error) {
	c, err := bind(f, func(uint32) (binlog.Charset, error) { return nil, nil })
	if err != nil {
		return dst, err
	}
	return c.append(dst, raw)
}

// trimZeros takes off the zeros of ZEROFILL, which is unsigned.
func trimZeros(b []byte) []byte {
	for len(b) > 1 && b[0] == '0' && b[1] != '.' {
		b = b[1:]
	}
	return b
}
