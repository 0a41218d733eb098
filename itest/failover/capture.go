package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/rowtrail/rowtrail/itest/netns"
	"github.com/rowtrail/rowtrail/itest/nodes"
	"github.com/rowtrail/rowtrail/itest/pipeline"
	"github.com/rowtrail/rowtrail/itest/shop"
)

const (
	captureRate  = 50 // source transactions a second
	sessions     = 4
	loadTimeout  = 3 * time.Minute
	drainTimeout = 3 * time.Minute
)

// capture is the main job on the cluster: a shop in one Postgres server, and a second server that a sink keeps equal.
type capture struct {
	pipeline.Pipeline
	size  shop.Size
	stops []func()
	quit  context.CancelFunc
	done  chan error
	work  *shop.Workload
}

// setUp starts the servers and lets the nodes reach them.
func (j *capture) setUp(ctx context.Context, o *nodes.Options, plan Plan) error {
	j.size = shop.Size{Customers: 2000, Products: 200, Orders: 2600, Items: 5200}
	if err := j.StartServers(ctx, pipeline.Options{Size: j.size, Logf: plan.Logf}); err != nil {
		return err
	}
	network, err := netns.New(o.Nodes)
	if err != nil {
		return err
	}
	o.Network = network
	reach := func(e *pipeline.End) (string, error) {
		local := net.JoinHostPort("127.0.0.1", strconv.Itoa(e.Port()))
		address, stop, err := network.Forward(local)
		if err != nil {
			return "", err
		}
		j.stops = append(j.stops, stop)
		return strings.Replace(e.DSN, local, address, 1), nil
	}
	source, err := reach(j.Source)
	if err != nil {
		return err
	}
	target, err := reach(j.Target)
	if err != nil {
		return err
	}
	o.Connectors, o.Sinks = pipeline.Tasks(source, target, 3)
	return nil
}

// start waits for the initial load and begins to write.
func (j *capture) start(ctx context.Context, c *nodes.Cluster) error {
	different, err := j.AwaitEqual(ctx, loadTimeout)
	if err != nil || len(different) > 0 {
		return fmt.Errorf("the initial load has not reached the target: %v: %w; last lines of node 1:\n%s", different, err, c.Members()[0].Proc.Tail(20))
	}
	if err := j.Source.Audit.Watch(ctx); err != nil {
		return err
	}
	j.work = &shop.Workload{DB: j.Source.DB, Size: j.size, Sessions: sessions, Rate: captureRate, Seed: 1}
	writing, quit := context.WithCancel(ctx)
	j.quit, j.done = quit, make(chan error, 1)
	go func() { j.done <- j.work.Run(writing, 0) }()
	return nil
}

// judge ends the writes and compares everything.
func (j *capture) judge(ctx context.Context, c *nodes.Cluster) (string, error) {
	j.quit()
	if err := <-j.done; err != nil && !errors.Is(err, context.Canceled) {
		return "", fmt.Errorf("workload: %w", err)
	}
	different, err := j.AwaitEqual(ctx, drainTimeout)
	if err != nil || len(different) > 0 {
		return "", fmt.Errorf("the target is not equal: %+v: %w", different, err)
	}
	report, _, twice, err := j.Audit(ctx, c.Members()[0].Proc)
	if err != nil {
		return "", err
	}
	text := fmt.Sprintf("%d source transactions, lost=%d duplicated=%d torn=%d disordered=%d, tables equal", report.Transactions, report.Lost,
		report.Duplicated+report.Unexpected, report.Torn, report.Disordered)
	if !report.OK() || twice > 0 {
		return text, fmt.Errorf("the log differs from the source: %+v; %d rows loaded twice", *report, twice)
	}
	return text, nil
}

func (j *capture) close() {
	if j.quit != nil {
		j.quit()
	}
	for _, stop := range j.stops {
		stop()
	}
	j.Pipeline.Close()
}
