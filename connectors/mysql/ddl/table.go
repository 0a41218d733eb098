package ddl

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// ErrUnknown is why a description cannot follow a statement: the table is to be looked at anew.
var ErrUnknown = errors.New("the table's description after the statement is not known")

// Table is a table's description.
type Table struct {
	Charset   string
	Collation string // empty: the charset's default
	Columns   []Column
	// Primary is the primary key's columns, in its order.
	Primary []string
	// Unique are in the order in which the server tries them as a primary key where there is none.
	Unique []UniqueKey
	// Index are the other keys. They have a part in the names that the server gives to keys without one.
	Index   []UniqueKey
	Comment string
}

// UniqueKey is a key that is not the primary one.
type UniqueKey struct {
	Name    string
	Columns []string
	// Whole says that the key is of whole columns: neither prefixes nor expressions.
	Whole bool
}

// Column is a column's description.
type Column struct {
	Name      string
	Type      string // as information_schema.columns.data_type
	Length    int    // in the type's brackets, or implied by it; -1 without
	Scale     int    // of decimals, -1 without
	Unsigned  bool
	Zerofill  bool
	Charset   string // empty if the type has none
	Collation string // empty: the charset's default, or the table's
	Nullable  bool
	// Default is the default's text; of an expression its SQL.
	Default       *string
	DefaultExpr   bool
	OnUpdate      bool
	Generated     string // expression
	Stored        bool   // of a generated column
	Invisible     bool
	AutoIncrement bool
	Values        []string // labels of an enum or set
	Comment       string
	SRID          string

	stated  bool // NULL or NOT NULL was written
	defined bool // by the statement that is being applied
	primary bool // PRIMARY KEY was written
	unique  bool // UNIQUE was written
	binary  bool // BINARY was written: the charset's _bin collation
}

// Clone is an independent copy.
func (t *Table) Clone() *Table {
	c := *t
	c.Columns = slices.Clone(t.Columns)
	c.Primary = slices.Clone(t.Primary)
	c.Unique, c.Index = cloneKeys(t.Unique), cloneKeys(t.Index)
	return &c
}

func cloneKeys(keys []UniqueKey) []UniqueKey {
	keys = slices.Clone(keys)
	for i := range keys {
		keys[i].Columns = slices.Clone(keys[i].Columns)
	}
	return keys
}

// Database is what a database gives to its new tables.
type Database struct {
	Charset   string
	Collation string // empty: the charset's default
}

// Alter is the database after CREATE or ALTER DATABASE.
func (d Database) Alter(e Effect) Database {
	if def := e.definition; def != nil {
		if def.charset != "" {
			d = Database{Charset: def.charset}
		}
		if def.collation != "" {
			d = Database{Charset: charsetOf(def.collation, d.Charset), Collation: def.collation}
		}
	}
	return d
}

func unknownf(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrUnknown, fmt.Sprintf(format, args...))
}

// Create is the table that a CreateTable effect makes in a database. For Like, clone the other's description instead.
func Create(e Effect, db Database) (*Table, error) {
	d := e.definition
	if d == nil {
		return nil, unknownf("%s", e.why)
	}
	t := &Table{Charset: db.Charset, Collation: db.Collation}
	t.charset(d)
	if d.comment != nil {
		t.Comment = *d.comment
	}
	for _, a := range d.columns {
		t.Columns = append(t.Columns, t.finish(a.column, e.options))
	}
	implicitTimestamps(t.Columns, e.options)
	if err := t.addKeys(d); err != nil {
		return nil, err
	}
	t.sortKeys()
	return t, nil
}

// sortKeys goes as the servers do: unique keys that cannot be NULL come first, and of them those of whole columns.
func (t *Table) sortKeys() {
	rank := func(k UniqueKey) int {
		n := 0
		if !k.Whole || slices.ContainsFunc(k.Columns, func(name string) bool { i := t.find(name); return i >= 0 && long(t.Columns[i]) }) {
			n = 1
		}
		if slices.ContainsFunc(k.Columns, func(name string) bool { i := t.find(name); return i >= 0 && t.Columns[i].Nullable }) {
			n += 2
		}
		return n
	}
	slices.SortStableFunc(t.Unique, func(a, b UniqueKey) int { return rank(a) - rank(b) })
}

// maxKeyBytes is what InnoDB takes of a column into a key.
const maxKeyBytes = 3072

// long says whether a key can only have a part of a column's values; MariaDB makes a hash of them where it should have all.
func long(c Column) bool {
	return strings.HasSuffix(c.Type, "text") || strings.HasSuffix(c.Type, "blob") ||
		strings.HasPrefix(c.Type, "var") && c.Length*bytesPer(c.Charset) > maxKeyBytes
}

// PrimaryKey is the key that the servers take as the primary one: where there is none, the first unique key of columns that cannot be
// NULL and that it has in whole.
func (t *Table) PrimaryKey() []string {
	if len(t.Primary) > 0 {
		return t.Primary
	}
	for _, k := range t.Unique {
		if k.Whole && len(k.Columns) > 0 && !slices.ContainsFunc(k.Columns, func(name string) bool {
			i := t.find(name)
			return i < 0 || t.Columns[i].Nullable || long(t.Columns[i])
		}) {
			return k.Columns
		}
	}
	return nil
}

// implicitTimestamps gives the table's first timestamp column the current time, if the statement defines it without a default, and
// others zero.
func implicitTimestamps(columns []Column, o Options) {
	first := true
	for i := range columns {
		c := &columns[i]
		defined := c.defined
		if c.defined = false; c.Type != "timestamp" || !o.ImplicitTimestamps {
			continue
		}
		if defined && !c.stated {
			c.Nullable = false
		}
		if defined && !c.Nullable && c.Default == nil && !c.OnUpdate && c.Generated == "" {
			text := "0000-00-00 00:00:00"
			if first {
				text, c.DefaultExpr, c.OnUpdate = "CURRENT_TIMESTAMP", true, true
			}
			c.Default = &text
		}
		first = false
	}
}

// charset takes the table's own charset and collation.
func (t *Table) charset(d *definition) {
	if d.charset != "" {
		t.Charset, t.Collation = d.charset, ""
	}
	if d.collation != "" {
		t.Charset, t.Collation = charsetOf(d.collation, t.Charset), d.collation
	}
}

// finish gives a column what the table has for it.
func (t *Table) finish(c Column, o Options) Column {
	if c.Charset == "" && c.Collation != "" {
		c.Charset = charsetOf(c.Collation, t.Charset)
	}
	c.defined = true
	inherited := c.Charset == ""
	if hasCharset(c.Type) && inherited {
		c.Charset = t.Charset
		if c.Collation == "" {
			c.Collation = t.Collation
		}
	}
	if c.binary && c.Charset != "binary" {
		c.Collation = c.Charset + "_bin"
	}
	c = byCharset(c)
	if c.primary || c.AutoIncrement {
		c.Nullable = false
	}
	if o.Flavour == MariaDB && c.Type == "json" {
		c.Type, c.Charset, c.Collation, c.Length = "longtext", "utf8mb4", "utf8mb4_bin", -1
	}
	if o.Flavour == MariaDB && c.Type == "geomcollection" {
		c.Type = "geometrycollection"
	}
	return c
}

func (t *Table) find(name string) int {
	return slices.IndexFunc(t.Columns, func(c Column) bool { return strings.EqualFold(c.Name, name) })
}

func (t *Table) addKeys(d *definition) error {
	for _, k := range d.keys {
		if err := t.addKey(k); err != nil {
			return err
		}
	}
	for _, name := range t.Primary {
		i := t.find(name)
		if i < 0 {
			return unknownf("the primary key's column %s is not there", name)
		}
		t.Columns[i].Nullable = false
	}
	return nil
}

func (t *Table) addKey(k keyClause) error {
	columns := slices.Clone(k.columns)
	for i, name := range columns {
		at := t.find(name)
		if at < 0 {
			return unknownf("a key's column %s is not there", name)
		}
		columns[i] = t.Columns[at].Name // as the column is written
	}
	if k.primary {
		t.Primary = columns
		return nil
	}
	if k.name == "" {
		k.name = t.keyName(k)
	}
	if k.ifNotExists && t.hasKey(k.name) {
		return nil
	}
	added := UniqueKey{Name: k.name, Columns: columns, Whole: k.whole}
	if k.unique {
		t.Unique = append(t.Unique, added)
	} else {
		t.Index = append(t.Index, added)
	}
	return nil
}

func key(keys []UniqueKey, name string) int {
	return slices.IndexFunc(keys, func(k UniqueKey) bool { return strings.EqualFold(k.Name, name) })
}

func (t *Table) hasKey(name string) bool { return key(t.Unique, name) >= 0 || key(t.Index, name) >= 0 }

// keyName is the name that the server gives: of the first column, with a number if that is taken.
func (t *Table) keyName(k keyClause) string {
	base := "functional_index"
	if len(k.columns) > 0 {
		base = t.Columns[t.find(k.columns[0])].Name
	}
	name := base
	for n := 2; t.hasKey(name) || strings.EqualFold(name, "PRIMARY"); n++ {
		name = fmt.Sprintf("%s_%d", base, n)
	}
	return name
}

// Alter is the table after an AlterTable effect on it.
func (t *Table) Alter(e Effect) (*Table, error) {
	d := e.definition
	if d == nil {
		return nil, unknownf("%s", e.why)
	}
	n := t.Clone()
	n.charset(d)
	if d.comment != nil {
		n.Comment = *d.comment
	}
	for _, name := range d.keyDrops {
		if i := key(n.Unique, name); i >= 0 {
			n.Unique = slices.Delete(n.Unique, i, i+1)
		} else if i := key(n.Index, name); i >= 0 {
			n.Index = slices.Delete(n.Index, i, i+1)
		} else if strings.EqualFold(name, "PRIMARY") {
			n.Primary = nil
		}
	}
	for _, r := range d.keyRenames {
		if i := key(n.Unique, r.from); i >= 0 {
			n.Unique[i].Name = r.to
		} else if i := key(n.Index, r.from); i >= 0 {
			n.Index[i].Name = r.to
		}
	}
	if err := n.alterColumns(d, e.options); err != nil {
		return nil, err
	}
	implicitTimestamps(n.Columns, e.options)
	if d.convert {
		for _, a := range d.columns {
			if hasCharset(a.column.Type) {
				return nil, unknownf("column %s is defined by the statement that converts the table, which may change its type", a.column.Name)
			}
		}
		if err := n.convert(e.options); err != nil {
			return nil, err
		}
	}
	if err := n.addKeys(d); err != nil {
		return nil, err
	}
	n.sortKeys()
	return n, nil
}

// alterColumns goes as the servers do: columns that stay or change in place first, then, as written, those that are new or
// move. Until it moves, a column stands in its old place on MySQL, where another may go after it, and nowhere on MariaDB.
func (t *Table) alterColumns(d *definition, o Options) error {
	dropped := map[string]bool{}
	for _, c := range d.drops {
		if i := t.find(c.name); i >= 0 {
			dropped[t.Columns[i].Name] = true
		} else if !c.ifExists {
			return unknownf("column %s is dropped and not there", c.name)
		}
	}
	byOld := map[string]*columnClause{}
	for i := range d.columns {
		a := &d.columns[i]
		if a.old == "" {
			earlier := slices.ContainsFunc(d.columns[:i], func(b columnClause) bool { return strings.EqualFold(b.column.Name, a.column.Name) })
			if a.ifExists && (earlier || t.find(a.column.Name) >= 0) {
				return t.alterColumns(withoutColumn(d, i), o)
			}
			continue
		}
		at := t.find(a.old)
		if at < 0 {
			if !a.ifExists {
				return unknownf("column %s is changed and not there", a.old)
			}
			return t.alterColumns(withoutColumn(d, i), o)
		}
		byOld[t.Columns[at].Name] = a
	}
	renamed := map[string]string{}
	var columns []Column
	for _, c := range t.Columns {
		if dropped[c.Name] {
			renamed[c.Name] = ""
			for _, a := range d.columns {
				if a.old == "" && strings.EqualFold(a.column.Name, c.Name) {
					renamed[c.Name] = a.column.Name // its keys stay, on the new column of the name
				}
			}
			continue
		}
		old := c.Name
		if a := byOld[old]; a != nil {
			renamed[old] = a.column.Name
			if (a.first || a.after != "") && o.Flavour == MariaDB {
				continue
			}
			columns = append(columns, t.finish(a.column, o))
			continue
		}
		for _, r := range d.columnRenames {
			if strings.EqualFold(r.from, old) {
				c.Name = r.to
				renamed[old] = r.to
			}
		}
		for _, s := range d.sets {
			if strings.EqualFold(s.name, old) {
				s.apply(&c)
			}
		}
		columns = append(columns, c)
	}
	for i := range d.columns {
		a := &d.columns[i]
		if a.old != "" && !a.first && a.after == "" {
			continue
		}
		if a.old != "" {
			columns = slices.DeleteFunc(columns, func(c Column) bool { return strings.EqualFold(c.Name, a.column.Name) })
		}
		at := len(columns)
		switch {
		case a.first:
			at = 0
		case a.after != "":
			at = 1 + slices.IndexFunc(columns, func(c Column) bool { return strings.EqualFold(c.Name, a.after) })
			if at == 0 {
				return unknownf("column %s, after which %s goes, is not there", a.after, a.column.Name)
			}
		}
		columns = slices.Insert(columns, at, t.finish(a.column, o))
	}
	t.Columns = columns
	if i := t.generatedKey(); i > 0 && o.Flavour == MySQL {
		c := t.Columns[i] // it stays the first, whatever is put before it
		t.Columns = slices.Insert(slices.Delete(t.Columns, i, i+1), 0, c)
	}
	t.Primary = renameAll(t.Primary, renamed)
	t.Unique, t.Index = renameKeys(t.Unique, renamed), renameKeys(t.Index, renamed)
	return nil
}

// renameKeys leaves out keys of which no column is left.
func renameKeys(keys []UniqueKey, renamed map[string]string) []UniqueKey {
	for i := range keys {
		keys[i].Columns = renameAll(keys[i].Columns, renamed)
	}
	return slices.DeleteFunc(keys, func(k UniqueKey) bool { return k.Whole && len(k.Columns) == 0 })
}

// generatedKey is the column that MySQL makes for a table without a primary key, -1 if there is none.
func (t *Table) generatedKey() int {
	if len(t.Primary) != 1 || t.Primary[0] != "my_row_id" {
		return -1
	}
	return slices.IndexFunc(t.Columns, func(c Column) bool {
		return c.Name == "my_row_id" && c.Type == "bigint" && c.Unsigned && c.AutoIncrement && c.Invisible
	})
}

func withoutColumn(d *definition, i int) *definition {
	c := *d
	c.columns = slices.Delete(slices.Clone(d.columns), i, i+1)
	return &c
}

func renameAll(names []string, renamed map[string]string) []string {
	var out []string
	for _, n := range names {
		to, ok := renamed[n]
		if !ok {
			to = n
		}
		if to != "" {
			out = append(out, to)
		}
	}
	return out
}

// convert is CONVERT TO CHARACTER SET: every column with a charset takes the table's.
func (t *Table) convert(o Options) error {
	for i := range t.Columns {
		c := &t.Columns[i]
		if c.Charset == "" || c.Charset == "binary" {
			continue // an enum may be binary
		}
		was := c.Charset
		if o.Flavour == MariaDB && len(c.Values) > 0 && (was == "ucs2" || was == "utf16" || was == "utf16le" || was == "utf32") {
			return unknownf("MariaDB gives NUL bytes to the labels of column %s, converted from %s", c.Name, was)
		}
		c.Charset, c.Collation = t.Charset, t.Collation
		*c = grown(byCharset(*c), was)
	}
	return nil
}
