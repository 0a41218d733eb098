package schema

import (
	"slices"
	"unicode/utf8"

	"github.com/rowtrail/rowtrail/connectors/event"
	"github.com/rowtrail/rowtrail/connectors/mysql/binlog"
	"github.com/rowtrail/rowtrail/connectors/mysql/charset"
	"github.com/rowtrail/rowtrail/connectors/mysql/ddl"
)

// Change is what a statement did.
type Change struct {
	// Effect is what the statement does by its text: of DML in statement format the reader has to stop, a TRUNCATE is an event.
	Effect ddl.Effect
	// Text of the statement in UTF-8, for the topic of schema changes.
	Text string
	// Tables are the changes for that topic, of all tables; those that became unknown are not among them.
	Tables []event.TableChange
	// Altered is the table of an ALTER TABLE whose description is known before and after it, by its new name.
	Altered       ddl.TableName
	Before, After *ddl.Table
}

// Statement takes over what a statement of the stream did.
func (b *Book) Statement(at Place, q *binlog.Query) Change {
	e, text := b.parse(q)
	c := Change{Effect: e, Text: text}
	if q.ErrorCode != 0 {
		b.failed(at, e)
		return c
	}
	switch e.Kind {
	case ddl.Unknown:
		b.unknown(at, e)
	case ddl.CreateTable:
		b.create(at, &c)
	case ddl.AlterTable:
		b.alter(at, &c)
	case ddl.DropTable:
		for _, name := range e.Tables {
			name = b.fold(name)
			b.remove(at, name)
			c.Tables = append(c.Tables, event.TableChange{Type: event.TableDrop, Database: name.Database, Table: name.Table})
		}
	case ddl.RenameTable:
		for _, r := range e.Renames {
			b.rename(at, r, e.IfExists)
		}
		for _, r := range e.Renames {
			b.changed(&c, event.TableAlter, r.To)
		}
	case ddl.CreateDatabase, ddl.AlterDatabase, ddl.DropDatabase:
		b.databaseStatement(at, e, q)
	case ddl.Other, ddl.Transaction, ddl.DML, ddl.TruncateTable:
	}
	return c
}

// parse reads a statement, which is in the charset of its client.
func (b *Book) parse(q *binlog.Query) (ddl.Effect, string) {
	text, names, whole := b.utf8(q)
	o := ddl.Options{
		Flavour: b.o.Flavour, Version: b.o.Version, Database: string(q.Schema), Mode: ddl.SQLMode(q.SQLMode),
		ImplicitTimestamps: b.implicitTimestamps(q),
	}
	e := ddl.Parse(text, o)
	switch e.Kind {
	case ddl.CreateTable, ddl.AlterTable, ddl.Unknown:
		if !whole {
			e = ddl.Effect{Kind: ddl.Unknown, Any: e.Any || !names, Tables: slices.Concat(b.names(e), e.Doubt)}
		}
	case ddl.DropTable, ddl.RenameTable, ddl.CreateDatabase, ddl.AlterDatabase, ddl.DropDatabase:
		if !names {
			e = ddl.Effect{Kind: ddl.Unknown, Any: true}
		}
	case ddl.Other, ddl.Transaction, ddl.DML, ddl.TruncateTable:
	}
	return e, string(text)
}

// implicitTimestamps is what the statement's session says of columns of type TIMESTAMP, or else the server.
func (b *Book) implicitTimestamps(q *binlog.Query) bool {
	const explicit = 1 << 24 // of MariaDB, which has had the setting for a session since 10.8.4
	switch {
	case q.HasTimestampRule:
		return q.ImplicitTimestamps
	case b.o.Flavour == ddl.MariaDB && b.o.Version >= 100804:
		return q.Flags&explicit == 0
	}
	return b.o.ImplicitTimestamps
}

// utf8 is the statement's text in UTF-8, and tells whether its names can be read, and all of it.
func (b *Book) utf8(q *binlog.Query) (text []byte, names, whole bool) {
	client := uint64(q.Charset.Client)
	name, _ := charset.OfCollation(client)
	switch name {
	case "utf8mb4", "utf8mb3", "ascii", "binary":
		client = 0
	}
	if client == 0 {
		return q.Text, true, utf8.Valid(q.Text) // names are in any case; a string may hold other bytes
	}
	d, err := b.charsets.OfCollation(client)
	if err == nil {
		if text, err = d.AppendUTF8(nil, q.Text); err == nil {
			return text, true, true
		}
	}
	plain := !slices.ContainsFunc(q.Text, func(c byte) bool { return c >= utf8.RuneSelf })
	return q.Text, plain, plain
}

// names are all tables that an effect names.
func (b *Book) names(e ddl.Effect) []ddl.TableName {
	var names []ddl.TableName
	for _, n := range e.Tables {
		names = append(names, b.fold(n))
	}
	for _, r := range e.Renames {
		names = append(names, b.fold(r.From), b.fold(r.To))
	}
	return names
}

// failed takes a statement that ended in an error after it had done a part of its work.
func (b *Book) failed(at Place, e ddl.Effect) {
	const why = "a statement on it failed half-way"
	switch e.Kind {
	case ddl.Other, ddl.Transaction, ddl.DML, ddl.TruncateTable:
	case ddl.Unknown:
		b.unknown(at, e)
	case ddl.CreateDatabase, ddl.AlterDatabase, ddl.DropDatabase:
		name := b.foldDatabase(e.Database)
		if !b.keepsDatabase(name) {
			return
		}
		*b.database(name) = database{}
		b.touch(at, recordKey{database: name})
		for n := range b.tables {
			if n.Database == name && e.Kind == ddl.DropDatabase {
				b.doubt(at, n, why)
			}
		}
	default:
		for _, n := range b.names(e) {
			b.doubt(at, n, why)
		}
	}
}

// unknown takes a statement that is not understood. Names that are no tables cost nothing: only tables that are known become unknown,
// and a name that was not there may be there now.
func (b *Book) unknown(at Place, e ddl.Effect) {
	const why = "a statement that may have changed it is not understood"
	if e.Any {
		b.Forget(at, why)
		return
	}
	for _, n := range e.Tables {
		n = b.fold(n)
		if b.tables[n] != nil {
			b.doubt(at, n, why)
		}
		if d := b.databases[n.Database]; d != nil && d.complete {
			d.complete = false
			b.touch(at, recordKey{database: n.Database})
		}
	}
}

// exists tells whether a table is there; known is false if that cannot be told.
func (b *Book) exists(name ddl.TableName) (exists, known bool) {
	if e := b.tables[name]; e != nil {
		return true, e.table != nil
	}
	d := b.databases[name.Database]
	return false, d != nil && d.complete
}

func (b *Book) create(at Place, c *Change) {
	e := c.Effect
	name := b.fold(e.Tables[0])
	if e.IfExists && !e.Replace {
		switch exists, known := b.exists(name); {
		case !known:
			b.doubt(at, name, "it was created if it did not exist, and whether it did is not known")
			return
		case exists:
			return
		}
	}
	if t, why := b.created(e, name); t != nil {
		b.set(at, name, t, false)
	} else {
		b.doubt(at, name, why)
	}
	b.changed(c, event.TableCreate, name)
}

// created is the table that CREATE TABLE made, or why it is not known.
func (b *Book) created(e ddl.Effect, name ddl.TableName) (*ddl.Table, string) {
	if e.Like != nil {
		like := b.tables[b.fold(*e.Like)]
		if like == nil || like.table == nil {
			return nil, "it was created like a table that is not known"
		}
		return like.table.Clone(), ""
	}
	var defaults ddl.Database
	if d := b.databases[name.Database]; d != nil {
		defaults = d.defaults
	}
	t, err := ddl.Create(e, defaults)
	if err != nil {
		return nil, err.Error()
	}
	return t, ""
}

func (b *Book) alter(at Place, c *Change) {
	e := c.Effect
	name := b.fold(e.Tables[0])
	old := b.tables[name]
	switch {
	case old != nil && old.table != nil:
		if t, err := old.table.Alter(e); err != nil {
			b.doubt(at, name, err.Error())
		} else {
			c.Before, c.After = old.table, t
			b.set(at, name, t, false)
		}
	case old != nil:
		b.doubt(at, name, old.why)
	default:
		if exists, known := b.exists(name); !exists && known && e.IfExists {
			return
		}
		b.doubt(at, name, "it was altered, and what it was before is not known")
	}
	for _, other := range e.Doubt {
		b.doubt(at, b.fold(other), "its rows and columns came from a partition, or became one")
	}
	to := name
	for _, r := range e.Renames {
		r.From = to
		b.rename(at, r, e.IfExists)
		to = b.fold(r.To)
	}
	c.Altered = to
	b.changed(c, event.TableAlter, to)
}

// rename moves a table to its new name, with all that is known of it.
func (b *Book) rename(at Place, r ddl.Rename, ifExists bool) {
	from, to := b.fold(r.From), b.fold(r.To)
	if from == to {
		return
	}
	e := b.tables[from]
	if e == nil {
		if exists, known := b.exists(from); ifExists && !exists && known {
			return
		}
		b.doubt(at, to, "it was renamed from a table that is not known")
		return
	}
	b.remove(at, from)
	if e.table == nil {
		b.doubt(at, to, e.why)
		return
	}
	b.set(at, to, e.table, false)
}

func (b *Book) databaseStatement(at Place, e ddl.Effect, q *binlog.Query) {
	name := b.foldDatabase(e.Database)
	if !b.keepsDatabase(name) {
		return
	}
	switch e.Kind {
	case ddl.DropDatabase:
		for n := range b.tables {
			if n.Database == name {
				b.remove(at, n)
			}
		}
		delete(b.databases, name)
	case ddl.CreateDatabase:
		d := b.databases[name]
		if e.IfExists && !e.Replace {
			if d != nil && d.known {
				return
			}
			*b.database(name) = database{} // it may have been there
			break
		}
		for n := range b.tables {
			if n.Database == name { // of OR REPLACE, or never seen to go
				b.remove(at, n)
			}
		}
		server, _ := charset.OfCollation(uint64(q.Charset.Server))
		defaults := ddl.Database{Charset: server, Collation: b.o.Collations.name(uint32(q.Charset.Server))}
		defaults = defaults.Alter(e)
		*b.database(name) = database{known: defaults.Charset != "", defaults: defaults, complete: true}
	default:
		d := b.database(name)
		d.defaults = d.defaults.Alter(e)
		d.known = d.defaults.Charset != ""
	}
	b.touch(at, recordKey{database: name})
}

// changed adds a table to the changes that the topic of schema changes tells.
func (b *Book) changed(c *Change, typ string, name ddl.TableName) {
	name = b.fold(name)
	e := b.tables[name]
	if e == nil || e.table == nil {
		return
	}
	c.Tables = append(c.Tables, b.tableChange(typ, name, e.table))
}

// Spot is a place in the binlog of one server.
type Spot struct{ File, Pos uint64 } // the number of the file, and where the event ends

func (s Spot) before(o Spot) bool { return s.File < o.File || s.File == o.File && s.Pos < o.Pos }

// Ahead are the statements that lie in the binlog between the place up to which a Book was fed and the end of the binlog after a
// read of the catalog. It can be kept while the Book is fed on: what the Book has passed does not count.
type Ahead struct {
	b         *Book
	spot      Spot // of what is read
	passed    Spot // by the Book; zero: nothing
	any       *Spot
	tables    map[ddl.TableName]Spot // of the last statement that changes it
	databases map[string]Spot        // something in them is changed
	all       map[string]Spot        // everything in them may be
}

// Ahead begins without a statement.
func (b *Book) Ahead() *Ahead {
	return &Ahead{b: b, tables: map[ddl.TableName]Spot{}, databases: map[string]Spot{}, all: map[string]Spot{}}
}

// Pass says how far the Book is.
func (a *Ahead) Pass(s Spot) { a.passed = s }

// Reach says where the statements stand that follow.
func (a *Ahead) Reach(s Spot) { a.spot = s }

// Lose says that what follows cannot be read: it may change any table.
func (a *Ahead) Lose() { a.any = new(a.spot) }

// Statement takes one statement. The Book is not changed.
func (a *Ahead) Statement(q *binlog.Query) {
	e, _ := a.b.parse(q)
	switch e.Kind {
	case ddl.Other, ddl.Transaction, ddl.DML, ddl.TruncateTable:
		return
	case ddl.CreateDatabase, ddl.AlterDatabase, ddl.DropDatabase:
		name := a.b.foldDatabase(e.Database)
		a.databases[name] = a.spot
		if e.Kind != ddl.AlterDatabase {
			a.all[name] = a.spot
		}
		return
	}
	if e.Any {
		a.Lose()
	}
	for _, n := range append(a.b.names(e), e.Doubt...) {
		if n = a.b.fold(n); a.b.keeps(n) {
			a.tables[n] = a.spot
			a.databases[n.Database] = a.spot
		}
	}
}

// lies tells whether something is ahead.
func (a *Ahead) lies(s Spot, ok bool) bool { return ok && (a.passed == Spot{} || a.passed.before(s)) }

func (a *Ahead) anything() bool { return a.any != nil && a.lies(*a.any, true) }

// Changes tells whether one of the statements may have changed a table.
func (a *Ahead) Changes(name ddl.TableName) bool {
	if a == nil {
		return false
	}
	name = a.b.fold(name)
	table, one := a.tables[name]
	all, every := a.all[name.Database]
	return a.anything() || a.lies(table, one) || a.lies(all, every)
}

func (a *Ahead) changesDatabase(name string) bool {
	if a == nil {
		return false
	}
	spot, ok := a.databases[a.b.foldDatabase(name)]
	return a.anything() || a.lies(spot, ok)
}
