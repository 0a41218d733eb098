package mysql

import (
	"fmt"
	"strings"
	"testing"

	"github.com/rowtrail/rowtrail/connectors/mysql/ddl"
	"github.com/rowtrail/rowtrail/itest/servers"
)

// TestTablesComeAndGo: a table that is created, renamed into or out of the lists, or dropped, while the stream goes on, leaves the others
// alone. M3: the copy of a tool takes the place of its original without a load.
func TestTablesComeAndGo(t *testing.T) {
	pool.Each(t, func(t *testing.T, m *servers.MySQL) {
		d, l := newDatabase(t, m), newLog(t, 1)
		topic := func(name string) string { return "p." + d.name + "." + name }
		d.exec("CREATE TABLE a (id INT PRIMARY KEY)", "INSERT INTO a VALUES (1)", "CREATE TABLE x (id INT PRIMARY KEY)", "INSERT INTO x VALUES (10), (11)")
		r := start(t, l, d.one(map[string]string{"table.include.list": d.name + "\\.(a|n.*)"})).streaming()
		l.awaitOps(topic("a"), "id", "r1")
		d.exec("CREATE TABLE n1 (id INT PRIMARY KEY)", "INSERT INTO n1 VALUES (1)", "CREATE TABLE IF NOT EXISTS n1 (id INT PRIMARY KEY)", "INSERT INTO n1 VALUES (2)")
		l.awaitOps(topic("n1"), "id", "c1 c2")
		d.exec("RENAME TABLE x TO n2", "INSERT INTO n2 VALUES (12)")
		eventually(t, "the renamed table", func() bool { // the row may be in the chunk or behind it
			ops := l.ops(topic("n2"), "id")
			return ops == "r10 r11 c12" || ops == "c12 r10 r11" || ops == "r10 r11 r12 c12" || ops == "c12 r10 r11 r12"
		})
		d.exec("DROP TABLE n1", "CREATE TABLE n1 (id INT PRIMARY KEY)", "INSERT INTO n1 VALUES (3)")
		l.awaitOps(topic("n1"), "id", "c1 c2 t c3")
		d.exec("CREATE TABLE _n1_gho (id INT PRIMARY KEY, v INT)", "INSERT INTO _n1_gho VALUES (3, 0)", "RENAME TABLE n1 TO _n1_del, _n1_gho TO n1", "DROP TABLE _n1_del",
			"INSERT INTO n1 VALUES (4, 4)")
		l.awaitOps(topic("n1"), "id", "c1 c2 t c3 c4")
		d.exec("CREATE TABLE import (id INT PRIMARY KEY)", "INSERT INTO import VALUES (7)", "RENAME TABLE n1 TO old, import TO n1")
		l.awaitOps(topic("n1"), "id", "c1 c2 t c3 c4 t r7")
		r.streaming()
		if err := r.stop(); err != nil {
			t.Fatal(err)
		}
		// Out of the list, and in again: what happened meanwhile is known only by loading it.
		r = start(t, l, d.one(map[string]string{"table.include.list": d.name + "\\.(a|old)"})).streaming()
		l.awaitOps(topic("old"), "id", "r3 r4")
		d.exec("DELETE FROM n1", "INSERT INTO n1 VALUES (8)", "INSERT INTO a VALUES (2)")
		l.awaitOps(topic("a"), "id", "r1 c2")
		if err := r.stop(); err != nil {
			t.Fatal(err)
		}
		r = start(t, l, d.one(map[string]string{"table.include.list": d.name + "\\.(a|n1)"})).streaming()
		l.awaitOps(topic("n1"), "id", "c1 c2 t c3 c4 t r7 t r8")
		l.awaitOps(topic("a"), "id", "r1 c2")
		if err := r.stop(); err != nil {
			t.Fatal(err)
		}
		// What happens while the connector is away: it is loaded once.
		d.exec("CREATE TABLE n3 (id INT PRIMARY KEY)", "INSERT INTO n3 VALUES (1)")
		_ = start(t, l, d.one(map[string]string{"table.include.list": d.name + "\\.(a|n1|n3)"})).streaming()
		l.awaitOps(topic("n3"), "id", "c1")
		l.awaitOps(topic("a"), "id", "r1 c2")
	})
}

func TestMigrates(t *testing.T) {
	for _, c := range []struct {
		from, to string
		want     bool
	}{{"_t_gho", "t", true}, {"_t_new", "t", true}, {"__t_new", "t", true}, {"__t_gho", "_t", true}, {"t_new", "t", false}, {"_u_gho", "t", false}, {"_t_del", "t", false}, {"t", "_t_gho", false}} {
		if got := migrates(ddl.TableName{Database: "d", Table: c.from}, ddl.TableName{Database: "d", Table: c.to}); got != c.want {
			t.Errorf("%s to %s: %v", c.from, c.to, got)
		}
	}
	if migrates(ddl.TableName{Database: "e", Table: "_t_gho"}, ddl.TableName{Database: "d", Table: "t"}) {
		t.Error("of another database")
	}
}

func TestLowerCaseNames(t *testing.T) {
	for text, want := range map[string]string{
		"CREATE TABLE Foo LIKE Bar": "[{db foo}] [] {db bar}", "RENAME TABLE Foo TO Other.Bar": "[{db foo}] [{{db foo} {other bar}}] {}", "DROP DATABASE Shop": "[] [] {}",
	} {
		e := ddl.Parse([]byte(text), ddl.Options{Database: "DB", Version: 90700})
		lower(&e)
		like := ddl.TableName{}
		if e.Like != nil {
			like = *e.Like
		}
		got := fmt.Sprint(e.Tables, e.Renames, like)
		if got = strings.ReplaceAll(got, "{ }", "{}"); strings.ReplaceAll(got, "][", "] [") != want && got != want || e.Kind == ddl.DropDatabase && e.Database != "shop" {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}
