package mysql

import (
	"fmt"
	"slices"

	"github.com/rowtrail/rowtrail/connectors"
	"github.com/rowtrail/rowtrail/connectors/event"
	"github.com/rowtrail/rowtrail/connectors/mysql/binlog"
	"github.com/rowtrail/rowtrail/connectors/mysql/charset"
)

// described is a column of the wire with all that is known of it.
type described struct {
	name    string
	facts   event.MySQLFacts
	notNull bool
	bind    binlog.Column
}

// describe makes a table version from its table map. With FULL metadata that is the truth, and the catalog adds what it does not tell;
// else the catalog's columns count if they agree with it (M1).
func (c *Config) describe(charsets *charset.Decoders, t *binlog.Table, now *table) (*relation, error) {
	collection := t.Collection()
	if t.Err != nil {
		return nil, &connectors.Fault{
			Problem: "table " + collection + " cannot be captured", Err: t.Err, Collection: collection,
			Remedy: "leave the table out with table.exclude.list, or report this with the server's version",
		}
	}
	var list []described
	var err error
	primary := []string(nil)
	if t.Named {
		list, err = fromTableMap(charsets, t, now)
		for _, k := range t.PrimaryKey {
			primary = append(primary, t.Columns[k.Column].Name)
		}
	} else {
		list, err = c.fromCatalog(charsets, t, now)
		if now != nil {
			primary = now.primary
		}
	}
	if err != nil {
		return nil, err
	}
	r := &relation{schema: t.Schema, name: t.Name}
	key := c.recordKey(t.Schema, t.Name, list, primary, now)
	columns := make([]event.Column, 0, len(list))
	binds := make([]binlog.Column, len(list))
	for i := range list {
		d := &list[i]
		binds[i] = d.bind
		at := slices.Index(key, d.name) + 1
		if at == 0 && !c.CapturesColumn(t.Schema, t.Name, d.name) {
			binds[i].Index = -1
			continue
		}
		ec, err := event.MySQLColumn(d.name, d.facts, d.notNull, at)
		if err != nil {
			return nil, connectors.Indescribable(collection, err)
		}
		binds[i].Index = len(columns)
		columns = append(columns, ec)
	}
	if r.Table, err = c.NewTable(0, t.Schema, t.Name, columns); err != nil {
		return nil, err
	}
	if r.layout, err = binlog.NewLayout(t, binds); err != nil {
		return nil, connectors.Indescribable(collection, err)
	}
	r.before, r.after = make(event.Row, len(columns)), make(event.Row, len(columns))
	return r, nil
}

// fromTableMap describes the columns by FULL metadata.
func fromTableMap(charsets *charset.Decoders, t *binlog.Table, now *table) ([]described, error) {
	binds, err := t.FullColumns(func(collation uint32) (binlog.Charset, error) {
		name, _ := charset.OfCollation(uint64(collation))
		return decoderOf(charsets, name, collation), nil
	})
	if err != nil {
		return nil, connectors.Indescribable(t.Collection(), err)
	}
	list := make([]described, len(t.Columns))
	for i := range t.Columns {
		w := &t.Columns[i]
		d := &list[i]
		d.name, d.notNull, d.bind = w.Name, !w.Nullable, binds[i]
		d.facts = wireFacts(w, binds[i].Labels)
		if cat := now.column(w.Name); known(w, &d.facts, cat) {
			d.facts = cat.facts
			d.facts.Invisible = w.Invisible
			if d.bind.Form == binlog.FormBinary {
				d.bind.Form = form(d.facts.DataType)
				if d.bind.Form == binlog.FormText { // JSON of MariaDB and the like have a charset
					d.bind.Form = binlog.FormBinary
				}
			}
			d.bind.Fraction = d.facts.Fraction
		}
	}
	return list, nil
}

// fromCatalog describes the columns by what the catalog has now.
func (c *Config) fromCatalog(charsets *charset.Decoders, t *binlog.Table, now *table) ([]described, error) {
	unknown := func(err error) error {
		return &connectors.Fault{
			Problem: "the columns of table " + t.Collection() + " are not known at this place of the binlog", Err: err, Collection: t.Collection(),
			Remedy: "SET GLOBAL binlog_row_metadata = 'FULL' (and in my.cnf), so that the binlog names them; what was written before needs a new load: " + c.reload(t.Collection()),
		}
	}
	if now == nil {
		return nil, unknown(fmt.Errorf("neither the binlog nor the schema history tells"))
	}
	types := make([]binlog.Described, len(now.columns))
	for i := range now.columns {
		types[i].Type = now.columns[i].facts.ColumnType
	}
	if err := t.Agrees(types); err != nil {
		return nil, unknown(err)
	}
	list := make([]described, len(now.columns))
	for i := range now.columns {
		col := &now.columns[i]
		f := &col.facts
		d := &list[i]
		d.name, d.facts, d.notNull = col.name, *f, col.notNull
		d.bind = binlog.Column{Index: i, Unsigned: f.Unsigned, Form: form(f.DataType), Labels: f.Labels, Fraction: f.Fraction}
		if d.bind.Form == binlog.FormText && f.Charset != "" {
			d.bind.Charset = decoderOf(charsets, f.Charset, 0)
		}
	}
	return list, nil
}

// recordKey names the columns of the record key, in order: what message.key.columns says, the primary key, or a unique key that has
// no NULL.
func (c *Config) recordKey(schema, name string, list []described, primary []string, now *table) []string {
	within := func(key []string) bool {
		return len(key) > 0 && !slices.ContainsFunc(key, func(k string) bool {
			return !slices.ContainsFunc(list, func(d described) bool { return d.name == k })
		})
	}
	if named := c.KeyFor(schema, name); within(named) {
		return named
	}
	if within(primary) {
		return primary
	}
	if now == nil || len(now.primary) > 0 || !within(now.unique) {
		return nil
	}
	for _, d := range list {
		if !d.notNull && slices.Contains(now.unique, d.name) {
			return nil
		}
	}
	return now.unique
}
