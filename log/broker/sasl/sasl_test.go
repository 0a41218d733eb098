package sasl

import (
	"crypto/pbkdf2"
	"encoding/base64"
	"errors"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/sasl/scram"
)

func directory(t *testing.T, stored Lookup, users ...User) *Directory {
	t.Helper()
	if stored == nil {
		stored = func(string, string) (Credential, bool) { return Credential{}, false }
	}
	d, err := NewDirectory([]byte("secret"), Mechanisms(), users, stored)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// login runs a whole exchange as a client and returns the client's view of it.
func login(t *testing.T, d *Directory, mechanism, user, password string) (*Exchange, error) {
	t.Helper()
	e, err := d.Begin(mechanism)
	if err != nil {
		return e, err
	}
	if mechanism == Plain {
		_, err = e.Step([]byte("\x00" + user + "\x00" + password))
		return e, err
	}
	auth := scram.Auth{User: user, Pass: password}
	client := auth.AsSha256Mechanism()
	if mechanism == ScramSHA512 {
		client = auth.AsSha512Mechanism()
	}
	session, message, err := client.Authenticate(t.Context(), "")
	for done := false; err == nil && !done; {
		var answer []byte
		if answer, err = e.Step(message); err == nil {
			done, message, err = session.Challenge(answer) // checks the server's signature, too
		}
	}
	return e, err
}

func TestLogin(t *testing.T) {
	stored := map[string]Credential{}
	for _, m := range []string{ScramSHA256, ScramSHA512} {
		c, err := Derive(m, "geheim", []byte("some salt"), 8192)
		if err != nil {
			t.Fatal(err)
		}
		stored[m+"/both"] = c
		if m == ScramSHA512 {
			stored[m+"/only512"] = c
		}
	}
	d := directory(t, func(m, u string) (Credential, bool) { c, ok := stored[m+"/"+u]; return c, ok },
		User{"alice", "pässword, with=signs"}, User{"x=y,z", "p"})
	for _, c := range []struct {
		user, password string
		ok             string // mechanisms that let the user in
	}{
		{"alice", "pässword, with=signs", "PLAIN SCRAM-SHA-256 SCRAM-SHA-512"},
		{"x=y,z", "p", "PLAIN SCRAM-SHA-256 SCRAM-SHA-512"},
		{"alice", "password", ""},
		{"both", "geheim", "PLAIN SCRAM-SHA-256 SCRAM-SHA-512"},
		{"both", "Geheim", ""},
		{"only512", "geheim", "PLAIN SCRAM-SHA-512"},
		{"nobody", "geheim", ""},
		{"ALICE", "pässword, with=signs", ""},
	} {
		for _, m := range Mechanisms() {
			e, err := login(t, d, m, c.user, c.password)
			want := strings.Contains(" "+c.ok+" ", " "+m+" ")
			if (err == nil) != want || e.Done() != want || err != nil && !errors.Is(err, ErrDenied) {
				t.Errorf("%s as %s/%s: done %t, %v", m, c.user, c.password, e.Done(), err)
			}
			if want && (e.User() != c.user || e.Known() != c.user) {
				t.Errorf("%s: user %q", m, e.User())
			}
			if c.user == "nobody" && e.Known() != "" {
				t.Errorf("%s: %q is known", m, e.Known())
			}
		}
	}
}

// RFC 7677's example: the same password, salt and iterations give the keys that its proof was made with.
func TestDerivedKeysAreTheRFCs(t *testing.T) {
	salt, _ := base64.StdEncoding.DecodeString("W22ZaJ0SNY7soEsUEjb6gQ==")
	c, err := Derive(ScramSHA256, "pencil", salt, 4096)
	if err != nil {
		t.Fatal(err)
	}
	auth := "n=user,r=rOprNGfwEbeRWgbNEkqO,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096," +
		"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
	if got := base64.StdEncoding.EncodeToString(keyed(hashOf(ScramSHA256), c.ServerKey, auth)); got != "6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=" {
		t.Errorf("server signature %s", got)
	}
}

// A name that is nobody's gets as far as a name with a wrong password, with a salt of its own that stays the same.
func TestNamesCannotBeTried(t *testing.T) {
	d := directory(t, nil, User{"alice", "a"})
	first := func(user string) string {
		e, err := d.Begin(ScramSHA256)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := e.Step([]byte("n,,n=" + user + ",r=abc"))
		if err != nil {
			t.Fatalf("%s: %v", user, err)
		}
		_, rest, _ := strings.Cut(string(answer), ",s=")
		return rest
	}
	alice, nobody := first("alice"), first("nobody")
	if len(alice) != len(nobody) || alice == nobody || nobody != first("nobody") || nobody == first("nobody2") {
		t.Errorf("salts and iterations: %s, %s, %s, %s", alice, nobody, first("nobody"), first("nobody2"))
	}
}

func TestMalformedMessagesAreDenied(t *testing.T) {
	d := directory(t, nil, User{"alice", "a"})
	for _, c := range []struct{ mechanism, message string }{
		{Plain, ""},
		{Plain, "alice"},
		{Plain, "\x00alice"},
		{Plain, "\x00alice\x00"},
		{Plain, "\x00\x00a"},
		{Plain, "\x00alice\x00a\x00"},
		{Plain, "bob\x00alice\x00a"},
		{Plain, "\x00alice\x00" + strings.Repeat("a", MaxMessage)},
		{ScramSHA256, "n,,n=alice,r=" + strings.Repeat("x", MaxMessage)},
		{ScramSHA256, ""},
		{ScramSHA256, "\x00alice\x00a"},
		{ScramSHA256, "n,a=bob,n=alice,r=x"},
		{ScramSHA256, "p=tls-unique,,n=alice,r=x"},
		{ScramSHA256, "y,,n=alice"},
		{ScramSHA256, "n,,n=al=ice,r=x"},
		{ScramSHA256, "n,,n=alice=2,r=x"},
		{ScramSHA256, "n,,n=,r=x"},
		{ScramSHA256, "n,,n=alice,r="},
		{ScramSHA256, "n,,m=x,n=alice,r=x"},
		{ScramSHA256, "n,,n=\xff,r=x"},
	} {
		e, err := d.Begin(c.mechanism)
		if err != nil {
			t.Fatal(err)
		}
		if answer, err := e.Step([]byte(c.message)); !errors.Is(err, ErrDenied) || err.Error() != ErrDenied.Error() || len(answer) > 0 {
			t.Errorf("%s %q: %q, %v", c.mechanism, c.message, answer, err)
		}
		if e.Done() {
			t.Errorf("%s %q logs in", c.mechanism, c.message)
		}
	}
	if e, err := d.Begin(Plain); err != nil {
		t.Fatal(err)
	} else if _, err := e.Step([]byte("alice\x00alice\x00a")); err != nil || !e.Done() {
		t.Errorf("an authorization id that is the name: %v", err)
	} else if _, err := e.Step([]byte("\x00alice\x00a")); !errors.Is(err, ErrDenied) {
		t.Errorf("a message after the end: %v", err)
	}
	if _, err := d.Begin("GSSAPI"); !errors.Is(err, ErrMechanism) {
		t.Errorf("GSSAPI: %v", err)
	}
}

// The second message must carry the whole nonce at its end, the header and a proof; librdkafka puts its own nonce before.
func TestProofsOfSCRAM(t *testing.T) {
	const user, pass = "alice", "a"
	d := directory(t, nil, User{user, pass})
	c, _ := d.find(ScramSHA256, user)
	for name, ok := range map[string]bool{
		"as in the RFC": true, "own nonce before": true, "extension": true, "part of the nonce": false, "another nonce": false, "another header": false,
		"short proof": false, "no proof": false, "a third message": false, "server's signature as proof": false,
	} {
		e, err := d.Begin(ScramSHA256)
		if err != nil {
			t.Fatal(err)
		}
		first, err := e.Step([]byte("n,,n=alice,r=abc"))
		if err != nil {
			t.Fatal(err)
		}
		nonce, _, _ := strings.Cut(strings.TrimPrefix(string(first), "r="), ",")
		head := "c=biws,r=" + nonce
		switch name {
		case "own nonce before":
			head = "c=biws,r=abc" + nonce
		case "extension":
			head += ",x=y"
		case "part of the nonce":
			head = "c=biws,r=" + nonce[:len(nonce)-1]
		case "another nonce":
			head = "c=biws,r=abc"
		case "another header":
			head = "c=eSws,r=" + nonce
		}
		h := hashOf(ScramSHA256)
		salted, err := pbkdf2.Key(h, pass, c.Salt, c.Iterations, h().Size())
		if err != nil {
			t.Fatal(err)
		}
		proof := keyed(h, salted, "Client Key")
		for i, b := range keyed(h, c.StoredKey, "n=alice,r=abc,"+string(first)+","+head) {
			proof[i] ^= b
		}
		switch name {
		case "short proof":
			proof = proof[1:]
		case "server's signature as proof":
			proof = keyed(h, c.ServerKey, "n=alice,r=abc,"+string(first)+","+head)
		}
		message := head + ",p=" + base64.StdEncoding.EncodeToString(proof)
		if name == "no proof" {
			message = head
		}
		_, err = e.Step([]byte(message))
		if name == "a third message" {
			_, err = e.Step([]byte(message))
		}
		if (err == nil) != ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestUnacceptableCredentials(t *testing.T) {
	good := make([]byte, 32)
	for name, c := range map[string]struct {
		mechanism    string
		salted, salt []byte
		iterations   int
	}{
		"mechanism":       {Plain, good, good, 4096},
		"few iterations":  {ScramSHA256, good, good, MinIterations - 1},
		"many iterations": {ScramSHA256, good, good, MaxIterations + 1},
		"no salt":         {ScramSHA256, good, nil, 4096},
		"length":          {ScramSHA512, good, good, 4096},
	} {
		if _, err := FromSalted(c.mechanism, c.salted, c.salt, c.iterations); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	for name, users := range map[string][]User{"twice": {{"a", "b"}, {"a", "b"}}, "no name": {{"", "b"}}, "no password": {{"a", ""}}} {
		if _, err := NewDirectory(nil, Mechanisms(), users, nil); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if _, err := NewDirectory(nil, []string{"GSSAPI"}, nil, nil); err == nil {
		t.Error("GSSAPI: accepted")
	}
}
