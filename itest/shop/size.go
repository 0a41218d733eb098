package shop

import (
	"context"
	"fmt"
	"strings"
)

// Size says how many rows Load makes.
type Size struct {
	Customers, Products, Orders, Items int
}

// Demo is about 100,000 rows.
func Demo() Size { return Size{Customers: 20_000, Products: 2_000, Orders: 26_000, Items: 52_000} }

// Rows in all.
func (s Size) Rows() int { return s.Customers + s.Products + s.Orders + s.Items }

// Load creates the shop and fills it.
func Load(ctx context.Context, db Database, size Size) error {
	return With(ctx, db, func(s Session) error {
		d := db.Dialect()
		for _, sql := range strings.Split(strings.TrimSuffix(strings.TrimSpace(d.create), ";"), ";") {
			if err := s.Exec(ctx, sql); err != nil {
				return fmt.Errorf("create the shop's tables: %w", err)
			}
		}
		if err := s.Exec(ctx, d.fill(size)...); err != nil {
			return fmt.Errorf("fill the shop's tables: %w", err)
		}
		return nil
	})
}
