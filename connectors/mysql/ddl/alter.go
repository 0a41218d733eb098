package ddl

import "strings"

// alter takes ALTER TABLE from the table's name on.
func (p *parser) alter() Effect {
	e := Effect{Kind: AlterTable}
	e.Tables = []TableName{p.table()}
	d := &definition{}
	for p.takeAny("WAIT", "NOWAIT") != "" {
		if p.peek().kind == number {
			p.next()
		}
	}
	for !p.failed && p.peek().kind != end {
		if !p.take(",") {
			p.clause(&e, d)
		}
	}
	return p.defined(e, d)
}

// clause takes one clause of ALTER TABLE.
func (p *parser) clause(e *Effect, d *definition) {
	switch {
	case p.take("ADD"):
		p.add(d)
	case p.take("DROP"):
		p.dropClause(e, d)
	case p.take("MODIFY"):
		p.take("COLUMN")
		ifExists := p.take("IF", "EXISTS")
		a := p.columnClause(d)
		a.old, a.ifExists = a.column.Name, ifExists
		d.columns = append(d.columns, a)
	case p.take("CHANGE"):
		p.take("COLUMN")
		ifExists := p.take("IF", "EXISTS")
		old := p.name()
		a := p.columnClause(d)
		a.old, a.ifExists = old, ifExists
		d.columns = append(d.columns, a)
	case p.is("ALTER"):
		p.alterClause(d)
	case p.take("RENAME", "COLUMN"):
		p.take("IF", "EXISTS")
		r := renamed{from: p.name()}
		p.want("TO")
		r.to = p.name()
		d.columnRenames = append(d.columnRenames, r)
	case p.take("RENAME", "INDEX"), p.take("RENAME", "KEY"):
		p.take("IF", "EXISTS")
		r := renamed{from: p.name()}
		p.want("TO")
		r.to = p.name()
		d.keyRenames = append(d.keyRenames, r)
	case p.take("RENAME"):
		if p.takeAny("TO", "AS", "=") == "" && p.peek().kind == end {
			p.fail()
		}
		e.Renames = append(e.Renames, Rename{From: e.Tables[0], To: p.table()})
	case p.is("CONVERT", "PARTITION"), p.is("CONVERT", "TABLE"):
		p.next()
		p.partitions(e)
	case p.take("CONVERT", "TO"):
		d.convert = true
		if !p.charsetOption(&d.charset, &d.collation) {
			p.fail()
		}
		p.charsetOption(&d.charset, &d.collation)
		if d.charset == "default" {
			d.charset, p.undefined = "", "it is converted to the database's charset"
		}
	case p.take("ORDER", "BY"):
		for !p.failed && p.peek().kind != end {
			p.name()
			p.takeAny("ASC", "DESC")
			if !p.is(",") {
				break
			}
			p.next()
		}
	case p.takeAny("ENABLE", "DISABLE") != "":
		p.want("KEYS")
	case p.take("FORCE"), p.take("ONLINE"), p.take("REMOVE", "PARTITIONING"), p.take("WITHOUT", "VALIDATION"), p.take("WITH", "VALIDATION"):
	case p.takeAny("DISCARD", "IMPORT", "TRUNCATE", "EXCHANGE", "COALESCE", "REORGANIZE", "REBUILD", "OPTIMIZE", "ANALYZE", "CHECK",
		"REPAIR", "PARTITION", "SECONDARY_LOAD", "SECONDARY_UNLOAD") != "":
		p.partitions(e)
	default:
		p.tableOption(d)
	}
}

// partitions takes a clause of partitions or tablespaces, which ends the statement.
func (p *parser) partitions(e *Effect) {
	switch strings.ToUpper(p.at(-1).text) {
	case "DISCARD", "IMPORT", "TRUNCATE":
		e.Rows = true
	case "EXCHANGE", "CONVERT":
		verb := p.at(-1).text
		e.Rows = true
		for p.peek().kind != end && !p.take("TABLE") {
			p.next()
		}
		if t := p.table(); strings.EqualFold(verb, "EXCHANGE") {
			e.Tables = append(e.Tables, t)
		} else {
			e.Doubt = append(e.Doubt, t)
		}
	}
	p.rest()
}

func (p *parser) add(d *definition) {
	switch {
	case p.is("SYSTEM", "VERSIONING"), p.is("PERIOD", "FOR"):
		p.undefined = "it is versioned by the system"
		p.rest()
	case p.is("PARTITION"):
		p.rest()
	case p.peek().kind == word && p.keyOrConstraint(d):
	default:
		p.take("COLUMN")
		ifNot := p.take("IF", "NOT", "EXISTS")
		if !p.take("(") {
			a := p.columnClause(d)
			a.ifExists = ifNot
			d.columns = append(d.columns, a)
			return
		}
		for !p.failed {
			n := len(d.columns)
			p.element(d)
			if len(d.columns) > n {
				d.columns[n].ifExists = ifNot
			}
			if !p.take(",") {
				break
			}
		}
		p.want(")")
	}
}

func (p *parser) dropClause(e *Effect, d *definition) {
	switch {
	case p.take("PRIMARY", "KEY"):
		d.keyDrops = append(d.keyDrops, "PRIMARY")
	case p.take("INDEX"), p.take("KEY"), p.take("CONSTRAINT"):
		p.take("IF", "EXISTS")
		d.keyDrops = append(d.keyDrops, p.name())
	case p.take("FOREIGN", "KEY"), p.take("CHECK"):
		p.take("IF", "EXISTS")
		p.name()
	case p.is("SYSTEM", "VERSIONING"), p.is("PERIOD", "FOR"):
		p.undefined = "it was versioned by the system"
		p.rest()
	case p.is("PARTITION"):
		e.Rows = true
		p.rest()
	default:
		p.take("COLUMN")
		c := dropColumn{ifExists: p.take("IF", "EXISTS")}
		c.name = p.name()
		p.takeAny("RESTRICT", "CASCADE")
		d.drops = append(d.drops, c)
	}
}

func (p *parser) alterClause(d *definition) {
	p.next()
	if p.takeAny("INDEX", "KEY", "CHECK", "CONSTRAINT") != "" {
		p.take("IF", "EXISTS")
		p.name()
		p.take("NOT")
		if p.takeAny("VISIBLE", "INVISIBLE", "IGNORED", "ENFORCED") == "" {
			p.fail()
		}
		return
	}
	p.take("COLUMN")
	p.take("IF", "EXISTS")
	s := setColumn{name: p.name()}
	switch {
	case p.take("SET", "DEFAULT"):
		s.isDefault = true
		p.defaultValue(&s.def)
	case p.take("DROP", "DEFAULT"):
		s.isDefault, s.keepsTime, s.endsTime = true, p.o.Flavour == MySQL, p.o.Flavour == MariaDB
	case p.take("SET", "INVISIBLE"):
		s.invisible = true
	case p.take("SET", "VISIBLE"):
	default:
		p.fail()
	}
	d.sets = append(d.sets, s)
}
