package cluster

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rowtrail/rowtrail/log"
	"github.com/rowtrail/rowtrail/log/record"
)

// replayBytes is how much of the controller's log is read at a time at start.
const replayBytes = 1 << 20

// controllerLog is the partition log of Raft group 1 with the catalogue folded from it. It is the group's
// StateMachine; the fold is also read by operations, hence the lock.
type controllerLog struct {
	*log.Partition
	reader *record.Reader
	halt   func(error)

	mu     sync.Mutex
	state  *catalogState
	offset int64         // Invariant: the state is the fold of all records below offset.
	moved  chan struct{} // closed at the next change

	catalog atomic.Pointer[Catalog]
}

// openControllerLog folds what the log holds below its high watermark; the rest arrives through Apply.
func openControllerLog(p *log.Partition, static map[string]string, halt func(error)) (*controllerLog, error) {
	c := &controllerLog{
		Partition: p, reader: record.NewReader(log.MaxBatchBytes),
		halt: halt, state: newCatalogState(static), moved: make(chan struct{}),
	}
	marks := p.Marks()
	for next := marks.LogStart; next < marks.HighWatermark; {
		r, err := p.Read(next, replayBytes, true, log.ReadUncommitted)
		if err != nil {
			return nil, fmt.Errorf("replay controller log at offset %d: %w", next, err)
		}
		if len(r.Batches) == 0 {
			return nil, fmt.Errorf("replay controller log: nothing at offset %d below %d: %w", next, marks.HighWatermark, log.ErrCorrupt)
		}
		for rest := r.Batches; len(rest) > 0; {
			var batch []byte
			if batch, rest, err = record.Next(rest); err != nil {
				return nil, fmt.Errorf("replay controller log at offset %d: %w", next, err)
			}
			if err = c.fold(batch); err != nil {
				return nil, err
			}
		}
		next = c.offset
	}
	c.publish()
	return c, nil
}

// Apply folds committed records after the log itself has applied them.
func (c *controllerLog) Apply(entries []log.Entry) {
	c.Partition.Apply(entries)
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.offset
	for i := range entries {
		if entries[i].Type != log.EntryBatch {
			continue
		}
		if err := c.fold(entries[i].Data); err != nil {
			// Invariant 7: a record that cannot be folded is not skipped.
			c.halt(err)
			return
		}
	}
	if c.offset != before {
		c.publish()
	}
}

func (c *controllerLog) fold(batch []byte) error {
	if err := c.reader.Reset(batch); err != nil {
		return fmt.Errorf("fold catalogue: %w", err)
	}
	h := c.reader.BatchHeader()
	if h.LastOffset() < c.offset {
		return nil // folded at start already
	}
	for c.reader.Next() {
		r := c.reader.Record()
		if err := c.state.apply(change{key: r.Key, value: r.Value}); err != nil {
			return err
		}
	}
	if err := c.reader.Err(); err != nil {
		return fmt.Errorf("fold catalogue: %w", err)
	}
	c.offset = h.LastOffset() + 1
	return nil
}

func (c *controllerLog) publish() {
	c.catalog.Store(c.state.snapshot(uint64(c.offset)))
	close(c.moved)
	c.moved = make(chan struct{})
}

func (c *controllerLog) changed() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.moved
}

func (c *controllerLog) clusterID() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state.clusterID
}

func (c *controllerLog) orphans(groups []log.GroupID) []log.GroupID {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state.orphans(groups)
}

// controller runs operations on the catalogue, one after the other: decide on the state, append one batch,
// wait until it is applied. Only the leader of group 1 can.
type controller struct {
	log     *controllerLog
	replica *Replica
	// turn holds one token. An operation takes it and gives it back when its records are settled, even if its caller has
	// left: the next decision must see them.
	turn    chan struct{}
	builder record.Builder
}

func newController(l *controllerLog, r *Replica) *controller {
	return &controller{log: l, replica: r, turn: make(chan struct{}, 1)}
}

// propose makes the records of decide durable and folded.
func (c *controller) propose(ctx context.Context, decide func(*catalogState) ([]change, error)) error {
	select {
	case c.turn <- struct{}{}:
	case <-ctx.Done():
		return fmt.Errorf("wait for the operation before: %w", ctx.Err())
	}
	batch, err := c.decide(decide)
	if err != nil || batch == nil {
		<-c.turn
		return err
	}
	result := make(chan error, 1)
	c.replica.Append(ctx, batch, -1, func(r AppendResult) {
		result <- r.Err
		<-c.turn
	})
	select {
	case err = <-result:
	case <-ctx.Done():
		return fmt.Errorf("write controller log: the outcome is not known: %w", ctx.Err())
	}
	switch {
	case errors.Is(err, log.ErrNotLeader):
		return ErrNotController
	case err != nil:
		return fmt.Errorf("write controller log: %w", err)
	}
	return nil
}

// decide returns the batch of an operation; nil when there is nothing to write.
func (c *controller) decide(decide func(*catalogState) ([]change, error)) ([]byte, error) {
	if _, _, self := c.replica.Leader(); !self {
		return nil, ErrNotController
	}
	c.log.mu.Lock()
	changes, err := decide(c.log.state)
	c.log.mu.Unlock()
	if err != nil {
		return nil, err
	}
	now := time.Now().UnixMilli()
	for _, ch := range changes {
		c.builder.Append(now, ch.key, ch.value)
	}
	return c.builder.Build(nil), nil
}
