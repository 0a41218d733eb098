package shop

import (
	"context"
	"fmt"
	"strconv"
	"strings"
)

// Difference is how one table differs between source and target.
type Difference struct {
	Table                  string
	SourceRows, TargetRows int64
}

// Compare reads the tables at both ends, value by value in text form, and returns those that differ. Both are of one kind.
func Compare(ctx context.Context, source, target Database, tables []string) (differences []Difference, err error) {
	err = With(ctx, source, func(from Session) error {
		return With(ctx, target, func(to Session) error {
			for _, table := range tables {
				d, err := compare(ctx, source.Dialect(), from, to, table)
				if err != nil {
					return fmt.Errorf("compare %s: %w", table, err)
				}
				if d != nil {
					differences = append(differences, *d)
				}
			}
			return nil
		})
	})
	if err != nil {
		return nil, err
	}
	return differences, nil
}

// compare asks both ends for the same columns: a sink may have created them in another order.
func compare(ctx context.Context, d *Dialect, from, to Session, table string) (*Difference, error) {
	columns, err := from.Query(ctx, d.texts(table))
	if err != nil {
		return nil, err
	}
	if len(columns) == 0 {
		return nil, fmt.Errorf("the source has no such table")
	}
	texts := make([]string, len(columns))
	for i, c := range columns {
		texts[i] = c[0]
	}
	query := d.sum(table, strings.Join(texts, ", "))
	var rows [2]int64
	var sums [2]string
	for i, s := range []Session{from, to} {
		result, err := s.Query(ctx, query)
		if err != nil {
			return nil, err
		}
		if rows[i], err = strconv.ParseInt(result[0][0], 10, 64); err != nil {
			return nil, err
		}
		sums[i] = result[0][1]
	}
	if rows[0] == rows[1] && sums[0] == sums[1] {
		return nil, nil
	}
	return &Difference{Table: table, SourceRows: rows[0], TargetRows: rows[1]}, nil
}
