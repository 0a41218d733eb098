package check

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/rowtrail/rowtrail/itest/process"
	"github.com/rowtrail/rowtrail/itest/servers"
)

// reloadTime is for a server to take its configuration anew, which it tells nobody.
const reloadTime = 300 * time.Millisecond

// superuser runs statements in a database.
func superuser(t *testing.T, p *servers.Postgres, database string) func(...string) error {
	t.Helper()
	conn, err := pgx.Connect(context.Background(), p.DSN(database))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return func(statements ...string) error {
		for _, sql := range statements {
			if _, err := conn.Exec(context.Background(), sql); err != nil {
				return fmt.Errorf("%s: %w", sql, err)
			}
			if strings.Contains(sql, "pg_reload_conf") {
				time.Sleep(reloadTime)
			}
		}
		return nil
	}
}

// as is a DSN of another role.
func as(dsn, role string) string {
	return strings.Replace(dsn, "postgres@", role+":"+secret+"@", 1)
}

// ofRole is a server with a database, a role that may capture its one table, and the number of the server's version.
func ofRole(t *testing.T, p *servers.Postgres) (*server, int) {
	t.Helper()
	ctx := context.Background()
	dsn, err := p.CreateDatabase(ctx, "shop")
	if err != nil {
		t.Fatal(err)
	}
	s := &server{exec: superuser(t, p, "shop")}
	err = s.exec("CREATE ROLE cdc LOGIN REPLICATION PASSWORD '"+secret+"'", "GRANT CREATE ON DATABASE shop TO cdc", "CREATE TABLE orders (id int PRIMARY KEY, code text NOT NULL, state text)",
		"ALTER TABLE orders OWNER TO cdc")
	if err != nil {
		t.Fatal(err)
	}
	s.right = process.Config{Connectors: []process.Connector{{Name: "shop", Config: map[string]string{
		"database.dsn": as(dsn, "cdc"), "schema.include.list": "public", "skipped.operations": "none",
	}}}}
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	var version int
	if err := conn.QueryRow(ctx, "SELECT current_setting('server_version_num')::int").Scan(&version); err != nil {
		t.Fatal(err)
	}
	return s, version
}

// TestEveryMisconfigurationOfPostgres: settings, privileges, slots, publications, tables and properties of a source, each broken alone.
func TestEveryMisconfigurationOfPostgres(t *testing.T) {
	if testing.Short() {
		t.Skip("needs a Postgres server; run without -short")
	}
	p := servers.ForTest(t, servers.Options{})
	s, version := ofRole(t, p)
	const reload = "SELECT pg_reload_conf()"
	setting := func(name, value, right, words string) wrong {
		return wrong{name: name, breaks: []string{"ALTER SYSTEM SET " + name + " = '" + value + "'", reload}, level: warn, words: []string{name, words},
			sql: []string{"ALTER SYSTEM SET " + name + " = " + right, reload}, undo: []string{"ALTER SYSTEM RESET " + name, reload}}
	}
	drop := "SELECT pg_drop_replication_slot('debezium')"
	dropPublication := []string{"DROP PUBLICATION dbz_publication"}
	list := []wrong{
		setting("max_slot_wal_keep_size", "100MB", "-1", "100 MB"), setting("wal_sender_timeout", "2s", "'60s'", "2000 ms"),
		{name: "REPLICATION", breaks: []string{"ALTER ROLE cdc NOREPLICATION"}, level: bad, words: []string{"role cdc", "may not replicate"}, sql: []string{`ALTER ROLE "cdc" REPLICATION`}},
		{name: "SELECT", breaks: []string{"REVOKE SELECT ON orders FROM cdc"}, level: bad, words: []string{"table public.orders", "may not read"}, sql: []string{`GRANT SELECT ON "public"."orders" TO "cdc"`}},
		{name: "CREATE", breaks: []string{"REVOKE CREATE ON DATABASE shop FROM cdc"}, level: bad, words: []string{"publication dbz_publication", "may not create"}, sql: []string{`GRANT CREATE ON DATABASE "shop" TO "cdc"`}},
		{name: "P7 no identity", breaks: []string{"ALTER TABLE orders REPLICA IDENTITY NOTHING"}, level: bad, words: []string{"table public.orders", "no replica identity"},
			sql: []string{`ALTER TABLE "public"."orders" REPLICA IDENTITY FULL`}, undo: []string{"ALTER TABLE orders REPLICA IDENTITY DEFAULT"}},
		{name: "keyless table", breaks: []string{"CREATE TABLE log (v int)", "ALTER TABLE log REPLICA IDENTITY FULL", "ALTER TABLE log OWNER TO cdc"}, level: warn, words: []string{"table public.log", "ADD PRIMARY KEY"}, undo: []string{"DROP TABLE log"}},
		{name: "no table", props: map[string]string{"table.include.list": "public.nothing", "schema.include.list": ""}, level: bad, words: []string{"no table", "table.include.list"}},
		{name: "table of another owner", breaks: []string{"ALTER TABLE orders OWNER TO postgres", "GRANT SELECT ON orders TO cdc"}, level: bad, words: []string{"table public.orders", "does not own it"},
			sql: []string{`CREATE PUBLICATION "dbz_publication" FOR TABLE "public"."orders" WITH (publish_via_partition_root = true)`}, undo: append(dropPublication, "ALTER TABLE orders OWNER TO cdc")},
		{name: "publication that is not made", props: map[string]string{"publication.autocreate.mode": "disabled"}, level: bad, words: []string{"publication dbz_publication", "does not exist"},
			sql: []string{`CREATE PUBLICATION "dbz_publication" FOR TABLE "public"."orders" WITH (publish_via_partition_root = true)`}, undo: dropPublication},
		{name: "publication without the table", breaks: []string{"CREATE TABLE other (id int PRIMARY KEY)", "CREATE PUBLICATION dbz_publication FOR TABLE other WITH (publish_via_partition_root = true)"},
			props: map[string]string{"publication.autocreate.mode": "disabled", "table.include.list": "public.orders", "schema.include.list": ""}, level: bad, words: []string{"publication dbz_publication", "does not publish all"},
			sql: []string{`ALTER PUBLICATION "dbz_publication" ADD TABLE "public"."orders"`}, undo: append(dropPublication, "DROP TABLE other")},
		{name: "physical slot", breaks: []string{"SELECT pg_create_physical_replication_slot('debezium')"}, level: bad, words: []string{"slot debezium", "not a logical slot"}, sql: []string{drop}},
		{name: "P5 slot without publication", breaks: []string{"SELECT pg_create_logical_replication_slot('debezium', 'pgoutput')"}, level: bad, words: []string{"slot debezium", "publication dbz_publication does not"}, sql: []string{drop}},
		{name: "key of a column that is not there", props: map[string]string{"message.key.columns": "public.orders:nothing"}, level: bad, words: []string{"table public.orders", "no captured column nothing"}},
		{name: "key that deletes do not have", props: map[string]string{"message.key.columns": "public.orders:code"}, level: bad, words: []string{"table public.orders", "deletes do not carry"},
			sql: []string{`ALTER TABLE "public"."orders" REPLICA IDENTITY FULL`}, undo: []string{"ALTER TABLE orders REPLICA IDENTITY DEFAULT"}},
		{name: "lossy times", breaks: []string{"ALTER TABLE orders ADD at timestamp"}, props: map[string]string{"time.precision.mode": "connect"}, level: warn, words: []string{"table public.orders", "at", "time.precision.mode: adaptive"},
			undo: []string{"ALTER TABLE orders DROP at"}},
		{name: "no database", props: map[string]string{"database.dsn": as(p.DSN("nowhere"), "cdc")}, level: bad, words: []string{"nowhere", "does not exist"}},
		{name: "nobody there", props: map[string]string{"database.dsn": "postgres://cdc:" + secret + "@127.0.0.1:1/shop?sslmode=disable"}, level: bad, words: []string{"connection", "refused"}},
	}
	if version >= 150000 {
		list = append(list, wrong{name: "row filter", breaks: []string{"CREATE PUBLICATION dbz_publication FOR TABLE orders WHERE (id > 1) WITH (publish_via_partition_root = true)", "ALTER PUBLICATION dbz_publication OWNER TO cdc"},
			level: bad, words: []string{"publication dbz_publication", "row filter"}, undo: dropPublication})
	}
	if version >= 180000 {
		list = append(list, setting("idle_replication_slot_timeout", "10min", "0", "600 s"))
	}
	s.all(t, list)
}

// TestMisconfigurationsAtTheStartOfPostgres: what only a restart of the server changes.
func TestMisconfigurationsAtTheStartOfPostgres(t *testing.T) {
	if testing.Short() {
		t.Skip("needs a Postgres server; run without -short")
	}
	p := servers.ForTest(t, servers.Options{Settings: map[string]string{"wal_level": "replica", "max_wal_senders": "0", "max_replication_slots": "1"}})
	s, _ := ofRole(t, p)
	if err := s.exec("SELECT pg_create_physical_replication_slot('other')"); err != nil {
		t.Fatal(err)
	}
	list, code := ask(t, s.right)
	for _, words := range [][]string{
		{"wal_level", "ALTER SYSTEM SET wal_level = logical; then restart"}, {"max_wal_senders", "all 0 are in use", "ALTER SYSTEM SET max_wal_senders = 4"},
		{"max_replication_slots", "all 1 are in use", "ALTER SYSTEM SET max_replication_slots = 5"},
	} {
		if !slicesHave(list, words) {
			t.Errorf("no error with %q in\n%v", words, list)
		}
	}
	if code != 1 || len(list) != 3 {
		t.Errorf("exit %d, %v", code, list)
	}
	if err := s.exec("ALTER SYSTEM SET wal_level = logical", "ALTER SYSTEM SET max_wal_senders = 4", "ALTER SYSTEM SET max_replication_slots = 5"); err != nil {
		t.Errorf("a statement that check prints: %v", err)
	}
}

// TestEveryMisconfigurationOfAPostgresTarget: a sink's server, rights and tables, each broken alone.
func TestEveryMisconfigurationOfAPostgresTarget(t *testing.T) {
	if testing.Short() {
		t.Skip("needs a Postgres server; run without -short")
	}
	p := servers.ForTest(t, servers.Options{})
	dsn, err := p.CreateDatabase(context.Background(), "warehouse")
	if err != nil {
		t.Fatal(err)
	}
	s := &server{exec: superuser(t, p, "warehouse")}
	rows := []string{"SELECT", "INSERT", "UPDATE", "DELETE", "TRUNCATE"}
	err = s.exec("CREATE ROLE cdc LOGIN PASSWORD '"+secret+"'", "GRANT CREATE ON DATABASE warehouse TO cdc", "CREATE SCHEMA shop", "GRANT USAGE, CREATE ON SCHEMA shop TO cdc", "CREATE TABLE shop.items (id int PRIMARY KEY)",
		"GRANT "+strings.Join(rows, ", ")+" ON shop.items TO cdc")
	if err != nil {
		t.Fatal(err)
	}
	s.right = process.Config{Sinks: []process.Sink{{Name: "warehouse", Type: "postgres", Topics: []string{"shop.*"}, Config: map[string]string{
		"dsn": as(dsn, "cdc"), "target.schema": "shop", "table.map": "public.items:shop.items",
	}}}}
	list := []wrong{
		{name: "read-only", breaks: []string{"ALTER ROLE cdc SET default_transaction_read_only = on"}, level: bad, words: []string{"server", "read-only"},
			sql: []string{`ALTER ROLE "cdc" IN DATABASE "warehouse" SET default_transaction_read_only = off`}, undo: []string{"ALTER ROLE cdc RESET default_transaction_read_only", "ALTER ROLE cdc IN DATABASE warehouse RESET ALL"}},
		{name: "USAGE", breaks: []string{"REVOKE USAGE ON SCHEMA shop FROM cdc"}, level: bad, words: []string{"schema shop", "may not use"}, sql: []string{`GRANT USAGE ON SCHEMA "shop" TO "cdc"`}},
		{name: "CREATE in the schema", breaks: []string{"REVOKE CREATE ON SCHEMA shop FROM cdc"}, level: bad, words: []string{"schema shop", "may not create"}, sql: []string{`GRANT CREATE ON SCHEMA "shop" TO "cdc"`}},
		{name: "CREATE in the database", breaks: []string{"REVOKE CREATE ON DATABASE warehouse FROM cdc"}, level: bad, words: []string{"schema rowtrail", "may not create"}, sql: []string{`CREATE SCHEMA "rowtrail" AUTHORIZATION "cdc"`},
			undo: []string{"DROP SCHEMA rowtrail", "GRANT CREATE ON DATABASE warehouse TO cdc"}},
		{name: "no table", props: map[string]string{"schema.evolution": "none", "table.map": "public.a:shop.a"}, level: bad, words: []string{"does not exist", "create it"}},
		{name: "no database", props: map[string]string{"dsn": as(p.DSN("nowhere"), "cdc")}, level: bad, words: []string{"target", "nowhere"}},
		{name: "nobody there", props: map[string]string{"dsn": "postgres://cdc:" + secret + "@127.0.0.1:1/shop?sslmode=disable"}, level: bad, words: []string{"target", "cannot connect", "refused"}},
	}
	for _, right := range rows {
		list = append(list, wrong{name: "rows " + right, breaks: []string{"REVOKE " + right + " ON shop.items FROM cdc"}, level: bad, words: []string{"items", "no " + right + " right"}, sql: []string{"GRANT " + right + ` ON "shop"."items" TO "cdc"`}})
	}
	s.all(t, list)
}
