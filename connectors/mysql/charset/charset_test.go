package charset

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func mustNew(t testing.TB, charset string) Decoder {
	t.Helper()
	d, err := New(charset)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func fields(t *testing.T, path string) [][]string {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var lines [][]string
	for s := bufio.NewScanner(f); s.Scan(); {
		lines = append(lines, strings.Fields(s.Text()))
	}
	return lines
}

// sequences are all that may be a character of a charset of bytes, in order.
func sequences(charset string, visit func([]byte)) {
	for a := range 256 {
		visit([]byte{byte(a)})
		for b := 0; b < 256 && a >= 128; b++ {
			visit([]byte{byte(a), byte(b)})
			for c := 0; c < 256; c++ {
				if charset != "gb18030" {
					if a == 0x8F && b >= 128 && c >= 128 {
						visit([]byte{byte(a), byte(b), byte(c)})
					}
					continue
				}
				for d := '0'; d <= '9' && a > 0x80 && a < 0xFF && b >= '0' && b <= '9' && c > 0x80 && c < 0xFF; d++ {
					visit([]byte{byte(a), byte(b), byte(c), byte(d)})
				}
			}
		}
	}
}

// TestEverySequenceIsAsTheServersDecodeIt compares with testdata/digests.txt, made from servers: nothing more is a character,
// nothing less, and each is the same.
func TestEverySequenceIsAsTheServersDecodeIt(t *testing.T) {
	digests := fields(t, "testdata/digests.txt")
	if len(digests) != 34 {
		t.Fatalf("%d digests", len(digests))
	}
	for _, line := range digests {
		charset, count, want := line[0], line[1], line[2]
		d := mustNew(t, charset)
		h, n := sha256.New(), 0
		var out []byte
		sequences(charset, func(b []byte) {
			var err error
			out, err = d.AppendUTF8(out[:0], b)
			if err != nil || utf8.RuneCount(out) != 1 {
				return // two characters of one byte, or none
			}
			r, _ := utf8.DecodeRune(out)
			fmt.Fprintf(h, "%x %x\n", b, r)
			n++
		})
		if got := hex.EncodeToString(h.Sum(nil)); got != want || fmt.Sprint(n) != count {
			t.Errorf("%s: %d characters, %s; the servers have %s, %s", charset, n, got, count, want)
		}
	}
}

func TestTextsAreAsTheServersDecodeThem(t *testing.T) {
	paths, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(paths) != 35 {
		t.Fatalf("%d files: %v", len(paths), err)
	}
	for _, path := range paths {
		charset := strings.TrimSuffix(filepath.Base(path), ".txt")
		if charset == "digests" {
			continue
		}
		d := mustNew(t, charset)
		for _, line := range fields(t, path) {
			in, _ := hex.DecodeString(line[0])
			want, _ := hex.DecodeString(line[1])
			got, err := d.AppendUTF8([]byte("a"), in)
			if err != nil || string(got) != "a"+string(want) {
				t.Errorf("%s: %x is %q, the servers say %q: %v", charset, in, got, want, err)
			}
		}
	}
}

func TestDecode(t *testing.T) {
	for _, c := range []struct{ charset, in, want string }{
		{"latin1", "a\x80\x81\xe9", "a€\u0081é"},
		{"swe7", "\x5b\x7d", "Äå"},
		{"cp1256", "\xc1", "ء"},
		{"tis620", "\xa1", "ก"},
		{"utf8mb4", "a😀", "a😀"},
		{"utf8mb3", "aé漢", "aé漢"},
		{"utf8", "é", "é"},
		{"binary", "é", "é"},
		{"ascii", "a\x00\x7f", "a\x00\x7f"},
		{"ucs2", "\x00a\x6f\x22", "a漢"},
		{"utf16", "\x00a\xd8\x3d\xde\x00", "a😀"},
		{"utf16le", "a\x00\x3d\xd8\x00\xde", "a😀"},
		{"utf32", "\x00\x00\x00a\x00\x01\xf6\x00", "a😀"},
		{"cp932", "\x81\x60\xf0\x40\xb1", "～\ue000ｱ"},
		{"sjis", "\x81\x60\x5c", "〜\\"},
		{"eucjpms", "\x8f\xf5\xa1", "\ue3ac"},
		{"gb18030", "\x95\x32\x82\x36\x84\x31\xa4\x37\x81\x35\xf4\x37", "𠀀\ufffd\ue7c7"},
		{"koi8u", "\xa4", "є"},
	} {
		got, err := mustNew(t, c.charset).AppendUTF8(nil, []byte(c.in))
		if err != nil || string(got) != c.want {
			t.Errorf("%s %x: %q, want %q: %v", c.charset, c.in, got, c.want, err)
		}
	}
}

func TestWhatIsNoCharacterIsRefused(t *testing.T) {
	for _, c := range []struct{ charset, in, want string }{
		{"ascii", "ab\x80", "charset ascii: bytes 0x80 at offset 2"},
		{"utf8mb4", "a\xed\xa0\x80", "charset utf8mb4: bytes 0xEDA080 at offset 1"},
		{"utf8mb3", "aé😀", "charset utf8mb3: bytes 0xF09F9880 at offset 3"},
		{"binary", "\xff", "charset binary: bytes 0xFF at offset 0"},
		{"ucs2", "\x00a\xd8\x3d", "charset ucs2: bytes 0xD83D at offset 2"},
		{"ucs2", "a", "offset 0"},
		{"ucs2", "\xd8\x3d\xde\x00", "charset ucs2: bytes 0xD83DDE00 at offset 0"},
		{"ujis", "\xa9\xb0\xa1", "charset ujis: bytes 0xA9B0A1 at offset 0"},
		{"utf16", "\xd8\x3d", "charset utf16: bytes 0xD83D at offset 0"},
		{"utf16", "\xd8\x3d\x00a", "0xD83D0061 at offset 0"},
		{"utf16le", "a\x00\x3d", "charset utf16le: bytes 0x3D at offset 2"},
		{"utf32", "\x00\x00\xd8\x00", "charset utf32"},
		{"utf32", "\x00\x11\x00\x00", "charset utf32"},
		{"utf32", "\x80\x00\x00\x41", "charset utf32"},
		{"utf32", "\x00\x00", "charset utf32"},
		{"cp1250", "a\x81b", "charset cp1250: bytes 0x8162 at offset 1"},
		{"tis620", "\xa0", "charset tis620: bytes 0xA0"},
		{"swe7", "\x80", "charset swe7: bytes 0x80"},
		{"gbk", "a\x81", "charset gbk: bytes 0x81 at offset 1"},
		{"gbk", "\x80", "charset gbk"},
		{"big5", "\xa2\xcc", "charset big5"},
		{"gb18030", "\xe3\x32\x9a\x36", "charset gb18030"},
		{"ujis", "\x8f\xa1", "charset ujis"},
	} {
		dst := []byte("kept")
		got, err := mustNew(t, c.charset).AppendUTF8(dst, []byte(c.in))
		var e *Error
		if !errors.As(err, &e) || e.Charset != c.charset || !strings.Contains(err.Error(), c.want) || string(got) != "kept" {
			t.Errorf("%s %x: %q, %v; want %s", c.charset, c.in, got, err, c.want)
		}
	}
	if _, err := New("klingon"); err == nil || !strings.Contains(err.Error(), "klingon") {
		t.Errorf("klingon: %v", err)
	}
	if _, err := New("../x"); err == nil {
		t.Error("a charset is a path")
	}
}

func TestCollations(t *testing.T) {
	for id, want := range map[uint64]string{
		8: "latin1", 33: "utf8mb3", 45: "utf8mb4", 63: "binary", 255: "utf8mb4", 309: "utf8mb4", 248: "gb18030", 76: "utf8mb3",
		323: "utf8mb4", 1069: "utf8mb4", 2048: "utf8mb3", 2304: "utf8mb4", 2560: "ucs2", 2816: "utf16", 3072: "utf32", 0: "", 9999: "",
	} {
		if got, ok := OfCollation(id); got != want || ok != (want != "") {
			t.Errorf("collation %d is of %q, want %q", id, got, want)
		}
	}
	var d Decoders
	a, err := d.OfCollation(28)
	if err != nil {
		t.Fatal(err)
	}
	if b, err := d.Of("gbk"); err != nil || a != b {
		t.Errorf("gbk is made twice: %v", err)
	}
	if _, err := d.OfCollation(9999); err == nil || !strings.Contains(err.Error(), "9999") {
		t.Errorf("unknown collation: %v", err)
	}
	// Every collation has a decoder.
	for id := range uint64(4096) {
		if _, ok := OfCollation(id); ok {
			if _, err := d.OfCollation(id); err != nil {
				t.Errorf("collation %d: %v", id, err)
			}
		}
	}
}

// TestFastPathAllocatesNothing holds for text that is ASCII, or UTF-8 already, given room.
func TestFastPathAllocatesNothing(t *testing.T) {
	dst := make([]byte, 0, 256)
	for _, charset := range []string{"utf8mb4", "utf8mb3", "ascii", "latin1", "gbk", "sjis", "utf16", "swe7"} {
		d, src := mustNew(t, charset), bytes.Repeat([]byte("word"), 20)
		if n := testing.AllocsPerRun(100, func() { dst, _ = d.AppendUTF8(dst[:0], src) }); n != 0 {
			t.Errorf("%s: %v allocations", charset, n)
		}
	}
}

func charsets() []string {
	return strings.Fields(`armscii8 ascii big5 binary cp1250 cp1251 cp1256 cp1257 cp850 cp852 cp866 cp932 dec8 eucjpms euckr gb18030
		gb2312 gbk geostd8 greek hebrew hp8 keybcs2 koi8r koi8u latin1 latin2 latin5 latin7 macce macroman sjis swe7 tis620
		ucs2 ujis utf16 utf16le utf32 utf8mb3 utf8mb4`)
}

func TestDecodingPiecesIsDecodingTheWhole(t *testing.T) {
	var ds Decoders
	rapid.Check(t, func(t *rapid.T) {
		charset := rapid.SampledFrom(charsets()).Draw(t, "charset")
		d, err := ds.Of(charset)
		if err != nil {
			t.Fatal(err)
		}
		a := rapid.SliceOfN(rapid.Byte(), 0, 12).Draw(t, "a")
		b := rapid.SliceOfN(rapid.Byte(), 0, 12).Draw(t, "b")
		outA, errA := d.AppendUTF8(nil, a)
		outB, errB := d.AppendUTF8(nil, b)
		whole, err := d.AppendUTF8(nil, slices.Concat(a, b))
		if errA == nil && errB == nil && (err != nil || string(whole) != string(outA)+string(outB)) {
			t.Fatalf("%s: %q and %q, together %q: %v", charset, outA, outB, whole, err)
		}
		if !utf8.Valid(whole) {
			t.Fatalf("%s: %x", charset, whole)
		}
	})
}

func FuzzAppendUTF8(f *testing.F) {
	f.Add(uint8(0), []byte("a\x81\x40"))
	var ds Decoders
	names := charsets()
	f.Fuzz(func(t *testing.T, which uint8, src []byte) {
		charset := names[int(which)%len(names)]
		d, err := ds.Of(charset)
		if err != nil {
			t.Fatal(err)
		}
		out, err := d.AppendUTF8([]byte("a"), src)
		var e *Error
		if !utf8.Valid(out) || err != nil && (string(out) != "a" || !errors.As(err, &e) || e.Offset >= len(src)) {
			t.Fatalf("%s: %x, %v", charset, out, err)
		}
	})
}
