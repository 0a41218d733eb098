// Package grants reads what SHOW GRANTS of MySQL and MariaDB prints. It is pure, and source and sink both ask it.
package grants

import (
	"slices"
	"strings"
)

// Grant is one line: rights on all tables, on those of databases whose names fit a pattern, or on one table.
type Grant struct {
	Rights          []string // as the server prints them, in capitals
	Database, Table string   // * for all; of a grant on whole databases the name is a pattern
}

// Parse reads GRANT SELECT, INSERT ON `db`.`table` TO ...; ok is false for a line that grants something else, such as a role.
func Parse(line string) (Grant, bool) {
	rights, rest, ok := strings.Cut(strings.TrimPrefix(line, "GRANT "), " ON ")
	if !ok {
		return Grant{}, false
	}
	object, _, ok := strings.Cut(rest, " TO ")
	database, table, ok2 := strings.Cut(strings.ReplaceAll(object, "`.`", "`\x00`"), "\x00")
	if !ok2 {
		database, table, ok2 = strings.Cut(object, ".")
	}
	if !ok || !ok2 {
		return Grant{}, false
	}
	g := Grant{Database: unquote(database), Table: unquote(table)}
	for right := range strings.SplitSeq(rights, ",") {
		g.Rights = append(g.Rights, strings.ToUpper(strings.TrimSpace(right)))
	}
	return g, true
}

// ParseAll reads all lines.
func ParseAll(lines []string) List {
	var list List
	for _, line := range lines {
		if g, ok := Parse(line); ok {
			list = append(list, g)
		}
	}
	return list
}

func unquote(name string) string {
	if len(name) > 1 && name[0] == '`' && name[len(name)-1] == '`' {
		return strings.ReplaceAll(name[1:len(name)-1], "``", "`")
	}
	return name
}

// covers tells that a grant holds for a table, or with table "" for all of a database, or with both "" for the whole server. In the name of
// a database % and _ stand for others.
func (g *Grant) covers(database, table string) bool {
	if g.Database != "*" && (database == "" || g.Database != database && !like(g.Database, database)) {
		return false
	}
	return g.Table == "*" || table != "" && g.Table == table
}

// List are the grants of one user, those of its roles included.
type List []Grant

// Has tells whether the user has one of some rights, which are names of the same one, for a table, a database or the whole server.
func (l List) Has(database, table string, rights ...string) bool {
	return slices.ContainsFunc(l, func(g Grant) bool {
		return g.covers(database, table) && slices.ContainsFunc(g.Rights, func(has string) bool {
			return has == "ALL PRIVILEGES" || slices.Contains(rights, has)
		})
	})
}

func like(pattern, text string) bool {
	switch {
	case pattern == "":
		return text == ""
	case pattern[0] == '%':
		for i := range len(text) + 1 {
			if like(pattern[1:], text[i:]) {
				return true
			}
		}
		return false
	case pattern[0] == '\\' && len(pattern) > 1:
		return text != "" && text[0] == pattern[1] && like(pattern[2:], text[1:])
	}
	return text != "" && (pattern[0] == '_' || pattern[0] == text[0]) && like(pattern[1:], text[1:])
}
