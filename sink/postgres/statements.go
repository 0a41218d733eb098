package postgres

import (
	"context"
	"fmt"
	"strings"
)

// Statements of a binding: every parameter is a text array with one value per row.

// upsertSQL writes whole rows. The key alone decides what is a conflict: another unique index raises an error.
func (b *binding) upsertSQL() string {
	var sql strings.Builder
	sql.WriteString("INSERT INTO " + b.table.name.String() + " (")
	for i, c := range b.columns {
		comma(&sql, i)
		sql.WriteString(quote(c.name))
	}
	sql.WriteString(") OVERRIDING SYSTEM VALUE SELECT ")
	for i, c := range b.columns {
		comma(&sql, i)
		fmt.Fprintf(&sql, "u.c%d::%s", i, c.cast)
	}
	sql.WriteString(" FROM ")
	b.unnest(&sql, allColumns(len(b.columns)))
	sql.WriteString(" ON CONFLICT (")
	for i, c := range b.columns[:b.keys] {
		comma(&sql, i)
		sql.WriteString(quote(c.name))
	}
	sql.WriteString(") DO ")
	if len(b.columns) == b.keys {
		sql.WriteString("NOTHING")
		return sql.String()
	}
	sql.WriteString("UPDATE SET ")
	for i, c := range b.columns[b.keys:] {
		comma(&sql, i)
		sql.WriteString(quote(c.name) + " = EXCLUDED." + quote(c.name))
	}
	return sql.String()
}

// patchSQL writes the columns that are present to rows that are there.
func (b *binding) patchSQL(columns []int) string {
	var sql strings.Builder
	sql.WriteString("UPDATE " + b.table.name.String() + " t SET ")
	for i, c := range columns[b.keys:] {
		comma(&sql, i)
		fmt.Fprintf(&sql, "%s = u.c%d::%s", quote(b.columns[c].name), c, b.columns[c].cast)
	}
	if len(columns) == b.keys { // nothing but the key is there: the row only has to exist
		k := b.columns[0]
		fmt.Fprintf(&sql, "%s = t.%s", quote(k.name), quote(k.name))
	}
	sql.WriteString(" FROM ")
	b.unnest(&sql, columns)
	b.whereKey(&sql)
	return sql.String()
}

// moveSQL gives a row that is there another key, and writes the columns that are present. The parameters of the old key
// follow those of the columns.
func (b *binding) moveSQL(columns []int) string {
	var sql strings.Builder
	sql.WriteString("UPDATE " + b.table.name.String() + " t SET ")
	for i, c := range columns[:len(columns)-b.keys] {
		comma(&sql, i)
		fmt.Fprintf(&sql, "%s = u.c%d::%s", quote(b.columns[c].name), c, b.columns[c].cast)
	}
	sql.WriteString(" FROM ")
	b.unnest(&sql, columns)
	for i, c := range b.columns[:b.keys] {
		fmt.Fprintf(&sql, "%s t.%s = u.c%d::%s", and(i), quote(c.name), len(b.columns)+i, c.cast)
	}
	return sql.String()
}

func and(i int) string {
	if i == 0 {
		return " WHERE"
	}
	return " AND"
}

func (b *binding) deleteSQL() string {
	var sql strings.Builder
	sql.WriteString("DELETE FROM " + b.table.name.String() + " t USING ")
	b.unnest(&sql, allColumns(b.keys))
	b.whereKey(&sql)
	return sql.String()
}

func (b *binding) whereKey(sql *strings.Builder) {
	for i, c := range b.columns[:b.keys] {
		fmt.Fprintf(sql, "%s t.%s = u.c%d::%s", and(i), quote(c.name), i, c.cast)
	}
}

func (b *binding) unnest(sql *strings.Builder, columns []int) {
	sql.WriteString("unnest(")
	for i := range columns {
		comma(sql, i)
		fmt.Fprintf(sql, "$%d::text[]", i+1)
	}
	sql.WriteString(") AS u(")
	for i, c := range columns {
		comma(sql, i)
		fmt.Fprintf(sql, "c%d", c)
	}
	sql.WriteString(")")
}

func comma(sql *strings.Builder, i int) {
	if i > 0 {
		sql.WriteString(", ")
	}
}

func allColumns(n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	return all
}

// columnsFrom lists n columns from first on: the old key of a move.
func columnsFrom(first, n int) []int {
	list := make([]int, n)
	for i := range list {
		list[i] = first + i
	}
	return list
}

// maskColumns lists the columns that a mask has.
func maskColumns(mask string) []int {
	var columns []int
	for i := range len(mask) {
		if mask[i] == '1' {
			columns = append(columns, i)
		}
	}
	return columns
}

// prepared is a statement that the server has.
type prepared struct {
	name    string
	columns []int // of the binding, in the order of the parameters
}

// statement returns a prepared statement, preparing it on first use. kind is u, d, or p or m and a mask.
func (s *session) statement(ctx context.Context, b *binding, kind string) (prepared, error) {
	if p, ok := b.sql[kind]; ok {
		return p, nil
	}
	var sql string
	columns := allColumns(len(b.columns))
	switch kind[0] {
	case 'u':
		sql = b.upsertSQL()
	case 'd':
		columns = columns[:b.keys]
		sql = b.deleteSQL()
	case 'm':
		columns = append(maskColumns(kind[1:]), columnsFrom(len(b.columns), b.keys)...)
		sql = b.moveSQL(columns)
	default:
		columns = maskColumns(kind[1:])
		sql = b.patchSQL(columns)
	}
	s.prepared++
	p := prepared{fmt.Sprintf("rowtrail_%d", s.prepared), columns}
	if _, err := s.conn.Prepare(ctx, p.name, sql, nil); err != nil {
		return prepared{}, fmt.Errorf("prepare statement for %s: %w", b.table.name, err)
	}
	b.sql[kind] = p
	return p, nil
}
