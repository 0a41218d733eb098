package event

import "strconv"

// newBitCodec: bit(1) is a boolean, longer ones are bytes. A bit column without a length, as CREATE TABLE AS makes
// them, holds any length, so that only its text is exact.
func newBitCodec(modifier int32) codec {
	switch {
	case modifier == 1:
		return boolCodec{yes: "1", no: "0"}
	case modifier > 1:
		return &bitsCodec{length: int(modifier)}
	}
	return textCodec{}
}

// newMySQLBitCodec: BIT(1) is a boolean, longer ones are bytes of the column's full length.
func newMySQLBitCodec(length int32) codec {
	if length <= 1 {
		return boolCodec{yes: "1", no: "0"}
	}
	return &bitsCodec{length: int(length), full: true}
}

// bitsCodec carries bit(n) as Debezium's Bits: the last bit of the text is the lowest of the first byte, and zero
// bytes at the end are left out of what is not full.
type bitsCodec struct {
	length int
	full   bool
	buf    []byte
}

func (c *bitsCodec) encode(dst, text []byte) ([]byte, error) {
	if len(text) != c.length {
		return dst, errNotCanonical
	}
	c.buf = c.buf[:0]
	for range (c.length + 7) / 8 {
		c.buf = append(c.buf, 0)
	}
	for i := range c.length {
		switch text[c.length-1-i] {
		case '1':
			c.buf[i/8] |= 1 << (i % 8)
		case '0':
		default:
			return dst, errNotCanonical
		}
	}
	for !c.full && len(c.buf) > 0 && c.buf[len(c.buf)-1] == 0 {
		c.buf = c.buf[:len(c.buf)-1]
	}
	return appendBase64(dst, c.buf), nil
}

func (c *bitsCodec) decode(s *scanner) ([]byte, error) {
	b, err := s.str()
	if err != nil {
		return nil, err
	}
	raw, err := s.base64(b, stdBase64)
	if err != nil {
		return nil, err
	}
	if len(raw) > (c.length+7)/8 || (len(raw)*8 > c.length && raw[len(raw)-1]>>(8-(len(raw)*8-c.length)) != 0) {
		return nil, errJSONValue
	}
	start := len(s.arena)
	for i := c.length - 1; i >= 0; i-- {
		bit := byte('0')
		if i/8 < len(raw) {
			bit += raw[i/8] >> (i % 8) & 1
		}
		s.arena = append(s.arena, bit)
	}
	return s.since(start), nil
}

func (*bitsCodec) unavailable(p placeholder) []byte { return appendBase64(nil, p.raw) }

func (c *bitsCodec) connect() connectType {
	return connectType{typ: "bytes", name: "io.debezium.data.Bits", version: 1,
		params: []param{{"length", strconv.Itoa(c.length)}}}
}
