package binlog

import "encoding/binary"

const digitsPerWord = 9

// decimalBytes is how many bytes a group of fewer than 9 digits takes.
func decimalBytes(digits int) int { return (digits + 1) / 2 }

func decimalSize(precision, scale int) int {
	whole := precision - scale
	return whole/digitsPerWord*4 + decimalBytes(whole%digitsPerWord) + scale/digitsPerWord*4 + decimalBytes(scale%digitsPerWord)
}

// appendDecimal writes a DECIMAL with all its fraction digits. Its bytes are groups of nine digits, big-endian, the first group
// shorter and the last too; the first bit is the sign, and a negative number's bits are inverted.
func appendDecimal(dst, b []byte, precision, scale int) ([]byte, error) {
	if len(b) != decimalSize(precision, scale) || len(b) == 0 {
		return dst, ErrTruncated
	}
	var mask uint32
	if b[0]&0x80 == 0 {
		mask = 0xffffffff
		dst = append(dst, '-')
	}
	first := true
	group := func(digits int) (uint32, error) {
		n := 4
		if digits < digitsPerWord {
			n = decimalBytes(digits)
		}
		var v uint32
		if n == 4 {
			v = binary.BigEndian.Uint32(b)
		} else {
			for _, c := range b[:n] {
				v = v<<8 | uint32(c)
			}
		}
		if first {
			v ^= 1 << (8*n - 1)
			first = false
		}
		v ^= mask
		if n < 4 {
			v &= 1<<(8*n) - 1
		}
		b = b[n:]
		if limit := pow10(digits); v >= limit {
			return 0, malformed("%d in a DECIMAL's group of %d digits", v, digits)
		}
		return v, nil
	}
	whole := precision - scale
	start := len(dst)
	for digits := whole; digits > 0; {
		n := digits % digitsPerWord
		if n == 0 {
			n = digitsPerWord
		}
		v, err := group(n)
		if err != nil {
			return dst, err
		}
		digits -= n
		switch {
		case len(dst) > start:
			dst = appendDigits(dst, v, n)
		case v != 0:
			dst = appendUint(dst, uint64(v))
		}
	}
	if len(dst) == start {
		dst = append(dst, '0')
	}
	if scale == 0 {
		return dst, nil
	}
	dst = append(dst, '.')
	for digits := scale; digits > 0; {
		n := min(digits, digitsPerWord)
		v, err := group(n)
		if err != nil {
			return dst, err
		}
		digits -= n
		dst = appendDigits(dst, v, n)
	}
	return dst, nil
}

func pow10(n int) uint32 {
	v := uint32(1)
	for range n {
		v *= 10
	}
	return v
}

// appendDigits writes v in n digits, at most 9.
func appendDigits(dst []byte, v uint32, n int) []byte {
	var buf [digitsPerWord]byte
	for i := n - 1; i >= 0; i-- {
		buf[i] = '0' + byte(v%10)
		v /= 10
	}
	return append(dst, buf[:n]...)
}
