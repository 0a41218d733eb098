package broker

import (
	"encoding/binary"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// joinGroups makes one group of each protocol, with a member.
func joinGroups(t *testing.T, s *served) {
	t.Helper()
	join := kmsg.NewPtrJoinGroupRequest()
	join.Version, join.Group, join.ProtocolType = 1, "classic", "consumer"
	join.SessionTimeoutMillis, join.RebalanceTimeoutMillis = 30_000, 30_000
	join.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range", Metadata: make([]byte, 1000)}}
	if body := sizedAnswer(t, s, join); binary.BigEndian.Uint16(body[4:]) != 0 {
		t.Fatalf("JoinGroup: %x", body)
	}
	beat := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	beat.Version, beat.Group, beat.MemberID = 1, "consumer", "m"
	beat.RebalanceTimeoutMillis, beat.SubscribedTopicNames, beat.Topics = 30_000, []string{"t"}, []kmsg.ConsumerGroupHeartbeatRequestTopic{}
	if body := sizedAnswer(t, s, beat); binary.BigEndian.Uint16(body[4+1+4:]) != 0 {
		t.Fatalf("ConsumerGroupHeartbeat: %x", body)
	}
}

// sizedAnswer sends a request in the version that it says, and returns the answer behind its length.
func sizedAnswer(t *testing.T, s *served, req kmsg.Request) []byte {
	t.Helper()
	c := dial(t, s.addr)
	defer c.Close()
	if _, err := c.Write(request1(1, req)); err != nil {
		t.Fatal(err)
	}
	return readFramed(t, c)
}

// Invariant 9: a request that names one thing again and again is answered about it once, so that a few bytes of request each
// do not make an answer of any size.
func TestAnswersDescribeWhatIsNamedAgainOnlyOnce(t *testing.T) {
	const again = 1000
	s := serve(t)
	create(t, s, "t", 30, nil)
	c := s.client(t, false)
	offsets := kadm.Offsets{}
	for p := range int32(30) {
		offsets.Add(kadm.Offset{Topic: "t", Partition: p, At: 1, Metadata: strings.Repeat("m", 1000)})
	}
	if _, err := kadm.NewClient(c).CommitOffsets(t.Context(), "g", offsets); err != nil {
		t.Fatal(err)
	}
	joinGroups(t, s)
	tx := s.client(t, false, kgo.TransactionalID("x"), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err := tx.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	for p := range int32(30) {
		tx.Produce(t.Context(), &kgo.Record{Topic: "t", Partition: p, Value: []byte("v")}, nil)
	}
	if err := tx.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}

	id := s.node.Catalog().Topics["t"].ID
	name := "t"
	for _, test := range []struct {
		name string
		req  func(n int) kmsg.Request
		most int // bytes that a repetition may add: no more than an error
	}{
		{"Metadata by name", func(n int) kmsg.Request {
			r := kmsg.NewPtrMetadataRequest()
			r.Version, r.Topics = 9, slices.Repeat([]kmsg.MetadataRequestTopic{{Topic: &name}}, n)
			return r
		}, 0},
		{"Metadata by id", func(n int) kmsg.Request {
			r := kmsg.NewPtrMetadataRequest()
			r.Version, r.Topics = 12, slices.Repeat([]kmsg.MetadataRequestTopic{{TopicID: id}}, n)
			return r
		}, 0},
		{"OffsetFetch of groups", func(n int) kmsg.Request {
			r := kmsg.NewPtrOffsetFetchRequest()
			g := kmsg.NewOffsetFetchRequestGroup()
			g.Group = "g"
			r.Version, r.Groups = 9, slices.Repeat([]kmsg.OffsetFetchRequestGroup{g}, n)
			return r
		}, 16},
		{"OffsetFetch of partitions", func(n int) kmsg.Request {
			r := kmsg.NewPtrOffsetFetchRequest()
			g := kmsg.NewOffsetFetchRequestGroup()
			g.Group = "g"
			g.Topics = []kmsg.OffsetFetchRequestGroupTopic{{Topic: "t", Partitions: make([]int32, n)}, {Topic: "t", Partitions: make([]int32, n)}}
			r.Version, r.Groups = 9, []kmsg.OffsetFetchRequestGroup{g}
			return r
		}, 0},
		{"OffsetFetch of partitions of old clients", func(n int) kmsg.Request {
			r := kmsg.NewPtrOffsetFetchRequest()
			r.Group, r.Topics = "g", []kmsg.OffsetFetchRequestTopic{{Topic: "t", Partitions: make([]int32, n)}}
			r.Version = 5
			return r
		}, 0},
		{"DescribeGroups", func(n int) kmsg.Request {
			r := kmsg.NewPtrDescribeGroupsRequest()
			r.Version, r.Groups = 5, slices.Repeat([]string{"classic"}, n)
			return r
		}, 0},
		{"ConsumerGroupDescribe", func(n int) kmsg.Request {
			r := kmsg.NewPtrConsumerGroupDescribeRequest()
			r.Version, r.Groups = 1, slices.Repeat([]string{"consumer"}, n)
			return r
		}, 0},
		{"DescribeConfigs", func(n int) kmsg.Request {
			r := kmsg.NewPtrDescribeConfigsRequest()
			r.IncludeSynonyms, r.IncludeDocumentation = true, true
			r.Version, r.Resources = 4, slices.Repeat([]kmsg.DescribeConfigsRequestResource{
				{ResourceType: kmsg.ConfigResourceTypeTopic, ResourceName: "t"}}, n)
			return r
		}, 64},
		{"DescribeLogDirs of topics", func(n int) kmsg.Request {
			r := kmsg.NewPtrDescribeLogDirsRequest()
			r.Version, r.Topics = 4, slices.Repeat([]kmsg.DescribeLogDirsRequestTopic{{Topic: "t"}}, n)
			return r
		}, 0},
		{"DescribeProducers", func(n int) kmsg.Request {
			r := kmsg.NewPtrDescribeProducersRequest()
			r.Topics = slices.Repeat([]kmsg.DescribeProducersRequestTopic{{Topic: "t", Partitions: make([]int32, 100)}}, n/100+1)
			return r
		}, 4},
		{"DescribeTransactions", func(n int) kmsg.Request {
			r := kmsg.NewPtrDescribeTransactionsRequest()
			r.TransactionalIDs = slices.Repeat([]string{"x"}, n)
			return r
		}, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			one, many := len(sizedAnswer(t, s, test.req(1))), len(sizedAnswer(t, s, test.req(again)))
			if one < 60 {
				t.Errorf("an answer of %d bytes tells nothing", one)
			}
			if slack := 16; many > one+slack+test.most*again {
				t.Errorf("%d bytes for one, %d for the same %d times", one, many, again)
			}
		})
	}
	if err := tx.EndTransaction(t.Context(), kgo.TryAbort); err != nil {
		t.Fatal(err)
	}
}
