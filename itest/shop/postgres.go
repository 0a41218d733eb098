package shop

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

const postgresSchema = `
CREATE TYPE order_state AS ENUM ('new', 'paid', 'packed', 'shipped', 'cancelled');
CREATE TABLE customers (
	id bigint PRIMARY KEY,
	rev int NOT NULL,
	name text NOT NULL,
	email text NOT NULL,
	credit numeric(12,2),
	tags text[],
	joined timestamptz NOT NULL,
	profile jsonb
);
CREATE TABLE products (
	id bigint PRIMARY KEY,
	rev int NOT NULL,
	name varchar(80) NOT NULL,
	price numeric(10,2) NOT NULL,
	weight real,
	active boolean NOT NULL,
	description text
);
ALTER TABLE products ALTER description SET STORAGE EXTERNAL;
CREATE TABLE orders (
	id bigint PRIMARY KEY,
	rev int NOT NULL,
	customer bigint NOT NULL,
	state order_state NOT NULL,
	total numeric NOT NULL,
	placed timestamp NOT NULL,
	deliver_on date,
	note text
);
CREATE TABLE order_items (
	id bigint PRIMARY KEY,
	rev int NOT NULL,
	order_id bigint NOT NULL,
	product bigint NOT NULL,
	quantity int NOT NULL,
	gift uuid
);`

// Postgres is a database of a Postgres server, by its DSN.
type Postgres string

// Connect opens a session.
func (p Postgres) Connect(ctx context.Context) (Session, error) {
	conn, err := pgconn.Connect(ctx, string(p))
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	return postgresSession{conn}, nil
}

// Dialect of Postgres.
func (p Postgres) Dialect() *Dialect {
	return &Dialect{
		Namespace: "public", create: postgresSchema, fill: postgresFill, gift: "gen_random_uuid()",
		texts: func(table string) string {
			return fmt.Sprintf(`SELECT quote_ident(attname) || '::text' FROM pg_attribute
				WHERE attrelid = '%s'::regclass AND attnum > 0 AND NOT attisdropped AND attgenerated = '' ORDER BY attnum`, postgresName(table))
		},
		sum: func(table, texts string) string {
			return fmt.Sprintf(`SELECT count(*), coalesce(sum(hashtextextended(ROW(%s)::text, 0)::numeric), 0)::text FROM %s`, texts, postgresName(table))
		},
	}
}

func postgresName(table string) string { return pgx.Identifier(strings.Split(table, ".")).Sanitize() }

func postgresFill(size Size) []string {
	return []string{
		fmt.Sprintf(`INSERT INTO customers SELECT i, 1, 'Customer ' || i, 'c' || i || '@example.org',
			CASE WHEN i %% 7 = 0 THEN NULL ELSE (i %% 10000) / 100.0 END,
			CASE i %% 3 WHEN 0 THEN NULL WHEN 1 THEN ARRAY['new'] ELSE ARRAY['loyal', 'a "quoted" tag', NULL] END,
			'2024-01-01Z'::timestamptz + i * interval '1 minute 1 millisecond', jsonb_build_object('level', i %% 5, 'name', 'ü' || i)
			FROM generate_series(1, %d) i`, size.Customers),
		fmt.Sprintf(`INSERT INTO products SELECT i, 1, 'Product ' || i, (i %% 900) + 0.99, i / 7.0, i %% 11 <> 0, repeat(md5(i::text), 80)
			FROM generate_series(1, %d) i`, size.Products),
		fmt.Sprintf(`INSERT INTO orders SELECT i, 1, 1 + i %% 1000, 'new', i * 1.5, '2025-01-01'::timestamp + i * interval '1 second',
			CASE WHEN i %% 4 = 0 THEN NULL ELSE '2025-02-01'::date + i %% 90 END, CASE WHEN i %% 5 = 0 THEN NULL ELSE 'note ' || i END
			FROM generate_series(1, %d) i`, size.Orders),
		fmt.Sprintf(`INSERT INTO order_items SELECT i, 1, 1 + i / 2, 1 + i %% 1000, 1 + i %% 9,
			CASE WHEN i %% 6 = 0 THEN md5(i::text)::uuid END FROM generate_series(1, %d) i`, size.Items),
	}
}

type postgresSession struct{ conn *pgconn.PgConn }

func (s postgresSession) Close() { _ = s.conn.Close(context.Background()) }

// Exec takes one round trip.
func (s postgresSession) Exec(ctx context.Context, statements ...string) error {
	_, err := s.conn.Exec(ctx, strings.Join(statements, ";")).ReadAll()
	return err
}

func (s postgresSession) Query(ctx context.Context, statement string) ([][]string, error) {
	results, err := s.conn.Exec(ctx, statement).ReadAll()
	if err != nil {
		return nil, err
	}
	var rows [][]string
	for _, result := range results {
		for _, values := range result.Rows {
			row := make([]string, len(values))
			for i, v := range values {
				row[i] = string(v)
			}
			rows = append(rows, row)
		}
	}
	return rows, nil
}
