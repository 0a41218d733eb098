package postgres

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"strings"
	"syscall"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/rowtrail/rowtrail/connectors"
)

// tlsRefused is how pgconn says that the server does not speak TLS.
const tlsRefused = "server refused TLS connection"

// explainConnect names the one cause of a failed connection and its remedy, and tells what needs a person from what passes.
func (c *Config) explainConnect(err error) error {
	cause := connectCause(err)
	where := fmt.Sprintf("connect to database %s on %s as %s", c.Database, address(c.conn.Host, c.conn.Port), c.conn.User)
	fault := func(problem, remedy string) error {
		return &connectors.Fault{Problem: where + ": " + problem, Remedy: remedy}
	}
	passes := func(problem, remedy string) error {
		return &connectors.Passing{Problem: where + ": " + problem, Remedy: remedy, Err: err}
	}
	var pg *pgconn.PgError
	var dns *net.DNSError
	var verification *tls.CertificateVerificationError
	var authority x509.UnknownAuthorityError
	var hostname x509.HostnameError
	var errno syscall.Errno
	switch {
	case errors.As(cause, &pg):
		return c.refusedLogin(pg, fault, passes)
	case errors.As(cause, &dns):
		return passes("host "+dns.Name+" is unknown", "correct the host in "+c.property("database.hostname"))
	case errors.As(cause, &authority):
		return fault(authority.Error(), "set "+c.property("database.sslrootcert", "sslrootcert")+" to the certificate of the authority that signed the server's")
	case errors.As(cause, &hostname):
		return fault(hostname.Error(), "use the host name that the server's certificate is for, or sslmode verify-ca in "+c.property("database.sslmode"))
	case errors.As(cause, &verification):
		return fault(verification.Err.Error(), "renew the server's certificate, or correct "+c.property("database.sslrootcert", "sslrootcert"))
	case strings.Contains(cause.Error(), tlsRefused):
		return fault("the server does not speak TLS", "set ssl = on at the server, or sslmode disable in "+c.property("database.sslmode"))
	case errors.Is(cause, context.Canceled):
		return fmt.Errorf("%s: %w", where, err)
	case isTimeout(cause):
		return passes(fmt.Sprintf("no answer within %s", connectTimeout), "correct host and port in "+c.property("database.hostname, database.port")+", or let this machine through the firewall")
	case errors.As(cause, &errno):
		return passes(errno.Error(), "start the server, or correct host and port in "+c.property("database.hostname, database.port"))
	}
	return passes(cause.Error(), "start the server, or correct host and port in "+c.property("database.hostname, database.port"))
}

// refusedLogin judges what the server itself answered.
func (c *Config) refusedLogin(pg *pgconn.PgError, fault, passes func(problem, remedy string) error) error {
	switch pg.Code {
	case "28P01", "28000":
		if strings.Contains(pg.Message, "no pg_hba.conf entry") {
			return fault(pg.Message, "add a line for this host, user and database to pg_hba.conf and run SELECT pg_reload_conf()")
		}
		return fault(pg.Message, "set "+c.property("database.user and database.password")+" to a role that may log in, and its password")
	case "3D000":
		return fault(pg.Message, "set "+c.property("database.dbname")+" to an existing database")
	case "42501":
		if strings.Contains(pg.Message, "database") {
			return fault(pg.Message, "GRANT CONNECT ON DATABASE "+quoteIdent(c.Database)+" TO "+quoteIdent(c.conn.User))
		}
		return fault(pg.Message, "ALTER ROLE "+quoteIdent(c.conn.User)+" REPLICATION")
	case "53300":
		return passes(pg.Message, "ALTER SYSTEM SET max_connections to a higher number, or end idle sessions")
	case "57P03":
		return passes(pg.Message, "wait until the server has started")
	}
	return passes(pg.Message+" (SQLSTATE "+pg.Code+")", "look into the server's log")
}

// property names where a part of the connection is set: in the DSN or in properties of their own.
func (c *Config) property(names ...string) string {
	if !c.byDSN {
		return names[0]
	}
	if len(names) > 1 {
		return names[1] + " in database.dsn"
	}
	return "database.dsn"
}

// connectCause picks the attempt that tells most. pgconn tries every address, and with sslmode prefer each twice: an answer
// of the server counts more than a connection that did not come about, and a second attempt more than a refused TLS.
func connectCause(err error) error {
	attempts := []error{err}
	var joined interface{ Unwrap() []error }
	if errors.As(err, &joined) {
		attempts = joined.Unwrap()
	}
	best := attempts[0]
	for _, a := range attempts {
		var pg *pgconn.PgError
		if errors.As(a, &pg) {
			return a
		}
		if strings.Contains(best.Error(), tlsRefused) {
			best = a
		}
	}
	return best
}

func isTimeout(err error) bool {
	var timeout interface{ Timeout() bool }
	return errors.Is(err, context.DeadlineExceeded) || errors.As(err, &timeout) && timeout.Timeout()
}

func address(host string, port uint16) string {
	if strings.HasPrefix(host, "/") {
		return host
	}
	return net.JoinHostPort(host, fmt.Sprint(port))
}
