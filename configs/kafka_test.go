package configs

import (
	"errors"
	"strings"
	"testing"
)

func TestKafkaProblems(t *testing.T) {
	const elsewhere = "cannot be combined with log.kafka.brokers: the log is in that cluster, and this node holds and serves none; remove it, or remove log.kafka"
	const brokers = "log: {kafka: {brokers: [\"k:9092\"]}}\n"
	cases := []struct {
		name, yaml string
		want       []string
	}{
		{"what a node that holds the log says", "node:\n  data_dir: x\nlisten:\n  kafka: 127.0.0.1:9092\n  tls: {cert: a, key: b}\nlog:\n  num.partitions: 3\n  kafka: {brokers: k:9092}\n", []string{
			"f:2: node.data_dir: " + elsewhere, "f:4: listen.kafka: " + elsewhere, "f:5: listen.tls: " + elsewhere, "f:7: log.num.partitions: " + elsewhere,
		}},
		{"an address", "log: {kafka: {brokers: [\"k:9092\", kafka]}}\n", []string{`f:1: log.kafka.brokers: "kafka" is no address of a broker; write host:port, as kafka-1.example.com:9092`}},
		{"no brokers", "log:\n  kafka:\n    tls: {enabled: true}\n", []string{"f:2: log.kafka.brokers: is missing, so the log is the built-in one and the rest of log.kafka has no effect; name the cluster's brokers as [host:port], or remove log.kafka"}},
		{"replicas", "log: {kafka: {brokers: k:9092, replication.factor: 0}}\n", []string{"f:1: log.kafka.replication.factor: 0 is out of range; write at least 1, or -1 for the cluster's default"}},
		{"half a certificate", "log: {kafka: {brokers: k:9092, tls: {cert: a}}}\n", []string{"f:1: log.kafka.tls.key: is missing beside cert; name the PEM file of the certificate's private key"}},
		{"a mechanism alone", "log: {kafka: {brokers: k:9092, sasl: {mechanism: PLAIN}}}\n", []string{"f:1: log.kafka.sasl.name: is missing beside mechanism; write the name to log in with"}},
		{"no password", "log: {kafka: {brokers: k:9092, sasl: {mechanism: PLAIN, name: n}}}\n", []string{"f:1: log.kafka.sasl.password: is missing beside mechanism; give it as ${NAME} or file:/path"}},
		{"a name alone", "log: {kafka: {brokers: k:9092, sasl: {name: n}}}\n", []string{"f:1: log.kafka.sasl.mechanism: is none, so nobody logs in, but there is a name; name the mechanism, as SCRAM-SHA-512, or remove name"}},
		{"a mechanism that is none", "log: {kafka: {brokers: k:9092, sasl: {mechanism: GSSAPI, name: n, password: p}}}\n", []string{`f:1: log.kafka.sasl.mechanism: "GSSAPI" is not known; write one of none, PLAIN, SCRAM-SHA-256, SCRAM-SHA-512`}},
		{"http stays", brokers + "listen: {http: 127.0.0.1:1, pprof: true}\nnode: {id: 2, rack: a, memory_limit: 1GiB}\n", nil},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			cfg, err := Parse("f", []byte(c.yaml), testEnv(nil, nil))
			if len(c.want) == 0 {
				if err != nil || !cfg.Log.Kafka.Enabled() {
					t.Fatal(err)
				}
				return
			}
			var problems Problems
			if !errors.As(err, &problems) {
				t.Fatalf("want problems, got %v", err)
			}
			if got := err.Error(); got != strings.Join(c.want, "\n") {
				t.Errorf("got:\n%s\nwant:\n%s", got, strings.Join(c.want, "\n"))
			}
		})
	}
}
