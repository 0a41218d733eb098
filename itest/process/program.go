package process

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"time"
)

// Program is a run of faults as its command line asks for it.
type Program struct {
	Binary   string
	Duration time.Duration
	Seed     uint64
}

// Logf prints a line.
func (Program) Logf(format string, args ...any) { fmt.Printf(format+"\n", args...) }

// Main is the main function of a program that puts load and faults on the binary for a while: -for says how long, -seed repeats
// a run. What run returns is printed; after an error the process exits with 1.
func Main(name string, run func(ctx context.Context, p Program) (summary string, err error)) {
	duration := flag.Duration("for", time.Minute, "how long load and faults go on")
	seed := flag.Uint64("seed", uint64(time.Now().UnixNano()), "seed of load and faults")
	flag.Parse()
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt)
	defer cancel()
	summary, err := program(ctx, Program{Duration: *duration, Seed: *seed}, run)
	if summary != "" {
		fmt.Printf("%s: %s seed=%d\n", name, summary, *seed)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: seed %d: %v\n", name, *seed, err)
		os.Exit(1)
	}
}

func program(ctx context.Context, p Program, run func(context.Context, Program) (string, error)) (string, error) {
	dir, err := os.MkdirTemp("", "rowtrail-bin-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	if p.Binary, err = Build(dir); err != nil {
		return "", err
	}
	return run(ctx, p)
}
