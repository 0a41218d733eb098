package schema

import (
	"github.com/rowtrail/rowtrail/connectors/mysql/ddl"
)

// Catalog is what a read of the catalog found.
type Catalog struct {
	Names  []ddl.TableName // that were looked for
	Tables map[ddl.TableName]*ddl.Table
	// Why are the tables that are there and cannot be described.
	Why map[ddl.TableName]string
	// Databases have their defaults. In those of Whole every table was looked for.
	Databases map[string]ddl.Database
	Whole     []string
}

// Catalog takes over a read of the catalog at the place up to which the Book was fed. ahead has what lies between there and the end of
// the binlog after the read; nil: nothing. A table that it changes is not taken over: it stays as it is known, or unknown.
func (b *Book) Catalog(at Place, c *Catalog, ahead *Ahead) {
	for name, defaults := range c.Databases {
		name = b.foldDatabase(name)
		if !ahead.changesDatabase(name) {
			d := b.database(name)
			d.known, d.defaults = true, defaults
			b.touch(at, recordKey{database: name})
		}
	}
	for _, name := range c.Names {
		folded := b.fold(name)
		switch t, old := c.Tables[name], b.tables[folded]; {
		case !b.keeps(folded):
		case ahead.Changes(folded):
			if old == nil || old.table == nil {
				b.tryFailed(at, folded, "a statement between here and the end of the binlog changes it, so that the catalog has it as it became later")
			}
		case t != nil:
			b.set(at, folded, t, true)
		case c.Why[name] != "":
			b.tryFailed(at, folded, c.Why[name])
		default:
			b.tryFailed(at, folded, "it is not in the catalog")
		}
	}
	for _, name := range c.Whole {
		name = b.foldDatabase(name)
		if ahead.changesDatabase(name) {
			continue
		}
		for n := range b.tables {
			if n.Database == name && c.Tables[n] == nil && c.Why[n] == "" {
				b.remove(at, n)
			}
		}
		b.database(name).complete = true
		b.touch(at, recordKey{database: name})
	}
}

// tryFailed leaves a table unknown, and notes that the catalog was asked in vain.
func (b *Book) tryFailed(at Place, name ddl.TableName, why string) {
	e := b.tables[name]
	if e == nil {
		e = &entry{from: at}
		b.tables[name] = e
	}
	*e = entry{why: why, from: e.from, tried: true, shape: e.shape}
	b.touch(at, keyOf(name))
}
