package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"time"

	"github.com/rowtrail/rowtrail/itest/checker/history"
	"github.com/rowtrail/rowtrail/itest/checker/load"
	"github.com/rowtrail/rowtrail/itest/checker/proxy"
	"github.com/rowtrail/rowtrail/itest/process"
)

// Plan is how hard a run is.
type Plan struct {
	Duration time.Duration
	Seed     uint64
	Binary   string
	Logf     func(format string, args ...any)
}

// Result is what a run did and found.
type Result struct {
	*history.Report
	Kills, Pauses int64
	Rounds        int // of compaction on the compacted topic, of those that were seen
	Network       proxy.Counts
	Versions      string
	Reported      []string // what clients were told that none may be told
	Kept          string   // where a failed run's evidence is
}

// Err is nil when nothing was wrong.
func (r *Result) Err() error {
	var errs []error
	for _, text := range r.Reported {
		errs = append(errs, errors.New(text))
	}
	for _, v := range r.Violations {
		errs = append(errs, errors.New(v.String()))
	}
	if len(errs) > 0 {
		errs = append(errs, fmt.Errorf("violations: %v; evidence in %s", r.Count, r.Kept))
	}
	return errors.Join(errs...)
}

func (r *Result) String() string {
	return fmt.Sprintf("committed=%d aborted=%d unknown=%d (%d of them seen) sent=%d reads=%d dependencies=%d kills=%d pauses=%d compactions=%d network=%+v allowed cycles=%v violations=%v; %s",
		r.Committed, r.Aborted, r.Unknown, r.UnknownSeen, r.Sent, r.Reads, r.Edges, r.Kills, r.Pauses, r.Rounds, r.Network, r.Allowed, r.Count, r.Versions)
}

const (
	progressEvery = 10 * time.Second
	windDown      = 3 * time.Minute // clients may take so long to end after the load's end
)

// Run executes a plan.
func Run(ctx context.Context, plan Plan) (*Result, error) {
	plan.Logf("itest: checker seed %d: %s", plan.Seed, plan.Duration)
	dir, err := os.MkdirTemp("", "rowtrail-checker-")
	if err != nil {
		return nil, err
	}
	result, err := run(ctx, plan, dir)
	if err == nil && result.Err() == nil {
		return result, os.RemoveAll(dir)
	}
	plan.Logf("itest: checker: the failed run's operations, log and data are in %s", dir)
	return result, err
}

func run(ctx context.Context, plan Plan, dir string) (*Result, error) {
	node, err := process.New(plan.Binary, dir, process.Config{Node: map[string]string{"min_free_bytes": "64MiB"}})
	if err != nil {
		return nil, err
	}
	if err := node.Start(); err != nil {
		return nil, err
	}
	defer node.Kill()
	if err := node.WaitReady(ctx); err != nil {
		return nil, err
	}
	direct := only(node.Kafka)
	topics := load.New(ctx, load.Options{Seeds: []string{node.Kafka}, Dial: direct})
	if err := topics.CreateTopics(ctx, 1); err != nil {
		return nil, err
	}
	net := load.NewRequests(plan.Seed)
	between, err := proxy.Start(node.Kafka, net.Plan)
	if err != nil {
		return nil, err
	}
	defer between.Close()

	stopping, stop := context.WithTimeout(ctx, plan.Duration)
	defer stop()
	l := load.New(stopping, load.Options{Seed: plan.Seed, Seeds: []string{between.Addr()}, Dial: only(between.Addr()), Pace: load.MeanPause})
	f := &faults{node: node, rng: rand.New(rand.NewPCG(plan.Seed, 1))}
	compaction := newRounds(load.StateTopic)
	watching, unwatch := context.WithCancel(ctx)
	var watcher sync.WaitGroup
	watcher.Go(func() { compaction.watch(watching, node) })
	defer func() { unwatch(); watcher.Wait() }()
	l.Start()
	broken := make(chan error, 1)
	go func() { broken <- f.run(stopping) }()
	done := make(chan struct{})
	go func() { l.Wait(); close(done) }()
	err = progress(ctx, stopping, plan, l, f, between, broken, done, net.Calm)
	if err == nil {
		err = compaction.await(ctx)
	}
	result := &Result{Kills: f.kills.Load(), Pauses: f.pauses.Load(), Rounds: compaction.count(), Network: between.Counts(), Versions: net.Versions()}
	if err != nil {
		return result, fmt.Errorf("%w; last lines of the node:\n%s", err, node.Tail(10))
	}
	between.Close()
	if err := f.kill(); err != nil { // what is there is read from disk
		return result, err
	}
	l.To([]string{node.Kafka}, direct)
	if err := l.Final(ctx); err != nil {
		return result, err
	}
	result.Report, result.Reported = l.Check()
	if err := result.Err(); err != nil {
		result.Kept = dir
		if err := l.Keep(dir, result.Violations, err.Error()); err != nil {
			plan.Logf("itest: checker: keep the operations: %v", err)
		}
	}
	return result, nil
}

// progress prints a line now and then until the load has ended.
func progress(ctx, stopping context.Context, plan Plan, l *load.Load, f *faults, p *proxy.Proxy, broken chan error, done chan struct{}, calm func()) error {
	tick := time.NewTicker(progressEvery)
	defer tick.Stop()
	limit := time.NewTimer(plan.Duration + windDown)
	defer limit.Stop()
	over := stopping.Done()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-done:
			if broken == nil {
				return nil
			}
			done = nil
		case err := <-broken:
			if err != nil {
				return err
			}
			if broken = nil; done == nil {
				return nil
			}
		case <-over:
			over = nil
			calm()
		case <-limit.C:
			return fmt.Errorf("clients have not ended %s after the end of the load; seed %d", windDown, plan.Seed)
		case <-tick.C:
			n := p.Counts()
			plan.Logf("itest: checker: %s, %d kills, %d pauses, %d requests badly treated", l.Progress(),
				f.kills.Load(), f.pauses.Load(), n.Copied+n.Cut+n.Delayed+n.Doubled+n.Overtaken)
		}
	}
}

// only dials one address whatever address a node advertises.
func only(address string) load.Dial {
	d := net.Dialer{Timeout: load.DialTimeout}
	return func(ctx context.Context, network, _ string) (net.Conn, error) {
		return d.DialContext(ctx, network, address)
	}
}
