package cli

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/rowtrail/rowtrail/cmd/rowtrail/daemon"
	"github.com/rowtrail/rowtrail/configs"
)

const (
	userEnv     = "ROWTRAIL_USER"
	passwordEnv = "ROWTRAIL_PASSWORD" //nolint:gosec // the name of a variable
)

// login is how a command connects to the Kafka listener, as its flags say.
type login struct {
	tls                bool
	ca                 string
	cert, key          string // of the client
	user, passwordFile string
}

func (a *app) loginFlags(c *cobra.Command) {
	c.Flags().BoolVar(&a.login.tls, "tls", false, "connect over TLS (implied by --tls-ca and --tls-cert, and by a -c FILE with listen.tls)")
	c.Flags().StringVar(&a.login.ca, "tls-ca", "", "PEM file of the authority of the listener's certificate, or of the certificate itself (else the system's authorities)")
	c.Flags().StringVar(&a.login.cert, "tls-cert", "", "PEM file of a certificate to show, for a listener that asks for one")
	c.Flags().StringVar(&a.login.key, "tls-key", "", "PEM file of that certificate's private key")
	c.Flags().StringVar(&a.login.user, "user", "", "user to log in as (else "+userEnv+", else the first of listen.sasl.users of -c FILE)")
	c.Flags().StringVar(&a.login.passwordFile, "password-file", "", "file that holds the user's password (else "+passwordEnv+", else -c FILE)")
}

// loginOptions are the client's options for TLS and for the log-in.
func (a *app) loginOptions(address string) ([]kgo.Opt, error) {
	var listen configs.Listen
	if a.config != "" {
		var err error
		if listen, err = configs.LoadListen(a.config); err != nil {
			return nil, err
		}
	}
	var opts []kgo.Opt
	config, err := a.tlsConfig(listen.TLS)
	if err != nil {
		return nil, err
	}
	if config != nil {
		opts = append(opts, kgo.DialTLSConfig(config))
	}
	user, password, err := a.credentials(listen.SASL)
	if err != nil || user == "" {
		return opts, err
	}
	enabled := listen.SASL.Mechanisms
	if len(enabled) == 0 {
		enabled = []string{"SCRAM-SHA-512", "SCRAM-SHA-256"}
		if host, _, _ := net.SplitHostPort(address); config != nil || configs.Address(net.JoinHostPort(host, "0")).Loopback() {
			enabled = append(enabled, "PLAIN") // whose password anybody between could read otherwise
		}
	}
	return append(opts, kgo.SASL(mechanisms(enabled, user, password)...)), nil
}

// kafkaOptions are the client's for the cluster that the file names; flags and variables win over the file.
func (a *app) kafkaOptions(k configs.Kafka) ([]kgo.Opt, error) {
	if a.login.tls || a.login.ca != "" || a.login.cert != "" {
		k.TLS.Enabled = true
		if a.login.ca != "" {
			k.TLS.CA = a.login.ca
		}
		if a.login.cert != "" {
			k.TLS.Cert, k.TLS.Key = a.login.cert, a.login.key
		}
	}
	var file configs.SASL
	if k.SASL.On() {
		file.Users = []configs.SASLUser{{Name: k.SASL.Name, Password: k.SASL.Password}}
		if k.SASL.Password.Reveal() == "" {
			file.Users[0].Name = "" // its password is not known here: whoever asks says who they are
		}
	}
	user, password, err := a.credentials(file)
	if err != nil {
		return nil, err
	}
	enabled := []string{k.SASL.Mechanism}
	if !k.SASL.On() {
		enabled = []string{"SCRAM-SHA-512"}
	}
	k.SASL = configs.KafkaSASL{}
	opts, err := daemon.KafkaClient(k)
	if err != nil || user == "" {
		return opts, err
	}
	return append(opts, kgo.SASL(mechanisms(enabled, user, password)...)), nil
}

// mechanisms lists the client's, the strongest first.
func mechanisms(enabled []string, user, password string) (out []sasl.Mechanism) {
	auth := scram.Auth{User: user, Pass: password}
	for _, m := range []struct {
		name string
		by   sasl.Mechanism
	}{
		{"SCRAM-SHA-512", auth.AsSha512Mechanism()}, {"SCRAM-SHA-256", auth.AsSha256Mechanism()},
		{"PLAIN", plain.Auth{User: user, Pass: password}.AsMechanism()},
	} {
		if slices.Contains(enabled, m.name) {
			out = append(out, m.by)
		}
	}
	return out
}

func (a *app) tlsConfig(files configs.TLS) (*tls.Config, error) {
	if !a.login.tls && a.login.ca == "" && a.login.cert == "" && a.login.key == "" && !files.Enabled() {
		return nil, nil
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if (a.login.cert == "") != (a.login.key == "") {
		return nil, usage(errors.New("--tls-cert and --tls-key go together; name the PEM files of a certificate and its private key"))
	}
	if a.login.cert != "" {
		pair, err := tls.LoadX509KeyPair(a.login.cert, a.login.key)
		if err != nil {
			return nil, usage(fmt.Errorf("--tls-cert and --tls-key: %w; name the PEM files of a certificate and its private key", err))
		}
		config.Certificates = []tls.Certificate{pair}
	}
	trusted := a.login.ca
	if trusted == "" {
		trusted = files.Cert // whoever can read the node's file trusts what the node shows
	}
	if trusted == "" {
		return config, nil
	}
	text, err := os.ReadFile(trusted)
	if err != nil {
		if a.login.ca == "" {
			return config, nil // the node's files need not be readable here
		}
		return nil, usage(fmt.Errorf("--tls-ca: %w", err))
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool()
	}
	if !pool.AppendCertsFromPEM(text) {
		return nil, usage(fmt.Errorf("%s holds no certificate in PEM form; name one with --tls-ca", trusted))
	}
	config.RootCAs = pool
	return config, nil
}

// credentials are whom to log in as; no user: not at all.
func (a *app) credentials(file configs.SASL) (user, password string, err error) {
	if user = a.login.user; user == "" {
		user = os.Getenv(userEnv)
	}
	if user == "" && len(file.Users) > 0 {
		user = file.Users[0].Name
	}
	switch {
	case a.login.passwordFile != "":
		text, err := os.ReadFile(a.login.passwordFile)
		if err != nil {
			return "", "", usage(fmt.Errorf("--password-file: %w", err))
		}
		password = strings.TrimRight(string(text), "\r\n")
	case os.Getenv(passwordEnv) != "":
		password = os.Getenv(passwordEnv)
	default:
		for _, u := range file.Users {
			if u.Name == user {
				password = u.Password.Reveal()
			}
		}
	}
	switch {
	case user == "" && a.login.passwordFile != "":
		return "", "", usage(errors.New("--password-file needs --user"))
	case user != "" && password == "":
		return "", "", usage(fmt.Errorf("no password for user %s; give it with --password-file or %s", user, passwordEnv))
	}
	return user, password, nil
}

// explainPing says why the first request to address failed.
func explainPing(address string, err error) error {
	var verify *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	var hungUp *kgo.ErrFirstReadEOF
	var alert *net.OpError
	switch {
	case errors.Is(err, kerr.SaslAuthenticationFailed):
		return fmt.Errorf("%s does not let this user in: the user or the password is wrong; give them with --user and --password-file", address)
	case errors.Is(err, kerr.IllegalSaslState):
		return fmt.Errorf("%s lets nobody log in; leave --user and %s out", address, userEnv)
	case errors.Is(err, kerr.UnsupportedSaslMechanism):
		return fmt.Errorf("%s allows none of the mechanisms that are safe here; connect over TLS with --tls-ca FILE", address)
	case errors.As(err, &verify):
		return fmt.Errorf("the certificate of %s is not trusted: %w; name its authority with --tls-ca FILE", address, verify)
	case errors.As(err, &record):
		return fmt.Errorf("%s does not speak TLS; leave --tls and --tls-ca out", address)
	case errors.As(err, &alert) && alert.Op == "remote error": // crypto/tls's mark of what the other side complains about
		return fmt.Errorf("%s refuses the connection: %w; a certificate of its listen.tls.client_ca is given with --tls-cert and --tls-key", address, alert.Err)
	case errors.As(err, &hungUp):
		return unreachable("%s hangs up; it may want TLS (--tls-ca FILE) or a log-in (--user NAME), or -c FILE, which says both, or may not speak TLS (then leave --tls and --tls-ca out)", address)
	}
	return unreachable("no rowtrail answers at %s; start it with `rowtrail serve -c FILE`, or name its Kafka listener with --server", address)
}
