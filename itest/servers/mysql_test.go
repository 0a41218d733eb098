package servers

import (
	"context"
	"strings"
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

// TestMySQLReplicaIsPromoted fails over from a source to a replica, and sees that only a replica with
// log_replica_updates has in its binary log what the source wrote.
func TestMySQLReplicaIsPromoted(t *testing.T) {
	EachMySQL(t, Options{}, func(t *testing.T, source *MySQL) {
		ctx := context.Background()
		if err := source.Exec(ctx, "", "CREATE DATABASE shop", "CREATE TABLE shop.t(id int PRIMARY KEY)", "INSERT INTO shop.t VALUES (1)"); err != nil {
			t.Fatal(err)
		}
		for _, updates := range []string{"OFF", "ON"} {
			replica, err := StartMySQLReplica(ctx, source, Options{Settings: map[string]string{"log_replica_updates": updates}})
			if err != nil {
				t.Fatal(err)
			}
			defer replica.Close()
			if err := replica.CatchUp(ctx, source); err != nil {
				t.Fatal(err)
			}
			rows, err := replica.Query(ctx, "", "SELECT COUNT(*) FROM shop.t")
			if err != nil || rows[0][0] != "1" {
				t.Fatalf("the replica has %v rows (%v), want 1", rows, err)
			}
			if got, want := logsRows(t, replica), updates == "ON"; got != want {
				t.Errorf("log_replica_updates=%s: the source's rows are in the replica's log: %v, want %v", updates, got, want)
			}
			if updates == "OFF" {
				continue
			}
			failOver(t, source, replica)
		}
	})
}

// failOver kills the source, promotes its replica, and makes the old source a replica of that.
func failOver(t *testing.T, source, replica *MySQL) {
	t.Helper()
	ctx := context.Background()
	before, err := source.GTIDs(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := source.Kill(ctx); err != nil {
		t.Fatal(err)
	}
	if !source.MariaDB() { // whose root may write all the same
		if err := replica.Exec(ctx, "shop", "INSERT INTO t VALUES (2)"); err == nil {
			t.Error("the replica takes writes before it is promoted")
		}
	}
	if err := replica.Promote(ctx); err != nil {
		t.Fatal(err)
	}
	if err := replica.Exec(ctx, "shop", "INSERT INTO t VALUES (3)"); err != nil {
		t.Fatal(err)
	}
	after, err := replica.GTIDs(ctx)
	if err != nil || before == "" || after == before {
		t.Errorf("GTIDs before %q, after the failover %q (%v): want one more", before, after, err)
	}
	t.Logf("before %s, after %s", before, after)
	if err := source.Start(ctx); err != nil {
		t.Fatal(err)
	}
	if err := source.Follow(ctx, replica); err != nil {
		t.Fatal(err)
	}
	if err := source.CatchUp(ctx, replica); err != nil {
		t.Fatal(err)
	}
	if err := source.Promote(ctx); err != nil {
		t.Fatal(err)
	}
	if err := replica.PurgeBinaryLogs(ctx); err != nil {
		t.Error(err)
	}
}

// logsRows says whether a server's binary log has row events.
func logsRows(t *testing.T, m *MySQL) bool {
	t.Helper()
	ctx := context.Background()
	files, err := m.Query(ctx, "", "SHOW BINARY LOGS")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		events, err := m.Query(ctx, "", "SHOW BINLOG EVENTS IN '"+f[0]+"'")
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range events {
			if strings.HasPrefix(e[2], "Write_rows") {
				return true
			}
		}
	}
	return false
}
