package event

import (
	"encoding/binary"
	"math/bits"
	"strconv"
)

// chunkDigits decimal digits are converted at a time; 10^18 is the largest power of ten with room to spare in 64 bits.
const chunkDigits = 18

// maxUnscaledBytes bounds a decimal: Postgres has at most 131,072 digits before and 16,383 after the point.
const maxUnscaledBytes = 64 << 10

// maxScale is Postgres' largest display scale.
const maxScale = 16383

//nolint:gochecknoglobals // an immutable table
var pow10 = func() (t [chunkDigits + 1]uint64) {
	t[0] = 1
	for i := 1; i < len(t); i++ {
		t[i] = t[i-1] * 10
	}
	return t
}()

// decimal converts between digits and big-endian two's complement, keeping its scratch space.
type decimal struct {
	limbs  []uint64 // magnitude, least significant first
	digits []byte
	bytes  []byte
}

// splitDecimal takes canonical text apart: no leading zeros, no sign on zero, digits on both sides of a point.
func splitDecimal(text []byte) (neg bool, whole, fraction []byte, ok bool) {
	if len(text) > 0 && text[0] == '-' {
		neg, text = true, text[1:]
	}
	i := 0
	for i < len(text) && isDigit(text[i]) {
		i++
	}
	whole = text[:i]
	if i == 0 || (whole[0] == '0' && i > 1) {
		return neg, nil, nil, false
	}
	if i < len(text) {
		if text[i] != '.' || i+1 == len(text) {
			return neg, nil, nil, false
		}
		fraction = text[i+1:]
		for _, c := range fraction {
			if !isDigit(c) {
				return neg, nil, nil, false
			}
		}
	}
	if neg && allZero(whole) && allZero(fraction) {
		return neg, nil, nil, false
	}
	return neg, whole, fraction, true
}

func allZero(digits []byte) bool {
	for _, c := range digits {
		if c != '0' {
			return false
		}
	}
	return true
}

// unscaled returns the two's complement of the digits, as Java's BigInteger writes it: shortest, with a sign bit.
func (d *decimal) unscaled(neg bool, whole, fraction []byte) []byte {
	if len(whole)+len(fraction) <= chunkDigits {
		v := uint64(0)
		for _, c := range whole {
			v = v*10 + uint64(c-'0')
		}
		for _, c := range fraction {
			v = v*10 + uint64(c-'0')
		}
		n := int64(v)
		if neg {
			n = -n
		}
		d.bytes = binary.BigEndian.AppendUint64(d.bytes[:0], uint64(n))
		return shortest(d.bytes)
	}
	d.limbs = d.limbs[:0]
	d.addDigits(whole)
	d.addDigits(fraction)
	b := append(d.bytes[:0], 0)
	for i := len(d.limbs) - 1; i >= 0; i-- {
		b = binary.BigEndian.AppendUint64(b, d.limbs[i])
	}
	if neg {
		negate(b)
	}
	d.bytes = b
	return shortest(b)
}

func (d *decimal) addDigits(digits []byte) {
	for len(digits) > 0 {
		n := min(chunkDigits, len(digits))
		v := uint64(0)
		for _, c := range digits[:n] {
			v = v*10 + uint64(c-'0')
		}
		digits = digits[n:]
		carry := v
		for i := range d.limbs {
			hi, lo := bits.Mul64(d.limbs[i], pow10[n])
			var c uint64
			d.limbs[i], c = bits.Add64(lo, carry, 0)
			carry = hi + c
		}
		if carry != 0 {
			d.limbs = append(d.limbs, carry)
		}
	}
}

// negate replaces b by its two's complement.
func negate(b []byte) {
	for i := len(b) - 1; i >= 0; i-- {
		b[i] = -b[i]
		if b[i] != 0 {
			for i--; i >= 0; i-- {
				b[i] = ^b[i]
			}
			return
		}
	}
}

func shortest(b []byte) []byte {
	for len(b) > 1 && ((b[0] == 0 && b[1] < 0x80) || (b[0] == 0xff && b[1] >= 0x80)) {
		b = b[1:]
	}
	return b
}

// appendText writes the number that two's complement b and scale stand for in canonical text.
func (d *decimal) appendText(dst, b []byte, scale int) ([]byte, bool) {
	if len(b) == 0 || len(b) > maxUnscaledBytes || scale > maxScale || scale < -maxScale {
		return dst, false
	}
	neg := b[0] >= 0x80
	d.digits = d.digits[:0]
	if len(b) <= 8 {
		v := uint64(0)
		if neg {
			v = ^uint64(0)
		}
		for _, c := range b {
			v = v<<8 | uint64(c)
		}
		if neg {
			v = -v
		}
		d.digits = strconv.AppendUint(d.digits, v, 10)
	} else {
		d.magnitude(b, neg)
		d.popDigits()
	}
	if neg {
		dst = append(dst, '-')
	}
	return appendScaled(dst, d.digits, scale), true
}

func (d *decimal) magnitude(b []byte, neg bool) {
	d.bytes = append(d.bytes[:0], b...)
	if neg {
		negate(d.bytes)
	}
	d.limbs = d.limbs[:0]
	for rest := d.bytes; len(rest) > 0; {
		n := min(8, len(rest))
		v := uint64(0)
		for _, c := range rest[len(rest)-n:] {
			v = v<<8 | uint64(c)
		}
		d.limbs = append(d.limbs, v)
		rest = rest[:len(rest)-n]
	}
}

// popDigits turns limbs into digits by repeated division, then puts the digits in order.
func (d *decimal) popDigits() {
	for len(d.limbs) > 0 {
		if d.limbs[len(d.limbs)-1] == 0 {
			d.limbs = d.limbs[:len(d.limbs)-1]
			continue
		}
		rem := uint64(0)
		for i := len(d.limbs) - 1; i >= 0; i-- {
			d.limbs[i], rem = bits.Div64(rem, d.limbs[i], pow10[chunkDigits])
		}
		for range chunkDigits {
			d.digits = append(d.digits, byte('0'+rem%10))
			rem /= 10
		}
	}
	n := len(d.digits)
	for n > 1 && d.digits[n-1] == '0' {
		n--
	}
	d.digits = d.digits[:n]
	if n == 0 {
		d.digits = append(d.digits, '0')
	}
	for i, j := 0, len(d.digits)-1; i < j; i, j = i+1, j-1 {
		d.digits[i], d.digits[j] = d.digits[j], d.digits[i]
	}
}

func appendScaled(dst, digits []byte, scale int) []byte {
	if scale <= 0 {
		dst = append(dst, digits...)
		if len(digits) == 1 && digits[0] == '0' {
			return dst
		}
		for range -scale {
			dst = append(dst, '0')
		}
		return dst
	}
	if len(digits) <= scale {
		dst = append(dst, '0', '.')
		for range scale - len(digits) {
			dst = append(dst, '0')
		}
		return append(dst, digits...)
	}
	dst = append(dst, digits[:len(digits)-scale]...)
	dst = append(dst, '.')
	return append(dst, digits[len(digits)-scale:]...)
}
