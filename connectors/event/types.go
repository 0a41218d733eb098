package event

import "bytes"

// State of a column value. Invariant 6: Absent is not Null.
type State uint8

// States of a column value.
const (
	Absent State = iota // the source did not send it (unchanged TOAST, or not part of the old key)
	Null
	Text // Datum.Text holds the source's canonical text
)

// Datum is one column value in the source's text form. Postgres' is what a session prints under DateStyle ISO, IntervalStyle
// postgres, extra_float_digits 3, TimeZone UTC, bytea_output hex, lc_monetary C, client_encoding UTF8.
//
// That of MySQL and MariaDB is what a session prints under SET NAMES utf8mb4 and time_zone '+00:00', with every fraction digit of
// the column, but for what printing would lose: FLOAT and DOUBLE are the shortest text that reads back to the same bits, as
// ECMAScript writes numbers; BIT(n) is n binary digits; binary strings, geometries (SRID and WKB, as stored) and vectors are \x and
// lower-case hexadecimal. No text is padded with zeros for ZEROFILL.
type Datum struct {
	State State
	Text  []byte
}

// Row has one Datum per Schema column. A nil Row is absent as a whole (no before image).
type Row []Datum

// Clone copies a row that a Decoder will use again.
func (r Row) Clone() Row {
	if r == nil {
		return nil
	}
	out := make(Row, len(r))
	for i, d := range r {
		out[i] = Datum{State: d.State, Text: bytes.Clone(d.Text)}
	}
	return out
}

// Op is a Debezium operation.
type Op byte

// Debezium's operations.
const (
	OpCreate   Op = 'c'
	OpUpdate   Op = 'u'
	OpDelete   Op = 'd'
	OpRead     Op = 'r'
	OpTruncate Op = 't'
	OpMessage  Op = 'm'
)

// Kind is the encoder family of a column.
type Kind string

// Kinds. A type that is none of the others is KindText: its canonical text in a JSON string.
const (
	KindBool        Kind = "bool"
	KindInt16       Kind = "int16"
	KindInt32       Kind = "int32"
	KindInt64       Kind = "int64"
	KindOID         Kind = "oid"
	KindFloat32     Kind = "float32"
	KindFloat64     Kind = "float64"
	KindNumeric     Kind = "numeric"
	KindMoney       Kind = "money"
	KindDate        Kind = "date"
	KindTime        Kind = "time"
	KindTimeTZ      Kind = "timetz"
	KindTimestamp   Kind = "timestamp"
	KindTimestampTZ Kind = "timestamptz"
	KindInterval    Kind = "interval"
	KindBytes       Kind = "bytes"
	KindBit         Kind = "bit"
	KindUUID        Kind = "uuid"
	KindJSON        Kind = "json"
	KindXML         Kind = "xml"
	KindEnum        Kind = "enum"
	KindHstore      Kind = "hstore"
	KindLtree       Kind = "ltree"
	KindTSVector    Kind = "tsvector"
	KindArray       Kind = "array"
	KindText        Kind = "text"

	// Kinds of MySQL and MariaDB alone. Of the others they use int16, int32, int64, float32, float64, numeric (with Postgres'
	// modifier), bytes, uuid, json, enum and text.
	KindUint64         Kind = "uint64"
	KindMySQLBit       Kind = "mysql.bit"
	KindMySQLDate      Kind = "mysql.date"
	KindMySQLTime      Kind = "mysql.time"
	KindMySQLDateTime  Kind = "mysql.datetime"
	KindMySQLTimestamp Kind = "mysql.timestamp"
	KindYear           Kind = "year"
	KindSet            Kind = "set"
	KindGeometry       Kind = "geometry"
	KindPoint          Kind = "point"
	KindVector         Kind = "vector"
)

// Meta is what one event says about its place in the source.
type Meta struct {
	TsMs        int64        // processing time, ms
	SourceTsUs  int64        // commit time, us since 1970
	TxID        uint32       // 0: none
	LSN         uint64       // of this change
	LastCommit  uint64       // commit LSN of the previous transaction, for source.sequence; 0: none
	Snapshot    string       // "" (as "false"), "true", "first", "last", ...
	Origin      string       // "": none
	OriginLSN   uint64       // 0: none
	Transaction *Transaction // provide.transaction.metadata
	Binlog      Binlog       // MySQL and MariaDB, which have none of TxID, LSN, LastCommit, Origin and OriginLSN
}

// Binlog is an event's place in a binlog.
type Binlog struct {
	ServerID uint32
	GTID     string // "": none
	File     string
	Pos      uint64 // of the event that holds the row
	Row      int    // from 0, in that event
	Thread   uint64 // 0: not known
	Query    string // include.query; "": none
}

// Transaction is the event's transaction block.
type Transaction struct {
	ID                          string
	TotalOrder, CollectionOrder uint64
}

// Change is a decoded event with the values in the source's text form again.
type Change struct {
	Op            Op
	Before, After Row // nil when the event has none
	SourceTsMs    int64
	LSN           uint64
	TxID          uint32
}
