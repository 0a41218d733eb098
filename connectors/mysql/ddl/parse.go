package ddl

import (
	"strings"
)

// Parse says what a statement does. It never fails: what it does not understand is Unknown.
func Parse(statement []byte, o Options) Effect {
	s := string(statement)
	all, whole := tokens(s, o)
	for len(all) > 0 && all[len(all)-1].text == ";" && all[len(all)-1].kind == mark {
		all = all[:len(all)-1]
	}
	p := &parser{all: all, s: s, o: o}
	if whole {
		e := p.statement()
		if !p.failed && p.peek().kind == end {
			e.options = o
			return e
		}
	}
	return unknown(all, whole, o)
}

// unknown lists what may be a table: every name, alone in the session's database or behind a database and a dot.
func unknown(all []token, whole bool, o Options) Effect {
	e := Effect{Kind: Unknown, Any: !whole, options: o, why: "the statement is not understood"}
	seen := map[TableName]bool{}
	add := func(t TableName) {
		if t.Table == "" || seen[t] {
			return
		}
		if len(e.Tables) == MaxTables {
			e.Any = true
			return
		}
		seen[t] = true
		e.Tables = append(e.Tables, t)
	}
	name := func(i int) bool {
		return i < len(all) && (all[i].kind == quoted || all[i].kind == word || all[i].double)
	}
	for i := range all {
		if !name(i) {
			continue
		}
		if i+2 < len(all) && all[i+1].text == "." && all[i+1].kind == mark && name(i+2) {
			add(TableName{all[i].text, all[i+2].text})
		}
		if all[i].kind != word || !reserved(all[i].text) {
			add(TableName{o.Database, all[i].text})
		}
	}
	return e
}

// reserved are the commonest words that are no names without quotes; a name too many costs one look at a table.
func reserved(s string) bool {
	switch strings.ToUpper(s) {
	case "ADD", "ALTER", "AND", "AS", "BY", "CHANGE", "CHARACTER", "CHECK", "COLLATE", "COLUMN", "CONSTRAINT", "CREATE", "DATABASE",
		"DEFAULT", "DELETE", "DROP", "EXISTS", "FOREIGN", "FROM", "IF", "IN", "INDEX", "INSERT", "INT", "INTO", "KEY", "LIKE",
		"NOT", "NULL", "ON", "OR", "PRIMARY", "REFERENCES", "RENAME", "REPLACE", "SELECT", "SET", "TABLE", "TO", "UNIQUE",
		"UPDATE", "VALUES", "VARCHAR", "WHERE", "WITH":
		return true
	}
	return false
}

type parser struct {
	all       []token
	i         int
	s         string
	o         Options
	failed    bool
	undefined string // why there is no definition, though the statement is understood
}

func (p *parser) peek() token { return p.at(0) }

func (p *parser) at(n int) token {
	if p.i+n < len(p.all) {
		return p.all[p.i+n]
	}
	return token{kind: end, from: len(p.s), to: len(p.s)}
}

func (p *parser) next() token {
	t := p.peek()
	p.i++
	return t
}

// fail marks the statement as not understood.
func (p *parser) fail() { p.failed, p.i = true, len(p.all) }

// is says whether the next tokens are these words or marks, given in upper case.
func (p *parser) is(words ...string) bool {
	for n, w := range words {
		t := p.at(n)
		if t.kind != word && t.kind != mark || !strings.EqualFold(t.text, w) {
			return false
		}
	}
	return true
}

// take passes over these words if they are next.
func (p *parser) take(words ...string) bool {
	if !p.is(words...) {
		return false
	}
	p.i += len(words)
	return true
}

// takeAny passes over one of these words.
func (p *parser) takeAny(words ...string) string {
	for _, w := range words {
		if p.take(w) {
			return w
		}
	}
	return ""
}

func (p *parser) want(words ...string) {
	if !p.take(words...) {
		p.fail()
	}
}

func (p *parser) rest() { p.i = max(p.i, len(p.all)) }

func (p *parser) name() string {
	t := p.next()
	if t.kind != quoted && t.kind != word {
		p.fail()
		return ""
	}
	return t.text
}

func (p *parser) table() TableName {
	a := p.name()
	if p.take(".") {
		return TableName{a, p.name()}
	}
	return TableName{p.o.Database, a}
}

// brackets passes over a bracketed part, and is its text without the outer brackets.
func (p *parser) brackets() string {
	open := p.peek()
	if !p.is("(") {
		p.fail()
		return ""
	}
	for depth := 0; ; {
		t := p.next()
		if t.kind == end {
			p.fail()
			return ""
		}
		if t.kind == mark && t.text == "(" {
			depth++
		}
		if t.kind == mark && t.text == ")" {
			if depth--; depth == 0 {
				return p.s[open.to:t.from]
			}
		}
	}
}

func (p *parser) statement() Effect {
	switch {
	case p.is("CREATE"):
		return p.create()
	case p.is("ALTER"):
		return p.alterStatement()
	case p.is("DROP"):
		return p.drop()
	case p.take("TRUNCATE"):
		p.take("TABLE")
		e := Effect{Kind: TruncateTable, Tables: []TableName{p.table()}}
		p.takeAny("WAIT", "NOWAIT")
		if p.peek().kind == number {
			p.next()
		}
		return e
	case p.take("RENAME", "TABLE"), p.take("RENAME", "TABLES"):
		return p.rename()
	case p.is("RENAME", "USER"):
	case p.takeAny("BEGIN", "COMMIT", "ROLLBACK", "SAVEPOINT", "RELEASE", "XA") != "", p.take("START", "TRANSACTION"):
		p.rest()
		return Effect{Kind: Transaction}
	case p.takeAny("INSERT", "REPLACE", "UPDATE", "DELETE", "LOAD", "WITH") != "":
		return p.dml()
	case p.takeAny("GRANT", "REVOKE", "ANALYZE", "OPTIMIZE", "REPAIR", "CHECK", "FLUSH", "SET", "USE", "DO", "RESET", "KILL",
		"INSTALL", "UNINSTALL", "PURGE", "CHANGE", "STOP", "START") != "":
	case p.peek().kind == end:
	default:
		p.fail()
		return Effect{}
	}
	p.rest()
	return Effect{Kind: Other}
}

func (p *parser) rename() Effect {
	e := Effect{Kind: RenameTable}
	for {
		if p.take("IF", "EXISTS") {
			e.IfExists = true
		}
		r := Rename{From: p.table()}
		for p.takeAny("WAIT", "NOWAIT") != "" {
			if p.peek().kind == number {
				p.next()
			}
		}
		p.want("TO")
		r.To = p.table()
		e.Renames = append(e.Renames, r)
		e.Tables = append(e.Tables, r.From)
		if !p.take(",") {
			return e
		}
	}
}

// dml takes what names the table; the rest is of no interest.
func (p *parser) dml() Effect {
	verb := strings.ToUpper(p.at(-1).text)
	e := Effect{Kind: DML}
	for p.takeAny("LOW_PRIORITY", "DELAYED", "HIGH_PRIORITY", "QUICK", "IGNORE") != "" {
	}
	switch verb {
	case "INSERT", "REPLACE":
		p.take("INTO")
		e.Tables = []TableName{p.table()}
	case "UPDATE":
		e.Tables = []TableName{p.table()}
		if !p.is("SET") {
			e.Tables = p.named()
		}
	case "DELETE":
		if !p.take("FROM") {
			e.Tables = p.named()
			break
		}
		e.Tables = []TableName{p.table()}
		if p.peek().kind != end && !p.is("WHERE") && !p.is("ORDER") && !p.is("LIMIT") {
			e.Tables = p.named()
		}
	case "LOAD":
		for p.peek().kind != end && !p.take("INTO", "TABLE") {
			p.next()
		}
		if p.peek().kind == end {
			p.fail()
			return e
		}
		e.Tables = []TableName{p.table()}
	case "WITH":
		e.Tables = p.named()
	}
	p.rest()
	return e
}

// named is every table that the statement may name.
func (p *parser) named() []TableName { return unknown(p.all, true, p.o).Tables }

func (p *parser) drop() Effect {
	p.next()
	switch {
	case p.take("TEMPORARY"):
	case p.take("TABLE"), p.take("TABLES"):
		e := Effect{Kind: DropTable, IfExists: p.take("IF", "EXISTS")}
		for {
			e.Tables = append(e.Tables, p.table())
			if !p.take(",") {
				break
			}
		}
		p.takeAny("RESTRICT", "CASCADE", "WAIT", "NOWAIT")
		if p.peek().kind == number {
			p.next()
		}
		return e
	case p.takeAny("DATABASE", "SCHEMA") != "":
		e := Effect{Kind: DropDatabase, IfExists: p.take("IF", "EXISTS")}
		e.Database = p.name()
		return e
	case p.take("INDEX"):
		ifExists := p.take("IF", "EXISTS")
		name := p.name()
		p.want("ON")
		e := Effect{Kind: AlterTable, Tables: []TableName{p.table()}, IfExists: ifExists}
		d := &definition{}
		d.keyDrops = append(d.keyDrops, name)
		e.definition = d
		p.rest() // ALGORITHM, LOCK, WAIT
		return e
	case p.otherObject():
	default:
		p.fail()
	}
	p.rest()
	return Effect{Kind: Other}
}

// otherObject says whether what follows is no table, database or index.
func (p *parser) otherObject() bool {
	switch strings.ToUpper(p.peek().text) {
	case "USER", "ROLE", "VIEW", "PROCEDURE", "FUNCTION", "TRIGGER", "EVENT", "SERVER", "TABLESPACE", "LOGFILE", "SEQUENCE", "PACKAGE",
		"SPATIAL", "UNDO", "RESOURCE", "PREPARE", "LIBRARY", "INSTANCE", "CATALOG":
		return p.peek().kind == word
	}
	return false
}

func (p *parser) alterStatement() Effect {
	p.next()
	for p.takeAny("ONLINE", "OFFLINE", "IGNORE") != "" {
	}
	switch {
	case p.take("TABLE"):
		ifExists := p.take("IF", "EXISTS")
		e := p.alter()
		e.IfExists = ifExists
		return e
	case p.takeAny("DATABASE", "SCHEMA") != "":
		e := Effect{Kind: AlterDatabase, Database: p.o.Database}
		if !p.isDatabaseOption() {
			e.Database = p.name()
		}
		e.definition = p.databaseOptions()
		return e
	case p.otherObject(), p.is("DEFINER"), p.is("ALGORITHM"), p.is("SQL"):
	default:
		p.fail()
	}
	p.rest()
	return Effect{Kind: Other}
}

func (p *parser) isDatabaseOption() bool {
	return p.is("DEFAULT") || p.is("CHARACTER", "SET") || p.is("CHARSET") || p.is("COLLATE") || p.is("COMMENT") || p.is("ENCRYPTION") ||
		p.is("UPGRADE") || p.is("READ", "ONLY")
}

func (p *parser) databaseOptions() *definition {
	d := &definition{}
	for !p.failed && p.peek().kind != end {
		p.take("DEFAULT")
		if p.charsetOption(&d.charset, &d.collation) {
			continue
		}
		if p.takeAny("COMMENT", "ENCRYPTION", "UPGRADE", "READ") == "" {
			p.fail()
		}
		p.rest()
	}
	return d
}

func (p *parser) charsetOption(charset, collation *string) bool {
	switch {
	case p.take("CHARACTER", "SET"), p.take("CHARSET"), p.take("CHAR", "SET"):
		p.take("=")
		*charset, *collation = canonicalCharset(p.nameOrText()), ""
	case p.take("COLLATE"):
		p.take("=")
		*collation = strings.ToLower(p.nameOrText())
	default:
		return false
	}
	return true
}

func (p *parser) nameOrText() string {
	if t := p.peek(); t.kind == text {
		p.next()
		return t.text
	}
	return p.name()
}

func (p *parser) create() Effect {
	p.next()
	replace := p.take("OR", "REPLACE")
	switch {
	case p.take("TEMPORARY"):
	case p.take("TABLE"):
		e := p.createTable()
		e.Replace = replace
		return e
	case p.takeAny("DATABASE", "SCHEMA") != "":
		e := Effect{Kind: CreateDatabase, IfExists: p.take("IF", "NOT", "EXISTS"), Replace: replace}
		e.Database = p.name()
		e.definition = p.databaseOptions()
		return e
	case p.is("INDEX"), p.is("UNIQUE"), p.is("FULLTEXT"), p.is("VECTOR", "INDEX"),
		p.is("SPATIAL", "INDEX"), p.is("ONLINE"), p.is("OFFLINE"):
		return p.createIndex()
	case p.otherObject(), p.is("DEFINER"), p.is("ALGORITHM"), p.is("SQL"), p.is("AGGREGATE"), p.is("EXTERNAL"):
	default:
		p.fail()
	}
	p.rest()
	return Effect{Kind: Other}
}

func (p *parser) createIndex() Effect {
	p.takeAny("ONLINE", "OFFLINE")
	k := keyClause{unique: p.take("UNIQUE")}
	p.takeAny("FULLTEXT", "SPATIAL", "VECTOR")
	p.want("INDEX")
	e := Effect{Kind: AlterTable, IfExists: p.take("IF", "NOT", "EXISTS")}
	k.name = p.name()
	if p.take("USING") {
		p.name()
	}
	p.want("ON")
	e.Tables = []TableName{p.table()}
	k.columns, k.whole = p.keyParts()
	e.definition = &definition{keys: []keyClause{k}}
	p.rest()
	return e
}
