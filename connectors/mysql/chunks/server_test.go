package chunks

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/go-mysql-org/go-mysql/client"

	"github.com/rowtrail/rowtrail/connectors/event"
	"github.com/rowtrail/rowtrail/connectors/mysql/binlog"
	"github.com/rowtrail/rowtrail/connectors/mysql/charset"
	"github.com/rowtrail/rowtrail/connectors/mysql/rows"
	"github.com/rowtrail/rowtrail/itest/servers"
)

var pool servers.MySQLPool

func TestMain(m *testing.M) {
	code := m.Run()
	if err := pool.Close(); err != nil {
		fmt.Println(err)
		code = 1
	}
	os.Exit(code)
}

const database = "chunks_test"

type source struct {
	t        *testing.T
	m        *servers.MySQL
	charsets charset.Decoders
	conn     *client.Conn
	session  *rows.Session
}

func newSource(t *testing.T, m *servers.MySQL, settings ...string) *source {
	s := &source{t: t, m: m}
	s.exec("", "CREATE DATABASE IF NOT EXISTS "+database)
	var err error
	s.conn, err = m.Connect(t.Context(), database)
	s.check(err)
	t.Cleanup(func() { _ = s.conn.Close() })
	for _, set := range append(rows.Settings(m.MariaDB()), settings...) {
		_, err := s.conn.Execute(set)
		s.check(err)
	}
	s.session = rows.NewSession(s.conn, s.charset)
	return s
}

func (s *source) charset(collation uint32) (binlog.Charset, error) {
	switch cs, _ := charset.OfCollation(uint64(collation)); cs {
	case "utf8mb4", "utf8mb3", "ascii":
		return nil, nil
	}
	return s.charsets.OfCollation(uint64(collation))
}

func (s *source) check(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *source) exec(database string, statements ...string) {
	s.t.Helper()
	s.check(s.m.Exec(s.t.Context(), database, statements...))
}

// query is of the session's own connection.
func (s *source) query(statement string) ([][]string, error) {
	res, err := s.conn.Execute(statement)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", statement, err)
	}
	if res.Resultset == nil {
		return nil, nil
	}
	var out [][]string
	for _, values := range res.Values {
		row := make([]string, len(values))
		for i := range values {
			row[i] = string(values[i].AsString())
			if v := values[i].Value(); v != nil && row[i] == "" {
				if _, text := v.([]byte); !text {
					row[i] = fmt.Sprint(v)
				}
			}
		}
		out = append(out, row)
	}
	return out, nil
}

// still are the marks of a server to which nobody writes.
type still struct{}

func (still) Low() (Point, error)  { return at(10), nil }
func (still) High() (Point, error) { return at(10), nil }

// examined is how many rows the session's last statements looked at, in any way.
func (s *source) examined() int {
	s.t.Helper()
	found, err := s.query("SHOW SESSION STATUS LIKE 'Handler_read%'")
	s.check(err)
	n := 0
	for _, row := range found {
		v, err := strconv.Atoi(row[1])
		s.check(err)
		n += v
	}
	return n
}

// keyCase is a table with a key and rows: of its columns, and n, which counts them.
type keyCase struct {
	columns string // of the table, with the key
	key     []KeyColumn
	values  []string // of the key's columns, in SQL
	scans   bool     // the key cannot be searched for
	only    string
}

func column(name, dataType string) KeyColumn { return KeyColumn{Name: name, DataType: dataType} }

func single(typ, dataType string, values ...string) keyCase {
	return keyCase{columns: "k " + typ + " NOT NULL, PRIMARY KEY (k)", key: []KeyColumn{column("k", dataType)}, values: values}
}

func keyCases() []keyCase {
	var cases []keyCase
	for typ, bits := range map[string]uint{"TINYINT": 8, "SMALLINT": 16, "MEDIUMINT": 24, "INT": 32, "BIGINT": 64} {
		cases = append(cases, single(typ, strings.ToLower(typ), fmt.Sprint(-(int64(1)<<(bits-1))), fmt.Sprint(-(int64(1)<<(bits-1))+1), "-2", "-1", "0", "1", "2", "100", fmt.Sprint(uint64(1)<<(bits-1)-1)),
			single(typ+" UNSIGNED", strings.ToLower(typ), "0", "1", "2", "100", fmt.Sprint(uint64(1)<<(bits-1)-1), fmt.Sprint(uint64(1)<<(bits-1)), fmt.Sprint(^uint64(0)>>(64-bits)-1), fmt.Sprint(^uint64(0)>>(64-bits))))
	}
	cases = append(cases,
		single("DECIMAL(65,30)", "decimal", "-12345678901234567890123456789012345.123456789012345678901234567891", "-12345678901234567890123456789012345.123456789012345678901234567890",
			"0", "0.000000000000000000000000000001", "-0.000000000000000000000000000001", "12345678901234567890.5", "12345678901234567891"),
		single("DECIMAL(20,0) UNSIGNED ZEROFILL", "decimal", "0", "1", "18446744073709551615", "18446744073709551616", "99999999999999999999"),
		single("FLOAT", "float", "0", "0.1", "0.3", "1e-40", "-1.1", "3.4028234e38", "16777216", "16777218", "123456.789", "1.0000001"),
		single("DOUBLE", "double", "0", "0.1", "0.1e0+0.2e0", "5e-324", "-1.7976931348623157e308", "1.7976931348623157e308", "9007199254740993", "9007199254740995", "1e21"),
		single("BIT(64)", "bit", "0", "1", "b'1111'", "18446744073709551614", "18446744073709551615", "9223372036854775808"),
		single("BIT(3)", "bit", "0", "1", "2", "3", "4", "5", "6", "7"),
		single("YEAR", "year", "'0000'", "1901", "1970", "2000", "2001", "2069", "2155"),
		single("DATE", "date", "'0000-00-00'", "'0000-01-01'", "'2023-00-15'", "'2023-11-00'", "'2023-11-01'", "'2024-02-29'", "'9999-12-31'", "'0001-01-01'"),
		single("DATETIME", "datetime", "'0000-00-00 00:00:00'", "'2023-00-15 01:02:03'", "'2023-11-00 00:00:00'", "'2024-02-29 12:34:56'", "'2024-02-29 12:34:57'", "'9999-12-31 23:59:59'"),
		single("DATETIME(6)", "datetime", "'0000-00-00 00:00:00'", "'0000-00-00 00:00:00.000001'", "'2024-02-29 12:34:56.789123'", "'2024-02-29 12:34:56.789124'", "'2023-00-15 01:02:03.4'"),
		single("TIMESTAMP", "timestamp", "'0000-00-00 00:00:00'", "'1970-01-01 00:00:01'", "'2024-02-29 12:34:56'", "'2024-03-31 02:30:00'", "'2024-10-27 02:30:00'", "'2038-01-19 03:14:07'"),
		single("TIMESTAMP(3)", "timestamp", "'0000-00-00 00:00:00'", "'1970-01-01 00:00:00.5'", "'2024-02-29 12:34:56.001'", "'2024-02-29 12:34:56.002'", "'2038-01-19 03:14:07.999'"),
		single("TIME", "time", "'-838:59:59'", "'-00:00:01'", "'00:00:00'", "'100:00:00'", "'838:59:59'"),
		single("TIME(6)", "time", "'-838:59:59'", "'-00:00:00.000001'", "'00:00:00'", "'00:00:00.000001'", "'838:59:58.999999'", "'838:59:59'"),
		single("BINARY(4)", "binary", "x'00000000'", "x'AB000000'", "x'AB0000'", "x'20'", "x'2020'", "x'ffffffff'", "x'27'"),
		single("VARBINARY(20)", "varbinary", "x''", "x'00'", "x'0000'", "x'20'", "x'AB'", "x'AB00'", "x'5c27'", "x'ff'"),
		single("VARBINARY(700)", "varbinary", "REPEAT('a',699)", "REPEAT('a',700)", "REPEAT('a',300)", "x'00'"),
		keyCase{columns: "k ENUM('z','a','','é') NOT NULL, PRIMARY KEY (k)", key: []KeyColumn{column("k", "enum")}, values: []string{"1", "2", "3", "4"}, scans: true},
		keyCase{columns: "k SET('z','a','m') NOT NULL, PRIMARY KEY (k)", key: []KeyColumn{column("k", "set")}, values: []string{"0", "1", "2", "3", "4", "5", "6", "7"}, scans: true},
	)
	for _, cs := range []string{"utf8mb4", "utf8mb4 COLLATE utf8mb4_unicode_ci", "utf8mb4 COLLATE utf8mb4_bin", "utf8mb3", "latin1", "latin1 COLLATE latin1_general_cs", "ucs2", "utf16", "utf16le", "utf32", "cp932", "gbk", "koi8r",
		"ascii", "sjis", "ujis", "tis620", "binary"} {
		values := []string{"''", "'a'", "'b'", "'a b'", "'aa'", "'Z'", "'it''s'", `'\\'`, "'%_'", "'B2'"}
		switch cs {
		case "ascii", "binary":
		case "tis620":
			values = append(values, "'ก'", "'ฮ'", "'เก'")
		case "cp932":
			values = append(values, "x'8790'", "x'FA54'", "'ソ'", "'表'")
		case "koi8r":
			values = append(values, "'ж'", "'Я'")
		case "latin1", "latin1 COLLATE latin1_general_cs":
			values = append(values, "'é'", "x'80'", "x'81'", "'ß'")
		case "gbk", "sjis", "ujis":
			values = append(values, "'中'", "'一'")
		default:
			values = append(values, "'é'", "'ж'", "'中'", "'ßß'", "'ñ'")
		}
		if strings.HasPrefix(cs, "utf8mb4") || strings.HasPrefix(cs, "utf16") || cs == "utf32" {
			values = append(values, "'😀'", "'😁'")
		}
		for _, typ := range []string{"CHAR(20)", "VARCHAR(20)"} {
			c := single(typ+" CHARACTER SET "+cs, "varchar", values...)
			cases = append(cases, c)
		}
	}
	cases = append(cases,
		keyCase{columns: "a INT NOT NULL, b VARCHAR(9) NOT NULL, c DATETIME(3) NOT NULL, PRIMARY KEY (a, b, c)", key: []KeyColumn{column("a", "int"), column("b", "varchar"), column("c", "datetime")},
			values: product([]string{"-1", "0", "7"}, []string{"''", "'a'", "'é'"}, []string{"'2024-01-01'", "'2024-01-01 00:00:00.001'"})},
		keyCase{columns: "a INT NOT NULL, e ENUM('z','a','m') NOT NULL, PRIMARY KEY (a, e)", key: []KeyColumn{column("a", "int"), column("e", "enum")}, values: product([]string{"1", "2", "3"}, []string{"1", "2", "3"}), scans: true},
		keyCase{columns: "a VARCHAR(9) NOT NULL, b INT NOT NULL, PRIMARY KEY (a DESC, b)", key: []KeyColumn{column("a", "varchar"), column("b", "int")}, values: product([]string{"'a'", "'B'", "'c'"}, []string{"1", "2", "3"}), scans: true},
		keyCase{columns: "k INT NOT NULL, id INT, UNIQUE KEY `odd ``name` (k)", key: []KeyColumn{column("k", "int")}, values: []string{"5", "4", "3", "2", "1"}},
		keyCase{columns: "k INT NOT NULL DEFAULT 0 INVISIBLE, id INT, UNIQUE KEY k (k)", key: []KeyColumn{column("k", "int")}, values: []string{"5", "4", "3", "2", "1"}},
	)
	only := func(c keyCase) {
		c.only = "mariadb"
		cases = append(cases, c)
	}
	only(single("UUID", "uuid", "'00000000-0000-0000-0000-000000000000'", "'123e4567-e89b-12d3-a456-426655440000'", "'223e4567-e89b-12d3-a456-426655440000'", "'ffffffff-ffff-7fff-bfff-ffffffffff00'", "'123e4567-e89b-42d3-a456-426655440000'"))
	only(single("INET6", "inet6", "'::'", "'::1'", "'::ffff:192.168.0.1'", "'::1.2.3.4'", "'2001:db8::ff00:42:8329'", "'1:0:2:0:3:0:4:0'"))
	only(single("INET4", "inet4", "'0.0.0.0'", "'10.0.0.1'", "'192.168.0.1'", "'255.255.255.255'"))
	return cases
}

func product(lists ...[]string) []string {
	out := []string{""}
	for _, list := range lists {
		var next []string
		for _, o := range out {
			for _, v := range list {
				next = append(next, strings.TrimPrefix(o+", "+v, ", "))
			}
		}
		out = next
	}
	return out
}

// loadAll reads a table in chunks, from a new Load of the last token for each, and gives column n of the rows.
func (s *source) loadAll(p *Plan, limit int) []string {
	s.t.Helper()
	l := NewLoad(Options{Rows: limit})
	s.check(l.Add(p, ""))
	var got []string
	for chunk := 1; !l.Empty(); chunk++ {
		if chunk > 1000 {
			s.t.Fatal("the load does not end")
		}
		l.Tables()[0].limit = limit
		t := l.Next(at(10))
		s.check(t.Read(s.session, still{}))
		s.check(l.Done(t, nil))
		for _, t := range l.Boundary(at(10)) {
			s.check(t.Each(func(row event.Row) error {
				got = append(got, string(row[len(row)-1].Text))
				return nil
			}))
			l.Told(t)
		}
		token := l.AppendToken(nil)
		again := NewLoad(Options{})
		s.check(again.Restore(token, func(string, string, string) (*Plan, error) { return p, nil }))
		if string(again.AppendToken(nil)) != string(token) {
			s.t.Fatal("a token is not what it was made from")
		}
		l = again
	}
	return got
}

// TestKeys reads a table by a key of each type, some rows at a time, over a token each. Every row is read once, in the order of the
// key, and no chunk looks at more rows than it has.
func TestKeys(t *testing.T) {
	pool.Each(t, func(t *testing.T, m *servers.MySQL) {
		s := newSource(t, m)
		for i, c := range keyCases() {
			if c.only != "" && c.only != m.Flavour() {
				continue
			}
			name := fmt.Sprint("k", i)
			var values []string
			for n, v := range c.values {
				values = append(values, fmt.Sprintf("(%s, %d)", v, n))
			}
			var names, columns []string
			for _, k := range c.key {
				names = append(names, quote(k.Name))
				columns = append(columns, k.Name)
			}
			s.exec(database, "SET NAMES utf8mb4", "SET SESSION sql_mode = '', time_zone = '+00:00'", "DROP TABLE IF EXISTS "+name, fmt.Sprintf("CREATE TABLE %s (n INT, %s)", name, c.columns),
				fmt.Sprintf("INSERT IGNORE INTO %s (%s, n) VALUES %s", name, strings.Join(names, ", "), strings.Join(values, ", ")))
			key := Key{Name: primary, Columns: c.key}
			if _, rest, ok := strings.Cut(c.columns, "UNIQUE KEY "); ok {
				key.Name = strings.ReplaceAll(strings.Trim(rest[:strings.LastIndex(rest, " (")], "`"), "``", "`")
			}
			found, err := s.query(fmt.Sprintf("SELECT n FROM %s ORDER BY %s", name, strings.Join(names, ", ")))
			s.check(err)
			var want []string
			for _, row := range found {
				want = append(want, row[0])
			}
			if len(want) < 4 {
				t.Errorf("%s: %d rows", c.columns, len(want))
			}
			for _, limit := range []int{1, 3} {
				p := NewPlan(Table{Database: database, Name: name, Columns: append(columns, "n"), Keys: []Key{key}}, "", "")
				_, err := s.query("FLUSH STATUS")
				s.check(err)
				got := s.loadAll(p, limit)
				if !slices.Equal(got, want) {
					t.Errorf("%s: rows %v read %d at a time, want %v; %s", c.columns, got, limit, want, p.Chunk(nil, nil, 1))
				}
				chunks := len(want)/limit + 1
				if most := len(want) + 5*chunks; s.examined() > most && !c.scans {
					t.Errorf("%s: %d rows looked at for %d in %d chunks", c.columns, s.examined(), len(want), chunks)
				}
			}
		}
	})
}

// TestRandomKeys is a property: whatever the key, its columns' types and collations, their values and the size of chunks, the chunks have
// each row once, in the order in which the server has them.
func TestRandomKeys(t *testing.T) {
	pool.Each(t, func(t *testing.T, m *servers.MySQL) {
		s := newSource(t, m)
		var singles []keyCase
		for _, c := range keyCases() {
			if len(c.key) == 1 && c.key[0].Name == "k" && strings.Contains(c.columns, "PRIMARY KEY (k)") && !strings.Contains(c.columns, "700") && (c.only == "" || c.only == m.Flavour()) {
				singles = append(singles, c)
			}
		}
		seed := uint64(len(singles))
		if v, err := strconv.ParseUint(os.Getenv("ROWTRAIL_SEED"), 10, 64); err == nil {
			seed = v
		}
		r := rand.New(rand.NewPCG(seed, 7))
		for round := range 60 {
			var definitions, names []string
			var key Key
			var parts []keyCase
			for i := range 1 + r.IntN(3) {
				c := singles[r.IntN(len(singles))]
				name := string(rune('a' + i))
				typ, _, _ := strings.Cut(strings.TrimPrefix(c.columns, "k "), " NOT NULL")
				definitions = append(definitions, name+" "+typ+" NOT NULL")
				names = append(names, name)
				key.Columns = append(key.Columns, column(name, c.key[0].DataType))
				parts = append(parts, c)
			}
			key.Name = primary
			var values []string
			for n := range 5 + r.IntN(60) {
				var row []string
				for _, c := range parts {
					row = append(row, c.values[r.IntN(len(c.values))])
				}
				values = append(values, fmt.Sprintf("(%s, %d)", strings.Join(row, ", "), n))
			}
			list := strings.Join(names, ", ")
			s.exec(database, "SET NAMES utf8mb4", "SET SESSION sql_mode = '', time_zone = '+00:00'", "DROP TABLE IF EXISTS random_keys",
				fmt.Sprintf("CREATE TABLE random_keys (%s, n INT, PRIMARY KEY (%s))", strings.Join(definitions, ", "), list),
				fmt.Sprintf("INSERT IGNORE INTO random_keys (%s, n) VALUES %s", list, strings.Join(values, ", ")))
			found, err := s.query("SELECT n FROM random_keys ORDER BY " + list)
			s.check(err)
			var want []string
			for _, row := range found {
				want = append(want, row[0])
			}
			limit := 1 + r.IntN(9)
			p := NewPlan(Table{Database: database, Name: "random_keys", Columns: append(slices.Clone(names), "n"), Keys: []Key{key}}, "", "")
			if got := s.loadAll(p, limit); !slices.Equal(got, want) {
				t.Errorf("seed %d, round %d: (%s): rows %v read %d at a time, want %v", seed, round, strings.Join(definitions, ", "), got, limit, want)
			}
		}
	})
}

// TestSearch: in the middle of a large table, a chunk looks at its own rows alone, whatever else the optimiser thinks of.
func TestSearch(t *testing.T) {
	pool.Each(t, func(t *testing.T, m *servers.MySQL) {
		s := newSource(t, m)
		const digits = "(SELECT 0 d UNION ALL SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3 UNION ALL SELECT 4 UNION ALL SELECT 5 UNION ALL SELECT 6 UNION ALL SELECT 7 UNION ALL SELECT 8 UNION ALL SELECT 9)"
		numbers := fmt.Sprintf("(SELECT a.d + 10*b.d + 100*c.d + 1000*d.d AS i FROM %[1]s a, %[1]s b, %[1]s c, %[1]s d) x", digits)
		for i, c := range []struct {
			key, values string
			columns     []KeyColumn
			name        string
		}{
			{"k INT NOT NULL, PRIMARY KEY (k)", "i", []KeyColumn{column("k", "int")}, primary},
			{"k VARCHAR(20) NOT NULL, PRIMARY KEY (k)", "CONCAT('é', i)", []KeyColumn{column("k", "varchar")}, primary},
			{"k VARCHAR(20) CHARACTER SET latin1 NOT NULL, PRIMARY KEY (k)", "CONCAT('é', i)", []KeyColumn{column("k", "varchar")}, primary},
			{"k DATETIME(3) NOT NULL, PRIMARY KEY (k)", "TIMESTAMP'2024-01-01 00:00:00' + INTERVAL i SECOND", []KeyColumn{column("k", "datetime")}, primary},
			{"k TIMESTAMP(3) NOT NULL, PRIMARY KEY (k)", "TIMESTAMP'2024-01-01 00:00:00' + INTERVAL i SECOND", []KeyColumn{column("k", "timestamp")}, primary},
			{"k TIME(3) NOT NULL, PRIMARY KEY (k)", "SEC_TO_TIME(i)", []KeyColumn{column("k", "time")}, primary},
			{"k DATE NOT NULL, PRIMARY KEY (k)", "DATE'2000-01-01' + INTERVAL i DAY", []KeyColumn{column("k", "date")}, primary},
			{"k DECIMAL(30,5) NOT NULL, PRIMARY KEY (k)", "i/3", []KeyColumn{column("k", "decimal")}, primary},
			{"k FLOAT NOT NULL, PRIMARY KEY (k)", "i/8", []KeyColumn{column("k", "float")}, primary},
			{"k BIT(40) NOT NULL, PRIMARY KEY (k)", "i", []KeyColumn{column("k", "bit")}, primary},
			{"k VARBINARY(20) NOT NULL, PRIMARY KEY (k)", "CONCAT('é', i)", []KeyColumn{column("k", "varbinary")}, primary},
			{"a INT NOT NULL, b VARCHAR(20) NOT NULL, c INT NOT NULL, PRIMARY KEY (a, b, c)", "i DIV 1000, CONCAT('k', i DIV 10), i", []KeyColumn{column("a", "int"), column("b", "varchar"), column("c", "int")}, primary},
			{"a INT NOT NULL, b INT NOT NULL, UNIQUE KEY u (a, b)", "0, i", []KeyColumn{column("a", "int"), column("b", "int")}, "u"},
		} {
			name := fmt.Sprint("s", i)
			s.exec(database, "SET NAMES utf8mb4", "SET SESSION sql_mode = ''", "DROP TABLE IF EXISTS "+name, fmt.Sprintf("CREATE TABLE %s (%s, n INT, KEY (n))", name, c.key),
				fmt.Sprintf("INSERT INTO %s SELECT %s, i FROM %s WHERE i < 3000", name, c.values, numbers))
			p := NewPlan(Table{Database: database, Name: name, Columns: []string{"n"}, Keys: nil}, "", "")
			for _, k := range c.columns {
				p.Table.Columns = append([]string{k.Name}, p.Table.Columns...)
			}
			p.Table.Keys = []Key{{Name: c.name, Columns: c.columns}}
			p = NewPlan(p.Table, "", "")
			s.check(s.session.Select(p.Last()))
			if more, err := s.session.Next(nil); err != nil || !more {
				t.Fatal(more, err)
			}
			last, err := p.LastCursor(s.session)
			s.check(err)
			s.check(s.session.Skip())
			var after Cursor
			s.check(s.session.Select(p.Chunk(nil, last, 1500)))
			for {
				more, err := s.session.Next(nil)
				s.check(err)
				if !more {
					break
				}
				after, err = p.Cursor(s.session)
				s.check(err)
			}
			_, err = s.query("FLUSH STATUS")
			s.check(err)
			statement := p.Chunk(after, last, 100)
			s.check(s.session.Select(statement))
			s.check(s.session.Skip())
			if n := s.examined(); n < 100 || n > 110 {
				plan, err := s.query("EXPLAIN " + statement)
				t.Errorf("%s: %d rows looked at for 100: %s: %v %v", c.key, n, statement, plan, err)
			}
		}
	})
}

// TestLargeRows: a chunk that is larger than it may be ends early, and the next goes on behind it.
func TestLargeRows(t *testing.T) {
	m := pool.Get(t, "")
	s := newSource(t, m)
	const count, size = 10, 1 << 21
	s.exec(database, "DROP TABLE IF EXISTS large", "CREATE TABLE large (k INT PRIMARY KEY, b LONGBLOB, n INT)")
	for i := range count {
		s.exec(database, fmt.Sprintf("INSERT INTO large VALUES (%d, REPEAT('x', %d), %d)", i, size, i))
	}
	p := NewPlan(Table{Database: database, Name: "large", Columns: []string{"k", "b", "n"}, Keys: []Key{intKey("k")}}, "", "")
	l := NewLoad(Options{Rows: 1000})
	s.check(l.Add(p, ""))
	var chunks []int
	next := 0
	for !l.Empty() && len(chunks) < 50 {
		task := l.Next(at(10))
		s.check(task.Read(s.session, still{}))
		s.check(l.Done(task, nil))
		for _, task := range l.Boundary(at(10)) {
			rows := 0
			s.check(task.Each(func(row event.Row) error {
				if string(row[2].Text) != fmt.Sprint(next) || len(row[1].Text) != 2+2*size {
					t.Errorf("row %s of %d bytes, want %d", row[2].Text, len(row[1].Text), next)
				}
				next++
				rows++
				return nil
			}))
			chunks = append(chunks, rows)
			l.Told(task)
		}
	}
	if most := maxChunkBytes/(2*size) + 1; next != count || len(chunks) < 2 || slices.Max(chunks) > most {
		t.Errorf("%d rows in chunks of %v, at most %d", next, chunks, most)
	}
}

// TestSomeRows: a filter and a statement of the user's own choose rows, and a mistake in them is an error, not the end.
func TestSomeRows(t *testing.T) {
	pool.Each(t, func(t *testing.T, m *servers.MySQL) {
		s := newSource(t, m)
		s.exec(database, "DROP TABLE IF EXISTS some", "CREATE TABLE some (k INT PRIMARY KEY, n INT)", "INSERT INTO some VALUES (1,1), (2,2), (3,3), (4,4), (5,5), (6,6), (7,7)")
		table := Table{Database: database, Name: "some", Columns: []string{"k", "n"}, Keys: []Key{intKey("k")}}
		for _, c := range []struct{ filter, override, want string }{
			{"", "", "1 2 3 4 5 6 7"},
			{"n % 2 = 0 -- even", "", "2 4 6"},
			{"n = 7 OR n = 1", "", "1 7"},
			{"n > 100", "", ""},
			{"", "SELECT * FROM " + database + ".some WHERE n > 3 ORDER BY n DESC", "4 5 6 7"},
			{"k < 6", "SELECT n + 10 AS n, k FROM " + database + ".some WHERE n > 3", "14 15"},
		} {
			got := strings.Join(s.loadAll(NewPlan(table, c.filter, c.override), 1), " ")
			if got != c.want {
				t.Errorf("filter %q, override %q: %s, want %s", c.filter, c.override, got, c.want)
			}
		}
		for _, c := range []struct{ filter, override string }{{"nothing = 1", ""}, {"n = ?", ""}, {"", "SELECT n FROM " + database + ".some"}, {"1) OR (1", "x"}} {
			l := NewLoad(Options{})
			s.check(l.Add(NewPlan(table, c.filter, c.override), ""))
			task := l.Next(at(10))
			err := task.Read(s.session, still{})
			if err == nil || !strings.Contains(err.Error(), table.Collection()) {
				t.Errorf("filter %q, override %q: %v", c.filter, c.override, err)
			}
			if err := l.Done(task, err); err == nil || l.Next(at(10)) == nil { // which is for the caller to stop
				t.Errorf("the error is lost: %v", err)
			}
		}
		if got := s.loadAll(NewPlan(table, "", ""), 3); len(got) != 7 {
			t.Errorf("after errors: %v", got)
		}
	})
}
