package daemon

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/rowtrail/rowtrail/configs"
	"github.com/rowtrail/rowtrail/itest/certs"
)

func TestCertificatesAreReadAgain(t *testing.T) {
	authority := certs.New(t)
	cert, key := authority.Issue(t, "server")
	var log strings.Builder
	files := configs.TLS{Cert: cert, Key: key, ClientAuth: "none"}
	c, err := openFiles([]string{cert, key}, func() (*tls.Config, error) { return loadTLS(files) }, slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	first := c.current(time.Now())
	if first == nil {
		t.Fatal(log.String())
	}
	later := time.Now()
	look := func() *tls.Config {
		later = later.Add(2 * certificateLook)
		return c.current(later)
	}
	if look() != first {
		t.Error("read again without a change")
	}
	touch := func(path string) {
		t.Helper()
		later = later.Add(time.Minute)
		if err := os.Chtimes(path, later, later); err != nil {
			t.Fatal(err)
		}
	}
	old, err := os.ReadFile(cert)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(cert, []byte("half a cert"), 0o600); err != nil {
		t.Fatal(err)
	}
	touch(cert)
	if look() != first || !strings.Contains(log.String(), "cannot be used; those before stay in use") {
		t.Errorf("with half a certificate:\n%s", log.String())
	}
	lines := strings.Count(log.String(), "\n")
	if look(); strings.Count(log.String(), "\n") != lines {
		t.Error("the same failure is logged twice")
	}
	if err := os.WriteFile(cert, old, 0o600); err != nil {
		t.Fatal(err)
	}
	touch(cert)
	second := look()
	if second == first || second == nil {
		t.Errorf("a good certificate is not read:\n%s", log.String())
	}
	if c.current(later) != second {
		t.Error("read twice within a moment")
	}
}

func TestUnusableCertificates(t *testing.T) {
	authority, other := certs.New(t), certs.New(t)
	cert, key := authority.Issue(t, "server")
	_, wrongKey := other.Issue(t, "server")
	for name, c := range map[string]struct {
		files configs.TLS
		want  string
	}{
		"missing":     {configs.TLS{Cert: "/gone.pem", Key: key}, "listen.tls.cert: /gone.pem does not exist; name an existing PEM file"},
		"no key":      {configs.TLS{Cert: cert, Key: "/gone.key"}, "listen.tls.key: /gone.key does not exist; name an existing PEM file"},
		"another key": {configs.TLS{Cert: cert, Key: wrongKey}, "name PEM files that belong together"},
		"authority":   {configs.TLS{Cert: cert, Key: key, ClientAuth: "required", ClientCA: key}, "holds no certificate; name a PEM file of certificates"},
	} {
		err := CheckTLS(c.files)
		if err == nil || !strings.HasSuffix(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
		cfg := parse(t, t.TempDir(), "")
		cfg.Listen.TLS = c.files
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		if _, startErr := Start(ctx, cfg, Options{}); startErr == nil || startErr.Error() != fmt.Sprint(err) {
			t.Errorf("%s: start: %v", name, startErr)
		}
		cancel()
	}
}

// TestCertificateThatOtherNodesRefuse is told at the start and by check, not by the other nodes; and it does not replace one that is good.
func TestCertificateThatOtherNodesRefuse(t *testing.T) {
	authority, other := certs.New(t), certs.New(t)
	here := []string{"127.0.0.1"}
	issue := func(a *certs.Authority, dir string, s certs.Subject) configs.ClusterTLS {
		cert, key := a.IssueTo(t, dir, s)
		return configs.ClusterTLS{Cert: cert, Key: key, CA: authority.CA}
	}
	for name, c := range map[string]struct {
		authority *certs.Authority
		subject   certs.Subject
		want      string
	}{
		"good":    {authority, certs.Subject{Name: "node", Hosts: here, For: time.Hour}, ""},
		"expired": {authority, certs.Subject{Name: "node", Hosts: here, For: -time.Minute}, "renew it, or correct this machine's clock"},
		"host":    {authority, certs.Subject{Name: "node", Hosts: []string{"10.1.2.3"}, For: time.Hour}, "certificate is valid for 10.1.2.3, not 127.0.0.1; give it the host of cluster.advertised"},
		"foreign": {other, certs.Subject{Name: "node", Hosts: here, For: time.Hour}, "name a certificate that an authority of cluster.tls.ca signed"},
		"usage":   {authority, certs.Subject{Name: "node", Hosts: here, For: time.Hour, ServerOnly: true}, "give it the extended key usages serverAuth and clientAuth"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := parse(t, t.TempDir(), "")
			cfg.Cluster.Listen = "127.0.0.1:0"
			cfg.Cluster.TLS = issue(c.authority, t.TempDir(), c.subject)
			err := CheckClusterTLS(cfg)
			if c.want == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if err == nil || !strings.HasPrefix(err.Error(), "cluster.tls.cert: other nodes would not accept ") || !strings.HasSuffix(err.Error(), c.want) {
				t.Errorf("%v", err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			if _, startErr := Start(ctx, cfg, Options{}); startErr == nil || !strings.HasSuffix(startErr.Error(), c.want) {
				t.Errorf("start: %v", startErr)
			}
		})
	}
}
