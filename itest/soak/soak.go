// Command soak is the kill test: while a shop writes, rowtrail is killed with SIGKILL at random moments and both
// databases are stopped or killed; then every committed source change must stand in the log exactly once, whole and in order, and
// the target's tables must equal the source's.
//
//	go run ./itest/soak -source mysql -for 10m
package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"time"

	"github.com/rowtrail/rowtrail/itest/audit"
	"github.com/rowtrail/rowtrail/itest/pipeline"
	"github.com/rowtrail/rowtrail/itest/servers"
	"github.com/rowtrail/rowtrail/itest/shop"
	"github.com/rowtrail/rowtrail/log/sleep"
)

const (
	drainTimeout = 3 * time.Minute
	loadKills    = 3
)

// Plan is how hard a run is.
type Plan struct {
	Duration       time.Duration
	Transactions   int64
	Kills          int
	SourceRestarts int
	TargetRestarts int
	Partitions     int
	Size           shop.Size
	Seed           uint64
	Binary         string
	Kind           pipeline.Kind // nil: Postgres
	Logf           func(format string, args ...any)
}

// Result is what a run found.
type Result struct {
	Kills     int
	Audit     *audit.Report
	Different []shop.Difference
	Rows      int // that were to be loaded
	Loaded    int
	LoadTwice int
}

func (r *Result) String() string {
	return fmt.Sprintf("transactions=%d changes=%d kills=%d lost=%d duplicated=%d torn=%d disordered=%d different_tables=%d",
		r.Audit.Transactions, r.Audit.Changes, r.Kills, r.Audit.Lost, r.Audit.Duplicated+r.Audit.Unexpected, r.Audit.Torn,
		r.Audit.Disordered, len(r.Different))
}

// Err is nil when nothing was lost, doubled, torn or different.
func (r *Result) Err() error {
	var errs []error
	if !r.Audit.OK() {
		errs = append(errs, fmt.Errorf("the log differs from the source: %+v", *r.Audit))
	}
	for _, d := range r.Different {
		errs = append(errs, fmt.Errorf("%s differs: %d rows at the source, %d at the target", d.Table, d.SourceRows, d.TargetRows))
	}
	if r.Loaded != r.Rows {
		errs = append(errs, fmt.Errorf("initial load: %d rows in the log, %d in the source", r.Loaded, r.Rows))
	}
	if r.LoadTwice > 0 {
		errs = append(errs, fmt.Errorf("%d initial-load rows stand in the log twice", r.LoadTwice))
	}
	return errors.Join(errs...)
}

type run struct {
	Plan
	pipeline.Pipeline
	rng      *rand.Rand
	nodeLock sync.Mutex
	kills    int
}

// Run executes a plan.
func Run(ctx context.Context, plan Plan) (*Result, error) {
	r := &run{Plan: plan, rng: rand.New(rand.NewPCG(plan.Seed, 1))}
	r.Logf("itest: soak seed %d: %d transactions, %d kills in %s", plan.Seed, plan.Transactions, plan.Kills, plan.Duration)
	defer r.Close()
	if err := r.SetUp(ctx, pipeline.Options{
		Binary: r.Binary, Kind: r.Kind, Size: r.Size, Partitions: r.Partitions, Logf: r.Logf,
	}); err != nil {
		return nil, err
	}
	if err := r.load(ctx); err != nil {
		return nil, err
	}
	if err := r.Source.Audit.Watch(ctx); err != nil {
		return nil, err
	}
	if err := r.storm(ctx); err != nil {
		return nil, err
	}
	return r.judge(ctx)
}

// load lets the initial load run, killing it on the way.
func (r *run) load(ctx context.Context) error {
	for range loadKills {
		if err := r.Node.Start(); err != nil {
			return err
		}
		sleep.For(ctx, time.Duration(100+r.rng.IntN(700))*time.Millisecond)
		if err := r.Node.Kill(); err != nil {
			return err
		}
		r.kills++
	}
	if err := r.Node.Start(); err != nil {
		return err
	}
	if err := r.Node.WaitReady(ctx); err != nil {
		return err
	}
	deadline := time.Now().Add(drainTimeout)
	for {
		var status []struct{ Name, State, Error string }
		if err := r.Node.JSON(ctx, "/v1/connectors", &status); err != nil {
			return err
		}
		if len(status) == 1 && status[0].State == "streaming" {
			break
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("wait for the initial load: %+v; last lines:\n%s", status, r.Node.Tail(10))
		}
		if !sleep.For(ctx, 100*time.Millisecond) {
			return ctx.Err()
		}
	}
	// A load that goes beside the stream has events in the place of rows that change while it reads them, so nothing is written before the log
	// has all of it.
	different, err := r.AwaitEqual(ctx, drainTimeout)
	if err != nil || len(different) > 0 {
		return fmt.Errorf("the initial load has not reached the target: %v: %w; last lines:\n%s", different, err, r.Node.Tail(10))
	}
	r.Logf("itest: initial load done, %d kills on the way", r.kills)
	return nil
}

// storm runs the workload with kills and restarts spread over the plan's duration.
func (r *run) storm(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	work := &shop.Workload{
		DB: r.Source.DB, Size: r.Size, Sessions: 4, Seed: r.Seed,
		Rate: int(float64(r.Transactions) / r.Duration.Seconds() * 1.25),
	}
	done := make(chan error, 1)
	go func() { done <- work.Run(ctx, r.Transactions) }()
	var others sync.WaitGroup
	errs := make(chan error, 3)
	faults := func(name string, count int, fault func() error) {
		moments := make([]time.Duration, count)
		for i := range moments {
			slot := r.Duration / time.Duration(count)
			moments[i] = slot*time.Duration(i) + time.Duration(r.rng.Int64N(int64(slot)))
		}
		others.Add(1)
		go func() {
			defer others.Done()
			start := time.Now()
			for _, at := range moments {
				if !sleep.For(ctx, time.Until(start.Add(at))) {
					return
				}
				if err := fault(); err != nil {
					errs <- fmt.Errorf("%s: %w", name, err)
					return
				}
			}
		}()
	}
	faults("kill rowtrail", r.Kills-loadKills, r.killNode)
	faults("restart source", r.SourceRestarts, func() error { return r.Source.Restart(ctx, r.shutdown()) })
	faults("restart target", r.TargetRestarts, func() error { return r.Target.Restart(ctx, r.shutdown()) })
	progress := time.NewTicker(10 * time.Second)
	defer progress.Stop()
	finished := make(chan struct{})
	go func() { others.Wait(); close(finished) }()
	var workErr error
	for finished != nil || done != nil {
		select {
		case workErr = <-done:
			done = nil
		case <-finished:
			finished = nil
		case err := <-errs:
			return err
		case <-progress.C:
			r.Logf("itest: %d source transactions, %d kills", work.Committed(), r.killCount())
		}
	}
	if workErr != nil {
		return fmt.Errorf("workload: %w", workErr)
	}
	select {
	case err := <-errs:
		return err
	default:
	}
	r.Logf("itest: workload done: %d source transactions, %d kills", work.Committed(), r.killCount())
	return nil
}

func (r *run) shutdown() servers.Shutdown { return servers.Shutdown(rand.IntN(2)) }

func (r *run) killCount() int {
	r.nodeLock.Lock()
	defer r.nodeLock.Unlock()
	return r.kills
}

func (r *run) killNode() error {
	r.nodeLock.Lock()
	defer r.nodeLock.Unlock()
	if err := r.Node.Kill(); err != nil {
		return err
	}
	r.kills++
	return r.Node.Start()
}

// judge waits until the target has what the source has, then compares everything.
func (r *run) judge(ctx context.Context) (*Result, error) {
	if err := r.Node.WaitReady(ctx); err != nil {
		return nil, err
	}
	var err error
	result := &Result{Kills: r.kills, Rows: r.Size.Rows()}
	if result.Different, err = r.AwaitEqual(ctx, drainTimeout); err != nil {
		return nil, fmt.Errorf("%w; last lines of rowtrail:\n%s", err, r.Node.Tail(20))
	}
	if result.Audit, result.Loaded, result.LoadTwice, err = r.Audit(ctx, r.Node); err != nil {
		return nil, err
	}
	if err := result.Err(); err != nil {
		if keep, dirErr := os.MkdirTemp("", "rowtrail-soak-failed-"); dirErr == nil {
			os.Rename(r.Node.LogFile(), keep+"/rowtrail.log")
			r.Logf("itest: log of the failed run kept in %s", keep)
		}
	}
	return result, nil
}
