package main

import (
	"context"
	"flag"
	"time"

	"github.com/rowtrail/rowtrail/itest/pipeline"
	"github.com/rowtrail/rowtrail/itest/process"
	"github.com/rowtrail/rowtrail/itest/shop"
)

// killsPerMinute and txPerMinute make longer runs as dense as the one-minute run.
const (
	killsPerMinute = 50
	txPerMinute    = 20_000
)

func main() {
	source := flag.String("source", "postgres", "kind of the servers: postgres, mysql, mariadb, or a version of these two as in mariadb:10.11")
	process.Main("soak", func(ctx context.Context, p process.Program) (string, error) {
		kind, err := pipeline.KindOf(*source)
		if err != nil {
			return "", err
		}
		plan := PlanFor(p.Duration, p.Seed, p.Binary, p.Logf)
		plan.Kind = kind
		result, err := Run(ctx, plan)
		if err != nil {
			return "", err
		}
		return result.String(), result.Err()
	})
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
