// Command failover measures how long a partition takes no writes when its leader dies, and when it is stopped or its leadership
// handed over as planned; and that nothing acknowledged is lost.
//
//	go run ./itest/failover -for 10m -seed N
//
// Three nodes (package nodes) hold a partition three times. A producer (acks=all, idempotent) sends a record every few milliseconds.
// The time of a failover is from the SIGKILL to the answer of the first record that was sent after it. With CAPTURE=1 in the environment the
// nodes capture a shop from one Postgres server and apply it to a second one meanwhile, whose tables must be equal in the end.
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
		fmt.Fprintln(os.Stderr, "failover:", err)
		os.Exit(1)
	}
	process.Main("failover", func(ctx context.Context, p process.Program) (string, error) {
		plan := Plan{Kills: 100, Stops: 20, Transfers: 50, Binary: p.Binary, Logf: p.Logf}
		result, err := Run(ctx, plan)
		if result == nil {
			return "", err
		}
		if err == nil {
			err = result.Err(plan)
		}
		return result.String(), err
	})
}
