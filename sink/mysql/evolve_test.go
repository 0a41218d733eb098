package mysql

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/rowtrail/rowtrail/connectors/event"
	"github.com/rowtrail/rowtrail/sink"
	"github.com/rowtrail/rowtrail/sink/sinktest"
)

func facts(columnType string) event.MySQLFacts {
	data, _, _ := strings.Cut(columnType, "(")
	data, _, _ = strings.Cut(data, " ")
	return event.MySQLFacts{DataType: data, ColumnType: columnType, Unsigned: strings.Contains(columnType, "unsigned"), Length: -1, Scale: -1}
}

func TestEvolution(t *testing.T) {
	each(t, func(t *testing.T, h *home) {
		h.must(t, "CREATE TABLE nokey (id int, v text)", "CREATE TABLE part (id varchar(20), v text, UNIQUE (id(5)))", "CREATE TABLE old (id int PRIMARY KEY, v text) ENGINE = MyISAM",
			"CREATE VIEW seen AS SELECT 1 AS id")
		id := mysqlCol(t, "Id", 1, facts("bigint"))
		label := facts("enum('so so','it''s \\ ok')")
		label.Labels = []string{"so so", `it's \ ok`}
		v1 := mysqlTable(t, "we`ird Tab", id, mysqlCol(t, "a b", 0, facts("text")))
		v2 := mysqlTable(t, "we`ird Tab", id, mysqlCol(t, "a b", 0, facts("text")), mysqlCol(t, "mood", 0, label))

		none := h.open(t, "none", map[string]string{"schema.evolution": "none"})
		if err := apply(t, none, ev(v1, event.OpCreate, text("1", "x"))); !sink.IsPermanent(err) || !strings.Contains(err.Error(), "CREATE TABLE") {
			t.Fatalf("schema.evolution=none: %v", err)
		}
		s := h.open(t, "w", nil)
		mustApply(t, s, ev(v1, event.OpCreate, text("1", "x")))
		mustApply(t, s, ev(v2, event.OpCreate, text("2", "y", `it's \ ok`)))
		if got := h.rows(t, "SELECT * FROM `we``ird Tab`"); !slices.Equal(got, []string{"1|x|NULL", `2|y|it's \ ok`}) {
			t.Fatalf("rows %q", got)
		}
		s.Close()
		for table, want := range map[string]string{"nokey": "ADD UNIQUE (`id`)", "part": "ADD UNIQUE (`id`)", "old": "ENGINE = InnoDB", "seen": "is a view"} {
			s := h.open(t, "w", nil)
			err := apply(t, s, ev(tableOf(t, table, idCol), event.OpCreate, text("1")))
			if !sink.IsPermanent(err) || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v; want %s", table, err, want)
			}
			s.Close()
		}
		keyless := tableOf(t, "keyless", sinktest.Col("id", "integer", event.KindInt32, 0))
		if err := apply(t, h.open(t, "w", nil), ev(keyless, event.OpCreate, text("1"))); !sink.IsPermanent(err) || !strings.Contains(err.Error(), "primary key") {
			t.Fatalf("source without key: %v", err)
		}
	})
}

// DDL ends a transaction: a table that the open one has written is changed beside it, and the transaction is applied again; nothing of it
// stays, and what it wrote before the new column has the value that such rows have at the source.
func TestChangeInsideATransaction(t *testing.T) {
	each(t, func(t *testing.T, h *home) {
		id, nine := mysqlCol(t, "id", 1, facts("int")), "9"
		d := facts("int")
		d.Default = &nine
		v1, v2 := mysqlTable(t, "t", id), mysqlTable(t, "t", id, mysqlCol(t, "d", 0, d))
		big := facts("bigint")
		big.Default = &nine
		v3 := mysqlTable(t, "t", id, mysqlCol(t, "d", 0, big))
		events := []*sink.Event{
			ev(v1, event.OpCreate, text("1")), ev(v2, event.OpCreate, text("2", "5")), ev(v3, event.OpCreate, text("3", "5000000000")),
		}
		s := h.open(t, "w", nil)
		mustApply(t, s, ev(v1, event.OpCreate, text("0")))
		s.Close()
		for try := range 3 { // each of two changes takes one try
			s := h.open(t, "w", nil)
			err := apply(t, s, events...)
			s.Close()
			if want := try < 2; want != errors.Is(err, errAgain) || sink.IsPermanent(err) {
				t.Fatalf("try %d: %v", try, err)
			}
			if got := h.rows(t, "SELECT * FROM t"); try < 2 && len(got) > 1 {
				t.Fatalf("try %d left %q", try, got)
			}
		}
		if got := h.rows(t, "SELECT * FROM t"); !slices.Equal(got, []string{"0|9", "1|9", "2|5", "3|5000000000"}) {
			t.Fatalf("rows %q", got)
		}
	})
}

func numbered(c event.Column, number int) event.Column {
	c.Number = number
	return c
}

func versionOf(t testing.TB, identity uint32, columns ...event.Column) *event.Schema {
	t.Helper()
	s, err := event.NewSchemaOf(event.Options{Name: "shop", Database: "shop"}, identity, "public", "t", append([]event.Column{numbered(idCol, 1)}, columns...))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Each session sees one table version: what the columns were before has to come from the target.
func TestP19RenamedColumns(t *testing.T) {
	each(t, func(t *testing.T, h *home) {
		col := func(name string, number int) event.Column {
			return numbered(sinktest.Col(name, "text", event.KindText, 0), number)
		}
		step := func(schema *event.Schema, row event.Row) {
			t.Helper()
			s := h.open(t, "w", nil)
			mustApply(t, s, ev(schema, event.OpCreate, row))
			s.Close()
		}
		want := func(list ...string) {
			t.Helper()
			if got := h.rows(t, "SELECT * FROM t"); !slices.Equal(got, list) {
				t.Fatalf("rows %q, want %q", got, list)
			}
		}
		step(versionOf(t, 7, col("a", 2), col("b", 3)), text("1", "a1", "b1"))
		step(versionOf(t, 7, col("c", 2), col("b", 3)), text("2", "c2", "b2"))
		want("1|a1|b1", "2|c2|b2")
		step(versionOf(t, 7, col("b", 2), col("c", 3)), text("3", "b3", "c3")) // names exchanged
		want("1|a1|b1", "2|c2|b2", "3|b3|c3")
		step(versionOf(t, 8, col("b", 2), col("c", 3)), text("4", "b4", "c4")) // another table of the name
		want("1|a1|b1", "2|c2|b2", "3|b3|c3", "4|b4|c4")
		s := h.open(t, "w", nil)
		err := apply(t, s, ev(versionOf(t, 8, col("b", 2), col("c", 4)), event.OpCreate, text("5", "b5", "c5")))
		if !sink.IsPermanent(err) || !strings.Contains(err.Error(), "DROP COLUMN `c`") {
			t.Fatalf("replaced column: %v", err)
		}
		s.Close()
		// In a transaction that wrote the table before, the rename waits for one that did not.
		s = h.open(t, "w", nil)
		if err := s.Apply(context.Background(), ev(versionOf(t, 8, col("b", 2), col("c", 3)), event.OpCreate, text("6", "b6", "c6"))); err != nil {
			t.Fatal(err)
		}
		renamed := ev(versionOf(t, 8, col("b", 2), col("z", 3)), event.OpCreate, text("7", "b7", "z7"))
		if err := s.Apply(context.Background(), renamed); !sink.IsPermanent(err) || !strings.Contains(err.Error(), "RENAME COLUMN `c` TO `z`") {
			t.Fatalf("rename in a transaction: %v", err)
		}
		s.Close()
		mustApply(t, h.open(t, "w", nil), renamed)
		want("1|a1|b1", "2|c2|b2", "3|b3|c3", "4|b4|c4", "7|b7|z7")
	})
}

func TestTypesThatGrowFollow(t *testing.T) {
	each(t, func(t *testing.T, h *home) {
		id := mysqlCol(t, "id", 1, facts("int"))
		label := func(list ...string) event.MySQLFacts {
			f := facts("enum('" + strings.Join(list, "','") + "')")
			f.Labels = list
			return f
		}
		text3, text4 := facts("varchar(3)"), facts("longtext")
		for _, f := range []*event.MySQLFacts{&text3, &text4} {
			f.Charset, f.Collation = "latin1", "latin1_swedish_ci"
		}
		version := func(n, v, e event.MySQLFacts) *event.Schema {
			return mysqlTable(t, "t", id, mysqlCol(t, "n", 0, n), mysqlCol(t, "s", 0, v), mysqlCol(t, "e", 0, e))
		}
		s := h.open(t, "w", nil)
		mustApply(t, s, ev(version(facts("int unsigned"), text3, label("a", "b")), event.OpCreate, text("1", "5", "abc", "b")))
		mustApply(t, s, ev(version(facts("bigint"), text4, label("x", "a", "b")), event.OpCreate, text("2", "5000000000", "longer", "x")))
		if got := h.rows(t, "SELECT * FROM t"); !slices.Equal(got, []string{"1|5|abc|b", "2|5000000000|longer|x"}) {
			t.Fatalf("rows %q", got)
		}
		s.Close()
		s = h.open(t, "w", nil)
		smaller := version(facts("int"), text4, label("x", "a", "b"))
		err := apply(t, s, ev(smaller, event.OpCreate, text("3", "1", "x", "a")))
		if !sink.IsPermanent(err) || !strings.Contains(err.Error(), "MODIFY COLUMN `n` int") {
			t.Fatalf("narrower: %v", err)
		}
		s.Close()
		// The target's owner keeps a type that is wide already.
		h.must(t, "CREATE TABLE w (id int PRIMARY KEY, n decimal(30))")
		s = h.open(t, "w", map[string]string{"schema.evolution": "none"})
		for _, kind := range []string{"int", "bigint"} {
			err := apply(t, s, ev(mysqlTable(t, "w", id, mysqlCol(t, "n", 0, facts(kind))), event.OpCreate, text("1", "7")))
			if kind == "bigint" != (err != nil) {
				t.Fatalf("%s: %v", kind, err)
			}
		}
	})
}

func TestParseConfig(t *testing.T) {
	c, errs := ParseConfig("w", []string{"shop.public.*"}, map[string]string{
		"dsn": "mysql://u:s%40cret@db:3307/?ssl-mode=VERIFY_IDENTITY&ssl-ca=ca.pem", "target.database": "dw", "table.map": "public.a:x.y, public.b:x.z", "schema.evolution": "none",
		"offsets.database": "rt", "batch.max.rows": "7", "consistency": "transaction", "truncate.enabled": "false",
	})
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	if *c.Connect != (Connection{"tcp", "db:3307", "u", "s@cret", sslVerifyIdentity, "ca.pem", "", ""}) || c.OffsetsDatabase != "rt" || c.Evolve || c.Truncate || c.MaxRows != 7 ||
		c.tableFor("public", "a").String() != "`x`.`y`" || c.tableFor("public", "c").String() != "`dw`.`c`" {
		t.Fatalf("%+v %+v", c, c.Connect)
	}
	for dsn, want := range map[string]string{
		"": "such as mysql://", "mysql://u:secret@[bad": "cannot be read", "postgres://u:secret@h/": "neither mysql://", "mysql://u:secret@h/db": "target.database", "mysql://:secret@h": "no user",
		"mysql://u:secret@h?ssl-mode=maybe": "ssl-mode", "mysql://u:secret@h?a=secret": `"a"`, "mysql://u:secret@h?ssl-cert=x": "belong together", "u:secret@tcp(h:1)/": "cannot be read",
		"mysql://u:secret@?ssl-mode=disabled": "neither a host",
	} {
		_, errs := ParseConfig("w", []string{"x"}, map[string]string{"dsn": dsn})
		if len(errs) != 1 || !strings.Contains(errs[0].Error(), want) || strings.Contains(errs[0].Error(), "secret") {
			t.Errorf("%s: %v, want %s and no secret", dsn, errs, want)
		}
	}
}

// The check names each right that lacks, with the GRANT that gives it, and running these is enough.
func TestCheck(t *testing.T) {
	each(t, func(t *testing.T, h *home) {
		ctx := context.Background()
		if f := Check(ctx, h.config(t, "w", nil)); len(f) > 0 {
			t.Fatalf("a user who may do everything: %+v", f)
		}
		poor := "poor" + h.name
		h.must(t, "CREATE USER "+poor+"@'127.0.0.1' IDENTIFIED BY 'p'", "GRANT SELECT, INSERT ON "+h.name+".* TO "+poor+"@'127.0.0.1'", "CREATE TABLE own (id int PRIMARY KEY) ENGINE = MyISAM")
		c := h.config(t, "w", map[string]string{"table.map": "public.a:" + h.name + ".own"})
		c.Connect.User, c.Connect.Password = poor, "p"
		found := Check(ctx, c)
		if len(found) == 0 {
			t.Fatal("nothing found")
		}
		for _, f := range found {
			t.Logf("%s: %s: %s", f.Subject, f.Problem, f.Remedy)
			h.must(t, f.Remedy)
		}
		if f := Check(ctx, c); len(f) > 0 {
			t.Fatalf("after all remedies: %+v", f)
		}
		s, err := newTarget(c, sink.Deps{Version: "test"}).Open(ctx)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		var events []*sink.Event
		for _, id := range strings.Split("1 2 3 4 5 6 7 8", " ") {
			events = append(events, ev(tableOf(t, "made", idCol, vCol), event.OpUpdate, text(id, "x")))
		}
		mustApply(t, s, events...)
		c.Connect.Password = "wrong"
		if f := Check(ctx, c); len(f) != 1 || !strings.Contains(f[0].Remedy, "password") {
			t.Errorf("wrong password: %+v", f)
		}
		h.must(t, "DROP USER "+poor+"@'127.0.0.1'")
		for _, b := range []struct{ set, want, reset string }{
			{"SET GLOBAL read_only = ON", "read-only", "SET GLOBAL read_only = OFF"}, {"SET GLOBAL binlog_format = 'STATEMENT'", "READ COMMITTED", "SET GLOBAL binlog_format = 'ROW'"},
		} {
			h.must(t, b.set)
			f := Check(ctx, h.config(t, "w", nil))
			h.must(t, b.reset)
			if len(f) != 1 || !strings.Contains(f[0].Problem, b.want) {
				t.Errorf("%s: %+v", b.set, f)
			}
		}
	})
}
