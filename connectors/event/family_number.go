package event

// boolCodec carries bool ("t", "f") and bit(1) ("1", "0").
type boolCodec struct{ yes, no string }

func (c boolCodec) encode(dst, text []byte) ([]byte, error) {
	switch string(text) {
	case c.yes:
		return append(dst, "true"...), nil
	case c.no:
		return append(dst, "false"...), nil
	}
	return dst, errNotCanonical
}

func (c boolCodec) decode(s *scanner) ([]byte, error) {
	if s.literal("true") {
		return s.own(c.yes), nil
	}
	if s.literal("false") {
		return s.own(c.no), nil
	}
	return nil, errJSONValue
}

func (boolCodec) unavailable(placeholder) []byte { return nil }
func (boolCodec) connect() connectType           { return connectType{typ: "boolean"} }

// numberCodec carries integers and floats by their digits: the source prints the shortest text that reads back as
// the same value, which is also a JSON number. What JSON has no number for is a string.
type numberCodec struct {
	typ   string
	float bool
}

func (c numberCodec) encode(dst, text []byte) ([]byte, error) {
	if validNumber(text, c.float) {
		return append(dst, text...), nil
	}
	if c.float && isSpecialNumber(text) {
		dst = append(dst, '"')
		dst = append(dst, text...)
		return append(dst, '"'), nil
	}
	return dst, errNotCanonical
}

func (c numberCodec) decode(s *scanner) ([]byte, error) {
	if s.peek() == '"' {
		return s.specialNumber(c.float)
	}
	b, err := s.number()
	if err != nil {
		return nil, err
	}
	if !validNumber(b, c.float) {
		return nil, errJSONValue
	}
	return b, nil
}

func (numberCodec) unavailable(placeholder) []byte { return nil }
func (c numberCodec) connect() connectType         { return connectType{typ: c.typ} }

func isSpecialNumber(text []byte) bool {
	switch string(text) {
	case "NaN", "Infinity", "-Infinity":
		return true
	}
	return false
}

// specialNumber reads "NaN", "Infinity" or "-Infinity".
func (s *scanner) specialNumber(allowed bool) ([]byte, error) {
	b, err := s.str()
	if err != nil {
		return nil, err
	}
	if !allowed || !isSpecialNumber(b) {
		return nil, errJSONValue
	}
	return b, nil
}

// validNumber checks JSON's number grammar; fraction allows a fraction and an exponent.
func validNumber(b []byte, fraction bool) bool {
	i := 0
	if i < len(b) && b[i] == '-' {
		i++
	}
	first := i
	if i = skipDigits(b, first); i == first || (b[first] == '0' && i > first+1) {
		return false
	}
	if i == len(b) {
		return true
	}
	if !fraction {
		return false
	}
	if b[i] == '.' {
		first = i + 1
		if i = skipDigits(b, first); i == first {
			return false
		}
	}
	if i < len(b) && (b[i] == 'e' || b[i] == 'E') {
		i++
		if i < len(b) && (b[i] == '+' || b[i] == '-') {
			i++
		}
		first = i
		if i = skipDigits(b, first); i == first {
			return false
		}
	}
	return i == len(b)
}

// skipDigits returns the place of the first byte from i on that is no digit.
func skipDigits(b []byte, i int) int {
	for i < len(b) && isDigit(b[i]) {
		i++
	}
	return i
}

func isDigit(c byte) bool { return c-'0' <= 9 }
