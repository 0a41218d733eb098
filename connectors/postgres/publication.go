package postgres

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

// publication is an existing publication.
type publication struct {
	oid       uint32
	allTables bool
	owned     bool
	inserts   bool
	updates   bool
	deletes   bool
	truncates bool
	viaRoot   bool
	generated bool            // stored generated columns are published (Postgres 18)
	tables    map[string]bool // named in it or published by it: schema.table
	filtered  []string        // tables with a row filter or a column list
}

// readPublication returns nil when there is none.
func readPublication(ctx context.Context, conn *pgconn.PgConn, name string, version int) (*publication, error) {
	generated := "false"
	if version >= 180000 {
		generated = "pubgencols = 's'"
	}
	rows, err := query(ctx, conn, `SELECT puballtables, pg_has_role(pubowner, 'USAGE'), pubinsert, pubupdate, pubdelete, pubtruncate, pubviaroot, `+generated+`, oid FROM pg_publication WHERE pubname = `+quoteLiteral(name))
	if err != nil {
		return nil, fmt.Errorf("read publication %s: %w", name, err)
	}
	if len(rows) == 0 {
		return nil, nil
	}
	r := rows[0]
	p := &publication{
		allTables: isTrue(r[0]), owned: isTrue(r[1]), inserts: isTrue(r[2]), updates: isTrue(r[3]), deletes: isTrue(r[4]),
		truncates: isTrue(r[5]), viaRoot: isTrue(r[6]), generated: isTrue(r[7]), oid: parseOID(r[8]), tables: map[string]bool{},
	}
	rows, err = query(ctx, conn, `SELECT schemaname, tablename FROM pg_publication_tables WHERE pubname = `+quoteLiteral(name)+`
 UNION SELECT n.nspname, c.relname FROM pg_publication_rel r JOIN pg_publication p ON p.oid = r.prpubid
 JOIN pg_class c ON c.oid = r.prrelid JOIN pg_namespace n ON n.oid = c.relnamespace WHERE p.pubname = `+quoteLiteral(name))
	if err != nil {
		return nil, fmt.Errorf("read tables of publication %s: %w", name, err)
	}
	for _, r := range rows {
		p.tables[string(r[0])+"."+string(r[1])] = true
	}
	if version >= 150000 {
		rows, err = query(ctx, conn, `SELECT n.nspname, c.relname FROM pg_publication_rel r JOIN pg_publication p ON p.oid = r.prpubid
 JOIN pg_class c ON c.oid = r.prrelid JOIN pg_namespace n ON n.oid = c.relnamespace
 WHERE p.pubname = `+quoteLiteral(name)+` AND (r.prqual IS NOT NULL OR r.prattrs IS NOT NULL)`)
		if err != nil {
			return nil, fmt.Errorf("read filters of publication %s: %w", name, err)
		}
		for _, r := range rows {
			p.filtered = append(p.filtered, string(r[0])+"."+string(r[1]))
		}
	}
	return p, nil
}

// publishes tells whether a column is published as it is by p, or by the publication that is made when p is nil.
func (p *publication) publishes(c column) bool {
	return c.generated == 0 || (p != nil && p.generated && c.generated == generatedStored)
}

// publicationSQL is what makes the publication right; nil when it is. The publication is for exactly the captured tables
// unless all_tables is asked for (P7); partitioned tables are published by their root (P22).
func (c *Config) publicationSQL(p *publication, tables []*table) []string {
	name := quoteIdent(c.Publication)
	if p == nil {
		if c.Autocreate == AutocreateAllTables {
			return []string{"CREATE PUBLICATION " + name + " FOR ALL TABLES WITH (publish_via_partition_root = true)"}
		}
		return []string{"CREATE PUBLICATION " + name + " FOR TABLE " + quotedTables(tables) + " WITH (publish_via_partition_root = true)"}
	}
	var sql []string
	if !p.viaRoot && hasPartitioned(tables) {
		sql = append(sql, "ALTER PUBLICATION "+name+" SET (publish_via_partition_root = true)")
	}
	if !p.inserts || !p.updates || !p.deletes || (!c.SkipTruncate && !p.truncates) {
		sql = append(sql, "ALTER PUBLICATION "+name+" SET (publish = 'insert, update, delete, truncate')")
	}
	var missing []*table
	for _, t := range tables {
		if !p.allTables && !p.tables[t.String()] {
			missing = append(missing, t)
		}
	}
	if len(missing) > 0 {
		sql = append(sql, "ALTER PUBLICATION "+name+" ADD TABLE "+quotedTables(missing))
	}
	return sql
}

func quotedTables(tables []*table) string {
	names := make([]string, len(tables))
	for i, t := range tables {
		names[i] = t.quoted()
	}
	return strings.Join(names, ", ")
}

func hasPartitioned(tables []*table) bool {
	for _, t := range tables {
		if t.partitioned {
			return true
		}
	}
	return false
}
