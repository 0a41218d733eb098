package schema

import (
	"fmt"
	"strings"

	"github.com/rowtrail/rowtrail/connectors/mysql/binlog"
	"github.com/rowtrail/rowtrail/connectors/mysql/charset"
	"github.com/rowtrail/rowtrail/connectors/mysql/ddl"
)

// Options of a Book. They are the server's and the connector's, and are not stored.
type Options struct {
	Flavour ddl.Flavour
	Version int // 90704 is MySQL 9.7.4, 110809 MariaDB 11.8.9
	// FoldNames is lower_case_table_names other than 0.
	FoldNames bool
	// ImplicitTimestamps is explicit_defaults_for_timestamp=OFF, of servers whose statements do not say so themselves.
	ImplicitTimestamps bool
	// Keep tells of which databases the tables are followed; nil: of all. It must say so of those with captured tables, and of those
	// with tables that may be renamed to one.
	Keep func(database string) bool
	// Collations are the server's, nil if they are not known.
	Collations *Collations
}

// Place is where in the stream something is.
type Place struct {
	Order uint64 `json:"order"`          // rises along the stream, over failovers too: event.Position.Commit
	Text  string `json:"text,omitempty"` // for people: a GTID, or file and position
}

// Book knows what each table is at the place up to which it was fed. It is not safe for concurrent use.
type Book struct {
	o         Options
	tables    map[ddl.TableName]*entry
	databases map[string]*database
	place     Place // of the last change
	dirty     map[recordKey]bool
	charsets  charset.Decoders
}

// entry is what is known of one table.
type entry struct {
	table   *ddl.Table // nil: not known
	why     string     // it is not known
	from    Place
	catalog bool   // the table was read, and not made by statements
	tried   bool   // the catalog was looked at since the last change, so that it is not asked for again
	shape   string // of the table map that came last, "": none since the last statement

	seen   *binlog.Table // for which answer or err is
	answer *Description
	err    error
}

// database is what is known of one database.
type database struct {
	known    bool // its defaults are
	defaults ddl.Database
	// complete says that every table in it that is kept has an entry: a name without one is not there.
	complete bool
}

// New is an empty Book.
func New(o Options) *Book {
	return &Book{o: o, tables: map[ddl.TableName]*entry{}, databases: map[string]*database{}, dirty: map[recordKey]bool{}}
}

// Place is where the Book was changed last. A resume point before it is not of this history: then Forget.
func (b *Book) Place() Place { return b.place }

// Forget makes every table unknown, as a statement that may have changed any does.
func (b *Book) Forget(at Place, why string) {
	for name := range b.tables {
		b.doubt(at, name, why)
	}
	for name, d := range b.databases {
		*d = database{}
		b.touch(at, recordKey{database: name})
	}
}

// Known is a table's description, and where it is valid from; nil if there is none. It must not be changed.
func (b *Book) Known(name ddl.TableName) (*ddl.Table, Place) {
	if e := b.tables[b.fold(name)]; e != nil && e.table != nil {
		return e.table, e.from
	}
	return nil, Place{}
}

// LookError asks for a read of the catalog.
type LookError struct {
	Table ddl.TableName
	Why   string
}

func (e *LookError) Error() string {
	return fmt.Sprintf("table %s.%s: %s: its description is to be read from the catalog", e.Table.Database, e.Table.Table, e.Why)
}

// Error is why a table cannot be described. Other tables are not concerned.
type Error struct {
	Table  ddl.TableName
	Reason string
	Remedy string
	Err    error // nil: Reason says it all
}

func (e *Error) Error() string {
	s := fmt.Sprintf("table %s.%s: %s", e.Table.Database, e.Table.Table, e.Reason)
	if e.Remedy != "" {
		s += "; " + e.Remedy
	}
	return s
}

func (e *Error) Unwrap() error { return e.Err }

func (b *Book) fold(n ddl.TableName) ddl.TableName {
	if b.o.FoldNames {
		n.Database, n.Table = strings.ToLower(n.Database), strings.ToLower(n.Table)
	}
	return n
}

func (b *Book) foldDatabase(name string) string {
	if b.o.FoldNames {
		return strings.ToLower(name)
	}
	return name
}

func (b *Book) keeps(n ddl.TableName) bool { return b.keepsDatabase(n.Database) }

func (b *Book) keepsDatabase(name string) bool { return b.o.Keep == nil || b.o.Keep(name) }

// Restrict forgets what Options.Keep does not have: it had more when the records were written. Should it have more again, nothing
// is known of what happened meanwhile.
func (b *Book) Restrict(at Place) {
	for name := range b.tables {
		if !b.keeps(name) {
			b.remove(at, name)
		}
	}
	for name := range b.databases {
		if !b.keepsDatabase(name) {
			delete(b.databases, name)
			b.touch(at, recordKey{database: name})
		}
	}
}

// Follows tells whether a database's defaults are known, and so its tables, in so far as statements told of them since.
func (b *Book) Follows(database string) bool {
	d := b.databases[b.foldDatabase(database)]
	return d != nil && d.known
}

// database is the entry of a database, which is made.
func (b *Book) database(name string) *database {
	d := b.databases[name]
	if d == nil {
		d = &database{}
		b.databases[name] = d
	}
	return d
}

// touch marks a record as to be written.
func (b *Book) touch(at Place, k recordKey) {
	b.place = at
	b.dirty[k] = true
}

// set makes a table's description known.
func (b *Book) set(at Place, name ddl.TableName, t *ddl.Table, catalog bool) {
	if !b.keeps(name) {
		b.remove(at, name)
		return
	}
	shape := ""
	if old := b.tables[name]; catalog && old != nil {
		shape = old.shape // the map that was looked for
	}
	b.tables[name] = &entry{table: t, from: at, catalog: catalog, tried: catalog, shape: shape}
	b.touch(at, keyOf(name))
}

// doubt makes a table's description unknown after something happened to the table.
func (b *Book) doubt(at Place, name ddl.TableName, why string) {
	if !b.keeps(name) {
		b.remove(at, name)
		return
	}
	b.tables[name] = &entry{why: why, from: at}
	b.touch(at, keyOf(name))
}

func (b *Book) remove(at Place, name ddl.TableName) {
	if b.tables[name] != nil {
		delete(b.tables, name)
		b.touch(at, keyOf(name))
	}
}
