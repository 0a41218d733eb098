package schema

import (
	"fmt"
	"strings"
	"testing"

	"github.com/rowtrail/rowtrail/connectors/mysql/binlog"
	"github.com/rowtrail/rowtrail/connectors/mysql/ddl"
)

func TestHistoryDescribesMinimalTableMaps(t *testing.T) {
	f := newFeed(t, Options{})
	f.sql("CREATE TABLE t (id INT PRIMARY KEY, a VARCHAR(9) DEFAULT 'x')")
	f.want(f.mapped("CREATE TABLE t (id INT PRIMARY KEY, a VARCHAR(9))", false), "id int key 1, a varchar(9) default x")
	// M1
	f.sql("ALTER TABLE t ADD b INT FIRST")
	f.want(f.mapped("CREATE TABLE t (b INT, id INT PRIMARY KEY, a VARCHAR(9))", false), "b int, id int key 1, a varchar(9) default x")
	// M19
	f.sql("CREATE TABLE e (e ENUM('p','q'))", "ALTER TABLE e MODIFY e ENUM('q','p')")
	f.want(f.mapped("CREATE TABLE e (e ENUM('q','p'))", false), "e enum('q','p')")
	f.sql("CREATE TABLE l LIKE t", "ALTER TABLE l DROP a, RENAME TO l2")
	f.want(f.mapped("CREATE TABLE l2 (b INT, id INT PRIMARY KEY)", false), "b int, id int key 1")
	f.sql("TRUNCATE t")
	f.want(f.mapped("CREATE TABLE t (b INT, id INT PRIMARY KEY, a VARCHAR(9))", false), "b int, id int key 1, a varchar(9) default x")
	f.sql("DROP TABLE t", "CREATE TABLE t (u BIGINT UNSIGNED NOT NULL UNIQUE, v INT)")
	f.want(f.mapped("CREATE TABLE t (u BIGINT UNSIGNED NOT NULL, v INT)", false), "u bigint unsigned key 1, v int")
}

// M3: what gh-ost and pt-online-schema-change do.
func TestM3Renames(t *testing.T) {
	f := newFeed(t, Options{})
	f.sql("CREATE TABLE t (id INT PRIMARY KEY)", "CREATE TABLE _t_gho LIKE t", "ALTER TABLE _t_gho ADD n BIGINT FIRST")
	f.want(f.mapped("CREATE TABLE t (id INT PRIMARY KEY)", false), "id int key 1")
	f.want(f.mapped("CREATE TABLE _t_gho (n BIGINT, id INT PRIMARY KEY)", false), "n bigint, id int key 1")
	c := f.sql("rename /* gh-ost */ table `d`.`t` to `d`.`_t_del`, `d`.`_t_gho` to `d`.`t`")
	f.want(f.mapped("CREATE TABLE t (n BIGINT, id INT PRIMARY KEY)", false), "n bigint, id int key 1")
	f.want(f.mapped("CREATE TABLE _t_del (id INT PRIMARY KEY)", false), "id int key 1")
	if len(c.Tables) != 2 || c.Tables[1].Table != "t" || len(c.Tables[1].Columns) != 2 {
		t.Errorf("%+v", c.Tables)
	}
	f.sql("RENAME TABLE t TO x, _t_del TO t, x TO _t_del") // a swap by a third name
	f.want(f.mapped("CREATE TABLE t (id INT PRIMARY KEY)", false), "id int key 1")
	f.want(f.mapped("CREATE TABLE _t_del (n BIGINT, id INT PRIMARY KEY)", false), "n bigint, id int key 1")
	// From a table that nobody saw.
	f.sql("RENAME TABLE t TO gone, elsewhere.u TO t")
	f.want(f.mapped("CREATE TABLE t (id INT PRIMARY KEY)", false), "look: it was renamed from a table that is not known")
}

// M2: a statement that is not understood is never ignored, and concerns no other table.
func TestM2UnknownStatements(t *testing.T) {
	f := newFeed(t, Options{})
	f.sql("CREATE TABLE t (id INT PRIMARY KEY)", "CREATE TABLE u (id INT PRIMARY KEY)", "ALTER TABLE t FROBNICATE BY 7 (x)")
	const why = "a statement that may have changed it is not understood"
	m := f.mapped("CREATE TABLE t (id INT PRIMARY KEY)", false)
	f.want(m, "look: "+why)
	f.want(f.mapped("CREATE TABLE u (id INT PRIMARY KEY)", false), "id int key 1")
	// A look that cannot be trusted: something changes the table before the end of the binlog.
	ahead := f.b.Ahead()
	ahead.Statement(statement("ALTER TABLE t ADD c INT"))
	f.catalog(ahead, []string{"CREATE TABLE t (id INT PRIMARY KEY, c INT)"})
	if got := f.answer(m); !strings.HasPrefix(got, "error: its columns are not known: a statement between") || !strings.Contains(got, "binlog_row_metadata = 'FULL'") {
		t.Error(got)
	}
	// FULL metadata needs none.
	f.want(f.mapped("CREATE TABLE t (id INT PRIMARY KEY)", true), "id int key 1 (metadata)")
	// The statement that lay ahead is reached: a new look.
	f.sql("ALTER TABLE t ADD c INT")
	m = f.mapped("CREATE TABLE t (id INT PRIMARY KEY, c INT)", false)
	f.want(m, "look: "+f.whyOf("t"))
	f.catalog(f.b.Ahead(), []string{"CREATE TABLE t (id INT PRIMARY KEY, c INT)"})
	f.want(m, "id int key 1, c int")
	// One that breaks off may have named any table.
	f.sql("ALTER TABLE u ADD c INT, RENAME TO 'v")
	f.want(f.mapped("CREATE TABLE u (id INT PRIMARY KEY)", false), "look: "+why)
	f.want(f.mapped("CREATE TABLE t (id INT PRIMARY KEY, c INT)", false), "look: "+why)
}

func (f *feed) whyOf(table string) string {
	return f.b.tables[ddl.TableName{Database: "d", Table: table}].why
}

func TestTableMapsCheckTheDescription(t *testing.T) {
	f := newFeed(t, Options{})
	f.sql("CREATE TABLE t (id INT PRIMARY KEY, a INT, s VARCHAR(5), e ENUM('p','q'))")
	good := "CREATE TABLE t (id INT PRIMARY KEY, a INT, s VARCHAR(5), e ENUM('p','q'))"
	whole := "id int key 1, a int, s varchar(5), e enum('p','q')"
	for _, c := range []struct {
		create string
		full   bool
	}{
		{"CREATE TABLE t (id INT PRIMARY KEY, a INT, s VARCHAR(5))", false},
		{"CREATE TABLE t (id INT PRIMARY KEY, a BIGINT, s VARCHAR(5), e ENUM('p','q'))", false},
		{"CREATE TABLE t (id INT PRIMARY KEY, a INT UNSIGNED, s VARCHAR(5), e ENUM('p','q'))", false},
		{"CREATE TABLE t (id INT PRIMARY KEY, a INT NOT NULL, s VARCHAR(5), e ENUM('p','q'))", false},
		{"CREATE TABLE t (id INT PRIMARY KEY, a INT, s VARCHAR(20) CHARACTER SET latin1, e ENUM('p','q'))", false},
		{"CREATE TABLE t (id INT PRIMARY KEY, b INT, s VARCHAR(5), e ENUM('p','q'))", true},
		{"CREATE TABLE t (id INT PRIMARY KEY, a INT, s VARCHAR(5), e ENUM('q','p'))", true},
	} {
		f.sql("ALTER TABLE t FORCE")
		f.catalog(f.b.Ahead(), []string{good})
		f.want(f.mapped(good, c.full), whole)
		if got := f.answer(f.mapped(c.create, c.full)); !strings.HasPrefix(got, "look: ") && !strings.HasSuffix(got, "(metadata)") {
			t.Errorf("%s: %s", c.create, got)
		}
	}
	// Nothing was said of the second: the shapes differ, so the description is stale though it would agree with both.
	f.sql("CREATE TABLE w (s VARCHAR(10))")
	f.want(f.mapped("CREATE TABLE w (s VARCHAR(10))", false), "s varchar(10)")
	if got := f.answer(f.mapped("CREATE TABLE w (s VARCHAR(8))", false)); !strings.HasPrefix(got, "look: its columns are others") {
		t.Error(got)
	}
	// With more metadata than before it is the same table.
	f.sql("CREATE TABLE x (s VARCHAR(10))")
	f.want(f.mapped("CREATE TABLE x (s VARCHAR(10))", false), "s varchar(10)")
	f.want(f.mapped("CREATE TABLE x (s VARCHAR(10))", true), "s varchar(10)")
}

// The rows of a table that the catalog cannot tell of either are not asked for again and again.
func TestALookIsAskedForOnce(t *testing.T) {
	f := newFeed(t, Options{})
	f.sql("CREATE TABLE t SELECT 1 AS a")
	m := f.mapped("CREATE TABLE t (a INT NOT NULL)", false)
	f.want(m, "look: "+f.whyOf("t"))
	f.want(m, "look: "+f.whyOf("t"))
	f.catalog(nil, []string{"CREATE TABLE t (a INT NOT NULL, b INT)"})
	if got := f.answer(m); !strings.HasPrefix(got, "error: ") {
		t.Error(got)
	}
	f.sql("ALTER TABLE t DROP b")
	f.want(m, "look: "+f.whyOf("t"))
	f.catalog(nil, nil, "t")
	f.want(m, "error: its columns are not known: it is not in the catalog; "+remedy)
}

func TestCreatesThatMayDoNothing(t *testing.T) {
	f := newFeed(t, Options{})
	f.sql("CREATE TABLE t (a INT, b INT)", "CREATE TABLE IF NOT EXISTS t (b INT, a INT)", "CREATE TABLE IF NOT EXISTS n (c INT)")
	f.want(f.mapped("CREATE TABLE t (a INT, b INT)", false), "a int, b int")
	f.want(f.mapped("CREATE TABLE n (c INT)", false), "c int") // the database was seen from its beginning
	f.sql("CREATE TABLE IF NOT EXISTS old.t (b INT, a INT)", "ALTER TABLE IF EXISTS zz ADD a INT", "DROP TABLE IF EXISTS t", "CREATE TABLE IF NOT EXISTS t (x BIGINT)")
	if got := f.answer(f.mapped("CREATE TABLE old.t (b INT, a INT)", false)); !strings.HasPrefix(got, "look: it was created if it did not exist") {
		t.Error(got)
	}
	f.want(f.mapped("CREATE TABLE t (x BIGINT)", false), "x bigint")
	f.sql("FROB new_table", "CREATE TABLE IF NOT EXISTS m (c INT)")
	if got := f.answer(f.mapped("CREATE TABLE m (c INT)", false)); !strings.HasPrefix(got, "look: it was created if it did not exist") {
		t.Error(got)
	}
}

func TestDatabases(t *testing.T) {
	f := newFeed(t, Options{})
	f.sql("CREATE DATABASE l CHARACTER SET latin1", "CREATE TABLE l.t (s VARCHAR(5))")
	f.want(f.mapped("CREATE TABLE l.t (s VARCHAR(5) CHARACTER SET latin1)", false), "s varchar(5)")
	f.sql("ALTER DATABASE l CHARACTER SET utf8mb4", "CREATE TABLE l.u (s VARCHAR(5))")
	f.want(f.mapped("CREATE TABLE l.u (s VARCHAR(5))", false), "s varchar(5)")
	f.sql("DROP DATABASE l")
	f.want(f.mapped("CREATE TABLE l.t (s VARCHAR(5) CHARACTER SET latin1)", false), "look: nothing is known of it yet")
	// The charset of an unknown database is the table map's to tell.
	f.sql("CREATE TABLE un.t (s VARCHAR(5))")
	m := f.mapped("CREATE TABLE un.t (s VARCHAR(5) CHARACTER SET latin1)", false)
	f.want(m, "s varchar(5)")
	m = f.mapped("CREATE TABLE un.t (s VARCHAR(5) CHARACTER SET latin1)", false)
	m.Charsets, m.Columns[0].Collation = false, 0
	if got := f.answer(m); !strings.HasPrefix(got, "look: ") || !strings.Contains(got, "no charset") {
		t.Error(got)
	}
}

func TestStatementsThatFailed(t *testing.T) {
	f := newFeed(t, Options{})
	f.sql("CREATE TABLE t (a INT)", "CREATE TABLE u (a INT)")
	q := statement("DROP TABLE t, v")
	q.ErrorCode = 1051
	f.b.Statement(f.at(), q)
	f.want(f.mapped("CREATE TABLE t (a INT)", false), "look: a statement on it failed half-way")
	f.want(f.mapped("CREATE TABLE u (a INT)", false), "a int")
}

// Statements are in the charset of their client.
func TestClientsHaveCharsets(t *testing.T) {
	f := newFeed(t, Options{})
	q := statement("CREATE TABLE t (`\xe9` INT)")
	q.Charset.Client = 8
	if c := f.b.Statement(f.at(), q); c.Text != "CREATE TABLE t (`é` INT)" {
		t.Error(c.Text)
	}
	f.want(f.mapped("CREATE TABLE t (`é` INT)", false), "é int")
	f.sql("CREATE TABLE u (a INT)")
	f.b.Statement(f.at(), statement("ALTER TABLE u COMMENT '\xff'"))
	f.want(f.mapped("CREATE TABLE u (a INT)", false), "look: a statement that may have changed it is not understood")
	f.want(f.mapped("CREATE TABLE t (`é` INT)", false), "é int")
	q = statement("DROP TABLE `\xfc\xfc\xff`")
	q.Charset.Client = 1 // big5
	f.b.Statement(f.at(), q)
	f.want(f.mapped("CREATE TABLE t (`é` INT)", false), "look: a statement that may have changed it is not understood")
}

func TestNamesAreFolded(t *testing.T) {
	f := newFeed(t, Options{FoldNames: true})
	f.sql("CREATE TABLE D.T (a INT)", "ALTER TABLE t ADD b INT")
	f.want(f.mapped("CREATE TABLE t (a INT, b INT)", false), "a int, b int")
	f = newFeed(t, Options{})
	f.sql("CREATE TABLE T (a INT)")
	f.want(f.mapped("CREATE TABLE t (a INT)", false), "look: nothing is known of it yet")
}

func TestOnlyWhatIsKeptIsFollowed(t *testing.T) {
	kept := map[string]bool{"d": true}
	f := newFeed(t, Options{Keep: func(database string) bool { return kept[database] }})
	f.sql("CREATE DATABASE x", "CREATE TABLE t (a INT)", "CREATE TABLE x.t (a INT)")
	if len(f.b.tables) != 1 || len(f.b.databases) != 1 {
		t.Errorf("%v %v", f.b.tables, f.b.databases)
	}
	f.sql("RENAME TABLE t TO x.u, x.t TO u")
	f.want(f.mapped("CREATE TABLE u (a INT)", false), "look: it was renamed from a table that is not known")
	if len(f.b.tables) != 1 {
		t.Errorf("%v", f.b.tables)
	}
	// What is kept no longer is forgotten, so that it is not believed when it is kept again.
	f.sql("CREATE TABLE t (a INT)")
	kept = map[string]bool{"x": true}
	f.b.Restrict(f.at())
	f.sql("DROP TABLE t", "CREATE TABLE t (b INT)")
	kept["d"] = true
	f.want(f.mapped("CREATE TABLE t (a INT)", false), "look: nothing is known of it yet")
	f.sql("CREATE TABLE IF NOT EXISTS n (c INT)")
	if got := f.answer(f.mapped("CREATE TABLE n (c INT)", false)); !strings.HasPrefix(got, "look: it was created if it did not exist") {
		t.Error(got)
	}
}

// A read of the catalog is held against what lies ahead of the place where it is used, and against nothing behind it.
func TestAheadIsWhatTheBookHasNotPassed(t *testing.T) {
	f := newFeed(t, Options{})
	a := f.b.Ahead()
	t1, u1 := ddl.TableName{Database: "d", Table: "t"}, ddl.TableName{Database: "d", Table: "u"}
	for _, s := range []struct {
		spot Spot
		sql  string
	}{{Spot{1, 100}, "ALTER TABLE t ADD a INT"}, {Spot{1, 200}, "ALTER TABLE u ADD a INT"}, {Spot{2, 50}, "RENAME TABLE x TO u"}, {Spot{2, 60}, "DROP DATABASE e"}} {
		a.Reach(s.spot)
		a.Statement(statement(s.sql))
	}
	for _, c := range []struct {
		passed Spot
		want   string
	}{{Spot{}, "true true true"}, {Spot{1, 99}, "true true true"}, {Spot{1, 100}, "false true true"}, {Spot{1, 1 << 40}, "false true true"}, {Spot{2, 50}, "false false true"}, {Spot{2, 60}, "false false false"}} {
		a.Pass(c.passed)
		if got := fmt.Sprint(a.Changes(t1), a.Changes(u1), a.Changes(ddl.TableName{Database: "e", Table: "x"})); got != c.want {
			t.Errorf("passed %v: %s, want %s", c.passed, got, c.want)
		}
	}
	a.Reach(Spot{3, 4})
	a.Lose()
	if a.Pass(Spot{3, 3}); !a.Changes(t1) {
		t.Error("what cannot be read may change any table")
	}
	if a.Pass(Spot{3, 4}); a.Changes(t1) {
		t.Error("what was passed is no longer ahead")
	}
}

// M22: columns that SELECT * does not show.
func TestM22HiddenColumns(t *testing.T) {
	f := newFeed(t, Options{})
	f.sql("CREATE TABLE g (a INT)", "CREATE TABLE i (a INT, b INT INVISIBLE)")
	gipk := "CREATE TABLE g (my_row_id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT INVISIBLE PRIMARY KEY, a INT)"
	f.want(f.mapped(gipk, false), "my_row_id bigint unsigned key 1 invisible, a int")
	f.sql("ALTER TABLE g ADD b INT")
	f.want(f.mapped(strings.Replace(gipk, "a INT", "a INT, b INT", 1), false), "my_row_id bigint unsigned key 1 invisible, a int, b int")
	f.want(f.mapped("CREATE TABLE i (a INT, b INT INVISIBLE)", false), "a int, b int invisible")
}

// Metadata alone leaves open what a binary string of MariaDB is.
func TestMetadataNeverGuesses(t *testing.T) {
	f := newFeed(t, Options{Flavour: ddl.MariaDB, Version: 110809})
	m := f.mapped("CREATE TABLE t (a INT, b UUID)", true)
	f.want(m, "look: nothing is known of it yet")
	f.catalog(nil, nil, "t")
	_, _, err := f.description(m).Bind(nil, nil)
	if err == nil || !strings.Contains(err.Error(), "column b: it is a string of 16 bytes, or a UUID") || !strings.Contains(err.Error(), "column.exclude.list") {
		t.Error(err)
	}
	if columns, _, err := f.description(m).Bind(func(c string) bool { return c != "b" }, nil); err != nil || len(columns) != 1 {
		t.Errorf("a column that is left out: %v, %v", columns, err)
	}
	f.catalog(nil, []string{"CREATE TABLE t (a INT, b UUID)"})
	f.want(m, "a int(11), b uuid")
	_, bind, err := f.description(m).Bind(nil, nil)
	if err != nil || bind[1].Form != binlog.FormUUID {
		t.Errorf("%v, %v", bind, err)
	}
}

func (f *feed) description(m *binlog.Table) *Description {
	f.t.Helper()
	d, err := f.b.Table(f.at(), m)
	if err != nil {
		f.t.Fatal(err)
	}
	return d
}

func TestBindLeavesColumnsOut(t *testing.T) {
	f := newFeed(t, Options{})
	f.sql("CREATE TABLE t (a INT, id INT PRIMARY KEY, s VARCHAR(3) CHARACTER SET latin1)")
	m := f.mapped("CREATE TABLE t (a INT, id INT PRIMARY KEY, s VARCHAR(3) CHARACTER SET latin1)", false)
	d := f.description(m)
	columns, bind, err := d.Bind(func(c string) bool { return c != "a" }, nil)
	if err != nil || len(columns) != 2 || columns[0].Name != "id" || fmt.Sprint(bind[0].Index, bind[1].Index, bind[2].Index) != "-1 0 1" || bind[2].Charset == nil {
		t.Errorf("%v %v %v", columns, bind, err)
	}
	if _, err := binlog.NewLayout(m, bind); err != nil {
		t.Error(err)
	}
	if columns, bind, err := d.Bind(func(string) bool { return false }, []string{"s", "a"}); err != nil || len(columns) != 2 || columns[0].Key != 2 || columns[1].Key != 1 || bind[1].Index != -1 {
		t.Errorf("%v %v %v", columns, bind, err)
	}
	if _, _, err := d.Bind(nil, []string{"zz"}); err == nil || !strings.Contains(err.Error(), "message.key.columns") {
		t.Error(err)
	}
	if k := d.PrimaryKey(); len(k) != 1 || k[0] != "id" {
		t.Error(k)
	}
	if f.description(m) != d || f.description(f.mapped("CREATE TABLE t (a INT, id INT PRIMARY KEY, s VARCHAR(3) CHARACTER SET latin1)", false)) == d {
		t.Error("a description is that of one table map")
	}
}

func TestSchemaChanges(t *testing.T) {
	f := newFeed(t, Options{})
	for _, c := range []struct{ sql, want string }{
		{"CREATE TABLE t (id INT PRIMARY KEY, s VARCHAR(3)) COMMENT 'c'", "CREATE d.t 2 utf8mb4"},
		{"ALTER TABLE t ADD x INT, RENAME TO u", "ALTER d.u 3 utf8mb4"},
		{"CREATE TABLE v LIKE u", "CREATE d.v 3 utf8mb4"},
		{"RENAME TABLE u TO w", "ALTER d.w 3 utf8mb4"},
		{"ALTER TABLE w ADD y MYSTERY", ""},
		{"TRUNCATE v", ""},
		{"DROP TABLE v, w", "DROP d.v 0 , DROP d.w 0 "},
		{"DROP DATABASE d", ""},
	} {
		var got []string
		for _, x := range f.sql(c.sql).Tables {
			got = append(got, fmt.Sprintf("%s %s.%s %d %s", x.Type, x.Database, x.Table, len(x.Columns), x.Charset))
		}
		if strings.Join(got, ", ") != c.want {
			t.Errorf("%s: %v, want %s", c.sql, got, c.want)
		}
	}
}

func TestDefaults(t *testing.T) {
	for _, c := range []struct{ column, want string }{
		{"INT DEFAULT 007", "7"}, {"INT DEFAULT '-7'", "-7"}, {"INT DEFAULT (7)", "computed"}, {"INT DEFAULT NULL", "none"}, {"INT AUTO_INCREMENT KEY", "computed"},
		{"BOOL DEFAULT TRUE", "1"}, {"BIGINT UNSIGNED DEFAULT 18446744073709551615", "18446744073709551615"}, {"INT DEFAULT 1.5", "computed"},
		{"DECIMAL(6,2) DEFAULT 1.5", "1.50"}, {"DECIMAL(6,2) DEFAULT '-00.5'", "-0.50"}, {"DECIMAL(6,2) DEFAULT 1.005", "computed"}, {"DECIMAL(6,0) DEFAULT 1.0", "1"}, {"DECIMAL(3,3) DEFAULT -0", "0.000"},
		{"DOUBLE DEFAULT 1e3", "1000"}, {"FLOAT DEFAULT 0.1", "0.1"}, {"DOUBLE DEFAULT 1e30", "computed"}, {"DOUBLE DEFAULT -0.0", "0"},
		{"VARCHAR(9) DEFAULT 'a '", "a "}, {"CHAR(9) DEFAULT 'a '", "a"}, {"VARCHAR(9) DEFAULT x'41'", "computed"}, {"VARCHAR(9) DEFAULT 0x41", "computed"},
		{"BINARY(3) DEFAULT 'a'", `\x610000`}, {"BINARY(3) DEFAULT 0x61", `\x610000`}, {"VARBINARY(3) DEFAULT x'00ff'", `\x00ff`}, {"VARBINARY(3) DEFAULT b'1'", "computed"},
		{"BIT(4) DEFAULT b'101'", "0101"}, {"BIT(4) DEFAULT 2", "0010"}, {"YEAR DEFAULT 2024", "2024"}, {"YEAR DEFAULT 24", "computed"},
		{"DATE DEFAULT '2024-02-29'", "2024-02-29"}, {"DATE DEFAULT '2024-2-29'", "computed"}, {"DATETIME(3) DEFAULT '2024-02-29 01:02:03.5'", "2024-02-29 01:02:03.500"}, {"DATETIME DEFAULT '2024-02-29'", "2024-02-29 00:00:00"},
		{"TIMESTAMP(1) DEFAULT '0000-00-00 00:00:00'", "0000-00-00 00:00:00.0"}, {"TIMESTAMP DEFAULT '2024-02-29 01:02:03'", "computed"}, {"DATETIME DEFAULT NOW()", "computed"},
		{"TIME DEFAULT '-838:59:59'", "-838:59:59"}, {"TIME DEFAULT '1:2:3'", "computed"}, {"ENUM('a','b') DEFAULT 'b'", "b"}, {"ENUM('a','b') DEFAULT 'B'", "computed"},
		{"SET('a','b','c') DEFAULT 'a,c'", "a,c"}, {"SET('a','b') DEFAULT 'b,a'", "computed"}, {"SET('a','b') DEFAULT ''", ""},
	} {
		e := ddl.Parse([]byte("CREATE TABLE t (c "+c.column+")"), ddl.Options{Version: 90704, Database: "d"})
		table, err := ddl.Create(e, ddl.Database{Charset: "utf8mb4"})
		if err != nil {
			t.Fatalf("%s: %v", c.column, err)
		}
		text, computed := constant(table.Columns[0])
		got := "none"
		switch {
		case computed:
			got = "computed"
		case text != nil:
			got = *text
		}
		if got != c.want {
			t.Errorf("%s: %s, want %s", c.column, got, c.want)
		}
	}
}
