package event

import "strconv"

// Days and microseconds count from 1970-01-01 in the proleptic Gregorian calendar; year 0 is 1 BC.
const (
	usPerSecond = 1_000_000
	usPerMinute = 60 * usPerSecond
	usPerHour   = 60 * usPerMinute
	usPerDay    = 24 * usPerHour
	msPerDay    = usPerDay / 1000

	daysPerEra   = 146_097 // 400 years
	epochFromEra = 719_468 // days from 0000-03-01 to 1970-01-01
)

// daysFromCivil counts in years that begin in March, so that the leap day is a year's last.
func daysFromCivil(year int64, month, day int64) int64 {
	if month <= 2 {
		year--
		month += 12
	}
	era := floorDiv(year, 400)
	yearOfEra := year - era*400
	dayOfYear := (153*(month-3)+2)/5 + day - 1
	return era*daysPerEra + yearOfEra*365 + yearOfEra/4 - yearOfEra/100 + dayOfYear - epochFromEra
}

func civilFromDays(days int64) (year, month, day int64) {
	days += epochFromEra
	era := floorDiv(days, daysPerEra)
	dayOfEra := days - era*daysPerEra
	yearOfEra := (dayOfEra - dayOfEra/1460 + dayOfEra/36524 - dayOfEra/(daysPerEra-1)) / 365
	dayOfYear := dayOfEra - (365*yearOfEra + yearOfEra/4 - yearOfEra/100)
	m := (5*dayOfYear + 2) / 153
	day = dayOfYear - (153*m+2)/5 + 1
	month = m + 3
	year = yearOfEra + era*400
	if month > 12 {
		month -= 12
		year++
	}
	return year, month, day
}

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

func daysInMonth(year, month int64) int64 {
	switch month {
	case 2:
		if year%4 == 0 && (year%100 != 0 || year%400 == 0) {
			return 29
		}
		return 28
	case 4, 6, 9, 11:
		return 30
	}
	return 31
}

// maxYearDigits covers Postgres' last date, in year 5874897, and Debezium's sentinels.
const maxYearDigits = 9

// parseYMD reads YYYY-MM-DD, the year with four digits or more; the day of the month is checked by newDay.
func parseYMD(b []byte) (y, m, d int64, rest []byte, ok bool) {
	n := 0
	for n < len(b) && isDigit(b[n]) {
		y = y*10 + int64(b[n]-'0')
		if n++; n > maxYearDigits {
			return 0, 0, 0, nil, false
		}
	}
	if n < 4 || (n > 4 && b[0] == '0') || len(b) < n+6 || b[n] != '-' || b[n+3] != '-' {
		return 0, 0, 0, nil, false
	}
	m, okM := twoDigits(b[n+1:])
	d, okD := twoDigits(b[n+4:])
	return y, m, d, b[n+6:], okM && okD
}

func newDay(y, m, d int64) (int64, bool) {
	if m < 1 || m > 12 || d < 1 || d > daysInMonth(y, m) {
		return 0, false
	}
	return daysFromCivil(y, m, d), true
}

func twoDigits(b []byte) (int64, bool) {
	if len(b) < 2 || !isDigit(b[0]) || !isDigit(b[1]) {
		return 0, false
	}
	return int64(b[0]-'0')*10 + int64(b[1]-'0'), true
}

// parseHMS reads HH:MM:SS with an optional fraction of microseconds, up to 24:00:00. canonical refuses a fraction that
// ends in zeros.
func parseHMS(b []byte, canonical bool) (us int64, rest []byte, ok bool) {
	if len(b) < 8 || b[2] != ':' || b[5] != ':' {
		return 0, nil, false
	}
	h, ok1 := twoDigits(b)
	m, ok2 := twoDigits(b[3:])
	sec, ok3 := twoDigits(b[6:])
	if !ok1 || !ok2 || !ok3 || m > 59 || sec > 59 {
		return 0, nil, false
	}
	fraction, rest, ok := parseFraction(b[8:], canonical)
	us = h*usPerHour + m*usPerMinute + sec*usPerSecond + fraction
	return us, rest, ok && us <= usPerDay
}

func parseFraction(b []byte, canonical bool) (us int64, rest []byte, ok bool) {
	if len(b) == 0 || b[0] != '.' {
		return 0, b, true
	}
	b = b[1:]
	n := 0
	for n < len(b) && isDigit(b[n]) {
		digit := int64(b[n] - '0')
		if n < 6 {
			us = us*10 + digit
		} else if digit != 0 || canonical {
			return 0, nil, false
		}
		n++
	}
	if n == 0 || (canonical && b[n-1] == '0') {
		return 0, nil, false
	}
	for i := n; i < 6; i++ {
		us *= 10
	}
	return us, b[n:], true
}

// appendDate writes the source's form; bc tells that " BC" is due at the end of the whole value.
func appendDate(dst []byte, days int64) (out []byte, bc bool) {
	y, m, d := civilFromDays(days)
	if bc = y <= 0; bc {
		y = 1 - y
	}
	dst = appendPadded(dst, y, 4)
	return appendMonthDay(dst, m, d), bc
}

// appendISODate writes Java's form: a sign before years outside 0 to 9999.
func appendISODate(dst []byte, days int64) []byte {
	y, m, d := civilFromDays(days)
	switch {
	case y < 0:
		dst = append(dst, '-')
		y = -y
	case y > 9999:
		dst = append(dst, '+')
	}
	dst = appendPadded(dst, y, 4)
	return appendMonthDay(dst, m, d)
}

// parseISODate reads what appendISODate writes.
func parseISODate(b []byte) (days int64, rest []byte, ok bool) {
	neg := len(b) > 0 && b[0] == '-'
	if neg || (len(b) > 0 && b[0] == '+') {
		b = b[1:]
	}
	y, m, d, rest, ok := parseYMD(b)
	if !ok {
		return 0, nil, false
	}
	if neg {
		y = -y
	}
	days, ok = newDay(y, m, d)
	return days, rest, ok
}

func appendMonthDay(dst []byte, m, d int64) []byte {
	return append(dst, '-', byte('0'+m/10), byte('0'+m%10), '-', byte('0'+d/10), byte('0'+d%10))
}

func appendPadded(dst []byte, v int64, width int) []byte {
	digits := 1
	for rest := v; rest >= 10; rest /= 10 {
		digits++
	}
	for ; digits < width; digits++ {
		dst = append(dst, '0')
	}
	return strconv.AppendInt(dst, v, 10)
}

// appendHMS writes HH:MM:SS and digits of the fraction: exactly that many, or with -1 as many as are needed.
func appendHMS(dst []byte, us int64, digits int) []byte {
	h, m, sec := us/usPerHour, us/usPerMinute%60, us/usPerSecond%60
	dst = append(dst, byte('0'+h/10), byte('0'+h%10), ':', byte('0'+m/10), byte('0'+m%10), ':',
		byte('0'+sec/10), byte('0'+sec%10))
	return appendFraction(dst, us%usPerSecond, digits)
}

func appendFraction(dst []byte, us int64, digits int) []byte {
	if digits == 0 || (digits < 0 && us == 0) {
		return dst
	}
	n := 6
	if digits > 0 {
		n = min(digits, 6)
	}
	dst = append(dst, '.')
	for unit, i := int64(usPerSecond/10), 0; i < n; i++ {
		dst = append(dst, byte('0'+us/unit%10))
		unit /= 10
	}
	for digits < 0 && dst[len(dst)-1] == '0' {
		dst = dst[:len(dst)-1]
	}
	return dst
}
