package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/rowtrail/rowtrail/itest/servers"
)

// postgres is a Postgres server; each mode has a database of its own.
type postgres struct {
	server   *servers.Postgres
	conn     *pgconn.PgConn
	database string
}

func startPostgres(ctx context.Context, logf func(string, ...any)) (source, error) {
	// Nothing has to survive the machine.
	s, err := servers.StartPostgres(ctx, servers.Options{Logf: logf, Settings: map[string]string{"fsync": "off"}})
	if err != nil {
		return nil, err
	}
	return &postgres{server: s}, nil
}

func (p *postgres) cases(m *mode, seed uint64) []tableCase {
	var list []tableCase
	for i, t := range pgTypes() {
		table := pgTypeTable(i)
		list = append(list, typed(table, t.typ, "; ALTER TABLE "+table+" REPLICA IDENTITY FULL", t.expand(seed, i), m, pgTransaction))
	}
	for i, k := range pgKeys() {
		list = append(list, keyed(fmt.Sprintf("k%d", i), k[0], "v", k[1], k[2]))
	}
	return append(list, pgShapes()...)
}

// pgTransaction sends statements at once: then they are one transaction.
func pgTransaction(statements []string) []string { return []string{strings.Join(statements, "; ")} }

func (p *postgres) open(ctx context.Context, database string) error {
	if err := p.drop(ctx); err != nil {
		return err
	}
	if _, err := p.server.CreateDatabase(ctx, database); err != nil {
		return err
	}
	conn, err := pgconn.Connect(ctx, p.server.DSN(database))
	if err != nil {
		return fmt.Errorf("connect to %s: %w", database, err)
	}
	p.conn, p.database = conn, database
	return p.exec(ctx, pgSetUp()...)
}

// drop ends the mode before: what it captured, and its database.
func (p *postgres) drop(ctx context.Context) error {
	if p.conn == nil {
		return nil
	}
	_ = p.conn.Close(ctx)
	p.conn = nil
	conn, err := pgconn.Connect(ctx, p.server.DSN("postgres"))
	if err != nil {
		return fmt.Errorf("connect to drop %s: %w", p.database, err)
	}
	defer conn.Close(ctx)
	sql := "SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE active; SELECT pg_sleep(0.2); SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots"
	for _, s := range []string{sql, "DROP DATABASE " + pgx.Identifier{p.database}.Sanitize() + " WITH (FORCE)"} {
		if _, err := conn.Exec(ctx, s).ReadAll(); err != nil {
			return fmt.Errorf("drop database %s: %w", p.database, err)
		}
	}
	return nil
}

func (p *postgres) exec(ctx context.Context, statements ...string) error {
	for _, s := range statements {
		if _, err := p.conn.Exec(ctx, s).ReadAll(); err != nil {
			return fmt.Errorf("%.300s: %w", s, err)
		}
	}
	return nil
}

func (p *postgres) rowtrail(prefix string) (typ string, props map[string]string) {
	return "postgres", map[string]string{
		"database.dsn": p.server.DSN(p.database), "slot.name": "slot_" + prefix, "publication.name": "pub_" + prefix,
		"schema.include.list": "public", "message.prefix.include.list": ".*",
	}
}

func (p *postgres) debezium() map[string]string {
	return map[string]string{
		"connector.class":   "io.debezium.connector.postgresql.PostgresConnector",
		"database.hostname": "127.0.0.1", "database.port": strconv.Itoa(p.server.Port()), "database.user": "postgres", "database.password": "none",
		"database.dbname": p.database, "database.sslmode": "disable", "plugin.name": "pgoutput",
		"slot.name": "slot_debezium", "publication.name": "pub_debezium", "publication.autocreate.mode": "filtered", "publish.via.partition.root": "true",
		"schema.include.list": "public", "message.prefix.include.list": ".*",
	}
}

// ready: the initial load is over.
func (p *postgres) ready(_ *mode, last *record) bool {
	return field(payload(last.value), "source", "snapshot") == "last"
}

// dataTopic is a table's topic without the prefix.
func (p *postgres) dataTopic(table string) string { return "public." + strings.Trim(table, `"`) }

func (p *postgres) close() error {
	if p.conn != nil {
		_ = p.conn.Close(context.Background())
	}
	return p.server.Close()
}
