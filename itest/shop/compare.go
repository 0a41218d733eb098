package shop

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
)

// Difference is how one table differs between source and target.
type Difference struct {
	Table                  string
	SourceRows, TargetRows int64
}

// Compare reads the tables at both ends, value by value in text form, and returns those that differ.
func Compare(ctx context.Context, source, target *pgx.Conn, tables []string) ([]Difference, error) {
	var differences []Difference
	for _, table := range tables {
		ident := pgx.Identifier(strings.Split(table, ".")).Sanitize()
		columns, err := columnList(ctx, source, table)
		if err != nil {
			return nil, err
		}
		// Both ends are asked for the same columns: a sink may have created them in another order.
		query := fmt.Sprintf(`SELECT count(*), coalesce(sum(hashtextextended(ROW(%s)::text, 0)::numeric), 0)::text FROM %s`, columns, ident)
		var rows [2]int64
		var sums [2]string
		for i, conn := range []*pgx.Conn{source, target} {
			if err := conn.QueryRow(ctx, query).Scan(&rows[i], &sums[i]); err != nil {
				return nil, fmt.Errorf("compare %s: %w", table, err)
			}
		}
		if rows[0] != rows[1] || sums[0] != sums[1] {
			differences = append(differences, Difference{Table: table, SourceRows: rows[0], TargetRows: rows[1]})
		}
	}
	return differences, nil
}

func columnList(ctx context.Context, conn *pgx.Conn, table string) (string, error) {
	var columns string
	err := conn.QueryRow(ctx, `SELECT string_agg(quote_ident(attname) || '::text', ', ' ORDER BY attnum) FROM pg_attribute
		WHERE attrelid = $1::regclass AND attnum > 0 AND NOT attisdropped AND attgenerated = ''`, table).Scan(&columns)
	if err != nil {
		return "", fmt.Errorf("read columns of %s: %w", table, err)
	}
	return columns, nil
}
