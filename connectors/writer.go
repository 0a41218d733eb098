package connectors

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	// queueBatches is how many filled batches wait for the writer.
	queueBatches = 16
	// heldBytes bounds all batches that are not yet acknowledged, being filled ones included.
	heldBytes = 32 << 20
	// commitBytes and commitAge end a log transaction under load at the next mark.
	commitBytes  = 16 << 20
	commitAge    = 100 * time.Millisecond
	abortTimeout = 3 * time.Second
)

// errWriterStopped is what a source gets when the writer has ended; the writer's own error is the cause.
var errWriterStopped = errors.New("log writer stopped")

// Deps is what a connector is given.
type Deps struct {
	Client  []kgo.Opt // seed brokers and dialer of the log: in-process, or any Kafka
	Logger  *slog.Logger
	Version string

	Replication int16 // of topics whose connector does not say; 0 or less: the log's default
	Shared      bool  // the log is a Kafka cluster with defaults of its own, which may delete what is older than days

	Rows Rows // of the log's own views; nil where the log is another Kafka
}

// WriterOptions configure a Writer.
type WriterOptions struct {
	Name         string // of the connector
	Prefix       string // topic.prefix
	Topics       TopicOptions
	Compression  string // lz4 (default), snappy, zstd, none
	AppendResume func(dst []byte, m Mark) []byte
	OnCommit     func(Mark) // called in commit order, after the commit
}

// Writer writes batches into the log exactly once. One goroutine calls Run; others call NewBatch and Send.
type Writer struct {
	opts   WriterOptions
	log    *slog.Logger
	client *kgo.Client // the transactional producer
	plain  *kgo.Client // topics and resume points
	admin  *kadm.Client
	topics *topics

	positionTopic string
	positionKey   []byte

	in      chan *Batch
	gate    *Gate
	pool    sync.Pool
	promise func(*kgo.Record, error)
	offsets *offsets // nil: nobody asks

	pending atomic.Int64  // batches sent and not yet written
	ready   chan struct{} // signalled when pending falls to 0

	failOnce sync.Once
	failed   chan struct{}
	err      error
	timeout  time.Duration

	// Only Run touches these.
	open  bool
	dirty bool
	since time.Time
	bytes int64
	last  Mark
	marks []Mark

	bytesDone, commits atomic.Uint64
}

// OpenWriter connects, fences the former instance of this connector (invariant 3) and makes sure that the connector's own
// topics exist.
func OpenWriter(ctx context.Context, deps Deps, opts WriterOptions) (*Writer, error) {
	w := &Writer{
		opts: opts, log: deps.Logger,
		positionTopic: opts.Prefix + ".position",
		positionKey:   positionKey(opts.Name),
		in:            make(chan *Batch, queueBatches),
		gate:          NewGate(heldBytes),
		failed:        make(chan struct{}),
		ready:         make(chan struct{}, 1),
	}
	w.promise = w.done
	if deps.Rows != nil {
		w.offsets = &offsets{}
	}
	plain, err := kgo.NewClient(append(append([]kgo.Opt{}, deps.Client...), kgo.ClientID("rowtrail-connector-"+opts.Name), kgo.MetadataMinAge(metadataMinAge))...)
	if err != nil {
		return nil, fmt.Errorf("open log client: %w", err)
	}
	w.plain, w.admin = plain, kadm.NewClient(plain)
	w.topics = newTopics(w.admin, deps, opts.Topics)
	if err := w.openProducer(ctx, deps); err != nil {
		w.Close()
		return nil, err
	}
	if _, err := w.EnsureTopic(ctx, w.positionTopic, TopicCompacted); err != nil {
		w.Close()
		return nil, err
	}
	return w, nil
}

// Close ends the clients. An open log transaction that was not aborted is aborted by the next OpenWriter.
func (w *Writer) Close() {
	if w.client != nil {
		w.client.Close()
	}
	w.plain.Close()
}

// Counts are the totals of this run: key and value bytes, and log transactions.
func (w *Writer) Counts() (bytes, commits uint64) { return w.bytesDone.Load(), w.commits.Load() }

// NewBatch waits until there is room for one more batch (invariant 9).
func (w *Writer) NewBatch(ctx context.Context) (*Batch, error) {
	if err := w.gate.Acquire(ctx, w.failed, batchCost); err != nil {
		return nil, err
	}
	b, _ := w.pool.Get().(*Batch)
	if b == nil {
		b = &Batch{
			w: w, Context: context.Background(),
			slab: make([]byte, 0, batchBytes),
			recs: make([]kgo.Record, 0, batchRecords),
			hdrs: make([]kgo.RecordHeader, 0, batchRecords),
		}
	}
	b.cost = batchCost
	return b, nil
}

// Send hands a batch over; it waits while the queue is full.
func (w *Writer) Send(ctx context.Context, b *Batch) error {
	if extra := int64(cap(b.slab)) - batchBytes; extra > 0 {
		w.gate.Force(extra)
		b.cost += extra
	}
	w.pending.Add(1)
	select {
	case w.in <- b:
		return nil
	case <-w.failed:
		return errWriterStopped
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Busy says that the writer has work: a source that has little more to send does better to gather until Ready, so
// that commits grow under load.
func (w *Writer) Busy() bool { return w.pending.Load() > 0 }

// Ready is signalled when the writer has nothing left to do.
func (w *Writer) Ready() <-chan struct{} { return w.ready }

// Drop gives an unsent batch back.
func (w *Writer) Drop(b *Batch) { w.recycle(b) }

func (w *Writer) recycle(b *Batch) {
	cost := b.cost
	b.reset()
	w.pool.Put(b)
	w.gate.Release(cost)
}

// Drain waits until everything that was sent so far is written, and committed up to its last forced mark.
func (w *Writer) Drain(ctx context.Context) error {
	b, err := w.NewBatch(ctx)
	if err != nil {
		return err
	}
	written := make(chan struct{})
	b.written = written
	if err := w.Send(ctx, b); err != nil {
		return err
	}
	select {
	case <-written:
		return nil
	case <-w.failed:
		return errWriterStopped
	case <-ctx.Done():
		return ctx.Err()
	}
}

// done is every record's promise.
func (w *Writer) done(r *kgo.Record, err error) {
	if err != nil {
		w.fail(w.produceError(r, err))
		return // the client may still hold the memory: it is not used again
	}
	if w.offsets != nil {
		w.offsets.note(r)
	}
	b := r.Context.(*Batch)
	if b.left.Add(-1) == 0 {
		w.recycle(b)
	}
}

func (w *Writer) fail(err error) {
	w.failOnce.Do(func() {
		w.err = err
		close(w.failed)
	})
}

// Run writes until ctx ends or something fails; then the open transaction is aborted.
func (w *Writer) Run(ctx context.Context) (err error) {
	defer func() {
		w.fail(errWriterStopped)
		w.abort()
	}()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-w.failed:
			return w.explain(w.err)
		case b := <-w.in:
			if err := w.write(ctx, b); err != nil {
				return w.explain(err)
			}
			if w.pending.Add(-1) == 0 {
				select {
				case w.ready <- struct{}{}:
				default:
				}
			}
		}
	}
}

// write produces a batch and ends the log transaction at the marks where that is due.
func (w *Writer) write(ctx context.Context, b *Batch) error {
	if b.written != nil {
		close(b.written)
	}
	recs := b.recs
	w.marks = append(w.marks[:0], b.marks...) // the batch may be used again once its last record is produced
	marks := w.marks
	b.left.Store(int64(len(recs)) + 1) // one for this function
	defer func() {
		if b.left.Add(-1) == 0 {
			w.recycle(b)
		}
	}()
	next := 0
	for i := range marks {
		m := &marks[i]
		if err := w.produce(ctx, recs[next:m.position]); err != nil {
			return err
		}
		next = m.position
		w.last = *m
		if w.due(i == len(marks)-1 && len(w.in) == 0) || m.Force {
			if err := w.commit(ctx); err != nil {
				return err
			}
		}
	}
	return w.produce(ctx, recs[next:])
}

// due tells whether the log transaction ends at the mark that was just reached; idle: nothing more is waiting.
func (w *Writer) due(idle bool) bool {
	return w.dirty && (idle || w.bytes >= commitBytes || time.Since(w.since) >= commitAge)
}

func (w *Writer) begin() error {
	if w.open {
		return nil
	}
	if err := w.client.BeginTransaction(); err != nil {
		return fmt.Errorf("begin log transaction: %w", err)
	}
	w.open, w.since = true, time.Now()
	return nil
}

func (w *Writer) produce(ctx context.Context, recs []kgo.Record) error {
	if len(recs) == 0 {
		return nil
	}
	if err := w.begin(); err != nil {
		return err
	}
	for i := range recs {
		r := &recs[i]
		w.bytes += int64(len(r.Key) + len(r.Value))
		w.client.Produce(ctx, r, w.promise)
	}
	w.dirty = true
	select {
	case <-w.failed:
		return w.err
	case <-ctx.Done():
		return ctx.Err()
	default:
		return nil
	}
}

// commit ends the log transaction at w.last. Invariant 3: the resume point is part of it.
func (w *Writer) commit(ctx context.Context) error {
	if err := w.begin(); err != nil {
		return err
	}
	m := w.last
	w.client.Produce(ctx, &kgo.Record{
		Topic: w.positionTopic, Key: w.positionKey, Value: w.opts.AppendResume(nil, m),
	}, func(r *kgo.Record, err error) {
		if err != nil {
			w.fail(w.produceError(r, err))
		}
	})
	if err := w.client.Flush(ctx); err != nil {
		return fmt.Errorf("flush log transaction: %w", err)
	}
	select {
	case <-w.failed: // Flush does not report failed records: their promises do
		return w.err
	default:
	}
	if err := w.client.EndTransaction(ctx, kgo.TryCommit); err != nil {
		return fmt.Errorf("commit log transaction: %w", err)
	}
	if w.offsets != nil {
		w.offsets.commit()
	}
	w.bytesDone.Add(uint64(w.bytes))
	w.commits.Add(1)
	w.open, w.dirty, w.bytes = false, false, 0
	// Invariant 1: only now may the source be told.
	if w.opts.OnCommit != nil {
		w.opts.OnCommit(m)
	}
	return nil
}

// abort ends the open transaction if the log answers soon; if not, the next run's fencing does it.
func (w *Writer) abort() {
	if !w.open {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), abortTimeout)
	defer cancel()
	err := w.client.AbortBufferedRecords(ctx)
	if err == nil {
		err = w.client.EndTransaction(ctx, kgo.TryAbort)
	}
	if err != nil {
		w.log.Debug("log transaction left to the next run", "error", err)
	}
}
