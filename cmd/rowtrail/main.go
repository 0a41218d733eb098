// Command rowtrail keeps the trail of every row: it captures changes, keeps them in a durable log, serves them to Kafka
// clients and to questions about current and past state, and applies them to targets.
package main

import (
	"os"

	"github.com/rowtrail/rowtrail/cmd/rowtrail/cli"
)

// version is set by the linker (make build); without it the module's build information is used.
var version string

func main() {
	os.Exit(cli.Run(os.Args[1:], os.Stdout, os.Stderr, version))
}
