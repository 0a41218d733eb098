package event

import "math"

// uint64Codec carries BIGINT UNSIGNED as a Connect decimal without fraction, or as an int64 what is one.
type uint64Codec struct {
	long    bool
	decimal fixedDecimalCodec
}

// uint64Digits is Debezium's precision of the decimal.
const uint64Digits = 20

func newUint64Codec(mode BigintUnsignedHandling) *uint64Codec {
	return &uint64Codec{long: mode == BigintUnsignedLong, decimal: fixedDecimalCodec{precision: uint64Digits}}
}

// parseUint64 reads a decimal uint64 without sign, spaces or superfluous zeros.
func parseUint64(b []byte) (v uint64, ok bool) {
	if len(b) == 0 || len(b) > uint64Digits || (b[0] == '0' && len(b) > 1) {
		return 0, false
	}
	for _, c := range b {
		if !isDigit(c) || v > math.MaxUint64/10 {
			return 0, false
		}
		digit := uint64(c - '0')
		if v *= 10; v > math.MaxUint64-digit {
			return 0, false
		}
		v += digit
	}
	return v, true
}

func (c *uint64Codec) encode(dst, text []byte) ([]byte, error) {
	v, ok := parseUint64(text)
	switch {
	case !ok:
		return dst, errMySQLText
	case !c.long:
		return c.decimal.encode(dst, text)
	case v > math.MaxInt64:
		return dst, errBigintLong
	}
	return append(dst, text...), nil
}

func (c *uint64Codec) decode(s *scanner) ([]byte, error) {
	var b []byte
	var err error
	if c.long {
		b, err = s.number()
	} else {
		b, err = c.decimal.decode(s)
	}
	if err != nil {
		return nil, err
	}
	if v, ok := parseUint64(b); !ok || (c.long && v > math.MaxInt64) {
		return nil, errJSONValue
	}
	return b, nil
}

func (c *uint64Codec) unavailable(placeholder) []byte { return nil }

func (c *uint64Codec) connect() connectType {
	if c.long {
		return connectType{typ: "int64"}
	}
	return c.decimal.connect()
}
