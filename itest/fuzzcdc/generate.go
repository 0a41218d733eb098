package main

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

const (
	tablesAtFirst   = 7
	tablesAtMost    = 12
	sessions        = 4
	segments        = 3
	columnsAtMost   = 14
	pauseAtMost     = 25 // milliseconds between the transactions of a session
	faultsInRound   = 3
	stepsInSegment  = 3
	transactionsMin = 8
	transactionsMax = 30
)

// generator draws rounds from a seed. Nothing that happens when they run changes what comes next.
type generator struct {
	d      *dialect
	r      *rand.Rand
	tables []*table
	serial int // of names
	number int // of the round
	stamps int // of prepared transactions
	fresh  bool
}

func newGenerator(d *dialect, seed uint64) *generator {
	return &generator{d: d, r: rand.New(rand.NewPCG(seed, 0))}
}

// start is the statements that make the first tables, and rows in them.
func (g *generator) start() []string {
	var sql []string
	for range tablesAtFirst {
		t := g.newTable()
		sql = append(sql, g.createStatements(t)...)
		for range 1 + g.r.IntN(keySpace) {
			sql = append(sql, g.d.ignore(g.insert(t, g.r.IntN(t.keys()))))
		}
	}
	return sql
}

func (g *generator) createStatements(t *table) []string {
	return append([]string{g.d.createSQL(t)}, t.after...)
}

func (g *generator) name(prefix string) string {
	g.serial++
	return fmt.Sprintf("%s%d%s", prefix, g.serial, pick(g.r, g.d.names))
}

// newTable adds a table to the model.
func (g *generator) newTable() *table {
	t := &table{name: g.name("t"), born: g.number, altered: map[string]bool{}}
	if !oneIn(g.r, 6) {
		t.key = g.newKey()
	} else {
		t.name = g.name("keyless")
	}
	for range g.r.IntN(7) {
		t.columns = append(t.columns, g.newColumn())
	}
	t.before = g.r.IntN(len(t.columns) + 1)
	g.d.create(g, t)
	g.tables = append(g.tables, t)
	return t
}

func (g *generator) newKey() []column {
	n := 1
	if oneIn(g.r, 3) {
		n = 2 + g.r.IntN(2)
	}
	key := make([]column, n)
	for i := range key {
		kinds := usable(g.d.keys, n == 1 || i < n-1)
		key[i] = column{name: g.name("k"), kind: pick(g.r, kinds), notNull: true}
	}
	return key
}

func (g *generator) newColumn() column {
	return column{name: g.name("c"), kind: pick(g.r, g.d.kinds)}
}

func (g *generator) value(c column) string {
	if !c.notNull && oneIn(g.r, 4) {
		return "NULL"
	}
	if c.kind.literal == nil {
		return c.kind.key(g.r, g.r.IntN(keySpace))
	}
	return c.kind.literal(g.r)
}

// insert is an INSERT of the row with the i-th key.
func (g *generator) insert(t *table, i int) string {
	values := append([]string{g.d.stamp, fmt.Sprint(i)}, t.keyValues(g.r, i)...)
	for _, c := range t.columns {
		values = append(values, g.value(c))
	}
	names := g.d.list(append([]column{{name: stampColumn}, {name: indexColumn}}, t.all()...))
	return fmt.Sprintf("INSERT INTO %s (%s) VALUES (%s)", g.d.quote(t.name), names, strings.Join(values, ", "))
}

// where picks rows: the one with a key, or several.
func (g *generator) where(t *table, i int) string {
	if i == many {
		return fmt.Sprintf("%s %% %d = %d", indexColumn, 3+g.r.IntN(5), g.r.IntN(3))
	}
	if !t.keyed() || oneIn(g.r, 4) {
		return fmt.Sprintf("%s = %d", indexColumn, i)
	}
	var parts []string
	for c, v := range t.keyValues(g.r, i) {
		parts = append(parts, g.d.quote(t.key[c].name)+" = "+v)
	}
	return strings.Join(parts, " AND ")
}

// assignments write some columns, often none but the stamp.
func (g *generator) assignments(t *table) string {
	sets := []string{stampColumn + " = " + g.d.stamp}
	for _, c := range t.columns {
		if oneIn(g.r, 3) {
			sets = append(sets, g.d.quote(c.name)+" = "+g.value(c))
		}
	}
	return strings.Join(sets, ", ")
}

// statement draws one statement on one table.
func (g *generator) statement() statement {
	t := pick(g.r, g.tables)
	i := g.r.IntN(t.keys())
	st := statement{tables: []string{t.name}, index: i}
	name := g.d.quote(t.name)
	switch n := g.r.IntN(100); {
	case n < 30:
		st.sql = g.d.ignore(g.insert(t, i))
	case n < 35:
		st.sql, st.guarded = g.insert(t, i), true
	case n < 62:
		if oneIn(g.r, 5) {
			st.index = many
		}
		st.sql = fmt.Sprintf("UPDATE %s SET %s WHERE %s", name, g.assignments(t), g.where(t, st.index))
	case n < 77:
		if oneIn(g.r, 8) {
			st.index = many
		}
		st.sql = fmt.Sprintf("DELETE FROM %s WHERE %s", name, g.where(t, st.index))
	case n < 92 && t.keyed():
		to := g.r.IntN(t.keys())
		sets := []string{fmt.Sprintf("%s = %d", indexColumn, to)}
		for c, v := range t.keyValues(g.r, to) {
			sets = append(sets, g.d.quote(t.key[c].name)+" = "+v)
		}
		st.sql = fmt.Sprintf("UPDATE %s SET %s, %s WHERE %s", name, g.assignments(t), strings.Join(sets, ", "), g.where(t, i))
		st.guarded, st.index = true, many
	case n < 93 && oneIn(g.r, 2):
		list := []*table{t}
		for _, other := range g.tables {
			if other != t && oneIn(g.r, 8) {
				list = append(list, other)
				st.tables = append(st.tables, other.name)
			}
		}
		st.sql, st.index = g.d.truncate(g, list), many
	case n < 95:
		st.sql, st.index = g.d.bulk(g, t), many
		if st.sql == "" {
			st.sql = g.d.ignore(g.insert(t, i))
		}
	case n < 97 && t.keyed():
		st.sql, st.guarded = g.d.upsert(g, t, g.insert(t, i)), true
	default: // the same row again, at once
		st.sql = fmt.Sprintf("UPDATE %s SET %s WHERE %s", name, g.assignments(t), g.where(t, i))
	}
	return st
}

func (g *generator) transaction() transaction {
	tx := transaction{begin: g.d.begin(g.r), pause: g.r.IntN(pauseAtMost)}
	n := 1 + g.r.IntN(5)
	if oneIn(g.r, 12) {
		n = 20 + g.r.IntN(40)
	}
	savepoints := 0
	for range n {
		tx.statements = append(tx.statements, g.statement())
		if oneIn(g.r, 8) {
			savepoints++
			tx.statements = append(tx.statements, statement{sql: fmt.Sprintf("SAVEPOINT s%d", savepoints)})
		}
		if savepoints > 0 && oneIn(g.r, 4) {
			verb := "RELEASE SAVEPOINT"
			if oneIn(g.r, 2) {
				verb = "ROLLBACK TO SAVEPOINT"
			}
			tx.statements = append(tx.statements, statement{sql: fmt.Sprintf("%s s%d", verb, savepoints)})
			savepoints--
		}
	}
	tx.end = g.d.end(g)
	return tx
}

// round draws the next round.
func (g *generator) round() *round {
	g.number++
	g.fresh = false
	r := &round{number: g.number, settings: make([][][]string, sessions), scripts: make([][][]transaction, sessions)}
	total := 0
	for range segments {
		var steps []step
		if g.number > 1 {
			for range g.r.IntN(stepsInSegment + 1) {
				steps = append(steps, g.d.alter(g))
			}
		}
		r.ddl = append(r.ddl, steps)
		for s := range sessions {
			r.settings[s] = append(r.settings[s], g.d.settings(g.r))
			var list []transaction
			for range transactionsMin + g.r.IntN(transactionsMax-transactionsMin) {
				list = append(list, g.transaction())
			}
			total += len(list)
			r.scripts[s] = append(r.scripts[s], list)
		}
	}
	for range g.r.IntN(faultsInRound + 1) {
		r.faults = append(r.faults, fault{after: g.r.IntN(total), kind: pick(g.r, g.d.faults)})
	}
	slices.SortFunc(r.faults, func(a, b fault) int { return a.after - b.after })
	r.restart = g.fresh
	if oneIn(g.r, 2) {
		r.touch = g.touch()
	}
	for _, t := range g.tables {
		v := view{name: t.name, keyed: t.keyed(), steady: t.born == 0 && !t.replaced, altered: map[string]bool{}, replaced: t.replaced}
		for _, c := range t.key {
			v.key = append(v.key, c.name)
		}
		for name := range t.altered {
			v.altered[name] = true
		}
		r.tables = append(r.tables, v)
	}
	return r
}

// touch writes every row of the altered tables.
func (g *generator) touch() []statement {
	var list []statement
	for _, t := range g.tables {
		if len(t.altered) == 0 {
			continue
		}
		list = append(list, statement{sql: fmt.Sprintf("UPDATE %s SET %s = %s", g.d.quote(t.name), stampColumn, g.d.stamp), tables: []string{t.name}, index: many})
		t.altered = map[string]bool{}
	}
	return list
}

// rename is a new name for a table of its sort.
func (g *generator) rename(t *table) string {
	if t.keyed() {
		return g.name("t")
	}
	return g.name("keyless")
}

// another is a table in the place of t, with the columns and a new one.
func (g *generator) another(t *table, columns []column) *table {
	n := &table{name: t.name, key: t.key, columns: append(slices.Clone(columns), g.newColumn()), before: t.before, born: t.born, replaced: true, altered: map[string]bool{}}
	g.d.plain(g, n)
	g.tables[slices.Index(g.tables, t)] = n
	return n
}

// recreate drops a table and makes another one of its name and key, with some of its columns.
func (g *generator) recreate(t *table) step {
	var columns []column
	for _, c := range t.columns {
		if oneIn(g.r, 2) {
			c.notNull = false
			columns = append(columns, c)
		}
	}
	n := g.another(t, columns)
	sql := append([]string{"DROP TABLE " + g.d.quote(t.name)}, g.createStatements(n)...)
	for range g.r.IntN(5) {
		sql = append(sql, g.d.ignore(g.insert(n, g.r.IntN(n.keys()))))
	}
	return step{sql: sql, about: []string{t.name}}
}
