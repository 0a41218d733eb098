package event

import (
	"crypto/md5"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"strings"
)

// textCodec carries text unchanged in a JSON string; name is the semantic type of its Connect schema.
type textCodec struct {
	name    string
	allowed []string
}

func (textCodec) encode(dst, text []byte) ([]byte, error) { return appendText(dst, text) }
func (textCodec) decode(s *scanner) ([]byte, error)       { return s.str() }

// unavailable of a UUID is the one that Debezium makes of the placeholder: its readers take nothing else for a UUID.
func (c textCodec) unavailable(p placeholder) []byte {
	if c.name == "io.debezium.data.Uuid" {
		return appendString(nil, nameUUID(p.raw))
	}
	return appendString(nil, string(p.text))
}

// nameUUID is Java's UUID.nameUUIDFromBytes: of version 3, without a namespace.
func nameUUID(name []byte) string {
	sum := md5.Sum(name)
	sum[6], sum[8] = sum[6]&0x0f|0x30, sum[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", sum[:4], sum[4:6], sum[6:8], sum[8:10], sum[10:])
}

func (c textCodec) connect() connectType {
	t := connectType{typ: "string", name: c.name}
	if c.name == "io.debezium.data.Enum" || c.name == "io.debezium.data.EnumSet" {
		t.params = []param{{"allowed", strings.Join(c.allowed, ",")}}
	}
	return t
}

// bytesCodec carries bytea.
type bytesCodec struct {
	mode BinaryHandling
	enc  *base64.Encoding
}

func newBytesCodec(mode BinaryHandling) bytesCodec {
	switch mode {
	case BinaryHex:
		return bytesCodec{mode: mode}
	case BinaryBase64URLSafe:
		return bytesCodec{mode: mode, enc: urlBase64}
	default:
		return bytesCodec{mode: mode, enc: stdBase64}
	}
}

func (c bytesCodec) encode(dst, text []byte) ([]byte, error) {
	if len(text) < 2 || text[0] != '\\' || text[1] != 'x' || len(text)%2 != 0 {
		return dst, errNotCanonical
	}
	digits := text[2:]
	for _, d := range digits {
		if unhex[d] == badDigit || (d >= 'A' && d <= 'F') {
			return dst, errNotCanonical
		}
	}
	dst = append(dst, '"')
	if c.enc == nil {
		dst = append(dst, digits...)
	} else {
		dst = appendHexAsBase64(dst, digits, c.enc)
	}
	return append(dst, '"'), nil
}

func (c bytesCodec) decode(s *scanner) ([]byte, error) {
	b, err := s.str()
	if err != nil {
		return nil, err
	}
	start := len(s.arena)
	s.arena = append(s.arena, '\\', 'x')
	if c.enc == nil {
		for _, d := range b {
			if unhex[d] == badDigit || (d >= 'A' && d <= 'F') {
				return nil, errJSONValue
			}
		}
		if len(b)%2 != 0 {
			return nil, errJSONValue
		}
		s.arena = append(s.arena, b...)
		return s.since(start), nil
	}
	return s.base64AsHex(start, b, c.enc)
}

func (c bytesCodec) unavailable(p placeholder) []byte {
	if c.enc == nil {
		return appendString(nil, hex.EncodeToString(p.raw))
	}
	return appendString(nil, c.enc.EncodeToString(p.raw))
}

func (c bytesCodec) connect() connectType {
	if c.mode == BinaryBytes {
		return connectType{typ: "bytes"}
	}
	return connectType{typ: "string"}
}

// appendHexAsBase64 turns checked hexadecimal digits into base64 by chunks of whole base64 groups.
func appendHexAsBase64(dst, digits []byte, enc *base64.Encoding) []byte {
	var chunk [96]byte
	for {
		n := min(len(digits)/2, len(chunk))
		for i := range n {
			chunk[i] = unhex[digits[2*i]]<<4 | unhex[digits[2*i+1]]
		}
		dst = enc.AppendEncode(dst, chunk[:n])
		if digits = digits[2*n:]; len(digits) == 0 {
			return dst
		}
	}
}

// base64AsHex decodes b behind the arena's end and then writes it as hexadecimal at start.
func (s *scanner) base64AsHex(start int, b []byte, enc *base64.Encoding) ([]byte, error) {
	raw, err := s.base64(b, enc)
	if err != nil {
		return nil, err
	}
	s.arena = hex.AppendEncode(s.arena, raw)
	return s.since(start), nil
}

// base64 decodes b into the scanner's scratch space.
func (s *scanner) base64(b []byte, enc *base64.Encoding) ([]byte, error) {
	var err error
	s.raw, err = enc.AppendDecode(s.raw[:0], b)
	if err != nil {
		return nil, errJSONValue
	}
	return s.raw, nil
}

// Strict encodings: no two texts decode to the same bytes.
var (
	stdBase64 = base64.StdEncoding.Strict() //nolint:gochecknoglobals // immutable
	urlBase64 = base64.URLEncoding.Strict() //nolint:gochecknoglobals // immutable
)

const badDigit = 0xff

// unhex maps hexadecimal digits to their values.
//
//nolint:gochecknoglobals // an immutable table
var unhex = func() (t [256]byte) {
	for i := range t {
		t[i] = badDigit
	}
	for i, c := range []byte("0123456789abcdef") {
		t[c] = byte(i)
	}
	for i, c := range []byte("ABCDEF") {
		t[c] = byte(10 + i)
	}
	return t
}()
