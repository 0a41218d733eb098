package shop

import (
	"context"
	"net"
	"strconv"
	"strings"
	"testing"

	"github.com/rowtrail/rowtrail/itest/servers"
)

// TestSumOfMySQLTellsEveryChange: what Compare asks for is another one after every change of a value.
func TestSumOfMySQLTellsEveryChange(t *testing.T) {
	servers.EachMySQL(t, servers.Options{}, func(t *testing.T, m *servers.MySQL) {
		ctx := context.Background()
		if err := m.CreateDatabase(ctx, "shop"); err != nil {
			t.Fatal(err)
		}
		db := MySQL{Address: net.JoinHostPort(m.Host(), strconv.Itoa(m.Port())), User: m.User(), Password: m.Password(), Name: "shop"}
		size := Size{Customers: 30, Products: 30, Orders: 30, Items: 2*mysqlFillRows + 1}
		if err := Load(ctx, db, size); err != nil {
			t.Fatal(err)
		}
		s, err := db.Connect(ctx)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		if different, err := Compare(ctx, db, db, db.Dialect().Tables()); err != nil || len(different) > 0 {
			t.Fatalf("a database differs from itself: %v, %v", different, err)
		}
		d, rows := db.Dialect(), 0
		sum := func(table string) []string {
			t.Helper()
			columns, err := s.Query(ctx, d.texts(d.Table(table)))
			if err != nil {
				t.Fatal(err)
			}
			var texts []string
			for _, c := range columns {
				texts = append(texts, c[0])
			}
			result, err := s.Query(ctx, d.sum(d.Table(table), strings.Join(texts, ", ")))
			if err != nil {
				t.Fatal(err)
			}
			return result[0]
		}
		for _, table := range []string{"customers", "products", "orders", "order_items"} {
			n, err := strconv.Atoi(sum(table)[0])
			if err != nil {
				t.Fatal(err)
			}
			rows += n
		}
		if rows != size.Rows() {
			t.Errorf("%d rows were filled, want %d", rows, size.Rows())
		}
		for _, change := range []struct{ table, sql string }{
			{"customers", "UPDATE customers SET name = 'NULL' WHERE id = 1"},
			{"customers", "UPDATE customers SET credit = NULL WHERE id = 1"},
			{"customers", "UPDATE customers SET tags = '' WHERE id = 1"},
			{"customers", "UPDATE customers SET tags = NULL WHERE id = 1"},
			{"customers", "UPDATE customers SET joined = joined + INTERVAL 1000 MICROSECOND WHERE id = 1"},
			{"customers", `UPDATE customers SET profile = '{"level": 1, "name": "u1"}' WHERE id = 1`},
			{"products", "UPDATE products SET weight = weight + 0.0000001 WHERE id = 1"},
			{"products", "UPDATE products SET active = 1 - active WHERE id = 1"},
			{"products", "UPDATE products SET description = NULL WHERE id = 1"},
			{"products", "UPDATE products SET description = 'NULL' WHERE id = 1"},
			{"orders", "UPDATE orders SET state = 'paid' WHERE id = 1"},
			{"orders", "UPDATE orders SET total = total + 0.0001 WHERE id = 1"},
			{"orders", "UPDATE orders SET placed = placed + INTERVAL 1 MICROSECOND WHERE id = 1"},
			{"orders", "UPDATE orders SET note = '' WHERE id = 1"},
			{"order_items", "UPDATE order_items SET gift = UNHEX('00112233445566778899AABBCCDDEEFF') WHERE id = 1"},
			{"order_items", "UPDATE order_items SET gift = UNHEX('10112233445566778899AABBCCDDEEFF') WHERE id = 1"},
			{"order_items", "DELETE FROM order_items WHERE id = 2"},
		} {
			before := sum(change.table)[1]
			if err := s.Exec(ctx, change.sql); err != nil {
				t.Fatal(err)
			}
			if after := sum(change.table)[1]; after == before {
				t.Errorf("%s: the sum is %s as before", change.sql, after)
			}
		}
	})
}
