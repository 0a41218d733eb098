package broker

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rowtrail/rowtrail/cluster"
	"github.com/rowtrail/rowtrail/log/record"
)

func TestElectLeaders(t *testing.T) {
	s := serve(t)
	create(t, s, "t", 2, nil)
	cl := s.client(t, false)
	for _, c := range []struct {
		name  string
		kind  int8
		parts []int32
		topic string
		want  []int16
	}{
		{"preferred", 0, []int32{0, 1, 2}, "t", []int16{kerr.ElectionNotNeeded.Code, kerr.ElectionNotNeeded.Code, kerr.UnknownTopicOrPartition.Code}},
		{"unclean", 1, []int32{0}, "t", []int16{kerr.ElectionNotNeeded.Code}},
		{"missing", 0, []int32{0}, "nope", []int16{kerr.UnknownTopicOrPartition.Code}},
	} {
		req := kmsg.NewPtrElectLeadersRequest()
		req.ElectionType = c.kind
		rt := kmsg.NewElectLeadersRequestTopic()
		rt.Topic, rt.Partitions = c.topic, c.parts
		req.Topics = append(req.Topics, rt)
		resp, err := req.RequestWith(t.Context(), cl)
		if err != nil {
			t.Fatal(err)
		}
		var got []int16
		for _, p := range resp.Topics[0].Partitions {
			got = append(got, p.ErrorCode)
		}
		if !slices.Equal(got, c.want) || resp.ErrorCode != 0 {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
	all := kmsg.NewPtrElectLeadersRequest()
	all.Topics = nil
	if resp, err := all.RequestWith(t.Context(), cl); err != nil || resp.ErrorCode != 0 || len(resp.Topics) != 0 {
		t.Errorf("all: %v, %+v", err, resp)
	}
}

func TestReassignments(t *testing.T) {
	s := serve(t)
	create(t, s, "t", 1, nil)
	cl := s.client(t, false)
	alter := func(topic string, partition int32, replicas []int32, anyFactor bool) int16 {
		t.Helper()
		req := kmsg.NewPtrAlterPartitionAssignmentsRequest()
		req.AllowReplicationFactorChange = anyFactor
		rt := kmsg.NewAlterPartitionAssignmentsRequestTopic()
		rt.Topic = topic
		rp := kmsg.NewAlterPartitionAssignmentsRequestTopicPartition()
		rp.Partition, rp.Replicas = partition, replicas
		rt.Partitions = append(rt.Partitions, rp)
		req.Topics = append(req.Topics, rt)
		resp, err := req.RequestWith(t.Context(), cl)
		if err != nil || len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 {
			t.Fatalf("%v, %+v", err, resp)
		}
		return resp.Topics[0].Partitions[0].ErrorCode
	}
	for _, c := range []struct {
		name      string
		topic     string
		partition int32
		replicas  []int32
		any       bool
		want      int16
	}{
		{"where it is", "t", 0, []int32{1}, true, 0},
		{"cancel", "t", 0, nil, true, kerr.NoReassignmentInProgress.Code},
		{"elsewhere", "t", 0, []int32{2}, true, kerr.InvalidReplicaAssignment.Code},
		{"more", "t", 0, []int32{1, 2}, true, kerr.InvalidReplicaAssignment.Code},
		{"more, not allowed", "t", 0, []int32{1, 2}, false, kerr.InvalidReplicationFactor.Code},
		{"no partition", "t", 1, []int32{1}, true, kerr.UnknownTopicOrPartition.Code},
		{"no topic", "nope", 0, []int32{1}, true, kerr.UnknownTopicOrPartition.Code},
	} {
		if got := alter(c.topic, c.partition, c.replicas, c.any); got != c.want {
			t.Errorf("%s: code %d, want %d", c.name, got, c.want)
		}
	}
	list := kmsg.NewPtrListPartitionReassignmentsRequest()
	if resp, err := list.RequestWith(t.Context(), cl); err != nil || resp.ErrorCode != 0 || len(resp.Topics) != 0 {
		t.Errorf("list: %v, %+v", err, resp)
	}
}

func TestDescribeQuorum(t *testing.T) {
	s := serve(t)
	create(t, s, "t", 1, nil)
	req := kmsg.NewPtrDescribeQuorumRequest()
	for _, topic := range []string{cluster.ControllerTopic, "t"} {
		rt := kmsg.NewDescribeQuorumRequestTopic()
		rt.Topic = topic
		rt.Partitions = append(rt.Partitions, kmsg.NewDescribeQuorumRequestTopicPartition())
		req.Topics = append(req.Topics, rt)
	}
	resp, err := req.RequestWith(t.Context(), s.client(t, false))
	if err != nil || len(resp.Topics) != 2 {
		t.Fatalf("%v, %+v", err, resp)
	}
	p := resp.Topics[0].Partitions[0]
	if p.ErrorCode != 0 || p.LeaderID != 1 || p.LeaderEpoch < 1 || p.HighWatermark < 1 || len(p.CurrentVoters) != 1 ||
		p.CurrentVoters[0].ReplicaID != 1 || p.CurrentVoters[0].LogEndOffset < p.HighWatermark || p.CurrentVoters[0].LastCaughtUpTimestamp < 1 {
		t.Errorf("quorum: %+v", p)
	}
	if n := resp.Nodes; len(n) != 1 || n[0].NodeID != 1 || n[0].Listeners[0].Port != uint16(s.opts.AdvertisedPort) {
		t.Errorf("nodes: %+v", n)
	}
	if other := resp.Topics[1].Partitions[0]; other.ErrorCode != kerr.UnknownTopicOrPartition.Code {
		t.Errorf("another topic: %+v", other)
	}
}

func TestUpdateFeatures(t *testing.T) {
	s := serve(t)
	f := features()[0]
	for _, version := range []int16{0, 1, 2} {
		for _, c := range []struct {
			name  string
			level int16
			want  int16
		}{{f.name, f.finalized, 0}, {f.name, f.finalized + 1, kerr.InvalidUpdateVersion.Code}, {"metadata.version", 7, kerr.InvalidUpdateVersion.Code}} {
			req := kmsg.NewPtrUpdateFeaturesRequest()
			req.Version = version
			u := kmsg.NewUpdateFeaturesRequestFeatureUpdate()
			u.Feature, u.MaxVersionLevel = c.name, c.level
			req.FeatureUpdates = append(req.FeatureUpdates, u)
			r, err := s.handleUpdateFeatures(t.Context(), &request{req: req})
			resp := r.(*kmsg.UpdateFeaturesResponse)
			got := resp.ErrorCode
			if len(resp.Results) > 0 {
				got = resp.Results[0].ErrorCode
			}
			if err != nil || got != c.want || version >= 2 && c.want != 0 && resp.ErrorCode != c.want || version < 2 && resp.ErrorCode != 0 {
				t.Errorf("v%d %s to %d: %+v, %v", version, c.name, c.level, resp, err)
			}
		}
	}
}

// Pages of every size add up to all partitions, in order, each once.
func TestDescribeTopicPartitionsInPages(t *testing.T) {
	s := serve(t)
	for topic, n := range map[string]int32{"a": 3, "b": 1, "c": 5} {
		create(t, s, topic, n, nil)
	}
	cl := s.client(t, false)
	pages := func(limit int32, topics ...string) (out []string) {
		t.Helper()
		var cursor *kmsg.DescribeTopicPartitionsRequestCursor
		for range 100 {
			req := kmsg.NewPtrDescribeTopicPartitionsRequest()
			req.ResponsePartitionLimit, req.Cursor = limit, cursor
			for _, topic := range topics {
				rt := kmsg.NewDescribeTopicPartitionsRequestTopic()
				rt.Topic = topic
				req.Topics = append(req.Topics, rt)
			}
			resp, err := req.RequestWith(t.Context(), cl)
			if err != nil {
				t.Fatal(err)
			}
			count := int32(0)
			for _, rt := range resp.Topics {
				if rt.ErrorCode != 0 {
					out = append(out, fmt.Sprintf("%s error %d", *rt.Topic, rt.ErrorCode))
				}
				for _, p := range rt.Partitions {
					count++
					if p.ErrorCode != 0 || p.LeaderID != 1 || p.LeaderEpoch < 1 || len(p.Replicas) != 1 || len(p.ISR) != 1 || rt.TopicID == zeroID {
						t.Fatalf("%s: %+v", *rt.Topic, p)
					}
					if p.EligibleLeaderReplicas == nil || p.LastKnownELR == nil {
						t.Fatalf("%s: null where Java's admin client needs a list: %+v", *rt.Topic, p)
					}
					out = append(out, fmt.Sprintf("%s-%d", *rt.Topic, p.Partition))
				}
			}
			if count > max(limit, 1) {
				t.Fatalf("%d partitions in a page of %d", count, limit)
			}
			if resp.NextCursor == nil {
				return out
			}
			c := kmsg.NewDescribeTopicPartitionsRequestCursor()
			c.Topic, c.Partition = resp.NextCursor.Topic, resp.NextCursor.Partition
			cursor = &c
		}
		t.Fatal("pages without end")
		return nil
	}
	want := "[a-0 a-1 a-2 b-0 c-0 c-1 c-2 c-3 c-4]"
	for limit := int32(-1); limit < 11; limit++ {
		if got := fmt.Sprint(pages(limit, "c", "a", "b", "a")); got != want {
			t.Errorf("limit %d: %s", limit, got)
		}
	}
	if got := fmt.Sprint(pages(2000, "b", "nope")); got != "[b-0 nope error 3]" {
		t.Errorf("a missing topic: %s", got)
	}
	if got := fmt.Sprint(pages(4)); !strings.Contains(got, "__consumer_offsets-0") || !strings.Contains(got, "a-0 a-1 a-2 b-0 c-0 c-1 c-2 c-3 c-4") {
		t.Errorf("all: %s", got)
	}
}

// KIP-951: a client that is wrong about the leader learns which it is, and where.
func TestLeaderHints(t *testing.T) {
	s := serve(t)
	create(t, s, "t", 1, nil)
	cl := s.client(t, false)
	md, err := kadm.NewClient(cl).ListTopics(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	epoch := md["t"].Partitions[0].LeaderEpoch
	req := kmsg.NewPtrFetchRequest()
	rt := kmsg.NewFetchRequestTopic()
	rt.TopicID, rt.Topic = md["t"].ID, "t"
	rp := kmsg.NewFetchRequestTopicPartition()
	rp.CurrentLeaderEpoch, rp.LastFetchedEpoch = epoch-1, -1
	rt.Partitions = append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	resp, err := req.RequestWith(t.Context(), cl)
	if err != nil {
		t.Fatal(err)
	}
	p := resp.Topics[0].Partitions[0]
	if p.ErrorCode != kerr.FencedLeaderEpoch.Code || p.CurrentLeader.LeaderID != 1 || p.CurrentLeader.LeaderEpoch != epoch {
		t.Errorf("fetch: %+v", p)
	}
	if b := resp.Brokers; len(b) != 1 || b[0].NodeID != 1 || b[0].Port != s.opts.AdvertisedPort || b[0].Host != "127.0.0.1" {
		t.Errorf("fetch endpoints: %+v", b)
	}
	for version, hinted := range map[int16]bool{9: false, 10: true, 13: true} {
		out := kmsg.NewPtrProduceResponse()
		out.Version = version
		st := kmsg.NewProduceResponseTopic()
		st.Topic, st.TopicID = "t", md["t"].ID
		bad, good := kmsg.NewProduceResponseTopicPartition(), kmsg.NewProduceResponseTopicPartition()
		st.Partitions = append(st.Partitions, bad, good)
		out.Topics = append(out.Topics, st)
		pr := &production{b: s.Broker, resp: out, acks: -1}
		pr.left.Store(2)
		pr.done = func(kmsg.Response, error) {}
		pr.refuse(&st.Partitions[0], kerr.NotLeaderForPartition)
		pr.finish()
		got := st.Partitions[0].CurrentLeader
		if (got.LeaderID == 1 && got.LeaderEpoch == epoch && len(out.Brokers) == 1) != hinted || st.Partitions[1].CurrentLeader.LeaderID != -1 {
			t.Errorf("produce v%d: %+v, %+v", version, got, out.Brokers)
		}
	}
}

// Batches are stored in the topic's codec, whatever the producer's, with the same records, offsets and producer state.
func TestCompressionType(t *testing.T) {
	s := serve(t)
	adm := kadm.NewClient(s.client(t, false))
	codecs := map[string]record.Codec{"uncompressed": record.None, "gzip": record.Gzip, "snappy": record.Snappy, "lz4": record.LZ4, "zstd": record.Zstd}
	sent := map[string]kgo.CompressionCodec{"uncompressed": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
		"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression()}
	value := []byte(strings.Repeat("the same again ", 200))
	for topicCodec := range codecs {
		topic := "t-" + topicCodec
		create(t, s, topic, 1, map[string]*string{"compression.type": &topicCodec})
		n := 0
		for _, c := range sent {
			cl := s.client(t, false, kgo.DefaultProduceTopic(topic), kgo.ProducerBatchCompression(c))
			for range 3 {
				if err := cl.ProduceSync(t.Context(), &kgo.Record{Key: fmt.Append(nil, n), Value: value, Headers: []kgo.RecordHeader{{Key: "h", Value: []byte("v")}}}).FirstErr(); err != nil {
					t.Fatal(err)
				}
				n++
			}
		}
		for _, got := range storedCodecs(t, s, topic) {
			if got != codecs[topicCodec] {
				t.Errorf("topic of %s has a batch in codec %d", topicCodec, got)
			}
		}
		rd := s.client(t, false, kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
		for i, r := range consume(t, rd, n) {
			if string(r.Key) != fmt.Sprint(i) || string(r.Value) != string(value) || r.Offset != int64(i) || len(r.Headers) != 1 {
				t.Fatalf("%s: record %d is %+v", topicCodec, i, r)
			}
		}
	}
	// The codec changes with the configuration, on a partition that is open.
	set := func(name, value string) {
		t.Helper()
		rs, err := adm.AlterTopicConfigs(t.Context(), []kadm.AlterConfig{{Op: kadm.SetConfig, Name: name, Value: &value}}, "t-gzip")
		if err != nil || rs[0].Err != nil {
			t.Fatal(err, rs)
		}
	}
	cl := s.client(t, false, kgo.DefaultProduceTopic("t-gzip"), kgo.ProducerBatchCompression(kgo.SnappyCompression()))
	last := func() record.Codec {
		t.Helper()
		if err := cl.ProduceSync(t.Context(), &kgo.Record{Value: value}).FirstErr(); err != nil {
			t.Fatal(err)
		}
		all := storedCodecs(t, s, "t-gzip")
		return all[len(all)-1]
	}
	for kind, want := range map[string]record.Codec{"zstd": record.Zstd, "producer": record.Snappy, "lz4": record.LZ4} {
		set("compression.type", kind)
		if got := last(); got != want {
			t.Errorf("compression.type %s: codec %d", kind, got)
		}
	}
	// What fits as it was sent may not fit in the topic's codec.
	set("compression.type", "uncompressed")
	set("max.message.bytes", "1000")
	if err := cl.ProduceSync(t.Context(), &kgo.Record{Value: value}).FirstErr(); err == nil || !strings.Contains(err.Error(), "MESSAGE_TOO_LARGE") {
		t.Errorf("a batch that grew: %v", err)
	}
}

func storedCodecs(t testing.TB, s *served, topic string) (out []record.Codec) {
	t.Helper()
	r, err := s.node.Replica(topic, 0)
	if err != nil {
		t.Fatal(err)
	}
	m := r.Log().Marks()
	for next := m.LogStart; next < m.HighWatermark; {
		res, err := r.Log().Read(next, 1<<20, true, 0)
		if err != nil {
			t.Fatal(err)
		}
		for rest := res.Batches; len(rest) > 0; {
			var batch []byte
			if batch, rest, err = record.Next(rest); err != nil {
				t.Fatal(err)
			}
			h, err := record.ParseHeader(batch)
			if err != nil {
				t.Fatal(err)
			}
			out, next = append(out, h.Codec()), h.LastOffset()+1
		}
	}
	return out
}
