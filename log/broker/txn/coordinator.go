package txn

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/rowtrail/rowtrail/log/broker/journal"
	"github.com/rowtrail/rowtrail/log/record"
)

// Topic is where transactions are kept, and DefaultPartitions how many coordinators share the work.
const (
	Topic             = "__transaction_state"
	DefaultPartitions = 8
)

const (
	// waitTimeout bounds the wait of a request for the completion of its producer's last transaction;
	// then it is told to come again.
	waitTimeout = 5 * time.Second
	maxWaiters  = 16 // requests that wait for one transactional id
	// scanInterval is how often transactions are looked at for their timeout.
	scanInterval = time.Second
	// expiryInterval is how often ids are looked at for their expiry.
	expiryInterval = 10 * time.Minute
	// A marker that could not be written is tried again after retryFirst, then after twice as long, up to retryMost.
	retryFirst = 50 * time.Millisecond
	retryMost  = 5 * time.Second
)

// Markers tells partitions, wherever those are led, of the beginnings and ends of transactions.
type Markers interface {
	// ExpectFirst says that a producer's transaction is open under an epoch of its own, so that where the producer is not
	// known its first batch has sequence 0. It comes before any batch of the transaction is let in, and again after a load.
	ExpectFirst(tp journal.TopicPartition, p Producer)
	// WriteMarker calls done once, from any goroutine, when the marker is committed (nil), or with an error.
	// A partition that no longer exists needs none: nil. WriteMarker may block for room.
	WriteMarker(ctx context.Context, tp journal.TopicPartition, m record.EndTxn, done func(error))
}

// ProducerIDs gives out producer ids.
type ProducerIDs interface {
	NextProducerIDs(ctx context.Context, count int64) (int64, error)
}

// Options configure a Coordinator. Zero values take the defaults named here.
type Options struct {
	Logger     *slog.Logger
	Now        func() time.Time
	Markers    Markers
	IDs        ProducerIDs
	MaxTimeout time.Duration // transaction.max.timeout.ms. Default 24 h: a large source transaction is one of ours
	// IdleExpiry is how long a transactional id without transactions is remembered. Default 7 days.
	IdleExpiry    time.Duration
	RolloverBytes int64 // see journal.Options
}

func (o Options) withDefaults() Options {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.MaxTimeout <= 0 {
		o.MaxTimeout = 24 * time.Hour
	}
	if o.IdleExpiry <= 0 {
		o.IdleExpiry = 7 * 24 * time.Hour
	}
	return o
}

// Coordinator owns the transactional ids of a set of partitions. Its methods answer through a function, called once
// from any goroutine, that must not block.
type Coordinator struct {
	opts   Options
	ids    idBlock
	shards *journal.Shards[*shard]
	taking sync.WaitGroup // producer ids being reserved for requests; see takeID
}

// Options are those in force, defaults included.
func (c *Coordinator) Options() Options { return c.opts }

// New returns a coordinator. It refuses work until Open names the partitions of Topic.
func New(opts Options) *Coordinator {
	c := &Coordinator{opts: opts.withDefaults()}
	c.ids.source = opts.IDs
	c.shards = journal.NewShards(journal.Options{Name: Topic, Logger: c.opts.Logger, Now: c.opts.Now, RolloverBytes: c.opts.RolloverBytes},
		func(j *journal.Journal) *shard { return &shard{c: c, j: j} })
	return c
}

// Open names the partitions of Topic, in order, once.
func (c *Coordinator) Open(partitions []journal.Partition) { c.shards.Open(partitions) }

// Run drives the coordinator until ctx ends. What it began has ended when it returns.
func (c *Coordinator) Run(ctx context.Context) {
	c.shards.Run(ctx, func(s *shard) { s.ctx = ctx })
	c.taking.Wait()
}

// LeadersMoved has the coordinator look at once what it still coordinates.
func (c *Coordinator) LeadersMoved() { c.shards.Look() }

// PartitionFor is the partition of Topic that keeps an id.
func (c *Coordinator) PartitionFor(id string) int32 { return c.shards.PartitionFor(id) }

// Serving reports whether the id's partition is loaded, as a protocol code.
func (c *Coordinator) Serving(id string) int16 { return journal.Code(c.shards.Serving(id)) }

// on runs f on the id's shard; code is not 0 when it cannot be had.
func (c *Coordinator) on(id string, f func(s *shard, code int16)) {
	c.shards.Do(id, func(s *shard, err error) {
		if err != nil {
			f(nil, journal.Code(err))
			return
		}
		f(s, 0)
	})
}

// blockSize is how many producer ids are reserved at once.
const blockSize = 1000

// idBlock hands out producer ids from reserved blocks. What is left of a block when the process ends is
// never used.
type idBlock struct {
	source ProducerIDs

	mu        sync.Mutex
	next, end int64
	spare     []int64 // Invariant: at most blockSize
}

// take returns an id that was never used.
func (b *idBlock) take(ctx context.Context) (int64, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if n := len(b.spare); n > 0 {
		id := b.spare[n-1]
		b.spare = b.spare[:n-1]
		return id, nil
	}
	if b.next == b.end {
		first, err := b.source.NextProducerIDs(ctx, blockSize)
		if err != nil {
			return 0, fmt.Errorf("reserve producer ids: %w", err)
		}
		b.next, b.end = first, first+blockSize
	}
	b.next++
	return b.next - 1, nil
}

// give takes back an id that was not used after all.
func (b *idBlock) give(id int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.spare) < blockSize {
		b.spare = append(b.spare, id)
	}
}
