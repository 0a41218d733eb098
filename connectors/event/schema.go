package event

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/rowtrail/rowtrail/log/fields"
)

// Column describes one column as the source has it.
type Column struct {
	Name     string   `json:"name"`
	Type     string   `json:"type"` // as the source prints it with modifiers: numeric(10,2), timestamp(3) without time zone, public.mood
	Kind     Kind     `json:"kind"`
	OID      uint32   `json:"oid,omitempty"`
	Modifier int32    `json:"modifier"`       // typmod (of the elements for an array), -1 none
	Elem     Kind     `json:"elem,omitempty"` // Kind of an array's elements
	ElemOID  uint32   `json:"elemOid,omitempty"`
	Enum     []string `json:"enum,omitempty"` // labels in sort order, also of an array's elements
	NotNull  bool     `json:"notNull,omitempty"`
	Key      int      `json:"key,omitempty"` // 1-based place in the record key; 0: not part of it

	// What follows is empty when the source does not tell.

	Number  int     `json:"number,omitempty"`  // of the column in its table: kept over a rename, never used again
	Missing *string `json:"missing,omitempty"` // value, as the source prints it, of rows that are older than the column
	Default bool    `json:"default,omitempty"` // the source fills the column by itself, and Missing is not known

	// Of MySQL and MariaDB alone. Modifier is then the number of fraction digits, bits, dimensions, characters or bytes that the
	// type declares, or Postgres' typmod of the same DECIMAL.

	Unsigned  bool    `json:"unsigned,omitempty"`
	Charset   string  `json:"charset,omitempty"`
	Collation string  `json:"collation,omitempty"`
	SRID      *uint32 `json:"srid,omitempty"` // that a geometry must have; nil: any
	Generated bool    `json:"generated,omitempty"`
	Invisible bool    `json:"invisible,omitempty"`
}

func (c *Column) ofBinlog() bool {
	return c.Unsigned || c.Charset != "" || c.Collation != "" || c.SRID != nil || c.Generated || c.Invisible
}

// Schema is one version of a table. ID is a fingerprint of the rest, columns in order: the same table always has the same ID.
type Schema struct {
	ID       uint64
	Source   string // SourcePostgres, SourceMySQL or SourceMariaDB
	Database string
	Schema   string // of MySQL and MariaDB the database
	Table    string
	Format   Format // how values are written, so that a reader needs no settings
	Columns  []Column
	// Table's identity at the source; a table of the same name that replaced it has another one. 0: not known. Numbers of columns
	// compare only within it.
	Identity uint32
}

// ErrSchema tells that a stored schema cannot be read.
var ErrSchema = errors.New("malformed table schema")

// NewSchema checks a table version and gives it its ID.
func NewSchema(opts Options, schema, table string, columns []Column) (*Schema, error) {
	return NewSchemaOf(opts, 0, schema, table, columns)
}

// NewSchemaOf is NewSchema for a table whose identity at the source is known.
func NewSchemaOf(opts Options, identity uint32, schema, table string, columns []Column) (*Schema, error) {
	s := &Schema{
		Source: orDefault(opts.Connector, SourcePostgres), Database: opts.Database,
		Schema: schema, Table: table, Format: opts.Format(), Columns: columns, Identity: identity,
	}
	if fromBinlog(s.Source) {
		s.Database = schema
	}
	if err := s.check(); err != nil {
		return nil, err
	}
	s.ID = s.fingerprint()
	return s, nil
}

// Collection is the table's name as Debezium writes it: public.orders, or database.table of MySQL and MariaDB.
func (s *Schema) Collection() string { return s.Schema + "." + s.Table }

// KeyColumns returns the indexes of the key columns in key order.
func (s *Schema) KeyColumns() []int {
	var key []int
	for place := 1; ; place++ {
		found := false
		for i := range s.Columns {
			if s.Columns[i].Key == place {
				key = append(key, i)
				found = true
			}
		}
		if !found {
			return key
		}
	}
}

// Lossy names the columns whose representation can lose part of a value, because the settings ask for it.
func (s *Schema) Lossy() []string {
	var names []string
	for i := range s.Columns {
		kind := s.Columns[i].Kind
		if kind == KindArray {
			kind = s.Columns[i].Elem
		}
		fine := s.Columns[i].Modifier < 0 || s.Columns[i].Modifier > 3
		switch {
		case kind == KindInterval && s.Format.Interval == IntervalNumeric,
			(kind == KindTime || kind == KindTimestamp || kind == KindMySQLTime || kind == KindMySQLDateTime) &&
				s.Format.Time == TimeConnect && fine,
			(kind == KindMySQLDate || kind == KindMySQLDateTime || kind == KindMySQLTimestamp) && s.Format.ZeroDate == ZeroDateDebezium:
			names = append(names, s.Columns[i].Name)
		}
	}
	return names
}

func (s *Schema) check() error {
	if s.Table == "" {
		return errors.New("check schema: the table has no name")
	}
	if len(s.Columns) > maxColumns {
		return fmt.Errorf("check schema %s: %d columns, at most %d are supported", s.Collection(), len(s.Columns), maxColumns)
	}
	if err := s.Format.validate(); err != nil {
		return fmt.Errorf("check schema %s: %w", s.Collection(), err)
	}
	names := make(map[string]bool, len(s.Columns))
	keys := 0
	for i := range s.Columns {
		c := &s.Columns[i]
		if names[c.Name] {
			return fmt.Errorf("check schema %s: column %q occurs twice", s.Collection(), c.Name)
		}
		names[c.Name] = true
		if c.Key > 0 {
			keys++
		}
	}
	if got := len(s.KeyColumns()); got != keys {
		return fmt.Errorf("check schema %s: key columns are not numbered 1 to %d", s.Collection(), keys)
	}
	return nil
}

// fingerprint hashes every field, each with its length, in a fixed order.
func (s *Schema) fingerprint() uint64 {
	var b []byte
	str := func(v string) { b = fields.AppendBytes(b, v) }
	num := func(v int64) { b = binary.AppendVarint(b, v) }
	flag := func(v bool) {
		if v {
			b = append(b, 1)
		} else {
			b = append(b, 0)
		}
	}
	traced := s.Identity != 0 || slices.ContainsFunc(s.Columns, func(c Column) bool { return c.Number != 0 || c.Missing != nil || c.Default })
	// Each set of fields has a version of its own, so that what was stored before it came keeps its ID.
	binlog := s.Format.BigintUnsigned != "" || s.Format.ZeroDate != "" || slices.ContainsFunc(s.Columns, func(c Column) bool { return c.ofBinlog() })
	traced = traced || binlog
	switch {
	case binlog:
		str("rowtrail.schema.3")
		num(int64(s.Identity))
		str(string(s.Format.BigintUnsigned))
		str(string(s.Format.ZeroDate))
	case traced:
		str("rowtrail.schema.2")
		num(int64(s.Identity))
	default:
		str("rowtrail.schema.1")
	}
	str(s.Source)
	str(s.Database)
	str(s.Schema)
	str(s.Table)
	flag(s.Format.Schemas)
	str(string(s.Format.Decimal))
	str(string(s.Format.Time))
	str(string(s.Format.Interval))
	str(string(s.Format.Binary))
	str(string(s.Format.Hstore))
	num(int64(len(s.Columns)))
	for i := range s.Columns {
		c := &s.Columns[i]
		str(c.Name)
		str(c.Type)
		str(string(c.Kind))
		num(int64(c.OID))
		num(int64(c.Modifier))
		str(string(c.Elem))
		num(int64(c.ElemOID))
		num(int64(len(c.Enum)))
		for _, label := range c.Enum {
			str(label)
		}
		flag(c.NotNull)
		num(int64(c.Key))
		if !traced {
			continue
		}
		num(int64(c.Number))
		if flag(c.Missing != nil); c.Missing != nil {
			str(*c.Missing)
		}
		flag(c.Default)
		if !binlog {
			continue
		}
		flag(c.Unsigned)
		str(c.Charset)
		str(c.Collation)
		if flag(c.SRID != nil); c.SRID != nil {
			num(int64(*c.SRID))
		}
		flag(c.Generated)
		flag(c.Invisible)
	}
	sum := sha256.Sum256(b)
	return binary.BigEndian.Uint64(sum[:8])
}

// schemaJSON is Schema's JSON; the id is hexadecimal, as JSON numbers lose bits above 2^53 in many readers.
type schemaJSON struct {
	ID       string   `json:"id"`
	Source   string   `json:"source"`
	Database string   `json:"db"`
	Schema   string   `json:"schema"`
	Table    string   `json:"table"`
	Format   Format   `json:"format"`
	Columns  []Column `json:"columns"`
	Identity uint32   `json:"identity,omitempty"`
}

// MarshalJSON writes the canonical JSON of the schema topic: fields in fixed order, no spaces, no HTML escapes.
func (s *Schema) MarshalJSON() ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	columns := s.Columns
	if columns == nil {
		columns = []Column{}
	}
	err := enc.Encode(schemaJSON{formatID(s.ID), s.Source, s.Database, s.Schema, s.Table, s.Format, columns, s.Identity})
	if err != nil {
		return nil, fmt.Errorf("encode schema %s: %w", s.Collection(), err)
	}
	return bytes.TrimSuffix(buf.Bytes(), []byte("\n")), nil
}

// UnmarshalJSON reads what MarshalJSON wrote, and checks it.
func (s *Schema) UnmarshalJSON(b []byte) error {
	var j schemaJSON
	if err := json.Unmarshal(b, &j); err != nil {
		return fmt.Errorf("parse schema: %w: %w", ErrSchema, err)
	}
	id, err := parseID(j.ID)
	if err != nil {
		return err
	}
	*s = Schema{id, j.Source, j.Database, j.Schema, j.Table, j.Format, j.Columns, j.Identity}
	if err := s.check(); err != nil {
		return fmt.Errorf("%w: %w", ErrSchema, err)
	}
	if s.fingerprint() != id {
		return fmt.Errorf("parse schema %s: id %s does not match its content: %w", s.Collection(), j.ID, ErrSchema)
	}
	return nil
}

// ParseSchema reads a schema topic's value. The ID is checked against the content.
func ParseSchema(value []byte) (*Schema, error) {
	s := new(Schema)
	if err := s.UnmarshalJSON(value); err != nil {
		return nil, err
	}
	return s, nil
}

// SchemaKey is the schema topic's record key.
type SchemaKey struct {
	Collection string `json:"collection"`
	ID         string `json:"id"` // 16 hexadecimal digits
}

// TopicKey returns the schema's record key in the schema topic.
func (s *Schema) TopicKey() []byte { return AppendSchemaKey(nil, s.Collection(), s.ID) }

// AppendSchemaKey appends the record key that a version of a table has in the schema topic.
func AppendSchemaKey(dst []byte, collection string, id uint64) []byte {
	b := appendString(append(dst, `{"collection":`...), collection)
	b = append(b, `,"id":"`...)
	b = append(b, formatID(id)...)
	return append(b, `"}`...)
}

// ParseSchemaKey reads a schema topic's record key.
func ParseSchemaKey(key []byte) (collection string, id uint64, err error) {
	var k SchemaKey
	if err := json.Unmarshal(key, &k); err != nil {
		return "", 0, fmt.Errorf("parse schema key: %w: %w", ErrSchema, err)
	}
	id, err = parseID(k.ID)
	return k.Collection, id, err
}

func formatID(id uint64) string { return fmt.Sprintf("%016x", id) }

func parseID(s string) (uint64, error) {
	id, err := strconv.ParseUint(s, 16, 64)
	if err != nil || len(s) != 16 {
		return 0, fmt.Errorf("parse schema id %q: %w", s, ErrSchema)
	}
	return id, nil
}
