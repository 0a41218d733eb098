package event

import (
	"math"
	"strconv"
)

// Debezium's sentinels for infinite timestamps without time zone; where timestamps are strings it writes the words.
const (
	posInfinityMicros = 9223372036825200000
	negInfinityMicros = -9223372036832400000

	// maxYear is beyond every finite value: Postgres ends in 294276.
	maxYear = 1_000_000
	// maxMicrosDay is the last day that 64-bit microseconds reach in part.
	maxMicrosDay = 106_751_991
	maxMicrosUs  = 14_454_775_807
)

// timestamp is a day and the microseconds in it: Postgres' range is larger than microseconds since 1970 in 64 bits.
type timestamp struct {
	days, us int64
	inf      int
}

// parseTimestamp reads the source's form: 2024-02-29 12:00:00.5, with zone +00 behind it, and " BC" at the end.
func parseTimestamp(text []byte, zone bool) (timestamp, bool) {
	if inf := infinity(text); inf != 0 {
		return timestamp{inf: inf}, true
	}
	y, m, d, rest, ok := parseYMD(text)
	if !ok || y == 0 || len(rest) == 0 || rest[0] != ' ' {
		return timestamp{}, false
	}
	us, rest, ok := parseHMS(rest[1:], true)
	if !ok || us == usPerDay {
		return timestamp{}, false
	}
	if zone {
		if len(rest) < 3 || string(rest[:3]) != "+00" {
			return timestamp{}, false
		}
		rest = rest[3:]
	}
	switch string(rest) {
	case "":
	case " BC":
		y = 1 - y
	default:
		return timestamp{}, false
	}
	days, ok := newDay(y, m, d)
	return timestamp{days: days, us: us}, ok && y < maxYear
}

// append writes the source's form.
func (t timestamp) append(dst []byte, zone bool) []byte {
	switch {
	case t.inf > 0:
		return append(dst, "infinity"...)
	case t.inf < 0:
		return append(dst, "-infinity"...)
	}
	dst, bc := appendDate(dst, t.days)
	dst = append(dst, ' ')
	dst = appendHMS(dst, t.us, -1)
	if zone {
		dst = append(dst, "+00"...)
	}
	if bc {
		dst = append(dst, " BC"...)
	}
	return dst
}

// appendISO writes the ISO form with digits of a second's fraction (-1: as many as needed).
func (t timestamp) appendISO(dst []byte, digits int) []byte {
	dst = appendISODate(dst, t.days)
	dst = append(dst, 'T')
	dst = appendHMS(dst, t.us, digits)
	return append(dst, 'Z')
}

// parseISOTimestamp reads the ISO form in UTC, or an infinity.
func parseISOTimestamp(b []byte) (timestamp, bool) {
	if inf := infinity(b); inf != 0 {
		return timestamp{inf: inf}, true
	}
	days, rest, ok := parseISODate(b)
	if !ok || len(rest) == 0 || rest[0] != 'T' {
		return timestamp{}, false
	}
	us, rest, ok := parseHMS(rest[1:], false)
	if !ok || us == usPerDay || string(rest) != "Z" {
		return timestamp{}, false
	}
	return timestamp{days: days, us: us}, days <= maxYear*366 && days >= -maxYear*366
}

// timestampCodec carries timestamp without time zone.
type timestampCodec struct {
	unit unit
	name string
}

func newTimestampCodec(modifier int32, mode TimePrecision) timestampCodec {
	switch {
	case mode == TimeISOString:
		return timestampCodec{unitISO, "io.debezium.time.IsoTimestamp"}
	case mode == TimeConnect:
		return timestampCodec{unitMillisLossy, "org.apache.kafka.connect.data.Timestamp"}
	case mode == TimeNanoseconds:
		return timestampCodec{unitNanos, "io.debezium.time.NanoTimestamp"}
	case mode != TimeMicroseconds && fractionDigits(modifier) <= millisDigits:
		return timestampCodec{unitMillis, "io.debezium.time.Timestamp"}
	}
	return timestampCodec{unitMicros, "io.debezium.time.MicroTimestamp"}
}

func (c timestampCodec) encode(dst, text []byte) ([]byte, error) {
	t, ok := parseTimestamp(text, false)
	if !ok {
		return dst, errNotCanonical
	}
	switch c.unit {
	case unitISO:
		if t.inf != 0 {
			return appendInfinity(dst, t.inf), nil
		}
		return append(t.appendISO(append(dst, '"'), -1), '"'), nil
	case unitMicros, unitNanos:
		v, ok := t.micros()
		if c.unit == unitNanos {
			v, ok = t.nanos()
		}
		if !ok {
			return dst, errTimeRange
		}
		return strconv.AppendInt(dst, v, 10), nil
	}
	if c.unit == unitMillis && t.us%1000 != 0 {
		return dst, errNotCanonical
	}
	v := t.days*msPerDay + t.us/1000
	switch {
	case t.inf > 0:
		v = posInfinityMicros / 1000
	case t.inf < 0:
		v = negInfinityMicros / 1000
	case v == posInfinityMicros/1000 || v == negInfinityMicros/1000:
		return dst, errTimeRange
	}
	return strconv.AppendInt(dst, v, 10), nil
}

// micros is the 64-bit form; ok is false for what it cannot say without becoming another value.
func (t timestamp) micros() (int64, bool) {
	switch {
	case t.inf > 0:
		return posInfinityMicros, true
	case t.inf < 0:
		return negInfinityMicros, true
	case t.days > maxMicrosDay || t.days < -maxMicrosDay || (t.days == maxMicrosDay && t.us > maxMicrosUs):
		return 0, false
	}
	v := t.days*usPerDay + t.us
	return v, v != posInfinityMicros && v != negInfinityMicros
}

// nanos is micros for nanoseconds, whose infinities are the ends of 64 bits.
func (t timestamp) nanos() (int64, bool) {
	switch {
	case t.inf > 0:
		return math.MaxInt64, true
	case t.inf < 0:
		return math.MinInt64, true
	}
	v, ok := t.micros()
	return v * 1000, ok && v <= math.MaxInt64/1000 && v >= math.MinInt64/1000
}

func (c timestampCodec) decode(s *scanner) ([]byte, error) {
	t, err := c.read(s)
	if err != nil {
		return nil, err
	}
	start := len(s.arena)
	s.arena = t.append(s.arena, false)
	return s.since(start), nil
}

func (c timestampCodec) read(s *scanner) (timestamp, error) {
	if c.unit == unitISO {
		b, err := s.str()
		if err != nil {
			return timestamp{}, err
		}
		t, ok := parseISOTimestamp(b)
		if !ok {
			return timestamp{}, errJSONValue
		}
		return t, nil
	}
	v, err := s.integer()
	if err != nil {
		return timestamp{}, err
	}
	if c.unit == unitNanos {
		switch {
		case v == math.MaxInt64:
			return timestamp{inf: 1}, nil
		case v == math.MinInt64:
			return timestamp{inf: -1}, nil
		case v%1000 != 0:
			return timestamp{}, errJSONValue
		}
		v /= 1000
	}
	perDay, scale := int64(usPerDay), int64(1)
	if !c.unit.long() {
		perDay, scale = msPerDay, 1000
	}
	switch v {
	case posInfinityMicros / scale:
		return timestamp{inf: 1}, nil
	case negInfinityMicros / scale:
		return timestamp{inf: -1}, nil
	}
	days := floorDiv(v, perDay)
	if days > maxYear*366 || days < -maxYear*366 {
		return timestamp{}, errJSONValue
	}
	return timestamp{days: days, us: (v - days*perDay) * scale}, nil
}

func (timestampCodec) unavailable(placeholder) []byte { return nil }

func (c timestampCodec) connect() connectType {
	if c.unit == unitISO {
		return connectType{typ: "string", name: c.name, version: 1}
	}
	return connectType{typ: "int64", name: c.name, version: 1}
}

// timestampTZCodec carries timestamp with time zone as ISO in UTC, its fraction filled up to the column's precision.
type timestampTZCodec struct{ digits int }

func (c timestampTZCodec) encode(dst, text []byte) ([]byte, error) {
	t, ok := parseTimestamp(text, true)
	if !ok {
		return dst, errNotCanonical
	}
	if t.inf != 0 {
		return appendInfinity(dst, t.inf), nil
	}
	dst = t.appendISO(append(dst, '"'), c.width(t.us))
	return append(dst, '"'), nil
}

// width is the column's precision, or more where a value has more.
func (c timestampTZCodec) width(us int64) int {
	unit := int64(usPerSecond)
	for range c.digits {
		unit /= 10
	}
	if us%unit != 0 {
		return -1
	}
	return c.digits
}

func (c timestampTZCodec) decode(s *scanner) ([]byte, error) {
	b, err := s.str()
	if err != nil {
		return nil, err
	}
	t, ok := parseISOTimestamp(b)
	if !ok {
		return nil, errJSONValue
	}
	start := len(s.arena)
	s.arena = t.append(s.arena, true)
	return s.since(start), nil
}

func (timestampTZCodec) unavailable(placeholder) []byte { return nil }

func (timestampTZCodec) connect() connectType {
	return connectType{typ: "string", name: "io.debezium.time.ZonedTimestamp", version: 1}
}
