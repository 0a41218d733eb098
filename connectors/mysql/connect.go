package mysql

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/go-mysql-org/go-mysql/client"
	"github.com/go-mysql-org/go-mysql/mysql"
)

// Modes of TLS, by the names of database.ssl.mode.
const (
	tlsDisabled  = "disabled"
	tlsPreferred = "preferred"
	tlsRequired  = "required"
	tlsVerifyCA  = "verify_ca"
	tlsVerify    = "verify_identity"
)

// noTLS is how go-mysql says that the server does not speak TLS.
const noTLS = "does not support TLS"

// tlsSettings are database.ssl.*.
type tlsSettings struct {
	mode   string
	roots  *x509.CertPool // nil: the system's
	client []tls.Certificate
}

func (p parser) tls(c *Config) {
	mode := p.Choice("database.ssl.mode", tlsPreferred, tlsDisabled, tlsPreferred, tlsRequired, tlsVerifyCA, tlsVerify,
		"disable", "trust", "verify-ca", "verify-full") // the latter are those of Debezium's MariaDB connector
	switch mode {
	case "disable":
		mode = tlsDisabled
	case "trust":
		mode = tlsRequired
	case "verify-ca":
		mode = tlsVerifyCA
	case "verify-full":
		mode = tlsVerify
	}
	c.tls.mode = mode
	ca, cert, key := p.Text("database.ssl.ca", ""), p.Text("database.ssl.cert", ""), p.Text("database.ssl.key", "")
	if ca != "" {
		pem, err := os.ReadFile(ca)
		if err != nil {
			p.Fail("database.ssl.ca", err)
		} else if c.tls.roots = x509.NewCertPool(); !c.tls.roots.AppendCertsFromPEM(pem) {
			p.Fail("database.ssl.ca", fmt.Errorf("%s holds no PEM certificate", ca))
		}
	}
	switch {
	case cert == "" && key == "":
	case cert == "":
		p.Fail("database.ssl.cert", errors.New("is missing beside database.ssl.key"))
	case key == "":
		p.Fail("database.ssl.key", errors.New("is missing beside database.ssl.cert"))
	default:
		pair, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			p.Fail("database.ssl.cert", err)
		}
		c.tls.client = []tls.Certificate{pair}
	}
}

// config is what a connection needs; nil is no TLS.
func (t *tlsSettings) config(host string) *tls.Config {
	cfg := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: host, RootCAs: t.roots, Certificates: t.client}
	switch t.mode {
	case tlsDisabled:
		return nil
	case tlsPreferred, tlsRequired:
		cfg.InsecureSkipVerify = true //nolint:gosec // what these modes mean: encrypted, not verified
	case tlsVerifyCA:
		cfg.InsecureSkipVerify = true //nolint:gosec // verified below, but for the name
		roots := t.roots
		cfg.VerifyConnection = func(s tls.ConnectionState) error {
			opts := x509.VerifyOptions{Roots: roots, Intermediates: x509.NewCertPool()}
			for _, c := range s.PeerCertificates[1:] {
				opts.Intermediates.AddCert(c)
			}
			if _, err := s.PeerCertificates[0].Verify(opts); err != nil {
				return &tls.CertificateVerificationError{UnverifiedCertificates: s.PeerCertificates, Err: err}
			}
			return nil
		}
	}
	return cfg
}

// session is one connection to the source. It belongs to one goroutine.
type session struct {
	conn *client.Conn
	dead bool
}

// dial connects. go-mysql gets no logger, and its errors hold no secret: the password leaves this process in the handshake alone.
func (c *Config) dial(ctx context.Context) (*session, error) {
	s, err := c.handshake(ctx, c.tls.config(c.host))
	if err != nil && c.tls.mode == tlsPreferred && strings.Contains(err.Error(), noTLS) {
		s, err = c.handshake(ctx, nil)
	}
	if err != nil {
		return nil, c.explainConnect(err)
	}
	// What sessions print must not depend on the server's defaults.
	const names = "SET NAMES utf8mb4, time_zone = '+00:00', sql_mode = '', wait_timeout = 28800, net_write_timeout = 600, net_read_timeout = 600"
	if err := s.execute(ctx, names); err != nil {
		s.close()
		return nil, c.explainSession(err)
	}
	return s, nil
}

func (c *Config) handshake(ctx context.Context, cfg *tls.Config) (*session, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	network, addr := "tcp", net.JoinHostPort(c.host, strconv.Itoa(c.port))
	if strings.HasPrefix(c.host, "/") {
		network, addr, cfg = "unix", c.host, nil
	}
	var raw net.Conn
	dialer := func(ctx context.Context, network, addr string) (net.Conn, error) {
		d := net.Dialer{KeepAlive: 15 * time.Second}
		conn, err := d.DialContext(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		raw = conn
		deadline, _ := ctx.Deadline()
		return conn, conn.SetDeadline(deadline)
	}
	stop := context.AfterFunc(ctx, func() {
		if raw != nil {
			_ = raw.SetDeadline(time.Unix(1, 0))
		}
	})
	defer stop()
	conn, err := client.ConnectWithDialer(ctx, network, addr, c.user, c.password, "", dialer, func(conn *client.Conn) error {
		conn.SetAttributes(map[string]string{"program_name": "rowtrail " + c.Name})
		if cfg != nil {
			conn.SetTLSConfig(cfg)
		}
		return nil
	})
	if err != nil {
		if ctx.Err() != nil && !isMyError(err) {
			err = fmt.Errorf("%w: %w", ctx.Err(), err)
		}
		return nil, err
	}
	if err := conn.SetDeadline(time.Time{}); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return &session{conn: conn}, nil
}

func (s *session) close() {
	if s != nil {
		_ = s.conn.Close() // there is nothing to save
	}
}

// bounded runs f, whose reads and writes end with ctx. A session whose call was cut is dead.
func (s *session) bounded(ctx context.Context, f func() error) error {
	if s.dead {
		return errors.New("the session ended")
	}
	deadline, _ := ctx.Deadline() // the zero time is none
	if err := s.conn.SetDeadline(deadline); err != nil {
		s.dead = true
		return err
	}
	stop := context.AfterFunc(ctx, func() { _ = s.conn.SetDeadline(time.Unix(1, 0)) })
	err := f()
	if !stop() || err != nil && !isMyError(err) {
		s.dead = true
	}
	if err != nil && ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

// result is the rows of a result as text; NULL is nil.
type result [][][]byte

// query runs one statement.
func (s *session) query(ctx context.Context, sql string) (result, error) {
	var list result
	err := s.bounded(ctx, func() error {
		res, err := s.conn.Execute(sql)
		if err != nil {
			return err
		}
		defer res.Close()
		if res.Resultset == nil {
			return nil
		}
		for i := range res.Values {
			row := make([][]byte, len(res.Values[i]))
			for j := range row {
				row[j] = textOf(&res.Values[i][j])
			}
			list = append(list, row)
		}
		return nil
	})
	return list, err
}

func textOf(v *mysql.FieldValue) []byte {
	switch x := v.Value().(type) {
	case nil:
		return nil
	case []byte:
		return append([]byte{}, x...)
	case uint64:
		return strconv.AppendUint(nil, x, 10)
	case int64:
		return strconv.AppendInt(nil, x, 10)
	default:
		return fmt.Append(nil, x)
	}
}

func (s *session) execute(ctx context.Context, sql string) error {
	_, err := s.query(ctx, sql)
	return err
}

// Numbers of errors of the servers.
const (
	erAccessDenied    = 1045
	erDBAccessDenied  = 1044
	erXARecover       = 1401 // MySQL: without XA_RECOVER_ADMIN
	erNoPassword      = 1698 // access denied to a user who has none
	erUserLimit       = 1226
	erTooManyConns    = 1040
	erParse           = 1064
	erTableDenied     = 1142
	erBadField        = 1054
	erNoSuchKey       = 1176
	erLockWaitTimeout = 1205
	erTableChanged    = 1412 // behind a snapshot
	erColumnDenied    = 1143
	erUnknownVariable = 1193
	erSpecificDenied  = 1227
	erReadingBinlog   = 1236
	erNoSuchTable     = 1146
	erHostBlocked     = 1129
	erHostDenied      = 1130
	erShutdown        = 1053
	erSlaveSameID     = 4052 // MariaDB
	erSecureTransport = 3159
	erPasswordExpired = 1862
	erAccountLocked   = 3118
	erLockedMariaDB   = 4151
	erMustChange      = 1820 // the password, before anything else
	erAborted         = 1184 // by init_connect
	erGTIDStrictOrder = 1950 // MariaDB
	erCannotFindState = 1955 // MariaDB: a GTID that is not in its binlog
	erStateTooOld     = 1945 // MariaDB: a GTID that was purged
	erMustHaveSecure  = 4031 // an idle session was ended
)

// code is the number of a server's error, 0 for others.
func code(err error) uint16 {
	var my *mysql.MyError
	if errors.As(err, &my) {
		return my.Code
	}
	return 0
}

func isMyError(err error) bool { return code(err) != 0 }

// denied tells that a privilege is missing.
func denied(err error) bool {
	switch code(err) {
	case erTableDenied, erColumnDenied, erSpecificDenied, erDBAccessDenied:
		return true
	}
	return false
}

// either runs the first statement that the server knows: command names changed with MySQL 8.4 (M24).
func (s *session) either(ctx context.Context, statements ...string) (result, error) {
	var list result
	var err error
	for _, sql := range statements {
		if list, err = s.query(ctx, sql); code(err) != erParse {
			break
		}
	}
	return list, err
}

// quoteIdent quotes an SQL identifier.
func quoteIdent(s string) string { return "`" + strings.ReplaceAll(s, "`", "``") + "`" }

// quoteLiteral quotes an SQL string under sql_mode ”.
func quoteLiteral(s string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, `'`, `''`).Replace(s) + "'"
}
