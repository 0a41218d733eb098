package sink

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// TableName is a table of a target, with the schema, or the database of MySQL, that it is in.
type TableName struct{ Schema, Table string }

// Naming tells which table of a target a source table is.
type Naming struct {
	Schema string               // of all tables that Map does not have; "": the source's
	Map    map[string]TableName // by source schema.table
}

// Naming takes the properties that name tables; schema is the name of the one for all tables.
func (p *Properties) Naming(schema string) Naming {
	n := Naming{Schema: p.String(schema, ""), Map: make(map[string]TableName)}
	for item := range strings.SplitSeq(p.String("table.map", ""), ",") {
		item = strings.TrimSpace(item)
		if item == "" {
			continue
		}
		from, to, ok := strings.Cut(item, ":")
		schema, table, ok2 := strings.Cut(to, ".")
		if !ok || !ok2 || from == "" || schema == "" || table == "" {
			p.Fail("table.map", fmt.Errorf("%q is not of the form schema.table:schema.table", item))
			continue
		}
		n.Map[from] = TableName{schema, table}
	}
	return n
}

// For is the target's table.
func (n Naming) For(schema, table string) TableName {
	if to, ok := n.Map[schema+"."+table]; ok {
		return to
	}
	if n.Schema != "" {
		schema = n.Schema
	}
	return TableName{schema, table}
}

// Mapped lists the tables that Map names, in a fixed order.
func (n Naming) Mapped() []TableName {
	names := make([]TableName, 0, len(n.Map))
	for _, from := range slices.Sorted(maps.Keys(n.Map)) {
		names = append(names, n.Map[from])
	}
	return names
}
