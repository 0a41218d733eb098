package mysql

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/rowtrail/rowtrail/connectors"
	"github.com/rowtrail/rowtrail/itest/servers"
)

// images are the rows of a topic by key: the bytes of the row in its event.
type images map[string]string

// loadedAndStreamed fills tables, loads them, and deletes and fills them again before the connector's eyes. The load, the inserts and the deletes
// must have the same bytes for the same row, and the same keys. It returns them by table, and the database.
func loadedAndStreamed(t *testing.T, m *servers.MySQL, more map[string]string, setup, fill []string, tables ...string) (map[string]images, *database, *testLog) {
	t.Helper()
	d, l := newDatabase(t, m), newLog(t, 1)
	d.exec(setup...)
	d.exec(fill...)
	props := map[string]string{"snapshot.mode": "initial"}
	for k, v := range more {
		props[k] = v
	}
	r := start(t, l, d.config(props))
	counts := map[string]int{}
	for _, name := range tables {
		n := 0
		if _, err := fmt.Sscan(d.value("SELECT COUNT(*) FROM "+name), &n); err != nil || n == 0 {
			t.Fatalf("%s has %d rows: %v", name, n, err)
		}
		counts[name] = n
	}
	r.streaming()
	for _, name := range tables {
		l.waitFor(counts[name], "p."+d.name+"."+name)
	}
	for _, name := range tables {
		d.exec("DELETE FROM " + name)
	}
	d.exec(fill...)
	result := map[string]images{}
	for _, name := range tables {
		n := counts[name]
		byOp := map[string]images{"r": {}, "d": {}, "c": {}}
		for _, x := range l.waitFor(4*n, "p."+d.name+"."+name) { // a tombstone follows each delete
			if x.Tombstone {
				continue
			}
			var v struct{ Before, After json.RawMessage }
			if err := json.Unmarshal([]byte(x.Value), &v); err != nil {
				t.Fatal(err)
			}
			image := v.After
			if x.Op == "d" {
				image = v.Before
			}
			byOp[x.Op][x.Key] = string(image)
		}
		if len(byOp["r"]) != n || len(byOp["d"]) != n || len(byOp["c"]) != n {
			t.Fatalf("%s: %d rows loaded, %d deleted, %d inserted, want %d of each", name, len(byOp["r"]), len(byOp["d"]), len(byOp["c"]), n)
		}
		for key, loaded := range byOp["r"] {
			if byOp["c"][key] != loaded || byOp["d"][key] != loaded && !(m.MariaDB() && byOp["d"][key] == d.withoutGenerated(name, loaded)) {
				t.Errorf("%s %s: loaded\n%s\ninserted\n%s\ndeleted\n%s", name, key, loaded, byOp["c"][key], byOp["d"][key])
			}
		}
		result[name] = byOp["r"]
	}
	return result, d, l
}

// withoutGenerated is an event's row without generated columns: MariaDB 11.8 does not log them of deletes and updates.
func (d *database) withoutGenerated(table, row string) string {
	d.t.Helper()
	for _, c := range connRows(d.t, d.server, "SELECT column_name FROM information_schema.columns WHERE extra LIKE '%GENERATED%' AND table_schema = '"+d.name+"' AND table_name = '"+table+"'") {
		row = regexp.MustCompile(`,"`+c[0]+`":[^,}]*`).ReplaceAllString(row, "")
	}
	return row
}

// holds compares a row's event with what it should be.
func (i images) holds(t *testing.T, key, want string) {
	t.Helper()
	got, ok := i[key]
	if !ok {
		t.Errorf("no row %s in %v", key, i)
	} else if got != want {
		t.Errorf("%s:\n%s\nwant\n%s", key, got, want)
	}
}

// column is one value of a row's event.
func (i images) column(t *testing.T, key, name string) any {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(i[key]))
	d.UseNumber()
	var v map[string]any
	if err := d.Decode(&v); err != nil {
		t.Fatalf("%s: %q: %v", key, i[key], err)
	}
	return v[name]
}

func base64Of(b ...byte) string { return base64.StdEncoding.EncodeToString(b) }

// TestM4BinaryKeepsItsZeroes: the binlog has no zeroes at a BINARY's end, and a key without them is another row.
func TestM4BinaryKeepsItsZeroes(t *testing.T) {
	pool.Each(t, func(t *testing.T, m *servers.MySQL) {
		got, _, _ := loadedAndStreamed(t, m, nil,
			[]string{"CREATE TABLE t (id BINARY(4) PRIMARY KEY, v BINARY(3), w VARBINARY(8))"},
			[]string{"INSERT INTO t VALUES (0xAB000000, 0x010000, 0xAB000000), (0x00000000, 0, ''), (0xABCDEF01, NULL, 0x00), (0x20202020, 0x202020, 0x2020), ('a', '', 'a')"}, "t")
		key := func(b ...byte) string { return `{"id":"` + base64Of(b...) + `"}` }
		row := func(id []byte, v, w string) string {
			return `{"id":"` + base64Of(id...) + `","v":` + v + `,"w":` + w + `}`
		}
		text := func(b ...byte) string { return `"` + base64Of(b...) + `"` }
		for _, c := range []struct {
			id   []byte
			v, w string
		}{
			{[]byte{0xab, 0, 0, 0}, text(1, 0, 0), text(0xab, 0, 0, 0)},
			{[]byte{0, 0, 0, 0}, text('0', 0, 0), text()},
			{[]byte{0xab, 0xcd, 0xef, 1}, "null", text(0)},
			{[]byte("    "), text(' ', ' ', ' '), text(' ', ' ')},
			{[]byte{'a', 0, 0, 0}, text(0, 0, 0), text('a')},
		} {
			got["t"].holds(t, key(c.id...), row(c.id, c.v, c.w))
		}
	})
}

// TestM5JSONIsTheServers: JSON has the server's own text, in the load, in the stream and after an update of another column.
func TestM5JSONIsTheServers(t *testing.T) {
	pool.Each(t, func(t *testing.T, m *servers.MySQL) {
		documents := []string{
			`'{}'`, `'[]'`, `'null'`, `NULL`, `'true'`, `'"text"'`, `'-1'`, `'1.0'`, `'{"v":1e15,"a":9007199254740993}'`,
			`'[18446744073709551615, -9223372036854775808, 32767, 2147483648]'`,
			`'{"bb": 1, "a": {"x": [1, 2.5, -0.0, 1e308, 1e-7, 1e21, 1e20, 123456789012345680000, 0.1]}, "": false}'`,
			`'{"ccc": "\\u00e9\\n\\t\\"\\\\\\u0001/\\ud83d\\ude00"}'`, `'{"k": 1, "k": 2}'`,
		}
		if !m.MariaDB() {
			documents = append(documents, `JSON_ARRAY(CAST('12.340' AS DECIMAL(10,3)), 1.50, 0e0, 3e0, CAST(0.1 AS FLOAT))`,
				`JSON_ARRAY(DATE '2024-02-29', TIME '-12:34:56.5', TIMESTAMP '2024-02-29 12:34:56.789', TIME '838:59:59')`,
				`JSON_OBJECT('bin', CAST('abc' AS BINARY), 'bit', b'101', 'geo', ST_GeomFromText('POINT(1 2)'), 'year', CAST(2024 AS YEAR))`,
				`CAST(12.50 AS JSON)`, `CAST(X'00FF' AS JSON)`, `CAST(-0e0 AS JSON)`)
		}
		var fill []string
		for i, doc := range documents {
			fill = append(fill, fmt.Sprintf("INSERT INTO t VALUES (%d, %s, 0)", i, doc))
		}
		got, d, _ := loadedAndStreamed(t, m, nil, []string{"CREATE TABLE t (id INT PRIMARY KEY, j JSON, n INT)"}, fill, "t")
		for i := range documents {
			id := fmt.Sprint(i)
			var want any
			if d.value("SELECT j IS NULL FROM t WHERE id = "+id) == "0" {
				want = d.value("SELECT CAST(j AS CHAR) FROM t WHERE id = " + id)
			}
			if v := got["t"].column(t, `{"id":`+id+`}`, "j"); v != want {
				t.Errorf("%s: %q, the server has %q", documents[i], v, want)
			}
		}
	})
}

// TestM9MariaDB: compressed events and columns, types that are raw bytes in the binlog, and several domains.
func TestM9MariaDB(t *testing.T) {
	pool.Each(t, func(t *testing.T, m *servers.MySQL) {
		if !m.MariaDB() {
			t.Skip("this is what MariaDB alone has")
		}
		ctx := context.Background()
		if err := m.Exec(ctx, "", "SET GLOBAL log_bin_compress = ON", "SET GLOBAL log_bin_compress_min_len = 10"); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = m.Exec(ctx, "", "SET GLOBAL log_bin_compress = OFF") })
		got, _, _ := loadedAndStreamed(t, m, nil,
			[]string{
				"CREATE TABLE c (id INT PRIMARY KEY, v VARCHAR(1000) COMPRESSED, t TEXT COMPRESSED, b BLOB COMPRESSED, l TEXT COMPRESSED CHARACTER SET latin1)",
				"CREATE TABLE raws (id UUID PRIMARY KEY, i4 INET4, i6 INET6, u UUID)",
			},
			[]string{
				"SET SESSION gtid_domain_id = 0", "INSERT INTO c VALUES (1, REPEAT('v', 500), REPEAT('é', 500), REPEAT(0x00, 500), REPEAT('é', 400))",
				"SET SESSION gtid_domain_id = 7", "INSERT INTO c VALUES (2, 'short', '', 0x00, 'é')",
				"SET SESSION gtid_domain_id = 3", "INSERT INTO c VALUES (3, NULL, NULL, NULL, NULL)",
				"INSERT INTO raws VALUES ('123e4567-e89b-12d3-a456-426655440000', '10.0.0.1', '2001:db8::1', '00000000-0000-0000-0000-000000000000'), ('0188d8a6-0b4f-7c3e-8a12-000000000000', '0.0.0.0', '::ffff:192.0.2.128', NULL)",
				"SET SESSION gtid_domain_id = 0",
			}, "c", "raws")
		got["c"].holds(t, `{"id":1}`, fmt.Sprintf(`{"id":1,"v":"%s","t":"%s","b":"%s","l":"%s"}`, strings.Repeat("v", 500), strings.Repeat("é", 500), base64Of(make([]byte, 500)...), strings.Repeat("é", 400)))
		got["c"].holds(t, `{"id":2}`, `{"id":2,"v":"short","t":"","b":"AA==","l":"é"}`)
		got["c"].holds(t, `{"id":3}`, `{"id":3,"v":null,"t":null,"b":null,"l":null}`)
		const first, second = "123e4567-e89b-12d3-a456-426655440000", "0188d8a6-0b4f-7c3e-8a12-000000000000"
		got["raws"].holds(t, `{"id":"`+first+`"}`, `{"id":"`+first+`","i4":"10.0.0.1","i6":"2001:db8::1","u":"00000000-0000-0000-0000-000000000000"}`)
		got["raws"].holds(t, `{"id":"`+second+`"}`, `{"id":"`+second+`","i4":"0.0.0.0","i6":"::ffff:192.0.2.128","u":null}`)
	})
}

// TestM9DomainsResume: a position of several domains, of which each goes on where it was.
func TestM9DomainsResume(t *testing.T) {
	pool.Each(t, func(t *testing.T, m *servers.MySQL) {
		if !m.MariaDB() {
			t.Skip("MySQL has no domains")
		}
		d, l := newDatabase(t, m), newLog(t, 1)
		d.exec("CREATE TABLE t (id INT PRIMARY KEY)")
		c := d.config(nil)
		want := ""
		for round := range 3 {
			r := start(t, l, c).streaming()
			for i := range 3 {
				id := 10*round + i
				d.exec(fmt.Sprintf("SET SESSION gtid_domain_id = %d", i*5), fmt.Sprintf("INSERT INTO t VALUES (%d)", id))
				want += fmt.Sprintf("c%d ", id)
			}
			l.waitFor(len(strings.Fields(want)), "p."+d.name+".t")
			if err := r.stop(); err != nil {
				t.Fatal(err)
			}
			d.exec("SET SESSION gtid_domain_id = 5", fmt.Sprintf("INSERT INTO t VALUES (%d)", 10*round+9))
			want += fmt.Sprintf("c%d ", 10*round+9)
		}
		start(t, l, c).streaming()
		equal(t, ids(l.waitFor(len(strings.Fields(want)), "p."+d.name+".t")), want)
		if set := l.resumePoint().point.String(); strings.Count(set, ",") < 2 {
			t.Errorf("the position is %s", set)
		}
	})
}

// TestM15UnsignedLimits: no number becomes negative, and the mode that cannot hold one parks the table.
func TestM15UnsignedLimits(t *testing.T) {
	pool.Each(t, func(t *testing.T, m *servers.MySQL) {
		setup := []string{"CREATE TABLE t (id INTEGER UNSIGNED PRIMARY KEY, t TINYINT UNSIGNED, s SMALLINT UNSIGNED, m MEDIUMINT UNSIGNED, b BIGINT UNSIGNED, z INT(7) UNSIGNED ZEROFILL, n BIGINT, x INT8 UNSIGNED)"}
		fill := []string{"INSERT INTO t VALUES (4294967295, 255, 65535, 16777215, 18446744073709551615, 42, 9223372036854775807, 9223372036854775808), (0, 0, 0, 0, 0, 0, -9223372036854775808, 1)"}
		got, _, _ := loadedAndStreamed(t, m, nil, setup, fill, "t")
		most := `"` + base64Of(0, 255, 255, 255, 255, 255, 255, 255, 255) + `"`
		got["t"].holds(t, `{"id":4294967295}`, `{"id":4294967295,"t":255,"s":65535,"m":16777215,"b":`+most+`,"z":42,"n":9223372036854775807,"x":"`+base64Of(0, 128, 0, 0, 0, 0, 0, 0, 0)+`"}`)
		got["t"].holds(t, `{"id":0}`, `{"id":0,"t":0,"s":0,"m":0,"b":"AA==","z":0,"n":-9223372036854775808,"x":"AQ=="}`)
		for _, mode := range []string{"no_data", "initial"} {
			d, l := newDatabase(t, m), newLog(t, 1)
			d.exec(setup...)
			if mode == "initial" {
				d.exec(fill...)
			}
			r := start(t, l, d.config(map[string]string{"bigint.unsigned.handling.mode": "long", "snapshot.mode": mode}))
			if mode == "no_data" {
				r.streaming()
				d.exec(fill...)
			}
			if p := r.parked(d.name + ".t"); !strings.Contains(p.Reason+p.Remedy, d.name+".t.b") {
				t.Errorf("%s: %+v", mode, p)
			}
		}
	})
}

// TestM16DatesOfNoCalendar: zero and partial dates are what the server prints, and a timestamp of zero is not 1970.
func TestM16DatesOfNoCalendar(t *testing.T) {
	pool.Each(t, func(t *testing.T, m *servers.MySQL) {
		got, _, _ := loadedAndStreamed(t, m, nil,
			[]string{"SET sql_mode = 'ALLOW_INVALID_DATES', time_zone = '+00:00'", "CREATE TABLE t (id INT PRIMARY KEY, d DATE, dt DATETIME, dt6 DATETIME(6), ts TIMESTAMP NULL, y YEAR)"},
			[]string{
				"INSERT INTO t VALUES (1, '0000-00-00', '0000-00-00 00:00:00', '0000-00-00 00:00:00.000001', '0000-00-00 00:00:00', 0)",
				"INSERT INTO t VALUES (2, '2023-00-15', '2023-02-00 01:02:03', '2023-02-31 00:00:00.5', '1970-01-01 00:00:01', 1901)",
				"INSERT INTO t VALUES (3, '1970-01-01', '1970-01-01 00:00:00', '9999-12-31 23:59:59.999999', '2038-01-19 03:14:07', 2155)",
				"INSERT INTO t VALUES (4, NULL, NULL, NULL, NULL, NULL)",
			}, "t")
		got["t"].holds(t, `{"id":1}`, `{"id":1,"d":"0000-00-00","dt":"0000-00-00 00:00:00","dt6":"0000-00-00 00:00:00.000001","ts":"0000-00-00 00:00:00","y":0}`)
		got["t"].holds(t, `{"id":2}`, `{"id":2,"d":"2023-00-15","dt":"2023-02-00 01:02:03","dt6":"2023-02-31 00:00:00.500000","ts":"1970-01-01T00:00:01Z","y":1901}`)
		got["t"].holds(t, `{"id":3}`, `{"id":3,"d":0,"dt":0,"dt6":253402300799999999,"ts":"2038-01-19T03:14:07Z","y":2155}`)
		got["t"].holds(t, `{"id":4}`, `{"id":4,"d":null,"dt":null,"dt6":null,"ts":null,"y":null}`)
	})
}

// TestM17Times: negative ones, and those beyond a day, in signed microseconds.
func TestM17Times(t *testing.T) {
	pool.Each(t, func(t *testing.T, m *servers.MySQL) {
		got, _, _ := loadedAndStreamed(t, m, nil, []string{"CREATE TABLE t (id INT PRIMARY KEY, t0 TIME, t1 TIME(1), t6 TIME(6))"},
			[]string{"INSERT INTO t VALUES (1, '-838:59:59', '-837:59:59.5', '-838:59:58.999999'), (2, '838:59:59', '838:59:58.9', '838:59:58.999999'), (3, '-00:00:01', '-00:00:00.1', '-00:00:00.000001'), (4, 0, 0, 0), (5, '24:00:00', '-24:00:00.5', NULL)"}, "t")
		got["t"].holds(t, `{"id":1}`, `{"id":1,"t0":-3020399000000,"t1":-3016799500000,"t6":-3020398999999}`)
		got["t"].holds(t, `{"id":2}`, `{"id":2,"t0":3020399000000,"t1":3020398900000,"t6":3020398999999}`)
		got["t"].holds(t, `{"id":3}`, `{"id":3,"t0":-1000000,"t1":-100000,"t6":-1}`)
		got["t"].holds(t, `{"id":4}`, `{"id":4,"t0":0,"t1":0,"t6":0}`)
		got["t"].holds(t, `{"id":5}`, `{"id":5,"t0":86400000000,"t1":-86400500000,"t6":null}`)
	})
}

// TestM18Charsets: each column has the text that the server makes of it, whatever its charset is, and in a session of another one.
func TestM18Charsets(t *testing.T) {
	pool.Each(t, func(t *testing.T, m *servers.MySQL) {
		texts := map[string]string{
			"ascii": "abc", "latin1": "é€ÿ", "latin2": "łčů", "latin5": "ğış", "latin7": "ąžė", "utf8mb3": "漢é", "utf8mb4": "😀é", "utf16": "😀漢", "utf16le": "😀漢", "utf32": "😀漢", "ucs2": "漢é",
			"gbk": "漢字中", "gb2312": "汉字中", "big5": "漢字中", "sjis": "漢字カナ", "cp932": "①漢字", "ujis": "漢字カ", "eucjpms": "①漢字", "euckr": "한국", "tis620": "ไทย",
			"koi8r": "Привет", "koi8u": "Київ", "cp1251": "Привет", "cp1250": "łčů", "cp1256": "عرب", "cp1257": "ąžė", "cp850": "éü", "cp852": "łč", "cp866": "Привет", "greek": "αβγ", "hebrew": "שלום",
			"armscii8": "Հայ", "geostd8": "ქართ", "dec8": "é", "hp8": "é", "macroman": "é", "macce": "č", "swe7": "å", "keybcs2": "č",
		}
		columns, values := []string{"id INT PRIMARY KEY"}, []string{"1"}
		want := `{"id":1`
		for _, row := range connRows(t, m, "SELECT character_set_name FROM information_schema.character_sets WHERE character_set_name <> 'binary' ORDER BY 1") {
			name := row[0]
			text, ok := texts[name]
			if !ok && name == "gb18030" {
				text, ok = "漢字😀", true
			}
			if !ok {
				t.Errorf("the server has charset %s, which is not tried", name)
				continue
			}
			for i, typ := range []string{"VARCHAR(20)", "CHAR(20)", "TEXT", "ENUM('" + text + "')", "SET('" + text + "')"} {
				columns = append(columns, fmt.Sprintf("%s%d %s CHARACTER SET %s", name, i, typ, name))
				values = append(values, "'"+text+"'")
				want += fmt.Sprintf(`,"%s%d":"%s"`, name, i, text)
			}
		}
		collations := []string{"utf8mb4_ja_0900_as_cs", "utf8mb4_zh_0900_as_cs", "utf8mb4_bin", "utf8mb4_0900_bin"}
		if m.MariaDB() {
			collations = []string{"utf8mb4_uca1400_ai_ci", "utf8mb4_uca1400_swedish_as_cs", "utf8mb4_bin", "utf8mb4_nopad_bin"}
		}
		for _, name := range collations {
			columns = append(columns, name+" VARCHAR(20) CHARACTER SET utf8mb4 COLLATE "+name)
			values = append(values, "'日本 '")
			want += `,"` + name + `":"日本 "`
		}
		got, _, _ := loadedAndStreamed(t, m, nil, []string{"CREATE TABLE t (" + strings.Join(columns, ", ") + ")"}, []string{
			"INSERT INTO t VALUES (" + strings.Join(values, ", ") + ")",
			"SET NAMES latin1", "INSERT INTO t (id, latin10, utf8mb40) VALUES (2, _latin1 0xE9, _latin1 0xE9)", "SET NAMES utf8mb4",
		}, "t")
		got["t"].holds(t, `{"id":1}`, want+"}")
		for _, name := range []string{"latin10", "utf8mb40"} {
			if v := got["t"].column(t, `{"id":2}`, name); v != "é" {
				t.Errorf("%s: %q", name, v)
			}
		}
	})
}

// connRows asks a server.
func connRows(t testing.TB, m *servers.MySQL, statement string) [][]string {
	t.Helper()
	rows, err := m.Query(context.Background(), "", statement)
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

// TestM18BytesThatAreNoText: what is no character of its column's charset parks the table and is not replaced.
func TestM18BytesThatAreNoText(t *testing.T) {
	pool.Each(t, func(t *testing.T, m *servers.MySQL) {
		d, l := newDatabase(t, m), newLog(t, 1)
		d.exec("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(20) CHARACTER SET cp1250)")
		r := start(t, l, d.config(nil)).streaming()
		d.exec("INSERT INTO t VALUES (1, 'ok')")
		l.waitFor(1, "p."+d.name+".t")
		d.exec("INSERT INTO t VALUES (2, _binary 0x81)")
		p := r.parked(d.name + ".t")
		if all := p.Reason + p.Remedy; !strings.Contains(all, d.name+".t.v") || !strings.Contains(all, "cp1250") || !strings.Contains(all, "81") {
			t.Errorf("%+v", p)
		}
		equal(t, ids(l.read("p."+d.name+".t")), "c1")
	})
}

// TestM20BooleansAndBits: TINYINT(1) is a number in load and stream, negative ones too; BIT is BIT(1), a boolean.
func TestM20BooleansAndBits(t *testing.T) {
	pool.Each(t, func(t *testing.T, m *servers.MySQL) {
		got, _, _ := loadedAndStreamed(t, m, nil, []string{"CREATE TABLE t (id INT PRIMARY KEY, t TINYINT(1), b BOOLEAN, u TINYINT(1) UNSIGNED, f BIT, g BIT(1), h BIT(9), i BIT(64))"},
			[]string{"INSERT INTO t VALUES (1, -1, TRUE, 255, b'1', b'0', b'100000001', ~0), (2, 127, FALSE, 0, b'0', b'1', 0, 1), (3, NULL, NULL, NULL, NULL, NULL, NULL, NULL), (4, -128, 2, 2, 1, 1, 255, 9223372036854775808)"}, "t")
		bits := func(b ...byte) string { return `"` + base64Of(b...) + `"` }
		got["t"].holds(t, `{"id":1}`, `{"id":1,"t":-1,"b":1,"u":255,"f":true,"g":false,"h":`+bits(1, 1)+`,"i":`+bits(255, 255, 255, 255, 255, 255, 255, 255)+`}`)
		got["t"].holds(t, `{"id":2}`, `{"id":2,"t":127,"b":0,"u":0,"f":false,"g":true,"h":`+bits(0, 0)+`,"i":`+bits(1, 0, 0, 0, 0, 0, 0, 0)+`}`)
		got["t"].holds(t, `{"id":3}`, `{"id":3,"t":null,"b":null,"u":null,"f":null,"g":null,"h":null,"i":null}`)
		got["t"].holds(t, `{"id":4}`, `{"id":4,"t":-128,"b":2,"u":2,"f":true,"g":true,"h":`+bits(255, 0)+`,"i":`+bits(0, 0, 0, 0, 0, 0, 0, 128)+`}`)
	})
}

// TestM21Timestamps are in UTC whatever the server's and the writer's time zones are; DATETIME has none.
func TestM21Timestamps(t *testing.T) {
	pool.Each(t, func(t *testing.T, m *servers.MySQL) {
		ctx := context.Background()
		if err := m.Exec(ctx, "", "SET GLOBAL time_zone = '-07:30'"); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = m.Exec(ctx, "", "SET GLOBAL time_zone = 'SYSTEM'") })
		got, _, _ := loadedAndStreamed(t, m, nil, []string{"CREATE TABLE t (id INT PRIMARY KEY, ts TIMESTAMP NULL, t6 TIMESTAMP(6) NULL, dt DATETIME, d3 DATETIME(3))"},
			[]string{
				"SET time_zone = '+09:30'", "INSERT INTO t VALUES (1, '2024-02-29 12:00:00', '2024-02-29 12:00:00.123456', '2024-02-29 12:00:00', '2024-02-29 12:00:00.123')",
				"SET time_zone = '+00:00'", "INSERT INTO t VALUES (2, '2024-02-29 12:00:00', '2024-02-29 12:00:00.5', '2024-02-29 12:00:00', '2024-02-29 12:00:00.5')",
			}, "t")
		got["t"].holds(t, `{"id":1}`, `{"id":1,"ts":"2024-02-29T02:30:00Z","t6":"2024-02-29T02:30:00.123456Z","dt":1709208000000,"d3":1709208000123}`)
		got["t"].holds(t, `{"id":2}`, `{"id":2,"ts":"2024-02-29T12:00:00Z","t6":"2024-02-29T12:00:00.500000Z","dt":1709208000000,"d3":1709208000500}`)
	})
}

// TestM22HiddenColumns: what SELECT * does not show is in load and stream: invisible and generated columns, and MySQL's generated key.
func TestM22HiddenColumns(t *testing.T) {
	pool.Each(t, func(t *testing.T, m *servers.MySQL) {
		setup := []string{"CREATE TABLE t (id INT PRIMARY KEY, a INT, hidden INT INVISIBLE DEFAULT 7, v INT GENERATED ALWAYS AS (a * 2) VIRTUAL, s INT GENERATED ALWAYS AS (a * 3) STORED)"}
		fill, tables := []string{"INSERT INTO t (id, a) VALUES (1, 1), (2, NULL)", "INSERT INTO t (id, a, hidden) VALUES (3, 3, NULL)"}, []string{"t"}
		if !m.MariaDB() {
			setup = append(setup, "SET SESSION sql_generate_invisible_primary_key = ON", "CREATE TABLE gipk (a INT)", "SET SESSION sql_generate_invisible_primary_key = OFF")
			fill = append(fill, "INSERT INTO gipk (my_row_id, a) VALUES (1, 10), (2, 10), (18446744073709551614, NULL)")
			tables = append(tables, "gipk")
		}
		got, d, l := loadedAndStreamed(t, m, nil, setup, fill, tables...)
		got["t"].holds(t, `{"id":1}`, `{"id":1,"a":1,"hidden":7,"v":2,"s":3}`)
		got["t"].holds(t, `{"id":2}`, `{"id":2,"a":null,"hidden":7,"v":null,"s":null}`)
		got["t"].holds(t, `{"id":3}`, `{"id":3,"a":3,"hidden":null,"v":6,"s":9}`)
		if !m.MariaDB() {
			got["gipk"].holds(t, `{"my_row_id":"AQ=="}`, `{"my_row_id":"AQ==","a":10}`)
			got["gipk"].holds(t, `{"my_row_id":"Ag=="}`, `{"my_row_id":"Ag==","a":10}`)
			last := base64Of(0, 255, 255, 255, 255, 255, 255, 255, 254)
			got["gipk"].holds(t, `{"my_row_id":"`+last+`"}`, `{"my_row_id":"`+last+`","a":null}`)
		}
		// What a generated column was before is never told of the row as it is.
		d.exec("UPDATE t SET a = 10, hidden = 11 WHERE id = 1")
		topic := "p." + d.name + ".t"
		list := l.waitFor(13, topic)
		updated := images{"1": regexp.MustCompile(`"after":(\{[^}]*\})`).FindStringSubmatch(list[12].Value)[1]}
		want := `{"id":1,"a":10,"hidden":11,"v":20,"s":30}`
		if updated["1"] == d.withoutGenerated("t", want) && m.MariaDB() {
			want = updated["1"]
			if absent := fmt.Sprint(list[12].Pos.Absent); absent != "[3 4]" {
				t.Errorf("absent columns %s", absent)
			}
		}
		updated.holds(t, "1", want)
	})
}

// TestM24CommandNames: the server knows one of the names of each command, and the connector needs no other.
func TestM24CommandNames(t *testing.T) {
	pool.Each(t, func(t *testing.T, m *servers.MySQL) {
		d, l := newDatabase(t, m), newLog(t, 1)
		d.exec("CREATE TABLE t (id INT PRIMARY KEY)")
		c := d.config(nil)
		s, err := c.dial(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		defer s.close()
		refused := map[string]bool{}
		for _, sql := range []string{"SHOW MASTER STATUS", "SHOW BINARY LOG STATUS", "SHOW SLAVE STATUS", "SHOW REPLICA STATUS", "SHOW SLAVE HOSTS", "SHOW REPLICAS"} {
			if _, err := s.query(context.Background(), sql); code(err) == erParse {
				refused[sql] = true
			} else if err != nil {
				t.Fatalf("%s: %v", sql, err)
			}
		}
		removed := []string{"SHOW MASTER STATUS", "SHOW SLAVE STATUS", "SHOW SLAVE HOSTS"}
		if m.MariaDB() {
			removed = []string{"SHOW REPLICAS"}
		}
		for _, sql := range removed {
			if !refused[sql] {
				t.Errorf("the server knows %s: the test tells nothing", sql)
			}
		}
		if at, err := s.binlogStatus(context.Background()); err != nil || at.file == "" || at.pos < fileStart {
			t.Errorf("the end of the binlog: %+v, %v", at, err)
		}
		if replica, err := s.isReplica(context.Background()); err != nil || replica {
			t.Errorf("a replica: %v, %v", replica, err)
		}
		r := start(t, l, c).streaming()
		eventually(t, "the connector among the readers", func() bool {
			list, ok, err := s.readers(context.Background())
			if err != nil || !ok {
				t.Fatalf("readers: %v, %v", ok, err)
			}
			for _, one := range list {
				if one.serverID == c.serverID && one.host == c.hostName() {
					return true
				}
			}
			return false
		})
		if s := r.c.Status(); s.State != connectors.StateStreaming {
			t.Errorf("%+v", s)
		}
	})
}
