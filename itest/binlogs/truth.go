package binlogs

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/go-mysql-org/go-mysql/client"
	"github.com/go-mysql-org/go-mysql/mysql"
)

// truth is what the tables of a database hold as the server itself prints it: under utf8mb4 and UTC, binary strings,
// geometries and vectors as \x and hex, bits as digits, floats as the shortest text that reads back to the same bits.
type truth struct {
	conn     *client.Conn
	database string
	last     map[string]Table
}

// Contents are the tables of a database as the server prints them; the session's settings are set for it.
func Contents(conn *client.Conn, database string) ([]Table, error) {
	t, err := newTruth(conn, database)
	if err != nil {
		return nil, err
	}
	return t.changes()
}

func newTruth(conn *client.Conn, database string) (*truth, error) {
	for _, s := range []string{"SET NAMES utf8mb4", "SET time_zone='+00:00', sql_mode=''", "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED"} {
		if _, err := conn.Execute(s); err != nil {
			return nil, fmt.Errorf("%s: %w", s, err)
		}
	}
	return &truth{conn: conn, database: database, last: map[string]Table{}}, nil
}

// changes are the tables that are others than at the last call.
func (t *truth) changes() ([]Table, error) {
	columns, err := t.columns()
	if err != nil {
		return nil, err
	}
	var changed []Table
	for _, name := range sortedKeys(columns) {
		table := Table{Schema: t.database, Name: name, Columns: columns[name]}
		if table.Rows, err = t.rows(name, table.Columns); err != nil {
			return nil, err
		}
		if last, ok := t.last[name]; ok && reflect.DeepEqual(last, table) {
			continue
		}
		t.last[name] = table
		changed = append(changed, table)
	}
	for _, name := range sortedKeys(t.last) {
		if columns[name] == nil {
			delete(t.last, name)
			changed = append(changed, Table{Schema: t.database, Name: name, Dropped: true})
		}
	}
	return changed, nil
}

func (t *truth) columns() (map[string][]Column, error) {
	res, err := t.conn.Execute(`SELECT CAST(c.table_name AS CHAR), CAST(c.column_name AS CHAR), CAST(c.column_type AS CHAR),
		IFNULL(c.character_set_name, ''), IFNULL(c.collation_name, ''), CAST(c.column_key AS CHAR), CAST(c.extra AS CHAR),
		CAST(c.is_nullable AS CHAR)
		FROM information_schema.columns c JOIN information_schema.tables t
		ON t.table_schema = c.table_schema AND t.table_name = c.table_name
		WHERE c.table_schema = '` + t.database + `' AND t.table_type = 'BASE TABLE'
		ORDER BY c.table_name, c.ordinal_position`)
	if err != nil {
		return nil, fmt.Errorf("read columns: %w", err)
	}
	columns := map[string][]Column{}
	for _, v := range res.Values {
		s := make([]string, len(v))
		for i := range v {
			s[i] = string(v[i].AsString())
		}
		columns[s[0]] = append(columns[s[0]], Column{
			Name: s[1], Type: s[2], Charset: s[3], Collation: s[4], Key: s[5], Extra: s[6], Nullable: s[7] == "YES",
		})
	}
	return columns, nil
}

func (t *truth) rows(table string, columns []Column) ([][]*string, error) {
	var exprs []string
	floats := false
	for _, c := range columns {
		exprs = append(exprs, expression(c))
		floats = floats || isFloat(c)
	}
	query := fmt.Sprintf("SELECT %s FROM %s.%s", strings.Join(exprs, ", "), quote(t.database), quote(table))
	printed, err := t.conn.Execute(query)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", query, err)
	}
	exact := printed
	if floats { // only the binary protocol has their bits
		stmt, err := t.conn.Prepare(query)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", query, err)
		}
		defer stmt.Close()
		if exact, err = stmt.Execute(); err != nil {
			return nil, fmt.Errorf("%s: %w", query, err)
		}
	}
	var rows [][]*string
	for i, values := range printed.Values {
		row := make([]*string, len(values))
		for j, v := range values {
			switch {
			case v.Type == mysql.FieldValueTypeNull:
			case isFloat(columns[j]):
				row[j] = new(floatText(exact.Values[i][j].AsFloat64(), columns[j]))
			default:
				row[j] = new(valueText(v))
			}
		}
		rows = append(rows, row)
	}
	slices.SortFunc(rows, func(a, b []*string) int { return strings.Compare(rowText(a), rowText(b)) })
	return rows, nil
}

func valueText(v mysql.FieldValue) string {
	switch v.Type {
	case mysql.FieldValueTypeSigned:
		return strconv.FormatInt(v.AsInt64(), 10)
	case mysql.FieldValueTypeUnsigned:
		return strconv.FormatUint(v.AsUint64(), 10)
	default:
		return string(v.AsString())
	}
}

func rowText(row []*string) string {
	var b strings.Builder
	for _, v := range row {
		if v != nil {
			b.WriteString(*v)
		}
		b.WriteByte(0)
	}
	return b.String()
}

// expression prints a column so that nothing is lost.
func expression(c Column) string {
	name := quote(c.Name)
	kind, _, _ := strings.Cut(c.Type, " ")
	kind, args, _ := strings.Cut(kind, "(")
	switch kind {
	case "binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob", "vector",
		"geometry", "point", "linestring", "polygon", "multipoint", "multilinestring", "multipolygon", "geomcollection", "geometrycollection":
		return `CONCAT('\\x', LOWER(HEX(` + name + `)))`
	case "bit":
		return "LPAD(BIN(" + name + "), " + strings.TrimSuffix(args, ")") + ", '0')"
	case "year":
		return "CAST(" + name + " AS CHAR)"
	default:
		return name
	}
}

func quote(name string) string { return "`" + strings.ReplaceAll(name, "`", "``") + "`" }

func isFloat(c Column) bool {
	return strings.HasPrefix(c.Type, "float") || strings.HasPrefix(c.Type, "double")
}

// floatText is the number as ECMAScript prints it, except that zero keeps its sign.
func floatText(f float64, c Column) string {
	bits := 64
	if strings.HasPrefix(c.Type, "float") {
		bits = 32
	}
	s := strconv.FormatFloat(f, 'e', -1, bits)
	mantissa, exp, _ := strings.Cut(s, "e")
	if n, _ := strconv.Atoi(exp); n >= -6 && n < 21 {
		return strconv.FormatFloat(f, 'f', -1, bits)
	}
	return mantissa + "e" + exp[:1] + strings.TrimLeft(exp[1:], "0") // Go writes e-07, ECMAScript e-7
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
