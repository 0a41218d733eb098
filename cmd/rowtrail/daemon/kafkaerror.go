package daemon

import (
	"crypto/tls"
	"errors"
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// ExplainKafka says why the cluster that holds the log does not let this node in, and which setting to correct. ok: it is known.
func ExplainKafka(err error) (problem, remedy string, ok bool) {
	var hungUp *kgo.ErrFirstReadEOF
	var header tls.RecordHeaderError
	text := err.Error()
	switch {
	case errors.Is(err, kerr.SaslAuthenticationFailed):
		return "the cluster does not let this user in", "correct log.kafka.sasl.name and password", true
	case errors.Is(err, kerr.UnsupportedSaslMechanism):
		return "the cluster does not allow the mechanism", "set log.kafka.sasl.mechanism to one that it allows", true
	case errors.Is(err, kerr.IllegalSaslState):
		return "the cluster lets nobody log in there", "remove log.kafka.sasl, or name the listener that asks for a log-in", true
	case errors.As(err, &hungUp):
		return "the cluster hangs up: it may want TLS or a log-in, or may not speak TLS", "set log.kafka.tls and log.kafka.sasl as that listener wants them", true
	case strings.Contains(text, "certificate"):
		return "the certificate of the cluster is not accepted: " + text, "name its authority in log.kafka.tls.ca, and its name in log.kafka.tls.server_name", true
	case errors.As(err, &header), strings.Contains(text, "first record does not look like a TLS handshake"):
		return "the cluster does not speak TLS there", "remove log.kafka.tls, or name the listener that does", true
	}
	return text, "", false
}

// explained adds the setting to correct to an error of the log's client.
func explained(err error) error {
	if _, remedy, ok := ExplainKafka(err); ok {
		return fmt.Errorf("%w; %s", err, remedy)
	}
	return err
}
