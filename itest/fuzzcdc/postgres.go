package main

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

func postgresDialect() *dialect {
	return &dialect{
		kinds: postgresKinds(), keys: postgresKeys(),
		names: []string{"", "", "", "_x", "Mixed", " space", `"quote`, "-dash", "ü", ".dot", "$"},
		stamp: "nextval('public.stamps')", stampType: "bigint",
		quote:    func(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` },
		ignore:   func(insert string) string { return insert + " ON CONFLICT DO NOTHING" },
		settings: postgresSettings, begin: postgresBegin, end: postgresEnd, create: postgresCreate, alter: postgresAlter, plain: postgresPlain, truncate: postgresTruncate,
		upsert: postgresUpsert, bulk: postgresBulk,
		faults: []faultKind{killNode, killNode, killNode, stopNode, pauseNode, restartConnector, crashSource, restartSource, crashTarget, cutSessions},
	}
}

// postgresSetUp is what the generated tables need.
func postgresSetUp() []string {
	return []string{
		"CREATE SCHEMA attic", "CREATE SEQUENCE public.stamps",
		`CREATE TYPE public.mood AS ENUM ('sad', 'so so', 'it''s "ok"')`,
		"CREATE TYPE public.pair AS (a int, b text)",
		"CREATE DOMAIN public.small AS integer CHECK (VALUE < 1000)",
	}
}

func postgresSettings(r *rand.Rand) []string {
	var sql []string
	set := func(name string, values ...string) {
		if oneIn(r, 3) {
			sql = append(sql, "SET "+name+" = "+pick(r, values))
		}
	}
	set("TimeZone", "'UTC'", "'America/New_York'", "'Asia/Kathmandu'", "'-11:30'")
	set("DateStyle", "'ISO, DMY'", "'SQL, MDY'", "'German'", "'Postgres, DMY'")
	set("IntervalStyle", "sql_standard", "iso_8601", "postgres_verbose", "postgres")
	set("extra_float_digits", "-15", "0", "3")
	set("bytea_output", "escape", "hex")
	set("synchronous_commit", "off", "on")
	set("xmloption", "document", "content")
	set("default_toast_compression", "pglz", "pglz")
	return sql
}

func postgresBegin(r *rand.Rand) string {
	return "BEGIN" + pick(r, []string{"", "", "", " ISOLATION LEVEL READ COMMITTED", " ISOLATION LEVEL REPEATABLE READ", " ISOLATION LEVEL SERIALIZABLE"})
}

func postgresEnd(g *generator) []string {
	switch g.r.IntN(20) {
	case 0:
		return []string{"ROLLBACK"}
	case 1:
		g.stamps++
		second := "COMMIT PREPARED"
		if oneIn(g.r, 3) {
			second = "ROLLBACK PREPARED"
		}
		return []string{fmt.Sprintf("PREPARE TRANSACTION 'fuzz %d'", g.stamps), fmt.Sprintf("%s 'fuzz %d'", second, g.stamps)}
	case 2:
		return []string{"SELECT pg_logical_emit_message(true, 'fuzz', 'in a transaction')", "COMMIT"}
	}
	return []string{"COMMIT"}
}

// postgresCreate gives a table its key, or what stands for one, and storage.
func postgresCreate(g *generator, t *table) {
	d := g.d
	name := d.quote(t.name)
	if !t.keyed() { // for COPY, which takes no expressions
		t.after = append(t.after, fmt.Sprintf("ALTER TABLE %s ALTER %s SET DEFAULT %s", name, stampColumn, d.stamp))
	}
	for _, c := range t.columns {
		if oneIn(g.r, 3) && (c.kind.name == "text" || c.kind.name == "bytea" || c.kind.name == "jsonb") {
			t.after = append(t.after, fmt.Sprintf("ALTER TABLE %s ALTER %s SET STORAGE %s", name, d.quote(c.name), pick(g.r, []string{"EXTERNAL", "MAIN", "EXTENDED"})))
		}
	}
	if !t.keyed() {
		t.after = append(t.after, "ALTER TABLE "+name+" REPLICA IDENTITY FULL")
		return
	}
	key := d.list(t.key)
	switch n := g.r.IntN(10); {
	case n == 0: // no primary key, but an index that identifies rows
		index := d.quote(g.name("u"))
		t.after = append(t.after, fmt.Sprintf("CREATE UNIQUE INDEX %s ON %s (%s)", index, name, key),
			fmt.Sprintf("ALTER TABLE %s REPLICA IDENTITY USING INDEX %s", name, index))
		return
	case n == 1 && t.key[0].kind.name != "bit varying(9)": // which has no hash
		t.clauses = append(t.clauses, "PRIMARY KEY ("+key+")", ") PARTITION BY HASH ("+d.quote(t.key[0].name)+")")
		for i := range 3 {
			t.after = append(t.after, fmt.Sprintf("CREATE TABLE %s PARTITION OF %s FOR VALUES WITH (MODULUS 3, REMAINDER %d)", d.quote(fmt.Sprintf("%s_p%d", t.name, i)), name, i))
		}
		// The storage of columns goes down to partitions that are there.
		slices.SortStableFunc(t.after, func(a, b string) int { return strings.Compare(b[:1], a[:1]) })
		t.engine = "partitioned"
		return
	case n == 2:
		t.clauses = append(t.clauses, fmt.Sprintf("%s int GENERATED ALWAYS AS (i * 2) STORED", d.quote(g.name("g"))))
	case n == 3:
		t.after = append(t.after, "ALTER TABLE "+name+" REPLICA IDENTITY FULL")
	}
	t.clauses = append(t.clauses, "PRIMARY KEY ("+key+")")
}

func postgresTruncate(g *generator, tables []*table) string {
	names := make([]string, len(tables))
	for i, t := range tables {
		names[i] = g.d.quote(t.name)
	}
	return "TRUNCATE " + strings.Join(names, ", ") + pick(g.r, []string{"", " RESTART IDENTITY", " CASCADE"})
}

func postgresUpsert(g *generator, t *table, insert string) string {
	return fmt.Sprintf("%s ON CONFLICT (%s) DO UPDATE SET %s", insert, g.d.list(t.key), g.assignments(t))
}

// postgresBulk copies rows, which stand in the WAL many in a record, or touches all of a table so often that the changes of one
// transaction are more than the server keeps in memory.
func postgresBulk(g *generator, t *table) string {
	name := g.d.quote(t.name)
	if t.keyed() {
		return fmt.Sprintf("DO $$ BEGIN FOR pass IN 1..%d LOOP UPDATE %s SET %s; END LOOP; END $$", 2+g.r.IntN(20), name, g.assignments(t))
	}
	return fmt.Sprintf("COPY %s (%s) FROM PROGRAM 'seq 1 %d'", name, indexColumn, 1+g.r.IntN(400))
}

// postgresAlter draws a change of tables.
func postgresAlter(g *generator) step {
	t := pick(g.r, g.tables)
	name := g.d.quote(t.name)
	one := func(sql ...string) step { return step{sql: sql, about: []string{t.name}} }
	alter := func(format string, args ...any) step {
		return one("ALTER TABLE " + name + " " + fmt.Sprintf(format, args...))
	}
	for {
		switch g.r.IntN(19) {
		case 0, 1, 2:
			if len(t.columns) < columnsAtMost {
				return alter("ADD COLUMN %s", g.addColumn(t))
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
				return alter("RENAME COLUMN %s TO %s", g.d.quote(from), g.d.quote(c.name))
			}
		case 6, 7:
			if c := g.widening(t); c != nil {
				return alter("ALTER COLUMN %s TYPE %s", g.d.quote(c.name), c.kind.name)
			}
		case 8: // another table under the same name
			if t.engine != "partitioned" {
				return g.recreate(t)
			}
		case 9:
			if len(g.tables) < tablesAtMost {
				g.fresh = true
				n := g.newTable()
				n.replaced = true
				return step{sql: g.createStatements(n), about: []string{n.name}}
			}
		case 10:
			if len(g.tables) > tablesAtFirst {
				g.tables = slices.DeleteFunc(slices.Clone(g.tables), func(o *table) bool { return o == t })
				return one("DROP TABLE " + name)
			}
		case 11:
			if t.engine != "partitioned" {
				g.fresh = true
				t.name, t.replaced, t.altered = g.rename(t), true, map[string]bool{}
				return step{sql: []string{"ALTER TABLE " + name + " RENAME TO " + g.d.quote(t.name)}, about: []string{t.name}}
			}
		case 12:
			if t.keyed() && len(t.after) == 0 {
				return alter("REPLICA IDENTITY %s", pick(g.r, []string{"FULL", "DEFAULT"}))
			}
		case 13:
			if t.engine != "partitioned" {
				return one("VACUUM FULL " + name)
			}
		case 14:
			return one(fmt.Sprintf("CREATE INDEX ON %s (%s)", name, indexColumn))
		case 15: // as a copy takes a table's place
			if t.keyed() && t.engine != "partitioned" && len(t.after) == 0 {
				return postgresSwap(g, t)
			}
		case 17: // it comes into the middle of the others
			g.serial++
			label := fmt.Sprintf("'label %d'", g.serial)
			for _, k := range g.d.kinds {
				if k.name == "public.mood" {
					k.literal = among("public.mood", "sad", strings.Trim(label, "'"))
				}
			}
			return step{sql: []string{fmt.Sprintf("ALTER TYPE public.mood ADD VALUE %s BEFORE 'so so'", label)}}
		case 18: // the table is away for a moment
			return one("ALTER TABLE "+name+" SET SCHEMA attic", "ALTER TABLE attic."+name+" SET SCHEMA public")
		case 16:
			if len(t.columns) > 0 {
				c := pick(g.r, t.columns)
				if v := g.value(column{kind: c.kind}); !strings.Contains(v, "SELECT") {
					return alter("ALTER COLUMN %s SET DEFAULT %s", g.d.quote(c.name), v)
				}
			}
		}
		t = pick(g.r, g.tables)
		name = g.d.quote(t.name)
	}
}

// addColumn is the definition of a new column.
func (g *generator) addColumn(t *table) string {
	c := g.newColumn()
	definition := g.d.quote(c.name) + " " + c.kind.name
	if oneIn(g.r, 2) {
		// Only a constant is the same for all rows: subqueries are refused.
		c.notNull = true
		literal := g.value(c)
		if strings.Contains(literal, "SELECT") {
			literal = "NULL"
			c.notNull = false
		}
		definition += " DEFAULT " + literal
		if c.notNull = c.notNull && oneIn(g.r, 2); c.notNull {
			definition += " NOT NULL"
		}
	}
	t.columns = append(t.columns, c)
	t.altered[c.name] = true
	return definition
}

// widening changes the type of a column to one that holds its values.
func (g *generator) widening(t *table) *column {
	for _, i := range g.r.Perm(len(t.columns)) {
		c := &t.columns[i]
		if len(c.kind.wider) == 0 {
			continue
		}
		to := pick(g.r, c.kind.wider)
		for _, k := range g.d.kinds {
			if k.name == to {
				c.kind = k
				t.altered[c.name] = true
				return c
			}
		}
		c.kind = &kind{name: to, literal: c.kind.literal}
		t.altered[c.name] = true
		return c
	}
	return nil
}

// postgresPlain gives a table its key, or what stands for one, and nothing more.
func postgresPlain(g *generator, t *table) {
	if t.keyed() {
		t.clauses = []string{"PRIMARY KEY (" + g.d.list(t.key) + ")"}
		return
	}
	name := g.d.quote(t.name)
	t.after = []string{"ALTER TABLE " + name + " REPLICA IDENTITY FULL", fmt.Sprintf("ALTER TABLE %s ALTER %s SET DEFAULT %s", name, stampColumn, g.d.stamp)}
}

// postgresSwap fills a copy with another column and puts it in the table's place.
func postgresSwap(g *generator, t *table) step {
	d := g.d
	ghost, old := g.name("t"), g.name("t")
	columns := d.list(append([]column{{name: stampColumn}, {name: indexColumn}}, t.all()...))
	n := g.another(t, t.columns)
	made := *n
	made.name = ghost
	sql := []string{d.createSQL(&made), "LOCK TABLE " + d.quote(t.name),
		fmt.Sprintf("INSERT INTO %s (%s) SELECT %s FROM %s", d.quote(ghost), columns, columns, d.quote(t.name)),
		fmt.Sprintf("ALTER TABLE %s RENAME TO %s", d.quote(t.name), d.quote(old)), fmt.Sprintf("ALTER TABLE %s RENAME TO %s", d.quote(ghost), d.quote(t.name))}
	if oneIn(g.r, 2) {
		sql = append(sql, "DROP TABLE "+d.quote(old))
	}
	return step{sql: sql, about: []string{t.name}}
}
