package event

func newHstoreCodec(mode HstoreHandling) codec {
	if mode == HstoreMap {
		return &hstoreMapCodec{}
	}
	return &hstoreJSONCodec{}
}

// hstoreMapCodec carries hstore as a JSON object of strings and nulls, in the source's order.
type hstoreMapCodec struct{ scratch []byte }

func (c *hstoreMapCodec) encode(dst, text []byte) ([]byte, error) {
	dst = append(dst, '{')
	for i := 0; i < len(text); {
		if i > 0 {
			if len(text)-i < 2 || text[i] != ',' || text[i+1] != ' ' {
				return dst, errNotCanonical
			}
			dst = append(dst, ',')
			i += 2
		}
		var err error
		if dst, i, err = c.quoted(dst, text, i); err != nil {
			return dst, err
		}
		if len(text)-i < 2 || text[i] != '=' || text[i+1] != '>' {
			return dst, errNotCanonical
		}
		dst = append(dst, ':')
		i += 2
		if len(text)-i >= 4 && string(text[i:i+4]) == "NULL" {
			dst = append(dst, "null"...)
			i += 4
			continue
		}
		if dst, i, err = c.quoted(dst, text, i); err != nil {
			return dst, err
		}
	}
	return append(dst, '}'), nil
}

// quoted appends the quoted text at i as a JSON string and returns the place behind it.
func (c *hstoreMapCodec) quoted(dst, text []byte, i int) ([]byte, int, error) {
	inner, next, ok := unquote(c.scratch[:0], text, i)
	c.scratch = inner
	if !ok {
		return dst, i, errNotCanonical
	}
	dst, err := appendText(dst, inner)
	return dst, next, err
}

// unquote appends to dst what stands between the double quotes that open at i, without backslashes.
func unquote(dst, text []byte, i int) (out []byte, next int, ok bool) {
	if i >= len(text) || text[i] != '"' {
		return dst, i, false
	}
	for i++; i < len(text); i++ {
		switch text[i] {
		case '"':
			return dst, i + 1, true
		case '\\':
			if i++; i == len(text) || (text[i] != '"' && text[i] != '\\') {
				return dst, i, false
			}
		}
		dst = append(dst, text[i])
	}
	return dst, i, false
}

// quote is unquote's inverse.
func quote(dst, text []byte) []byte {
	dst = append(dst, '"')
	for _, c := range text {
		if c == '"' || c == '\\' {
			dst = append(dst, '\\')
		}
		dst = append(dst, c)
	}
	return append(dst, '"')
}

func (c *hstoreMapCodec) decode(s *scanner) ([]byte, error) {
	if !s.take('{') {
		return nil, errJSONValue
	}
	c.scratch = c.scratch[:0]
	for first := true; !s.take('}'); first = false {
		if !first {
			if !s.take(',') {
				return nil, errSyntax
			}
			c.scratch = append(c.scratch, ", "...)
		}
		name, err := s.name()
		if err != nil {
			return nil, err
		}
		c.scratch = append(quote(c.scratch, name), "=>"...)
		if s.literal("null") {
			c.scratch = append(c.scratch, "NULL"...)
			continue
		}
		value, err := s.str()
		if err != nil {
			return nil, err
		}
		c.scratch = quote(c.scratch, value)
	}
	start := len(s.arena)
	s.arena = append(s.arena, c.scratch...)
	return s.since(start), nil
}

func (*hstoreMapCodec) unavailable(p placeholder) []byte {
	b := appendString([]byte{'{'}, string(p.text))
	b = appendString(append(b, ':'), string(p.text))
	return append(b, '}')
}

func (*hstoreMapCodec) connect() connectType {
	return connectType{typ: "map", fields: `"keys":{"type":"string","optional":false},"values":{"type":"string","optional":true}`}
}

// hstoreJSONCodec carries the same object as text in a JSON string.
type hstoreJSONCodec struct {
	object hstoreMapCodec
	text   []byte
	inner  scanner
}

func (c *hstoreJSONCodec) encode(dst, text []byte) ([]byte, error) {
	object, err := c.object.encode(c.text[:0], text)
	c.text = object
	if err != nil {
		return dst, err
	}
	return appendText(dst, object)
}

func (c *hstoreJSONCodec) decode(s *scanner) ([]byte, error) {
	b, err := s.str()
	if err != nil {
		return nil, err
	}
	c.inner.reset(b)
	text, err := c.object.decode(&c.inner)
	if err != nil {
		return nil, err
	}
	if !c.inner.atEnd() {
		return nil, errSyntax
	}
	start := len(s.arena)
	s.arena = append(s.arena, text...)
	return s.since(start), nil
}

func (c *hstoreJSONCodec) unavailable(p placeholder) []byte {
	return appendString(nil, string(c.object.unavailable(p)))
}

func (*hstoreJSONCodec) connect() connectType {
	return connectType{typ: "string", name: "io.debezium.data.Json", version: 1}
}
