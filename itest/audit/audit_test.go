package audit

import (
	"context"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/rowtrail/rowtrail/itest/servers"
)

func TestSourceReadsWhatPostgresCommitted(t *testing.T) {
	ctx := context.Background()
	p := servers.ForTest(t, servers.Options{})
	conn, err := pgx.Connect(ctx, p.DSN("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	run := func(sql string) {
		t.Helper()
		if _, err := conn.Exec(ctx, sql); err != nil {
			t.Fatal(err)
		}
	}
	source := Postgres(p.DSN("postgres"))
	run("CREATE TABLE t(id bigint PRIMARY KEY, rev int, note text); CREATE TABLE other(id bigint PRIMARY KEY, rev int)")
	if err := source.Watch(ctx); err != nil {
		t.Fatal(err)
	}
	run("BEGIN; INSERT INTO t VALUES (1, 1, 'a: b id[x]:9 rev[y]:8'); UPDATE t SET rev = 2; SAVEPOINT s; UPDATE t SET rev = 99; ROLLBACK TO s; COMMIT")
	run("BEGIN; INSERT INTO t VALUES (7, 7, ''); ROLLBACK")
	run("INSERT INTO other VALUES (1, 1)")
	run("BEGIN; UPDATE t SET id = 2, rev = 3; DELETE FROM t; COMMIT")
	got, err := source.Committed(ctx, map[string]bool{"public.t": true})
	if err != nil {
		t.Fatal(err)
	}
	for i := range got {
		got[i].ID = strconv.Itoa(i)
	}
	want := []Transaction{
		{"0", []Change{{"public.t", 'c', 1, 1}, {"public.t", 'u', 1, 2}}},
		{"1", []Change{{"public.t", 'd', 1, -1}, {"public.t", 'c', 2, 3}, {"public.t", 'd', 2, -1}}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("got %v, want %v", got, want)
	}
}

func TestSourceReadsWhatMySQLCommitted(t *testing.T) {
	servers.EachMySQL(t, servers.Options{}, func(t *testing.T, m *servers.MySQL) {
		ctx := context.Background()
		run := func(statements ...string) {
			t.Helper()
			if err := m.Exec(ctx, "s", statements...); err != nil {
				t.Fatal(err)
			}
		}
		if err := m.CreateDatabase(ctx, "s"); err != nil {
			t.Fatal(err)
		}
		run("CREATE TABLE t(note text, id bigint PRIMARY KEY, rev int)", "CREATE TABLE other(id bigint PRIMARY KEY, rev int)", "INSERT INTO t VALUES ('', 5, 5)")
		source := &MySQL{Server: m}
		if err := source.Watch(ctx); err != nil {
			t.Fatal(err)
		}
		run("BEGIN", "INSERT INTO t VALUES ('', 1, 1)", "UPDATE t SET rev = 2 WHERE id = 1", "SAVEPOINT s", "UPDATE t SET rev = 99", "ROLLBACK TO s", "COMMIT")
		run("BEGIN", "INSERT INTO t VALUES ('', 7, 7)", "ROLLBACK")
		run("INSERT INTO other VALUES (1, 1)", "FLUSH BINARY LOGS")
		if err := m.Restart(ctx, servers.Immediate); err != nil {
			t.Fatal(err)
		}
		run("BEGIN", "UPDATE t SET id = 2, rev = 3 WHERE id = 1", "DELETE FROM t WHERE id = 2", "COMMIT")
		got, err := source.Committed(ctx, map[string]bool{"s.t": true})
		if err != nil {
			t.Fatal(err)
		}
		position, err := m.GTIDs(ctx)
		if err != nil {
			t.Fatal(err)
		}
		prefix := position[:strings.LastIndexAny(position, ":-")] // of a UUID, or of domain and server
		if m.Flavour() == "mysql" {
			prefix, _, _ = strings.Cut(position, ":")
		}
		for i := range got {
			if !strings.HasPrefix(got[i].ID, prefix) || got[i].ID == prefix {
				t.Errorf("transaction %q of a server at %q", got[i].ID, position)
			}
			got[i].ID = strconv.Itoa(i)
		}
		want := []Transaction{
			{"0", []Change{{"s.t", 'c', 1, 1}, {"s.t", 'u', 1, 2}}},
			{"1", []Change{{"s.t", 'd', 1, -1}, {"s.t", 'c', 2, 3}, {"s.t", 'd', 2, -1}}},
		}
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("got %v, want %v", got, want)
		}
	})
}

func TestTransactionID(t *testing.T) {
	for id, want := range map[string]string{
		"738:26450512": "738", "0-1-5": "0-1-5", "3e11fa47-71ca-11e1-9e33-c80aa9429562:23": "3e11fa47-71ca-11e1-9e33-c80aa9429562:23",
		"33333333-71ca-11e1-9e33-c80aa9429562:tag:23": "33333333-71ca-11e1-9e33-c80aa9429562:tag:23",
	} {
		if got := transactionID(id); got != want {
			t.Errorf("transaction %s is %s, want %s", id, got, want)
		}
	}
}

// TestCompareFindsEachFault gives Compare a faultless trail and then one with each kind of fault.
func TestCompareFindsEachFault(t *testing.T) {
	source := []Transaction{
		{"1", []Change{{"s.t", 'c', 1, 1}, {"s.u", 'c', 1, 1}}},
		{"2", []Change{{"s.t", 'u', 1, 2}}},
		{"3", []Change{{"s.t", 'd', 1, -1}}},
	}
	trail := func() *Trail {
		return &Trail{
			Events: []Event{
				{Change: source[0].Changes[0], Tx: "1", Topic: "t", Offset: 0}, {Change: source[0].Changes[1], Tx: "1", Topic: "u", Offset: 0},
				{Change: source[1].Changes[0], Tx: "2", Topic: "t", Offset: 1}, {Change: source[2].Changes[0], Tx: "3", Topic: "t", Offset: 2},
			},
			Ends: []End{{"1", map[string]int64{"s.t": 1, "s.u": 1}}, {"2", map[string]int64{"s.t": 1}}, {"3", map[string]int64{"s.t": 1}}},
		}
	}
	for _, c := range []struct {
		name  string
		fault func(*Trail)
		want  Report
	}{
		{"none", func(*Trail) {}, Report{}},
		{"lost event", func(l *Trail) { l.Events = l.Events[:3] }, Report{Lost: 1, Torn: 1}},
		{"lost transaction", func(l *Trail) { l.Events, l.Ends = l.Events[:3], l.Ends[:2] }, Report{Lost: 1}},
		{"twice", func(l *Trail) { e := l.Events[2]; e.Offset = 9; l.Events = append(l.Events, e) }, Report{Duplicated: 1, Torn: 1}},
		{"END twice", func(l *Trail) { l.Ends = append(l.Ends, l.Ends[0]) }, Report{Duplicated: 1}},
		{"no END", func(l *Trail) { l.Ends = l.Ends[:2] }, Report{Torn: 1}},
		{"rolled back", func(l *Trail) {
			l.Events = append(l.Events, Event{Change: Change{"s.t", 'c', 5, 1}, Tx: "9", Topic: "t", Offset: 9})
			l.Ends = append(l.Ends, End{"9", map[string]int64{"s.t": 1}})
		}, Report{Unexpected: 1}},
		{"order", func(l *Trail) { l.Events[0].Offset, l.Events[2].Offset = 1, 0 }, Report{Disordered: 1}},
	} {
		l := trail()
		c.fault(l)
		got := Compare(source, l)
		got.Examples, got.Transactions, got.Changes = nil, 0, 0
		if !reflect.DeepEqual(*got, c.want) {
			t.Errorf("%s: got %+v, want %+v", c.name, *got, c.want)
		}
		if got.OK() != (c.name == "none") {
			t.Errorf("%s: OK() = %v", c.name, got.OK())
		}
	}
}
