package mysql

import (
	"fmt"
	"strings"
	"testing"

	"github.com/rowtrail/rowtrail/connectors/event"
	"github.com/rowtrail/rowtrail/connectors/mysql/ddl"
)

func TestMoves(t *testing.T) {
	captures := func(n ddl.TableName) bool { return !strings.HasPrefix(n.Table, "_") }
	for _, c := range []struct{ sql, gone, strangers string }{
		{"RENAME TABLE t TO _t_del, _t_gho TO t", "_t_gho", ""},
		{"RENAME TABLE t TO _t_del", "t", ""},
		{"RENAME TABLE _new TO t", "_new", "t"},
		{"RENAME TABLE a TO b", "a", "b"},
		{"RENAME TABLE a TO _x, b TO a, _x TO b", "", "a b"},
		{"RENAME TABLE a TO x, b TO a, x TO b", "", "a b"},
		{"RENAME TABLE a TO _x, _x TO a", "", ""},
		{"RENAME TABLE t TO _t_old, _t_new TO t", "_t_new", ""},
		{"RENAME TABLE t TO old, _next TO t", "_next", "t old"},
		{"ALTER TABLE a ADD x INT, RENAME TO b", "a", "b"},
		{"ALTER TABLE a ADD x INT", "", ""},
	} {
		e := ddl.Parse([]byte(c.sql), ddl.Options{Version: 90704, Database: "d"})
		names := func(list []ddl.TableName) string {
			var out []string
			for _, n := range list {
				out = append(out, n.Table)
			}
			return strings.Join(out, " ")
		}
		m := moves(&e)
		if got := names(m.gone()); got != c.gone {
			t.Errorf("%s: gone %q, want %q", c.sql, got, c.gone)
		}
		if got := names(m.strangers(captures)); got != c.strangers {
			t.Errorf("%s: strangers %q, want %q", c.sql, got, c.strangers)
		}
	}
}

// TestKeyForm: the same form is the same key of a row, with schemas in it and without.
func TestKeyForm(t *testing.T) {
	column := func(typ, name string, key int) event.TableColumn {
		word, _, _ := strings.Cut(typ, "(")
		c, err := event.MySQLColumn(name, event.MySQLFacts{DataType: strings.Fields(word)[0], ColumnType: typ, Length: 9, Precision: 9, Scale: 2, Unsigned: strings.HasSuffix(typ, "unsigned"), Charset: "utf8mb4"}, true, key)
		if err != nil {
			t.Fatal(err)
		}
		return event.TableColumn{Column: c}
	}
	for _, c := range []struct {
		a, b           string
		plain, schemas bool // the same
	}{
		{"id int", "id int", true, true}, {"id int", "ident int", false, false}, {"id int", "id bigint", true, false}, {"id int", "id varchar(9)", false, false},
		{"id varchar(9)", "id varchar(20)", true, true}, {"id bigint", "id bigint unsigned", false, false}, {"id decimal(9,2)", "id decimal(9,3)", false, false},
	} {
		for _, schemas := range []bool{false, true} {
			props := map[string]string{"database.hostname": "h", "database.user": "u", "topic.prefix": "p", "key.converter.schemas.enable": fmt.Sprint(schemas), "value.converter.schemas.enable": fmt.Sprint(schemas)}
			config := parsed(t, KindMySQL, props)
			form := func(s string) string {
				name, typ, _ := strings.Cut(s, " ")
				return config.keyForm(ddl.TableName{Database: "d", Table: "t"}, []event.TableColumn{column("int", "v", 0), column(typ, name, 1)})
			}
			if want := map[bool]bool{false: c.plain, true: c.schemas}[schemas]; (form(c.a) == form(c.b)) != want {
				t.Errorf("%s and %s, schemas %v: %q, %q", c.a, c.b, schemas, form(c.a), form(c.b))
			}
		}
	}
	two := parsed(t, KindMySQL, map[string]string{"database.hostname": "h", "database.user": "u", "topic.prefix": "p", "message.key.columns": "d.t:v"})
	if got := two.keyForm(ddl.TableName{Database: "d", Table: "t"}, []event.TableColumn{column("int", "v", 0), column("int", "id", 1)}); got != "v integer" {
		t.Errorf("message.key.columns: %q", got)
	}
}
