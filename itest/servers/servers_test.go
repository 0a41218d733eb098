package servers

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
)

// TestPostgresKeepsDataAndPort runs the server that tests on this machine get through its whole life.
func TestPostgresKeepsDataAndPort(t *testing.T) {
	ctx := context.Background()
	p := ForTest(t, Options{})
	dsn, err := p.CreateDatabase(ctx, "shop")
	if err != nil {
		t.Fatal(err)
	}
	execSQL(t, dsn, "CREATE TABLE t(id int PRIMARY KEY); INSERT INTO t VALUES (1)")
	for _, how := range []Shutdown{Fast, Immediate} {
		if err := p.Restart(ctx, how); err != nil {
			t.Fatal(err)
		}
		execSQL(t, dsn, "UPDATE t SET id = id + 1")
	}
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	var id int
	var level string
	if err := conn.QueryRow(ctx, "SELECT id, current_setting('wal_level') FROM t").Scan(&id, &level); err != nil {
		t.Fatal(err)
	}
	if id != 3 || level != "logical" {
		t.Fatalf("after two restarts: id %d, wal_level %s; want 3, logical", id, level)
	}
}

func execSQL(t *testing.T, dsn, sql string) {
	t.Helper()
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, sql); err != nil {
		t.Fatal(err)
	}
}
