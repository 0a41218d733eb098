// Command failover measures how long a partition takes no writes when its leader dies, and when it is stopped or its leadership
// handed over as planned; and that nothing acknowledged is lost.
//
//	go run ./itest/failover [-kills 100] [-capture]
//
// Three nodes (package nodes) hold a partition three times. A producer (acks=all, idempotent) sends a record every few milliseconds.
// The time of a failover is from the SIGKILL to the answer of the first record that was sent after it. With -capture the nodes
// capture a shop from one Postgres server and apply it to a second one meanwhile: in the end every change must stand in the log
// once, whole and in order, and the tables must be equal.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"

	"github.com/rowtrail/rowtrail/itest/netns"
	"github.com/rowtrail/rowtrail/itest/process"
)

func main() {
	kills := flag.Int("kills", 100, "how often the leader is killed")
	stops := flag.Int("stops", 20, "how often the leader is stopped")
	transfers := flag.Int("transfers", 50, "how often the leadership is handed over")
	capture := flag.Bool("capture", false, "capture a shop from one Postgres server and apply it to another one meanwhile")
	if err := netns.Permitted(); err != nil {
		fmt.Fprintln(os.Stderr, "failover:", err)
		os.Exit(1)
	}
	process.Main("failover", func(ctx context.Context, p process.Program) (string, error) {
		plan := Plan{Kills: *kills, Stops: *stops, Transfers: *transfers, Capture: *capture, Binary: p.Binary, Logf: p.Logf}
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
