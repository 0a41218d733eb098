package postgres

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

// Replica identities as pg_class.relreplident has them.
const (
	identityDefault = 'd'
	identityNothing = 'n'
	identityFull    = 'f'
	identityIndex   = 'i'
)

// table is one captured table as the catalog has it now. P18: while the stream lags, that may be its future; what the
// stream itself says about columns and key always wins.
type table struct {
	oid         uint32
	schema      string
	name        string
	partitioned bool
	identity    byte
	columns     []column
	primaryKey  []string // in key order
	identityKey []string // columns of the replica identity index, in key order
	pages       int64    // of a plain table
	rows        float64  // estimate; -1 unknown
	mayRead     bool
	owned       bool
}

type column struct {
	name      string
	typeOID   uint32
	modifier  int32
	notNull   bool
	generated bool
}

func (t *table) String() string { return t.schema + "." + t.name }
func (t *table) quoted() string { return quoteIdent(t.schema) + "." + quoteIdent(t.name) }
func (t *table) identifies() bool {
	switch t.identity {
	case identityFull:
		return true
	case identityIndex:
		return len(t.identityKey) > 0
	case identityDefault:
		return len(t.primaryKey) > 0
	}
	return false
}

func (t *table) column(name string) *column {
	for i := range t.columns {
		if t.columns[i].name == name {
			return &t.columns[i]
		}
	}
	return nil
}

const tablesSQL = `
SELECT c.oid, n.nspname, c.relname, c.relkind = 'p', c.relreplident,
       CASE WHEN c.relkind = 'p' THEN 0 ELSE pg_relation_size(c.oid) / current_setting('block_size')::int END,
       CASE WHEN c.relkind = 'p' THEN (SELECT coalesce(sum(greatest(l.reltuples, 0)), 0) FROM pg_partition_tree(c.oid) p JOIN pg_class l ON l.oid = p.relid WHERE p.isleaf)
            ELSE c.reltuples END,
       has_table_privilege(c.oid, 'SELECT') AND has_schema_privilege(n.oid, 'USAGE'), pg_has_role(c.relowner, 'USAGE'),
       (SELECT string_agg(a.attname, chr(1) ORDER BY k.place)
          FROM pg_index i, unnest(i.indkey) WITH ORDINALITY k(attnum, place), pg_attribute a
         WHERE i.indrelid = c.oid AND i.indisprimary AND k.place <= i.indnkeyatts AND a.attrelid = c.oid AND a.attnum = k.attnum),
       (SELECT string_agg(a.attname, chr(1) ORDER BY k.place)
          FROM pg_index i, unnest(i.indkey) WITH ORDINALITY k(attnum, place), pg_attribute a
         WHERE i.indrelid = c.oid AND i.indisreplident AND k.place <= i.indnkeyatts AND a.attrelid = c.oid AND a.attnum = k.attnum)
  FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
 WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition AND c.relpersistence = 'p'
   AND n.nspname NOT IN ('pg_catalog', 'information_schema') AND n.nspname NOT LIKE 'pg\_toast%' AND n.nspname NOT LIKE 'pg\_temp%'
`

// captured reads the tables that the configuration captures, with their columns; only that with the given OID if it is not 0.
func (c *Config) captured(ctx context.Context, conn *pgconn.PgConn, oid uint32) ([]*table, error) {
	sql := tablesSQL
	if oid != 0 {
		sql += fmt.Sprintf(" AND c.oid = %d", oid)
	}
	rows, err := query(ctx, conn, sql+" ORDER BY n.nspname, c.relname")
	if err != nil {
		return nil, fmt.Errorf("list tables: %w", err)
	}
	var tables []*table
	byOID := map[uint32]*table{}
	var oids []string
	for _, r := range rows {
		t := &table{
			oid: parseOID(r[0]), schema: string(r[1]), name: string(r[2]), partitioned: isTrue(r[3]), identity: r[4][0],
			mayRead: isTrue(r[7]), owned: isTrue(r[8]), primaryKey: splitNames(r[9]), identityKey: splitNames(r[10]),
		}
		t.pages, _ = strconv.ParseInt(string(r[5]), 10, 64)
		t.rows, _ = strconv.ParseFloat(string(r[6]), 64)
		if c.captures(t.schema, t.name) {
			tables = append(tables, t)
			byOID[t.oid] = t
			oids = append(oids, strconv.FormatUint(uint64(t.oid), 10))
		}
	}
	if len(tables) == 0 {
		return nil, nil
	}
	rows, err = query(ctx, conn, `SELECT attrelid, attname, atttypid, atttypmod, attnotnull, attgenerated <> ''
  FROM pg_attribute WHERE attnum > 0 AND NOT attisdropped AND attrelid IN (`+strings.Join(oids, ",")+`) ORDER BY attrelid, attnum`)
	if err != nil {
		return nil, fmt.Errorf("list columns: %w", err)
	}
	for _, r := range rows {
		t := byOID[parseOID(r[0])]
		t.columns = append(t.columns, column{
			name: string(r[1]), typeOID: parseOID(r[2]), modifier: parseModifier(r[3]),
			notNull: isTrue(r[4]), generated: isTrue(r[5]),
		})
	}
	return tables, nil
}

// partition is one leaf of a partitioned table, or a plain table itself.
type partition struct {
	schema, name string
	pages        int64
}

// partitions lists the heaps that hold a table's rows, as the connection's snapshot sees them.
func partitions(ctx context.Context, conn *pgconn.PgConn, t *table) ([]partition, error) {
	rows, err := query(ctx, conn, fmt.Sprintf(`SELECT n.nspname, c.relname, pg_relation_size(c.oid) / current_setting('block_size')::int
  FROM pg_partition_tree(%d) p JOIN pg_class c ON c.oid = p.relid JOIN pg_namespace n ON n.oid = c.relnamespace WHERE p.isleaf AND c.relkind = 'r'
 UNION ALL SELECT n.nspname, c.relname, pg_relation_size(c.oid) / current_setting('block_size')::int
  FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = %d AND c.relkind = 'r'
  AND NOT EXISTS (SELECT FROM pg_partition_tree(%d))`, t.oid, t.oid, t.oid))
	if err != nil {
		return nil, fmt.Errorf("list partitions of %s: %w", t, err)
	}
	var list []partition
	for _, r := range rows {
		p := partition{schema: string(r[0]), name: string(r[1])}
		p.pages, _ = strconv.ParseInt(string(r[2]), 10, 64)
		list = append(list, p)
	}
	return list, nil
}

func parseOID(b []byte) uint32 {
	n, _ := strconv.ParseUint(string(b), 10, 32)
	return uint32(n)
}

func parseModifier(b []byte) int32 {
	n, err := strconv.ParseInt(string(b), 10, 32)
	if err != nil {
		return -1
	}
	return int32(n)
}

func isTrue(b []byte) bool { return len(b) == 1 && b[0] == 't' }

func splitNames(b []byte) []string {
	if len(b) == 0 {
		return nil
	}
	return strings.Split(string(b), "\x01")
}
