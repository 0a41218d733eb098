package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rowtrail/rowtrail/log"
	"github.com/rowtrail/rowtrail/log/record"
	"github.com/rowtrail/rowtrail/log/sleep"
)

// replayBytes is how much of the controller's log is read at a time at start.
const replayBytes = 1 << 20

// controllerLog is the partition log of Raft group 1 with the catalogue folded from it. It is the group's
// StateMachine; the fold is also read by operations, hence the lock.
type controllerLog struct {
	*log.Partition
	reader *record.Reader
	halt   func(error)
	static map[string]string

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
		halt: halt, static: static, state: newCatalogState(static), moved: make(chan struct{}),
	}
	if err := c.replay(); err != nil {
		return nil, err
	}
	c.publish()
	return c, nil
}

// replay folds the log from its start to its high watermark.
func (c *controllerLog) replay() error {
	marks := c.Marks()
	for next := marks.LogStart; next < marks.HighWatermark; {
		r, err := c.Read(next, replayBytes, true, log.ReadUncommitted)
		if err != nil {
			return fmt.Errorf("replay controller log at offset %d: %w", next, err)
		}
		if len(r.Batches) == 0 {
			return fmt.Errorf("replay controller log: nothing at offset %d below %d: %w", next, marks.HighWatermark, log.ErrCorrupt)
		}
		for rest := r.Batches; len(rest) > 0; {
			var batch []byte
			if batch, rest, err = record.Next(rest); err != nil {
				return fmt.Errorf("replay controller log at offset %d: %w", next, err)
			}
			if err = c.fold(batch); err != nil {
				return err
			}
		}
		next = c.offset
	}
	return nil
}

// Restored implements Restorer: the catalogue is folded anew from the log that a raftSnapshot brought.
func (c *controllerLog) Restored() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.state, c.offset = newCatalogState(c.static), 0
	if err := c.replay(); err != nil {
		c.halt(err) // invariant 7
		return
	}
	c.publish()
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

func (c *controllerLog) orphans(node int32, logs []log.GroupID) []log.GroupID {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state.orphans(node, logs)
}

// wait returns when everything below an offset is folded.
func (c *controllerLog) wait(ctx context.Context, offset int64) error {
	for {
		c.mu.Lock()
		at, moved := c.offset, c.moved
		c.mu.Unlock()
		if at >= offset {
			return nil
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return fmt.Errorf("wait for the catalogue: %w", ctx.Err())
		}
	}
}

// controller runs operations on the catalogue. An operation is decided on this node's state, and becomes one batch of records that the leader of
// group 1 appends only if nothing was appended since; else it is decided anew on what was. So every node decides by the same rules, and no
// operation needs a message of its own.
type controller struct {
	log     *controllerLog
	replica *Replica
	// turn holds one token. An operation takes it and gives it back when its records are settled, even if its caller has
	// left: the next decision must see them.
	turn    chan struct{}
	builder record.Builder
	remote  func(ctx context.Context, node int32, request []byte) ([]byte, error) // nil: there are no other nodes
}

func newController(l *controllerLog, r *Replica) *controller {
	return &controller{log: l, replica: r, turn: make(chan struct{}, 1)}
}

// controllerRetry is the pause before another try where no leader of the controller's group is known or it does not answer.
const controllerRetry = 50 * time.Millisecond

// proposal of records, from a node to the leader of group 1.
type appendRequest struct {
	Base    int64          `json:"base"` // the offset that the decision was made at
	Records []appendRecord `json:"records"`
}

type appendRecord struct {
	Key   []byte `json:"key"`
	Value []byte `json:"value"` // null deletes the key
}

type appendAnswer struct {
	Offset   int64  `json:"offset"` // everything below it is to be known before the next decision
	Appended bool   `json:"appended"`
	Error    string `json:"error,omitempty"` // not the leader, for one: try again
}

// errRetry says that the leader of group 1 has to be looked for again.
var errRetry = errors.New("the controller is moving")

// propose makes the records of decide durable and folded. While no leader answers it tries again until ctx ends.
func (c *controller) propose(ctx context.Context, decide func(*catalogState) ([]change, error)) error {
	for {
		err := c.attempt(ctx, decide)
		if !errors.Is(err, errRetry) {
			return err
		}
		if !sleep.For(ctx, controllerRetry) {
			return fmt.Errorf("%w: %w", ErrNotController, err)
		}
	}
}

func (c *controller) attempt(ctx context.Context, decide func(*catalogState) ([]change, error)) error {
	select {
	case c.turn <- struct{}{}:
	case <-ctx.Done():
		return fmt.Errorf("wait for the operation before: %w", ctx.Err())
	}
	leader, epoch, self := c.replica.Leader() // before the state that is decided on: what other leaders appended since is found by the epoch
	c.log.mu.Lock()
	base := c.log.offset
	changes, err := decide(c.log.state)
	c.log.mu.Unlock()
	if err != nil || len(changes) == 0 {
		<-c.turn
		return err
	}
	if self {
		return c.append(ctx, epoch, changes)
	}
	defer func() { <-c.turn }()
	if leader < 0 || c.remote == nil {
		return fmt.Errorf("%w: no leader of its log is known", errRetry)
	}
	return c.send(ctx, leader, base, changes)
}

// append writes records here, in the epoch in which they were decided, holding the turn until they are settled.
func (c *controller) append(ctx context.Context, epoch int32, changes []change) error {
	now := time.Now().UnixMilli()
	for _, ch := range changes {
		c.builder.Append(now, ch.key, ch.value)
	}
	result := make(chan error, 1)
	c.replica.AppendIn(ctx, epoch, c.builder.Build(nil), -1, func(r AppendResult) {
		result <- r.Err
		<-c.turn
	})
	var err error
	select {
	case err = <-result:
	case <-ctx.Done():
		return fmt.Errorf("write controller log: the outcome is not known: %w", ctx.Err())
	}
	switch {
	case errors.Is(err, log.ErrNotLeader):
		return fmt.Errorf("%w: %w", errRetry, err)
	case err != nil:
		return fmt.Errorf("write controller log: %w", err)
	}
	return nil
}

// send has the leader append records.
func (c *controller) send(ctx context.Context, leader int32, base int64, changes []change) error {
	req := appendRequest{Base: base}
	for _, ch := range changes {
		req.Records = append(req.Records, appendRecord{ch.key, ch.value})
	}
	b, err := c.remote(ctx, leader, mustJSON(call{Append: &req}))
	if err != nil {
		return fmt.Errorf("%w: %w", errRetry, err)
	}
	var a appendAnswer
	if err := json.Unmarshal(b, &a); err != nil {
		return fmt.Errorf("answer of node %d: %w", leader, err)
	}
	if a.Error != "" {
		return fmt.Errorf("%w: node %d: %s", errRetry, leader, a.Error)
	}
	if err := c.log.wait(ctx, a.Offset); err != nil {
		return err
	}
	if !a.Appended {
		return errRetry
	}
	return nil
}

// serve answers another node's send.
func (c *controller) serve(ctx context.Context, req *appendRequest) appendAnswer {
	select {
	case c.turn <- struct{}{}:
	case <-ctx.Done():
		return appendAnswer{Error: ctx.Err().Error()}
	}
	_, epoch, self := c.replica.Leader()
	c.log.mu.Lock()
	at := c.log.offset
	c.log.mu.Unlock()
	if !self || at != req.Base {
		<-c.turn
		if !self {
			return appendAnswer{Error: ErrNotController.Error()}
		}
		return appendAnswer{Offset: at}
	}
	changes := make([]change, len(req.Records))
	for i, r := range req.Records {
		changes[i] = change{key: r.Key, value: r.Value}
	}
	if err := c.append(ctx, epoch, changes); err != nil {
		return appendAnswer{Error: err.Error()}
	}
	c.log.mu.Lock()
	defer c.log.mu.Unlock()
	return appendAnswer{Offset: c.log.offset, Appended: true}
}
