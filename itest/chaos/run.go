package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rowtrail/rowtrail/itest/checker/history"
	"github.com/rowtrail/rowtrail/itest/checker/load"
	"github.com/rowtrail/rowtrail/itest/checker/proxy"
	"github.com/rowtrail/rowtrail/itest/nodes"
	"github.com/rowtrail/rowtrail/log/sleep"
)

// Plan is how hard a run is.
type Plan struct {
	Duration time.Duration
	Seed     uint64
	Binary   string
	Logf     func(format string, args ...any)
}

const (
	members       = 4
	spares        = 1
	replicas      = 3
	meanPause     = 60 * time.Millisecond // of a client of the checker's load: nodes and clients share the machine
	progressEvery = 10 * time.Second
	windDown      = 3 * time.Minute // clients may take so long to end after the load's end
	afterFault    = 2 * time.Second // what is not answered so soon after everything is ready counts for the fault, too
)

// span is the time of a fault, from its begin until all nodes are ready again.
type span struct {
	kind     Kind
	from, to time.Duration
}

// Result is what a run did and found.
type Result struct {
	*history.Report
	Faults   map[Kind]int
	Longest  map[Kind]time.Duration // without an acknowledged write to some partition, by the fault
	Refused  int64                  // truncated logs that a node refused to start with
	Acked    int64                  // appends to registers
	Asked    int64                  // questions for their ends that were answered
	Compared int                    // batches of all replicas
	Found    []string               // what is wrong
	Kept     string                 // where a failed run's evidence is
}

// Err is nil when nothing was wrong.
func (r *Result) Err() error {
	var errs []error
	for _, text := range r.Found {
		errs = append(errs, errors.New(text))
	}
	if r.Report != nil {
		for _, v := range r.Violations {
			errs = append(errs, errors.New(v.String()))
		}
	}
	if len(errs) > 0 {
		errs = append(errs, fmt.Errorf("evidence in %s", r.Kept))
	}
	return errors.Join(errs...)
}

func (r *Result) String() string {
	var b strings.Builder
	total := 0
	for _, kind := range slices.Sorted(maps.Keys(r.Faults)) {
		total += r.Faults[kind]
		fmt.Fprintf(&b, "  %-10s %3d times, longest without an acknowledged write %.1f s\n", kind, r.Faults[kind], r.Longest[kind].Seconds())
	}
	if r.Report != nil {
		fmt.Fprintf(&b, "  transactions: %d committed, %d aborted, %d unknown (%d of them seen); %d records sent, %d read, %d dependencies, violations %v\n",
			r.Committed, r.Aborted, r.Unknown, r.UnknownSeen, r.Sent, r.Reads, r.Edges, r.Count)
	}
	fmt.Fprintf(&b, "  registers: %d acknowledged, %d ends told; batches compared between replicas: %d; truncated logs refused: %d\n", r.Acked, r.Asked, r.Compared, r.Refused)
	return fmt.Sprintf("%d faults, %d violations\n%s ", total, len(r.Found)+r.count(), b.String())
}

func (r *Result) count() int {
	if r.Report == nil {
		return 0
	}
	n := 0
	for _, c := range r.Count {
		n += c
	}
	return n
}

// Run executes a plan.
func Run(ctx context.Context, plan Plan) (*Result, error) {
	plan.Logf("itest: chaos seed %d: %s", plan.Seed, plan.Duration)
	dir, err := os.MkdirTemp("", "rowtrail-chaos-")
	if err != nil {
		return nil, err
	}
	c, err := nodes.New(ctx, nodes.Options{Binary: plan.Binary, Dir: dir, Nodes: members, Spare: spares})
	if err != nil {
		return nil, fmt.Errorf("%w; evidence in %s", err, dir)
	}
	r := &run{plan: plan, dir: dir, cluster: c, faults: &faults{Cluster: c, logf: plan.Logf, mayEnd: map[*nodes.Member]bool{}, full: map[string]bool{}}, requests: load.NewRequests(plan.Seed),
		proxies: map[string]*proxy.Proxy{}, result: &Result{Faults: map[Kind]int{}, Longest: map[Kind]time.Duration{}, Kept: dir}}
	r.faults.found = r.found
	err = r.run(ctx)
	if bad := r.result.Err(); bad != nil || err != nil {
		plan.Logf("itest: chaos: the failed run's operations, logs and data are in %s", dir)
		for _, m := range c.Members() {
			err = errors.Join(err, m.Proc.Kill()) // a disk is copied as it is
		}
		if e := errors.Join(r.load.Keep(dir, r.violations(), errors.Join(bad, err).Error()), c.Keep()); e != nil {
			plan.Logf("itest: chaos: keep the evidence: %v", e)
		}
		return r.result, errors.Join(err, c.Close())
	}
	return r.result, errors.Join(c.Close(), os.RemoveAll(dir))
}

// run is one under way.
type run struct {
	plan      Plan
	dir       string
	cluster   *nodes.Cluster
	faults    *faults
	load      *load.Load
	recording *recording
	requests  *load.Requests
	result    *Result
	spans     []span

	mu      sync.Mutex
	proxies map[string]*proxy.Proxy
}

func (r *run) violations() []history.Violation {
	if r.result.Report == nil {
		return nil
	}
	return r.result.Violations
}

// dial connects through the proxy before a node.
func (r *run) dial(ctx context.Context, network, address string) (net.Conn, error) {
	r.mu.Lock()
	p := r.proxies[address]
	if p == nil {
		var err error
		if p, err = proxy.Start(address, r.requests.Plan); err != nil {
			r.mu.Unlock()
			return nil, err
		}
		r.proxies[address] = p
	}
	r.mu.Unlock()
	return r.cluster.Dial(ctx, network, p.Addr())
}

func (r *run) found(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	r.plan.Logf("itest: chaos: VIOLATION: %s", text)
	r.result.Found = append(r.result.Found, text)
}

func (r *run) run(ctx context.Context) error {
	stopping, stop := context.WithTimeout(ctx, r.plan.Duration)
	defer stop()
	r.load = load.New(stopping, load.Options{Seed: r.plan.Seed, Seeds: r.cluster.Seeds(), Dial: r.dial, Pace: meanPause})
	r.recording = newRecording(r.cluster)
	topics := load.New(ctx, load.Options{Seeds: r.cluster.Seeds(), Dial: r.cluster.Dial})
	if err := errors.Join(topics.CreateTopics(ctx, replicas), r.recording.create(ctx, replicas)); err != nil {
		return err
	}
	if err := r.cluster.Whole(ctx); err != nil {
		return err
	}
	r.load.Start()
	r.recording.run(stopping, r.plan.Seed)
	watching, unwatch := context.WithCancel(ctx)
	var watcher sync.WaitGroup
	watcher.Go(func() { r.progress(watching) })
	defer func() { unwatch(); watcher.Wait() }()
	err := r.fail(stopping, ctx)
	stop()
	r.requests.Calm()
	ended := make(chan struct{})
	go func() { r.load.Wait(); r.recording.work.Wait(); close(ended) }()
	if err != nil {
		return err
	}
	select {
	case <-ended:
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(windDown):
		return fmt.Errorf("clients have not ended %s after the end of the load", windDown)
	}
	return r.judge(ctx)
}

// progress prints a line now and then.
func (r *run) progress(ctx context.Context) {
	for tick := time.NewTicker(progressEvery); ; {
		select {
		case <-ctx.Done():
			tick.Stop()
			return
		case <-tick.C:
			r.plan.Logf("itest: chaos: %s; registers: %d acknowledged, %d ends told", r.load.Progress(), r.recording.acked.Load(), r.recording.asked.Load())
		}
	}
}

// fail deals faults until the load stops; then everything is healed.
func (r *run) fail(stopping, ctx context.Context) error {
	dealer := NewDealer(r.plan.Seed)
	for {
		e := dealer.Next()
		sleep.For(stopping, e.Calm)
		if stopping.Err() != nil {
			return nil
		}
		if err := r.event(ctx, e); err != nil {
			return err
		}
	}
}

// event lets one fault begin and end.
func (r *run) event(ctx context.Context, e Event) error {
	if e.Kind.destructive() {
		if err := r.cluster.Whole(ctx); err != nil {
			r.found("%v", err)
			return nil
		}
	}
	s := span{kind: e.Kind, from: r.recording.now()}
	healing, err := r.faults.inject(ctx, e)
	if err != nil {
		return err
	}
	sleep.For(ctx, e.Hold)
	if err := healing(ctx); err != nil {
		return fmt.Errorf("heal %s: %w", e, err)
	}
	crashed, err := r.faults.crashed()
	for _, text := range crashed {
		r.found("%s: %s", e, text)
	}
	if err != nil {
		return err
	}
	if err := r.cluster.Ready(ctx); err != nil {
		r.found("%s: %v", e, err)
	}
	s.to = r.recording.now()
	r.spans = append(r.spans, s)
	r.result.Faults[e.Kind]++
	r.plan.Logf("itest: chaos: %s: over after %.1f s; %.1f s without an acknowledged write", e, (s.to - s.from).Seconds(), r.recording.longest(s.from, s.to).Seconds())
	return nil
}

// judge looks at what is on the disks after all nodes were killed.
func (r *run) judge(ctx context.Context) error {
	for _, s := range r.spans {
		r.result.Longest[s.kind] = max(r.result.Longest[s.kind], r.recording.longest(s.from, s.to+afterFault))
	}
	r.result.Refused, r.result.Acked, r.result.Asked = r.faults.refused.Load(), r.recording.acked.Load(), r.recording.asked.Load()
	start, err := r.faults.killAll()
	if err != nil {
		return err
	}
	if err := errors.Join(start(ctx), r.cluster.Ready(ctx)); err != nil {
		return fmt.Errorf("after all nodes were killed: %w", err)
	}
	if err := r.cluster.Whole(ctx); err != nil {
		r.found("in the end: %v", err)
	}
	r.load.To(r.cluster.Seeds(), r.cluster.Dial)
	if err := errors.Join(r.load.Final(ctx), r.recording.readFinal(ctx)); err != nil {
		return err
	}
	report, reports := r.load.Check()
	r.result.Report = report
	for _, text := range append(reports, r.recording.reported...) {
		r.found("%s", text)
	}
	for p, reg := range r.recording.parts {
		for _, text := range reg.judge(fmt.Sprintf("%s-%d", registersTopic, p)) {
			r.found("%s", text)
		}
	}
	wrong, compared, err := copies(ctx, r.cluster, append(load.Topics()[:4], registersTopic)) // not the compacted one
	if err != nil {
		return err
	}
	for _, text := range wrong {
		r.found("%s", text)
	}
	r.result.Compared = compared
	return r.scan()
}

const maxAlarms = 10 // of one log

var alarming = regexp.MustCompile(`(?m)^(panic:|fatal error:|WARNING: DATA RACE).*$`)

// diskFault is how a process ends that cannot write what it has mapped.
const diskFault = "fatal error: fault"

// scan looks for what no node may write to its log.
func (r *run) scan() error {
	files, err := filepath.Glob(filepath.Join(r.dir, "node-*", "rowtrail.log"))
	if err != nil {
		return err
	}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		for _, line := range alarming.FindAll(b, maxAlarms) {
			if string(line) == diskFault && r.faults.full[filepath.Dir(file)] {
				continue
			}
			r.found("%s: %s", file, line)
		}
	}
	return nil
}
