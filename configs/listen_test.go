package configs

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestListenProblems(t *testing.T) {
	const plain = "PLAIN would send passwords readably over the network to 10.0.0.1:9092; " +
		"set listen.tls, use SCRAM alone, or set allow_plaintext: true where the network is trusted"
	user := "users: [{name: a, password: p}]"
	for name, c := range map[string]struct{ listen, want string }{
		"key missing":       {"tls: {cert: c}", "listen.tls.key: is missing beside cert; name the PEM file of the certificate's private key"},
		"cert missing":      {"tls: {key: c}", "listen.tls.cert: is missing beside key; name the PEM file of the certificate"},
		"clients only":      {"tls: {client_ca: c, client_auth: required}", "listen.tls.cert: is missing, but clients' certificates are asked for; name the PEM file of the listener's own certificate"},
		"no authority":      {"tls: {cert: c, key: k, client_auth: required}", "listen.tls.client_ca: is missing, but client_auth is required; name the PEM file of the authorities that sign clients' certificates"},
		"idle authority":    {"tls: {cert: c, key: k, client_ca: a}", "listen.tls.client_ca: has no effect, as client_auth is none; set client_auth to requested or required, or remove client_ca"},
		"client_auth":       {"tls: {cert: c, key: k, client_auth: require}", `listen.tls.client_auth: "require" is not known; did you mean required?`},
		"mechanism":         {"sasl: {mechanisms: [SCRAM-SHA-1]}", `listen.sasl.mechanisms[0]: "SCRAM-SHA-1" is not known; did you mean SCRAM-SHA-512?`},
		"users alone":       {"sasl: {" + user + "}", "listen.sasl.mechanisms: is empty, so nobody logs in, but there are users; name mechanisms, as [SCRAM-SHA-256, SCRAM-SHA-512], or remove users"},
		"user twice":        {"sasl: {mechanisms: PLAIN, users: [{name: a, password: p}, {name: a, password: q}]}", `listen.sasl.users[1].name: "a" is there twice; keep one of them`},
		"no name":           {`sasl: {mechanisms: PLAIN, users: [{name: "", password: p}]}`, "listen.sasl.users[0].name: is empty; write the name that the client logs in with"},
		"no password":       {"sasl: {mechanisms: PLAIN, users: [{name: a}]}", "listen.sasl.users[0].password: is missing; add it: Its password, as ${NAME} or file:/path."},
		"empty password":    {`sasl: {mechanisms: PLAIN, users: [{name: a, password: ""}]}`, "listen.sasl.users[0].password: is empty; give it a value"},
		"missing secret":    {`sasl: {mechanisms: PLAIN, users: [{name: a, password: "file:/gone"}]}`, "listen.sasl.users[0].password: cannot read the secret's file: open /gone: file does not exist; create it readable for this user"},
		"plain":             {`kafka: "10.0.0.1:9092", sasl: {mechanisms: [SCRAM-SHA-256, PLAIN], ` + user + "}", "listen.sasl.mechanisms: " + plain},
		"plain, allowed":    {`kafka: "10.0.0.1:9092", sasl: {mechanisms: PLAIN, allow_plaintext: true}`, ""},
		"plain over TLS":    {`kafka: "10.0.0.1:9092", tls: {cert: c, key: k}, sasl: {mechanisms: PLAIN}`, ""},
		"plain on loopback": {`kafka: "localhost:9092", sasl: {mechanisms: PLAIN}`, ""},
		"scram":             {`kafka: "10.0.0.1:9092", sasl: {mechanisms: SCRAM-SHA-256}`, ""},
		"certificates":      {"tls: {cert: c, key: k, client_ca: a, client_auth: requested}", ""},
	} {
		_, err := Parse("f", []byte("listen: {"+c.listen+"}\n"), testEnv(nil, nil))
		got := ""
		if err != nil {
			got = strings.TrimPrefix(err.Error(), "f:1: ")
		}
		if got != c.want {
			t.Errorf("%s: got\n%s\nwant\n%s", name, got, c.want)
		}
	}
}

// A password is for Reveal alone, however the configuration is printed.
func TestPasswordsDoNotShow(t *testing.T) {
	cfg, err := Parse("f", []byte(`listen: {sasl: {mechanisms: PLAIN, users: [{name: a, password: "${P}"}, {name: b, password: "file:/p"}]}}`+"\n"),
		testEnv(map[string]string{"P": "hunter2"}, map[string]string{"/p": "hunter2\n"}))
	if err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	logger := slog.New(slog.NewJSONHandler(&log, nil))
	for _, u := range cfg.Listen.SASL.Users {
		if u.Password.Reveal() != "hunter2" {
			t.Errorf("%s's password is %q", u.Name, u.Password.Reveal())
		}
		logger.Info("user", "user", u, "password", u.Password)
	}
	logger.Info("all", "config", cfg.Listen)
	text, err := json.Marshal(cfg.Listen)
	if err != nil {
		t.Fatal(err)
	}
	all := fmt.Sprintf("%v %+v %#v %s %s %s", cfg.Listen, cfg.Listen, cfg.Listen, cfg.Listen.SASL.Users[0].Password, log.String(), text)
	if strings.Contains(all, "hunter2") || !strings.Contains(all, redacted) {
		t.Error(all)
	}
}

// A client's look at the file needs no password of the node's users.
func TestLoadListenWithoutPasswords(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f.yaml")
	text := `listen: {kafka: "127.0.0.1:1", sasl: {mechanisms: PLAIN, users: [{name: a, password: "${NOT_SET_HERE}"}]}}` + "\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if l, err := LoadListen(path); err != nil || l.Kafka != "127.0.0.1:1" || l.SASL.Users[0].Name != "a" {
		t.Errorf("%v, %v", l, err)
	}
	if err := os.WriteFile(path, []byte(strings.Replace(text, "PLAIN", "PLAINE", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := LoadListen(path); !errors.As(err, &Problems{}) {
		t.Errorf("a wrong mechanism: %v", err)
	}
}
