package event

import (
	"encoding/hex"
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

// Debezium's handling modes by name. The first of each is the default.
const (
	DecimalPrecise DecimalHandling = "precise"
	DecimalDouble  DecimalHandling = "double"
	DecimalString  DecimalHandling = "string"

	TimeAdaptive             TimePrecision = "adaptive"
	TimeAdaptiveMicroseconds TimePrecision = "adaptive_time_microseconds"
	TimeMicroseconds         TimePrecision = "microseconds"
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
)

// DefaultUnavailableValue stands for a value that the source did not send.
const DefaultUnavailableValue = "__debezium_unavailable_value"

// SourcePostgres is Schema.Source and source.connector of Postgres.
const SourcePostgres = "postgresql"

// Options are Debezium's representation settings by their names; the zero value is the default of each.
type Options struct {
	SchemasEnable    bool             // schemas.enable
	DecimalHandling  DecimalHandling  // decimal.handling.mode
	TimePrecision    TimePrecision    // time.precision.mode
	IntervalHandling IntervalHandling // interval.handling.mode
	BinaryHandling   BinaryHandling   // binary.handling.mode
	HstoreHandling   HstoreHandling   // hstore.handling.mode
	UnavailableValue string           // unavailable.value.placeholder; "hex:..." gives its bytes

	Version   string // source.version
	Connector string // source.connector; default postgresql
	Name      string // source.name: topic.prefix
	Database  string // source.db
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
}

// Format returns the representation with defaults filled in.
func (o Options) Format() Format {
	return Format{
		Schemas: o.SchemasEnable, Decimal: o.DecimalHandling, Time: o.TimePrecision,
		Interval: o.IntervalHandling, Binary: o.BinaryHandling, Hstore: o.HstoreHandling,
	}.withDefaults()
}

// Validate refuses unknown and unsupported modes by the name of their property.
func (o Options) Validate() error {
	if err := o.Format().validate(); err != nil {
		return err
	}
	_, err := newPlaceholder(o.UnavailableValue)
	return err
}

func (f Format) withDefaults() Format {
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
		TimeISOString, TimeConnect); err != nil {
		return err
	}
	if err := oneOf("interval.handling.mode", f.Interval, IntervalString, IntervalNumeric); err != nil {
		return err
	}
	if err := oneOf("binary.handling.mode", f.Binary, BinaryBytes, BinaryBase64, BinaryBase64URLSafe, BinaryHex); err != nil {
		return err
	}
	return oneOf("hstore.handling.mode", f.Hstore, HstoreJSON, HstoreMap)
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
