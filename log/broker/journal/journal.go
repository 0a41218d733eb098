package journal

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/rowtrail/rowtrail/cluster"
	"github.com/rowtrail/rowtrail/log"
	"github.com/rowtrail/rowtrail/log/record"
)

// Log is the partition that a journal is kept in.
type Log interface {
	Leader() (node, epoch int32, self bool)
	Marks() log.Marks
	Read(offset int64, maxBytes int, minOne bool, iso log.Isolation) (log.ReadResult, error)
	// Append writes a batch in a leader epoch, or not at all.
	Append(ctx context.Context, epoch int32, batch []byte, done func(cluster.AppendResult))
	Producers() []log.ProducerState
}

// Partition is a Log that can be shortened.
type Partition struct {
	Log Log
	// Trim deletes the log before an offset; nil: the log is never shortened.
	Trim func(before int64) error
}

// Fold is a coordinator's state of one partition. All its methods are called on the journal's goroutine.
type Fold interface {
	// Reset forgets everything: a load begins, under this leader epoch, or (-1) this node does not lead any more. Whatever waits in the state
	// is answered.
	Reset(epoch int32)
	// Apply folds one stored batch.
	Apply(b Batch) error
	// Loaded is called when the end of the log is reached: timers start, what was under way goes on.
	Loaded(now time.Time)
	// Tick does what is due and says when to call again; zero: not before something else happens.
	Tick(now time.Time) time.Time
	// State yields the records that fold to the present state.
	State(yield func(Record))
}

// Why a journal refuses work.
var (
	ErrLoading   = errors.New("coordinator is loading its state")
	ErrNotLeader = errors.New("this node does not coordinate that key")
	ErrBroken    = errors.New("coordinator's log cannot be read")
	ErrBusy      = errors.New("coordinator is overloaded")
	// ErrNotCreated: the topic that the coordinator's state is kept in does not exist yet.
	ErrNotCreated = errors.New("coordinator's topic is not created yet")
	ErrStopped    = errors.New("coordinator is stopped")
)

const (
	maxMailbox    = 16 << 10         // functions waiting for one journal
	loadBytes     = 1 << 20          // one read while loading
	appendTimeout = 10 * time.Second // an append that waits longer for room in the cluster's queue fails
	retryLoad     = 100 * time.Millisecond
	leaderPoll    = 2 * time.Second // where another node leads, in case that nobody called Look
	retryBroken   = 30 * time.Second
	maxHold       = 100 * time.Millisecond // requests wait so long for appends under way, when a rollover is due
	retryHold     = time.Second            // and not again before that
)

// Options configure a Journal.
type Options struct {
	Partition
	Name   string // topic-partition, for errors
	Fold   Fold
	Logger *slog.Logger
	Now    func() time.Time
	// RolloverBytes is how much may be appended, beyond four times the state's size, before the state is
	// appended again and the log before it deleted. Default 16 MiB.
	RolloverBytes int64
}

// Journal is one partition's loop. Zero value is not usable: see New.
type Journal struct {
	opts Options

	serving atomic.Pointer[error] // nil: serving; else why not
	served  atomic.Int32          // epoch, as others may know it
	wake    chan struct{}

	mu      sync.Mutex
	tasks   []func(error)
	settled []settlement
	stopped bool

	// The rest belongs to the loop.
	staged    []staged
	inflight  int
	failed    error
	refused   bool // the last append was refused by the log, and that was logged
	epoch     int32
	size      sizes
	sequences map[int64]sequence // by producer id
	holdUntil time.Time          // requests wait until then; zero: they do not
	holdAfter time.Time          // before that they are not made to wait again
	renew     bool               // a producer's batch failed: its sequence is not known before all is settled
}

// staged is one batch to be: records of one turn that share a producer and a fate.
type staged struct {
	producer *Producer // nil: not in a transaction
	strict   bool      // the fold's state already holds what is written
	records  []Record
	bytes    int
	then     []func(base int64, err error)
}

// settlement is the outcome of one append.
type settlement struct {
	strict, txn bool
	then        []func(base int64, err error)
	base        int64
	err         error
}

// New returns a journal that Run drives.
func New(opts Options) *Journal {
	if opts.Now == nil {
		opts.Now = time.Now
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	if opts.RolloverBytes <= 0 {
		opts.RolloverBytes = 16 << 20
	}
	j := &Journal{opts: opts, wake: make(chan struct{}, 1), epoch: -1}
	j.refuse(ErrLoading)
	return j
}

// Serving reports why the journal refuses work, or nil.
func (j *Journal) Serving() error {
	if err := j.serving.Load(); err != nil {
		return *err
	}
	return nil
}

func (j *Journal) refuse(err error) { j.serving.Store(&err) }

// Do runs f once: on the journal's goroutine with a nil error, or with the reason why not, on any goroutine. In
// the latter case f must not touch the fold.
func (j *Journal) Do(f func(error)) {
	if err := j.Serving(); err != nil {
		f(err)
		return
	}
	j.mu.Lock()
	switch {
	case j.stopped:
		j.mu.Unlock()
		f(ErrStopped)
		return
	case len(j.tasks) >= maxMailbox:
		j.mu.Unlock()
		f(ErrBusy)
		return
	}
	j.tasks = append(j.tasks, f)
	j.mu.Unlock()
	j.signal()
}

// Post is Do for outcomes of what the fold itself began elsewhere: they are never refused for want of room, because
// what the fold has begun is bounded already.
func (j *Journal) Post(f func()) {
	j.mu.Lock()
	if !j.stopped {
		j.tasks = append(j.tasks, func(err error) {
			if err == nil { // else the next load begins it again
				f()
			}
		})
	}
	j.mu.Unlock()
	j.signal()
}

func (j *Journal) signal() {
	select {
	case j.wake <- struct{}{}:
	default:
	}
}

// Now is the time that the fold works with.
func (j *Journal) Now() time.Time { return j.opts.Now() }

// Leads reports that the journal serves, and that its state is the newest: from any goroutine.
func (j *Journal) Leads() bool {
	if j.serving.Load() != nil {
		return false
	}
	_, epoch, self := j.opts.Log.Leader()
	return self && epoch == j.served.Load()
}

// Epoch is the leader epoch that the state was loaded under.
func (j *Journal) Epoch() int32 { return j.epoch }

// Stage writes records that the fold's state already holds; then runs on the loop when they are committed, or with
// the error when they are not known to be, which also reloads the state. Call it only on the journal's goroutine, as
// Write and WriteTxn.
func (j *Journal) Stage(records []Record, then func(base int64, err error)) {
	j.stage(staged{strict: true, records: records}, then)
}

// Write writes records that the fold's state takes in only by then: an error costs nothing else.
func (j *Journal) Write(records []Record, then func(base int64, err error)) {
	j.stage(staged{records: records}, then)
}

// WriteTxn is Write inside a producer's transaction.
func (j *Journal) WriteTxn(p Producer, records []Record, then func(base int64, err error)) {
	j.stage(staged{producer: &p, records: records}, then)
}

func (j *Journal) stage(s staged, then func(int64, error)) {
	for i := range s.records {
		s.bytes += len(s.records[i].Key) + len(s.records[i].Value) + recordOverhead
	}
	// Plain records of one turn share a batch. A transactional batch stands alone: a refusal must hit
	// its own producer only.
	if n := len(j.staged); n > 0 && s.producer == nil {
		if last := &j.staged[n-1]; last.producer == nil && last.bytes+s.bytes <= maxBatchBytes {
			last.records = append(last.records, s.records...)
			last.then = append(last.then, then)
			last.bytes += s.bytes
			last.strict = last.strict || s.strict
			return
		}
	}
	s.then = []func(int64, error){then}
	j.staged = append(j.staged, s)
}

// Run drives the journal until ctx ends.
func (j *Journal) Run(ctx context.Context) {
	defer j.stop()
	for ctx.Err() == nil {
		err := j.load(ctx)
		if err == nil {
			err = j.serve(ctx)
		}
		wait := retryLoad
		switch {
		case ctx.Err() != nil:
			return
		case errors.Is(err, ErrNotLeader):
			j.refuse(ErrNotLeader)
			if j.epoch < 0 { // else there is a state to forget first
				wait = leaderPoll
			}
		case errors.Is(err, ErrBroken):
			j.refuse(err)
			wait = retryBroken
			j.opts.Logger.Error("coordinator stopped", "journal", j.opts.Name, "error", err)
		default:
			j.refuse(ErrLoading)
			if !j.refused { // else it is known why
				j.opts.Logger.Warn("coordinator reloads", "journal", j.opts.Name, "error", err)
			}
		}
		if !j.drain(ctx, wait, errors.Is(err, ErrNotLeader)) {
			return
		}
		if j.epoch >= 0 && errors.Is(err, ErrNotLeader) {
			j.epoch = -1
			j.opts.Fold.Reset(-1)
		}
	}
}

// serve runs turns until leadership or the state is lost.
func (j *Journal) serve(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		if _, epoch, self := j.opts.Log.Leader(); !self || epoch != j.epoch {
			return ErrNotLeader
		}
		j.turn(ctx)
		if j.failed == nil {
			next := j.opts.Fold.Tick(j.Now())
			j.flush(ctx)
			resetTimer(timer, next, j.Now(), j.holdUntil)
		}
		if j.failed != nil {
			return fmt.Errorf("append to %s: %w", j.opts.Name, j.failed)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-j.wake:
		case <-timer.C:
		}
	}
}

// resetTimer arms t for next, on the fold's clock, or holdUntil, on the process's, whichever is first.
func resetTimer(t *time.Timer, next, now, holdUntil time.Time) {
	if next.IsZero() && holdUntil.IsZero() {
		t.Stop()
		return
	}
	wait := maxHold
	if !next.IsZero() {
		wait = max(0, next.Sub(now))
	}
	if !holdUntil.IsZero() {
		wait = min(wait, max(0, time.Until(holdUntil)))
	}
	t.Reset(wait)
}

// turn runs what has arrived: outcomes first, they are older. Requests wait a
// little when a rollover or a new numbering needs the appends before it settled.
func (j *Journal) turn(ctx context.Context) {
	j.mu.Lock()
	settled := j.settled
	j.settled = nil
	j.mu.Unlock()
	for _, s := range settled {
		j.settle(s)
	}
	if j.failed == nil && (j.renew || j.rolloverDue()) && j.hold(ctx) {
		return
	}
	j.mu.Lock()
	tasks := j.tasks
	j.tasks = nil
	j.mu.Unlock()
	for _, f := range tasks {
		f(j.failed)
	}
}

func (j *Journal) settle(s settlement) {
	j.inflight--
	j.renew = j.renew || (s.txn && s.err != nil)
	j.explain(s.err)
	if s.err != nil && s.strict && j.failed == nil {
		j.failed = s.err
		err := ErrLoading
		if errors.Is(s.err, log.ErrNotLeader) {
			err = ErrNotLeader
		}
		j.refuse(err)
	}
	for _, then := range s.then {
		then(s.base, s.err)
	}
}

// explain logs why appends fail, once until one succeeds: clients are told only that the coordinator is not available.
func (j *Journal) explain(err error) {
	switch {
	case err == nil && j.refused:
		j.refused = false
		j.opts.Logger.Info("coordinator writes again", "journal", j.opts.Name)
	case err != nil && !j.refused && Code(err) == kerr.CoordinatorNotAvailable.Code && !ofRequest(err):
		j.refused = true
		j.opts.Logger.Error("coordinator cannot write: until it can, its clients are told COORDINATOR_NOT_AVAILABLE and come again",
			"journal", j.opts.Name, "error", err)
	}
}

// ofRequest tells whether an append failed by what was appended, and not by the state of the log.
func ofRequest(err error) bool {
	for _, is := range []error{log.ErrInvalidProducerEpoch, log.ErrInvalidTxnState, log.ErrOutOfOrderSequence,
		log.ErrDuplicateSequence, log.ErrTooLarge, log.ErrCorrupt, log.ErrClosed, context.Canceled} {
		if errors.Is(err, is) {
			return true
		}
	}
	return false
}

// flush hands what was staged to the partition, in order, without waiting for the outcome.
func (j *Journal) flush(ctx context.Context) {
	list := j.staged
	j.staged = nil
	for _, s := range list {
		if j.failed != nil {
			for _, then := range s.then {
				then(0, j.failed)
			}
			continue
		}
		j.append(ctx, s)
	}
}

func (j *Journal) append(ctx context.Context, s staged) {
	var p *record.Producer
	if s.producer != nil {
		p = j.number(*s.producer, len(s.records))
	}
	batch := encode(p, s.records, j.Now())
	j.size.appended += int64(len(batch))
	j.inflight++
	actx, cancel := context.WithTimeout(ctx, appendTimeout)
	defer cancel()
	j.opts.Log.Append(actx, j.epoch, batch, func(r cluster.AppendResult) {
		j.mu.Lock()
		j.settled = append(j.settled, settlement{strict: s.strict, txn: s.producer != nil, then: s.then, base: r.BaseOffset, err: r.Err})
		j.mu.Unlock()
		j.signal()
	})
}

// drain answers what waits, until every append has its outcome and the pause is over; elsewhere: or this node leads. Invariant 8: the next
// load must not start while an append may still change the log.
func (j *Journal) drain(ctx context.Context, pause time.Duration, elsewhere bool) bool {
	t := time.NewTimer(pause)
	defer t.Stop()
	over := false
	for {
		if elsewhere {
			_, _, self := j.opts.Log.Leader()
			over = over || self
		}
		if j.failed == nil {
			j.failed = j.Serving()
		}
		j.turn(ctx)
		j.flush(ctx)
		if over && j.inflight == 0 {
			j.failed = nil
			return true
		}
		select {
		case <-ctx.Done():
			return false
		case <-j.wake:
		case <-t.C:
			over = true
		}
	}
}

func (j *Journal) stop() {
	j.refuse(ErrStopped)
	j.mu.Lock()
	j.stopped = true
	j.mu.Unlock()
	j.failed = ErrStopped
	j.turn(context.Background())
	for _, s := range j.staged {
		for _, then := range s.then {
			then(0, ErrStopped)
		}
	}
	j.staged = nil
}
