package connectors

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/goleak"

	"github.com/rowtrail/rowtrail/connectors/event"
	"github.com/rowtrail/rowtrail/itest/fakelog"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newCluster(t *testing.T) (*kfake.Cluster, Deps) {
	t.Helper()
	cluster := fakelog.Start(t, kfake.DefaultNumPartitions(4))
	return cluster, Deps{Client: []kgo.Opt{kgo.SeedBrokers(cluster.ListenAddrs()...)}, Logger: slog.New(slog.NewTextHandler(io.Discard, nil))}
}

// harness is a running writer.
type harness struct {
	t      *testing.T
	w      *Writer
	deps   Deps
	cancel context.CancelFunc
	done   chan error
	marks  chan Mark
}

func open(t *testing.T, deps Deps, name string) *harness {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	h := &harness{t: t, deps: deps, cancel: cancel, done: make(chan error, 1), marks: make(chan Mark, 1000)}
	w, err := OpenWriter(ctx, deps, WriterOptions{
		Name: name, Prefix: "p", Topics: TopicOptions{Partitions: -1, Replication: -1},
		AppendResume: func(dst []byte, m Mark) []byte { return fmt.Appendf(dst, "at %d", m.Confirm) },
		OnCommit:     func(m Mark) { h.marks <- m },
	})
	if err != nil {
		t.Fatal(err)
	}
	h.w = w
	t.Cleanup(h.stop)
	return h
}

func (h *harness) run() *harness {
	ctx, cancel := context.WithCancel(context.Background())
	h.cancel = cancel
	go func() { h.done <- h.w.Run(ctx) }()
	return h
}

// ends waits for the writer's error.
func (h *harness) ends() error {
	h.t.Helper()
	select {
	case err := <-h.done:
		return err
	case <-time.After(10 * time.Second):
		h.t.Fatal("the writer goes on")
		return nil
	}
}

func (h *harness) stop() {
	h.cancel()
	h.w.Close()
}

func (h *harness) ensure(topic string) {
	h.t.Helper()
	if _, err := h.w.EnsureTopic(context.Background(), topic, TopicData); err != nil {
		h.t.Fatal(err)
	}
}

// send sends one batch of records v0..vn-1 of a key, then a mark if confirm is not 0.
func (h *harness) send(n int, confirm uint64) {
	h.t.Helper()
	if err := h.trySend(n, confirm); err != nil {
		h.t.Fatal(err)
	}
}

func (h *harness) trySend(n int, confirm uint64) error {
	ctx := context.Background()
	b, err := h.w.NewBatch(ctx)
	if err != nil {
		return err
	}
	for i := range n {
		buf := b.Buf()
		from := len(buf)
		buf = fmt.Appendf(buf, "v%d", i)
		b.Keep(buf)
		b.Record("p.data", 0, []byte("k"), buf[from:len(buf):len(buf)], time.Now())
	}
	if confirm > 0 {
		b.Mark(Mark{Confirm: confirm})
	}
	return h.w.Send(ctx, b)
}

func (h *harness) committed(confirm uint64) {
	h.t.Helper()
	for {
		select {
		case m := <-h.marks:
			if m.Confirm == confirm {
				return
			}
		case err := <-h.done:
			h.t.Fatalf("writer ended: %v", err)
		case <-time.After(10 * time.Second):
			h.t.Fatalf("%d was not committed", confirm)
		}
	}
}

// values reads what a read_committed consumer sees of a topic.
func (h *harness) values(topic string) []string {
	h.t.Helper()
	var list []string
	for _, r := range fakelog.Read(h.t, h.deps.Client, topic) {
		list = append(list, string(r.Value))
	}
	return list
}

func TestCommitsOnlyAtMarks(t *testing.T) {
	_, deps := newCluster(t)
	h := open(t, deps, "c").run()
	h.ensure("p.data")
	h.send(3, 7)
	h.committed(7)
	h.send(batchRecords, 0) // an open source transaction, many batches long
	for range 5 {
		h.send(batchRecords, 0)
	}
	if err := h.w.Drain(context.Background()); err != nil {
		t.Fatal(err)
	}
	if got := h.values("p.data"); len(got) != 3 {
		t.Fatalf("%d records are visible before their mark", len(got))
	}
	h.send(1, 9)
	h.committed(9)
	if got := h.values("p.data"); len(got) != 4+6*batchRecords {
		t.Fatalf("%d records", len(got))
	}
	if bytes, commits := h.w.Counts(); bytes == 0 || commits != 2 {
		t.Fatalf("%d bytes, %d commits", bytes, commits)
	}
}

func TestResumeFollowsTheLog(t *testing.T) {
	_, deps := newCluster(t)
	h := open(t, deps, "c")
	ctx := context.Background()
	if v, err := h.w.Resume(ctx); err != nil || v != nil {
		t.Fatalf("resume of an empty log: %q, %v", v, err)
	}
	h.run()
	h.ensure("p.data")
	h.send(1, 42)
	h.committed(42)
	h.send(1, 0) // never marked
	if err := h.w.Drain(ctx); err != nil {
		t.Fatal(err)
	}
	h.stop()
	// Another connector of the same prefix writes more than a window.
	other := open(t, deps, "other").run()
	for i := range 2 * resumeWindow {
		b, err := other.w.NewBatch(ctx)
		if err != nil {
			t.Fatal(err)
		}
		b.Mark(Mark{Confirm: uint64(i + 1), Force: true})
		if err := other.w.Send(ctx, b); err != nil {
			t.Fatal(err)
		}
	}
	other.committed(2 * resumeWindow)
	again := open(t, deps, "c")
	v, err := again.w.Resume(ctx)
	if err != nil || string(v) != "at 42" {
		t.Fatalf("resume: %q, %v", v, err)
	}
	if got := again.values("p.data"); len(got) != 1 {
		t.Fatalf("the record without mark is visible: %v", got)
	}
}

// TestScanOwn: a topic's records as they were committed, in order, over what former runs left there.
func TestScanOwn(t *testing.T) {
	_, deps := newCluster(t)
	ctx := context.Background()
	for run := range 3 {
		h := open(t, deps, "c")
		if _, err := h.w.EnsureTopic(ctx, "p.kept", TopicCompacted); err != nil {
			t.Fatal(err)
		}
		var got []string
		keep := func(r *kgo.Record) error {
			got = append(got, fmt.Sprintf("%s=%s", r.Key, r.Value))
			return nil
		}
		if _, err := h.w.ScanOwn(ctx, "p.kept", keep); err != nil {
			t.Fatal(err)
		}
		var want []string
		for i := range run {
			want = append(want, fmt.Sprintf("a=%d", i), "b=")
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("run %d restores %v, want %v", run, got, want)
		}
		refuse := errors.New("refused")
		if _, err := h.w.ScanOwn(ctx, "p.kept", func(*kgo.Record) error { return refuse }); run > 0 && !errors.Is(err, refuse) {
			t.Fatalf("run %d: %v", run, err)
		}
		h.run()
		for _, mark := range []bool{true, false} { // what comes after the last mark is not committed
			b, err := h.w.NewBatch(ctx)
			if err != nil {
				t.Fatal(err)
			}
			b.Record("p.kept", 0, []byte("a"), []byte(fmt.Sprint(run)), time.Now())
			b.Record("p.kept", 0, []byte("b"), nil, time.Now())
			if mark {
				b.Mark(Mark{Confirm: uint64(run), Force: true})
			}
			if err := h.w.Send(ctx, b); err != nil {
				t.Fatal(err)
			}
		}
		if err := h.w.Drain(ctx); err != nil {
			t.Fatal(err)
		}
		h.stop()
		<-h.done
	}
}

func TestFencedInstanceStops(t *testing.T) {
	_, deps := newCluster(t)
	old := open(t, deps, "c").run()
	old.ensure("p.data")
	old.send(1, 1)
	old.committed(1)
	old.send(1, 0) // its transaction is open
	if err := old.w.Drain(context.Background()); err != nil {
		t.Fatal(err)
	}
	fresh := open(t, deps, "c")
	if v, err := fresh.w.Resume(context.Background()); err != nil || string(v) != "at 1" {
		t.Fatalf("%q, %v", v, err)
	}
	// The record of the open transaction may have met the fence already.
	if err := old.trySend(1, 2); err != nil && !errors.Is(err, errWriterStopped) {
		t.Fatal(err)
	}
	if err := old.ends(); !IsFault(err) || !strings.Contains(err.Error(), "took over") {
		t.Fatal(err)
	}
	if got := fresh.values("p.data"); len(got) != 1 {
		t.Fatalf("a fenced writer wrote: %v", got)
	}
}

func TestProduceErrorAborts(t *testing.T) {
	cluster, deps := newCluster(t)
	h := open(t, deps, "c").run()
	h.ensure("p.data")
	h.send(1, 1)
	h.committed(1)
	cluster.ControlKey(int16(kmsg.Produce), func(req kmsg.Request) (kmsg.Response, error, bool) {
		p := req.(*kmsg.ProduceRequest)
		resp := p.ResponseKind().(*kmsg.ProduceResponse)
		for _, rt := range p.Topics {
			st := kmsg.NewProduceResponseTopic()
			st.Topic, st.TopicID = rt.Topic, rt.TopicID
			for _, rp := range rt.Partitions {
				sp := kmsg.NewProduceResponseTopicPartition()
				sp.Partition, sp.ErrorCode = rp.Partition, kerr.TopicAuthorizationFailed.Code
				st.Partitions = append(st.Partitions, sp)
			}
			resp.Topics = append(resp.Topics, st)
		}
		return resp, nil, true
	})
	h.send(1, 2)
	if err := h.ends(); !IsFault(err) || !errors.Is(err, kerr.TopicAuthorizationFailed) {
		t.Fatal(err)
	}
	if got := h.values("p.data"); len(got) != 1 {
		t.Fatalf("%v", got)
	}
}

// sendValue sends one record with a mark.
func (h *harness) sendValue(value string) {
	h.t.Helper()
	b, err := h.w.NewBatch(context.Background())
	if err != nil {
		h.t.Fatal(err)
	}
	buf := append(b.Buf(), value...)
	b.Keep(buf)
	b.Record("p.data", 0, []byte("k"), buf, time.Now())
	b.Mark(Mark{Confirm: 1})
	if err := h.w.Send(context.Background(), b); err != nil {
		h.t.Fatal(err)
	}
}

func TestRecordTooLarge(t *testing.T) {
	_, deps := newCluster(t)
	h := open(t, deps, "c").run()
	h.ensure("p.data")
	h.sendValue(strings.Repeat("x", maxRecordBytes+1))
	if err := h.ends(); !IsFault(err) || !strings.Contains(err.Error(), "max.message.bytes of topic p.data") {
		t.Fatal(err)
	}
}

func TestLargeRecordFits(t *testing.T) {
	_, deps := newCluster(t)
	h := open(t, deps, "c").run()
	h.ensure("p.data")
	h.sendValue(strings.Repeat("x", 5<<20))
	h.committed(1)
}

func TestPartitioner(t *testing.T) {
	p := partitioner{}.ForTopic("t")
	// murmur2 of these keys as Apache Kafka's own tests have it (UtilsTest.testMurmur2).
	for key, hash := range map[string]int32{
		"21": -973932308, "foobar": -790332482, "a-little-bit-long-string": -985981536, "a-little-bit-longer-string": -1486304829, "abc": 479470107,
	} {
		want := int(uint32(hash)&0x7fffffff) % 7
		if got := p.Partition(&kgo.Record{Key: []byte(key), Partition: 6}, 7); got != want {
			t.Errorf("key %q: partition %d, Java's is %d", key, got, want)
		}
	}
	for _, key := range [][]byte{nil, []byte(event.TruncateKey)} {
		if got := p.Partition(&kgo.Record{Key: key, Partition: 5}, 7); got != 5 {
			t.Errorf("record with key %q: partition %d", key, got)
		}
	}
}

func TestSinglePartitionTopics(t *testing.T) {
	_, deps := newCluster(t)
	h := open(t, deps, "c")
	h.ensure("p.wide")
	w2 := newTopics(h.w.admin, deps, TopicOptions{Partitions: -1, Replication: -1})
	if _, err := w2.ensure(context.Background(), "p.wide", TopicSingle); !IsFault(err) {
		t.Fatal(err)
	}
	configs, err := h.w.admin.DescribeTopicConfigs(context.Background(), "p.position")
	if err != nil {
		t.Fatal(err)
	}
	rc, err := configs.On("p.position", nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range rc.Configs {
		if c.Key == "cleanup.policy" && *c.Value != "compact" {
			t.Fatalf("cleanup.policy is %s", *c.Value)
		}
	}
}

func TestGate(t *testing.T) {
	g := NewGate(10)
	ctx, cancel := context.WithCancel(context.Background())
	if err := g.Acquire(ctx, nil, 100); err != nil { // the first always gets in
		t.Fatal(err)
	}
	got := make(chan error, 1)
	go func() { got <- g.Acquire(ctx, nil, 1) }()
	select {
	case err := <-got:
		t.Fatalf("got in over the limit: %v", err)
	case <-time.After(30 * time.Millisecond):
	}
	g.Release(100)
	if err := <-got; err != nil {
		t.Fatal(err)
	}
	g.Force(50)
	stop := make(chan struct{})
	close(stop)
	if err := g.Acquire(ctx, stop, 1); !errors.Is(err, errWriterStopped) {
		t.Fatal(err)
	}
	cancel()
	if err := g.Acquire(ctx, nil, 1); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
}

func TestSupervise(t *testing.T) {
	log := slog.New(slog.NewTextHandler(io.Discard, nil))
	tr := NewTracker("c", "postgres", "p")
	n := 0
	err := Supervise(context.Background(), log, tr, func(context.Context) error {
		if n++; n < 2 {
			return errors.New("passes")
		}
		return &Fault{Problem: "stays", Remedy: "mend it"}
	})
	if !IsFault(err) || n != 2 || tr.Status().State != StateFailed || !strings.Contains(tr.Status().Error, "mend it") {
		t.Fatalf("%v after %d runs: %+v", err, n, tr.Status())
	}
	if err := Supervise(context.Background(), log, tr, func(context.Context) error { return nil }); err != nil || tr.Status().State != StateComplete {
		t.Fatalf("%v, %+v", err, tr.Status())
	}
	ctx, cancel := context.WithCancel(context.Background())
	err = Supervise(ctx, log, tr, func(context.Context) error { cancel(); return errors.New("x") })
	if err != nil || tr.Status().State != StateStopped {
		t.Fatalf("%v, %+v", err, tr.Status())
	}
}

func BenchmarkBatch(b *testing.B) {
	w := &Writer{gate: NewGate(heldBytes)}
	b.ReportAllocs()
	var batch *Batch
	for range b.N {
		if batch == nil {
			var err error
			if batch, err = w.NewBatch(context.Background()); err != nil {
				b.Fatal(err)
			}
		}
		buf := batch.Buf()
		from := len(buf)
		buf = append(buf, "some value of a usual length, perhaps a little longer than this one is"...)
		batch.Keep(buf)
		batch.Header("h", buf[from:from+4])
		batch.Record("t", 0, buf[from:from+8], buf[from:], time.Time{})
		if batch.Full() {
			w.Drop(batch)
			batch = nil
		}
	}
}

// In a cluster of others topics get the replicas that the node's file asks for, unless the connector's own properties do; and the
// transaction topic is compacted there, which keeps it, since such clusters delete by age.
func TestTopicsInAClusterOfOthers(t *testing.T) {
	for _, c := range []struct{ node, connector, want int16 }{{0, -1, -1}, {-1, -1, -1}, {3, -1, 3}, {3, 2, 2}} {
		if got := newTopics(nil, Deps{Replication: c.node}, TopicOptions{Replication: c.connector}).opts.Replication; got != c.want {
			t.Errorf("%d of the node, %d of the connector: %d replicas, want %d", c.node, c.connector, got, c.want)
		}
	}
	_, deps := newCluster(t)
	h := open(t, deps, "c")
	for prefix, shared := range map[string]bool{"here": false, "there": true} {
		deps.Shared = shared
		name := prefix + ".transaction"
		if _, err := newTopics(h.w.admin, deps, TopicOptions{Partitions: 4, Replication: -1}).ensure(t.Context(), name, TopicTransaction); err != nil {
			t.Fatal(err)
		}
		configs, err := h.w.admin.DescribeTopicConfigs(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		rc, err := configs.On(name, nil)
		if err != nil {
			t.Fatal(err)
		}
		compacted := false
		for _, c := range rc.Configs {
			compacted = compacted || c.Key == "cleanup.policy" && c.MaybeValue() == "compact"
		}
		if compacted != shared {
			t.Errorf("%s: compacted %t", name, compacted)
		}
	}
}
