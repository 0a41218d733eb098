package audit

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
)

// Change is one row change as both sides see it. Rev is -1 where the side cannot know it (a delete).
type Change struct {
	Table string // schema.table
	Op    byte   // c, u, d
	ID    int64
	Rev   int64
}

// Transaction is one committed source transaction.
type Transaction struct {
	ID      string // as the source's log calls it
	Changes []Change
}

// slotName of the auditing slot.
const slotName = "rowtrail_audit"

// Source is what remembers all that a database commits.
type Source interface {
	// Watch begins.
	Watch(ctx context.Context) error
	// Committed is all transactions since Watch in commit order; empty ones, and tables not in want, are left out. A key
	// change is a delete of the old key and a create of the new one.
	Committed(ctx context.Context, want map[string]bool) ([]Transaction, error)
}

// Postgres reads a database, by its DSN, with the server's own test_decoding through a second slot.
type Postgres string

// Watch creates the slot.
func (p Postgres) Watch(ctx context.Context) error {
	return p.with(ctx, func(conn *pgx.Conn) error { return Watch(ctx, conn) })
}

// Committed reads the slot.
func (p Postgres) Committed(ctx context.Context, want map[string]bool) (transactions []Transaction, err error) {
	err = p.with(ctx, func(conn *pgx.Conn) error {
		transactions, err = committed(ctx, conn, want)
		return err
	})
	return transactions, err
}

func (p Postgres) with(ctx context.Context, f func(*pgx.Conn) error) error {
	conn, err := pgx.Connect(ctx, string(p))
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	return f(conn)
}

// Watch creates the slot that remembers every later change, which Take reads.
func Watch(ctx context.Context, conn *pgx.Conn) error {
	if _, err := conn.Exec(ctx, "SELECT pg_create_logical_replication_slot($1, 'test_decoding')", slotName); err != nil {
		return fmt.Errorf("create the audit slot: %w", err)
	}
	return nil
}

func committed(ctx context.Context, conn *pgx.Conn, want map[string]bool) ([]Transaction, error) {
	var transactions []Transaction
	var open *Transaction
	err := lines(ctx, conn, "pg_logical_slot_peek_changes", func(line string) error {
		switch {
		case strings.HasPrefix(line, "BEGIN "):
			open = &Transaction{ID: line[len("BEGIN "):]}
		case strings.HasPrefix(line, "COMMIT "):
			if len(open.Changes) > 0 {
				transactions = append(transactions, *open)
			}
		default:
			changes, err := parseChange(line)
			if err != nil {
				return err
			}
			if len(changes) > 0 && want[changes[0].Table] {
				open.Changes = append(open.Changes, changes...)
			}
		}
		return nil
	})
	return transactions, err
}

// Take gives each the lines of test_decoding since Watch or the last Take.
func Take(ctx context.Context, conn *pgx.Conn, each func(line string) error) error {
	return lines(ctx, conn, "pg_logical_slot_get_changes", each)
}

func lines(ctx context.Context, conn *pgx.Conn, function string, each func(line string) error) error {
	rows, err := conn.Query(ctx, "SELECT data FROM "+function+"($1, NULL, NULL)", slotName)
	if err != nil {
		return fmt.Errorf("read the audit slot: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var line string
		if err := rows.Scan(&line); err != nil {
			return err
		}
		if err := each(line); err != nil {
			return err
		}
	}
	return rows.Err()
}

// parseChange reads a line of test_decoding: `table public.t: UPDATE: old-key: id[bigint]:1 new-tuple: id[bigint]:2 rev[integer]:5 ...`.
// Only the leading id and rev columns are looked at, so that no value with odd characters matters.
func parseChange(line string) ([]Change, error) {
	rest, ok := strings.CutPrefix(line, "table ")
	if !ok {
		return nil, fmt.Errorf("parse %q: not a table change", line)
	}
	table, rest, _ := strings.Cut(rest, ": ")
	op, rest, _ := strings.Cut(rest, ": ")
	id, err := column(rest, "id")
	if err != nil {
		return nil, err
	}
	switch op {
	case "INSERT":
		rev, err := column(rest, "rev")
		return []Change{{table, 'c', id, rev}}, err
	case "DELETE":
		return []Change{{table, 'd', id, -1}}, nil
	case "UPDATE":
		old, isKeyChange := strings.CutPrefix(rest, "old-key: ")
		if !isKeyChange {
			rev, err := column(rest, "rev")
			return []Change{{table, 'u', id, rev}}, err
		}
		_, fresh, _ := strings.Cut(old, "new-tuple: ")
		newID, err := column(fresh, "id")
		if err != nil {
			return nil, err
		}
		rev, err := column(fresh, "rev")
		return []Change{{table, 'd', id, -1}, {table, 'c', newID, rev}}, err
	}
	return nil, fmt.Errorf("parse %q: unexpected operation %s", line, op)
}

func column(tuple, name string) (int64, error) {
	_, rest, ok := strings.Cut(tuple, name+"[")
	if !ok {
		return 0, fmt.Errorf("parse %q: no column %s", tuple, name)
	}
	_, rest, _ = strings.Cut(rest, "]:")
	text, _, _ := strings.Cut(rest, " ")
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("parse %q: column %s: %w", tuple, name, err)
	}
	return n, nil
}
