package charset

import (
	"unicode/utf8"

	"golang.org/x/text/encoding/simplifiedchinese"
)

const (
	gb18030BMP   = 39420  // sequences of four bytes, from 0x81308130 on, that stand for characters up to U+FFFF
	gb18030Upper = 189000 // the first that stands for U+10000
)

// gb18030Four is the characters of the first gb18030BMP sequences of four bytes.
func gb18030Four() []rune {
	four := make([]rune, gb18030BMP)
	d := simplifiedchinese.GB18030.NewDecoder()
	var out [8]byte
	for i := range four {
		b := []byte{0x81 + byte(i/12600), '0' + byte(i/1260%10), 0x81 + byte(i/10%126), '0' + byte(i%10)}
		d.Reset()
		n, _, _ := d.Transform(out[:], b, true)
		four[i], _ = utf8.DecodeRune(out[:n])
	}
	return four
}

// gb18030Index counts the sequences of four bytes before b; -1 if b is none.
func gb18030Index(b []byte) int {
	if b[0] < 0x81 || b[0] > 0xFE || b[1] < '0' || b[1] > '9' || b[2] < 0x81 || b[2] > 0xFE || b[3] < '0' || b[3] > '9' {
		return -1
	}
	return ((int(b[0]-0x81)*10+int(b[1]-'0'))*126+int(b[2]-0x81))*10 + int(b[3]-'0')
}

func (m *multibyte) gb18030(b []byte) (rune, int) {
	i := gb18030Index(b)
	switch {
	case i >= 0 && i < len(m.four):
		return m.four[i], 4
	case i >= gb18030Upper && i <= gb18030Upper+utf8.MaxRune-0x10000:
		return 0x10000 + rune(i-gb18030Upper), 4
	}
	return 0, 0
}
