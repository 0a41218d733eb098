package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/rowtrail/rowtrail/itest/nodes"
)

// Plan is how often what happens.
type Plan struct {
	Kills, Stops, Transfers int
	Capture                 bool
	Binary                  string
	Logf                    func(format string, args ...any)
}

// The floors: from a leader's death to the next acknowledged write, and the same of what was planned.
const (
	killFloor    = 3 * time.Second
	plannedFloor = 200 * time.Millisecond
)

const (
	members   = 3
	around    = 3 * time.Second // of a planned change: long enough for clients to follow
	minInsync = "2"
)

// Result is what a run measured.
type Result struct {
	Kills, Stops, Transfers []time.Duration
	Records                 int
	Captured                string // what was captured meanwhile
	Wrong                   error
}

func percentile(d []time.Duration, p int) time.Duration {
	if len(d) == 0 {
		return 0
	}
	d = slices.Sorted(slices.Values(d))
	return d[min(len(d)-1, len(d)*p/100)]
}

func (r *Result) String() string {
	var b strings.Builder
	for _, c := range []struct {
		name  string
		d     []time.Duration
		floor time.Duration
	}{{"SIGKILL of the leader to the next acknowledged write", r.Kills, killFloor}, {"stop of the leader, longest gap between answers", r.Stops, plannedFloor},
		{"leadership to the preferred replica, last answer of the former leader to the first of the next", r.Transfers, plannedFloor}} {
		fmt.Fprintf(&b, "  %s: %d times, p50 %d ms, p99 %d ms, longest %d ms (floor: p99 %d ms)\n", c.name, len(c.d), percentile(c.d, 50).Milliseconds(),
			percentile(c.d, 99).Milliseconds(), percentile(c.d, 100).Milliseconds(), c.floor.Milliseconds())
	}
	if r.Captured != "" {
		fmt.Fprintf(&b, "  captured meanwhile: %s\n", r.Captured)
	}
	return fmt.Sprintf("%d records, nothing lost: %v\n%s ", r.Records, r.Wrong == nil, b.String())
}

// Err is nil when nothing was wrong, and nothing took too long.
func (r *Result) Err(p Plan) error {
	err := r.Wrong
	for _, c := range []struct {
		name  string
		d     []time.Duration
		want  int
		floor time.Duration
	}{{"failovers", r.Kills, p.Kills, killFloor}, {"stops", r.Stops, p.Stops, plannedFloor}, {"transfers", r.Transfers, p.Transfers, plannedFloor}} {
		if len(c.d) < c.want {
			err = errors.Join(err, fmt.Errorf("%d of %d %s", len(c.d), c.want, c.name))
		}
		if got := percentile(c.d, 99); got > c.floor {
			err = errors.Join(err, fmt.Errorf("%s: p99 %s is over %s", c.name, got.Round(time.Millisecond), c.floor))
		}
	}
	return err
}

// Run executes a plan.
func Run(ctx context.Context, plan Plan) (*Result, error) {
	dir, err := os.MkdirTemp("", "rowtrail-failover-")
	if err != nil {
		return nil, err
	}
	options := nodes.Options{Binary: plan.Binary, Dir: dir, Nodes: members}
	var job *capture
	if plan.Capture {
		job = &capture{}
		defer job.close()
		if err := job.setUp(ctx, &options, plan); err != nil {
			return nil, err
		}
	}
	c, err := nodes.New(ctx, options)
	if err != nil {
		return nil, fmt.Errorf("%w; evidence in %s", err, dir)
	}
	r := &run{Plan: plan, c: c, job: job, result: &Result{}}
	if err = r.run(ctx); err != nil || r.result.Err(plan) != nil { // a floor that was missed has its reason in the logs, too
		plan.Logf("itest: failover: logs and data are in %s", dir)
		for _, m := range c.Members() {
			err = errors.Join(err, m.Proc.Kill())
		}
		return r.result, errors.Join(err, c.Keep(), c.Close())
	}
	return r.result, errors.Join(c.Close(), os.RemoveAll(dir))
}

type run struct {
	Plan
	c      *nodes.Cluster
	p      *producer
	job    *capture // nil: none
	result *Result
}

func (r *run) run(ctx context.Context) error {
	if err := r.create(ctx); err != nil {
		return err
	}
	var err error
	if r.p, err = newProducer(r.c); err != nil {
		return err
	}
	defer r.p.cl.Close()
	sending, stop := context.WithCancel(ctx)
	defer stop()
	done := make(chan struct{})
	go func() { r.p.run(sending); close(done) }()
	if r.job != nil {
		if err := r.job.start(ctx, r.c); err != nil {
			return err
		}
	}
	err = errors.Join(r.kills(ctx), r.stops(ctx), r.transfers(ctx))
	stop()
	<-done
	if err != nil {
		return err
	}
	r.result.Records = len(r.p.sent)
	r.result.Wrong = r.p.check(ctx, r.c)
	if r.job != nil {
		var wrong error
		if r.result.Captured, wrong = r.job.judge(ctx, r.c); wrong != nil {
			r.result.Wrong = errors.Join(r.result.Wrong, wrong)
		}
	}
	return nil
}

func (r *run) create(ctx context.Context) error {
	cl, err := r.c.Client()
	if err != nil {
		return err
	}
	defer cl.Close()
	insync := minInsync
	res, err := kadm.NewClient(cl).CreateTopic(ctx, 1, members, map[string]*string{"min.insync.replicas": &insync}, topic)
	if err = errors.Join(err, res.Err); err != nil {
		return fmt.Errorf("create topic %s: %w", topic, err)
	}
	return r.c.Whole(ctx)
}

// leader waits for a node that leads the partition.
func (r *run) leader(ctx context.Context) (*nodes.Member, error) {
	for deadline := time.Now().Add(patience); time.Now().Before(deadline) && ctx.Err() == nil; {
		if m := r.c.Leader(ctx, topic, 0); m != nil {
			return m, nil
		}
	}
	return nil, errors.New("the partition has no leader")
}

func (r *run) kills(ctx context.Context) error {
	for i := range r.Kills {
		m, err := r.leader(ctx)
		if err != nil {
			return err
		}
		at := time.Now()
		if err := m.Proc.Kill(); err != nil {
			return err
		}
		took, err := r.p.next(ctx, at)
		if err != nil {
			return fmt.Errorf("failover %d: %s was killed: %w", i+1, m, err)
		}
		r.result.Kills = append(r.result.Kills, took)
		if i%10 == 9 || took > killFloor {
			r.Logf("itest: failover: %d failovers, this one of %s took %d ms", i+1, m, took.Milliseconds())
		}
		if err := m.Proc.Start(); err != nil {
			return err
		}
		if err := errors.Join(r.c.Ready(ctx), r.c.Whole(ctx)); err != nil {
			return err
		}
	}
	return nil
}

// stops are what a rolling restart does to leaders.
func (r *run) stops(ctx context.Context) error {
	for range r.Stops {
		m, err := r.leader(ctx)
		if err != nil {
			return err
		}
		at := time.Now()
		if err := m.Proc.Stop(); err != nil {
			return err
		}
		time.Sleep(time.Until(at.Add(around)))
		r.result.Stops = append(r.result.Stops, r.p.gap(at, time.Now()))
		if err := m.Proc.Start(); err != nil {
			return err
		}
		if err := errors.Join(r.c.Ready(ctx), r.c.Whole(ctx)); err != nil {
			return err
		}
	}
	return nil
}

// transfers make another replica the preferred one, again and again: leadership goes there.
func (r *run) transfers(ctx context.Context) error {
	for range r.Transfers {
		m, err := r.leader(ctx)
		if err != nil {
			return err
		}
		others := r.c.Others(m)
		order := fmt.Sprintf("%d,%d,%d", others[0].ID, others[1].ID, m.ID)
		at := time.Now()
		if _, err := m.Proc.CLI(ctx, "cluster", "reassign", topic, "0", order); err != nil {
			return fmt.Errorf("hand the leadership over: %w", err)
		}
		time.Sleep(time.Until(at.Add(around)))
		now, err := r.leader(ctx)
		if err != nil {
			return err
		}
		if now == m {
			r.Logf("itest: failover: %s leads still, though %s are the replicas", m, order)
			continue
		}
		took, moved := r.p.handover(at, time.Now())
		for deadline := time.Now().Add(patience); !moved; took, moved = r.p.handover(at, time.Now()) { // it came late
			if time.Now().After(deadline) {
				return fmt.Errorf("transfer from %s to %s: no write was answered by another node", m, now)
			}
			time.Sleep(sendEvery)
		}
		r.result.Transfers = append(r.result.Transfers, took)
		if quiet := r.p.gap(at, time.Now()); quiet > plannedFloor || took > plannedFloor {
			r.Logf("itest: failover: transfer %d from %s to %s took %d ms; the longest time without an answer around it was %d ms", len(r.result.Transfers), m, now,
				took.Milliseconds(), quiet.Milliseconds())
		}
	}
	return nil
}
