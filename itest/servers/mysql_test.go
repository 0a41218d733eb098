package servers

import (
	"context"
	"testing"
)

// TestMySQLKeepsDataAndPort runs each flavour that is at hand through its whole life.
func TestMySQLKeepsDataAndPort(t *testing.T) {
	EachMySQL(t, Options{Settings: map[string]string{"max-connections": "123"}}, func(t *testing.T, m *MySQL) {
		ctx := context.Background()
		if err := m.CreateDatabase(ctx, "shop"); err != nil {
			t.Fatal(err)
		}
		if err := m.Exec(ctx, "shop", "CREATE TABLE t(id int PRIMARY KEY)", "INSERT INTO t VALUES (1)"); err != nil {
			t.Fatal(err)
		}
		for _, how := range []Shutdown{Fast, Immediate} {
			if err := m.Restart(ctx, how); err != nil {
				t.Fatal(err)
			}
			if err := m.Exec(ctx, "shop", "UPDATE t SET id = id + 1"); err != nil {
				t.Fatal(err)
			}
		}
		got, err := m.Query(ctx, "shop", "SELECT id, @@max_connections, @@binlog_format, @@binlog_row_metadata, @@log_bin, VERSION() FROM t")
		if err != nil {
			t.Fatal(err)
		}
		want := []string{"3", "123", "ROW", "FULL", "1"}
		for i := range want {
			if got[0][i] != want[i] {
				t.Errorf("column %d of %v: want %s", i, got[0], want[i])
			}
		}
		t.Log(got)
	})
}
