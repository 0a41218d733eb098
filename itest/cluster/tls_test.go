package cluster

import (
	"context"
	"crypto/tls"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/rowtrail/rowtrail/itest/certs"
	"github.com/rowtrail/rowtrail/itest/process"
)

const tlsTopic = "secured"

// secured are nodes with TLS between them and with their clients. Each has its certificate, key and authorities in a directory of its own.
type secured struct {
	*nodes
	dirs map[int]string
}

func newSecured(t *testing.T, authority *certs.Authority) *secured {
	t.Helper()
	s := &secured{dirs: map[int]string{}, nodes: &nodes{t: t, bin: binary(t), dial: authority.Client(t, "client")}}
	s.more = func(id int) (cluster, listen string) {
		if s.dirs[id] == "" {
			s.dirs[id] = t.TempDir()
			s.certify(id, authority, time.Hour)
			s.trust(id, authority)
		}
		dir := s.dirs[id]
		return fmt.Sprintf("  tls: {cert: %[1]s/node.pem, key: %[1]s/node.key, ca: %[1]s/ca.pem}\n", dir),
			fmt.Sprintf("  tls: {cert: %[1]s/node.pem, key: %[1]s/node.key}\n", dir)
	}
	s.write(3)
	return s
}

// certify gives a node a new certificate.
func (s *secured) certify(id int, by *certs.Authority, life time.Duration, hosts ...string) {
	s.t.Helper()
	if len(hosts) == 0 {
		hosts = []string{"127.0.0.1"}
	}
	by.IssueTo(s.t, s.dirs[id], certs.Subject{Name: "node", Hosts: hosts, For: life})
}

// trust has a node accept certificates of some authorities alone.
func (s *secured) trust(id int, authorities ...*certs.Authority) {
	s.t.Helper()
	var all []byte
	for _, a := range authorities {
		b, err := os.ReadFile(a.CA)
		must(s.t, err)
		all = append(all, b...)
	}
	must(s.t, os.WriteFile(filepath.Join(s.dirs[id], "ca.pem"), all, 0o600))
}

func (s *secured) each(f func(id int)) {
	for id := 1; id <= len(s.procs); id++ {
		f(id)
	}
}

// stranger writes the file of a further node.
func (s *secured) stranger(id int) *process.Rowtrail {
	s.t.Helper()
	return s.node(s.t.TempDir(), id, freeAddress(s.t), s.peers, nil)
}

// serial is the number of the certificate that is shown at an address.
func serial(address string, config *tls.Config) (*big.Int, error) {
	c, err := tls.Dial("tcp", address, config)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	return c.ConnectionState().PeerCertificates[0].SerialNumber, nil
}

// shows waits until a node shows the certificate in its directory at an address.
func (s *secured) shows(id int, address string, config *tls.Config) {
	s.t.Helper()
	pair, err := tls.LoadX509KeyPair(filepath.Join(s.dirs[id], "node.pem"), filepath.Join(s.dirs[id], "node.key"))
	must(s.t, err)
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(100 * time.Millisecond) {
		got, err := serial(address, config)
		if err == nil && got.Cmp(pair.Leaf.SerialNumber) == 0 {
			return
		}
		if time.Now().After(deadline) {
			s.t.Fatalf("node %d does not show its new certificate at %s: %v, %v\n%s", id, address, got, err, s.procs[id-1].Tail(5))
		}
	}
}

// addressOf is a node's cluster.listen.
func (s *secured) addressOf(id int) string {
	_, rest, _ := strings.Cut(s.peers[id-1], `"`)
	address, _, _ := strings.Cut(rest, `"`)
	return address
}

// epochs are the leader epochs of a topic's partitions: they tell that nobody had to take over.
func (s *secured) epochs(client *kgo.Client) string {
	s.t.Helper()
	all, err := kadm.NewClient(client).Metadata(s.t.Context(), tlsTopic)
	must(s.t, err)
	var out string
	for _, p := range all.Topics[tlsTopic].Partitions.Sorted() {
		out += fmt.Sprintf("%d: %d led by %d; ", p.Partition, p.LeaderEpoch, p.Leader)
	}
	return out
}

// moves writes records and reads them.
func (s *secured) moves(client *kgo.Client, values ...string) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), pollFor)
	defer cancel()
	for _, v := range values {
		must(s.t, client.ProduceSync(ctx, &kgo.Record{Value: []byte(v)}).FirstErr())
	}
	for left := len(values); left > 0; {
		fetches := client.PollFetches(ctx)
		must(s.t, fetches.Err())
		left -= fetches.NumRecords()
	}
}

func logOf(t *testing.T, r *process.Rowtrail) string {
	t.Helper()
	b, err := os.ReadFile(r.LogFile())
	must(t, err)
	return string(b)
}

// TestClusterWithTLS: three nodes with TLS everywhere work as without; who has no part in it is refused on both sides, by one line each; and certificates
// and authorities are renewed while the nodes run.
func TestClusterWithTLS(t *testing.T) {
	authority, foreign := certs.New(t), certs.New(t)
	s := newSecured(t, authority)
	s.start(s.procs...)
	s.whole(s.procs[0])
	client := s.client(kgo.DefaultProduceTopic(tlsTopic), kgo.RecordPartitioner(kgo.RoundRobinPartitioner()), kgo.ConsumeTopics(tlsTopic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	defer client.Close()
	_, err := kadm.NewClient(client).CreateTopic(t.Context(), 3, 3, nil, tlsTopic)
	must(t, err)
	s.whole(s.procs[0])
	s.moves(client, "a", "b", "c", "d")

	t.Run("commands", func(t *testing.T) {
		out, err := s.procs[0].CLI(t.Context(), "cluster", "status", "--check")
		if err != nil || !strings.Contains(out, "3 of 3 voters alive") {
			t.Errorf("status: %v\n%s", err, out)
		}
		if out, err := s.procs[0].CLI(t.Context(), "topics", "describe", tlsTopic, "--tls-ca", authority.CA); err != nil || !strings.Contains(out, "LEADER") {
			t.Errorf("topics: %v\n%s", err, out)
		}
	})
	t.Run("a node is killed", func(t *testing.T) {
		must(t, s.procs[1].Kill())
		s.moves(client, "e", "f", "g", "h", "i", "j") // each node leads a partition of three
		s.start(s.procs[1])
		s.whole(s.procs[0])
		for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(100 * time.Millisecond) { // its partition comes back to it by itself
			out, err := s.procs[0].CLI(t.Context(), "cluster", "status")
			if err == nil && strings.Contains(out, " 0 not led by the preferred replica.") { // which leaves none of which it is not known
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("%v\n%s", err, out)
			}
		}
	})
	t.Run("strangers", func(t *testing.T) { s.strangers(t, client, authority, foreign) })
	t.Run("a member with a foreign certificate", func(t *testing.T) {
		must(t, s.procs[2].Stop())
		s.certify(3, foreign, time.Hour)
		s.trust(3, foreign)
		must(t, s.procs[2].Start())
		said(t, s.procs[2], "x509: certificate signed by unknown authority")
		said(t, s.procs[0], `"there is no TLS with a peer","part":"cluster","node":3`)
		said(t, s.procs[1], `"there is no TLS with a peer","part":"cluster","node":3`)
		s.moves(client, "k", "l", "m")
		s.certify(3, authority, time.Hour) // and no restart
		s.trust(3, authority)
		s.whole(s.procs[0])
		for _, r := range s.procs[:2] {
			if n := strings.Count(logOf(t, r), `"there is no TLS with a peer","part":"cluster","node":3`); n != 1 {
				t.Errorf("said %d times:\n%s", n, r.Tail(15))
			}
		}
	})
	t.Run("a renewal", func(t *testing.T) {
		s.each(func(id int) { s.certify(id, authority, time.Hour) })
		s.each(func(id int) {
			s.shows(id, s.addressOf(id), authority.Client(t, "looker"))
			s.shows(id, s.procs[id-1].Kafka, s.dial)
		})
		must(t, os.WriteFile(filepath.Join(s.dirs[1], "node.pem"), []byte("half"), 0o600))
		for deadline := time.Now().Add(10 * time.Second); !strings.Contains(logOf(t, s.procs[0]), "those before stay in use") && time.Now().Before(deadline); {
			if _, err := serial(s.addressOf(1), authority.Client(t, "looker")); err != nil {
				t.Fatal(err)
			}
			time.Sleep(200 * time.Millisecond)
		}
		if n := strings.Count(logOf(t, s.procs[0]), `those before stay in use","error":"cluster.tls: `); n != 1 {
			t.Errorf("said %d times:\n%s", n, s.procs[0].Tail(15))
		}
		said(t, s.procs[0], "cannot be used; those before stay in use")
	})
	t.Run("other authorities", func(t *testing.T) {
		next := certs.New(t)
		s.each(func(id int) { s.trust(id, authority, next) })
		s.each(func(id int) { s.certify(id, next, time.Hour) })
		s.each(func(id int) { s.shows(id, s.addressOf(id), both(t, next, authority)) })
		s.each(func(id int) { s.trust(id, next) })
		s.each(func(id int) { s.shows(id, s.addressOf(id), next.Client(t, "looker")) })
		// A node that starts now shakes hands with all.
		must(t, s.procs[0].Stop())
		s.start(s.procs[0])
		s.whole(s.procs[1])
		s.dial = next.Client(t, "client")
		after := s.client(kgo.DefaultProduceTopic(tlsTopic), kgo.RecordPartitioner(kgo.RoundRobinPartitioner()), kgo.ConsumeTopics(tlsTopic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
		defer after.Close()
		s.moves(after, "n", "o", "p")
		if b, err := s.stranger(9).CLI(t.Context(), "cluster", "join"); err == nil || !strings.Contains(b, "x509: certificate signed by unknown authority") {
			t.Errorf("with a certificate of the former authority: %v\n%s", err, b)
		}
	})
}

// both trusts one authority and shows a certificate of another.
func both(t *testing.T, trusted, shown *certs.Authority) *tls.Config {
	c := trusted.Client(t, "")
	c.Certificates = shown.Client(t, "looker").Certificates
	return c
}

// settled are the epochs once every partition is led by its first replica again.
func (s *secured) settled(client *kgo.Client) string {
	s.t.Helper()
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(100 * time.Millisecond) {
		all, err := kadm.NewClient(client).Metadata(s.t.Context(), tlsTopic)
		must(s.t, err)
		elsewhere := 0
		for _, p := range all.Topics[tlsTopic].Partitions {
			if p.Leader != p.Replicas[0] {
				elsewhere++
			}
		}
		if elsewhere == 0 {
			return s.epochs(client)
		}
		if time.Now().After(deadline) {
			s.t.Fatalf("%d partitions are not led by their first replica: %s", elsewhere, s.epochs(client))
		}
	}
}

// strangers come to the cluster, one after the other.
func (s *secured) strangers(t *testing.T, client *kgo.Client, authority, foreign *certs.Authority) {
	before := s.settled(client)
	const expired, host = "certificate has expired or is not yet valid", "certificate is valid for 10.1.2.3, not 127.0.0.1; give it the host of cluster.advertised"
	for i, x := range []struct {
		name  string
		files func(id int)
		clear bool   // without TLS
		ends  string // what it says as it ends; "": it goes on
		says  string // what it says of the others
		heard string // what they say of it; "": nothing
	}{
		{name: "expired", files: func(id int) { s.certify(id, authority, -time.Minute) }, ends: expired},
		{name: "another host", files: func(id int) { s.certify(id, authority, time.Hour, "10.1.2.3") }, ends: host},
		{name: "foreign certificate", files: func(id int) { s.certify(id, foreign, time.Hour) }, ends: "name a certificate that an authority of cluster.tls.ca signed"},
		{
			name: "foreign authority", files: func(id int) { s.certify(id, foreign, time.Hour); s.trust(id, foreign) },
			says: "x509: certificate signed by unknown authority", heard: "does not accept this node's certificate (tls: bad certificate)",
		},
		{
			name: "accepts both", files: func(id int) { s.certify(id, foreign, time.Hour); s.trust(id, authority, foreign) },
			says: "does not accept this node's certificate (tls: unknown certificate authority)", heard: "x509: certificate signed by unknown authority",
		},
		{name: "no TLS", clear: true, says: "this node speaks TLS; set cluster.tls on all nodes, or on none", heard: "what calls does not speak TLS and this node does"},
	} {
		t.Run(x.name, func(t *testing.T) {
			id := 10 + i
			s.more(id)
			if x.files != nil {
				x.files(id)
			}
			secure := s.more
			if x.clear {
				s.more = nil
			}
			r := s.stranger(id)
			s.more = secure
			must(t, r.Start())
			if x.ends != "" {
				if line := ends(t, r); !strings.Contains(line, x.ends) {
					t.Errorf("%s", line)
				}
				return
			}
			said(t, r, x.says)
			said(t, s.procs[0], x.heard)
			time.Sleep(time.Second) // in which it tries again, several times
			must(t, r.Stop())
			for _, p := range s.procs {
				if n := strings.Count(logOf(t, p), x.heard); n > 1 {
					t.Errorf("said %d times:\n%s", n, p.Tail(15))
				}
			}
		})
	}
	s.moves(client, "q", "r", "s")
	if after := s.epochs(client); after != before {
		t.Errorf("leaders changed from %s to %s", before, after)
	}
	if out, err := s.procs[0].CLI(t.Context(), "cluster", "status", "--check"); err != nil || !strings.Contains(out, "3 of 3 voters alive") {
		t.Errorf("status: %v\n%s", err, out)
	}
}
