package postgres

import (
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/rowtrail/rowtrail/connectors"
	"github.com/rowtrail/rowtrail/connectors/event"
)

// relation is one table version ready for encoding. It belongs to one goroutine.
type relation struct {
	message    relationMessage
	captured   bool
	collection string
	topic      string
	partitions int32
	schema     *event.Schema
	encoder    *event.Encoder
	pick       []int  // message column to schema column, -1 not captured
	oldKey     []bool // message columns that an old key holds
	keys       []int  // schema columns of the record key
	point      lsn    // changes that committed before it are in the load
	announced  bool   // its schema record is written in this run

	row, old event.Row
	absent   []uint16

	transaction uint64 // the transaction that count belongs to
	count       uint64
}

// describe turns a relation message into a table version. The message is the truth for columns, types and, with
// the default and index identities, for the key (P18); the catalog gives type names, labels and NOT NULL.
func (c *Config) describe(ctx context.Context, conn *pgconn.PgConn, m relationMessage, now *table) (*relation, error) {
	r := &relation{message: m, captured: true, collection: m.schema + "." + m.name, topic: c.topicOf(m.schema, m.name)}
	oids := make([]uint32, 0, len(m.columns))
	for _, col := range m.columns {
		if !slices.Contains(oids, col.typeOID) {
			oids = append(oids, col.typeOID)
		}
	}
	info := map[uint32]typeInfo{}
	if len(oids) > 0 {
		var err error
		if info, err = types(ctx, conn, oids); err != nil {
			return nil, err
		}
	}
	key := c.recordKey(m, now)
	columns := make([]event.Column, 0, len(m.columns))
	for _, col := range m.columns {
		r.oldKey = append(r.oldKey, col.key)
		place := slices.Index(key, col.name) + 1
		if place == 0 && !c.capturesColumn(m.schema, m.name, col.name) {
			r.pick = append(r.pick, -1)
			continue
		}
		t, ok := info[col.typeOID]
		if !ok {
			return nil, &connectors.Fault{
				Problem: fmt.Sprintf("table %s: type %d of column %s no longer exists, so its values cannot be told", r.collection, col.typeOID, col.name),
				Remedy:  "leave the column out with column.exclude.list, or load the table again (delete topic " + c.Prefix + ".position and drop slot " + c.Slot + ")",
			}
		}
		name, err := typeName(ctx, conn, col, t, now)
		if err != nil {
			return nil, err
		}
		ec := event.Column{
			Name: col.name, Type: name, Kind: t.kind, OID: col.typeOID, Modifier: col.modifier,
			Elem: t.elem, ElemOID: t.elemOID, Enum: t.enum, Key: place,
		}
		if ec.Modifier < 0 {
			ec.Modifier = t.baseMod // a domain's
		}
		if now != nil {
			if nc := now.column(col.name); nc != nil && nc.typeOID == col.typeOID {
				ec.NotNull = nc.notNull
			}
		}
		r.pick = append(r.pick, len(columns))
		columns = append(columns, ec)
	}
	var err error
	if r.schema, err = event.NewSchema(c.Event, m.schema, m.name, columns); err != nil {
		return nil, err
	}
	if r.encoder, err = event.NewEncoder(r.schema, c.Event); err != nil {
		return nil, err
	}
	r.keys = r.schema.KeyColumns()
	r.row, r.old = make(event.Row, len(columns)), make(event.Row, len(columns))
	return r, nil
}

// typeName is a column's type with its modifiers.
func typeName(ctx context.Context, conn *pgconn.PgConn, col relationColumn, t typeInfo, now *table) (string, error) {
	if col.modifier < 0 {
		return t.name, nil
	}
	if now != nil {
		if nc := now.column(col.name); nc != nil && nc.typeOID == col.typeOID && nc.modifier == col.modifier {
			return nc.typeName, nil
		}
	}
	rows, err := query(ctx, conn, fmt.Sprintf("SELECT format_type(%d, %d)", col.typeOID, col.modifier))
	if err != nil {
		return "", fmt.Errorf("read type of column %s: %w", col.name, err)
	}
	return string(rows[0][0]), nil
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
	if named := c.keyFor(m.schema, m.name); within(named, sent) {
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

// catalogRelation is the relation message that the stream would send for a table as the catalog has it now. Generated columns
// are left out, as the stream leaves them out (P21).
func catalogRelation(t *table) relationMessage {
	m := relationMessage{id: t.oid, schema: t.schema, name: t.name, identity: t.identity}
	for _, col := range t.columns {
		if col.generated {
			continue
		}
		m.columns = append(m.columns, relationColumn{name: col.name, typeOID: col.typeOID, modifier: col.modifier, key: t.identifiedBy(col.name)})
	}
	return m
}

// fill completes a row that lacks unchanged values from the old row, where that has them (P6).
func (r *relation) fill() {
	for i := range r.row {
		if r.row[i].State == event.Absent {
			r.row[i] = r.old[i]
		}
	}
}

// keyChanged compares the record keys of old and new row.
func (r *relation) keyChanged() bool {
	for _, k := range r.keys {
		if r.old[k].State != r.row[k].State || string(r.old[k].Text) != string(r.row[k].Text) {
			return true
		}
	}
	return false
}

// absentColumns lists what the source did not send of the new row.
func (r *relation) absentColumns() []uint16 {
	r.absent = r.absent[:0]
	for i := range r.row {
		if r.row[i].State == event.Absent {
			r.absent = append(r.absent, uint16(i))
		}
	}
	return r.absent
}
