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

// certificates are the listener's, read again when their files change.
type certificates struct {
	files  configs.TLS
	logger *slog.Logger

	mu     sync.Mutex
	config *tls.Config // never changed in place
	stamp  string      // of the files that were read last, whether they were good or not
	looked time.Time
}

// CheckTLS reads the files of a listener's TLS.
func CheckTLS(files configs.TLS) error {
	_, err := loadTLS(files)
	return err
}

// openCertificates returns the configuration of the listener; nil without TLS.
func openCertificates(files configs.TLS, logger *slog.Logger) (*tls.Config, error) {
	if !files.Enabled() {
		return nil, nil
	}
	c := &certificates{files: files, logger: logger, stamp: stampOf(files), looked: time.Now()}
	var err error
	if c.config, err = loadTLS(files); err != nil {
		return nil, err
	}
	return &tls.Config{
		MinVersion:         tls.VersionTLS12,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return c.current(time.Now()), nil },
	}, nil
}

// current is the newest good configuration. Files that cannot be used leave the one before in place, which a log line says.
func (c *certificates) current(now time.Time) *tls.Config {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now.Sub(c.looked) < certificateLook {
		return c.config
	}
	c.looked = now
	stamp := stampOf(c.files)
	if stamp == c.stamp {
		return c.config
	}
	config, err := loadTLS(c.files)
	c.stamp = stamp
	if err != nil {
		c.logger.Error("the certificates have changed and cannot be used; those before stay in use", "error", err)
		return c.config
	}
	c.logger.Info("certificates are read again", "cert", c.files.Cert)
	c.config = config
	return config
}

// stampOf changes when the files do.
func stampOf(files configs.TLS) string {
	var stamp string
	for _, path := range []string{files.Cert, files.Key, files.ClientCA} {
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
	cert, err := readPEM("listen.tls.cert", files.Cert)
	if err != nil {
		return nil, err
	}
	key, err := readPEM("listen.tls.key", files.Key)
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, fmt.Errorf("listen.tls: %s and %s are no certificate and its key: %w; name PEM files that belong together", files.Cert, files.Key, err)
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}}
	switch files.ClientAuth {
	case "requested":
		config.ClientAuth = tls.VerifyClientCertIfGiven
	case "required":
		config.ClientAuth = tls.RequireAndVerifyClientCert
	default:
		return config, nil
	}
	authorities, err := readPEM("listen.tls.client_ca", files.ClientCA)
	if err != nil {
		return nil, err
	}
	config.ClientCAs = x509.NewCertPool()
	if !config.ClientCAs.AppendCertsFromPEM(authorities) {
		return nil, fmt.Errorf("listen.tls.client_ca: %s holds no certificate; name a PEM file of certificates", files.ClientCA)
	}
	return config, nil
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
