package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/rowtrail/rowtrail/itest/checker/history"
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
	windDown      = 3 * time.Minute       // clients may take so long to end after the load's end
	meanPause     = 25 * time.Millisecond // of a client between operations
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
	if err := createTopics(ctx, node); err != nil {
		return nil, err
	}
	net := newNetwork(plan.Seed)
	between, err := proxy.Start(node.Kafka, net.plan)
	if err != nil {
		return nil, err
	}
	defer between.Close()

	stopping, stop := context.WithTimeout(ctx, plan.Duration)
	defer stop()
	l := &load{recorder: newRecorder(), seed: plan.Seed, addr: between.Addr(), stopping: stopping, pace: meanPause}
	f := &faults{node: node, rng: rand.New(rand.NewPCG(plan.Seed, 1))}
	compaction := newRounds(stateTopic)
	watching, unwatch := context.WithCancel(ctx)
	var watcher sync.WaitGroup
	watcher.Go(func() { compaction.watch(watching, node) })
	defer func() { unwatch(); watcher.Wait() }()
	l.startClients()
	broken := make(chan error, 1)
	go func() { broken <- f.run(stopping) }()
	done := make(chan struct{})
	go func() { l.work.Wait(); close(done) }()
	err = l.progress(ctx, plan, f, between, broken, done, func() { net.quiet.Store(true) })
	if err == nil {
		err = compaction.await(ctx)
	}
	result := &Result{Kills: f.kills.Load(), Pauses: f.pauses.Load(), Rounds: compaction.count(), Network: between.Counts(), Versions: net.versions()}
	if err != nil {
		return result, fmt.Errorf("%w; last lines of the node:\n%s", err, node.Tail(10))
	}
	between.Close()
	if err := f.kill(); err != nil { // what is there is read from disk
		return result, err
	}
	if err := l.final(ctx, node); err != nil {
		return result, err
	}
	result.Report, result.Reported = history.Check(&l.h), l.reports
	if result.Err() != nil {
		result.Kept = dir
		if err := keep(dir, &l.h, result); err != nil {
			plan.Logf("itest: checker: keep the operations: %v", err)
		}
	}
	return result, nil
}

// startClients starts all of them. Transactional ids double as names.
func (l *load) startClients() {
	l.sender("sender-0", plainTopic, eventsTopic)
	l.sender("sender-1", inputTopic, stateTopic)
	l.sender("sender-2", stateTopic)
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

// progress prints a line now and then until the load has ended.
func (l *load) progress(ctx context.Context, plan Plan, f *faults, p *proxy.Proxy, broken chan error, done chan struct{}, calm func()) error {
	tick := time.NewTicker(progressEvery)
	defer tick.Stop()
	limit := time.NewTimer(plan.Duration + windDown)
	defer limit.Stop()
	over := l.stopping.Done()
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
			plan.Logf("itest: checker: %.0f s: %d committed, %d aborted, %d unknown, %d sent, %d read, %d kills, %d pauses, %d requests badly treated",
				l.now().Seconds(), l.commits.Load(), l.aborts.Load(), l.unknown.Load(), l.sends.Load(), l.reads.Load(),
				f.kills.Load(), f.pauses.Load(), n.Copied+n.Cut+n.Delayed+n.Doubled+n.Overtaken)
		}
	}
}

// createTopics makes the topics; the keyed one is compacted as eagerly as it can be.
func createTopics(ctx context.Context, node *process.Rowtrail) error {
	cl, err := node.Client()
	if err != nil {
		return err
	}
	defer cl.Close()
	adm := kadm.NewClient(cl)
	create := func(config map[string]*string, topics ...string) error {
		res, err := adm.CreateTopics(ctx, partitions, 1, config, topics...)
		if err != nil {
			return fmt.Errorf("create topics: %w", err)
		}
		for _, topic := range topics {
			if err := res[topic].Err; err != nil {
				return fmt.Errorf("create topic %s: %w: %s", topic, err, res[topic].ErrMessage)
			}
		}
		return nil
	}
	if err := create(nil, plainTopic, eventsTopic, inputTopic, outputTopic); err != nil {
		return err
	}
	eager := map[string]*string{}
	for _, setting := range strings.Fields("cleanup.policy=compact min.cleanable.dirty.ratio=0.01 segment.bytes=65536 segment.ms=500 " +
		"delete.retention.ms=1000 min.compaction.lag.ms=0 max.compaction.lag.ms=2000") {
		name, value, _ := strings.Cut(setting, "=")
		eager[name] = &value
	}
	return create(eager, stateTopic)
}
