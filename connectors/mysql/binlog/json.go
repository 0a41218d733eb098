package binlog

import (
	"encoding/base64"
	"encoding/binary"
	"math"
	"strconv"

	"github.com/rowtrail/rowtrail/connectors/event"
)

// Types of values in MySQL's binary JSON.
const (
	jsonSmallObject = 0
	jsonLargeObject = 1
	jsonSmallArray  = 2
	jsonLargeArray  = 3
	jsonLiteral     = 4
	jsonInt16       = 5
	jsonUint16      = 6
	jsonInt32       = 7
	jsonUint32      = 8
	jsonInt64       = 9
	jsonUint64      = 10
	jsonDouble      = 11
	jsonString      = 12
	jsonOpaque      = 15
)

const (
	// maxJSONDepth is the servers' limit, and some levels of which nothing depends.
	maxJSONDepth = 128
	// jsonGrowth bounds a document's text by its binary form: no value takes more, unless values overlap, which no server writes.
	jsonGrowth = 16
)

// AppendJSON writes a document in MySQL's binary form as the server prints it. No bytes are the JSON null, as in the server.
func AppendJSON(dst, doc []byte) ([]byte, error) {
	if len(doc) == 0 {
		return append(dst, "null"...), nil
	}
	w := jsonWriter{dst: dst, limit: len(dst) + jsonGrowth*len(doc) + 64}
	err := w.value(doc[0], doc[1:], 0)
	return w.dst, err
}

type jsonWriter struct {
	dst   []byte
	limit int
}

func (w *jsonWriter) value(typ byte, b []byte, depth int) error {
	switch typ {
	case jsonSmallObject, jsonLargeObject, jsonSmallArray, jsonLargeArray:
		return w.container(typ, b, depth)
	case jsonLiteral:
		if len(b) < 1 {
			return ErrTruncated
		}
		return w.literal(b[0])
	case jsonInt16, jsonUint16, jsonInt32, jsonUint32, jsonInt64, jsonUint64, jsonDouble:
		return w.number(typ, b)
	case jsonString:
		s, err := jsonData(b)
		if err != nil {
			return err
		}
		w.dst = appendJSONString(w.dst, s)
		return nil
	case jsonOpaque:
		if len(b) < 1 {
			return ErrTruncated
		}
		s, err := jsonData(b[1:])
		if err != nil {
			return err
		}
		return w.opaque(b[0], s)
	}
	return malformed("JSON value of type %d", typ)
}

func (w *jsonWriter) literal(v byte) error {
	switch v {
	case 0:
		w.dst = append(w.dst, "null"...)
	case 1:
		w.dst = append(w.dst, "true"...)
	case 2:
		w.dst = append(w.dst, "false"...)
	default:
		return malformed("JSON literal %d", v)
	}
	return nil
}

func (w *jsonWriter) number(typ byte, b []byte) error {
	size := 8
	switch typ {
	case jsonInt16, jsonUint16:
		size = 2
	case jsonInt32, jsonUint32:
		size = 4
	}
	if len(b) < size {
		return ErrTruncated
	}
	v := littleEndian(b[:size])
	switch typ {
	case jsonInt16, jsonInt32, jsonInt64:
		shift := 64 - 8*size
		w.dst = strconv.AppendInt(w.dst, int64(v)<<shift>>shift, 10)
	case jsonDouble:
		w.dst = event.AppendMySQLJSONDouble(w.dst, math.Float64frombits(v))
	default:
		w.dst = appendUint(w.dst, v)
	}
	return nil
}

// container writes an object or array: count, size, then for an object an entry for each key, then one for each value, which holds
// the value itself if it is small enough. Keys are stored in the order in which the server prints them.
func (w *jsonWriter) container(typ byte, b []byte, depth int) error {
	if depth > maxJSONDepth {
		return malformed("JSON of more than %d levels", maxJSONDepth)
	}
	width := 2
	if typ == jsonLargeObject || typ == jsonLargeArray {
		width = 4
	}
	if len(b) < 2*width {
		return ErrTruncated
	}
	object := typ <= jsonLargeObject
	count, size := littleEndian(b[:width]), littleEndian(b[width:2*width])
	if size > uint64(len(b)) {
		return ErrTruncated
	}
	b = b[:size]
	entry, keyEntry := 1+width, 0
	if object {
		keyEntry = width + 2
	}
	values := uint64(2*width) + count*uint64(keyEntry)
	if values+count*uint64(entry) > size {
		return ErrTruncated
	}
	open, end := byte('['), byte(']')
	if object {
		open, end = '{', '}'
	}
	w.dst = append(w.dst, open)
	for i := range count {
		if i > 0 {
			w.dst = append(w.dst, ", "...)
		}
		if object {
			k := b[uint64(2*width)+i*uint64(keyEntry):]
			at, n := littleEndian(k[:width]), uint64(binary.LittleEndian.Uint16(k[width:]))
			if at+n > size {
				return ErrTruncated
			}
			w.dst = append(appendJSONString(w.dst, b[at:at+n]), ": "...)
		}
		v := b[values+i*uint64(entry):]
		kind, data := v[0], v[1:entry]
		inlined := kind == jsonLiteral || kind == jsonInt16 || kind == jsonUint16 || width == 4 && (kind == jsonInt32 || kind == jsonUint32)
		if !inlined {
			at := littleEndian(data)
			if at > size {
				return ErrTruncated
			}
			data = b[at:]
		}
		if err := w.value(kind, data, depth+1); err != nil {
			return err
		}
		if len(w.dst) > w.limit {
			return malformed("JSON values that overlap")
		}
	}
	w.dst = append(w.dst, end)
	return nil
}

// jsonData cuts off data after its length of one to five bytes, seven bits in each, lowest first.
func jsonData(b []byte) ([]byte, error) {
	var n uint64
	for i := range min(len(b), 5) {
		n |= uint64(b[i]&0x7f) << (7 * i)
		if b[i]&0x80 == 0 {
			b = b[i+1:]
			if n > uint64(len(b)) {
				return nil, ErrTruncated
			}
			return b[:n], nil
		}
	}
	return nil, ErrTruncated
}

// opaque writes a value that JSON itself does not have.
func (w *jsonWriter) opaque(typ byte, b []byte) error {
	switch WireType(typ) {
	case WireDecimal:
		if len(b) < 2 || b[0] < 1 || b[0] > 81 || b[1] > b[0] {
			return malformed("JSON decimal")
		}
		dst, err := appendDecimal(w.dst, b[2:], int(b[0]), int(b[1]))
		w.dst = dst
		return err
	case WireDate, WireDatetimeOld, WireTimestampOld, WireTimeOld:
		if len(b) != 8 {
			return malformed("JSON time of %d bytes", len(b))
		}
		v := int64(binary.LittleEndian.Uint64(b))
		dst := append(w.dst, '"')
		if v < 0 {
			dst, v = append(dst, '-'), -v
		}
		micro, whole := int(v&(1<<24-1))%1000000, uint64(v)>>24
		switch WireType(typ) {
		case WireDate:
			ymd := int(whole >> 17)
			dst = AppendDate(dst, ymd>>5/13, ymd>>5%13, ymd&31)
		case WireTimeOld:
			t := int(whole)
			dst = AppendClock(dst, t>>12&0x3ff, t>>6&63, t&63, micro, 6)
		default:
			dst = appendPacked(dst, whole, micro, 6)
		}
		w.dst = append(dst, '"')
		return nil
	}
	w.dst = appendUint(append(w.dst, `"base64:type`...), uint64(typ))
	w.dst = append(w.dst, ':')
	for line := 0; ; line += base64Line {
		n := min(len(b)-line, base64Line)
		w.dst = base64.StdEncoding.AppendEncode(w.dst, b[line:line+n])
		if line+n >= len(b) {
			break
		}
		w.dst = append(w.dst, '\\', 'n')
	}
	w.dst = append(w.dst, '"')
	return nil
}

// base64Line is how many bytes the server writes into a line of base64.
const base64Line = 57

// appendJSONString quotes a string as the server does: UTF-8 stays as it is.
func appendJSONString(dst, s []byte) []byte {
	const digits = "0123456789abcdef"
	dst = append(dst, '"')
	from := 0
	for i, c := range s {
		if c >= ' ' && c != '"' && c != '\\' {
			continue
		}
		dst = append(dst, s[from:i]...)
		from = i + 1
		switch c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\b':
			dst = append(dst, '\\', 'b')
		case '\f':
			dst = append(dst, '\\', 'f')
		case '\n':
			dst = append(dst, '\\', 'n')
		case '\r':
			dst = append(dst, '\\', 'r')
		case '\t':
			dst = append(dst, '\\', 't')
		default:
			dst = append(dst, '\\', 'u', '0', '0', digits[c>>4], digits[c&15])
		}
	}
	return append(append(dst, s[from:]...), '"')
}
