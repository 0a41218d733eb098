package rows

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/rowtrail/rowtrail/connectors/event"
	"github.com/rowtrail/rowtrail/connectors/mysql/binlog"
	"github.com/rowtrail/rowtrail/connectors/mysql/charset"
	"github.com/rowtrail/rowtrail/itest/binlogs"
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

// column is a type with random values in SQL.
type typeOf struct {
	typ   string
	value func(*rand.Rand) string
	form  binlog.Form
}

func oneOf(values ...string) func(*rand.Rand) string {
	return func(r *rand.Rand) string { return values[r.IntN(len(values))] }
}

func quoted(s string) string {
	return "'" + strings.ReplaceAll(strings.ReplaceAll(s, `\`, `\\`), "'", "''") + "'"
}

func integers(bits int, unsigned bool) func(*rand.Rand) string {
	return func(r *rand.Rand) string {
		v := r.Uint64() >> (64 - bits) >> r.IntN(bits)
		if r.IntN(4) == 0 {
			v = math.MaxUint64 >> (64 - bits)
		}
		if unsigned {
			return strconv.FormatUint(v, 10)
		}
		return strconv.FormatInt(int64(v<<(64-bits))>>(64-bits), 10)
	}
}

func texts(most int) func(*rand.Rand) string {
	return func(r *rand.Rand) string {
		var b []rune
		for range r.IntN(most + 1) {
			block := [][2]int{{0x20, 0x7e}, {0x20, 0x7e}, {0xa0, 0xff}, {0x391, 0x3c9}, {0x410, 0x44f}, {0x4e00, 0x4fff}, {0x3041, 0x3090}, {0xac00, 0xac80}, {0x5d0, 0x5ea},
				{0x1f600, 0x1f640}, {0x20, 0x20}, {0x2018, 0x2026}}[r.IntN(12)]
			b = append(b, rune(block[0]+r.IntN(block[1]-block[0]+1)))
		}
		return quoted(string(b))
	}
}

func hexes(most int) func(*rand.Rand) string {
	return func(r *rand.Rand) string {
		b := make([]byte, r.IntN(most+1))
		for i := range b {
			b[i] = []byte{0, 0x20, 0xff, byte(r.Uint32())}[r.IntN(4)]
		}
		return fmt.Sprintf("x'%x'", b)
	}
}

func clock(r *rand.Rand, hours int) string {
	s := fmt.Sprintf("%02d:%02d:%02d", r.IntN(hours), r.IntN(60), r.IntN(60))
	if r.IntN(2) == 0 {
		s += fmt.Sprintf(".%06d", r.IntN(1000000))
	}
	return s
}

func dates(r *rand.Rand) string {
	switch r.IntN(8) {
	case 0:
		return "0000-00-00"
	case 1:
		return fmt.Sprintf("%04d-%02d-00", r.IntN(10000), r.IntN(13))
	}
	return fmt.Sprintf("%04d-%02d-%02d", r.IntN(10000), 1+r.IntN(12), 1+r.IntN(28))
}

func times(r *rand.Rand) string {
	s := clock(r, 839)
	if r.IntN(2) == 0 {
		s = "-" + s
	}
	return quoted([]string{s, s, "00:00:00", "-838:59:59", "-00:00:00.5", "-00:00:00.000001"}[r.IntN(6)])
}

func floats(bits int) func(*rand.Rand) string {
	return func(r *rand.Rand) string {
		f := math.Float64frombits(r.Uint64())
		if bits == 32 {
			f = float64(math.Float32frombits(r.Uint32()))
		}
		if math.IsNaN(f) || math.IsInf(f, 0) || r.IntN(3) == 0 {
			f = []float64{0, 0.1, 1.5, 123456.789, 16777217, 1e21, 1e-7, -2.5e-3}[r.IntN(8)]
		}
		return strconv.FormatFloat(f, 'e', -1, bits)
	}
}

func decimals(whole, scale int) func(*rand.Rand) string {
	return func(r *rand.Rand) string {
		digits := func(n int) string {
			b := make([]byte, n)
			for i := range b {
				b[i] = "0000123456789"[r.IntN(13)]
			}
			return string(b)
		}
		s := []string{"", "-"}[r.IntN(2)] + "0" + digits(r.IntN(whole+1))
		if scale > 0 {
			s += "." + digits(scale)
		}
		return s
	}
}

func labels(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, ",'l%d'", i+1)
	}
	return b.String()[1:]
}

func numbers(n uint64) func(*rand.Rand) string {
	return func(r *rand.Rand) string { return strconv.FormatUint(r.Uint64N(n), 10) }
}

func anyTypes(mariaDB bool, charsets []string) []typeOf {
	var list []typeOf
	add := func(typ string, value func(*rand.Rand) string) { list = append(list, typeOf{typ: typ, value: value}) }
	for _, t := range []struct {
		typ  string
		bits int
	}{{"TINYINT", 8}, {"SMALLINT", 16}, {"MEDIUMINT", 24}, {"INT", 32}, {"BIGINT", 64}} {
		add(t.typ, integers(t.bits, false))
		add(t.typ+" UNSIGNED", integers(t.bits, true))
		add(t.typ+" ZEROFILL", integers(t.bits, true))
	}
	add("BOOL", oneOf("TRUE", "FALSE", "-5"))
	add("FLOAT", floats(32))
	add("FLOAT UNSIGNED", floats(32))
	add("FLOAT(7,3)", floats(32))
	add("DOUBLE", floats(64))
	add("DOUBLE(20,4)", floats(64))
	add("YEAR", oneOf("'0000'", "1901", "2024", "2155"))
	for f := range 7 {
		digits := fmt.Sprintf("(%d)", f)
		add("TIME"+digits, times)
		add("DATETIME"+digits, func(r *rand.Rand) string { return quoted(dates(r) + " " + clock(r, 24)) })
		add("TIMESTAMP"+digits+" NULL", func(r *rand.Rand) string {
			if r.IntN(6) == 0 {
				return "'0000-00-00 00:00:00'"
			}
			return quoted(fmt.Sprintf("%04d-%02d-%02d ", 1971+r.IntN(60), 1+r.IntN(12), 1+r.IntN(28)) + clock(r, 24))
		})
	}
	add("DATE", func(r *rand.Rand) string { return quoted(dates(r)) })
	for _, n := range []int{1, 7, 8, 9, 33, 64} {
		add(fmt.Sprintf("BIT(%d)", n), func(r *rand.Rand) string { return strconv.FormatUint(r.Uint64()>>(64-n), 10) })
	}
	for _, d := range [][2]int{{1, 0}, {5, 5}, {10, 3}, {65, 30}, {65, 0}, {18, 9}} {
		add(fmt.Sprintf("DECIMAL(%d,%d)", d[0], d[1]), decimals(d[0]-d[1], d[1]))
	}
	add("DECIMAL(10,2) ZEROFILL", decimals(8, 2))
	for _, cs := range charsets {
		list = append(list, stringsOf(cs)...)
	}
	add("LONGTEXT", func(r *rand.Rand) string { return "REPEAT('é😀', " + strconv.Itoa(r.IntN(20000)) + ")" })
	for _, n := range []int{1, 4, 255} {
		add(fmt.Sprintf("BINARY(%d)", n), hexes(n))
	}
	for _, typ := range []string{"VARBINARY(300)", "TINYBLOB", "BLOB", "MEDIUMBLOB", "LONGBLOB"} {
		add(typ, hexes(40))
	}
	add("ENUM("+labels(300)+")", numbers(301))
	add("ENUM('a','','ß ') CHARACTER SET binary", numbers(4))
	add("SET("+labels(64)+")", func(r *rand.Rand) string { return strconv.FormatUint(r.Uint64(), 10) })
	add("SET('a','b') CHARACTER SET binary", numbers(4))
	points := func(r *rand.Rand) string {
		return fmt.Sprintf("ST_GeomFromText('POINT(%d %d)',%s)", r.IntN(80), r.IntN(80), []string{"0", "4326"}[r.IntN(2)])
	}
	add("POINT", points)
	add("GEOMETRY", func(r *rand.Rand) string {
		if r.IntN(2) == 0 {
			return points(r)
		}
		return "ST_GeomFromText('GEOMETRYCOLLECTION(POINT(1 2),LINESTRING(0 0,1 1.5))')"
	})
	if !mariaDB {
		add("VECTOR(3)", func(r *rand.Rand) string {
			return fmt.Sprintf("STRING_TO_VECTOR('[%d,-2.5e%d,0]')", r.IntN(9), r.IntN(30))
		})
		add("JSON", jsons)
		return list
	}
	add("JSON", jsons)
	for _, c := range []struct {
		typ    string
		form   binlog.Form
		values func(*rand.Rand) string
	}{
		{"UUID", binlog.FormUUID, func(r *rand.Rand) string {
			return fmt.Sprintf("'%08x-%04x-%04x-%04x-%012x'", r.Uint32(), r.IntN(65536), r.IntN(65536), r.IntN(65536), r.Uint64N(1<<48)<<(8*r.IntN(3)&7)&(1<<48-1))
		}},
		{"INET4", binlog.FormInet4, func(r *rand.Rand) string { return fmt.Sprintf("'%d.%d.%d.0'", r.IntN(256), r.IntN(2), r.IntN(256)) }},
		{"INET6", binlog.FormInet6, oneOf("'::'", "'::1'", "'::ffff:192.168.0.1'", "'::1.2.3.4'", "'2001:db8::ff00:42:8329'", "'1:0:2:0:3:0:4:0'", "'1::'", "'0:0:1::'")},
	} {
		list = append(list, typeOf{typ: c.typ, value: c.values, form: c.form})
	}
	for _, typ := range []string{"TEXT COMPRESSED", "VARCHAR(200) COMPRESSED", "BLOB COMPRESSED"} {
		add(typ, oneOf("REPEAT('ab',100)", "''", "'x'", "'é'"))
	}
	return list
}

func jsons(r *rand.Rand) string {
	return oneOf(`'{"b": 1,   "a":[1, 2.0, 1e15, null]}'`, `'"é\\u0001"'`, `'[9007199254740993, 1.5e300, -0.0]'`, `'{}'`, `'null'`)(r)
}

// stringsOf are the types of strings in a charset. Two byte sequences of cp932 and its like are one character, which a conversion by
// the server would not tell.
func stringsOf(cs string) []typeOf {
	set := " CHARACTER SET " + cs
	value := texts(10)
	switch cs {
	case "binary":
		return nil
	case "cp932", "eucjpms":
		value = func(r *rand.Rand) string {
			if cs == "cp932" && r.IntN(2) == 0 {
				return oneOf("x'8790'", "x'81E0'", "x'FA54'", "x'EEF9'", "x'81CA'")(r)
			}
			return texts(10)(r)
		}
	}
	return []typeOf{
		{typ: "CHAR(12)" + set, value: value}, {typ: "VARCHAR(20)" + set, value: value}, {typ: "TEXT" + set, value: value},
		{typ: "ENUM('a','é','z ','ж')" + set, value: numbers(5)}, {typ: "SET('a','é','ж')" + set, value: numbers(8)},
	}
}

type source struct {
	t        *testing.T
	m        *servers.MySQL
	charsets charset.Decoders
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

const valuesOfType = 40

// TestLoadIsStream has random rows of every type in every charset, and compares what is loaded with what the stream decoded.
func TestLoadIsStream(t *testing.T) {
	pool.Each(t, func(t *testing.T, m *servers.MySQL) {
		s := &source{t: t, m: m}
		ctx := t.Context()
		s.check(m.Exec(ctx, "", "DROP DATABASE IF EXISTS rows_test", "CREATE DATABASE rows_test"))
		var charsets []string
		found, err := m.Query(ctx, "", "SHOW CHARACTER SET")
		s.check(err)
		for _, row := range found {
			charsets = append(charsets, row[0])
		}
		types := anyTypes(m.MariaDB(), charsets)
		file, pos, err := m.BinaryLog(ctx)
		s.check(err)
		seed := rand.Uint64()
		t.Logf("%s: %d types, seed %d", m.Version(), len(types), seed)
		r := rand.New(rand.NewPCG(seed, 3))
		statements := []string{"SET NAMES utf8mb4", "SET SESSION sql_mode = '', time_zone = '+00:00'"}
		for i, c := range types {
			statements = append(statements, fmt.Sprintf("CREATE TABLE t%d (id INT PRIMARY KEY, c %s, n INT INVISIBLE DEFAULT 3)", i, c.typ))
			var values []string
			for id := range valuesOfType {
				v := c.value(r)
				if r.IntN(10) == 0 {
					v = "NULL"
				}
				values = append(values, fmt.Sprintf("(%d, %s)", id, v))
			}
			statements = append(statements, fmt.Sprintf("INSERT IGNORE INTO t%d (id, c) VALUES %s", i, strings.Join(values, ", ")))
		}
		s.check(m.Exec(ctx, "rows_test", statements...))
		streamed := s.stream(file, uint32(pos), types)
		conn, err := m.Connect(ctx, "rows_test")
		s.check(err)
		defer conn.Close()
		for _, set := range Settings(m.MariaDB()) {
			_, err := conn.Execute(set)
			s.check(err)
		}
		session := NewSession(conn, s.charset)
		for i, c := range types {
			s.check(session.Select(fmt.Sprintf("SELECT id, c, n FROM t%d ORDER BY id", i)))
			row := make(event.Row, 3)
			var loaded [][]string
			for {
				more, err := session.Next(row)
				s.check(err)
				if !more {
					break
				}
				for j := range row {
					if row[j].State == event.Text && !utf8.Valid(row[j].Text) {
						t.Errorf("%s: %q is no UTF-8", c.typ, row[j].Text)
					}
				}
				loaded = append(loaded, show(row))
			}
			want := streamed[fmt.Sprint("t", i)]
			if len(want) != valuesOfType || len(loaded) != len(want) {
				t.Errorf("%s: %d rows streamed, %d loaded", c.typ, len(want), len(loaded))
				continue
			}
			for j := range want {
				if !slices.Equal(loaded[j], want[j]) {
					t.Errorf("%s (field %+v): loaded %q, streamed %q", c.typ, session.Fields()[1], loaded[j], want[j])
				}
			}
		}
	})
}

// TestNoCharacter: what a column holds and no charset has is an error that names it, in the load as in the stream, and no question
// mark; the rows behind it can still be read.
func TestNoCharacter(t *testing.T) {
	pool.Each(t, func(t *testing.T, m *servers.MySQL) {
		s := &source{t: t, m: m}
		s.check(m.Exec(t.Context(), "", "DROP DATABASE IF EXISTS rows_none", "CREATE DATABASE rows_none"))
		s.check(m.Exec(t.Context(), "rows_none", "CREATE TABLE t (id INT PRIMARY KEY, c VARCHAR(9) CHARACTER SET cp1251)", "INSERT INTO t VALUES (1, x'E998'), (2, x'E9')"))
		conn, err := m.Connect(t.Context(), "rows_none")
		s.check(err)
		defer conn.Close()
		for _, set := range Settings(m.MariaDB()) {
			_, err := conn.Execute(set)
			s.check(err)
		}
		session := NewSession(conn, s.charset)
		s.check(session.Select("SELECT c FROM t ORDER BY id"))
		row := make(event.Row, 1)
		var column *binlog.ColumnError
		var bytes *charset.Error
		if more, err := session.Next(row); !more || !errors.As(err, &column) || column.Name != "c" || !errors.As(err, &bytes) || bytes.Charset != "cp1251" {
			t.Errorf("%v, row %q", err, show(row))
		}
		if more, err := session.Next(row); !more || err != nil || show(row)[0] != "й" {
			t.Errorf("%v, row %q", err, show(row))
		}
		s.check(session.Skip())
	})
}

// stream decodes all rows of a binlog from a place, by table.
func (s *source) stream(file string, pos uint32, types []typeOf) map[string][][]string {
	s.t.Helper()
	packets, err := binlogs.Dump(s.t.Context(), s.m, file, pos)
	s.check(err)
	rows := map[string][][]string{}
	d := binlog.NewDecoder(binlog.Options{})
	for _, p := range packets {
		e, err := d.Decode(p)
		s.check(err)
		if e.Kind != binlog.KindRows || e.Table.Schema != "rows_test" {
			continue
		}
		columns, err := e.Table.FullColumns(s.charset)
		s.check(err)
		var n int
		_, err = fmt.Sscanf(e.Table.Name, "t%d", &n)
		s.check(err)
		if types[n].form != 0 {
			columns[1].Form = types[n].form
		}
		l, err := binlog.NewLayout(e.Table, columns)
		s.check(err)
		row := make(event.Row, len(columns))
		for {
			more, err := e.Rows.Next(l, nil, row)
			if err != nil {
				s.t.Fatalf("%s: %v", types[n].typ, err)
			}
			if !more {
				break
			}
			rows[e.Table.Name] = append(rows[e.Table.Name], show(row))
		}
	}
	return rows
}
