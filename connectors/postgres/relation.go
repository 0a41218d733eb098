package postgres

import (
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/rowtrail/rowtrail/connectors"
	"github.com/rowtrail/rowtrail/connectors/event"
	"github.com/rowtrail/rowtrail/connectors/park"
)

// relation is one table version ready for encoding. It belongs to one goroutine.
type relation struct {
	connectors.Table
	message  relationMessage
	captured bool
	pick     []int         // message column to schema column, -1 not captured
	oldKey   []bool        // message columns that an old key holds
	point    lsn           // changes that committed before it are in the load
	parked   *park.Context // of a parked table; nil: it is not parked

	row, old event.Row
	absent   []uint16
}

// relationOf reads what the catalog knows of a relation message's types and describes the table version.
func (c *Config) relationOf(ctx context.Context, conn *pgconn.PgConn, m relationMessage, now *table) (*relation, error) {
	facts, err := types(ctx, conn, m.types(nil))
	if err != nil {
		return nil, err
	}
	return c.describe(m, now, facts)
}

// types adds the types of the columns to refs.
func (m *relationMessage) types(refs []typeRef) []typeRef {
	for _, col := range m.columns {
		refs = append(refs, typeRef{col.typeOID, col.modifier})
	}
	return refs
}

// describe turns a relation message into a table version. The message is the truth for columns, types and, with
// the default and index identities, for the key (P18); the catalog gives type names, labels and NOT NULL.
func (c *Config) describe(m relationMessage, now *table, facts map[typeRef]event.TypeFacts) (*relation, error) {
	r := &relation{message: m, captured: true}
	collection := m.schema + "." + m.name
	key := c.recordKey(m, now)
	columns := make([]event.Column, 0, len(m.columns))
	for _, col := range m.columns {
		r.oldKey = append(r.oldKey, col.key)
		place := slices.Index(key, col.name) + 1
		if place == 0 && !c.CapturesColumn(m.schema, m.name, col.name) {
			r.pick = append(r.pick, -1)
			continue
		}
		f, ok := facts[typeRef{col.typeOID, col.modifier}]
		if !ok {
			return nil, &connectors.Fault{
				Collection: collection,
				Problem:    fmt.Sprintf("table %s: type %d of column %s no longer exists, so its values cannot be told", collection, col.typeOID, col.name),
				Remedy:     "leave the column out with column.exclude.list, or load the table again (`rowtrail connectors unpark " + c.Name + " " + collection + " --reload`)",
			}
		}
		notNull := false
		if now != nil {
			if nc := now.column(col.name); nc != nil && nc.typeOID == col.typeOID {
				notNull = nc.notNull
			}
		}
		ec, err := event.PostgresColumn(col.name, f, notNull, place)
		if err != nil {
			return nil, connectors.Indescribable(collection, err)
		}
		if now != nil && now.String() == collection {
			trace(&ec, col.typeOID, now.column(col.name))
		}
		r.pick = append(r.pick, len(columns))
		columns = append(columns, ec)
	}
	var err error
	if r.Table, err = c.NewTable(m.id, m.schema, m.name, columns); err != nil {
		return nil, err
	}
	r.row, r.old = make(event.Row, len(columns)), make(event.Row, len(columns))
	return r, nil
}

// trace adds what tells a rename from a new column (P19) and what rows from before the column hold (P20). The catalog may be ahead
// of the stream (P18): it counts only for a column of the same name and type.
func trace(ec *event.Column, typeOID uint32, now *column) {
	if now == nil || now.typeOID != typeOID {
		return
	}
	ec.Number, ec.Missing = now.number, now.missing
	ec.Default = now.defaults && now.missing == nil
}

// recordKey names the columns of the record key, in order. It must be something that an old row carries (P8): the primary
// key, or with REPLICA IDENTITY USING INDEX that index's columns.
func (c *Config) recordKey(m relationMessage, now *table) []string {
	var sent, all []string
	for _, col := range m.columns {
		all = append(all, col.name)
		if col.key {
			sent = append(sent, col.name)
		}
	}
	within := func(list, of []string) bool {
		return len(list) > 0 && !slices.ContainsFunc(list, func(n string) bool { return !slices.Contains(of, n) })
	}
	if named := c.KeyFor(m.schema, m.name); within(named, sent) {
		return named
	}
	var order []string // the catalog's order, if it still is about the same columns
	switch {
	case now == nil:
	case m.identity == identityIndex:
		order = now.identityKey
	default:
		order = now.primaryKey
	}
	if m.identity == identityFull {
		if within(order, all) {
			return order
		}
		return nil
	}
	if within(order, sent) && len(order) == len(sent) {
		return order
	}
	return sent
}

// relation takes a table's description, which precedes its first change and every change of its shape.
func (s *stream) relation(ctx context.Context, b []byte) error {
	m, err := parseRelation(b)
	if err != nil {
		return malformed(err)
	}
	if !s.config.captures(m.schema, m.name) {
		s.relations[m.id] = &relation{message: m}
		return nil
	}
	name := m.schema + "." + m.name
	if s.parking.Has(name) {
		return s.relationKept(ctx, m, b)
	}
	return s.described(ctx, m)
}

// described takes the description of a table whose changes are written at once.
func (s *stream) described(ctx context.Context, m relationMessage) error {
	var r *relation
	name := m.schema + "." + m.name
	err := s.side.use(ctx, func(conn *pgconn.PgConn) error {
		tables, err := s.config.captured(ctx, conn, m.id)
		if err != nil {
			return err
		}
		var now *table
		if len(tables) > 0 {
			now = tables[0]
		}
		if s.needLoad && now != nil && now.String() == name && !s.loaded.has(name, m.id) {
			return fmt.Errorf("table %s: %w", name, errNewTable)
		}
		r, err = s.config.relationOf(ctx, conn, m, now)
		return err
	})
	if err != nil {
		return err
	}
	r.point = s.loaded[name].at // also of changes to a table that another one of its name has replaced
	s.relations[m.id] = r
	return nil
}

// catalogRelation is the relation message that the stream would send for a table as the catalog has it now. Generated columns
// are left out (P21) unless they are stored and the publication publishes them.
func catalogRelation(t *table, p *publication) relationMessage {
	m := relationMessage{id: t.oid, schema: t.schema, name: t.name, identity: t.identity}
	for _, col := range t.columns {
		if !p.publishes(col) {
			continue
		}
		m.columns = append(m.columns, relationColumn{name: col.name, typeOID: col.typeOID, modifier: col.modifier, key: t.identifiedBy(col.name)})
	}
	return m
}

// absentColumns lists what the source did not send of the new row.
func (r *relation) absentColumns() []uint16 {
	r.absent = connectors.AbsentColumns(r.absent[:0], r.row)
	return r.absent
}
