package event

import (
	"math"
	"strconv"
)

// unit is the representation of a time or timestamp without time zone.
type unit uint8

const (
	unitMicros unit = iota
	unitMillis
	unitMillisLossy // time.precision.mode=connect drops microseconds
	unitISO
	unitNanos
)

// long tells units of 64 bits.
func (u unit) long() bool { return u == unitMicros || u == unitNanos }

// millisDigits is the largest declared precision that milliseconds hold.
const millisDigits = 3

// fractionDigits is a type modifier's number of digits; without one it is six.
func fractionDigits(modifier int32) int {
	if modifier < 0 || modifier > 6 {
		return 6
	}
	return int(modifier)
}

// dateCodec carries date: days, with Postgres' own infinities of int32, or ISO.
type dateCodec struct {
	iso  bool
	name string
}

func newDateCodec(mode TimePrecision) dateCodec {
	switch mode {
	case TimeISOString:
		return dateCodec{iso: true, name: "io.debezium.time.IsoDate"}
	case TimeConnect:
		return dateCodec{name: "org.apache.kafka.connect.data.Date"}
	default:
		return dateCodec{name: "io.debezium.time.Date"}
	}
}

func (c dateCodec) encode(dst, text []byte) ([]byte, error) {
	days, inf, ok := parseDate(text)
	switch {
	case !ok:
		return dst, errNotCanonical
	case c.iso && inf != 0:
		return appendInfinity(dst, inf), nil
	case c.iso:
		dst = appendISODate(append(dst, '"'), days)
		return append(dst, 'Z', '"'), nil
	case inf > 0:
		days = math.MaxInt32
	case inf < 0:
		days = math.MinInt32
	}
	return strconv.AppendInt(dst, days, 10), nil
}

// appendInfinity writes the source's word for an infinity in isostring mode.
func appendInfinity(dst []byte, inf int) []byte {
	if inf < 0 {
		return append(dst, `"-infinity"`...)
	}
	return append(dst, `"infinity"`...)
}

// parseDate reads the source's form: 2024-02-29, 0044-03-15 BC, infinity.
func parseDate(text []byte) (days int64, inf int, ok bool) {
	if inf = infinity(text); inf != 0 {
		return 0, inf, true
	}
	y, m, d, rest, ok := parseYMD(text)
	if !ok || y == 0 {
		return 0, 0, false
	}
	switch string(rest) {
	case "":
	case " BC":
		y = 1 - y
	default:
		return 0, 0, false
	}
	days, ok = newDay(y, m, d)
	return days, 0, ok && days < math.MaxInt32
}

func infinity(text []byte) int {
	switch string(text) {
	case "infinity":
		return 1
	case "-infinity":
		return -1
	}
	return 0
}

func (c dateCodec) decode(s *scanner) ([]byte, error) {
	var days int64
	if c.iso {
		b, err := s.str()
		if err != nil || infinity(b) != 0 {
			return b, err
		}
		var rest []byte
		var ok bool
		if days, rest, ok = parseISODate(b); !ok || string(rest) != "Z" {
			return nil, errJSONValue
		}
	} else {
		var err error
		if days, err = s.integer(); err != nil {
			return nil, err
		}
		switch {
		case days == math.MaxInt32:
			return s.own("infinity"), nil
		case days == math.MinInt32:
			return s.own("-infinity"), nil
		case days > math.MaxInt32 || days < math.MinInt32:
			return nil, errJSONValue
		}
	}
	start := len(s.arena)
	var bc bool
	if s.arena, bc = appendDate(s.arena, days); bc {
		s.arena = append(s.arena, " BC"...)
	}
	return s.since(start), nil
}

func (c dateCodec) unavailable(placeholder) []byte { return nil }

func (c dateCodec) connect() connectType {
	if c.iso {
		return connectType{typ: "string", name: c.name, version: 1}
	}
	return connectType{typ: "int32", name: c.name, version: 1}
}

// timeCodec carries time without time zone, up to 24:00:00.
type timeCodec struct {
	unit unit
	name string
}

func newTimeCodec(modifier int32, mode TimePrecision) timeCodec {
	switch {
	case mode == TimeISOString:
		return timeCodec{unitISO, "io.debezium.time.IsoTime"}
	case mode == TimeConnect:
		return timeCodec{unitMillisLossy, "org.apache.kafka.connect.data.Time"}
	case mode == TimeNanoseconds:
		return timeCodec{unitNanos, "io.debezium.time.NanoTime"}
	case mode == TimeAdaptive && fractionDigits(modifier) <= millisDigits:
		return timeCodec{unitMillis, "io.debezium.time.Time"}
	}
	return timeCodec{unitMicros, "io.debezium.time.MicroTime"}
}

func (c timeCodec) encode(dst, text []byte) ([]byte, error) {
	us, rest, ok := parseHMS(text, true)
	if !ok || len(rest) != 0 {
		return dst, errNotCanonical
	}
	switch c.unit {
	case unitISO:
		dst = appendHMS(append(dst, '"'), us, -1)
		return append(dst, 'Z', '"'), nil
	case unitMillis:
		if us%1000 != 0 {
			return dst, errNotCanonical
		}
		us /= 1000
	case unitMillisLossy:
		us /= 1000
	case unitNanos:
		us *= 1000
	}
	return strconv.AppendInt(dst, us, 10), nil
}

func (c timeCodec) decode(s *scanner) ([]byte, error) {
	var us int64
	if c.unit == unitISO {
		b, err := s.str()
		if err != nil {
			return nil, err
		}
		var rest []byte
		var ok bool
		if us, rest, ok = parseHMS(b, false); !ok || string(rest) != "Z" {
			return nil, errJSONValue
		}
	} else {
		v, err := s.integer()
		if err != nil {
			return nil, err
		}
		if us, err = c.unit.micros(v); err != nil || us < 0 {
			return nil, errJSONValue
		}
	}
	if us > usPerDay {
		return nil, errJSONValue
	}
	start := len(s.arena)
	s.arena = appendHMS(s.arena, us, -1)
	return s.since(start), nil
}

func (timeCodec) unavailable(placeholder) []byte { return nil }

func (c timeCodec) connect() connectType {
	switch c.unit {
	case unitISO:
		return connectType{typ: "string", name: c.name, version: 1}
	case unitMicros, unitNanos:
		return connectType{typ: "int64", name: c.name, version: 1}
	}
	return connectType{typ: "int32", name: c.name, version: 1}
}

// micros is a number of a unit of a time in microseconds, within what a time of any source can be.
func (u unit) micros(v int64) (int64, error) {
	const most = maxTimeHours * usPerHour
	switch {
	case u == unitNanos && v%1000 != 0:
		return 0, errJSONValue
	case u == unitNanos:
		v /= 1000
	case v <= -most || v >= most:
		return 0, errJSONValue
	case u != unitMicros:
		v *= 1000
	}
	if v <= -most || v >= most {
		return 0, errJSONValue
	}
	return v, nil
}

// timeTZCodec carries time with time zone with its own offset: 13:45:30.5+02 as 13:45:30.5+02:00.
type timeTZCodec struct{}

func (timeTZCodec) encode(dst, text []byte) ([]byte, error) {
	us, offset, ok := parseHMS(text, true)
	if !ok || !validOffset(offset) {
		return dst, errNotCanonical
	}
	dst = appendHMS(append(dst, '"'), us, -1)
	if string(offset) == "+00" {
		return append(dst, 'Z', '"'), nil
	}
	dst = append(dst, offset...)
	if len(offset) == len("+02") {
		dst = append(dst, ":00"...)
	}
	return append(dst, '"'), nil
}

// validOffset takes +HH, +HH:MM or +HH:MM:SS as the source prints them: parts that are zero at the end are left out.
func validOffset(b []byte) bool {
	if len(b) == 0 || (b[0] != '+' && b[0] != '-') || string(b) == "-00" {
		return false
	}
	if _, ok := twoDigits(b[1:]); !ok {
		return false
	}
	for b = b[3:]; len(b) > 0; b = b[3:] {
		if len(b) != 3 && len(b) != 6 {
			return false
		}
		v, ok := twoDigits(b[1:])
		if !ok || b[0] != ':' || v > 59 || (len(b) == 3 && v == 0) {
			return false
		}
	}
	return true
}

func (timeTZCodec) decode(s *scanner) ([]byte, error) {
	b, err := s.str()
	if err != nil {
		return nil, err
	}
	us, offset, ok := parseHMS(b, false)
	if !ok {
		return nil, errJSONValue
	}
	start := len(s.arena)
	s.arena = appendHMS(s.arena, us, -1)
	mark := len(s.arena)
	if string(offset) == "Z" {
		s.arena = append(s.arena, "+00"...)
	} else {
		if len(offset) == len("+02:00") && string(offset[3:]) == ":00" {
			offset = offset[:3]
		}
		s.arena = append(s.arena, offset...)
	}
	if !validOffset(s.arena[mark:]) {
		return nil, errJSONValue
	}
	return s.since(start), nil
}

func (timeTZCodec) unavailable(placeholder) []byte { return nil }

func (timeTZCodec) connect() connectType {
	return connectType{typ: "string", name: "io.debezium.time.ZonedTime", version: 1}
}
