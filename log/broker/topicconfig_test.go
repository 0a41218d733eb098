package broker

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rowtrail/rowtrail/cluster/topicconfig"
	"github.com/rowtrail/rowtrail/log"
	"github.com/rowtrail/rowtrail/log/record"
)

// producer sends single batches over one connection.
type producer struct {
	t     testing.TB
	write func([]byte) (int, error)
	read  func() []byte
}

func (s *served) producer(t testing.TB) *producer {
	c := dial(t, s.addr)
	return &producer{t, c.Write, func() []byte { return readFramed(t, c) }}
}

func (p *producer) produce(topic string, batch []byte) kmsg.ProduceResponseTopicPartition {
	p.t.Helper()
	req := produceRequest(topic, -1, batch)
	if _, err := p.write(request1(1, req)); err != nil {
		p.t.Fatal(err)
	}
	resp := kmsg.NewPtrProduceResponse()
	resp.Version = req.Version
	if err := resp.ReadFrom(p.read()[5:]); err != nil {
		p.t.Fatal(err)
	}
	return resp.Topics[0].Partitions[0]
}

// keyed and keyless are batches of records with timestamps.
func keyed(times ...int64) []byte { return timed([]byte("k"), times) }

func keyless(times ...int64) []byte { return timed(nil, times) }

func timed(key []byte, times []int64) []byte {
	var b record.Builder
	for _, ts := range times {
		b.Append(ts, key, []byte("v"))
	}
	return b.Build(nil)
}

func TestTimestampBounds(t *testing.T) {
	s := serve(t)
	hour, forever := "3600000", "9223372036854775807"
	create(t, s, "both", 1, map[string]*string{"message.timestamp.before.max.ms": &hour})
	create(t, s, "default", 1, nil)
	create(t, s, "unbound", 1, map[string]*string{"message.timestamp.after.max.ms": &forever})
	kind := "LogAppendTime"
	create(t, s, "appended", 1, map[string]*string{"message.timestamp.type": &kind, "message.timestamp.before.max.ms": &hour})
	now := time.Now().UnixMilli()
	old, new := now-2*3600_000, now+2*3600_000
	p := s.producer(t)
	for _, c := range []struct {
		topic string
		times []int64
		bad   []int32
	}{
		{"both", []int64{now}, nil},
		{"both", []int64{now, new}, []int32{1}},
		{"both", []int64{now, old, now, new}, []int32{1, 3}}, // the oldest is not the first
		{"both", []int64{-1}, nil},                           // a record without a timestamp
		{"default", []int64{old, 0}, nil},
		{"default", []int64{new, now}, []int32{0}},
		{"unbound", []int64{old, new}, nil},
		{"appended", []int64{old, new}, nil},
	} {
		got := p.produce(c.topic, keyed(c.times...))
		var bad []int32
		for _, e := range got.ErrorRecords {
			bad = append(bad, e.RelativeOffset)
		}
		want := int16(0)
		if c.bad != nil {
			want = kerr.InvalidTimestamp.Code
		}
		if got.ErrorCode != want || fmt.Sprint(bad) != fmt.Sprint(c.bad) {
			t.Errorf("%s %v: code %d, records %v; want %d, %v", c.topic, c.times, got.ErrorCode, bad, want, c.bad)
		}
	}
	// A connector of this process writes the times of its source.
	cl := s.client(t, true, kgo.DefaultProduceTopic("both"))
	for _, ts := range []int64{old, new} {
		if err := cl.ProduceSync(t.Context(), &kgo.Record{Value: []byte("v"), Timestamp: time.UnixMilli(ts)}).FirstErr(); err != nil {
			t.Errorf("connector at %d: %v", ts, err)
		}
	}
}

// Where a record breaks the rule of keys and another that of timestamps, the answer names both, and the code is Kafka's.
func TestRecordErrorsNameEveryRecord(t *testing.T) {
	s := serve(t)
	policy := "compact"
	create(t, s, "t", 1, map[string]*string{"cleanup.policy": &policy})
	now := time.Now().UnixMilli()
	var b record.Builder
	b.Append(now, []byte("k"), []byte("v"))
	b.Append(now, nil, []byte("v"))
	b.Append(now+1e9, []byte("k"), []byte("v"))
	got := s.producer(t).produce("t", b.Build(nil))
	if got.ErrorCode != kerr.InvalidTimestamp.Code || len(got.ErrorRecords) != 2 || got.ErrorRecords[0].RelativeOffset != 1 || got.ErrorRecords[1].RelativeOffset != 2 ||
		!strings.Contains(*got.ErrorRecords[0].ErrorMessage, "key") || !strings.Contains(*got.ErrorRecords[1].ErrorMessage, "timestamp") {
		t.Errorf("%+v", got)
	}
}

// Every property that is honoured acts at once on partitions that are open, set at the topic or as the cluster's default,
// and stops acting when it is removed.
func TestChangesActAtOnce(t *testing.T) {
	s := serve(t)
	create(t, s, "t", 1, nil)
	adm := kadm.NewClient(s.client(t, false))
	p := s.producer(t)
	now := time.Now().UnixMilli()
	code := func(batch []byte) func() string {
		return func() string { return fmt.Sprint(p.produce("t", batch).ErrorCode) }
	}
	replica, err := s.node.Replica("t", 0)
	if err != nil {
		t.Fatal(err)
	}
	settings := func(of func(log.Config) any) func() string {
		return func() string { return fmt.Sprint(of(replica.Log().Config())) }
	}
	big := timed([]byte("k"), make([]int64, 200))
	compaction := map[string]string{"cleanup.policy": "compact,delete"}
	for _, c := range []struct {
		name, value    string
		see            func() string
		before, within string
		with           map[string]string
	}{
		{name: "max.message.bytes", value: "500", see: code(big), before: "0", within: fmt.Sprint(kerr.MessageTooLarge.Code)},
		{name: "message.timestamp.after.max.ms", value: "9223372036854775807", see: code(keyed(now + 1e9)), before: fmt.Sprint(kerr.InvalidTimestamp.Code), within: "0"},
		{name: "message.timestamp.before.max.ms", value: "1000", see: code(keyed(now - 1e9)), before: "0", within: fmt.Sprint(kerr.InvalidTimestamp.Code)},
		{name: "message.timestamp.type", value: "LogAppendTime", see: func() string { return fmt.Sprint(p.produce("t", keyed(1)).LogAppendTime >= now) }, before: "false", within: "true"},
		{name: "cleanup.policy", value: "compact", see: code(keyless(now)), before: "0", within: fmt.Sprint(kerr.InvalidRecord.Code)},
		{name: "cleanup.policy", value: "", see: settings(func(c log.Config) any { return []any{c.Compact, c.RetentionMs} }),
			with: map[string]string{"retention.ms": "12345678"}, before: "[false 12345678]", within: "[false -1]"},
		{name: "retention.ms", value: "12345678", see: settings(func(c log.Config) any { return c.RetentionMs }), before: "-1", within: "12345678"},
		{name: "retention.bytes", value: "12345678", see: settings(func(c log.Config) any { return c.RetentionBytes }), before: "-1", within: "12345678"},
		{name: "min.compaction.lag.ms", value: "5", see: settings(func(c log.Config) any { return c.MinCompactionLagMs }), with: compaction, before: "0", within: "5"},
		{name: "max.compaction.lag.ms", value: "5", see: settings(func(c log.Config) any { return c.MaxCompactionLagMs }), with: compaction, before: "0", within: "5"},
		{name: "delete.retention.ms", value: "5", see: settings(func(c log.Config) any { return c.DeleteRetentionMs }), with: compaction, before: "86400000", within: "5"},
		{name: "min.cleanable.dirty.ratio", value: "0.25", see: settings(func(c log.Config) any { return c.MinDirtyRatio }), with: compaction, before: "0.5", within: "0.25"},
		{name: "segment.bytes", value: "500", see: settings(func(c log.Config) any { return c.SegmentBytes }), with: compaction, before: "1073741824", within: "500"},
		{name: "segment.ms", value: "500", see: settings(func(c log.Config) any { return c.SegmentMs }), with: compaction, before: "604800000", within: "500"},
	} {
		for _, scope := range []string{"topic", "cluster"} {
			set := func(name string, value *string) {
				t.Helper()
				alter := []kadm.AlterConfig{{Op: kadm.SetConfig, Name: name, Value: value}}
				if value == nil {
					alter[0].Op = kadm.DeleteConfig
				}
				var rs kadm.AlterConfigsResponses
				var err error
				if scope == "topic" {
					rs, err = adm.AlterTopicConfigs(t.Context(), alter, "t")
				} else {
					alter[0].Name = topicconfig.Lookup(name).Broker
					rs, err = adm.AlterBrokerConfigs(t.Context(), alter)
				}
				if err != nil || rs[0].Err != nil {
					t.Fatalf("set %s of the %s: %v, %+v", name, scope, err, rs)
				}
			}
			see := func(when, want string) {
				t.Helper()
				// A partition takes its settings in the order of its appends, so what is read past them may come later.
				waitFor(t, fmt.Sprintf("%s=%s of the %s to be %s %s it", c.name, c.value, scope, want, when), func() bool { return c.see() == want })
			}
			for name, value := range c.with {
				set(name, &value)
			}
			see("before", c.before)
			set(c.name, &c.value)
			see("with", c.within)
			if c.with[c.name] == "" {
				set(c.name, nil)
				see("after", c.before)
			}
			for name := range c.with {
				set(name, nil)
			}
		}
	}
}

// The broker's resource reports settings with where they are from, and those of topics by the broker's names for them.
func TestBrokerConfigs(t *testing.T) {
	s := serveWith(t, map[string]string{"retention.ms": "604800000"}, func(o *Options) {
		o.Coordinators.GroupPartitions, o.DefaultPartitions = 3, 4
	})
	create(t, s, "t", 1, nil)
	adm := kadm.NewClient(s.client(t, false))
	describe := func(rs kadm.ResourceConfigs, err error) map[string]string {
		t.Helper()
		if err != nil || rs[0].Err != nil {
			t.Fatalf("describe: %v, %+v", err, rs)
		}
		out := map[string]string{}
		for _, c := range rs[0].Configs {
			text := fmt.Sprintf("%s %v", c.MaybeValue(), c.Source)
			for _, syn := range c.Synonyms {
				text += fmt.Sprintf(" %s=%s", syn.Key, *syn.Value)
			}
			out[c.Key] = text
		}
		return out
	}
	check := func(what string, got map[string]string, want map[string]string) {
		t.Helper()
		for name, text := range want {
			if got[name] != text {
				t.Errorf("%s: %s is %q, want %q", what, name, got[name], text)
			}
		}
	}
	broker := describe(adm.DescribeBrokerConfigs(t.Context(), 1))
	check("broker", broker, map[string]string{
		"num.partitions":                           "4 STATIC_BROKER_CONFIG num.partitions=4 num.partitions=1",
		"default.replication.factor":               "1 DEFAULT_CONFIG default.replication.factor=1",
		"offsets.topic.num.partitions":             "3 STATIC_BROKER_CONFIG offsets.topic.num.partitions=3 offsets.topic.num.partitions=8",
		"offsets.topic.replication.factor":         "1 DEFAULT_CONFIG offsets.topic.replication.factor=1",
		"offsets.retention.minutes":                "10080 DEFAULT_CONFIG offsets.retention.minutes=10080",
		"transaction.state.log.num.partitions":     "8 DEFAULT_CONFIG transaction.state.log.num.partitions=8",
		"transaction.max.timeout.ms":               "86400000 DEFAULT_CONFIG transaction.max.timeout.ms=86400000",
		"group.max.session.timeout.ms":             "1800000 DEFAULT_CONFIG group.max.session.timeout.ms=1800000",
		"log.retention.ms":                         "604800000 STATIC_BROKER_CONFIG log.retention.ms=604800000 log.retention.ms=-1",
		"log.cleanup.policy":                       "delete DEFAULT_CONFIG log.cleanup.policy=delete",
		"message.max.bytes":                        "1048588 DEFAULT_CONFIG message.max.bytes=1048588",
		"log.message.timestamp.after.max.ms":       "3600000 DEFAULT_CONFIG log.message.timestamp.after.max.ms=3600000",
		"log.cleaner.min.cleanable.ratio":          "0.5 DEFAULT_CONFIG log.cleaner.min.cleanable.ratio=0.5",
		"log.segment.delete.delay.ms":              "", // inert: nothing to report
		"transaction.state.log.min.isr":            "1 DEFAULT_CONFIG transaction.state.log.min.isr=1",
		"advertised.listeners":                     "PLAINTEXT://" + s.addr + " STATIC_BROKER_CONFIG advertised.listeners=PLAINTEXT://" + s.addr + " advertised.listeners=",
		"max.connections.per.ip":                   "2048 DEFAULT_CONFIG max.connections.per.ip=2048",
		"group.consumer.session.timeout.ms":        "45000 DEFAULT_CONFIG group.consumer.session.timeout.ms=45000",
		"group.consumer.heartbeat.interval.ms":     "5000 DEFAULT_CONFIG group.consumer.heartbeat.interval.ms=5000",
		"group.initial.rebalance.delay.ms":         "0 DEFAULT_CONFIG group.initial.rebalance.delay.ms=0",
		"transactional.id.expiration.ms":           "604800000 DEFAULT_CONFIG transactional.id.expiration.ms=604800000",
		"log.cleaner.delete.retention.ms":          "86400000 DEFAULT_CONFIG log.cleaner.delete.retention.ms=86400000",
		"transaction.state.log.replication.factor": "1 DEFAULT_CONFIG transaction.state.log.replication.factor=1",
	})
	alter := func(op kadm.IncrementalOp, name, value string, broker ...int32) error {
		t.Helper()
		rs, err := adm.AlterBrokerConfigs(t.Context(), []kadm.AlterConfig{{Op: op, Name: name, Value: &value}}, broker...)
		if err != nil {
			t.Fatal(err)
		}
		if rs[0].Err != nil {
			return fmt.Errorf("%w: %s", rs[0].Err, rs[0].ErrMessage)
		}
		return nil
	}
	if err := alter(kadm.SetConfig, "log.retention.ms", "3600000"); err != nil {
		t.Fatal(err)
	}
	if err := alter(kadm.AppendConfig, "log.cleanup.policy", "compact"); err != nil {
		t.Fatal(err)
	}
	check("defaults", describe(adm.DescribeBrokerConfigs(t.Context())), map[string]string{
		"log.retention.ms":   "3600000 DYNAMIC_DEFAULT_BROKER_CONFIG log.retention.ms=3600000 log.retention.ms=604800000 log.retention.ms=-1",
		"log.cleanup.policy": "delete,compact DYNAMIC_DEFAULT_BROKER_CONFIG log.cleanup.policy=delete,compact log.cleanup.policy=delete",
		"message.max.bytes":  "",
	})
	check("topic", describe(adm.DescribeTopicConfigs(t.Context(), "t")), map[string]string{
		"retention.ms":      "3600000 DYNAMIC_DEFAULT_BROKER_CONFIG log.retention.ms=3600000 log.retention.ms=604800000 log.retention.ms=-1",
		"max.message.bytes": "1048588 DEFAULT_CONFIG message.max.bytes=1048588",
	})
	for _, c := range []struct {
		name   string
		broker []int32
		want   *kerr.Error
		says   string
	}{
		{"num.partitions", nil, kerr.InvalidRequest, "YAML"},
		{"offsets.retention.minutes", nil, kerr.InvalidRequest, "YAML"},
		{"log.retention.ms", []int32{1}, kerr.InvalidRequest, "all brokers"},
		{"log.index.interval.bytes", nil, kerr.InvalidRequest, "no effect"},
		{"no.such.setting", nil, kerr.InvalidConfig, "no.such.setting"},
	} {
		if err := alter(kadm.SetConfig, c.name, "7", c.broker...); !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("set %s of %v: %v, want %v with %q", c.name, c.broker, err, c.want, c.says)
		}
	}
	if err := alter(kadm.SetConfig, "log.retention.ms", "-9"); !errors.Is(err, kerr.InvalidConfig) {
		t.Errorf("retention of -9: %v", err)
	}
	// The old API replaces all.
	rs, err := adm.AlterBrokerConfigsState(t.Context(), []kadm.AlterConfig{{Name: "log.retention.bytes", Value: kadm.StringPtr("77")}})
	if err != nil || rs[0].Err != nil {
		t.Fatal(err, rs)
	}
	if got := describe(adm.DescribeBrokerConfigs(t.Context())); len(got) != 1 || !strings.HasPrefix(got["log.retention.bytes"], "77 ") {
		t.Errorf("after replacing all: %v", got)
	}
}

func TestAlterConfigsRefusals(t *testing.T) {
	s := serve(t)
	create(t, s, "t", 1, nil)
	cl := s.client(t, false)
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	add := func(name string, validate bool, configs ...string) {
		r := kmsg.NewIncrementalAlterConfigsRequestResource()
		r.ResourceType, r.ResourceName = kmsg.ConfigResourceTypeTopic, name
		for i := 0; i < len(configs); i += 2 {
			c := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
			c.Name = configs[i]
			if configs[i+1] != "null" {
				c.Value = &configs[i+1]
			}
			r.Configs = append(r.Configs, c)
		}
		req.Resources, req.ValidateOnly = append(req.Resources, r), validate
	}
	codes := func() (out []int16) {
		t.Helper()
		resp, err := req.RequestWith(t.Context(), cl)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range resp.Resources {
			out = append(out, r.ErrorCode)
		}
		req = kmsg.NewPtrIncrementalAlterConfigsRequest()
		return out
	}
	expect := func(what string, got []int16, want ...*kerr.Error) {
		t.Helper()
		if len(got) != len(want) {
			t.Fatalf("%s: %v", what, got)
		}
		for i := range want {
			if !errors.Is(kerr.ErrorForCode(got[i]), want[i]) && (want[i] != nil || got[i] != 0) {
				t.Errorf("%s: code %d, want %v", what, got[i], want[i])
			}
		}
	}
	add("t", false, "retention.ms", "null")
	add("nope", false, "retention.ms", "1")
	add("__consumer_offsets", false, "retention.ms", "1")
	expect("one of each", codes(), kerr.InvalidRequest, kerr.UnknownTopicOrPartition, kerr.InvalidRequest)
	add("t", false, "retention.ms", "1")
	add("t", false, "retention.ms", "2")
	expect("a resource twice", codes(), kerr.InvalidRequest, kerr.InvalidRequest)
	add("t", false, "retention.ms", "1", "retention.ms", "2")
	expect("a property twice", codes(), kerr.InvalidRequest)
	add("t", true, "min.compaction.lag.ms", "2", "max.compaction.lag.ms", "1")
	expect("validated: lags that exclude each other", codes(), kerr.InvalidConfig)
	add("t", true, "retention.ms", "5")
	expect("validated", codes(), nil)
	if got := s.node.Catalog().Topics["t"].Config; len(got) != 0 {
		t.Errorf("something was changed: %v", got)
	}
}

// A group's settings are the node's until they are set for it, are kept over a restart, and take effect on its members.
func TestGroupConfigs(t *testing.T) {
	dir := t.TempDir()
	l := live(t, dir, groupsOf30s)
	cl := l.client(t)
	shown := func(group string) string {
		t.Helper()
		req := kmsg.NewPtrDescribeConfigsRequest()
		rr := kmsg.NewDescribeConfigsRequestResource()
		rr.ResourceType, rr.ResourceName = kmsg.ConfigResourceTypeGroupConfig, group
		req.Resources, req.IncludeSynonyms = append(req.Resources, rr), true
		resp, err := req.RequestWith(t.Context(), cl)
		if err != nil || resp.Resources[0].ErrorCode != 0 {
			t.Fatal(err, resp)
		}
		out := ""
		for _, c := range resp.Resources[0].Configs {
			out += fmt.Sprintf("%s=%s by %v of %d %s, ", c.Name, *c.Value, c.Source, len(c.ConfigSynonyms), c.ConfigSynonyms[0].Name)
		}
		return out
	}
	node := "consumer.heartbeat.interval.ms=5000 by DEFAULT_CONFIG of 1 group.consumer.heartbeat.interval.ms, " +
		"consumer.session.timeout.ms=30000 by STATIC_BROKER_CONFIG of 2 group.consumer.session.timeout.ms, "
	if got := shown("g"); got != node {
		t.Errorf("before: %s", got)
	}
	set := func(group, name, value string, op kmsg.IncrementalAlterConfigOp) int16 {
		t.Helper()
		req := kmsg.NewPtrIncrementalAlterConfigsRequest()
		rr := kmsg.NewIncrementalAlterConfigsRequestResource()
		rr.ResourceType, rr.ResourceName = kmsg.ConfigResourceTypeGroupConfig, group
		c := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
		c.Name, c.Value, c.Op = name, &value, op
		rr.Configs = append(rr.Configs, c)
		req.Resources = append(req.Resources, rr)
		resp, err := req.RequestWith(t.Context(), cl)
		if err != nil {
			t.Fatal(err)
		}
		return resp.Resources[0].ErrorCode
	}
	for _, c := range []struct {
		group, name, value string
		op                 kmsg.IncrementalAlterConfigOp
		want               *kerr.Error
	}{
		{"g", "consumer.session.timeout.ms", "6000", kmsg.IncrementalAlterConfigOpSet, nil},
		{"g", "consumer.heartbeat.interval.ms", "6000", kmsg.IncrementalAlterConfigOpSet, kerr.InvalidConfig}, // not below the session
		{"g", "consumer.heartbeat.interval.ms", "70", kmsg.IncrementalAlterConfigOpSet, nil},
		{"g", "consumer.session.timeout.ms", "1000", kmsg.IncrementalAlterConfigOpSet, nil},
		{"g", "consumer.session.timeout.ms", "999", kmsg.IncrementalAlterConfigOpSet, kerr.InvalidConfig},
		{"g", "consumer.session.timeout.ms", "soon", kmsg.IncrementalAlterConfigOpSet, kerr.InvalidConfig},
		{"g", "consumer.session.timeout.ms", "1", kmsg.IncrementalAlterConfigOpAppend, kerr.InvalidConfig},
		{"g", "share.session.timeout.ms", "50000", kmsg.IncrementalAlterConfigOpSet, kerr.InvalidConfig},
		{"", "consumer.session.timeout.ms", "50000", kmsg.IncrementalAlterConfigOpSet, kerr.InvalidRequest},
		{"h", "consumer.session.timeout.ms", "50000", kmsg.IncrementalAlterConfigOpSet, nil},
		{"h", "consumer.session.timeout.ms", "", kmsg.IncrementalAlterConfigOpDelete, nil},
	} {
		if code := set(c.group, c.name, c.value, c.op); code != errorCode(asError(c.want)) {
			t.Errorf("group %q: %s %s: %v", c.group, c.name, c.value, kerr.ErrorForCode(code))
		}
	}
	cl.Close()
	l.end(t)

	l = live(t, dir, groupsOf30s)
	defer l.end(t)
	cl = l.client(t)
	defer cl.Close()
	if got, want := shown("g"), "consumer.heartbeat.interval.ms=70 by GROUP_CONFIG of 2 consumer.heartbeat.interval.ms, "+
		"consumer.session.timeout.ms=1000 by GROUP_CONFIG of 3 consumer.session.timeout.ms, "; got != want {
		t.Errorf("after a restart: %s", got)
	}
	if got := shown("h"); got != node {
		t.Errorf("deleted: %s", got)
	}
	waitFor(t, "the coordinator", func() bool { return l.groups.Serving("g") == 0 && l.groups.Serving("h") == 0 })
	join := func(group string) int32 {
		t.Helper()
		req := kmsg.NewPtrConsumerGroupHeartbeatRequest()
		req.Group, req.MemberID, req.RebalanceTimeoutMillis, req.SubscribedTopicNames = group, "m", 30_000, []string{"t"}
		req.Topics = []kmsg.ConsumerGroupHeartbeatRequestTopic{}
		resp, err := req.RequestWith(t.Context(), cl)
		if err != nil || resp.ErrorCode != 0 {
			t.Fatal(err, resp)
		}
		return resp.HeartbeatIntervalMillis
	}
	if g, h := join("g"), join("h"); g != 70 || h != 5000 {
		t.Errorf("members of g are to send heartbeats every %d ms, those of h every %d", g, h)
	}
	members := func(group string) int {
		d, err := kadm.NewClient(cl).DescribeConsumerGroups(t.Context(), group)
		if err != nil {
			t.Fatal(err)
		}
		return len(d[group].Members)
	}
	waitFor(t, "the silent member of g to be removed", func() bool { return members("g") == 0 })
	if n := members("h"); n != 1 {
		t.Errorf("h has %d members", n)
	}
}

func groupsOf30s(o *Options) { o.Coordinators.Groups.Consumer.SessionTimeout = 30 * time.Second }
