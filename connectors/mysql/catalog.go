package mysql

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/rowtrail/rowtrail/connectors/event"
	"github.com/rowtrail/rowtrail/connectors/mysql/chunks"
)

// table is a table as the source's catalog has it now.
type table struct {
	schema, name string
	engine       string
	columns      []column
	primary      []string
	keys         []chunks.Key
	unique       []string // of a unique key on whole columns that are NOT NULL, where there is no primary key
	rows         int64    // as the server estimates

	described []event.TableColumn // as the stream describes them; nil: not asked
	refused   []error             // why one of them cannot be captured
}

func (t *table) String() string { return t.schema + "." + t.name }

func (t *table) quoted() string { return quoteIdent(t.schema) + "." + quoteIdent(t.name) }

func (t *table) column(name string) *column {
	if t == nil {
		return nil
	}
	for i := range t.columns {
		if t.columns[i].name == name {
			return &t.columns[i]
		}
	}
	return nil
}

// columnsOf are all columns: as the stream describes them, or as information_schema does. errs has why one cannot be captured.
func (t *table) columnsOf() (all []event.TableColumn, errs []error) {
	if t.described != nil {
		return t.described, t.refused
	}
	key := t.primary
	if len(key) == 0 {
		key = t.unique
	}
	all, errs = make([]event.TableColumn, len(t.columns)), make([]error, len(t.columns))
	for i := range t.columns {
		c := &t.columns[i]
		at := slices.Index(key, c.name) + 1
		all[i].Column, errs[i] = event.MySQLColumn(c.name, c.facts, c.notNull, at)
		all[i].Name, all[i].Key = c.name, at
	}
	return all, errs
}

// columnsOf are the captured columns of a table as the catalog has it.
func (c *Config) columnsOf(t *table) ([]event.Column, error) {
	all, errs := t.columnsOf()
	list, err := c.captured(t.schema, t.name, all, errs)
	return bare(list), err
}

// column is a column likewise.
type column struct {
	name    string
	facts   event.MySQLFacts
	notNull bool
}

// catalog reads the captured tables; with a name, that one alone, captured or not.
func (c *Config) catalog(ctx context.Context, s *session, schema, name string) ([]*table, error) {
	where := "table_schema NOT IN ('mysql', 'information_schema', 'performance_schema', 'sys')"
	if name != "" {
		where = "table_schema = " + quoteLiteral(schema) + " AND table_name = " + quoteLiteral(name)
	}
	found, err := s.query(ctx, `SELECT table_schema, table_name, coalesce(engine, ''), coalesce(table_rows, 0) FROM information_schema.tables
 WHERE table_type IN ('BASE TABLE', 'SYSTEM VERSIONED') AND `+where+" ORDER BY 1, 2")
	if err != nil {
		return nil, fmt.Errorf("list tables: %w", err)
	}
	var list []*table
	byName := map[string]*table{}
	for _, r := range found {
		t := &table{schema: string(r[0]), name: string(r[1]), engine: string(r[2])}
		t.rows, _ = strconv.ParseInt(string(r[3]), 10, 64)
		if name == "" && !c.captures(t.schema, t.name) {
			continue
		}
		list = append(list, t)
		byName[t.String()] = t
	}
	if len(list) == 0 {
		return nil, nil
	}
	if err := readColumns(ctx, s, where, c.MariaDB, byName); err != nil {
		return nil, err
	}
	return list, readKeys(ctx, s, where, byName)
}

func readColumns(ctx context.Context, s *session, where string, mariaDB bool, byName map[string]*table) error {
	srs := "srs_id"
	if mariaDB {
		srs = "NULL"
	}
	found, err := s.query(ctx, `SELECT table_schema, table_name, column_name, data_type, column_type, is_nullable, character_maximum_length, numeric_precision, numeric_scale,
 datetime_precision, character_set_name, collation_name, column_default, extra, generation_expression, `+srs+`
 FROM information_schema.columns WHERE `+where+" ORDER BY table_schema, table_name, ordinal_position")
	if err != nil {
		return fmt.Errorf("read columns: %w", err)
	}
	for _, r := range found {
		if t := byName[string(r[0])+"."+string(r[1])]; t != nil {
			t.columns = append(t.columns, readColumn(r[2:], mariaDB))
		}
	}
	return nil
}

// readColumn reads column_name and what follows.
func readColumn(r [][]byte, mariaDB bool) column {
	number := func(b []byte, none int) int {
		n, err := strconv.Atoi(string(b))
		if err != nil {
			return none
		}
		return n
	}
	extra := strings.ToUpper(string(r[11]))
	c := column{name: string(r[0]), notNull: string(r[3]) == "NO"}
	f := &c.facts
	f.DataType, f.ColumnType = strings.ToLower(string(r[1])), string(r[2])
	f.Length = int64(number(r[4], -1))
	f.Precision, f.Scale = number(r[5], 0), number(r[6], -1)
	f.Fraction = number(r[7], 0)
	f.Charset, f.Collation = string(r[8]), string(r[9])
	f.Unsigned = strings.Contains(f.ColumnType, "unsigned")
	f.Generated = len(r[12]) > 0
	f.Invisible = strings.Contains(extra, "INVISIBLE")
	if f.DataType == "enum" || f.DataType == "set" {
		f.Labels = labels(f.ColumnType)
	}
	if f.DataType == "vector" {
		if _, rest, ok := strings.Cut(f.ColumnType, "("); ok {
			f.Dimension = number([]byte(strings.TrimRight(rest, ")")), 0)
		}
	}
	if n, err := strconv.ParseUint(string(r[13]), 10, 32); r[13] != nil && err == nil {
		srid := uint32(n)
		f.SRID = &srid
	}
	// Only MySQL says by itself that a default is an expression; MariaDB quotes what is none.
	f.Computed = r[10] != nil && !(mariaDB && string(r[10]) == "NULL")
	return c
}

// labels are those of enum('a','it”s').
func labels(typ string) []string {
	var list []string
	open := strings.IndexByte(typ, '(')
	var label strings.Builder
	quoted := false
	for i := open + 1; i > 0 && i < len(typ); i++ {
		switch b := typ[i]; {
		case b != '\'' && quoted:
			label.WriteByte(b)
		case b != '\'':
		case quoted && i+1 < len(typ) && typ[i+1] == '\'':
			label.WriteByte('\'')
			i++
		default:
			if quoted {
				list = append(list, label.String())
				label.Reset()
			}
			quoted = !quoted
		}
	}
	return list
}

func readKeys(ctx context.Context, s *session, where string, byName map[string]*table) error {
	found, err := s.query(ctx, `SELECT table_schema, table_name, index_name, column_name, sub_part, index_type FROM information_schema.statistics
 WHERE non_unique = 0 AND `+where+" ORDER BY table_schema, table_name, index_name = 'PRIMARY' DESC, index_name, seq_in_index")
	if err != nil {
		return fmt.Errorf("read keys: %w", err)
	}
	unfit := map[string]bool{} // unique keys of prefixes, expressions or columns that may be NULL
	chosen := map[*table]string{}
	for _, r := range found {
		t := byName[string(r[0])+"."+string(r[1])]
		if t == nil {
			continue
		}
		index, col := string(r[2]), t.column(string(r[3]))
		if n := len(t.keys); n == 0 || t.keys[n-1].Name != index {
			t.keys = append(t.keys, chunks.Key{Name: index})
		}
		key := chunks.KeyColumn{Name: string(r[3]), Partial: true}
		if col != nil {
			// MariaDB's unique keys on long values are of a hash.
			key.DataType, key.Nullable, key.Partial = col.facts.DataType, !col.notNull, r[4] != nil || string(r[5]) == "HASH" && t.engine == "InnoDB"
		}
		last := &t.keys[len(t.keys)-1]
		last.Columns = append(last.Columns, key)
		if index == "PRIMARY" {
			t.primary = append(t.primary, string(r[3]))
			continue
		}
		if key.Partial || key.Nullable {
			unfit[t.String()+"."+index] = true
		}
		if now, any := chosen[t]; any && now != index && !unfit[t.String()+"."+now] {
			continue
		}
		if chosen[t] != index {
			chosen[t], t.unique = index, nil
		}
		t.unique = append(t.unique, string(r[3]))
	}
	for t, index := range chosen {
		if unfit[t.String()+"."+index] {
			t.unique = nil
		}
	}
	return nil
}
