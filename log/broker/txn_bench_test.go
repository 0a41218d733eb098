package broker

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// BenchmarkTransactions runs transactions of one record through the in-process network, by one producer and by
// several. syncs/txn is the disk's share: producers share syncs, so it falls with their number.
func BenchmarkTransactions(b *testing.B) {
	for _, producers := range []int{1, 8} {
		b.Run(fmt.Sprintf("producers=%d", producers), func(b *testing.B) {
			s := live(b, b.TempDir())
			defer s.end(b)
			admin := s.client(b)
			createTopic(b, admin, "events", 4)
			admin.Close()
			clients := make([]*kgo.Client, producers)
			for i := range clients {
				clients[i] = s.client(b, kgo.TransactionalID(fmt.Sprintf("p%d", i)), kgo.ProducerLinger(0))
				oneRecord(b, clients[i])
			}
			var left atomic.Int64
			left.Store(int64(b.N))
			var mu sync.Mutex
			var took []time.Duration
			before := s.store.Stats().Syncs
			b.ReportAllocs()
			b.ResetTimer()
			var wg sync.WaitGroup
			for _, cl := range clients {
				wg.Go(func() {
					var mine []time.Duration
					for left.Add(-1) >= 0 {
						start := time.Now()
						oneRecord(b, cl)
						mine = append(mine, time.Since(start))
					}
					mu.Lock()
					defer mu.Unlock()
					took = append(took, mine...)
				})
			}
			wg.Wait()
			b.StopTimer()
			for _, cl := range clients {
				cl.Close()
			}
			slices.Sort(took)
			b.ReportMetric(float64(s.store.Stats().Syncs-before)/float64(b.N), "syncs/txn")
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "txn/s")
			b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-us")
			b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-us")
		})
	}
}

func oneRecord(b testing.TB, cl *kgo.Client) {
	if err := cl.BeginTransaction(); err != nil {
		b.Fatal(err)
	}
	if err := cl.ProduceSync(b.Context(), &kgo.Record{Topic: "events", Key: []byte("k"), Value: make([]byte, 500)}).FirstErr(); err != nil {
		b.Fatal(err)
	}
	if err := cl.EndTransaction(b.Context(), kgo.TryCommit); err != nil {
		b.Fatal(err)
	}
}
