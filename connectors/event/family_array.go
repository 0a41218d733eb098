package event

import (
	"bytes"
	"strconv"
)

// oidBox is the one built-in type whose arrays are separated by semicolons.
const oidBox = 603

// maxDimensions is Postgres' MAXDIM.
const maxDimensions = 6

// arrayCodec carries an array as a JSON array, nested per dimension. Lower bounds other than 1 have no place in
// JSON: such an array is its text in one string.
type arrayCodec struct {
	elem      codec
	delimiter byte
	scratch   []byte
}

func newArrayCodec(elem codec, elemOID uint32) *arrayCodec {
	delimiter := byte(',')
	if elemOID == oidBox {
		delimiter = ';'
	}
	return &arrayCodec{elem: elem, delimiter: delimiter}
}

func (c *arrayCodec) encode(dst, text []byte) ([]byte, error) {
	if len(text) > 0 && text[0] == '[' {
		return appendText(dst, text)
	}
	dst, next, err := c.list(dst, text, 0, 1)
	if err == nil && next != len(text) {
		err = errNotCanonical
	}
	return dst, err
}

// list appends the braces' content that opens at i and returns the place behind it.
func (c *arrayCodec) list(dst, text []byte, i, depth int) ([]byte, int, error) {
	if i >= len(text) || text[i] != '{' || depth > maxDimensions {
		return dst, i, errNotCanonical
	}
	dst = append(dst, '[')
	if i++; depth == 1 && i < len(text) && text[i] == '}' {
		return append(dst, ']'), i + 1, nil
	}
	for {
		var err error
		if i < len(text) && text[i] == '{' {
			dst, i, err = c.list(dst, text, i, depth+1)
		} else {
			dst, i, err = c.element(dst, text, i)
		}
		if err != nil {
			return dst, i, err
		}
		if i >= len(text) {
			return dst, i, errNotCanonical
		}
		switch text[i] {
		case '}':
			return append(dst, ']'), i + 1, nil
		case c.delimiter:
			dst = append(dst, ',')
			i++
		default:
			return dst, i, errNotCanonical
		}
	}
}

func (c *arrayCodec) element(dst, text []byte, i int) ([]byte, int, error) {
	if i < len(text) && text[i] == '"' {
		inner, next, ok := unquote(c.scratch[:0], text, i)
		c.scratch = inner
		if !ok || !c.needsQuotes(inner) {
			return dst, i, errNotCanonical
		}
		dst, err := c.elem.encode(dst, inner)
		return dst, next, err
	}
	end := i
	for end < len(text) && text[end] != c.delimiter && text[end] != '}' {
		end++
	}
	inner := text[i:end]
	if string(inner) == "NULL" {
		return append(dst, "null"...), end, nil
	}
	if c.needsQuotes(inner) {
		return dst, i, errNotCanonical
	}
	dst, err := c.elem.encode(dst, inner)
	return dst, end, err
}

// needsQuotes is array_out's rule.
func (c *arrayCodec) needsQuotes(elem []byte) bool {
	if len(elem) == 0 || (len(elem) == 4 && bytes.EqualFold(elem, []byte("NULL"))) {
		return true
	}
	for _, b := range elem {
		switch b {
		case '"', '\\', '{', '}', ' ', '\t', '\n', '\r', '\v', '\f', c.delimiter:
			return true
		}
	}
	return false
}

func (c *arrayCodec) decode(s *scanner) ([]byte, error) {
	if s.peek() == '"' {
		b, err := s.str()
		if err == nil && (len(b) == 0 || b[0] != '[') {
			err = errJSONValue
		}
		return b, err
	}
	c.scratch = c.scratch[:0]
	if err := c.decodeList(s, 1); err != nil {
		return nil, err
	}
	start := len(s.arena)
	s.arena = append(s.arena, c.scratch...)
	return s.since(start), nil
}

func (c *arrayCodec) decodeList(s *scanner, depth int) error {
	if !s.take('[') || depth > maxDimensions {
		return errJSONValue
	}
	c.scratch = append(c.scratch, '{')
	for first := true; !s.take(']'); first = false {
		if !first {
			if !s.take(',') {
				return errSyntax
			}
			c.scratch = append(c.scratch, c.delimiter)
		}
		switch {
		case s.peek() == '[':
			if err := c.decodeList(s, depth+1); err != nil {
				return err
			}
		case s.literal("null"):
			c.scratch = append(c.scratch, "NULL"...)
		default:
			elem, err := c.elem.decode(s)
			if err != nil {
				return err
			}
			if c.needsQuotes(elem) {
				c.scratch = quote(c.scratch, elem)
			} else {
				c.scratch = append(c.scratch, elem...)
			}
		}
	}
	c.scratch = append(c.scratch, '}')
	return nil
}

// unavailable is the placeholder as elements: itself where it has a form in the element's type, else its bytes as numbers.
func (c *arrayCodec) unavailable(p placeholder) []byte {
	if one := c.elem.unavailable(p); one != nil {
		return append(append([]byte{'['}, one...), ']')
	}
	if t := c.elem.connect().typ; t == "boolean" || t == "string" {
		return nil
	}
	b := []byte{'['}
	for i, v := range p.raw {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendUint(b, uint64(v), 10)
	}
	return append(b, ']')
}

func (c *arrayCodec) connect() connectType {
	items := c.elem.connect().appendSchema(nil, true, "")
	return connectType{typ: "array", fields: string(items)}
}
