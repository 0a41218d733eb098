package mysql

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/rowtrail/rowtrail/sink"
)

// table is a target table as the catalog has it.
type table struct {
	name    tableName
	order   []string // names of the columns that can be written
	columns map[string]column
	keys    [][]string // columns of each unique index that can decide which row is meant
	// ordered: folding can offend another unique index or a foreign key, so a window is written under a savepoint and repeated in
	// source order when it does.
	ordered bool
	// exact: triggers see every single change, so windows are always written in source order.
	exact bool
	// referenced: taking a row away for a moment would reach the rows that refer to it.
	referenced bool

	stage *stage
}

func (t *table) String() string { return t.name.String() }

// column is a column of a target table.
type column struct {
	data     string // bigint, varchar
	declared string // as it can be declared again, with its charset
	collate  string
	computed bool // generated: cannot be written
	nothing  bool // an ENUM of which '' is no label: writing it is index 0
	never    bool // a TIMESTAMP that is NOT NULL: NULL would be the current time
}

// lookup reads a table from the catalog; nil when there is none.
func (s *session) lookup(ctx context.Context, name tableName) (*table, error) {
	where := " WHERE table_schema = " + literal(name.Schema) + " AND table_name = " + literal(name.Table)
	rows, err := s.conn.query(ctx, "SELECT engine, table_type FROM information_schema.tables"+where)
	if err != nil {
		return nil, fmt.Errorf("look for %s: %w", name, err)
	}
	if len(rows) == 0 {
		return nil, nil
	}
	switch {
	case rows[0][1] != "BASE TABLE":
		return nil, sink.Permanent(fmt.Errorf("%s is a %s, and a sink writes tables only: name another one in table.map", name, strings.ToLower(rows[0][1])))
	case rows[0][0] != "InnoDB":
		return nil, sink.Permanent(fmt.Errorf("table %s has the engine %s, whose rows and the sink's offsets cannot be written in one transaction: ALTER TABLE %s ENGINE = InnoDB",
			name, rows[0][0], name))
	}
	rows, err = s.conn.query(ctx, "SELECT column_name, data_type, column_type, COALESCE(character_set_name, ''), COALESCE(collation_name, ''), "+
		"COALESCE(generation_expression, '') <> '', is_nullable FROM information_schema.columns"+where+" ORDER BY ordinal_position")
	if err != nil {
		return nil, fmt.Errorf("read columns of %s: %w", name, err)
	}
	t := &table{name: name, columns: make(map[string]column, len(rows))}
	for _, r := range rows {
		c := column{data: strings.ToLower(r[1]), declared: r[2], collate: r[4], computed: r[5] != "0"}
		if r[3] != "" {
			c.declared += " CHARACTER SET " + r[3]
		}
		c.nothing = c.data == "enum" && !slices.Contains(labelsOf(r[2]), "")
		c.never = c.data == "timestamp" && r[6] == "NO"
		t.columns[r[0]] = c
		if !c.computed {
			t.order = append(t.order, r[0])
		}
	}
	return t, s.lookupRules(ctx, t)
}

// lookupRules reads what decides how a table may be written.
func (s *session) lookupRules(ctx context.Context, t *table) error {
	schema, name := literal(t.name.Schema), literal(t.name.Table)
	rows, err := s.conn.query(ctx, "SELECT index_name, COALESCE(column_name, ''), COALESCE(sub_part, 0) FROM information_schema.statistics WHERE table_schema = "+schema+
		" AND table_name = "+name+" AND non_unique = 0 ORDER BY index_name, seq_in_index")
	if err != nil {
		return fmt.Errorf("read indexes of %s: %w", t.name, err)
	}
	indexes := map[string][]string{}
	partly := map[string]bool{} // of a part of a column, or of an expression
	for _, r := range rows {
		indexes[r[0]] = append(indexes[r[0]], r[1])
		partly[r[0]] = partly[r[0]] || r[1] == "" || r[2] != "0"
	}
	for index, columns := range indexes {
		if !partly[index] {
			t.keys = append(t.keys, columns)
		}
	}
	rows, err = s.conn.query(ctx, "SELECT (SELECT COUNT(*) FROM information_schema.referential_constraints WHERE constraint_schema = "+schema+" AND table_name = "+name+"), "+
		"(SELECT COUNT(*) FROM information_schema.referential_constraints WHERE unique_constraint_schema = "+schema+" AND referenced_table_name = "+name+"), "+
		"(SELECT COUNT(*) FROM information_schema.triggers WHERE event_object_schema = "+schema+" AND event_object_table = "+name+")")
	if err != nil {
		return fmt.Errorf("read constraints of %s: %w", t.name, err)
	}
	t.referenced = rows[0][1] != "0"
	t.ordered = len(indexes) > 1 || rows[0][0] != "0" || t.referenced
	t.exact = rows[0][2] != "0"
	return nil
}

// checkKey refuses a table in which the record's key does not decide which row is meant.
func (t *table) checkKey(key []string) error {
	want := slices.Sorted(slices.Values(key))
	for _, k := range t.keys {
		if slices.Equal(slices.Sorted(slices.Values(k)), want) {
			return nil
		}
	}
	return sink.Permanent(fmt.Errorf("table %s has no unique index on exactly (%s), the key of the records, as whole columns; ALTER TABLE %s ADD UNIQUE (%s)",
		t.name, quoted(key), t.name, quoted(key)))
}

// labelsOf reads the labels out of enum('a','it”s').
func labelsOf(declared string) (labels []string) {
	_, list, _ := strings.Cut(declared, "(")
	for i := 0; i < len(list); i++ {
		if list[i] != '\'' {
			continue
		}
		var b strings.Builder
		for i++; i < len(list); i++ {
			if list[i] == '\'' {
				if i+1 >= len(list) || list[i+1] != '\'' {
					break
				}
				i++
			}
			b.WriteByte(list[i])
		}
		labels = append(labels, b.String())
	}
	return labels
}
