package configs

import (
	"fmt"
	"net"
	"slices"
)

// Enabled tells whether the listener speaks TLS.
func (t TLS) Enabled() bool { return t.Cert != "" }

// Enabled tells whether clients log in.
func (s SASL) Enabled() bool { return len(s.Mechanisms) > 0 }

// Loopback tells whether only this machine reaches the address.
func (a Address) Loopback() bool {
	ip := net.ParseIP(a.Host())
	return a.Host() == "localhost" || ip != nil && ip.IsLoopback()
}

func (v *validator) tls() {
	t := v.cfg.Listen.TLS
	if v.broken["listen.tls.client_auth"] {
		t.ClientAuth = "none"
		t.ClientCA = ""
	}
	switch {
	case t.Cert != "" && t.Key == "":
		v.add("listen.tls.key", "is missing beside cert", "name the PEM file of the certificate's private key")
	case t.Cert == "" && t.Key != "":
		v.add("listen.tls.cert", "is missing beside key", "name the PEM file of the certificate")
	case t.Cert == "" && (t.ClientCA != "" || t.ClientAuth != "none"):
		v.add("listen.tls.cert", "is missing, but clients' certificates are asked for", "name the PEM file of the listener's own certificate")
	}
	switch {
	case t.ClientAuth != "none" && t.ClientCA == "":
		v.add("listen.tls.client_ca", "is missing, but client_auth is "+t.ClientAuth, "name the PEM file of the authorities that sign clients' certificates")
	case t.ClientAuth == "none" && t.ClientCA != "":
		v.add("listen.tls.client_ca", "has no effect, as client_auth is none", "set client_auth to requested or required, or remove client_ca")
	}
}

func (v *validator) sasl() {
	s, l := v.cfg.Listen.SASL, v.cfg.Listen
	if len(s.Users) > 0 && !s.Enabled() && !v.brokenBelow("listen.sasl.mechanisms") {
		v.add("listen.sasl.mechanisms", "is empty, so nobody logs in, but there are users", "name mechanisms, as [SCRAM-SHA-256, SCRAM-SHA-512], or remove users")
	}
	if slices.Contains(s.Mechanisms, "PLAIN") && !l.TLS.Enabled() && !l.Kafka.Loopback() && !s.AllowPlaintext {
		v.add("listen.sasl.mechanisms", fmt.Sprintf("PLAIN would send passwords readably over the network to %s", l.Kafka),
			"set listen.tls, use SCRAM alone, or set allow_plaintext: true where the network is trusted")
	}
	seen := map[string]bool{}
	for i, u := range s.Users {
		path := fmt.Sprintf("listen.sasl.users[%d].name", i)
		switch {
		case v.brokenBelow(path):
		case u.Name == "":
			v.add(path, "is empty", "write the name that the client logs in with")
		case seen[u.Name]:
			v.add(path, fmt.Sprintf("%q is there twice", u.Name), "keep one of them")
		}
		seen[u.Name] = true
	}
}
