package main

import (
	"context"

	"github.com/rowtrail/rowtrail/itest/process"
)

func main() {
	process.Main("checker", func(ctx context.Context, p process.Program) (string, error) {
		result, err := Run(ctx, Plan{Duration: p.Duration, Seed: p.Seed, Binary: p.Binary, Logf: p.Logf})
		if err != nil {
			return "", err
		}
		return result.String(), result.Err()
	})
}
