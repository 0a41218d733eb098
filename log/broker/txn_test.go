package broker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func within(t testing.TB, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

func createTopic(t testing.TB, cl *kgo.Client, name string, partitions int32) {
	t.Helper()
	res, err := kadm.NewClient(cl).CreateTopic(within(t, 20*time.Second), partitions, 1, nil, name)
	if err != nil || res.Err != nil {
		t.Fatalf("create topic: %v, %v", err, res.Err)
	}
}

// readAll reads a topic as a reader of this isolation level up to its present end.
func readAll(t testing.TB, s *served, topic string, level kgo.IsolationLevel) []string {
	t.Helper()
	ctx := within(t, 30*time.Second)
	cl := s.client(t, true, kgo.ConsumeTopics(topic), kgo.FetchIsolationLevel(level),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.KeepControlRecords())
	adm := kadm.NewClient(cl)
	list := adm.ListEndOffsets
	if lvl := level; lvl == kgo.ReadCommitted() {
		list = adm.ListCommittedOffsets
	}
	ends, err := list(ctx, topic)
	if err != nil {
		t.Fatal(err)
	}
	left := map[int32]int64{}
	ends.Each(func(o kadm.ListedOffset) {
		if o.Offset > 0 {
			left[o.Partition] = o.Offset
		}
	})
	var values []string
	for len(left) > 0 {
		fs := cl.PollFetches(ctx)
		if err := fs.Err0(); err != nil {
			t.Fatal(err)
		}
		fs.EachRecord(func(r *kgo.Record) {
			if !r.Attrs.IsControl() {
				values = append(values, string(r.Value))
			}
			if r.Offset+1 >= left[r.Partition] {
				delete(left, r.Partition)
			}
		})
	}
	slices.Sort(values)
	return values
}

func produceAll(t testing.TB, cl *kgo.Client, topic string, values ...string) {
	t.Helper()
	for i, v := range values {
		r := &kgo.Record{Topic: topic, Key: []byte(fmt.Sprint(i)), Value: []byte(v)}
		if err := cl.ProduceSync(within(t, 20*time.Second), r).FirstErr(); err != nil {
			t.Fatalf("produce %q: %v", v, err)
		}
	}
}

func begin(t testing.TB, cl *kgo.Client) {
	t.Helper()
	if err := cl.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
}

func end(t testing.TB, cl *kgo.Client, commit kgo.TransactionEndTry) {
	t.Helper()
	if err := cl.EndTransaction(within(t, 20*time.Second), commit); err != nil {
		t.Fatalf("end transaction: %v", err)
	}
}

func TestTransactionCommitAndAbort(t *testing.T) {
	s := serve(t)
	cl := s.client(t, true, kgo.TransactionalID("t1"))
	createTopic(t, cl, "events", 4)
	var want []string
	for i := range 20 {
		begin(t, cl)
		commit := i%3 != 0
		for j := range 5 {
			v := fmt.Sprintf("%d-%d-%v", i, j, commit)
			produceAll(t, cl, "events", v)
			if commit {
				want = append(want, v)
			}
		}
		end(t, cl, kgo.TransactionEndTry(commit))
	}
	// An aborted transaction's marker follows the answer.
	waitFor(t, "the end of the transactions", func() bool { return slices.Equal(readAll(t, s, "events", kgo.ReadCommitted()), sorted(want)) })
	if got := readAll(t, s, "events", kgo.ReadUncommitted()); len(got) != 100 {
		t.Fatalf("%d records are stored, not 100", len(got))
	}
}

func sorted(v []string) []string {
	v = slices.Clone(v)
	slices.Sort(v)
	return v
}

func TestTransactionOpenIsNotRead(t *testing.T) {
	s := serve(t)
	cl := s.client(t, true, kgo.TransactionalID("t1"))
	createTopic(t, cl, "events", 1)
	begin(t, cl)
	produceAll(t, cl, "events", "a")
	if got := readAll(t, s, "events", kgo.ReadCommitted()); len(got) != 0 {
		t.Fatalf("a reader of committed records saw %v before the commit", got)
	}
	end(t, cl, kgo.TryCommit)
	waitFor(t, "the end of the transactions", func() bool { return slices.Equal(readAll(t, s, "events", kgo.ReadCommitted()), []string{"a"}) })
}

func TestTransactionSecondProducerFencesFirst(t *testing.T) {
	s := serve(t)
	first := s.client(t, true, kgo.TransactionalID("shared"))
	createTopic(t, first, "events", 2)
	begin(t, first)
	produceAll(t, first, "events", "lost")

	second := s.client(t, true, kgo.TransactionalID("shared"))
	begin(t, second)
	produceAll(t, second, "events", "kept")

	err := first.ProduceSync(within(t, 20*time.Second), &kgo.Record{Topic: "events", Value: []byte("zombie")}).FirstErr()
	if err == nil {
		err = first.EndTransaction(within(t, 20*time.Second), kgo.TryCommit)
	}
	if !errors.Is(err, kerr.ProducerFenced) && !errors.Is(err, kerr.InvalidProducerEpoch) {
		t.Fatalf("the fenced producer got %v", err)
	}
	end(t, second, kgo.TryCommit)
	waitFor(t, "the end of the transactions", func() bool { return slices.Equal(readAll(t, s, "events", kgo.ReadCommitted()), []string{"kept"}) })
}

func TestTransactionManyProducersShareThePartitions(t *testing.T) {
	s := serve(t)
	cl := s.client(t, true)
	createTopic(t, cl, "events", 3)
	const producers, each = 8, 15
	var wg sync.WaitGroup
	var mu sync.Mutex
	var want []string
	for p := range producers {
		wg.Go(func() {
			cl := s.client(t, p%2 == 0, kgo.TransactionalID(fmt.Sprintf("p%d", p)))
			for i := range each {
				begin(t, cl)
				commit := (i+p)%4 != 0
				var vs []string
				for j := range 3 {
					vs = append(vs, fmt.Sprintf("%d-%d-%d", p, i, j))
				}
				produceAll(t, cl, "events", vs...)
				end(t, cl, kgo.TransactionEndTry(commit))
				if commit {
					mu.Lock()
					want = append(want, vs...)
					mu.Unlock()
				}
			}
		})
	}
	wg.Wait()
	waitFor(t, "the end of the transactions", func() bool { return slices.Equal(readAll(t, s, "events", kgo.ReadCommitted()), sorted(want)) })
}

func TestTransactionAdmin(t *testing.T) {
	s := serve(t)
	cl := s.client(t, true, kgo.TransactionalID("admin"), kgo.TransactionTimeout(time.Minute))
	adm := kadm.NewClient(cl)
	createTopic(t, cl, "events", 1)
	begin(t, cl)
	produceAll(t, cl, "events", "a")
	ctx := within(t, 20*time.Second)

	listed, err := adm.ListTransactions(ctx, nil, []string{"Ongoing"})
	if err != nil || listed["admin"].State != "Ongoing" {
		t.Fatalf("list: %v, %v", listed, err)
	}
	filter := kmsg.NewPtrListTransactionsRequest()
	filter.DurationFilterMillis = -1
	filter.StateFilters = []string{"PrepareEpochFence", "Dead", "Nonsense"}
	if resp, err := filter.RequestWith(ctx, cl); err != nil || len(resp.TransactionStates) != 0 || fmt.Sprint(resp.UnknownStateFilters) != "[Nonsense]" {
		t.Errorf("states that exist are known, others are not: %+v, %v", resp, err)
	}
	if listed, err := adm.ListTransactions(ctx, nil, []string{"CompleteCommit"}); err != nil || len(listed) != 0 {
		t.Fatalf("list of another state: %v, %v", listed, err)
	}
	described, err := adm.DescribeTransactions(ctx, "admin", "nobody")
	if err != nil {
		t.Fatal(err)
	}
	d := described["admin"]
	if d.State != "Ongoing" || d.TimeoutMillis != 60_000 || !d.Topics.Lookup("events", 0) || d.StartTimestamp <= 0 {
		t.Fatalf("described: %+v", d)
	}
	if err := described["nobody"].Err; !errors.Is(err, kerr.TransactionalIDNotFound) {
		t.Fatalf("an unknown id: %v", err)
	}
	var set kadm.TopicsSet
	set.Add("events", 0)
	producers, err := adm.DescribeProducers(ctx, set)
	if err != nil {
		t.Fatal(err)
	}
	all := producers["events"].Partitions[0].ActiveProducers
	if len(all) != 1 || all[0].ProducerID != d.ProducerID || all[0].CurrentTxnStartOffset != 0 {
		t.Fatalf("producers: %+v", all)
	}

	// An admin ends a transaction that hangs.
	res, err := adm.WriteTxnMarkers(ctx, kadm.TxnMarkers{ProducerID: d.ProducerID, ProducerEpoch: d.ProducerEpoch,
		Commit: false, CoordinatorEpoch: all[0].CoordinatorEpoch, Topics: set})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range res {
		for _, topic := range r.Topics {
			for _, p := range topic.Partitions {
				if p.Err != nil {
					t.Fatalf("write marker: %v", p.Err)
				}
			}
		}
	}
	producers, err = adm.DescribeProducers(ctx, set)
	if err != nil {
		t.Fatal(err)
	}
	if got := producers["events"].Partitions[0].ActiveProducers[0].CurrentTxnStartOffset; got != -1 {
		t.Fatalf("the transaction is still open at %d", got)
	}
	if got := readAll(t, s, "events", kgo.ReadCommitted()); len(got) != 0 {
		t.Fatalf("read %v", got)
	}
	end(t, cl, kgo.TryAbort)
}

func TestTransactionTimesOut(t *testing.T) {
	s := serve(t)
	cl := s.client(t, true, kgo.TransactionalID("slow"), kgo.TransactionTimeout(1500*time.Millisecond))
	createTopic(t, cl, "events", 1)
	begin(t, cl)
	produceAll(t, cl, "events", "late")
	waitFor(t, "the end of the transactions", func() bool {
		d, err := kadm.NewClient(cl).DescribeTransactions(within(t, 10*time.Second), "slow")
		return err == nil && d["slow"].State == "CompleteAbort"
	})
	if err := cl.EndTransaction(within(t, 20*time.Second), kgo.TryCommit); err == nil {
		t.Fatal("a transaction that had timed out was committed")
	}
	if got := readAll(t, s, "events", kgo.ReadCommitted()); len(got) != 0 {
		t.Fatalf("read %v", got)
	}
	long := s.client(t, true, kgo.TransactionalID("long"), kgo.TransactionTimeout(25*time.Hour))
	if _, _, err := long.ProducerID(within(t, 5*time.Second)); !errors.Is(err, kerr.InvalidTransactionTimeout) {
		t.Fatalf("a timeout above the maximum: %v", err)
	}
}
