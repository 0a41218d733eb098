package mysql

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/rowtrail/rowtrail/itest/servers"
)

const historyTopic = "p.schema-history"

// eachMetadata runs a test on each server with what its binlog can tell of columns.
func eachMetadata(t *testing.T, test func(t *testing.T, m *servers.MySQL, metadata string)) {
	pool.Each(t, func(t *testing.T, m *servers.MySQL) {
		modes := []string{"MINIMAL", "FULL"}
		if m.MariaDB() {
			modes = append(modes, "NO_LOG")
		}
		for _, metadata := range modes {
			t.Run(metadata, func(t *testing.T) {
				setMetadata(t, m, metadata)
				test(t, m, metadata)
			})
		}
	})
}

func setMetadata(t *testing.T, m *servers.MySQL, metadata string) {
	t.Helper()
	if err := m.Exec(t.Context(), "", "SET GLOBAL binlog_row_metadata = '"+metadata+"'"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.Exec(context.Background(), "", "SET GLOBAL binlog_row_metadata = 'FULL'") })
}

// lag runs statements while the connector is away, after it was there, and starts it again.
func (d *database) lag(l *testLog, c *Config, statements ...string) *running {
	d.t.Helper()
	if err := start(d.t, l, c).streaming().stop(); err != nil {
		d.t.Fatal(err)
	}
	d.session().exec(statements...)
	return start(d.t, l, c)
}

// parks waits until a table is parked, and returns why and what mends it.
func (r *running) parks() string {
	r.t.Helper()
	var text string
	eventually(r.t, "a parked table", func() bool {
		list := r.c.Status().Parked
		if len(list) > 0 {
			text = list[0].Table + ": " + list[0].Reason + "; " + list[0].Remedy
		}
		return len(list) > 0
	})
	return text
}

// afters are the rows of events, without those of deletes.
func afters(list []rec) string {
	var b strings.Builder
	for _, r := range list {
		if !r.Tombstone {
			row, _ := json.Marshal(r.After)
			fmt.Fprintf(&b, "%s %s\n", r.Op, row)
		}
	}
	return b.String()
}

// looks counts how often the catalog described a table, as the history has it.
func (l *testLog) looks(table string) int {
	l.t.Helper()
	places := map[uint64]bool{}
	for _, r := range l.read(historyTopic) {
		var entry struct {
			From    struct{ Order uint64 }
			Catalog bool
		}
		if !strings.Contains(r.Key, `"table":"`+table+`"`) || r.Tombstone {
			continue
		}
		if err := json.Unmarshal([]byte(r.Value), &entry); err != nil {
			l.t.Fatal(err)
		}
		if entry.Catalog {
			places[entry.From.Order] = true
		}
	}
	return len(places)
}

func TestM1ColumnsOfTheStatements(t *testing.T) {
	eachMetadata(t, func(t *testing.T, m *servers.MySQL, _ string) {
		d, l := newDatabase(t, m), newLog(t, 1)
		d.exec("CREATE TABLE t (id INT PRIMARY KEY, a INT, b INT)")
		d.lag(l, d.config(nil), "INSERT INTO t VALUES (1, 10, 20)",
			"ALTER TABLE t ADD COLUMN c INT FIRST", "INSERT INTO t (id, a, b, c) VALUES (2, 11, 21, 31)",
			"ALTER TABLE t DROP COLUMN a", "INSERT INTO t (id, b, c) VALUES (3, 22, 32)",
			"ALTER TABLE t MODIFY COLUMN b INT FIRST", "INSERT INTO t (id, b, c) VALUES (4, 23, 33)",
			"ALTER TABLE t CHANGE COLUMN b B INT, CHANGE COLUMN C d INT", "INSERT INTO t (id, B, d) VALUES (5, 24, 34)",
			"ALTER TABLE t CHANGE COLUMN B d INT, CHANGE COLUMN d B INT", "INSERT INTO t (id, B, d) VALUES (6, 25, 35)",
			"ALTER TABLE t ADD COLUMN e INT DEFAULT 7 AFTER id, RENAME TO u", "INSERT INTO u (id, B, d) VALUES (7, 26, 36)",
			"DROP TABLE u", "CREATE TABLE u (x INT, id INT PRIMARY KEY)", "INSERT INTO u VALUES (1, 2)")
		equal(t, afters(l.waitFor(6, "p."+d.name+".t")), `c {"a":10,"b":20,"id":1}
c {"a":11,"b":21,"c":31,"id":2}
c {"b":22,"c":32,"id":3}
c {"b":23,"c":33,"id":4}
c {"B":24,"d":34,"id":5}
c {"B":25,"d":35,"id":6}`)
		equal(t, afters(l.waitFor(3, "p."+d.name+".u")), `c {"B":26,"d":36,"e":7,"id":7}
t null
c {"id":2,"x":1}`)
		if n := l.looks("t") + l.looks("u"); n != 1 {
			t.Errorf("the catalog described the tables %d times, want once, at the start", n)
		}
	})
}

// TestM2StatementsThatAreNotUnderstood: they concern the tables that they name, which the catalog describes, unless it is ahead.
func TestM2StatementsThatAreNotUnderstood(t *testing.T) {
	eachMetadata(t, func(t *testing.T, m *servers.MySQL, metadata string) {
		mystery := "ALTER TABLE t ADD COLUMN m VARBINARY(2) DEFAULT '\xff\xfe' FIRST"
		d, l := newDatabase(t, m), newLog(t, 1)
		d.exec("CREATE TABLE t (id INT PRIMARY KEY, a INT)", "CREATE TABLE u (id INT PRIMARY KEY, a INT)")
		c := d.config(nil)
		r := d.lag(l, c, "INSERT INTO t VALUES (1, 10)", "SET character_set_client = binary", mystery, "INSERT INTO t (id, a) VALUES (2, 20)", "INSERT INTO u VALUES (1, 10)").streaming()
		topic := "p." + d.name + ".t"
		equal(t, afters(l.waitFor(2, topic)), `c {"a":10,"id":1}
c {"a":20,"id":2,"m":"//4="}`)
		l.waitFor(1, "p."+d.name+".u")
		if n := l.looks("t"); n != 2 {
			t.Errorf("the catalog described the table %d times, want at the start and after the statement", n)
		}
		if n := l.looks("u"); n != 1 {
			t.Errorf("the catalog described another table %d times", n)
		}
		// While the connector is there, too.
		w := d.session()
		w.exec("SET character_set_client = binary", strings.Replace(mystery, " m ", " n ", 1))
		d.exec("INSERT INTO t (id, a) VALUES (3, 30)")
		equal(t, afters(l.waitFor(3, topic)[2:]), `c {"a":30,"id":3,"m":"//4=","n":"//4="}`)
		if err := r.stop(); err != nil {
			t.Fatal(err)
		}
		// The catalog is ahead: what it has is of another time. Table maps with FULL tell all the same.
		w.exec(strings.Replace(mystery, " m ", " o ", 1), "INSERT INTO t (id, a) VALUES (4, 40)", "ALTER TABLE t DROP COLUMN n", "INSERT INTO t (id, a) VALUES (5, 50)")
		r = start(t, l, c)
		if metadata == "FULL" {
			equal(t, afters(l.waitFor(5, topic)[3:]), `c {"a":40,"id":4,"m":"//4=","n":"//4=","o":"//4="}
c {"a":50,"id":5,"m":"//4=","o":"//4="}`)
			return
		}
		got := r.parks()
		for _, want := range []string{"table " + d.name + ".t", "not understood", "SET GLOBAL binlog_row_metadata = 'FULL'"} {
			if !strings.Contains(got, want) && !(want == "not understood" && strings.Contains(got, "a statement between here and the end of the binlog")) {
				t.Errorf("%q lacks %q", got, want)
			}
		}
		// And again, after a restart.
		if again := start(t, l, c).parks(); !strings.Contains(again, "binlog_row_metadata") {
			t.Error(again)
		}
		l.waitFor(3, topic)
	})
}

// TestM3OnlineSchemaChanges has the statements of gh-ost and pt-online-schema-change, while they are read long after and while the
// connector looks on: no row of a helper table is an event, and the table goes on with its new columns.
func TestM3OnlineSchemaChanges(t *testing.T) {
	gho := []string{
		"CREATE TABLE _t_ghc (id BIGINT AUTO_INCREMENT, hint VARCHAR(64) CHARACTER SET ascii NOT NULL, value VARCHAR(4096) CHARACTER SET ascii NOT NULL, PRIMARY KEY (id), UNIQUE KEY hint_uidx (hint)) AUTO_INCREMENT=256",
		"CREATE TABLE _t_gho LIKE t", "ALTER TABLE _t_gho ADD COLUMN n INT FIRST, MODIFY COLUMN b INT FIRST",
		"INSERT INTO _t_ghc (id, hint, value) VALUES (1, 'state', 'GhostTableMigrated')",
		"INSERT IGNORE INTO _t_gho (id, a, b) SELECT id, a, b FROM t",
		"INSERT INTO t VALUES (2, 11, 21)", "REPLACE INTO _t_gho (id, a, b) VALUES (2, 11, 21)",
		"DROP TABLE IF EXISTS _t_del", "CREATE TABLE _t_del (id INT AUTO_INCREMENT PRIMARY KEY) COMMENT='ghost-cut-over-sentry'", "DROP TABLE _t_del",
		"RENAME /* gh-ost */ TABLE t TO _t_del, _t_gho TO t",
		"INSERT INTO t (id, a, b, n) VALUES (3, 12, 22, 32)", "UPDATE t SET n = 30 WHERE id = 1", "DROP TABLE _t_ghc", "DROP TABLE _t_del",
	}
	osc := []string{
		"CREATE TABLE _t_new (id INT NOT NULL, a INT DEFAULT NULL, b INT DEFAULT NULL, PRIMARY KEY (id))",
		"ALTER TABLE _t_new DROP COLUMN a, ADD COLUMN p INT AFTER id",
		"CREATE TRIGGER pt_osc_t_del AFTER DELETE ON t FOR EACH ROW DELETE IGNORE FROM _t_new WHERE _t_new.id <=> OLD.id",
		"CREATE TRIGGER pt_osc_t_upd AFTER UPDATE ON t FOR EACH ROW BEGIN DELETE IGNORE FROM _t_new WHERE !(OLD.id <=> NEW.id) AND _t_new.id <=> OLD.id; REPLACE INTO _t_new (id, b) VALUES (NEW.id, NEW.b); END",
		"CREATE TRIGGER pt_osc_t_ins AFTER INSERT ON t FOR EACH ROW REPLACE INTO _t_new (id, b) VALUES (NEW.id, NEW.b)",
		"INSERT LOW_PRIORITY IGNORE INTO _t_new (id, b) SELECT id, b FROM t LOCK IN SHARE MODE /*pt-online-schema-change 1 copy table*/",
		"INSERT INTO t (id, a, b) VALUES (4, 13, 23)", "UPDATE t SET b = 24 WHERE id = 4", "DELETE FROM t WHERE id = 2",
		"ANALYZE TABLE _t_new", "RENAME TABLE t TO _t_old, _t_new TO t", "DROP TABLE IF EXISTS _t_old",
		"INSERT INTO t (id, b, p) VALUES (5, 25, 35)", "UPDATE t SET p = 31 WHERE id = 1",
	}
	want := `c {"a":10,"b":20,"id":1}
c {"a":11,"b":21,"id":2}
c {"a":12,"b":22,"id":3,"n":32}
u {"a":10,"b":20,"id":1,"n":30}
c {"a":13,"b":23,"id":4,"n":null}
u {"a":13,"b":24,"id":4,"n":null}
d null
c {"b":25,"id":5,"p":35}
u {"b":20,"id":1,"p":31}`
	eachMetadata(t, func(t *testing.T, m *servers.MySQL, _ string) {
		for _, lagging := range []bool{true, false} {
			t.Run(map[bool]string{true: "lagging", false: "live"}[lagging], func(t *testing.T) {
				d, l := newDatabase(t, m), newLog(t, 1)
				d.exec("CREATE TABLE t (id INT PRIMARY KEY, a INT, b INT)")
				c := d.config(map[string]string{"table.include.list": d.name + ".t"})
				statements := append(append([]string{"INSERT INTO t VALUES (1, 10, 20)"}, gho...), osc...)
				var r *running
				if lagging {
					r = d.lag(l, c, statements...)
				} else {
					r = start(t, l, c).streaming()
					d.exec(statements...)
				}
				equal(t, afters(l.waitFor(10, "p."+d.name+".t")), want)
				if list := l.read("p."+d.name+"._t_gho", "p."+d.name+"._t_new", "p."+d.name+"._t_ghc"); len(list) > 0 {
					t.Errorf("events of helper tables:\n%s", summary(list))
				}
				if n := l.looks("t"); n != 1 {
					t.Errorf("the catalog described the table %d times, want once, at the start", n)
				}
				if w := r.c.Status().Warnings; len(w) > 0 {
					t.Errorf("warnings %q: the copies are the same rows", w)
				}
			})
		}
	})
}

// TestM3Swap: two captured tables change names, and columns with them. Their topics then hold the rows of the other one, which is said.
func TestM3Swap(t *testing.T) {
	eachMetadata(t, func(t *testing.T, m *servers.MySQL, _ string) {
		d, l := newDatabase(t, m), newLog(t, 1)
		d.exec("CREATE TABLE a (id INT PRIMARY KEY, x INT, y INT)", "CREATE TABLE b (id INT PRIMARY KEY, y INT, z INT)")
		r := d.lag(l, d.config(nil), "INSERT INTO a VALUES (1, 10, 20)", "INSERT INTO b VALUES (1, 30, 40)", "RENAME TABLE a TO tmp, b TO a, tmp TO b",
			"INSERT INTO a VALUES (2, 31, 41)", "INSERT INTO b VALUES (2, 11, 21)")
		equal(t, afters(l.waitFor(2, "p."+d.name+".a")), `c {"id":1,"x":10,"y":20}
c {"id":2,"y":31,"z":41}`)
		equal(t, afters(l.waitFor(2, "p."+d.name+".b")), `c {"id":1,"y":30,"z":40}
c {"id":2,"x":11,"y":21}`)
		warnings := strings.Join(r.c.Status().Warnings, "\n")
		for _, want := range []string{"table " + d.name + ".a was " + d.name + ".b before", "table " + d.name + ".b was " + d.name + ".a before", "p.position"} {
			if !strings.Contains(warnings, want) {
				t.Errorf("%q lacks %q", warnings, want)
			}
		}
	})
}

func TestM19LabelsOfTheStatements(t *testing.T) {
	eachMetadata(t, func(t *testing.T, m *servers.MySQL, _ string) {
		d, l := newDatabase(t, m), newLog(t, 1)
		d.exec("CREATE TABLE t (id INT PRIMARY KEY, e ENUM('a','b','c'), s SET('x','y','z'))")
		d.lag(l, d.config(nil), "INSERT INTO t VALUES (1, 'a', 'x,z')", "ALTER TABLE t MODIFY e ENUM('c','b','a'), MODIFY s SET('z','y','x')", "UPDATE t SET s = 'y,x' WHERE id = 1",
			"INSERT INTO t VALUES (2, 'c', 'z')", "ALTER TABLE t MODIFY e ENUM('d','c','b','a'), MODIFY s SET('é','z','y','x') CHARACTER SET latin1", "INSERT INTO t VALUES (3, 'd', 'é,x')")
		equal(t, summaryOf(l.waitFor(4, "p."+d.name+".t"), "e", "s"), `c a x,z
u a y,x
c c z
c d é,x`)
	})
}

// summaryOf has columns of events.
func summaryOf(list []rec, columns ...string) string {
	var b strings.Builder
	for _, r := range list {
		b.WriteString(r.Op)
		for _, c := range columns {
			fmt.Fprint(&b, " ", r.After[c])
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// TestSchemaChangesAreOfTheirTime: a statement's event has the columns behind it, and its place, however far the connector lags behind.
func TestSchemaChangesAreOfTheirTime(t *testing.T) {
	eachMetadata(t, func(t *testing.T, m *servers.MySQL, _ string) {
		d, l := newDatabase(t, m), newLog(t, 1)
		d.exec("CREATE TABLE t (id INT PRIMARY KEY)", "CREATE TABLE w (id INT PRIMARY KEY)", "CREATE TABLE other (id INT PRIMARY KEY)")
		c := d.config(map[string]string{"table.include.list": d.name + ".(t|u|v|w)", "column.exclude.list": d.name + ".*.hidden", "skipped.operations": "none"})
		statements := []string{"ALTER TABLE t ADD a INT, ADD hidden INT", "CREATE TABLE u LIKE t", "ALTER TABLE t ADD b VARCHAR(9) CHARACTER SET latin1 FIRST", "RENAME TABLE t TO gone, u TO v",
			"TRUNCATE TABLE v", "ALTER TABLE v DROP a", "DROP TABLE v"}
		d.lag(l, c, statements...)
		want := []string{"ALTER t id,a", "CREATE u id,a", "ALTER t b,id,a", "ALTER v id,a DROP t DROP u", "", "ALTER v id", "DROP v"}
		places := map[string]string{}
		for _, x := range d.binlog() {
			places[x.info] = x.pos
		}
		list := l.waitFor(len(want), "p")
		for i, r := range list {
			v := decodeChange(t, r)
			if got := v.String(); got != want[i] {
				t.Errorf("%s: %s, want %s", v.DDL, got, want[i])
			}
			if pos := places[v.DDL]; strconv.Itoa(v.Source.Pos) != pos || !strings.HasPrefix(v.DDL, statements[i][:8]) {
				t.Errorf("%s: place %d, want %s", v.DDL, v.Source.Pos, pos)
			}
		}
		truncate := l.waitFor(1, "p."+d.name+".v")[0]
		if pos := fmt.Sprint(truncate.Source["pos"]); truncate.Op != "t" || pos != places["TRUNCATE TABLE v"] {
			t.Errorf("%s at %s, want %s", truncate, pos, places["TRUNCATE TABLE v"])
		}
	})
}

type change struct {
	DDL    string
	Source struct{ Pos int }
	Tables []struct {
		Type, ID string
		Table    struct{ Columns []struct{ Name string } }
	} `json:"tableChanges"`
}

func decodeChange(t *testing.T, r rec) (c change) {
	t.Helper()
	if err := json.Unmarshal([]byte(r.Value), &c); err != nil {
		t.Fatal(err)
	}
	return c
}

func (c change) String() string {
	var out []string
	for _, x := range c.Tables {
		var names []string
		for _, col := range x.Table.Columns {
			names = append(names, col.Name)
		}
		_, name, _ := strings.Cut(x.ID, ".")
		out = append(out, strings.TrimSpace(x.Type+" "+strings.Trim(name, `"`)+" "+strings.Join(names, ",")))
	}
	return strings.Join(out, " ")
}

// logged is an event as the server shows it.
type logged struct{ pos, info string }

// binlog are the statements of the database in the server's current binlog file.
func (d *database) binlog() []logged {
	d.t.Helper()
	file, _, err := d.server.BinaryLog(d.t.Context())
	if err != nil {
		d.t.Fatal(err)
	}
	rows, err := d.server.Query(d.t.Context(), "", "SHOW BINLOG EVENTS IN '"+file+"'")
	if err != nil {
		d.t.Fatal(err)
	}
	var list []logged
	for _, r := range rows {
		if info, ok := strings.CutPrefix(r[5], "use `"+d.name+"`; "); ok {
			info, _, _ = strings.Cut(info, " /* xid=")
			list = append(list, logged{r[1], info})
		}
	}
	return list
}

// TestAKeyThatChangesIsLoaded: a statement that gives all rows another key writes no row. The table is emptied and loaded again, so that
// no row stays under a former key, however far behind the connector is.
func TestAKeyThatChangesIsLoaded(t *testing.T) {
	eachMetadata(t, func(t *testing.T, m *servers.MySQL, _ string) {
		d, l := newDatabase(t, m), newLog(t, 1)
		d.exec("CREATE TABLE t (id INT PRIMARY KEY, v INT)", "CREATE TABLE u (id INT PRIMARY KEY, v INT)", "INSERT INTO t VALUES (1, 10), (2, 20)", "INSERT INTO u VALUES (1, 10)")
		c := d.config(map[string]string{"snapshot.mode": "initial"})
		r := start(t, l, c).streaming()
		topic := "p." + d.name + ".t"
		l.waitFor(2, topic)
		if err := r.stop(); err != nil {
			t.Fatal(err)
		}
		d.exec("ALTER TABLE t CHANGE id ident INT", "UPDATE t SET v = 11 WHERE ident = 1", "ALTER TABLE t ADD w INT", "DELETE FROM t WHERE ident = 2", "INSERT INTO t VALUES (3, 30, 31)")
		r = start(t, l, c).streaming()
		state := func() string {
			rows := map[string]string{}
			for _, x := range l.read(topic) {
				switch {
				case x.Op == "t":
					clear(rows)
				case x.Tombstone:
					delete(rows, x.Key)
				case x.Op != "d":
					rows[x.Key] = fmt.Sprint(x.After["v"], " ", x.After["w"])
				}
			}
			return fmt.Sprint(rows)
		}
		eventually(t, "the state of the source", func() bool { return state() == `map[{"ident":1}:11 <nil> {"ident":3}:30 31]` })
		if w := r.c.Status().Warnings; len(w) > 0 {
			t.Errorf("warnings %q", w)
		}
		if list := l.waitFor(1, "p."+d.name+".u"); list[0].Op != "r" {
			t.Errorf("another table was loaded again:\n%s", summary(list))
		}
	})
}

// TestAKeyThatChanges: where tables are not loaded, the connector says so.
func TestAKeyThatChanges(t *testing.T) {
	eachMetadata(t, func(t *testing.T, m *servers.MySQL, _ string) {
		d, l := newDatabase(t, m), newLog(t, 1)
		d.exec("CREATE TABLE t (id INT PRIMARY KEY, v INT)", "CREATE TABLE u (id INT PRIMARY KEY, v INT NOT NULL)", "CREATE TABLE w (id INT PRIMARY KEY, v INT)", "CREATE TABLE s (id INT PRIMARY KEY, v INT)")
		r := d.lag(l, d.config(nil), "INSERT INTO t VALUES (1, 1)", "ALTER TABLE t CHANGE id ident INT", "UPDATE t SET v = 2", "ALTER TABLE u DROP PRIMARY KEY, ADD PRIMARY KEY (v)",
			"ALTER TABLE w MODIFY id BIGINT, ADD x INT", "ALTER TABLE s MODIFY id VARCHAR(9)", "INSERT INTO w VALUES (1, 2, 3)")
		l.waitFor(1, "p."+d.name+".w")
		equal(t, summary(l.waitFor(2, "p."+d.name+".t")), `c {"id":1} null -> {"id":1,"v":1}
u {"ident":1} {"ident":1,"v":1} -> {"ident":1,"v":2}`)
		warnings := r.c.Status().Warnings
		if len(warnings) != 3 {
			t.Fatalf("warnings %q", warnings)
		}
		for i, want := range []string{d.name + ".t: the key of its records was (id integer) and is (ident integer)", d.name + ".u: the key of its records was (id integer) and is (v integer)", d.name + ".s: the key"} {
			if !strings.Contains(warnings[i], want) || !strings.Contains(warnings[i], "p.position") {
				t.Errorf("%q lacks %q", warnings[i], want)
			}
		}
	})
}
