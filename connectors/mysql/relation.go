package mysql

import (
	"context"
	"fmt"
	"slices"

	"github.com/rowtrail/rowtrail/connectors"
	"github.com/rowtrail/rowtrail/connectors/event"
	"github.com/rowtrail/rowtrail/connectors/mysql/binlog"
	"github.com/rowtrail/rowtrail/connectors/mysql/charset"
	"github.com/rowtrail/rowtrail/connectors/mysql/state"
	"github.com/rowtrail/rowtrail/connectors/park"
)

// relation is one table version ready for decoding and encoding. It belongs to one goroutine.
type relation struct {
	connectors.Table
	schema, name  string
	layout        *binlog.Layout
	before, after event.Row
	absent        []uint16
	whole         bool          // before has every column
	parked        *park.Context // of a parked table, which is not described; nil: it is not parked

	looked    bool // for tracked
	tracked   *tracked
	completer *state.Completer

	transactional *bool // whether its engine has transactions; nil: not asked yet

	signals bool // it is the table of signals
	hidden  bool // and nothing else: it is not captured
}

// relation finds the version of a table that a table map is of; nil means that it is not captured.
func (s *stream) relation(ctx context.Context, t *binlog.Table) (*relation, error) {
	if r, ok := s.relations[t]; ok {
		return r, nil
	}
	if len(s.relations) >= maxRelations {
		clear(s.relations)
	}
	captured, signals := s.config.captures(t.Schema, t.Name), s.config.signals == t.Collection()
	if !captured && !signals {
		s.relations[t] = nil
		return nil, nil
	}
	if captured && s.parking.Has(t.Collection()) {
		r, err := s.parkedRelation(ctx, t)
		if err == nil {
			s.relations[t] = r
		}
		return r, err
	}
	now, err := s.run.lookUp(ctx, t.Schema, t.Name)
	if err != nil {
		return nil, err
	}
	r, err := s.config.describe(&s.charsets, t, now)
	if err != nil {
		return nil, err
	}
	if r.signals, r.hidden = signals, !captured; captured {
		if err := s.Writer.EnsureTable(ctx, &r.Table); err != nil {
			return nil, err
		}
	}
	s.relations[t] = r
	return r, nil
}

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
		return nil, unknown(fmt.Errorf("the table is gone"))
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

// decoderOf is the decoder of a charset, nil where its bytes are UTF-8 already. One that is not known refuses every value.
func decoderOf(charsets *charset.Decoders, name string, collation uint32) binlog.Charset {
	switch name {
	case "utf8mb4", "utf8mb3", "utf8":
		return nil
	case "":
		return unknownCharset{fmt.Errorf("collation %d is not known", collation)}
	}
	d, err := charsets.Of(name)
	if err != nil {
		return unknownCharset{err}
	}
	return d
}

type unknownCharset struct{ err error }

func (u unknownCharset) AppendUTF8(dst, _ []byte) ([]byte, error) { return dst, u.err }

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
