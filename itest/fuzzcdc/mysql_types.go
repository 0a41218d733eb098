package main

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// mysqlQuoted is a text literal under the default sql_mode.
func mysqlQuoted(text string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, "'", `\'`).Replace(text) + "'"
}

// of are values given as they stand.
func of(values ...string) func(*rand.Rand) string {
	return func(r *rand.Rand) string { return pick(r, values) }
}

func mysqlText(most int) func(*rand.Rand) string {
	return func(r *rand.Rand) string {
		if most > 1000 && oneIn(r, 4) {
			return fmt.Sprintf("REPEAT(%s, %d)", mysqlQuoted(pick(r, texts())+digitsOf(r, 3)), 1+r.IntN(300))
		}
		return fmt.Sprintf("LEFT(%s, %d)", mysqlQuoted(pick(r, texts())), min(most, 1000))
	}
}

func mysqlBytes(most int) func(*rand.Rand) string {
	return func(r *rand.Rand) string {
		n := r.IntN(most + 1)
		if n > 0 && oneIn(r, 3) {
			return "x'" + hexOf(r, n-1) + "00'" // a server may strip zeros at the end
		}
		return "x'" + hexOf(r, n) + "'"
	}
}

// mysqlKinds are the column types that MySQL and MariaDB have in common, and the server's own.
func mysqlKinds(mariadb bool) []*kind {
	var kinds []*kind
	add := func(name string, literal func(*rand.Rand) string, wider ...string) {
		kinds = append(kinds, &kind{name: name, literal: literal, wider: wider})
	}
	add("tinyint", number(127), "smallint", "int")
	add("tinyint(1)", of("0", "1", "-1", "127"))
	add("tinyint unsigned", of("0", "255", "7"), "smallint unsigned", "int unsigned")
	add("smallint", number(32767), "int", "bigint")
	add("smallint unsigned", of("0", "65535"))
	add("mediumint", number(8388607), "int")
	add("mediumint unsigned", of("0", "16777215", "8388608"))
	add("int", number(2147483647), "bigint")
	add("int unsigned", of("0", "4294967295", "2147483648"), "bigint unsigned")
	add("bigint", number(9223372036854775807))
	add("bigint unsigned", of("0", "18446744073709551615", "9223372036854775808"))
	add("decimal(12,3)", decimal(8, 3), "decimal(20,3)", "decimal(16,5)")
	add("decimal(65,30)", decimal(35, 30))
	add("float", of("0", "-0.0", "1e-30", "0.1", "3.4028234e38", "1.17549435e-38", "123456.79", "16777217"), "double")
	add("double", of("0", "-0.0", "0.1", "1.7976931348623157e308", "5e-324", "0.30000000000000004", "1e21", "123456789012345680"))
	add("varchar(20)", mysqlText(20), "varchar(60)", "text")
	add("varchar(20) CHARACTER SET latin1", of("'caf\u00e9'", "''", "'a  '"))
	add("char(6)", mysqlText(6))
	add("text", mysqlText(60000), "mediumtext")
	add("tinytext", mysqlText(60))
	add("mediumtext", mysqlText(60000))
	add("binary(4)", mysqlBytes(4))
	add("varbinary(9)", mysqlBytes(9), "varbinary(40)")
	add("blob", mysqlBytes(300), "mediumblob")
	add("mediumblob", mysqlBytes(900))
	add("bit(1)", of("b'0'", "b'1'"))
	add("bit(12)", of("b'000000000000'", "b'101010101011'", "b'1'"))
	add("bit(64)", of("b'0'", "18446744073709551615"))
	add("date", of("'2024-02-29'", "'1000-01-01'", "'9999-12-31'"))
	add("datetime", of("'2024-02-29 12:00:00'", "'1000-01-01 00:00:00'", "'9999-12-31 23:59:59'"), "datetime(3)", "datetime(6)")
	add("datetime(3)", of("'2024-02-29 12:00:00.123'", "'1000-01-01 00:00:00.000'"), "datetime(6)")
	add("datetime(6)", of("'2024-02-29 12:00:00.123456'", "'1969-12-31 23:59:59.500000'"))
	add("timestamp NULL", of("'2024-02-29 12:00:00'", "'2000-07-01 00:30:00'"))
	add("timestamp(6) NULL", of("'2024-02-29 12:00:00.123456'", "'2000-07-01 00:30:00.000001'"))
	add("time", of("'838:59:59'", "'-838:59:59'", "'00:00:00'", "'-00:00:01'"))
	add("time(3)", of("'838:59:58.999'", "'-100:00:00.500'", "'00:00:00.001'", "'-00:00:00.001'"))
	add("time(6)", of("'23:59:59.999999'", "'-00:00:00.000001'"))
	add("year", of("2024", "1901", "2155"))
	add("enum('a','b c','it''s','')", of("'a'", "'b c'", "'it''s'", "''"))
	add("set('x','y z','w')", of("'x'", "'x,w'", "''", "'x,y z,w'"))
	add("json", of(`'{"b":1,"a":[1,2.50,null,"x"]}'`, `'[1e15, 9007199254740993, -0.0, true]'`, `'"x"'`, `'null'`, `'{"k":"\\u00e4\\n"}'`))
	add("point", of("ST_GeomFromText('POINT(1 2)')", "ST_GeomFromText('POINT(-0.1 1e-30)')"))
	add("geometry", of("ST_GeomFromText('LINESTRING(0 0,1 1)')", "ST_GeomFromText('POLYGON((0 0,1 0,1 1,0 0))', 4326)"))
	if mariadb {
		add("uuid", of("'123e4567-e89b-12d3-a456-426655440000'", "'00000000-0000-0000-0000-000000000000'"))
		add("inet6", of("'::'", "'2001:db8::1'", "'::ffff:192.0.2.1'"))
		add("inet4", of("'0.0.0.0'", "'192.0.2.1'"))
		add("text COMPRESSED", mysqlText(60000))
	} else {
		add("vector(3)", of("TO_VECTOR('[1,2,3]')", "TO_VECTOR('[-0.1,0,1e30]')"))
	}
	return kinds
}

// mysqlKeys are the types of key columns. Collations and padding make different texts equal.
func mysqlKeys() []*kind {
	var kinds []*kind
	add := func(name string, few int, key func(*rand.Rand, int) string) {
		kinds = append(kinds, &kind{name: name, key: key, few: few})
	}
	format := func(text string) func(*rand.Rand, int) string {
		return func(_ *rand.Rand, i int) string { return fmt.Sprintf(text, i) }
	}
	add("int", 0, func(_ *rand.Rand, i int) string { return fmt.Sprint(i - 10) })
	add("bigint unsigned", 0, func(_ *rand.Rand, i int) string {
		return fmt.Sprint(18446744073709551615 - uint64(i)*607445734561825860)
	})
	add("varchar(40)", 0, func(r *rand.Rand, i int) string { // in another case it is the same key
		if oneIn(r, 3) {
			return fmt.Sprintf("'KEY %d'", i)
		}
		return fmt.Sprintf("'key %d'", i)
	})
	add("varchar(40) CHARACTER SET latin1", 0, format("'ké%d'"))
	add("varchar(40) COLLATE utf8mb4_bin", 0, format("'K %d '"))
	add("char(8)", 0, format("'c%d'"))
	add("binary(4)", 0, format("x'%02x00ff00'"))
	add("varbinary(6)", 0, format("x'%02x00'"))
	add("decimal(10,2)", 0, format("%d.50"))
	add("date", 0, func(_ *rand.Rand, i int) string { return fmt.Sprintf("'2024-01-%02d'", i+1) })
	add("datetime(3)", 0, format("'2024-01-01 00:%02d:00.001'"))
	add("timestamp(6) NOT NULL DEFAULT '2000-01-01 00:00:00'", 0, format("'2024-01-01 00:%02d:00.000001'"))
	add("time(3)", 0, format("'-%02d:00:00.500'"))
	add("double", 0, format("%d.1"))
	add("tinyint unsigned", 5, func(_ *rand.Rand, i int) string { return fmt.Sprint(250 + i%5) })
	add("enum('a','b c','it''s')", 3, func(_ *rand.Rand, i int) string { return []string{"'a'", "'b c'", "'it''s'"}[i%3] })
	add("bit(5)", 0, format("%d"))
	return kinds
}
