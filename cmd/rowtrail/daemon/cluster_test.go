package daemon

import (
	"crypto/tls"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/rowtrail/rowtrail/itest/certs"
)

// handshake lets two nodes' sides of a connection meet.
func handshake(t *testing.T, server, client *tls.Config, name string) (serverError, clientError error) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	deadline := time.Now().Add(10 * time.Second)
	done := make(chan error, 1)
	go func() {
		c, err := l.Accept()
		if err == nil {
			_ = c.SetDeadline(deadline)
			s := tls.Server(c, server)
			if err = s.Handshake(); err == nil {
				_, err = s.Write([]byte("x"))
			}
			_ = s.Close()
		}
		done <- err
	}()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	_ = c.SetDeadline(deadline)
	client = client.Clone()
	client.ServerName = name
	s := tls.Client(c, client)
	if clientError = s.Handshake(); clientError == nil {
		_, clientError = s.Read(make([]byte, 1))
	}
	_ = s.Close()
	return <-done, clientError
}

func TestClusterTLSIsMutual(t *testing.T) {
	ours, theirs := certs.New(t), certs.New(t)
	open := func(authority, trusted *certs.Authority, name string) (server, client *tls.Config) {
		t.Helper()
		cfg := parse(t, t.TempDir(), "")
		cfg.Cluster.Listen = "127.0.0.1:9094"
		cfg.Cluster.TLS.Cert, cfg.Cluster.TLS.Key = authority.Issue(t, name)
		cfg.Cluster.TLS.CA = authority.CA
		server, current, err := openClusterCertificates(cfg, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		if trusted == authority {
			return server, current()
		}
		// No node starts with a certificate that its own authorities did not sign.
		c := current().Clone()
		c.RootCAs = trusted.Client(t, "").RootCAs
		c.ClientCAs = c.RootCAs
		return c, c
	}
	server, _ := open(ours, ours, "node1")
	_, friend := open(ours, ours, "node2")
	foreignServer, foreignClient := open(theirs, ours, "foreign")
	_, gullible := open(ours, theirs, "gullible")
	_, nobody := open(ours, ours, "nobody")
	nobody = nobody.Clone()
	nobody.Certificates = nil

	for name, c := range map[string]struct {
		server, client *tls.Config
		host, want     string
	}{
		"of one authority":           {server, friend, "127.0.0.1", ""},
		"another host's":             {server, friend, "10.1.2.3", "certificate is valid for 127.0.0.1, not 10.1.2.3"},
		"foreign client":             {server, foreignClient, "127.0.0.1", "certificate signed by unknown authority"},
		"foreign server":             {foreignServer, friend, "127.0.0.1", "certificate signed by unknown authority"},
		"trusts another authority":   {server, gullible, "127.0.0.1", "certificate signed by unknown authority"},
		"client without certificate": {server, nobody, "127.0.0.1", "client didn't provide a certificate"},
	} {
		serverError, clientError := handshake(t, c.server, c.client, c.host)
		if c.want == "" {
			if serverError != nil || clientError != nil {
				t.Errorf("%s: %v, %v", name, serverError, clientError)
			}
			continue
		}
		said := ""
		for _, err := range []error{serverError, clientError} {
			if err != nil {
				said += err.Error() + "; "
			}
		}
		if clientError == nil || !strings.Contains(said, c.want) {
			t.Errorf("%s: %s", name, said)
		}
	}
}
