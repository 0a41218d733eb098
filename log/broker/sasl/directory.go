package sasl

import (
	"crypto/sha256"
	"fmt"
	"slices"
)

// User is one that a node's own configuration names.
type User struct{ Name, Password string }

// Lookup finds a stored credential.
type Lookup func(mechanism, user string) (Credential, bool)

// Directory knows who may log in: the users of the configuration, then stored credentials.
type Directory struct {
	mechanisms []string
	secret     []byte
	users      map[string]map[string]Credential // by name, then SCRAM mechanism
	stored     Lookup
	checks     chan struct{} // bounds the passwords being hashed
}

// maxPasswordChecks is how many passwords are hashed at a time: the work is the server's, and anybody may ask for it.
const maxPasswordChecks = 2

// NewDirectory derives the credentials of users. Salts follow from secret, so they stay the same over restarts.
func NewDirectory(secret []byte, mechanisms []string, users []User, stored Lookup) (*Directory, error) {
	if len(mechanisms) == 0 {
		return nil, fmt.Errorf("no SASL mechanism is enabled")
	}
	d := &Directory{
		mechanisms: mechanisms, secret: secret, stored: stored,
		users: map[string]map[string]Credential{}, checks: make(chan struct{}, maxPasswordChecks),
	}
	for _, m := range mechanisms {
		if !slices.Contains(Mechanisms(), m) {
			return nil, fmt.Errorf("SASL mechanism %q is not known; choose of %v", m, Mechanisms())
		}
	}
	for _, u := range users {
		if _, twice := d.users[u.Name]; twice || u.Name == "" || u.Password == "" {
			return nil, fmt.Errorf("user %q has no name or no password, or is there twice", u.Name)
		}
		d.users[u.Name] = map[string]Credential{}
		for _, m := range []string{ScramSHA256, ScramSHA512} {
			if m == ScramSHA512 && !slices.Contains(mechanisms, m) {
				continue // PLAIN needs one of the two
			}
			c, err := Derive(m, u.Password, d.salt(m, u.Name), MinIterations)
			if err != nil {
				return nil, err
			}
			d.users[u.Name][m] = c
		}
	}
	return d, nil
}

// Mechanisms lists what is enabled.
func (d *Directory) Mechanisms() []string { return d.mechanisms }

// Configured tells whether the configuration names the user, which then has no other credential.
func (d *Directory) Configured(user string) bool { return d.users[user] != nil }

// find returns a credential for any name; real is false when it is nobody's and fits no password.
func (d *Directory) find(mechanism, user string) (c Credential, real bool) {
	if own := d.users[user]; own != nil {
		c, real = own[mechanism]
	} else {
		c, real = d.stored(mechanism, user)
	}
	if real {
		return c, true
	}
	h := hashOf(mechanism)
	return Credential{
		Iterations: MinIterations, Salt: d.salt(mechanism, user),
		StoredKey: keyed(h, d.secret, "stored "+user), ServerKey: keyed(h, d.secret, "server "+user),
	}, false
}

func (d *Directory) salt(mechanism, user string) []byte {
	return keyed(sha256.New, d.secret, mechanism+" salt "+user)[:saltBytes]
}
