package postgres

import (
	"context"
	"fmt"
)

// addOrigins adds to an offsets table the column that tells which log an offset is of, which earlier releases did not store.
func (s *session) addOrigins(ctx context.Context) error {
	table := s.target.config.offsetsTable()
	rows, err := query(ctx, s.conn,
		"SELECT EXISTS (SELECT FROM pg_attribute WHERE attrelid = to_regclass($1) AND attname = 'log_id' AND NOT attisdropped)", table)
	if err != nil {
		return fmt.Errorf("look at %s: %w", table, err)
	}
	if string(rows[0][0]) == "t" {
		return nil
	}
	add := "ALTER TABLE " + table + " ADD COLUMN IF NOT EXISTS log_id text"
	if _, err := s.conn.Exec(ctx, add).ReadAll(); err != nil {
		return fmt.Errorf("add column log_id to %s (as its owner: %s): %w", table, add, err)
	}
	return nil
}
