package event

import (
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
)

// DecimalHandling is decimal.handling.mode.
type DecimalHandling string

// TimePrecision is time.precision.mode.
type TimePrecision string

// IntervalHandling is interval.handling.mode.
type IntervalHandling string

// BinaryHandling is binary.handling.mode.
type BinaryHandling string

// HstoreHandling is hstore.handling.mode.
type HstoreHandling string

// BigintUnsignedHandling is bigint.unsigned.handling.mode.
type BigintUnsignedHandling string

// ZeroDateHandling is zero.date.handling.mode, Rowtrail's own: what stands for dates that no calendar has, such as 0000-00-00,
// 2023-00-15 and 2023-02-31.
type ZeroDateHandling string

// Debezium's handling modes by name. The first of each is the default; of times it is adaptive_time_microseconds for MySQL and
// MariaDB.
const (
	DecimalPrecise DecimalHandling = "precise"
	DecimalDouble  DecimalHandling = "double"
	DecimalString  DecimalHandling = "string"

	TimeAdaptive             TimePrecision = "adaptive"
	TimeAdaptiveMicroseconds TimePrecision = "adaptive_time_microseconds"
	TimeMicroseconds         TimePrecision = "microseconds"
	TimeNanoseconds          TimePrecision = "nanoseconds" // refuses timestamps before 1677 and after 2262
	TimeISOString            TimePrecision = "isostring"
	TimeConnect              TimePrecision = "connect" // milliseconds: lossy

	IntervalString  IntervalHandling = "string"
	IntervalNumeric IntervalHandling = "numeric" // microseconds, a month is 30.4375 days: lossy

	BinaryBytes         BinaryHandling = "bytes"
	BinaryBase64        BinaryHandling = "base64"
	BinaryBase64URLSafe BinaryHandling = "base64-url-safe"
	BinaryHex           BinaryHandling = "hex"

	HstoreJSON HstoreHandling = "json"
	HstoreMap  HstoreHandling = "map"

	BigintUnsignedPrecise BigintUnsignedHandling = "precise"
	BigintUnsignedLong    BigintUnsignedHandling = "long" // refuses what is above 2^63-1, where Debezium wraps

	ZeroDateString   ZeroDateHandling = "string" // the source's text in a JSON string
	ZeroDateFail     ZeroDateHandling = "fail"
	ZeroDateDebezium ZeroDateHandling = "debezium" // null, or the epoch where the column is NOT NULL: lossy
)

// DefaultUnavailableValue stands for a value that the source did not send.
const DefaultUnavailableValue = "__debezium_unavailable_value"

// Sources: Schema.Source, Options.Connector and source.connector.
const (
	SourcePostgres = "postgresql"
	SourceMySQL    = "mysql"
	SourceMariaDB  = "mariadb"
)

// fromBinlog tells whether a source's events come from a binlog.
func fromBinlog(source string) bool { return source == SourceMySQL || source == SourceMariaDB }

// Options are Debezium's representation settings by their names; the zero value is the default of each.
type Options struct {
	SchemasEnable    bool             // schemas.enable
	DecimalHandling  DecimalHandling  // decimal.handling.mode
	TimePrecision    TimePrecision    // time.precision.mode
	IntervalHandling IntervalHandling // interval.handling.mode
	BinaryHandling   BinaryHandling   // binary.handling.mode
	HstoreHandling   HstoreHandling   // hstore.handling.mode
	UnavailableValue string           // unavailable.value.placeholder; "hex:..." gives its bytes

	BigintUnsigned BigintUnsignedHandling // bigint.unsigned.handling.mode; MySQL and MariaDB only
	ZeroDate       ZeroDateHandling       // zero.date.handling.mode; MySQL and MariaDB only

	Version   string // source.version
	Connector string // source.connector: SourcePostgres (the default), SourceMySQL or SourceMariaDB
	Name      string // source.name: topic.prefix
	Database  string // source.db; of MySQL and MariaDB it is the table's
}

// Format is the part of Options that a reader needs to decode values. It is part of each Schema, so that a
// sink needs no settings of the connector, and a changed setting is a new schema version.
type Format struct {
	Schemas  bool             `json:"schemas"`
	Decimal  DecimalHandling  `json:"decimal"`
	Time     TimePrecision    `json:"time"`
	Interval IntervalHandling `json:"interval"`
	Binary   BinaryHandling   `json:"binary"`
	Hstore   HstoreHandling   `json:"hstore"`

	BigintUnsigned BigintUnsignedHandling `json:"bigintUnsigned,omitempty"` // empty for Postgres, as ZeroDate is
	ZeroDate       ZeroDateHandling       `json:"zeroDate,omitempty"`
}

// Format returns the representation with defaults filled in.
func (o Options) Format() Format {
	return Format{
		Schemas: o.SchemasEnable, Decimal: o.DecimalHandling, Time: o.TimePrecision,
		Interval: o.IntervalHandling, Binary: o.BinaryHandling, Hstore: o.HstoreHandling,
		BigintUnsigned: o.BigintUnsigned, ZeroDate: o.ZeroDate,
	}.withDefaults(o.Connector)
}

// Validate refuses unknown and unsupported modes by the name of their property.
func (o Options) Validate() error {
	if err := o.Format().validate(); err != nil {
		return err
	}
	if !fromBinlog(o.Connector) && (o.BigintUnsigned != "" || o.ZeroDate != "") {
		return errors.New("check bigint.unsigned.handling.mode and zero.date.handling.mode: they are settings of MySQL and MariaDB; " +
			"leave them out")
	}
	_, err := newPlaceholder(o.UnavailableValue)
	return err
}

func (f Format) withDefaults(source string) Format {
	if fromBinlog(source) {
		f.Time = orDefault(f.Time, TimeAdaptiveMicroseconds)
		f.BigintUnsigned = orDefault(f.BigintUnsigned, BigintUnsignedPrecise)
		f.ZeroDate = orDefault(f.ZeroDate, ZeroDateString)
	}
	f.Decimal = orDefault(f.Decimal, DecimalPrecise)
	f.Time = orDefault(f.Time, TimeAdaptive)
	f.Interval = orDefault(f.Interval, IntervalString)
	f.Binary = orDefault(f.Binary, BinaryBytes)
	f.Hstore = orDefault(f.Hstore, HstoreJSON)
	return f
}

func orDefault[T ~string](v, def T) T {
	if v == "" {
		return def
	}
	return v
}

func (f Format) validate() error {
	if err := oneOf("decimal.handling.mode", f.Decimal, DecimalPrecise, DecimalDouble, DecimalString); err != nil {
		return err
	}
	if err := oneOf("time.precision.mode", f.Time, TimeAdaptive, TimeAdaptiveMicroseconds, TimeMicroseconds,
		TimeNanoseconds, TimeISOString, TimeConnect); err != nil {
		return err
	}
	if err := oneOf("interval.handling.mode", f.Interval, IntervalString, IntervalNumeric); err != nil {
		return err
	}
	if err := oneOf("binary.handling.mode", f.Binary, BinaryBytes, BinaryBase64, BinaryBase64URLSafe, BinaryHex); err != nil {
		return err
	}
	if err := oneOf("hstore.handling.mode", f.Hstore, HstoreJSON, HstoreMap); err != nil {
		return err
	}
	if err := oneOf("bigint.unsigned.handling.mode", orDefault(f.BigintUnsigned, BigintUnsignedPrecise),
		BigintUnsignedPrecise, BigintUnsignedLong); err != nil {
		return err
	}
	return oneOf("zero.date.handling.mode", orDefault(f.ZeroDate, ZeroDateString), ZeroDateString, ZeroDateFail, ZeroDateDebezium)
}

// Options are the settings that write a schema's events, for the topic prefix name.
func (s *Schema) Options(name string) Options {
	f := s.Format
	return Options{
		SchemasEnable: f.Schemas, DecimalHandling: f.Decimal, TimePrecision: f.Time, IntervalHandling: f.Interval,
		BinaryHandling: f.Binary, HstoreHandling: f.Hstore, BigintUnsigned: f.BigintUnsigned, ZeroDate: f.ZeroDate,
		Connector: s.Source, Name: name, Database: s.Database,
	}
}

func oneOf[T ~string](property string, v T, known ...T) error {
	names := make([]string, len(known))
	for i, k := range known {
		if v == k {
			return nil
		}
		names[i] = string(k)
	}
	return fmt.Errorf("check %s: %q is not supported; use one of %s", property, string(v), strings.Join(names, ", "))
}

// placeholder is unavailable.value.placeholder as text and as bytes.
type placeholder struct {
	text, raw []byte
}

func newPlaceholder(v string) (placeholder, error) {
	if v == "" {
		v = DefaultUnavailableValue
	}
	raw := []byte(v)
	if h, ok := strings.CutPrefix(v, "hex:"); ok {
		b, err := hex.DecodeString(h)
		if err != nil {
			return placeholder{}, fmt.Errorf("check unavailable.value.placeholder: what follows hex: is not hexadecimal: %w", err)
		}
		raw = b
	}
	return placeholder{text: []byte(strings.ToValidUTF8(string(raw), "\uFFFD")), raw: raw}, nil
}
