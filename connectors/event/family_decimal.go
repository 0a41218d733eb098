package event

import (
	"encoding/base64"
	"strconv"
)

// Constants of Postgres' numeric type modifier.
const (
	typmodHeader  = 4
	scaleSign     = 1024
	scaleMask     = 0x7ff
	precisionBits = 16
)

func newNumericCodec(modifier int32, mode DecimalHandling) codec {
	switch {
	case mode == DecimalString:
		return textCodec{}
	case mode == DecimalDouble:
		return numberCodec{typ: "double", float: true}
	case modifier < typmodHeader:
		return &variableDecimalCodec{}
	}
	m := int(modifier - typmodHeader)
	return &fixedDecimalCodec{precision: m >> precisionBits & 0xffff, scale: (m&scaleMask ^ scaleSign) - scaleSign}
}

// fixedDecimalCodec carries numeric(p,s) as Connect's Decimal: base64 of the unscaled value. It can hold NaN, which no
// base64 text equals, but not the infinities, which Postgres keeps out of numeric(p,s).
type fixedDecimalCodec struct {
	precision, scale int
	d                decimal
}

func (c *fixedDecimalCodec) encode(dst, text []byte) ([]byte, error) {
	neg, whole, fraction, ok := splitDecimal(text)
	if !ok {
		if string(text) == "NaN" {
			return append(dst, `"NaN"`...), nil
		}
		return dst, errNotCanonical
	}
	if len(fraction) != max(c.scale, 0) {
		return dst, errNotCanonical
	}
	if c.scale < 0 && string(whole) != "0" {
		kept := len(whole) + c.scale
		if kept <= 0 || !allZero(whole[kept:]) {
			return dst, errNotCanonical
		}
		whole = whole[:kept]
	}
	return appendBase64(dst, c.d.unscaled(neg, whole, fraction)), nil
}

func (c *fixedDecimalCodec) decode(s *scanner) ([]byte, error) {
	b, err := s.str()
	if err != nil {
		return nil, err
	}
	if string(b) == "NaN" {
		return b, nil
	}
	return s.decimal(&c.d, b, c.scale)
}

func (s *scanner) decimal(d *decimal, b []byte, scale int) ([]byte, error) {
	raw, err := s.base64(b, stdBase64)
	if err != nil {
		return nil, err
	}
	start := len(s.arena)
	var ok bool
	if s.arena, ok = d.appendText(s.arena, raw, scale); !ok {
		return nil, errJSONValue
	}
	return s.since(start), nil
}

func (*fixedDecimalCodec) unavailable(p placeholder) []byte { return appendBase64(nil, p.raw) }

func (c *fixedDecimalCodec) connect() connectType {
	t := decimalType(c.scale)
	t.params = append(t.params, param{"connect.decimal.precision", strconv.Itoa(c.precision)})
	return t
}

func decimalType(scale int) connectType {
	return connectType{typ: "bytes", name: "org.apache.kafka.connect.data.Decimal",
		params: []param{{"scale", strconv.Itoa(scale)}}}
}

// variableDecimalCodec carries numeric without a modifier as Debezium's VariableScaleDecimal. What is not a number is a
// string instead of the object.
type variableDecimalCodec struct{ d decimal }

func (c *variableDecimalCodec) encode(dst, text []byte) ([]byte, error) {
	neg, whole, fraction, ok := splitDecimal(text)
	if !ok {
		if !isSpecialNumber(text) {
			return dst, errNotCanonical
		}
		dst = append(dst, '"')
		dst = append(dst, text...)
		return append(dst, '"'), nil
	}
	dst = append(dst, `{"scale":`...)
	dst = strconv.AppendInt(dst, int64(len(fraction)), 10)
	dst = append(dst, `,"value":`...)
	dst = appendBase64(dst, c.d.unscaled(neg, whole, fraction))
	return append(dst, '}'), nil
}

func (c *variableDecimalCodec) decode(s *scanner) ([]byte, error) {
	if s.peek() == '"' {
		return s.specialNumber(true)
	}
	if !s.take('{') {
		return nil, errJSONValue
	}
	scale, value := int64(-1), []byte(nil)
	for {
		name, err := s.name()
		if err != nil {
			return nil, err
		}
		switch string(name) {
		case "scale":
			scale, err = s.integer()
		case "value":
			value, err = s.str()
		default:
			err = errJSONValue
		}
		if err != nil {
			return nil, err
		}
		if s.take('}') {
			break
		}
		if !s.take(',') {
			return nil, errSyntax
		}
	}
	if scale < 0 || scale > maxScale || value == nil {
		return nil, errJSONValue
	}
	return s.decimal(&c.d, value, int(scale))
}

func (*variableDecimalCodec) unavailable(p placeholder) []byte {
	b := appendBase64([]byte(`{"scale":0,"value":`), p.raw)
	return append(b, '}')
}

func (*variableDecimalCodec) connect() connectType {
	return connectType{typ: "struct", name: "io.debezium.data.VariableScaleDecimal", version: 1, doc: "Variable scaled decimal",
		fields: `{"type":"int32","optional":false,"field":"scale"},{"type":"bytes","optional":false,"field":"value"}`}
}

func appendBase64(dst, b []byte) []byte {
	dst = append(dst, '"')
	dst = base64.StdEncoding.AppendEncode(dst, b)
	return append(dst, '"')
}

// moneyScale is money.fraction.digits' default.
const moneyScale = 2

// moneyCodec carries money, printed under lc_monetary C as -$1,234.56, as a decimal of scale 2.
type moneyCodec struct {
	inner codec
	plain []byte
}

func newMoneyCodec(mode DecimalHandling) codec {
	switch mode {
	case DecimalString:
		return &moneyCodec{inner: textCodec{}}
	case DecimalDouble:
		return &moneyCodec{inner: numberCodec{typ: "double", float: true}}
	}
	return &moneyCodec{inner: &fixedDecimalCodec{precision: 19, scale: moneyScale}}
}

func (c *moneyCodec) encode(dst, text []byte) ([]byte, error) {
	c.plain = c.plain[:0]
	rest := text
	if len(rest) > 0 && rest[0] == '-' {
		c.plain = append(c.plain, '-')
		rest = rest[1:]
	}
	if len(rest) < 5 || rest[0] != '$' || rest[len(rest)-3] != '.' {
		return dst, errNotCanonical
	}
	rest = rest[1:]
	for i, b := range rest {
		whole := len(rest) - moneyScale - 1 - i // digits and separators still before the point
		if b == ',' && i > 0 && whole > 0 && whole%4 == 0 {
			continue
		}
		if whole > 0 && whole%4 == 0 {
			return dst, errNotCanonical // a separator is due here
		}
		c.plain = append(c.plain, b)
	}
	if _, _, fraction, ok := splitDecimal(c.plain); !ok || len(fraction) != moneyScale {
		return dst, errNotCanonical
	}
	return c.inner.encode(dst, c.plain)
}

func (c *moneyCodec) decode(s *scanner) ([]byte, error) {
	b, err := c.inner.decode(s)
	if err != nil {
		return nil, err
	}
	neg, whole, fraction, ok := splitDecimal(b)
	if !ok || len(fraction) != moneyScale {
		return nil, errJSONValue
	}
	start := len(s.arena)
	if neg {
		s.arena = append(s.arena, '-')
	}
	s.arena = append(s.arena, '$')
	for i, d := range whole {
		if i > 0 && (len(whole)-i)%3 == 0 {
			s.arena = append(s.arena, ',')
		}
		s.arena = append(s.arena, d)
	}
	s.arena = append(s.arena, '.')
	s.arena = append(s.arena, fraction...)
	return s.since(start), nil
}

func (c *moneyCodec) unavailable(placeholder) []byte { return nil }

func (c *moneyCodec) connect() connectType {
	if _, ok := c.inner.(*fixedDecimalCodec); ok {
		return decimalType(moneyScale)
	}
	return c.inner.connect()
}
