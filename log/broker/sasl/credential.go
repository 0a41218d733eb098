package sasl

import (
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/sha256"
	"crypto/sha512"
	"fmt"
	"hash"
)

// The mechanisms that are served, by their IANA names.
const (
	Plain       = "PLAIN"
	ScramSHA256 = "SCRAM-SHA-256"
	ScramSHA512 = "SCRAM-SHA-512"
)

// Bounds of a stored credential's iterations, as in Kafka.
const (
	MinIterations = 4096
	MaxIterations = 16384
)

const saltBytes = 24

// Mechanisms lists what is served.
func Mechanisms() []string { return []string{Plain, ScramSHA256, ScramSHA512} }

// Credential is what a password is checked against.
type Credential struct {
	Iterations                 int
	Salt, StoredKey, ServerKey []byte
}

// hashOf is the hash of a SCRAM mechanism; nil for others.
func hashOf(mechanism string) func() hash.Hash {
	switch mechanism {
	case ScramSHA256:
		return sha256.New
	case ScramSHA512:
		return sha512.New
	}
	return nil
}

// Derive makes the credential of a password for a SCRAM mechanism. As Kafka's clients do, it takes the password's
// bytes as they are.
func Derive(mechanism, password string, salt []byte, iterations int) (Credential, error) {
	h := hashOf(mechanism)
	if h == nil {
		return Credential{}, fmt.Errorf("derive credential: %q is no SCRAM mechanism", mechanism)
	}
	salted, err := pbkdf2.Key(h, password, salt, iterations, h().Size())
	if err != nil {
		return Credential{}, fmt.Errorf("derive credential: %w", err)
	}
	return FromSalted(mechanism, salted, salt, iterations)
}

// FromSalted makes a credential of a password that a client has salted and hashed already.
func FromSalted(mechanism string, salted, salt []byte, iterations int) (Credential, error) {
	h := hashOf(mechanism)
	switch {
	case h == nil:
		return Credential{}, fmt.Errorf("%q is no SCRAM mechanism", mechanism)
	case iterations < MinIterations || iterations > MaxIterations:
		return Credential{}, fmt.Errorf("%d iterations: choose %d to %d", iterations, MinIterations, MaxIterations)
	case len(salt) == 0:
		return Credential{}, fmt.Errorf("the salt is empty")
	case len(salted) != h().Size():
		return Credential{}, fmt.Errorf("the salted password has %d bytes, %s needs %d", len(salted), mechanism, h().Size())
	}
	digest := h()
	digest.Write(keyed(h, salted, "Client Key"))
	return Credential{
		Iterations: iterations, Salt: salt,
		StoredKey: digest.Sum(nil), ServerKey: keyed(h, salted, "Server Key"),
	}, nil
}

func keyed(h func() hash.Hash, key []byte, text string) []byte {
	mac := hmac.New(h, key)
	mac.Write([]byte(text))
	return mac.Sum(nil)
}

// matches tells whether password is the credential's, in a time that does not depend on where it differs.
func (c Credential) matches(mechanism, password string) bool {
	d, err := Derive(mechanism, password, c.Salt, c.Iterations)
	return err == nil && hmac.Equal(d.StoredKey, c.StoredKey)
}
