package event

import (
	"errors"
	"fmt"
)

// codec carries one column's values between the source's canonical text and JSON. It may hold scratch space: it serves one
// encoder or one decoder.
type codec interface {
	// encode appends text as JSON, or refuses it.
	encode(dst, text []byte) ([]byte, error)
	// decode reads one JSON value that is not null. The result lies in the scanner's input or arena.
	decode(s *scanner) ([]byte, error)
	// unavailable is the JSON that stands for a value the source did not send; nil when the type has none.
	unavailable(p placeholder) []byte
	// connect is the value's Kafka Connect type.
	connect() connectType
}

// Reasons of refusal. They name the class of a value, never the value.
var (
	errNotCanonical = errors.New("the text is not in the canonical form of its type; check the session settings " +
		"(DateStyle ISO, IntervalStyle postgres, TimeZone UTC, extra_float_digits 3, bytea_output hex, lc_monetary C)")
	errInvalidUTF8 = errors.New("the text is not valid UTF-8; capture from a UTF8 database with client_encoding UTF8")
	errTimeRange   = errors.New("the timestamp is beyond what 64-bit micro- or nanoseconds can say (or equals an infinity's " +
		"sentinel); set time.precision.mode=isostring")
	errClockRange = errors.New("the time does not fit 32-bit milliseconds; set time.precision.mode=adaptive_time_microseconds")
	errZeroDate   = errors.New("no calendar has this date; set zero.date.handling.mode=string to have it as its text, " +
		"or debezium to have null or 1970-01-01 in its place")
	errBigintLong = errors.New("the number is above 2^63-1, which bigint.unsigned.handling.mode=long cannot say; set it to precise")
	errPoint      = errors.New("the value is not a point of two coordinates in well-known binary form")
	errVectorNaN  = errors.New("an element of the vector is a NaN with a payload, which no text says")
	errMySQLText  = errors.New("the text is not in the canonical form of its type, which is a defect of the connector; " +
		"leave the column out with column.exclude.list until it is mended")
	errIntervalRange = errors.New("the interval does not fit 64-bit microseconds; set interval.handling.mode=string")
	errJSONValue     = errors.New("the JSON value does not have the form of the column's type")
	errSyntax        = errors.New("malformed JSON")
	errDepth         = errors.New("nested too deeply")
)

// ValueError tells which value could not be carried, by its place and class.
type ValueError struct {
	Action string // encode or decode
	Table  string
	Column string
	Type   string
	Err    error
}

func (e *ValueError) Error() string {
	return fmt.Sprintf("%s %s column %s (%s): %v", e.Action, e.Table, e.Column, e.Type, e.Err)
}

func (e *ValueError) Unwrap() error { return e.Err }

// newCodec chooses the representation of a column.
func newCodec(c *Column, f Format) (codec, error) {
	if c.Kind == KindArray {
		if c.Elem == KindArray || c.Elem == "" {
			return nil, fmt.Errorf("element kind %q is not supported in an array", c.Elem)
		}
		elem, err := newElementCodec(c, c.Elem, f)
		if err != nil {
			return nil, err
		}
		return newArrayCodec(elem, c.ElemOID), nil
	}
	return newElementCodec(c, c.Kind, f)
}

func newElementCodec(c *Column, kind Kind, f Format) (codec, error) {
	switch kind {
	case KindBool:
		return boolCodec{yes: "t", no: "f"}, nil
	case KindInt16:
		return numberCodec{typ: "int16"}, nil
	case KindInt32:
		return numberCodec{typ: "int32"}, nil
	case KindInt64, KindOID:
		return numberCodec{typ: "int64"}, nil
	case KindFloat32:
		return numberCodec{typ: "float", float: true}, nil
	case KindFloat64:
		return numberCodec{typ: "double", float: true}, nil
	case KindNumeric:
		return newNumericCodec(c.Modifier, f.Decimal), nil
	case KindMoney:
		return newMoneyCodec(f.Decimal), nil
	case KindDate:
		return newDateCodec(f.Time), nil
	case KindTime:
		return newTimeCodec(c.Modifier, f.Time), nil
	case KindTimeTZ:
		return timeTZCodec{}, nil
	case KindTimestamp:
		return newTimestampCodec(c.Modifier, f.Time), nil
	case KindTimestampTZ:
		return timestampTZCodec{digits: fractionDigits(c.Modifier)}, nil
	case KindInterval:
		return newIntervalCodec(f.Interval), nil
	case KindBytes:
		return newBytesCodec(f.Binary), nil
	case KindBit:
		return newBitCodec(c.Modifier), nil
	case KindHstore:
		return newHstoreCodec(f.Hstore), nil
	case KindUUID:
		return textCodec{name: "io.debezium.data.Uuid"}, nil
	case KindJSON:
		return textCodec{name: "io.debezium.data.Json"}, nil
	case KindXML:
		return textCodec{name: "io.debezium.data.Xml"}, nil
	case KindLtree:
		return textCodec{name: "io.debezium.data.Ltree"}, nil
	case KindTSVector:
		return textCodec{name: "io.debezium.data.Tsvector"}, nil
	case KindEnum:
		return textCodec{name: "io.debezium.data.Enum", allowed: c.Enum}, nil
	case KindText:
		return textCodec{}, nil
	}
	return newMySQLCodec(c, kind, f)
}

func newMySQLCodec(c *Column, kind Kind, f Format) (codec, error) {
	switch kind {
	case KindUint64:
		return newUint64Codec(f.BigintUnsigned), nil
	case KindMySQLBit:
		return newMySQLBitCodec(c.Modifier), nil
	case KindMySQLDate:
		return mysqlDateCodec{dateCodec: newDateCodec(f.Time), zero: newZeroDates(c, f)}, nil
	case KindMySQLTime:
		return mysqlTimeCodec{timeCodec: newTimeCodec(c.Modifier, f.Time), digits: fractionDigits(c.Modifier)}, nil
	case KindMySQLDateTime:
		return mysqlDateTimeCodec{timestampCodec: newTimestampCodec(c.Modifier, f.Time), zero: newZeroDates(c, f),
			digits: fractionDigits(c.Modifier)}, nil
	case KindMySQLTimestamp:
		return mysqlTimestampCodec{zero: newZeroDates(c, f), digits: fractionDigits(c.Modifier)}, nil
	case KindYear:
		return yearCodec{}, nil
	case KindSet:
		return textCodec{name: "io.debezium.data.EnumSet", allowed: c.Enum}, nil
	case KindGeometry:
		return &geometryCodec{}, nil
	case KindPoint:
		return &geometryCodec{point: true}, nil
	case KindVector:
		return &vectorCodec{}, nil
	}
	return nil, fmt.Errorf("kind %q is unknown to this build", string(kind))
}
