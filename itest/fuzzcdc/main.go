// Command fuzzcdc is the randomized differential test of change capture: a seed gives tables of random types and keys, sessions that write them
// under random settings, changes of the tables in between, and faults of the node, the source and the target. Whenever the load rests, the
// node's state and a sink's copy must equal the source, row by row in the source's own text, and the log must have every row version that the
// source committed once, in whole transactions. The source server is the judge: test_decoding of the same WAL, and what its tables hold.
//
//	go run ./itest/fuzzcdc -source postgres -for 10m -seed 42
package main

import (
	"context"
	"flag"

	"github.com/rowtrail/rowtrail/itest/process"
)

func main() {
	source := flag.String("source", "postgres", "the server that is captured")
	process.Main("fuzz-cdc", func(ctx context.Context, p process.Program) (string, error) {
		result, err := Run(ctx, Plan{Server: *source, Duration: p.Duration, Seed: p.Seed, Binary: p.Binary, Logf: p.Logf})
		if err != nil {
			return "", err
		}
		return result.String(), nil
	})
}
