package confluent_test

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/confluentinc/confluent-kafka-go/v2/kafka"
)

const deadline = time.Minute

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func unique(prefix string) string { return fmt.Sprintf("%s-%d", prefix, time.Now().UnixNano()) }

func config(more kafka.ConfigMap) *kafka.ConfigMap {
	all := kafka.ConfigMap{"bootstrap.servers": os.Getenv("BOOTSTRAP")}
	for k, v := range more {
		all[k] = v
	}
	return &all
}

func admin(t *testing.T) *kafka.AdminClient {
	t.Helper()
	a, err := kafka.NewAdminClient(config(nil))
	check(t, err)
	t.Cleanup(a.Close)
	return a
}

func topic(t *testing.T, partitions int) string {
	t.Helper()
	name := unique("confluent")
	results, err := admin(t).CreateTopics(t.Context(), []kafka.TopicSpecification{{Topic: name, NumPartitions: partitions, ReplicationFactor: 1}})
	check(t, err)
	if results[0].Error.Code() != kafka.ErrNoError {
		t.Fatal(results[0].Error)
	}
	return name
}

func send(t *testing.T, p *kafka.Producer, name string, values ...string) {
	t.Helper()
	delivered := make(chan kafka.Event, len(values))
	for _, v := range values {
		check(t, p.Produce(&kafka.Message{
			TopicPartition: kafka.TopicPartition{Topic: &name, Partition: kafka.PartitionAny}, Key: []byte(v), Value: []byte(v),
			Headers: []kafka.Header{{Key: "v", Value: []byte(v)}},
		}, delivered))
	}
	for range values {
		check(t, (<-delivered).(*kafka.Message).TopicPartition.Error)
	}
}

func produce(t *testing.T, more kafka.ConfigMap, name string, values ...string) {
	t.Helper()
	p, err := kafka.NewProducer(config(more))
	check(t, err)
	defer p.Close()
	send(t, p, name, values...)
}

func consumer(t *testing.T, group string, more kafka.ConfigMap) *kafka.Consumer {
	t.Helper()
	cfg := config(kafka.ConfigMap{"group.id": group, "auto.offset.reset": "earliest", "enable.auto.commit": false})
	for k, v := range more {
		check(t, cfg.SetKey(k, v))
	}
	c, err := kafka.NewConsumer(cfg)
	check(t, err)
	return c
}

// read polls n records.
func read(t *testing.T, c *kafka.Consumer, n int) []string {
	t.Helper()
	var got []string
	for end := time.Now().Add(deadline); len(got) < n; {
		if time.Now().After(end) {
			t.Fatalf("read %d of %d records", len(got), n)
		}
		switch e := c.Poll(100).(type) {
		case *kafka.Message:
			check(t, e.TopicPartition.Error)
			if string(e.Headers[0].Value) != string(e.Value) {
				t.Fatalf("record %q has headers %v", e.Value, e.Headers)
			}
			got = append(got, string(e.Value))
		case kafka.Error:
			t.Fatal(e)
		}
	}
	return got
}

func numbers(from, to int) []string {
	var list []string
	for i := from; i < to; i++ {
		list = append(list, strconv.Itoa(i))
	}
	return list
}

func TestRecordsOfEveryCodec(t *testing.T) {
	for _, codec := range []string{"none", "gzip", "snappy", "lz4", "zstd"} {
		name, want := topic(t, 1), numbers(0, 300)
		produce(t, kafka.ConfigMap{"compression.type": codec, "enable.idempotence": true, "linger.ms": 20}, name, want...)
		c := consumer(t, unique("g"), nil)
		check(t, c.Subscribe(name, nil))
		if got := read(t, c, len(want)); !slices.Equal(got, want) {
			t.Fatalf("%s: got %v", codec, got)
		}
		check(t, c.Close())
	}
}

func TestMembersJoinAndLeaveGroupsOfBothProtocols(t *testing.T) {
	kinds := map[string]kafka.ConfigMap{
		"range":    {"partition.assignment.strategy": "range"},
		"sticky":   {"partition.assignment.strategy": "cooperative-sticky"},
		"consumer": {"group.protocol": "consumer"},
	}
	for kind, more := range kinds {
		t.Run(kind, func(t *testing.T) {
			name, group := topic(t, 4), unique("g")
			one := consumer(t, group, more)
			check(t, one.Subscribe(name, nil))
			produce(t, nil, name, numbers(0, 40)...)
			got := read(t, one, 40)
			_, err := one.Commit()
			check(t, err)
			two := consumer(t, group, more)
			check(t, two.Subscribe(name, nil))
			sizes := func() (a, b int) {
				for i, c := range []*kafka.Consumer{one, two} {
					c.Poll(20)
					partitions, err := c.Assignment()
					check(t, err)
					if i == 0 {
						a = len(partitions)
					} else {
						b = len(partitions)
					}
				}
				return a, b
			}
			for end := time.Now().Add(deadline); ; {
				if a, b := sizes(); a == 2 && b == 2 {
					break
				}
				if time.Now().After(end) {
					t.Fatal("no halves")
				}
			}
			check(t, one.Close())
			for end := time.Now().Add(deadline); ; {
				two.Poll(20)
				if partitions, err := two.Assignment(); err == nil && len(partitions) == 4 {
					break
				}
				if time.Now().After(end) {
					t.Fatal("the partitions of the member that left went nowhere")
				}
			}
			produce(t, nil, name, numbers(40, 80)...)
			got = append(got, read(t, two, 40)...)
			check(t, two.Close())
			slices.Sort(got)
			want := numbers(0, 80)
			slices.Sort(want)
			if !slices.Equal(got, want) {
				t.Fatalf("read %v", got)
			}
		})
	}
}

func TestTransactions(t *testing.T) {
	source, target, group := topic(t, 1), topic(t, 1), unique("g")
	produce(t, nil, source, numbers(0, 10)...)
	c := consumer(t, group, nil)
	defer c.Close()
	check(t, c.Subscribe(source, nil))
	read(t, c, 10)
	p, err := kafka.NewProducer(config(kafka.ConfigMap{"transactional.id": unique("t")}))
	check(t, err)
	defer p.Close()
	check(t, p.InitTransactions(t.Context()))
	for i, end := range []func() error{
		func() error { return p.AbortTransaction(t.Context()) },
		func() error { return p.CommitTransaction(t.Context()) },
	} {
		check(t, p.BeginTransaction())
		send(t, p, target, strconv.Itoa(i))
		metadata, err := c.GetConsumerGroupMetadata()
		check(t, err)
		check(t, p.SendOffsetsToTransaction(t.Context(), kafka.TopicPartitions{{Topic: &source, Offset: kafka.Offset(5 + i)}}, metadata))
		check(t, end())
	}
	for isolation, want := range map[string][]string{"read_committed": {"1"}, "read_uncommitted": {"0", "1"}} {
		r := consumer(t, unique("g"), kafka.ConfigMap{"isolation.level": isolation})
		check(t, r.Subscribe(target, nil))
		if got := read(t, r, len(want)); !slices.Equal(got, want) {
			t.Errorf("%s: %v", isolation, got)
		}
		check(t, r.Close())
	}
	committed, err := c.Committed([]kafka.TopicPartition{{Topic: &source}}, int(deadline.Milliseconds()))
	check(t, err)
	if committed[0].Offset != 6 {
		t.Errorf("committed offset %v, want 6", committed[0].Offset)
	}
	old := *config(kafka.ConfigMap{"transactional.id": unique("fenced")})
	first, err := kafka.NewProducer(&old)
	check(t, err)
	defer first.Close()
	check(t, first.InitTransactions(t.Context()))
	check(t, first.BeginTransaction())
	send(t, first, target, "of a producer that is replaced")
	second, err := kafka.NewProducer(&old)
	check(t, err)
	defer second.Close()
	check(t, second.InitTransactions(t.Context()))
	var refused kafka.Error
	if err := first.CommitTransaction(t.Context()); !errors.As(err, &refused) || !refused.IsFatal() {
		t.Errorf("a replaced producer's commit gives %v", err)
	}
}

func TestAdministration(t *testing.T) {
	ctx, a, name := t.Context(), admin(t), topic(t, 1)
	produce(t, nil, name, numbers(0, 10)...)
	grown, err := a.CreatePartitions(ctx, []kafka.PartitionsSpecification{{Topic: name, IncreaseTo: 2}})
	check(t, err)
	if grown[0].Error.Code() != kafka.ErrNoError {
		t.Fatal(grown[0].Error)
	}
	altered, err := a.IncrementalAlterConfigs(ctx, []kafka.ConfigResource{{Type: kafka.ResourceTopic, Name: name,
		Config: []kafka.ConfigEntry{{Name: "retention.ms", Value: "60000", IncrementalOperation: kafka.AlterConfigOpTypeSet}}}})
	check(t, err)
	if altered[0].Error.Code() != kafka.ErrNoError {
		t.Fatal(altered[0].Error)
	}
	described, err := a.DescribeConfigs(ctx, []kafka.ConfigResource{{Type: kafka.ResourceTopic, Name: name}})
	check(t, err)
	if got := described[0].Config["retention.ms"].Value; got != "60000" {
		t.Errorf("retention.ms is %q", got)
	}
	deleted, err := a.DeleteRecords(ctx, []kafka.TopicPartition{{Topic: &name, Offset: 4}})
	check(t, err)
	if got := deleted.DeleteRecordsResults[0].DeletedRecords.LowWatermark; got != 4 {
		t.Errorf("the first offset is %v", got)
	}
	listed, err := a.ListOffsets(ctx, map[kafka.TopicPartition]kafka.OffsetSpec{{Topic: &name}: kafka.EarliestOffsetSpec})
	check(t, err)
	for _, result := range listed.ResultInfos {
		if result.Offset != 4 {
			t.Errorf("the earliest offset is %v", result.Offset)
		}
	}
	group := unique("g")
	c := consumer(t, group, nil)
	check(t, c.Subscribe(name, nil))
	read(t, c, 6)
	groups, err := a.DescribeConsumerGroups(ctx, []string{group})
	check(t, err)
	if got := groups.ConsumerGroupDescriptions[0]; got.State != kafka.ConsumerGroupStateStable || len(got.Members) != 1 {
		t.Errorf("group %+v", got)
	}
	check(t, c.Close())
	changed, err := a.AlterConsumerGroupOffsets(ctx, []kafka.ConsumerGroupTopicPartitions{{Group: group, Partitions: []kafka.TopicPartition{{Topic: &name, Offset: 5}}}})
	check(t, err)
	check(t, changed.ConsumerGroupsTopicPartitions[0].Partitions[0].Error)
	offsets, err := a.ListConsumerGroupOffsets(ctx, []kafka.ConsumerGroupTopicPartitions{{Group: group}})
	check(t, err)
	if got := offsets.ConsumerGroupsTopicPartitions[0].Partitions; len(got) != 1 || got[0].Offset != 5 {
		t.Errorf("offsets %v", got)
	}
	gone, err := a.DeleteConsumerGroups(ctx, []string{group})
	check(t, err)
	if gone.ConsumerGroupResults[0].Error.Code() != kafka.ErrNoError {
		t.Error(gone.ConsumerGroupResults[0].Error)
	}
	topics, err := a.DeleteTopics(ctx, []string{name})
	check(t, err)
	if topics[0].Error.Code() != kafka.ErrNoError {
		t.Error(topics[0].Error)
	}
}
