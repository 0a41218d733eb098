package broker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kversion"
)

// TestClusterTransactions copies a topic in transactions, with partitions, group and transactions coordinated on different nodes, while nodes
// stop and come back: every record is there once, in both versions of transactions.
func TestClusterTransactions(t *testing.T) {
	for _, version := range []string{"v1", "v2"} {
		t.Run(version, func(t *testing.T) {
			const partitions, records = 3, 300
			c := serveCluster(t, 3)
			adm := kadm.NewClient(c.client())
			for _, topic := range []string{"in", "out"} {
				if _, err := adm.CreateTopic(t.Context(), partitions, 3, nil, topic); err != nil {
					t.Fatal(err)
				}
			}
			var opts []kgo.Opt
			if version == "v1" {
				opts = append(opts, kgo.MaxVersions(kversion.V3_6_0()))
			}
			p := c.client(kgo.RecordPartitioner(kgo.ManualPartitioner()))
			for i := range records {
				r := &kgo.Record{Topic: "in", Partition: int32(i % partitions), Value: fmt.Append(nil, i)}
				if err := p.ProduceSync(t.Context(), r).FirstErr(); err != nil {
					t.Fatal(err)
				}
			}
			ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
			defer cancel()
			copied := 0
			for stops := 0; copied < records; {
				n := copyOnce(ctx, t, c, opts, copied, func(done int) bool {
					if stops < 3 && done >= (stops+1)*60 {
						x := c.nodes[stops]
						x.stop()
						c.start(x)
						stops++
					}
					return done < records
				})
				copied = n
			}
			reader := c.client(kgo.ConsumeTopics("out"), kgo.FetchIsolationLevel(kgo.ReadCommitted()))
			var got []int
			for _, r := range consume(t, reader, records) {
				var i int
				if _, err := fmt.Sscan(string(r.Value), &i); err != nil {
					t.Fatal(err)
				}
				got = append(got, i)
			}
			slices.Sort(got)
			for i, v := range got {
				if v != i {
					t.Fatalf("record %d of the copy is %d: one is missing or twice", i, v)
				}
			}
			// Nothing hangs: all of it can be read, and nothing more comes.
			ends, err := adm.ListEndOffsets(t.Context(), "out")
			if err != nil {
				t.Fatal(err)
			}
			stable, err := adm.ListCommittedOffsets(t.Context(), "out")
			if err != nil {
				t.Fatal(err)
			}
			for part := range int32(partitions) {
				e, _ := ends.Lookup("out", part)
				s, _ := stable.Lookup("out", part)
				if e.Offset != s.Offset {
					t.Errorf("partition %d ends at %d, and is stable up to %d", part, e.Offset, s.Offset)
				}
			}
		})
	}
}

// copyOnce copies until more says that it is enough, or the client gives up. It returns how many records are copied in all.
func copyOnce(ctx context.Context, t *testing.T, c *brokers, opts []kgo.Opt, copied int, more func(int) bool) int {
	t.Helper()
	s, err := kgo.NewGroupTransactSession(append([]kgo.Opt{
		kgo.SeedBrokers(c.seeds()...), kgo.MetadataMinAge(20 * time.Millisecond), kgo.TransactionalID("copy"), kgo.ConsumerGroup("copiers"),
		kgo.ConsumeTopics("in"), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.FetchMaxPartitionBytes(400),
	}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for more(copied) {
		poll, cancel := context.WithTimeout(ctx, 10*time.Second)
		fs := s.PollRecords(poll, 7)
		cancel()
		if ctx.Err() != nil {
			t.Fatalf("%d records were copied in time", copied)
		}
		if err := fs.Err(); err != nil && !errors.Is(err, context.DeadlineExceeded) {
			t.Logf("poll: %v", err)
			return copied
		}
		if err := s.Begin(); err != nil {
			t.Logf("begin: %v", err)
			return copied
		}
		n := 0
		fs.EachRecord(func(r *kgo.Record) {
			n++
			s.Produce(ctx, &kgo.Record{Topic: "out", Partition: r.Partition, Value: r.Value}, nil)
		})
		committed, err := s.End(ctx, kgo.TryCommit)
		if committed {
			copied += n
		}
		if err != nil {
			t.Logf("end: %v", err)
			return copied
		}
	}
	return copied
}
