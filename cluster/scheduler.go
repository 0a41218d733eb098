package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"

	"github.com/rowtrail/rowtrail/log"
)

// counters are the scheduler's figures.
type counters struct {
	groups    atomic.Int64
	proposals atomic.Int64 // entries proposed by this node
	commits   atomic.Int64 // entries applied
	written   atomic.Int64 // entries made durable
	syncs     atomic.Int64

	elections     atomic.Int64 // that replicas of this node stood in
	leaderChanges atomic.Int64 // other leaders than before that replicas of this node followed, or became
	shrinks       atomic.Int64 // times that replicas fell out of sync, of the groups that this node leads
	expands       atomic.Int64 // and came back
}

type schedulerConfig struct {
	store     Committer
	transport Transport
	snapshots Snapshots
	workers   int
	logger    *slog.Logger
	now       func() time.Time
	onFatal   func(error)
}

// scheduler drives all Raft groups of a node with a few workers and one writer. It knows nothing of topics.
type scheduler struct {
	workers   []*worker
	writer    *writer
	transport Transport
	snapshots Snapshots
	logger    *slog.Logger
	now       func() time.Time
	onFatal   func(error)

	mu     sync.Mutex
	groups map[log.GroupID]*group

	closing  atomic.Bool
	failure  atomic.Pointer[error]
	inflight atomic.Int64
	idle     chan struct{} // capacity 1: inflight fell to 0 while closing
	counters counters

	stopWorkers, stopWriter chan struct{}
	workersDone, writerDone sync.WaitGroup
}

func newScheduler(c schedulerConfig) *scheduler {
	s := &scheduler{
		transport: c.transport, snapshots: c.snapshots, logger: c.logger, now: c.now, onFatal: c.onFatal,
		groups: map[log.GroupID]*group{}, idle: make(chan struct{}, 1),
		stopWorkers: make(chan struct{}), stopWriter: make(chan struct{}),
	}
	s.writer = newWriter(s, c.store)
	for range c.workers {
		s.workers = append(s.workers, newWorker(s))
	}
	return s
}

func (s *scheduler) start() {
	s.writerDone.Add(1)
	go func() {
		defer s.writerDone.Done()
		s.writer.run(s.stopWriter)
	}()
	for _, w := range s.workers {
		s.workersDone.Add(1)
		go func() {
			defer s.workersDone.Done()
			w.run(s.stopWorkers)
		}()
	}
}

// open takes a group into service: its worker drives it from now on.
func (s *scheduler) open(c groupConfig) (*group, error) {
	g, err := newGroup(c)
	if err != nil {
		return nil, err
	}
	g.worker = s.workers[uint64(c.id)%uint64(len(s.workers))]
	s.mu.Lock()
	if s.groups[c.id] != nil {
		s.mu.Unlock()
		return nil, fmt.Errorf("open group %d: it is open already", c.id)
	}
	s.groups[c.id] = g
	s.counters.groups.Store(int64(len(s.groups)))
	s.mu.Unlock()
	if !g.worker.post(item{kind: itemRun, group: g, run: func(g *group, _ *output) { g.worker.add(g) }}) {
		return nil, log.ErrClosed
	}
	return g, nil
}

// close takes a group out of service, answering what waits with err. after runs on the writer behind the group's last
// write, so that nothing of the group is written later.
func (s *scheduler) close(g *group, err error, after func()) {
	s.mu.Lock()
	delete(s.groups, g.id)
	s.counters.groups.Store(int64(len(s.groups)))
	s.mu.Unlock()
	g.worker.post(item{kind: itemRun, group: g, run: func(g *group, _ *output) {
		g.worker.remove(g, err)
		g.worker.flush() // before the drop
		s.writer.submit(appendItem{last: after})
	}})
}

// run calls fn on the group's worker.
func (s *scheduler) run(g *group, fn func()) {
	g.worker.post(item{kind: itemRun, group: g, run: func(g *group, _ *output) {
		if g.closeErr == nil {
			fn()
		}
	}})
}

// append queues a payload. It blocks while the bounds are reached, until ctx ends. done is called exactly once, from a
// worker, or from here when the append is refused at once.
func (s *scheduler) append(ctx context.Context, g *group, payload []byte, acks int16, done func(int64, error)) {
	s.appendIn(ctx, g, AnyEpoch, payload, acks, done)
}

// appendIn is append in one leader epoch.
func (s *scheduler) appendIn(ctx context.Context, g *group, epoch int32, payload []byte, acks int16, done func(int64, error)) {
	s.inflight.Add(1)
	p := &proposal{payload: payload, size: int64(len(payload)) + proposalOverhead, acks: acks, epoch: epoch, done: done}
	if err := s.enqueue(ctx, g, p); err != nil {
		done(-1, err)
		s.finish(1)
	}
}

// trim is append for a new log start.
func (s *scheduler) trim(ctx context.Context, g *group, logStart int64, done func(error)) {
	s.inflight.Add(1)
	p := &proposal{payload: log.TrimPayload(logStart), size: proposalOverhead, acks: -1, epoch: AnyEpoch, trim: true, done: func(_ int64, err error) { done(err) }}
	if err := s.enqueue(ctx, g, p); err != nil {
		done(err)
		s.finish(1)
	}
}

func (s *scheduler) enqueue(ctx context.Context, g *group, p *proposal) error {
	if s.closing.Load() {
		return log.ErrClosed
	}
	if err := s.failed(); err != nil {
		return err
	}
	if err := g.gate.acquire(ctx, p.size); err != nil {
		return err
	}
	if err := g.worker.gate.acquire(ctx, p.size); err != nil {
		g.gate.release(p.size)
		return err
	}
	if !g.worker.post(item{kind: itemPropose, group: g, proposal: p}) {
		g.worker.gate.release(p.size)
		g.gate.release(p.size)
		return log.ErrClosed
	}
	return nil
}

// finish counts answered appends.
func (s *scheduler) finish(n int64) {
	if n > 0 && s.inflight.Add(-n) == 0 && s.closing.Load() {
		select {
		case s.idle <- struct{}{}:
		default:
		}
	}
}

// receive takes messages from another node. Those of unknown groups are dropped.
func (s *scheduler) receive(ms []Envelope) {
	groups := make([]*group, len(ms))
	s.mu.Lock()
	for i := range ms {
		if g := s.groups[ms[i].Group]; g != nil && ms[i].Message != nil && ms[i].Message.GetTo() == g.self {
			groups[i] = g
		}
	}
	s.mu.Unlock()
	for _, w := range s.workers {
		w.receive(groups, ms)
	}
}

// group is one that is open; nil: it is not.
func (s *scheduler) group(id log.GroupID) *group {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.groups[id]
}

// install hands a raftSnapshot that has arrived whole to its group; false: the group is not here any more.
func (s *scheduler) install(id log.GroupID, m *raftpb.Message, in log.Installation) bool {
	g := s.group(id)
	return g != nil && g.self == m.GetTo() && g.worker.post(item{kind: itemMessage, group: g, message: m, install: in})
}

// reportSnapshot tells a group's leader whether a member got its raftSnapshot.
func (s *scheduler) reportSnapshot(id log.GroupID, to uint64, ok bool) {
	status := raft.SnapshotFinish
	if !ok {
		status = raft.SnapshotFailure
	}
	s.with(id, func(g *group) { g.rn.ReportSnapshot(to, status) })
}

// unreachable tells the groups that lead there that messages to a node were lost.
func (s *scheduler) unreachable(node int32) {
	for _, w := range s.workers {
		w.post(item{kind: itemRun, run: func(_ *group, _ *output) { w.unreachable(node) }})
	}
}

// gone tells all groups that a node's process has ended.
func (s *scheduler) gone(node int32) {
	for _, w := range s.workers {
		w.post(item{kind: itemRun, run: func(_ *group, _ *output) { w.gone(node) }})
	}
}

// with calls fn on the worker of a group, if it is here.
func (s *scheduler) with(id log.GroupID, fn func(*group)) {
	g := s.group(id)
	if g != nil {
		s.run(g, func() { fn(g) })
	}
}

// tick advances Raft's clock of the groups that need one.
func (s *scheduler) tick() {
	for _, w := range s.workers {
		w.tick()
	}
}

// retain trims every partition by its settings, each on its own worker. The leader decides, and the log tells the others; the store
// carries the deletes to the disk.
func (s *scheduler) retain(now time.Time) {
	for _, w := range s.workers {
		w.post(item{kind: itemRun, run: func(_ *group, _ *output) { w.retain(now) }})
	}
}

// failed is why the node is halted, or nil.
func (s *scheduler) failed() error {
	if p := s.failure.Load(); p != nil {
		return *p
	}
	return nil
}

// fail halts the node: everything that waits gets the error, and nothing is acknowledged from here on (invariant 1).
func (s *scheduler) fail(cause error) {
	if s.failed() == nil {
		s.logger.Error("node halted: durability can no longer be promised; restart it once the cause is mended", "error", cause)
	}
	s.halt(errors.Join(errHalted, cause))
}

// halt is fail for a reason that says all itself.
func (s *scheduler) halt(err error) {
	if !s.failure.CompareAndSwap(nil, &err) {
		return
	}
	s.closeGates(err)
	for _, w := range s.workers {
		w.wake()
	}
	if s.onFatal != nil {
		go s.onFatal(err) // it may call stop, which waits for this goroutine's caller
	}
}

func (s *scheduler) closeGates(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, g := range s.groups {
		g.gate.close(err)
	}
	for _, w := range s.workers {
		w.gate.close(err)
	}
}

// stop refuses new appends, waits for those in flight until ctx ends, answers the rest with ErrClosed and ends all
// goroutines.
func (s *scheduler) stop(ctx context.Context) error {
	if s.closing.Swap(true) {
		return log.ErrClosed
	}
	s.closeGates(log.ErrClosed)
	var err error
	for s.inflight.Load() > 0 && err == nil {
		select {
		case <-s.idle:
		case <-ctx.Done():
			err = fmt.Errorf("stop cluster: %d appends were still in flight: %w", s.inflight.Load(), ctx.Err())
		}
	}
	close(s.stopWorkers)
	s.workersDone.Wait()
	close(s.stopWriter)
	s.writerDone.Wait()
	return err
}

func (s *scheduler) queueBytes() (n int64) {
	for _, w := range s.workers {
		n += w.gate.inUse()
	}
	return n
}
