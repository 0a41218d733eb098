package cluster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	rollingPartitions = 6
	perTransaction    = 5
	pace              = 5 * time.Millisecond // between two records, or two transactions
	pollFor           = 30 * time.Second
	// slowestAck bounds an acknowledgement during a planned restart. It is less than the time that the client's metadata is good for (5 s): who leads
	// next is told with the refusal.
	slowestAck = 4 * time.Second
)

// written is what clients were told is in the log: values by partition, in the order of their offsets.
type written struct {
	mu     sync.Mutex
	values map[int32][]entry
	count  int
	slow   time.Duration // longest wait for an acknowledgement
}

type entry struct {
	offset int64
	value  string
}

func (w *written) add(r *kgo.Record, took time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.values[r.Partition] = append(w.values[r.Partition], entry{r.Offset, string(r.Value)})
	w.count++
	w.slow = max(w.slow, took)
}

func (w *written) sorted() map[int32][]entry {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := map[int32][]entry{}
	for p, list := range w.values {
		out[p] = slices.SortedFunc(slices.Values(list), func(a, b entry) int { return int(a.offset - b.offset) })
	}
	return out
}

// TestRollingRestart: each node in turn is stopped, started and waited for as docs/cluster.md says, while a producer, a transactional client and a
// consumer group work. No request fails for good, and nothing is lost, doubled or out of order.
func TestRollingRestart(t *testing.T) {
	c := newNodes(t, 3)
	c.start(c.procs...)
	c.whole(c.procs[0])
	admin := c.client()
	defer admin.Close()
	for _, topic := range []string{"plain", "transactions"} {
		if _, err := kadm.NewClient(admin).CreateTopic(t.Context(), rollingPartitions, 3, nil, topic); err != nil {
			t.Fatal(err)
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	plain, committed := &written{values: map[int32][]entry{}}, &written{values: map[int32][]entry{}}
	read := &seen{values: map[string]bool{}}
	var wg sync.WaitGroup
	wg.Go(func() { c.produce(ctx, plain) })
	wg.Go(func() { c.transact(ctx, committed) })
	for range 2 {
		wg.Go(func() { c.consume(ctx, read) })
	}
	for i, r := range c.procs {
		must(t, r.Stop())
		c.grows(plain, fmt.Sprintf("while node %d is stopped", i+1))
		c.grows(committed, fmt.Sprintf("in transactions while node %d is stopped", i+1))
		c.start(r)
		c.whole(c.procs[(i+1)%len(c.procs)])
		c.grows(plain, fmt.Sprintf("after node %d is back", i+1))
		c.grows(committed, fmt.Sprintf("in transactions after node %d is back", i+1))
	}
	stop()
	wg.Wait()
	t.Logf("%d records, slowest acknowledgement %v; %d in transactions, slowest commit %v", plain.count, plain.slow.Round(time.Millisecond),
		committed.count, committed.slow.Round(time.Millisecond))
	if plain.slow > slowestAck || committed.slow > slowestAck {
		t.Errorf("an acknowledgement took more than %v", slowestAck)
	}
	c.verify("plain", plain)
	c.verify("transactions", committed)
	// What the group has not read when it is stopped, its next member reads.
	rest, cancel := context.WithTimeout(t.Context(), pollFor)
	defer cancel()
	read.want, read.enough = plain.count, cancel
	c.consume(rest, read)
	for p, list := range plain.sorted() {
		for _, e := range list {
			if !read.values[e.value] {
				t.Fatalf("the group did not read %s, at %d of partition %d", e.value, e.offset, p)
			}
		}
	}
}

func (w *written) total() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.count
}

// grows waits for a few more acknowledgements.
func (c *nodes) grows(w *written, when string) {
	c.t.Helper()
	to := w.total() + 50
	deadline := time.Now().Add(pollFor)
	for w.total() < to {
		if time.Now().After(deadline) {
			c.t.Fatalf("%s: %d records were acknowledged, want %d", when, w.total(), to)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// produce writes as an ordinary idempotent producer does, without waiting for the record before.
func (c *nodes) produce(ctx context.Context, w *written) {
	client := c.client(kgo.DefaultProduceTopic("plain"), kgo.RecordPartitioner(kgo.RoundRobinPartitioner()))
	defer client.Close()
	tick := time.NewTicker(pace)
	defer tick.Stop()
	for i := 0; ; i++ {
		select {
		case <-tick.C:
		case <-ctx.Done():
			if err := client.Flush(context.Background()); err != nil {
				c.t.Errorf("flush: %v", err)
			}
			return
		}
		began := time.Now()
		client.Produce(context.Background(), &kgo.Record{Value: []byte("p" + strconv.Itoa(i))}, func(r *kgo.Record, err error) {
			if err != nil {
				c.t.Errorf("produce %s: %v", r.Value, err)
				return
			}
			w.add(r, time.Since(began))
		})
	}
}

// transact commits transactions of a few records each, and aborts every fourth.
func (c *nodes) transact(ctx context.Context, w *written) {
	client := c.client(kgo.DefaultProduceTopic("transactions"), kgo.TransactionalID("rolling"), kgo.RecordPartitioner(kgo.RoundRobinPartitioner()))
	defer client.Close()
	for i := 0; ctx.Err() == nil; i++ {
		if err := client.BeginTransaction(); err != nil {
			c.t.Errorf("begin: %v", err)
			return
		}
		var records []*kgo.Record
		for j := range perTransaction {
			records = append(records, &kgo.Record{Value: fmt.Appendf(nil, "t%d-%d", i, j)})
		}
		if err := client.ProduceSync(context.Background(), records...).FirstErr(); err != nil {
			c.t.Errorf("produce in transaction %d: %v", i, err)
			return
		}
		commit := i%4 != 3
		began := time.Now()
		if err := client.EndTransaction(context.Background(), kgo.TransactionEndTry(commit)); err != nil {
			c.t.Errorf("end transaction %d: %v", i, err)
			return
		}
		if commit {
			for _, r := range records {
				w.add(r, time.Since(began))
			}
		}
		time.Sleep(pace)
	}
}

// seen is what a group's members have read between them.
type seen struct {
	mu     sync.Mutex
	values map[string]bool
	want   int // values at which enough is called; 0: never
	enough func()
}

func (s *seen) add(r *kgo.Record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.values[string(r.Value)] = true
	if s.want > 0 && len(s.values) >= s.want {
		s.enough()
	}
}

// consume is one member of a group, which commits what it has read.
func (c *nodes) consume(ctx context.Context, s *seen) {
	client := c.client(kgo.ConsumerGroup("rolling"), kgo.ConsumeTopics("plain"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.DisableAutoCommit())
	defer client.Close()
	for ctx.Err() == nil {
		fetches := client.PollFetches(ctx)
		fetches.EachError(func(topic string, p int32, err error) {
			if !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) {
				c.t.Errorf("fetch %s-%d: %v", topic, p, err)
			}
		})
		fetches.EachRecord(s.add)
		err := client.CommitUncommittedOffsets(context.Background())
		// A generation that is over: the next owner reads the same records again.
		if err != nil && !errors.Is(err, kerr.RebalanceInProgress) && !errors.Is(err, kerr.IllegalGeneration) && !errors.Is(err, kerr.UnknownMemberID) {
			c.t.Errorf("commit offsets: %v", err)
		}
	}
}

// verify reads a topic from the start as a read_committed consumer and compares it with what clients were told.
func (c *nodes) verify(topic string, w *written) {
	c.t.Helper()
	client := c.client(kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	defer client.Close()
	ctx, cancel := context.WithTimeout(c.t.Context(), pollFor)
	defer cancel()
	ends, err := kadm.NewClient(client).ListCommittedOffsets(ctx, topic)
	must(c.t, err)
	got, next := map[int32][]entry{}, map[int32]int64{}
	done := func() bool {
		for p := range int32(rollingPartitions) {
			end, _ := ends.Lookup(topic, p)
			// The last offsets may be a transaction's marker, or an aborted one's, which no reader sees.
			if want := w.last(p); next[p] <= want || want < 0 && end.Offset < 0 {
				return false
			}
		}
		return true
	}
	for !done() && ctx.Err() == nil {
		client.PollFetches(ctx).EachRecord(func(r *kgo.Record) {
			got[r.Partition] = append(got[r.Partition], entry{r.Offset, string(r.Value)})
			next[r.Partition] = r.Offset + 1
		})
	}
	want := w.sorted()
	if len(want) != rollingPartitions {
		c.t.Errorf("%s: only partitions %v were written", topic, slices.Sorted(maps.Keys(want)))
	}
	for p, list := range want {
		if !slices.Equal(got[p], list) {
			c.t.Errorf("%s-%d: %d records, want the %d that were acknowledged", topic, p, len(got[p]), len(list))
		}
	}
}

func (w *written) last(p int32) int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	last := int64(-1)
	for _, e := range w.values[p] {
		last = max(last, e.offset)
	}
	return last
}
