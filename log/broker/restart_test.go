package broker

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/rowtrail/rowtrail/log/broker/journal"
	"github.com/rowtrail/rowtrail/log/broker/txn"

	"github.com/rowtrail/rowtrail/cluster"
	"github.com/rowtrail/rowtrail/log"
)

// life is one life of a broker on a directory: it can be ended and begun again.
type life struct {
	*Broker
	store *log.Store
	node  *cluster.Node
}

func live(t testing.TB, dir string, change ...func(*Options)) *life {
	t.Helper()
	l, err := tryLive(dir, change...)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func tryLive(dir string, change ...func(*Options)) (*life, error) {
	store, err := log.Open(dir, log.Options{MinFreeBytes: 1 << 20})
	if err != nil {
		return nil, err
	}
	node, err := cluster.Start(context.Background(), cluster.Options{NodeID: 1, Store: store})
	if err != nil {
		return nil, err
	}
	opts := Options{Node: node, AdvertisedHost: "in-process", AdvertisedPort: 1, Logger: slog.New(slog.DiscardHandler)}
	for _, f := range change {
		f(&opts)
	}
	b, err := New(opts)
	if err != nil {
		return nil, err
	}
	return &life{b, store, node}, nil
}

func (l *life) end(t testing.TB) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := l.Shutdown(ctx); err != nil {
		t.Error(err)
	}
	if err := l.node.Stop(ctx); err != nil {
		t.Error(err)
	}
	if err := l.store.Close(); err != nil {
		t.Error(err)
	}
}

func (l *life) client(t testing.TB, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	cl, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers("in-process:1"), kgo.Dialer(l.Dialer())}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	return cl
}

// Offsets, transactional ids and their epochs are found again after a restart; an open transaction is still open.
func TestRestartKeepsCoordinatorState(t *testing.T) {
	dir := t.TempDir()
	ctx := within(t, 60*time.Second)
	l := live(t, dir)
	cl := l.client(t, kgo.TransactionalID("open"))
	createTopic(t, cl, "events", 2)
	begin(t, cl)
	produceAll(t, cl, "events", "a", "b", "c")
	var os kadm.Offsets
	os.Add(kadm.Offset{Topic: "events", Partition: 1, At: 7, LeaderEpoch: 2, Metadata: "kept"})
	if res, err := kadm.NewClient(cl).CommitOffsets(ctx, "g", os); err != nil || res.Error() != nil {
		t.Fatal(res, err)
	}
	done := l.client(t, kgo.TransactionalID("done"))
	begin(t, done)
	produceAll(t, done, "events", "d")
	end(t, done, kgo.TryCommit)
	pid, epoch, err := done.ProducerID(ctx)
	if err != nil {
		t.Fatal(err)
	}
	cl.Close()
	done.Close()
	l.end(t)

	for range 2 {
		l = live(t, dir)
		cl = l.client(t)
		adm := kadm.NewClient(cl)
		got, err := adm.FetchOffsets(ctx, "g")
		if o, _ := got.Lookup("events", 1); err != nil || o.At != 7 || o.LeaderEpoch != 2 || o.Metadata != "kept" {
			t.Fatalf("offset after restart: %+v, %v", o, err)
		}
		txns, err := adm.DescribeTransactions(ctx, "open", "done")
		if err != nil || txns["open"].State != "Ongoing" || !txns["open"].Topics.Lookup("events", 0) {
			t.Fatalf("transactions after restart: %+v, %v", txns, err)
		}
		if d := txns["done"]; d.ProducerID != pid || d.ProducerEpoch != epoch {
			t.Fatalf("producer after restart: %+v, it was %d epoch %d", d, pid, epoch)
		}
		cl.Close()
		claim := txn.Producer{ID: txns["open"].ProducerID, Epoch: txns["open"].ProducerEpoch}
		if !l.txns.Has("open", claim, journal.TopicPartition{Topic: "events"}) {
			t.Fatal("the open transaction lost its partition")
		}
		l.end(t)
	}

	// The next instance gets a higher epoch, and the open transaction is aborted.
	l = live(t, dir)
	defer l.end(t)
	cl = l.client(t, kgo.TransactionalID("done"))
	defer cl.Close()
	if p, e, err := cl.ProducerID(ctx); err != nil || p != pid || e != epoch+1 {
		t.Fatalf("got producer %d epoch %d, %v after %d epoch %d", p, e, err, pid, epoch)
	}
}

// Offsets of a topic whose deletion was the last thing before the process ended go at the next start.
func TestRestartForgetsDeletedTopics(t *testing.T) {
	dir := t.TempDir()
	ctx := within(t, 30*time.Second)
	l := live(t, dir)
	cl := l.client(t)
	createTopic(t, cl, "events", 1)
	var os kadm.Offsets
	os.Add(kadm.Offset{Topic: "events", At: 7, LeaderEpoch: -1})
	if res, err := kadm.NewClient(cl).CommitOffsets(ctx, "g", os); err != nil || res.Error() != nil {
		t.Fatal(res, err)
	}
	cl.Close()
	l.stopCoordinators() // before it can see the deletion
	if err := l.node.DeleteTopic(ctx, "events"); err != nil {
		t.Fatal(err)
	}
	l.end(t)
	l = live(t, dir)
	defer l.end(t)
	waitFor(t, "the offsets to go", func() bool {
		lags, ok := await(ctx, l.groups.Lags)
		return ok && l.groups.Serving("g") == 0 && len(lags) == 0
	})
}
