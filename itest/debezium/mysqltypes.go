package main

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
)

func mysqlRefusedLong(m *mode) bool { return m.is(propUnsigned, "long") }

// mysqlRefusedMillis: a TIME beyond 596 hours does not fit milliseconds of 32 bits.
func mysqlRefusedMillis(m *mode) bool { return m.is(propTime, "connect") || m.is(propTime, "adaptive") }

// mysqlTypes are the types of MySQL or MariaDB with their border values.
func mysqlTypes(flavour string) []typeCase {
	refused := func(in func(*mode) bool) func(*value) { return func(v *value) { v.refused = in } }
	streamed := func(v *value) { v.streamed = true }
	list := []typeCase{
		sqlValues("tinyint", "-128", "127", "0"), sqlValues("tinyint(1)", "-1", "0", "1", "2"), sqlValues("boolean", "TRUE", "FALSE"), sqlValues("tinyint unsigned", "255", "0"),
		sqlValues("smallint", "-32768", "32767"), sqlValues("smallint unsigned", "65535"), sqlValues("mediumint", "-8388608", "8388607"), sqlValues("mediumint unsigned", "16777215"),
		sqlValues("int", "-2147483648", "2147483647"), sqlValues("int unsigned", "4294967295"), sqlValues("int(10) unsigned zerofill", "42"),
		sqlValues("bigint", "-9223372036854775808", "9223372036854775807", "9007199254740993"),
		sqlValues("bigint unsigned", "18446744073709551615", "9223372036854775808", "9223372036854775807", "0").
			but(refused(mysqlRefusedLong), "18446744073709551615", "9223372036854775808"),
		sqlValues("decimal(65,30)", "12345678901234567890123456789012345.123456789012345678901234567890", "-0.000000000000000000000000000001", "0"),
		sqlValues("decimal(5,0)", "-99999", "0"), sqlValues("decimal(10,2) unsigned", "1.5", "0.01"), sqlValues("decimal(38,10)", "-1.5").
			with(func(r *rand.Rand) string { return fmt.Sprintf("%d.%d", r.Int64(), r.Uint32()) }),
		sqlValues("float", "1.5", "-0.25", "0.1", "3.4028234e38", "1.17549435e-38", "16777216", "0"), sqlValues("float(7,3)", "0.5", "1234.567"), sqlValues("real", "0.1"),
		sqlValues("double", "0.1", "-2.5", "1.7976931348623157e308", "5e-324", "1e20", "123456789012345680").
			with(func(r *rand.Rand) string {
				return fmt.Sprintf("%se%d", strconv.FormatFloat(r.NormFloat64(), 'g', -1, 64), r.IntN(500)-250)
			}),
		sqlValues("double(10,2)", "1.5", "-99999999.99"),
		sqlValues("bit(1)", "0", "1"), sqlValues("bit", "1"), sqlValues("bit(8)", "b'10000001'", "0"), sqlValues("bit(13)", "b'1000000000011'", "1"), sqlValues("bit(64)", "18446744073709551615", "1"),
		quoted("date", "2024-02-29", "1970-01-01", "1969-12-31", "9999-12-31", "1000-01-01", "0001-01-01", "0000-00-00", "2023-00-15", "2023-02-31").but(streamed, "2023-00-15", "2023-02-31"),
		quoted("datetime", "2024-02-29 12:34:56", "1969-12-31 23:59:59", "9999-12-31 23:59:59", "1000-01-01", "0000-00-00", "2023-01-00 01:02:03").but(streamed, "2023-01-00 01:02:03").inNanoseconds(),
		quoted("datetime(3)", "2024-02-29 12:00:00.5", "0000-00-00"), quoted("datetime(6)", "1969-12-31 23:59:59.999999", "2024-02-29 12:34:56.000001"),
		quoted("timestamp NULL", "1970-01-01 00:00:01", "2038-01-19 03:14:07", "0000-00-00"), quoted("timestamp(3) NULL", "2024-02-29 12:00:00.5"), quoted("timestamp(6) NULL", "1970-01-01 00:00:01.000001"),
		quoted("time", "00:00:00", "23:59:59", "-838:59:59", "838:59:59", "-00:00:01", "100:00:00").but(refused(mysqlRefusedMillis), "-838:59:59", "838:59:59"),
		quoted("time(1)", "-00:00:00.5", "12:34:56.7"), quoted("time(3)", "12:34:56.789"), quoted("time(6)", "100:00:00.000001", "00:00:00.000001"),
		sqlValues("year", "0", "1901", "2155", "2024"),
		quoted("char(5)", "ab ", "né", ""), quoted("varchar(20)", "né ", "", "ünï 😀"), quoted("varchar(20) character set latin1", "né"), quoted("varchar(20) character set gbk", "漢字"),
		quoted("tinytext", "x"), quoted("text", "a\tb\nc", `q"uo`, strings.Repeat("long ", 500)), quoted("mediumtext", "x"), quoted("longtext", "x"),
		sqlValues("binary(4)", "x'ab'", "x'AB000000'", "x'00000000'"), sqlValues("varbinary(4)", "x'00ff'", "''"), sqlValues("tinyblob", "x'00'"), sqlValues("blob", "x'fbff'", "''"), sqlValues("longblob", "x'01'"),
		quoted("enum('a','it''s','x,y')", "it's", "", "x,y"), quoted("set('a','b','c d')", "b,a", "", "c d"),
		sqlValues("json", `'{"b": 1.0, "a": [null, "é", true, 1e15]}'`, "'null'", `'"text"'`, "'[]'", "'9007199254740993'"),
		sqlValues("geometry", "ST_GeomFromText('LINESTRING(0 0,1 1)')", "ST_GeomFromText('POINT(1 2)', 4326)"), sqlValues("point", "ST_GeomFromText('POINT(1.5 -2)')"),
		sqlValues("linestring", "ST_GeomFromText('LINESTRING(0 0,1 1)')"), sqlValues("polygon", "ST_GeomFromText('POLYGON((0 0,1 0,1 1,0 0))')"),
		sqlValues("multipoint", "ST_GeomFromText('MULTIPOINT(1 1,2 2)')"), sqlValues("geometrycollection", "ST_GeomFromText('GEOMETRYCOLLECTION(POINT(1 1))')"),
	}
	if flavour == serverMySQL {
		return append(list, sqlValues("vector(3)", "STRING_TO_VECTOR('[1,0.1,-2]')"),
			sqlValues("json", "JSON_ARRAY(DATE '2024-02-29', TIME '-12:34:56.5', TIMESTAMP '2024-02-29 12:34:56.789', CAST(12.50 AS DECIMAL(10,2)), X'00FF')"))
	}
	return append(list, sqlValues("vector(3)", "VEC_FromText('[1,0.1,-2]')"), quoted("uuid", "A0EEBC99-9c0b-4ef8-bb6d-6bb9bd380a11"), // INET4 and INET6 are not known to the parser of Debezium 3.5
		sqlValues("text compressed", "'x'"))
}

// mysqlKeys are types of keys, the column in the key, and two values.
func mysqlKeys() [][4]string {
	return [][4]string{
		{"tinyint unsigned", "v", "1", "255"}, {"bigint unsigned", "v", "1", "2"}, {"bigint", "v", "9007199254740993", "-1"}, {"decimal(10,2)", "v", "1.5", "2"}, {"double", "v", "1.5", "2"},
		{"char(5)", "v", "'a'", "'é'"}, {"varchar(10)", "v", "'a'", "''"}, {"binary(4)", "v", "x'01'", "x'02'"}, {"varbinary(4)", "v", "x'01'", "x'02'"}, {"text", "v(3)", "'abc'", "'xyz'"}, {"blob", "v(2)", "x'0102'", "x'ff'"},
		{"date", "v", "'2024-02-29'", "'1969-12-31'"}, {"datetime(6)", "v", "'2024-02-29 12:00:00.5'", "'1969-12-31 23:59:59'"}, {"timestamp", "v", "'2024-02-29 12:00:00'", "'1970-01-01 00:00:01'"},
		{"time", "v", "'12:34:56'", "'-00:00:01'"}, {"year", "v", "2024", "1901"}, {"enum('a','b')", "v", "'a'", "'b'"}, {"set('a','b')", "v", "'a'", "'a,b'"}, {"bit(8)", "v", "1", "2"},
	}
}

// mysqlShapes are tables whose events depend on more than a type.
func mysqlShapes() []tableCase {
	return []tableCase{
		{
			name: "no key", table: "s_nokey",
			setUp:  []string{"CREATE TABLE s_nokey (a int, b text)", "INSERT INTO s_nokey VALUES (1, 'one')"},
			stream: []string{"INSERT INTO s_nokey VALUES (2, 'two')", "UPDATE s_nokey SET b = 'due' WHERE a = 2", "DELETE FROM s_nokey WHERE a = 2"},
		},
		{
			name: "compound key", table: "s_compound",
			setUp: []string{"CREATE TABLE s_compound (a int, x text, b varchar(10), PRIMARY KEY (b, a))", "INSERT INTO s_compound VALUES (1, 'x', 'one')"},
			stream: []string{
				"INSERT INTO s_compound VALUES (2, 'y', 'two')", "UPDATE s_compound SET x = 'z' WHERE a = 2", "UPDATE s_compound SET a = 3 WHERE a = 2", "DELETE FROM s_compound WHERE a = 3",
			},
		},
		{
			name: "unique key", table: "s_unique",
			setUp:  []string{"CREATE TABLE s_unique (a int, u varchar(10) NOT NULL UNIQUE)", "INSERT INTO s_unique VALUES (1, 'one')"},
			stream: []string{"INSERT INTO s_unique VALUES (2, 'two')", "UPDATE s_unique SET a = 3 WHERE u = 'two'", "DELETE FROM s_unique WHERE u = 'two'"},
		},
		{
			name: "column defaults", table: "s_defaults",
			setUp: []string{
				"CREATE TABLE s_defaults (id int AUTO_INCREMENT PRIMARY KEY, i int DEFAULT 42, d decimal(10,2) DEFAULT 1.5, t varchar(10) DEFAULT 'text', n varchar(10) NOT NULL DEFAULT 'n', ts timestamp NULL DEFAULT CURRENT_TIMESTAMP, dt datetime DEFAULT '2024-02-29', b bit(1) DEFAULT 1)",
				"INSERT INTO s_defaults (id, ts) VALUES (1, '2024-01-01')", "INSERT INTO s_defaults VALUES (2, NULL, NULL, NULL, 'n', NULL, NULL, NULL)",
			},
			stream: []string{"INSERT INTO s_defaults VALUES (3, NULL, NULL, NULL, 'n', NULL, NULL, NULL)", "UPDATE s_defaults SET i = NULL WHERE id = 1", "DELETE FROM s_defaults WHERE id = 3"},
		},
		{
			name: "generated and invisible columns", table: "s_generated",
			setUp:  []string{"CREATE TABLE s_generated (id int PRIMARY KEY, a int, g int GENERATED ALWAYS AS (a * 2) STORED, v int GENERATED ALWAYS AS (a * 3) VIRTUAL, h int INVISIBLE)", "INSERT INTO s_generated (id, a) VALUES (1, 1)"},
			stream: []string{"INSERT INTO s_generated (id, a, h) VALUES (2, 2, 7)", "UPDATE s_generated SET a = 3 WHERE id = 2", "DELETE FROM s_generated WHERE id = 2"},
		},
		{
			name: "changes of the table", table: "s_ddl",
			setUp: []string{"CREATE TABLE s_ddl (id int PRIMARY KEY, a int, gone text)", "INSERT INTO s_ddl VALUES (1, 1, 'one'), (2, 2, 'two')"},
			stream: []string{
				"INSERT INTO s_ddl VALUES (3, 3, 'three')", "ALTER TABLE s_ddl ADD COLUMN n varchar(10) DEFAULT 'new'", "UPDATE s_ddl SET a = 11 WHERE id = 1", "ALTER TABLE s_ddl DROP COLUMN gone",
				"UPDATE s_ddl SET a = 12 WHERE id = 2", "ALTER TABLE s_ddl CHANGE a b bigint", "INSERT INTO s_ddl (id, b) VALUES (5, 5)", "DELETE FROM s_ddl WHERE id = 3",
			},
		},
		{
			name: "transactions", table: "s_tx", also: []string{"s_tx2"},
			setUp: []string{"CREATE TABLE s_tx (id int PRIMARY KEY, n int)", "CREATE TABLE s_tx2 (id int PRIMARY KEY)"},
			stream: []string{
				"BEGIN", "INSERT INTO s_tx VALUES (1, 1)", "INSERT INTO s_tx2 VALUES (1)", "SAVEPOINT s", "INSERT INTO s_tx VALUES (2, 2)", "ROLLBACK TO s", "INSERT INTO s_tx VALUES (3, 3), (4, 4)", "UPDATE s_tx SET n = n + 1", "COMMIT",
				"BEGIN", "INSERT INTO s_tx VALUES (5, 5)", "ROLLBACK",
			},
		},
		{
			name: "truncate", table: "s_truncate",
			setUp:  []string{"CREATE TABLE s_truncate (id int PRIMARY KEY)", "INSERT INTO s_truncate VALUES (1)"},
			stream: []string{"INSERT INTO s_truncate VALUES (2)", "TRUNCATE s_truncate", "INSERT INTO s_truncate VALUES (1)"},
		},
	}
}
