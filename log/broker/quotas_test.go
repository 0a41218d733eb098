package broker

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/rowtrail/rowtrail/itest/certs"
	"github.com/rowtrail/rowtrail/log/broker/quota"
)

// setQuota changes one quota; value 0 removes it.
func setQuota(t testing.TB, s *served, entity kadm.ClientQuotaEntity, name string, value float64) error {
	t.Helper()
	r, err := kadm.NewClient(s.client(t, true)).AlterClientQuotas(t.Context(), []kadm.AlterClientQuotaEntry{{
		Entity: entity, Ops: []kadm.AlterClientQuotaOp{{Key: name, Value: value, Remove: value == 0}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	return r[0].Err
}

func of(parts ...string) (e kadm.ClientQuotaEntity) {
	for i := 0; i < len(parts); i += 2 {
		c := kadm.ClientQuotaEntityComponent{Type: parts[i]}
		if parts[i+1] != "*" {
			c.Name = &parts[i+1]
		}
		e = append(e, c)
	}
	return e
}

func TestQuotaRequests(t *testing.T) {
	s := serve(t)
	for _, c := range []struct {
		entity kadm.ClientQuotaEntity
		name   string
		value  float64
		want   error
	}{
		{of("user", "alice"), quota.ProducerByteRate, 1024, nil},
		{of("user", "alice", "client-id", "app"), quota.ConsumerByteRate, 2048, nil},
		{of("user", "*"), quota.ProducerByteRate, 10, nil},
		{of("client-id", "*"), quota.ControllerMutationRate, 2.5, nil},
		{of("client-id", "gone"), quota.ProducerByteRate, 7, nil},
		{of("client-id", "gone"), quota.ProducerByteRate, 0, nil},
		{of("user", "alice"), quota.ProducerByteRate, -1, kerr.InvalidRequest},
		{of("user", "alice"), quota.ProducerByteRate, 1.5, kerr.InvalidRequest},
		{of("user", "bob", "client-id", "*"), quota.RequestPercentage, 12.5, nil},
		{of("user", "bob"), quota.RequestPercentage, -1, kerr.InvalidRequest},
		{of("user", "alice"), "bytes", 50, kerr.InvalidRequest},
		{of("ip", "127.0.0.1"), "connection_creation_rate", 50, kerr.UnsupportedVersion},
		{of("group", "g"), quota.ProducerByteRate, 50, kerr.InvalidRequest},
		{of("user", "a", "user", "b"), quota.ProducerByteRate, 50, kerr.InvalidRequest},
		{of(), quota.ProducerByteRate, 50, kerr.InvalidRequest},
	} {
		if err := setQuota(t, s, c.entity, c.name, c.value); !errors.Is(err, c.want) {
			t.Errorf("%v %s=%v: %v", c.entity, c.name, c.value, err)
		}
	}
	adm := kadm.NewClient(s.client(t, true))
	exact := func(kind, name string) kadm.DescribeClientQuotaComponent {
		return kadm.DescribeClientQuotaComponent{Type: kind, MatchType: kmsg.QuotasMatchTypeExact, MatchName: &name}
	}
	match := func(kind string, m kmsg.QuotasMatchType) kadm.DescribeClientQuotaComponent {
		return kadm.DescribeClientQuotaComponent{Type: kind, MatchType: m}
	}
	for _, c := range []struct {
		strict bool
		filter []kadm.DescribeClientQuotaComponent
		want   string
	}{
		{false, nil, "{user=<default>} producer_byte_rate=10 {user=alice} producer_byte_rate=1024 {user=alice, client-id=app} consumer_byte_rate=2048 {user=bob, client-id=<default>} request_percentage=12.5 {client-id=<default>} controller_mutation_rate=2.5"},
		{false, []kadm.DescribeClientQuotaComponent{exact("user", "alice")}, "{user=alice} producer_byte_rate=1024 {user=alice, client-id=app} consumer_byte_rate=2048"},
		{true, []kadm.DescribeClientQuotaComponent{exact("user", "alice")}, "{user=alice} producer_byte_rate=1024"},
		{true, []kadm.DescribeClientQuotaComponent{match("user", kmsg.QuotasMatchTypeDefault)}, "{user=<default>} producer_byte_rate=10"},
		{false, []kadm.DescribeClientQuotaComponent{match("client-id", kmsg.QuotasMatchTypeAny)}, "{user=alice, client-id=app} consumer_byte_rate=2048 {user=bob, client-id=<default>} request_percentage=12.5 {client-id=<default>} controller_mutation_rate=2.5"},
		{false, []kadm.DescribeClientQuotaComponent{exact("user", "carol")}, ""},
	} {
		described, err := adm.DescribeClientQuotas(t.Context(), c.strict, c.filter)
		if err != nil {
			t.Fatal(err)
		}
		found := map[string]bool{}
		for _, d := range described {
			for _, v := range d.Values {
				found[fmt.Sprintf("%s %s=%v", d.Entity, v.Key, v.Value)] = true
			}
		}
		n := 0
		for f := range found {
			if bytes.Contains([]byte(c.want), []byte(f)) {
				n++
			} else {
				t.Errorf("%v: %s is not wanted", c.filter, f)
			}
		}
		if want := bytes.Count([]byte(c.want), []byte("{")); n != want {
			t.Errorf("strict %t %v: %v, want %s", c.strict, c.filter, found, c.want)
		}
	}
}

// A producer over its quota is answered first, told how long to wait, and not heard before; another is not held up.
func TestProducersAreThrottled(t *testing.T) {
	s := serve(t)
	create(t, s, "t", 1, nil)
	const rate = 10_000
	if err := setQuota(t, s, of("user", "ANONYMOUS", "client-id", "t"), quota.ProducerByteRate, rate); err != nil {
		t.Fatal(err)
	}
	c := dial(t, s.addr)
	produce := func(size int) (throttle time.Duration) {
		c.Write(request1(1, produceRequest("t", -1, batchOf(string(make([]byte, size))))))
		resp := kmsg.NewPtrProduceResponse()
		resp.Version = 9
		if err := resp.ReadFrom(readFramed(t, c)[5:]); err != nil || resp.Topics[0].Partitions[0].ErrorCode != 0 {
			t.Fatalf("%+v, %v", resp, err)
		}
		return time.Duration(resp.ThrottleMillis) * time.Millisecond
	}
	window := rate * int(quota.Window/time.Second)
	begun := time.Now()
	if w := produce(window - 1000); w != 0 {
		t.Errorf("within the window: throttled %v", w)
	}
	start := time.Now()
	throttle := produce(rate)
	// What passed since the first is paid off.
	if passed := time.Since(begun); throttle > 1100*time.Millisecond || throttle < 900*time.Millisecond-passed {
		t.Errorf("beyond it: throttled %v after %v", throttle, passed)
	}
	c.Write(request1(2, kmsg.NewPtrApiVersionsRequest()))
	readFramed(t, c)
	if took := time.Since(start); took < throttle {
		t.Errorf("heard again after %v, throttled %v", took, throttle)
	}
	if got := s.Stats().Throttled[quota.ProducerByteRate]; got < throttle*9/10 {
		t.Errorf("counted %v", got)
	}
	// An answer that waited for this, to it or to another, would find its connection's deadline over.
	if w := produce(100 * rate); w < time.Minute {
		t.Errorf("a hundred seconds' worth at once: throttled %v", w)
	}
	other := dial(t, s.addr)
	other.Write(framed(append(rawHeader(18, 0, 1)[:8], 0, 1, 'o')))
	readFramed(t, other)
	c = dial(t, s.addr)
	if err := setQuota(t, s, of("user", "ANONYMOUS", "client-id", "t"), quota.ProducerByteRate, 0); err != nil {
		t.Fatal(err)
	}
	if w := produce(2 * window); w != 0 {
		t.Errorf("without a quota: throttled %v", w)
	}
}

// A muted connection goes with its client, and with the broker.
func TestMutedConnectionsEnd(t *testing.T) {
	s := serve(t)
	create(t, s, "t", 1, nil)
	if err := setQuota(t, s, of("client-id", "*"), quota.ProducerByteRate, 1); err != nil {
		t.Fatal(err)
	}
	muted := func() {
		c := dial(t, s.addr)
		c.Write(request1(1, produceRequest("t", -1, batchOf(string(make([]byte, 1000))))))
		readFramed(t, c)
		c.Close()
	}
	muted()
	waitFor(t, "the end of a muted connection", func() bool { return s.external.conns.Load() == 0 })
	hasty := dial(t, s.addr)
	hasty.Write(request1(1, produceRequest("t", -1, batchOf(string(make([]byte, 1000))))))
	readFramed(t, hasty)
	hasty.Write(request1(2, kmsg.NewPtrApiVersionsRequest()))
	hasty.Close()
	waitFor(t, "the end of one with a request on its way", func() bool { return s.external.conns.Load() == 0 })
	c := dial(t, s.addr)
	c.Write(request1(1, produceRequest("t", -1, batchOf(string(make([]byte, 1000))))))
	readFramed(t, c)
	c.Write(request1(2, kmsg.NewPtrApiVersionsRequest())) // the reader waits with this in hand; serve's clean-up must end it
}

// A muted connection goes on where it was, also over TLS, where a request has begun to arrive meanwhile, and where more has come than
// is read ahead; others are served meanwhile.
func TestMutedConnectionsGoOn(t *testing.T) {
	authority := certs.New(t)
	for _, tt := range []struct {
		secure bool
		ahead  int // bytes of the next request that come while the connection is muted
	}{{false, 3}, {false, 6}, {false, 2 * connReadBuffer}, {true, 6}, {true, 2 * connReadBuffer}} {
		s := serve(t, func(o *Options) {
			if tt.secure {
				o.TLS = authority.Server(t, "server")
			}
		})
		create(t, s, "t", 1, nil)
		const rate = 10_000
		if err := setQuota(t, s, of("client-id", "t"), quota.ProducerByteRate, rate); err != nil {
			t.Fatal(err)
		}
		connect := func() net.Conn {
			c := dial(t, s.addr)
			if tt.secure {
				config := authority.Client(t, "")
				config.InsecureSkipVerify = true
				c = tls.Client(c, config)
			}
			return c
		}
		window := rate * int(quota.Window/time.Second)
		c := connect()
		start := time.Now()
		c.Write(request1(1, produceRequest("t", -1, batchOf(string(make([]byte, window+rate/2))))))
		readFramed(t, c)
		next := request1(2, produceRequest("t", -1, batchOf(string(make([]byte, 4*connReadBuffer)))))
		c.Write(next[:tt.ahead])
		other := connect()
		other.Write(framed(append(rawHeader(18, 0, 1)[:8], 0, 1, 'o')))
		readFramed(t, other)
		c.Write(next[tt.ahead:])
		resp := kmsg.NewPtrProduceResponse()
		resp.Version = 9
		if err := resp.ReadFrom(readFramed(t, c)[5:]); err != nil || resp.Topics[0].Partitions[0].ErrorCode != 0 || resp.ThrottleMillis == 0 {
			t.Errorf("%+v: %+v, %v", tt, resp, err)
		}
		if took := time.Since(start); took < 500*time.Millisecond {
			t.Errorf("%+v: heard after %v", tt, took)
		}
	}
}

// What kgo consumes stays within the quota, and all of it arrives.
func TestConsumersAreThrottled(t *testing.T) {
	s := serve(t)
	create(t, s, "t", 1, nil)
	p := s.client(t, true, kgo.DefaultProduceTopic("t"), kgo.ProducerBatchCompression(kgo.NoCompression()))
	const records, size = 150, 10_000
	for i := range records {
		if err := p.ProduceSync(t.Context(), &kgo.Record{Value: bytes.Repeat([]byte{byte(i)}, size)}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	const rate = 100_000 // the window gives two thirds of it at once
	if err := setQuota(t, s, of("client-id", "slow"), quota.ConsumerByteRate, rate); err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	quick := s.client(t, false, kgo.ConsumeTopics("t"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.ClientID("quick"))
	consume(t, quick, records)
	unbound := time.Since(start)
	start = time.Now()
	slow := s.client(t, false, kgo.ConsumeTopics("t"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.ClientID("slow"), kgo.FetchMaxBytes(200_000))
	for i, r := range consume(t, slow, records) {
		if r.Value[0] != byte(i) {
			t.Fatalf("record %d is %d", i, r.Value[0])
		}
	}
	// The last response may be larger than what is left.
	least := time.Duration(float64(records*size-200_000)/rate*float64(time.Second)) - quota.Window
	if took := time.Since(start); took < least || unbound > least {
		t.Errorf("read within %v, want at least %v; without a quota %v", took, least, unbound)
	}
	if got := s.Stats().Throttled[quota.ConsumerByteRate]; got == 0 {
		t.Error("nothing is counted")
	}
}

// KIP-599: new clients are told, old ones wait.
func TestMutationsAreThrottled(t *testing.T) {
	s := serve(t)
	if err := setQuota(t, s, of("client-id", "*"), quota.ControllerMutationRate, 1); err != nil {
		t.Fatal(err)
	}
	request := func(name string, partitions int32) (code int16, throttle int32) {
		t.Helper()
		req := kmsg.NewPtrCreateTopicsRequest()
		topic := kmsg.NewCreateTopicsRequestTopic()
		topic.Topic, topic.NumPartitions, topic.ReplicationFactor = name, partitions, -1
		req.Topics = append(req.Topics, topic)
		resp, err := req.RequestWith(t.Context(), s.client(t, false))
		if err != nil {
			t.Fatal(err)
		}
		return resp.Topics[0].ErrorCode, resp.ThrottleMillis
	}
	if code, throttle := request("a", 12); code != 0 || throttle < 1000 || throttle > 2100 {
		t.Errorf("12 at once: code %d, throttled %d ms", code, throttle)
	}
	if code, throttle := request("b", 1); code != kerr.ThrottlingQuotaExceeded.Code || throttle <= 0 {
		t.Errorf("then: code %d, throttled %d ms", code, throttle)
	}
	old := s.client(t, false, kgo.MaxVersions(kversion.V2_4_0()))
	if r, err := kadm.NewClient(old).CreateTopic(t.Context(), 1, -1, nil, "c"); err != nil || r.Err != nil {
		t.Errorf("an old client: %v, %v", r, err)
	}
	if err := kmsgDelete(t, s, "a"); !errors.Is(err, kerr.ThrottlingQuotaExceeded) {
		t.Errorf("delete: %v", err)
	}
	if _, ok := s.node.Catalog().Topics["a"]; !ok {
		t.Error("deleted all the same")
	}
}

func kmsgDelete(t *testing.T, s *served, name string) error {
	t.Helper()
	req := kmsg.NewPtrDeleteTopicsRequest()
	topic := kmsg.NewDeleteTopicsRequestTopic()
	topic.Topic = &name
	req.Topics, req.TopicNames = append(req.Topics, topic), []string{name}
	resp, err := req.RequestWith(t.Context(), s.client(t, false))
	if err != nil {
		t.Fatal(err)
	}
	return kerr.ErrorForCode(resp.Topics[0].ErrorCode)
}

// describeAll asks for the configurations of all topics, which takes time, and returns what it is told to wait.
func describeAll(t *testing.T, c net.Conn, id string, topics int) time.Duration {
	t.Helper()
	req := kmsg.NewPtrDescribeConfigsRequest()
	for i := range topics {
		r := kmsg.NewDescribeConfigsRequestResource()
		r.ResourceType, r.ResourceName = kmsg.ConfigResourceTypeTopic, fmt.Sprint("t", i)
		req.Resources = append(req.Resources, r)
	}
	req.Version = 4
	c.Write(kmsg.NewRequestFormatter(kmsg.FormatterClientID(id)).AppendRequest(nil, req, 1))
	resp := kmsg.NewPtrDescribeConfigsResponse()
	resp.Version = 4
	if err := resp.ReadFrom(readFramed(t, c)[5:]); err != nil || len(resp.Resources) != topics {
		t.Fatalf("%d resources, %v", len(resp.Resources), err)
	}
	return time.Duration(resp.ThrottleMillis) * time.Millisecond
}

// Whose requests take more of the node's time than request_percentage allows is told to wait, for a second at most, and not heard
// meanwhile; others are.
func TestTimeIsThrottled(t *testing.T) {
	s := serve(t)
	const topics = 100
	for i := range topics {
		create(t, s, fmt.Sprint("t", i), 1, nil)
	}
	if err := setQuota(t, s, of("user", "ANONYMOUS", "client-id", "busy"), quota.RequestPercentage, 1); err != nil {
		t.Fatal(err)
	}
	connect := func() net.Conn {
		c := dial(t, s.addr)
		c.SetDeadline(time.Now().Add(time.Minute))
		return c
	}
	c, other := connect(), connect()
	throttle := time.Duration(0)
	start, asked := time.Now(), time.Now() // when the request was sent whose answer says throttle
	for n := 0; throttle == 0; n++ {
		if n == 2000 {
			t.Fatalf("%d requests in %v are not throttled; all took %v", n, time.Since(start), s.Stats().Worked)
		}
		asked = time.Now()
		throttle = describeAll(t, c, "busy", topics)
		if w := describeAll(t, other, "other", 1); w != 0 {
			t.Fatalf("another client is throttled %v", w)
		}
	}
	// 1% of ten seconds were saved up.
	if worked := s.Stats().Worked; worked < quota.Window/100 {
		t.Errorf("throttled after %v", worked)
	}
	for range 5 {
		next := time.Now()
		w := describeAll(t, c, "busy", topics)
		if passed := time.Since(asked); passed < throttle {
			t.Errorf("heard again after %v, throttled %v", passed, throttle)
		}
		throttle, asked = w, next
		if w > quota.LongestRequestWait {
			t.Fatalf("throttled %v", w)
		}
	}
	if got := s.Stats().Throttled[quota.RequestPercentage]; got == 0 {
		t.Error("nothing is counted")
	}
	again := connect() // no way around
	for range 5 {
		throttle = max(throttle, describeAll(t, again, "busy", topics))
	}
	if throttle == 0 {
		t.Error("a new connection is not throttled")
	}
}

// What a producer has the node do is counted, too, and told in the answer.
func TestTimeOfProducersIsThrottled(t *testing.T) {
	s := serve(t)
	create(t, s, "t", 1, map[string]*string{"compression.type": kadm.StringPtr("zstd")})
	if err := setQuota(t, s, of("client-id", "t"), quota.RequestPercentage, 1); err != nil {
		t.Fatal(err)
	}
	c := dial(t, s.addr)
	c.SetDeadline(time.Now().Add(time.Minute))
	payload := make([]byte, 512<<10)
	for i := range payload {
		payload[i] = byte(i * i >> 7)
	}
	for n := 0; ; n++ {
		if n == 500 {
			t.Fatalf("%d batches are packed and not throttled; all took %v", n, s.Stats().Worked)
		}
		c.Write(request1(1, produceRequest("t", -1, batchOf(string(payload)))))
		resp := kmsg.NewPtrProduceResponse()
		resp.Version = 9
		if err := resp.ReadFrom(readFramed(t, c)[5:]); err != nil || resp.Topics[0].Partitions[0].ErrorCode != 0 {
			t.Fatalf("%+v, %v", resp, err)
		}
		if resp.ThrottleMillis > 1000 {
			t.Fatalf("throttled %d ms", resp.ThrottleMillis)
		}
		if resp.ThrottleMillis > 0 {
			break
		}
	}
}

// A client that waits takes no time: for records, for the other members of its group, for its own producer's fsync.
func TestWaitsAreNotThrottled(t *testing.T) {
	s := serve(t)
	create(t, s, "t", 1, nil)
	if err := setQuota(t, s, of("client-id", "*"), quota.RequestPercentage, 1); err != nil { // 100 ms
		t.Fatal(err)
	}
	before := s.Stats().Worked
	idle := s.client(t, false, kgo.ConsumeTopics("t"), kgo.ConsumerGroup("g"), kgo.FetchMinBytes(1<<20), kgo.FetchMaxWait(500*time.Millisecond))
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	idle.PollFetches(ctx)
	if member, _ := idle.GroupMetadata(); member == "" {
		t.Error("not a member of its group")
	}
	if worked := s.Stats().Worked - before; worked <= 0 || worked > 100*time.Millisecond {
		t.Errorf("three seconds without a record took %v", worked)
	}
	if got := s.Stats().Throttled[quota.RequestPercentage]; got != 0 {
		t.Errorf("throttled %v", got)
	}
}
