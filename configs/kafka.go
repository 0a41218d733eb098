package configs

import (
	"fmt"
	"slices"
	"strings"
)

// Enabled tells whether another cluster holds the log.
func (k Kafka) Enabled() bool { return len(k.Brokers) > 0 }

// On tells whether the cluster is connected to over TLS.
func (t KafkaTLS) On() bool { return t.Enabled || t.CA != "" || t.Cert != "" || t.ServerName != "" }

// On tells whether the node logs in.
func (s KafkaSASL) On() bool { return s.Mechanism != "none" && s.Mechanism != "" }

// ofBuiltIn are the keys and sections of a node that holds the log itself. The rest of log is so too.
func ofBuiltIn() []string {
	return []string{
		"node.data_dir", "node.cluster_id", "node.min_free_bytes", "cluster",
		"listen.kafka", "listen.advertised", "listen.max_connections", "listen.max_connections_per_ip", "listen.tls", "listen.sasl",
	}
}

// kafka checks the cluster that holds the log, and that nothing is said of a log that this node would hold.
func (v *validator) kafka() {
	k := v.cfg.Log.Kafka
	v.kafkaLogin(k)
	if v.brokenBelow("log.kafka.brokers") {
		return
	}
	if !k.Enabled() {
		if k.TLS.On() || k.SASL.On() || k.Replication > 0 {
			v.add("log.kafka.brokers", "is missing, so the log is the built-in one and the rest of log.kafka has no effect", "name the cluster's brokers as [host:port], or remove log.kafka")
		}
		return
	}
	for _, b := range k.Brokers {
		var a Address
		if err := a.parse(b); err != nil || a.Port() == 0 || a.Wildcard() {
			v.add("log.kafka.brokers", fmt.Sprintf("%q is no address of a broker", b), "write host:port, as kafka-1.example.com:9092")
			break
		}
	}
	if k.Replication == 0 {
		v.add("log.kafka.replication.factor", "0 is out of range", "write at least 1, or -1 for the cluster's default")
	}
	v.onlyBuiltIn()
}

// onlyBuiltIn reports what the file says of the built-in log although there is none.
func (v *validator) onlyBuiltIn() {
	foreign := func(path string) bool {
		if slices.Contains(ofBuiltIn(), path) {
			return true
		}
		key, inLog := strings.CutPrefix(path, "log.")
		return inLog && key != "kafka" && !strings.HasPrefix(key, "kafka.")
	}
	var given []string
	for path, line := range v.cfg.lines {
		if line > 0 && foreign(path) {
			given = append(given, path)
		}
	}
	slices.Sort(given)
	for _, path := range given {
		v.add(path, "cannot be combined with log.kafka.brokers: the log is in that cluster, and this node holds and serves none", "remove it, or remove log.kafka")
		v.broken[path] = true
	}
}

func (v *validator) kafkaLogin(k Kafka) {
	switch {
	case k.TLS.Cert != "" && k.TLS.Key == "":
		v.add("log.kafka.tls.key", "is missing beside cert", "name the PEM file of the certificate's private key")
	case k.TLS.Cert == "" && k.TLS.Key != "":
		v.add("log.kafka.tls.cert", "is missing beside key", "name the PEM file of the certificate")
	}
	s := k.SASL
	switch {
	case s.On() && s.Name == "":
		v.add("log.kafka.sasl.name", "is missing beside mechanism", "write the name to log in with")
	case s.On() && s.Password.Reveal() == "":
		v.add("log.kafka.sasl.password", "is missing beside mechanism", "give it as ${NAME} or file:/path")
	case !s.On() && s.Name != "" && !v.brokenBelow("log.kafka.sasl.mechanism"):
		v.add("log.kafka.sasl.mechanism", "is none, so nobody logs in, but there is a name", "name the mechanism, as SCRAM-SHA-512, or remove name")
	}
}
