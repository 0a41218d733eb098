// Command demo shows the main job end to end: it brings up two servers of a kind, captures a shop of about 100,000 rows and its live
// changes through a rowtrail that is killed twice, applies them to the second server, and asks for a row's state and history.
//
//	go run ./itest/demo [-source mysql] [-keep]
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/rowtrail/rowtrail/itest/pipeline"
)

func main() {
	keep := flag.Bool("keep", false, "stay up after the demo and print how to look around")
	source := flag.String("source", "postgres", "kind of the servers: postgres, mysql, mariadb, or a version of these two as in mariadb:10.11")
	flag.Parse()
	kind, err := pipeline.KindOf(*source)
	if err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(2)
	}
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	d := &demo{kind: kind, start: time.Now(), keep: *keep}
	err = d.run(ctx)
	d.close()
	if err != nil {
		fmt.Fprintln(os.Stderr, "demo: failed:", err)
		os.Exit(1)
	}
	if !*keep {
		fmt.Println(d.verdict)
	}
}
