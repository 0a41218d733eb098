package chunks

import (
	"slices"
	"strings"
)

// Table is what is to be read.
type Table struct {
	Database, Name string
	// Columns to read, in the order of the rows; invisible ones too (M22).
	Columns []string
	// Keys are the table's unique keys, in the server's order.
	Keys []Key
}

// Key is a unique key.
type Key struct {
	Name    string // of the index
	Columns []KeyColumn
}

// KeyColumn is a column of a key.
type KeyColumn struct {
	Name     string
	DataType string // information_schema's: int, enum
	Nullable bool
	// Partial says that the index does not order the whole value: it has a prefix of it, an expression, or a hash.
	Partial bool
}

const primary = "PRIMARY"

// Collection is the table's name as it is in topics.
func (t *Table) Collection() string { return t.Database + "." + t.Name }

func (t *Table) quoted() string { return quote(t.Database) + "." + quote(t.Name) }

func quote(name string) string { return "`" + strings.ReplaceAll(name, "`", "``") + "`" }

// ChooseKey is the key that orders the chunks and tells rows apart: the primary key if it can, else the first that can, and of those
// rather one of which every column can be searched for; nil if there is none. Its columns must be among those that are read.
func (t *Table) ChooseKey() *Key {
	var best *Key
	for i := range t.Keys {
		k := &t.Keys[i]
		switch {
		case !k.usable(t.Columns):
		case strings.EqualFold(k.Name, primary):
			return k
		case best == nil || !best.searchable() && k.searchable():
			best = k
		}
	}
	return best
}

func (k *Key) usable(columns []string) bool {
	for _, c := range k.Columns {
		if c.Nullable || c.Partial || !slices.Contains(columns, c.Name) {
			return false
		}
	}
	return len(k.Columns) > 0
}

func (k *Key) searchable() bool {
	for i := range k.Columns {
		if k.Columns[i].numbered() {
			return false
		}
	}
	return true
}

// numbered says whether the column is an ENUM or SET: it is ordered by the label's number and compared by its text, so that the
// number has to be asked for.
func (c *KeyColumn) numbered() bool {
	return strings.EqualFold(c.DataType, "enum") || strings.EqualFold(c.DataType, "set")
}

// expression is what compares as the index orders.
func (c *KeyColumn) expression() string {
	if c.numbered() {
		return "CAST(" + quote(c.Name) + " AS UNSIGNED)"
	}
	return quote(c.Name)
}

// printed says whether the column is of a type of MariaDB's that comes and goes as its text.
func (c *KeyColumn) printed() bool {
	switch strings.ToLower(c.DataType) {
	case "uuid", "inet4", "inet6":
		return true
	}
	return false
}

// signature tells one key from another, so that a Cursor is not taken for one of a key that replaced its own.
func (k *Key) signature() string {
	var b strings.Builder
	b.WriteString(k.Name)
	for _, c := range k.Columns {
		b.WriteString("\x00" + c.Name + "\x00" + strings.ToLower(c.DataType))
	}
	return b.String()
}
