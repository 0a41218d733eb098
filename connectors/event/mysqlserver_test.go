package event

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/rowtrail/rowtrail/itest/servers"
)

// mysqlCase is a column type with SQL values, and the expression that makes the canonical text of column v.
type mysqlCase struct {
	typ, canonical string
	labels         []string
	values         []string
}

const plainText, hexText = "v", `CONCAT('\\x', LOWER(HEX(v)))`

func mysqlCases(m *servers.MySQL) []mysqlCase {
	bits := func(n int) string { return fmt.Sprintf("LPAD(BIN(v + 0), %d, '0')", n) }
	list := []mysqlCase{
		{"tinyint(1)", plainText, nil, []string{"-128", "127", "0"}}, {"boolean", plainText, nil, []string{"TRUE", "-1"}},
		{"tinyint unsigned", plainText, nil, []string{"255"}}, {"smallint unsigned", plainText, nil, []string{"65535"}},
		{"mediumint unsigned", plainText, nil, []string{"16777215"}}, {"int unsigned", plainText, nil, []string{"4294967295"}},
		{"bigint", plainText, nil, []string{"-9223372036854775808", "9223372036854775807"}},
		{"bigint unsigned", plainText, nil, []string{"18446744073709551615", "9223372036854775808", "0"}},
		{"decimal(65,30)", plainText, nil, []string{"12345678901234567890123456789012345.123456789012345678901234567890", "-0.000000000000000000000000000001", "0"}},
		{"decimal(5,0)", plainText, nil, []string{"-99999", "0"}}, {"numeric(10,2) unsigned", plainText, nil, []string{"1.5"}},
		{"float", plainText, nil, []string{"1.5", "-0.25"}}, {"double", plainText, nil, []string{"0.1", "-2.5"}}, {"float(7,3)", plainText, nil, []string{"0.5"}},
		{"bit(1)", bits(1), nil, []string{"0", "1"}}, {"bit", bits(1), nil, []string{"1"}}, {"bit(13)", bits(13), nil, []string{"b'1000000000011'", "1"}},
		{"bit(64)", bits(64), nil, []string{"18446744073709551615", "1"}},
		{"date", plainText, nil, []string{"'0000-00-00'", "'2023-00-15'", "'2023-02-31'", "'0000-01-01'", "'9999-12-31'", "'1969-12-31'"}},
		{"datetime", plainText, nil, []string{"'0000-00-00'", "'2023-01-00 01:02:03'", "'1000-01-01'", "'9999-12-31 23:59:59'"}},
		{"datetime(3)", plainText, nil, []string{"'2024-02-29 12:00:00.5'", "'0000-00-00'"}}, {"datetime(6)", plainText, nil, []string{"'1969-12-31 23:59:59.999999'"}},
		{"timestamp NULL", plainText, nil, []string{"'0000-00-00'", "'1970-01-01 00:00:01'", "'2038-01-19 03:14:07'"}},
		{"timestamp(6) NULL", plainText, nil, []string{"'1970-01-01 00:00:01.000001'"}},
		{"time", plainText, nil, []string{"'-838:59:59'", "'838:59:59'", "'00:00:00'", "'-00:00:00'"}}, {"time(1)", plainText, nil, []string{"'-00:00:00.5'"}},
		{"time(6)", plainText, nil, []string{"'100:00:00.000001'", "'596:31:23.648001'"}},
		{"year", "CAST(v AS CHAR)", nil, []string{"0", "1901", "2155"}},
		{"char(5)", plainText, nil, []string{"'ab '", "'né'"}}, {"varchar(20) character set latin1", plainText, nil, []string{"'né '"}}, {"longtext", plainText, nil, []string{"'\\n\\0'"}},
		{"binary(4)", hexText, nil, []string{"x'ab'", "x'AB000000'"}}, {"varbinary(4)", hexText, nil, []string{"x'00ff'", "''"}}, {"blob", hexText, nil, []string{"x'fbff'"}},
		{"enum('a','it''s','x,y')", plainText, []string{"a", "it's", "x,y"}, []string{"'it''s'", "''"}}, {"set('a','b')", plainText, []string{"a", "b"}, []string{"'b,a'", "''"}},
		{"geometry", hexText, nil, []string{"ST_GeomFromText('LINESTRING(0 0,1 1)', 4326)"}}, {"point", hexText, nil, []string{"ST_GeomFromText('POINT(1.5 -2)')"}},
		{"geometrycollection", hexText, nil, []string{"ST_GeomFromText('GEOMETRYCOLLECTION(POINT(1 1))')"}},
		{"json", plainText, nil, []string{`'{"b": 1.0, "a": [null, "é"]}'`}},
	}
	switch {
	case !m.MariaDB():
		list = append(list, mysqlCase{"vector(3)", hexText, nil, []string{"STRING_TO_VECTOR('[1,0.1,-2]')"}})
	case strings.HasPrefix(m.Version(), "mariadb:11"):
		list = append(list, mysqlCase{"vector(3)", hexText, nil, []string{"VEC_FromText('[1,0.1,-2]')"}})
	}
	if m.MariaDB() {
		list = append(list, mysqlCase{"uuid", plainText, nil, []string{"'A0EEBC99-9c0b-4ef8-bb6d-6bb9bd380a11'"}},
			mysqlCase{"inet6", plainText, nil, []string{"'::FFFF:10.0.0.1'"}}, mysqlCase{"inet4", plainText, nil, []string{"'10.0.0.1'"}})
	}
	return list
}

// TestM15M16M17MySQLValues asks real servers for the facts of each type and the canonical text of its values, and sends them through each
// format.
func TestM15M16M17MySQLValues(t *testing.T) {
	servers.EachMySQL(t, servers.Options{}, func(t *testing.T, m *servers.MySQL) {
		ctx := context.Background()
		if err := m.CreateDatabase(ctx, "types"); err != nil {
			t.Fatal(err)
		}
		cases := mysqlCases(m)
		values := 0
		for n, c := range cases {
			table := "t" + strconv.Itoa(n)
			statements := []string{"SET sql_mode = 'ALLOW_INVALID_DATES', time_zone = '+00:00'", "CREATE TABLE " + table + "(id int AUTO_INCREMENT PRIMARY KEY, v " + c.typ + ")"}
			for _, v := range c.values {
				statements = append(statements, "INSERT INTO "+table+"(v) VALUES ("+v+")")
			}
			if err := m.Exec(ctx, "types", statements...); err != nil {
				t.Fatalf("%s: %v", c.typ, err)
			}
			column := serverColumn(t, m, table, c.labels)
			rows, err := m.Query(ctx, "types", "SELECT "+c.canonical+" FROM "+table+" ORDER BY id")
			if err != nil || len(rows) != len(c.values) {
				t.Fatalf("%s: %v, %v", c.typ, rows, err)
			}
			for _, o := range mysqlFormats() {
				p := newPair(t, o, column)
				for _, row := range rows {
					if len(p.schema.Lossy()) > 0 {
						continue
					}
					values++
					got, event, err := p.trip(row[0])
					if refusal := mysqlRefusal(o, &column, row[0]); refusal != nil {
						if !errors.Is(err, refusal) {
							t.Errorf("%+v %s %s: want %v, got %v", o.Format(), c.typ, row[0], refusal, err)
						}
						continue
					}
					if err != nil || got != row[0] {
						t.Errorf("%+v %s: %q became %q by %s, %v", o.Format(), column.Type, row[0], got, event, err)
					}
				}
			}
		}
		t.Logf("%d types, %d values sent through", len(cases), values)
	})
}

func serverColumn(t *testing.T, m *servers.MySQL, table string, labels []string) Column {
	t.Helper()
	rows, err := m.Query(context.Background(), "types", `SELECT data_type, column_type, coalesce(character_maximum_length, -1), coalesce(numeric_precision, 0),
		coalesce(numeric_scale, -1), coalesce(datetime_precision, 0), coalesce(character_set_name, ''), coalesce(collation_name, '')
		FROM information_schema.columns WHERE table_schema = 'types' AND table_name = '`+table+`' AND column_name = 'v'`)
	if err != nil || len(rows) != 1 {
		t.Fatalf("%v, %v", rows, err)
	}
	r := rows[0]
	number := func(i int) int { v, _ := strconv.Atoi(r[i]); return v }
	f := MySQLFacts{DataType: r[0], ColumnType: r[1], Length: int64(number(2)), Precision: number(3), Scale: number(4), Fraction: number(5),
		Unsigned: strings.Contains(r[1], "unsigned"), Charset: r[6], Collation: r[7], Labels: labels}
	c, err := MySQLColumn("v", f, false, 1)
	if err != nil {
		t.Fatal(err)
	}
	return c
}
