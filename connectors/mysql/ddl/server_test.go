package ddl

import (
	"context"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/rowtrail/rowtrail/itest/servers"
)

var (
	ddlSeed = flag.Uint64("ddl.seed", 1, "seed of the random statements; 0 is the time")
	ddlRuns = flag.Int("ddl.runs", 40, "tables that random statements change, on each server")
)

// TestDescriptionsAreAsTheServers changes tables at random: what the server takes, our description follows, and after each
// statement it is what information_schema says.
func TestDescriptionsAreAsTheServers(t *testing.T) {
	seed := *ddlSeed
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("-ddl.seed %d", seed)
	servers.EachMySQL(t, servers.Options{}, func(t *testing.T, m *servers.MySQL) {
		ctx := t.Context()
		r := &random{Rand: rand.New(rand.NewPCG(seed, 1)), maria: m.MariaDB()}
		o := Options{Flavour: MySQL, Version: 90704, Database: "d"}
		if m.MariaDB() {
			o.Flavour, o.Version = MariaDB, 101100
		}
		taken, refused, unknown := 0, 0, 0
		for range *ddlRuns {
			db := Database{Charset: r.one("utf8mb4", "latin1", "utf8mb3", "gbk")}
			o.Database = fmt.Sprintf("d%d", r.Uint32())
			if err := m.Exec(ctx, "", "CREATE DATABASE "+o.Database+" CHARACTER SET "+db.Charset); err != nil {
				t.Fatal(err)
			}
			var table *Table
			var history []string
			for range 10 {
				s := r.create()
				if table != nil {
					s = r.alter(table)
				}
				e := Parse([]byte(s), o)
				if err := m.Exec(ctx, o.Database, s); err != nil {
					if strings.Contains(err.Error(), "1064") {
						t.Logf("the server cannot read %s: %v", s, err)
					}
					refused++
					continue
				}
				taken++
				history = append(history, s)
				next, err := Create(e, db)
				if table != nil {
					next, err = table.Alter(e)
				}
				if errors.Is(err, ErrUnknown) && e.definition != nil && e.definition.convert {
					unknown++
					break
				}
				if err != nil {
					t.Fatalf("%s: %v\n%s", m.Version(), err, strings.Join(history, ";\n"))
				}
				table = next
				want := described(ctx, t, m, o.Database)
				if diff := cmp.Diff(want, ours(table, o.Flavour)); diff != "" {
					t.Fatalf("%s: -server +ours\n%s\n%s", m.Version(), diff, strings.Join(history, ";\n"))
				}
			}
		}
		t.Logf("%s: %d statements taken, %d of them to an unknown end, %d refused", m.Version(), taken, unknown, refused)
		if taken < refused/2 || unknown > taken/10 {
			t.Errorf("%d of %d statements were taken, %d to an unknown end: the test tests little", taken, taken+refused, unknown)
		}
	})
}

// described leaves out charset binary, which an enum may have: MySQL does not print it.
func described(ctx context.Context, t *testing.T, m *servers.MySQL, db string) []string {
	t.Helper()
	rows, err := m.Query(ctx, db, `SELECT column_name, data_type, column_type, REPLACE(COALESCE(character_set_name, ''), 'binary', ''), is_nullable, LOWER(extra),
		column_comment, COALESCE(column_default, 'NULL') FROM information_schema.columns WHERE table_schema = DATABASE() AND table_name = 't'
		ORDER BY ordinal_position`)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, r := range rows {
		typ, _, _ := strings.Cut(r[2], " /*")
		def := r[7]
		if m.MariaDB() && strings.HasPrefix(def, "'") {
			def = strings.ReplaceAll(def[1:len(def)-1], "''", "'")
		}
		extra := r[5]
		if strings.Contains(extra, "default_generated") || strings.HasPrefix(strings.ToLower(def), "current_timestamp") || strings.Contains(def, "(") {
			def = "expression"
		}
		out = append(out, fmt.Sprintf("%s|%s|%s|%s|%s|auto %v|generated %v|stored %v|invisible %v|update %v|%s|%s", r[0], r[1], typ, r[3], r[4],
			strings.Contains(extra, "auto_increment"), strings.Contains(extra, "generated") && !strings.HasPrefix(extra, "default_generated"),
			strings.Contains(extra, "stored"), strings.Contains(extra, "invisible"), strings.Contains(extra, "on update"), r[6], plain(def)))
	}
	if rows, err = m.Query(ctx, db, "SHOW INDEX FROM t"); err != nil {
		t.Fatal(err)
	}
	keys := map[string][]string{}
	var names []string
	for _, r := range rows { // in the server's order
		if r[1] == "0" {
			if keys[r[2]] == nil {
				names = append(names, r[2])
			}
			keys[r[2]] = append(keys[r[2]], r[4])
		}
	}
	for _, n := range names {
		out = append(out, "unique "+n+" "+strings.Join(keys[n], ","))
	}
	rows, err = m.Query(ctx, db, "SELECT table_comment FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name = 't'")
	if err != nil {
		t.Fatal(err)
	}
	return append(out, "comment "+rows[0][0])
}

func ours(table *Table, f Flavour) []string {
	var out []string
	for _, c := range table.Columns {
		def, nullable := "NULL", "NO"
		if c.Default != nil {
			if def = *c.Default; c.DefaultExpr {
				def = "expression"
			}
		}
		if c.Nullable {
			nullable = "YES"
		}
		out = append(out, fmt.Sprintf("%s|%s|%s|%s|%s|auto %v|generated %v|stored %v|invisible %v|update %v|%s|%s", c.Name, c.Type, c.ColumnType(f), strings.TrimPrefix(c.Charset, "binary"),
			nullable, c.AutoIncrement, c.Generated != "", c.Stored, c.Invisible, c.OnUpdate, c.Comment, plain(def)))
	}
	keys := map[string]string{}
	var names []string
	if len(table.Primary) > 0 {
		keys["PRIMARY"] = strings.Join(table.Primary, ",")
		names = append(names, "PRIMARY")
	}
	for _, k := range table.Unique {
		keys[k.Name] = strings.Join(k.Columns, ",")
		names = append(names, k.Name)
	}
	for _, n := range names {
		out = append(out, "unique "+n+" "+keys[n])
	}
	return append(out, "comment "+table.Comment)
}

// plain is a default without what the server adds or changes for the type.
func plain(s string) string {
	for _, prefix := range []string{"x'", "0x"} { // of binary columns
		if digits, ok := strings.CutPrefix(s, prefix); ok {
			if b, err := hex.DecodeString(strings.TrimSuffix(digits, "'")); err == nil {
				return strings.TrimRight(string(b), "\x00")
			}
		}
	}
	if f, err := strconv.ParseFloat(s, 64); err == nil {
		return strconv.FormatFloat(f, 'f', -1, 64)
	}
	return s
}

type random struct {
	*rand.Rand
	maria bool
}

func (r *random) one(of ...string) string { return of[r.IntN(len(of))] }

func (r *random) maybe(s string) string {
	if r.IntN(3) == 0 {
		return " " + s
	}
	return ""
}

func (r *random) name() string { return r.one("a", "b", "c", "Dd", "E_1", "`f f`", "g", "`key`") }

// column is a column's definition after its name.
func (r *random) column() string {
	null := r.one("", "", " NULL", " NOT NULL")
	charset := r.maybe(r.one("CHARACTER SET latin1", "CHARSET utf8mb4", "CHARACTER SET utf8", "COLLATE utf8mb4_bin", "CHARACTER SET binary", "CHARACTER SET ucs2 COLLATE ucs2_bin"))
	end := r.maybe("COMMENT 'it''s \\\"c\\\"'") + r.maybe("/*!50503 */")
	if r.IntN(4) == 0 && (!r.maria || null != " NOT NULL") {
		end += " INVISIBLE"
	}
	switch r.IntN(12) {
	case 0, 1, 2:
		number := r.one("TINYINT", "SMALLINT", "MEDIUMINT", "INT", "BIGINT", "INTEGER", "INT1", "INT2", "INT3", "INT4", "INT8", "MIDDLEINT", "INT(5)", "TINYINT(1)") +
			r.one("", "", " UNSIGNED", " UNSIGNED ZEROFILL", " ZEROFILL", " SIGNED")
		return number + null + r.maybe("DEFAULT "+r.one("7", "'7'")) + r.maybe("UNIQUE") + end
	case 3:
		return r.one("DECIMAL(6,2)", "NUMERIC(6,2)", "DEC(6,2) UNSIGNED", "FIXED(6,2)") + null + r.maybe("DEFAULT 1.50") + end
	case 4:
		return r.one("DECIMAL", "DECIMAL(5)", "FLOAT", "DOUBLE", "REAL", "DOUBLE PRECISION", "FLOAT(7,3)", "DOUBLE(9,2)", "FLOAT(30)", "FLOAT(20)", "FLOAT8", "FLOAT4 UNSIGNED",
			"BOOL", "BOOLEAN", "BIT", "BIT(7)", "YEAR", "DATE", "TIME", "TIME(3)", "TIME(0)") + null + end
	case 5:
		return r.one("CHAR(4)", "VARCHAR(20)", "CHARACTER(5)", "CHARACTER VARYING(7)", "CHAR VARYING(7)", "VARCHARACTER(3)") + charset + null + r.maybe("DEFAULT 'it''s'") + end
	case 6:
		return r.one("CHAR", "NATIONAL CHAR(3)", "NCHAR(3)", "NVARCHAR(3)", "NATIONAL VARCHAR(4)", "NCHAR VARYING(4)", "BINARY", "BINARY(3)", "VARBINARY(9)") + null + end
	case 7:
		return r.one("TEXT", "TINYTEXT", "MEDIUMTEXT", "LONGTEXT") + charset + null + end
	case 8:
		return r.one("LONG", "LONG VARCHAR", "LONG VARBINARY", "BLOB", "TINYBLOB", "MEDIUMBLOB", "LONGBLOB", "BLOB(10)", "BLOB(1000)", "BLOB(100000)", "JSON", "GEOMETRY",
			"POINT", "LINESTRING", "POLYGON", "MULTIPOINT", "MULTILINESTRING", "MULTIPOLYGON", "GEOMETRYCOLLECTION") + null + end
	case 9:
		return r.one("ENUM('a','b,c')", "SET('x','it''s')", "ENUM('q ')") + charset + null + end
	case 10:
		return r.one("DATETIME", "TIMESTAMP", "DATETIME(0)") + r.one(" NULL", " NOT NULL") + " DEFAULT " + r.one("CURRENT_TIMESTAMP", "NOW()", "LOCALTIMESTAMP", "CURRENT_TIMESTAMP()") + r.maybe("ON UPDATE CURRENT_TIMESTAMP") + end
	}
	own := []string{"INT AS (1 + (2))" + r.one("", " STORED", " VIRTUAL"), "VARCHAR(9) CHARACTER SET latin1 GENERATED ALWAYS AS (CONCAT('(', ')')) " + r.one("VIRTUAL", "STORED"), "INT" + null + " DEFAULT (1 + 2)"}
	if r.maria {
		own = append(own, "INET6"+null, "UUID"+null, "INET4"+null, "VARCHAR(30) COMPRESSED", "INT AS (1) PERSISTENT")
	} else {
		own = append(own, "POINT"+null+" SRID 4326", "VECTOR(3)"+null, "VECTOR"+null, "GEOMCOLLECTION"+null)
	}
	return r.one(own...) + end
}

func (r *random) create() string {
	parts := []string{"id " + r.one("INT PRIMARY KEY", "BIGINT UNSIGNED AUTO_INCREMENT PRIMARY KEY", "SERIAL", "INT NOT NULL UNIQUE KEY", "INT KEY AUTO_INCREMENT")}
	seen := map[string]bool{}
	for range r.IntN(5) + 1 {
		if n := r.name(); !seen[n] {
			seen[n] = true
			parts = append(parts, n+" "+r.column())
		}
	}
	if r.IntN(3) == 0 {
		parts = append(parts, r.one("KEY k (id)", "UNIQUE KEY u (id DESC)", "UNIQUE (id)", "CONSTRAINT cu UNIQUE (id)", "INDEX USING BTREE (id)", "KEY (id), UNIQUE (id)", "UNIQUE (id), KEY (id), UNIQUE (id)", "CHECK (id > 0)", "CONSTRAINT cc CHECK (id > 0)"))
	}
	return "CREATE TABLE t (" + strings.Join(parts, ", ") + ")" + r.maybe("ENGINE=InnoDB") + r.maybe(r.one("DEFAULT CHARSET=latin1", "CHARACTER SET utf8mb4 COLLATE utf8mb4_bin", "COLLATE = utf8mb4_unicode_ci")) +
		r.maybe("COMMENT='t''s'") + r.maybe("ROW_FORMAT=DYNAMIC, STATS_PERSISTENT = 0")
}

func (r *random) alter(t *Table) string {
	have := func() string {
		n := t.Columns[r.IntN(len(t.Columns))].Name
		if r.IntN(3) == 0 {
			n = strings.ToUpper(n)
		}
		return "`" + strings.ReplaceAll(n, "`", "``") + "`"
	}
	position := func() string { return r.one("", "", " FIRST", " AFTER "+have()) }
	one := func() string {
		switch r.IntN(16) {
		case 0, 1, 2:
			return "ADD" + r.maybe("COLUMN") + " " + r.name() + " " + r.column() + position()
		case 3:
			return "DROP" + r.maybe("COLUMN") + " " + have()
		case 4, 5:
			return "MODIFY" + r.maybe("COLUMN") + " " + have() + " " + r.column() + position()
		case 6, 7:
			return "CHANGE" + r.maybe("COLUMN") + " " + have() + " " + r.name() + " " + r.column() + position()
		case 8:
			return "RENAME COLUMN " + have() + " TO " + r.name()
		case 9:
			return "ADD UNIQUE" + r.one("", " KEY", " INDEX") + r.one("", " u1", " u2") + " (" + r.one(have(), have()+", "+have()) + ")"
		case 10:
			return r.one("DROP INDEX u1", "DROP KEY u2", "DROP PRIMARY KEY", "RENAME INDEX u1 TO u3", "DROP PRIMARY KEY, ADD PRIMARY KEY ("+have()+")")
		case 11:
			return r.one("CONVERT TO CHARACTER SET utf8mb4", "CONVERT TO CHARACTER SET latin1", "DEFAULT CHARACTER SET gbk", "CHARSET = utf8mb3", "CONVERT TO CHARACTER SET utf8 COLLATE utf8_bin")
		case 12:
			c, value := t.Columns[r.IntN(len(t.Columns))], " SET DEFAULT NULL"
			if strings.HasSuffix(c.Type, "int") || c.Type == "decimal" || c.Type == "double" {
				value = " SET DEFAULT 7"
			}
			return "ALTER" + r.maybe("COLUMN") + " `" + c.Name + "`" + r.one(" DROP DEFAULT", value)
		case 13:
			return r.one("COMMENT 'new'", "FORCE", "ENGINE = InnoDB", "ADD (n1 INT, n2 INT)", "ADD INDEX ("+have()+")", "ADD UNIQUE ("+have()+"), ADD KEY ("+have()+")")
		case 14:
			if r.maria {
				return r.one("ADD COLUMN IF NOT EXISTS a INT", "DROP COLUMN IF EXISTS zz", "MODIFY IF EXISTS zz INT", "ADD IF NOT EXISTS a INT FIRST")
			}
			return "ALTER " + have() + r.one(" SET INVISIBLE", " SET VISIBLE")
		}
		return "ADD COLUMN " + r.one("a2", "`b 2`", "C2") + " " + r.column()
	}
	parts := []string{one()}
	for r.IntN(3) == 0 {
		parts = append(parts, one())
	}
	return "ALTER TABLE t " + strings.Join(parts, ", ")
}
