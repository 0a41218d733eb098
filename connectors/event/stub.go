// Package event is the change event: envelope, key, position header, table schema, and their encoders and decoders.
package event

// ---- Values ----

// State of a column value. Invariant 6: Absent is not Null.
type State uint8

const (
	Absent State = iota // the source did not send it (unchanged TOAST)
	Null
	Text // Datum.Text holds the source's canonical text
)

// Datum is one column value in the source's text form under fixed session settings (DateStyle ISO,
// IntervalStyle postgres, extra_float_digits 3, TimeZone UTC, bytea_output hex, client_encoding UTF8).
type Datum struct {
	State State
	Text  []byte
}

// Row has one Datum per Schema column. A nil Row is absent as a whole (no before image).
type Row []Datum

// ---- Schema ----

// Column describes one column as the source has it.
type Column struct {
	Name     string   `json:"name"`
	Type     string   `json:"type"` // as the source prints it with modifiers: numeric(10,2), timestamp(3) without time zone, public.mood
	Kind     string   `json:"kind"` // encoder family: int16,int32,int64,float32,float64,bool,numeric,date,time,timetz,timestamp,timestamptz,interval,bytes,bit,uuid,json,enum,array,text,...
	OID      uint32   `json:"oid,omitempty"`
	Modifier int32    `json:"modifier"`       // typmod, -1 none
	Elem     string   `json:"elem,omitempty"` // Kind of an array's elements
	ElemOID  uint32   `json:"elemOid,omitempty"`
	Enum     []string `json:"enum,omitempty"` // labels in sort order
	NotNull  bool     `json:"notNull,omitempty"`
	Key      int      `json:"key,omitempty"` // 1-based place in the record key; 0: not part of it
}

// Schema is one version of a table. ID is a fingerprint of the rest: the same table always has the same ID.
type Schema struct {
	ID       uint64   `json:"id"`
	Source   string   `json:"source"` // postgresql
	Database string   `json:"db"`
	Schema   string   `json:"schema"`
	Table    string   `json:"table"`
	Columns  []Column `json:"columns"`
}

// ---- Position header ----

// PositionHeader is the record header that carries Position on every change record and tombstone.
const PositionHeader = "rowtrail.position"

// Position places a record in its source. Order and CollectionOrder count from 1 inside a source transaction, densely:
// Order over all of its events, CollectionOrder over those of this table. A tombstone repeats its delete's numbers.
// Order 0 marks an initial-load row; Commit is then the load's consistent point.
type Position struct {
	Commit          uint64 // Postgres commit LSN
	Order           uint64
	CollectionOrder uint64
	CommitTime      int64    // microseconds since 1970 UTC; for the initial load, when its snapshot was taken
	Schema          uint64   // Schema.ID
	Absent          []uint16 // columns of the after image that are Absent, ascending
}

func (p Position) Append(dst []byte) []byte    { panic("stub") }
func ParsePosition(b []byte) (Position, error) { panic("stub") }

// ---- Encoding (connectors) ----

// Op is a Debezium operation.
type Op byte

const (
	OpCreate   Op = 'c'
	OpUpdate   Op = 'u'
	OpDelete   Op = 'd'
	OpRead     Op = 'r'
	OpTruncate Op = 't'
	OpMessage  Op = 'm'
)

// Options are Debezium's representation settings by their names.
type Options struct {
	SchemasEnable            bool   // schemas.enable
	DecimalHandling          string // decimal.handling.mode: precise, double, string
	TimePrecision            string // time.precision.mode
	IntervalHandling         string // interval.handling.mode: string (default here: lossless), numeric
	BinaryHandling           string // binary.handling.mode
	HstoreHandling           string // hstore.handling.mode
	UnavailableValue         string // unavailable.value.placeholder
	Version, Connector, Name string // source block: version, connector (postgresql), topic.prefix
	Database                 string
}

// Meta is what one event says about its place in the source.
type Meta struct {
	TsMs        int64 // processing time, ms
	SourceTsUs  int64 // commit time, us since 1970
	TxID        uint32
	LSN         uint64 // of this change
	LastCommit  uint64 // commit LSN of the previous transaction, for source.sequence
	Snapshot    string // "", "true", "first", "last", ...
	Origin      string
	OriginLSN   uint64
	Transaction *Transaction // provide.transaction.metadata
}

// Transaction is the event's transaction block.
type Transaction struct {
	ID                          string
	TotalOrder, CollectionOrder uint64
}

// Encoder turns rows of one schema version into Debezium JSON. Not safe for concurrent use; it appends to dst
// and allocates nothing per row in steady state.
type Encoder struct{}

func NewEncoder(s *Schema, opts Options) (*Encoder, error) { panic("stub") }

// AppendKey writes the record key; ok is false when the table has no key columns (the key is then null).
func (e *Encoder) AppendKey(dst []byte, row Row) (out []byte, ok bool, err error) { panic("stub") }
func (e *Encoder) AppendValue(dst []byte, op Op, before, after Row, m *Meta) ([]byte, error) {
	panic("stub")
}

// ---- Decoding (sinks, state) ----

// Change is a decoded event with the values in the source's text form again.
type Change struct {
	Op            Op
	Before, After Row // nil when the event has none
	SourceTsMs    int64
	LSN           uint64
	TxID          uint32
}

// Decoder reads events of one schema version back: Encoder then Decoder gives the same Row for every value
// that is not refused.
type Decoder struct{}

func NewDecoder(s *Schema, opts Options) (*Decoder, error) { panic("stub") }

// Decode reads a record's value; pos tells which columns are Absent. The result is valid until the next call.
func (d *Decoder) Decode(value []byte, pos Position) (Change, error) { panic("stub") }

// DecodeKey reads a record's key into a Row with only the key columns present.
func (d *Decoder) DecodeKey(key []byte) (Row, error) { panic("stub") }

// ---- Transaction topic ----

// TransactionEnd is the END record of the transaction topic: {"status":"END","id":"<txid>:<lsn>","event_count":n,
// "data_collections":[{"data_collection":"public.orders","event_count":n}],"ts_ms":...}. Its record has a PositionHeader too
// (Order 0, Schema 0), so that a reader never parses ids.
type TransactionEnd struct {
	Status      string            `json:"status"`
	ID          string            `json:"id"`
	EventCount  int64             `json:"event_count"`
	Collections []CollectionCount `json:"data_collections"`
	TsMs        int64             `json:"ts_ms"`
}

// CollectionCount is one table's share of a transaction.
type CollectionCount struct {
	Collection string `json:"data_collection"`
	Count      int64  `json:"event_count"`
}
