package load

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/rowtrail/rowtrail/itest/checker/history"
	"github.com/rowtrail/rowtrail/log/sleep"
)

// The topics of a run. What others may need of them is exported.
const (
	plainTopic  = "plain"
	eventsTopic = "events"
	inputTopic  = "input"
	outputTopic = "output"
	StateTopic  = "state" // compacted
	Partitions  = 3       // of each
	stateKeys   = 60
)

const (
	readersGroup   = "readers"
	transformGroup = "transform"
)

const (
	txnTimeout    = 10 * time.Second
	session       = 6 * time.Second
	opTimeout     = 45 * time.Second // of a step that faults hold up
	oldClientWait = 40 * time.Second // longer than any pause: see doc.go
	newClientWait = 4 * time.Second
)

// Dial connects to a broker by the address that it advertises.
type Dial func(ctx context.Context, network, address string) (net.Conn, error)

// Options are what differs between runs.
type Options struct {
	Seed  uint64
	Seeds []string // addresses of the first brokers
	Dial  Dial
	Pace  time.Duration // the mean pause of a client between operations
}

// DialTimeout bounds a client's connect.
const DialTimeout = 5 * time.Second

// MeanPause is the usual pace.
const MeanPause = 25 * time.Millisecond

// Load is the clients of a run.
type Load struct {
	*recorder
	opts     Options
	stopping context.Context
	work     sync.WaitGroup
}

// New prepares clients that go on until stopping ends.
func New(stopping context.Context, opts Options) *Load {
	return &Load{recorder: newRecorder(), opts: opts, stopping: stopping}
}

// Check judges what all clients did and saw; reports are what they were told that none may be told.
func (l *Load) Check() (report *history.Report, reports []string) {
	return history.Check(&l.h), l.reports
}

// Wait waits until all clients have ended.
func (l *Load) Wait() { l.work.Wait() }

// To sends the clients that are made from now on to these brokers.
func (l *Load) To(seeds []string, dial Dial) { l.opts.Seeds, l.opts.Dial = seeds, dial }

// Start starts all clients. Transactional ids double as names.
func (l *Load) Start() {
	l.sender("sender-0", plainTopic, eventsTopic)
	l.sender("sender-1", inputTopic, StateTopic)
	l.sender("sender-2", StateTopic)
	for _, name := range transactors() {
		l.transactor(name, isOld(name))
	}
	for _, name := range transformers() {
		l.transformer(name)
	}
	l.member("member-0")
	l.member("old-member-1")
	l.member("member-2")
	l.reader("reader-0", false)
	l.reader("dirty-0", true)
	l.scanner("scanner-0")
}

func transactors() []string { return []string{"txn-0", "txn-1", "txn-2", "old-txn-3", "old-txn-4"} }

func transformers() []string { return []string{"transform-0", "old-transform-1"} }

// every runs an operation of a client of this name again and again until the load stops. Each client draws from a
// sequence of its own.
func (l *Load) every(name string, f func(ctx context.Context, rng *rand.Rand)) {
	var sum uint64
	for _, c := range name {
		sum = sum*131 + uint64(c)
	}
	rng := rand.New(rand.NewPCG(l.opts.Seed, sum))
	l.work.Go(func() {
		for l.stopping.Err() == nil {
			f(context.Background(), rng)
			sleep.For(l.stopping, time.Duration(rng.Int64N(int64(2*l.opts.Pace))))
		}
	})
}

// Between draws a time.
func Between(rng *rand.Rand, low, high time.Duration) time.Duration {
	return low + time.Duration(rng.Int64N(int64(high-low)))
}

func (l *Load) client(name string, old bool, opts ...kgo.Opt) (*kgo.Client, error) {
	return kgo.NewClient(append(l.clientOptions(name, old), opts...)...)
}

func (l *Load) clientOptions(name string, old bool) []kgo.Opt {
	opts := []kgo.Opt{
		kgo.SeedBrokers(l.opts.Seeds...), kgo.ClientID(name), kgo.RequestTimeoutOverhead(newClientWait),
		kgo.Dialer(l.opts.Dial),
		kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.MetadataMinAge(100 * time.Millisecond), kgo.RetryBackoffFn(backoff),
		kgo.RecordDeliveryTimeout(30 * time.Second), kgo.ProducerLinger(0),
	}
	if old {
		opts = append(opts, kgo.RequestTimeoutOverhead(oldClientWait), kgo.MaxVersions(kversion.V3_9_0()))
	}
	return opts
}

func backoff(tries int) time.Duration {
	return min(time.Duration(tries)*50*time.Millisecond, time.Second)
}

// draw makes a write to one of the topics.
func (l *Load) draw(rng *rand.Rand, topics ...string) history.Write {
	w := history.Write{TP: history.TP{Topic: topics[rng.IntN(len(topics))], Partition: int32(rng.IntN(Partitions))},
		Value: l.values.Add(1), Offset: history.NoOffset}
	if w.Topic == StateTopic {
		key := rng.IntN(stateKeys)
		w.Key, w.Partition, w.Tombstone = fmt.Sprintf("k%d", key), int32(key%Partitions), rng.IntN(8) == 0
	}
	return w
}

// produce sends writes, waits for all of them, and notes their offsets. The first error is returned.
func produce(ctx context.Context, cl *kgo.Client, writes []history.Write) error {
	ctx, cancel := context.WithTimeout(ctx, opTimeout)
	defer cancel()
	var mu sync.Mutex
	var first error
	var wg sync.WaitGroup
	for i := range writes {
		wg.Add(1)
		cl.Produce(ctx, record(writes[i]), func(r *kgo.Record, err error) {
			defer wg.Done()
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				writes[i].Offset = r.Offset
			} else if first == nil {
				first = err
			}
		})
	}
	wg.Wait()
	return first
}

// sender is an idempotent producer.
func (l *Load) sender(name string, topics ...string) {
	var cl *kgo.Client
	l.every(name, func(ctx context.Context, rng *rand.Rand) {
		if cl == nil {
			var err error
			// One request at a time: what overtakes it would be out of sequence, and the client would begin a new one.
			if cl, err = l.client(name, false, kgo.MaxProduceRequestsInflightPerBroker(1), compression(rng)); err != nil {
				l.report("%s: %v", name, err)
				return
			}
		}
		op := history.Op{Client: name, Kind: history.Send, Begin: l.now()}
		for range 1 + rng.IntN(12) {
			op.Writes = append(op.Writes, l.draw(rng, topics...))
		}
		if err := produce(ctx, cl, op.Writes); err != nil {
			op.Error = err.Error()
		}
		l.add(op)
		if rng.IntN(100) == 0 || l.stopping.Err() != nil {
			cl.Close()
			cl = nil
		}
	})
}

func compression(rng *rand.Rand) kgo.Opt {
	codecs := []kgo.CompressionCodec{kgo.NoCompression(), kgo.GzipCompression(), kgo.SnappyCompression(), kgo.Lz4Compression(), kgo.ZstdCompression()}
	return kgo.ProducerBatchCompression(codecs[rng.IntN(len(codecs))])
}

// writer is a transactional producer that also reads.
type writer struct {
	*Load
	name   string
	old    bool
	cl     *kgo.Client
	reader *positions
}

func (l *Load) transactor(name string, old bool) {
	w := &writer{Load: l, name: name, old: old}
	l.every(name, w.transaction)
}

func (w *writer) open(rng *rand.Rand) error {
	var err error
	if w.cl == nil {
		w.cl, err = w.client(w.name, w.old, kgo.TransactionalID(w.name), kgo.TransactionTimeout(txnTimeout), compression(rng))
		if err != nil {
			return err
		}
	}
	if w.reader == nil {
		w.reader, err = w.assigned(w.name, history.Session{Client: w.name, FromStart: true}, kgo.ReadCommitted(), plainTopic, eventsTopic)
	}
	return err
}

func (w *writer) reset() {
	if w.cl != nil {
		w.cl.Close()
		w.cl = nil
	}
}

// transaction writes to several partitions and reads in between. The client is replaced after any doubt, which fences.
func (w *writer) transaction(ctx context.Context, rng *rand.Rand) {
	if err := w.open(rng); err != nil {
		w.report("%s: %v", w.name, err)
		return
	}
	op := history.Op{Client: w.name, Kind: history.Transaction, Begin: w.now(), Outcome: history.Aborted}
	defer func() {
		w.add(op)
		if w.stopping.Err() != nil {
			w.reset()
			w.reader.close()
		}
	}()
	fail := func(err error) {
		op.Error = err.Error()
		w.reset()
	}
	if err := w.cl.BeginTransaction(); err != nil {
		fail(err)
		return
	}
	var failed error
	for range 1 + rng.IntN(3) {
		var part []history.Write
		for range 1 + rng.IntN(5) {
			part = append(part, w.draw(rng, plainTopic, eventsTopic, inputTopic, StateTopic))
		}
		failed = produce(ctx, w.cl, part)
		op.Writes = append(op.Writes, part...)
		if failed != nil {
			break
		}
		if rng.IntN(2) == 0 {
			op.Reads = append(op.Reads, w.reader.poll(ctx, 20*time.Millisecond)...)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, opTimeout)
	defer cancel()
	switch dice := rng.IntN(100); {
	case failed != nil || dice < 15:
		if failed != nil {
			op.Error = failed.Error()
		}
		if err := errors.Join(w.cl.AbortBufferedRecords(ctx), w.cl.EndTransaction(ctx, kgo.TryAbort)); err != nil {
			fail(err)
		}
	case dice < 18:
		fail(errors.New("left open on purpose")) // fenced by the next client of this id, or timed out
	default:
		if err := w.cl.EndTransaction(ctx, kgo.TryCommit); err != nil {
			op.Outcome = history.Unknown
			fail(err)
			return
		}
		op.Outcome = history.Committed
	}
}

// isOld says of a client's name whether it is held to the old protocol.
func isOld(name string) bool { return strings.HasPrefix(name, "old-") }
