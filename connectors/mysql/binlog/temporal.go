package binlog

import "encoding/binary"

const secondsPerDay = 86400

func append2(dst []byte, v int) []byte { return append(dst, '0'+byte(v/10%10), '0'+byte(v%10)) }

// AppendDate writes a date as the servers print it; its parts may be zero.
func AppendDate(dst []byte, year, month, day int) []byte {
	dst = append(append2(append2(dst, year/100), year%100), '-')
	return append2(append(append2(dst, month), '-'), day)
}

// AppendClock writes a time of the day or a TIME: hours with two digits or more, and the fraction of a second, given in
// microseconds, with its digits.
func AppendClock(dst []byte, hour, minute, second, micro, digits int) []byte {
	if hour > 99 {
		dst = appendUint(dst, uint64(hour))
	} else {
		dst = append2(dst, hour)
	}
	dst = append2(append(append2(append(dst, ':'), minute), ':'), second)
	return appendFraction(dst, micro, digits)
}

func appendFraction(dst []byte, micro, digits int) []byte {
	if digits == 0 {
		return dst
	}
	dst = appendDigits(append(dst, '.'), uint32(micro), 6)
	return dst[:len(dst)-6+digits]
}

// appendUnix writes a time in UTC. 0 is the zero date: no TIMESTAMP has that value.
func appendUnix(dst []byte, seconds uint32, micro, digits int) []byte {
	if seconds == 0 && micro == 0 {
		return appendFraction(append(dst, "0000-00-00 00:00:00"...), micro, digits)
	}
	days, rest := int(seconds/secondsPerDay), int(seconds%secondsPerDay)
	// Days since 0000-03-01, in eras of 400 years that end with the leap day.
	z := days + 719468
	era := z / 146097
	doe := z % 146097
	yoe := (doe - doe/1460 + doe/36524 - doe/146096) / 365
	doy := doe - (365*yoe + yoe/4 - yoe/100)
	mp := (5*doy + 2) / 153
	day, month, year := doy-(153*mp+2)/5+1, mp+3, yoe+400*era
	if month > 12 {
		month -= 12
		year++
	}
	dst = append(AppendDate(dst, year, month, day), ' ')
	return AppendClock(dst, rest/3600, rest/60%60, rest%60, micro, digits)
}

// micros is a fraction of 1, 2 or 3 bytes in microseconds.
func micros(v uint64, size int) int {
	switch size {
	case 1:
		return int(v) * 10000
	case 2:
		return int(v) * 100
	}
	return int(v)
}

func (c *binding) temporal(dst, raw []byte) ([]byte, error) {
	digits := c.a
	switch c.op {
	case opTimestamp:
		return appendUnix(dst, binary.BigEndian.Uint32(raw), micros(bigEndian(raw[4:]), c.b)%1000000, digits), nil
	case opDatetime:
		v := bigEndian(raw[:5]) ^ 1<<39
		return appendPacked(dst, v, micros(bigEndian(raw[5:]), c.b)%1000000, digits), nil
	case opTime:
		// Whole and fraction are one number, so that negative times sort.
		shift := 8 * c.b
		v := int64(bigEndian(raw)) - 1<<(23+shift)
		if v < 0 {
			dst, v = append(dst, '-'), -v
		}
		whole, part := int(v>>shift), uint64(v)&(1<<shift-1)
		return AppendClock(dst, whole>>12&0x3ff, whole>>6&63, whole&63, micros(part, c.b)%1000000, digits), nil
	case opTimestampOld:
		return appendUnix(dst, binary.LittleEndian.Uint32(raw), 0, 0), nil
	case opDatetimeOld:
		v := binary.LittleEndian.Uint64(raw)
		if v > 99991231235959 {
			return dst, malformed("DATETIME %d", v)
		}
		date, clock := int(v/1000000), int(v%1000000)
		dst = append(AppendDate(dst, date/10000, date/100%100, date%100), ' ')
		return AppendClock(dst, clock/10000, clock/100%100, clock%100, 0, 0), nil
	case opTimeOld:
		v := int32(littleEndian(raw)<<8) >> 8
		if v < 0 {
			dst, v = append(dst, '-'), -v
		}
		return AppendClock(dst, int(v/10000), int(v/100%100), int(v%100), 0, 0), nil
	}
	return c.hires(dst, raw)
}

// hires writes MariaDB's own temporal types with fractions: the number of their units, big-endian.
func (c *binding) hires(dst, raw []byte) ([]byte, error) {
	unit := uint64(1) // microseconds
	for range 6 - c.a {
		unit *= 10
	}
	second := 1000000 / unit
	v := bigEndian(raw)
	switch c.op {
	case opTimestampHires:
		part := bigEndian(raw[4:]) * unit
		if part >= 1000000 {
			return dst, malformed("%d microseconds", part)
		}
		return appendUnix(dst, binary.BigEndian.Uint32(raw), int(part), c.a), nil
	case opTimeHires:
		const limit = 838*3600 + 59*60 + 59 + 1
		t := int64(v) - int64(limit*second)
		if t < 0 {
			dst, t = append(dst, '-'), -t
		}
		micro, s := int(uint64(t)%second*unit), int(uint64(t)/second)
		if s >= limit {
			return dst, malformed("TIME of %d seconds", s)
		}
		return AppendClock(dst, s/3600, s/60%60, s%60, micro, c.a), nil
	}
	micro := int(v % second * unit)
	v /= second
	clock := int(v % secondsPerDay)
	v /= secondsPerDay
	year, month, day := int(v/32/13), int(v/32%13), int(v%32)
	if year > 9999 {
		return dst, malformed("year %d", year)
	}
	dst = append(AppendDate(dst, year, month, day), ' ')
	return AppendClock(dst, clock/3600, clock/60%60, clock%60, micro, c.a), nil
}

// appendPacked writes a date and time whose parts stand in bits.
func appendPacked(dst []byte, v uint64, micro, digits int) []byte {
	ymd, hms := int(v>>17), int(v&(1<<17-1))
	ym := ymd >> 5
	dst = append(AppendDate(dst, ym/13, ym%13, ymd&31), ' ')
	return AppendClock(dst, hms>>12, hms>>6&63, hms&63, micro, digits)
}
