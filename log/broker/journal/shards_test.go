package journal_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/rowtrail/rowtrail/log/broker/journal"
	"github.com/rowtrail/rowtrail/log/broker/journal/journaltest"
)

// sharded runs shards over logs until the test ends.
func sharded(t *testing.T, logs []*journaltest.Log) *journal.Shards[*table] {
	t.Helper()
	partitions := make([]journal.Partition, len(logs))
	for i, l := range logs {
		partitions[i] = l.Partition()
	}
	s := journal.NewShards(journal.Options{Name: "topic"}, func(j *journal.Journal) *table { return &table{j: j} })
	s.Open(partitions)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); s.Run(ctx, nil) }()
	t.Cleanup(func() { cancel(); <-done })
	return s
}

func TestKeyIsKeptInItsPartition(t *testing.T) {
	logs := []*journaltest.Log{{}, {}, {}}
	s := sharded(t, logs)
	for _, key := range []string{"a", "b", "c"} {
		until(t, func() bool { return s.Serving(key) == nil })
		f, _ := s.For(key)
		if err := <-f.put(key, "1"); err != nil {
			t.Fatal(err)
		}
		got := make(chan string, 1)
		s.Do(key, func(f *table, _ error) { got <- f.rows[key] })
		if v := <-got; v != "1" {
			t.Errorf("%q is %q where Do leads to", key, v)
		}
	}
	// Java's hash of a one-letter string is the letter: 97, 98 and 99, modulo three.
	for i, want := range []string{"c", "a", "b"} {
		if n := len(logs[i].Batches()); n != 1 {
			t.Errorf("partition %d has %d batches, want 1", i, n)
		}
		got, _ := s.For(want)
		if at, _ := s.At(int32(i)); got != at || int(s.PartitionFor(want)) != i {
			t.Errorf("%q is in partition %d, want %d", want, s.PartitionFor(want), i)
		}
	}
	seen := map[string]string{}
	done := make(chan error, 1)
	s.Each(func(f *table) { maps.Copy(seen, f.rows) }, func(err error) { done <- err })
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if got := slices.Sorted(maps.Keys(seen)); !slices.Equal(got, []string{"a", "b", "c"}) {
		t.Errorf("all shards have %v", got)
	}
}

func TestShardsLedElsewhereAreLeftOutAndBrokenOnesTold(t *testing.T) {
	logs := []*journaltest.Log{{}, {}, {}}
	logs[1].Lead(false)
	s := sharded(t, logs)
	until(t, func() bool {
		return s.Serving("c") == nil && s.Serving("b") == nil && errors.Is(s.Serving("a"), journal.ErrNotLeader)
	})
	visited := func() (n int, err error) {
		done := make(chan error, 1)
		s.Each(func(*table) { n++ }, func(err error) { done <- err })
		err = <-done
		return n, err
	}
	if n, err := visited(); n != 2 || err != nil {
		t.Errorf("visited %d of three shards, one of them led elsewhere: %v", n, err)
	}

	broken := []*journaltest.Log{{}, {}}
	broken[0].Put([]byte("no batch"))
	s = sharded(t, broken)
	until(t, func() bool { return errors.Is(s.Serving("b"), journal.ErrBroken) && s.Serving("a") == nil })
	n, err := visited()
	if n != 1 || journal.Code(err) != kerr.CoordinatorNotAvailable.Code {
		t.Errorf("visited %d of two shards, one of them broken: %v", n, err)
	}
}

// watched counts how often a journal asks who leads.
type watched struct {
	journal.Log
	asked atomic.Int64
}

func (w *watched) Leader() (node, epoch int32, self bool) {
	w.asked.Add(1)
	return w.Log.Leader()
}

// A node has journals of many partitions that others lead. They rest, and load as soon as they are told that it leads.
func TestJournalsRestWhereAnotherNodeLeads(t *testing.T) {
	l := &journaltest.Log{}
	l.Lead(false)
	p := l.Partition()
	w := &watched{Log: p.Log}
	p.Log = w
	s := journal.NewShards(journal.Options{Name: "topic"}, func(j *journal.Journal) *table { return &table{j: j} })
	s.Open([]journal.Partition{p})
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { s.Run(ctx, nil) })
	defer wg.Wait()
	defer cancel()
	until(t, func() bool { return errors.Is(s.Serving("k"), journal.ErrNotLeader) })
	w.asked.Store(0)
	time.Sleep(time.Second)
	if n := w.asked.Load(); n > 4 {
		t.Errorf("a journal asked %d times in a second whether this node leads", n)
	}
	for range 3 {
		began := time.Now()
		l.Lead(true)
		s.Look()
		until(t, func() bool { return s.Serving("k") == nil })
		if took := time.Since(began); took > time.Second {
			t.Errorf("it served %v after it was told that this node leads", took)
		}
		l.Lead(false)
		s.Look()
		until(t, func() bool { return errors.Is(s.Serving("k"), journal.ErrNotLeader) })
	}
}
