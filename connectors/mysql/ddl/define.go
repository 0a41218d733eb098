package ddl

import (
	"slices"
	"strings"
)

// definition is what a statement says of columns and keys.
type definition struct {
	columns       []columnClause
	keys          []keyClause // as written, those of columns too
	drops         []dropColumn
	columnRenames []renamed
	sets          []setColumn
	keyDrops      []string
	keyRenames    []renamed
	charset       string
	collation     string
	convert       bool
	comment       *string
}

type keyClause struct {
	name            string
	primary, unique bool
	columns         []string
	whole           bool
	ifNotExists     bool
}

// columnClause adds a column, or with old changes one.
type columnClause struct {
	column   Column
	old      string
	first    bool
	after    string
	ifExists bool
}

type dropColumn struct {
	name     string
	ifExists bool
}

type renamed struct{ from, to string }

type setColumn struct {
	name      string
	def       Column // Default and DefaultExpr
	isDefault bool
	keepsTime bool // MySQL's DROP DEFAULT leaves the current time
	endsTime  bool // MariaDB's ends ON UPDATE too
	invisible bool
}

func (s setColumn) apply(c *Column) {
	if s.isDefault {
		if c.AutoIncrement {
			return
		}
		if s.keepsTime && c.DefaultExpr && isNow(*c.Default) {
			return
		}
		c.Default, c.DefaultExpr = s.def.Default, s.def.DefaultExpr
		c.OnUpdate = c.OnUpdate && !s.endsTime
		return
	}
	c.Invisible = s.invisible
}

func isNow(s string) bool {
	name, _, _ := strings.Cut(strings.ToLower(s), "(")
	switch strings.TrimSpace(name) {
	case "current_timestamp", "now", "localtime", "localtimestamp":
		return true
	}
	return false
}

func (p *parser) createTable() Effect {
	e := Effect{Kind: CreateTable, IfExists: p.take("IF", "NOT", "EXISTS")}
	e.Tables = []TableName{p.table()}
	if p.take("LIKE") {
		like := p.table()
		e.Like, e.why = &like, "it is like another table"
		return e
	}
	if p.is("(", "LIKE") {
		p.next()
		p.next()
		like := p.table()
		p.want(")")
		e.Like, e.why = &like, "it is like another table"
		return e
	}
	d := &definition{}
	if p.is("(") && !p.is("(", "SELECT") && !p.is("(", "WITH") && !p.is("(", "(") {
		p.next()
		for !p.failed {
			p.element(d)
			if !p.take(",") {
				break
			}
		}
		p.want(")")
	}
	for !p.failed && p.peek().kind != end && !p.query() {
		p.take(",")
		if p.is("PARTITION", "BY") {
			for p.peek().kind != end && (p.is("(") && !p.is("(", "SELECT") || !p.query()) {
				p.skipOne()
			}
			break
		}
		p.tableOption(d)
	}
	p.take("START", "TRANSACTION") // MySQL's CREATE TABLE ... SELECT, with all columns; the rows follow
	if p.peek().kind != end {
		p.undefined = "its columns come from a query"
		p.rest()
	}
	return p.defined(e, d)
}

func (p *parser) defined(e Effect, d *definition) Effect {
	if e.definition = d; p.undefined != "" {
		e.definition, e.why = nil, p.undefined
	}
	return e
}

// query says whether a query starts here, as of CREATE TABLE ... SELECT.
func (p *parser) query() bool {
	return p.is("SELECT") || p.is("AS") || p.is("IGNORE") || p.is("REPLACE") || p.is("(") || p.is("VALUES") || p.is("TABLE") ||
		p.is("WITH") && !p.is("WITH", "SYSTEM") || p.is("START", "TRANSACTION")
}

// skipOne passes over one token, or a bracketed part.
func (p *parser) skipOne() {
	if p.is("(") {
		p.brackets()
		return
	}
	p.next()
}

// element is one column, key or constraint of CREATE TABLE.
func (p *parser) element(d *definition) {
	if p.peek().kind == word && p.keyOrConstraint(d) {
		return
	}
	d.columns = append(d.columns, p.columnClause(d))
}

// keyOrConstraint takes what is no column, and says whether it was one.
func (p *parser) keyOrConstraint(d *definition) bool {
	name := ""
	start := p.i
	if p.take("CONSTRAINT") {
		p.take("IF", "NOT", "EXISTS")
		if !p.is("PRIMARY") && !p.is("UNIQUE") && !p.is("FOREIGN") && !p.is("CHECK") || p.peek().kind == quoted {
			name = p.name()
		}
	}
	switch {
	case p.take("PRIMARY", "KEY"):
		d.keys = append(d.keys, p.key(keyClause{primary: true}))
	case p.take("UNIQUE"):
		p.takeAny("KEY", "INDEX")
		d.keys = append(d.keys, p.key(keyClause{unique: true, name: name}))
	case p.is("FULLTEXT"), p.is("SPATIAL"), p.is("KEY"), p.is("INDEX"), p.is("VECTOR", "INDEX"), p.is("VECTOR", "KEY"):
		p.takeAny("FULLTEXT", "SPATIAL", "VECTOR")
		p.takeAny("KEY", "INDEX")
		d.keys = append(d.keys, p.key(keyClause{}))
	case p.take("FOREIGN", "KEY"):
		if !p.is("(") {
			p.take("IF", "NOT", "EXISTS")
			if !p.is("(") {
				p.name()
			}
		}
		p.brackets()
		p.references()
	case p.is("CHECK", "("):
		p.next()
		p.brackets()
		p.take("NOT")
		p.take("ENFORCED")
	case p.is("PERIOD", "FOR"):
		p.next()
		p.next()
		p.name()
		p.brackets()
		p.undefined = "it has a period"
	default:
		if p.i != start {
			p.fail()
		}
		return false
	}
	return true
}

func (p *parser) references() {
	p.want("REFERENCES")
	p.table()
	if p.is("(") {
		p.brackets()
	}
	for {
		switch {
		case p.take("MATCH"):
			p.name()
		case p.take("ON", "DELETE"), p.take("ON", "UPDATE"):
			if !p.take("SET", "NULL") && !p.take("SET", "DEFAULT") && !p.take("NO", "ACTION") {
				p.name()
			}
		default:
			return
		}
	}
}

// key takes a key's name, columns and options.
func (p *parser) key(k keyClause) keyClause {
	k.ifNotExists = p.take("IF", "NOT", "EXISTS")
	if !p.is("(") && !p.is("USING") && !p.is("TYPE") {
		if n := p.name(); k.name == "" || !k.unique || n != "" {
			k.name = n
		}
	}
	if p.takeAny("USING", "TYPE") != "" {
		p.name()
	}
	k.columns, k.whole = p.keyParts()
	for !p.failed && p.peek().kind != end && !p.is(",") && !p.is(")") {
		p.skipOne()
	}
	return k
}

func (p *parser) keyParts() (columns []string, whole bool) {
	whole = true
	p.want("(")
	for !p.failed {
		if p.is("(") {
			p.brackets()
			whole = false
		} else {
			columns = append(columns, p.name())
			if p.is("(") {
				p.brackets()
				whole = false
			}
		}
		if p.take("WITHOUT", "OVERLAPS") {
			whole = false
		}
		p.takeAny("ASC", "DESC")
		if !p.take(",") {
			break
		}
	}
	p.want(")")
	return columns, whole
}

// columnClause takes a column, and the key that its attributes make.
func (p *parser) columnClause(d *definition) columnClause {
	a := columnClause{}
	a.column.Name = p.name()
	p.dataType(&a.column)
	p.attributes(&a)
	if a.column.primary {
		d.keys = append(d.keys, keyClause{primary: true, whole: true, columns: []string{a.column.Name}})
	}
	if a.column.unique {
		d.keys = append(d.keys, keyClause{unique: true, whole: true, columns: []string{a.column.Name}})
	}
	return a
}

// attributes are what follows a column's type, in any order.
func (p *parser) attributes(a *columnClause) {
	c := &a.column
	for !p.failed && p.peek().kind != end && !p.is(",") && !p.is(")") {
		switch {
		case p.take("UNSIGNED"):
			c.Unsigned = true
		case p.take("SIGNED"):
		case p.take("ZEROFILL"):
			c.Unsigned, c.Zerofill = true, true
		case p.take("NOT", "NULL"):
			c.Nullable, c.stated = false, true
		case p.take("NULL"):
			c.Nullable, c.stated = true, true
		case p.take("AUTO_INCREMENT"):
			c.AutoIncrement = true
		case p.take("UNIQUE"):
			p.take("KEY")
			c.unique = true
		case p.take("PRIMARY"):
			p.take("KEY")
			c.primary = true
		case p.take("KEY"):
			c.primary = true
		case p.take("COMMENT"):
			c.Comment = p.texts()
		case p.charsetOption(&c.Charset, &c.Collation):
		case p.take("ASCII"):
			c.Charset = "latin1"
		case p.take("UNICODE"):
			c.Charset = "ucs2"
		case p.take("BYTE"):
			c.Charset = "binary"
		case p.take("BINARY"):
			c.binary = true
		case p.take("DEFAULT"):
			p.defaultValue(c)
		case p.take("ON", "UPDATE"):
			p.name()
			if p.is("(") {
				p.brackets()
			}
			c.OnUpdate = true
		case p.take("GENERATED", "ALWAYS", "AS", "ROW"):
			p.name()
			p.undefined = "it is versioned by the system"
		case p.take("GENERATED", "ALWAYS", "AS"), p.take("AS"):
			c.Generated = p.brackets()
		case p.take("VIRTUAL"):
		case p.takeAny("STORED", "PERSISTENT") != "":
			c.Stored = true
		case p.take("INVISIBLE"):
			c.Invisible = true
		case p.take("VISIBLE"), p.take("NOT", "SECONDARY"), p.take("COMPRESSED"), p.take("WITHOUT", "SYSTEM", "VERSIONING"),
			p.take("WITH", "SYSTEM", "VERSIONING"), p.take("NOT", "ENFORCED"), p.take("ENFORCED"):
			if p.take("=") {
				p.name()
			}
		case p.take("SRID"), p.take("REF_SYSTEM_ID"):
			p.take("=")
			c.SRID = p.next().text
		case p.takeAny("COLUMN_FORMAT", "STORAGE") != "":
			p.name()
		case p.take("CHECK"):
			p.brackets()
		case p.take("CONSTRAINT"):
			if !p.is("CHECK") {
				p.name()
			}
		case p.is("REFERENCES"):
			p.references()
		case p.take("FIRST"):
			a.first = true
		case p.take("AFTER"):
			a.after = p.name()
		case p.peek().kind == word && p.at(1).text == "=": // an engine's attribute
			p.i += 2
			p.skipOne()
		default:
			p.fail()
		}
	}
	if hasCharset(c.Type) || c.Charset == "" {
		return
	}
	c.Charset, c.Collation = "", ""
}

func (p *parser) texts() string {
	var b strings.Builder
	for p.peek().kind == text {
		b.WriteString(p.next().text)
	}
	return b.String()
}

// defaultValue takes a literal, or an expression's text.
func (p *parser) defaultValue(c *Column) {
	t := p.peek()
	set := func(s string, expr bool) { c.Default, c.DefaultExpr = &s, expr }
	switch {
	case p.take("NULL"):
		c.Default = nil
	case t.kind == text:
		set(p.texts(), false)
	case t.kind == number:
		set(p.next().text, false)
	case p.is("-"), p.is("+"):
		p.next()
		sign := strings.TrimPrefix(t.text, "+")
		if p.peek().kind != number {
			p.fail()
		}
		set(sign+p.next().text, false)
	case p.is("TRUE"), p.is("FALSE"):
		set(map[bool]string{true: "1", false: "0"}[strings.EqualFold(p.next().text, "TRUE")], false)
	case p.is("("):
		set(p.brackets(), true)
	case p.take("NEXT", "VALUE", "FOR"):
		p.table()
		set(p.s[t.from:p.at(-1).to], true)
	case t.kind == word && p.at(1).kind == text: // an introducer, DATE '...', x'...'
		p.next()
		switch strings.ToUpper(t.text) {
		case "X", "B":
			set(t.text+p.s[p.peek().from:p.peek().to], false)
		case "N", "DATE", "TIME", "TIMESTAMP":
			set(p.peek().text, false)
		default:
			set(t.text+p.s[p.peek().from:p.peek().to], true)
		}
		if strings.HasPrefix(t.text, "_") {
			set(p.peek().text, false)
		}
		p.next()
	case t.kind == word || t.kind == quoted:
		p.table()
		if p.is("(") {
			p.brackets()
		}
		set(p.s[t.from:p.at(-1).to], true)
	default:
		p.fail()
	}
	for slices.Contains([]string{"+", "-", "*", "/", "|", "%"}, p.peek().text) && p.peek().kind == mark {
		p.undefined = "a default is an expression without brackets"
		p.next()
		p.skipOne()
	}
}

// tableOption takes one option: NAME [=] VALUE.
func (p *parser) tableOption(d *definition) {
	if p.take("DEFAULT") && !p.is("CHARACTER") && !p.is("CHARSET") && !p.is("CHAR") && !p.is("COLLATE") {
		p.fail()
		return
	}
	switch {
	case p.charsetOption(&d.charset, &d.collation):
	case p.take("COMMENT"):
		p.take("=")
		s := p.texts()
		d.comment = &s
	case p.take("WITH", "SYSTEM", "VERSIONING"):
		p.undefined = "it is versioned by the system"
	case p.take("UNION"):
		p.take("=")
		p.brackets()
	case p.take("DATA", "DIRECTORY"), p.take("INDEX", "DIRECTORY"):
		p.take("=")
		p.next()
	case p.take("TABLESPACE"):
		p.take("=")
		p.name()
		if p.take("STORAGE") {
			p.name()
		}
	default:
		p.name()
		p.take("=")
		if p.is("(") {
			p.fail()
		}
		p.next()
	}
}
