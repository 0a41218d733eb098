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
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rowtrail/rowtrail/log"
	"github.com/rowtrail/rowtrail/log/broker/txn"
	"github.com/rowtrail/rowtrail/log/record"
)

const (
	childDir  = "ROWTRAIL_TEST_CHILD_DIR"
	childEdge = "ROWTRAIL_TEST_CHILD_EDGE"
)

// TestCoordinatorChild is the process that TestKillAtEveryTransactionEdge kills; by itself it does nothing.
func TestCoordinatorChild(t *testing.T) {
	dir := os.Getenv(childDir)
	if dir == "" {
		return
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
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
func child(t *testing.T, dir, edge string) (*exec.Cmd, string) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestCoordinatorChild$")
	cmd.Env = append(os.Environ(), childDir+"="+dir, childEdge+"="+edge)
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
		cmd, addr := child(t, dir, edge)
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
