package charset

import "unicode/utf8"

// table is a charset of single bytes.
type table struct {
	charset string
	ascii   bool
	chars   [256]rune // U+FFFD is none
}

func newTable(charset, chars string) *table {
	t := &table{charset: charset}
	n := utf8.RuneCountInString(chars)
	if t.ascii = n == 128; t.ascii {
		for i := range 128 {
			t.chars[i] = rune(i)
		}
	}
	i := 256 - n
	for _, r := range chars {
		t.chars[i] = r
		i++
	}
	return t
}

func (t *table) AppendUTF8(dst, src []byte) ([]byte, error) {
	from := 0
	out := dst
	if t.ascii {
		from = asciiLen(src)
		out = append(out, src[:from]...)
	}
	for i := from; i < len(src); i++ {
		r := t.chars[src[i]]
		if r == utf8.RuneError {
			return dst, wrong(t.charset, src, i)
		}
		out = utf8.AppendRune(out, r)
	}
	return out, nil
}
