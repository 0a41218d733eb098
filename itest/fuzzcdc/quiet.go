package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/rowtrail/rowtrail/log/sleep"
)

const (
	settleTime  = 120 * time.Second // in which all ends have to become equal
	failedTime  = 20 * time.Second  // a task that stays failed for so long does not heal
	compareEach = 250 * time.Millisecond
	loadTime    = 2 * time.Minute
)

// task is what a node tells of a connector or sink.
type task struct {
	Name, State, Error string
	Warnings           []string
}

func (r *run) tasks(ctx context.Context) (list []task, err error) {
	for _, path := range []string{"/v1/connectors", "/v1/sinks"} {
		var some []task
		if err := r.Node.JSON(ctx, path, &some); err != nil {
			return nil, err
		}
		list = append(list, some...)
	}
	return list, nil
}

func (r *run) awaitStreaming(ctx context.Context) error {
	if err := r.Node.WaitReady(ctx); err != nil {
		return err
	}
	deadline := time.Now().Add(loadTime)
	for {
		list, err := r.tasks(ctx)
		if err == nil && len(list) > 0 && list[0].State == "streaming" {
			return nil
		}
		if failed := err == nil && len(list) > 0 && list[0].State == "failed"; failed || time.Now().After(deadline) {
			return errors.Join(fmt.Errorf("wait for the initial load: %+v", list), err)
		}
		if !sleep.For(ctx, compareEach) {
			return ctx.Err()
		}
	}
}

// quiet ends what is open, and waits until state and target are what the source is.
func (r *run) quiet(ctx context.Context, round *round) error {
	if err := r.src.settle(ctx); err != nil {
		return err
	}
	if round.restart {
		if err := r.restartConnector(ctx); err != nil {
			return err
		}
	}
	w := &worker{run: r, name: "touch"}
	defer w.drop()
	for _, st := range round.touch {
		if err := w.open(ctx); err != nil {
			return err
		}
		if err := w.exec(ctx, st); err != nil {
			return fmt.Errorf("%s: %w", st.sql, err)
		}
	}
	if err := r.Node.WaitReady(ctx); err != nil {
		return err
	}
	if err := r.awaitEqual(ctx, round); err != nil {
		return err
	}
	r.result.Compared++
	if r.watched {
		return r.audit.take(ctx, r.commits)
	}
	return r.watch(ctx)
}

// awaitEqual fails with the last difference.
func (r *run) awaitEqual(ctx context.Context, round *round) error {
	source, target, err := r.ends(ctx)
	if err != nil {
		return err
	}
	defer source.close()
	defer target.close()
	deadline := time.Now().Add(settleTime)
	var failedSince time.Time
	for {
		different, err := r.compareAll(ctx, round, source, target)
		if different == nil && err == nil {
			return nil
		}
		list, tasksErr := r.tasks(ctx)
		failed := slices.ContainsFunc(list, func(t task) bool { return t.State == "failed" })
		switch {
		case !failed:
			failedSince = time.Time{}
		case failedSince.IsZero():
			failedSince = time.Now()
		}
		if time.Now().After(deadline) || failed && time.Since(failedSince) > failedTime {
			return r.report(different, errors.Join(err, tasksErr), list)
		}
		if !sleep.For(ctx, compareEach) {
			return ctx.Err()
		}
	}
}

func (r *run) compareAll(ctx context.Context, round *round, source, target end) (*difference, error) {
	var errs []error
	var first *difference
	for _, v := range round.tables {
		different, err := r.compareTable(ctx, &v, source, target)
		if err != nil {
			errs = append(errs, fmt.Errorf("table %s: %w", v.name, err))
		}
		if first == nil {
			first = different
		}
	}
	return first, errors.Join(errs...)
}

func (r *run) compareTable(ctx context.Context, v *view, source, target end) (*difference, error) {
	if !v.keyed {
		return nil, nil // it has no state and no copy; the log is held against the source
	}
	columns, err := source.columns(ctx, v.name)
	if err != nil {
		return nil, err
	}
	want, err := source.read(ctx, v.name, columns, v.key)
	if err != nil {
		return nil, err
	}
	var errs []error
	got, err := target.read(ctx, v.name, columns, v.key)
	if err == nil {
		if different := compare("the target", v.name, want, got, nil); different != nil {
			return different, nil
		}
	} else if len(want.rows) > 0 || !v.replaced {
		errs = append(errs, fmt.Errorf("the target: %w", err))
	}
	if got, err = readState(ctx, r.Node, topicOf(r.namespace, v.name), columns, v.key, v.altered); err != nil {
		return nil, errors.Join(append(errs, fmt.Errorf("state: %w", err))...)
	}
	return compare("state", v.name, want, got, v.altered), errors.Join(errs...)
}

// report is the smallest hint at what is different.
func (r *run) report(d *difference, err error, tasks []task) error {
	var b strings.Builder
	if d != nil {
		fmt.Fprintf(&b, "%s\n", d)
		fmt.Fprintf(&b, "last statements on it:\n")
		for _, rec := range r.journal.last(d.table, d.index) {
			fmt.Fprintf(&b, "  %s\n", rec)
		}
	}
	if err != nil {
		fmt.Fprintf(&b, "%v\n", err)
	}
	for _, t := range tasks {
		fmt.Fprintf(&b, "%s is %s %s\n", t.Name, t.State, t.Error)
		for _, w := range t.Warnings {
			fmt.Fprintf(&b, "  warning: %s\n", w)
		}
	}
	fmt.Fprintf(&b, "last lines of rowtrail:\n%s", r.Node.Tail(12))
	if err := os.WriteFile(filepath.Join(r.dir, "report.txt"), []byte(b.String()), 0o644); err != nil {
		fmt.Fprintf(&b, "\n%v", err)
	}
	if d == nil {
		return fmt.Errorf("the ends cannot be compared %s after the load ended: %s", settleTime, b.String())
	}
	return errors.New(b.String())
}

// auditLog holds every event of the log against what the source committed.
func (r *run) auditLog(ctx context.Context, round *round) error {
	if !r.watched {
		return nil
	}
	t, err := readTrail(ctx, r.Node)
	if err != nil {
		return err
	}
	steady := map[string]bool{}
	for _, v := range round.tables {
		steady[v.name] = v.steady
	}
	t.check(r.commits, steady)
	r.result.Audited = r.commits.rows
	return t.err()
}
