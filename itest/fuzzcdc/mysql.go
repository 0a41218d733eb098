package main

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

func mysqlDialect(mariadb bool) *dialect {
	return &dialect{
		kinds: mysqlKinds(mariadb), keys: mysqlKeys(),
		names: []string{"", "", "", "_x", "_Mixed", " space", "`tick", "-dash", "ü", "$"},
		stamp: "UUID_SHORT()", stampType: "bigint unsigned",
		quote: func(name string) string { return "`" + strings.ReplaceAll(name, "`", "``") + "`" },
		ignore: func(insert string) string {
			return insert + " ON DUPLICATE KEY UPDATE " + indexColumn + " = " + indexColumn
		},
		settings: func(r *rand.Rand) []string { return mysqlSettings(r, mariadb) },
		begin:    func(*rand.Rand) string { return "BEGIN" },
		end:      mysqlEnd, create: mysqlCreate, plain: mysqlPlain, alter: mysqlAlter,
		// A truncate ends the transaction that it is in, which only makes this one two.
		truncate: func(g *generator, tables []*table) string { return "TRUNCATE TABLE " + g.d.quote(tables[0].name) },
		upsert: func(g *generator, t *table, insert string) string {
			return insert + " ON DUPLICATE KEY UPDATE " + g.assignments(t)
		},
		bulk:   func(*generator, *table) string { return "" },
		faults: []faultKind{killNode, killNode, killNode, stopNode, pauseNode, restartConnector, crashSource, restartSource, crashTarget, cutSessions},
	}
}

func mysqlSettings(r *rand.Rand, mariadb bool) []string {
	var sql []string
	set := func(name string, values ...string) {
		if oneIn(r, 3) {
			sql = append(sql, "SET SESSION "+name+" = "+pick(r, values))
		}
	}
	set("time_zone", "'+00:00'", "'-11:30'", "'+13:00'")
	set("sql_mode", "''", "'ALLOW_INVALID_DATES'", "'TRADITIONAL'", "'ANSI_QUOTES'", "'PAD_CHAR_TO_FULL_LENGTH'")
	set("binlog_row_image", "FULL", "MINIMAL", "NOBLOB")
	if mariadb {
		set("tx_isolation", "'READ-COMMITTED'", "'REPEATABLE-READ'", "'SERIALIZABLE'")
		return sql
	}
	set("transaction_isolation", "'READ-COMMITTED'", "'REPEATABLE-READ'", "'SERIALIZABLE'")
	set("binlog_row_value_options", "PARTIAL_JSON", "''")
	set("binlog_transaction_compression", "ON", "OFF")
	return sql
}

func mysqlEnd(g *generator) []string {
	if oneIn(g.r, 20) {
		return []string{"ROLLBACK"}
	}
	return []string{"COMMIT"}
}

func mysqlCreate(g *generator, t *table) {
	t.engine = "InnoDB"
	if oneIn(g.r, 6) {
		t.engine = "MyISAM"
	}
	tail := ") ENGINE=" + t.engine
	if t.keyed() {
		t.clauses = append(t.clauses, "PRIMARY KEY ("+g.d.list(t.key)+")")
		if t.engine == "InnoDB" && len(t.key) == 1 && oneIn(g.r, 8) && !slices.ContainsFunc(t.columns, func(c column) bool { return spatial(c.kind) }) {
			tail += " PARTITION BY KEY () PARTITIONS 3"
		}
	}
	if oneIn(g.r, 6) {
		t.clauses = append(t.clauses, fmt.Sprintf("%s int GENERATED ALWAYS AS (i * 2) %s", g.d.quote(g.name("g")), pick(g.r, []string{"STORED", "VIRTUAL"})))
	}
	t.clauses = append(t.clauses, tail)
}

// mysqlPlain gives a table its key, and nothing more.
func mysqlPlain(g *generator, t *table) {
	t.engine = "InnoDB"
	if t.keyed() {
		t.clauses = []string{"PRIMARY KEY (" + g.d.list(t.key) + ")"}
	}
	t.clauses = append(t.clauses, ") ENGINE="+t.engine)
}

func spatial(k *kind) bool { return k.name == "point" || k.name == "geometry" }

// mysqlAlter draws a change of tables.
func mysqlAlter(g *generator) step {
	for {
		t := pick(g.r, g.tables)
		name := g.d.quote(t.name)
		alter := func(format string, args ...any) step {
			return step{sql: []string{"ALTER TABLE " + name + " " + fmt.Sprintf(format, args...)}, about: []string{t.name}}
		}
		place := func() string {
			if n := len(t.columns); n > 0 && oneIn(g.r, 2) {
				return " AFTER " + g.d.quote(t.columns[g.r.IntN(n)].name)
			}
			return pick(g.r, []string{"", " FIRST"})
		}
		switch g.r.IntN(14) {
		case 0, 1, 2:
			if len(t.columns) < columnsAtMost {
				at := place()
				c := g.newColumn()
				t.columns = append(t.columns, c)
				t.altered[c.name] = true
				return alter("ADD COLUMN %s %s%s", g.d.quote(c.name), c.kind.name, at)
			}
		case 3:
			if len(t.columns) > 0 {
				i := g.r.IntN(len(t.columns))
				c := t.columns[i]
				t.columns = slices.Delete(t.columns, i, i+1)
				delete(t.altered, c.name)
				return alter("DROP COLUMN %s", g.d.quote(c.name))
			}
		case 4, 5:
			if len(t.columns) > 0 {
				c := &t.columns[g.r.IntN(len(t.columns))]
				from := c.name
				c.name = g.name("c")
				delete(t.altered, from)
				t.altered[c.name] = true
				return alter("CHANGE COLUMN %s %s %s", g.d.quote(from), g.d.quote(c.name), c.kind.name)
			}
		case 6, 7:
			if c := g.widening(t); c != nil {
				return alter("MODIFY COLUMN %s %s", g.d.quote(c.name), c.kind.name)
			}
		case 8: // the columns in another order
			if len(t.columns) > 1 {
				c := t.columns[0]
				return alter("MODIFY COLUMN %s %s AFTER %s", g.d.quote(c.name), c.kind.name, g.d.quote(t.columns[len(t.columns)-1].name))
			}
		case 9:
			return g.recreate(t)
		case 10:
			if len(g.tables) < tablesAtMost {
				n := g.newTable()
				n.replaced, g.fresh = true, true
				return step{sql: g.createStatements(n), about: []string{n.name}}
			}
		case 11:
			if len(g.tables) > tablesAtFirst {
				g.tables = slices.DeleteFunc(slices.Clone(g.tables), func(o *table) bool { return o == t })
				return step{sql: []string{"DROP TABLE " + name}, about: []string{t.name}}
			}
		case 12:
			g.fresh = true
			t.name, t.replaced, t.altered = g.rename(t), true, map[string]bool{}
			return step{sql: []string{"RENAME TABLE " + name + " TO " + g.d.quote(t.name)}, about: []string{t.name}}
		case 13:
			if t.keyed() {
				return g.ghost(t)
			}
		}
	}
}

// ghost changes a table as gh-ost does: a copy of another shape is filled, and takes its place in one rename.
func (g *generator) ghost(t *table) step {
	d := g.d
	copied, old := "_"+t.name+"_gho", "_"+t.name+"_del"
	columns := d.list(append([]column{{name: stampColumn}, {name: indexColumn}}, t.all()...))
	n := g.another(t, t.columns)
	made := *n
	made.name = copied
	return step{about: []string{t.name}, sql: []string{
		"DROP TABLE IF EXISTS " + d.quote(copied) + ", " + d.quote(old),
		d.createSQL(&made),
		"LOCK TABLES " + d.quote(t.name) + " WRITE, " + d.quote(copied) + " WRITE",
		fmt.Sprintf("INSERT INTO %s (%s) SELECT %s FROM %s", d.quote(copied), columns, columns, d.quote(t.name)),
		fmt.Sprintf("RENAME TABLE %s TO %s, %s TO %s", d.quote(t.name), d.quote(old), d.quote(copied), d.quote(t.name)),
		"UNLOCK TABLES",
		"DROP TABLE " + d.quote(old),
	}}
}
