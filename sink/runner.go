package sink

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/rowtrail/rowtrail/log/sleep"
)

// Times of a runner.
const (
	sessionTimeout   = 10 * time.Second // the group gives a silent member's partitions away after it
	rebalanceTimeout = 30 * time.Second
	heartbeat        = 2 * time.Second
	turnTick         = 200 * time.Millisecond
	metadataAge      = 30 * time.Second

	minBackoff = 100 * time.Millisecond
	maxBackoff = 15 * time.Second
)

// Bounds of one fetch (invariant 9).
const (
	fetchMaxBytes          = 2 << 20                // as compressed; what comes out of it is many times as large,
	fetchMaxPartitionBytes = 256 << 10              // and a partition may hold one fetch more than its share
	fetchMaxWait           = 250 * time.Millisecond // a partition that is resumed or new waits for the fetch under way
)

// Runner runs a sink of any type.
type Runner struct {
	settings Settings
	target   Target
	deps     Deps
	log      *slog.Logger
	client   *kgo.Client // metadata and offsets; the group has its own
	admin    *kadm.Client

	lag lagMeter

	mu       sync.Mutex
	status   Status
	plan     plan
	careful  bool // the attempts to come look for a poison record
	healthy  bool // something was committed since the last failure
	lookedAt time.Time
}

// NewRunner makes a sink of a target.
func NewRunner(settings Settings, target Target, deps Deps) *Runner {
	log := deps.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Runner{
		settings: settings, target: target, deps: deps, log: log.With("sink", settings.Name),
		status: Status{Name: settings.Name, Type: settings.Type, State: StateStarting, Topics: []string{}, Since: time.Now()},
	}
}

func (r *Runner) groupName() string { return "rowtrail-sink-" + r.settings.Name }

// Status tells how the sink is.
func (r *Runner) Status() Status {
	r.mu.Lock()
	s := r.status
	r.mu.Unlock()
	s.LagEvents, s.LagBytes, s.LagSeconds = r.lag.read(time.Now())
	return s
}

func (r *Runner) setState(state, errText string, poison *Poison) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.status.State != state {
		r.status.State, r.status.Since = state, time.Now()
	}
	r.status.Error, r.status.Poison = errText, poison
}

// Run applies until ctx ends. It returns an error when a human is needed; run again, it resumes at the same place.
func (r *Runner) Run(ctx context.Context) error {
	r.setState(StateStarting, "", nil)
	client, err := kgo.NewClient(append([]kgo.Opt{kgo.ClientID("rowtrail-sink-" + r.settings.Name)}, r.deps.Client...)...)
	if err != nil {
		return fmt.Errorf("create log client: %w", err)
	}
	defer client.Close()
	r.client, r.admin = client, kadm.NewClient(client)
	watchCtx, stopWatch := context.WithCancel(ctx)
	var watch sync.WaitGroup
	watch.Go(func() { r.watchLag(watchCtx) })
	defer watch.Wait()
	defer stopWatch()

	backoff := minBackoff
	for {
		err := r.attempt(ctx)
		if ctx.Err() != nil {
			r.setState(StateStopped, "", nil)
			return nil
		}
		if r.takeHealthy() {
			backoff = minBackoff
		}
		switch {
		case errors.Is(err, errReplan):
			continue
		case IsPermanent(err):
			if !errors.As(err, new(*startError)) && !r.searching() {
				r.log.Warn("target refused a batch, looking for the record", "error", err)
				continue
			}
			return r.fail(err)
		}
		r.setState(StateRetrying, err.Error(), nil)
		r.log.Warn("sink failed, trying again", "error", err, "in", backoff)
		if !sleep.For(ctx, backoff+rand.N(backoff/2)) {
			r.setState(StateStopped, "", nil)
			return nil
		}
		backoff = min(2*backoff, maxBackoff)
	}
}

// fail stops the sink: invariant 7.
func (r *Runner) fail(err error) error {
	var re *recordError
	if !errors.As(err, &re) {
		r.setState(StateFailed, err.Error(), nil)
		r.log.Error("sink stopped", "error", err)
		return fmt.Errorf("run sink %s: %w", r.settings.Name, err)
	}
	p := re.poison
	r.setState(StateFailed, err.Error(), &p)
	r.log.Error("sink stopped at a record that cannot be applied", "topic", p.Topic, "partition", p.Partition, "offset", p.Offset, "reason", p.Reason)
	return fmt.Errorf("run sink %s: %w", r.settings.Name, err)
}

// searching makes the attempts to come careful; it tells whether they were already.
func (r *Runner) searching() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	was := r.careful
	r.careful = true
	return was
}

// trust ends the search: the transactions that were refused in a batch went through one by one.
func (r *Runner) trust() {
	r.mu.Lock()
	r.careful = false
	r.mu.Unlock()
}

func (r *Runner) takeHealthy() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	was := r.healthy
	r.healthy = false
	return was
}

// committed counts what the target has taken.
func (r *Runner) committed(rows, transactions int, offsets []Offset) {
	for _, o := range offsets {
		r.lag.advance(partition{o.Topic, o.Partition}, o.Next)
	}
	r.mu.Lock()
	r.status.Events += uint64(rows)
	r.status.Transactions += uint64(transactions)
	r.status.State, r.status.Error = streaming(&r.status), ""
	r.healthy = true
	r.mu.Unlock()
}

func streaming(s *Status) string {
	if s.State != StateStreaming {
		s.Since = time.Now()
	}
	return StateStreaming
}

// attempt joins the group, waits for its turn and applies until something fails.
func (r *Runner) attempt(ctx context.Context) error {
	pl, err := r.discover(ctx) // first, so that the lag is known while the target is down
	if err != nil {
		return err
	}
	if err := r.target.Ping(ctx); err != nil {
		return fmt.Errorf("reach target: %w", err)
	}
	if len(pl.data) == 0 {
		r.setState(StateStarting, fmt.Sprintf("no topic matches %v yet", []string(r.settings.Topics)), nil)
		if sleep.For(ctx, discoverInterval) {
			return errReplan
		}
		return ctx.Err()
	}
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	box := &inbox{target: r.target, logEnd: r.logBounds, logIDs: r.logOrigins, plan: r.currentPlan, fail: fail, ready: make(chan struct{})}
	defer box.close()
	client, err := kgo.NewClient(r.groupOptions(box, pl)...)
	if err != nil {
		return fmt.Errorf("create group client: %w", err)
	}
	defer r.leave(client)
	first, err := r.awaitTurn(ctx, client, box)
	if err != nil {
		return err
	}
	t := &task{
		sink: r, client: client, session: stamped{box.session, box}, inbox: box, plan: pl,
		byPrefix: make(map[string]*merger), queues: make(map[partition]*queue), owners: make(map[*queue]*merger),
		books: make(map[string]*schemaBook), careful: r.isCareful(),
	}
	t.session.SetCareful(t.careful)
	r.lag.begin(box.starts)
	r.setState(StateStreaming, "", nil)
	return t.run(ctx, first)
}

func (r *Runner) isCareful() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.careful
}

// awaitTurn waits until the group gives this member the partitions. It returns what was fetched by then.
func (r *Runner) awaitTurn(ctx context.Context, client *kgo.Client, box *inbox) (kgo.Fetches, error) {
	for {
		wait, cancel := context.WithTimeout(ctx, turnTick)
		fetches := client.PollFetches(wait)
		cancel()
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		select {
		case <-box.ready:
			return fetches, nil
		default:
		}
		for _, e := range fetches.Errors() {
			if !errors.Is(e.Err, context.DeadlineExceeded) {
				return nil, fmt.Errorf("join group %s: %w", r.groupName(), e.Err)
			}
		}
		if member, _ := client.GroupMetadata(); member != "" {
			r.setState(StateStarting, "standing by: another instance may have the partitions", nil)
		}
	}
}

func (r *Runner) groupOptions(box *inbox, pl plan) []kgo.Opt {
	lost := func(_ context.Context, _ *kgo.Client, parts map[string][]int32) {
		if len(parts) > 0 {
			box.fail(errors.New("partitions were taken away by the group"))
		}
	}
	opts := append([]kgo.Opt{kgo.ClientID("rowtrail-sink-" + r.settings.Name)}, r.deps.Client...)
	opts = append(
		opts,
		kgo.ConsumerGroup(r.groupName()),
		kgo.ConsumeTopics(pl.topics()...),
		kgo.Balancers(singleOwner{}),
		kgo.DisableAutoCommit(),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), // invariant 5: aborted source transactions never show
		kgo.KeepControlRecords(),                     // so that offsets are known up to the end of a partition
		kgo.ConsumeResetOffset(kgo.NoResetOffset()),  // invariant 7: a gap is an error
		kgo.AdjustFetchOffsetsFn(box.adjust),
		kgo.OnPartitionsRevoked(lost),
		kgo.OnPartitionsLost(lost),
		kgo.FetchMaxBytes(fetchMaxBytes),
		kgo.FetchMaxPartitionBytes(fetchMaxPartitionBytes),
		kgo.FetchMaxWait(fetchMaxWait),
		kgo.SessionTimeout(sessionTimeout),
		kgo.RebalanceTimeout(rebalanceTimeout),
		kgo.HeartbeatInterval(heartbeat),
		kgo.MetadataMaxAge(metadataAge),
	)
	if r.deps.Instance != "" {
		opts = append(opts, kgo.InstanceID(r.groupName()+"-"+r.deps.Instance))
	}
	return opts
}

// leave ends the membership, so that another node can take over at once. One that has a place of its own keeps it: who comes next
// takes it, which needs no rebalance, and brokers may hold the first member of an empty group back for seconds. Without a next
// one the session ends by itself.
func (r *Runner) leave(client *kgo.Client) {
	client.CloseAllowingRebalance() // a static member does not leave
}
