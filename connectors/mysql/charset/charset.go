// Package charset turns the bytes of a MySQL or MariaDB character column into UTF-8, as the servers themselves do.
//
// The servers' charsets are not always what their names say: latin1 is cp1252 with characters for its five undefined bytes,
// koi8u and sjis differ from others' tables. What is decoded here is therefore compared with real servers, every sequence of
// bytes of every charset; both servers agree on all of them. Bytes that are no character are an *Error that names the
// charset and the bytes; nothing is replaced.
package charset

import (
	"fmt"
	"unicode/utf8"
)

// Decoder turns the bytes of one charset into UTF-8.
type Decoder interface {
	// AppendUTF8 appends src in UTF-8 to dst. After an error, an *Error, it returns dst as it was.
	AppendUTF8(dst, src []byte) ([]byte, error)
}

// Error is bytes that are no character of their charset.
type Error struct {
	Charset string
	Bytes   []byte // from the first that is wrong; a few
	Offset  int
}

// Error names the charset and the bytes.
func (e *Error) Error() string {
	return fmt.Sprintf("charset %s: bytes 0x%X at offset %d are no character", e.Charset, e.Bytes, e.Offset)
}

func wrong(charset string, src []byte, at int) error {
	const most = 4
	return &Error{Charset: charset, Bytes: append([]byte(nil), src[at:min(len(src), at+most)]...), Offset: at}
}

// OfCollation is the charset of a collation's number, of MySQL up to 9.7 or MariaDB up to 11.8, whose numbers do not clash.
func OfCollation(id uint64) (string, bool) {
	cs := ofCollation(id)
	return cs, cs != ""
}

// New makes the decoder of a charset. Multibyte charsets build a table, so it is to be kept: Decoders does.
func New(charset string) (Decoder, error) {
	switch charset {
	case "utf8mb4", "utf8mb3", "utf8", "binary":
		// A server takes binary as UTF-8 where it needs characters of it.
		return unicode8{charset, charset == "utf8mb3" || charset == "utf8"}, nil
	case "ascii":
		return ascii{}, nil
	case "ucs2":
		return unicode16{charset: charset, high: 0, alone: true}, nil
	case "utf16":
		return unicode16{charset: charset, high: 0}, nil
	case "utf16le":
		return unicode16{charset: charset, high: 1}, nil
	case "utf32":
		return unicode32{}, nil
	}
	if chars := singleByte(charset); chars != "" {
		return newTable(charset, chars), nil
	}
	m, err := newMultibyte(charset)
	if err != nil {
		return nil, err
	}
	return m, nil
}

// Decoders keeps a decoder for each charset that it was asked for. It is not safe for concurrent use; its decoders are.
type Decoders struct {
	made map[string]Decoder
}

// Of is the decoder of a charset.
func (d *Decoders) Of(charset string) (Decoder, error) {
	if known, ok := d.made[charset]; ok {
		return known, nil
	}
	made, err := New(charset)
	if err != nil {
		return nil, err
	}
	if d.made == nil {
		d.made = map[string]Decoder{}
	}
	d.made[charset] = made
	return made, nil
}

// OfCollation is the decoder of a collation's charset.
func (d *Decoders) OfCollation(id uint64) (Decoder, error) {
	charset, ok := OfCollation(id)
	if !ok {
		return nil, fmt.Errorf("collation %d is not known: give the column one of MySQL 9.7 or MariaDB 11.8, or leave its table out", id)
	}
	return d.Of(charset)
}

// asciiLen is how many bytes from the start are ASCII.
func asciiLen(src []byte) int {
	for i, c := range src {
		if c >= utf8.RuneSelf {
			return i
		}
	}
	return len(src)
}

type ascii struct{}

func (ascii) AppendUTF8(dst, src []byte) ([]byte, error) {
	if n := asciiLen(src); n < len(src) {
		return dst, wrong("ascii", src, n)
	}
	return append(dst, src...), nil
}
