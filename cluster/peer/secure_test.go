package peer

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/rowtrail/rowtrail/itest/certs"
)

// mutual is the configuration of one node, of either side.
func mutual(t *testing.T, a *certs.Authority, s certs.Subject) *tls.Config {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(a.IssueTo(t, t.TempDir(), s))
	if err != nil {
		t.Fatal(err)
	}
	pool := a.Client(t, "").RootCAs
	return &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}, RootCAs: pool, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert}
}

// securePair is a pair whose nodes are started with these configurations; nil: in the clear.
func securePair(t *testing.T, one, two *tls.Config) *pair {
	p := newPair(t)
	p.stop(1)
	p.stop(2)
	p.secure = map[int32]*tls.Config{1: one, 2: two}
	p.start(1)
	p.start(2)
	return p
}

func (p *pair) logged() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.logs.String()
}

// TestWithoutTLSInCommon: whichever side calls, both say once what is wrong and where, however often it is tried.
func TestWithoutTLSInCommon(t *testing.T) {
	ours, foreign := certs.New(t), certs.New(t)
	here := []string{"127.0.0.1"}
	good := mutual(t, ours, certs.Subject{Name: "good", Hosts: here, For: time.Hour})
	for name, c := range map[string]struct {
		bad              *tls.Config
		goodSays, toGood string // what the good node logs as it calls the other, and as it is called
		badSays, toBad   string
	}{
		"expired": {
			mutual(t, ours, certs.Subject{Name: "old", Hosts: here, For: -time.Minute}),
			"its certificate CN=old,O=tests: x509: certificate has expired or is not yet valid", "its certificate CN=old,O=tests: x509: certificate has expired or is not yet valid",
			"does not accept this node's certificate (tls: ", "does not accept this node's certificate (tls: ",
		},
		"foreign authority": {
			mutual(t, foreign, certs.Subject{Name: "stranger", Hosts: here, For: time.Hour}),
			"x509: certificate signed by unknown authority", "does not accept this node's certificate (tls: ",
			"x509: certificate signed by unknown authority", "does not accept this node's certificate (tls: ",
		},
		"another host": {
			mutual(t, ours, certs.Subject{Name: "elsewhere", Hosts: []string{"10.1.2.3"}, For: time.Hour}),
			"x509: certificate is valid for 10.1.2.3, not 127.0.0.1; it must name the host of its node's cluster.advertised", "",
			"", "does not accept this node's certificate (tls: ",
		},
		"in the clear": {
			nil, "the other side does not speak TLS and this node does; set cluster.tls", "what calls does not speak TLS and this node does; set cluster.tls",
			"this node speaks TLS; set cluster.tls", "what calls speaks TLS and this node does not; set cluster.tls",
		},
	} {
		t.Run(name, func(t *testing.T) {
			for _, way := range []struct {
				from, to int32
				want     []string
			}{
				{1, 2, []string{"msg=\"there is no TLS with a peer\" node=2", c.goodSays, c.toBad}},
				{2, 1, []string{"node=1", c.badSays, c.toGood}},
			} {
				if way.from == 2 && c.badSays == "" {
					continue // it may call
				}
				p := securePair(t, good, c.bad)
				for range 5 {
					p.nets[way.from].Send(way.to, Control, Frame{[]byte("x")})
					time.Sleep(20 * time.Millisecond)
					if _, err := p.nets[way.from].Call(t.Context(), way.to, []byte("x")); err == nil {
						t.Errorf("node %d reached node %d", way.from, way.to)
					}
				}
				deadline := time.Now().Add(5 * time.Second)
				for _, want := range way.want {
					for !strings.Contains(p.logged(), want) && time.Now().Before(deadline) {
						time.Sleep(10 * time.Millisecond)
					}
					if !strings.Contains(p.logged(), want) {
						t.Errorf("node %d calls: %q is not said", way.from, want)
					}
				}
				if lines := strings.Count(p.logged(), "\n"); lines != 2 {
					t.Errorf("node %d calls: %d lines, want one of each side:\n%s", way.from, lines, p.logged())
				}
			}
		})
	}
}

// TestComplaintsBeginAnew: what is over and comes again is said again; so is what goes on for long, and a bounded number is remembered.
func TestComplaintsBeginAnew(t *testing.T) {
	var c complaints
	err := &net.OpError{Op: "read", Err: errors.New("reset"), Addr: &net.TCPAddr{Port: 1}}
	other := &net.OpError{Op: "read", Err: errors.New("reset"), Addr: &net.TCPAddr{Port: 2}}
	if !c.worth("node 1", err) || c.worth("node 1", other) || !c.worth("node 2", err) || !c.worth("node 1", context.Canceled) {
		t.Error("what is said once is said of each, and of each kind")
	}
	c.over("node 1")
	if !c.worth("node 1", err) || c.worth("node 2", err) {
		t.Error("what is over begins anew, for that node alone")
	}
	c.said[complaint{"node 1", kindOf(err)}] = time.Now().Add(-2 * complainAgain)
	if !c.worth("node 1", err) || c.worth("node 1", err) {
		t.Error("what goes on is said once in a while")
	}
	for i := range 3 * maxComplaints {
		c.worth("node 1", errors.New(strings.Repeat("x", i)))
	}
	if len(c.said) > maxComplaints {
		t.Errorf("%d are remembered", len(c.said))
	}
}

// TestTLSOfNodes: with certificates of one authority everything goes through.
func TestTLSOfNodes(t *testing.T) {
	a := certs.New(t)
	config := func(name string) *tls.Config {
		return mutual(t, a, certs.Subject{Name: name, Hosts: []string{"127.0.0.1"}, For: time.Hour})
	}
	p := securePair(t, config("one"), config("two"))
	if b, err := p.nets[1].Call(t.Context(), 2, []byte("x")); err != nil || string(b) != "2 of 1: x" {
		t.Errorf("%q, %v", b, err)
	}
	if p.logged() != "" {
		t.Error(p.logged())
	}
}

// TestClocksApart: one line says whose, and another one when it happens again.
func TestClocksApart(t *testing.T) {
	p := newPair(t)
	n := p.nets[1]
	hello := func(off time.Duration) {
		n.compareClocks(Hello{Identity: Identity{Node: 2}, Time: time.Now().Add(off).UnixMilli()})
	}
	n.compareClocks(Hello{Identity: Identity{Node: 3}}) // of a release that does not tell
	hello(-helloTimeout)
	if p.logged() != "" {
		t.Errorf("clocks that are in step:\n%s", p.logged())
	}
	for range 3 {
		hello(time.Hour)
	}
	if got := p.logged(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "node=2 ahead=1h0m0s") {
		t.Errorf("an hour ahead:\n%s", got)
	}
	hello(0)
	hello(-time.Hour)
	if got := p.logged(); strings.Count(got, "\n") != 2 || !strings.Contains(got, "node=2 ahead=-1h0m0s") {
		t.Errorf("an hour behind:\n%s", got)
	}
}
