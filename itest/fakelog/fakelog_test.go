package fakelog

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
)

// A read_committed reader whose responses are full sees nothing of aborted transactions.
func TestFullResponsesHideAbortedRecords(t *testing.T) {
	cluster := Start(t, kfake.SeedTopics(2, "t"))
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	seeds := kgo.SeedBrokers(cluster.ListenAddrs()...)
	producer, err := kgo.NewClient(seeds, kgo.TransactionalID("t"), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	defer producer.Close()
	const rounds = 40
	value := make([]byte, 500)
	for i := range rounds {
		for _, commit := range []kgo.TransactionEndTry{kgo.TryAbort, kgo.TryCommit} {
			if err := producer.BeginTransaction(); err != nil {
				t.Fatal(err)
			}
			key := []byte("committed")
			if commit == kgo.TryAbort {
				key = []byte("aborted")
			}
			for p := range int32(2) {
				if err := producer.ProduceSync(ctx, &kgo.Record{Topic: "t", Partition: p, Key: key, Value: value}).FirstErr(); err != nil {
					t.Fatal(err)
				}
			}
			if err := producer.EndTransaction(ctx, commit); err != nil {
				t.Fatalf("round %d: %v", i, err)
			}
		}
	}
	var keys []string
	for _, r := range Read(t, []kgo.Opt{seeds, kgo.FetchMaxBytes(8 << 10), kgo.FetchMaxPartitionBytes(6 << 10)}, "t") {
		keys = append(keys, string(r.Key))
	}
	if len(keys) != 2*rounds || slices.Contains(keys, "aborted") {
		t.Fatalf("a reader of %d committed records sees these: %v", 2*rounds, keys)
	}
}
