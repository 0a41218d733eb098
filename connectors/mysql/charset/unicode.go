package charset

import (
	"encoding/binary"
	"unicode/utf16"
	"unicode/utf8"
)

type unicode8 struct {
	charset string
	three   bool // no characters of four bytes
}

func (u unicode8) AppendUTF8(dst, src []byte) ([]byte, error) {
	if !u.three && utf8.Valid(src) {
		return append(dst, src...), nil
	}
	for i := asciiLen(src); i < len(src); {
		r, n := utf8.DecodeRune(src[i:])
		if r == utf8.RuneError && n == 1 || u.three && r > 0xFFFF {
			return dst, wrong(u.charset, src, i)
		}
		i += n
	}
	return append(dst, src...), nil
}

// unicode16 is UTF-16, or UCS-2 where surrogates stand for nothing.
type unicode16 struct {
	charset string
	high    int // index of a unit's high byte
	alone   bool
}

func (u unicode16) AppendUTF8(dst, src []byte) ([]byte, error) {
	out := dst
	for i := 0; i < len(src); i += 2 {
		if len(src)-i < 2 {
			return dst, wrong(u.charset, src, i)
		}
		r := u.unit(src[i:])
		if utf16.IsSurrogate(r) {
			if u.alone || len(src)-i < 4 {
				return dst, wrong(u.charset, src, i)
			}
			if r = utf16.DecodeRune(r, u.unit(src[i+2:])); r == utf8.RuneError {
				return dst, wrong(u.charset, src, i)
			}
			i += 2
		}
		out = utf8.AppendRune(out, r)
	}
	return out, nil
}

func (u unicode16) unit(b []byte) rune { return rune(b[u.high])<<8 | rune(b[1-u.high]) }

type unicode32 struct{}

func (unicode32) AppendUTF8(dst, src []byte) ([]byte, error) {
	out := dst
	for i := 0; i < len(src); i += 4 {
		if len(src)-i < 4 {
			return dst, wrong("utf32", src, i)
		}
		n := binary.BigEndian.Uint32(src[i:])
		if n > utf8.MaxRune || !utf8.ValidRune(rune(n)) {
			return dst, wrong("utf32", src, i)
		}
		out = utf8.AppendRune(out, rune(n))
	}
	return out, nil
}
