package ddl

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

type tokenKind uint8

const (
	end    tokenKind = iota
	word             // bare: a keyword or an identifier
	quoted           // an identifier in quotes
	text             // a string
	number           // digits, perhaps with a point or exponent; 0x and 0b too
	mark             // one character
)

type token struct {
	kind     tokenKind
	text     string // without quotes and escapes
	from, to int    // in the statement
	double   bool   // in double quotes
}

// lexer cuts a statement into tokens. Comments vanish; those that the server executes do not.
type lexer struct {
	s         string
	i         int
	mode      SQLMode
	flavour   Flavour
	version   int
	executing int  // open executable comments
	broken    bool // the end came inside a string, a name or a comment
}

// tokens are those of the statement, without its end; ok is false if it breaks off.
func tokens(s string, o Options) (all []token, ok bool) {
	l := lexer{s: s, mode: o.Mode, flavour: o.Flavour, version: o.Version}
	for {
		t := l.next()
		if t.kind == end {
			return all, !l.broken && l.executing == 0
		}
		all = append(all, t)
	}
}

func (l *lexer) next() token {
	l.skip()
	if l.i >= len(l.s) {
		return token{kind: end, from: len(l.s), to: len(l.s)}
	}
	from := l.i
	c := l.s[from]
	switch {
	case c == '`' || c == '"' && l.mode&ANSIQuotes != 0:
		return l.until(quoted, c, false)
	case c == '\'' || c == '"':
		return l.until(text, c, l.mode&NoBackslashEscapes == 0)
	case c >= '0' && c <= '9' || c == '.' && l.digit(from+1):
		return l.number()
	case wordByte(c):
		for l.i < len(l.s) && wordByte(l.s[l.i]) {
			l.i++
		}
		return token{kind: word, text: l.s[from:l.i], from: from, to: l.i}
	}
	_, n := utf8.DecodeRuneInString(l.s[from:])
	l.i += n
	return token{kind: mark, text: l.s[from:l.i], from: from, to: l.i}
}

func wordByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '$' || c >= 0x80
}

func (l *lexer) digit(i int) bool { return i < len(l.s) && l.s[i] >= '0' && l.s[i] <= '9' }

// number takes a number, or a name that starts with digits.
func (l *lexer) number() token {
	from := l.i
	for l.i < len(l.s) && wordByte(l.s[l.i]) {
		l.i++
	}
	lead := l.s[from:l.i]
	digits := strings.Trim(lead, "0123456789") == ""
	kind := number
	if !digits && !isNumber(lead) && !(len(lead) > 1 && l.exponent(lead)) {
		kind = word
	}
	// A digit after a dot is a fraction, unless a name came before: db.1t is cut at the dot by word.
	if digits && l.i < len(l.s) && l.s[l.i] == '.' {
		l.i++
		for l.i < len(l.s) && (l.digit(l.i) || l.s[l.i] == 'e' || l.s[l.i] == 'E') {
			l.i++
		}
	}
	if kind == number && (strings.HasSuffix(l.s[from:l.i], "e") || strings.HasSuffix(l.s[from:l.i], "E")) && !strings.HasPrefix(lead, "0x") &&
		l.i+1 < len(l.s) && (l.s[l.i] == '-' || l.s[l.i] == '+') && l.digit(l.i+1) {
		for l.i++; l.digit(l.i); l.i++ {
		}
	}
	return token{kind: kind, text: l.s[from:l.i], from: from, to: l.i}
}

func isNumber(s string) bool {
	if strings.HasPrefix(s, "0x") || strings.HasPrefix(s, "0b") {
		return len(s) > 2
	}
	_, err := strconv.ParseFloat(s, 64)
	return err == nil && !strings.ContainsAny(s, "_pP")
}

// exponent says whether 1e is followed by a signed exponent.
func (l *lexer) exponent(lead string) bool {
	return strings.Trim(lead[:len(lead)-1], "0123456789") == "" && (lead[len(lead)-1]|0x20) == 'e' &&
		l.i+1 < len(l.s) && (l.s[l.i] == '-' || l.s[l.i] == '+') && l.digit(l.i+1)
}

// until takes what stands between two quotes; a doubled quote is one.
func (l *lexer) until(kind tokenKind, quote byte, escapes bool) token {
	from := l.i
	var b strings.Builder
	for l.i++; l.i < len(l.s); l.i++ {
		c := l.s[l.i]
		switch {
		case c == quote:
			if l.i+1 < len(l.s) && l.s[l.i+1] == quote {
				l.i++
				b.WriteByte(quote)
				continue
			}
			l.i++
			return token{kind: kind, text: b.String(), from: from, to: l.i, double: quote == '"'}
		case c == '\\' && escapes && l.i+1 < len(l.s):
			l.i++
			b.WriteString(unescape(l.s[l.i]))
		default:
			b.WriteByte(c)
		}
	}
	l.broken = true
	return token{kind: kind, text: b.String(), from: from, to: l.i, double: quote == '"'}
}

func unescape(c byte) string {
	switch c {
	case '0':
		return "\x00"
	case 'b':
		return "\b"
	case 'n':
		return "\n"
	case 'r':
		return "\r"
	case 't':
		return "\t"
	case 'Z':
		return "\x1a"
	case '%', '_':
		return "\\" + string(c)
	}
	return string([]byte{c})
}

// skip passes over white space and comments, and enters the comments that the server executes.
func (l *lexer) skip() {
	for l.i < len(l.s) {
		rest := l.s[l.i:]
		switch {
		case rest[0] <= ' ':
			l.i++
		case rest[0] == '#', strings.HasPrefix(rest, "--") && (len(rest) == 2 || rest[2] <= ' '):
			if n := strings.IndexByte(rest, '\n'); n >= 0 {
				l.i += n + 1
			} else {
				l.i = len(l.s)
			}
		case l.executing > 0 && strings.HasPrefix(rest, "*/"):
			l.executing--
			l.i += 2
		case strings.HasPrefix(rest, "/*"):
			if n, executes := l.executable(rest); executes {
				l.executing++
				l.i += n
				continue
			}
			n := strings.Index(rest[2:], "*/")
			if n < 0 {
				l.broken = true
				l.i = len(l.s)
				return
			}
			l.i += n + 4
		default:
			return
		}
	}
}

// executable says whether the comment at the start of s is run by the server, and how long its opening is.
func (l *lexer) executable(s string) (int, bool) {
	n := 3
	switch {
	case strings.HasPrefix(s, "/*!"):
	case strings.HasPrefix(s, "/*M!") && l.flavour == MariaDB:
		n = 4
	default:
		return 0, false
	}
	digits := 0
	for n+digits < len(s) && digits < 6 && s[n+digits] >= '0' && s[n+digits] <= '9' {
		digits++
	}
	if digits < 5 {
		return n, true
	}
	version, _ := strconv.Atoi(s[n : n+digits])
	if l.flavour == MariaDB && n == 3 && version >= 50700 && version <= 99999 {
		return 0, false // MySQL's own, which MariaDB leaves out
	}
	return n + digits, version <= l.version
}
