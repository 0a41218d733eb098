package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/rowtrail/rowtrail/connectors"
	"github.com/rowtrail/rowtrail/itest/servers"
)

func database(t *testing.T, p *servers.Postgres, name, sql string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	dsn, err := p.CreateDatabase(ctx, name)
	if err != nil {
		t.Fatal(err)
	}
	query(t, dsn, sql)
	return dsn
}

func query(t *testing.T, dsn, sql string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, sql); err != nil {
		t.Fatal(err)
	}
}

// eventually waits for what a node does in the background.
func eventually(t *testing.T, what string, check func() (ok bool, got string)) {
	t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for {
		ok, got := check()
		if ok {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: still\n%s", what, got)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// TestEndToEnd: rows of one Postgres are captured, looked up by every command, and applied to another database.
func TestEndToEnd(t *testing.T) {
	if testing.Short() {
		t.Skip("needs a Postgres server; run without -short")
	}
	server := servers.ForTest(t, servers.Options{})
	source := database(t, server, "shop", "CREATE TABLE orders (id int PRIMARY KEY, state text, note text); INSERT INTO orders VALUES (1, 'new', 'a'), (2, 'new', NULL); "+
		"CREATE TABLE items (id bigint PRIMARY KEY, price numeric(10,2), made timestamptz, big text); ALTER TABLE items ALTER big SET STORAGE EXTERNAL; "+
		"INSERT INTO items VALUES (1, 9.50, '2026-01-02 03:04:05+00', repeat('x', 9000)), (5, 1, NULL, repeat('y', 9000))")
	target := database(t, server, "warehouse", "")
	t.Setenv("SHOP_DSN", source)
	t.Setenv("WAREHOUSE_DSN", target)
	planes := `connectors:
  - {name: shop, type: postgres, config: {database.dsn: "${SHOP_DSN}", topic.prefix: shop, table.include.list: [public.orders, public.items]}}
sinks:
  - {name: warehouse, type: postgres, topics: ["shop.public.*"], config: {dsn: "${WAREHOUSE_DSN}"}}
`
	if code, out, errs := runCLI(t, "check", "-c", write(t, planes), "--connect"); code != ExitOK {
		t.Fatalf("check: exit %d\n%s%s", code, out, errs)
	}
	n := serveNode(t, t.TempDir(), planes)
	eventually(t, "connector streams", func() (bool, string) {
		_, out, errs := runCLI(t, "connectors", "shop", "--http", n.HTTP, "-o", "json")
		return strings.Contains(out, `"state":"streaming"`), out + errs
	})
	query(t, source, "UPDATE orders SET state = 'paid' WHERE id = 1; DELETE FROM orders WHERE id = 2; INSERT INTO orders VALUES (3, 'new', 'c')")
	query(t, source, "UPDATE items SET price = 10.25 WHERE id = 1; UPDATE items SET made = NULL WHERE id = 1") // big is not sent again
	query(t, source, "BEGIN; UPDATE items SET price = 2 WHERE id = 5; UPDATE items SET id = 6 WHERE id = 5; UPDATE items SET price = 3; "+
		"INSERT INTO items VALUES (5, 4, NULL, 'another'); COMMIT; UPDATE items SET id = 7 WHERE id = 6")
	eventually(t, "target is equal", func() (bool, string) {
		ctx := context.Background()
		conn, err := pgx.Connect(ctx, target)
		if err != nil {
			return false, err.Error()
		}
		defer conn.Close(ctx)
		var got string
		err = conn.QueryRow(ctx, "SELECT string_agg(id || state || coalesce(note, '-'), ' ' ORDER BY id) FROM orders").Scan(&got)
		return err == nil && got == "1paida 3newc", fmt.Sprint(got, err)
	})
	code, out, errs := runCLI(t, "tail", "shop.public.orders", "--server", n.Kafka, "--from", "beginning", "-o", "json")
	if code != ExitOK || len(lines(out)) != 6 { // 2 loaded, u, d, tombstone, c
		t.Errorf("tail: exit %d\n%s%s", code, out, errs)
	}
	for _, line := range lines(out) {
		var r recordLine
		if err := json.Unmarshal([]byte(line), &r); err != nil || r.Position == nil {
			t.Errorf("record without position: %s, %v", line, err)
		}
	}
	if _, out, _ := runCLI(t, "sinks", "--http", n.HTTP); !strings.Contains(out, "streaming") || !strings.Contains(out, "shop.public.orders") {
		t.Errorf("sinks:\n%s", out)
	}
	if _, out, _ := runCLI(t, "groups", "--server", n.Kafka); !strings.Contains(out, "rowtrail-sink-warehouse") {
		t.Errorf("groups:\n%s", out)
	}
	if code, _, errs := runCLI(t, "connectors", "nope", "--http", n.HTTP); code != ExitNotFound || errs != "rowtrail: no connector is named \"nope\"; `rowtrail connectors` lists them\n" {
		t.Errorf("exit %d, %s", code, errs)
	}
	rowsOverTheCLI(t, n)
	lagOverTheMetrics(t, n, server, source)
	if strings.Contains(n.log(t), source) {
		t.Error("the log shows the source's DSN")
	}
}

// TestCheckConnectNamesTheRemedy: what stands in the way of a connector, each finding in one line with what mends it.
func TestCheckConnectNamesTheRemedy(t *testing.T) {
	if testing.Short() {
		t.Skip("needs a Postgres server; run without -short")
	}
	server := servers.ForTest(t, servers.Options{Settings: map[string]string{"wal_level": "replica"}})
	dsn := database(t, server, "shop", "CREATE TABLE keyless (a int); CREATE TABLE orders (id int PRIMARY KEY); CREATE ROLE reader LOGIN")
	reader := strings.Replace(dsn, "postgres@", "reader@", 1)
	check := func(dsn, tables string) []finding {
		t.Helper()
		file := write(t, fmt.Sprintf("connectors:\n  - {name: shop, type: postgres, config: {database.dsn: %q, table.include.list: %q}}\n", dsn, tables))
		code, out, errs := runCLI(t, "check", "-c", file, "--connect", "-o", "json")
		var report struct {
			OK       bool
			Findings []finding
		}
		if err := json.Unmarshal([]byte(out), &report); err != nil {
			t.Fatalf("%v: %s%s", err, out, errs)
		}
		if code != ExitError || report.OK {
			t.Errorf("exit %d, ok %v", code, report.OK)
		}
		return report.Findings
	}
	for _, c := range []struct{ name, dsn, tables, problem, remedy string }{
		{"wal_level", dsn, "public.orders", "wal_level", "ALTER SYSTEM SET wal_level = logical"},
		{"replica identity", dsn, "public.keyless", "replica identity", "ALTER TABLE public.keyless REPLICA IDENTITY FULL"},
		{"permission", reader, "public.orders", "may not replicate", "ALTER ROLE reader REPLICATION"},
		{"wrong database", strings.Replace(dsn, "/shop", "/shap", 1), "public.orders", `database "shap" does not exist`, ""},
		{"nobody there", "postgres://postgres@" + closedPort(t) + "/shop", "public.orders", "connection refused", ""},
	} {
		found := false
		all := check(c.dsn, c.tables)
		for _, f := range all {
			text := strings.ToLower(f.Subject + " " + f.Problem)
			if f.Where == "connector shop" && f.Level == connectors.LevelError && strings.Contains(text, strings.ToLower(c.problem)) && strings.Contains(strings.ReplaceAll(f.Remedy, `"`, ""), c.remedy) {
				found = true
			}
		}
		if !found {
			t.Errorf("%s: no finding with %q and %q in\n%+v", c.name, c.problem, c.remedy, all)
		}
	}
}

// TestCheckConnectWarnsOfKeylessTables: a sink would stop at them, unless its topics leave them out.
func TestCheckConnectWarnsOfKeylessTables(t *testing.T) {
	if testing.Short() {
		t.Skip("needs a Postgres server; run without -short")
	}
	server := servers.ForTest(t, servers.Options{})
	source := database(t, server, "shop", "CREATE TABLE orders (id int PRIMARY KEY); CREATE TABLE audit (what text); ALTER TABLE audit REPLICA IDENTITY FULL")
	target := database(t, server, "warehouse", "")
	check := func(topics string) string {
		t.Helper()
		code, out, errs := runCLI(t, "check", "--connect", "-c", write(t, fmt.Sprintf(`connectors:
  - {name: shop, type: postgres, config: {database.dsn: %q, schema.include.list: public, skipped.operations: none}}
sinks:
  - {name: warehouse, type: postgres, topics: [%s], config: {dsn: %q}}
`, source, topics, target)))
		if code != ExitOK {
			t.Fatalf("exit %d\n%s%s", code, out, errs)
		}
		return out
	}
	const want = `sink warehouse: warning: topic shop.public.audit: the sink will stop at its first change: its table has no key, so its rows cannot be told apart ` +
		`in the target; leave it out with "!shop.public.audit" in the sink's topics, or give the table a primary key` + "\n"
	if out := check(`"shop.public.*"`); strings.Count(out, "sink warehouse:") != 1 || !strings.Contains(out, want) {
		t.Errorf("got\n%s", out)
	}
	if out := check(`"shop.public.*", "!shop.public.audit"`); strings.Contains(out, "sink warehouse:") {
		t.Errorf("left out:\n%s", out)
	}
}

// TestSinkRefusesAnotherLog: the data directory is deleted and the connector begins anew. The target, which has offsets of the
// log that is gone, is left as it is, and the sink says why and what to do.
func TestSinkRefusesAnotherLog(t *testing.T) {
	if testing.Short() {
		t.Skip("needs a Postgres server; run without -short")
	}
	server := servers.ForTest(t, servers.Options{})
	source := database(t, server, "shop", "CREATE TABLE orders (id int PRIMARY KEY, state text); INSERT INTO orders SELECT i, 'new' FROM generate_series(1, 50) i")
	target := database(t, server, "warehouse", "")
	planes := fmt.Sprintf(`connectors:
  - {name: shop, type: postgres, config: {database.dsn: %q, table.include.list: public.orders}}
sinks:
  - {name: warehouse, type: postgres, topics: ["shop.public.*"], config: {dsn: %q}}
`, source, target)
	rows := func() (got string) {
		ctx := context.Background()
		conn, err := pgx.Connect(ctx, target)
		if err != nil {
			return err.Error()
		}
		defer conn.Close(ctx)
		if err := conn.QueryRow(ctx, "SELECT count(*) || ' ' || min(state) || ' ' || max(state) FROM orders").Scan(&got); err != nil {
			return err.Error()
		}
		return got
	}
	n := serveNode(t, t.TempDir(), planes)
	eventually(t, "target is equal", func() (bool, string) { got := rows(); return got == "50 new new", got })
	n.signal(t, syscall.SIGTERM)
	n.exit(t, 30*time.Second)
	query(t, source, "SELECT pg_drop_replication_slot('debezium')")
	query(t, source, "UPDATE orders SET state = 'paid'; INSERT INTO orders SELECT i, 'late' FROM generate_series(51, 500) i")

	n = serveNode(t, t.TempDir(), planes)
	eventually(t, "sink refuses", func() (bool, string) {
		_, out, errs := runCLI(t, "sinks", "warehouse", "--http", n.HTTP, "-o", "json")
		return strings.Contains(out, `"state":"failed"`) && strings.Contains(out, "the target's offsets are of another log (topic id ") &&
			strings.Contains(out, "Nothing was applied; bring the old log back, or let a sink of a new name load empty tables"), out + errs
	})
	if got := rows(); got != "50 new new" {
		t.Errorf("the target was changed: %s", got)
	}
}
