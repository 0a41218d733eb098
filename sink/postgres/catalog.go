package postgres

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
	columns map[string]column
	keys    [][]string // columns of each unique index that can decide which row is meant
	// ordered: folding can offend another unique index, a foreign key or an exclusion constraint, so a window is written under
	// a savepoint and repeated in source order when it does.
	ordered bool
	// exact: row triggers see every single change, so windows are always written in source order.
	exact bool
}

func (t *table) String() string { return t.name.String() }

// column is a column of a target table.
type column struct {
	cast     string // type without a length, for casts: an explicit cast to varchar(3) would cut off silently
	declared string
	computed bool // generated: cannot be written

	enum      *enumType // nil unless its type, or its elements' type, is an enum
	enumArray bool
}

// lookup reads a table from the catalog; nil when there is none. It goes by the names and not by to_regclass: a server process
// that did not find a schema would not see it either when it has been created on another connection.
func (s *session) lookup(ctx context.Context, name tableName) (*table, error) {
	rows, err := query(ctx, s.conn, `SELECT a.attname, format_type(a.atttypid, -1), format_type(a.atttypid, a.atttypmod), a.attgenerated <> ''
		FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid JOIN pg_namespace n ON n.oid = c.relnamespace
		WHERE n.nspname = $1 AND c.relname = $2 AND c.relkind IN ('r', 'p') AND a.attnum > 0 AND NOT a.attisdropped`, name.Schema, name.Table)
	if err != nil {
		return nil, fmt.Errorf("read columns of %s: %w", name, err)
	}
	if len(rows) == 0 {
		return nil, nil
	}
	t := &table{name: name, columns: make(map[string]column, len(rows))}
	for _, r := range rows {
		t.columns[string(r[0])] = column{cast: string(r[1]), declared: string(r[2]), computed: string(r[3]) == "t"}
	}
	if err := s.lookupEnums(ctx, t); err != nil {
		return nil, err
	}
	return t, s.lookupRules(ctx, t)
}

// lookupRules reads what decides how a table may be written.
func (s *session) lookupRules(ctx context.Context, t *table) error {
	rows, err := query(ctx, s.conn, `SELECT i.indimmediate AND i.indpred IS NULL AND i.indexprs IS NULL,
			(SELECT array_agg(a.attname ORDER BY a.attname) FROM pg_attribute a WHERE a.attrelid = i.indrelid AND
				a.attnum = ANY (i.indkey::int2[]) AND a.attnum IN (SELECT k FROM unnest(i.indkey::int2[]) WITH ORDINALITY u(k, n) WHERE n <= i.indnkeyatts))
		FROM pg_index i WHERE i.indrelid = to_regclass($1) AND (i.indisunique OR i.indisexclusion)`, t.name.String())
	if err != nil {
		return fmt.Errorf("read indexes of %s: %w", t.name, err)
	}
	for _, r := range rows {
		if string(r[0]) == "t" && r[1] != nil {
			var names []string
			_ = eachElement(r[1], nil, func(name []byte) error {
				names = append(names, string(name))
				return nil
			})
			t.keys = append(t.keys, names)
		}
	}
	t.ordered = len(rows) > 1
	rows, err = query(ctx, s.conn, `SELECT
		EXISTS (SELECT FROM pg_constraint WHERE contype IN ('f', 'x') AND (conrelid = to_regclass($1) OR confrelid = to_regclass($1))),
		EXISTS (SELECT FROM pg_trigger WHERE tgrelid = to_regclass($1) AND NOT tgisinternal AND tgenabled <> 'D')`, t.name.String())
	if err != nil {
		return fmt.Errorf("read constraints of %s: %w", t.name, err)
	}
	t.ordered = t.ordered || string(rows[0][0]) == "t"
	t.exact = string(rows[0][1]) == "t"
	return nil
}

// checkKey refuses a table in which the record's key does not decide which row is meant.
func (t *table) checkKey(key []string) error {
	sorted := slices.Sorted(slices.Values(key))
	for _, k := range t.keys {
		if slices.Equal(k, sorted) {
			return nil
		}
	}
	quoted := make([]string, len(key))
	for i, k := range key {
		quoted[i] = quote(k)
	}
	list := strings.Join(quoted, ", ")
	return sink.Permanent(fmt.Errorf("table %s has no unique index on exactly (%s), the key of the records; ALTER TABLE %s ADD UNIQUE (%s)",
		t.name, list, t.name, list))
}
