package mysql

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"syscall"

	"github.com/go-mysql-org/go-mysql/mysql"

	"github.com/rowtrail/rowtrail/connectors"
)

// explainConnect names the cause of a failed connection and its remedy, and tells what needs a person from what passes.
func (c *Config) explainConnect(err error) error {
	where := fmt.Sprintf("connect to %s as %s", net.JoinHostPort(c.host, strconv.Itoa(c.port)), c.user)
	fault := func(problem, remedy string) error {
		return &connectors.Fault{Problem: where + ": " + problem, Remedy: remedy}
	}
	passes := func(problem, remedy string) error {
		return &connectors.Passing{Problem: where + ": " + problem, Remedy: remedy, Err: err}
	}
	var my *mysql.MyError
	var dns *net.DNSError
	var verification *tls.CertificateVerificationError
	var authority x509.UnknownAuthorityError
	var hostname x509.HostnameError
	var errno syscall.Errno
	var timeout interface{ Timeout() bool }
	const address = "database.hostname and database.port"
	switch {
	case errors.As(err, &my):
		return c.refusedLogin(my, fault, passes)
	case errors.As(err, &dns):
		return passes("host "+dns.Name+" is unknown", "correct database.hostname")
	case errors.As(err, &authority):
		return fault(authority.Error(), "set database.ssl.ca to the certificate of the authority that signed the server's")
	case errors.As(err, &hostname):
		return fault(hostname.Error(), "use the host name that the server's certificate is for, or database.ssl.mode verify_ca")
	case errors.As(err, &verification):
		return fault(verification.Err.Error(), "renew the server's certificate, or correct database.ssl.ca")
	case strings.Contains(err.Error(), noTLS):
		return fault("the server does not speak TLS", "give the server ssl_cert and ssl_key, or set database.ssl.mode to disabled")
	case strings.Contains(err.Error(), "auth plugin"): // go-mysql's words
		return fault(err.Error(), "as an administrator: ALTER USER "+c.account()+" IDENTIFIED "+map[bool]string{false: "WITH caching_sha2_password BY", true: "VIA mysql_native_password USING PASSWORD"}[c.MariaDB]+" ...")
	case errors.Is(err, context.Canceled):
		return fmt.Errorf("%s: %w", where, err)
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return passes(fmt.Sprintf("no answer within %s", c.timeout), "correct "+address+", or let this machine through the firewall")
	case errors.As(err, &errno):
		return passes(errno.Error(), "start the server, or correct "+address)
	}
	return passes(err.Error(), "start the server, or correct "+address)
}

// explainSession is explainConnect for the first statement of a session.
func (c *Config) explainSession(err error) error {
	if code(err) == erAborted || code(err) == erMustChange {
		return c.explainConnect(err)
	}
	return fmt.Errorf("prepare a session: %w", err)
}

// refusedLogin judges what the server itself answered.
func (c *Config) refusedLogin(my *mysql.MyError, fault, passes func(problem, remedy string) error) error {
	switch my.Code {
	case erAccessDenied, erDBAccessDenied, erNoPassword:
		remedy := "correct database.user and database.password, or as an administrator: " + c.grantSQL("REPLICATION SLAVE, "+c.clientPrivilege())
		if c.tls.mode == tlsDisabled {
			remedy += "; or set database.ssl.mode to required, if the user may log in over TLS alone"
		}
		return fault(my.Message, remedy)
	case erUserLimit:
		return passes(my.Message, "as an administrator: ALTER USER "+c.account()+" WITH MAX_USER_CONNECTIONS 0 MAX_CONNECTIONS_PER_HOUR 0 MAX_QUERIES_PER_HOUR 0")
	case erHostDenied:
		return fault(my.Message, "create the user for this host: CREATE USER "+quoteLiteral(c.user)+"@'%' IDENTIFIED BY ...")
	case erSecureTransport:
		return fault(my.Message, "set database.ssl.mode to required")
	case erAccountLocked, erLockedMariaDB:
		return fault(my.Message, "as an administrator: ALTER USER "+c.account()+" ACCOUNT UNLOCK")
	case erPasswordExpired, erMustChange:
		return fault(my.Message, "as an administrator, with the former password or a new one: ALTER USER "+c.account()+" IDENTIFIED BY ... PASSWORD EXPIRE NEVER")
	case erAborted:
		return fault(my.Message, "as an administrator: SET GLOBAL init_connect = '', or to what every user may do")
	case erTooManyConns:
		return passes(my.Message, "SET GLOBAL max_connections to a higher number, or end idle sessions")
	case erHostBlocked:
		return passes(my.Message, "TRUNCATE performance_schema.host_cache (MariaDB: FLUSH HOSTS)")
	case erShutdown:
		return passes(my.Message, "wait until the server has started")
	}
	return passes(fmt.Sprintf("%s (error %d)", my.Message, my.Code), "look into the server's log")
}

// account is the user as GRANT takes it; from which host it comes is not known here.
func (c *Config) account() string { return quoteLiteral(c.user) + "@'%'" }

func (c *Config) grantSQL(privileges string) string {
	return "GRANT " + privileges + " ON *.* TO " + c.account()
}

// clientPrivilege is what SHOW BINARY LOG STATUS needs.
func (c *Config) clientPrivilege() string {
	if c.MariaDB {
		return "BINLOG MONITOR"
	}
	return "REPLICATION CLIENT"
}
