package main

import "fmt"

// pgShapes are tables whose events depend on more than a type: keys, replica identities, defaults, changes of the table.
func pgShapes() []tableCase {
	const full = "ALTER TABLE %s REPLICA IDENTITY FULL"
	list := []tableCase{
		{
			name: "no key", table: "s_nokey",
			setUp:  []string{"CREATE TABLE s_nokey (a int, b text)", fmt.Sprintf(full, "s_nokey"), "INSERT INTO s_nokey VALUES (1, 'one')"},
			stream: []string{"INSERT INTO s_nokey VALUES (2, 'two')", "UPDATE s_nokey SET b = 'due' WHERE a = 2", "DELETE FROM s_nokey WHERE a = 2"},
		},
		{
			name: "compound key", table: "s_compound",
			setUp: []string{"CREATE TABLE s_compound (a int, x text, b text, PRIMARY KEY (b, a))", "INSERT INTO s_compound VALUES (1, 'x', 'one')"},
			stream: []string{
				"INSERT INTO s_compound VALUES (2, 'y', 'two')", "UPDATE s_compound SET x = 'z' WHERE a = 2", "UPDATE s_compound SET a = 3 WHERE a = 2",
				"UPDATE s_compound SET b = 'drei', x = 'w' WHERE a = 3", "DELETE FROM s_compound WHERE a = 3",
			},
		},
		{
			name: "compound key, identity full", table: "s_compoundfull",
			setUp: []string{"CREATE TABLE s_compoundfull (a int, x text, b text, PRIMARY KEY (b, a))", fmt.Sprintf(full, "s_compoundfull")},
			stream: []string{
				"INSERT INTO s_compoundfull VALUES (2, 'y', 'two')", "UPDATE s_compoundfull SET x = 'z' WHERE a = 2", "UPDATE s_compoundfull SET a = 3 WHERE a = 2",
				"DELETE FROM s_compoundfull WHERE a = 3",
			},
		},
		{
			name: "unique index as identity", table: "s_unique",
			setUp: []string{
				"CREATE TABLE s_unique (a int, u text NOT NULL)", "CREATE UNIQUE INDEX s_unique_u ON s_unique (u)",
				"ALTER TABLE s_unique REPLICA IDENTITY USING INDEX s_unique_u", "INSERT INTO s_unique VALUES (1, 'one')",
			},
			stream: []string{
				"INSERT INTO s_unique VALUES (2, 'two')", "UPDATE s_unique SET a = 3 WHERE u = 'two'", "UPDATE s_unique SET u = 'drei' WHERE u = 'two'", "DELETE FROM s_unique WHERE u = 'drei'",
			},
		},
		{
			name: "primary key, other unique index as identity", table: "s_other",
			setUp: []string{
				"CREATE TABLE s_other (id int PRIMARY KEY, u text NOT NULL)", "CREATE UNIQUE INDEX s_other_u ON s_other (u)",
				"ALTER TABLE s_other REPLICA IDENTITY USING INDEX s_other_u", "INSERT INTO s_other VALUES (1, 'one')",
			},
			stream: []string{
				"INSERT INTO s_other VALUES (2, 'two')", "UPDATE s_other SET id = 3 WHERE id = 2", "UPDATE s_other SET u = 'drei' WHERE id = 3", "DELETE FROM s_other WHERE id = 3",
			},
		},
		{
			name: "unique index, identity full", table: "s_uniquefull",
			setUp: []string{
				"CREATE TABLE s_uniquefull (a int, u text NOT NULL)", "CREATE UNIQUE INDEX s_uniquefull_u ON s_uniquefull (u)", fmt.Sprintf(full, "s_uniquefull"), "INSERT INTO s_uniquefull VALUES (1, 'one')",
			},
			stream: []string{"INSERT INTO s_uniquefull VALUES (2, 'two')", "UPDATE s_uniquefull SET a = 3 WHERE u = 'two'", "DELETE FROM s_uniquefull WHERE u = 'two'"},
		},
		{
			name: "identity default, not null", table: "s_notnull",
			setUp: []string{
				`CREATE TABLE s_notnull (id int PRIMARY KEY, b bool NOT NULL, i int NOT NULL, l int8 NOT NULL, f float8 NOT NULL, n numeric(10,2) NOT NULL, v numeric NOT NULL, t text NOT NULL,
					d date NOT NULL, ti time NOT NULL, ts timestamp NOT NULL, tz timestamptz NOT NULL, y bytea NOT NULL, u uuid NOT NULL, j jsonb NOT NULL, a int[] NOT NULL, h hstore NOT NULL, m other.mood NOT NULL, iv interval NOT NULL)`,
				pgNotNullRow(1),
			},
			stream: []string{pgNotNullRow(2), "UPDATE s_notnull SET i = 7 WHERE id = 2", "UPDATE s_notnull SET id = 3 WHERE id = 2", "DELETE FROM s_notnull WHERE id = 3"},
		},
		{
			name: "identity default", table: "s_default",
			setUp:  []string{"CREATE TABLE s_default (id int PRIMARY KEY, a text, b numeric(10,2))", "INSERT INTO s_default VALUES (1, 'one', 1)"},
			stream: []string{"INSERT INTO s_default VALUES (2, 'two', 2)", "UPDATE s_default SET a = NULL WHERE id = 2", "UPDATE s_default SET id = 3 WHERE id = 2", "DELETE FROM s_default WHERE id = 3"},
		},
		{
			name: "column defaults", table: "s_defaults",
			setUp: []string{
				`CREATE TABLE s_defaults (id serial PRIMARY KEY, b bool DEFAULT true, i int DEFAULT 42, l int8 DEFAULT 9007199254740993, f float8 DEFAULT 1.5, n numeric(10,2) DEFAULT 1.5, t text DEFAULT 'text', v varchar(10) NOT NULL DEFAULT 'v',
					d date DEFAULT '2024-02-29', ti time DEFAULT '12:34:56', ts timestamp DEFAULT '2024-02-29 12:00:00', tz timestamptz DEFAULT now(), u uuid DEFAULT 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', j jsonb DEFAULT '{"a": 1}',
					a int[] DEFAULT '{1,2}', m other.mood DEFAULT 'sad', y bytea DEFAULT '\x00ff', iv interval DEFAULT '1 day', e int DEFAULT (1 + 1))`,
				fmt.Sprintf(full, "s_defaults"), "INSERT INTO s_defaults (id, tz) VALUES (1, '2024-01-01')", "INSERT INTO s_defaults VALUES (2" + pgNulls(6) + ", 'v'" + pgNulls(11) + ")",
			},
			stream: []string{
				"INSERT INTO s_defaults (id, tz) VALUES (3, '2024-01-01')", "INSERT INTO s_defaults VALUES (4" + pgNulls(6) + ", 'v'" + pgNulls(11) + ")", "UPDATE s_defaults SET i = NULL WHERE id = 3",
				"UPDATE s_defaults SET id = 5 WHERE id = 3", "DELETE FROM s_defaults WHERE id = 4",
			},
		},
		{
			name: "generated and identity columns", table: "s_generated",
			setUp: []string{
				"CREATE TABLE s_generated (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, a int, g int GENERATED ALWAYS AS (a * 2) STORED)", "INSERT INTO s_generated (a) VALUES (1)",
			},
			stream: []string{"INSERT INTO s_generated (a) VALUES (2)", "UPDATE s_generated SET a = 3 WHERE a = 2", "DELETE FROM s_generated WHERE a = 3"},
		},
		{
			name: "partitioned table", table: "s_parts",
			setUp: []string{
				"CREATE TABLE s_parts (id int PRIMARY KEY, t text) PARTITION BY RANGE (id)", "CREATE TABLE s_parts1 PARTITION OF s_parts FOR VALUES FROM (0) TO (10)",
				"CREATE TABLE s_parts2 PARTITION OF s_parts FOR VALUES FROM (10) TO (20)", "INSERT INTO s_parts VALUES (1, 'one')",
			},
			stream: []string{"INSERT INTO s_parts VALUES (2, 'two')", "UPDATE s_parts SET t = 'due' WHERE id = 2", "UPDATE s_parts SET id = 12 WHERE id = 2", "DELETE FROM s_parts WHERE id = 12"},
		},
		{
			name: "odd names", table: `"s_Odd"`,
			setUp:  []string{`CREATE TABLE "s_Odd" ("Id" int PRIMARY KEY, "with space" int, "ünï" text, "a.b" int, "1st" int, "a-b" int)`, `INSERT INTO "s_Odd" VALUES (1, 1, 'x', 1, 1, 1)`},
			stream: []string{`INSERT INTO "s_Odd" VALUES (2, 1, 'x', 1, 1, 1)`, `DELETE FROM "s_Odd" WHERE "Id" = 2`},
		},
		{
			name: "empty table", table: "s_empty",
			setUp:  []string{"CREATE TABLE s_empty (id int PRIMARY KEY)"},
			stream: []string{"INSERT INTO s_empty VALUES (1)"},
		},
		{
			name: "only unknown types", table: "s_unknown",
			setUp:  []string{"CREATE TABLE s_unknown (id int PRIMARY KEY, a pt, b cube, c tsquery)", "INSERT INTO s_unknown VALUES (1, '(1,x)', '(1,2)', 'a & b')"},
			stream: []string{"INSERT INTO s_unknown VALUES (2, '(1,x)', '(1,2)', 'a & b')", "UPDATE s_unknown SET a = NULL WHERE id = 2", "DELETE FROM s_unknown WHERE id = 2"},
		},
		{
			name: "changes of the table", table: "s_ddl",
			setUp: []string{"CREATE TABLE s_ddl (id int PRIMARY KEY, a int, gone text)", fmt.Sprintf(full, "s_ddl"), "INSERT INTO s_ddl VALUES (1, 1, 'one'), (2, 2, 'two')"},
			stream: []string{
				"INSERT INTO s_ddl VALUES (3, 3, 'three')", "ALTER TABLE s_ddl ADD COLUMN n text DEFAULT 'new'", "UPDATE s_ddl SET a = 11 WHERE id = 1", "INSERT INTO s_ddl VALUES (4, 4, 'four', NULL)",
				"ALTER TABLE s_ddl DROP COLUMN gone", "UPDATE s_ddl SET a = 12 WHERE id = 2", "ALTER TABLE s_ddl RENAME COLUMN a TO b", "INSERT INTO s_ddl (id, b) VALUES (5, 5)",
				"ALTER TABLE s_ddl ALTER COLUMN b TYPE bigint", "UPDATE s_ddl SET b = 1 WHERE id = 3", "DELETE FROM s_ddl WHERE id = 3",
			},
		},
		{
			name: "transactions", table: "s_tx", also: []string{"s_tx2"},
			setUp: []string{"CREATE TABLE s_tx (id int PRIMARY KEY, n int)", "CREATE TABLE s_tx2 (id int PRIMARY KEY)"},
			stream: []string{
				"BEGIN; INSERT INTO s_tx VALUES (1, 1); INSERT INTO s_tx2 VALUES (1); SAVEPOINT s; INSERT INTO s_tx VALUES (2, 2); ROLLBACK TO s; INSERT INTO s_tx VALUES (3, 3); UPDATE s_tx SET n = 4 WHERE id = 1; COMMIT",
				"BEGIN; INSERT INTO s_tx VALUES (5, 5); ROLLBACK", "BEGIN; UPDATE s_tx SET n = n; DELETE FROM s_tx WHERE id = 3; INSERT INTO s_tx VALUES (3, 7); COMMIT",
			},
		},
		{
			name: "truncate", table: "s_truncate", also: []string{"s_truncate2"},
			setUp:  []string{"CREATE TABLE s_truncate (id int PRIMARY KEY)", "CREATE TABLE s_truncate2 (id int PRIMARY KEY)", "INSERT INTO s_truncate VALUES (1)"},
			stream: []string{"INSERT INTO s_truncate VALUES (2)", "TRUNCATE s_truncate, s_truncate2", "INSERT INTO s_truncate VALUES (1)"},
		},
		{
			name: "messages", table: "s_message",
			setUp: []string{"CREATE TABLE s_message (id int PRIMARY KEY)"},
			stream: []string{
				"SELECT pg_logical_emit_message(false, 'outside', 'text')", "BEGIN; INSERT INTO s_message VALUES (1); SELECT pg_logical_emit_message(true, 'inside', '\\x00ff'::bytea); COMMIT",
			},
		},
	}
	for i, v := range pgToast() {
		list = append(list, pgToasted(fmt.Sprintf("u%d", i), v[0], v[1]))
	}
	return list
}

func pgNotNullRow(id int) string {
	return fmt.Sprintf(`INSERT INTO s_notnull VALUES (%d, true, 1, 2, 1.5, 1.25, 1.5, 'text', '2024-02-29', '12:34:56.5', '2024-02-29 12:00:00', '2024-02-29 12:00:00+00', '\x00ff',
		'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', '{"a": 1}', '{1,2}', 'a=>1', 'sad', '1 day')`, id)
}

func pgNulls(n int) (list string) {
	for range n {
		list += ", NULL"
	}
	return list
}

// pgToasted is a table whose large values are not sent when another column changes.
func pgToasted(table, typ, sql string) tableCase {
	return tableCase{
		name: "unchanged " + typ, table: table,
		setUp: []string{fmt.Sprintf("CREATE TABLE %s (id int PRIMARY KEY, n int, v %s)", table, typ), fmt.Sprintf("ALTER TABLE %s ALTER v SET STORAGE EXTERNAL", table)},
		stream: []string{
			fmt.Sprintf("INSERT INTO %s VALUES (1, 1, %s)", table, sql), fmt.Sprintf("UPDATE %s SET n = 2", table), fmt.Sprintf("UPDATE %s SET id = 2", table), fmt.Sprintf("DELETE FROM %s", table),
		},
	}
}
