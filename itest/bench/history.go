package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"github.com/rowtrail/rowtrail/itest/process"
	"github.com/rowtrail/rowtrail/log/sleep"
)

// historyFloor is what is left of a producer's rate, or of its bytes per CPU second, with a reader of history beside it that reads as
// fast as the node lets it.
const historyFloor = 0.9

// history tells what a reader of history costs a producer. Where every core is busy a producer is slowed by whatever runs,
// the client that reads included; so it is the node's CPU time per produced byte that is compared, without what serving the
// same reader costs when nothing is produced. The producer keeps a steady quarter of its top rate, before, beside and after the
// reader.
func history(ctx context.Context, cfg config) ([]line, error) {
	dir, err := os.MkdirTemp("", "rowtrail-bench-history-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	node, err := startNode(ctx, cfg, dir)
	if err != nil {
		return nil, err
	}
	defer node.Kill()
	c := brokerCase{1024, 16}
	for _, topic := range []string{"history", loadTopic} {
		if err := createTopic(ctx, node.Kafka, topic, c.partitions); err != nil {
			return nil, err
		}
	}
	if err := fill(ctx, node.Kafka, "history", c); err != nil {
		return nil, err
	}
	d := time.Duration(cfg.brokerSeconds) * time.Second
	top, err := produce(ctx, node.Kafka, c, d/2, 0)
	if err != nil {
		return nil, err
	}
	alone := func() (int64, error) {
		l, err := produce(ctx, node.Kafka, c, d, top.perSecond/float64(c.size)/4)
		return l.total, err
	}
	read := func(during func() (int64, error)) (produced, read int64, err error) {
		stop, cancel := context.WithCancel(ctx)
		defer cancel()
		var bytes atomic.Int64
		done := make(chan error, 1)
		go func() {
			for {
				if err := readOnce(stop, node.Kafka, "history", c, &bytes); err != nil {
					if stop.Err() != nil {
						err = nil
					}
					done <- err
					return
				}
			}
		}()
		produced, err = during()
		cancel()
		return produced, bytes.Load(), errors.Join(err, <-done)
	}

	var serve int64
	serving, err := used(node, func() error {
		var err error
		_, serve, err = read(func() (int64, error) {
			sleep.For(ctx, d)
			return 0, ctx.Err()
		})
		return err
	})
	if err != nil {
		return nil, err
	}
	var runs [2]float64 // produced bytes per nanosecond of CPU
	quiet := func(i int) error {
		var n int64
		cpu, err := used(node, func() error {
			var err error
			n, err = alone()
			return err
		})
		runs[i] = float64(n) / float64(cpu)
		return err
	}
	if err := quiet(0); err != nil {
		return nil, err
	}
	var produced, served int64
	cpu, err := used(node, func() error {
		var err error
		produced, served, err = read(alone)
		return err
	})
	if err != nil {
		return nil, err
	}
	if err := quiet(1); err != nil {
		return nil, err
	}
	if serve == 0 || served == 0 {
		return nil, errors.New("no history was read; measure longer")
	}
	own := cpu - time.Duration(float64(serving)*float64(served)/float64(serve))
	const toMB = 1e3 // bytes per nanosecond, as MB per second of CPU
	l := throughput("produced per CPU second beside a reader of history", "MB/s", "the same without the reader",
		toMB*float64(produced)/float64(own), [2]float64{toMB * runs[0], toMB * runs[1]}, historyFloor)
	l.Case += fmt.Sprintf(" (%d MB/s read)", int64(float64(served)/d.Seconds()/1.2/1e6))
	return []line{l}, nil
}

const (
	settled       = 30 * time.Millisecond // CPU time in a second of a node that has nothing left to do
	settleTimeout = time.Minute
)

// settle waits until the node has done what earlier load left it to do.
func settle(node *process.Rowtrail) error {
	deadline := time.Now().Add(settleTimeout)
	for {
		before, err := cpuTime(node.PID())
		if err != nil {
			return err
		}
		time.Sleep(time.Second)
		after, err := cpuTime(node.PID())
		if err != nil {
			return err
		}
		if after-before <= settled {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("the node still uses %v of CPU a second, %v after its load", after-before, settleTimeout)
		}
	}
}

// used is a settled node's CPU time while f runs.
func used(node *process.Rowtrail, f func() error) (time.Duration, error) {
	if err := settle(node); err != nil {
		return 0, err
	}
	before, err := cpuTime(node.PID())
	if err != nil {
		return 0, err
	}
	if err := f(); err != nil {
		return 0, err
	}
	after, err := cpuTime(node.PID())
	return max(after-before, 1), err
}
