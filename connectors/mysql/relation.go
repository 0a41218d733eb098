package mysql

import (
	"context"
	"fmt"
	"slices"

	"github.com/rowtrail/rowtrail/connectors"
	"github.com/rowtrail/rowtrail/connectors/event"
	"github.com/rowtrail/rowtrail/connectors/mysql/binlog"
	"github.com/rowtrail/rowtrail/connectors/mysql/charset"
	"github.com/rowtrail/rowtrail/connectors/mysql/schema"
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
	whole         bool // before has every column
	description   *schema.Description
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
	r, ok := s.relations[t]
	if ok && r == nil {
		return nil, nil
	}
	if len(s.relations) >= maxRelations {
		clear(s.relations)
	}
	var captured, signals bool
	if ok {
		captured, signals = !r.hidden, r.signals
	} else {
		captured, signals = s.config.captures(t.Schema, t.Name), s.config.signals == t.Collection()
	}
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
	d, err := s.description(ctx, t)
	if err != nil {
		return nil, err
	}
	if ok && r.description == d {
		return r, nil
	}
	if r, err = s.config.relationOf(d); err != nil {
		return nil, s.indescribable(t, err)
	}
	if r.signals, r.hidden = signals, !captured; captured {
		if err := s.Writer.EnsureTable(ctx, &r.Table); err != nil {
			return nil, err
		}
	}
	s.relations[t] = r
	return r, nil
}

// relationOf makes a table version of a description.
func (c *Config) relationOf(d *schema.Description) (*relation, error) {
	t := d.Table
	keep := func(column string) bool { return c.CapturesColumn(t.Schema, t.Name, column) }
	columns, binds, err := d.Bind(keep, c.ownKey(t.Schema, t.Name, d.Columns()))
	if err != nil {
		return nil, err
	}
	r := &relation{schema: t.Schema, name: t.Name, description: d}
	if r.Table, err = c.NewTable(0, t.Schema, t.Name, columns); err != nil {
		return nil, err
	}
	if r.layout, err = binlog.NewLayout(t, binds); err != nil {
		return nil, connectors.Indescribable(t.Collection(), err)
	}
	r.before, r.after = make(event.Row, len(columns)), make(event.Row, len(columns))
	return r, nil
}

// ownKey names the columns of the record key where message.key.columns does, and the table has them; nil: the key is the table's.
func (c *Config) ownKey(schema, name string, columns []event.TableColumn) []string {
	key := c.KeyFor(schema, name)
	for _, k := range key {
		if !slices.ContainsFunc(columns, func(tc event.TableColumn) bool { return tc.Name == k }) {
			return nil
		}
	}
	return key
}

// captured are the columns that are captured of a table, and their key. errs has why one cannot be, and may be nil.
func (c *Config) captured(schema, name string, all []event.TableColumn, errs []error) ([]event.TableColumn, error) {
	key := c.ownKey(schema, name, all)
	var list []event.TableColumn
	for i, tc := range all {
		if key != nil {
			tc.Key = slices.Index(key, tc.Name) + 1
		}
		if tc.Key == 0 && !c.CapturesColumn(schema, name, tc.Name) {
			continue
		}
		if errs != nil && errs[i] != nil {
			return nil, connectors.Indescribable(schema+"."+name, errs[i])
		}
		list = append(list, tc)
	}
	return list, nil
}

// bare are columns as events have them.
func bare(list []event.TableColumn) []event.Column {
	columns := make([]event.Column, len(list))
	for i := range list {
		columns[i] = list[i].Column
	}
	return columns
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
