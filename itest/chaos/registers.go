package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rowtrail/rowtrail/itest/checker/load"
	"github.com/rowtrail/rowtrail/itest/nodes"
	"github.com/rowtrail/rowtrail/log/sleep"
)

// The topic of single records whose partitions are judged to be linearizable lists.
const (
	registersTopic = "registers"
	registers      = 3 // partitions
	appenders      = 2 // of a partition
	askers         = 2
	registerPace   = 60 * time.Millisecond
	appendTimeout  = 20 * time.Second
	askTimeout     = 5 * time.Second
	// registerTimeout is how long clients wait for a silent node: they are to find the next leader as soon as there is one.
	registerTimeout = time.Second
	unanswered      = time.Duration(1<<63 - 1)
)

// appended is one record's way: its value, where it was put, and between when. An unanswered one may be there or not.
type appended struct {
	client     int
	value      int64
	offset     int64
	begin, end time.Duration
}

// asked is one question for a partition's end.
type asked struct {
	client     int
	end        int64 // the answer
	begin, got time.Duration
}

// register is what clients did to one partition.
type register struct {
	mu      sync.Mutex
	appends []appended
	asks    []asked
	tail    []read  // what a reader that began at the start saw, in its order
	final   []int64 // the values by offset, in the end
}

type read struct{ offset, value int64 }

// recording is the registers of a run and their clients.
type recording struct {
	c        *nodes.Cluster
	start    time.Time
	values   atomic.Int64
	work     sync.WaitGroup
	parts    [registers]*register
	acked    atomic.Int64
	asked    atomic.Int64
	over     atomic.Int64 // when the clients were told to stop; 0: not yet
	mu       sync.Mutex
	reported []string
}

func newRecording(c *nodes.Cluster) *recording {
	r := &recording{c: c, start: time.Now()}
	for i := range r.parts {
		r.parts[i] = &register{}
	}
	return r
}

func (r *recording) now() time.Duration { return time.Since(r.start) }

func (r *recording) report(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.reported) < 20 {
		r.reported = append(r.reported, fmt.Sprintf(format, args...))
	}
}

func (r *recording) create(ctx context.Context, replicas int16) error {
	cl, err := r.c.Client()
	if err != nil {
		return err
	}
	defer cl.Close()
	res, err := kadm.NewClient(cl).CreateTopic(ctx, registers, replicas, nil, registersTopic)
	if err = errors.Join(err, res.Err); err != nil {
		return fmt.Errorf("create topic %s: %w", registersTopic, err)
	}
	return nil
}

// run starts clients that go on until the load stops.
func (r *recording) run(stopping context.Context, seed uint64) {
	for p := range int32(registers) {
		for i := range appenders {
			id := int(p)*(appenders+askers) + i
			r.work.Go(func() { r.appender(stopping, id, p, rand.New(rand.NewPCG(seed, uint64(100+id)))) })
		}
		for i := range askers {
			id := int(p)*(appenders+askers) + appenders + i
			r.work.Go(func() { r.asker(stopping, id, p, rand.New(rand.NewPCG(seed, uint64(100+id)))) })
		}
	}
	r.work.Go(func() { r.reader(stopping) })
	context.AfterFunc(stopping, func() { r.over.Store(int64(r.now())) })
}

func pace(ctx context.Context, rng *rand.Rand) {
	sleep.For(ctx, time.Duration(rng.Int64N(int64(2*registerPace))))
}

func encode(v int64) []byte { return binary.BigEndian.AppendUint64(nil, uint64(v)) }

func decode(b []byte) int64 {
	if len(b) != 8 {
		return -1
	}
	return int64(binary.BigEndian.Uint64(b))
}

func (r *recording) appender(stopping context.Context, id int, partition int32, rng *rand.Rand) {
	cl, err := r.c.Client(kgo.ClientID(fmt.Sprintf("append-%d", id)), kgo.DefaultProduceTopic(registersTopic), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerLinger(0), kgo.RecordDeliveryTimeout(appendTimeout), kgo.ProduceRequestTimeout(registerTimeout), kgo.RequestTimeoutOverhead(registerTimeout),
		kgo.RetryBackoffFn(func(int) time.Duration { return 50 * time.Millisecond }))
	if err != nil {
		r.report("append-%d: %v", id, err)
		return
	}
	defer cl.Close()
	reg := r.parts[partition]
	for ; stopping.Err() == nil; pace(stopping, rng) {
		a := appended{client: id, value: r.values.Add(1), offset: -1, begin: r.now(), end: unanswered}
		res := cl.ProduceSync(context.Background(), &kgo.Record{Partition: partition, Value: encode(a.value)})
		if rec, err := res.First(); err == nil {
			a.offset, a.end = rec.Offset, r.now()
			r.acked.Add(1)
		}
		reg.mu.Lock()
		reg.appends = append(reg.appends, a)
		reg.mu.Unlock()
	}
}

// asker asks for the partition's end. Every answer must be one that the partition had between question and answer.
func (r *recording) asker(stopping context.Context, id int, partition int32, rng *rand.Rand) {
	cl, err := r.c.Client(kgo.ClientID(fmt.Sprintf("ask-%d", id)), kgo.RequestTimeoutOverhead(2*registerTimeout))
	if err != nil {
		r.report("ask-%d: %v", id, err)
		return
	}
	defer cl.Close()
	reg := r.parts[partition]
	for ; stopping.Err() == nil; pace(stopping, rng) {
		q := asked{client: id, begin: r.now()}
		end, err := askEnd(cl, partition)
		if err != nil {
			continue
		}
		q.end, q.got = end, r.now()
		r.asked.Add(1)
		reg.mu.Lock()
		reg.asks = append(reg.asks, q)
		reg.mu.Unlock()
	}
}

func askEnd(cl *kgo.Client, partition int32) (int64, error) {
	ctx, cancel := context.WithTimeout(context.Background(), askTimeout)
	defer cancel()
	req := kmsg.NewPtrListOffsetsRequest()
	req.ReplicaID = -1
	topic := kmsg.NewListOffsetsRequestTopic()
	topic.Topic = registersTopic
	part := kmsg.NewListOffsetsRequestTopicPartition()
	part.Partition, part.Timestamp = partition, -1
	topic.Partitions = append(topic.Partitions, part)
	req.Topics = append(req.Topics, topic)
	for _, shard := range cl.RequestSharded(ctx, req) {
		if shard.Err != nil {
			return 0, shard.Err
		}
		for _, t := range shard.Resp.(*kmsg.ListOffsetsResponse).Topics {
			for _, p := range t.Partitions {
				return p.Offset, kerr.ErrorForCode(p.ErrorCode)
			}
		}
	}
	return 0, errors.New("no answer")
}

// reader reads all registers from the start on; what it has read stays true.
func (r *recording) reader(stopping context.Context) {
	cl, err := r.c.Client(kgo.ClientID("tail"), kgo.ConsumeTopics(registersTopic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchMaxWait(200*time.Millisecond), kgo.Rack("b"))
	if err != nil {
		r.report("tail: %v", err)
		return
	}
	defer cl.Close()
	for stopping.Err() == nil {
		polling, cancel := context.WithTimeout(stopping, time.Second)
		fetches := cl.PollFetches(polling)
		cancel()
		fetches.EachError(func(topic string, partition int32, err error) {
			var loss *kgo.ErrDataLoss
			if errors.As(err, &loss) || errors.Is(err, kerr.OffsetOutOfRange) {
				r.report("the reader of the registers was told of data loss in %s-%d: %v", topic, partition, err)
			}
		})
		fetches.EachRecord(func(rec *kgo.Record) {
			reg := r.parts[rec.Partition]
			reg.mu.Lock()
			defer reg.mu.Unlock()
			reg.tail = append(reg.tail, read{rec.Offset, decode(rec.Value)})
		})
	}
}

// readFinal reads what the registers hold in the end.
func (r *recording) readFinal(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, load.Settle)
	defer cancel()
	for p, reg := range r.parts {
		cl, err := r.c.Client()
		if err != nil {
			return err
		}
		end, err := askEnd(cl, int32(p))
		cl.Close()
		if err != nil {
			return fmt.Errorf("ask for the end of %s-%d: %w", registersTopic, p, err)
		}
		if end == 0 {
			continue
		}
		cl, err = r.c.Client(kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{registersTopic: {int32(p): kgo.NewOffset().AtStart()}}))
		if err != nil {
			return err
		}
		for int64(len(reg.final)) < end && ctx.Err() == nil {
			cl.PollFetches(ctx).EachRecord(func(rec *kgo.Record) {
				if rec.Offset != int64(len(reg.final)) {
					r.report("%s-%d: offset %d comes after %d", registersTopic, p, rec.Offset, len(reg.final)-1)
				}
				reg.final = append(reg.final, decode(rec.Value))
			})
		}
		cl.Close()
		if ctx.Err() != nil {
			return fmt.Errorf("%s-%d: %d of %d records come", registersTopic, p, len(reg.final), end)
		}
	}
	return nil
}

// longest is the longest time within a span in which nobody's append to some partition was answered.
func (r *recording) longest(from, to time.Duration) time.Duration {
	if over := time.Duration(r.over.Load()); over > 0 {
		to = min(to, over) // nobody writes any more
	}
	var longest time.Duration
	for _, reg := range r.parts {
		reg.mu.Lock()
		var acks []time.Duration
		for _, a := range reg.appends {
			if a.end != unanswered && a.end >= from && a.end <= to {
				acks = append(acks, a.end)
			}
		}
		reg.mu.Unlock()
		slices.Sort(acks)
		last := from
		for _, at := range append(acks, to) {
			longest = max(longest, at-last)
			last = at
		}
	}
	return longest
}
