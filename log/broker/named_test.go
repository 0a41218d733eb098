package broker

import (
	"encoding/binary"
	"fmt"
	"net"
	"reflect"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// decodeAnswer reads an answer behind its length into a response.
func decodeAnswer(t testing.TB, req kmsg.Request, body []byte) kmsg.Response {
	t.Helper()
	resp := req.ResponseKind()
	body = body[4:]
	if resp.IsFlexible() {
		body = body[1:]
	}
	if err := resp.ReadFrom(body); err != nil {
		t.Fatalf("decode %T: %v", resp, err)
	}
	return resp
}

func missingNames(n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf("n%d", i)
	}
	return out
}

// Invariant 9: what names more than maxNamed things is refused at each of them, and touches nothing.
func TestRequestsThatNameTooMuchAreRefused(t *testing.T) {
	s := serve(t)
	create(t, s, "t", 1, nil)
	names := missingNames(maxNamed + 1)
	metadata := kmsg.NewPtrMetadataRequest()
	metadata.Version, metadata.AllowAutoTopicCreation = 9, true
	creation := kmsg.NewPtrCreateTopicsRequest()
	creation.Version, creation.ValidateOnly = 7, true
	configs := kmsg.NewPtrDescribeConfigsRequest()
	configs.Version = 4
	for _, name := range names {
		metadata.Topics = append(metadata.Topics, kmsg.MetadataRequestTopic{Topic: &name})
		creation.Topics = append(creation.Topics, kmsg.CreateTopicsRequestTopic{Topic: name, NumPartitions: 1, ReplicationFactor: 1})
		configs.Resources = append(configs.Resources, kmsg.DescribeConfigsRequestResource{ResourceType: kmsg.ConfigResourceTypeTopic, ResourceName: name})
	}
	offsets := kmsg.NewPtrListOffsetsRequest()
	offsets.Version = 7
	offsets.Topics = []kmsg.ListOffsetsRequestTopic{{Topic: "t", Partitions: make([]kmsg.ListOffsetsRequestTopicPartition, maxNamed)}}
	fetched := kmsg.NewPtrOffsetFetchRequest()
	fetched.Version = 9
	for _, g := range []string{"a", "b"} { // each alone would do
		fetched.Groups = append(fetched.Groups, kmsg.OffsetFetchRequestGroup{Group: g,
			Topics: []kmsg.OffsetFetchRequestGroupTopic{{Topic: "t", Partitions: make([]int32, maxNamed/2)}}})
	}
	commit := kmsg.NewPtrOffsetCommitRequest()
	commit.Version, commit.Group, commit.Generation = 9, "g", -1
	commit.Topics = []kmsg.OffsetCommitRequestTopic{{Topic: "t", Partitions: make([]kmsg.OffsetCommitRequestTopicPartition, maxNamed)}}
	coordinators := kmsg.NewPtrFindCoordinatorRequest()
	coordinators.Version, coordinators.CoordinatorKeys = 4, names
	groups := kmsg.NewPtrDescribeGroupsRequest()
	groups.Version, groups.Groups = 5, names
	deletion := kmsg.NewPtrDeleteTopicsRequest()
	deletion.Version, deletion.TopicNames = 4, names
	pages := kmsg.NewPtrDescribeTopicPartitionsRequest()
	for _, name := range names {
		pages.Topics = append(pages.Topics, kmsg.DescribeTopicPartitionsRequestTopic{Topic: name})
	}
	leave := kmsg.NewPtrLeaveGroupRequest()
	leave.Version, leave.Group, leave.Members = 4, "g", make([]kmsg.LeaveGroupRequestMember, maxNamed+1)
	for _, test := range []struct {
		req     kmsg.Request
		want    *kerr.Error
		answers int // errors in the answer
	}{
		{metadata, kerr.InvalidRequest, maxNamed + 1},
		{creation, kerr.PolicyViolation, maxNamed + 1},
		{configs, kerr.InvalidRequest, maxNamed + 1},
		{offsets, kerr.InvalidRequest, maxNamed},
		{fetched, kerr.InvalidRequest, maxNamed + 2},
		{commit, kerr.InvalidRequest, maxNamed},
		{coordinators, kerr.InvalidRequest, maxNamed + 1},
		{groups, kerr.InvalidRequest, maxNamed + 1},
		{deletion, kerr.InvalidRequest, maxNamed + 1},
		{pages, kerr.InvalidRequest, maxNamed + 1},
		{leave, kerr.InvalidRequest, maxNamed + 2},
	} {
		t.Run(kmsg.NameForKey(test.req.Key()), func(t *testing.T) {
			resp := decodeAnswer(t, test.req, sizedAnswer(t, s, test.req))
			codes := map[int16]int{}
			countCodes(reflect.ValueOf(resp).Elem(), codes)
			delete(codes, 0) // levels between, and those that a version leaves out
			if codes[test.want.Code] != test.answers || len(codes) != 1 {
				t.Errorf("errors in the answer: %v, want %d times %s", codes, test.answers, test.want.Message)
			}
		})
	}
	if n := len(s.node.Catalog().Topics); n != 3 {
		t.Errorf("there are %d topics", n)
	}
}

func countCodes(v reflect.Value, codes map[int16]int) {
	for i := range v.NumField() {
		switch f := v.Field(i); {
		case v.Type().Field(i).Name == "ErrorCode":
			codes[int16(f.Int())]++
		case f.Kind() == reflect.Slice && f.Type().Elem().Kind() == reflect.Struct:
			for j := range f.Len() {
				countCodes(f.Index(j), codes)
			}
		}
	}
}

// Too many partitions at once are refused whole, as in Kafka; one topic that asks for too many is refused alone.
func TestTooManyPartitionsAtOnce(t *testing.T) {
	s := serve(t)
	create(t, s, "t", 1, nil)
	for _, test := range []struct {
		name       string
		partitions []int32
		want       []*kerr.Error
	}{
		{"many topics", []int32{4000, 4000, 2001}, []*kerr.Error{kerr.PolicyViolation, kerr.PolicyViolation, kerr.PolicyViolation}},
		{"as many as may be", []int32{4000, 4000, 2000}, []*kerr.Error{nil, nil, nil}},
		{"one too large", []int32{4000, maxMutations + 1}, []*kerr.Error{nil, kerr.InvalidPartitions}},
	} {
		t.Run(test.name, func(t *testing.T) {
			req := kmsg.NewPtrCreateTopicsRequest()
			req.Version, req.ValidateOnly = 7, true
			for i, n := range test.partitions {
				req.Topics = append(req.Topics, kmsg.CreateTopicsRequestTopic{Topic: fmt.Sprint("many", i), NumPartitions: n, ReplicationFactor: 1})
			}
			resp := decodeAnswer(t, req, sizedAnswer(t, s, req)).(*kmsg.CreateTopicsResponse)
			for i, want := range test.want {
				if got := resp.Topics[i].ErrorCode; got != errorCode(orNone(want)) {
					t.Errorf("topic %d: %v", i, kerr.ErrorForCode(got))
				}
			}
		})
	}
	req := kmsg.NewPtrCreatePartitionsRequest()
	req.Version, req.ValidateOnly = 3, true
	req.Topics = []kmsg.CreatePartitionsRequestTopic{{Topic: "t", Count: 9000}, {Topic: "t", Count: 9000}}
	resp := decodeAnswer(t, req, sizedAnswer(t, s, req)).(*kmsg.CreatePartitionsResponse)
	if resp.Topics[0].ErrorCode != kerr.PolicyViolation.Code || resp.Topics[1].ErrorCode != kerr.PolicyViolation.Code {
		t.Errorf("CreatePartitions: %+v", resp.Topics)
	}
}

func orNone(e *kerr.Error) error {
	if e == nil {
		return nil
	}
	return e
}

// Asking for the metadata of many missing topics creates some; who asks again gets more of them.
func TestMetadataCreatesABoundedNumberOfTopics(t *testing.T) {
	const asked = maxAutoCreates + 20
	s := serve(t)
	before := len(s.node.Catalog().Topics)
	req := kmsg.NewPtrMetadataRequest()
	req.Version, req.AllowAutoTopicCreation = 9, true
	for _, name := range missingNames(asked) {
		req.Topics = append(req.Topics, kmsg.MetadataRequestTopic{Topic: &name})
	}
	for round, want := range []int{maxAutoCreates, asked} {
		resp := decodeAnswer(t, req, sizedAnswer(t, s, req)).(*kmsg.MetadataResponse)
		codes := map[int16]int{}
		for i := range resp.Topics {
			codes[resp.Topics[i].ErrorCode]++
		}
		if created := len(s.node.Catalog().Topics) - before; created != want || codes[0] != want || codes[kerr.LeaderNotAvailable.Code] != asked-want {
			t.Errorf("round %d: %d topics were created, codes %v", round, created, codes)
		}
	}
}

// Invariant 9: answers that clients of one host leave unread hold at most that host's share of the answers' bytes, others are
// answered meanwhile, and all is given back.
func TestUnreadAnswersHoldTheirShare(t *testing.T) {
	const all, most = 1 << 20, 256 << 10 // and less than most is one answer
	s := serve(t, func(o *Options) { o.AnswerBytes = all })
	create(t, s, "t", 5000, nil)
	req := kmsg.NewPtrMetadataRequest()
	req.Version = 9
	const unread, each = 10, 100 // more than the kernel's buffers take
	var clients []net.Conn
	for range unread {
		c := from(t, s, "127.0.5.1")
		if err := c.(*net.TCPConn).SetReadBuffer(4 << 10); err != nil {
			t.Fatal(err)
		}
		clients = append(clients, c)
		go func() {
			for i := range int32(each) {
				if _, err := c.Write(request1(i, req)); err != nil {
					return
				}
			}
		}()
	}
	waitFor(t, "the host's share to be taken", func() bool {
		s.external.mu.Lock()
		defer s.external.mu.Unlock()
		for _, h := range s.external.hosts {
			if h.answering.Held() > all/hostShare-most {
				return true
			}
		}
		return false
	})
	if held := s.external.answering.Held(); held > all/hostShare {
		t.Errorf("one host holds %d bytes, its share is %d", held, all/hostShare)
	}
	other := from(t, s, "127.0.5.2")
	if _, err := other.Write(request1(7, req)); err != nil {
		t.Fatal(err)
	}
	if body := readFramed(t, other); binary.BigEndian.Uint32(body) != 7 || len(body) < smallAnswer {
		t.Errorf("another host's answer has %d bytes", len(body))
	}
	for _, c := range append(clients, other) {
		c.Close()
	}
	waitFor(t, "connections to end", func() bool { return s.external.conns.Load() == 0 })
	if !freeAll(s.external) {
		t.Error("bytes were not given back")
	}
}
