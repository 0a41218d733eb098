package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/rowtrail/rowtrail/itest/checker/load"
	"github.com/rowtrail/rowtrail/itest/process"
	"github.com/rowtrail/rowtrail/log/sleep"
)

// faults kill and pause the node.
type faults struct {
	node          *process.Rowtrail
	rng           *rand.Rand
	kills, pauses atomic.Int64
}

// The times between faults, and how long a pause is. Pauses outlast session and request timeouts of new clients.
const (
	minCalm, maxCalm   = 2 * time.Second, 6 * time.Second
	minPause, maxPause = 2 * time.Second, 12 * time.Second
	pausePercent       = 20
)

// run goes on until the context ends; then the node runs.
func (f *faults) run(ctx context.Context) error {
	for {
		sleep.For(ctx, load.Between(f.rng, minCalm, maxCalm))
		if ctx.Err() != nil {
			return nil
		}
		if f.rng.IntN(100) < pausePercent {
			if err := f.pause(ctx, load.Between(f.rng, minPause, maxPause)); err != nil {
				return err
			}
			continue
		}
		if err := f.kill(); err != nil {
			return err
		}
	}
}

func (f *faults) pause(ctx context.Context, d time.Duration) error {
	if err := syscall.Kill(f.node.PID(), syscall.SIGSTOP); err != nil {
		return fmt.Errorf("pause the node: %w", err)
	}
	sleep.For(ctx, d)
	f.pauses.Add(1)
	if err := syscall.Kill(f.node.PID(), syscall.SIGCONT); err != nil {
		return fmt.Errorf("resume the node: %w", err)
	}
	return nil
}

func (f *faults) kill() error {
	if err := f.node.Kill(); err != nil {
		return err
	}
	f.kills.Add(1)
	if err := f.node.Start(); err != nil {
		return err
	}
	return f.node.WaitReady(context.Background())
}
