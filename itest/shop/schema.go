// Package shop is the schema and workload that the demo, the soak and the benchmarks run: a small shop whose tables
// exercise what capture must get right (keys that change, unchanged TOAST, composite keys, many types). Every row
// carries rev, which each write of that row raises by one, so that a reader can tell order and completeness by itself.
package shop

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// Tables in an order in which they can be loaded.
func Tables() []string {
	return []string{"public.customers", "public.products", "public.orders", "public.order_items"}
}

// Schema creates the shop.
const Schema = `
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

// Size says how many rows Load makes.
type Size struct {
	Customers, Products, Orders, Items int
}

// Demo is about 100,000 rows.
func Demo() Size { return Size{Customers: 20_000, Products: 2_000, Orders: 26_000, Items: 52_000} }

// Rows in all.
func (s Size) Rows() int { return s.Customers + s.Products + s.Orders + s.Items }

// Load creates the shop and fills it.
func Load(ctx context.Context, conn *pgx.Conn, size Size) error {
	if _, err := conn.Exec(ctx, Schema); err != nil {
		return fmt.Errorf("create the shop's tables: %w", err)
	}
	for _, fill := range []struct {
		sql string
		n   int
	}{
		{`INSERT INTO customers SELECT i, 1, 'Customer ' || i, 'c' || i || '@example.org',
			CASE WHEN i % 7 = 0 THEN NULL ELSE (i % 10000) / 100.0 END,
			CASE i % 3 WHEN 0 THEN NULL WHEN 1 THEN ARRAY['new'] ELSE ARRAY['loyal', 'a "quoted" tag', NULL] END,
			'2024-01-01Z'::timestamptz + i * interval '1 minute 1 millisecond', jsonb_build_object('level', i % 5, 'name', 'ü' || i)
			FROM generate_series(1, $1::int) i`, size.Customers},
		{`INSERT INTO products SELECT i, 1, 'Product ' || i, (i % 900) + 0.99, i / 7.0, i % 11 <> 0, repeat(md5(i::text), 80)
			FROM generate_series(1, $1::int) i`, size.Products},
		{`INSERT INTO orders SELECT i, 1, 1 + i % 1000, 'new', i * 1.5, '2025-01-01'::timestamp + i * interval '1 second',
			CASE WHEN i % 4 = 0 THEN NULL ELSE '2025-02-01'::date + i % 90 END, CASE WHEN i % 5 = 0 THEN NULL ELSE 'note ' || i END
			FROM generate_series(1, $1::int) i`, size.Orders},
		{`INSERT INTO order_items SELECT i, 1, 1 + i / 2, 1 + i % 1000, 1 + i % 9,
			CASE WHEN i % 6 = 0 THEN md5(i::text)::uuid END FROM generate_series(1, $1::int) i`, size.Items},
	} {
		if _, err := conn.Exec(ctx, fill.sql, fill.n); err != nil {
			return fmt.Errorf("fill the shop's tables: %w", err)
		}
	}
	return nil
}
