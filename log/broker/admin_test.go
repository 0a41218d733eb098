package broker

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rowtrail/rowtrail/cluster/topicconfig"
)

func TestTopicLifecycle(t *testing.T) {
	s := serve(t)
	adm := kadm.NewClient(s.client(t, false))
	ctx := t.Context()
	for _, bad := range []string{"", ".", "..", "a b", "ü", strings.Repeat("x", 250)} {
		if _, err := adm.CreateTopic(ctx, 1, 1, nil, bad); !errors.Is(err, kerr.InvalidTopicException) {
			t.Errorf("topic name %q: %v", bad, err)
		}
	}
	if _, err := adm.CreateTopic(ctx, 1, 3, nil, "rf"); !errors.Is(err, kerr.InvalidReplicationFactor) {
		t.Errorf("replication factor 3: %v", err)
	}
	if _, err := adm.CreateTopic(ctx, 0, 1, nil, "none"); !errors.Is(err, kerr.InvalidPartitions) {
		t.Errorf("no partitions: %v", err)
	}
	if _, err := adm.ValidateCreateTopics(ctx, 2, 1, nil, "t"); err != nil {
		t.Errorf("validate: %v", err)
	}
	if d, err := adm.ListTopics(ctx); err != nil || len(d) != 0 {
		t.Fatalf("validating created something: %v, %v", d, err)
	}
	r, err := adm.CreateTopic(ctx, 2, -1, map[string]*string{"retention.ms": kadm.StringPtr("1000")}, "t")
	if err != nil {
		t.Fatal(err)
	}
	if r.NumPartitions != 2 || r.ReplicationFactor != 1 || *r.Configs["retention.ms"].Value != "1000" || len(r.Configs) != len(topicconfig.All()) {
		t.Errorf("created: %+v", r)
	}
	if _, err := adm.CreateTopic(ctx, 2, 1, nil, "t"); !errors.Is(err, kerr.TopicAlreadyExists) {
		t.Errorf("twice: %v", err)
	}
	if _, err := adm.ValidateCreateTopics(ctx, 2, 1, nil, "t"); err == nil {
		rs, _ := adm.ValidateCreateTopics(ctx, 2, 1, nil, "t")
		if !errors.Is(rs["t"].Err, kerr.TopicAlreadyExists) {
			t.Errorf("validate twice: %v", rs["t"].Err)
		}
	}

	cp, err := adm.CreatePartitions(ctx, 3, "t")
	if err != nil || cp["t"].Err != nil {
		t.Fatalf("add partitions: %v, %+v", err, cp)
	}
	if cp, err := adm.ValidateCreatePartitions(ctx, 20_000, "t"); err != nil || !errors.Is(cp["t"].Err, kerr.InvalidPartitions) {
		t.Errorf("validate too many partitions: %v, %+v", err, cp)
	}
	if cp, err := adm.ValidateCreatePartitions(ctx, 1, "t"); err != nil || cp["t"].Err != nil {
		t.Errorf("validate one more partition: %v, %+v", err, cp)
	}
	if cp, _ := adm.CreatePartitions(ctx, -1, "t"); !errors.Is(cp["t"].Err, kerr.InvalidPartitions) {
		t.Errorf("fewer partitions: %+v", cp)
	}
	if cp, _ := adm.CreatePartitions(ctx, 1, "nope"); cp["nope"].Err == nil && len(cp) == 0 {
		t.Errorf("partitions of a missing topic: %+v", cp)
	}
	adm = kadm.NewClient(s.client(t, false)) // clients remember metadata for a while
	d, err := adm.ListTopics(ctx)
	if err != nil || len(d["t"].Partitions) != 5 {
		t.Fatalf("metadata: %+v, %v", d, err)
	}
	for _, p := range d["t"].Partitions {
		if p.Leader != 1 || !slices.Equal(p.Replicas, []int32{1}) || !slices.Equal(p.ISR, []int32{1}) || p.Err != nil {
			t.Errorf("partition: %+v", p)
		}
	}
	first := d["t"].ID
	dr, err := adm.DeleteTopics(ctx, "t", "nope")
	if err != nil || dr["t"].Err != nil || !errors.Is(dr["nope"].Err, kerr.UnknownTopicOrPartition) {
		t.Fatalf("delete: %v, %+v", err, dr)
	}
	create(t, s, "t", 1, nil)
	adm = kadm.NewClient(s.client(t, false))
	d, err = adm.ListTopics(ctx)
	if err != nil || d["t"].ID == first || len(d["t"].Partitions) != 1 {
		t.Fatalf("recreated topic: %+v, %v", d["t"], err)
	}
	byID := kmsg.NewPtrDeleteTopicsRequest()
	rt := kmsg.NewDeleteTopicsRequestTopic()
	rt.TopicID = d["t"].ID
	byID.Topics = append(byID.Topics, rt)
	resp, err := byID.RequestWith(ctx, s.client(t, false))
	if err != nil || resp.Topics[0].ErrorCode != 0 || *resp.Topics[0].Topic != "t" {
		t.Fatalf("delete by id: %+v, %v", resp, err)
	}
	cluster, err := adm.BrokerMetadata(ctx)
	if err != nil || len(cluster.Brokers) != 1 || cluster.Controller != 1 || cluster.Cluster == "" {
		t.Errorf("cluster: %+v, %v", cluster, err)
	}
}

func TestTopicConfigs(t *testing.T) {
	s := serve(t)
	adm := kadm.NewClient(s.client(t, false))
	ctx := t.Context()
	create(t, s, "t", 1, map[string]*string{"cleanup.policy": kadm.StringPtr("compact")})

	get := func(name string) kadm.Config {
		t.Helper()
		rc, err := adm.DescribeTopicConfigs(ctx, "t")
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range rc[0].Configs {
			if c.Key == name {
				return c
			}
		}
		t.Fatalf("no %s among %d", name, len(rc[0].Configs))
		return kadm.Config{}
	}
	if c := get("cleanup.policy"); *c.Value != "compact" || c.Source != kmsg.ConfigSourceDynamicTopicConfig || len(c.Synonyms) != 2 {
		t.Errorf("cleanup.policy: %+v", c)
	}
	if c := get("retention.ms"); *c.Value != "-1" || c.Source != kmsg.ConfigSourceDefaultConfig || len(c.Synonyms) != 1 {
		t.Errorf("retention.ms: %+v", c)
	}
	alter := func(op kadm.IncrementalOp, name, value string) error {
		t.Helper()
		rs, err := adm.AlterTopicConfigs(ctx, []kadm.AlterConfig{{Op: op, Name: name, Value: &value}}, "t")
		if err != nil {
			t.Fatal(err)
		}
		return rs[0].Err
	}
	tests := []struct {
		op          kadm.IncrementalOp
		name, value string
		err         error
		want        string
	}{
		{kadm.AppendConfig, "cleanup.policy", "delete", nil, "compact,delete"},
		{kadm.SubtractConfig, "cleanup.policy", "compact", nil, "delete"},
		{kadm.SetConfig, "retention.ms", "60000", nil, "60000"},
		{kadm.DeleteConfig, "retention.ms", "", nil, "-1"},
		{kadm.SetConfig, "retention.ms", "soon", kerr.InvalidConfig, "-1"},
		{kadm.SetConfig, "retention.ms", "-2", kerr.InvalidConfig, "-1"},
		{kadm.SetConfig, "cleanup.policy", "keep", kerr.InvalidConfig, "delete"},
		{kadm.AppendConfig, "retention.ms", "1", kerr.InvalidConfig, "-1"},
		{kadm.SetConfig, "max.message.bytes", "2000000", nil, "2000000"},
		{kadm.SetConfig, "min.cleanable.dirty.ratio", "1.5", kerr.InvalidConfig, "0.5"},
	}
	for _, tt := range tests {
		if err := alter(tt.op, tt.name, tt.value); !errors.Is(err, tt.err) {
			t.Errorf("%s %s: %v, want %v", tt.name, tt.value, err, tt.err)
		}
		if c := get(tt.name); *c.Value != tt.want {
			t.Errorf("%s is %s, want %s", tt.name, *c.Value, tt.want)
		}
	}
	rs, err := adm.AlterTopicConfigs(ctx, []kadm.AlterConfig{{Name: "no.such.key", Value: kadm.StringPtr("1")}}, "t")
	if err != nil || !errors.Is(rs[0].Err, kerr.InvalidConfig) || !strings.Contains(rs[0].ErrMessage, "no.such.key") {
		t.Errorf("unknown key: %v, %+v", err, rs)
	}
	if _, err := adm.CreateTopic(ctx, 1, 1, map[string]*string{"no.such.key": kadm.StringPtr("1")}, "u"); !errors.Is(err, kerr.InvalidConfig) {
		t.Errorf("create with an unknown key: %v", err)
	}
	// The old API replaces everything.
	rs, err = adm.AlterTopicConfigsState(ctx, []kadm.AlterConfig{{Name: "segment.bytes", Value: kadm.StringPtr("1000000")}}, "t")
	if err != nil || rs[0].Err != nil {
		t.Fatalf("replace: %v, %+v", err, rs)
	}
	if c := get("max.message.bytes"); *c.Value != "1048588" {
		t.Errorf("max.message.bytes after replacing all: %s", *c.Value)
	}
	bc, err := adm.DescribeBrokerConfigs(ctx, 1)
	if err != nil || bc[0].Err != nil {
		t.Fatalf("broker: %v, %+v", err, bc)
	}
	names := map[string]string{}
	for _, c := range bc[0].Configs {
		names[c.Key] = c.MaybeValue()
	}
	if names["num.partitions"] != "1" || names["default.replication.factor"] != "1" || names["auto.create.topics.enable"] != "true" {
		t.Errorf("broker settings: %v", names)
	}
	if ba, err := adm.AlterBrokerConfigs(ctx, []kadm.AlterConfig{{Name: "num.partitions", Value: kadm.StringPtr("3")}}, 1); err != nil || ba[0].Err == nil {
		t.Errorf("broker settings can be changed: %v, %+v", err, ba)
	}
}

func TestOffsets(t *testing.T) {
	s := serve(t)
	create(t, s, "t", 1, nil)
	cl := s.client(t, false, kgo.DefaultProduceTopic("t"), kgo.ProducerLinger(0))
	adm := kadm.NewClient(cl)
	ctx := t.Context()
	base := time.Now().Add(-time.Hour).Truncate(time.Millisecond)
	for i := range 10 {
		r := &kgo.Record{Value: []byte{byte(i)}, Timestamp: base.Add(time.Duration(i) * time.Minute)}
		if err := cl.ProduceSync(ctx, r).FirstErr(); err != nil {
			t.Fatal(err)
		}
		if r.Offset != int64(i) {
			t.Fatalf("offset %d of record %d", r.Offset, i)
		}
	}
	offset := func(ls kadm.ListedOffsets, err error) (int64, int64) {
		t.Helper()
		if err != nil || ls["t"][0].Err != nil {
			t.Fatalf("list offsets: %v, %+v", err, ls)
		}
		return ls["t"][0].Offset, ls["t"][0].Timestamp
	}
	if o, _ := offset(adm.ListStartOffsets(ctx, "t")); o != 0 {
		t.Errorf("start %d", o)
	}
	if o, _ := offset(adm.ListEndOffsets(ctx, "t")); o != 10 {
		t.Errorf("end %d", o)
	}
	if o, _ := offset(adm.ListCommittedOffsets(ctx, "t")); o != 10 {
		t.Errorf("committed end %d", o)
	}
	if o, ts := offset(adm.ListOffsetsAfterMilli(ctx, base.Add(150*time.Second).UnixMilli(), "t")); o != 3 || ts != base.Add(3*time.Minute).UnixMilli() {
		t.Errorf("by time: %d, %d", o, ts)
	}
	if o, ts := offset(adm.ListMaxTimestampOffsets(ctx, "t")); o != 9 || ts != base.Add(9*time.Minute).UnixMilli() {
		t.Errorf("max timestamp: %d, %d", o, ts)
	}
	for ts, want := range map[int64]int64{time.Now().Add(time.Hour).UnixMilli(): -1, offsetEarliestLocal: 0, offsetLatestTiered: -1, offsetEarliestUpload: -1} {
		raw := kmsg.NewPtrListOffsetsRequest()
		rt := kmsg.NewListOffsetsRequestTopic()
		rt.Topic = "t"
		rp := kmsg.NewListOffsetsRequestTopicPartition()
		rp.Timestamp, rp.CurrentLeaderEpoch = ts, -1
		rt.Partitions = append(rt.Partitions, rp)
		raw.Topics = append(raw.Topics, rt)
		resp, err := raw.RequestWith(ctx, cl)
		if err != nil {
			t.Fatal(err)
		}
		if p := resp.Topics[0].Partitions[0]; p.ErrorCode != 0 || p.Offset != want {
			t.Errorf("offset of %d: %+v, want %d", ts, p, want)
		}
	}
	// DeleteRecords moves the start, and only up to the end.
	dr, err := adm.DeleteRecords(ctx, kadm.Offsets{"t": {0: {Topic: "t", At: 4}}})
	if err != nil || dr["t"][0].Err != nil || dr["t"][0].LowWatermark != 4 {
		t.Fatalf("delete records: %v, %+v", err, dr)
	}
	if o, _ := offset(adm.ListStartOffsets(ctx, "t")); o != 4 {
		t.Errorf("start after deletion %d", o)
	}
	dr, err = adm.DeleteRecords(ctx, kadm.Offsets{"t": {0: {Topic: "t", At: 11}}})
	if err != nil || !errors.Is(dr["t"][0].Err, kerr.OffsetOutOfRange) {
		t.Errorf("delete beyond the end: %v, %+v", err, dr)
	}
	dirs, err := adm.DescribeAllLogDirs(ctx, nil)
	if err != nil || dirs[1].Size() <= 0 {
		t.Errorf("log dirs: %v, %+v", err, dirs)
	}
	md, err := adm.Metadata(ctx, "t")
	if err != nil {
		t.Fatal(err)
	}
	epoch := md.Topics["t"].Partitions[0].LeaderEpoch
	for asked, want := range map[int32]int64{epoch: 10, epoch + 1000: -1} {
		le := kadm.OffsetForLeaderEpochRequest{}
		le.Add("t", 0, asked)
		ends, err := adm.OffsetForLeaderEpoch(ctx, le)
		if err != nil || ends["t"][0].Err != nil || ends["t"][0].EndOffset != want {
			t.Errorf("end of epoch %d: %v, %+v", asked, err, ends)
		}
	}
}

// Wrong epochs are told apart from missing partitions.
func TestFencing(t *testing.T) {
	s := serve(t)
	create(t, s, "t", 1, nil)
	cl := s.client(t, false)
	md, err := kadm.NewClient(cl).ListTopics(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	epoch := md["t"].Partitions[0].LeaderEpoch
	fetch := func(id [16]byte, partition, epoch int32, offset int64, lastEpoch int32) *kmsg.FetchResponseTopicPartition {
		t.Helper()
		req := kmsg.NewPtrFetchRequest()
		req.MaxWaitMillis, req.MinBytes, req.MaxBytes = 10, 1, 1<<20
		rt := kmsg.NewFetchRequestTopic()
		rt.TopicID = id
		rt.Topic = "t"
		rp := kmsg.NewFetchRequestTopicPartition()
		rp.Partition, rp.CurrentLeaderEpoch, rp.FetchOffset, rp.PartitionMaxBytes, rp.LastFetchedEpoch = partition, epoch, offset, 1<<20, lastEpoch
		rt.Partitions = append(rt.Partitions, rp)
		req.Topics = append(req.Topics, rt)
		resp, err := req.RequestWith(t.Context(), cl)
		if err != nil {
			t.Fatal(err)
		}
		return &resp.Topics[0].Partitions[0]
	}
	id := md["t"].ID
	for _, tt := range []struct {
		name      string
		id        [16]byte
		partition int32
		epoch     int32
		offset    int64
		want      *kerr.Error
	}{
		{"known", id, 0, epoch, 0, nil},
		{"no epoch", id, 0, -1, 0, nil},
		{"older", id, 0, epoch - 1, 0, kerr.FencedLeaderEpoch},
		{"newer", id, 0, epoch + 1, 0, kerr.UnknownLeaderEpoch},
		{"no partition", id, 7, -1, 0, kerr.UnknownTopicOrPartition},
		{"negative partition", id, -7, -1, 0, kerr.UnknownTopicOrPartition},
		{"no topic", [16]byte{1}, 0, -1, 0, kerr.UnknownTopicID},
		{"beyond the end", id, 0, -1, 1, kerr.OffsetOutOfRange},
		{"before the start", id, 0, -1, -5, kerr.OffsetOutOfRange},
	} {
		var want int16
		if tt.want != nil {
			want = tt.want.Code
		}
		if got := fetch(tt.id, tt.partition, tt.epoch, tt.offset, -1); got.ErrorCode != want {
			t.Errorf("%s: code %d, want %d", tt.name, got.ErrorCode, want)
		}
	}
}
