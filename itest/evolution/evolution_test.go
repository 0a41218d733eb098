// Package evolution changes the tables of a running source as its owners do, and compares source, target and state: the real binary, a
// real Postgres.
package evolution

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/rowtrail/rowtrail/itest/process"
	"github.com/rowtrail/rowtrail/itest/servers"
)

const patience = 60 * time.Second

// system is a source, a node and a target.
type system struct {
	t              *testing.T
	ctx            context.Context
	source, target *pgx.Conn
	node           *process.Rowtrail
}

func start(t *testing.T, setup ...string) *system {
	t.Helper()
	return startWith(t, nil, setup...)
}

// startWith is start with properties of the connector.
func startWith(t *testing.T, props map[string]string, setup ...string) *system {
	t.Helper()
	if testing.Short() {
		t.Skip("runs the whole binary against real servers; run without -short")
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	t.Cleanup(cancel)
	pg := servers.ForTest(t, servers.Options{})
	s := &system{t: t, ctx: ctx}
	dsn := map[string]string{}
	for _, name := range []string{"source", "target"} {
		var err error
		if dsn[name], err = pg.CreateDatabase(ctx, name); err != nil {
			t.Fatal(err)
		}
	}
	s.source, s.target = s.connect(dsn["source"]), s.connect(dsn["target"])
	s.exec(setup...)
	binary, err := process.Build(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{"database.dsn": dsn["source"], "table.include.list": `public\..*`, "topic.prefix": "shop"}
	maps.Copy(all, props)
	s.node, err = process.New(binary, t.TempDir(), process.Config{
		Connectors: []process.Connector{{Name: "shop", Config: all}},
		Sinks:      []process.Sink{{Name: "copy", Topics: []string{"shop.public.*"}, Config: map[string]string{"dsn": dsn["target"]}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("last lines of rowtrail:\n%s", s.node.Tail(40))
		}
		_ = s.node.Kill()
	})
	s.serve()
	return s
}

func (s *system) connect(dsn string) *pgx.Conn {
	s.t.Helper()
	conn, err := pgx.Connect(s.ctx, dsn)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

func (s *system) serve() {
	s.t.Helper()
	if err := s.node.Start(); err != nil {
		s.t.Fatal(err)
	}
	if err := s.node.WaitReady(s.ctx); err != nil {
		s.t.Fatal(err)
	}
}

// exec changes the source.
func (s *system) exec(statements ...string) {
	s.t.Helper()
	for _, sql := range statements {
		if _, err := s.source.Exec(s.ctx, sql); err != nil {
			s.t.Fatalf("%s: %v", sql, err)
		}
	}
}

func (s *system) eventually(what string, ok func() (bool, string)) {
	s.t.Helper()
	deadline := time.Now().Add(patience)
	for {
		done, state := ok()
		if done {
			return
		}
		if time.Now().After(deadline) {
			s.t.Fatalf("%s: %s", what, state)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func rows(ctx context.Context, conn *pgx.Conn, table string) string {
	r, err := conn.Query(ctx, "SELECT row_to_json(q)::jsonb::text FROM (SELECT * FROM "+table+") q ORDER BY 1")
	if err != nil {
		return err.Error()
	}
	list, err := pgx.CollectRows(r, pgx.RowTo[string])
	if err != nil {
		return err.Error()
	}
	return strings.Join(list, "\n")
}

// equal waits until a table is the same at both ends, names of columns included.
func (s *system) equal(table string) {
	s.t.Helper()
	s.eventually("source and target differ", func() (bool, string) {
		want, got := rows(s.ctx, s.source, table), rows(s.ctx, s.target, table)
		return want == got, fmt.Sprintf("source:\n%s\ntarget:\n%s", want, got)
	})
}

// connectorStatus is what the node tells of its connector.
type connectorStatus struct {
	State    string   `json:"state"`
	Error    string   `json:"error"`
	Warnings []string `json:"warnings"`
}

func (s *system) connector() (status connectorStatus) {
	s.t.Helper()
	if err := s.node.JSON(s.ctx, "/v1/connectors/shop", &status); err != nil {
		s.t.Fatal(err)
	}
	return status
}

func TestColumnsFollowTheSource(t *testing.T) {
	s := start(t, "CREATE TABLE t (id int PRIMARY KEY, a text, n int)", "INSERT INTO t SELECT i, 'a' || i, i FROM generate_series(1, 200) i")
	s.equal("t")
	s.exec("ALTER TABLE t ADD COLUMN d int DEFAULT 9", "INSERT INTO t VALUES (1001, 'x', 1, NULL)")
	s.equal("t")
	s.exec("ALTER TABLE t RENAME COLUMN a TO b", "UPDATE t SET b = 'new' WHERE id = 3")
	s.equal("t")
	s.exec("ALTER TABLE t ALTER COLUMN n TYPE bigint", "UPDATE t SET n = 5000000000 WHERE id = 4")
	s.equal("t")
	if err := s.node.Stop(); err != nil {
		t.Fatal(err)
	}
	s.exec("ALTER TABLE t RENAME COLUMN b TO c", "ALTER TABLE t ADD COLUMN e text DEFAULT 'it''s'", "INSERT INTO t (id, c) VALUES (1002, 'y')")
	s.serve()
	s.equal("t")
	// History is read with the names of its time.
	history, err := s.node.CLI(s.ctx, "history", "shop.public.t", "3")
	if err != nil || !strings.Contains(history, `"a":"a3"`) || !strings.Contains(history, `"b":"new"`) {
		t.Fatalf("history: %v\n%s", err, history)
	}
}

// P6 and P19 together: what an update leaves unsent is found in the row's older version under the column's former name, and what
// another column of that name held is not taken for it.
func TestUnsentValueOfARenamedColumn(t *testing.T) {
	s := start(t, "CREATE TABLE t (id int PRIMARY KEY, a text, n int)", "ALTER TABLE t ALTER a SET STORAGE EXTERNAL",
		"INSERT INTO t VALUES (1, repeat('old', 3000), 0)")
	s.equal("t")
	state := func(want string) {
		t.Helper()
		s.eventually("state of the row", func() (bool, string) {
			var body string
			if err := s.node.JSON(s.ctx, "/v1/state/shop.public.t/1?text=true", &body); err != nil {
				return false, err.Error()
			}
			var row struct {
				Row    map[string]string
				Absent []string
			}
			if err := json.Unmarshal([]byte(body), &row); err != nil {
				return false, err.Error()
			}
			got := fmt.Sprint(row.Row["n"], " a ", len(row.Row["a"]), " b ", len(row.Row["b"]), " ", row.Absent)
			return got == want, got
		})
	}
	s.exec("ALTER TABLE t RENAME COLUMN a TO b", "UPDATE t SET n = 1")
	state("1 a 0 b 9000 []")
	s.exec("ALTER TABLE t ADD COLUMN a text", "ALTER TABLE t ALTER a SET STORAGE EXTERNAL", "UPDATE t SET a = repeat('new', 2000), n = 2", "UPDATE t SET n = 3")
	state("3 a 6000 b 9000 []")
	s.equal("t")
}

// The remedy for a lost slot, as the connector prints it, makes source, target and state equal again.
func TestP15LostSlotLeavesNoGhost(t *testing.T) {
	s := start(t, "CREATE TABLE t (id int PRIMARY KEY, a text)", "INSERT INTO t SELECT i, 'a' || i FROM generate_series(1, 100) i")
	s.equal("t")
	if err := s.node.Stop(); err != nil {
		t.Fatal(err)
	}
	var slot string
	s.eventually("the slot is free", func() (bool, string) {
		err := s.source.QueryRow(s.ctx, "SELECT slot_name FROM pg_replication_slots WHERE NOT active AND database = 'source'").Scan(&slot)
		return err == nil, fmt.Sprint(err)
	})
	s.exec("SELECT pg_drop_replication_slot('"+slot+"')", "DELETE FROM t WHERE id <= 10", "INSERT INTO t VALUES (1000, 'new')")
	s.serve()
	s.eventually("the connector tells of the slot", func() (bool, string) {
		st := s.connector()
		return st.State == "failed" && strings.Contains(st.Error, "delete topic shop.position"), fmt.Sprintf("%+v", st)
	})
	client, err := s.node.Client()
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if _, err := kadm.NewClient(client).DeleteTopic(s.ctx, "shop.position"); err != nil {
		t.Fatal(err)
	}
	if err := s.node.Stop(); err != nil {
		t.Fatal(err)
	}
	s.serve()
	s.equal("t")
	s.exec("UPDATE t SET a = 'after' WHERE id = 20")
	s.equal("t")
	for key, want := range map[string]bool{"5": false, "20": true, "1000": true} {
		out, err := s.node.CLI(s.ctx, "state", "shop.public.t", key, "--output", "json")
		if err == nil != want {
			t.Fatalf("state of %s: %v %s", key, err, out)
		}
	}
	out, err := s.node.CLI(s.ctx, "state", "shop.public.t", "--output", "json")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for d := json.NewDecoder(strings.NewReader(out)); d.More(); n++ {
		var row map[string]any
		if err := d.Decode(&row); err != nil {
			t.Fatalf("%v in %s", err, out)
		}
	}
	if n != 91 {
		t.Fatalf("state has %d rows, want 91", n)
	}
}

// State has a table's columns as the source prints them, and finds keys by the source's text, also where no topic can have the table's name.
func TestStateOfATableWithAnOddName(t *testing.T) {
	s := start(t, `CREATE TABLE "a b""ü" (id numeric PRIMARY KEY, n numeric)`, `INSERT INTO "a b""ü" VALUES (1.50, 12.340)`)
	s.equal(`"a b""ü"`)
	for _, key := range []string{"", "/1.50"} {
		s.eventually("state of the row", func() (bool, string) {
			var body string
			err := s.node.JSON(s.ctx, "/v1/state/shop.public.a_b__"+key+"?text=true", &body)
			return err == nil && strings.Contains(body, `"row":{"id":"1.50","n":"12.340"}`), fmt.Sprint(body, err)
		})
	}
}

// A table that goes is told by `rowtrail connectors`, and its neighbours go on.
func TestRenamedTableIsTold(t *testing.T) {
	s := start(t, "CREATE TABLE t (id int PRIMARY KEY)", "CREATE TABLE u (id int PRIMARY KEY)", "INSERT INTO u VALUES (1)", "CREATE SCHEMA attic")
	s.equal("u")
	s.exec("ALTER TABLE t SET SCHEMA attic", "INSERT INTO attic.t VALUES (1)", "INSERT INTO u VALUES (2)")
	s.equal("u")
	s.eventually("no warning", func() (bool, string) {
		out, err := s.node.CLI(s.ctx, "connectors")
		return err == nil && strings.Contains(out, "table public.t was renamed to attic.t"), out
	})
	if st := s.connector(); st.State != "streaming" || len(st.Warnings) != 1 {
		t.Fatalf("%+v", st)
	}
}
