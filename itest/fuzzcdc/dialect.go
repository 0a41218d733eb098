package main

import (
	"math/rand/v2"
	"strings"
)

// dialect is what the generator has to know of a server.
type dialect struct {
	kinds, keys []*kind
	names       []string // ends of names of tables and columns
	stamp       string   // an expression that gives another value for every row
	stampType   string
	quote       func(name string) string
	ignore      func(insert string) string // the insert as one that leaves existing rows alone
	settings    func(r *rand.Rand) []string
	begin       func(r *rand.Rand) string
	end         func(g *generator) []string
	create      func(g *generator, t *table) // what is particular about a new table
	plain       func(g *generator, t *table) // what every new table has
	alter       func(g *generator) step      // one change of one or several tables
	truncate    func(g *generator, tables []*table) string
	upsert      func(g *generator, t *table, insert string) string
	bulk        func(g *generator, t *table) string // many rows at once; "": the table takes none
	faults      []faultKind
}

func dialectOf(source string) (*dialect, bool) {
	switch source {
	case "postgres":
		return postgresDialect(), true
	case "mysql", "mariadb":
		return mysqlDialect(source == "mariadb"), true
	}
	return nil, false
}

// createSQL is a table's CREATE TABLE.
func (d *dialect) createSQL(t *table) string {
	var parts []string
	for _, c := range t.ordered() {
		part := d.quote(c.name) + " " + c.kind.name
		if c.notNull {
			part += " NOT NULL"
		}
		parts = append(parts, part)
	}
	fixed := []string{stampColumn + " " + d.stampType + " NOT NULL", indexColumn + " int NOT NULL"}
	parts = append(fixed, parts...)
	tail := ""
	for _, clause := range t.clauses {
		if strings.HasPrefix(clause, ")") {
			tail += clause[1:]
			continue
		}
		parts = append(parts, clause)
	}
	return "CREATE TABLE " + d.quote(t.name) + " (" + strings.Join(parts, ", ") + ")" + tail
}

// list is the names of columns, quoted.
func (d *dialect) list(columns []column) string {
	names := make([]string, len(columns))
	for i, c := range columns {
		names[i] = d.quote(c.name)
	}
	return strings.Join(names, ", ")
}
