package segmentio_test

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

	"github.com/segmentio/kafka-go"
)

const deadline = time.Minute

func broker() string { return os.Getenv("BOOTSTRAP") }

func client() *kafka.Client { return &kafka.Client{Addr: kafka.TCP(broker()), Timeout: deadline} }

func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	t.Cleanup(cancel)
	return ctx
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func topic(t *testing.T, partitions int) string {
	t.Helper()
	name := fmt.Sprintf("segmentio-%d", time.Now().UnixNano())
	created, err := client().CreateTopics(within(t), &kafka.CreateTopicsRequest{Topics: []kafka.TopicConfig{{Topic: name, NumPartitions: partitions, ReplicationFactor: 1}}})
	check(t, err)
	check(t, created.Errors[name])
	return name
}

func write(t *testing.T, name string, codec kafka.Compression, values ...string) {
	t.Helper()
	w := &kafka.Writer{Addr: kafka.TCP(broker()), Topic: name, Compression: codec, RequiredAcks: kafka.RequireAll, BatchTimeout: 5 * time.Millisecond, Balancer: kafka.Murmur2Balancer{}}
	defer w.Close()
	var messages []kafka.Message
	for _, v := range values {
		messages = append(messages, kafka.Message{Key: []byte(v), Value: []byte(v), Headers: []kafka.Header{{Key: "v", Value: []byte(v)}}})
	}
	check(t, w.WriteMessages(within(t), messages...))
}

func numbers(from, to int) []string {
	var list []string
	for i := from; i < to; i++ {
		list = append(list, strconv.Itoa(i))
	}
	return list
}

func TestWriterAndReaderOfEveryCodec(t *testing.T) {
	for _, codec := range []kafka.Compression{0, kafka.Gzip, kafka.Snappy, kafka.Lz4, kafka.Zstd} {
		name, want := topic(t, 1), numbers(0, 200)
		write(t, name, codec, want...)
		r := kafka.NewReader(kafka.ReaderConfig{Brokers: []string{broker()}, Topic: name, MaxWait: 100 * time.Millisecond})
		var got []string
		for len(got) < len(want) {
			m, err := r.ReadMessage(within(t))
			check(t, err)
			if string(m.Headers[0].Value) != string(m.Value) || m.Offset != int64(len(got)) {
				t.Fatalf("%v: record %d has offset %d and headers %v", codec, len(got), m.Offset, m.Headers)
			}
			got = append(got, string(m.Value))
		}
		if !slices.Equal(got, want) {
			t.Fatalf("%v: got %v", codec, got)
		}
		check(t, r.SetOffset(150))
		if m, err := r.ReadMessage(within(t)); err != nil || string(m.Value) != "150" {
			t.Fatalf("%v: offset 150 has %q, %v", codec, m.Value, err)
		}
		check(t, r.Close())
	}
}

func TestConnSpeaksOldVersions(t *testing.T) {
	name := topic(t, 1)
	conn, err := kafka.DialLeader(within(t), "tcp", broker(), name, 0)
	check(t, err)
	defer conn.Close()
	check(t, conn.SetDeadline(time.Now().Add(deadline)))
	_, err = conn.WriteMessages(kafka.Message{Key: []byte("k"), Value: []byte("one")}, kafka.Message{Value: []byte("two")})
	check(t, err)
	firstOffset, last, err := conn.ReadOffsets()
	check(t, err)
	if firstOffset != 0 || last != 2 {
		t.Fatalf("offsets %d to %d, want 0 to 2", firstOffset, last)
	}
	_, err = conn.Seek(1, kafka.SeekAbsolute)
	check(t, err)
	m, err := conn.ReadMessage(1 << 20)
	check(t, err)
	if string(m.Value) != "two" || m.Offset != 1 {
		t.Fatalf("read %q at %d", m.Value, m.Offset)
	}
	partitions, err := conn.ReadPartitions(name)
	check(t, err)
	controller, err := conn.Controller()
	check(t, err)
	if len(partitions) != 1 || partitions[0].Leader.ID != 1 || controller.ID != 1 {
		t.Fatalf("partitions %+v, controller %+v", partitions, controller)
	}
	check(t, conn.CreateTopics(kafka.TopicConfig{Topic: name + "-2", NumPartitions: 2, ReplicationFactor: 1}))
	check(t, conn.DeleteTopics(name+"-2"))
}

// member reads in a group until it is closed.
type member struct {
	reader *kafka.Reader
	stop   context.CancelFunc
	done   chan error
	mu     sync.Mutex
	read   []string
	from   map[int]bool
}

func join(name, group string, balancer kafka.GroupBalancer) *member {
	ctx, stop := context.WithCancel(context.Background())
	m := &member{stop: stop, done: make(chan error, 1), from: map[int]bool{}, reader: kafka.NewReader(kafka.ReaderConfig{
		Brokers: []string{broker()}, Topic: name, GroupID: group, MaxWait: 100 * time.Millisecond, StartOffset: kafka.FirstOffset,
		GroupBalancers: []kafka.GroupBalancer{balancer}, HeartbeatInterval: 200 * time.Millisecond, RebalanceTimeout: 10 * time.Second,
	})}
	go func() {
		for {
			message, err := m.reader.FetchMessage(ctx)
			if err != nil {
				m.done <- err
				return
			}
			m.mu.Lock()
			m.read = append(m.read, string(message.Value))
			m.from[message.Partition] = true
			m.mu.Unlock()
			if err := m.reader.CommitMessages(ctx, message); err != nil {
				m.done <- err
				return
			}
		}
	}()
	return m
}

// leave ends the read before it closes the reader: a commit that waits when a reader is closed waits for ever.
func (m *member) leave(t *testing.T) {
	t.Helper()
	m.stop()
	<-m.done
	check(t, m.reader.Close())
}

func (m *member) has(values []string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, v := range values {
		if !slices.Contains(m.read, v) {
			return false
		}
	}
	return true
}

func (m *member) partitions() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.from)
}

func until(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for end := time.Now().Add(deadline); !condition(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

func TestReadersJoinAndLeaveGroups(t *testing.T) {
	for _, balancer := range []kafka.GroupBalancer{kafka.RangeGroupBalancer{}, kafka.RoundRobinGroupBalancer{}} {
		name, group := topic(t, 4), fmt.Sprintf("g-%d", time.Now().UnixNano())
		one := join(name, group, balancer)
		write(t, name, kafka.Lz4, numbers(0, 100)...)
		until(t, "all records", func() bool { return one.has(numbers(0, 100)) })
		two := join(name, group, balancer)
		// The second member has its part when it reads records of its own.
		next := 100
		until(t, "a part of the second member", func() bool {
			write(t, name, kafka.Lz4, numbers(next, next+20)...)
			next += 20
			return two.partitions() == 2
		})
		one.leave(t)
		write(t, name, kafka.Lz4, numbers(10_000, 10_100)...)
		until(t, "all records at the one that stays", func() bool { return two.has(numbers(10_000, 10_100)) })
		two.leave(t)
		for _, v := range append(numbers(0, next), numbers(10_000, 10_100)...) {
			if !one.has([]string{v}) && !two.has([]string{v}) {
				t.Fatalf("record %s was read by no member", v)
			}
		}
	}
}

func TestTransactions(t *testing.T) {
	ctx, c, name, group := within(t), client(), topic(t, 1), fmt.Sprintf("g-%d", time.Now().UnixNano())
	id := "t-" + group
	started, err := c.InitProducerID(ctx, &kafka.InitProducerIDRequest{TransactionalID: id, TransactionTimeoutMs: 30000})
	check(t, errors.Join(err, started.Error))
	producer := started.Producer
	for i, committed := range []bool{false, true} {
		added, err := c.AddPartitionsToTxn(ctx, &kafka.AddPartitionsToTxnRequest{TransactionalID: id, ProducerID: producer.ProducerID, ProducerEpoch: producer.ProducerEpoch,
			Topics: map[string][]kafka.AddPartitionToTxn{name: {{Partition: 0}}}})
		check(t, errors.Join(err, added.Topics[name][0].Error))
		offsets, err := c.AddOffsetsToTxn(ctx, &kafka.AddOffsetsToTxnRequest{TransactionalID: id, ProducerID: producer.ProducerID, ProducerEpoch: producer.ProducerEpoch, GroupID: group})
		check(t, errors.Join(err, offsets.Error))
		sent, err := c.TxnOffsetCommit(ctx, &kafka.TxnOffsetCommitRequest{TransactionalID: id, GroupID: group, ProducerID: producer.ProducerID, ProducerEpoch: producer.ProducerEpoch,
			GenerationID: -1, Topics: map[string][]kafka.TxnOffsetCommit{name: {{Partition: 0, Offset: int64(i + 5)}}}})
		check(t, errors.Join(err, sent.Topics[name][0].Error))
		ended, err := c.EndTxn(ctx, &kafka.EndTxnRequest{TransactionalID: id, ProducerID: producer.ProducerID, ProducerEpoch: producer.ProducerEpoch, Committed: committed})
		check(t, errors.Join(err, ended.Error))
		want := int64(-1)
		if committed {
			want = 6
		}
		var got int64
		until(t, fmt.Sprintf("offset %d", want), func() bool {
			fetched, err := c.OffsetFetch(ctx, &kafka.OffsetFetchRequest{GroupID: group, Topics: map[string][]int{name: {0}}})
			check(t, errors.Join(err, fetched.Error))
			got = fetched.Topics[name][0].CommittedOffset
			return got == want
		})
	}
}

func TestClientAdministers(t *testing.T) {
	ctx, c, name := within(t), client(), topic(t, 1)
	write(t, name, 0, numbers(0, 5)...)
	grown, err := c.CreatePartitions(ctx, &kafka.CreatePartitionsRequest{Topics: []kafka.TopicPartitionsConfig{{Name: name, Count: 3}}})
	check(t, errors.Join(err, grown.Errors[name]))
	altered, err := c.IncrementalAlterConfigs(ctx, &kafka.IncrementalAlterConfigsRequest{Resources: []kafka.IncrementalAlterConfigsRequestResource{{
		ResourceType: kafka.ResourceTypeTopic, ResourceName: name,
		Configs: []kafka.IncrementalAlterConfigsRequestConfig{{Name: "retention.ms", Value: "60000", ConfigOperation: kafka.ConfigOperationSet}},
	}}})
	check(t, err)
	check(t, altered.Resources[0].Error)
	described, err := c.DescribeConfigs(ctx, &kafka.DescribeConfigsRequest{Resources: []kafka.DescribeConfigRequestResource{{
		ResourceType: kafka.ResourceTypeTopic, ResourceName: name, ConfigNames: []string{"retention.ms"},
	}}})
	check(t, err)
	if entries := described.Resources[0].ConfigEntries; len(entries) != 1 || entries[0].ConfigValue != "60000" {
		t.Fatalf("settings %+v", entries)
	}
	listed, err := c.ListOffsets(ctx, &kafka.ListOffsetsRequest{Topics: map[string][]kafka.OffsetRequest{name: {kafka.FirstOffsetOf(0), kafka.LastOffsetOf(0)}}})
	check(t, err)
	if got := listed.Topics[name][0]; got.FirstOffset != 0 || got.LastOffset != 5 {
		t.Fatalf("offsets %+v", got)
	}
	// The client answers from metadata that it keeps for some seconds.
	until(t, "three partitions", func() bool {
		metadata, err := c.Metadata(ctx, &kafka.MetadataRequest{Topics: []string{name}})
		check(t, err)
		return len(metadata.Topics) == 1 && len(metadata.Topics[0].Partitions) == 3 && metadata.Controller.ID == 1
	})
	group := "g-" + name
	m := join(name, group, kafka.RangeGroupBalancer{})
	until(t, "the records", func() bool { return m.has(numbers(0, 5)) })
	groups, err := c.DescribeGroups(ctx, &kafka.DescribeGroupsRequest{GroupIDs: []string{group}})
	check(t, err)
	if groups.Groups[0].GroupState != "Stable" || len(groups.Groups[0].Members) != 1 {
		t.Fatalf("group %+v", groups.Groups[0])
	}
	m.leave(t)
	deletedGroups, err := c.DeleteGroups(ctx, &kafka.DeleteGroupsRequest{GroupIDs: []string{group}})
	check(t, errors.Join(err, deletedGroups.Errors[group]))
	deleted, err := c.DeleteTopics(ctx, &kafka.DeleteTopicsRequest{Topics: []string{name}})
	check(t, errors.Join(err, deleted.Errors[name]))
}
