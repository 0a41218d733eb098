package broker

import (
	"encoding/binary"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rowtrail/rowtrail/log/broker/txn"
)

// twinSide is one of the two brokers with what a client has learnt of it: names stand for ids that it chose itself.
type twinSide struct {
	t       testing.TB
	addr    string
	conns   map[string]net.Conn
	corr    int32
	topics  map[string][16]byte
	pids    map[string]txn.Producer // by transactional id, or the name of an idempotent producer
	seqs    map[string]int32        // by producer and partition: the next sequence
	members map[string]string       // by group and member name
	gens    map[string]int32        // by group
	txns    map[string]string       // by transactional id: "open", "committed", "aborted"; "": nothing under this claim
	pending map[string]bool         // by transactional id: offsets may be in its open transaction
	settle  func(id string)         // waits until the markers of a transaction are written
	// forgotten waits until no group has offsets of a deleted topic.
	forgotten func(topic string)
}

func newTwinSide(t testing.TB, addr string) *twinSide {
	return &twinSide{t: t, addr: addr, conns: map[string]net.Conn{}, topics: map[string][16]byte{}, pids: map[string]txn.Producer{},
		seqs: map[string]int32{}, members: map[string]string{}, gens: map[string]int32{}, txns: map[string]string{}, pending: map[string]bool{}, settle: func(string) {}, forgotten: func(string) {}}
}

// twins are a broker and kfake in the same state: empty.
func twins(t testing.TB) (ours, theirs *twinSide, s *served) {
	s = serve(t, func(o *Options) { o.AutoCreateTopics = false })
	fake, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.DefaultNumPartitions(1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(fake.Close)
	ours, theirs = newTwinSide(t, s.addr), newTwinSide(t, fake.ListenAddrs()[0])
	ours.settle = func(id string) {
		req := kmsg.NewPtrDescribeTransactionsRequest()
		req.TransactionalIDs = []string{id}
		waitFor(t, "the markers", func() bool {
			for _, st := range ours.send("", req).(*kmsg.DescribeTransactionsResponse).TransactionStates {
				if st.State == "PrepareCommit" || st.State == "PrepareAbort" {
					return false
				}
			}
			return true
		})
	}
	ours.forgotten = func(topic string) {
		waitFor(t, "the groups to forget "+topic, func() bool {
			for _, group := range []string{"g0", "g1", "g2"} {
				req := kmsg.NewPtrOffsetFetchRequest()
				req.Version, req.Group, req.Topics = 7, group, nil
				for _, rt := range ours.send("", req).(*kmsg.OffsetFetchResponse).Topics {
					if rt.Topic == topic {
						return false
					}
				}
			}
			return true
		})
	}
	return ours, theirs, s
}

// send sends a request over the connection of a name and waits for its answer.
func (s *twinSide) send(conn string, req kmsg.Request) kmsg.Response {
	s.post(conn, req)
	return s.take(conn, req)
}

func (s *twinSide) post(conn string, req kmsg.Request) {
	s.t.Helper()
	c := s.conns[conn]
	if c == nil {
		c = dial(s.t, s.addr)
		s.conns[conn] = c
	}
	c.SetDeadline(time.Now().Add(20 * time.Second))
	s.corr++
	if _, err := c.Write(request1(s.corr, req)); err != nil {
		s.t.Fatalf("%s: %v", kmsg.NameForKey(req.Key()), err)
	}
}

func (s *twinSide) take(conn string, req kmsg.Request) kmsg.Response {
	s.t.Helper()
	body := readFramed(s.t, s.conns[conn])
	resp := req.ResponseKind()
	resp.SetVersion(req.GetVersion())
	at := 4
	if resp.IsFlexible() && req.Key() != int16(kmsg.ApiVersions) {
		n, size := binary.Uvarint(body[4:])
		if n != 0 {
			s.t.Fatalf("%d tags in the header of %s", n, kmsg.NameForKey(req.Key()))
		}
		at += size
	}
	if err := resp.ReadFrom(body[at:]); err != nil {
		s.t.Fatalf("%s v%d: %v", kmsg.NameForKey(req.Key()), req.GetVersion(), err)
	}
	return resp
}

// pid is the claim of a producer; one that was never made is a wrong one.
func (s *twinSide) pid(name string) txn.Producer {
	if p, ok := s.pids[name]; ok {
		return p
	}
	return txn.Producer{ID: 999_999, Epoch: 0}
}

// name is the opposite of the maps: what an id stands for.
func (s *twinSide) topicName(id [16]byte) string {
	if id == [16]byte{} {
		return "none"
	}
	for name, v := range s.topics {
		if v == id {
			return name
		}
	}
	return "unknown"
}

func (s *twinSide) producerName(id int64) string {
	if id < 0 {
		return fmt.Sprint(id)
	}
	for name, p := range s.pids {
		if p.ID == id {
			return name
		}
	}
	return "unknown"
}

func (s *twinSide) memberName(id string) string {
	if id == "" {
		return ""
	}
	for name, v := range s.members {
		if v == id {
			return name
		}
	}
	return "unknown"
}
