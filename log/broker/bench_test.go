package broker

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rowtrail/rowtrail/cluster/topicconfig"
	"github.com/rowtrail/rowtrail/log/record"
)

// BenchmarkProduce is one kgo producer in process, 1 KB records, acks=all, to a durable log.
func BenchmarkProduce(b *testing.B) {
	for _, partitions := range []int32{1, 16} {
		b.Run(strconv.Itoa(int(partitions))+"-partitions", func(b *testing.B) {
			s := serve(b)
			create(b, s, "t", partitions, nil)
			p := s.client(b, true, kgo.DefaultProduceTopic("t"), kgo.ProducerBatchCompression(kgo.NoCompression()),
				kgo.MaxBufferedRecords(50_000), kgo.DisableIdempotentWrite(), kgo.MaxProduceRequestsInflightPerBroker(4))
			values := noise(64)
			b.SetBytes(1024)
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				p.Produce(context.Background(), &kgo.Record{Value: values[i%len(values)]}, func(_ *kgo.Record, err error) {
					if err != nil {
						b.Error(err)
					}
				})
				i++
			}
			if err := p.Flush(context.Background()); err != nil {
				b.Fatal(err)
			}
		})
	}
}

// BenchmarkConsume reads 1 KB records in process.
func BenchmarkConsume(b *testing.B) {
	const stored = 100_000
	s := serve(b)
	create(b, s, "t", 4, nil)
	p := s.client(b, true, kgo.DefaultProduceTopic("t"), kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.DisableIdempotentWrite())
	values := noise(64)
	for i := range stored {
		p.Produce(context.Background(), &kgo.Record{Value: values[i%len(values)]}, nil)
	}
	if err := p.Flush(context.Background()); err != nil {
		b.Fatal(err)
	}
	b.SetBytes(1024)
	b.ReportAllocs()
	b.ResetTimer()
	for left := b.N; left > 0; {
		c := s.client(b, true, kgo.ConsumeTopics("t"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchMaxBytes(8<<20))
		for round := min(left, stored); round > 0; {
			ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
			fs := c.PollFetches(ctx)
			cancel()
			if fs.Err() != nil {
				b.Fatal(fs.Err())
			}
			round -= fs.NumRecords()
			left -= fs.NumRecords()
		}
		c.Close()
	}
}

// BenchmarkCommitLatency is one record at a time, in process.
func BenchmarkCommitLatency(b *testing.B) {
	s := serve(b)
	create(b, s, "t", 1, nil)
	p := s.client(b, true, kgo.DefaultProduceTopic("t"), kgo.ProducerLinger(0), kgo.DisableIdempotentWrite())
	b.ReportAllocs()
	for b.Loop() {
		if err := p.ProduceSync(context.Background(), &kgo.Record{Value: []byte("v")}).FirstErr(); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkCheckBatch is what a Produce costs before its append: 16 KiB in records of two sizes, from the network.
func BenchmarkCheckBatch(b *testing.B) {
	br := &Broker{opening: newOpeners()}
	br.external = newListenerLimits(1, 1, 1, 1, br.opening)
	r := produced(br)
	settings := topicconfig.Resolve()
	var rewriter = record.NewRewriter(maxUnpackedBytes)
	for _, size := range []int{1024, 100} {
		var builder record.Builder
		for i, v := range noise(16) {
			for at := 0; at < len(v); at += size {
				builder.Append(int64(i), nil, v[at:min(at+size, len(v))])
			}
		}
		plain := builder.Build(nil)
		for _, codec := range []record.Codec{record.None, record.LZ4} {
			batch := plain
			if codec != record.None {
				var err error
				if batch, err = rewriter.Recompress(nil, plain, codec, 1); err != nil {
					b.Fatal(err)
				}
			}
			b.Run(fmt.Sprintf("%d-bytes/codec-%d", size, codec), func(b *testing.B) {
				var sp kmsg.ProduceResponseTopicPartition
				b.SetBytes(int64(len(plain)))
				b.ReportAllocs()
				for b.Loop() {
					if _, _, err := br.check(b.Context(), r, batch, &settings, time.Now(), &sp); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

func noise(n int) [][]byte {
	out := make([][]byte, n)
	for i := range out {
		out[i] = make([]byte, 1024)
		for j := range out[i] {
			out[i][j] = byte(rand.Uint32())
		}
	}
	return out
}
