package schema

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/go-mysql-org/go-mysql/client"
	"github.com/google/go-cmp/cmp"

	"github.com/rowtrail/rowtrail/connectors/event"
	"github.com/rowtrail/rowtrail/connectors/mysql/binlog"
	"github.com/rowtrail/rowtrail/connectors/mysql/ddl"
	"github.com/rowtrail/rowtrail/itest/binlogs"
	"github.com/rowtrail/rowtrail/itest/servers"
)

var schemaRuns = flag.Int("schema.runs", 1, "histories on each server and setting")

var pool servers.MySQLPool

func TestMain(m *testing.M) {
	code := m.Run()
	if err := pool.Close(); err != nil {
		fmt.Println(err)
	}
	os.Exit(code)
}

// session is a Session of a test server.
type session struct{ *client.Conn }

func (s session) Query(_ context.Context, sql string) ([][]*string, error) {
	res, err := s.Execute(sql)
	if err != nil || res.Resultset == nil {
		return nil, err
	}
	var rows [][]*string
	for _, values := range res.Values {
		row := make([]*string, len(values))
		for i := range values {
			if values[i].Value() != nil {
				row[i] = new(fmt.Sprint(values[i].Value()))
				if b, ok := values[i].Value().([]byte); ok {
					row[i] = new(string(b))
				}
			}
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// lagging reads a recording long after it was made.
type lagging struct {
	t       *testing.T
	m       *servers.MySQL
	o       Options
	b       *Book
	s       session
	d       *binlog.Decoder
	rec     *binlogs.Recording
	db      string
	step    int
	last    map[string]binlogs.Table // before the step
	now     map[string]binlogs.Table // after it
	order   uint64
	rows    int
	blind   int // rows that could not be described
	looks   int
	current map[*binlog.Table]*Description
	skip    int // steps that the Book never hears of
}

func newLagging(t *testing.T, m *servers.MySQL, db string) *lagging {
	conn, err := m.Connect(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	l := &lagging{t: t, m: m, s: session{conn}, db: db, d: binlog.NewDecoder(binlog.Options{}), last: map[string]binlogs.Table{}, current: map[*binlog.Table]*Description{}}
	version, err := m.Query(t.Context(), "", "SELECT VERSION()")
	if err != nil {
		t.Fatal(err)
	}
	var major, minor, patch int
	_, _ = fmt.Sscanf(version[0][0], "%d.%d.%d", &major, &minor, &patch)
	l.o = Options{Version: major*10000 + minor*100 + patch}
	if m.MariaDB() {
		l.o.Flavour = ddl.MariaDB
	}
	if l.o.Collations, err = ReadCollations(t.Context(), l.s, l.o); err != nil {
		t.Fatal(err)
	}
	l.b = New(l.o)
	return l
}

func (l *lagging) at() Place {
	l.order++
	return Place{Order: l.order}
}

// start reads the catalog of the database, as it is before the recording.
func (l *lagging) start() {
	l.t.Helper()
	c, err := ReadDatabases(l.t.Context(), l.s, l.o, l.db)
	if err != nil {
		l.t.Fatal(err)
	}
	l.b.Catalog(l.at(), c, nil)
}

// replay decodes all, and compares every row with what the server had.
func (l *lagging) replay(rec *binlogs.Recording) {
	l.t.Helper()
	l.rec = rec
	l.packets(rec.Head)
	for i, step := range rec.Steps {
		l.step = i
		l.now = map[string]binlogs.Table{}
		for k, v := range l.last {
			l.now[k] = v
		}
		for _, table := range step.Tables {
			if l.now[table.Name] = table; table.Dropped {
				delete(l.now, table.Name)
			}
		}
		l.packets(step.Events)
		l.last = l.now
		if l.t.Failed() {
			l.t.Fatalf("%s", l.history())
		}
	}
}

func (l *lagging) history() string {
	var all []string
	for _, s := range l.rec.Steps[:l.step+1] {
		all = append(all, s.SQL)
	}
	return strings.Join(all, ";\n")
}

func (l *lagging) packets(packets [][]byte) {
	l.t.Helper()
	for _, p := range packets {
		for e, err := l.d.Decode(p); ; e, err = l.d.Next() {
			if err != nil {
				l.t.Fatal(err)
			}
			if e == nil {
				break
			}
			if l.step < l.skip {
				continue
			}
			switch e.Kind {
			case binlog.KindQuery:
				l.b.Statement(l.at(), &e.Query)
			case binlog.KindTable:
				if e.Table.Schema == l.db {
					l.current[e.Table] = l.describe(e.Table)
				}
			case binlog.KindRows:
				if e.Rows.Table.Schema == l.db {
					l.decode(&e.Rows, l.current[e.Rows.Table])
				}
			}
		}
	}
}

// describe asks the Book, and the catalog as it is after all if the Book wants it.
func (l *lagging) describe(t *binlog.Table) *Description {
	l.t.Helper()
	d, err := l.b.Table(l.at(), t)
	var look *LookError
	if errors.As(err, &look) {
		l.looks++
		if l.looks < 4 {
			l.t.Logf("step %d: %v", l.step, err)
		}
		read, err := Read(l.t.Context(), l.s, l.o, look.Table)
		if err != nil {
			l.t.Fatal(err)
		}
		l.b.Catalog(l.at(), read, l.ahead())
		d, err = l.b.Table(l.at(), t)
		if errors.As(err, &look) {
			l.t.Fatalf("it asks again: %v", err)
		}
		return l.described(t, d, err)
	}
	return l.described(t, d, err)
}

func (l *lagging) described(t *binlog.Table, d *Description, err error) *Description {
	l.t.Helper()
	var stop *Error
	switch {
	case errors.As(err, &stop):
		if t.Named && l.o.Flavour == ddl.MySQL {
			l.t.Errorf("with FULL metadata: %v", err)
		}
	case err != nil:
		l.t.Errorf("%v", err)
	default:
		l.compareColumns(d)
	}
	return d
}

// ahead has the statements after this step; those of the step itself come before its rows.
func (l *lagging) ahead() *Ahead {
	l.t.Helper()
	a := l.b.Ahead()
	d := binlog.NewDecoder(binlog.Options{})
	feed := func(packets [][]byte, wanted bool) {
		for _, p := range packets {
			for e, err := d.Decode(p); ; e, err = d.Next() {
				if err != nil {
					l.t.Fatal(err)
				}
				if e == nil {
					break
				}
				if e.Kind == binlog.KindQuery && wanted {
					a.Statement(&e.Query)
				}
			}
		}
	}
	feed(l.rec.Head, false)
	for i, s := range l.rec.Steps {
		feed(s.Events, i > l.step)
	}
	return a
}

// compareColumns holds a description against information_schema at that time.
func (l *lagging) compareColumns(d *Description) {
	l.t.Helper()
	if d.Whole { // the load, which has no table map, gives the same
		known, _ := l.b.Known(d.Name)
		columns, errs := l.b.Columns(known)
		if diff := cmp.Diff(columns, d.columns); errors.Join(errs...) != nil || diff != "" {
			l.t.Errorf("step %d: %s: %v -alone +with the table map\n%s", l.step, d.Name.Table, errs, diff)
		}
	}
	truth := l.now[d.Name.Table]
	if len(truth.Columns) != len(d.columns) {
		l.t.Errorf("step %d: %s has %d columns, described are %d", l.step, d.Name.Table, len(truth.Columns), len(d.columns))
		return
	}
	generated := false
	for i, c := range d.columns {
		w := truth.Columns[i]
		typ, _, _ := strings.Cut(w.Type, " /*")
		got := fmt.Sprintf("%s|%s|%s|%s|%v", c.Name, c.Type, c.Charset, c.Collation, !c.NotNull)
		want := fmt.Sprintf("%s|%s|%s|%s|%v", w.Name, typ, w.Charset, w.Collation, w.Nullable)
		if !d.Whole { // from metadata alone: types are as well as they can be told
			got = fmt.Sprintf("%s|%s|%v", c.Name, c.Charset, !c.NotNull)
			want = fmt.Sprintf("%s|%s|%v", w.Name, w.Charset, w.Nullable)
		} else if extra := strings.ToLower(w.Extra); strings.Contains(extra, "invisible") != c.Invisible || generatedExtra(extra) != c.Generated {
			l.t.Errorf("step %d: %s.%s: extra %q, invisible %v, generated %v", l.step, d.Name.Table, c.Name, w.Extra, c.Invisible, c.Generated)
		}
		if got != want {
			l.t.Errorf("step %d: %s\n  described %s\n  server    %s", l.step, d.Name.Table, got, want)
		}
		if (w.Key == "PRI") != (c.Key > 0) {
			generated = true
		}
	}
	if generated {
		l.t.Errorf("step %d: %s: key %v, server %v", l.step, d.Name.Table, d.columns, truth.Columns)
	}
}

func generatedExtra(extra string) bool {
	return strings.Contains(extra, "stored generated") || strings.Contains(extra, "virtual generated")
}

// decode compares rows with those that the table had before and after the step.
func (l *lagging) decode(r *binlog.Rows, d *Description) {
	l.t.Helper()
	if d == nil {
		if l.blind++; l.blind < 3 {
			_, err := l.b.Table(l.at(), r.Table)
			l.t.Logf("step %d: %v", l.step, err)
		}
		return
	}
	columns, bind, err := d.Bind(nil, nil)
	if err != nil {
		l.t.Fatal(err)
	}
	layout, err := binlog.NewLayout(r.Table, bind)
	if err != nil {
		l.t.Fatalf("step %d: %v", l.step, err)
	}
	before, after := make(event.Row, len(columns)), make(event.Row, len(columns))
	for {
		more, err := r.Next(layout, before, after)
		if err != nil {
			l.t.Fatalf("step %d: %v", l.step, err)
		}
		if !more {
			return
		}
		l.rows++
		if r.Op != event.OpCreate {
			l.find(d, before, l.last[d.Name.Table], "before")
		}
		if r.Op != event.OpDelete {
			l.find(d, after, l.now[d.Name.Table], "after")
		}
	}
}

// find looks for a row in the table; columns that were not sent are any.
func (l *lagging) find(d *Description, row event.Row, table binlogs.Table, when string) {
	l.t.Helper()
	for _, r := range table.Rows {
		same := len(r) == len(row)
		for i := 0; same && i < len(row); i++ {
			switch row[i].State {
			case event.Absent:
			case event.Null:
				same = r[i] == nil
			default:
				same = r[i] != nil && *r[i] == string(row[i].Text)
			}
		}
		if same {
			return
		}
	}
	var got []string
	for i, v := range row {
		got = append(got, fmt.Sprintf("%s=%s(%d)", d.columns[i].Name, v.Text, v.State))
	}
	l.t.Errorf("step %d: the row %s the step is in no row of %s: %s", l.step, when, table.Name, strings.Join(got, ", "))
}

// record runs statements under a setting of the metadata; statements that the server refuses are left out.
func record(t *testing.T, m *servers.MySQL, db, metadata string, run func(exec func(sql string) error)) *binlogs.Recording {
	t.Helper()
	ctx := t.Context()
	if err := m.Exec(ctx, "", "SET GLOBAL binlog_row_metadata = "+metadata); err != nil {
		t.Fatal(err)
	}
	r, err := binlogs.Start(ctx, m, db)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	run(func(sql string) error { return r.Exec(ctx, sql) })
	rec, err := r.Finish(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return rec
}

func metadataModes(m *servers.MySQL) []string {
	if m.MariaDB() {
		return []string{"MINIMAL", "FULL", "NO_LOG"}
	}
	return []string{"MINIMAL", "FULL"}
}

// TestRandomHistories has statements and rows in any order, all of them done before the first event is read.
func TestRandomHistories(t *testing.T) {
	s := seed(t)
	pool.Each(t, func(t *testing.T, m *servers.MySQL) {
		for _, metadata := range metadataModes(m) {
			for _, blind := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s blind %v", metadata, blind), func(t *testing.T) {
					for run := range uint64(*schemaRuns) {
						l := newLagging(t, m, "hist")
						g := &generator{Rand: rand.New(rand.NewPCG(s, run)), maria: m.MariaDB(), doubts: blind, tables: map[string][]genColumn{}}
						if err := m.Exec(t.Context(), "", "DROP DATABASE IF EXISTS hist", "CREATE DATABASE hist"); err != nil {
							t.Fatal(err)
						}
						if blind { // the databases are known in any case
							l.b.Catalog(l.at(), &Catalog{Databases: map[string]ddl.Database{"hist": {Charset: "utf8mb4", Collation: l.o.Collations.defaultOf("utf8mb4")}}}, nil)
						} else {
							l.start()
						}
						rec := record(t, m, "hist", metadata, func(exec func(string) error) { g.run(exec, 70) })
						if blind {
							l.skip = len(rec.Steps) / 2
						}
						l.replay(rec)
						t.Logf("%d statements, %d refused, %d rows, %d not described, %d looks", len(rec.Steps), g.refused, l.rows, l.blind, l.looks)
						if l.rows < 10 || g.refused > len(rec.Steps)/2 || blind != (l.looks > 0) || !blind && (l.rows < 50 || l.blind > 0) {
							t.Errorf("%d rows, %d not described, %d of %d statements refused", l.rows, l.blind, g.refused, len(rec.Steps))
						}
						l.end()
					}
				})
			}
		}
	})
}

// end compares what the statements made of each table with what the catalog says of it.
func (l *lagging) end() {
	l.t.Helper()
	c, err := ReadDatabases(l.t.Context(), l.s, l.o, l.db)
	if err != nil {
		l.t.Fatal(err)
	}
	if len(c.Why) > 0 {
		l.t.Errorf("%v", c.Why)
	}
	known := 0
	for name, table := range c.Tables {
		ours, _ := l.b.Known(name)
		if ours == nil {
			continue
		}
		known++
		a, b := l.b.tableChange("", name, ours), l.b.tableChange("", name, table)
		for i := range a.Columns { // an expression's text is the server's own
			if a.Columns[i].Default || a.Columns[i].Missing != nil {
				a.Columns[i].DefaultText = nil
			}
		}
		for i := range b.Columns {
			if b.Columns[i].Default || b.Columns[i].Missing != nil {
				b.Columns[i].DefaultText = nil
			}
		}
		if diff := cmp.Diff(b, a); diff != "" {
			l.t.Errorf("%s: -catalog +history\n%s\n%s", name.Table, diff, l.history())
		}
	}
	l.t.Logf("%d of %d tables are known at the end", known, len(c.Tables))
}

// TestM3 has what gh-ost and pt-online-schema-change do, M1 and M19 among it, read long after.
func TestM3GhostTables(t *testing.T) {
	pool.Each(t, func(t *testing.T, m *servers.MySQL) {
		for _, metadata := range metadataModes(m) {
			t.Run(metadata, func(t *testing.T) {
				if err := m.Exec(t.Context(), "", "DROP DATABASE IF EXISTS gho", "CREATE DATABASE gho"); err != nil {
					t.Fatal(err)
				}
				l := newLagging(t, m, "gho")
				l.start()
				rec := record(t, m, "gho", metadata, func(exec func(string) error) {
					for _, s := range []string{
						"CREATE TABLE t (id INT PRIMARY KEY, e ENUM('a','b','c'), s SET('x','y'))", "INSERT INTO t VALUES (1, 'a', 'x,y')",
						"CREATE TABLE _t_gho LIKE t", "ALTER TABLE _t_gho ADD COLUMN n INT FIRST, MODIFY e ENUM('c','b','a') CHARACTER SET latin1, MODIFY s SET('y','x') AFTER n",
						"INSERT INTO _t_gho (id, e, s) SELECT id, e, s FROM t", "INSERT INTO t VALUES (2, 'c', 'y')", "REPLACE INTO _t_gho (id, e, s) VALUES (2, 'c', 'y')",
						"RENAME TABLE t TO _t_del, _t_gho TO t", "INSERT INTO t (id, e, n, s) VALUES (3, 'a', 7, 'x')", "UPDATE t SET e = 'b' WHERE id = 1", "DROP TABLE _t_del",
						"CREATE TABLE _t_new LIKE t", "ALTER TABLE _t_new DROP n", "INSERT INTO _t_new (id, e, s) SELECT id, e, s FROM t", "RENAME TABLE t TO _t_old, _t_new TO t",
						"INSERT INTO t (id, e) VALUES (9, 'b')", "DELETE FROM t WHERE id = 3", "ALTER TABLE t MODIFY e ENUM('b','a','c','d')", "UPDATE t SET e = 'd'",
						"ALTER TABLE t ADD COLUMN h INT INVISIBLE DEFAULT 4 FIRST, RENAME TO u", "INSERT INTO u (id, e) VALUES (10, 'a')", "ALTER TABLE u RENAME TO t", "UPDATE t SET h = 5",
						"CREATE TABLE c AS SELECT * FROM t", "INSERT INTO c (id, e) VALUES (77, 'c')", "DROP TABLE t",
					} {
						if err := exec(s); err != nil {
							t.Fatal(err)
						}
					}
				})
				l.replay(rec)
				if l.rows < 15 || l.blind > 0 || l.looks > 0 {
					t.Errorf("%d rows, %d not described, %d looks", l.rows, l.blind, l.looks)
				}
				l.end()
			})
		}
	})
}

// TestM22GeneratedKeys has MySQL's own invisible key, which the statement does not name.
func TestM22GeneratedKeys(t *testing.T) {
	pool.Each(t, func(t *testing.T, m *servers.MySQL) {
		if m.MariaDB() {
			t.Skip("MariaDB makes no keys by itself")
		}
		for _, metadata := range metadataModes(m) {
			t.Run(metadata, func(t *testing.T) {
				l := newLagging(t, m, "gipk")
				if err := m.Exec(t.Context(), "", "DROP DATABASE IF EXISTS gipk", "CREATE DATABASE gipk"); err != nil {
					t.Fatal(err)
				}
				l.start()
				l.replay(record(t, m, "gipk", metadata, func(exec func(string) error) {
					for _, s := range []string{"SET sql_generate_invisible_primary_key = ON", "CREATE TABLE g (a INT, b TEXT)", "INSERT INTO g VALUES (1, 'x')", "ALTER TABLE g ADD c INT FIRST",
						"INSERT INTO g VALUES (2, 3, 'y')", "CREATE TABLE g2 LIKE g", "INSERT INTO g2 VALUES (5, 6, 'z')", "DELETE FROM g", "CREATE TABLE g3 (u INT NOT NULL UNIQUE)", "INSERT INTO g3 VALUES (1)"} {
						if err := exec(s); err != nil {
							t.Fatal(err)
						}
					}
				}))
				if l.rows != 6 || l.blind > 0 || l.looks > 0 {
					t.Errorf("%s: %d rows, %d not described, %d looks", metadata, l.rows, l.blind, l.looks)
				}
				l.end()
			})
		}
	})
}

// TestM22HashesOfLongKeys has the columns that MariaDB adds for unique keys of values that are too long for a key: only the binlog has them.
func TestM22HashesOfLongKeys(t *testing.T) {
	pool.Each(t, func(t *testing.T, m *servers.MySQL) {
		if !m.MariaDB() {
			t.Skip("MySQL refuses such keys")
		}
		for _, metadata := range metadataModes(m) {
			t.Run(metadata, func(t *testing.T) {
				l := newLagging(t, m, "hashes")
				if err := m.Exec(t.Context(), "", "DROP DATABASE IF EXISTS hashes", "CREATE DATABASE hashes"); err != nil {
					t.Fatal(err)
				}
				l.start()
				l.replay(record(t, m, "hashes", metadata, func(exec func(string) error) {
					for _, s := range []string{"CREATE TABLE h (a TEXT NOT NULL, b VARCHAR(3000) NOT NULL, c BIGINT NOT NULL, UNIQUE (a), UNIQUE (b))", "INSERT INTO h VALUES ('x', 'y', 1)",
						"ALTER TABLE h ADD d BIGINT", "UPDATE h SET d = 5", "ALTER TABLE h DROP KEY a", "INSERT INTO h VALUES ('x', 'z', 2, 3)", "ALTER TABLE h ADD PRIMARY KEY (c), ADD UNIQUE (a, b)", "DELETE FROM h WHERE c = 1", "DELETE FROM h",
						"ALTER TABLE h DROP KEY b, DROP KEY a_2", "INSERT INTO h VALUES ('x', 'z', 2, 3)"} {
						if err := exec(s); err != nil && !strings.Contains(s, "a_2") {
							t.Fatal(err)
						}
					}
				}))
				if l.rows < 6 || l.blind > 0 || l.looks > 0 {
					t.Errorf("%d rows, %d not described, %d looks", l.rows, l.blind, l.looks)
				}
				l.end()
			})
		}
	})
}

// TestM2Sessions has statements of sessions with other charsets and modes, and in comments that the server executes.
func TestM2Sessions(t *testing.T) {
	pool.Each(t, func(t *testing.T, m *servers.MySQL) {
		for _, metadata := range metadataModes(m) {
			t.Run(metadata, func(t *testing.T) {
				if err := m.Exec(t.Context(), "", "DROP DATABASE IF EXISTS sess", "CREATE DATABASE sess"); err != nil {
					t.Fatal(err)
				}
				l := newLagging(t, m, "sess")
				l.start()
				invisible := "/*!80023 INVISIBLE */"
				if m.MariaDB() {
					invisible = "/*M!100300 INVISIBLE */"
				}
				l.replay(record(t, m, "sess", metadata, func(exec func(string) error) {
					for _, s := range []string{
						"SET NAMES latin1", "CREATE TABLE `\xe9` (`\xfc` INT, e ENUM('\xe9','b') COMMENT '\xe0', d VARCHAR(5) DEFAULT '\xe9')", "INSERT INTO `\xe9` VALUES (1, '\xe9', 'x')", "ALTER TABLE `\xe9` CHANGE `\xdc` `\xf6` INT",
						"INSERT INTO `\xe9` VALUES (2, 'b', '\xe9')", "RENAME TABLE `\xe9` TO `\xe8`, `\xe8` TO `\xea`", "INSERT INTO `\xea` VALUES (3, 'b', '\xe9')",
						// The second bytes of these characters are backslashes.
						"SET NAMES gbk", "CREATE TABLE g (e ENUM('\x81\\','a') CHARACTER SET gbk, n INT)", "INSERT INTO g VALUES ('\x81\\', 1), ('a', 2)",
						"SET NAMES sjis", "CREATE TABLE s (e SET('\x95\\','\x83\\') CHARACTER SET utf8mb4, n INT COMMENT '\x95\\')", "INSERT INTO s VALUES ('\x95\\', 1), ('\x83\\', 2)",
						"SET NAMES utf8mb4, sql_mode = 'ANSI_QUOTES'", `CREATE TABLE "a q" ("x""y" INT, "e" ENUM('p','q'))`, `INSERT INTO "a q" VALUES (1, 'q')`, `ALTER TABLE "a q" ADD "z" INT FIRST`, `INSERT INTO "a q" VALUES (0, 1, 'p')`,
						"SET sql_mode = 'NO_BACKSLASH_ESCAPES'", `CREATE TABLE nb (e ENUM('a\','b'), n INT)`, `INSERT INTO nb VALUES ('a\', 1), ('b', 2)`,
						"SET sql_mode = 'REAL_AS_FLOAT'", "CREATE TABLE rf (a REAL, b INT)", "INSERT INTO rf VALUES (0.1, 1)", "SET sql_mode = ''",
						"CREATE /*!50000 TABLE */ ec (a INT DEFAULT 4 " + invisible + ", b INT /* , c INT */)", "INSERT INTO ec VALUES (1)", "/* x */ ALTER /*!99999 FROB */ TABLE ec -- y\n ADD COLUMN c /*! BIGINT */ FIRST;", "INSERT INTO ec VALUES (1, 2)",
						"CREATE TABLE ci (Aa INT, Bb BIGINT)", "ALTER TABLE ci CHANGE AA cc INT AFTER BB", "INSERT INTO ci VALUES (1, 2)",
					} {
						if err := exec(s); err != nil {
							t.Fatal(err)
						}
					}
				}))
				if l.rows != 15 || l.blind > 0 || l.looks > 0 {
					t.Errorf("%d rows, %d not described, %d looks", l.rows, l.blind, l.looks)
				}
				l.end()
			})
		}
	})
}

// TestImplicitTimestamps has sessions with explicit_defaults_for_timestamp=OFF, which their statements tell.
func TestImplicitTimestamps(t *testing.T) {
	pool.Each(t, func(t *testing.T, m *servers.MySQL) {
		if err := m.Exec(t.Context(), "", "DROP DATABASE IF EXISTS ts", "CREATE DATABASE ts"); err != nil {
			t.Fatal(err)
		}
		l := newLagging(t, m, "ts")
		l.start()
		l.replay(record(t, m, "ts", "MINIMAL", func(exec func(string) error) {
			for _, s := range []string{"CREATE TABLE e (a TIMESTAMP, b TIMESTAMP NULL)", "INSERT INTO e VALUES (NULL, NULL)", "SET explicit_defaults_for_timestamp = OFF, sql_mode = ''",
				"CREATE TABLE i (a TIMESTAMP, b TIMESTAMP, c TIMESTAMP NULL)", "INSERT INTO i (b) VALUES ('2024-01-01')", "CREATE TABLE j (a INT)", "ALTER TABLE j ADD x TIMESTAMP, ADD y TIMESTAMP", "INSERT INTO j VALUES (1, NULL, NULL)",
				"ALTER TABLE i MODIFY b TIMESTAMP FIRST", "ALTER TABLE i ADD d TIMESTAMP", "ALTER TABLE e MODIFY b TIMESTAMP, ADD f TIMESTAMP", "SET explicit_defaults_for_timestamp = ON", "ALTER TABLE j ADD z TIMESTAMP", "INSERT INTO j VALUES (2, NOW(), NOW(), NULL)"} {
				if err := exec(s); err != nil {
					t.Fatal(err)
				}
			}
		}))
		if l.rows < 4 || l.blind > 0 || l.looks > 0 {
			t.Errorf("%d rows, %d not described, %d looks", l.rows, l.blind, l.looks)
		}
		l.end()
	})
}

// generator makes statements of a small world of tables, whose values it knows how to write.
type generator struct {
	*rand.Rand
	maria   bool
	doubts  bool // statements whose outcome is not known
	tables  map[string][]genColumn
	next    int
	refused int
}

type genColumn struct {
	name   string
	values []string
	fixed  bool // has no value to write
}

func (g *generator) one(of ...string) string { return of[g.IntN(len(of))] }

func (g *generator) column(name string) (string, genColumn) {
	type kind struct {
		typ    string
		values []string
	}
	ints := []string{"0", "1", "7", "100", "NULL"}
	texts := []string{"'a'", "'it''s'", "''", "NULL", "'z '"}
	kinds := []kind{
		{"INT", ints}, {"INT UNSIGNED", append(ints, "4294967295")}, {"BIGINT", append(ints, "-9")}, {"BIGINT UNSIGNED", append(ints, "18446744073709551615")}, {"TINYINT(1)", ints}, {"BOOL", ints}, {"INT(5) ZEROFILL", ints},
		{"MEDIUMINT", ints}, {"SMALLINT UNSIGNED DEFAULT 5", ints}, {"DECIMAL(8,3)", []string{"1.5", "-2", "NULL"}}, {"DECIMAL(8,3) DEFAULT 1.5", []string{"1.5"}}, {"FLOAT", []string{"0.1", "NULL"}}, {"DOUBLE UNSIGNED", []string{"0.1", "1e10"}},
		{"FLOAT(7,2)", []string{"1.25"}}, {"VARCHAR(10)", texts}, {"VARCHAR(10) CHARACTER SET latin1", append(texts, "'é'")}, {"CHAR(5) COLLATE utf8mb4_bin", texts}, {"VARCHAR(300) DEFAULT 'd'", texts}, {"TEXT", append(texts, "'é€'")},
		{"CHAR(4) CHARACTER SET ucs2", texts}, {"TINYTEXT CHARACTER SET gbk", append(texts, "'中'")}, {"VARBINARY(8)", []string{"x'00ff'", "NULL"}}, {"BINARY(4) DEFAULT 'a'", []string{"x'01'", "NULL"}}, {"BLOB", []string{"x'00ff'"}},
		{"ENUM('p','q','r')", []string{"'p'", "'q'", "'r'", "NULL"}}, {"ENUM('r','q','p') CHARACTER SET latin1", []string{"'p'", "'q'", "'r'"}}, {"SET('x','y','z')", []string{"'x'", "'x,z'", "''"}}, {"SET('z','y','x')", []string{"'x'", "'x,z'"}},
		{"DATE DEFAULT '2024-02-29'", []string{"'2024-01-01'"}}, {"DATETIME(3)", []string{"'2024-01-01 10:00:00.5'", "NULL"}}, {"TIMESTAMP NULL", []string{"'2024-01-01 10:00:00'", "NULL"}}, {"TIMESTAMP(2) DEFAULT CURRENT_TIMESTAMP(2) ON UPDATE CURRENT_TIMESTAMP(2)", []string{"'2024-01-01 10:00:00'"}},
		{"TIME(1)", []string{"'-10:00:00.5'"}}, {"YEAR", []string{"2024"}}, {"BIT(5) DEFAULT b'101'", []string{"b'1'"}}, {"JSON", []string{`'{"a": 1}'`}}, {"POINT", []string{"ST_GeomFromText('POINT(1 2)')"}}, {"INT DEFAULT (1 + 2)", ints},
	}
	if g.maria {
		kinds = append(kinds, kind{"UUID", []string{"'123e4567-e89b-12d3-a456-426655440000'", "NULL"}}, kind{"INET6", []string{"'::1'"}}, kind{"INET4", []string{"'1.2.3.4'"}}, kind{"VARCHAR(200) COMPRESSED", texts})
	} else {
		kinds = append(kinds, kind{"VECTOR(2)", []string{"STRING_TO_VECTOR('[1,2]')"}}, kind{"POINT SRID 4326", []string{"ST_GeomFromText('POINT(1 2)', 4326)"}})
	}
	if g.IntN(12) == 0 {
		return g.one("INT AS (1 + 2) STORED", "INT AS (3) VIRTUAL", "VARCHAR(5) AS ('x') VIRTUAL"), genColumn{name: name, fixed: true}
	}
	k := kinds[g.IntN(len(kinds))]
	typ := k.typ
	if g.IntN(8) == 0 {
		typ += " INVISIBLE"
	}
	if g.IntN(8) == 0 {
		typ += " COMMENT 'c''c'"
	}
	return typ, genColumn{name: name, values: k.values}
}

func (g *generator) name() string {
	g.next++
	return fmt.Sprintf("%s%d", g.one("c", "Col", "a b"), g.next)
}

func quotedName(s string) string { return "`" + s + "`" }

func (g *generator) table() (string, bool) {
	names := make([]string, 0, len(g.tables))
	for n := range g.tables {
		names = append(names, n)
	}
	slices.Sort(names)
	if len(names) == 0 {
		return "", false
	}
	return g.one(names...), true
}

// run makes n statements of DDL, and rows after each.
func (g *generator) run(exec func(string) error, n int) {
	try := func(sql string) bool {
		err := exec(sql)
		if err != nil {
			g.refused++
		}
		return err == nil
	}
	for range n {
		t, any := g.table()
		if !any || g.IntN(8) == 0 {
			g.create(try)
		} else if g.IntN(2) == 0 {
			g.change(try, t)
		}
		if t, any = g.table(); any {
			g.rows(try, t)
		}
	}
}

func (g *generator) create(try func(string) bool) {
	g.next++
	name := fmt.Sprintf("t%d", g.next)
	if old, any := g.table(); any && g.IntN(4) == 0 {
		if try("CREATE TABLE " + name + " LIKE " + old) {
			g.tables[name] = slices.Clone(g.tables[old])
		}
		return
	}
	var parts []string
	var columns []genColumn
	parts = append(parts, "id "+g.one("INT PRIMARY KEY", "BIGINT UNSIGNED NOT NULL UNIQUE", "INT NOT NULL", "BIGINT AUTO_INCREMENT KEY"))
	for range g.IntN(5) + 1 {
		n := g.name()
		typ, c := g.column(n)
		parts = append(parts, quotedName(n)+" "+typ)
		columns = append(columns, c)
	}
	if g.IntN(3) == 0 {
		parts = append(parts, "KEY (id), UNIQUE (id)")
	}
	if try("CREATE TABLE " + name + " (" + strings.Join(parts, ", ") + ")" + g.one("", "", " DEFAULT CHARSET=latin1", " COMMENT='k'")) {
		g.tables[name] = columns
	}
}

func (g *generator) change(try func(string) bool, t string) {
	columns := g.tables[t]
	at := g.IntN(len(columns) + 1)
	after := g.one("", " FIRST", " AFTER id")
	switch k := g.IntN(12); {
	case k < 3 || len(columns) < 2 || at == len(columns):
		n := g.name()
		typ, c := g.column(n)
		if try("ALTER TABLE " + t + " ADD COLUMN " + quotedName(n) + " " + typ + after) {
			g.tables[t] = append(columns, c)
		}
	case k < 4:
		if try("ALTER TABLE " + t + " DROP COLUMN " + quotedName(columns[at].name)) {
			g.tables[t] = slices.Delete(slices.Clone(columns), at, at+1)
		}
	case k < 6:
		n := g.name()
		if try("ALTER TABLE " + t + " RENAME COLUMN " + quotedName(columns[at].name) + " TO " + quotedName(n)) {
			columns = slices.Clone(columns)
			columns[at].name = n
			g.tables[t] = columns
		}
	case k < 7:
		typ, c := g.column(columns[at].name)
		if try("ALTER TABLE " + t + " DROP COLUMN " + quotedName(c.name) + ", ADD COLUMN " + quotedName(c.name) + " " + typ + after) {
			columns = slices.Clone(columns)
			columns[at] = c
			g.tables[t] = columns
		}
	case k < 8:
		to := fmt.Sprintf("r%d", g.next)
		g.next++
		if try(g.one("RENAME TABLE "+t+" TO "+to, "ALTER TABLE "+t+" RENAME TO "+to)) {
			g.tables[to] = columns
			delete(g.tables, t)
		}
	case k < 9:
		other, _ := g.table()
		if other != t && try("RENAME TABLE "+t+" TO swap, "+other+" TO "+t+", swap TO "+other) {
			g.tables[t], g.tables[other] = g.tables[other], columns
		}
	case k < 10:
		if try("DROP TABLE " + t) {
			delete(g.tables, t)
		}
	case k < 11 && g.doubts:
		n := g.name()
		switch g.IntN(3) {
		case 0: // what TEXT(n) is depends on the charset
			if try("ALTER TABLE " + t + " ADD COLUMN " + quotedName(n) + " TEXT(30)") {
				g.tables[t] = append(columns, genColumn{name: n, values: []string{"'a'"}})
			}
		case 1:
			try("ALTER TABLE " + t + " CONVERT TO CHARACTER SET utf8mb4, MODIFY " + quotedName(columns[at].name) + " TEXT")
		default:
			to := fmt.Sprintf("s%d", g.next)
			g.next++
			if try("CREATE TABLE " + to + " AS SELECT * FROM " + t) {
				g.tables[to] = nil
			}
		}
	default:
		if g.maria && g.IntN(2) == 0 { // too long for a key
			n := g.name()
			if try("ALTER TABLE " + t + " ADD COLUMN " + quotedName(n) + " TEXT, ADD UNIQUE (" + quotedName(n) + ")") {
				g.tables[t] = append(columns, genColumn{name: n, values: []string{"NULL"}})
			}
			return
		}
		try("ALTER TABLE " + t + " " + g.one("ADD UNIQUE (id)", "COMMENT 'n'", "CONVERT TO CHARACTER SET utf8mb4", "DEFAULT CHARACTER SET gbk", "FORCE", "ADD INDEX (id)"))
	}
}

func (g *generator) rows(try func(string) bool, t string) {
	var names, values []string
	var set string
	for _, c := range g.tables[t] {
		if c.fixed || g.IntN(4) == 0 {
			continue
		}
		names = append(names, quotedName(c.name))
		values = append(values, g.one(c.values...))
		set = quotedName(c.name) + " = " + g.one(c.values...)
	}
	g.next++
	names, values = append(names, "id"), append(values, fmt.Sprint(g.next))
	try("INSERT INTO " + t + " (" + strings.Join(names, ", ") + ") VALUES (" + strings.Join(values, ", ") + ")")
	switch {
	case g.IntN(4) == 0 && set != "":
		try("UPDATE " + t + " SET " + set)
	case g.IntN(8) == 0:
		try("DELETE FROM " + t + " LIMIT 2")
	}
}
