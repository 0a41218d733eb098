package broker

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	kgosasl "github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/rowtrail/rowtrail/itest/certs"
	"github.com/rowtrail/rowtrail/log/broker/sasl"
)

const (
	password = "Tr0ub4dor-and-3"
	wrong    = "correct-horse-7"
)

// withLogin lets alice in by every mechanism.
func withLogin(o *Options) {
	o.SASL = &SASLOptions{Mechanisms: sasl.Mechanisms(), Users: []sasl.User{{Name: "alice", Password: password}}}
}

// by is how kgo logs in.
func by(mechanism, user, password string) kgosasl.Mechanism {
	switch mechanism {
	case sasl.ScramSHA256:
		return scram.Auth{User: user, Pass: password}.AsSha256Mechanism()
	case sasl.ScramSHA512:
		return scram.Auth{User: user, Pass: password}.AsSha512Mechanism()
	}
	return plain.Auth{User: user, Pass: password}.AsMechanism()
}

// use produces and consumes one record.
func (s *served) use(t *testing.T, topic string, opts ...kgo.Opt) error {
	t.Helper()
	ctx := within(t, 20*time.Second)
	cl := s.client(t, false, append([]kgo.Opt{kgo.DefaultProduceTopic(topic), kgo.ConsumeTopics(topic), kgo.RequestRetries(1), kgo.RecordRetries(1),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.AllowAutoTopicCreation()}, opts...)...)
	defer cl.Close()
	if err := cl.Ping(ctx); err != nil {
		return err
	}
	if err := cl.ProduceSync(ctx, &kgo.Record{Value: []byte("v")}).FirstErr(); err != nil {
		return err
	}
	fs := cl.PollFetches(ctx)
	if fs.Err() == nil && fs.NumRecords() == 0 {
		t.Fatal("no record came back")
	}
	return fs.Err()
}

// noPasswords fails when a log line holds one.
func noPasswords(t *testing.T, s *served) {
	t.Helper()
	for _, p := range []string{password, wrong} {
		if n := s.logs.count(p); n > 0 {
			t.Errorf("%d log lines hold a password:\n%s", n, s.logs)
		}
	}
}

func TestLogin(t *testing.T) {
	authority := certs.New(t)
	for _, secure := range []bool{false, true} {
		s := serve(t, withLogin, func(o *Options) {
			if secure {
				o.TLS = authority.Server(t, "server")
			}
		})
		var transport []kgo.Opt
		if secure {
			transport = append(transport, kgo.DialTLSConfig(authority.Client(t, "")))
		}
		for _, m := range sasl.Mechanisms() {
			topic := strings.ToLower(m)
			with := func(o ...kgo.Opt) []kgo.Opt { return append(slices.Clone(transport), o...) }
			if err := s.use(t, topic, with(kgo.SASL(by(m, "alice", password)))...); err != nil {
				t.Errorf("TLS %t, %s: %v", secure, m, err)
			}
			for _, who := range [][2]string{{"alice", wrong}, {"mallory", wrong}, {wrong, password}} {
				before := s.Stats()
				if err := s.use(t, topic, with(kgo.SASL(by(m, who[0], who[1])))...); !errors.Is(err, kerr.SaslAuthenticationFailed) {
					t.Errorf("TLS %t, %s as %v: %v", secure, m, who, err)
				}
				waitFor(t, "the count of failures", func() bool {
					now := s.Stats()
					return now.AuthenticationFailures > before.AuthenticationFailures && now.Closed["authentication"] > before.Closed["authentication"]
				})
			}
		}
		if err := s.use(t, "plain", transport...); err == nil {
			t.Errorf("TLS %t: a client got in without logging in", secure)
		}
		inside := s.client(t, true)
		if err := inside.Ping(t.Context()); err != nil {
			t.Errorf("in-process client: %v", err)
		}
		if s.logs.count("as user") == 0 || s.logs.count("mallory") > 0 {
			t.Errorf("the log should name users, and no names that are nobody's:\n%s", s.logs)
		}
		noPasswords(t, s)
	}
}

// The mechanism that the server does not have is answered with those it has.
func TestMechanismsThatAreNotEnabled(t *testing.T) {
	s := serve(t, withLogin, func(o *Options) { o.SASL.Mechanisms = []string{sasl.ScramSHA512} })
	if err := s.use(t, "t", kgo.SASL(by(sasl.ScramSHA512, "alice", password))); err != nil {
		t.Error(err)
	}
	c := dial(t, s.addr)
	req := kmsg.NewPtrSASLHandshakeRequest()
	req.Version, req.Mechanism = 1, "PLAIN"
	c.Write(request1(1, req))
	resp := kmsg.NewPtrSASLHandshakeResponse()
	resp.Version = 1
	if err := resp.ReadFrom(readFramed(t, c)[4:]); err != nil || resp.ErrorCode != kerr.UnsupportedSaslMechanism.Code ||
		!slices.Equal(resp.SupportedMechanisms, []string{sasl.ScramSHA512}) {
		t.Errorf("%+v, %v", resp, err)
	}
	if err := s.use(t, "t", kgo.SASL(by(sasl.ScramSHA256, "alice", password), by(sasl.ScramSHA512, "alice", password))); err != nil {
		t.Errorf("a client that falls back: %v", err)
	}
}

// Before the log-in only ApiVersions and the log-in's own requests are served, and small ones; whoever stops half-way is
// hung up on.
func TestNothingIsServedBeforeTheLogin(t *testing.T) {
	s := serve(t, withLogin, func(o *Options) { o.FrameTimeout = 300 * time.Millisecond })
	handshake := func(version int16, mechanism string) kmsg.Request {
		req := kmsg.NewPtrSASLHandshakeRequest()
		req.Version, req.Mechanism = version, mechanism
		return req
	}
	authenticate := func(message string) kmsg.Request {
		req := kmsg.NewPtrSASLAuthenticateRequest()
		req.Version, req.SASLAuthBytes = 2, []byte(message)
		return req
	}
	for name, c := range map[string]struct {
		send   [][]byte
		reason string
	}{
		"metadata":                   {[][]byte{request1(1, kmsg.NewPtrMetadataRequest())}, "authentication"},
		"produce":                    {[][]byte{request1(1, produceRequest("t", -1, batchOf("v")))}, "authentication"},
		"metadata after a handshake": {[][]byte{request1(1, handshake(1, "PLAIN")), request1(2, kmsg.NewPtrMetadataRequest())}, "authentication"},
		"metadata behind a wrong password": {[][]byte{request1(1, handshake(1, "PLAIN")), request1(2, authenticate("\x00alice\x00"+wrong)),
			request1(3, kmsg.NewPtrMetadataRequest())}, "authentication"},
		"no handshake":         {[][]byte{request1(1, authenticate("\x00alice\x00"+password))}, "authentication"},
		"two handshakes":       {[][]byte{request1(1, handshake(1, "PLAIN")), request1(2, handshake(1, "PLAIN"))}, "authentication"},
		"large frame":          {[][]byte{append([]byte{0, 2, 0, 0}, rawHeader(36, 1, 1)...)}, "malformed"},
		"large raw message":    {[][]byte{request1(1, handshake(0, "PLAIN")), {0, 2, 0, 0, 'x'}}, "malformed"},
		"header in raw":        {[][]byte{request1(1, handshake(0, "PLAIN")), request1(2, authenticate("\x00alice\x00"+password))}, "authentication"},
		"nothing":              {nil, "idle"},
		"half a frame":         {[][]byte{{0, 0, 0, 90, 0, 36}}, "slow"},
		"half a log-in":        {[][]byte{request1(1, handshake(1, "PLAIN"))}, "idle"},
		"ApiVersions for ever": {[][]byte{request1(1, kmsg.NewPtrApiVersionsRequest()), request1(2, kmsg.NewPtrApiVersionsRequest())}, "idle"},
	} {
		before := s.Stats().Closed[c.reason]
		conn := dial(t, s.addr)
		for _, b := range c.send {
			conn.Write(b)
		}
		answers, err := io.ReadAll(conn)
		if err != nil && !isReset(err) {
			t.Errorf("%s: the connection stays open: %v", name, err)
		}
		waitFor(t, name, func() bool { return s.Stats().Closed[c.reason] == before+1 })
		if bytes.Contains(answers, []byte("127.0.0.1")) {
			t.Errorf("%s: was told of brokers", name)
		}
	}
	noPasswords(t, s)
}

// Clients of before Kafka 1.0 carry the exchange without request headers.
func TestLoginWithoutHeaders(t *testing.T) {
	s := serve(t, withLogin)
	exchange := func(message string) (net.Conn, []byte, error) {
		c := dial(t, s.addr)
		req := kmsg.NewPtrSASLHandshakeRequest()
		req.Mechanism = "PLAIN"
		c.Write(request1(1, req))
		readFramed(t, c)
		c.Write(framed([]byte(message)))
		var n [4]byte
		_, err := io.ReadFull(c, n[:])
		return c, n[:], err
	}
	c, n, err := exchange("\x00alice\x00" + password)
	if err != nil || binary.BigEndian.Uint32(n) != 0 {
		t.Fatalf("answer of %d bytes, %v", n, err)
	}
	c.Write(request1(7, kmsg.NewPtrMetadataRequest()))
	if got := binary.BigEndian.Uint32(readFramed(t, c)); got != 7 {
		t.Errorf("metadata: correlation id %d", got)
	}
	start := time.Now()
	if _, _, err := exchange("\x00alice\x00" + wrong); !errors.Is(err, io.EOF) {
		t.Errorf("wrong password: %v", err)
	}
	if took := time.Since(start); took < deniedAfter {
		t.Errorf("denied after %v", took)
	}
}

// Who guesses passwords over many connections at a time gets no more answers than over one, and others are let in meanwhile.
func TestGuessesOfAHostAreAnsweredInTurn(t *testing.T) {
	s := serve(t, withLogin)
	const guesses = 30
	start := time.Now()
	var answered atomic.Int64
	var all sync.WaitGroup
	for range guesses {
		c := dial(t, s.addr)
		h := kmsg.NewPtrSASLHandshakeRequest()
		h.Version, h.Mechanism = 1, "PLAIN"
		c.Write(request1(1, h))
		readFramed(t, c)
		a := kmsg.NewPtrSASLAuthenticateRequest()
		a.Version, a.SASLAuthBytes = 1, []byte("\x00alice\x00"+wrong)
		c.Write(request1(2, a))
		all.Go(func() {
			io.ReadAll(c)
			answered.Add(1)
		})
	}
	if err := s.use(t, "t", kgo.SASL(by(sasl.ScramSHA256, "alice", password))); err != nil || answered.Load() == guesses {
		t.Errorf("the right password, %d guesses answered: %v", answered.Load(), err)
	}
	all.Wait()
	if took := time.Since(start); took < guesses*deniedAfter {
		t.Errorf("%d guesses are answered within %v", guesses, took)
	}

	h, now := &host{}, time.Unix(1_000_000, 0)
	for i := 1; i < 1000; i++ {
		if got, want := h.deniedAt(now).Sub(now), min(time.Duration(i)*deniedAfter, mostDenied); got != want {
			t.Fatalf("guess %d is answered after %v, want %v", i, got, want)
		}
	}
	if got := h.deniedAt(now.Add(time.Hour)).Sub(now); got != time.Hour+deniedAfter {
		t.Errorf("an hour later: after %v", got)
	}
}

// A session that is not renewed ends; kgo renews it on the same connection.
func TestSessionsAreRenewed(t *testing.T) {
	s := serve(t, withLogin, func(o *Options) { o.SASL.MaxReauth = 3 * time.Second })
	login := func(c net.Conn, user, pass string) *kmsg.SASLAuthenticateResponse {
		h := kmsg.NewPtrSASLHandshakeRequest()
		h.Version, h.Mechanism = 1, "PLAIN"
		c.Write(request1(1, h))
		readFramed(t, c)
		a := kmsg.NewPtrSASLAuthenticateRequest()
		a.Version, a.SASLAuthBytes = 1, []byte("\x00"+user+"\x00"+pass)
		c.Write(request1(2, a))
		resp := kmsg.NewPtrSASLAuthenticateResponse()
		resp.Version = 1
		if err := resp.ReadFrom(readFramed(t, c)[4:]); err != nil {
			t.Fatal(err)
		}
		return resp
	}
	c := dial(t, s.addr)
	if r := login(c, "alice", password); r.ErrorCode != 0 || r.SessionLifetimeMillis != 3000 {
		t.Fatalf("%+v", r)
	}
	renewed := dial(t, s.addr)
	login(renewed, "alice", password)
	other := dial(t, s.addr)
	login(other, "alice", password)
	if r := login(other, "alice", wrong); r.ErrorCode != kerr.SaslAuthenticationFailed.Code {
		t.Errorf("renewed with a wrong password: %+v", r)
	}
	timer := time.NewTimer(2 * time.Second)
	<-timer.C
	if r := login(renewed, "alice", password); r.ErrorCode != 0 {
		t.Errorf("renewal: %+v", r)
	}
	timer.Reset(1500 * time.Millisecond)
	<-timer.C
	for conn, ok := range map[net.Conn]bool{c: false, renewed: true} {
		conn.Write(request1(3, kmsg.NewPtrMetadataRequest()))
		if n, err := conn.Read(make([]byte, 1)); (n == 1) != ok {
			t.Errorf("renewed %t: %v", ok, err)
		}
	}
	waitFor(t, "the count", func() bool { return s.Stats().Closed["expired"] == 1 })
}

// Without SASL a client that tries to log in is told so, and may go on.
func TestLoginWhereThereIsNone(t *testing.T) {
	s := serve(t)
	c := dial(t, s.addr)
	req := kmsg.NewPtrSASLHandshakeRequest()
	req.Version, req.Mechanism = 1, "PLAIN"
	c.Write(request1(1, req))
	resp := kmsg.NewPtrSASLHandshakeResponse()
	resp.Version = 1
	if err := resp.ReadFrom(readFramed(t, c)[4:]); err != nil || resp.ErrorCode != kerr.IllegalSaslState.Code {
		t.Errorf("%+v, %v", resp, err)
	}
	c.Write(request1(2, kmsg.NewPtrMetadataRequest()))
	readFramed(t, c)
}

func TestTLS(t *testing.T) {
	authority, stranger := certs.New(t), certs.New(t)
	seen := make(chan string, 1)
	s := serve(t, func(o *Options) {
		o.TLS = authority.Server(t, "server")
		o.TLS.ClientAuth = tls.RequireAndVerifyClientCert
		o.FrameTimeout = 300 * time.Millisecond
	})
	real := *s.apis[60]
	watched := real
	watched.handle = func(b *Broker, ctx context.Context, r *request) (kmsg.Response, error) {
		seen <- r.principal
		return real.handle(b, ctx, r)
	}
	s.apis[60] = &watched
	cl := s.client(t, false, kgo.DialTLSConfig(authority.Client(t, "carol")))
	if _, err := kmsg.NewPtrDescribeClusterRequest().RequestWith(t.Context(), cl); err != nil {
		t.Fatal(err)
	}
	if got := <-seen; got != "CN=carol,O=tests" {
		t.Errorf("principal %q", got)
	}
	if err := s.use(t, "t", kgo.DialTLSConfig(authority.Client(t, "carol"))); err != nil {
		t.Error(err)
	}
	for name, c := range map[string]*tls.Config{"no certificate": authority.Client(t, ""), "a stranger's certificate": stranger.Client(t, "carol")} {
		c.InsecureSkipVerify = true
		before := s.Stats().Closed["tls"]
		if err := s.use(t, "t", kgo.DialTLSConfig(c)); err == nil {
			t.Errorf("%s: let in", name)
		}
		waitFor(t, name, func() bool { return s.Stats().Closed["tls"] > before })
	}
	before := s.Stats().Closed["tls"]
	plaintext := dial(t, s.addr)
	plaintext.Write(request1(1, kmsg.NewPtrApiVersionsRequest()))
	io.ReadAll(plaintext)
	waitFor(t, "the line about plaintext", func() bool { return s.logs.count("does not speak TLS") == 1 && s.Stats().Closed["tls"] > before })
	timeouts := s.logs.count("i/o timeout") // on a slow machine there may be one of a client above
	silent := dial(t, s.addr)
	if _, err := io.ReadAll(silent); err != nil && !isReset(err) {
		t.Errorf("a client that says nothing: %v", err)
	}
	waitFor(t, "the line about the silent one", func() bool { return s.logs.count("i/o timeout") == timeouts+1 })
}

// Credentials that are stored through the protocol, by kadm; and librdkafka with them over TLS.
func TestStoredCredentials(t *testing.T) {
	authority := certs.New(t)
	s := serve(t, withLogin, func(o *Options) { o.TLS = authority.Server(t, "server") })
	transport := kgo.DialTLSConfig(authority.Client(t, ""))
	adm := kadm.NewClient(s.client(t, false, transport, kgo.SASL(by(sasl.ScramSHA256, "alice", password))))
	ctx := within(t, time.Minute)
	upsert := func(user, pass string, m kadm.ScramMechanism) kadm.UpsertSCRAM {
		return kadm.UpsertSCRAM{User: user, Mechanism: m, Iterations: 8192, Password: pass}
	}
	altered, err := adm.AlterUserSCRAMs(ctx, nil, []kadm.UpsertSCRAM{
		upsert("bob", password, kadm.ScramSha256), upsert("bob", password, kadm.ScramSha512), upsert("carol", password, kadm.ScramSha512),
		upsert("alice", wrong, kadm.ScramSha256),
	})
	if err != nil {
		t.Fatal(err)
	}
	for user, want := range map[string]error{"bob": nil, "carol": nil, "alice": kerr.UnacceptableCredential} {
		if got := altered[user].Err; !errors.Is(got, want) {
			t.Errorf("alter %s: %v", user, got)
		}
	}
	described, err := adm.DescribeUserSCRAMs(ctx)
	if err != nil || len(described) != 2 || len(described["bob"].CredInfos) != 2 || described["carol"].CredInfos[0] !=
		(kadm.CredInfo{Mechanism: kadm.ScramSha512, Iterations: 8192}) {
		t.Errorf("described: %+v, %v", described, err)
	}
	for _, m := range sasl.Mechanisms() {
		if err := s.use(t, "t", transport, kgo.SASL(by(m, "bob", password))); err != nil {
			t.Errorf("bob by %s: %v", m, err)
		}
		if err := s.use(t, "t", transport, kgo.SASL(by(m, "carol", password))); (err == nil) != (m != sasl.ScramSHA256) {
			t.Errorf("carol by %s: %v", m, err)
		}
	}
	t.Run("kcat", func(t *testing.T) {
		kcat, err := exec.LookPath("kcat")
		if err != nil {
			t.Skip("kcat is not installed (apt-get install kcat)")
		}
		run := func(pass, stdin string, args ...string) (string, error) {
			cmd := exec.CommandContext(ctx, kcat, append([]string{"-b", s.addr, "-X", "security.protocol=SASL_SSL", "-X", "ssl.ca.location=" + authority.CA,
				"-X", "sasl.mechanisms=SCRAM-SHA-512", "-X", "sasl.username=bob", "-X", "sasl.password=" + pass}, args...)...)
			cmd.Stdin = strings.NewReader(stdin)
			out, err := cmd.CombinedOutput()
			return string(out), err
		}
		if out, err := run(password, "a:1\nb:2\n", "-P", "-t", "kcat", "-K", ":"); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		if out, err := run(password, "", "-C", "-t", "kcat", "-e", "-q", "-f", "%o %k %s\n"); err != nil || out != "0 a 1\n1 b 2\n" {
			t.Errorf("%v\n%s", err, out)
		}
		if out, err := run(wrong, "", "-L", "-m", "3"); err == nil || !strings.Contains(out, "Authentication failed") {
			t.Errorf("wrong password: %v\n%s", err, out)
		}
	})
	deleted, err := adm.AlterUserSCRAMs(ctx, []kadm.DeleteSCRAM{{User: "bob", Mechanism: kadm.ScramSha256}, {User: "nobody", Mechanism: kadm.ScramSha256}}, nil)
	if err != nil || deleted["bob"].Err != nil || !errors.Is(deleted["nobody"].Err, kerr.ResourceNotFound) {
		t.Errorf("deleted: %+v, %v", deleted, err)
	}
	for m, want := range map[string]error{sasl.ScramSHA256: kerr.SaslAuthenticationFailed, sasl.ScramSHA512: nil} {
		if err := s.use(t, "t", transport, kgo.SASL(by(m, "bob", password))); !errors.Is(err, want) {
			t.Errorf("bob by %s: %v", m, err)
		}
	}
	noPasswords(t, s)
}

// As Kafka without an authorizer.
func TestACLsAreDisabled(t *testing.T) {
	s := serve(t)
	adm := kadm.NewClient(s.client(t, false))
	b := kadm.NewACLs().AnyResource("t").Allow("User:alice").AllowHosts("*").Operations(kadm.OpRead).ResourcePatternType(kadm.ACLPatternLiteral)
	if d, err := adm.DescribeACLs(t.Context(), b); err == nil && (len(d) == 0 || !errors.Is(d[0].Err, kerr.SecurityDisabled)) || err != nil && !errors.Is(err, kerr.SecurityDisabled) {
		t.Errorf("describe: %+v, %v", d, err)
	}
	c := kadm.NewACLs().Topics("t").Allow("User:alice").AllowHosts("*").Operations(kadm.OpRead).ResourcePatternType(kadm.ACLPatternLiteral)
	if r, err := adm.CreateACLs(t.Context(), c); err != nil || len(r) != 1 || !errors.Is(r[0].Err, kerr.SecurityDisabled) {
		t.Errorf("create: %+v, %v", r, err)
	}
	if r, err := adm.DeleteACLs(t.Context(), b); err != nil || len(r) == 0 || !errors.Is(r[0].Err, kerr.SecurityDisabled) {
		t.Errorf("delete: %+v, %v", r, err)
	}
}

// A listener is called what it speaks.
func TestListenersAreCalledWhatTheySpeak(t *testing.T) {
	authority := certs.New(t)
	withTLS := func(o *Options) { o.TLS = authority.Server(t, "server") }
	for want, change := range map[string][]func(*Options){
		"PLAINTEXT": nil, "SSL": {withTLS}, "SASL_PLAINTEXT": {withLogin}, "SASL_SSL": {withTLS, withLogin},
	} {
		s := serve(t, change...)
		cl := s.client(t, true)
		quorum, err := kmsg.NewPtrDescribeQuorumRequest().RequestWith(t.Context(), cl)
		if err != nil {
			t.Fatal(err)
		}
		if got := quorum.Nodes[0].Listeners[0].Name; got != want {
			t.Errorf("%s: the quorum's listener is %s", want, got)
		}
		configs, err := kadm.NewClient(cl).DescribeBrokerConfigs(t.Context(), 1)
		if err != nil {
			t.Fatal(err)
		}
		at := slices.IndexFunc(configs[0].Configs, func(c kadm.Config) bool { return c.Key == "advertised.listeners" })
		if got := configs[0].Configs[at].MaybeValue(); got != want+"://"+s.addr {
			t.Errorf("%s: advertised.listeners is %s", want, got)
		}
	}
}
