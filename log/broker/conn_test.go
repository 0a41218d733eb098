package broker

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rowtrail/rowtrail/log/record"
)

// produceRequest has one batch of one record for partition 0.
func produceRequest(topic string, acks int16, batch []byte) *kmsg.ProduceRequest {
	req := kmsg.NewPtrProduceRequest()
	req.Version, req.Acks, req.TimeoutMillis = 9, acks, 10_000
	rt := kmsg.NewProduceRequestTopic()
	rt.Topic = topic
	rp := kmsg.NewProduceRequestTopicPartition()
	rp.Records = batch
	rt.Partitions = append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	return req
}

func batchOf(values ...string) []byte {
	var b record.Builder
	for _, v := range values {
		b.Append(time.Now().UnixMilli(), []byte("k"), []byte(v))
	}
	return b.Build(nil)
}

// Requests sent without waiting are staged and answered in order, also around others.
func TestPipelining(t *testing.T) {
	s := serve(t)
	create(t, s, "t", 1, nil)
	c := dial(t, s.addr)
	const n = 100 // more than maxFramesAhead
	go func() {
		for i := range int32(n) {
			var req kmsg.Request = produceRequest("t", -1, batchOf("v"))
			if i%10 == 9 {
				req = kmsg.NewPtrApiVersionsRequest()
			}
			c.Write(request1(i, req))
		}
	}()
	next := int64(0)
	for i := range uint32(n) {
		body := readFramed(t, c)
		if got := binary.BigEndian.Uint32(body); got != i {
			t.Fatalf("response %d where %d was due", got, i)
		}
		if i%10 == 9 {
			continue
		}
		resp := kmsg.NewPtrProduceResponse()
		resp.Version = 9
		if err := resp.ReadFrom(body[5:]); err != nil {
			t.Fatal(err)
		}
		if p := resp.Topics[0].Partitions[0]; p.ErrorCode != 0 || p.BaseOffset != next {
			t.Fatalf("request %d: %+v, want offset %d", i, p, next)
		}
		next++
	}
}

// With acks=0 everything that arrived is appended, although the client hung up, and a failure hangs up on it.
func TestNoAcks(t *testing.T) {
	s := serve(t)
	create(t, s, "t", 1, nil)
	c := dial(t, s.addr)
	for i := range int32(20) {
		c.Write(request1(i, produceRequest("t", 0, batchOf("v"))))
	}
	c.Close()
	cl := s.client(t, true, kgo.ConsumeTopics("t"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	consume(t, cl, 20)

	c = dial(t, s.addr)
	c.Write(request1(1, produceRequest("missing", 0, batchOf("v"))))
	if n, err := c.Read(make([]byte, 1)); n != 0 || !errors.Is(err, io.EOF) {
		t.Fatalf("after a failed append with acks=0: %d, %v", n, err)
	}
}

// A handler that panics costs its client the connection and nobody else.
func TestPanicEndsOneConnection(t *testing.T) {
	s := serve(t)
	other := dial(t, s.addr)
	real := *s.apis[60]
	broken := real
	broken.handle = func(*Broker, context.Context, *request) (kmsg.Response, error) { panic("for the test") }
	s.apis[60] = &broken
	c := dial(t, s.addr)
	c.Write(request1(1, kmsg.NewPtrDescribeClusterRequest()))
	if _, err := c.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Fatalf("got %v", err)
	}
	waitFor(t, "log lines", func() bool {
		return s.logs.count("for the test") == 1 && s.logs.count("internal error") == 1
	})
	other.Write(request1(2, kmsg.NewPtrApiVersionsRequest()))
	readFramed(t, other)
	s.logs.mu.Lock()
	s.logs.lines = nil // this one was wanted
	s.logs.mu.Unlock()
}

// Shutdown answers long polls and what is in flight, and does not wait for idle clients.
func TestShutdownEndsLongPolls(t *testing.T) {
	s := serve(t)
	create(t, s, "t", 1, nil)
	cl := s.client(t, false, kgo.ConsumeTopics("t"), kgo.FetchMaxWait(time.Minute))
	polling := make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		defer close(polling)
		cl.PollFetches(ctx)
	}()
	waitFor(t, "the consumer's connections", func() bool { return s.external.conns.Load() >= 2 })
	idle := dial(t, s.addr)
	if err := s.Shutdown(within(t, 20*time.Second)); err != nil { // sooner than the poll would end by itself
		t.Fatal(err)
	}
	if _, err := idle.Read(make([]byte, 1)); err == nil {
		t.Error("idle connection is still served")
	}
	if _, err := s.Dialer()(ctx, "", ""); !errors.Is(err, ErrClosed) {
		t.Errorf("dial after shutdown: %v", err)
	}
	cancel()
	<-polling
}

// KAFKA-18762: a topic cannot ask for more replicas than it has.
func TestMinInsyncReplicas(t *testing.T) {
	s := serve(t)
	two := "2"
	create(t, s, "t", 1, map[string]*string{"min.insync.replicas": &two})
	c := dial(t, s.addr)
	for acks, want := range map[int16]int16{-1: 0, 1: 0, 7: kerr.InvalidRequiredAcks.Code} {
		if got := produceCode(t, c.Write, func() []byte { return readFramed(t, c) }, produceRequest("t", acks, batchOf("v"))); got != want {
			t.Errorf("acks=%d: code %d, want %d", acks, got, want)
		}
	}
}

func produceCode(t testing.TB, write func([]byte) (int, error), read func() []byte, req *kmsg.ProduceRequest) int16 {
	t.Helper()
	if _, err := write(request1(1, req)); err != nil {
		t.Fatal(err)
	}
	resp := kmsg.NewPtrProduceResponse()
	resp.Version = req.Version
	if err := resp.ReadFrom(read()[5:]); err != nil {
		t.Fatal(err)
	}
	return resp.Topics[0].Partitions[0].ErrorCode
}
