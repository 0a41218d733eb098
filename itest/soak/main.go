package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"time"

	"github.com/rowtrail/rowtrail/itest/process"
	"github.com/rowtrail/rowtrail/itest/shop"
)

// killEvery and txPerSecond make longer runs as dense as the one-minute run.
const (
	killsPerMinute = 50
	txPerMinute    = 20_000
)

func main() {
	duration := flag.Duration("for", time.Minute, "how long faults go on")
	seed := flag.Uint64("seed", uint64(time.Now().UnixNano()), "seed of faults and workload")
	flag.Parse()
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt)
	defer cancel()
	if err := soak(ctx, *duration, *seed); err != nil {
		fmt.Fprintln(os.Stderr, "soak:", err)
		os.Exit(1)
	}
}

func soak(ctx context.Context, duration time.Duration, seed uint64) error {
	dir, err := os.MkdirTemp("", "rowtrail-bin-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	binary, err := process.Build(dir)
	if err != nil {
		return err
	}
	result, err := Run(ctx, PlanFor(duration, seed, binary, func(format string, args ...any) { fmt.Printf(format+"\n", args...) }))
	if err != nil {
		return err
	}
	fmt.Printf("soak: transactions=%d changes=%d kills=%d lost=%d duplicated=%d torn=%d disordered=%d different_tables=%d seed=%d\n",
		result.Audit.Transactions, result.Audit.Changes, result.Kills, result.Audit.Lost, result.Audit.Duplicated+result.Audit.Unexpected,
		result.Audit.Torn, result.Audit.Disordered, len(result.Different), seed)
	return result.Err()
}

// PlanFor scales the one-minute plan.
func PlanFor(duration time.Duration, seed uint64, binary string, logf func(string, ...any)) Plan {
	minutes := max(duration.Minutes(), 1)
	return Plan{
		Duration: duration, Seed: seed, Binary: binary, Logf: logf,
		Transactions: int64(txPerMinute * minutes), Kills: int(killsPerMinute * minutes),
		SourceRestarts: int(3 * minutes), TargetRestarts: int(3 * minutes), Partitions: 3,
		Size: shop.Size{Customers: 4000, Products: 500, Orders: 4000, Items: 8000},
	}
}
