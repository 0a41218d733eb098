// Command demo shows the main job end to end: it brings up two Postgres servers, captures a shop of about 100,000 rows and
// its live changes through a rowtrail that is killed twice, applies them to the second server, and asks for a row's state and history.
//
//	go run ./itest/demo [-keep]
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	keep := flag.Bool("keep", false, "stay up after the demo and print how to look around")
	flag.Parse()
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	d := &demo{start: time.Now(), keep: *keep}
	err := d.run(ctx)
	d.close()
	if err != nil {
		fmt.Fprintln(os.Stderr, "demo: failed:", err)
		os.Exit(1)
	}
	if !*keep {
		fmt.Println(d.verdict)
	}
}
