package event

import (
	"math"
	"strconv"
)

// zeroDates is what stands for a date that no calendar has.
type zeroDates struct {
	mode    ZeroDateHandling
	notNull bool
}

func newZeroDates(c *Column, f Format) zeroDates {
	return zeroDates{mode: orDefault(f.ZeroDate, ZeroDateString), notNull: c.NotNull}
}

// append writes what stands for text; epoch is the JSON of 1970-01-01.
func (z zeroDates) append(dst, text []byte, epoch string) ([]byte, error) {
	switch {
	case z.mode == ZeroDateFail:
		return dst, errZeroDate
	case z.mode == ZeroDateDebezium && z.notNull:
		return append(dst, epoch...), nil
	case z.mode == ZeroDateDebezium:
		return append(dst, "null"...), nil
	}
	dst = append(dst, '"')
	dst = append(dst, text...)
	return append(dst, '"'), nil
}

// epochJSON is 1970-01-01 as a number or as the ISO text.
func epochJSON(iso bool, text string) string {
	if iso {
		return text
	}
	return "0"
}

// parseMySQLDate reads YYYY-MM-DD. real is false for what no calendar has: months and days of zero, 31 days in every month.
func parseMySQLDate(b []byte) (days int64, real bool, rest []byte, ok bool) {
	y, m, d, rest, ok := parseYMD(b)
	if !ok || y > 9999 || m > 12 || d > 31 {
		return 0, false, nil, false
	}
	days, real = newDay(y, m, d)
	return days, real, rest, true
}

// parseMySQLDateTime reads YYYY-MM-DD HH:MM:SS with exactly so many digits of a fraction.
func parseMySQLDateTime(b []byte, digits int) (t timestamp, real, ok bool) {
	days, real, rest, ok := parseMySQLDate(b)
	if !ok || len(rest) == 0 || rest[0] != ' ' || len(rest) != 1+clockWidth(digits) {
		return timestamp{}, false, false
	}
	us, rest, ok := parseHMS(rest[1:], false)
	return timestamp{days: days, us: us}, real, ok && len(rest) == 0 && us < usPerDay
}

// clockWidth is the length of HH:MM:SS with digits of a fraction.
func clockWidth(digits int) int {
	if digits == 0 {
		return len("00:00:00")
	}
	return len("00:00:00.") + digits
}

// hasDigits tells whether digits of a second's fraction say us exactly.
func hasDigits(us int64, digits int) bool {
	return digits >= 6 || us%int64(pow10[6-digits]) == 0
}

// appendMySQLDateTime writes the source's form; false for what its columns cannot hold.
func appendMySQLDateTime(dst []byte, t timestamp, digits int) ([]byte, bool) {
	if y, _, _ := civilFromDays(t.days); y < 0 || y > 9999 || !hasDigits(t.us, digits) {
		return dst, false
	}
	dst = append(appendISODate(dst, t.days), ' ')
	return appendHMS(dst, t.us, digits), true
}

// mysqlDateCodec carries DATE.
type mysqlDateCodec struct {
	dateCodec
	zero zeroDates
}

func (c mysqlDateCodec) encode(dst, text []byte) ([]byte, error) {
	days, real, rest, ok := parseMySQLDate(text)
	switch {
	case !ok || len(rest) != 0:
		return dst, errMySQLText
	case !real:
		return c.zero.append(dst, text, epochJSON(c.iso, `"1970-01-01Z"`))
	case c.iso:
		dst = appendISODate(append(dst, '"'), days)
		return append(dst, 'Z', '"'), nil
	}
	return strconv.AppendInt(dst, days, 10), nil
}

func (c mysqlDateCodec) decode(s *scanner) ([]byte, error) {
	var days int64
	if s.peek() == '"' {
		b, err := s.str()
		if err != nil {
			return nil, err
		}
		var real, ok bool
		var rest []byte
		days, real, rest, ok = parseMySQLDate(b)
		switch {
		case ok && !real && len(rest) == 0:
			return b, nil
		case !c.iso || !ok || !real || string(rest) != "Z":
			return nil, errJSONValue
		}
	} else {
		var err error
		if days, err = s.integer(); err != nil {
			return nil, err
		}
		if y, _, _ := civilFromDays(days); c.iso || days > maxYear*366 || days < -maxYear*366 || y < 0 || y > 9999 {
			return nil, errJSONValue
		}
	}
	start := len(s.arena)
	s.arena = appendISODate(s.arena, days)
	return s.since(start), nil
}

// mysqlDateTimeCodec carries DATETIME(f).
type mysqlDateTimeCodec struct {
	timestampCodec
	zero   zeroDates
	digits int
}

func (c mysqlDateTimeCodec) encode(dst, text []byte) ([]byte, error) {
	t, real, ok := parseMySQLDateTime(text, c.digits)
	switch {
	case !ok:
		return dst, errMySQLText
	case !real:
		return c.zero.append(dst, text, epochJSON(c.unit == unitISO, `"1970-01-01T00:00:00Z"`))
	case c.unit == unitISO:
		return append(t.appendISO(append(dst, '"'), -1), '"'), nil
	case c.unit == unitMicros:
		return strconv.AppendInt(dst, t.days*usPerDay+t.us, 10), nil
	case c.unit == unitNanos:
		v, ok := t.nanos()
		if !ok {
			return dst, errTimeRange
		}
		return strconv.AppendInt(dst, v, 10), nil
	}
	return strconv.AppendInt(dst, t.days*msPerDay+t.us/1000, 10), nil
}

func (c mysqlDateTimeCodec) decode(s *scanner) ([]byte, error) {
	if s.peek() == '"' {
		return s.mysqlDateTime(c.digits, c.unit == unitISO)
	}
	if c.unit == unitISO {
		return nil, errJSONValue
	}
	t, err := c.read(s)
	if err != nil {
		return nil, err
	}
	return s.ownDateTime(t, c.digits)
}

// mysqlDateTime reads an ISO timestamp where that is allowed, or the text of a date that no calendar has.
func (s *scanner) mysqlDateTime(digits int, iso bool) ([]byte, error) {
	b, err := s.str()
	if err != nil {
		return nil, err
	}
	if _, real, ok := parseMySQLDateTime(b, digits); ok && !real {
		return b, nil
	}
	t, ok := parseISOTimestamp(b)
	if !ok || !iso {
		return nil, errJSONValue
	}
	return s.ownDateTime(t, digits)
}

func (s *scanner) ownDateTime(t timestamp, digits int) ([]byte, error) {
	start := len(s.arena)
	var ok bool
	if s.arena, ok = appendMySQLDateTime(s.arena, t, digits); !ok || t.inf != 0 {
		return nil, errJSONValue
	}
	return s.since(start), nil
}

// mysqlTimestampCodec carries TIMESTAMP(f) as ISO in UTC with the column's fraction digits, in every time.precision.mode.
type mysqlTimestampCodec struct {
	zero   zeroDates
	digits int
}

func (c mysqlTimestampCodec) encode(dst, text []byte) ([]byte, error) {
	t, real, ok := parseMySQLDateTime(text, c.digits)
	switch {
	case !ok:
		return dst, errMySQLText
	case !real:
		return c.zero.append(dst, text, `"1970-01-01T00:00:00Z"`)
	}
	return append(t.appendISO(append(dst, '"'), c.digits), '"'), nil
}

func (c mysqlTimestampCodec) decode(s *scanner) ([]byte, error) {
	return s.mysqlDateTime(c.digits, true)
}
func (mysqlTimestampCodec) unavailable(placeholder) []byte { return nil }

func (mysqlTimestampCodec) connect() connectType {
	return connectType{typ: "string", name: "io.debezium.time.ZonedTimestamp", version: 1}
}

// maxTimeHours is beyond MySQL's longest TIME, 838:59:59.
const maxTimeHours = 839

// mysqlTimeCodec carries TIME(f), a signed span of up to 838:59:59, in every mode. As an ISO text, what is not a time of the day is
// written alike: -838:59:59Z.
type mysqlTimeCodec struct {
	timeCodec
	digits int
}

// parseMySQLTime reads -838:59:59.000 with exactly so many digits of a fraction, or with -1 with as many as there are.
func parseMySQLTime(b []byte, digits int) (us int64, ok bool) {
	neg := len(b) > 0 && b[0] == '-'
	if neg {
		b = b[1:]
	}
	n := skipDigits(b, 0)
	if n < 2 || n > 3 || (n == 3 && b[0] == '0') || len(b) < n+len(":00:00") || b[n] != ':' || b[n+3] != ':' {
		return 0, false
	}
	hours := int64(0)
	for _, c := range b[:n] {
		hours = hours*10 + int64(c-'0')
	}
	minutes, okM := twoDigits(b[n+1:])
	seconds, okS := twoDigits(b[n+4:])
	if !okM || !okS || minutes > 59 || seconds > 59 || hours >= maxTimeHours {
		return 0, false
	}
	if b = b[n+6:]; digits >= 0 && len(b) != clockWidth(digits)-clockWidth(0) {
		return 0, false
	}
	fraction, rest, ok := parseFraction(b, false)
	us = hours*usPerHour + minutes*usPerMinute + seconds*usPerSecond + fraction
	if !ok || len(rest) != 0 || (neg && us == 0) {
		return 0, false
	}
	if neg {
		us = -us
	}
	return us, true
}

// appendMySQLTime writes digits of a fraction, or with -1 as many as are needed.
func appendMySQLTime(dst []byte, us int64, digits int) []byte {
	if us < 0 {
		dst = append(dst, '-')
		us = -us
	}
	if hundreds := us / (100 * usPerHour); hundreds > 0 {
		dst = append(dst, byte('0'+hundreds))
		us -= hundreds * 100 * usPerHour
	}
	return appendHMS(dst, us, digits)
}

func (c mysqlTimeCodec) encode(dst, text []byte) ([]byte, error) {
	us, ok := parseMySQLTime(text, c.digits)
	switch {
	case !ok:
		return dst, errMySQLText
	case c.unit == unitISO:
		dst = appendMySQLTime(append(dst, '"'), us, -1)
		return append(dst, 'Z', '"'), nil
	case c.unit == unitMicros:
		return strconv.AppendInt(dst, us, 10), nil
	case c.unit == unitNanos:
		return strconv.AppendInt(dst, us*1000, 10), nil
	}
	ms := us / 1000
	if ms > math.MaxInt32 || ms < math.MinInt32 {
		return dst, errClockRange
	}
	return strconv.AppendInt(dst, ms, 10), nil
}

func (c mysqlTimeCodec) decode(s *scanner) ([]byte, error) {
	var us int64
	if c.unit == unitISO {
		b, err := s.str()
		if err != nil {
			return nil, err
		}
		ok := len(b) > 0 && b[len(b)-1] == 'Z'
		if ok {
			us, ok = parseMySQLTime(b[:len(b)-1], -1)
		}
		if !ok {
			return nil, errJSONValue
		}
	} else {
		v, err := s.integer()
		if err != nil {
			return nil, err
		}
		if us, err = c.unit.micros(v); err != nil {
			return nil, err
		}
	}
	if !hasDigits(us, c.digits) {
		return nil, errJSONValue
	}
	start := len(s.arena)
	s.arena = appendMySQLTime(s.arena, us, c.digits)
	return s.since(start), nil
}

// yearCodec carries YEAR, also 0000, as its number.
type yearCodec struct{}

// validYear: YEAR holds 0000 and 1901 to 2155.
func validYear(y int64) bool { return y == 0 || (y >= 1901 && y <= 2155) }

func (yearCodec) encode(dst, text []byte) ([]byte, error) {
	if len(text) != 4 || skipDigits(text, 0) != 4 {
		return dst, errMySQLText
	}
	y := int64(0)
	for _, c := range text {
		y = y*10 + int64(c-'0')
	}
	if !validYear(y) {
		return dst, errMySQLText
	}
	return strconv.AppendInt(dst, y, 10), nil
}

func (yearCodec) decode(s *scanner) ([]byte, error) {
	y, err := s.integer()
	if err != nil {
		return nil, err
	}
	if !validYear(y) {
		return nil, errJSONValue
	}
	start := len(s.arena)
	s.arena = appendPadded(s.arena, y, 4)
	return s.since(start), nil
}

func (yearCodec) unavailable(placeholder) []byte { return nil }
func (yearCodec) connect() connectType {
	return connectType{typ: "int32", name: "io.debezium.time.Year", version: 1}
}
