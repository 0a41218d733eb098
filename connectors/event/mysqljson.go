package event

import "strconv"

// AppendMySQLJSONDouble writes a double as MySQL does in JSON: the shortest digits, an exponent below 1e-15 and for whole numbers
// of more than 15 places, and ".0" at other whole numbers, so that they stay doubles.
func AppendMySQLJSONDouble(dst []byte, f float64) []byte {
	var buf [32]byte
	e := strconv.AppendFloat(buf[:0], f, 'e', -1, 64)
	if e[0] == '-' {
		dst = append(dst, '-')
		e = e[1:]
	}
	at := 1
	for at < len(e) && e[at] != 'e' {
		at++
	}
	if at == len(e) { // NaN or infinite, which JSON cannot hold
		return append(dst, e...)
	}
	var exp int
	for _, c := range e[at+2:] {
		exp = exp*10 + int(c-'0')
	}
	if e[at+1] == '-' {
		exp = -exp
	}
	var digits [20]byte
	d := append(digits[:0], e[0])
	if at > 2 {
		d = append(d, e[2:at]...)
	}
	point := exp + 1
	switch {
	case point > 15 && len(d) <= point || point < -14:
		dst = append(dst, d[0])
		if len(d) > 1 {
			dst = append(append(dst, '.'), d[1:]...)
		}
		return strconv.AppendInt(append(dst, 'e'), int64(exp), 10)
	case point <= 0:
		dst = append(dst, '0')
		if len(d) == 1 && d[0] == '0' {
			return append(dst, ".0"...)
		}
		dst = append(dst, '.')
		for range -point {
			dst = append(dst, '0')
		}
		return append(dst, d...)
	case len(d) <= point:
		dst = append(dst, d...)
		for range point - len(d) {
			dst = append(dst, '0')
		}
		return append(dst, ".0"...)
	}
	dst = append(append(dst, d[:point]...), '.')
	return append(dst, d[point:]...)
}
