package cluster

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rowtrail/rowtrail/log"
	"github.com/rowtrail/rowtrail/log/record"
)

// benchBatch is one batch of about 16 KiB.
func benchBatch() []byte { return batchOf(string(make([]byte, 16<<10-100))) }

// benchWindow is how many appends of one group are in flight.
const benchWindow = 64

// BenchmarkAppend is the whole path of an append at acks all: queue, stage, Raft, commit with sync, apply, answer.
func BenchmarkAppend(b *testing.B) {
	for _, groups := range []int32{1, 64} {
		b.Run(fmt.Sprintf("groups=%d", groups), func(b *testing.B) {
			n := startNode(b, b.TempDir())
			defer n.close(b)
			n.topic(b, "t", groups, "retention.bytes", "67108864")
			rs := make([]*Replica, groups)
			for i := range rs {
				rs[i] = n.replica(b, "t", int32(i))
			}
			batch := benchBatch()
			b.SetBytes(int64(len(batch)))
			b.ReportAllocs()
			syncs := n.Metrics().Syncs
			b.ResetTimer()
			window := make(chan struct{}, benchWindow*min(int(groups), 4))
			var wg sync.WaitGroup
			done := func(a AppendResult) {
				if a.Err != nil {
					b.Error(a.Err)
				}
				<-window
				wg.Done()
			}
			for i := range b.N {
				window <- struct{}{}
				wg.Add(1)
				rs[i%len(rs)].Append(context.Background(), append([]byte(nil), batch...), -1, done)
			}
			wg.Wait()
			b.StopTimer()
			b.ReportMetric(float64(b.N)/float64(n.Metrics().Syncs-syncs), "entries/sync")
		})
	}
}

// BenchmarkAppendAlone is the latency of one small append at acks all on an idle node; each pays for a sync.
func BenchmarkAppendAlone(b *testing.B) {
	n := startNode(b, b.TempDir())
	defer n.close(b)
	n.topic(b, "t", 1)
	r := n.replica(b, "t", 0)
	batch := batchOf("value")
	b.ReportAllocs()
	for b.Loop() {
		if a := appendNow(r, append([]byte(nil), batch...)); a.Err != nil {
			b.Fatal(a.Err)
		}
	}
}

// BenchmarkManyGroups measures a node with a thousand idle partitions: creating them, memory for each, starting again.
func BenchmarkManyGroups(b *testing.B) {
	const groups = 1000
	for range b.N {
		dir := b.TempDir()
		n := startNode(b, dir)
		runtime.GC()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		start := time.Now()
		n.topic(b, "t", groups)
		b.ReportMetric(float64(time.Since(start).Milliseconds()), "create-ms")
		runtime.GC()
		runtime.ReadMemStats(&after)
		b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/groups, "heap-B/group")
		var cpu0, cpu1 syscall.Rusage
		_ = syscall.Getrusage(syscall.RUSAGE_SELF, &cpu0)
		time.Sleep(time.Second)
		_ = syscall.Getrusage(syscall.RUSAGE_SELF, &cpu1)
		b.ReportMetric(float64(cpu1.Utime.Nano()+cpu1.Stime.Nano()-cpu0.Utime.Nano()-cpu0.Stime.Nano())/1e7, "idle-cpu-%")
		n.close(b)
		start = time.Now()
		n = startNode(b, dir)
		b.ReportMetric(float64(time.Since(start).Milliseconds()), "restart-ms")
		n.close(b)
	}
}

// BenchmarkStoreCommit is the limit: the same bytes through Store.Commit alone, as many entries per sync as the
// scheduler gathers.
func BenchmarkStoreCommit(b *testing.B) {
	for _, c := range []struct{ groups, perSync int }{{1, 1}, {1, benchWindow / 2}, {64, 2 * benchWindow}} {
		b.Run(fmt.Sprintf("groups=%d/sync=%d", c.groups, c.perSync), func(b *testing.B) {
			store, err := log.Open(b.TempDir(), log.Options{Logger: quiet(), MinFreeBytes: 1})
			if err != nil {
				b.Fatal(err)
			}
			defer store.Close()
			parts := make([]*log.Partition, c.groups)
			index := make([]uint64, c.groups)
			offset := make([]int64, c.groups)
			for i := range parts {
				if parts[i], err = store.Partition(log.GroupID(i + 2)); err != nil {
					b.Fatal(err)
				}
			}
			batch := benchBatch()
			b.SetBytes(int64(len(batch)))
			b.ReportAllocs()
			b.ResetTimer()
			for i := 0; i < b.N; {
				var ms []log.Mutation
				at := map[int]int{}
				for range c.perSync {
					if i == b.N {
						break
					}
					g := i % c.groups
					data := append([]byte(nil), batch...)
					record.Stamp(data, offset[g], 1)
					offset[g]++
					index[g]++
					if _, ok := at[g]; !ok {
						at[g] = len(ms)
						ms = append(ms, log.Mutation{Group: log.GroupID(g + 2)})
					}
					m := &ms[at[g]]
					m.Entries = append(m.Entries, log.Entry{Index: index[g], Term: 1, Data: data})
					i++
				}
				if err := store.Commit(ms); err != nil {
					b.Fatal(err)
				}
				for j := range ms {
					parts[ms[j].Group-2].Apply(ms[j].Entries)
				}
			}
		})
	}
}

// BenchmarkScheduler is what the scheduler adds: the same path over a store and a log that cost nothing.
func BenchmarkScheduler(b *testing.B) {
	for _, groups := range []int{1, 64} {
		b.Run(fmt.Sprintf("groups=%d", groups), func(b *testing.B) {
			store := nullStore{}
			for i := range groups {
				store[log.GroupID(i+2)] = &nullLog{}
			}
			s := newScheduler(schedulerConfig{store: store, transport: noPeers{}, workers: 2, logger: quiet(), now: time.Now})
			s.start()
			var gs []*group
			for i := range groups {
				m := store[log.GroupID(i+2)]
				g, err := s.open(groupConfig{id: log.GroupID(i + 2), self: Member{Node: 1}, first: []Member{{Node: 1}}, sm: m, store: m, logger: quiet()})
				if err != nil {
					b.Fatal(err)
				}
				<-g.led
				gs = append(gs, g)
			}
			batch := make([]byte, 16<<10)
			b.SetBytes(int64(len(batch)))
			b.ReportAllocs()
			b.ResetTimer()
			window := make(chan struct{}, 4*benchWindow)
			done := func(int64, error) { <-window }
			for i := range b.N {
				window <- struct{}{}
				s.append(context.Background(), gs[i%groups], batch, -1, done)
			}
			if err := s.stop(context.Background()); err != nil {
				b.Fatal(err)
			}
		})
	}
}
