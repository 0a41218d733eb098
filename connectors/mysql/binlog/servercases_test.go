package binlog

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"github.com/rowtrail/rowtrail/connectors/event"
)

// decimals has every precision with several scales.
func (s *source) decimals() {
	columns, want := []string{}, [][]string{nil, nil, nil}
	for p := 1; p <= 65; p++ {
		for _, scale := range []int{0, 1, 2, p / 3, p / 2, p - 1, p} {
			if scale > 30 || scale > p || scale < 0 {
				continue
			}
			columns = append(columns, fmt.Sprintf("d%d DECIMAL(%d,%d)", len(columns), p, scale))
			digits := strings.Repeat("9", p-scale)
			if digits == "" {
				digits = "0"
			}
			small, frac := "0", ""
			if scale > 0 {
				frac = "." + strings.Repeat("9", scale)
				small = "0." + strings.Repeat("0", scale-1) + "1"
			}
			random := ""
			for i := range p {
				random += strconv.Itoa((i*7+p)%9 + 1)
			}
			random = "-" + random[:p-scale] + "." + random[p-scale:]
			if scale == 0 {
				random = strings.TrimSuffix(random, ".")
			}
			random = strings.Replace(random, "-.", "-0.", 1)
			want[0], want[1], want[2] = append(want[0], digits+frac), append(want[1], small), append(want[2], random)
		}
	}
	packets := s.capture(slices.Concat([]string{"DROP TABLE IF EXISTS decs", "CREATE TABLE decs (" + strings.Join(columns, ",") + ") ENGINE=MyISAM"}, []string{
		"INSERT INTO decs VALUES (" + strings.Join(want[0], ",") + ")", "INSERT INTO decs VALUES (" + strings.Join(want[1], ",") + ")",
		"INSERT INTO decs VALUES (" + strings.Join(want[2], ",") + ")"})...)
	rows, _ := s.decodeAll(packets, nil)
	printed := s.query("SELECT * FROM decs")
	if len(rows) != 3 {
		s.t.Fatalf("%d rows", len(rows))
	}
	for i := range rows {
		if !slices.Equal(rows[i].after, printed[i]) {
			s.t.Errorf("decoded %v\nprinted %v", rows[i].after, printed[i])
		}
	}
}

func randomJSON(r *rand.Rand, depth int) string {
	switch n := r.IntN(14); {
	case n < 3 && depth < 5, n == 0:
		var parts []string
		for range r.IntN(6) {
			parts = append(parts, randomJSON(r, depth+1))
		}
		return "[" + strings.Join(parts, ",") + "]"
	case n < 6 && depth < 5:
		var parts []string
		for range r.IntN(6) {
			parts = append(parts, fmt.Sprintf(`"%s":%s`, []string{"a", "b", "bb", "é", "zzz", "x y", `q\"u`, "", "k\\n"}[r.IntN(9)], randomJSON(r, depth+1)))
		}
		return "{" + strings.Join(parts, ",") + "}"
	case n < 9:
		f := r.NormFloat64()
		for range r.IntN(20) {
			f *= []float64{10, 0.1, 1000, 1e-5}[r.IntN(4)]
		}
		return strconv.FormatFloat(f, 'g', 1+r.IntN(17), 64)
	case n < 11:
		return strconv.FormatInt(int64(r.Uint64())>>r.IntN(64), 10)
	case n < 12:
		return []string{"null", "true", "false"}[r.IntN(3)]
	}
	return []string{`"x"`, `"é😀"`, `"a\"b\\c\n\t\u0001\u001f\b\f\r/"`, `""`, `"\u007f"`}[r.IntN(5)]
}

func jsonLiterals() []string {
	q := func(s string) string {
		return "'" + strings.ReplaceAll(strings.ReplaceAll(s, `\`, `\\`), "'", "''") + "'"
	}
	values := []string{
		`1.0`, `1e15`, `1e14`, `1e16`, `123456789012345678`, `9007199254740993`, `18446744073709551615`, `-9223372036854775808`, `18446744073709551616`,
		`0.1`, `1e-5`, `1e-14`, `1e-15`, `1e-16`, `1.5e300`, `5e-324`, `-0.0`, `0.0`, `100.5`, `1e21`, `1e22`, `123456789012345.6`, `1234567890123456.7`, `-1e-20`,
		`{"v":1e15,"a":9007199254740993}`, `{"bb":1,"a":2,"ccc":3,"b":4}`, `[]`, `{}`, `null`, `"x"`, `[[[[1]]]]`, `32767`, `32768`, `65535`, `65536`, `-32768`, `-32769`, `2147483648`, `4294967296`,
		`"` + strings.Repeat("a", 127) + `"`, `"` + strings.Repeat("é", 200) + `"`, `"` + strings.Repeat("x", 20000) + `"`, `[` + strings.Repeat(`"abcdefgh",`, 8000) + `1,70000,-70000]`,
		`{"x":` + strings.Repeat(`[`, 60) + strings.Repeat(`]`, 60) + `}`,
	}
	var out []string
	for _, v := range values {
		out = append(out, q(v))
	}
	r := rand.New(rand.NewPCG(1, 2))
	for range 400 {
		out = append(out, q(randomJSON(r, 0)))
	}
	return append(out, "JSON_ARRAY(CAST(1.50 AS DECIMAL(10,2)), CAST(-99999999999999999999.000001 AS DECIMAL(40,6)), CAST(0 AS DECIMAL(5,5)))",
		"JSON_OBJECT('d', DATE'2024-02-29', 't', TIME'-12:34:56.789', 'dt', TIMESTAMP'2024-02-29 12:34:56.1', 't0', TIME'00:00:00', 'long', TIME'838:59:59', 'y', CAST(2024 AS YEAR))",
		"JSON_OBJECT('b', x'00ff41', 'long', CAST(REPEAT('ab',100) AS BINARY), 'bit', b'101', 'empty', CAST('' AS BINARY))",
		"CAST(CAST(REPEAT('x',57) AS BINARY) AS JSON)", "CAST(CAST(REPEAT('x',58) AS BINARY) AS JSON)", "CAST(CAST(REPEAT('x',114) AS BINARY) AS JSON)",
		"CAST(ST_GeomFromText('POINT(1 2)') AS JSON)", "CAST(DATE'0000-00-00' AS JSON)", "CAST(18446744073709551615 AS JSON)", "NULL")
}

func (s *source) json() {
	if s.m.MariaDB() {
		return // JSON is text there, of which the types have a case
	}
	s.types([]typeCase{{typ: "JSON", values: jsonLiterals()}}, "j")
}

// partialJSON follows a document through changes that the server logs as diffs, with full and minimal images.
func (s *source) partialJSON() {
	if s.m.MariaDB() {
		return
	}
	changes := []string{
		`JSON_SET(j,'$.a',2)`, `JSON_SET(j,'$.new',JSON_OBJECT('x',1.0,'yy',CAST(1.50 AS DECIMAL(5,2))))`, `JSON_SET(j,'$.new.x','str"q')`,
		`JSON_REMOVE(j,'$.a')`, `JSON_SET(j,'$.l[1]',JSON_ARRAY(1,2))`, `JSON_SET(j,'$.l[9]','end')`, `JSON_REMOVE(j,'$.l[0]')`, `JSON_SET(j,'$."x y"',TIME'01:02:03')`,
		`JSON_SET(j,'$."q\\"u"',1e15)`, `JSON_REPLACE(j,'$.l[1]',null)`, `JSON_SET(j,'$.b',1,'$.c',2,'$.bb',3)`, `JSON_REMOVE(j,'$.b','$.bb')`, `JSON_SET(j,'$.é','ü')`,
		`JSON_SET(j,'$.b64',CAST(REPEAT('x',100) AS BINARY))`, `JSON_SET(j,'$.a','v')`, `JSON_SET(j,'$.l[0][1]',x'00')`, `JSON_REPLACE(j,'$.nothing',1)`, `JSON_SET(k,'$.z',1)`, `j`,
	}
	for _, image := range []string{"FULL", "MINIMAL"} {
		statements := []string{"DROP TABLE IF EXISTS pj, pjlog", "CREATE TABLE pj (id INT PRIMARY KEY, j JSON, n INT, k JSON)", "CREATE TABLE pjlog (id INT AUTO_INCREMENT PRIMARY KEY, j LONGTEXT)",
			`INSERT INTO pj VALUES (1, '{"a":1,"l":[1.0,"two",{"t":3}],"big":"` + strings.Repeat("x", 500) + `","u":"e\\u0001"}', 0, '{}')`,
			"SET SESSION binlog_row_value_options=PARTIAL_JSON, binlog_row_image=" + image}
		for _, c := range changes {
			statements = append(statements, "UPDATE pj SET n=n+1, j="+c, "INSERT INTO pjlog (j) SELECT CAST(j AS CHAR) FROM pj")
		}
		d := NewDecoder(Options{})
		var current, logged [][]byte
		diffs := 0
		before, after := make(event.Row, 4), make(event.Row, 4)
		for _, p := range s.capture(statements...) {
			e, err := d.Decode(p)
			if err != nil {
				s.t.Fatal(err)
			}
			if e.Kind != KindRows {
				continue
			}
			columns, err := e.Rows.Table.FullColumns(s.charset)
			if err != nil {
				s.t.Fatal(err)
			}
			l, err := NewLayout(e.Rows.Table, columns)
			if err != nil {
				s.t.Fatal(err)
			}
			for {
				more, err := e.Rows.Next(l, before, after)
				if err != nil {
					s.t.Fatal(err)
				}
				if !more {
					break
				}
				if e.Rows.Table.Name == "pjlog" {
					logged = append(logged, slices.Clone(after[1].Text))
					continue
				}
				switch {
				case after[1].State == event.Text:
					current = append(current, slices.Clone(after[1].Text))
				case len(e.Rows.Diffs) > 0:
					diffs++
					text := current[len(current)-1]
					for _, diff := range e.Rows.Diffs {
						if diff.Index == 1 {
							if text, err = ApplyDiff(nil, text, diff.Change); err != nil {
								s.t.Fatal(err)
							}
						}
					}
					current = append(current, text)
				case len(current) > 0:
					current = append(current, current[len(current)-1])
				}
			}
		}
		if len(current) != len(logged)+1 || len(logged) != len(changes) {
			s.t.Fatalf("%s: %d documents, %d logged", image, len(current), len(logged))
		}
		for i := range logged {
			if string(current[i+1]) != string(logged[i]) {
				s.t.Errorf("%s: after %s\ndecoded %s\nprinted %s", image, changes[i], current[i+1], logged[i])
			}
		}
		if image == "MINIMAL" && diffs < 10 {
			s.t.Errorf("%d diffs: the test tests nothing", diffs)
		}
	}
}

// images has rows of all three row images, and both invisible and generated columns.
func (s *source) images() {
	rows, _ := s.decodeAll(s.capture("DROP TABLE IF EXISTS img",
		"CREATE TABLE img (id INT PRIMARY KEY, a INT, t TEXT, g INT GENERATED ALWAYS AS (a+1) STORED, v INT GENERATED ALWAYS AS (a+2) VIRTUAL, i INT INVISIBLE)",
		"INSERT INTO img (id,a,t,i) VALUES (1,1,'x',9)", "SET SESSION binlog_row_image=MINIMAL", "UPDATE img SET a=2", "UPDATE img SET t=NULL",
		"SET SESSION binlog_row_image=NOBLOB", "UPDATE img SET a=3", "DELETE FROM img", "SET SESSION binlog_row_image=MINIMAL", "INSERT INTO img (id) VALUES (5)", "DELETE FROM img"), nil)
	if len(rows) != 7 {
		s.t.Fatalf("%d rows", len(rows))
	}
	check := func(i int, before, after string) {
		s.t.Helper()
		if b, a := strings.Join(rows[i].before, ","), strings.Join(rows[i].after, ","); b != before || a != after {
			s.t.Errorf("row %d: %q to %q, want %q to %q", i, b, a, before, after)
		}
	}
	check(0, "", "1,1,x,2,3,9")
	noblob := "1,3,ABSENT,4,5,9"
	if s.m.Version() == "mariadb:11.8" { // from 11.x it counts generated columns as what can be computed
		noblob = "1,3,ABSENT,ABSENT,ABSENT,9"
	}
	check(4, noblob, "")
	check(6, "5,ABSENT,ABSENT,ABSENT,ABSENT,ABSENT", "")
	for i, c := range rows[1:4] {
		if c.before[0] != "1" || c.before[2] != "ABSENT" {
			s.t.Errorf("row %d: %v", i, c)
		}
	}
	if rows[1].after[1] != "2" || rows[1].after[2] != "ABSENT" || rows[2].after[2] != "NULL" || rows[2].after[1] != "ABSENT" || rows[3].after[2] != "ABSENT" {
		s.t.Errorf("%v", rows[1:4])
	}
}

// defaults has rows of which no column is sent.
func (s *source) defaults() {
	statements := []string{"DROP TABLE IF EXISTS dflt", "CREATE TABLE dflt (a INT DEFAULT 1, b INT DEFAULT 2)", "SET SESSION binlog_row_image=MINIMAL",
		"INSERT INTO dflt VALUES ()", "INSERT INTO dflt (b) VALUES (3)"}
	want := "[ABSENT ABSENT] [ABSENT 3]"
	if s.m.MariaDB() {
		statements = append(statements, "INSERT INTO dflt VALUES (),()") // MySQL fails to log it
		want = "[1 2] [1 3] [1 2] [1 2]"
	}
	rows, _ := s.decodeAll(s.capture(statements...), nil)
	var got []string
	for _, r := range rows {
		got = append(got, fmt.Sprint(r.after))
	}
	if strings.Join(got, " ") != want {
		s.t.Errorf("%v, want %s", got, want)
	}
}

// compressed has the same rows compressed and not: a transaction payload of MySQL, log_bin_compress of MariaDB.
func (s *source) compressed() {
	work := []string{"DROP TABLE IF EXISTS cmp", "CREATE TABLE cmp (id INT PRIMARY KEY, a VARCHAR(2000), t LONGTEXT)", "BEGIN"}
	for i := range 300 {
		work = append(work, fmt.Sprintf("INSERT INTO cmp VALUES (%d, REPEAT('ab%d', 100), REPEAT('q%d', %d))", i, i, i, i*7))
	}
	work = append(work, "UPDATE cmp SET a='x' WHERE id<50", "DELETE FROM cmp WHERE id>250", "COMMIT", "INSERT INTO cmp VALUES (1000, REPEAT('z',2000), REPEAT('y',3000000))")
	plain, _ := s.decodeAll(s.capture(work...), nil)
	on, off := "SET SESSION binlog_transaction_compression=ON", "SET SESSION binlog_transaction_compression=OFF"
	if s.m.MariaDB() {
		on, off = "SET GLOBAL log_bin_compress=ON", "SET GLOBAL log_bin_compress=OFF"
	}
	packets := s.capture(append(append([]string{on}, work...), off)...)
	packed, kinds := s.decodeAll(packets, nil)
	size, payloads, packedEvents := 0, 0, 0
	for _, p := range packets {
		size += len(p)
		switch t := Type(p[4]); {
		case t == typePayload:
			payloads++
		case t >= typeQueryCompressed && t <= typeDeleteRows1Packed:
			packedEvents++
		}
	}
	if payloads == 0 && packedEvents < 10 || size > 1_000_000 {
		s.t.Errorf("%d payloads, %d compressed events, %d bytes: nothing is compressed", payloads, packedEvents, size)
	}
	if payloads > 0 && !slices.Contains(kinds, KindXID) {
		s.t.Error("no commit came out of a payload")
	}
	if len(plain) != len(packed) || len(plain) < 400 {
		s.t.Fatalf("%d rows, compressed %d", len(plain), len(packed))
	}
	for i := range plain {
		if !slices.Equal(plain[i].before, packed[i].before) || !slices.Equal(plain[i].after, packed[i].after) || plain[i].op != packed[i].op {
			s.t.Fatalf("row %d differs", i)
		}
	}
}

// mariadb has MariaDB's COMPRESSED columns with zlib's frame, and temporal types of the old form.
func (s *source) mariadb() {
	if !s.m.MariaDB() {
		return
	}
	var packed, old []typeCase
	for _, c := range typeCases() {
		switch {
		case strings.Contains(c.typ, "COMPRESSED"):
			packed = append(packed, c)
		case strings.HasPrefix(c.typ, "TIME"), strings.HasPrefix(c.typ, "DATETIME"):
			if at := strings.IndexByte(c.typ, '('); at >= 0 {
				digits := int(c.typ[at+1] - '0')
				c.mend = func(column *Column) { column.Fraction = digits }
			}
			old = append(old, c)
		}
	}
	s.exec("", "SET GLOBAL column_compression_zlib_wrap=ON", "SET GLOBAL mysql56_temporal_format=OFF")
	s.types(packed, "w")
	s.types(old, "o")
	s.exec("", "SET GLOBAL column_compression_zlib_wrap=OFF", "SET GLOBAL mysql56_temporal_format=ON")
}
