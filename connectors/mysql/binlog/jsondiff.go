package binlog

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
)

// Operations of a JSON diff.
const (
	diffReplace = 0
	diffInsert  = 1
	diffRemove  = 2
)

// ErrDiff tells of a change that does not fit the document that it is applied to: that is not the one the server changed.
var ErrDiff = errors.New("the JSON change does not fit the document that it is applied to")

// ApplyDiff appends the text of a document after a change. before is its text as the server printed it, and so is the result.
func ApplyDiff(dst, before, change []byte) ([]byte, error) {
	if len(change) == 0 {
		return append(dst, before...), nil
	}
	p := jsonParser{b: before}
	doc, err := p.document()
	if err != nil {
		return dst, fmt.Errorf("the document before the change: %w", err)
	}
	r := reader{b: change}
	for len(r.b) > 0 {
		op := r.uint8()
		path := r.packedBytes()
		var value *jsonNode
		switch op {
		case diffReplace, diffInsert:
			binary := r.packedBytes()
			if r.err != nil {
				return dst, r.err
			}
			if len(binary) == 0 {
				return dst, ErrTruncated
			}
			text, err := AppendJSON(nil, binary)
			if err != nil {
				return dst, err
			}
			q := jsonParser{b: text}
			if value, err = q.document(); err != nil {
				return dst, err
			}
		case diffRemove:
		default:
			return dst, malformed("JSON change of kind %d", op)
		}
		if r.err != nil {
			return dst, r.err
		}
		legs, err := parsePath(path)
		if err != nil {
			return dst, err
		}
		if err := doc.change(op, legs, value); err != nil {
			return dst, fmt.Errorf("%w (path %s)", err, path)
		}
	}
	return doc.append(dst), nil
}

// jsonNode is a value of a document. Scalars are kept as their text, so that what is not changed prints the same.
type jsonNode struct {
	kind   byte // {, [ or 0
	scalar []byte
	items  []jsonItem
}

type jsonItem struct {
	key   []byte // of an object's member, unquoted
	value *jsonNode
}

func (n *jsonNode) append(dst []byte) []byte {
	if n.kind == 0 {
		return append(dst, n.scalar...)
	}
	dst = append(dst, n.kind)
	for i, item := range n.items {
		if i > 0 {
			dst = append(dst, ", "...)
		}
		if n.kind == '{' {
			dst = append(appendJSONString(dst, item.key), ": "...)
		}
		dst = item.value.append(dst)
	}
	return append(dst, n.kind+2)
}

// pathLeg is one step of a path: a member, or a cell where key is nil.
type pathLeg struct {
	key  []byte
	cell int
}

// step finds the place of a leg; found is false where an insert would put it.
func (n *jsonNode) step(leg pathLeg) (place int, found, fits bool) {
	switch {
	case leg.key != nil && n.kind == '{':
		// Shorter keys come first. The order is not relied on where a member is sought.
		place = len(n.items)
		for i, item := range n.items {
			order := len(leg.key) - len(item.key)
			if order == 0 {
				order = bytes.Compare(leg.key, item.key)
			}
			if order == 0 {
				return i, true, true
			}
			if order < 0 {
				place = min(place, i)
			}
		}
		return place, false, true
	case leg.key == nil && n.kind == '[':
		return min(leg.cell, len(n.items)), leg.cell < len(n.items), true
	}
	return 0, false, false
}

func (n *jsonNode) change(op byte, legs []pathLeg, value *jsonNode) error {
	if len(legs) == 0 {
		if op != diffReplace {
			return ErrDiff
		}
		*n = *value
		return nil
	}
	last := len(legs) - 1
	for _, leg := range legs[:last] {
		place, found, _ := n.step(leg)
		if !found {
			return ErrDiff
		}
		n = n.items[place].value
	}
	leg := legs[last]
	place, found, fits := n.step(leg)
	switch {
	case op == diffInsert && fits && (!found || leg.key == nil):
		n.items = slices.Insert(n.items, place, jsonItem{leg.key, value})
	case op == diffReplace && found:
		n.items[place].value = value
	case op == diffRemove && found:
		n.items = slices.Delete(n.items, place, place+1)
	default:
		return ErrDiff
	}
	return nil
}

// jsonParser reads text that a server printed.
type jsonParser struct {
	b []byte
	i int
}

func (p *jsonParser) document() (*jsonNode, error) {
	n, err := p.node(0)
	if err != nil {
		return nil, err
	}
	if p.space(); p.i < len(p.b) {
		return nil, malformed("JSON text goes on after its end")
	}
	return n, nil
}

func (p *jsonParser) space() {
	for p.i < len(p.b) && (p.b[p.i] == ' ' || p.b[p.i] == '\t' || p.b[p.i] == '\n' || p.b[p.i] == '\r') {
		p.i++
	}
}

// next skips space and one character, if it is there.
func (p *jsonParser) next(c byte) bool {
	p.space()
	if p.i < len(p.b) && p.b[p.i] == c {
		p.i++
		return true
	}
	return false
}

func (p *jsonParser) node(depth int) (*jsonNode, error) {
	if depth > maxJSONDepth {
		return nil, malformed("JSON of more than %d levels", maxJSONDepth)
	}
	p.space()
	if p.i >= len(p.b) {
		return nil, ErrTruncated
	}
	switch c := p.b[p.i]; c {
	case '{', '[':
		p.i++
		n := &jsonNode{kind: c}
		if p.next(c + 2) {
			return n, nil
		}
		for {
			var item jsonItem
			if c == '{' {
				p.space()
				s, err := p.quoted()
				if err != nil {
					return nil, err
				}
				if item.key, err = unquote(s); err != nil {
					return nil, err
				}
				if !p.next(':') {
					return nil, malformed("JSON text: a member without value")
				}
			}
			var err error
			if item.value, err = p.node(depth + 1); err != nil {
				return nil, err
			}
			n.items = append(n.items, item)
			if p.next(c + 2) {
				return n, nil
			}
			if !p.next(',') {
				return nil, malformed("JSON text: a list that does not end")
			}
		}
	case '"':
		s, err := p.quoted()
		return &jsonNode{scalar: s}, err
	}
	start := p.i
	for p.i < len(p.b) && p.b[p.i] > ' ' && bytes.IndexByte([]byte(`,]}:"[{`), p.b[p.i]) < 0 {
		p.i++
	}
	if p.i == start {
		return nil, malformed("JSON text: %q", p.b[p.i])
	}
	return &jsonNode{scalar: p.b[start:p.i]}, nil
}

// quoted reads a string with its quotes. Those of opaque values may have line ends in them.
func (p *jsonParser) quoted() ([]byte, error) {
	start := p.i
	if p.i >= len(p.b) || p.b[p.i] != '"' {
		return nil, malformed("JSON text: no string")
	}
	for p.i++; p.i < len(p.b); p.i++ {
		switch p.b[p.i] {
		case '\\':
			p.i++
		case '"':
			p.i++
			return p.b[start:p.i], nil
		}
	}
	return nil, ErrTruncated
}

// unquote takes quotes and escapes off a key. All other bytes stay as they are, also those that are no UTF-8.
func unquote(s []byte) ([]byte, error) {
	rest := s[1 : len(s)-1]
	at := bytes.IndexByte(rest, '\\')
	if at < 0 {
		return rest, nil
	}
	var out []byte
	for ; at >= 0; at = bytes.IndexByte(rest, '\\') {
		out = append(out, rest[:at]...)
		rest = rest[at:]
		n := 0
		for n < len(rest) && rest[n] == '\\' { // those that follow one another: two may be halves of one character
			if n++; n < len(rest) && rest[n] == 'u' {
				n += 4
			}
			n++
		}
		var text string
		if n > len(rest) || json.Unmarshal(append(append([]byte{'"'}, rest[:n]...), '"'), &text) != nil {
			return nil, malformed("JSON key %s", s)
		}
		out, rest = append(out, text...), rest[n:]
	}
	return append(out, rest...), nil
}

// parsePath reads a path: $.name."other name"[3].
func parsePath(b []byte) ([]pathLeg, error) {
	if len(b) == 0 || b[0] != '$' {
		return nil, malformed("JSON path %q", b)
	}
	var legs []pathLeg
	for i := 1; i < len(b); {
		switch b[i] {
		case '.':
			p := jsonParser{b: b, i: i + 1}
			if p.i < len(b) && b[p.i] == '"' {
				s, err := p.quoted()
				if err != nil {
					return nil, err
				}
				key, err := unquote(s)
				if err != nil {
					return nil, err
				}
				legs = append(legs, pathLeg{key: key})
				i = p.i
				continue
			}
			end := i + 1
			for end < len(b) && b[end] != '.' && b[end] != '[' {
				end++
			}
			if end == i+1 {
				return nil, malformed("JSON path %q", b)
			}
			legs = append(legs, pathLeg{key: b[i+1 : end]})
			i = end
		case '[':
			cell, end := 0, i+1
			for ; end < len(b) && '0' <= b[end] && b[end] <= '9' && cell < 1<<32; end++ {
				cell = cell*10 + int(b[end]-'0')
			}
			if end == i+1 || end >= len(b) || b[end] != ']' {
				return nil, malformed("JSON path %q", b)
			}
			legs = append(legs, pathLeg{cell: cell})
			i = end + 1
		default:
			return nil, malformed("JSON path %q", b)
		}
		if len(legs) > maxJSONDepth {
			return nil, malformed("JSON path of more than %d legs", maxJSONDepth)
		}
	}
	return legs, nil
}
