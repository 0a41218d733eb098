package postgres

import (
	"context"
	"net"
	"strings"
	"testing"

	"github.com/rowtrail/rowtrail/connectors"
)

// TestConnectErrors: each names one cause, once, and the remedy; only what a person must mend stops the connector.
func TestConnectErrors(t *testing.T) {
	d := newDatabase(t, nil)
	d.exec("DROP ROLE IF EXISTS locked", "CREATE ROLE locked NOLOGIN")
	defer d.exec("DROP ROLE locked")
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody := closed.Addr().String()
	closed.Close()
	for name, tc := range map[string]struct {
		dsn, problem, remedy string
		fault                bool
	}{
		"refused":     {"postgres://u:secret@" + nobody + "/d", "connection refused", "start the server", false},
		"no such db":  {d.server.DSN("nowhere"), `"nowhere" does not exist`, "existing database", true},
		"may not log": {strings.Replace(d.dsn(), "postgres@", "locked:secret@", 1), "not permitted to log in", "may log in", true},
		"no role":     {strings.Replace(d.dsn(), "postgres@", "stranger:secret@", 1), `role "stranger" does not exist`, "may log in", true},
		"no TLS":      {strings.Replace(d.dsn(), "sslmode=disable", "sslmode=require", 1), "does not speak TLS", "sslmode disable", true},
		"no host":     {"postgres://u:secret@no-such-host.invalid/d", "host no-such-host.invalid is unknown", "correct the host", false},
	} {
		t.Run(name, func(t *testing.T) {
			c := config(t, d, map[string]string{"database.dsn": tc.dsn})
			_, err := c.dial(context.Background())
			if err == nil {
				t.Fatal("connected")
			}
			text := err.Error()
			if !strings.Contains(text, tc.problem) || !strings.Contains(text, tc.remedy) || connectors.IsFault(err) != tc.fault {
				t.Fatalf("fault %v: %s", connectors.IsFault(err), text)
			}
			if strings.Count(text, tc.problem) > 1 || strings.Contains(text, "\n") || strings.Contains(text, "secret") {
				t.Fatal(text)
			}
			f := Check(context.Background(), c)
			if len(f) != 1 || !strings.Contains(f[0].Problem, tc.problem) || !strings.Contains(f[0].Remedy, tc.remedy) {
				t.Fatalf("%+v", f)
			}
		})
	}
}

func TestConnectErrorNamesItsProperty(t *testing.T) {
	dsn, errs := ParseConfig("c", map[string]string{"database.dsn": "postgres://u@127.0.0.1:1/d"})
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	parts, errs := ParseConfig("c", map[string]string{"database.hostname": "127.0.0.1", "database.port": "1", "database.user": "u", "database.dbname": "d"})
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	for want, c := range map[string]*Config{"database.dsn": dsn, "database.hostname, database.port": parts} {
		if _, err := c.dial(context.Background()); !strings.Contains(err.Error(), "correct host and port in "+want) {
			t.Error(err)
		}
	}
}
