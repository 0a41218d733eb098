package broker

import (
	"bufio"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/rowtrail/rowtrail/itest/fakelog"
	"github.com/rowtrail/rowtrail/log"
	"github.com/rowtrail/rowtrail/log/broker/txn"
	"github.com/rowtrail/rowtrail/log/record"
)

const (
	childDir  = "ROWTRAIL_TEST_CHILD_DIR"
	childEdge = "ROWTRAIL_TEST_CHILD_EDGE"
	childAddr = "ROWTRAIL_TEST_CHILD_ADDR"
)

// TestCoordinatorChild is the process that TestKillAtEveryTransactionEdge kills; by itself it does nothing.
func TestCoordinatorChild(t *testing.T) {
	dir := os.Getenv(childDir)
	if dir == "" {
		return
	}
	l, err := net.Listen("tcp", os.Getenv(childAddr))
	if err != nil {
		t.Fatal(err)
	}
	b := live(t, dir, func(o *Options) {
		o.AdvertisedHost, o.AdvertisedPort = "127.0.0.1", int32(l.Addr().(*net.TCPAddr).Port)
		o.Logger = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))
	})
	if edge := os.Getenv(childEdge); edge != "" {
		go dieAt(b, edge)
	}
	fmt.Println("listening", l.Addr())
	if err := b.Serve(l); err != nil {
		t.Fatal(err)
	}
}

// dieAt kills this process when, for the some-teenth time, a transaction has just entered a state.
func dieAt(l *life, edge string) {
	left := 1 + rand.IntN(8)
	r, err := l.node.Replica(txn.Topic, l.txns.PartitionFor("killed"))
	if err != nil {
		panic(err)
	}
	p := r.Log()
	for at := p.Marks().HighWatermark; ; {
		changed := p.Changed()
		res, err := p.Read(at, 1<<20, true, log.ReadUncommitted)
		if err != nil {
			panic(err)
		}
		reader := record.NewReader(1 << 20)
		for rest := res.Batches; len(rest) > 0; {
			var batch []byte
			if batch, rest, err = record.Next(rest); err != nil {
				panic(err)
			}
			if err := reader.Reset(batch); err != nil {
				panic(err)
			}
			for reader.Next() {
				at = reader.Record().Offset + 1
				var v kmsg.TxnMetadataValue
				if err := v.ReadFrom(reader.Record().Value); err != nil {
					panic(err)
				}
				if txn.State(v.State).String() != edge {
					continue
				}
				if left--; left == 0 {
					<-time.After(rand.N(600 * time.Microsecond))
					_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
				}
			}
		}
		<-changed
	}
}

// child starts a broker process and returns its address.
func child(t *testing.T, dir, edge, at string) (*exec.Cmd, string) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestCoordinatorChild$")
	cmd.Env = append(os.Environ(), childDir+"="+dir, childEdge+"="+edge, childAddr+"="+at)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if addr, ok := strings.CutPrefix(lines.Text(), "listening "); ok {
			return cmd, addr
		}
	}
	t.Fatal("the child did not start")
	return nil, ""
}

// attempt is one transaction of three records over three partitions, and of a group's offset.
type attempt struct {
	id     string
	commit bool
	ended  bool // acknowledged
}

// The process is killed just as a transaction has entered each of its states, and goes on from its log: every
// acknowledged transaction is whole or gone as it was told, and every other one is whole or gone.
func TestKillAtEveryTransactionEdge(t *testing.T) {
	dir := t.TempDir()
	var attempts []*attempt
	edges := []string{"Ongoing", "PrepareCommit", "CompleteCommit", "PrepareAbort", "CompleteAbort", "Empty"}
	if !testing.Short() {
		edges = slices.Repeat(edges, 2)
	}
	last := int64(-1) // the highest offset that the group may have
	for round, edge := range edges {
		cmd, addr := child(t, dir, edge, "127.0.0.1:0")
		died := make(chan struct{})
		go func() { _ = cmd.Wait(); close(died) }()
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		go func() { <-died; cancel() }()
		if round == 0 {
			admin := dialed(t, addr)
			createTopic(t, admin, "events", 3)
			admin.Close()
		}
		for n := 0; ctx.Err() == nil; n++ {
			cl := dialed(t, addr, kgo.TransactionalID("killed"), kgo.RecordPartitioner(kgo.ManualPartitioner()))
			for i := 0; i < 5 && ctx.Err() == nil; i++ {
				a := &attempt{id: fmt.Sprintf("%d.%d.%d", round, n, i), commit: rand.IntN(2) == 0}
				attempts = append(attempts, a)
				if !tryTransaction(ctx, cl, a, int64(len(attempts))) {
					break
				}
				if a.ended && a.commit {
					last = int64(len(attempts))
				}
			}
			cl.Close()
		}
		cancel()
		select {
		case <-died:
		case <-time.After(30 * time.Second):
			_ = cmd.Process.Kill()
			t.Fatalf("the child did not reach %s", edge)
		}
	}

	l := live(t, dir)
	defer l.end(t)
	cl := l.client(t)
	defer cl.Close()
	adm := kadm.NewClient(cl)
	ctx := within(t, 60*time.Second)
	// The next instance aborts what is open.
	next := l.client(t, kgo.TransactionalID("killed"))
	defer next.Close()
	if _, _, err := next.ProducerID(ctx); err != nil {
		t.Fatal(err)
	}
	seen := map[string]int{}
	reader := l.client(t, kgo.ConsumeTopics("events"), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords())
	defer reader.Close()
	ends, err := adm.ListEndOffsets(ctx, "events")
	if err != nil {
		t.Fatal(err)
	}
	left := map[int32]int64{}
	ends.Each(func(o kadm.ListedOffset) { left[o.Partition] = o.Offset })
	for len(left) > 0 {
		fs := reader.PollFetches(ctx)
		if err := fs.Err0(); err != nil {
			t.Fatalf("%v; partitions %v are not read to their end", err, left)
		}
		fs.EachRecord(func(r *kgo.Record) {
			if !r.Attrs.IsControl() {
				seen[string(r.Value)]++
			}
			if r.Offset+1 >= left[r.Partition] {
				delete(left, r.Partition)
			}
		})
	}
	unknown := 0
	for _, a := range attempts {
		n := seen[a.id]
		delete(seen, a.id)
		switch {
		case n != 0 && n != 3:
			t.Errorf("%d of the 3 records of %s are read", n, a.id)
		case a.ended && a.commit && n != 3:
			t.Errorf("%s was committed and is not read", a.id)
		case !a.commit && n != 0:
			t.Errorf("%s was aborted and is read", a.id)
		}
		if !a.ended {
			unknown++
		}
	}
	if len(seen) > 0 {
		t.Errorf("read what nobody wrote: %v", seen)
	}
	if unknown < len(edges)/2 {
		t.Errorf("only %d of %d transactions were cut off", unknown, len(attempts))
	}
	offsets, err := adm.FetchOffsets(ctx, "killed")
	if err != nil {
		t.Fatal(err)
	}
	if o, _ := offsets.Lookup("events", 0); o.At < last {
		t.Errorf("the group's offset is %d, below the committed %d", o.At, last)
	}
	if o, _ := offsets.Lookup("events", 0); o.At > 0 && !attempts[o.At-1].commit {
		t.Errorf("the group's offset %d is of an aborted transaction", o.At)
	}
	t.Logf("%d transactions, %d of them cut off, in %d lives", len(attempts), unknown, len(edges))
}

func dialed(t *testing.T, addr string, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	cl, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(addr), kgo.RequestRetries(3), kgo.RetryTimeout(2 * time.Second),
		kgo.RecordDeliveryTimeout(2 * time.Second), kgo.UnknownTopicRetries(2)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	return cl
}

// tryTransaction runs one transaction. It reports whether the client is still of use.
func tryTransaction(ctx context.Context, cl *kgo.Client, a *attempt, at int64) bool {
	if cl.BeginTransaction() != nil {
		return false
	}
	records := make([]*kgo.Record, 3)
	for p := range records {
		records[p] = &kgo.Record{Topic: "events", Partition: int32(p), Value: []byte(a.id)}
	}
	// A transactional client does not give up records by itself once they may have been sent.
	produced := make(chan error, 1)
	go func() { produced <- cl.ProduceSync(ctx, records...).FirstErr() }()
	select {
	case err := <-produced:
		if err != nil {
			return false
		}
	case <-ctx.Done():
		return false
	}
	if !commitOffset(ctx, cl, at) {
		return false
	}
	if cl.EndTransaction(ctx, kgo.TransactionEndTry(a.commit)) != nil {
		return false
	}
	a.ended = true
	return true
}

// commitOffset makes an offset of the group part of the transaction, as a processor does.
func commitOffset(ctx context.Context, cl *kgo.Client, at int64) bool {
	pid, epoch, err := cl.ProducerID(ctx)
	if err != nil {
		return false
	}
	add := kmsg.NewPtrAddOffsetsToTxnRequest()
	add.TransactionalID, add.ProducerID, add.ProducerEpoch, add.Group = "killed", pid, epoch, "killed"
	if resp, err := add.RequestWith(ctx, cl); err != nil || resp.ErrorCode != 0 {
		return false
	}
	commit := kmsg.NewPtrTxnOffsetCommitRequest()
	commit.TransactionalID, commit.Group, commit.ProducerID, commit.ProducerEpoch = "killed", "killed", pid, epoch
	commit.Generation = -1
	topic := kmsg.NewTxnOffsetCommitRequestTopic()
	topic.Topic = "events"
	part := kmsg.NewTxnOffsetCommitRequestTopicPartition()
	part.Offset = at
	topic.Partitions = append(topic.Partitions, part)
	commit.Topics = append(commit.Topics, topic)
	resp, err := commit.RequestWith(ctx, cl)
	return err == nil && resp.Topics[0].Partitions[0].ErrorCode == 0
}

// A batch that overtook the first one of its transaction does not take its place after the broker was killed either: the partition
// knows nothing of the producer then, and the transaction says what to expect.
func TestFirstBatchIsExpectedAfterAKill(t *testing.T) {
	dir := t.TempDir()
	cmd, addr := child(t, dir, "", "127.0.0.1:0")
	connect := func(addr string) *wire {
		cl := dialed(t, addr, kgo.MaxVersions(kversion.V4_0_0()))
		t.Cleanup(cl.Close)
		if err := cl.Ping(within(t, 20*time.Second)); err != nil {
			t.Fatal(err)
		}
		return &wire{t: t, cl: cl, id: "overtaken"}
	}
	w := connect(addr)
	createTopic(t, w.cl, "t", 1)
	createTopic(t, w.cl, "u", 1)
	p := w.init(nil)
	w.wantProduced(p, 0, "t", "a", nil)
	w.wantProduced(p, 1, "u", "overtook", kerr.OutOfOrderSequenceNumber) // and is part of the transaction now
	_ = cmd.Process.Kill()
	_ = cmd.Wait()

	cmd, addr = child(t, dir, "", "127.0.0.1:0")
	w = connect(addr)
	loaded := func() bool { // the coordinator is
		code, _ := w.produce(p, 0, "t", "a")
		return code == 0
	}
	waitLong(t, "the coordinator", loaded)
	w.wantProduced(p, 1, "u", "overtook", kerr.OutOfOrderSequenceNumber)
	w.wantProduced(p, 1, "t", "b", nil) // known from its log
	w.wantProduced(p, 0, "u", "first", nil)
	w.wantProduced(p, 1, "u", "overtook", nil)
	w.wantEnd(p, true, nil)
	w.cl.Close()
	_ = cmd.Process.Kill()
	_ = cmd.Wait()

	l := live(t, dir)
	defer l.end(t)
	reader := l.client(t, kgo.ConsumeTopics("u"), kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	defer reader.Close()
	var got []string
	for len(got) < 2 {
		fs := reader.PollFetches(within(t, 20*time.Second))
		if err := fs.Err0(); err != nil {
			t.Fatal(err)
		}
		fs.EachRecord(func(r *kgo.Record) { got = append(got, string(r.Value)) })
	}
	if !slices.Equal(got, []string{"first", "overtook"}) {
		t.Errorf("read %v", got)
	}
}

// Processors read, write and commit in transactions while the broker is killed under them again and again: every
// input is processed exactly once.
func TestKillUnderProcessors(t *testing.T) {
	dir := t.TempDir()
	cmd, addr := child(t, dir, "", "127.0.0.1:0")
	client := func(opts ...kgo.Opt) *kgo.Client {
		cl, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(addr)}, opts...)...)
		if err != nil {
			t.Fatal(err)
		}
		return cl
	}
	const total = 5000
	admin := client()
	defer admin.Close()
	createTopic(t, admin, "in", 3)
	createTopic(t, admin, "out", 3)
	for i := range total {
		admin.Produce(t.Context(), &kgo.Record{Topic: "in", Key: fmt.Append(nil, i), Value: fmt.Append(nil, i)}, nil)
	}
	if err := admin.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}

	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	process := func(id string) {
		sess, err := kgo.NewGroupTransactSession(kgo.SeedBrokers(addr), kgo.ConsumerGroup("etl"), kgo.ConsumeTopics("in"),
			kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.TransactionalID(id), kgo.TransactionTimeout(2*time.Second),
			kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.SessionTimeout(6*time.Second), kgo.HeartbeatInterval(200*time.Millisecond))
		if err != nil {
			t.Error(err)
			return
		}
		defer sess.Close()
		for ctx.Err() == nil {
			fs := sess.PollRecords(ctx, 20)
			if fs.IsClientClosed() || ctx.Err() != nil {
				return
			}
			if sess.Begin() != nil {
				return // a new instance goes on
			}
			var failed atomic.Bool
			fs.EachRecord(func(r *kgo.Record) {
				sess.Produce(ctx, &kgo.Record{Topic: "out", Key: r.Key, Value: r.Value}, func(_ *kgo.Record, err error) {
					if err != nil {
						failed.Store(true)
					}
				})
			})
			if sess.Client().Flush(ctx) != nil {
				return
			}
			if _, err := sess.End(ctx, kgo.TransactionEndTry(!failed.Load())); err != nil {
				return
			}
		}
	}
	for i := range 2 {
		wg.Go(func() {
			for ctx.Err() == nil {
				process(fmt.Sprintf("etl-%d", i))
			}
		})
	}
	for range 8 {
		<-time.After(150*time.Millisecond + rand.N(300*time.Millisecond))
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		cmd, _ = child(t, dir, "", addr)
	}
	adm := kadm.NewClient(admin)
	waitLong(t, "all input to be processed", func() bool {
		offsets, err := adm.FetchOffsets(ctx, "etl")
		done := int64(0)
		offsets.Each(func(o kadm.OffsetResponse) { done += o.At })
		return err == nil && done == total
	})
	stop()
	wg.Wait()
	_ = cmd.Process.Kill()
	_ = cmd.Wait()

	l := live(t, dir)
	defer l.end(t)
	for end := time.Now().Add(2 * time.Minute); l.open(); time.Sleep(20 * time.Millisecond) { // what no instance ends, its timeout does
		if time.Now().After(end) {
			t.Fatal("a transaction stays open")
		}
	}
	seen := map[string]int{}
	for _, r := range fakelog.Read(t, []kgo.Opt{kgo.SeedBrokers("in-process:1"), kgo.Dialer(l.Dialer())}, "out") {
		seen[string(r.Value)]++
	}
	if len(seen) != total {
		t.Errorf("%d of %d inputs are in the output", len(seen), total)
	}
	for v, n := range seen {
		if n != 1 {
			t.Errorf("%s is in the output %d times", v, n)
		}
	}
}

// open says whether a transaction is still to be ended.
func (l *life) open() bool {
	code, list := awaitCoded(l.coordinating, l.txns.List)
	return code != 0 || slices.ContainsFunc(list, func(d txn.Description) bool {
		return d.State == txn.Ongoing || d.State == txn.PrepareCommit || d.State == txn.PrepareAbort
	})
}
