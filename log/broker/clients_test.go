package broker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func create(t testing.TB, s *served, topic string, partitions int32, configs map[string]*string) {
	t.Helper()
	adm := kadm.NewClient(s.client(t, true))
	r, err := adm.CreateTopic(t.Context(), partitions, -1, configs, topic)
	if err != nil {
		t.Fatal(err)
	}
	if r.ID == (kadm.TopicID{}) {
		t.Fatal("created topic has no id")
	}
}

// consume reads n records or fails.
func consume(t testing.TB, cl *kgo.Client, n int) []*kgo.Record {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	var out []*kgo.Record
	for len(out) < n {
		fs := cl.PollFetches(ctx)
		if err := fs.Err(); err != nil {
			t.Fatalf("got %d of %d records: %v", len(out), n, err)
		}
		out = append(out, fs.Records()...)
	}
	return out
}

// Every codec, number of partitions, acks and kind of connection gives back what was produced, in order.
func TestProduceConsume(t *testing.T) {
	s := serve(t)
	codecs := map[string]kgo.CompressionCodec{
		"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
		"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
	}
	for name, codec := range codecs {
		for _, partitions := range []int32{1, 16} {
			for _, inProcess := range []bool{false, true} {
				topic := fmt.Sprintf("%s-%d-%t", name, partitions, inProcess)
				t.Run(topic, func(t *testing.T) {
					create(t, s, topic, partitions, nil)
					p := s.client(t, inProcess, kgo.DefaultProduceTopic(topic), kgo.ProducerBatchCompression(codec))
					const n = 2000
					for i := range n {
						p.Produce(t.Context(), &kgo.Record{
							Key: fmt.Appendf(nil, "k%d", i%100), Value: fmt.Appendf(nil, "value %d of many that compress", i),
							Headers: []kgo.RecordHeader{{Key: "h", Value: []byte{byte(i)}}},
						}, func(r *kgo.Record, err error) {
							if err != nil {
								t.Error(err)
							}
						})
					}
					if err := p.Flush(t.Context()); err != nil {
						t.Fatal(err)
					}
					c := s.client(t, inProcess, kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
					last, next := map[string]int{}, map[int32]int64{}
					for _, r := range consume(t, c, n) {
						if r.Offset != next[r.Partition] {
							t.Fatalf("partition %d: offset %d, want %d", r.Partition, r.Offset, next[r.Partition])
						}
						next[r.Partition]++
						var i int
						fmt.Sscanf(string(r.Value), "value %d", &i)
						if prev, seen := last[string(r.Key)]; seen && i <= prev {
							t.Fatalf("key %s: %d after %d", r.Key, i, prev)
						}
						last[string(r.Key)] = i
						if len(r.Headers) != 1 || r.Headers[0].Value[0] != byte(i) {
							t.Fatalf("headers of %d: %v", i, r.Headers)
						}
					}
				})
			}
		}
	}
}

func TestAcks(t *testing.T) {
	s := serve(t)
	create(t, s, "acks", 1, nil)
	for _, acks := range []kgo.Acks{kgo.NoAck(), kgo.LeaderAck(), kgo.AllISRAcks()} {
		p := s.client(t, false, kgo.DefaultProduceTopic("acks"), kgo.RequiredAcks(acks), kgo.DisableIdempotentWrite())
		for i := range 50 {
			if err := p.ProduceSync(t.Context(), &kgo.Record{Value: []byte{byte(i)}}).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
		p.Close()
	}
	c := s.client(t, false, kgo.ConsumeTopics("acks"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	consume(t, c, 150)
}

// A Fetch that waits is answered as soon as a record is committed in any of its partitions.
func TestFetchWakes(t *testing.T) {
	s := serve(t)
	for _, partitions := range []int32{1, fixedWatch, 40} {
		topic := fmt.Sprintf("wake-%d", partitions)
		create(t, s, topic, partitions, nil)
		c := s.client(t, true)
		p := s.client(t, true, kgo.DefaultProduceTopic(topic), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(0))
		next := make([]int64, partitions)
		req := kmsg.NewPtrFetchRequest()
		req.MaxWaitMillis, req.MinBytes, req.MaxBytes = 30_000, 1, 1<<20
		rt := kmsg.NewFetchRequestTopic()
		rt.Topic, rt.TopicID = topic, s.node.Catalog().Topics[topic].ID
		for i := range partitions {
			rp := kmsg.NewFetchRequestTopicPartition()
			rp.Partition, rp.PartitionMaxBytes, rp.CurrentLeaderEpoch, rp.LastFetchedEpoch = i, 1<<20, -1, -1
			rt.Partitions = append(rt.Partitions, rp)
		}
		req.Topics = append(req.Topics, rt)
		for i := range 30 {
			to := rand.Int32N(partitions)
			produced := make(chan error, 1)
			go func() {
				time.Sleep(time.Duration(rand.IntN(2000)) * time.Microsecond)
				produced <- p.ProduceSync(t.Context(), &kgo.Record{Value: []byte{byte(i)}, Partition: to}).FirstErr()
			}()
			for j := range req.Topics[0].Partitions {
				req.Topics[0].Partitions[j].FetchOffset = next[j]
			}
			start := time.Now()
			resp, err := req.RequestWith(t.Context(), c)
			for err == nil && time.Since(start) < 10*time.Second && !slices.ContainsFunc(resp.Topics[0].Partitions,
				func(p kmsg.FetchResponseTopicPartition) bool { return p.ErrorCode != 0 || len(p.RecordBatches) > 0 }) {
				resp, err = req.RequestWith(t.Context(), c) // a change of the catalogue ends a wait, too
			}
			if err != nil {
				t.Fatal(err)
			}
			if err := <-produced; err != nil {
				t.Fatal(err)
			}
			if took := time.Since(start); took > 10*time.Second {
				t.Fatalf("%d partitions: answered after %v", partitions, took)
			}
			for _, sp := range resp.Topics[0].Partitions {
				if sp.ErrorCode != 0 || (len(sp.RecordBatches) > 0) != (sp.Partition == to) {
					t.Fatalf("partition %d: code %d, %d bytes; wrote to %d", sp.Partition, sp.ErrorCode, len(sp.RecordBatches), to)
				}
			}
			next[to]++
		}
	}
}

// fetch.min.bytes is honoured: a response waits until there is that much.
func TestFetchMinBytes(t *testing.T) {
	s := serve(t)
	create(t, s, "min", 2, nil)
	const minBytes = 20_000
	fetches := 0
	c := s.client(t, true, kgo.ConsumeTopics("min"), kgo.FetchMinBytes(minBytes), kgo.FetchMaxWait(10*time.Second),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	p := s.client(t, true, kgo.DefaultProduceTopic("min"), kgo.ProducerBatchCompression(kgo.NoCompression()))
	value := bytes.Repeat([]byte("v"), 1000)
	go func() {
		for range 100 {
			p.ProduceSync(t.Context(), &kgo.Record{Value: value})
		}
	}()
	for got := 0; got < 80; {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		fs := c.PollFetches(ctx)
		cancel()
		if fs.Err() != nil {
			t.Fatal(fs.Err())
		}
		fetches++
		got += fs.NumRecords()
	}
	if fetches > 20 {
		t.Errorf("%d responses for 80 records: minimum bytes not honoured", fetches)
	}
}

func TestFetchOutOfRangeAndLargeBatches(t *testing.T) {
	s := serve(t)
	create(t, s, "big", 1, map[string]*string{"max.message.bytes": kadm.StringPtr("9000000")})
	p := s.client(t, false, kgo.DefaultProduceTopic("big"), kgo.ProducerBatchMaxBytes(8<<20),
		kgo.ProducerBatchCompression(kgo.NoCompression()))
	for range 3 {
		if err := p.ProduceSync(t.Context(), &kgo.Record{Value: make([]byte, 5<<20)}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	// Bounds below a batch's size still let it through, alone.
	c := s.client(t, false, kgo.ConsumeTopics("big"), kgo.FetchMaxBytes(1<<20), kgo.FetchMaxPartitionBytes(1<<10),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	for i, r := range consume(t, c, 3) {
		if len(r.Value) != 5<<20 || r.Offset != int64(i) {
			t.Fatalf("record %d: offset %d, %d bytes", i, r.Offset, len(r.Value))
		}
	}
	bad := s.client(t, false, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{"big": {0: kgo.NewOffset().At(99)}}),
		kgo.ConsumeResetOffset(kgo.NoResetOffset()))
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := bad.PollFetches(ctx).Err(); !errors.Is(err, kerr.OffsetOutOfRange) {
		t.Fatalf("fetch beyond the end: %v", err)
	}
	create(t, s, "small", 1, nil)
	if err := p.ProduceSync(t.Context(), &kgo.Record{Topic: "small", Value: make([]byte, 2<<20)}).FirstErr(); !errors.Is(err, kerr.MessageTooLarge) {
		t.Fatalf("2 MiB into a topic with the default limit: %v", err)
	}
}

func TestCompactedTopicNeedsKeys(t *testing.T) {
	s := serve(t)
	create(t, s, "compacted", 1, map[string]*string{"cleanup.policy": kadm.StringPtr("compact")})
	p := s.client(t, false, kgo.DefaultProduceTopic("compacted"))
	if err := p.ProduceSync(t.Context(), &kgo.Record{Value: []byte("v")}).FirstErr(); !errors.Is(err, kerr.InvalidRecord) {
		t.Fatalf("keyless record: %v", err)
	}
	p = s.client(t, false, kgo.DefaultProduceTopic("compacted"))
	if err := p.ProduceSync(t.Context(), &kgo.Record{Key: []byte("k"), Value: []byte("v")}).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

func TestInternalTopicsAreClosedToClients(t *testing.T) {
	s := serve(t)
	for _, topic := range []string{"__consumer_offsets", "__transaction_state"} {
		p := s.client(t, false, kgo.DefaultProduceTopic(topic), kgo.AllowAutoTopicCreation(), kgo.RecordDeliveryTimeout(2*time.Second), kgo.UnknownTopicRetries(1))
		if err := p.ProduceSync(t.Context(), &kgo.Record{Value: []byte("v")}).FirstErr(); err == nil {
			t.Fatalf("a client wrote to %s", topic)
		}
		adm := kadm.NewClient(s.client(t, false))
		if _, err := adm.CreateTopic(t.Context(), 1, 1, nil, topic); !errors.Is(err, kerr.TopicAlreadyExists) {
			t.Fatalf("create %s: %v", topic, err)
		}
	}
}

// librdkafka through kcat: auto-created topic, produce, consume, metadata, offsets by time.
func TestKcat(t *testing.T) {
	kcat, err := exec.LookPath("kcat")
	if err != nil {
		t.Skip("kcat is not installed (apt-get install kcat)")
	}
	s := serve(t)
	run := func(stdin string, args ...string) string {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		cmd := exec.CommandContext(ctx, kcat, append([]string{"-b", s.addr}, args...)...)
		cmd.Stdin = strings.NewReader(stdin)
		var errOut bytes.Buffer
		cmd.Stderr = &errOut
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("kcat %v: %v\n%s\n%s", args, err, errOut.String(), s.logs)
		}
		return string(out)
	}
	for _, codec := range []string{"none", "gzip", "snappy", "lz4", "zstd"} {
		topic := "kcat-" + codec
		run("a:1\nb:2\nc:3\n", "-P", "-t", topic, "-K", ":", "-z", codec)
		if got := run("", "-C", "-t", topic, "-e", "-q", "-f", "%o %k %s\n"); got != "0 a 1\n1 b 2\n2 c 3\n" {
			t.Fatalf("%s: consumed %q", codec, got)
		}
	}
	run("d:4\n", "-P", "-t", "kcat-none", "-K", ":", "-X", "enable.idempotence=true")
	if got := run("", "-L", "-t", "kcat-none"); !strings.Contains(got, `topic "kcat-none" with 1 partitions`) {
		t.Fatalf("metadata: %s", got)
	}
	if got := run("", "-Q", "-t", "kcat-none:0:-1"); !strings.Contains(got, "offset 4") {
		t.Fatalf("end offset: %s", got)
	}
	if got := run("", "-C", "-t", "kcat-none", "-o", "-2", "-e", "-q", "-f", "%s\n"); got != "3\n4\n" {
		t.Fatalf("tail: %q", got)
	}
}

// Clients take a connection that the broker closed for what it is, and dial again: also in process.
func TestClosedConnectionsAreDialledAgain(t *testing.T) {
	s := serve(t, func(o *Options) { o.IdleTimeout = 200 * time.Millisecond })
	create(t, s, "t", 1, nil)
	for _, inProcess := range []bool{true, false} {
		p := s.client(t, inProcess, kgo.DefaultProduceTopic("t"), kgo.ConnIdleTimeout(10*time.Minute), kgo.RecordRetries(3))
		for range 4 {
			if err := p.ProduceSync(t.Context(), &kgo.Record{Value: []byte("v")}).FirstErr(); err != nil {
				t.Fatalf("in process %t: %v", inProcess, err)
			}
			time.Sleep(300 * time.Millisecond)
		}
	}
}
