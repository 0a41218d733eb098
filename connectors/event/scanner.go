package event

import (
	"bytes"
	"unicode/utf16"
	"unicode/utf8"
)

// maxDepth bounds nesting of JSON that is passed over.
const maxDepth = 64

// scanner reads JSON in place. Strings without escapes are slices of the input; everything that is written anew lies in
// the arena, which is reused from event to event.
type scanner struct {
	b     []byte
	i     int
	arena []byte
	raw   []byte // scratch of one value
	depth int
}

func (s *scanner) reset(b []byte) {
	s.b, s.i, s.depth = b, 0, 0
	s.arena = s.arena[:0]
}

func (s *scanner) space() {
	for s.i < len(s.b) {
		switch s.b[s.i] {
		case ' ', '\t', '\n', '\r':
			s.i++
		default:
			return
		}
	}
}

// peek returns the next byte that is not space, 0 at the end.
func (s *scanner) peek() byte {
	if s.i < len(s.b) && s.b[s.i] > ' ' {
		return s.b[s.i]
	}
	s.space()
	if s.i == len(s.b) {
		return 0
	}
	return s.b[s.i]
}

// take consumes c when it is next.
func (s *scanner) take(c byte) bool {
	if s.peek() != c || s.i == len(s.b) {
		return false
	}
	s.i++
	return true
}

// literal consumes a word such as null when it is next.
func (s *scanner) literal(word string) bool {
	if s.peek() != word[0] {
		return false
	}
	if len(s.b)-s.i < len(word) || string(s.b[s.i:s.i+len(word)]) != word {
		return false
	}
	s.i += len(word)
	return true
}

func (s *scanner) atEnd() bool {
	s.space()
	return s.i == len(s.b)
}

// since is the arena's tail from start, with no room to grow into what follows.
func (s *scanner) since(start int) []byte {
	return s.arena[start:len(s.arena):len(s.arena)]
}

func (s *scanner) own(text string) []byte {
	start := len(s.arena)
	s.arena = append(s.arena, text...)
	return s.since(start)
}

// str reads a JSON string.
func (s *scanner) str() ([]byte, error) {
	if s.peek() != '"' {
		return nil, errJSONValue
	}
	rest := s.b[s.i+1:]
	end := bytes.IndexByte(rest, '"')
	if end < 0 {
		return nil, errSyntax
	}
	if bytes.IndexByte(rest[:end], '\\') < 0 {
		s.i += end + 2
		return rest[:end:end], nil
	}
	return s.escaped()
}

// text is str as a string of its own.
func (s *scanner) text() (string, error) {
	b, err := s.str()
	return string(b), err
}

// members calls read for each member of the object that comes next; read consumes the value.
func (s *scanner) members(read func(name []byte) error) error {
	if !s.take('{') {
		return errJSONValue
	}
	for first := true; !s.take('}'); first = false {
		if !first && !s.take(',') {
			return errSyntax
		}
		name, err := s.name()
		if err != nil {
			return err
		}
		if err := read(name); err != nil {
			return err
		}
	}
	return nil
}

// elements calls read for each element of the array that comes next; read consumes it.
func (s *scanner) elements(read func() error) error {
	if !s.take('[') {
		return errJSONValue
	}
	for first := true; !s.take(']'); first = false {
		if !first && !s.take(',') {
			return errSyntax
		}
		if err := read(); err != nil {
			return err
		}
	}
	return nil
}

func (s *scanner) escaped() ([]byte, error) {
	start := len(s.arena)
	s.i++
	for s.i < len(s.b) {
		c := s.b[s.i]
		switch c {
		case '"':
			s.i++
			return s.since(start), nil
		case '\\':
			if err := s.escape(); err != nil {
				return nil, err
			}
		default:
			from := s.i
			for s.i < len(s.b) && s.b[s.i] != '"' && s.b[s.i] != '\\' {
				s.i++
			}
			s.arena = append(s.arena, s.b[from:s.i]...)
		}
	}
	return nil, errSyntax
}

func (s *scanner) escape() error {
	if s.i+1 >= len(s.b) {
		return errSyntax
	}
	c := s.b[s.i+1]
	s.i += 2
	switch c {
	case '"', '\\', '/':
	case 'b':
		c = '\b'
	case 't':
		c = '\t'
	case 'n':
		c = '\n'
	case 'f':
		c = '\f'
	case 'r':
		c = '\r'
	case 'u':
		return s.unicodeEscape()
	default:
		return errSyntax
	}
	s.arena = append(s.arena, c)
	return nil
}

func (s *scanner) unicodeEscape() error {
	r, ok := s.hex4()
	if !ok {
		return errSyntax
	}
	if utf16.IsSurrogate(r) {
		if s.i+1 >= len(s.b) || s.b[s.i] != '\\' || s.b[s.i+1] != 'u' {
			return errSyntax
		}
		s.i += 2
		low, ok := s.hex4()
		if !ok {
			return errSyntax
		}
		if r = utf16.DecodeRune(r, low); r == utf8.RuneError {
			return errSyntax
		}
	}
	s.arena = utf8.AppendRune(s.arena, r)
	return nil
}

func (s *scanner) hex4() (rune, bool) {
	if len(s.b)-s.i < 4 {
		return 0, false
	}
	var r rune
	for _, c := range s.b[s.i : s.i+4] {
		if unhex[c] == badDigit {
			return 0, false
		}
		r = r<<4 | rune(unhex[c])
	}
	s.i += 4
	return r, true
}

// number returns the characters of a JSON number; its grammar is the caller's to check.
func (s *scanner) number() ([]byte, error) {
	s.space()
	start := s.i
	for s.i < len(s.b) {
		c := s.b[s.i]
		if !isDigit(c) && c != '-' && c != '+' && c != '.' && c != 'e' && c != 'E' {
			break
		}
		s.i++
	}
	if s.i == start {
		return nil, errJSONValue
	}
	return s.b[start:s.i:s.i], nil
}

// integer reads a JSON number that is an int64.
func (s *scanner) integer() (int64, error) {
	b, err := s.number()
	if err != nil {
		return 0, err
	}
	v, ok := parseInt(b)
	if !ok {
		return 0, errJSONValue
	}
	return v, nil
}

// skip passes over one value.
func (s *scanner) skip() error {
	switch s.peek() {
	case '"':
		return s.skipString()
	case '{', '[':
		return s.skipNested()
	case 't', 'f', 'n':
		if s.literal("true") || s.literal("false") || s.literal("null") {
			return nil
		}
		return errSyntax
	case 0:
		return errSyntax
	}
	b, err := s.number()
	if err != nil || !validNumber(b, true) {
		return errSyntax
	}
	return nil
}

func (s *scanner) skipString() error {
	for i := s.i + 1; i < len(s.b); i++ {
		switch s.b[i] {
		case '"':
			s.i = i + 1
			return nil
		case '\\':
			i++
		}
	}
	return errSyntax
}

func (s *scanner) skipNested() error {
	if s.depth++; s.depth > maxDepth {
		return errDepth
	}
	defer func() { s.depth-- }()
	object := s.b[s.i] == '{'
	closing := byte(']')
	if object {
		closing = '}'
	}
	s.i++
	if s.take(closing) {
		return nil
	}
	for {
		if object {
			if err := s.skipName(); err != nil {
				return err
			}
		}
		if err := s.skip(); err != nil {
			return err
		}
		if s.take(closing) {
			return nil
		}
		if !s.take(',') {
			return errSyntax
		}
	}
}

func (s *scanner) skipName() error {
	if s.peek() != '"' {
		return errSyntax
	}
	if err := s.skip(); err != nil {
		return err
	}
	if !s.take(':') {
		return errSyntax
	}
	return nil
}

// name reads an object member's name and its colon.
func (s *scanner) name() ([]byte, error) {
	b, err := s.str()
	if err != nil {
		return nil, errSyntax
	}
	if !s.take(':') {
		return nil, errSyntax
	}
	return b, nil
}

// parseInt reads a decimal int64 without sign +, spaces or superfluous zeros.
func parseInt(b []byte) (int64, bool) {
	neg := len(b) > 0 && b[0] == '-'
	digits := b
	if neg {
		digits = b[1:]
	}
	if len(digits) == 0 || len(digits) > 19 || (digits[0] == '0' && (len(digits) > 1 || neg)) {
		return 0, false
	}
	var v uint64
	for _, c := range digits {
		if !isDigit(c) {
			return 0, false
		}
		v = v*10 + uint64(c-'0')
	}
	if neg {
		if v > 1<<63 {
			return 0, false
		}
		return -int64(v-1) - 1, true
	}
	if v > 1<<63-1 {
		return 0, false
	}
	return int64(v), true
}
