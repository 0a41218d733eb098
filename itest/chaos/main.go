package main

import (
	"context"
	"fmt"
	"os"

	"github.com/rowtrail/rowtrail/itest/netns"
	"github.com/rowtrail/rowtrail/itest/process"
)

func main() {
	if err := netns.Permitted(); err != nil {
		fmt.Fprintln(os.Stderr, "chaos:", err)
		os.Exit(1)
	}
	process.Main("chaos", func(ctx context.Context, p process.Program) (string, error) {
		result, err := Run(ctx, Plan{Duration: p.Duration, Seed: p.Seed, Binary: p.Binary, Logf: p.Logf})
		if result == nil {
			return "", err
		}
		if err == nil {
			err = result.Err()
		}
		return result.String(), err
	})
}
