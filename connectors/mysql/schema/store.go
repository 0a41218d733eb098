package schema

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/rowtrail/rowtrail/connectors/mysql/ddl"
)

// version is that of the records. A build reads its own and older ones.
const version = 1

// ErrRecord tells of a record of the schema history that cannot be read.
var ErrRecord = errors.New("the schema history cannot be read: delete its topic <prefix>.schema-history, and the tables are described from the catalog again")

// Record is one record of the topic <prefix>.schema-history. Value is nil where the key is gone.
type Record struct{ Key, Value []byte }

// recordKey is a record's key: of a table, of a database, or, empty, of the place.
type recordKey struct{ database, table string }

func keyOf(n ddl.TableName) recordKey { return recordKey{n.Database, n.Table} }

type storedKey struct {
	Database string `json:"database,omitempty"`
	Table    string `json:"table,omitempty"`
}

type storedPlace struct {
	Version int   `json:"version"`
	Place   Place `json:"place"`
}

type storedDatabase struct {
	Version   int    `json:"version"`
	Known     bool   `json:"known,omitempty"`
	Charset   string `json:"charset,omitempty"`
	Collation string `json:"collation,omitempty"`
	Complete  bool   `json:"complete,omitempty"`
}

type storedEntry struct {
	Version int          `json:"version"`
	From    Place        `json:"from"`
	Why     string       `json:"unknown,omitempty"`
	Catalog bool         `json:"catalog,omitempty"`
	Tried   bool         `json:"tried,omitempty"`
	Shape   string       `json:"shape,omitempty"`
	Table   *storedTable `json:"description,omitempty"`
}

type storedTable struct {
	Charset   string         `json:"charset,omitempty"`
	Collation string         `json:"collation,omitempty"`
	Comment   string         `json:"comment,omitempty"`
	Columns   []storedColumn `json:"columns"`
	Primary   []string       `json:"primary,omitempty"`
	Unique    []storedUnique `json:"unique,omitempty"`
	Index     []storedUnique `json:"index,omitempty"`
}

type storedUnique struct {
	Name    string   `json:"name"`
	Columns []string `json:"columns"`
	Whole   bool     `json:"whole,omitempty"`
}

type storedColumn struct {
	Name          string   `json:"name"`
	Type          string   `json:"type"`
	Length        int      `json:"length"`
	Scale         int      `json:"scale"`
	Unsigned      bool     `json:"unsigned,omitempty"`
	Zerofill      bool     `json:"zerofill,omitempty"`
	Charset       string   `json:"charset,omitempty"`
	Collation     string   `json:"collation,omitempty"`
	Nullable      bool     `json:"nullable,omitempty"`
	Default       *string  `json:"default,omitempty"`
	DefaultExpr   bool     `json:"defaultExpr,omitempty"`
	OnUpdate      bool     `json:"onUpdate,omitempty"`
	Generated     string   `json:"generated,omitempty"`
	Stored        bool     `json:"stored,omitempty"`
	Invisible     bool     `json:"invisible,omitempty"`
	AutoIncrement bool     `json:"autoIncrement,omitempty"`
	Values        []string `json:"values,omitempty"`
	Comment       string   `json:"comment,omitempty"`
	SRID          string   `json:"srid,omitempty"`
}

// Changes are the records of everything that changed since the last call, none if nothing did. They belong into the log transaction
// that holds the events up to at: a Book that is restored from what was committed is then at the place of the resume point.
func (b *Book) Changes(at Place) ([]Record, error) {
	if len(b.dirty) == 0 {
		return nil, nil
	}
	b.place = at
	b.dirty[recordKey{}] = true
	var out []Record
	for k := range b.dirty {
		r, err := b.record(k)
		if err != nil {
			return nil, err
		}
		out = append(out, r)
	}
	slices.SortFunc(out, func(x, y Record) int { return bytes.Compare(x.Key, y.Key) })
	clear(b.dirty)
	return out, nil
}

func (b *Book) record(k recordKey) (r Record, err error) {
	if r.Key, err = encode(storedKey{k.database, k.table}); err != nil {
		return r, err
	}
	var value any
	switch {
	case k == recordKey{}:
		value = storedPlace{version, b.place}
	case k.table == "":
		d := b.databases[k.database]
		if d == nil {
			return r, nil
		}
		value = storedDatabase{version, d.known, d.defaults.Charset, d.defaults.Collation, d.complete}
	default:
		e := b.tables[ddl.TableName{Database: k.database, Table: k.table}]
		if e == nil {
			return r, nil
		}
		value = storedEntry{version, e.from, e.why, e.catalog, e.tried, e.shape, storeTable(e.table)}
	}
	r.Value, err = encode(value)
	return r, err
}

func encode(v any) ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, fmt.Errorf("encode schema history: %w", err)
	}
	return bytes.TrimSuffix(buf.Bytes(), []byte("\n")), nil
}

// Restore takes one record of the topic, in its order; an empty value is a key that is gone.
func (b *Book) Restore(key, value []byte) error {
	var k storedKey
	if err := strict(key, &k); err != nil {
		return fmt.Errorf("%w: key %q: %w", ErrRecord, key, err)
	}
	var err error
	name := ddl.TableName{Database: k.Database, Table: k.Table}
	switch {
	case len(value) == 0 && k.Table != "":
		delete(b.tables, name)
	case len(value) == 0:
		delete(b.databases, k.Database)
	case k == storedKey{}:
		var s storedPlace
		err = restored(value, &s, &s.Version)
		b.place = s.Place
	case k.Table == "":
		var s storedDatabase
		err = restored(value, &s, &s.Version)
		b.databases[k.Database] = &database{s.Known, ddl.Database{Charset: s.Charset, Collation: s.Collation}, s.Complete}
	default:
		var s storedEntry
		err = restored(value, &s, &s.Version)
		b.tables[name] = &entry{table: s.Table.table(), why: s.Why, from: s.From, catalog: s.Catalog, tried: s.Tried, shape: s.Shape}
	}
	if err != nil {
		return fmt.Errorf("%w: record of %s.%s: %w", ErrRecord, k.Database, k.Table, err)
	}
	return nil
}

// restored reads a value, whose version says whether it can be.
func restored(value []byte, v any, of *int) error {
	if err := json.Unmarshal(value, v); err != nil {
		return err
	}
	if *of < 1 || *of > version {
		return fmt.Errorf("it has version %d, this build knows up to %d: use a newer build", *of, version)
	}
	return strict(value, v)
}

// strict refuses fields that are not known: they would be lost.
func strict(b []byte, v any) error {
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.DisallowUnknownFields()
	return dec.Decode(v)
}

func storeTable(t *ddl.Table) *storedTable {
	if t == nil {
		return nil
	}
	s := &storedTable{Charset: t.Charset, Collation: t.Collation, Comment: t.Comment, Columns: []storedColumn{}, Primary: t.Primary}
	for _, c := range t.Columns {
		s.Columns = append(s.Columns, storedColumn{
			c.Name, c.Type, c.Length, c.Scale, c.Unsigned, c.Zerofill, c.Charset, c.Collation, c.Nullable, c.Default, c.DefaultExpr,
			c.OnUpdate, c.Generated, c.Stored, c.Invisible, c.AutoIncrement, c.Values, c.Comment, c.SRID,
		})
	}
	for _, k := range t.Unique {
		s.Unique = append(s.Unique, storedUnique(k))
	}
	for _, k := range t.Index {
		s.Index = append(s.Index, storedUnique(k))
	}
	return s
}

func (s *storedTable) table() *ddl.Table {
	if s == nil {
		return nil
	}
	t := &ddl.Table{Charset: s.Charset, Collation: s.Collation, Comment: s.Comment, Primary: s.Primary}
	for _, c := range s.Columns {
		t.Columns = append(t.Columns, ddl.Column{
			Name: c.Name, Type: c.Type, Length: c.Length, Scale: c.Scale, Unsigned: c.Unsigned, Zerofill: c.Zerofill,
			Charset: c.Charset, Collation: c.Collation, Nullable: c.Nullable, Default: c.Default, DefaultExpr: c.DefaultExpr,
			OnUpdate: c.OnUpdate, Generated: c.Generated, Stored: c.Stored, Invisible: c.Invisible, AutoIncrement: c.AutoIncrement,
			Values: c.Values, Comment: c.Comment, SRID: c.SRID,
		})
	}
	for _, k := range s.Unique {
		t.Unique = append(t.Unique, ddl.UniqueKey(k))
	}
	for _, k := range s.Index {
		t.Index = append(t.Index, ddl.UniqueKey(k))
	}
	return t
}

// TopicName is the topic of a connector's schema history.
func TopicName(prefix string) string { return strings.TrimSuffix(prefix, ".") + ".schema-history" }
