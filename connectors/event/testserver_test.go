package event

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/rowtrail/rowtrail/itest/servers"
)

// startPostgres runs a server for one test and connects to it with the session settings that Datum documents.
func startPostgres(t *testing.T) *pgconn.PgConn {
	t.Helper()
	server := servers.ForTest(t, servers.Options{Settings: map[string]string{"fsync": "off"}})
	config, err := pgconn.ParseConfig(server.DSN("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{
		"DateStyle": "ISO", "IntervalStyle": "postgres", "extra_float_digits": "3", "TimeZone": "UTC",
		"bytea_output": "hex", "lc_monetary": "C", "client_encoding": "UTF8",
	} {
		config.RuntimeParams[name] = value
	}
	conn, err := pgconn.ConnectConfig(context.Background(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}
