package broker

import (
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rowtrail/rowtrail/log/record"
)

// askRaw sends one request in exactly its version; a client would choose its own.
func askRaw[R kmsg.Response](t testing.TB, c net.Conn, req kmsg.Request) R {
	t.Helper()
	if _, err := c.Write(request1(1, req)); err != nil {
		t.Fatal(err)
	}
	body := readFramed(t, c)[4:]
	if req.IsFlexible() {
		body = body[1:]
	}
	resp := req.ResponseKind()
	if err := resp.ReadFrom(body); err != nil {
		t.Fatal(err)
	}
	return resp.(R)
}

func fetchRequest(version int16, topic string, id [16]byte, offset int64) *kmsg.FetchRequest {
	req := kmsg.NewPtrFetchRequest()
	req.Version, req.MaxBytes = version, 1<<20
	rt := kmsg.NewFetchRequestTopic()
	rt.Topic, rt.TopicID = topic, id
	rp := kmsg.NewFetchRequestTopicPartition()
	rp.FetchOffset, rp.PartitionMaxBytes, rp.CurrentLeaderEpoch, rp.LastFetchedEpoch = offset, 1<<20, -1, -1
	rt.Partitions = append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	return req
}

// A fetch from within a batch gets the whole batch; sessions are declined; a client that is ahead of us learns where we are.
func TestFetchShapes(t *testing.T) {
	s := serve(t)
	create(t, s, "t", 1, nil)
	if got := s.producer(t).produce("t", batchOf("a", "b", "c")); got.ErrorCode != 0 {
		t.Fatal(got)
	}
	c := dial(t, s.addr)
	for offset, want := range map[int64]int{0: 1, 1: 1, 2: 1, 3: 0} {
		p := askRaw[*kmsg.FetchResponse](t, c, fetchRequest(12, "t", zeroID, offset)).Topics[0].Partitions[0]
		n := 0
		for rest := p.RecordBatches; len(rest) > 0; n++ {
			batch, next, err := record.Next(rest)
			if err != nil {
				t.Fatal(err)
			}
			if h, err := record.ParseHeader(batch); err != nil || h.BaseOffset != 0 || h.Count != 3 {
				t.Fatalf("%v, %+v", err, h)
			}
			rest = next
		}
		if p.ErrorCode != 0 || n != want || p.HighWatermark != 3 || p.LastStableOffset != 3 || p.LogStartOffset != 0 || p.AbortedTransactions != nil || p.PreferredReadReplica != -1 {
			t.Errorf("from %d: %d batches, %+v", offset, n, p)
		}
	}
	if got := askRaw[*kmsg.FetchResponse](t, c, fetchRequest(12, "t", zeroID, 0)); got.SessionID != 0 {
		t.Errorf("a session: %d", got.SessionID)
	}
	for name, change := range map[string]func(*kmsg.FetchRequest){
		"a session of another node": func(r *kmsg.FetchRequest) { r.SessionID, r.SessionEpoch = 77, 1 },
		"the next epoch of none":    func(r *kmsg.FetchRequest) { r.SessionEpoch = 3 },
	} {
		req := fetchRequest(12, "t", zeroID, 0)
		change(req)
		if got := askRaw[*kmsg.FetchResponse](t, c, req); got.ErrorCode != kerr.FetchSessionIDNotFound.Code {
			t.Errorf("%s: %+v", name, got)
		}
	}
	r, err := s.node.Replica("t", 0)
	if err != nil {
		t.Fatal(err)
	}
	_, epoch, _ := r.Leader()
	ahead := fetchRequest(12, "t", zeroID, 9)
	ahead.Topics[0].Partitions[0].LastFetchedEpoch = epoch
	if d := askRaw[*kmsg.FetchResponse](t, c, ahead).Topics[0].Partitions[0].DivergingEpoch; d.Epoch != epoch || d.EndOffset != 3 {
		t.Errorf("diverging: %+v", d)
	}
	// First come, first served: with room for one batch the partition that is named first has it.
	create(t, s, "two", 2, nil)
	cl := s.client(t, true, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	for p := range int32(2) {
		if err := cl.ProduceSync(t.Context(), &kgo.Record{Topic: "two", Partition: p, Value: make([]byte, 1000)}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	for _, first := range []int32{0, 1} {
		req := fetchRequest(12, "two", zeroID, 0)
		other := req.Topics[0].Partitions[0]
		req.Topics[0].Partitions[0].Partition, other.Partition = first, 1-first
		req.Topics[0].Partitions = append(req.Topics[0].Partitions, other)
		req.MaxBytes = 10
		got := askRaw[*kmsg.FetchResponse](t, c, req).Topics[0].Partitions
		if len(got[0].RecordBatches) == 0 || len(got[1].RecordBatches) != 0 || got[0].Partition != first {
			t.Errorf("partition %d first: %d and %d bytes", first, len(got[0].RecordBatches), len(got[1].RecordBatches))
		}
	}
}

// A topic that is created again has another id and higher epochs; its old id is unknown.
func TestRecreatedTopic(t *testing.T) {
	s := serve(t)
	create(t, s, "t", 1, nil)
	old := s.node.Catalog().Topics["t"]
	r, err := s.node.Replica("t", 0)
	if err != nil {
		t.Fatal(err)
	}
	_, before, _ := r.Leader()
	if _, err := kadm.NewClient(s.client(t, false)).DeleteTopics(t.Context(), "t"); err != nil {
		t.Fatal(err)
	}
	create(t, s, "t", 1, nil)
	if r, err = s.node.Replica("t", 0); err != nil {
		t.Fatal(err)
	}
	if _, after, self := r.Leader(); !self || after <= before || s.node.Catalog().Topics["t"].ID == old.ID {
		t.Errorf("epoch %d after %d", after, before)
	}
	got := askRaw[*kmsg.FetchResponse](t, dial(t, s.addr), fetchRequest(13, "", old.ID, 0)).Topics[0].Partitions[0]
	if got.ErrorCode != kerr.UnknownTopicID.Code {
		t.Errorf("fetch by the old id: %+v", got)
	}
}

func TestMetadataShapes(t *testing.T) {
	s := serve(t)
	create(t, s, "t", 2, nil)
	c := dial(t, s.addr)
	get := func(version int16, auto bool, names []string) *kmsg.MetadataResponse {
		t.Helper()
		req := kmsg.NewPtrMetadataRequest()
		req.Version, req.AllowAutoTopicCreation = version, auto
		if names != nil {
			req.Topics = []kmsg.MetadataRequestTopic{}
		}
		for _, name := range names {
			rt := kmsg.NewMetadataRequestTopic()
			rt.Topic = &name
			req.Topics = append(req.Topics, rt)
		}
		return askRaw[*kmsg.MetadataResponse](t, c, req)
	}
	for _, tt := range []struct {
		name    string
		version int16
		auto    bool
		names   []string
		want    string
	}{
		{"null is all", 1, false, nil, "[__consumer_offsets 0 true __transaction_state 0 true t 0 false]"},
		{"empty is none", 1, false, []string{}, "[]"},
		{"empty is all in version 0", 0, false, []string{}, "[__consumer_offsets 0 false __transaction_state 0 false t 0 false]"},
		{"missing", 12, false, []string{"nope", "t"}, "[nope 3 false t 0 false]"},
		{"created", 12, true, []string{"fresh"}, "[fresh 0 false]"},
		{"a bad name", 12, true, []string{"a b"}, "[a b 17 false]"},
		{"an internal name", 12, true, []string{"__consumer_offsets"}, "[__consumer_offsets 0 true]"},
	} {
		resp := get(tt.version, tt.auto, tt.names)
		var got []string
		for _, mt := range resp.Topics {
			got = append(got, fmt.Sprint(*mt.Topic, " ", mt.ErrorCode, " ", mt.IsInternal))
			for _, p := range mt.Partitions {
				if p.Leader != 1 || tt.version >= 7 && p.LeaderEpoch < 1 || tt.version >= 10 && mt.TopicID == zeroID {
					t.Errorf("%s: %s %+v", tt.name, *mt.Topic, p)
				}
			}
		}
		if fmt.Sprint(got) != tt.want {
			t.Errorf("%s: %v, want %s", tt.name, got, tt.want)
		}
		if len(resp.Brokers) != 1 || resp.Brokers[0].NodeID != 1 || tt.version >= 1 && resp.ControllerID != 1 || tt.version >= 2 && (resp.ClusterID == nil || *resp.ClusterID == "") {
			t.Errorf("%s: cluster %+v", tt.name, resp)
		}
	}
}

func TestCreateTopicsShapes(t *testing.T) {
	s := serve(t)
	c := dial(t, s.addr)
	assign := func(pairs ...int32) (out []kmsg.CreateTopicsRequestTopicReplicaAssignment) {
		for i := 0; i < len(pairs); i += 2 {
			a := kmsg.NewCreateTopicsRequestTopicReplicaAssignment()
			a.Partition, a.Replicas = pairs[i], []int32{pairs[i+1]}
			out = append(out, a)
		}
		return out
	}
	create := func(validate bool, name string, partitions int32, rf int16, as []kmsg.CreateTopicsRequestTopicReplicaAssignment, config ...string) kmsg.CreateTopicsRequestTopic {
		rt := kmsg.NewCreateTopicsRequestTopic()
		rt.Topic, rt.NumPartitions, rt.ReplicationFactor, rt.ReplicaAssignment = name, partitions, rf, as
		for i := 0; i < len(config); i += 2 {
			rc := kmsg.NewCreateTopicsRequestTopicConfig()
			rc.Name = config[i]
			if config[i+1] != "null" {
				rc.Value = &config[i+1]
			}
			rt.Configs = append(rt.Configs, rc)
		}
		return rt
	}
	for _, tt := range []struct {
		name     string
		validate bool
		topics   []kmsg.CreateTopicsRequestTopic
		want     []*kerr.Error
		says     string
	}{
		{"defaults", false, []kmsg.CreateTopicsRequestTopic{create(false, "d", -1, -1, nil)}, []*kerr.Error{nil}, ""},
		{"one replica", false, []kmsg.CreateTopicsRequestTopic{create(false, "one", 2, 1, nil)}, []*kerr.Error{nil}, ""},
		{"two replicas", false, []kmsg.CreateTopicsRequestTopic{create(false, "two", 2, 2, nil)}, []*kerr.Error{kerr.InvalidReplicationFactor}, "ask for -1 or 1"},
		{"no replicas", false, []kmsg.CreateTopicsRequestTopic{create(false, "two", 2, 0, nil)}, []*kerr.Error{kerr.InvalidReplicationFactor}, ""},
		{"an assignment", false, []kmsg.CreateTopicsRequestTopic{create(false, "as", -1, -1, assign(1, 1, 0, 1))}, []*kerr.Error{nil}, ""},
		{"an assignment elsewhere", false, []kmsg.CreateTopicsRequestTopic{create(false, "as2", -1, -1, assign(0, 2))}, []*kerr.Error{kerr.InvalidReplicaAssignment}, "1"},
		{"an assignment with a gap", false, []kmsg.CreateTopicsRequestTopic{create(false, "as2", -1, -1, assign(0, 1, 2, 1))}, []*kerr.Error{kerr.InvalidReplicaAssignment}, "gaps"},
		{"an assignment and counts", false, []kmsg.CreateTopicsRequestTopic{create(false, "as2", 1, 1, assign(0, 1))}, []*kerr.Error{kerr.InvalidRequest}, ""},
		{"one bad of three", false, []kmsg.CreateTopicsRequestTopic{create(false, "x", 1, 1, nil), create(false, "y y", 1, 1, nil), create(false, "z", 1, 1, nil)},
			[]*kerr.Error{nil, kerr.InvalidTopicException, nil}, ""},
		{"twice", false, []kmsg.CreateTopicsRequestTopic{create(false, "tw", 1, 1, nil), create(false, "tw", 1, 1, nil)}, []*kerr.Error{kerr.InvalidRequest, kerr.InvalidRequest}, ""},
		{"a name", false, []kmsg.CreateTopicsRequestTopic{create(false, "my.topic", 1, 1, nil)}, []*kerr.Error{nil}, ""},
		{"a name that metrics do not tell apart", false, []kmsg.CreateTopicsRequestTopic{create(false, "my_topic", 1, 1, nil)}, []*kerr.Error{kerr.InvalidTopicException}, "my.topic"},
		{"the same, validated", true, []kmsg.CreateTopicsRequestTopic{create(true, "my_topic", 1, 1, nil)}, []*kerr.Error{kerr.InvalidTopicException}, "my.topic"},
		{"validated", true, []kmsg.CreateTopicsRequestTopic{create(true, "v", 3, 1, nil, "retention.ms", "5")}, []*kerr.Error{nil}, ""},
		{"a property without a value", false, []kmsg.CreateTopicsRequestTopic{create(false, "n", 1, 1, nil, "retention.ms", "null")}, []*kerr.Error{kerr.InvalidConfig}, "retention.ms"},
		{"lags that exclude each other", true, []kmsg.CreateTopicsRequestTopic{create(false, "n", 1, 1, nil, "min.compaction.lag.ms", "2", "max.compaction.lag.ms", "1")}, []*kerr.Error{kerr.InvalidConfig}, "min.compaction.lag.ms"},
	} {
		req := kmsg.NewPtrCreateTopicsRequest()
		req.Version, req.Topics, req.ValidateOnly = 7, tt.topics, tt.validate
		resp := askRaw[*kmsg.CreateTopicsResponse](t, c, req)
		if len(resp.Topics) != len(tt.want) {
			t.Fatalf("%s: %d results", tt.name, len(resp.Topics))
		}
		for i, st := range resp.Topics {
			want := int16(0)
			if tt.want[i] != nil {
				want = tt.want[i].Code
			}
			text := ""
			if st.ErrorMessage != nil {
				text = *st.ErrorMessage
			}
			if st.ErrorCode != want || st.Topic != tt.topics[i].Topic || !strings.Contains(text, tt.says) {
				t.Errorf("%s: %s code %d %q, want %d", tt.name, st.Topic, st.ErrorCode, text, want)
			}
			// Java's admin client takes null for a promise of an error code beside it.
			if st.Configs == nil || want == 0 && (len(st.Configs) == 0 || st.NumPartitions < 1 || st.ReplicationFactor != 1) {
				t.Errorf("%s: %+v", tt.name, st)
			}
			if _, exists := s.node.Catalog().Topics[st.Topic]; exists == tt.validate && want == 0 {
				t.Errorf("%s: topic %s exists: %v", tt.name, st.Topic, exists)
			}
		}
	}
	if got := len(s.node.Catalog().Topics["as"].Partitions); got != 2 {
		t.Errorf("%d partitions of the assignment", got)
	}
}

// Every topic that is asked for is in the answer, whatever became of it.
func TestCreatePartitionsEchoesTopics(t *testing.T) {
	s := serve(t)
	create(t, s, "t", 1, nil)
	req := kmsg.NewPtrCreatePartitionsRequest()
	req.Version = 3
	for name, count := range map[string]int32{"t": 2, "nope": 2, "__consumer_offsets": 100} {
		rt := kmsg.NewCreatePartitionsRequestTopic()
		rt.Topic, rt.Count = name, count
		req.Topics = append(req.Topics, rt)
	}
	got := map[string]int16{}
	for _, st := range askRaw[*kmsg.CreatePartitionsResponse](t, dial(t, s.addr), req).Topics {
		got[st.Topic] = st.ErrorCode
	}
	want := map[string]int16{"t": 0, "nope": kerr.UnknownTopicOrPartition.Code, "__consumer_offsets": kerr.InvalidTopicException.Code}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestFindCoordinatorShapes(t *testing.T) {
	s := serve(t)
	c := dial(t, s.addr)
	for _, version := range []int16{0, 1, 3} {
		req := kmsg.NewPtrFindCoordinatorRequest()
		req.Version, req.CoordinatorKey = version, "g"
		if r := askRaw[*kmsg.FindCoordinatorResponse](t, c, req); r.ErrorCode != 0 || r.NodeID != 1 || r.Host != "127.0.0.1" || r.Port != s.opts.AdvertisedPort || len(r.Coordinators) != 0 {
			t.Errorf("v%d: %+v", version, r)
		}
	}
	req := kmsg.NewPtrFindCoordinatorRequest()
	req.Version, req.CoordinatorType, req.CoordinatorKeys = 6, coordinatorTxn, []string{"a", "", "b"}
	r := askRaw[*kmsg.FindCoordinatorResponse](t, c, req)
	var got []string
	for _, k := range r.Coordinators {
		got = append(got, fmt.Sprint(k.Key, k.ErrorCode, k.NodeID))
	}
	if fmt.Sprint(got) != "[a0 1 42 -1 b0 1]" {
		t.Errorf("batched: %v", got)
	}
	bad := kmsg.NewPtrFindCoordinatorRequest()
	bad.Version, bad.CoordinatorType, bad.CoordinatorKeys = 6, 9, []string{"a"}
	if r := askRaw[*kmsg.FindCoordinatorResponse](t, c, bad); r.Coordinators[0].ErrorCode != kerr.InvalidRequest.Code {
		t.Errorf("unknown type: %+v", r)
	}
}

// zstd came with Produce 7; the start of the log is told from version 5 on.
func TestProduceVersions(t *testing.T) {
	s := serve(t)
	create(t, s, "t", 1, nil)
	c := dial(t, s.addr)
	w := record.NewRewriter(1 << 20)
	zstd, err := w.Recompress(nil, batchOf(strings.Repeat("v", 100)), record.Zstd, 3)
	if err != nil {
		t.Fatal(err)
	}
	for version, want := range map[int16]int16{6: kerr.UnsupportedCompressionType.Code, 7: 0} {
		req := produceRequest("t", -1, append([]byte(nil), zstd...))
		req.Version = version
		if got := askRaw[*kmsg.ProduceResponse](t, c, req).Topics[0].Partitions[0]; got.ErrorCode != want {
			t.Errorf("zstd in v%d: %+v", version, got)
		}
	}
	if _, err := kadm.NewClient(s.client(t, false)).DeleteRecords(t.Context(), kadm.Offsets{"t": {0: {Topic: "t", At: 1}}}); err != nil {
		t.Fatal(err)
	}
	if got := askRaw[*kmsg.ProduceResponse](t, c, produceRequest("t", -1, batchOf("v"))).Topics[0].Partitions[0]; got.LogStartOffset != 1 || got.BaseOffset != 1 || got.LogAppendTime != -1 {
		t.Errorf("after records were deleted: %+v", got)
	}
}
