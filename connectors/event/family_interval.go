package event

import (
	"math"
	"math/bits"
	"strconv"
)

// maxIntervalField bounds what is parsed; Postgres' months, days and hours fit with room.
const maxIntervalField = math.MaxInt64 / usPerHour

// usPerMonth is Debezium's: a twelfth of 365.25 days.
const usPerMonth = 2_629_800 * usPerSecond

// interval holds Postgres' three independent parts.
type interval struct {
	months, days, us int64
	inf              int
}

// parseInterval reads IntervalStyle postgres: 1 year 2 mons -3 days +04:05:06.7.
func parseInterval(text []byte) (v interval, ok bool) {
	if v.inf = infinity(text); v.inf != 0 {
		return v, true
	}
	b := text
	for len(b) > 0 {
		neg := b[0] == '-'
		if neg || b[0] == '+' {
			b = b[1:]
		}
		n, digits := intervalField(b)
		if digits == 0 || digits == len(b) {
			return v, false
		}
		if b[digits] == ':' {
			v.us, ok = intervalClock(n, b[digits:])
			if neg {
				v.us = -v.us
			}
			break
		}
		if neg {
			n = -n
		}
		if b, ok = v.addUnit(n, b[digits:]); !ok {
			return v, false
		}
	}
	// What prints differently was not canonical.
	var buf [80]byte
	return v, ok && string(v.append(buf[:0])) == string(text)
}

// intervalField reads the digits of one part; none when it is out of range.
func intervalField(b []byte) (n int64, digits int) {
	for digits < len(b) && isDigit(b[digits]) {
		if n = n*10 + int64(b[digits]-'0'); n > maxIntervalField {
			return 0, 0
		}
		digits++
	}
	return n, digits
}

func (v *interval) addUnit(n int64, b []byte) (rest []byte, ok bool) {
	end := 1
	for end < len(b) && b[end] != ' ' {
		end++
	}
	switch string(b[:end]) {
	case " year", " years":
		v.months += n * 12
	case " mon", " mons":
		v.months += n
	case " day", " days":
		v.days += n
	default:
		return nil, false
	}
	if end < len(b) {
		end++
	}
	return b[end:], true
}

func intervalClock(hours int64, b []byte) (int64, bool) {
	if len(b) < 6 || b[0] != ':' || b[3] != ':' {
		return 0, false
	}
	m, ok1 := twoDigits(b[1:])
	sec, ok2 := twoDigits(b[4:])
	us, rest, ok3 := parseFraction(b[6:], true)
	if !ok1 || !ok2 || !ok3 || len(rest) != 0 || m > 59 || sec > 59 {
		return 0, false
	}
	us += m*usPerMinute + sec*usPerSecond
	if hours*usPerHour > math.MaxInt64-us {
		return 0, false
	}
	return hours*usPerHour + us, true
}

// append writes IntervalStyle postgres. A part after a negative one shows its sign.
func (v interval) append(dst []byte) []byte {
	switch {
	case v.inf > 0:
		return append(dst, "infinity"...)
	case v.inf < 0:
		return append(dst, "-infinity"...)
	}
	start := len(dst)
	negative := false
	part := func(n int64, word string) {
		if n == 0 {
			return
		}
		if len(dst) > start {
			dst = append(dst, ' ')
		}
		if negative && n > 0 {
			dst = append(dst, '+')
		}
		dst = strconv.AppendInt(dst, n, 10)
		dst = append(dst, word...)
		if n != 1 {
			dst = append(dst, 's')
		}
		negative = n < 0
	}
	part(v.months/12, " year")
	part(v.months%12, " mon")
	part(v.days, " day")
	if v.us == 0 && len(dst) > start {
		return dst
	}
	if len(dst) > start {
		dst = append(dst, ' ')
	}
	us := uint64(v.us)
	if v.us < 0 {
		dst = append(dst, '-')
		us = -us
	} else if negative {
		dst = append(dst, '+')
	}
	dst = appendPadded(dst, int64(us/usPerHour), 2)
	rest := int64(us % usPerHour)
	m, sec := rest/usPerMinute, rest/usPerSecond%60
	dst = append(dst, ':', byte('0'+m/10), byte('0'+m%10), ':', byte('0'+sec/10), byte('0'+sec%10))
	return appendFraction(dst, rest%usPerSecond, -1)
}

func newIntervalCodec(mode IntervalHandling) codec {
	if mode == IntervalNumeric {
		return intervalMicrosCodec{}
	}
	return intervalISOCodec{}
}

// intervalISOCodec carries P1Y2M3DT4H5M6.78S, all parts always there, each with its own sign.
type intervalISOCodec struct{}

func (intervalISOCodec) encode(dst, text []byte) ([]byte, error) {
	v, ok := parseInterval(text)
	if !ok {
		return dst, errNotCanonical
	}
	if v.inf != 0 {
		return appendInfinity(dst, v.inf), nil
	}
	dst = append(dst, '"', 'P')
	dst = append(strconv.AppendInt(dst, v.months/12, 10), 'Y')
	dst = append(strconv.AppendInt(dst, v.months%12, 10), 'M')
	dst = append(strconv.AppendInt(dst, v.days, 10), 'D', 'T')
	dst = append(strconv.AppendInt(dst, v.us/usPerHour, 10), 'H')
	dst = append(strconv.AppendInt(dst, v.us/usPerMinute%60, 10), 'M')
	rest := v.us % usPerMinute
	if rest < 0 {
		dst = append(dst, '-')
		rest = -rest
	}
	dst = strconv.AppendInt(dst, rest/usPerSecond, 10)
	dst = appendFraction(dst, rest%usPerSecond, -1)
	return append(dst, 'S', '"'), nil
}

func (intervalISOCodec) decode(s *scanner) ([]byte, error) {
	b, err := s.str()
	if err != nil {
		return nil, err
	}
	if infinity(b) != 0 {
		return b, nil
	}
	v, ok := parseISOInterval(b)
	if !ok {
		return nil, errJSONValue
	}
	start := len(s.arena)
	s.arena = v.append(s.arena)
	return s.since(start), nil
}

func parseISOInterval(b []byte) (v interval, ok bool) {
	if len(b) == 0 || b[0] != 'P' {
		return v, false
	}
	b = b[1:]
	clock := false
	for len(b) > 0 {
		if b[0] == 'T' && !clock {
			clock, b = true, b[1:]
			continue
		}
		neg := b[0] == '-'
		if neg {
			b = b[1:]
		}
		n, digits := intervalField(b)
		fraction, rest, ok := parseFraction(b[digits:], false)
		if digits == 0 || !ok || len(rest) == 0 || (rest[0] != 'S' && len(rest) != len(b)-digits) {
			return v, false
		}
		if neg {
			n, fraction = -n, -fraction
		}
		if !v.addISO(clock, rest[0], n, fraction) {
			return v, false
		}
		b = rest[1:]
	}
	return v, true
}

func (v *interval) addISO(clock bool, letter byte, n, fraction int64) bool {
	scale := int64(0)
	switch {
	case !clock && letter == 'Y' && n < math.MaxInt32 && n > math.MinInt32:
		v.months += 12 * n
	case !clock && letter == 'M' && n < math.MaxInt32 && n > math.MinInt32:
		v.months += n
	case !clock && letter == 'D':
		v.days += n
	case clock && letter == 'H':
		scale = usPerHour
	case clock && letter == 'M':
		scale = usPerMinute
	case clock && letter == 'S':
		scale = usPerSecond
	default:
		return false
	}
	us, ok1 := mulInt(n, scale)
	sum, ok2 := addInt(v.us, us)
	sum, ok3 := addInt(sum, fraction)
	v.us = sum
	return ok1 && ok2 && ok3
}

func addInt(a, b int64) (int64, bool) {
	sum := a + b
	return sum, (a^sum)&(b^sum) >= 0
}

func (intervalISOCodec) unavailable(placeholder) []byte { return nil }

func (intervalISOCodec) connect() connectType {
	return connectType{typ: "string", name: "io.debezium.time.Interval", version: 1}
}

// intervalMicrosCodec is interval.handling.mode=numeric: one number, in which months and days are no longer apart.
type intervalMicrosCodec struct{}

func (intervalMicrosCodec) encode(dst, text []byte) ([]byte, error) {
	v, ok := parseInterval(text)
	if !ok {
		return dst, errNotCanonical
	}
	months, ok1 := mulInt(v.months, usPerMonth)
	days, ok2 := mulInt(v.days, usPerDay)
	sum, ok3 := addInt(months, days)
	sum, ok4 := addInt(sum, v.us)
	if v.inf != 0 || !ok1 || !ok2 || !ok3 || !ok4 {
		return dst, errIntervalRange
	}
	return strconv.AppendInt(dst, sum, 10), nil
}

func mulInt(a, b int64) (int64, bool) {
	abs := uint64(a)
	if a < 0 {
		abs = -abs
	}
	hi, lo := bits.Mul64(abs, uint64(b))
	return a * b, hi == 0 && lo <= math.MaxInt64
}

func (intervalMicrosCodec) decode(s *scanner) ([]byte, error) {
	us, err := s.integer()
	if err != nil {
		return nil, err
	}
	start := len(s.arena)
	s.arena = interval{us: us}.append(s.arena)
	return s.since(start), nil
}

func (intervalMicrosCodec) unavailable(placeholder) []byte { return nil }

func (intervalMicrosCodec) connect() connectType {
	return connectType{typ: "int64", name: "io.debezium.time.MicroDuration", version: 1}
}
