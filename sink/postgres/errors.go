package postgres

import (
	"errors"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/rowtrail/rowtrail/sink"
)

// classify marks errors that trying again does not mend: data, constraints, missing objects and rights. All else
// (connection, shutdown, locks, resources) heals by itself.
func classify(err error) error {
	var pg *pgconn.PgError
	if err == nil || !errors.As(err, &pg) || len(pg.Code) < 2 {
		return err
	}
	switch pg.Code[:2] {
	case "0A", // feature not supported
		"21", // cardinality violation
		"22", // data exception
		"23", // integrity constraint violation
		"42", // syntax error, undefined object, insufficient privilege
		"44", // WITH CHECK OPTION violation
		"P0": // raised by a trigger
		return sink.Permanent(err)
	}
	return err
}

// orderMatters tells whether an error can come from folding a window, so that source order may go through.
func orderMatters(err error) bool {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) {
		return false
	}
	switch pg.Code {
	case "23505", "23503", "23P01", "23001", "21000":
		return true
	}
	return false
}
