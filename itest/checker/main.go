package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"time"

	"github.com/rowtrail/rowtrail/itest/process"
)

func main() {
	duration := flag.Duration("for", time.Minute, "how long load and faults go on")
	seed := flag.Uint64("seed", uint64(time.Now().UnixNano()), "seed of load and faults")
	flag.Parse()
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt)
	defer cancel()
	if err := check(ctx, *duration, *seed); err != nil {
		fmt.Fprintf(os.Stderr, "checker: seed %d: %v\n", *seed, err)
		os.Exit(1)
	}
}

func check(ctx context.Context, duration time.Duration, seed uint64) error {
	dir, err := os.MkdirTemp("", "rowtrail-bin-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	binary, err := process.Build(dir)
	if err != nil {
		return err
	}
	result, err := Run(ctx, Plan{Duration: duration, Seed: seed, Binary: binary, Logf: func(format string, args ...any) { fmt.Printf(format+"\n", args...) }})
	if err != nil {
		return err
	}
	fmt.Printf("checker: %s seed=%d\n", result, seed)
	return result.Err()
}
