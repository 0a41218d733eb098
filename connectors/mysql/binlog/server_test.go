package binlog

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-mysql-org/go-mysql/mysql"
	"github.com/go-mysql-org/go-mysql/replication"

	"github.com/rowtrail/rowtrail/connectors/event"
	"github.com/rowtrail/rowtrail/connectors/mysql/charset"
	"github.com/rowtrail/rowtrail/itest/servers"
)

// source is a server whose binlog a test reads.
type source struct {
	t  *testing.T
	m  *servers.MySQL
	cs map[uint32]string // charset by collation

	charsets charset.Decoders
}

const testDatabase = "it"

func newSource(t *testing.T, m *servers.MySQL) *source {
	s := &source{t: t, m: m, cs: map[uint32]string{}}
	s.exec("", "CREATE DATABASE IF NOT EXISTS "+testDatabase)
	for _, row := range s.query("SELECT id, character_set_name FROM information_schema." + map[bool]string{
		true: "COLLATION_CHARACTER_SET_APPLICABILITY", false: "COLLATIONS"}[m.MariaDB()]) {
		id, _ := strconv.Atoi(row[0])
		s.cs[uint32(id)] = row[1]
	}
	return s
}

func (s *source) exec(database string, statements ...string) {
	s.t.Helper()
	if err := s.m.Exec(s.t.Context(), database, statements...); err != nil {
		s.t.Fatal(err)
	}
}

func (s *source) query(statement string) [][]string {
	s.t.Helper()
	conn, err := s.m.Connect(s.t.Context(), testDatabase)
	if err != nil {
		s.t.Fatal(err)
	}
	defer conn.Close()
	for _, set := range []string{"SET NAMES utf8mb4", "SET time_zone='+00:00'", "SET sql_mode=''"} {
		if _, err := conn.Execute(set); err != nil {
			s.t.Fatal(err)
		}
	}
	res, err := conn.Execute(statement)
	if err != nil {
		s.t.Fatalf("%s: %v", statement, err)
	}
	var rows [][]string
	for _, values := range res.Values {
		row := make([]string, len(values))
		for i := range values {
			row[i] = "NULL"
			if b, ok := values[i].Value().([]byte); ok {
				row[i] = string(b)
			} else if v := values[i].Value(); v != nil {
				row[i] = fmt.Sprint(v)
			}
		}
		rows = append(rows, row)
	}
	return rows
}

func (s *source) status() (string, uint32) {
	s.t.Helper()
	statement := "SHOW BINARY LOG STATUS"
	if s.m.MariaDB() {
		statement = "SHOW MASTER STATUS"
	}
	row := s.query(statement)[0]
	pos, _ := strconv.ParseUint(row[1], 10, 32)
	return row[0], uint32(pos)
}

func (s *source) syncer() *replication.BinlogSyncer {
	return replication.NewBinlogSyncer(replication.BinlogSyncerConfig{
		ServerID: 4242, Flavor: s.m.Flavour(), Host: s.m.Host(), Port: uint16(s.m.Port()), User: s.m.User(), Password: s.m.Password(),
		RawModeEnabled: true, Logger: slog.New(slog.DiscardHandler),
	})
}

// capture runs statements in one session and returns the packets of a new binlog file that has them.
func (s *source) capture(statements ...string) [][]byte {
	s.t.Helper()
	s.exec("", "FLUSH BINARY LOGS")
	file, _ := s.status()
	s.exec(testDatabase, append([]string{"SET SESSION sql_mode='', time_zone='+00:00', NAMES utf8mb4"}, statements...)...)
	s.exec("", "FLUSH BINARY LOGS")
	syncer := s.syncer()
	defer syncer.Close()
	stream, err := syncer.StartSync(mysql.Position{Name: file, Pos: 4})
	if err != nil {
		s.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(s.t.Context(), 30*time.Second)
	defer cancel()
	files := 1
	for _, statement := range statements {
		if strings.HasPrefix(statement, "FLUSH") {
			files++
		}
	}
	var packets [][]byte
	for {
		e, err := stream.GetEvent(ctx)
		if err != nil {
			s.t.Fatalf("after %d events: %v", len(packets), err)
		}
		packets = append(packets, slices.Clone(e.RawData))
		if e.Header.EventType != replication.ROTATE_EVENT || e.Header.Flags&FlagArtificial != 0 {
			continue
		}
		if files--; files == 0 {
			break
		}
	}
	return packets
}

func (s *source) charset(collation uint32) (Charset, error) {
	switch s.cs[collation] {
	case "utf8mb4", "utf8mb3", "ascii":
		return nil, nil // as the fast path has it
	}
	return s.charsets.OfCollation(uint64(collation))
}

// change is a decoded row as text: NULL and absent are marked.
type change struct {
	table         string
	op            event.Op
	before, after []string
	diffs         int
}

func texts(row event.Row) []string {
	if row == nil {
		return nil
	}
	out := make([]string, len(row))
	for i, d := range row {
		switch d.State {
		case event.Absent:
			out[i] = "ABSENT"
		case event.Null:
			out[i] = "NULL"
		default:
			out[i] = string(d.Text)
		}
	}
	return out
}

// decodeAll decodes packets; layout may mend what the metadata does not tell.
func (s *source) decodeAll(packets [][]byte, mend func(*Table, []Column)) (rows []change, kinds []Kind) {
	s.t.Helper()
	d := NewDecoder(Options{})
	layouts := map[*Table]*Layout{}
	for _, p := range packets {
		for e, err := d.Decode(p); ; e, err = d.Next() {
			if err != nil {
				s.t.Fatal(err)
			}
			if e == nil {
				break
			}
			kinds = append(kinds, e.Kind)
			if e.Kind == KindRows {
				rows = append(rows, s.rows(e, layouts, mend)...)
			}
		}
	}
	return rows, kinds
}

func (s *source) rows(e *Event, layouts map[*Table]*Layout, mend func(*Table, []Column)) (out []change) {
	s.t.Helper()
	t := e.Rows.Table
	l := layouts[t]
	if l == nil {
		columns, err := t.FullColumns(s.charset)
		if err != nil {
			s.t.Fatal(err)
		}
		if mend != nil {
			mend(t, columns)
		}
		if l, err = NewLayout(t, columns); err != nil {
			s.t.Fatal(err)
		}
		layouts[t] = l
	}
	before, after := make(event.Row, len(t.Columns)), make(event.Row, len(t.Columns))
	for {
		more, err := e.Rows.Next(l, before, after)
		if err != nil {
			s.t.Fatal(err)
		}
		if !more {
			return out
		}
		c := change{table: t.Name, op: e.Rows.Op, diffs: len(e.Rows.Diffs)}
		if e.Rows.Op != event.OpCreate {
			c.before = texts(before)
		}
		if e.Rows.Op != event.OpDelete {
			c.after = texts(after)
		}
		out = append(out, c)
	}
}

// typeCase is a type with values, and how a session prints them canonically.
type typeCase struct {
	typ    string
	values []string // SQL
	print  string   // expression over c; "": c
	only   string   // flavour
	mend   func(*Column)
	float  int // the text is of a float of so many bits
}

const hexPrint = `CONCAT('\\x',LOWER(HEX(c)))`

func bitPrint(n int) string { return fmt.Sprintf("LPAD(BIN(c+0),%d,'0')", n) }

func labels(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, ",'l%d'", i+1)
	}
	return b.String()[1:]
}

func typeCases() []typeCase {
	zeroDates := []string{"'0000-00-00'", "'2023-00-15'", "'2023-11-00'", "'2024-02-29'", "'9999-12-31'", "'0001-01-01'", "NULL"}
	var cases []typeCase
	add := func(typ string, print string, values ...string) {
		cases = append(cases, typeCase{typ: typ, print: print, values: values})
	}
	for typ, bits := range map[string]uint{"TINYINT": 8, "SMALLINT": 16, "MEDIUMINT": 24, "INT": 32, "BIGINT": 64} {
		add(typ, "", fmt.Sprint(-(int64(1) << (bits - 1))), fmt.Sprint(uint64(1)<<(bits-1)-1), "0", "-1", "1", "NULL", "77")
		add(typ+" UNSIGNED", "", fmt.Sprint(^uint64(0)>>(64-bits)), fmt.Sprint(uint64(1)<<(bits-1)), "0", "1", "NULL")
	}
	add("INT ZEROFILL", "c+0", "7")
	add("BOOL", "", "TRUE", "FALSE", "-5")
	floats := []string{"0", "-0e0", "1", "-1.5", "3.4028234e38", "1e-40", "1.17549435e-38", "0.1", "123456.789", "1e21", "1e20", "1e-6", "1e-7", "16777216", "NULL"}
	cases = append(cases,
		typeCase{typ: "FLOAT", print: "CAST(c AS DOUBLE)", values: floats, float: 32},
		typeCase{typ: "DOUBLE", values: append(floats, "1.7976931348623157e308", "5e-324", "9007199254740993", "0.1e0+0.2e0", "1e300", "-2.5e-300"), float: 64})
	add("YEAR", "CAST(c AS CHAR)", "'0000'", "1901", "2024", "2155", "NULL")
	for f := range 7 {
		frac := ""
		if f > 0 {
			frac = fmt.Sprintf("(%d)", f)
		}
		add("TIME"+frac, "", "'-838:59:59'", "'838:59:59'", "'-00:00:00.5'", "'-00:00:01'", "'00:00:00'", "'12:34:56.789123'", "'-12:34:56.789123'", "'100:00:00'", "NULL", "'-837:00:00.999999'")
		add("DATETIME"+frac, "", append([]string{"'2024-02-29 12:34:56.789123'", "'9999-12-31 23:59:59'", "'0000-00-00 00:00:00'", "'2023-00-15 01:02:03.4'"}, zeroDates...)...)
		add("TIMESTAMP"+frac+" NULL", "", "'1970-01-01 00:00:01'", "'2038-01-19 03:14:07'", "'0000-00-00 00:00:00'", "'2024-02-29 12:34:56.789123'", "'2000-03-01 00:00:00'", "'1999-12-31 23:59:59.999'", "'2106-02-07 06:28:15.5'", "NULL")
	}
	add("DATE", "", zeroDates...)
	for _, n := range []int{1, 7, 8, 9, 16, 33, 63, 64} {
		ones := strings.Repeat("1", n)
		add(fmt.Sprintf("BIT(%d)", n), bitPrint(n), "b'"+ones+"'", "b'0'", "b'1'", "NULL")
	}
	add("CHAR(10)", "", "'abc  '", "''", "'äöü€😀'", "NULL", "'  x'")
	add("CHAR(200)", "", "REPEAT('😀',200)", "'a '")
	for _, cs := range []string{"latin1", "ucs2", "utf16", "utf32"} {
		add("CHAR(10) CHARACTER SET "+cs, "", "'abc'", "'é '", "''", "'a b '", "REPEAT('x',10)", "' '")
		add("VARCHAR(100) CHARACTER SET "+cs, "", "'abc '", "'é'", "''", "NULL")
		add("TEXT CHARACTER SET "+cs, "", "'abc '", "'é'")
		add("ENUM('a','é','z ') CHARACTER SET "+cs, "", "'a'", "2", "3", "''", "NULL")
	}
	add("VARCHAR(10)", "", "'abc  '", "''", "'😀'", "NULL")
	add("VARCHAR(255)", "", "REPEAT('ab',100)")
	add("VARCHAR(256) CHARACTER SET ascii", "", "REPEAT('ab',128)")
	add("VARCHAR(255) CHARACTER SET ascii", "", "REPEAT('a',255)")
	add("VARCHAR(5000)", "", "REPEAT('ab',2500)", "'x'")
	add("VARCHAR(20) COLLATE utf8mb4_unicode_ci", "", "'x'")
	for _, text := range []string{"TINYTEXT", "TEXT", "MEDIUMTEXT", "LONGTEXT"} {
		add(text, "", "'abc '", "''", "'😀'", "REPEAT('q',200)", "NULL")
	}
	for _, blob := range []string{"TINYBLOB", "BLOB", "MEDIUMBLOB", "LONGBLOB", "VARBINARY(300)", "VARBINARY(20)"} {
		add(blob, hexPrint, "x'00ff00'", "''", "x'2020'", "NULL")
	}
	add("BINARY(4)", hexPrint, "x'AB000000'", "x'00000000'", "x'01020304'", "x'20'", "NULL")
	add("BINARY(255)", hexPrint, "x'01'", "REPEAT('z',255)")
	add("ENUM('a','b','c,d')", "", "'a'", "'b'", "3", "''", "'nope'", "NULL")
	add("ENUM("+labels(300)+")", "", "1", "255", "256", "300")
	add("SET('a','b','c')", "", "'a'", "'a,c'", "''", "7", "NULL")
	for _, n := range []int{8, 9, 17, 25, 33, 64} {
		add("SET("+labels(n)+")", "", fmt.Sprint(^uint64(0)>>(64-n)), "1", "0", fmt.Sprint(uint64(1)<<(n-1)))
	}
	for _, g := range []string{"GEOMETRY", "POINT", "LINESTRING"} {
		v := []string{"ST_GeomFromText('LINESTRING(0 0,1 1,2.5 -3)')", "NULL"}
		if g == "POINT" {
			v = []string{"ST_GeomFromText('POINT(1 -2.5)')", "ST_GeomFromText('POINT(1 2)',4326)"}
		}
		add(g, hexPrint, v...)
	}
	add("DECIMAL(10,3)", "", "-12.34", "0", "0.001", "-0.001", "9999999.999", "-9999999.999", "NULL", "-0")
	add("DECIMAL(65,30)", "", "-12345678901234567890123456789012345.123456789012345678901234567891", "1", "0")
	add("DECIMAL(9,9)", "", "0.123456789", "-0.9", "0")
	only := func(flavour, typ, print string, mend func(*Column), values ...string) {
		cases = append(cases, typeCase{typ: typ, print: print, values: values, only: flavour, mend: mend})
	}
	only("mysql", "VECTOR(3)", hexPrint, nil, "STRING_TO_VECTOR('[1,-2.5,3e10]')", "STRING_TO_VECTOR('[1]')", "NULL")
	uuid := func(c *Column) { c.Form = FormUUID }
	only("mariadb", "UUID", "", uuid, "'00000000-0000-0000-0000-000000000000'", "'123e4567-e89b-12d3-a456-426655440000'", "'ffffffff-ffff-7fff-bfff-ffffffffff00'", "'01234567-0123-0123-0123-000000000000'", "'123e4567-e89b-42d3-a456-426655440000'", "NULL")
	only("mariadb", "INET6", "", func(c *Column) { c.Form = FormInet6 }, "'::'", "'::1'", "'::ffff:192.168.0.1'", "'::1.2.3.4'", "'2001:db8::ff00:42:8329'", "'fe80::1:0:0:1'", "'1:0:2:0:3:0:4:0'", "'::1:2'", "'::ffff:0:0'", "'0:0:1::'", "'1:2:3:4:5:6:7:8'", "'0:2:3:4:5:6:7:0'", "'1:2:3:4:5:6:7:0'", "'::2:3:4:5:6:7:8'", "'0:0:0:0:0:1:0:0'", "'::1:0'", "'0:0:0:0:1:ffff:1:2'", "'1:0:0:2::3'", "'1::'", "NULL")
	only("mariadb", "INET4", "", func(c *Column) { c.Form = FormInet4 }, "'0.0.0.0'", "'192.168.0.1'", "'255.255.255.255'", "'10.0.0.0'", "NULL")
	for _, typ := range []string{"TEXT COMPRESSED", "VARCHAR(3000) COMPRESSED", "TINYTEXT COMPRESSED", "LONGTEXT COMPRESSED"} {
		only("mariadb", typ, "", nil, "REPEAT('abc',80)", "''", "'x'", "NULL", "'😀😀'")
	}
	only("mariadb", "BLOB COMPRESSED", hexPrint, nil, "REPEAT(x'00ff',2000)", "''", "x'00'", "NULL")
	only("mariadb", "VARBINARY(2000) COMPRESSED", hexPrint, nil, "REPEAT(x'00ff',1000)", "''", "x'00'")
	only("mariadb", "JSON", "", nil, `'{"b": 1,   "a":[1, 2]}'`)
	return cases
}

// TestServers compares what is decoded with what each server prints.
func TestServers(t *testing.T) {
	servers.EachMySQL(t, servers.Options{}, func(t *testing.T, m *servers.MySQL) {
		run := func(name string, test func(*source)) {
			t.Run(name, func(t *testing.T) { test(newSource(t, m)) })
		}
		run("types", func(s *source) { s.types(typeCases(), "") })
		run("decimals", (*source).decimals)
		run("M5 json", (*source).json)
		run("M6 partial json", (*source).partialJSON)
		run("M13 images", (*source).images)
		run("M13 defaults", (*source).defaults)
		run("M7 M9 compressed", (*source).compressed)
		run("M9 mariadb", (*source).mariadb)
		run("M8 M12 events", (*source).events)
		run("M10 gtid", (*source).gtids)
		run("hidden columns", (*source).hidden)
		run("M10 dump by gtid", (*source).byGTID)
		run("files", (*source).files)
		run("metadata", (*source).metadata)
		run("vectors", (*source).vectors)
	})
}

func (s *source) types(cases []typeCase, prefix string) {
	s.t.Helper()
	statements := []string{}
	byTable := map[string]typeCase{}
	want := map[string][]string{}
	for i, c := range cases {
		if c.only != "" && c.only != s.m.Flavour() {
			continue
		}
		name := fmt.Sprintf("%st%d", prefix, i)
		byTable[name] = c
		statements = append(statements, fmt.Sprintf("DROP TABLE IF EXISTS %s", name), fmt.Sprintf("CREATE TABLE %s (id INT PRIMARY KEY, c %s)", name, c.typ))
		for j, v := range c.values {
			statements = append(statements, fmt.Sprintf("INSERT IGNORE INTO %s VALUES (%d, %s)", name, j, v))
		}
	}
	packets := s.capture(statements...)
	rows, _ := s.decodeAll(packets, func(t *Table, columns []Column) {
		if c := byTable[t.Name]; c.mend != nil {
			c.mend(&columns[1])
		}
	})
	count := map[string]int{}
	for name, c := range byTable {
		print := c.print
		if print == "" {
			print = "c"
		}
		for _, row := range s.query(fmt.Sprintf("SELECT %s FROM %s ORDER BY id", print, name)) {
			text := row[0]
			if c.float != 0 && text != "NULL" {
				f, err := strconv.ParseFloat(text, 64)
				if err != nil {
					s.t.Fatal(err)
				}
				text = string(AppendFloat(nil, f, c.float))
			}
			want[name] = append(want[name], text)
		}
	}
	for _, r := range rows {
		c := byTable[r.table]
		i := count[r.table]
		count[r.table]++
		if i >= len(want[r.table]) {
			s.t.Errorf("%s: more rows than in the table", c.typ)
			continue
		}
		if w := want[r.table][i]; r.after[1] != w {
			s.t.Errorf("%s, value %s: decoded %q, the server prints %q", c.typ, c.values[i], r.after[1], w)
		}
	}
	for name, c := range byTable {
		if count[name] != len(c.values) {
			s.t.Errorf("%s: %d rows of %d", c.typ, count[name], len(c.values))
		}
	}
}
