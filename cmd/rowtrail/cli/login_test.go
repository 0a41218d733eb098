package cli

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rowtrail/rowtrail/cmd/rowtrail/daemon"
	"github.com/rowtrail/rowtrail/configs"
	"github.com/rowtrail/rowtrail/itest/certs"
)

// secureNode runs a node with TLS and log-ins, and returns its file as a client reads it, its address and its log.
func secureNode(t *testing.T, authority *certs.Authority) (file, address string, log *strings.Builder) {
	t.Helper()
	cert, key := authority.Issue(t, "server")
	text := func(port string) string {
		return fmt.Sprintf(`node: {data_dir: %q, min_free_bytes: 1MiB}
listen:
  kafka: 127.0.0.1:%s
  http: ""
  tls: {cert: %q, key: %q}
  sasl:
    mechanisms: [SCRAM-SHA-256]
    users: [{name: alice, password: "${ALICE_PASSWORD}"}]
`, t.TempDir(), port, cert, key)
	}
	t.Setenv("ALICE_PASSWORD", "hunter2-of-alice")
	cfg, err := configs.Parse("node.yaml", []byte(text("0")), configs.OS())
	if err != nil {
		t.Fatal(err)
	}
	log = &strings.Builder{}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	d, err := daemon.Start(ctx, cfg, daemon.Options{Logger: slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		if err := d.Stop(ctx); err != nil {
			t.Error(err)
		}
		if strings.Contains(log.String(), "hunter2") {
			t.Errorf("the log holds a password:\n%s", log)
		}
	})
	address = d.KafkaAddress()
	_, port, _ := strings.Cut(address, ":")
	return write(t, text(port)), address, log
}

// Commands reach a node with TLS and log-ins by its file, by flags and by the environment, and say what is wrong otherwise.
func TestCommandsLogIn(t *testing.T) {
	authority := certs.New(t)
	file, address, _ := secureNode(t, authority)
	secret := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(secret, []byte("hunter2-of-alice\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	bad := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(bad, []byte("hunter2-of-bob\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		args, user, password string
		code                 int
		says                 string
	}{
		"file":                          {args: "-c " + file},
		"file without its secret":       {args: "-c " + file + " --password-file " + secret, user: "unset"},
		"flags":                         {args: "--server " + address + " --tls-ca " + authority.CA + " --user alice --password-file " + secret},
		"environment":                   {args: "--server " + address + " --tls-ca " + authority.CA, user: "alice", password: "hunter2-of-alice"},
		"wrong password":                {args: "-c " + file + " --password-file " + bad, code: ExitError, says: "does not let this user in"},
		"no password":                   {args: "--server " + address + " --tls-ca " + authority.CA + " --user alice", code: ExitUsage, says: "no password for user alice; give it with --password-file"},
		"no user":                       {args: "--server " + address + " --tls-ca " + authority.CA, code: ExitUnreachable, says: "hangs up; it may want TLS"},
		"no TLS":                        {args: "--server " + address, code: ExitUnreachable, says: "hangs up; it may want TLS"},
		"an authority not trusted":      {args: "--server " + address + " --tls --user alice --password-file " + secret, code: ExitError, says: "is not trusted"},
		"no key beside the certificate": {args: "--server " + address + " --tls-cert " + authority.CA, code: ExitUsage, says: "--tls-cert and --tls-key go together"},
		"no such authority":             {args: "--server " + address + " --tls-ca /gone", code: ExitUsage, says: "--tls-ca: open /gone"},
		"no such password":              {args: "--server " + address + " --user a --password-file /gone", code: ExitUsage, says: "--password-file: open /gone"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("ROWTRAIL_USER", strings.TrimPrefix(c.user, "unset"))
			t.Setenv("ROWTRAIL_PASSWORD", c.password)
			if c.user == "unset" {
				os.Unsetenv("ALICE_PASSWORD")
				defer os.Setenv("ALICE_PASSWORD", "hunter2-of-alice")
			}
			for _, command := range []string{"topics", "groups"} {
				code, out, errs := runCLI(t, append([]string{command}, strings.Fields(c.args)...)...)
				if code != c.code || !strings.Contains(errs, c.says) || code == 0 && errs != "" || strings.Contains(out+errs, "hunter2") {
					t.Errorf("%s: exit %d\n%s%s", command, code, out, errs)
				}
			}
		})
	}
	if code, out, errs := runCLI(t, "check", "-c", file); code != ExitOK {
		t.Errorf("check: exit %d\n%s%s", code, out, errs)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	broken := write(t, strings.Replace(string(text), "server.key", "gone.key", 1))
	if code, out, _ := runCLI(t, "check", "-c", broken); code != ExitError || !strings.Contains(out, "listen.tls.key: ") || !strings.Contains(out, "does not exist; name an existing PEM file") {
		t.Errorf("check: exit %d\n%s", code, out)
	}
	elsewhere := write(t, string(text)+fmt.Sprintf("cluster:\n  listen: 127.0.0.2:9094\n  tls: {cert: %[1]s/server.pem, key: %[1]s/server.key, ca: %[1]s/ca.pem}\n", filepath.Dir(authority.CA)))
	if code, out, _ := runCLI(t, "check", "-c", elsewhere); code != ExitError || !strings.Contains(out, "cluster.tls.cert: ") || !strings.Contains(out, "not 127.0.0.2; give it the host of cluster.advertised") {
		t.Errorf("check: exit %d\n%s", code, out)
	}
}

// A listener that wants a certificate gets one by flags, and its refusal of a client without one says how. A command whose --config
// is a topic's property takes the node's file by -c all the same.
func TestCommandsShowCertificates(t *testing.T) {
	authority := certs.New(t)
	cert, key := authority.Issue(t, "server")
	text := func(port string) string {
		return fmt.Sprintf(`node: {data_dir: %q, min_free_bytes: 1MiB}
listen:
  kafka: 127.0.0.1:%s
  http: ""
  tls: {cert: %q, key: %q, client_ca: %q, client_auth: required}
`, t.TempDir(), port, cert, key, authority.CA)
	}
	cfg, err := configs.Parse("node.yaml", []byte(text("0")), configs.OS())
	if err != nil {
		t.Fatal(err)
	}
	d, err := daemon.Start(t.Context(), cfg, daemon.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		if err := d.Stop(ctx); err != nil {
			t.Error(err)
		}
	})
	_, port, _ := strings.Cut(d.KafkaAddress(), ":")
	file := write(t, text(port))
	clientCert, clientKey := authority.Issue(t, "app")
	stranger, strangersKey := certs.New(t).Issue(t, "app")
	for _, command := range []string{"topics", "topics create orders --if-not-exists", "topics alter orders --config retention.ms=1000"} {
		for name, c := range map[string]struct {
			args string
			code int
			says string
		}{
			"none":         {"", ExitError, "is given with --tls-cert and --tls-key"},
			"a stranger's": {" --tls-cert " + stranger + " --tls-key " + strangersKey, ExitError, "refuses the connection: "},
			"the client's": {" --tls-cert " + clientCert + " --tls-key " + clientKey, ExitOK, ""},
		} {
			code, out, errs := runCLI(t, strings.Fields(command+" -c "+file+c.args)...)
			if code != c.code || !strings.Contains(errs, c.says) || code == ExitOK && errs != "" {
				t.Errorf("%s, certificate %s: exit %d\n%s%s", command, name, code, out, errs)
			}
		}
	}
}
