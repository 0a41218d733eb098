package mysql

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"slices"
	"strings"
)

const defaultPort = "3306"

// Values of ssl-mode, as the servers' own clients have them.
const (
	sslDisabled       = "disabled"
	sslPreferred      = "preferred"
	sslRequired       = "required"
	sslVerifyCA       = "verify_ca"
	sslVerifyIdentity = "verify_identity"
)

// Connection is how the target is reached.
type Connection struct {
	Network, Address string // tcp and host:port, or unix and a path
	User, Password   string
	SSLMode          string
	SSLCA            string // PEM files
	SSLCert, SSLKey  string
}

// parseDSN reads mysql://user:password@host:port/?ssl-mode=required&ssl-ca=file&ssl-cert=file&ssl-key=file, or ?socket=path. Its errors say
// nothing of the text, which has the password.
func parseDSN(dsn string) (*Connection, error) {
	u, err := url.Parse(dsn)
	if err != nil || u.Host == "" && u.RawQuery == "" || u.Opaque != "" {
		return nil, errors.New("the URL cannot be read; write mysql://user:password@host:3306/, with special characters of the password as %XX")
	}
	if u.Scheme != "mysql" && u.Scheme != "mariadb" {
		return nil, errors.New("the URL begins with neither mysql:// nor mariadb://; write mysql://user:password@host:3306/")
	}
	if strings.Trim(u.Path, "/") != "" {
		return nil, errors.New("the URL names a database, and a sink writes to any; leave it out, and set target.database for one database for all tables")
	}
	c := &Connection{Network: "tcp", SSLMode: sslPreferred, User: u.User.Username()}
	c.Password, _ = u.User.Password()
	port := u.Port()
	if port == "" {
		port = defaultPort
	}
	c.Address = net.JoinHostPort(u.Hostname(), port)
	params, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return nil, errors.New("the URL's parameters cannot be read; write ?name=value&name=value")
	}
	for name, values := range params {
		v := values[len(values)-1]
		switch name {
		case "socket":
			c.Network, c.Address = "unix", v
		case "ssl-mode":
			c.SSLMode = strings.ToLower(v)
			if modes := []string{sslDisabled, sslPreferred, sslRequired, sslVerifyCA, sslVerifyIdentity}; !slices.Contains(modes, c.SSLMode) {
				return nil, fmt.Errorf("ssl-mode %q is not known; use one of %s", v, strings.Join(modes, ", "))
			}
		case "ssl-ca":
			c.SSLCA = v
		case "ssl-cert":
			c.SSLCert = v
		case "ssl-key":
			c.SSLKey = v
		default:
			return nil, fmt.Errorf("the URL has the unknown parameter %q; those that it can have are socket, ssl-mode, ssl-ca, ssl-cert and ssl-key", name)
		}
	}
	switch {
	case c.User == "":
		return nil, errors.New("the URL names no user; write mysql://user:password@host:3306/")
	case c.Network == "tcp" && u.Hostname() == "":
		return nil, errors.New("the URL names neither a host nor a socket; write mysql://user:password@host:3306/ or add ?socket=path")
	case (c.SSLCert == "") != (c.SSLKey == ""):
		return nil, errors.New("ssl-cert and ssl-key belong together; give both or neither")
	}
	return c, nil
}

// tls is the configuration of TLS; nil when there is to be none.
func (c *Connection) tls() (*tls.Config, error) {
	if c.SSLMode == sslDisabled || c.Network == "unix" {
		return nil, nil
	}
	host, _, _ := net.SplitHostPort(c.Address)
	t := &tls.Config{ServerName: host, MinVersion: tls.VersionTLS12}
	if c.SSLCA != "" {
		pem, err := os.ReadFile(c.SSLCA)
		if err != nil {
			return nil, fmt.Errorf("read ssl-ca: %w", err)
		}
		t.RootCAs = x509.NewCertPool()
		if !t.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("read ssl-ca: %s has no certificate in PEM form", c.SSLCA)
		}
	}
	if c.SSLCert != "" {
		pair, err := tls.LoadX509KeyPair(c.SSLCert, c.SSLKey)
		if err != nil {
			return nil, fmt.Errorf("read ssl-cert and ssl-key: %w", err)
		}
		t.Certificates = []tls.Certificate{pair}
	}
	switch c.SSLMode {
	case sslPreferred, sslRequired:
		t.InsecureSkipVerify = true
	case sslVerifyCA: // the chain, and not the name
		t.InsecureSkipVerify = true
		t.VerifyConnection = func(s tls.ConnectionState) error {
			opts := x509.VerifyOptions{Roots: t.RootCAs, Intermediates: x509.NewCertPool()}
			for _, cert := range s.PeerCertificates[1:] {
				opts.Intermediates.AddCert(cert)
			}
			_, err := s.PeerCertificates[0].Verify(opts)
			return err
		}
	}
	return t, nil
}
