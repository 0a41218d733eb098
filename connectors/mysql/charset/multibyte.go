package charset

import (
	"embed"
	"encoding/hex"
	"fmt"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/japanese"
	"golang.org/x/text/encoding/korean"
	"golang.org/x/text/encoding/simplifiedchinese"
)

//go:embed tables/*.txt
var tables embed.FS

// multibyte is a charset whose lower half is ASCII and whose other characters have up to three bytes, gb18030's
// four.
type multibyte struct {
	charset string
	one     [128]rune       // 0 is none, as in the pages
	two     [128]*[256]rune // by the first byte less 128, then by the second
	three   [128]*[256]rune // after lead3, likewise
	four    []rune          // gb18030's, by index
}

// lead3 starts a character of three bytes.
const lead3 = 0x8F

func newMultibyte(charset string) (*multibyte, error) {
	m := &multibyte{charset: charset}
	switch charset {
	case "cp932":
		m.enumerate(japanese.ShiftJIS)
	case "euckr":
		m.enumerate(korean.EUCKR)
		return m, nil
	case "gbk":
		m.enumerate(simplifiedchinese.GBK)
	case "gb18030":
		m.enumerate(simplifiedchinese.GB18030)
		m.four = gb18030Four()
	}
	text, err := tables.ReadFile("tables/" + charset + ".txt")
	if err != nil {
		return nil, fmt.Errorf("charset %s is not known: convert the column to utf8mb4, or leave its table out", charset)
	}
	if err := m.read(string(text)); err != nil {
		return nil, fmt.Errorf("charset %s: %w", charset, err)
	}
	return m, nil
}

// enumerate takes what an encoding of x/text decodes of one and two bytes.
func (m *multibyte) enumerate(e encoding.Encoding) {
	d := e.NewDecoder()
	var out [8]byte
	try := func(b []byte) {
		d.Reset()
		n, _, err := d.Transform(out[:], b, true)
		if r, size := utf8.DecodeRune(out[:n]); err == nil && size == n && r != utf8.RuneError {
			m.set(b, r)
		}
	}
	for lead := 128; lead < 256; lead++ {
		try([]byte{byte(lead)})
		for trail := range 256 {
			try([]byte{byte(lead), byte(trail)})
		}
	}
}

// read takes lines of a first code in hex, a space and the characters of it and those that follow; U+FFFD takes away what
// x/text has there.
func (m *multibyte) read(text string) error {
	for line := range strings.Lines(text) {
		code, chars, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		b, err := hex.DecodeString(code)
		if err != nil {
			return err
		}
		for _, r := range chars {
			m.set(b, r)
			b[len(b)-1]++
		}
	}
	return nil
}

func (m *multibyte) set(b []byte, r rune) {
	if len(b) == 4 {
		m.four[gb18030Index(b)] = r
		return
	}
	if r == utf8.RuneError {
		r = 0
	}
	pages, lead := &m.two, b[0]-128
	switch len(b) {
	case 1:
		m.one[lead] = r
		return
	case 3:
		pages, lead = &m.three, b[1]-128
	}
	if pages[lead] == nil {
		pages[lead] = new([256]rune)
	}
	pages[lead][b[len(b)-1]] = r
}

func (m *multibyte) AppendUTF8(dst, src []byte) ([]byte, error) {
	out := dst
	for i := 0; i < len(src); {
		if n := asciiLen(src[i:]); n > 0 {
			out = append(out, src[i:i+n]...)
			i += n
			continue
		}
		r, n := m.next(src[i:])
		if n == 0 {
			return dst, wrong(m.charset, src, i)
		}
		out = utf8.AppendRune(out, r)
		i += n
	}
	return out, nil
}

// next is the character that starts with a byte above 127, and its length; 0 is none.
func (m *multibyte) next(b []byte) (rune, int) {
	lead := b[0] - 128
	if r := m.one[lead]; r != 0 {
		return r, 1
	}
	if len(b) >= 2 && m.two[lead] != nil {
		if r := m.two[lead][b[1]]; r != 0 {
			return r, 2
		}
	}
	if len(b) >= 3 && b[0] == lead3 && b[1] >= 128 && m.three[b[1]-128] != nil {
		if r := m.three[b[1]-128][b[2]]; r != 0 {
			return r, 3
		}
	}
	if m.four != nil && len(b) >= 4 {
		return m.gb18030(b)
	}
	return 0, 0
}
