package event

import (
	"encoding/binary"
	"encoding/hex"
	"math"
	"strconv"
)

// geometryCodec carries a geometry, \x and the hexadecimal digits of its SRID and well-known binary, as Debezium's struct, whose SRID is
// null for 0. A point has its coordinates too; they are read from the binary only.
type geometryCodec struct {
	point bool
	raw   []byte
}

const (
	sridBytes     = 4
	wkbPointBytes = 1 + 4 + 8 + 8
	wkbPoint      = 1
)

func (c *geometryCodec) encode(dst, text []byte) ([]byte, error) {
	var ok bool
	if c.raw, ok = appendUnhexed(c.raw[:0], text); !ok || len(c.raw) < sridBytes {
		return dst, errMySQLText
	}
	srid, wkb := binary.LittleEndian.Uint32(c.raw), c.raw[sridBytes:]
	dst = append(dst, '{')
	if c.point {
		x, y, ok := pointCoordinates(wkb)
		if !ok {
			return dst, errPoint
		}
		dst = appendFloat(append(dst, `"x":`...), x, 64)
		dst = appendFloat(append(dst, `,"y":`...), y, 64)
		dst = append(dst, ',')
	}
	dst = appendBase64(append(dst, `"wkb":`...), wkb)
	dst = append(dst, `,"srid":`...)
	if srid == 0 {
		return append(dst, "null}"...), nil
	}
	return append(strconv.AppendInt(dst, int64(int32(srid)), 10), '}'), nil
}

func pointCoordinates(wkb []byte) (x, y float64, ok bool) {
	if len(wkb) != wkbPointBytes {
		return 0, 0, false
	}
	var order binary.ByteOrder = binary.BigEndian
	if wkb[0] != 0 {
		order = binary.LittleEndian
	}
	x, y = math.Float64frombits(order.Uint64(wkb[5:])), math.Float64frombits(order.Uint64(wkb[13:]))
	return x, y, order.Uint32(wkb[1:]) == wkbPoint
}

func (c *geometryCodec) decode(s *scanner) ([]byte, error) {
	var wkb []byte
	var srid int64
	err := s.members(func(name []byte) (err error) {
		switch {
		case string(name) == "wkb":
			wkb, err = s.str()
		case string(name) == "srid":
			if !s.literal("null") {
				srid, err = s.integer()
			}
		case c.point && (string(name) == "x" || string(name) == "y"):
			err = s.skip()
		default:
			err = errJSONValue
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	if wkb == nil || srid < math.MinInt32 || srid > math.MaxInt32 {
		return nil, errJSONValue
	}
	raw, err := s.base64(wkb, stdBase64)
	if err != nil {
		return nil, err
	}
	if _, _, ok := pointCoordinates(raw); c.point && !ok {
		return nil, errJSONValue
	}
	start := len(s.arena)
	s.arena = append(s.arena, '\\', 'x')
	c.raw = binary.LittleEndian.AppendUint32(c.raw[:0], uint32(int32(srid)))
	s.arena = hex.AppendEncode(s.arena, c.raw)
	s.arena = hex.AppendEncode(s.arena, raw)
	return s.since(start), nil
}

func (*geometryCodec) unavailable(placeholder) []byte { return nil }

func (c *geometryCodec) connect() connectType {
	if !c.point {
		return connectType{typ: "struct", name: "io.debezium.data.geometry.Geometry", version: 1, doc: "Geometry", nullable: true,
			fields: field("wkb", "bytes", false) + "," + field("srid", "int32", true)}
	}
	return connectType{typ: "struct", name: "io.debezium.data.geometry.Point", version: 1, doc: "Geometry (POINT)",
		fields: field("x", "double", false) + "," + field("y", "double", false) + "," +
			field("wkb", "bytes", true) + "," + field("srid", "int32", true)}
}

// vectorCodec carries VECTOR, \x and the hexadecimal digits of little-endian floats, as an array of numbers.
type vectorCodec struct{ raw []byte }

const (
	floatBytes = 4
	// onlyNaN is the NaN that "NaN" reads back as; others have no text.
	onlyNaN = 0x7fc00000
)

func (c *vectorCodec) encode(dst, text []byte) ([]byte, error) {
	var ok bool
	if c.raw, ok = appendUnhexed(c.raw[:0], text); !ok || len(c.raw)%floatBytes != 0 {
		return dst, errMySQLText
	}
	dst = append(dst, '[')
	for i := 0; i < len(c.raw); i += floatBytes {
		if i > 0 {
			dst = append(dst, ',')
		}
		bits := binary.LittleEndian.Uint32(c.raw[i:])
		v := math.Float32frombits(bits)
		if v != v && bits != onlyNaN {
			return dst, errVectorNaN
		}
		dst = appendFloat(dst, float64(v), 32)
	}
	return append(dst, ']'), nil
}

func (c *vectorCodec) decode(s *scanner) ([]byte, error) {
	c.raw = c.raw[:0]
	err := s.elements(func() error {
		b, err := numberCodec{float: true}.decode(s)
		if err != nil {
			return err
		}
		bits := uint32(onlyNaN)
		if string(b) != "NaN" {
			v, err := strconv.ParseFloat(string(b), 32)
			if err != nil {
				return errJSONValue
			}
			bits = math.Float32bits(float32(v))
		}
		c.raw = binary.LittleEndian.AppendUint32(c.raw, bits)
		return nil
	})
	if err != nil {
		return nil, err
	}
	start := len(s.arena)
	s.arena = append(s.arena, '\\', 'x')
	s.arena = hex.AppendEncode(s.arena, c.raw)
	return s.since(start), nil
}

func (*vectorCodec) unavailable(placeholder) []byte { return nil }

func (*vectorCodec) connect() connectType {
	return connectType{typ: "array", name: "io.debezium.data.FloatVector", version: 1, fields: `{"type":"float","optional":false}`}
}

// appendUnhexed reads \x and lower-case hexadecimal digits.
func appendUnhexed(dst, text []byte) ([]byte, bool) {
	if len(text) < 2 || text[0] != '\\' || text[1] != 'x' || len(text)%2 != 0 {
		return dst, false
	}
	for i := 2; i < len(text); i += 2 {
		high, low := text[i], text[i+1]
		if unhex[high] == badDigit || unhex[low] == badDigit || (high >= 'A' && high <= 'F') || (low >= 'A' && low <= 'F') {
			return dst, false
		}
		dst = append(dst, unhex[high]<<4|unhex[low])
	}
	return dst, true
}

// appendFloat writes the shortest number that reads back as v, in ECMAScript's form; what JSON has no number for is a string.
func appendFloat(dst []byte, v float64, bits int) []byte {
	switch {
	case v != v:
		return append(dst, `"NaN"`...)
	case math.IsInf(v, 1):
		return append(dst, `"Infinity"`...)
	case math.IsInf(v, -1):
		return append(dst, `"-Infinity"`...)
	}
	if abs := math.Abs(v); abs == 0 || (abs >= 1e-6 && abs < 1e21) {
		return strconv.AppendFloat(dst, v, 'f', -1, bits)
	}
	start := len(dst)
	dst = strconv.AppendFloat(dst, v, 'e', -1, bits)
	if n := len(dst); n-start >= 4 && dst[n-4] == 'e' && dst[n-2] == '0' { // e-07 is e-7
		dst[n-2] = dst[n-1]
		dst = dst[:n-1]
	}
	return dst
}
