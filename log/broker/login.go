package broker

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/rowtrail/rowtrail/log/broker/sasl"
	"github.com/rowtrail/rowtrail/log/sleep"
)

const (
	// loginTimeout bounds everything up to the log-in's end, the TLS handshake too; FrameTimeout where that is less.
	loginTimeout = 30 * time.Second
	// maxLoginBytes bounds a frame of a client that has not logged in.
	maxLoginBytes = 64 << 10
	// deniedAfter is when a log-in that fails is answered, counted from its message's arrival or, where that is later, from the
	// answer to the one before it of the same host: as with Kafka it slows down guessing, over however many connections, and
	// since it is later than any check ends, the answer's time says nothing. mostDenied bounds it.
	deniedAfter = 100 * time.Millisecond
	mostDenied  = loginTimeout
)

// Principals of those who do not log in.
const (
	anonymous = "ANONYMOUS" // Kafka's name
	inProcess = "in-process"
)

var (
	errHandshake = errors.New("TLS handshake failed")
	errLogin     = errors.New("not logged in")
	errExpired   = errors.New("the session is over; the client must log in again")
)

// SASLOptions say how clients log in.
type SASLOptions struct {
	Mechanisms []string    // of sasl.Mechanisms
	Users      []sasl.User // beside those with a stored credential, and before them
	// MaxReauth is how long a log-in is good for (connections.max.reauth.ms); 0: as long as the connection.
	MaxReauth time.Duration
}

// openDirectory prepares log-ins.
func (b *Broker) openDirectory(ctx context.Context) error {
	if b.opts.SASL == nil {
		return nil
	}
	salts, err := b.node.SaltKey(ctx)
	if err != nil {
		return err
	}
	b.directory, err = sasl.NewDirectory(salts, b.opts.SASL.Mechanisms, b.opts.SASL.Users, b.storedCredential)
	return err
}

// session is who a connection's client is. Before the log-in the connection's reader owns it, then its processor.
type session struct {
	principal string
	loggedIn  bool
	mechanism string         // asked for in a handshake, until its exchange begins
	exchange  *sasl.Exchange // in progress
	used      string         // the mechanism of the log-in
	raw       bool           // the exchange goes on without request headers, after a handshake of version 0
	expires   time.Time      // zero: never
	from      *host          // nil: not told apart
}

// welcome lets a client in: the TLS handshake, then the log-in. Until it returns, the connection costs one goroutine
// and no frame larger than maxLoginBytes.
func (c *conn) welcome() error {
	c.session.principal = anonymous
	if c.internal {
		c.session.principal, c.session.loggedIn = inProcess, true
		return nil
	}
	c.loginBy = time.Now().Add(min(loginTimeout, c.b.opts.FrameTimeout))
	if t, ok := c.nc.(*tls.Conn); ok {
		_ = t.SetDeadline(c.loginBy)
		if err := t.HandshakeContext(c.ctx); err != nil {
			return explainHandshake(err)
		}
		_ = t.SetDeadline(time.Time{})
		if chain := t.ConnectionState().PeerCertificates; len(chain) > 0 {
			c.session.principal = chain[0].Subject.String()
		}
	}
	if c.b.directory == nil {
		c.session.loggedIn, c.loginBy = true, time.Time{}
		return nil
	}
	for !c.session.loggedIn {
		if err := c.login(); err != nil {
			return err
		}
	}
	c.loginBy, c.idleSet = time.Time{}, time.Time{}
	return nil
}

func explainHandshake(err error) error {
	var record tls.RecordHeaderError
	if errors.Is(err, io.EOF) {
		return err // a client that hangs up at once only looks whether the port is open
	}
	if errors.As(err, &record) {
		return fmt.Errorf("%w: the client does not speak TLS; set security.protocol to SSL or SASL_SSL there", errHandshake)
	}
	return fmt.Errorf("%w: %w", errHandshake, err)
}

// login serves one message of a client that is not logged in.
func (c *conn) login() error {
	if c.session.raw {
		return c.rawLogin()
	}
	f, err := c.readFrame()
	if err != nil {
		return err
	}
	return c.dispatch(f)
}

// rawLogin serves one message of an exchange that old clients carry without request headers.
func (c *conn) rawLogin() error {
	var word [4]byte
	c.deadline(c.loginBy)
	if _, err := io.ReadFull(c.br, word[:]); err != nil {
		return err
	}
	size := int32(binary.BigEndian.Uint32(word[:]))
	if size < 0 || size > maxLoginBytes {
		return fmt.Errorf("log-in message of %d bytes: %w", size, errFrame)
	}
	message := make([]byte, size)
	if _, err := io.ReadFull(c.br, message); err != nil {
		return noEOF(err)
	}
	answer, _, err := c.b.step(c.ctx, &c.session, message)
	if err != nil {
		return err
	}
	framed := append(binary.BigEndian.AppendUint32(nil, uint32(len(answer))), answer...)
	return c.send(framed)
}

// mayPass refuses what a client may not send before it has logged in.
func (c *conn) mayPass(h header, size int32) error {
	if c.admitted {
		return nil
	}
	switch h.key {
	case keySASLHandshake, keySASLAuthenticate, keyAPIVersions:
	default:
		return fmt.Errorf("%w: API key %d came before SaslHandshake; set security.protocol to SASL_SSL or SASL_PLAINTEXT at the client", errLogin, h.key)
	}
	if size > maxLoginBytes {
		return fmt.Errorf("frame of %d bytes before the log-in: %w", size, errFrame)
	}
	return nil
}

// begin answers a handshake: the mechanism is taken, or the log-in fails.
func (b *Broker) begin(s *session, mechanism string) error {
	switch {
	case s.loggedIn && mechanism != s.used:
		return fmt.Errorf("%w: a new log-in must use the mechanism of the one before", sasl.ErrDenied)
	case s.exchange != nil || s.mechanism != "":
		return fmt.Errorf("%w: a handshake within a log-in", sasl.ErrDenied)
	}
	if _, err := b.directory.Begin(mechanism); err != nil {
		return err
	}
	s.mechanism = mechanism
	return nil
}

// step takes one message of a log-in. Failures are slow, and all alike; what is known of them is in the log line that
// the closed connection gets.
func (b *Broker) step(ctx context.Context, s *session, message []byte) (answer []byte, lifetime time.Duration, err error) {
	arrived := time.Now()
	if s.exchange == nil {
		if s.exchange, err = b.directory.Begin(s.mechanism); err != nil {
			return nil, 0, fmt.Errorf("%w: no handshake came before", sasl.ErrDenied)
		}
		s.mechanism = ""
	}
	e := s.exchange
	answer, err = e.Step(message)
	if err == nil && e.Done() && s.loggedIn && e.User() != s.principal {
		err = fmt.Errorf("%w: a new log-in must be the same user's", sasl.ErrDenied)
	}
	if err != nil {
		s.exchange = nil
		b.tallies.denied.Add(1)
		wait(ctx, time.Until(s.from.deniedAt(arrived)))
		if user := e.Known(); user != "" {
			return nil, 0, fmt.Errorf("%w with %s as user %q", err, e.Mechanism(), user)
		}
		return nil, 0, fmt.Errorf("%w with %s", err, e.Mechanism())
	}
	if !e.Done() {
		return answer, 0, nil
	}
	*s = session{principal: e.User(), loggedIn: true, used: e.Mechanism(), from: s.from}
	if life := b.opts.SASL.MaxReauth; life > 0 {
		s.expires = arrived.Add(life)
		lifetime = life
	}
	return answer, lifetime, nil
}

func wait(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	defer pause(ctx)()
	sleep.For(ctx, d)
}
