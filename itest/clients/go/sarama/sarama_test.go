package sarama_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/IBM/sarama"
)

const deadline = time.Minute

// versions are of the protocol, which sarama fixes per client: what it sends follows from it.
func versions() []sarama.KafkaVersion {
	return []sarama.KafkaVersion{sarama.V2_0_0_0, sarama.V2_8_0_0, sarama.V3_6_0_0, sarama.MaxVersion}
}

func eachVersion(t *testing.T, test func(t *testing.T, cfg *sarama.Config)) {
	for _, version := range versions() {
		t.Run(version.String(), func(t *testing.T) {
			cfg := sarama.NewConfig()
			cfg.Version = version
			cfg.Producer.Return.Successes = true
			cfg.Producer.RequiredAcks = sarama.WaitForAll
			cfg.Consumer.Offsets.Initial = sarama.OffsetOldest
			cfg.Consumer.Offsets.AutoCommit.Interval = 100 * time.Millisecond
			cfg.Consumer.Group.Heartbeat.Interval = 100 * time.Millisecond
			test(t, cfg)
		})
	}
}

func brokers() []string { return []string{os.Getenv("BOOTSTRAP")} }

func must[T any](t *testing.T) func(v T, err error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func admin(t *testing.T, cfg *sarama.Config) sarama.ClusterAdmin {
	t.Helper()
	a := must[sarama.ClusterAdmin](t)(sarama.NewClusterAdmin(brokers(), cfg))
	t.Cleanup(func() { check(t, a.Close()) })
	return a
}

func topic(t *testing.T, cfg *sarama.Config, partitions int32) string {
	t.Helper()
	name := fmt.Sprintf("sarama-%d", time.Now().UnixNano())
	check(t, admin(t, cfg).CreateTopic(name, &sarama.TopicDetail{NumPartitions: partitions, ReplicationFactor: 1}, false))
	return name
}

func produce(t *testing.T, cfg *sarama.Config, name string, values ...string) {
	t.Helper()
	p := must[sarama.SyncProducer](t)(sarama.NewSyncProducer(brokers(), cfg))
	defer p.Close()
	for _, v := range values {
		must[int32](t)(first(p.SendMessage(&sarama.ProducerMessage{Topic: name, Key: sarama.StringEncoder(v), Value: sarama.StringEncoder(v)})))
	}
}

func first(partition int32, _ int64, err error) (int32, error) { return partition, err }

// read reads n records of partition 0 and the position behind the last of them.
func read(t *testing.T, cfg *sarama.Config, name string, n int) []*sarama.ConsumerMessage {
	t.Helper()
	c := must[sarama.Consumer](t)(sarama.NewConsumer(brokers(), cfg))
	defer c.Close()
	pc := must[sarama.PartitionConsumer](t)(c.ConsumePartition(name, 0, sarama.OffsetOldest))
	defer pc.Close()
	var got []*sarama.ConsumerMessage
	for len(got) < n {
		select {
		case m := <-pc.Messages():
			got = append(got, m)
		case <-time.After(deadline):
			t.Fatalf("read %d of %d records", len(got), n)
		}
	}
	return got
}

func values(messages []*sarama.ConsumerMessage) []string {
	var list []string
	for _, m := range messages {
		list = append(list, string(m.Value))
	}
	return list
}

func equal[T comparable](t *testing.T, got, want []T) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Fatalf("got %v, want %v", got, want)
	}
}

func TestRecordsOfEveryCodecWithHeadersAndNulls(t *testing.T) {
	eachVersion(t, func(t *testing.T, cfg *sarama.Config) {
		codecs := []sarama.CompressionCodec{sarama.CompressionNone, sarama.CompressionGZIP, sarama.CompressionSnappy, sarama.CompressionLZ4}
		if cfg.Version.IsAtLeast(sarama.V2_1_0_0) {
			codecs = append(codecs, sarama.CompressionZSTD)
		}
		for _, codec := range codecs {
			cfg.Producer.Compression = codec
			name := topic(t, cfg, 1)
			p := must[sarama.SyncProducer](t)(sarama.NewSyncProducer(brokers(), cfg))
			var batch []*sarama.ProducerMessage
			var want []string
			for i := range 100 {
				want = append(want, "the same again and again "+strconv.Itoa(i))
				batch = append(batch, &sarama.ProducerMessage{Topic: name, Value: sarama.StringEncoder(want[i])})
			}
			batch[0].Headers = []sarama.RecordHeader{{Key: []byte("a"), Value: []byte("1")}, {Key: []byte("a"), Value: []byte("2")}}
			check(t, p.SendMessages(batch))
			must[int32](t)(first(p.SendMessage(&sarama.ProducerMessage{Topic: name, Key: sarama.StringEncoder("deleted")})))
			check(t, p.Close())
			got := read(t, cfg, name, 101)
			equal(t, values(got)[:100], want)
			if got[100].Value != nil || string(got[100].Key) != "deleted" {
				t.Fatalf("%v: a record without a value came back as %q: %q", codec, got[100].Key, got[100].Value)
			}
			if h := got[0].Headers; len(h) != 2 || string(h[0].Value) != "1" || string(h[1].Value) != "2" {
				t.Fatalf("%v: headers %v", codec, h)
			}
		}
	})
}

func TestAnIdempotentAsynchronousProducerKeepsOrder(t *testing.T) {
	eachVersion(t, func(t *testing.T, cfg *sarama.Config) {
		cfg.Producer.Idempotent, cfg.Net.MaxOpenRequests = true, 1
		name := topic(t, cfg, 1)
		p := must[sarama.AsyncProducer](t)(sarama.NewAsyncProducer(brokers(), cfg))
		const n = 1000
		var want []string
		go func() {
			for i := range n {
				p.Input() <- &sarama.ProducerMessage{Topic: name, Value: sarama.StringEncoder(strconv.Itoa(i))}
			}
		}()
		for i := range n {
			want = append(want, strconv.Itoa(i))
			select {
			case <-p.Successes():
			case err := <-p.Errors():
				t.Fatal(err)
			}
		}
		check(t, p.Close())
		equal(t, values(read(t, cfg, name, n)), want)
	})
}

func TestTransactions(t *testing.T) {
	eachVersion(t, func(t *testing.T, cfg *sarama.Config) {
		source, target, group := topic(t, cfg, 1), topic(t, cfg, 1), "g-"+strconv.FormatInt(time.Now().UnixNano(), 10)
		produce(t, cfg, source, "a", "b", "c")
		txn := *cfg
		txn.Producer.Idempotent, txn.Net.MaxOpenRequests = true, 1
		txn.Producer.Transaction.ID = group
		p := must[sarama.AsyncProducer](t)(sarama.NewAsyncProducer(brokers(), &txn))
		send := func(value string) {
			check(t, p.BeginTxn())
			p.Input() <- &sarama.ProducerMessage{Topic: target, Value: sarama.StringEncoder(value)}
			select {
			case <-p.Successes():
			case err := <-p.Errors():
				t.Fatal(err)
			}
		}
		offsets := map[string][]*sarama.PartitionOffsetMetadata{source: {{Partition: 0, Offset: 2, LeaderEpoch: -1}}}
		send("aborted")
		check(t, p.AddOffsetsToTxn(offsets, group))
		check(t, p.AbortTxn())
		send("committed")
		offsets[source][0].Offset = 3
		check(t, p.AddOffsetsToTxn(offsets, group))
		check(t, p.CommitTxn())
		send("aborted too")
		check(t, p.AbortTxn())
		send("the last")
		check(t, p.CommitTxn())
		check(t, p.Close())
		reader := *cfg
		reader.Consumer.IsolationLevel = sarama.ReadCommitted
		equal(t, values(read(t, &reader, target, 2)), []string{"committed", "the last"})
		equal(t, values(read(t, cfg, target, 4)), []string{"aborted", "committed", "aborted too", "the last"})
		committed := must[*sarama.OffsetFetchResponse](t)(admin(t, cfg).ListConsumerGroupOffsets(group, map[string][]int32{source: {0}}))
		if got := committed.GetBlock(source, 0).Offset; got != 3 {
			t.Fatalf("committed offset %d, want 3", got)
		}
	})
}

// member is a group's member that remembers what it has and what it read.
type member struct {
	cancel context.CancelFunc
	done   chan error
	mu     sync.Mutex
	claims []int32
	read   []string
}

func (m *member) Setup(s sarama.ConsumerGroupSession) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.claims = nil
	for _, partitions := range s.Claims() {
		m.claims = append(m.claims, partitions...)
	}
	return nil
}

func (m *member) Cleanup(sarama.ConsumerGroupSession) error { return nil }

func (m *member) ConsumeClaim(s sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for message := range claim.Messages() {
		m.mu.Lock()
		m.read = append(m.read, string(message.Value))
		m.mu.Unlock()
		s.MarkMessage(message, "read")
	}
	return nil
}

func (m *member) state() (claims, read int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.claims), len(m.read)
}

func join(t *testing.T, cfg *sarama.Config, group, name string) *member {
	t.Helper()
	g := must[sarama.ConsumerGroup](t)(sarama.NewConsumerGroup(brokers(), group, cfg))
	ctx, cancel := context.WithCancel(t.Context())
	m := &member{cancel: cancel, done: make(chan error, 1)}
	go func() {
		for ctx.Err() == nil {
			if err := g.Consume(ctx, []string{name}, m); err != nil && !errors.Is(err, context.Canceled) {
				m.done <- err
				return
			}
		}
		m.done <- g.Close()
	}()
	return m
}

func (m *member) leave(t *testing.T) {
	t.Helper()
	m.cancel()
	check(t, <-m.done)
}

func until(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for end := time.Now().Add(deadline); !condition(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

func TestMembersJoinAndLeave(t *testing.T) {
	strategies := []sarama.BalanceStrategy{sarama.NewBalanceStrategyRange(), sarama.NewBalanceStrategyRoundRobin(), sarama.NewBalanceStrategySticky()}
	eachVersion(t, func(t *testing.T, cfg *sarama.Config) {
		for _, strategy := range strategies {
			cfg.Consumer.Group.Rebalance.GroupStrategies = []sarama.BalanceStrategy{strategy}
			name, group := topic(t, cfg, 4), "g-"+strconv.FormatInt(time.Now().UnixNano(), 10)
			one := join(t, cfg, group, name)
			until(t, "all partitions", func() bool { claims, _ := one.state(); return claims == 4 })
			var all []string
			for i := range 40 {
				all = append(all, strconv.Itoa(i))
			}
			produce(t, cfg, name, all...)
			until(t, "all records", func() bool { _, read := one.state(); return read == 40 })
			two := join(t, cfg, group, name)
			until(t, "halves", func() bool { a, _ := one.state(); b, _ := two.state(); return a == 2 && b == 2 })
			one.leave(t)
			until(t, "the other half", func() bool { claims, _ := two.state(); return claims == 4 })
			produce(t, cfg, name, "the last")
			until(t, "the last record", func() bool { two.mu.Lock(); defer two.mu.Unlock(); return slices.Contains(two.read, "the last") })
			two.leave(t)
			if len(one.read)+len(two.read) != 41 {
				t.Fatalf("%s: 41 records were read as %d and %d", strategy.Name(), len(one.read), len(two.read))
			}
		}
	})
}

func TestAdministration(t *testing.T) {
	eachVersion(t, func(t *testing.T, cfg *sarama.Config) {
		a, name := admin(t, cfg), topic(t, cfg, 2)
		produce(t, cfg, name, "a", "b", "c")
		check(t, a.CreatePartitions(name, 3, nil, false))
		described := must[[]*sarama.TopicMetadata](t)(a.DescribeTopics([]string{name}))
		if len(described) != 1 || len(described[0].Partitions) != 3 {
			t.Fatalf("described as %+v", described)
		}
		value := "60000"
		check(t, a.AlterConfig(sarama.TopicResource, name, map[string]*string{"retention.ms": &value}, false))
		want := map[string]string{"retention.ms": "60000"}
		if cfg.Version.IsAtLeast(sarama.V2_3_0_0) {
			size := "5000"
			check(t, a.IncrementalAlterConfig(sarama.TopicResource, name, map[string]sarama.IncrementalAlterConfigsEntry{
				"max.message.bytes": {Operation: sarama.IncrementalAlterConfigsOperationSet, Value: &size},
			}, false))
			want["max.message.bytes"] = "5000"
		}
		for _, entry := range must[[]sarama.ConfigEntry](t)(a.DescribeConfig(sarama.ConfigResource{Type: sarama.TopicResource, Name: name})) {
			if value, ok := want[entry.Name]; ok && value != entry.Value {
				t.Errorf("%s is %s, want %s", entry.Name, entry.Value, value)
			}
			delete(want, entry.Name)
		}
		if len(want) > 0 {
			t.Errorf("not described: %v", want)
		}
		client := must[sarama.Client](t)(sarama.NewClient(brokers(), cfg))
		defer client.Close()
		end := must[int64](t)(client.GetOffset(name, 0, sarama.OffsetNewest))
		check(t, a.DeleteRecords(name, map[int32]int64{0: end}))
		if start := must[int64](t)(client.GetOffset(name, 0, sarama.OffsetOldest)); start != end {
			t.Errorf("the first offset is %d, want %d", start, end)
		}
		group := "g-" + name
		m := join(t, cfg, group, name)
		until(t, "an assignment", func() bool { claims, _ := m.state(); return claims == 3 })
		groups := must[[]*sarama.GroupDescription](t)(a.DescribeConsumerGroups([]string{group}))
		if len(groups) != 1 || groups[0].State != "Stable" || len(groups[0].Members) != 1 {
			t.Errorf("the group is described as %+v", groups)
		}
		if listed := must[map[string]string](t)(a.ListConsumerGroups()); listed[group] != "consumer" {
			t.Errorf("the group is listed as %q", listed[group])
		}
		m.leave(t)
		check(t, a.DeleteConsumerGroup(group))
		check(t, a.DeleteTopic(name))
		if err := a.DeleteTopic(name); !errors.Is(err, sarama.ErrUnknownTopicOrPartition) {
			t.Errorf("a second deletion gives %v", err)
		}
	})
}
