package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/rowtrail/rowtrail/itest/pipeline"
	"github.com/rowtrail/rowtrail/itest/process"
	"github.com/rowtrail/rowtrail/itest/shop"
	"github.com/rowtrail/rowtrail/log/sleep"
)

const (
	workloadTime = 15 * time.Second
	workloadRate = 400
	drainTimeout = 60 * time.Second
	theOrder     = 4242 // the row whose trail is shown
)

type demo struct {
	pipeline.Pipeline
	kind    pipeline.Kind
	start   time.Time
	keep    bool
	dir     string // of the binary, where it is built
	verdict string
}

func (d *demo) say(format string, args ...any) {
	fmt.Printf("[%5.1fs] %s\n", time.Since(d.start).Seconds(), fmt.Sprintf(format, args...))
}

func (d *demo) close() {
	d.Close()
	if d.dir != "" {
		os.RemoveAll(d.dir)
	}
}

func (d *demo) run(ctx context.Context) error {
	if err := d.setUp(ctx); err != nil {
		return err
	}
	if err := d.initialLoad(ctx); err != nil {
		return err
	}
	if err := d.Source.Audit.Watch(ctx); err != nil {
		return err
	}
	past, err := d.live(ctx)
	if err != nil {
		return err
	}
	if err := d.drain(ctx); err != nil {
		return err
	}
	if err := d.lookBack(ctx, past); err != nil {
		return err
	}
	if err := d.judge(ctx); err != nil {
		return err
	}
	if d.keep {
		return d.stay(ctx)
	}
	return d.Node.Stop()
}

func (d *demo) setUp(ctx context.Context) (err error) {
	if d.dir, err = os.MkdirTemp("", "rowtrail-bin-"); err != nil {
		return err
	}
	binary, err := findBinary(d.dir)
	if err != nil {
		return err
	}
	logf := func(format string, args ...any) {
		d.say("%s", strings.TrimPrefix(fmt.Sprintf(format, args...), "itest: "))
	}
	if err := d.SetUp(ctx, pipeline.Options{Binary: binary, Kind: d.kind, Size: shop.Demo(), Logf: logf}); err != nil {
		return err
	}
	if out, err := d.Node.CLI(ctx, "check", "--connect"); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	d.say("rowtrail check --connect: ok")
	if err := d.Node.Start(); err != nil {
		return err
	}
	if err := d.Node.WaitReady(ctx); err != nil {
		return err
	}
	d.say("rowtrail serves Kafka on %s and HTTP on %s", d.Node.Kafka, d.Node.HTTP)
	return nil
}

func findBinary(dir string) (string, error) {
	if binary, err := filepath.Abs("bin/rowtrail"); err == nil {
		if _, err := os.Stat(binary); err == nil {
			return binary, nil
		}
	}
	return process.Build(dir)
}

type connectorStatus struct {
	Name, State, Error string
	LagBytes           int64
	Load               *struct {
		Tables, TablesDone  int
		Rows, RowsEstimated int64
		Current             string
	}
}

func (d *demo) initialLoad(ctx context.Context) error {
	deadline := time.Now().Add(drainTimeout)
	last := ""
	for {
		var status []connectorStatus
		if err := d.Node.JSON(ctx, "/v1/connectors", &status); err != nil {
			return err
		}
		if len(status) == 1 {
			s := status[0]
			if s.State == "streaming" {
				d.say("initial load done; streaming")
				return nil
			}
			if s.Load != nil {
				if line := fmt.Sprintf("initial load: %d of %d tables, %d rows", s.Load.TablesDone, s.Load.Tables, s.Load.Rows); line != last {
					d.say("%s", line)
					last = line
				}
			}
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("wait for the initial load: %+v; last lines of rowtrail:\n%s", status, d.Node.Tail(10))
		}
		if !sleep.For(ctx, 200*time.Millisecond) {
			return ctx.Err()
		}
	}
}

// live runs the workload, kills rowtrail twice under it and changes one order step by step. It returns a moment between
// two of that order's changes.
func (d *demo) live(ctx context.Context) (past time.Time, err error) {
	work := &shop.Workload{DB: d.Source.DB, Size: shop.Demo(), Sessions: 4, Rate: workloadRate, Seed: 1}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	timed, stop := context.WithTimeout(ctx, workloadTime)
	defer stop()
	done := make(chan error, 1)
	d.say("a live workload of inserts, updates, deletes and key changes begins")
	go func() { done <- work.Run(timed, 0) }()
	step := func(after time.Duration, set string) error {
		if !sleep.For(ctx, after) {
			return ctx.Err()
		}
		return shop.With(ctx, d.Source.DB, func(s shop.Session) error {
			return s.Exec(ctx, fmt.Sprintf("UPDATE orders SET %s, rev = rev + 1 WHERE id = %d", set, theOrder))
		})
	}
	if err := step(time.Second, "state = 'paid'"); err != nil {
		return past, err
	}
	if err := d.kill(ctx, 2*time.Second, work); err != nil {
		return past, err
	}
	past = time.Now() // the server's clock is this machine's
	if err := step(time.Second, "state = 'packed', note = 'handle with care'"); err != nil {
		return past, err
	}
	if err := d.kill(ctx, 3*time.Second, work); err != nil {
		return past, err
	}
	if err := step(time.Second, "state = 'shipped'"); err != nil {
		return past, err
	}
	if err := <-done; err != nil {
		return past, err
	}
	d.say("the workload has ended after %d transactions", work.Committed())
	return past, nil
}

func (d *demo) kill(ctx context.Context, after time.Duration, work *shop.Workload) error {
	if !sleep.For(ctx, after) {
		return ctx.Err()
	}
	if err := d.Node.Kill(); err != nil {
		return err
	}
	d.say("rowtrail killed with SIGKILL after %d transactions; the workload goes on", work.Committed())
	if !sleep.For(ctx, 500*time.Millisecond) {
		return ctx.Err()
	}
	if err := d.Node.Start(); err != nil {
		return err
	}
	if err := d.Node.WaitReady(ctx); err != nil {
		return err
	}
	d.say("rowtrail is back")
	return nil
}

func (d *demo) drain(ctx context.Context) error {
	different, err := d.AwaitEqual(ctx, drainTimeout)
	if err == nil && len(different) > 0 {
		err = fmt.Errorf("it differs after %s: %+v", drainTimeout, different)
	}
	if err != nil {
		return fmt.Errorf("wait for the target: %w; last lines of rowtrail:\n%s", err, d.Node.Tail(10))
	}
	d.say("the target has caught up")
	return nil
}

func (d *demo) ordersTopic() string {
	return pipeline.Prefix + "." + d.Source.DB.Dialect().Table("orders")
}

// lookBack prints one row's state now and in the past, and its history, through the CLI.
func (d *demo) lookBack(ctx context.Context, past time.Time) error {
	key, topic := fmt.Sprint(theOrder), d.ordersTopic()
	for _, args := range [][]string{
		{"state", topic, key},
		{"state", topic, key, "--at", past.UTC().Format(time.RFC3339Nano)},
		{"history", topic, key},
	} {
		d.say("$ rowtrail %s", strings.Join(args, " "))
		out, err := d.Node.CLI(ctx, args...)
		if err != nil {
			return err
		}
		fmt.Println(strings.TrimRight(out, "\n"))
	}
	return nil
}

func (d *demo) judge(ctx context.Context) error {
	report, loaded, loadedTwice, err := d.Audit(ctx, d.Node)
	if err != nil {
		return err
	}
	different, err := d.Different(ctx)
	if err != nil {
		return err
	}
	d.say("the log holds %d initial rows and %d changes of %d source transactions, read back with read_committed", loaded, report.Changes, report.Transactions)
	var errs []error
	if loaded != shop.Demo().Rows() || loadedTwice > 0 {
		errs = append(errs, fmt.Errorf("initial load: %d rows in the log (%d twice), %d in the source", loaded, loadedTwice, shop.Demo().Rows()))
	}
	if !report.OK() {
		errs = append(errs, fmt.Errorf("the log differs from the source: %+v", *report))
	}
	equal := "equal"
	if len(different) > 0 {
		equal = "different"
		errs = append(errs, fmt.Errorf("the target differs: %+v", different))
	}
	state := "ok"
	if len(errs) > 0 {
		state = "failed"
	}
	d.verdict = fmt.Sprintf("demo: %s changes=%d lost=%d duplicated=%d target=%s", state, report.Changes, report.Lost, report.Duplicated+report.Unexpected, equal)
	return errors.Join(errs...)
}

func (d *demo) stay(ctx context.Context) error {
	fmt.Printf(`
Everything stays up until Ctrl-C. Look around:
  source     %s
  target     %s
  topics     %[3]s topics -c %[4]s
  follow     %[3]s tail %[5]s --from end --follow -c %[4]s
  state      %[3]s state %[5]s %[6]d -c %[4]s
  history    %[3]s history %[5]s %[6]d -c %[4]s
  kcat       kcat -C -b %[7]s -t %[5]s -o -5 -e
  metrics    curl http://%[8]s/metrics
%[9]s
`, d.Source.Shell, d.Target.Shell, d.Node.Binary, d.Node.ConfigFile(), d.ordersTopic(), theOrder, d.Node.Kafka, d.Node.HTTP, d.verdict)
	<-ctx.Done()
	return d.Node.Stop()
}
