package daemon

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/rowtrail/rowtrail/configs"
)

// certificateLook is how often, at most, a handshake looks whether the files have changed.
const certificateLook = time.Second

// certificates are a configuration of TLS from files, read again when they change.
type certificates struct {
	paths  []string
	load   func() (*tls.Config, error)
	logger *slog.Logger

	mu     sync.Mutex
	config *tls.Config // never changed in place
	stamp  string      // of the files that were read last, whether they were good or not
	looked time.Time
}

// CheckTLS reads the files of the Kafka listener's TLS.
func CheckTLS(files configs.TLS) error {
	_, err := loadTLS(files)
	return err
}

// CheckClusterTLS reads the files of the TLS between nodes, and whether other nodes would accept the certificate.
func CheckClusterTLS(cfg *configs.Config) error {
	_, err := loadClusterTLS(cfg.Cluster.TLS, cfg.ClusterAddress().Host())
	return err
}

func openFiles(paths []string, load func() (*tls.Config, error), logger *slog.Logger) (*certificates, error) {
	c := &certificates{paths: paths, load: load, logger: logger, stamp: stampOf(paths), looked: time.Now()}
	var err error
	c.config, err = load()
	return c, err
}

// openCertificates returns the configuration of the Kafka listener; nil without TLS.
func openCertificates(files configs.TLS, logger *slog.Logger) (*tls.Config, error) {
	if !files.Enabled() {
		return nil, nil
	}
	c, err := openFiles([]string{files.Cert, files.Key, files.ClientCA}, func() (*tls.Config, error) { return loadTLS(files) }, logger)
	if err != nil {
		return nil, err
	}
	return c.server(), nil
}

// openClusterCertificates returns both sides' configuration of connections between nodes; nil without TLS.
func openClusterCertificates(cfg *configs.Config, logger *slog.Logger) (server *tls.Config, client func() *tls.Config, err error) {
	files, host := cfg.Cluster.TLS, cfg.ClusterAddress().Host()
	if !files.Enabled() {
		return nil, nil, nil
	}
	c, err := openFiles([]string{files.Cert, files.Key, files.CA}, func() (*tls.Config, error) { return loadClusterTLS(files, host) }, logger)
	if err != nil {
		return nil, nil, err
	}
	return c.server(), c.client, nil
}

func (c *certificates) server() *tls.Config {
	return &tls.Config{
		MinVersion:         tls.VersionTLS12,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return c.current(time.Now()), nil },
	}
}

// client is the newest configuration for connecting.
func (c *certificates) client() *tls.Config { return c.current(time.Now()) }

// current is the newest good configuration. Files that cannot be used leave the one before in place, which a log line says.
func (c *certificates) current(now time.Time) *tls.Config {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now.Sub(c.looked) < certificateLook {
		return c.config
	}
	c.looked = now
	stamp := stampOf(c.paths)
	if stamp == c.stamp {
		return c.config
	}
	config, err := c.load()
	c.stamp = stamp
	if err != nil {
		c.logger.Error("the certificates have changed and cannot be used; those before stay in use", "error", err)
		return c.config
	}
	c.logger.Info("certificates are read again", "cert", c.paths[0])
	c.config = config
	return config
}

// stampOf changes when the files do.
func stampOf(paths []string) string {
	var stamp string
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil {
			stamp += "missing;"
			continue
		}
		stamp += fmt.Sprintf("%d %d;", info.ModTime().UnixNano(), info.Size())
	}
	return stamp
}

func loadTLS(files configs.TLS) (*tls.Config, error) {
	config, err := loadPair("listen.tls", files.Cert, files.Key)
	if err != nil {
		return nil, err
	}
	switch files.ClientAuth {
	case "requested":
		config.ClientAuth = tls.VerifyClientCertIfGiven
	case "required":
		config.ClientAuth = tls.RequireAndVerifyClientCert
	default:
		return config, nil
	}
	config.ClientCAs, err = loadAuthorities("listen.tls.client_ca", files.ClientCA)
	return config, err
}

// loadClusterTLS has nodes show each other certificates of the same authorities, whichever of them connects. One that the other nodes would not
// accept is not good for this node either: better said at the start, and before it replaces one that is.
func loadClusterTLS(files configs.ClusterTLS, host string) (*tls.Config, error) {
	config, err := loadPair("cluster.tls", files.Cert, files.Key)
	if err != nil {
		return nil, err
	}
	config.ClientAuth = tls.RequireAndVerifyClientCert
	if config.RootCAs, err = loadAuthorities("cluster.tls.ca", files.CA); err != nil {
		return nil, err
	}
	config.ClientCAs = config.RootCAs
	if err := acceptable(config.Certificates[0], config.RootCAs, host); err != nil {
		return nil, fmt.Errorf("cluster.tls.cert: other nodes would not accept %s: %w", files.Cert, err)
	}
	return config, nil
}

// acceptable verifies a certificate as both sides of a connection with another node do.
func acceptable(shown tls.Certificate, authorities *x509.CertPool, host string) error {
	between := x509.NewCertPool()
	for _, der := range shown.Certificate[1:] {
		c, err := x509.ParseCertificate(der)
		if err != nil {
			return fmt.Errorf("a certificate behind the first is not readable: %w; write it anew", err)
		}
		between.AddCert(c)
	}
	leaf, err := x509.ParseCertificate(shown.Certificate[0])
	if err != nil {
		return fmt.Errorf("it is not readable: %w; write it anew", err)
	}
	for _, usage := range []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth} {
		opts := x509.VerifyOptions{Roots: authorities, Intermediates: between, KeyUsages: []x509.ExtKeyUsage{usage}}
		if usage == x509.ExtKeyUsageServerAuth {
			opts.DNSName = host
		}
		_, err := leaf.Verify(opts)
		var (
			name    x509.HostnameError
			unknown x509.UnknownAuthorityError
			invalid x509.CertificateInvalidError
		)
		switch {
		case err == nil:
		case errors.As(err, &name):
			return fmt.Errorf("%w; give it the host of cluster.advertised", err)
		case errors.As(err, &unknown):
			return fmt.Errorf("%w; name a certificate that an authority of cluster.tls.ca signed", err)
		case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
			return fmt.Errorf("%w; renew it, or correct this machine's clock", err)
		case errors.As(err, &invalid) && invalid.Reason == x509.IncompatibleUsage:
			return fmt.Errorf("%w; give it the extended key usages serverAuth and clientAuth", err)
		default:
			return fmt.Errorf("%w; correct it", err)
		}
	}
	return nil
}

func loadPair(section, certFile, keyFile string) (*tls.Config, error) {
	cert, err := readPEM(section+".cert", certFile)
	if err != nil {
		return nil, err
	}
	key, err := readPEM(section+".key", keyFile)
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, fmt.Errorf("%s: %s and %s are no certificate and its key: %w; name PEM files that belong together", section, certFile, keyFile, err)
	}
	return &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}}, nil
}

func loadAuthorities(key, path string) (*x509.CertPool, error) {
	authorities, err := readPEM(key, path)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(authorities) {
		return nil, fmt.Errorf("%s: %s holds no certificate; name a PEM file of certificates", key, path)
	}
	return pool, nil
}

func readPEM(key, path string) ([]byte, error) {
	data, err := os.ReadFile(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil, fmt.Errorf("%s: %s does not exist; name an existing PEM file", key, path)
	case err != nil:
		return nil, fmt.Errorf("%s: %w; make it readable for this user", key, err)
	}
	return data, nil
}
