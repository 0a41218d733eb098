package postgres

import (
	"context"
	"testing"

	"github.com/rowtrail/rowtrail/connectors/event"
	"github.com/rowtrail/rowtrail/sink/sinktest"
)

// typeSQL has a column of every family with its hard values.
const typeSQL = `CREATE TYPE mood AS ENUM ('sad', 'ok');
CREATE TYPE pair AS (a integer, b text);
CREATE DOMAIN posint AS integer CHECK (VALUE > 0);
CREATE TABLE every (id integer PRIMARY KEY, sm smallint, bi bigint, o oid, r real, d double precision, n numeric, n2 numeric(10,2), mo money, bo boolean,
	c char(5), vc varchar(7), vc0 varchar, t text, nm name, by bytea, da date, ti time(3), tz timetz, ts timestamp(3), ts0 timestamp, tsz timestamptz,
	iv interval, iv2 interval day to second(3), b1 bit, b3 bit(3), bv bit varying, bv5 bit varying(5), u uuid, j json, jb jsonb, x xml,
	i4 inet, ci cidr, ma macaddr, pt point, bx box, ir int4range, nr numrange, tr tstzrange, tv tsvector, tq tsquery, e mood, ea mood[],
	ia integer[], ta text[], na numeric(5,1)[], ba bit(3)[], ca char(3)[], tsa timestamp[], mi "char", pl pg_lsn);
INSERT INTO every VALUES
(1, -32768, -9223372036854775808, 4294967295, 'NaN', '-Infinity', 'NaN', -99999999.99, '-$1,234.56', true,
	'a  ', 'äöü', '', E'tab\t"q"\\ \n''x', 'n', '\x00ff', 'infinity', '23:59:59.999', '24:00:00+15:59:59', 'infinity', '4713-01-01 00:00:00 BC', '294276-12-31 23:59:59.999999+00',
	'-1 years -2 mons +3 days -04:05:06.789', '3 days 04:05:06.789', B'1', B'101', B'', B'10101', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', '{"a" : 1e400}', '{"b": [null, "\u0041"]}', '<a>&amp;</a>',
	'192.168.0.1/24', '10.0.0.0/8', '08:00:2b:01:02:03', '(1.5,-2)', '(1,1),(0,0)', '[1,5)', 'empty', '["2024-01-01 00:00:00+00",)', '''a'':1 ''b'':2A', '''a'' & !''b''', 'ok', '{sad,NULL}',
	'[0:1]={1,NULL}', '{"a,b","c\"d",NULL,"NULL",""}', '{1.5,NaN}', '{101,NULL}', '{"a ",NULL}', '{infinity,NULL}', 'x', '16/B374D848'),
(2, 32767, 9223372036854775807, 0, 1.17549435e-38, 4.9e-324, 1e131071, 0.01, '$0.00', false,
	'abcde', '1234567', 'x', '', '', '', '4713-01-01 BC', '00:00', '00:00:00-15:59:59', '2024-02-29 12:00:00.123', '-infinity', '-infinity',
	'178000000 years', '-00:00:00.001', B'0', B'000', B'1', B'', '00000000-0000-0000-0000-000000000000', 'null', '"x"', '',
	'::1', '2001:db8::/32', 'ff:ff:ff:ff:ff:ff', '(NaN,Infinity)', '(2,2),(1,1)', '(,)', '[1.1,2.2]', '(,"2024-01-01 00:00:00+00")', '', '', 'sad', '{}',
	'{{1,2},{3,4}}', '{}', '{}', '{}', '{}', '{}', '', '0/0'),
(3, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
	NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);`

// Every value arrives as it left, in a column of the same type.
func TestP23EveryTypeRoundTrips(t *testing.T) {
	ctx := context.Background()
	_, source := database(t)
	must(t, source, typeSQL)
	must(t, source, "SET search_path = pg_catalog; SET DateStyle = 'ISO'; SET IntervalStyle = 'postgres'; SET TimeZone = 'UTC'; SET lc_monetary = 'C'; SET extra_float_digits = 3")
	cat, err := source.Query(ctx, `SELECT a.attname, format_type(a.atttypid, a.atttypmod), a.atttypmod,
		(SELECT array_agg(enumlabel::text ORDER BY enumsortorder) FROM pg_enum WHERE enumtypid IN (a.atttypid, t.typelem))
		FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid WHERE attrelid = 'public.every'::regclass AND attnum > 0 ORDER BY attnum`)
	if err != nil {
		t.Fatal(err)
	}
	var columns []event.Column
	list := ""
	for cat.Next() {
		c := event.Column{Kind: event.KindText}
		if err := cat.Scan(&c.Name, &c.Type, &c.Modifier, &c.Enum); err != nil {
			t.Fatal(err)
		}
		if len(columns) == 0 {
			c.Key = 1
		} else {
			list += ", "
		}
		list += quote(c.Name) + "::text"
		columns = append(columns, c)
	}
	tab := tableOf(t, "every", columns...)
	read := func(sql string) (out []event.Row) {
		r, err := source.Query(ctx, sql)
		if err != nil {
			t.Fatal(err)
		}
		for r.Next() {
			values, err := r.Values()
			if err != nil {
				t.Fatal(err)
			}
			row := make(event.Row, len(values))
			for i, v := range values {
				row[i] = sinktest.Null()
				if v != nil {
					row[i] = sinktest.Text(v.(string))
				}
			}
			out = append(out, row)
		}
		return out
	}
	data := read("SELECT " + list + " FROM public.every ORDER BY id")
	if len(data) != 3 {
		t.Fatalf("%d rows", len(data))
	}

	dsn, target := database(t)
	s := openSession(t, config(t, "w", dsn, nil))
	for range 2 { // the second time as updates
		for _, row := range data {
			if err := s.Apply(ctx, ev(tab, event.OpCreate, row)); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Commit(ctx, nil); err != nil {
			t.Fatal(err)
		}
	}
	must(t, target, "SET search_path = pg_catalog; SET DateStyle = 'ISO'; SET IntervalStyle = 'postgres'; SET TimeZone = 'UTC'; SET lc_monetary = 'C'; SET extra_float_digits = 3")
	source = target
	for i, row := range read("SELECT " + list + " FROM public.every ORDER BY id") {
		for j := range row {
			if got, want := sinktest.Format(row[j:j+1]), sinktest.Format(data[i][j:j+1]); got != want {
				t.Errorf("row %d column %s (%s): %q, want %q", i+1, columns[j].Name, columns[j].Type, got, want)
			}
		}
	}
	var got []string
	r, err := target.Query(ctx, "SELECT format_type(atttypid, atttypmod) FROM pg_attribute WHERE attrelid = 'public.every'::regclass AND attnum > 0 ORDER BY attnum")
	if err != nil {
		t.Fatal(err)
	}
	for r.Next() {
		var kind string
		if err := r.Scan(&kind); err != nil {
			t.Fatal(err)
		}
		got = append(got, kind)
	}
	for i := range columns {
		// Fields of an interval (day to second) cannot be asked for by modifier alone: the column is an interval.
		if want := columns[i].Type; got[i] != want && columns[i].Name != "iv2" {
			t.Errorf("column %d %s: type %s, want %s", i, columns[i].Name, got[i], want)
		}
	}
}
