// Package certs makes TLS certificates for tests: an authority, and certificates that it signed.
package certs

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Authority signs certificates. CA is the file of its own.
type Authority struct {
	CA  string
	dir string

	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// New makes an authority in a directory of the test's.
func New(t testing.TB) *Authority {
	t.Helper()
	a := &Authority{dir: t.TempDir()}
	a.key = newKey(t)
	a.cert = &x509.Certificate{
		SerialNumber: serial(t), Subject: pkix.Name{CommonName: "test authority"}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, a.cert, a.cert, &a.key.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	a.CA = write(t, a.dir, "ca.pem", "CERTIFICATE", der)
	return a
}

// Subject is what a certificate says.
type Subject struct {
	Name  string
	Hosts []string      // names and addresses
	For   time.Duration // from now on, or, where it is negative, until then

	ServerOnly bool // not good for a client
}

// Issue writes a certificate of 127.0.0.1 and localhost for name, and its key.
func (a *Authority) Issue(t testing.TB, name string) (cert, key string) {
	t.Helper()
	return a.IssueTo(t, a.dir, Subject{Name: name, Hosts: []string{"127.0.0.1", "localhost"}, For: time.Hour})
}

// IssueTo writes a certificate and its key into dir, as NAME.pem and NAME.key; files that are there are written anew.
func (a *Authority) IssueTo(t testing.TB, dir string, s Subject) (cert, key string) {
	t.Helper()
	k := newKey(t)
	template := &x509.Certificate{
		SerialNumber: serial(t), Subject: pkix.Name{CommonName: s.Name, Organization: []string{"tests"}},
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(s.For),
	}
	if s.ServerOnly {
		template.ExtKeyUsage = template.ExtKeyUsage[:1]
	}
	for _, host := range s.Hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
			continue
		}
		template.DNSNames = append(template.DNSNames, host)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &k.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	return write(t, dir, s.Name+".pem", "CERTIFICATE", der), write(t, dir, s.Name+".key", "PRIVATE KEY", private)
}

// Server is the configuration of a server with a certificate of name.
func (a *Authority) Server(t testing.TB, name string) *tls.Config {
	t.Helper()
	return &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{a.pair(t, name)}, ClientCAs: a.pool()}
}

// Client is the configuration of a client that trusts the authority; with a name it shows a certificate of that name.
func (a *Authority) Client(t testing.TB, name string) *tls.Config {
	t.Helper()
	c := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: a.pool()}
	if name != "" {
		c.Certificates = []tls.Certificate{a.pair(t, name)}
	}
	return c
}

func (a *Authority) pair(t testing.TB, name string) tls.Certificate {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(a.Issue(t, name))
	if err != nil {
		t.Fatal(err)
	}
	return pair
}

func (a *Authority) pool() *x509.CertPool {
	pool := x509.NewCertPool()
	if text, err := os.ReadFile(a.CA); err == nil {
		pool.AppendCertsFromPEM(text)
	}
	return pool
}

func write(t testing.TB, dir, name, kind string, der []byte) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func serial(t testing.TB) *big.Int {
	t.Helper()
	n, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		t.Fatal(err)
	}
	return n
}
