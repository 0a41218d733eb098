package postgres

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

const connectTimeout = 15 * time.Second

// sessionSettings make values canonical text, the same in the load and in the stream.
func sessionSettings() map[string]string {
	return map[string]string{
		"client_encoding":                     "UTF8",
		"DateStyle":                           "ISO, YMD",
		"IntervalStyle":                       "postgres",
		"extra_float_digits":                  "3",
		"TimeZone":                            "UTC",
		"bytea_output":                        "hex",
		"lc_monetary":                         "C",
		"search_path":                         "pg_catalog", // type and object names come out qualified, whatever the role's default
		"statement_timeout":                   "0",
		"lock_timeout":                        "0",
		"idle_in_transaction_session_timeout": "0",
	}
}

// connection reads database.*.
func (p parser) connection(c *Config) {
	dsn := p.Text("database.dsn", "")
	host := p.Text("database.hostname", "")
	port := p.Number("database.port", 5432, 1, 65535)
	user := p.Text("database.user", "")
	password := p.Raw("database.password")
	db := p.Text("database.dbname", "")
	ssl := map[string]string{
		"sslmode":     p.Choice("database.sslmode", "prefer", "disable", "allow", "prefer", "require", "verify-ca", "verify-full"),
		"sslrootcert": p.Text("database.sslrootcert", ""),
		"sslcert":     p.Text("database.sslcert", ""),
		"sslkey":      p.Text("database.sslkey", ""),
	}
	if dsn == "" {
		switch {
		case host == "":
			p.Fail("database.hostname", errors.New("is missing (or give database.dsn)"))
			return
		case db == "":
			p.Fail("database.dbname", errors.New("is missing"))
			return
		case user == "":
			p.Fail("database.user", errors.New("is missing"))
			return
		}
		q := url.Values{}
		for k, v := range ssl {
			if v != "" {
				q.Set(k, v)
			}
		}
		if strings.HasPrefix(host, "/") {
			q.Set("host", host)
			host = ""
		}
		u := url.URL{Scheme: "postgres", User: url.UserPassword(user, password), Host: net.JoinHostPort(host, fmt.Sprint(port)), Path: "/" + db, RawQuery: q.Encode()}
		dsn = u.String()
	} else {
		for _, name := range []string{"database.hostname", "database.user", "database.dbname", "database.password"} {
			if p.Given(name) {
				p.Fail(name, errors.New("cannot be used together with database.dsn"))
			}
		}
	}
	cfg, err := pgconn.ParseConfig(dsn)
	if err != nil {
		// The cause is left out: it can quote the password.
		p.Fail("database.dsn", errors.New("is not a Postgres connection string: expected postgres://user:password@host:port/database?sslmode=... or key=value pairs"))
		return
	}
	if cfg.Database == "" {
		p.Fail("database.dsn", errors.New("names no database"))
	}
	cfg.ConnectTimeout = connectTimeout
	for k, v := range sessionSettings() {
		cfg.RuntimeParams[k] = v
	}
	if cfg.RuntimeParams["application_name"] == "" {
		cfg.RuntimeParams["application_name"] = "rowtrail " + c.Name
	}
	c.conn, c.Database, c.byDSN = cfg, cfg.Database, p.Given("database.dsn")
}

// dial opens an ordinary connection.
func (c *Config) dial(ctx context.Context) (*pgconn.PgConn, error) {
	conn, err := pgconn.ConnectConfig(ctx, c.conn.Copy())
	if err != nil {
		return nil, c.explainConnect(err)
	}
	return conn, nil
}

// dialReplication opens a walsender connection whose bytes after the start of the stream belong to the frame reader.
func (c *Config) dialReplication(ctx context.Context) (*pgconn.PgConn, *frames, error) {
	cfg := c.conn.Copy()
	cfg.RuntimeParams["replication"] = "database"
	fr := tapFrontend(cfg)
	conn, err := pgconn.ConnectConfig(ctx, cfg)
	if err != nil {
		return nil, nil, c.explainConnect(err)
	}
	return conn, fr(), nil
}

// quoteIdent quotes an SQL identifier.
func quoteIdent(s string) string { return `"` + strings.ReplaceAll(s, `"`, `""`) + `"` }

// quoteLiteral quotes an SQL string under standard_conforming_strings.
func quoteLiteral(s string) string { return `'` + strings.ReplaceAll(s, `'`, `''`) + `'` }

// sqlState is the SQLSTATE of a server error, else "".
func sqlState(err error) string {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return pg.Code
	}
	return ""
}

// query runs SQL without parameters and returns all rows of its last result in text; NULL is nil.
func query(ctx context.Context, conn *pgconn.PgConn, sql string) ([][][]byte, error) {
	results, err := conn.Exec(ctx, sql).ReadAll()
	if err != nil {
		return nil, err
	}
	if len(results) == 0 {
		return nil, nil
	}
	return results[len(results)-1].Rows, nil
}

func execute(ctx context.Context, conn *pgconn.PgConn, sql string) error {
	_, err := conn.Exec(ctx, sql).ReadAll()
	return err
}
