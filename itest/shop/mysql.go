package shop

import (
	"context"
	"crypto/md5"
	"fmt"
	"strings"
	"time"

	"github.com/go-mysql-org/go-mysql/client"
)

const (
	mysqlConnectTimeout = 10 * time.Second
	// mysqlFillRows is how many rows a statement of the fill has.
	mysqlFillRows = 500
)

const mysqlSchema = `
CREATE TABLE customers (
	id bigint PRIMARY KEY,
	rev int NOT NULL,
	name varchar(80) NOT NULL,
	email varchar(120) NOT NULL,
	credit decimal(12,2),
	tags set('new', 'loyal', 'a "quoted" tag'),
	joined timestamp(3) NOT NULL,
	profile json
);
CREATE TABLE products (
	id bigint PRIMARY KEY,
	rev int NOT NULL,
	name varchar(80) NOT NULL,
	price decimal(10,2) NOT NULL,
	weight float,
	active tinyint(1) NOT NULL,
	description text
);
CREATE TABLE orders (
	id bigint PRIMARY KEY,
	rev int NOT NULL,
	customer bigint NOT NULL,
	state enum('new', 'paid', 'packed', 'shipped', 'cancelled') NOT NULL,
	total decimal(24,4) NOT NULL,
	placed datetime(6) NOT NULL,
	deliver_on date,
	note text
);
CREATE TABLE order_items (
	id bigint PRIMARY KEY,
	rev int NOT NULL,
	order_id bigint NOT NULL,
	product bigint NOT NULL,
	quantity int unsigned NOT NULL,
	gift binary(16)
);`

// MySQL is a database of a MySQL or MariaDB server.
type MySQL struct {
	Address, User, Password string
	Name                    string // of the database
}

// Connect opens a session.
func (m MySQL) Connect(ctx context.Context) (Session, error) {
	conn, err := client.ConnectWithContext(ctx, m.Address, m.User, m.Password, m.Name, mysqlConnectTimeout)
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	s := mysqlSession{conn}
	if err := s.Exec(ctx, "SET NAMES utf8mb4", "SET SESSION time_zone = '+00:00'"); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// Dialect of MySQL and MariaDB.
func (m MySQL) Dialect() *Dialect {
	return &Dialect{
		Namespace: m.Name, create: mysqlSchema, fill: mysqlFill, gift: "UNHEX(REPLACE(UUID(), '-', ''))",
		texts: func(table string) string {
			database, name, _ := strings.Cut(table, ".")
			// A FLOAT is printed with six digits; as a DOUBLE it shows all.
			return fmt.Sprintf("SELECT CONCAT('QUOTE(', CASE WHEN data_type = 'float' THEN '0e0 + ' WHEN data_type IN ('binary', 'varbinary', 'blob') THEN 'HEX' ELSE '' END, "+
				"'(`', REPLACE(column_name, '`', '``'), '`))') FROM information_schema.columns "+
				"WHERE table_schema = '%s' AND table_name = '%s' AND COALESCE(generation_expression, '') = '' ORDER BY ordinal_position", database, name)
		},
		sum: func(table, texts string) string {
			return fmt.Sprintf("SELECT COUNT(*), COALESCE(SUM(CAST(CONV(LEFT(SHA2(CONCAT_WS(',', %s), 256), 16), 16, 10) AS DECIMAL(30))), 0) FROM `%s`",
				texts, strings.Replace(table, ".", "`.`", 1))
		},
	}
}

// mysqlFill makes the rows here, since the two servers have no generator in common.
func mysqlFill(size Size) []string {
	var list []string
	fill := func(table string, n int, row func(i int) string) {
		for first := 1; first <= n; first += mysqlFillRows {
			var rows []string
			for i := first; i < first+mysqlFillRows && i <= n; i++ {
				rows = append(rows, "("+row(i)+")")
			}
			list = append(list, "INSERT INTO "+table+" VALUES "+strings.Join(rows, ","))
		}
	}
	nullAt := func(null bool, value string) string {
		if null {
			return "NULL"
		}
		return value
	}
	at := func(year, month int, plus time.Duration, layout string) string {
		return time.Date(year, time.Month(month), 1, 0, 0, 0, 0, time.UTC).Add(plus).Format("'" + layout + "'")
	}
	fill("customers", size.Customers, func(i int) string {
		tags := []string{"NULL", "'new'", `'loyal,a "quoted" tag'`}[i%3]
		return fmt.Sprintf(`%d, 1, 'Customer %d', 'c%d@example.org', %s, %s, %s, '{"level": %d, "name": "ü%d"}'`, i, i, i,
			nullAt(i%7 == 0, fmt.Sprintf("%d.%02d", i%10000/100, i%100)), tags,
			at(2024, 1, time.Duration(i)*(time.Minute+time.Millisecond), "2006-01-02 15:04:05.000"), i%5, i)
	})
	fill("products", size.Products, func(i int) string {
		digest := fmt.Sprintf("%x", md5.Sum([]byte(fmt.Sprint(i))))
		return fmt.Sprintf("%d, 1, 'Product %d', %d.99, %d / 7, %t, '%s'", i, i, i%900, i, i%11 != 0, strings.Repeat(digest, 80))
	})
	fill("orders", size.Orders, func(i int) string {
		return fmt.Sprintf("%d, 1, %d, 'new', %d * 1.5, %s, %s, %s", i, 1+i%1000, i,
			at(2025, 1, time.Duration(i)*time.Second, "2006-01-02 15:04:05"),
			nullAt(i%4 == 0, at(2025, 2, time.Duration(i%90)*24*time.Hour, "2006-01-02")), nullAt(i%5 == 0, fmt.Sprintf("'note %d'", i)))
	})
	fill("order_items", size.Items, func(i int) string {
		return fmt.Sprintf("%d, 1, %d, %d, %d, %s", i, 1+i/2, 1+i%1000, 1+i%9, nullAt(i%6 != 0, fmt.Sprintf("x'%x'", md5.Sum([]byte(fmt.Sprint(i))))))
	})
	return list
}

type mysqlSession struct{ conn *client.Conn }

func (s mysqlSession) Close() { _ = s.conn.Close() }

func (s mysqlSession) Exec(ctx context.Context, statements ...string) error {
	for _, sql := range statements {
		if _, err := s.Query(ctx, sql); err != nil {
			return err
		}
	}
	return nil
}

// Query runs one statement. The client knows no context: when it ends, so does the connection.
func (s mysqlSession) Query(ctx context.Context, statement string) ([][]string, error) {
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	stop := context.AfterFunc(ctx, func() { _ = s.conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	result, err := s.conn.Execute(statement)
	if err != nil {
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return nil, fmt.Errorf("%.200s: %w", statement, err)
	}
	if result.Resultset == nil {
		return nil, nil
	}
	rows := make([][]string, len(result.Values))
	for i, values := range result.Values {
		rows[i] = make([]string, len(values))
		for j := range values {
			switch v := values[j].Value().(type) {
			case nil:
			case []byte:
				rows[i][j] = string(v)
			default:
				rows[i][j] = fmt.Sprint(v)
			}
		}
	}
	return rows, nil
}
