// Command kfake serves an in-memory Kafka on one port until it is ended.
//
//	go run ./kfake -port 9092
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"

	"github.com/twmb/franz-go/pkg/kfake"
)

func main() {
	port := flag.Int("port", 9092, "port on 127.0.0.1")
	flag.Parse()
	cluster, err := kfake.NewCluster(kfake.Ports(*port), kfake.NumBrokers(1))
	if err != nil {
		fmt.Fprintln(os.Stderr, "kfake:", err)
		os.Exit(1)
	}
	defer cluster.Close()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	<-ctx.Done()
}
