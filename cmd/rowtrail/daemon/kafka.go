package daemon

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/rowtrail/rowtrail/configs"
)

const dialTimeout = 10 * time.Second

// KafkaClient is how clients reach the cluster that holds the log. The files of its TLS are read once here, so that what is wrong
// with them is told at the start, and again with each connection, so that they can be renewed.
func KafkaClient(k configs.Kafka) ([]kgo.Opt, error) {
	opts := []kgo.Opt{kgo.SeedBrokers(k.Brokers...)}
	if k.TLS.On() {
		if _, err := kafkaTLS(k.TLS); err != nil {
			return nil, err
		}
		opts = append(opts, kgo.Dialer(func(ctx context.Context, network, address string) (net.Conn, error) {
			config, err := kafkaTLS(k.TLS)
			if err != nil {
				return nil, err
			}
			d := tls.Dialer{NetDialer: &net.Dialer{Timeout: dialTimeout}, Config: config}
			return d.DialContext(ctx, network, address) // without server_name the certificate must have the address's host
		}))
	}
	if s := k.SASL; s.On() && s.Password.Reveal() != "" { // a command may have a log-in of its own
		opts = append(opts, kgo.SASL(kafkaMechanism(s)))
	}
	return opts, nil
}

func kafkaMechanism(s configs.KafkaSASL) sasl.Mechanism {
	auth := scram.Auth{User: s.Name, Pass: s.Password.Reveal()}
	switch s.Mechanism {
	case "SCRAM-SHA-512":
		return auth.AsSha512Mechanism()
	case "SCRAM-SHA-256":
		return auth.AsSha256Mechanism()
	}
	return plain.Auth{User: s.Name, Pass: s.Password.Reveal()}.AsMechanism()
}

func kafkaTLS(files configs.KafkaTLS) (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: files.ServerName}
	if files.CA != "" {
		authorities, err := readPEM("log.kafka.tls.ca", files.CA)
		if err != nil {
			return nil, err
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(authorities) {
			return nil, fmt.Errorf("log.kafka.tls.ca: %s holds no certificate; name a PEM file of certificates", files.CA)
		}
	}
	if files.Cert == "" {
		return config, nil
	}
	pair, err := tls.LoadX509KeyPair(files.Cert, files.Key)
	switch {
	case errors.Is(err, os.ErrNotExist), errors.Is(err, os.ErrPermission):
		return nil, fmt.Errorf("log.kafka.tls: %w; name existing PEM files that this user can read", err)
	case err != nil:
		return nil, fmt.Errorf("log.kafka.tls: %s and %s are no certificate and its key: %w; name PEM files that belong together", files.Cert, files.Key, err)
	}
	config.Certificates = []tls.Certificate{pair}
	return config, nil
}
