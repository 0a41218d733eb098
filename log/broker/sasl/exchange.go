package sasl

import (
	"bytes"
	"errors"
	"slices"
)

var (
	// ErrDenied stands for every way in which a client can fail to show who it is.
	ErrDenied = errors.New("authentication failed")
	// ErrMechanism says that the mechanism is not enabled.
	ErrMechanism = errors.New("SASL mechanism is not enabled")
)

// MaxMessage bounds a client's message, which an exchange that is not over keeps (invariant 9).
const MaxMessage = 8 << 10 // bytes

// Exchange is one log-in. It is not for concurrent use.
type Exchange struct {
	dir       *Directory
	mechanism string
	scram     *scramServer // nil: PLAIN
	steps     int
	user      string
	real      bool
	done      bool
}

// Begin starts an exchange.
func (d *Directory) Begin(mechanism string) (*Exchange, error) {
	if !slices.Contains(d.mechanisms, mechanism) {
		return nil, ErrMechanism
	}
	e := &Exchange{dir: d, mechanism: mechanism}
	if mechanism != Plain {
		e.scram = &scramServer{mechanism: mechanism, find: func(user string) (c Credential) {
			c, e.real = d.find(mechanism, user)
			return c
		}}
	}
	return e, nil
}

// Mechanism is the exchange's.
func (e *Exchange) Mechanism() string { return e.mechanism }

// Done tells that the client has shown who it is.
func (e *Exchange) Done() bool { return e.done }

// User is who the client says it is; true only once Done.
func (e *Exchange) User() string { return e.user }

// Known is the user's name if there is such a user, else "": a name that is nobody's may be a password in the wrong place.
func (e *Exchange) Known() string {
	if e.real {
		return e.user
	}
	return ""
}

// Step takes a client's message and returns the answer to it. After an error the exchange is over.
func (e *Exchange) Step(message []byte) (answer []byte, err error) {
	e.steps++
	var text string
	var ok bool
	switch {
	case len(message) > MaxMessage:
	case e.scram == nil && e.steps == 1:
		ok = e.plain(message)
		e.done = ok
	case e.scram != nil && e.steps == 1:
		e.user, text, ok = e.scram.first(string(message))
	case e.scram != nil && e.steps == 2 && e.user != "":
		text, ok = e.scram.last(string(message))
		ok = ok && e.real
		e.done = ok
	}
	if !ok {
		return nil, ErrDenied
	}
	return []byte(text), nil
}

// plain is the only step of PLAIN: authorization id, NUL, name, NUL, password.
func (e *Exchange) plain(message []byte) bool {
	parts := bytes.Split(message, []byte{0})
	if len(parts) != 3 || len(parts[1]) == 0 || len(parts[2]) == 0 ||
		len(parts[0]) > 0 && !bytes.Equal(parts[0], parts[1]) {
		return false
	}
	e.user = string(parts[1])
	e.dir.checks <- struct{}{}
	defer func() { <-e.dir.checks }()
	mechanism := ScramSHA256
	c, real := e.dir.find(mechanism, e.user)
	if !real {
		if other, found := e.dir.find(ScramSHA512, e.user); found {
			mechanism, c, real = ScramSHA512, other, true
		}
	}
	e.real = real
	return c.matches(mechanism, string(parts[2])) && real
}
