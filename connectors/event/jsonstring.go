package event

import (
	"encoding/binary"
	"unicode/utf8"
)

// appendText appends text as a JSON string. Text that is not valid UTF-8 is refused.
func appendText(dst, text []byte) ([]byte, error) {
	dst = append(dst, '"')
	start, i := 0, 0
	for i < len(text) {
		if i+8 <= len(text) && plainWord(binary.LittleEndian.Uint64(text[i:])) {
			i += 8
			continue
		}
		c := text[i]
		if c >= utf8.RuneSelf {
			r, n := utf8.DecodeRune(text[i:])
			if r == utf8.RuneError && n <= 1 {
				return dst, errInvalidUTF8
			}
			i += n
			continue
		}
		if c >= 0x20 && c != '"' && c != '\\' {
			i++
			continue
		}
		dst = append(dst, text[start:i]...)
		dst = appendEscape(dst, c)
		i++
		start = i
	}
	dst = append(dst, text[start:]...)
	return append(dst, '"'), nil
}

// plainWord tells whether all eight bytes are ASCII that JSON strings hold as they are. For each byte the high bit of the
// sums below is set when it is a control character, a quote or a backslash; borrows can only claim too much, never too little.
func plainWord(w uint64) bool {
	const low, high = 0x0101010101010101, 0x8080808080808080
	control := w - low*0x20
	quote := (w ^ low*'"') - low
	backslash := (w ^ low*'\\') - low
	return (w|control|quote|backslash)&high == 0
}

func appendEscape(dst []byte, c byte) []byte {
	switch c {
	case '"', '\\':
		return append(dst, '\\', c)
	case '\b':
		return append(dst, '\\', 'b')
	case '\t':
		return append(dst, '\\', 't')
	case '\n':
		return append(dst, '\\', 'n')
	case '\f':
		return append(dst, '\\', 'f')
	case '\r':
		return append(dst, '\\', 'r')
	}
	const digits = "0123456789ABCDEF"
	return append(dst, '\\', 'u', '0', '0', digits[c>>4], digits[c&15])
}

// appendString is appendText for names and settings; what is not UTF-8 in them becomes U+FFFD.
func appendString(dst []byte, text string) []byte {
	out, err := appendText(dst, []byte(text))
	if err == nil {
		return out
	}
	clean := make([]byte, 0, len(text))
	for _, r := range text {
		clean = utf8.AppendRune(clean, r)
	}
	out, _ = appendText(dst, clean)
	return out
}
